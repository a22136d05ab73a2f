//! Events: registrations, immediate delivery, and delivery from the cache.

use super::*;
use crate::server::pmix::Notification;
use crate::wire::pmix::List;
use crate::wire::pmix::header::TAG_EVENT;

/// An info of a request, by its key and what writes its type and value.
pub(super) type Said<'a> = (&'a [u8], &'a dyn Fn(&mut Packer<'_>));

impl Hall {
    pub(super) fn register(&mut self, client: usize, codes: &[i32], infos: &[Said<'_>]) -> Status {
        self.ask(client, Command::REGISTER_EVENTS, &|to| {
            to.one(Type::SIZE).size(codes.len() as u64);
            if !codes.is_empty() {
                to.op(Type::STATUS, count(codes.len()));
                for code in codes {
                    to.i32(*code);
                }
            }
            write_infos(infos, to);
        });
        let answers = self.answers(client);
        let (tag, body) = &answers[0];
        assert_eq!(*tag, self.tag, "the answer comes first");
        let status = status_of(body, self.clients[client].1);
        self.received.push((client, answers[1..].to_vec()));
        status
    }

    pub(super) fn notify(
        &mut self,
        client: usize,
        code: i32,
        range: u8,
        infos: &[Said<'_>],
    ) -> Status {
        self.ask(client, Command::NOTIFY, &|to| {
            to.one(Type::STATUS).i32(code).one(Type::DATA_RANGE).u8(range);
            write_infos(infos, to);
        });
        self.status(client)
    }

    /// Events delivered to a client: code, rank of the source, and keys of the infos.
    pub(super) fn told(&mut self, client: usize) -> Vec<(i32, u32, Vec<String>)> {
        let mut all = Vec::new();
        self.received.retain(|(of, received)| {
            if *of == client {
                all.extend(received.clone());
            }
            *of != client
        });
        all.extend(self.answers(client));
        let format = self.clients[client].1;
        let event = |(tag, body): (u32, Vec<u8>)| {
            assert_eq!(tag, TAG_EVENT);
            let mut from = Unpacker::new(&body, format);
            assert_eq!(from.one(Type::COMMAND).unwrap().u8(), Ok(Command::NOTIFY.0));
            let code = from.one(Type::STATUS).unwrap().i32().unwrap();
            let source = Proc::read(from.one(Type::PROC).unwrap()).unwrap();
            assert_eq!(source.nspace, NSPACE);
            let infos = List::read(&mut from, Type::INFO).unwrap();
            let keys = infos.infos().map(|info| String::from_utf8_lossy(info.key).into_owned());
            let event = (code, source.rank, keys.collect());
            from.one(Type::DATA_RANGE).unwrap().u8().unwrap();
            assert!(from.is_empty());
            event
        };
        all.into_iter().map(event).collect()
    }

    fn codes(&mut self, client: usize) -> Vec<i32> {
        self.told(client).into_iter().map(|(code, ..)| code).collect()
    }
}

pub(super) fn write_infos(infos: &[Said<'_>], to: &mut Packer<'_>) {
    to.one(Type::SIZE).size(infos.len() as u64);
    if !infos.is_empty() {
        to.op(Type::INFO, count(infos.len()));
    }
    for (key, write) in infos {
        write(to.text(Some(key)).u32(0));
    }
}

pub(super) fn yes(to: &mut Packer<'_>) {
    to.of(Type::BOOL).u8(1);
}

pub(super) fn procs(ranks: &[u32], to: &mut Packer<'_>) {
    to.of(Type::DATA_ARRAY).of(Type::PROC).size(ranks.len() as u64);
    ranks.iter().for_each(|rank| Proc { nspace: NSPACE, rank: *rank }.write(to));
}

pub(super) fn one_proc(rank: u32, to: &mut Packer<'_>) {
    Proc { nspace: NSPACE, rank }.write(to.of(Type::PROC));
}

const MINE: i32 = -3001;

#[test]
fn event_reaches_those_who_have_asked_for_it_and_not_its_source() {
    let mut hall = Hall::empty(3);
    hall.join(0, Format::PLAIN);
    hall.join(1, FIXED);
    hall.join(2, Format::PLAIN);
    assert_eq!(hall.register(0, &[MINE], &[]), Status::SUCCESS);
    assert_eq!(hall.register(1, &[MINE, -5], &[]), Status::SUCCESS);
    assert_eq!(hall.register(1, &[], &[]), Status::SUCCESS);
    let text = |to: &mut Packer<'_>| {
        to.of(Type::STRING).text(Some(b"hello"));
    };
    assert_eq!(hall.notify(0, MINE, range::NAMESPACE, &[(b"my.key", &text)]), Status::SUCCESS);
    // Once, though two handlers are for it, and as it is read there.
    assert_eq!(hall.told(1), [(MINE, 0, vec!["my.key".into()])]);
    assert_eq!((hall.told(0), hall.told(2)), (vec![], vec![]));
    assert_eq!(hall.notify(2, -3002, range::SESSION, &[]), Status::SUCCESS);
    assert_eq!((hall.codes(0), hall.told(1)), (vec![], vec![(-3002, 2, vec![])]));
    // Events for non-default handlers are not delivered to handlers of all codes.
    hall.notify(2, -3003, range::SESSION, &[(keys::EVENT_NON_DEFAULT, &yes)]);
    hall.notify(2, -5, range::SESSION, &[(keys::EVENT_NON_DEFAULT, &yes)]);
    assert_eq!(hall.codes(1), [-5]);
}

#[test]
fn event_reaches_its_range_only() {
    // Ranks 0 and 1 share a node.
    let mut hall = Hall::new(4);
    (0..4).for_each(|client| assert_eq!(hall.register(client, &[], &[]), Status::SUCCESS));
    let two = |to: &mut Packer<'_>| procs(&[2, 3], to);
    let all = |to: &mut Packer<'_>| one_proc(WILDCARD, to);
    let cases: [(u8, Option<Said<'_>>, &[usize]); 8] = [
        (range::LOCAL, None, &[1]),
        (range::NAMESPACE, None, &[1, 2, 3]),
        (range::GLOBAL, None, &[1, 2, 3]),
        (0, None, &[1, 2, 3]),
        (range::RM, None, &[]),
        (range::PROC_LOCAL, None, &[]),
        (range::CUSTOM, Some((keys::EVENT_CUSTOM_RANGE, &two)), &[2, 3]),
        (range::CUSTOM, Some((keys::EVENT_CUSTOM_RANGE, &all)), &[1, 2, 3]),
    ];
    for (range, info, whom) in cases {
        assert_eq!(hall.notify(0, MINE, range, info.as_slice()), Status::SUCCESS);
        let told: Vec<usize> = (0..4).filter(|client| hall.codes(*client) == [MINE]).collect();
        assert_eq!(told, whom, "range {range}");
    }
    // Targets and the range belong together.
    assert_eq!(hall.notify(0, MINE, range::CUSTOM, &[]), Status::BAD_PARAM);
    let targets: Said<'_> = (keys::EVENT_CUSTOM_RANGE, &two);
    assert_eq!(hall.notify(0, MINE, range::SESSION, &[targets]), Status::BAD_PARAM);
}

#[test]
fn registrations_for_some_processes_receive_events_of_those_only() {
    let mut hall = Hall::new(3);
    let one = |to: &mut Packer<'_>| one_proc(1, to);
    let some = |to: &mut Packer<'_>| procs(&[0, 2], to);
    let other = |to: &mut Packer<'_>| one_proc(2, to);
    hall.register(0, &[MINE], &[(keys::EVENT_AFFECTED_PROC, &one)]);
    hall.register(1, &[], &[(keys::EVENT_AFFECTED_PROCS, &some)]);
    for (affected, whom) in
        [(Some(&one as &dyn Fn(&mut Packer<'_>)), [1, 0]), (Some(&other), [0, 1]), (None, [1, 1])]
    {
        let infos: Vec<Said<'_>> =
            affected.into_iter().map(|write| (keys::EVENT_AFFECTED_PROC, write)).collect();
        hall.notify(2, MINE, range::SESSION, &infos);
        assert_eq!([hall.codes(0).len(), hall.codes(1).len()], whom);
    }
}

#[test]
fn cached_events_are_delivered_once_to_late_registrations() {
    let mut hall = Hall::new(3);
    for code in 1..=10 {
        hall.notify(0, -code, range::NAMESPACE, &[]);
    }
    hall.notify(0, -11, range::NAMESPACE, &[(keys::EVENT_DO_NOT_CACHE, &yes)]);
    hall.notify(0, -12, range::LOCAL, &[]);
    // The cache holds eight events: the oldest were dropped, and uncached ones are not in it.
    hall.register(1, &[-7], &[]);
    assert_eq!(hall.codes(1), [-7]);
    hall.register(1, &[], &[]);
    assert_eq!(hall.codes(1), [-4, -5, -6, -8, -9, -10, -12]);
    hall.register(2, &[], &[]);
    assert_eq!(hall.codes(2), [-4, -5, -6, -7, -8, -9, -10]);
    hall.register(0, &[], &[]);
    assert_eq!(hall.codes(0), [], "a source does not receive its own event");
}

#[test]
fn handler_that_has_gone_is_told_nothing() {
    let mut hall = Hall::new(2);
    hall.register(1, &[MINE, -5], &[]);
    hall.register(1, &[], &[]);
    for (gone, told) in [(i32::MIN, vec![MINE, -5]), (MINE, vec![-5]), (-9, vec![-5]), (-5, vec![])]
    {
        hall.ask(1, Command::DEREGISTER_EVENTS, &|to| {
            to.one(Type::STATUS).i32(gone);
        });
        for code in [MINE, -5, -6] {
            hall.notify(0, code, range::SESSION, &[]);
        }
        assert_eq!(hall.codes(1), told);
    }
    // A client that registers again receives the events that it has missed.
    hall.register(1, &[-6], &[]);
    assert_eq!(hall.codes(1), [-6; 3]);
}

#[test]
fn slow_reader_receives_events_in_turn_and_blocks_no_other() {
    let mut hall = Hall::new(3);
    hall.register(1, &[], &[]);
    hall.register(2, &[], &[]);
    for code in 1..=18 {
        assert_eq!(hall.notify(0, -code, range::SESSION, &[]), Status::SUCCESS);
        assert_eq!(hall.codes(2), [-code]);
    }
    // Its requests are answered as before, ahead of the events that are still in the cache.
    let tag = hall.get(1, 0, Some("k"), true);
    let answers = hall.answers(1);
    let place = answers.iter().position(|(of, _)| *of == tag).unwrap();
    let (first, rest) = (answers[..place].to_vec(), answers[place + 1..].to_vec());
    assert_eq!((first.len(), rest.len()), (7, 8));
    hall.received = vec![(1, [first, rest].concat())];
    // Some have dropped out of the cache by then.
    let told: Vec<i32> = (1..=7).chain(11..=18).map(|code| -code).collect();
    assert_eq!(hall.codes(1), told);
}

#[test]
fn too_much_at_once_is_refused() {
    let mut hall = Hall::new(1);
    let codes: Vec<i32> = (1..=64).map(|code| -code).collect();
    assert_eq!(hall.register(0, &codes, &[]), Status::SUCCESS);
    assert_eq!(hall.register(0, &codes, &[]), Status::SUCCESS);
    assert_eq!(hall.register(0, &[-64, -65], &[]), Status::OUT_OF_RESOURCE);
}

#[test]
fn owner_tells_of_what_it_knows() {
    let mut hall = Hall::new(2);
    hall.register(0, &[], &[]);
    let news = |code, later| Notification {
        code,
        source: Proc { nspace: NSPACE, rank: 1 },
        range: range::SESSION,
        later,
        infos: 1,
    };
    for (code, later) in [(Status::PROC_TERM_WO_SYNC, Some(range::NAMESPACE)), (Status(-404), None)]
    {
        hall.server().notify_clients(&news(code, later), |to| {
            one_proc(1, to.text(Some(keys::EVENT_AFFECTED_PROC)).u32(0));
        });
    }
    let key = || vec![String::from("pmix.evproc")];
    assert_eq!(hall.told(0), [(-200, 1, key()), (-404, 1, key())]);
    hall.register(1, &[], &[]);
    assert_eq!(hall.told(1), [(-200, 1, key())]);
}

// Coverage: X2-8
#[test]
fn ranks_of_a_node_are_the_range_of_an_event_and_what_it_affects() {
    let mut hall = Hall::new(4);
    let beside = |to: &mut Packer<'_>| procs(&[ranks::LOCAL_PEERS], to);
    // Clients 1 and 3 ask for events of their own nodes alone.
    for client in [1, 3] {
        let about: [Said<'_>; 1] = [(keys::EVENT_AFFECTED_PROCS, &beside)];
        assert_eq!(hall.register(client, &[MINE], &about), Status::SUCCESS);
    }
    assert_eq!(hall.register(2, &[MINE], &[]), Status::SUCCESS);
    let of_rank_0 = |to: &mut Packer<'_>| one_proc(0, to);
    let affected: [Said<'_>; 1] = [(keys::EVENT_AFFECTED_PROC, &of_rank_0)];
    assert_eq!(hall.notify(0, MINE, range::SESSION, &affected), Status::SUCCESS);
    assert_eq!([1, 2, 3].map(|client| hall.codes(client).len()), [1, 1, 0]);
    // The event affects the node of its source, and reaches that node.
    let node = |to: &mut Packer<'_>| one_proc(ranks::LOCAL_NODE, to);
    let both: [Said<'_>; 2] =
        [(keys::EVENT_AFFECTED_PROC, &node), (keys::EVENT_CUSTOM_RANGE, &beside)];
    assert_eq!(hall.notify(3, MINE, range::CUSTOM, &both), Status::SUCCESS);
    assert_eq!([1, 2, 3].map(|client| hall.codes(client).len()), [0, 1, 0]);
    assert_eq!(hall.notify(0, MINE, range::CUSTOM, &both), Status::SUCCESS);
    assert_eq!([1, 2, 3].map(|client| hall.codes(client).len()), [1, 0, 0]);
}
