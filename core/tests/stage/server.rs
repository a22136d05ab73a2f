//! The server in the role of a transcript's server: it is fed the clients' bytes and checked for the
//! server's.

use crate::transcript::{Line, Note, Scenario, Side, Step, escaped};
use pmi_core::auth::{Challenge, NONCE_DIGITS, Nonce, Secret};
use pmi_core::command::{CodeRun, Notice, Spawn, Text};
use pmi_core::error::Code;
use pmi_core::ids::{JobId, KvsName, Rank, SessionId};
use pmi_core::limits::MESSAGE_BYTES;
use pmi_core::machine::Machine;
use pmi_core::server::{Event, JobSpec, Member, Peer};
use pmi_testkit::TestServer;
use pmi_testkit::server::{NOW, job_spec, unidentified};
use std::collections::VecDeque;

/// Replays a scenario with a line `@ job`; the clients' bytes arrive in pieces of `piece_bytes`.
pub(crate) fn play(scenario: &Scenario, piece_bytes: usize) {
    let mut stage = Stage::new(scenario);
    for line in &scenario.lines {
        match line {
            Line::Said(step) if step.from.side == Side::Client => {
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

/// A server, its connections, and its output that is not checked yet.
struct Stage {
    kit: TestServer,
    members: Vec<Connection>,
    told: VecDeque<String>,
    spawn: Option<Wanted>,
}

/// A spawn request that the owner has received and not answered.
struct Wanted {
    session: SessionId,
    exchange: usize,
    preputs: Vec<[Vec<u8>; 2]>,
}

/// Connection between a member and the server.
struct Connection {
    session: SessionId,
    /// Bytes of the member that the server has not taken.
    pending: Vec<u8>,
    /// Bytes of the server that are not checked yet.
    said: Vec<u8>,
    is_over: bool,
}

impl Stage {
    /// `@ job NAME`, with `nodes=0,0,1` for the nodes of its ranks, `universe=N`, `secret=TEXT`, and
    /// `callers` for ranks that connect by themselves, `newer` for ranks that take a newer version than
    /// they request.
    fn new(scenario: &Scenario) -> Self {
        let spec = scenario.does("job ").expect("a job to serve");
        let (job_spec, members) = described(spec, None);
        let size = members.len();
        let kit = TestServer::of(job_spec, members);
        let mut stage = Self { kit, members: Vec::new(), told: VecDeque::new(), spawn: None };
        stage.connect_all(stage.kit.job, size, spec);
        stage
    }

    /// Adds a job; its ranks have the numbers behind those that are taken.
    fn add_job(&mut self, spec: &str, spawner: Option<KvsName>) -> JobId {
        let (job_spec, members) = described(spec, spawner);
        let size = members.len();
        let job = self.kit.add_job(job_spec, members);
        self.connect_all(job, size, spec);
        job
    }

    fn connect_all(&mut self, job: JobId, size: usize, spec: &str) {
        let secret = value(spec, "secret=").map(|text| Secret::new(text.as_bytes()));
        // A fixed nonce instead of an unpredictable one.
        let nonce = Nonce::new([3; NONCE_DIGITS]);
        let challenge =
            secret.map(|secret| Challenge::with_mutual(&secret.expect("a secret"), nonce));
        for rank in (0..).map(Rank).take(size) {
            self.connect(if spec.ends_with(" callers") {
                Peer::Unidentified { job, deadline: None, challenge }
            } else {
                Peer::Member { job, rank }
            });
        }
    }

    fn connect(&mut self, peer: Peer) {
        let session = self.kit.open(peer);
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
            "{}: rank {} should recv {} but receives {}",
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

    /// Performs an action of the owner.
    fn act(&mut self, note: &Note) {
        let words: Vec<&str> = note.text.split(' ').collect();
        match words[..] {
            ["job" | "client" | "listener", ..] => {}
            ["preset", key, value] => {
                let done = self.kit.server.preset(self.kit.job, key.as_bytes(), value.as_bytes());
                done.expect("room for a value");
            }
            ["preput", key, value] => {
                let done = self.kit.server.preput(self.kit.job, key.as_bytes(), value.as_bytes());
                done.expect("room for a value");
            }
            ["another", ..] => {
                let (_, spec) = note.text.split_once(' ').expect("a job");
                self.add_job(spec, None);
            }
            ["caller"] => {
                self.connect(unidentified(self.kit.job));
            }
            ["notify", rank, ref what @ ..] => {
                let notice = match what {
                    ["abort", code] => Notice::Abort(code.parse().expect("a number")),
                    _ => Notice::Checkpoint,
                };
                let rank = Rank(rank.parse().expect("a rank"));
                self.kit.server.notify(self.kit.job, rank, notice).expect("a listener");
            }
            ["spawned", ..] => {
                let (_, spec) = note.text.split_once(' ').expect("a job");
                let spawner = self.kit.server.job(self.kit.job).map(|job| job.name().clone());
                let child = self.add_job(spec, spawner);
                for [key, value] in &self.spawn.as_ref().expect("a spawn to answer").preputs {
                    self.kit.server.preput(child, key, value).expect("room for a value");
                }
                self.answer_spawn(Ok(child), &[]);
            }
            ["not-spawned", all, ref each @ ..] => {
                let code = |code: &str| Code(code.parse().expect("a number"));
                let each = each.iter().map(|each| CodeRun { count: 1, code: code(each) });
                self.answer_spawn(Err(code(all)), &each.collect::<Vec<_>>());
            }
            ["end", rank] => self.end(rank.parse().expect("a rank")),
            _ => panic!("{}: an owner cannot {}", note.label, note.text),
        }
    }

    fn answer_spawn(&mut self, made: Result<JobId, Code>, codes: &[CodeRun]) {
        let Wanted { session, exchange, .. } = self.spawn.take().expect("a spawn to answer");
        self.kit.server.answer_spawn(session, exchange, made, codes).expect("a spawn that waits");
    }

    /// Ends the stream of a member.
    fn end(&mut self, rank: u32) {
        let id = self.members[rank as usize].session;
        let mut session = self.kit.server.session(id).expect("a session");
        if let Err(error) = session.handle_end(NOW) {
            self.told.push_back(format!("rank={rank}: {error}"));
        }
        self.members[rank as usize].is_over = true;
        self.kit.server.close(id);
    }

    /// Runs the loop until no bytes move any more.
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            for rank in 0..self.members.len() {
                moved |= self.serve(rank);
            }
            while let Some(event) = self.kit.server.poll_event() {
                moved = true;
                let words = self.words(event);
                self.told.push_back(words);
            }
            if !moved {
                break;
            }
        }
        for (rank, member) in self.members.iter_mut().enumerate() {
            if member.is_over {
                continue;
            }
            let mut session = self.kit.server.session(member.session).expect("an open session");
            if session.is_finished() {
                member.is_over = true;
                let error = session.handle_input(NOW, b"").err();
                let why = error.map_or("finished".to_owned(), |error| error.to_string());
                self.told.push_back(format!("rank={rank}: {why}"));
            }
        }
    }

    /// Moves bytes between a member and its session; returns true if any moved.
    fn serve(&mut self, rank: usize) -> bool {
        let member = &mut self.members[rank];
        let Some(mut session) = self.kit.server.session(member.session) else { return false };
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

    /// Renders an event in words.
    fn words(&mut self, event: Event) -> String {
        match event {
            Event::Joined { rank, .. } => format!("joined rank={}", rank.0),
            Event::Aborted { rank, code, world, message, .. } => {
                let code = code.map_or(String::new(), |code| format!(" code={code}"));
                let code = if world { code } else { code + " alone" };
                let message = String::from_utf8_lossy(message.as_bytes()).into_owned();
                let message =
                    if message.is_empty() { message } else { format!(" message={message}") };
                format!("aborted rank={}{code}{message}", rank.0)
            }
            Event::PutTwice { key, first, second, .. } => {
                let key = String::from_utf8_lossy(key.as_bytes()).into_owned();
                format!("put-twice key={key} first={} second={}", first.0, second.0)
            }
            Event::Signal { rank, signal, .. } => {
                format!("signal rank={} {}", rank.0, String::from_utf8_lossy(signal.as_bytes()))
            }
            Event::FenceStuck { gone, .. } => format!("stuck gone={}", gone.0),
            Event::Spawn { session, exchange } => {
                let spawn = self.kit.server.spawn_request(session).expect("a spawn to read");
                let words = format!("spawn {}", programs(spawn));
                let bytes = |text: Text<'_>| text.bytes().collect();
                let pairs = spawn.preputs().map(|pair| [bytes(pair.key), bytes(pair.value)]);
                self.spawn = Some(Wanted { session, exchange, preputs: pairs.collect() });
                self.kit.server.spawn_read(session);
                words
            }
            other => format!("{other:?}"),
        }
    }

    /// Checks that the transcript accounts for all output and events.
    fn nothing_is_left(&self, label: &str) {
        for (rank, member) in self.members.iter().enumerate() {
            let said = escaped(&member.said);
            assert!(said.is_empty(), "{label}: before this, rank {rank} receives {said}");
        }
        assert!(self.told.is_empty(), "{label}: before this, the owner is told {:?}", self.told);
    }
}

/// `2*/bin/a + 1*/bin/b`: counts of programs.
fn programs(spawn: Spawn<'_>) -> String {
    let program = |program: pmi_core::command::Program<'_>| {
        let name: Vec<u8> = program.executable.bytes().collect();
        format!("{}*{}", program.processes, String::from_utf8_lossy(&name))
    };
    spawn.programs().map(program).collect::<Vec<_>>().join(" + ")
}

/// Value of a word `KEY=VALUE`, by `KEY=`.
fn value<'a>(spec: &'a str, key: &str) -> Option<&'a str> {
    spec.split(' ').find_map(|word| word.strip_prefix(key))
}

fn described(spec: &str, spawner: Option<KvsName>) -> (JobSpec, Vec<Member>) {
    let is_newer = spec.split(' ').any(|word| word == "newer");
    let member = |node: &str| {
        let member = Member::new(0, node.parse().expect("a node"));
        if is_newer { member.accepting_newer() } else { member }
    };
    let members = value(spec, "nodes=").unwrap_or("0").split(',').map(member).collect();
    let universe_size = value(spec, "universe=").map(|size| size.parse().expect("a number"));
    let name = spec.split(' ').next().unwrap_or("");
    (JobSpec { spawner, universe_size, ..job_spec(name) }, members)
}
