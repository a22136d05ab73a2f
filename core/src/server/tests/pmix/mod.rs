//! PMIx clients as lines in a test, beside PMI ranks of the same job.

mod events;
mod fences;
mod foreign;
mod groups;
mod hardware;
mod host;
mod invitations;
mod limits;
mod modex;
mod node_collectives;
mod nodes;
mod opening;
mod output;
mod publish;
mod query;
mod shared_store;
mod waits;

use super::*;
use crate::server::pmix::{PmixServer, PmixServerRef, RankData, UnfinishedLimits};
use crate::testkit;
use crate::testkit::pmix::{Block, Lent, Letters, greeting_bytes, message, packed};
use crate::time::Duration;
use crate::wire::pmix::greeting::{Greeting, Kind, read_welcome};
use crate::wire::pmix::header::Header;
use crate::wire::pmix::names::{Command, Status, keys, persistence, range, scope};
use crate::wire::pmix::{Family, Format, Kvals, Packer, Proc, Type, Unpacker, WILDCARD, ranks};

/// A job of PMI ranks without sessions, which PMIx clients join.
struct Hall {
    world: TestServer,
    /// By rank; the format that each speaks.
    clients: Vec<(SessionId, Format)>,
    tag: u32,
    /// The time of the messages that clients send.
    now: Instant,
    /// Messages that clients received behind an answer, and that no test has read yet.
    received: Vec<(usize, Answers)>,
}

/// Messages by their tags.
type Answers = Vec<(u32, Vec<u8>)>;

const FIXED: Format = Format { family: Family::Fixed, is_described: true };
const NSPACE: &[u8] = b"kvs_1";

impl Hall {
    /// A job of `size` ranks, two to a node, each with an admitted client.
    fn new(size: u32) -> Self {
        let mut hall = Self::empty(size);
        for rank in 0..size {
            hall.join(rank, Format::PLAIN);
        }
        hall
    }

    fn empty(size: u32) -> Self {
        Self::described(size, &packed(Format::PLAIN, &|to| describe(size, to)))
    }

    /// A server without connections; `info` is the job description for clients.
    fn described(size: u32, info: &[u8]) -> Self {
        Self::in_world(TestServer::without_sessions(size), info)
    }

    /// A job with members on other nodes.
    fn with_uplink(size: u32) -> Self {
        let info = packed(Format::PLAIN, &|to| describe(size, to));
        let spec = JobSpec { has_uplink: true, ..job_spec(JOB_NAME) };
        let mut hall = Self::in_world(TestServer::of(spec, members(size, 2)), &info);
        for rank in 0..size {
            hall.join(rank, Format::PLAIN);
        }
        hall
    }

    fn in_world(mut world: TestServer, info: &[u8]) -> Self {
        let ranks = world.server.job(world.job).unwrap().ranked();
        let posts = ranks.map(|(rank, _)| RankData::of(rank)).collect();
        let info = Block::from_slice(info).unwrap();
        world.server.pmix().add_job(world.job, info, posts).unwrap();
        Self { world, clients: Vec::new(), tag: 100, now: NOW, received: Vec::new() }
    }

    fn server(&mut self) -> PmixServer<'_, Lent, Vectors> {
        self.world.server.pmix()
    }

    fn view(&self) -> PmixServerRef<'_, Lent, Vectors> {
        self.world.server.pmix_ref()
    }

    /// Opens a connection that has sent nothing.
    fn open(&mut self) -> SessionId {
        let deadline = NOW.plus(Duration::from_secs(5));
        self.server().open(Letters::new(), [const { None }; 8], Some(deadline)).unwrap()
    }

    fn join(&mut self, rank: u32, format: Format) -> usize {
        let version = if format.family == Family::Fixed { &b"3.2.3"[..] } else { b"4.2.2" };
        self.join_with(rank, format, version)
    }

    /// A client whose library has this version.
    fn join_with(&mut self, rank: u32, format: Format, version: &[u8]) -> usize {
        let id = self.open();
        self.clients.push((id, format));
        let native = greeting(NSPACE, rank, format);
        let greeting = greeting_bytes(&Greeting { version, ..Greeting::read(&native).unwrap() });
        self.hand_in(id, &greeting).unwrap();
        let event = self.world.server.poll_event();
        let (job, claimed) = (self.world.job, Rank(rank));
        let told = Event::AdmissionRequested { session: id, job, rank: claimed, user: Some(7) };
        assert_eq!(event, Some(told));
        assert_eq!(self.bytes(id), b"", "no peer is admitted without an event");
        self.server().admit(id).unwrap();
        assert_eq!(read_welcome(&self.bytes(id)), Some((Ok(id.place()), 8)));
        self.clients.len() - 1
    }

    fn hand_in(&mut self, id: SessionId, bytes: &[u8]) -> Result<usize, PeerError> {
        let now = self.now;
        self.world.server.session(id).unwrap().handle_input(now, bytes)
    }

    /// Output that is due on a connection, read in pieces of an odd size.
    fn bytes(&mut self, id: SessionId) -> Vec<u8> {
        while self.world.server.next_ready().is_some() {}
        let mut connection = self.world.server.session(id).unwrap();
        let (mut all, mut out) = (Vec::new(), [0; 7]);
        while let Some(len) = connection.poll_transmit(&mut out).unwrap() {
            all.extend_from_slice(&out[..len]);
        }
        all
    }

    /// Sends a request, and returns its tag.
    fn ask(&mut self, client: usize, command: Command, write: &dyn Fn(&mut Packer<'_>)) -> u32 {
        let (id, format) = self.clients[client];
        self.tag += 1;
        let body = packed(format, &|to| {
            to.one(Type::COMMAND).u8(command.0);
            write(to);
        });
        let message = message(id.place(), self.tag, &body);
        assert_eq!(self.hand_in(id, &message), Ok(message.len()));
        self.tag
    }

    /// Answers received so far, by tag.
    fn answers(&mut self, client: usize) -> Answers {
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

    /// The answer to the latest request.
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

    /// A fence of the job that requests the data of all ranks.
    fn collecting_fence(&mut self, client: usize) {
        self.ask(client, Command::FENCE, &|to| {
            to.one(Type::SIZE).size(1).op(Type::PROC, 1);
            Proc { nspace: NSPACE, rank: WILDCARD }.write(to);
            to.one(Type::SIZE).size(1).one(Type::INFO);
            to.text(Some(keys::COLLECT)).u32(0).of(Type::BOOL).u8(1);
        });
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

    /// Terminates the process of a client.
    fn end(&mut self, client: usize) {
        let id = self.clients[client].0;
        let mut connection = self.world.server.session(id).unwrap();
        let _ = connection.handle_end(NOW);
        self.world.server.close(id);
        let (job, rank) = (self.world.job, Rank(count(client)));
        self.world.server.member_gone(job, rank);
    }

    fn late(&mut self, seconds: u64) {
        let now = NOW.plus(Duration::from_secs(seconds));
        assert!(self.world.server.poll_timeout().is_some_and(|at| at <= now));
        self.world.server.handle_timeout(now);
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
            to.one(Type::KVAL).text(Some(keys::GLOBAL_RANK)).of(Type::PROC_RANK).u32(rank);
            to.one(Type::KVAL).text(Some(keys::APPNUM)).of(Type::UINT32).u32(0);
        });
    }
}

/// Bytes of the greeting of a rank.
fn greeting(nspace: &[u8], rank: u32, format: Format) -> Vec<u8> {
    greeting_bytes(&testkit::pmix::greeting(nspace, rank, format))
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
