//! PMIx clients as lines in a test, beside PMI ranks of the same job.

use super::*;
use crate::server::pmix::{
    Collective, Connection, ConnectionId, Event as PmixEvent, JobView, Memory, Pending, Pmix, Post,
    Published,
};
use crate::time::Duration;
use crate::wire::pmix::greeting::{Greeting, Kind, read_welcome};
use crate::wire::pmix::header::Header;
use crate::wire::pmix::names::{Command, Status, keys, persistence, range, scope};
use crate::wire::pmix::{Family, Format, Kvals, Packer, Proc, Type, Unpacker, WILDCARD, ranks};

/// Everything in arrays and vectors: what a board, or a host, could lend.
#[derive(Debug)]
struct Lent;

type Block = heapless::Vec<u8, 1024>;
type Pendings = [Option<Pending<Block>>; 8];
type Letters = heapless::Vec<u8, 2048>;

impl Memory for Lent {
    type Block = Block;
    type Inbox = Letters;
    type Pendings = Pendings;
    type Connections = Vec8<Connection<Block, Letters, Pendings>>;
    type Posts = Vec<Post<Block>>;
    type Jobs = Vec8<JobView<Block, Vec<Post<Block>>>>;
    type Collectives = Vec8<Collective<Block>>;
    type Names = Vec8<Published<Block>>;
}

type Vec8<T> = heapless::Vec<Option<T>, 8>;

/// A job of PMI ranks without sessions, into which PMIx clients are let.
struct Hall {
    world: World,
    pmix: Pmix<Lent>,
    /// By rank; the format that each speaks.
    clients: Vec<(ConnectionId, Format)>,
    tag: u32,
}

const FIXED: Format = Format { family: Family::Fixed, is_described: true };
const NSPACE: &[u8] = b"kvs_1";

impl Hall {
    /// A job of `size` ranks, two to a node, each with a client that was let in.
    fn new(size: u32) -> Self {
        let mut hall = Self::empty(size);
        for rank in 0..size {
            hall.join(rank, Format::PLAIN);
        }
        hall
    }

    fn empty(size: u32) -> Self {
        let world = World::without_sessions(size, false);
        let mut pmix = Pmix::new(Vec8::new(), Vec8::new(), Vec8::new(), Vec8::new());
        let info = packed(Format::PLAIN, &|to| describe(size, to));
        let posts = (0..size).map(|_| Post::default()).collect();
        pmix.add_job(world.job, Block::from_slice(&info).unwrap(), posts).unwrap();
        Self { world, pmix, clients: Vec::new(), tag: 100 }
    }

    /// Opens a connection that has not said anything.
    fn open(&mut self) -> ConnectionId {
        let deadline = NOW.plus(Duration::from_secs(5));
        self.pmix.open(Letters::new(), [const { None }; 8], Some(deadline)).unwrap()
    }

    fn join(&mut self, rank: u32, format: Format) -> usize {
        let id = self.open();
        self.clients.push((id, format));
        let greeting = greeting(NSPACE, rank, format);
        self.hand_in(id, &greeting).unwrap();
        let event = self.pmix.poll_event();
        let (job, claimed) = (self.world.job, Rank(rank));
        let told = PmixEvent::Dialled { connection: id, job, rank: claimed, user: Some(7) };
        assert_eq!(event, Some(told));
        assert_eq!(self.bytes(id), b"", "nobody is let in unseen");
        self.pmix.admit(id, &mut self.world.server).unwrap();
        assert_eq!(read_welcome(&self.bytes(id)), Some((Ok(id.0), 8)));
        self.clients.len() - 1
    }

    fn hand_in(&mut self, id: ConnectionId, bytes: &[u8]) -> Result<usize, PeerError> {
        let mut connection = self.pmix.connection(id, &mut self.world.server).unwrap();
        connection.handle_input(NOW, bytes)
    }

    /// What a connection is owed now, fetched in pieces of a size that fits nothing.
    fn bytes(&mut self, id: ConnectionId) -> Vec<u8> {
        while self.pmix.next_ready(&mut self.world.server).is_some() {}
        let mut connection = self.pmix.connection(id, &mut self.world.server).unwrap();
        let (mut all, mut out) = (Vec::new(), [0; 7]);
        while let Some(len) = connection.poll_transmit(&mut out).unwrap() {
            all.extend_from_slice(&out[..len]);
        }
        all
    }

    /// Asks something, and gives the tag it was asked with.
    fn ask(&mut self, client: usize, command: Command, write: &dyn Fn(&mut Packer<'_>)) -> u32 {
        let (id, format) = self.clients[client];
        self.tag += 1;
        let body = packed(format, &|to| {
            to.one(Type::COMMAND).u8(command.0);
            write(to);
        });
        let message = message(id.0, self.tag, &body);
        assert_eq!(self.hand_in(id, &message), Ok(message.len()));
        self.tag
    }

    /// The answers that have come, by their tags.
    fn answers(&mut self, client: usize) -> Vec<(u32, Vec<u8>)> {
        let (id, _) = self.clients[client];
        let (bytes, mut answers) = (self.bytes(id), Vec::new());
        let mut rest = &bytes[..];
        while let Some(header) = Header::read(rest) {
            assert_eq!(header.index, 0);
            let end = Header::BYTES + header.body_bytes as usize;
            answers.push((header.tag, rest[Header::BYTES..end].to_vec()));
            rest = &rest[end..];
        }
        assert!(rest.is_empty());
        answers
    }

    /// The one answer to what was asked just now.
    fn answer(&mut self, client: usize) -> Vec<u8> {
        let mut answers = self.answers(client);
        assert_eq!(answers.len(), 1, "{answers:?}");
        let (tag, body) = answers.remove(0);
        assert_eq!(tag, self.tag);
        body
    }

    fn status(&mut self, client: usize) -> Status {
        let body = self.answer(client);
        status_of(&body, self.clients[client].1)
    }

    fn commit(&mut self, client: usize, key: &str, scopes: &[u8]) -> Status {
        self.ask(client, Command::COMMIT, &|to| {
            let kval = packed(to.format(), &|to| {
                to.one(Type::KVAL).text(Some(key.as_bytes())).of(Type::UINT32).u32(7);
            });
            for scope in scopes {
                to.one(Type::SCOPE).u8(*scope);
                let buffer = to.format().buffer();
                to.one(Type::BUFFER).u8(buffer).blob(&kval);
            }
        });
        self.status(client)
    }

    fn fence(&mut self, client: usize, procs: &[u32], timeout: u32) -> u32 {
        self.ask(client, Command::FENCE, &|to| {
            to.one(Type::SIZE).size(procs.len() as u64).op(Type::PROC, count(procs.len()));
            procs.iter().for_each(|rank| Proc { nspace: NSPACE, rank: *rank }.write(to));
            to.one(Type::SIZE).size(1).one(Type::INFO);
            to.text(Some(keys::TIMEOUT)).u32(0).of(Type::UINT32).u32(timeout);
        })
    }

    fn get(&mut self, client: usize, rank: u32, key: Option<&str>, is_immediate: bool) -> u32 {
        self.ask(client, Command::GET, &|to| {
            to.one(Type::STRING).text(Some(NSPACE)).one(Type::PROC_RANK).u32(rank);
            to.one(Type::SIZE).size(1).one(Type::INFO);
            to.text(Some(keys::IMMEDIATE)).u32(0).of(Type::BOOL).u8(is_immediate.into());
            if let Some(key) = key {
                to.one(Type::STRING).text(Some(key.as_bytes()));
            }
        })
    }

    /// The process and the keys of the object in an answer to a get.
    fn object(&mut self, client: usize) -> Result<(u32, Vec<String>), Status> {
        let (body, format) = (self.answer(client), self.clients[client].1);
        match status_of(&body, format) {
            Status::SUCCESS => Ok(object(&body, format)),
            status => Err(status),
        }
    }

    /// The process of a client ends.
    fn end(&mut self, client: usize) {
        let id = self.clients[client].0;
        let mut connection = self.pmix.connection(id, &mut self.world.server).unwrap();
        let _ = connection.handle_end(NOW);
        self.pmix.close(id, &mut self.world.server);
        let (job, rank) = (self.world.job, Rank(count(client)));
        self.world.server.member_gone(job, rank);
        self.pmix.member_gone(job, rank, &mut self.world.server);
    }

    fn late(&mut self, seconds: u64) {
        let now = NOW.plus(Duration::from_secs(seconds));
        assert!(self.pmix.poll_timeout().is_some_and(|at| at <= now));
        self.pmix.handle_timeout(now, &mut self.world.server);
    }
}

fn describe(size: u32, to: &mut Packer<'_>) {
    to.one(Type::KVAL).text(Some(keys::JOB_SIZE)).of(Type::UINT32).u32(size);
    to.one(Type::KVAL).text(Some(keys::SESSION_ARRAY)).of(Type::DATA_ARRAY);
    to.of(Type::INFO).size(1).text(Some(keys::UNIV_SIZE)).u32(0).of(Type::UINT32).u32(16);
    for rank in 0..size {
        to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT).nested(|to| {
            to.one(Type::PROC_RANK).u32(rank);
            to.one(Type::KVAL)
                .text(Some(keys::LOCAL_RANK))
                .of(Type::UINT16)
                .u16(u16::from(rank % 2 == 1));
        });
    }
}

fn greeting(nspace: &[u8], rank: u32, format: Format) -> Vec<u8> {
    said(&Greeting {
        credential_type: b"native",
        credential: &[7_u32.to_ne_bytes(), 8_u32.to_ne_bytes()].concat(),
        kind: Kind::Client,
        owner: None,
        identity: Some((nspace, rank)),
        version: if format.family == Family::Fixed { b"3.2.3" } else { b"4.2.2" },
        encoding: if format.family == Family::Fixed { b"v3" } else { b"v41" },
        format,
        store: b"hash",
        extra: None,
    })
}

fn said(greeting: &Greeting<'_>) -> Vec<u8> {
    let mut bytes = vec![0; 256];
    let len = greeting.write(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

fn message(index: u32, tag: u32, body: &[u8]) -> Vec<u8> {
    let header = Header { index, tag, body_bytes: count(body.len()) };
    [&header.bytes()[..], body].concat()
}

fn packed(format: Format, write: &dyn Fn(&mut Packer<'_>)) -> Vec<u8> {
    let mut bytes = vec![0; 2048];
    let mut to = Packer::new(&mut bytes, format);
    write(&mut to);
    let len = to.finish().unwrap();
    bytes.truncate(len);
    bytes
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap()
}

fn status_of(body: &[u8], format: Format) -> Status {
    Status(Unpacker::new(body, format).one(Type::STATUS).unwrap().i32().unwrap())
}

fn object(body: &[u8], format: Format) -> (u32, Vec<String>) {
    let mut from = Unpacker::new(body, format);
    from.one(Type::STATUS).unwrap().i32().unwrap();
    let bytes = from.one(Type::BYTE_OBJECT).unwrap().blob().unwrap();
    let mut from = Unpacker::new(bytes, format);
    let proc = Proc::read(from.one(Type::PROC).unwrap()).unwrap();
    let kvals = Kvals::after(from).map(|kval| String::from_utf8_lossy(kval.unwrap().key).into());
    (proc.rank, kvals.collect())
}

#[test]
fn a_client_is_let_in_only_when_its_owner_says_so() {
    let mut hall = Hall::empty(2);
    let id = hall.open();
    hall.hand_in(id, &greeting(NSPACE, 1, Format::PLAIN)).unwrap();
    hall.pmix.poll_event().unwrap();
    assert_eq!(hall.pmix.peer(id), None);
    hall.pmix.refuse(id, Status::NO_PERMISSIONS);
    assert_eq!(read_welcome(&hall.bytes(id)), Some((Err(Status::NO_PERMISSIONS.0), 4)));
    assert!(hall.pmix.connection(id, &mut hall.world.server).unwrap().is_finished());
    assert_eq!(hall.world.phase(1), Phase::Absent);
    hall.join(1, Format::PLAIN);
    assert_eq!(hall.world.phase(1), Phase::Open);
}

#[test]
fn a_greeting_may_come_in_pieces_and_with_requests_behind_it() {
    let mut hall = Hall::empty(1);
    let id = hall.open();
    let request = packed(Format::PLAIN, &|to| {
        to.one(Type::COMMAND).u8(Command::FINALIZE.0);
    });
    let all = [greeting(NSPACE, 0, Format::PLAIN), message(id.0, 101, &request)].concat();
    for byte in &all {
        assert_eq!(hall.hand_in(id, &[*byte]), Ok(1));
    }
    assert!(matches!(hall.pmix.poll_event(), Some(PmixEvent::Dialled { .. })));
    hall.pmix.admit(id, &mut hall.world.server).unwrap();
    assert_eq!(hall.bytes(id), [0, 0, 0, 0, 0, 0, 0, 0]);
    hall.hand_in(id, b"").unwrap();
    assert_eq!(hall.bytes(id), message(0, 101, &[2, 0]));
    assert_eq!(hall.world.phase(0), Phase::Finalized);
}

#[test]
fn who_claims_what_cannot_be_is_sent_away_with_a_status() {
    let native = greeting(NSPACE, 1, Format::PLAIN);
    let plain = Greeting::read(&native).unwrap();
    let cases = [
        (greeting(b"other", 0, Format::PLAIN), Status::NOT_FOUND),
        (greeting(NSPACE, 2, Format::PLAIN), Status::NOT_FOUND),
        (said(&Greeting { store: b"shmem2", ..plain }), Status::NOT_SUPPORTED),
        (said(&Greeting { credential_type: b"munge", ..plain }), Status::INVALID_CRED),
        (said(&Greeting { credential: b"short", ..plain }), Status::INVALID_CRED),
        (
            said(&Greeting { kind: Kind::NamedTool, owner: Some((7, 8)), ..plain }),
            Status::NOT_SUPPORTED,
        ),
    ];
    let mut hall = Hall::empty(2);
    for (greeting, status) in cases {
        let id = hall.open();
        hall.hand_in(id, &greeting).unwrap_err();
        assert_eq!(read_welcome(&hall.bytes(id)), Some((Err(status.0), 4)));
        assert_eq!(hall.pmix.poll_event(), None);
        hall.pmix.close(id, &mut hall.world.server);
    }
    let id = hall.open();
    assert!(matches!(hall.hand_in(id, b"cmd=init"), Err(PeerError::Malformed(_))));
    hall.pmix.close(id, &mut hall.world.server);
    let id = hall.open();
    hall.late(5);
    assert_eq!(hall.hand_in(id, &native), Err(PeerError::TimedOut));
}

#[test]
fn the_description_of_a_job_is_written_as_each_client_reads_it() {
    let mut hall = Hall::empty(2);
    for format in [Format::PLAIN, FIXED] {
        let client = hall.join(0, format);
        for _ in 0..2 {
            hall.ask(client, Command::REQ, &|_| {});
            let body = hall.answer(client);
            let mut from = Unpacker::new(&body, format);
            assert_eq!(from.one(Type::STRING).unwrap().text(), Ok(Some(NSPACE)));
            let kvals: Vec<_> = Kvals::after(from).map(Result::unwrap).collect();
            let known: Vec<&[u8]> = kvals.iter().map(|kval| kval.key).collect();
            // An old library takes data of the session by itself.
            let session = if format == FIXED { keys::UNIV_SIZE } else { keys::SESSION_ARRAY };
            assert_eq!(known, [keys::JOB_SIZE, session, keys::PROC_BLOB, keys::PROC_BLOB]);
            let mut blob = Unpacker::new(kvals[3].value.blob().unwrap(), format);
            assert_eq!(blob.one(Type::PROC_RANK).unwrap().u32(), Ok(1));
            assert_eq!(Kvals::after(blob).find(keys::LOCAL_RANK).unwrap().number(), Some(1));
        }
    }
}

#[test]
fn what_is_put_for_one_side_never_shows_on_the_other() {
    // Ranks 0 and 1 share a node, 2 is elsewhere.
    let mut hall = Hall::new(3);
    assert_eq!(hall.commit(0, "here", &[scope::LOCAL]), Status::SUCCESS);
    assert_eq!(hall.commit(0, "there", &[scope::REMOTE]), Status::SUCCESS);
    assert_eq!(hall.commit(0, "both", &[scope::LOCAL, scope::REMOTE]), Status::SUCCESS);
    for (client, own, other) in [(1, "here", "there"), (2, "there", "here")] {
        hall.get(client, 0, Some(own), false);
        assert_eq!(hall.object(client), Ok((0, vec![own.into(), "both".into()])));
        hall.get(client, 0, None, false);
        assert_eq!(hall.object(client), Ok((0, vec![own.into(), "both".into()])));
        // What the other side sees is no reason to wait.
        hall.get(client, 0, Some(other), false);
        assert_eq!(hall.object(client), Err(Status::NOT_FOUND));
    }
}

#[test]
fn a_later_value_replaces_the_earlier_and_is_read_in_every_format() {
    let mut hall = Hall::empty(2);
    let (one, other) = (hall.join(0, Format::PLAIN), hall.join(1, FIXED));
    for _ in 0..2 {
        assert_eq!(hall.commit(one, "a", &[scope::GLOBAL]), Status::SUCCESS);
        assert_eq!(hall.commit(one, "b", &[scope::LOCAL]), Status::SUCCESS);
    }
    hall.get(other, 0, Some("a"), false);
    assert_eq!(hall.object(other), Ok((0, vec!["a".into(), "b".into()])));
}

#[test]
fn a_get_waits_for_the_value_or_for_its_time_or_for_the_end_of_its_owner() {
    let mut hall = Hall::new(3);
    let wanted = hall.get(1, 0, Some("k"), false);
    let any = hall.get(1, ranks::UNDEF, Some("k"), false);
    assert_eq!(hall.answers(1), []);
    assert_eq!(hall.commit(0, "other", &[scope::GLOBAL]), Status::SUCCESS);
    assert_eq!(hall.answers(1), []);
    assert_eq!(hall.commit(0, "k", &[scope::GLOBAL]), Status::SUCCESS);
    let answers = hall.answers(1);
    assert_eq!(answers.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [wanted, any]);
    for (_, body) in answers {
        assert_eq!(object(&body, Format::PLAIN), (0, vec!["other".into(), "k".into()]));
    }

    hall.get(1, 2, Some("never"), true);
    assert_eq!(hall.object(1), Err(Status::NOT_FOUND));
    hall.get(1, 2, Some("never"), false);
    hall.late(2);
    assert_eq!(hall.object(1), Err(Status::TIMEOUT));
    hall.get(1, 2, Some("never"), false);
    hall.end(2);
    assert_eq!(hall.object(1), Err(Status::NOT_FOUND));
    hall.get(1, 2, Some("never"), false);
    assert_eq!(hall.object(1), Err(Status::NOT_FOUND));
}

#[test]
fn what_the_launcher_says_is_found_for_ranks_and_jobs() {
    let mut hall = Hall::new(2);
    let of = |hall: &mut Hall, rank, key| {
        hall.get(0, rank, Some(core::str::from_utf8(key).unwrap()), true);
        hall.object(0)
    };
    let name = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    for key in [keys::LOCAL_RANK, keys::JOB_SIZE, keys::UNIV_SIZE] {
        assert_eq!(of(&mut hall, 1, key), Ok((1, vec![name(key)])));
    }
    assert_eq!(of(&mut hall, 1, b"pmix.hwlocxml2"), Err(Status::NOT_FOUND));
    assert_eq!(of(&mut hall, 9, keys::JOB_SIZE), Err(Status::NOT_FOUND));
    let (rank, known) = of(&mut hall, WILDCARD, keys::JOB_SIZE).unwrap();
    assert_eq!((rank, known.len()), (WILDCARD, 4));
    assert_eq!(of(&mut hall, WILDCARD, b"pmix.hwlocxml2"), Err(Status::NOT_FOUND));
}

#[test]
fn a_fence_of_all_is_that_of_ranks_of_every_generation() {
    let mut hall = Hall::empty(3);
    let peer = Peer::Member { job: hall.world.job, rank: Rank(2) };
    let session = hall.world.server.open(peer, Inbox::new(), [const { None }; 4]).unwrap();
    hall.world.sessions = vec![session; 3];
    hall.world.say(2, "cmd=init pmi_version=1 pmi_subversion=1\n");
    let (one, other) = (hall.join(0, Format::PLAIN), hall.join(1, FIXED));
    for _ in 0..2 {
        hall.fence(one, &[WILDCARD], 0);
        assert_eq!(hall.world.missing(), [1, 2]);
        // One by one they are the same as all of them.
        hall.fence(other, &[2, 0, 1], 0);
        assert_eq!(hall.answers(other), []);
        assert_eq!(hall.world.say(2, "cmd=barrier_in\n"), "cmd=barrier_out rc=0\n");
        for client in [one, other] {
            let answers = hall.answers(client);
            assert_eq!(status_of(&answers[0].1, hall.clients[client].1), Status::SUCCESS);
        }
    }
    // The PMI rank waits, and the last one to come is a PMIx client.
    assert_eq!(hall.world.say(2, "cmd=barrier_in\n"), "");
    hall.fence(one, &[WILDCARD], 0);
    hall.fence(other, &[WILDCARD], 0);
    assert_eq!(hall.world.hear(2), "cmd=barrier_out rc=0\n");
}

#[test]
fn fences_that_are_entered_at_once_end_in_their_order() {
    let mut hall = Hall::new(2);
    let tags = [hall.fence(0, &[WILDCARD], 0), hall.fence(0, &[WILDCARD], 0)];
    for tag in tags {
        assert_eq!(hall.answers(0), []);
        hall.fence(1, &[WILDCARD], 0);
        assert_eq!(hall.status(1), Status::SUCCESS);
        assert_eq!(hall.answers(0), [(tag, vec![2, 0])]);
    }
}

#[test]
fn a_fence_ends_without_those_that_are_gone_and_says_so() {
    let mut hall = Hall::new(3);
    hall.fence(0, &[WILDCARD], 0);
    hall.end(2);
    assert_eq!(hall.answers(0), []);
    hall.fence(1, &[WILDCARD], 0);
    assert_eq!(hall.status(1), Status::PARTIAL_SUCCESS);
    let answers = hall.answers(0);
    assert_eq!(status_of(&answers[0].1, Format::PLAIN), Status::PARTIAL_SUCCESS);
    assert_eq!(hall.world.server.poll_event(), None, "nobody is stuck");
    // The other way round: all others are inside when it goes.
    hall.fence(0, &[0, 1], 0);
    assert_eq!(hall.answers(0), []);
    hall.end(1);
    let answers = hall.answers(0);
    assert_eq!(status_of(&answers[0].1, Format::PLAIN), Status::PARTIAL_SUCCESS);
}

#[test]
fn a_fence_that_waits_too_long_lets_all_out_who_are_in_it() {
    for procs in [&[WILDCARD][..], &[0, 1]] {
        let mut hall = Hall::new(3);
        hall.fence(0, procs, 5);
        hall.late(5);
        assert_eq!(hall.status(0), Status::TIMEOUT);
        assert_eq!(hall.world.missing(), [0, 1, 2]);
        // It is as if nobody had been in it.
        for client in 0..procs.len().max(2) + usize::from(procs == [WILDCARD]) {
            hall.fence(client, procs, 5);
        }
        assert_eq!(hall.answers(0).len(), 1);
    }
}

#[test]
fn a_fence_of_some_is_told_apart_by_who_takes_part() {
    let mut hall = Hall::new(3);
    hall.fence(0, &[0, 1], 0);
    hall.fence(2, &[1, 2], 0);
    hall.fence(1, &[2, 1], 0);
    assert_eq!(hall.status(1), Status::SUCCESS);
    assert_eq!((hall.answers(2).len(), hall.answers(0).len()), (1, 0));
    hall.fence(1, &[1, 0], 0);
    assert_eq!(hall.status(1), Status::SUCCESS);
    assert_eq!(hall.answers(0).len(), 1);
    // Whoever is not in it has no business there, and a rank that there is not keeps nobody waiting.
    hall.fence(2, &[0, 1], 0);
    assert_eq!(hall.status(2), Status::BAD_PARAM);
    hall.fence(2, &[2, 3], 0);
    assert_eq!(hall.status(2), Status::NOT_FOUND);
}

impl Hall {
    fn publish(&mut self, client: usize, key: &str, directives: &[(&[u8], Type, u8)]) -> Status {
        self.ask(client, Command::PUBLISH, &|to| {
            let infos = 1 + directives.len() as u64;
            to.one(Type::UINT32)
                .u32(7)
                .one(Type::SIZE)
                .size(infos)
                .op(Type::INFO, count(1 + directives.len()));
            to.text(Some(key.as_bytes())).u32(0).of(Type::STRING).text(Some(b"port"));
            for (key, of, value) in directives {
                to.text(Some(key)).u32(0).of(*of).u8(*value);
            }
        });
        self.status(client)
    }

    fn look_up(&mut self, client: usize, keys: &[&str], waits: bool) {
        self.names(client, Command::LOOKUP, keys, waits);
    }

    fn names(&mut self, client: usize, command: Command, keys: &[&str], waits: bool) {
        self.ask(client, command, &|to| {
            to.one(Type::UINT32).u32(7).one(Type::SIZE).size(keys.len() as u64);
            for key in keys {
                to.one(Type::STRING).text(Some(key.as_bytes()));
            }
            if waits {
                to.one(Type::SIZE).size(2).op(Type::INFO, 2);
                to.text(Some(keys::WAIT)).u32(0).of(Type::BOOL).u8(1);
                to.text(Some(keys::TIMEOUT)).u32(0).of(Type::UINT8).u8(9);
            } else {
                to.one(Type::SIZE).size(0);
            }
        });
    }

    /// Status, and who has published what under which key.
    fn found(&mut self, client: usize) -> (Status, Vec<(u32, String, String)>) {
        let mut answers = self.answers(client);
        assert_eq!(answers.len(), 1);
        let (body, format) = (answers.remove(0).1, self.clients[client].1);
        let status = status_of(&body, format);
        let mut from = Unpacker::new(&body, format);
        from.one(Type::STATUS).unwrap().i32().unwrap();
        if from.is_empty() {
            return (status, Vec::new());
        }
        let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap()).into_owned();
        let count = from.one(Type::SIZE).unwrap().size().unwrap();
        assert_eq!(u64::from(from.op(Type::PDATA).unwrap()), count);
        let found = (0..count).map(|_| {
            let proc = Proc::read(&mut from).unwrap();
            assert_eq!(proc.nspace, NSPACE);
            let key = text(from.text().unwrap());
            (proc.rank, key, text(from.value().unwrap().text()))
        });
        (status, found.collect())
    }
}

fn port(rank: u32, key: &str) -> (u32, String, String) {
    (rank, key.into(), "port".into())
}

#[test]
fn what_is_published_is_found_by_those_it_is_for_until_it_is_taken_back() {
    // Ranks 0 and 1 share a node.
    let mut hall = Hall::empty(3);
    hall.join(0, Format::PLAIN);
    hall.join(1, FIXED);
    hall.join(2, Format::PLAIN);
    let on_node = (keys::RANGE, Type::DATA_RANGE, range::LOCAL);
    assert_eq!(hall.publish(0, "all", &[]), Status::SUCCESS);
    assert_eq!(hall.publish(2, "all", &[]), Status::DUPLICATE_KEY);
    assert_eq!(hall.publish(0, "node", &[on_node]), Status::SUCCESS);
    hall.look_up(1, &["all", "node"], false);
    assert_eq!(hall.found(1), (Status::SUCCESS, vec![port(0, "all"), port(0, "node")]));
    hall.look_up(2, &["all", "node"], false);
    assert_eq!(hall.found(2), (Status::PARTIAL_SUCCESS, vec![port(0, "all")]));
    // Only its publisher takes it back, and what there is not is no error.
    hall.names(2, Command::UNPUBLISH, &["all"], false);
    assert_eq!(hall.status(2), Status::SUCCESS);
    hall.look_up(2, &["all"], false);
    assert_eq!(hall.found(2).0, Status::SUCCESS);
    hall.names(0, Command::UNPUBLISH, &[], false);
    assert_eq!(hall.status(0), Status::SUCCESS);
    hall.look_up(1, &["all", "node"], false);
    assert_eq!(hall.found(1), (Status::NOT_FOUND, vec![]));
}

#[test]
fn a_lookup_waits_for_what_is_read_once() {
    let mut hall = Hall::new(3);
    hall.look_up(1, &["k"], true);
    assert_eq!(hall.answers(1), []);
    let once = (keys::PERSIST, Type::PERSIST, persistence::FIRST_READ);
    assert_eq!(hall.publish(0, "k", &[once]), Status::SUCCESS);
    assert_eq!(hall.found(1), (Status::SUCCESS, vec![port(0, "k")]));
    hall.look_up(2, &["k"], true);
    assert_eq!(hall.answers(2), []);
    hall.late(9);
    assert_eq!(hall.found(2), (Status::TIMEOUT, vec![]));
    // What is published until its publisher ends goes with it.
    let own = (keys::PERSIST, Type::PERSIST, persistence::PROC);
    assert_eq!(hall.publish(0, "k", &[own]), Status::SUCCESS);
    hall.end(0);
    hall.look_up(1, &["k"], false);
    assert_eq!(hall.found(1), (Status::NOT_FOUND, vec![]));
}

#[test]
fn names_are_the_same_for_clients_of_every_generation() {
    let mut hall = Hall::empty(2);
    let client = hall.join(0, Format::PLAIN);
    let peer = Peer::Member { job: hall.world.job, rank: Rank(1) };
    let session = hall.world.server.open(peer, Inbox::new(), [const { None }; 4]).unwrap();
    hall.world.sessions = vec![session; 2];
    hall.world.say(1, "cmd=init pmi_version=1 pmi_subversion=1\n");
    assert_eq!(hall.publish(client, "mine", &[]), Status::SUCCESS);
    let heard = hall.world.say(1, "cmd=lookup_name service=mine\n");
    assert!(heard.contains("port=port"), "{heard}");
    hall.world.say(1, "cmd=publish_name service=theirs port=port\n");
    hall.look_up(client, &["theirs"], false);
    assert_eq!(hall.found(client), (Status::SUCCESS, vec![port(1, "theirs")]));
    assert_eq!(hall.publish(client, "theirs", &[]), Status::DUPLICATE_KEY);
    hall.names(client, Command::UNPUBLISH, &["mine"], false);
    assert_eq!(hall.status(client), Status::SUCCESS);
    let heard = hall.world.say(1, "cmd=lookup_name service=mine\n");
    assert!(!heard.contains("port=port"), "{heard}");
}

#[test]
fn jobs_that_connect_learn_of_each_other() {
    let mut hall = Hall::new(1);
    let name = crate::ids::KvsName::new(b"kvs_2").unwrap();
    let spec = JobSpec { name, spawner: None, universe_size: None, has_uplink: false };
    let other = hall.world.server.add_job(spec, vec![Member::new(0, 0)], store()).unwrap();
    let info = packed(Format::PLAIN, &|to| describe(1, to));
    let posts = vec![Post::default()];
    hall.pmix.add_job(other, Block::from_slice(&info).unwrap(), posts).unwrap();
    let id = hall.open();
    hall.clients.push((id, Format::PLAIN));
    hall.hand_in(id, &greeting(b"kvs_2", 0, Format::PLAIN)).unwrap();
    hall.pmix.poll_event();
    hall.pmix.admit(id, &mut hall.world.server).unwrap();
    hall.bytes(id);
    for command in [Command::CONNECT, Command::DISCONNECT] {
        for client in 0..2 {
            assert_eq!(hall.answers(0), []);
            hall.ask(client, command, &|to| {
                to.one(Type::SIZE).size(2).op(Type::PROC, 2);
                Proc { nspace: b"kvs_2", rank: WILDCARD }.write(to);
                Proc { nspace: NSPACE, rank: 0 }.write(to);
                to.one(Type::SIZE).size(0);
            });
        }
        for (client, met) in [(0, &b"kvs_2"[..]), (1, NSPACE)] {
            let body = hall.answers(client).remove(0).1;
            let mut from = Unpacker::new(&body, Format::PLAIN);
            assert_eq!(from.one(Type::STATUS).unwrap().i32(), Ok(0));
            if command == Command::DISCONNECT {
                assert!(from.is_empty());
                continue;
            }
            let bytes = from.one(Type::BYTE_OBJECT).unwrap().blob().unwrap();
            let mut object = Unpacker::new(bytes, Format::PLAIN);
            assert_eq!(object.one(Type::STRING).unwrap().text(), Ok(Some(met)));
            assert_eq!((Kvals::after(object).count(), from.is_empty()), (3, true));
        }
    }
}

#[test]
fn a_child_may_speak_for_its_rank_and_go_before_it() {
    let mut hall = Hall::new(1);
    let child = hall.join(0, Format::PLAIN);
    let id = hall.clients[child].0;
    let mut connection = hall.pmix.connection(id, &mut hall.world.server).unwrap();
    assert_eq!(connection.handle_end(NOW), Ok(()));
    hall.pmix.close(id, &mut hall.world.server);
    assert_eq!(hall.world.phase(0), Phase::Open);
    hall.ask(0, Command::FINALIZE, &|_| {});
    assert_eq!(hall.status(0), Status::SUCCESS);
    assert_eq!(hall.world.phase(0), Phase::Finalized);
    // It may begin anew while its process runs.
    hall.join(0, Format::PLAIN);
    assert_eq!(hall.world.phase(0), Phase::Open);
}

#[test]
fn an_abort_is_answered_and_told() {
    let mut hall = Hall::new(2);
    hall.ask(1, Command::ABORT, &|to| {
        to.one(Type::STATUS).i32(42).one(Type::STRING).text(Some(b"bye")).one(Type::SIZE).size(0);
    });
    assert_eq!(hall.status(1), Status::SUCCESS);
    let message = Excerpt::new(b"bye".iter().copied());
    let (job, rank) = (hall.world.job, Rank(1));
    let told = PmixEvent::Aborted { job, rank, code: 42, message };
    assert_eq!(hall.pmix.poll_event(), Some(told));
}

#[test]
fn what_only_the_owner_can_do_is_lent_to_it_until_it_was_read() {
    let mut hall = Hall::new(1);
    hall.ask(0, Command::JOB_CONTROL, &|to| {
        to.one(Type::SIZE).size(0).one(Type::SIZE).size(1).one(Type::INFO);
        to.text(Some(keys::REGISTER_CLEANUP)).u32(0).of(Type::STRING).text(Some(b"/tmp/x"));
    });
    let Some(PmixEvent::Asked { connection, pending }) = hall.pmix.poll_event() else {
        panic!("the owner is asked")
    };
    let Some(crate::wire::pmix::Request::JobControl { infos, .. }) = hall.pmix.request(connection)
    else {
        panic!("the request is lent")
    };
    assert_eq!(infos.find(keys::REGISTER_CLEANUP).unwrap().text(), Some(&b"/tmp/x"[..]));
    hall.pmix.request_read(connection);
    assert!(hall.pmix.request(connection).is_none());
    assert_eq!(hall.answers(0), []);
    hall.pmix.answer(connection, pending, Status::SUCCESS, |_| {}).unwrap();
    assert_eq!(hall.status(0), Status::SUCCESS);
    assert!(hall.pmix.answer(connection, pending, Status::SUCCESS, |_| {}).is_err());
}

#[test]
fn what_is_no_request_is_answered_so_and_hurts_nobody() {
    let mut hall = Hall::new(2);
    let (id, _) = hall.clients[0];
    for (body, status) in [
        (&b""[..], Status::BAD_PARAM),
        (&[2, 3, 9, 9], Status::BAD_PARAM),
        (&[2, 200], Status::NOT_SUPPORTED),
    ] {
        hall.tag += 1;
        let message = message(id.0, hall.tag, body);
        hall.hand_in(id, &message).unwrap();
        assert_eq!(hall.status(0), status, "{body:?}");
    }
    // A sign of life has no answer, and neither has the goodbye of a handler.
    hall.hand_in(id, &message(id.0, 1, b"")).unwrap();
    hall.ask(0, Command::DEREGISTER_EVENTS, &|to| {
        to.one(Type::STATUS).i32(-147);
    });
    assert_eq!(hall.answers(0), []);
    // A message that can never be held is the end, as soon as it says how long it is.
    let endless = Header { index: 0, tag: 101, body_bytes: 1 << 30 }.bytes();
    let error = hall.hand_in(id, &endless).unwrap_err();
    assert_eq!(error, PeerError::MessageTooLong { limit_bytes: 2048 });
    hall.fence(1, &[1], 0);
    assert_eq!(hall.status(1), Status::SUCCESS);
}

#[test]
fn a_client_that_reads_nothing_is_taken_no_more_from() {
    let mut hall = Hall::new(1);
    let (id, _) = hall.clients[0];
    let body = packed(Format::PLAIN, &|to| {
        to.one(Type::COMMAND).u8(Command::REQ.0);
    });
    let flood: Vec<u8> = (101..1000).flat_map(|tag| message(id.0, tag, &body)).collect();
    let taken = hall.hand_in(id, &flood).unwrap();
    // Eight answers are owed, and an inbox is full.
    assert_eq!(taken, 8 * 18 + 2048);
    let mut sent = taken;
    let mut answered = 0;
    while answered < 899 {
        answered += hall.answers(0).len();
        sent += hall.hand_in(id, &flood[sent..]).unwrap();
    }
    assert_eq!((sent, hall.answers(0).len()), (flood.len(), 0));
}

#[test]
fn a_conversation_may_be_cut_at_any_byte() {
    let size = {
        let mut hall = Hall::new(1);
        conversation(&mut hall).len()
    };
    for cut in 0..size {
        let mut hall = Hall::new(2);
        let all = conversation(&mut hall);
        let (id, _) = hall.clients[0];
        hall.hand_in(id, &all[..cut]).unwrap();
        hall.end(0);
        // The other one is not held up by it.
        hall.fence(1, &[WILDCARD], 0);
        assert_eq!(hall.answers(1).len(), 1, "cut at {cut}");
    }
}

fn conversation(hall: &mut Hall) -> Vec<u8> {
    let (id, format) = hall.clients[0];
    let body = |command: Command, write: &dyn Fn(&mut Packer<'_>)| {
        packed(format, &|to| {
            to.one(Type::COMMAND).u8(command.0);
            write(to);
        })
    };
    let get = body(Command::GET, &|to| {
        to.one(Type::STRING).text(Some(NSPACE)).one(Type::PROC_RANK).u32(0);
        to.one(Type::SIZE).size(0).one(Type::STRING).text(Some(b"k"));
    });
    let bodies = [body(Command::REQ, &|_| {}), get, body(Command::FINALIZE, &|_| {})];
    let messages = (101..).zip(&bodies).map(|(tag, body)| message(id.0, tag, body));
    messages.collect::<Vec<_>>().concat()
}
