//! Collectives of PMIx clients with processes of other runs.

use super::*;
use crate::server::RemoteError;
use crate::server::pmix::{
    CollectiveEnd, CollectiveKind, ForeignJob, ForeignProcs, collective_blocks,
};

const OTHER: &[u8] = b"kvs_2";

/// A run of two ranks that reaches others.
fn run() -> Hall {
    let mut hall = Hall::with_uplink(2);
    hall.server().allow_foreign();
    hall
}

/// A part that was handed up: its number, the processes of other runs, and its data.
struct Part {
    number: u32,
    kind: CollectiveKind,
    others: Vec<(Vec<u8>, Vec<u32>)>,
    data: Vec<u8>,
}

impl Hall {
    /// A request of a client for a collective of both ranks and these of other runs, as it lists them.
    fn join_runs(
        &mut self,
        client: usize,
        command: Command,
        listed: &[(&[u8], u32)],
        timeout: u32,
    ) {
        self.ask(client, command, &|to| {
            to.one(Type::SIZE).size(listed.len() as u64).op(Type::PROC, count(listed.len()));
            listed.iter().for_each(|(nspace, rank)| Proc { nspace, rank: *rank }.write(to));
            to.one(Type::SIZE).size(1).one(Type::INFO);
            to.text(Some(keys::TIMEOUT)).u32(0).of(Type::UINT32).u32(timeout);
        });
    }

    fn join_all(&mut self, command: Command) {
        self.join_runs(0, command, &[(OTHER, 1), (NSPACE, 0), (OTHER, 0), (NSPACE, 1)], 0);
        assert_eq!(self.world.server.poll_event(), None, "a rank is missing");
        self.join_runs(1, command, &[(NSPACE, WILDCARD), (OTHER, 0), (OTHER, 1)], 0);
    }

    /// The part that is handed up now, the only one.
    #[track_caller]
    fn part(&mut self) -> Part {
        let event = self.world.server.poll_event();
        let Some(Event::CollectiveHandedUp { number }) = event else { panic!("{event:?}") };
        assert_eq!(self.world.server.poll_event(), None);
        let part = self.view().collective_part(number).unwrap();
        let others = ForeignProcs::new(part.name.unwrap()).map(Result::unwrap);
        let others = others.map(|of| (of.nspace.to_vec(), of.ranks().collect())).collect();
        let data = part.data.as_ref().to_vec();
        assert_eq!(self.view().collective_procs(number).count(), 2);
        Part { number, kind: part.kind, others, data }
    }

    /// Adds the other job, with this data.
    fn add_other(&mut self, data: &[u8]) -> Result<(), RemoteError> {
        self.add_described(&description(), data)
    }

    fn add_described(&mut self, info: &[u8], data: &[u8]) -> Result<(), RemoteError> {
        let info = Block::from_slice(info).unwrap();
        let job = ForeignJob { nspace: OTHER, size: 2, info, data };
        self.server().add_foreign_job(job, Vec::new())
    }

    fn end_part(&mut self, part: &Part) {
        let end = CollectiveEnd { serial: 0, is_partial: false, data: &part.data };
        self.server().end_remote_collective(part.number, &end).unwrap();
    }

    /// Statuses that a client has received.
    fn statuses(&mut self, client: usize) -> Vec<Status> {
        let format = self.clients[client].1;
        self.answers(client).iter().map(|(_, body)| status_of(body, format)).collect()
    }

    /// The last object in the answer to a get about the other job, which does not wait.
    fn get_other(&mut self, rank: u32, key: Option<&str>) -> Result<(u32, Vec<String>), Status> {
        self.ask(0, Command::GET, &|to| {
            to.one(Type::STRING).text(Some(OTHER)).one(Type::PROC_RANK).u32(rank);
            to.one(Type::SIZE).size(0);
            if let Some(key) = key {
                to.one(Type::STRING).text(Some(key.as_bytes()));
            }
        });
        let body = self.answer(0);
        match status_of(&body, Format::PLAIN) {
            Status::SUCCESS => Ok(last_object(&body)),
            status => Err(status),
        }
    }

    /// Connects both ranks with the other job, whose ranks have committed `k`.
    fn connect(&mut self) {
        self.join_all(Command::CONNECT);
        let part = self.part();
        self.add_other(&block_of(&part)).unwrap();
        self.end_part(&part);
        assert_eq!(
            (self.statuses(0), self.statuses(1)),
            (vec![Status::SUCCESS], vec![Status::SUCCESS])
        );
    }
}

fn description() -> Vec<u8> {
    packed(Format::PLAIN, &|to| describe(2, to))
}

fn last_object(body: &[u8]) -> (u32, Vec<String>) {
    let mut from = Unpacker::new(body, Format::PLAIN);
    from.one(Type::STATUS).unwrap().i32().unwrap();
    let mut last = None;
    while !from.is_empty() {
        last = Some(from.one(Type::BYTE_OBJECT).unwrap().blob().unwrap());
    }
    let mut from = Unpacker::new(last.unwrap(), Format::PLAIN);
    let proc = Proc::read(from.one(Type::PROC).unwrap()).unwrap();
    assert_eq!(proc.nspace, OTHER);
    let kvals = Kvals::after(from).map(|kval| String::from_utf8_lossy(kval.unwrap().key).into());
    (proc.rank, kvals.collect())
}

/// The records of the one job of a part. Their blobs name the job that has committed them.
fn block_of(part: &Part) -> Vec<u8> {
    let blocks = Vec::from_iter(collective_blocks(&part.data).map(Result::unwrap));
    assert_eq!(blocks.len(), 1);
    let block = blocks[0].1;
    let places = (0..block.len()).filter(|at| block[*at..].starts_with(NSPACE));
    let mut changed = block.to_vec();
    places.for_each(|at| changed[at..at + NSPACE.len()].copy_from_slice(OTHER));
    changed
}

#[test]
fn connect_with_another_run_hands_all_committed_data_up_and_brings_that_of_the_others() {
    let mut hall = run();
    for client in 0..2 {
        assert_eq!(hall.commit(client, "k", &[scope::GLOBAL]), Status::SUCCESS);
    }
    // A fence of the job has carried it to the nodes of this run.
    for client in 0..2 {
        hall.fence(client, &[WILDCARD], 0);
    }
    let job = hall.world.job;
    assert!(matches!(hall.world.server.poll_event(), Some(Event::FenceHandedUp { .. })));
    hall.world.server.end_fence(job).unwrap();
    assert_eq!(
        (hall.statuses(0), hall.statuses(1)),
        (vec![Status::SUCCESS], vec![Status::SUCCESS])
    );
    hall.join_all(Command::CONNECT);
    let part = hall.part();
    assert_eq!(
        (part.kind, &part.others),
        (CollectiveKind::Connect, &vec![(OTHER.into(), vec![0, 1])])
    );
    hall.add_other(&block_of(&part)).unwrap();
    hall.end_part(&part);
    for client in 0..2 {
        let body = hall.answers(client).remove(0).1;
        let mut from = Unpacker::new(&body, Format::PLAIN);
        assert_eq!(from.one(Type::STATUS).unwrap().i32(), Ok(0));
        let description = from.one(Type::BYTE_OBJECT).unwrap().blob().unwrap();
        assert!(from.is_empty());
        let mut from = Unpacker::new(description, Format::PLAIN);
        assert_eq!(from.one(Type::STRING).unwrap().text(), Ok(Some(OTHER)));
        let size = Kvals::after(from).find(keys::JOB_SIZE).unwrap();
        assert_eq!(size.number(), Some(2));
    }
    let of_rank = ["pmix.lrank", "pmix.grank", "pmix.appnum"].map(String::from).to_vec();
    assert_eq!(hall.get_other(1, Some("k")), Ok((1, vec!["k".into()])));
    assert_eq!(hall.get_other(1, Some("pmix.lrank")), Ok((1, of_rank)));
    assert!(hall.get_other(WILDCARD, None).is_ok_and(|(rank, _)| rank == WILDCARD));
    // Nothing waits for processes that are out of reach.
    for (rank, key) in [(0, "absent"), (0, "pmix.absent"), (2, "k"), (WILDCARD, "pmix.absent")] {
        assert_eq!(hall.get_other(rank, Some(key)), Err(Status::NOT_FOUND), "{key} of {rank}");
    }
}

#[test]
fn processes_of_other_runs_are_unknown_without_a_way_to_them() {
    let mut hall = Hall::with_uplink(2);
    for command in [Command::CONNECT, Command::DISCONNECT, Command::FENCE] {
        hall.join_runs(0, command, &[(NSPACE, WILDCARD), (OTHER, 0)], 0);
        assert_eq!(hall.status(0), Status::NOT_FOUND);
        let event = hall.world.server.poll_event();
        let Some(Event::UnknownJobConnected { job, rank, nspace }) = event else {
            assert_ne!(command, Command::CONNECT);
            assert_eq!(event, None);
            continue;
        };
        assert_eq!((job, rank, nspace.as_bytes()), (hall.world.job, Rank(0), OTHER));
        assert_eq!(command, Command::CONNECT);
    }
    assert_eq!(hall.world.server.poll_event(), None);
}

#[test]
fn collective_fails_with_the_status_of_the_owner() {
    let mut hall = run();
    hall.join_all(Command::CONNECT);
    let part = hall.part();
    hall.server().fail_remote_collective(part.number, Status::LOST_CONNECTION);
    for client in 0..2 {
        assert_eq!(hall.statuses(client), [Status::LOST_CONNECTION]);
    }
    // It is no more, and nothing is left of it.
    hall.server().fail_remote_collective(part.number, Status::SUCCESS);
    assert_eq!((hall.statuses(0), hall.world.server.poll_event()), (vec![], None));
}

#[test]
fn job_of_another_run_is_known_until_its_last_connect_is_undone_or_it_has_ended() {
    let mut hall = run();
    assert_eq!(hall.commit(0, "k", &[scope::GLOBAL]), Status::SUCCESS);
    hall.connect();
    hall.connect();
    let end = |hall: &mut Hall, command| {
        hall.join_all(command);
        let part = hall.part();
        hall.add_other(&block_of(&part)).unwrap();
        hall.end_part(&part);
        assert_eq!(
            (hall.statuses(0), hall.statuses(1)),
            (vec![Status::SUCCESS], vec![Status::SUCCESS])
        );
        hall.get_other(0, Some("k")).is_ok()
    };
    assert!(end(&mut hall, Command::FENCE) && end(&mut hall, Command::DISCONNECT));
    assert!(!end(&mut hall, Command::DISCONNECT));
    assert!(!end(&mut hall, Command::FENCE), "a fence connects nothing");
    hall.connect();
    hall.server().remove_foreign_job(b"kvs_3");
    assert!(hall.get_other(0, Some("k")).is_ok());
    hall.server().remove_foreign_job(OTHER);
    assert_eq!(hall.get_other(0, Some("k")), Err(Status::NOT_FOUND));
}

#[test]
fn malformed_data_and_descriptions_of_another_run_add_nothing() {
    let mut hall = run();
    assert_eq!(hall.commit(0, "k", &[scope::GLOBAL]), Status::SUCCESS);
    hall.join_all(Command::CONNECT);
    let part = hall.part();
    let block = block_of(&part);
    for len in 1..block.len() {
        assert!(matches!(hall.add_other(&block[..len]), Err(RemoteError::Block(_))), "{len}");
    }
    let info = description();
    let ends = (0..info.len()).filter(|len| hall.add_described(&info[..*len], &block).is_ok());
    let ends = Vec::from_iter(ends);
    assert!(ends.len() == 4 && ends[0] == 0, "whole values only: {ends:?}");
    // A key of a process without its value.
    let wrong = packed(Format::PLAIN, &|to| {
        to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT).nested(|to| {
            to.one(Type::PROC_RANK).u32(0).one(Type::KVAL).text(Some(keys::APPNUM));
        });
    });
    hall.server().remove_foreign_job(OTHER);
    assert!(matches!(hall.add_described(&wrong, &block), Err(RemoteError::Block(_))));
    assert_eq!(hall.get_other(WILDCARD, None), Err(Status::NOT_FOUND));
    for len in 1..part.data.len() {
        assert!(collective_blocks(&part.data[..len]).any(|block| block.is_err()), "{len}");
    }
    // One that is known keeps what it has.
    hall.add_other(&block).unwrap();
    hall.end_part(&part);
    assert_eq!(
        (hall.statuses(0), hall.statuses(1)),
        (vec![Status::SUCCESS], vec![Status::SUCCESS])
    );
    assert!(hall.add_other(&block[..5]).is_err());
    assert_eq!(hall.get_other(0, Some("k")), Ok((0, vec!["k".into()])));
}

#[test]
fn lists_that_never_complete_are_refused() {
    let mut hall = run();
    let own = (NSPACE, WILDCARD);
    let lists: [&[(&[u8], u32)]; 4] = [
        &[own, (OTHER, 1), (OTHER, 0), (OTHER, 1)],
        &[own, (OTHER, 1), (OTHER, WILDCARD)],
        &[(NSPACE, 1), (OTHER, 1)],
        &[(OTHER, 1)],
    ];
    for list in lists {
        hall.join_runs(0, Command::CONNECT, list, 0);
        assert_eq!(hall.status(0), Status::BAD_PARAM, "{list:?}");
    }
    hall.join_runs(0, Command::CONNECT, &[(NSPACE, 2), (OTHER, 1)], 0);
    assert_eq!(hall.status(0), Status::NOT_FOUND, "a rank that does not exist");
    let names: Vec<[u8; 2]> = (0..65).map(|name| [b'a' + name / 16, b'a' + name % 16]).collect();
    let many: Vec<(&[u8], u32)> = names.iter().map(|name| (&name[..], 0)).collect();
    hall.join_runs(0, Command::CONNECT, &many, 0);
    assert_eq!(hall.status(0), Status::OUT_OF_RESOURCE);
    assert_eq!(hall.world.server.poll_event(), None);
}

#[test]
fn collective_that_has_timed_out_is_withdrawn() {
    let mut hall = run();
    for client in 0..2 {
        hall.join_runs(client, Command::CONNECT, &[(NSPACE, WILDCARD), (OTHER, WILDCARD)], 3);
    }
    let part = hall.part();
    assert_eq!(part.others, [(OTHER.to_vec(), vec![WILDCARD])]);
    hall.late(3);
    assert_eq!(
        (hall.statuses(0), hall.statuses(1)),
        (vec![Status::TIMEOUT], vec![Status::TIMEOUT])
    );
    let withdrawn = Event::CollectiveWithdrawn { number: part.number };
    assert_eq!(hall.world.server.poll_event(), Some(withdrawn));
    hall.end_part(&part);
    assert_eq!(hall.statuses(0), []);
}
