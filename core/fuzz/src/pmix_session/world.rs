//! The server, its connections, and its owner.

use super::healthy::Healthy;
use super::memory::{
    CONNECTIONS, Counted, INBOX_BYTES, Inbox, PENDINGS, Store, Vectors, live_bytes,
};
use pmi_core::error::PeerError;
use pmi_core::ids::{JobId, KvsName, Rank, SessionId};
use pmi_core::machine::Machine;
use pmi_core::server::pmix::{PmixTables, RankData, SharedBytes};
use pmi_core::server::{Event, JobSpec, Member, Server};
use pmi_core::store::{Arena, ArenaCell};
use pmi_core::time::{Duration, Instant};
use pmi_core::wire::pmix::greeting::{Greeting, Kind};
use pmi_core::wire::pmix::header::Header;
use pmi_core::wire::pmix::names::{Status, keys};
use pmi_core::wire::pmix::{Family, Format, Packer, Type};

pub(super) struct World {
    pub(super) server: Server<Vectors>,
    callers: Vec<Caller>,
    pub(super) healthy: Vec<Healthy>,
    pub(super) now: Instant,
    pub(super) round: u32,
    /// Requests that the owner has not answered.
    asked: Vec<(SessionId, usize)>,
    /// Rank that the owner rejects.
    unwanted: Option<Rank>,
    /// Number of bytes that were ever sent.
    heard_bytes: usize,
    info_bytes: usize,
}

/// One connection with arbitrary bytes of its peer.
struct Caller {
    id: SessionId,
    /// Bytes that are sent and not taken yet.
    pending: Vec<u8>,
    tag: u32,
    /// True if the peer has sent bytes and not read any since.
    is_away: bool,
    /// First error of the session, which must stay the same.
    failed: Option<PeerError>,
}

impl World {
    pub(super) fn new(script: &[u8]) -> Self {
        let hash = script.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let tables = PmixTables {
            sessions: [const { None }; CONNECTIONS],
            jobs: [const { None }; 2],
            collectives: [const { None }; 4],
            names: [const { None }; 4],
            events: [const { None }; 4],
            groups: [const { None }; 4],
        };
        let (sessions, jobs) = ([const { None }; 1], [const { None }; 2]);
        let mut server = Server::with_pmix(sessions, jobs, store(), tables);
        let mut info_bytes = 0;
        let hidden = KvsName::new(format!("healthy-{hash:016x}").as_bytes()).expect("a name");
        for (name, nodes) in [(name(b"job"), &[0, 0, 1, 1][..]), (hidden.clone(), &[0, 1])] {
            let spec = JobSpec {
                name,
                spawner: None,
                universe_size: Some(7),
                size: None,
                has_uplink: false,
            };
            let members = nodes.iter().map(|node| Member::new(0, *node)).collect();
            let job = server.add_job(spec, members, store()).expect("room for a job");
            let info = info(nodes.len());
            info_bytes += info.as_ref().len();
            let posts = nodes.iter().map(|_| RankData::default()).collect();
            server.pmix().add_job(job, info, posts).expect("room for a job");
        }
        let mut open = || server.pmix().open(Inbox::new(), [const { None }; PENDINGS], None);
        let callers = (0..CONNECTIONS - 2).map(|_| Caller::new(open().expect("room for all")));
        let callers: Vec<Caller> = callers.collect();
        let healthy =
            (0..2).map(|rank| Healthy::new(hidden.clone(), rank, open().expect("room for all")));
        let healthy = healthy.collect();
        Self {
            server,
            callers,
            healthy,
            now: Instant::ZERO,
            round: 0,
            asked: Vec::new(),
            unwanted: None,
            heard_bytes: 0,
            info_bytes,
        }
    }

    /// Sends bytes and serves all connections.
    pub(super) fn feed(&mut self, who: u8, bytes: &[u8]) {
        self.send(who, bytes);
        self.serve(usize::from(who), true);
        self.settle();
    }

    /// Sends bytes as the body of a message.
    pub(super) fn feed_message(&mut self, who: u8, bytes: &[u8]) {
        let caller = &mut self.callers[usize::from(who)];
        caller.tag += 1;
        let body_bytes = u32::try_from(bytes.len()).expect("a step is short");
        let header = Header { index: caller.id.place(), tag: caller.tag, body_bytes };
        let message = [&header.bytes()[..], bytes].concat();
        self.feed(who, &message);
    }

    /// Sends a greeting of a rank, in an encoding.
    pub(super) fn greet(&mut self, who: u8, bytes: &[u8]) {
        let [rank, way] = [0, 1].map(|at| bytes.get(at).copied().unwrap_or(0));
        let family = if way & 1 == 0 { Family::Flex } else { Family::Fixed };
        let greeting = Greeting {
            credential_type: b"native",
            credential: &[0; 8],
            kind: Kind::Client,
            owner: None,
            identity: Some((b"job", u32::from(rank % 5))),
            version: if way & 4 == 0 { b"4.2.2" } else { b"6.1.0" },
            encoding: if family == Family::Flex { b"v41" } else { b"v3" },
            format: Format { family, is_described: way & 2 != 0 },
            store: b"hash",
            extra: None,
        };
        let mut out = [0; 128];
        let len = greeting.write(&mut out).expect("room for a greeting");
        self.feed(who, &out[..len]);
    }

    /// Sends bytes, and reads no replies for now.
    pub(super) fn feed_unread(&mut self, who: u8, bytes: &[u8]) {
        self.send(who, bytes);
        self.serve(usize::from(who), false);
        self.callers[usize::from(who)].is_away = true;
    }

    /// Sends bytes one by one.
    pub(super) fn feed_one_by_one(&mut self, who: u8, bytes: &[u8]) {
        for byte in bytes {
            self.send(who, &[*byte]);
            self.serve(usize::from(who), true);
        }
        self.settle();
    }

    /// Ends the stream of a connection.
    pub(super) fn end(&mut self, who: u8) {
        let id = self.callers[usize::from(who)].id;
        if let Some(mut connection) = self.server.session(id) {
            // An early end is the subject of this step.
            let _ = connection.handle_end(self.now);
        }
        self.reopen(usize::from(who));
        self.settle();
    }

    /// Performs an action of the owner.
    pub(super) fn own(&mut self, what: u8, bytes: &[u8]) {
        let [a, b] = [0, 1].map(|at| bytes.get(at).copied().unwrap_or(0));
        match what % 8 {
            0..3 => {
                if let Some((id, pending)) = self.asked.pop() {
                    let status = Status(-i32::from(a));
                    // The requesting connection may have ended.
                    let _ = self.server.pmix().answer(id, pending, status, |to| {
                        if b > 0 {
                            to.one(Type::STRING).text(Some(b"more"));
                        }
                    });
                }
            }
            3 => {
                self.now = self.now.plus(Duration::from_micros(u64::from(a) << 16));
                self.server.handle_timeout(self.now);
            }
            4 => {
                let (job, rank) = (JobId(0), Rank(u32::from(a % 4)));
                self.server.member_gone(job, rank);
            }
            5 => self.unwanted = (b == 0).then_some(Rank(u32::from(a % 4))),
            _ => {}
        }
        self.settle();
    }

    /// Runs the loop: connections with new input, those that the server names, then the owner's events.
    pub(super) fn settle(&mut self) {
        for who in 0..self.callers.len() {
            if std::mem::take(&mut self.callers[who].is_away) {
                self.serve(who, true);
            }
        }
        for round in 0.. {
            assert!(round < 10_000, "the server does not come to rest");
            if let Some(id) = self.server.next_ready() {
                match self.callers.iter().position(|caller| caller.id == id) {
                    Some(who) => self.serve(who, true),
                    None => {
                        let at = self.healthy.iter().position(|healthy| healthy.id == id);
                        self.serve_healthy(at.expect("a ready connection is open"));
                    }
                }
            } else if !self.hear_owner() {
                return;
            }
        }
    }

    /// Checks that no connection has unserved output: the server has named all it should.
    pub(super) fn check_rest(&mut self) {
        self.settle();
        for who in 0..self.callers.len() {
            let id = self.callers[who].id;
            let Some(mut connection) = self.server.session(id) else {
                continue;
            };
            let owed = connection.poll_transmit(&mut [0; 64]);
            assert!(owed == Ok(None), "no event announces that {who} has a response due");
        }
    }

    /// Checks that the server keeps no more than a few times the bytes that were sent.
    pub(super) fn check_memory(&self) {
        // `LONGER` is the factor between the longest and the shortest encoding of a value.
        let once = LONGER * (self.heard_bytes + self.info_bytes) + INBOX_BYTES;
        let bound = once * (2 + CONNECTIONS * PENDINGS);
        assert!(live_bytes() <= bound, "{} bytes of {} sent", live_bytes(), self.heard_bytes);
    }

    /// Handles the events of the owner; returns true if there were any.
    pub(super) fn hear_owner(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.server.poll_event() {
            any = true;
            match event {
                Event::AdmissionRequested { session, job, rank, .. } => {
                    if job == JobId(0) && self.unwanted == Some(rank) {
                        self.server.pmix().refuse(session, Status::NO_PERMISSIONS);
                    } else {
                        // A tool that was started needs a description that names the server.
                        if self.server.pmix().admit(session).is_err() {
                            self.server.pmix().refuse(session, Status::NO_PERMISSIONS);
                        }
                    }
                }
                Event::ToolAdmissionRequested { session, .. } => {
                    let pmix = self.server.pmix_ref();
                    assert!(pmix.is_tool(session) && pmix.peer(session).is_none());
                    let _ = pmix.tool_identity(session);
                    // The job does not describe its server.
                    if self.server.pmix().admit_tool(session, JobId(0)).is_err() {
                        self.server.pmix().refuse(session, Status::NO_PERMISSIONS);
                    }
                }
                Event::HostRequest { session, exchange } => {
                    assert!(self.server.pmix_ref().request(session).is_some(), "a request to read");
                    self.server.pmix().request_read(session);
                    self.asked.push((session, exchange));
                }
                _ => {}
            }
        }
        any
    }

    fn send(&mut self, who: u8, bytes: &[u8]) {
        let caller = &mut self.callers[usize::from(who)];
        if caller.pending.len() < 8 * 1024 {
            caller.pending.extend(bytes);
            self.heard_bytes += bytes.len();
        }
    }

    /// Moves bytes in both directions, as long as any move.
    fn serve(&mut self, who: usize, reads: bool) {
        for round in 0.. {
            assert!(round < 10_000, "a connection does not come to rest");
            let caller = &mut self.callers[who];
            let mut connection = self.server.session(caller.id).expect("an open connection");
            let mut has_moved = false;
            match connection.handle_input(self.now, &caller.pending) {
                Ok(taken) => {
                    assert_eq!(caller.failed, None, "a connection that failed works again");
                    caller.pending.drain(..taken);
                    has_moved |= taken > 0;
                }
                Err(error) => {
                    let first = *caller.failed.get_or_insert(error);
                    assert_eq!(first, error, "the first error stays");
                    caller.pending.clear();
                }
            }
            let mut piece = [0; 61];
            while reads && let Some(len) = connection.poll_transmit(&mut piece).expect("any room") {
                assert!((1..=piece.len()).contains(&len));
                has_moved = true;
            }
            let is_over = connection.is_finished();
            has_moved |= self.hear_owner();
            if is_over {
                self.reopen(who);
                return;
            }
            if !has_moved {
                return;
            }
        }
    }

    /// Closes a connection, and opens it anew.
    fn reopen(&mut self, who: usize) {
        let id = self.callers[who].id;
        self.asked.retain(|(asker, _)| *asker != id);
        let _ = self.server.close(id);
        let opened = self.server.pmix().open(Inbox::new(), [const { None }; PENDINGS], None);
        self.callers[who] = Caller::new(opened.expect("one was closed"));
    }
}

impl Caller {
    const fn new(id: SessionId) -> Self {
        Self { id, pending: Vec::new(), tag: 100, is_away: false, failed: None }
    }
}

/// Job-level information for clients.
fn info(size: usize) -> Counted {
    let size = u32::try_from(size).expect("a small job");
    let write = |to: &mut Packer<'_>| {
        to.one(Type::KVAL).text(Some(keys::JOB_SIZE)).of(Type::UINT32).u32(size);
        to.one(Type::KVAL).text(Some(keys::SESSION_ARRAY)).of(Type::DATA_ARRAY).of(Type::INFO);
        to.size(1).text(Some(keys::UNIV_SIZE)).u32(0).of(Type::UINT32).u32(7);
        for rank in 0..size {
            to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT).nested(|to| {
                to.one(Type::PROC_RANK).u32(rank);
                to.one(Type::KVAL).text(Some(keys::GLOBAL_RANK)).of(Type::PROC_RANK).u32(rank);
            });
        }
    };
    let mut counted = Packer::new(&mut [], Format::PLAIN);
    write(&mut counted);
    let made = Counted::make(counted.len(), |bytes| write(&mut Packer::new(bytes, Format::PLAIN)));
    made.expect("there is memory")
}

fn name(name: &[u8]) -> KvsName {
    KvsName::new(name).expect("a name")
}

fn store() -> Store {
    Arena::new(vec![ArenaCell::FREE; 8], vec![0; 512])
}

/// Factor between the longest and the shortest encoding of a value.
const LONGER: usize = 12;
