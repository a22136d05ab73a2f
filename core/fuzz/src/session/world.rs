//! The server, its connections, and its owner.

use super::healthy::{ALONE, AMONG_OTHERS, Healthy};
use super::link::Link;

use pmi_core::auth::{Challenge, NONCE_DIGITS, Nonce, Secret};
use pmi_core::command::{CodeRun, Notice};
use pmi_core::error::Code;
use pmi_core::ids::{JobId, KvsName, Rank, SessionId};
use pmi_core::machine::Machine;
use pmi_core::server::{Arrays, Event, JobSpec, Member, Peer, Server};
use pmi_core::store::{Arena, ArenaCell};
use pmi_core::time::{Duration, Instant};

/// Room for incomplete messages of a session: less than the length of some messages.
const INBOX_BYTES: usize = 700;
const EXCHANGES: usize = 3;

pub(super) struct World {
    server: Server<Vectors>,
    links: Vec<Link>,
    now: Instant,
    spawns: Vec<(SessionId, usize)>,
    pub(super) healthy: Healthy,
    /// A word that follows from the script, so that no script contains it.
    pub(super) secret_word: String,
}

pub(super) type Inbox = pmi_core::storage::ArrayBuffer<INBOX_BYTES>;
type Store = Arena<Vec<ArenaCell>, Vec<u8>>;

type Vectors = Arrays<Inbox, Store, Vec<Member>, 10, EXCHANGES, 4>;

impl World {
    pub(super) fn new(script: &[u8]) -> Self {
        let hash = script.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let secret_word = format!("healthy-{hash:016x}");
        let mut server = Server::new([const { None }; 10], [const { None }; 4], store(4, 300));
        let mut add = |name: &str, nodes: &[u32], store: Store| {
            let name = KvsName::new(name.as_bytes()).expect("a name");
            let spec = JobSpec {
                name,
                spawner: None,
                universe_size: Some(7),
                size: None,
                has_uplink: false,
            };
            let members = nodes.iter().map(|node| Member::new(0, *node)).collect();
            server.add_job(spec, members, store).expect("room for a job")
        };
        let first = add("kvs_a", &[0, 0, 1, 1], store(24, 2048));
        let second = add("kvs_b", &[0], store(24, 2048));
        let third = add("kvs_c", &[0], store(8, 512));
        let fourth = add(&secret_word, &[0, 1], store(8, 512));
        server.preset(first, b"PMI_process_mapping", b"(vector,(0,2,2))").expect("room");
        let secret = Secret::new(b"0123456789abcdef").expect("a secret");
        let challenge = Challenge::new(&secret, Nonce::new([3; NONCE_DIGITS]));
        let member = |job, rank| Peer::Member { job, rank: Rank(rank) };
        let deadline = Some(Instant::from_micros(1000));
        let peers = [
            member(first, 0),
            member(first, 1),
            Peer::Unidentified { job: first, deadline: None, challenge: None },
            member(first, 2),
            member(second, 0),
            Peer::Unidentified { job: third, deadline: None, challenge: Some(challenge) },
            Peer::Unidentified { job: first, deadline, challenge: None },
            member(first, 3),
            member(fourth, 0),
            member(fourth, 1),
        ];
        let links = peers.map(Link::new).into();
        let (healthy, spawns, now) = (Healthy::default(), Vec::new(), Instant::ZERO);
        let mut world = Self { server, links, now, spawns, healthy, secret_word };
        world.open_all();
        world
    }

    pub(super) fn link(&mut self, who: u8) -> &mut Link {
        &mut self.links[usize::from(who)]
    }

    /// Sends bytes and serves all sessions.
    pub(super) fn feed(&mut self, who: u8, bytes: &[u8]) {
        self.link(who).send(bytes);
        self.settle();
    }

    /// Sends bytes one by one.
    pub(super) fn feed_one_by_one(&mut self, who: u8, bytes: &[u8]) {
        for byte in bytes {
            self.link(who).send(&[*byte]);
            self.serve(usize::from(who));
        }
        self.settle();
    }

    /// Sends a text of a healthy session.
    pub(super) fn say(&mut self, who: usize, text: &str) {
        self.links[who].send(text.as_bytes());
        self.settle();
    }

    /// Text that a healthy session has received since the last call.
    pub(super) fn received(&mut self, who: usize) -> String {
        String::from_utf8(std::mem::take(&mut self.links[who].said)).expect("plain text")
    }

    /// Ends the stream of a connection.
    pub(super) fn end(&mut self, who: u8) {
        let Some(id) = self.links[usize::from(who)].id else { return };
        if let Some(mut session) = self.server.session(id) {
            // An early end is the subject of this step.
            let _ = session.handle_end(self.now);
        }
        self.close(usize::from(who));
        self.settle();
    }

    /// Performs an action of the owner.
    pub(super) fn own(&mut self, what: u8, bytes: &[u8]) {
        let [a, b] = [0, 1].map(|at| bytes.get(at).copied().unwrap_or(0));
        match what % 8 {
            0 => self.answer_spawn(Ok(JobId(u32::from(a % 4))), b),
            1 => self.answer_spawn(Err(Code(i32::from(a))), b),
            2 => {
                let notice = if b == 0 { Notice::Checkpoint } else { Notice::Abort(b.into()) };
                // Mostly there is no listener.
                let _ = self.server.notify(JobId(0), Rank(u32::from(a % 4)), notice);
            }
            3 => {
                self.now = self.now.plus(Duration::from_micros(u64::from(a) * 16));
                self.server.handle_timeout(self.now);
            }
            4 => self.server.member_gone(JobId(u32::from(a % 3)), Rank(u32::from(b % 3))),
            5 => {
                // The space may be full, and keys may be invalid.
                let _ = self.server.preput(JobId(u32::from(a % 3)), bytes, b"value");
            }
            _ => {}
        }
        self.settle();
    }

    fn answer_spawn(&mut self, made: Result<JobId, Code>, count: u8) {
        if let Some((session, exchange)) = self.spawns.pop() {
            // The requesting session may have ended.
            let codes = [CodeRun { count: u32::from(count), code: Code::FAIL }];
            let _ = self.server.answer_spawn(session, exchange, made, &codes);
        }
    }

    /// Runs the loop: sessions with new input first, then those that the server names.
    pub(super) fn settle(&mut self) {
        for who in 0..self.links.len() {
            if self.links[who].has_news {
                self.serve(who);
            }
        }
        for round in 0.. {
            assert!(round < 10_000, "the server does not come to rest");
            if let Some(id) = self.server.next_ready() {
                let who = self.links.iter().position(|link| link.id == Some(id));
                self.serve(who.expect("a ready session is open"));
            } else if let Some(event) = self.server.poll_event() {
                self.recv(event);
            } else {
                return;
            }
        }
    }

    /// Checks that no session has unserved input or output: the server has named all it should.
    pub(super) fn check_rest(&mut self) {
        self.settle();
        for who in 0..self.links.len() {
            assert!(!self.serve(who), "no event announces that {who} can continue");
        }
    }

    fn serve(&mut self, who: usize) -> bool {
        let Some(id) = self.links[who].id else { return false };
        let session = self.server.session(id).expect("an open session");
        let moved = self.links[who].serve(session, self.now);
        let is_over = self.server.session(id).is_some_and(|session| session.is_finished());
        if is_over {
            assert!(who != AMONG_OTHERS && !ALONE.contains(&who), "a healthy session is over");
            self.close(who);
        }
        moved || is_over
    }

    fn close(&mut self, who: usize) {
        if let Some(id) = self.links[who].id {
            self.server.close(id);
            self.spawns.retain(|(session, _)| *session != id);
        }
        self.links[who].reset();
        self.open_all();
    }

    /// Opens closed sessions; one for a rank that is in use has to wait.
    fn open_all(&mut self) {
        for link in self.links.iter_mut().filter(|link| link.id.is_none()) {
            let opened = self.server.open(link.peer, Inbox::new(), [const { None }; EXCHANGES]);
            link.id = opened.ok();
        }
    }

    fn recv(&mut self, event: Event) {
        if let Event::Spawn { session, exchange } = event {
            let spawn = self.server.spawn_request(session).expect("a spawn to read");
            assert!(spawn.programs().next().is_some());
            self.server.spawn_read(session);
            self.spawns.push((session, exchange));
        }
    }
}

fn store(places: usize, bytes: usize) -> Store {
    Arena::new(vec![ArenaCell::FREE; places], vec![0; bytes])
}
