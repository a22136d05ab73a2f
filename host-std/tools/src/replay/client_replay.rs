//! Replay of all clients of a record against the project's server.
//!
//! Requests are sent in the order of the record. The server is given the initial state of the recorded
//! one, under the same names; answers are compared by meaning, since every server formats them differently.

use super::ReplayReport;
use super::initial_state::InitialState;
use super::pmix_replay::{PmixDifference, PmixReplay, PmixStep, ReplayServer, new_server};
use super::record::{RANKS_MAX, RecordedRank, VALUE_MAX, name, scripts};
use pmi_core::error::Code;
use pmi_core::ids::{JobId, KvsName, Rank, SessionId};
use pmi_core::limits::REPLY_BYTES;
use pmi_core::machine::Machine;
use pmi_core::server::{Event, JobSpec, Member, Peer};
use pmi_core::time::Instant;
use pmi_host_base::exit::FAILED;
use pmi_host_base::storage::Slab;
use pmi_std::BoundedBuf;
use pmi_trace::describe::describe;
use pmi_trace::exchange::exchanges;
use pmi_trace::{Direction, JobFacts, Trace};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

/// Replays all clients.
///
/// # Errors
///
/// The record holds no messages that can be replayed.
pub(super) fn replay(trace: &Trace) -> Result<ReplayReport, String> {
    let scripts = scripts(trace);
    let mut replay = ClientReplay::new(trace, &scripts)?;
    let mut ranks = replay.pmix.ranks();
    ranks.extend(scripts.keys());
    if ranks.is_empty() {
        return Err("the record has no messages of ranks, so there are no clients to replay".into());
    }
    let mut order: Vec<(usize, Input<'_>)> = { scripts.iter() }
        .flat_map(|(who, lines)| lines.iter().map(move |line| (*who, line)))
        .filter(|(_, line)| line.direction == Direction::ToServer)
        .map(|(who, line)| (line.at, Input::Pmi(who, line.bytes)))
        .chain(replay.pmix.steps().map(|(at, step)| (at, Input::Pmix(step))))
        .collect();
    order.sort_unstable_by_key(|(at, ..)| *at);
    let is_request = |(_, input): &&(usize, Input<'_>)| {
        matches!(input, Input::Pmi(..) | Input::Pmix(PmixStep::Message(..)))
    };
    let request_count = order.iter().filter(is_request).count();
    for (at, input) in order {
        let time_ns = trace.records.get(at).map_or(0, |record| record.time_ns);
        replay.execute(input, Instant::from_micros(time_ns / 1_000));
    }

    let requests: BTreeMap<usize, usize> = { exchanges(trace).into_iter() }
        .filter_map(|one| Some((one.answered?, one.asked)))
        .collect();
    let request_text = |at: usize| {
        let record = requests.get(&at).and_then(|at| trace.records.get(*at))?;
        let pmi_trace::Content::Message { direction, bytes } = &record.what else { return None };
        Some(describe(*direction, bytes).line(VALUE_MAX))
    };
    let (mut text, mut count) = (String::new(), 0usize);
    let mut differ = |who: RecordedRank, then: Option<(usize, String)>, now: Option<String>| {
        count += 1;
        if count > REPORTED_MAX {
            return;
        }
        let about = then.as_ref().and_then(|(at, _)| request_text(*at));
        let about = about.map(|about| format!(" to '{about}'")).unwrap_or_default();
        let nothing = || "nothing".to_owned();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{} was answered{about}\n  recorded: {}\n  now:      {}",
            name(trace, who),
            then.map_or_else(nothing, |(_, line)| line),
            now.unwrap_or_else(nothing)
        );
    };
    for (who, lines) in &scripts {
        let mut now = replay.answers.remove(who).unwrap_or_default().into_iter();
        for line in lines.iter().filter(|line| line.direction == Direction::ToClient) {
            let (then, now) = (line.meaning(), now.next());
            if now.as_ref() != Some(&then) {
                let now = now.map(|now| now.line(VALUE_MAX));
                differ(*who, Some((line.at, then.line(VALUE_MAX))), now);
            }
        }
        now.for_each(|more| differ(*who, None, Some(more.line(VALUE_MAX))));
    }
    let (differences, faults) = replay.pmix.differences();
    for PmixDifference { who, recorded, now } in differences {
        differ(who, recorded, now);
    }
    replay.faults.extend(faults);
    for (who, fault) in &replay.faults {
        count += 1;
        let _ = writeln!(text, "{}: our server closed the connection: {fault}", name(trace, *who));
    }
    let ranks = ranks.len();
    let _ = match count {
        0 => {
            writeln!(text, "{request_count} requests of {ranks} ranks: every reply is as recorded")
        }
        _ => writeln!(text, "{request_count} requests of {ranks} ranks: {count} replies differ"),
    };
    if count > 0 && replay.pmix.has_store() {
        let _ = writeln!(
            text,
            "the ranks read data of the job in memory, which this record lacks; \
             record a run with --env PMIX_GDS_MODULE=hash"
        );
    }
    Ok(ReplayReport { text, code: if count == 0 { 0 } else { FAILED } })
}

/// An input of the server.
#[derive(Clone, Copy)]
enum Input<'a> {
    /// Bytes of a rank that speaks PMI-1 or PMI-2.
    Pmi(RecordedRank, &'a [u8]),
    Pmix(PmixStep),
}

/// The project's server, and its answers.
struct ClientReplay<'a> {
    server: ReplayServer,
    pmix: PmixReplay<'a>,
    initial_states: BTreeMap<u32, InitialState>,
    /// Jobs that ranks have not spawned yet.
    spawns: VecDeque<&'a JobFacts>,
    /// Jobs of this run, by recorded number.
    jobs: BTreeMap<u32, JobId>,
    names: BTreeMap<u32, String>,
    sessions: BTreeMap<RecordedRank, SessionId>,
    clients: BTreeMap<SessionId, RecordedRank>,
    /// Bytes that a session has not taken.
    unhandled: BTreeMap<RecordedRank, Vec<u8>>,
    answers: BTreeMap<RecordedRank, Vec<pmi_trace::describe::Meaning>>,
    faults: Vec<(RecordedRank, String)>,
}

impl<'a> ClientReplay<'a> {
    fn new(
        trace: &'a Trace,
        scripts: &BTreeMap<RecordedRank, Vec<super::record::RecordedMessage<'_>>>,
    ) -> Result<Self, String> {
        let pmix = PmixReplay::new(trace);
        let mut members = pmix.ranks();
        members.extend(scripts.keys());
        let jobs: BTreeSet<u32> = members.iter().map(|(job, _)| *job).collect();
        let mut replay = Self {
            server: new_server(),
            pmix,
            initial_states: jobs
                .iter()
                .map(|job| (*job, InitialState::of(*job, scripts)))
                .collect(),
            spawns: trace.jobs().filter(|facts| facts.spawner.is_some()).collect(),
            jobs: BTreeMap::new(),
            names: BTreeMap::new(),
            sessions: BTreeMap::new(),
            clients: BTreeMap::new(),
            unhandled: BTreeMap::new(),
            answers: BTreeMap::new(),
            faults: Vec::new(),
        };
        for job in jobs {
            let known = trace.job(job).cloned().unwrap_or_default();
            if known.spawner.is_none() {
                let seen = members
                    .iter()
                    .filter(|(of, _)| *of == job)
                    .map(|(_, rank)| rank.saturating_add(1))
                    .max();
                let ranks = known.ranks.max(seen.unwrap_or(0));
                replay.add_job(&JobFacts { job, ranks, ..known })?;
            }
        }
        Ok(replay)
    }

    fn add_job(&mut self, facts: &JobFacts) -> Result<JobId, String> {
        let cannot = |why: &dyn std::fmt::Display| {
            format!("job {} of the record cannot be served ({why})", facts.job)
        };
        if facts.ranks > RANKS_MAX {
            return Err(cannot(&format_args!("{} ranks are too many", facts.ranks)));
        }
        if self.pmix.has_nodes(facts.job) {
            return Err(cannot(
                &"it has PMIx clients on several nodes, each with a server of its own",
            ));
        }
        let initial = self.initial_states.get(&facts.job).cloned().unwrap_or_default();
        let name =
            if facts.name.is_empty() { format!("kvs_{}", facts.job) } else { facts.name.clone() };
        let read = |name: &str| KvsName::new(name.as_bytes()).map_err(|why| cannot(&why));
        let spawner = facts.spawner.and_then(|job| self.names.get(&job));
        let spec = JobSpec {
            name: read(&name)?,
            spawner: spawner.map(|name| read(name)).transpose()?,
            universe_size: initial.universe,
            size: None,
            has_uplink: false,
        };
        let nodes = initial.nodes(facts.ranks).into_iter().zip(0..);
        let member = |(node, rank): (u32, u32)| {
            let member = Member::new(initial.appnums.get(&rank).copied().unwrap_or(0), node);
            if initial.newer.contains(&rank) { member.accepting_newer() } else { member }
        };
        let members: Vec<Member> = nodes.map(member).collect();
        let job =
            self.server.add_job(spec, members, Default::default()).map_err(|why| cannot(&why))?;
        // A key that no server could hold cannot have been answered by the recorded one.
        for (key, value) in &initial.attributes {
            let _ = self.server.preset(job, key, value);
        }
        for (key, value) in &initial.space {
            let _ = self.server.preput(job, key, value);
        }
        self.pmix.add_job(facts.job, job, facts.ranks, &mut self.server);
        self.jobs.insert(facts.job, job);
        self.names.insert(facts.job, name);
        Ok(job)
    }

    fn execute(&mut self, input: Input<'_>, now: Instant) {
        match input {
            Input::Pmi(who, bytes) => {
                let Some(session) = self.session(who) else { return };
                self.unhandled.entry(who).or_default().extend(bytes);
                self.drive_session(session, now);
            }
            Input::Pmix(step) => self.pmix.execute(step, now, &mut self.server),
        }
        self.handle_events(now);
    }

    fn session(&mut self, who: RecordedRank) -> Option<SessionId> {
        if let Some(session) = self.sessions.get(&who) {
            return Some(*session);
        }
        let (job, rank) = who;
        let peer = Peer::Member { job: *self.jobs.get(&job)?, rank: Rank(rank) };
        match self.server.open(peer, BoundedBuf::new(INBOX_MAX), Slab::new(THREADS_MAX)) {
            Ok(session) => {
                self.sessions.insert(who, session);
                self.clients.insert(session, who);
                Some(session)
            }
            Err(why) => {
                self.faults.push((who, why.to_string()));
                None
            }
        }
    }

    /// Alternates output and input of one session until neither makes progress.
    fn drive_session(&mut self, id: SessionId, now: Instant) {
        let Some(who) = self.clients.get(&id).copied() else { return };
        let Some(mut session) = self.server.session(id) else { return };
        let unhandled = self.unhandled.entry(who).or_default();
        let mut out = [0; 2 * REPLY_BYTES];
        loop {
            let mut progresses = false;
            while let Ok(Some(len)) = session.poll_transmit(&mut out) {
                let meaning = describe(Direction::ToClient, &out[..len]);
                self.answers.entry(who).or_default().push(meaning);
                progresses = true;
            }
            match session.handle_input(now, unhandled) {
                Ok(len) => {
                    unhandled.drain(..len);
                    progresses |= len > 0;
                }
                Err(error) if !unhandled.is_empty() => {
                    self.faults.push((who, error.to_string()));
                    unhandled.clear();
                }
                Err(_) => {}
            }
            if !progresses {
                return;
            }
        }
    }

    /// Answers requests that waited for other ranks, and handles the events of the server.
    fn handle_events(&mut self, now: Instant) {
        loop {
            while let Some(id) = self.server.next_ready() {
                match id.is_pmix() {
                    true => self.pmix.drive(id, now, &mut self.server),
                    false => self.drive_session(id, now),
                }
            }
            let Some(event) = self.server.poll_event() else { return };
            if let Some(by) = self.pmix.handle_event(&event, &self.jobs, &mut self.server) {
                let at = self.spawns.iter().position(|facts| facts.spawner == Some(by));
                // The reply is the recorded one, even if the job cannot be served.
                let _ = at.and_then(|at| self.spawns.remove(at)).map(|facts| self.add_job(facts));
            }
            if let Event::Spawn { session, exchange } = event {
                self.server.spawn_read(session);
                let by = self.clients.get(&session).map(|(job, _)| *job);
                let at = self.spawns.iter().position(|facts| facts.spawner == by);
                let made =
                    at.and_then(|at| self.spawns.remove(at)).map(|facts| self.add_job(facts));
                let made = made.and_then(Result::ok).ok_or(Code::FAIL);
                // The requesting session waits for exactly this answer.
                let _ = self.server.answer_spawn(session, exchange, made, &[]);
            }
        }
    }
}

/// Number of differing answers that are reported one by one.
const REPORTED_MAX: usize = 20;

/// Bound of the input buffer, above any message.
const INBOX_MAX: usize = 1 << 20;

/// Number of threads of a client that may call at once.
const THREADS_MAX: usize = 256;
