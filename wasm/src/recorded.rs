//! A recorded run, as the page draws it.
//!
//! A recorder sees a message at one moment only, so it is drawn without a transit time. Where a log
//! has no times at all, its lines are one microsecond apart, in their order.

use crate::json::Json;
use crate::story::{Lane, Message, Moment, Pipes, Story, StoryEvent};
use pmi_core::auth::Secret;
use pmi_trace::open::{OpenedTrace, TraceForm};
use pmi_trace::{Content, Direction, Record, Trace};
use wasm_bindgen::prelude::*;

/// A run that was recorded elsewhere: a trace, or one as JSON lines.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Recording(Recorded);

#[wasm_bindgen]
impl Recording {
    /// Reads a recording that contains PMI sessions, in either form.
    ///
    /// # Errors
    ///
    /// Bytes without a session, with the forms that were tried.
    #[wasm_bindgen(constructor)]
    pub fn new(bytes: &[u8]) -> Result<Self, JsError> {
        Ok(Self(Recorded::new(pmi_trace::open::read(bytes)?)))
    }

    /// Events and fences, from the start to the end, and the names that [`numbers`](Self::numbers) refers
    /// to.
    pub fn story(&self) -> String {
        let Recorded { story, notes, has_times, end } = &self.0;
        Json::of(|json| {
            json.list("about", notes, |json, event| json.word(event));
            json.plain("timeless", !has_times);
            json.plain("steps", end.step);
            json.plain("end", end.ns);
            story.write(json);
        })
    }

    /// Eight numbers of each message: lane, flags (1: to the server, 2: made by no client, 4: an error), time
    /// and step of sending, length, number of parts, and the numbers of its name and its wire format.
    pub fn numbers(&self) -> Vec<f64> {
        self.0.story.numbers()
    }

    /// Three numbers of each part of each message: time and step of its arrival, and the bytes that had
    /// arrived.
    pub fn parts(&self) -> Vec<f64> {
        self.0.story.parts()
    }

    /// The bytes of all messages.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.story.bytes()
    }
}

/// The fields of the last of some messages of one connection, without the recording: that stays where it was
/// read, and the page has its columns. `lens` are their lengths, `ups` are 1 for those to the server.
#[wasm_bindgen]
pub fn fields_of_last(bytes: &[u8], lens: &[u32], ups: &[u8]) -> String {
    let mut story = Story::default();
    let mut rest = bytes;
    for (len, up) in lens.iter().zip(ups) {
        let len = usize::try_from(*len).unwrap_or(usize::MAX);
        let Some((own, after)) = rest.split_at_checked(len) else { break };
        let (bytes, is_up) = (own.to_vec(), *up != 0);
        story.messages.push(Message { bytes, is_up, ..Message::default() });
        rest = after;
    }
    story.fields(story.messages.len().saturating_sub(1))
}

/// Computes the proof that a watching page knows the secret of a job.
///
/// # Errors
///
/// A secret that is too short or too long, or a nonce that is none.
#[wasm_bindgen]
pub fn prove(secret: &str, nonce: &str) -> Result<String, JsError> {
    let secret = Secret::new(secret.as_bytes())?;
    let proof = secret.answer(nonce.as_bytes()).ok_or_else(|| JsError::new(NO_NONCE))?;
    Ok(proof.as_bytes().iter().map(|digit| char::from(*digit)).collect())
}

/// A run that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Messages and events.
    pub(crate) story: Story,
    /// Notes for the user about the recording, a sentence each.
    pub(crate) notes: Vec<String>,
    /// True if it has times; otherwise an order.
    pub(crate) has_times: bool,
    /// Time of its end.
    pub(crate) end: Moment,
}

/// A lane: the job, and the rank in it or the connection of unknown rank.
type SubjectKey = (u32, Result<u32, u32>);

impl Recorded {
    /// Creates the story of a recording.
    pub(crate) fn new(opened: OpenedTrace) -> Self {
        let OpenedTrace { trace, form, mut notes } = opened;
        notes.insert(0, heading(&trace, form));
        let has_times = trace.records.iter().any(|record| record.time_ns > 0);
        let whos = whos(&trace);
        let lane = |subject_key: &SubjectKey| {
            let (job, name) = (subject_key.0, name(&trace, *subject_key));
            Lane { name, job, group: job, dialect: String::new() }
        };
        let mut story = Story { lanes: whos.iter().map(lane).collect(), ..Story::default() };
        let mut pipes = Pipes::new(story.lanes.len());
        let mut end = Moment::default();
        for (step, record) in (1..).zip(&trace.records) {
            let ns = if has_times { record.time_ns } else { step * 1000 };
            end = Moment { ns, step };
            let lane = subject_key(record).and_then(|subject_key| {
                whos.binary_search_by_key(&place(subject_key), |who| place(*who)).ok()
            });
            take(&mut story, &mut pipes, record, lane, end);
        }
        story.finish();
        Self { story, notes, has_times, end }
    }
}

/// Title of the recording, in one sentence.
fn heading(trace: &Trace, form: TraceForm) -> String {
    let what = match form {
        TraceForm::File => "A trace",
        TraceForm::JsonLines => "A trace as JSON lines",
    };
    match trace.head.command.is_empty() {
        true => format!("{what}."),
        false => format!("{what}: {}", trace.head.command.join(" ")),
    }
}

/// All lanes: by job, then by rank, then connections of unknown rank.
fn whos(trace: &Trace) -> Vec<SubjectKey> {
    let mut whos: Vec<SubjectKey> = trace.records.iter().filter_map(subject_key).collect();
    for facts in trace.jobs() {
        whos.extend((0..facts.ranks.min(RANKS_MAX)).map(|rank| (facts.job, Ok(rank))));
    }
    whos.sort_by_key(|who| place(*who));
    whos.dedup();
    whos
}

/// Place of a lane among the others.
fn place((job, subject_key): SubjectKey) -> (u32, bool, u32) {
    (job, subject_key.is_err(), subject_key.unwrap_or_else(|session| session))
}

fn subject_key(record: &Record) -> Option<SubjectKey> {
    let is_known = record.rank.map(Ok);
    Some((record.job, is_known.or(record.session.map(Err))?))
}

/// The rank alone where there is one job.
fn name(trace: &Trace, (job, subject_key): SubjectKey) -> String {
    match subject_key {
        Ok(rank) if trace.jobs().count() > 1 => format!("{job}:{rank}"),
        Ok(rank) => rank.to_string(),
        Err(session) => format!("?{session}"),
    }
}

fn take(story: &mut Story, pipes: &mut Pipes, record: &Record, lane: Option<usize>, at: Moment) {
    let name = lane.map_or("-", |lane| &story.lanes[lane].name);
    let (kind, text) = match &record.what {
        Content::Message { direction, bytes } => {
            let Some(lane) = lane else { return };
            let is_up = *direction == Direction::ToServer;
            story.say(lane, is_up, at, bytes, false, pipes);
            story.recv(lane, is_up, at, bytes.len(), pipes);
            return;
        }
        Content::Started { pid, host } => {
            ("process", format!("rank {name} start as process {pid} on {host}"))
        }
        Content::Exited { code } => ("process", format!("rank {name} exit {code}")),
        Content::Killed { signal } => ("process", format!("rank {name} killed by signal {signal}")),
        Content::Connected { from: Some(from) } => {
            ("process", format!("host {name} connected from {from}"))
        }
        Content::Connected { from: None } => ("process", format!("host {name} connected")),
        Content::Closed => ("process", format!("host {name} closed")),
        Content::Spawned(facts) => {
            ("process", format!("host {name} spawned job {} of {} ranks", facts.job, facts.ranks))
        }
        Content::Report { text } => ("report", format!("host {name} report {text}")),
        Content::Lost { count } => {
            ("report", format!("host {name} report {count} records are missing here"))
        }
        Content::Ended { code } => ("quiet", format!("the launcher ended with {code}")),
        _ => return,
    };
    story.events.push(StoryEvent { at, lane, kind, text });
}

const NO_NONCE: &str = "the launcher requests the proof of a value that is not a number";

/// A head with a larger number is not trusted: a lane needs a message or an event.
const RANKS_MAX: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_trace::{Head, JobFacts, open};

    /// A trace of a log of Hydra, which has no times.
    fn hydra() -> Recorded {
        let trace = include_bytes!("../tests/recorded/hydra-4.0.2-hello.trace");
        Recorded::new(open::read(trace).unwrap())
    }

    #[test]
    fn trace_of_a_log_becomes_lanes_messages_and_a_fence() {
        let Recorded { story, has_times, end, .. } = hydra();
        let names: Vec<&str> = story.lanes.iter().map(|lane| &*lane.name).collect();
        assert_eq!(names, ["0", "1"]);
        assert!(story.messages.iter().any(|message| message.bytes.starts_with(b"cmd=put ")));
        assert!(!story.fences.is_empty());
        assert!(story.fences.iter().all(|fence| fence.inside.len() == 2));
        assert!(!has_times);
        assert_eq!(end.ns, end.step * 1000);
        assert!(story.messages.is_sorted_by_key(|message| message.sent));
    }

    /// Compares the fields of all messages with those that are found without the story.
    fn compare_fields(story: &Story) {
        for (index, message) in story.messages.iter().enumerate() {
            let before = story.messages[..=index].iter().filter(|one| one.lane == message.lane);
            let own: Vec<&Message> = before.collect();
            let bytes = own.iter().flat_map(|one| one.bytes.clone()).collect::<Vec<_>>();
            let lens: Vec<u32> =
                own.iter().map(|one| one.bytes.len().try_into().unwrap()).collect();
            let ups: Vec<u8> = own.iter().map(|one| one.is_up.into()).collect();
            assert_eq!(fields_of_last(&bytes, &lens, &ups), story.fields(index), "message {index}");
            // Numbers that do not fit the bytes are no reason to panic.
            fields_of_last(&bytes, &[u32::MAX, 1], &ups);
        }
        fields_of_last(&[], &[], &[]);
    }

    #[test]
    fn fields_without_the_recording_are_those_within_it() {
        let story = hydra().story;
        assert!(story.fields(0).contains("\"name\":\"cmd\""));
        compare_fields(&story);
    }

    #[cfg(feature = "pmix")]
    #[test]
    fn fields_of_pmix_need_no_recording_either() {
        let plain = pmi_sim::shipped::SHIPPED.iter().find(|(name, _)| *name == "put-fence-get");
        let scenario: pmi_sim::Scenario = plain.unwrap().1.parse().unwrap();
        let mut world = pmi_sim::World::new(&scenario.in_pmix().unwrap(), 3).unwrap();
        while world.step() {}
        let story = Story::of_world(&world);
        let fields = (0..story.messages.len()).map(|index| story.fields(index));
        assert!(fields.collect::<String>().contains("pmix.job.size"));
        compare_fields(&story);
    }

    #[test]
    fn trace_keeps_its_times_and_events_of_processes() {
        let record = |time_ns, rank, what| Record { time_ns, job: 0, rank, session: rank, what };
        let bytes = b"cmd=init pmi_version=1 pmi_subversion=1\n".to_vec();
        let message = Content::Message { direction: Direction::ToServer, bytes };
        let trace = Trace {
            head: Head {
                command: vec!["pmi-host".into(), "run".into()],
                jobs: vec![JobFacts { ranks: 2, ..JobFacts::default() }],
                ..Head::default()
            },
            records: vec![
                record(5, Some(1), Content::Started { pid: 7, host: "n0".into() }),
                record(10, Some(1), message),
                record(20, Some(1), Content::Killed { signal: 9 }),
                record(30, None, Content::Report { text: "rank 1 was killed".into() }),
                record(30, Some(9), Content::Lost { count: 3 }),
            ],
        };
        let opened = OpenedTrace { trace, form: TraceForm::File, notes: Vec::new() };
        let Recorded { story, notes, end, .. } = Recorded::new(opened);
        assert_eq!(story.lanes.iter().map(|lane| &*lane.name).collect::<Vec<_>>(), ["0", "1", "9"]);
        assert_eq!((story.messages[0].lane, story.messages[0].sent.ns), (1, 10));
        let words: Vec<&str> = story.events.iter().map(|event| &*event.text).collect();
        assert_eq!(words[1], "rank 1 killed by signal 9");
        assert_eq!(words[2], "host - report rank 1 was killed");
        assert_eq!((notes.len(), end.ns), (1, 30));
    }
}
