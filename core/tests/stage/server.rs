//! The server in the role of the server: what clients say goes in, what it says must come out.

use crate::transcript::{Line, Note, Scenario, Side, Step, escaped};
use pmi_core::command::Spawn;
use pmi_core::error::Code;
use pmi_core::ids::{JobId, KvsName, Rank, SessionId};
use pmi_core::limits::MESSAGE_BYTES;
use pmi_core::machine::Machine;
use pmi_core::server::{Event, Exchange, Job, JobSpec, Member, Peer, Server, Session, Storage};
use pmi_core::store::{Arena, Place};
use pmi_core::time::Instant;
use std::collections::VecDeque;

/// Plays a scenario that has a line `@ job`; what clients say comes in pieces of so many bytes.
pub(crate) fn play(scenario: &Scenario, piece_bytes: usize) {
    let mut stage = Stage::new(scenario);
    for line in &scenario.lines {
        match line {
            Line::Said(step) if step.from == Side::Client => {
                stage.nothing_is_left(&step.label);
                for piece in step.bytes.chunks(piece_bytes) {
                    stage.hand_in(step, piece);
                    stage.settle();
                }
            }
            Line::Said(step) => stage.take_out(step),
            Line::Does(note) => {
                stage.nothing_is_left(&note.label);
                stage.act(note);
            }
            Line::Told(note) => stage.is_told(note),
        }
        stage.settle();
    }
    stage.nothing_is_left(&scenario.label);
}

/// A server with one job, its members, and what has come out and is not yet accounted for.
struct Stage {
    server: Server<Vectors>,
    job: JobId,
    size: u32,
    members: Vec<Connection>,
    told: VecDeque<String>,
    spawn: Option<(SessionId, usize)>,
    children: Vec<JobId>,
}

/// What lies between a member and the server.
struct Connection {
    session: SessionId,
    /// Sent by the member, not taken yet.
    pending: Vec<u8>,
    /// Said by the server, not read yet.
    said: Vec<u8>,
    is_over: bool,
}

/// Everything in plain vectors.
struct Vectors;

type Inbox = heapless::Vec<u8, MESSAGE_BYTES>;
type Exchanges = [Option<Exchange>; 4];
type Store = Arena<Vec<Place>, Vec<u8>>;

impl Storage for Vectors {
    type Inbox = Inbox;
    type Exchanges = Exchanges;
    type Sessions = [Option<Session<Inbox, Exchanges>>; 8];
    type Kvs = Store;
    type Members = Vec<Member>;
    type Jobs = [Option<Job<Store, Vec<Member>>>; 4];
}

impl Stage {
    /// `@ job NAME`, with `nodes=0,0,1` for where its ranks are, `universe=N` and `callers` for
    /// ranks that dial in.
    fn new(scenario: &Scenario) -> Self {
        let spec = scenario.does("job ").expect("a job to serve");
        let value = |key: &str| spec.split(' ').find_map(|word| word.strip_prefix(key));
        let nodes = value("nodes=").unwrap_or("0").split(',').map(|n| n.parse().expect("a node"));
        let members: Vec<Member> = nodes.map(|node| Member::new(0, node)).collect();
        let size = u32::try_from(members.len()).expect("a small job");
        let mut server = Server::new([const { None }; 8], [const { None }; 4], store());
        let name = name(spec.split(' ').next().unwrap_or(""));
        let universe_size = value("universe=").map(|size| size.parse().expect("a number"));
        let spec = JobSpec { name, spawner: None, universe_size, has_uplink: false };
        let job = server.add_job(spec, members, store()).expect("room for a job");
        let callers = scenario.does("job ").is_some_and(|spec| spec.ends_with(" callers"));
        let mut stage = Self {
            server,
            job,
            size,
            members: Vec::new(),
            told: VecDeque::new(),
            spawn: None,
            children: Vec::new(),
        };
        for rank in (0..size).map(Rank) {
            stage.connect(if callers {
                Peer::Caller { job, deadline: None, challenge: None }
            } else {
                Peer::Member { job, rank }
            });
        }
        stage
    }

    fn connect(&mut self, peer: Peer) {
        let session = self.server.open(peer, Inbox::new(), [const { None }; 4]);
        let session = session.expect("room for a session");
        let (pending, said) = (Vec::new(), Vec::new());
        self.members.push(Connection { session, pending, said, is_over: false });
    }

    fn hand_in(&mut self, step: &Step, piece: &[u8]) {
        let member = &mut self.members[step.rank as usize];
        if !member.is_over {
            member.pending.extend(piece);
        }
    }

    fn take_out(&mut self, step: &Step) {
        let said = &mut self.members[step.rank as usize].said;
        assert!(
            said.starts_with(&step.bytes),
            "{}: rank {} should hear {} but hears {}",
            step.label,
            step.rank,
            escaped(&step.bytes),
            escaped(said)
        );
        said.drain(..step.bytes.len());
    }

    fn is_told(&mut self, note: &Note) {
        let told = self.told.pop_front().unwrap_or_default();
        assert_eq!(told, note.text, "{}", note.label);
    }

    /// What an owner does besides moving bytes.
    fn act(&mut self, note: &Note) {
        let words: Vec<&str> = note.text.split(' ').collect();
        match words[..] {
            ["job", ..] | ["client"] => {}
            ["preset", key, value] => {
                let done = self.server.preset(self.job, key.as_bytes(), value.as_bytes());
                done.expect("room for a value");
            }
            ["preput", key, value] => {
                let done = self.server.preput(self.job, key.as_bytes(), value.as_bytes());
                done.expect("room for a value");
            }
            ["spawned", child] => {
                let spec = JobSpec {
                    name: name(child),
                    spawner: None,
                    universe_size: None,
                    has_uplink: false,
                };
                let child = self.server.add_job(spec, Vec::new(), store()).expect("room for a job");
                self.children.push(child);
                self.answer_spawn(Ok(child));
            }
            ["not-spawned", code] => {
                self.answer_spawn(Err(Code(code.parse().expect("a number"))));
            }
            ["end", rank] => self.end(rank.parse().expect("a rank")),
            _ => panic!("{}: an owner cannot {}", note.label, note.text),
        }
    }

    fn answer_spawn(&mut self, made: Result<JobId, Code>) {
        let (session, exchange) = self.spawn.take().expect("a spawn to answer");
        self.server.answer_spawn(session, exchange, made).expect("a spawn that waits");
    }

    /// The stream of a member ends.
    fn end(&mut self, rank: u32) {
        let id = self.members[rank as usize].session;
        let mut session = self.server.session(id).expect("a session");
        if let Err(error) = session.handle_end(NOW) {
            self.told.push_back(format!("rank={rank}: {error}"));
        }
        self.members[rank as usize].is_over = true;
        self.server.close(id);
    }

    /// The run loop, until nobody moves any more.
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            for rank in 0..self.size {
                moved |= self.serve(rank);
            }
            while let Some(event) = self.server.poll_event() {
                moved = true;
                let words = self.words(event);
                self.told.push_back(words);
            }
            if !moved {
                break;
            }
        }
        for rank in 0..self.size {
            let member = &mut self.members[rank as usize];
            if member.is_over {
                continue;
            }
            let mut session = self.server.session(member.session).expect("an open session");
            if session.is_finished() {
                member.is_over = true;
                let error = session.handle_input(NOW, b"").err();
                let why = error.map_or("finished".to_owned(), |error| error.to_string());
                self.told.push_back(format!("rank={rank}: {why}"));
            }
        }
    }

    /// Moves bytes between a member and its session; says whether any moved.
    fn serve(&mut self, rank: u32) -> bool {
        let member = &mut self.members[rank as usize];
        let Some(mut session) = self.server.session(member.session) else { return false };
        let mut moved = false;
        let mut out = [0; MESSAGE_BYTES];
        loop {
            while let Some(len) = session.poll_transmit(&mut out).expect("room for a message") {
                member.said.extend(&out[..len]);
                moved = true;
            }
            let before = member.pending.len();
            match session.handle_input(NOW, &member.pending) {
                Ok(taken) => drop(member.pending.drain(..taken)),
                Err(_) => member.pending.clear(),
            }
            let is_taken = member.pending.len() < before;
            let has_more = session.poll_transmit(&mut out).expect("room for a message");
            has_more.into_iter().for_each(|len| member.said.extend(&out[..len]));
            moved |= is_taken || has_more.is_some();
            if !is_taken && has_more.is_none() {
                return moved;
            }
        }
    }

    /// An event in words.
    fn words(&mut self, event: Event) -> String {
        match event {
            Event::Joined { rank, .. } => format!("joined rank={}", rank.0),
            Event::Aborted { rank, code, message, .. } => {
                let code = code.map_or(String::new(), |code| format!(" code={code}"));
                let message = String::from_utf8_lossy(message.as_bytes()).into_owned();
                let message =
                    if message.is_empty() { message } else { format!(" message={message}") };
                format!("aborted rank={}{code}{message}", rank.0)
            }
            Event::PutTwice { key, first, second, .. } => {
                let key = String::from_utf8_lossy(key.as_bytes()).into_owned();
                format!("put-twice key={key} first={} second={}", first.0, second.0)
            }
            Event::FenceStuck { gone, .. } => format!("stuck gone={}", gone.0),
            Event::Spawn { session, exchange } => {
                self.spawn = Some((session, exchange));
                let spawn = self.server.spawn_request(session).expect("a spawn to read");
                let words = format!("spawn {}", programs(spawn));
                self.server.spawn_read(session);
                words
            }
            other => format!("{other:?}"),
        }
    }

    /// Nothing was said or told that the transcript does not know of.
    fn nothing_is_left(&self, label: &str) {
        for (rank, member) in self.members.iter().enumerate() {
            let said = escaped(&member.said);
            assert!(said.is_empty(), "{label}: before this, rank {rank} hears {said}");
        }
        assert!(self.told.is_empty(), "{label}: before this, the owner is told {:?}", self.told);
    }
}

/// `2*/bin/a + 1*/bin/b`: how many of what.
fn programs(spawn: Spawn<'_>) -> String {
    let program = |program: pmi_core::command::Program<'_>| {
        let name: Vec<u8> = program.executable.bytes().collect();
        format!("{}*{}", program.processes, String::from_utf8_lossy(&name))
    };
    spawn.programs().map(program).collect::<Vec<_>>().join(" + ")
}

fn store() -> Store {
    Arena::new(vec![Place::FREE; 32], vec![0; 16 * 1024])
}

fn name(text: &str) -> KvsName {
    KvsName::new(text.as_bytes()).expect("a name")
}

const NOW: Instant = Instant::ZERO;
