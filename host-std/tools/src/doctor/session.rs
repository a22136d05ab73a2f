//! A real session with the launcher, as an MPI library runs it.

use pmi_core::command::Version;
use pmi_core::limits::VALUE_BYTES;
use pmi_core::wire::mapping::{PROCESS_MAPPING, read_mapping};
use pmi_host_base::host_name;
use pmi_link::CallError;
use pmi_std::env::Environment;
use pmi_std::{Member, Pmi};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

/// Result of the PMI session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionResult {
    /// No launcher offers one.
    Singleton,
    /// A step failed.
    Failed {
        /// Step that failed.
        doing: &'static str,
        /// Error of the step.
        why: String,
    },
    /// A step was not answered in time.
    Stuck {
        /// Step that was not answered.
        doing: &'static str,
    },
    /// The session is complete.
    SessionFacts(SessionFacts),
}

/// Results of a complete session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionFacts {
    /// Negotiated version.
    pub(crate) version: Option<Version>,
    /// Rank, from the launcher.
    pub(crate) rank: u32,
    /// Number of ranks, from the launcher.
    pub(crate) size: u32,
    /// Name of the job.
    pub(crate) job: String,
    /// Duration of the fence.
    pub(crate) fence: Duration,
    /// Process mapping, as the launcher sent it.
    pub(crate) mapping: Option<String>,
    /// Cards of all ranks; only rank 0 has read them.
    pub(crate) cards: Vec<DoctorCard>,
}

/// Host and problem of a rank, as it publishes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DoctorCard {
    /// Host name.
    pub(crate) host: String,
    /// Most important problem of the rank, if there is one.
    pub(crate) problem: Option<String>,
}

impl DoctorCard {
    /// Card of this process.
    pub(crate) fn new(advice: Option<&super::advice::Advice>) -> Self {
        let host = host_name::own();
        let problem = advice.filter(|advice| advice.is_problem).map(|advice| advice.text.clone());
        Self { host, problem }
    }

    /// Encodes the card as a value: hexadecimal digits, since some servers end a value at the first
    /// blank.
    fn to_value(&self) -> String {
        let mut card = self.clone();
        loop {
            let text = serde_json::to_string(&card).unwrap_or_default();
            match (&mut card.problem, text.len() * 2 < VALUE_BYTES / 2) {
                (Some(problem), false) if !problem.is_empty() => {
                    let half = problem.chars().count() / 2;
                    *problem = problem.chars().take(half).collect();
                }
                _ => return text.bytes().map(|byte| format!("{byte:02x}")).collect(),
            }
        }
    }

    fn from_value(value: &[u8]) -> Option<Self> {
        let digits = value
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        serde_json::from_slice(&digits.collect::<Option<Vec<u8>>>()?).ok()
    }
}

impl SessionResult {
    /// Cards of all ranks; empty except on rank 0.
    pub(crate) fn cards(&self) -> impl Iterator<Item = &DoctorCard> {
        let done = if let Self::SessionFacts(done) = self { Some(done) } else { None };
        done.into_iter().flat_map(|done| &done.cards)
    }

    /// False if rank 0 reports for this rank.
    pub(crate) fn reports_itself(&self) -> bool {
        !matches!(self, Self::SessionFacts(SessionFacts { rank: 1.., .. }))
    }
}

impl fmt::Display for SessionResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Singleton => f.write_str("none is offered that can be tried here"),
            Self::Failed { doing, .. } => write!(f, "{doing} fails"),
            Self::Stuck { doing } => write!(f, "{doing} is not answered"),
            Self::SessionFacts(SessionFacts { version, fence, .. }) => {
                let version = version.map(|v| format!("-{}.{}", v.major, v.minor));
                let version = version.unwrap_or_default();
                let took = fence.as_secs_f64() * 1000.0;
                write!(f, "PMI{version}: init, put, fence ({took:.1} ms), get and finalize work")
            }
        }
    }
}

/// Runs a session with the launcher that the environment names; no wait is unbounded.
pub(crate) fn session(card: &DoctorCard) -> SessionResult {
    let (sender, steps) = channel();
    let card = card.clone();
    // An answer may never come; the process then exits without this thread.
    thread::spawn(move || {
        let outcome = converse(&card, &sender)
            .unwrap_or_else(|(doing, why)| SessionResult::Failed { doing, why });
        // The receiver may have given up by now.
        let _ = sender.send(SessionProgress::End(outcome));
    });
    let mut doing = INIT;
    loop {
        match steps.recv_timeout(STEP_TIMEOUT) {
            Ok(SessionProgress::Doing(next)) => doing = next,
            Ok(SessionProgress::End(outcome)) => return outcome,
            Err(RecvTimeoutError::Timeout) => return SessionResult::Stuck { doing },
            Err(RecvTimeoutError::Disconnected) => {
                return SessionResult::Failed { doing, why: "it ended within".to_owned() };
            }
        }
    }
}

enum SessionProgress {
    Doing(&'static str),
    End(SessionResult),
}

fn converse(
    card: &DoctorCard,
    steps: &Sender<SessionProgress>,
) -> Result<SessionResult, (&'static str, String)> {
    let environment = Environment::of_this_process().map_err(|error| (INIT, error.to_string()))?;
    let member = pmi_std::connect_by(environment).map_err(|error| (INIT, error.to_string()))?;
    let Some(Member { mut pmi, rank, size, .. }) = member else {
        return Ok(SessionResult::Singleton);
    };
    let step = |doing| {
        let _ = steps.send(SessionProgress::Doing(doing));
        move |error: CallError<io::Error>| (doing, error.to_string())
    };
    let version = pmi.client().version();
    let job = pmi.job_id().map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned());
    let job = job.map_err(|error| (INIT, error.to_string()))?;
    let failed = step("a put");
    pmi.put(key(rank).as_bytes(), card.to_value().as_bytes()).map_err(failed)?;
    let failed = step("the fence with the other ranks");
    let began = Instant::now();
    pmi.fence().map_err(failed)?;
    let fence = began.elapsed();
    let failed = step("a get");
    let mapping = read(&mut pmi, PROCESS_MAPPING, version).map_err(&failed)?;
    let mapping = mapping.map(|value| String::from_utf8_lossy(&value).into_owned());
    let mut cards = Vec::new();
    for other in (0..size).filter(|_| rank == 0) {
        let value = pmi.get(key(other).as_bytes()).map_err(&failed)?;
        cards.push(value.as_deref().and_then(DoctorCard::from_value).unwrap_or_default());
    }
    let failed = step("finalize");
    pmi.finalize().map_err(failed)?;
    Ok(SessionResult::SessionFacts(SessionFacts {
        version,
        rank,
        size,
        job,
        fence,
        mapping,
        cards,
    }))
}

/// Reads the process mapping, which in PMI-2 is an attribute of the job.
fn read(
    pmi: &mut Pmi,
    name: &[u8],
    version: Option<Version>,
) -> Result<Option<Vec<u8>>, CallError<io::Error>> {
    if version.is_none_or(|version| version.major < 2) {
        return pmi.get(name);
    }
    pmi.job_attribute(name)
}

fn key(rank: u32) -> String {
    format!("pmi-host-doctor-{rank}")
}

/// Mapping with its meaning.
pub(crate) fn mapping(text: Option<&str>, size: u32) -> String {
    let Some(text) = text else { return "the launcher does not report it".to_owned() };
    match read_mapping(text.as_bytes(), size) {
        None => format!("'{}' is not one that libraries understand", text.escape_debug()),
        Some(nodes) => {
            let count = nodes.collect::<BTreeSet<u32>>().len();
            let many = if count == 1 { "" } else { "s" };
            format!("{text}: {size} ranks on {count} node{many}")
        }
    }
}

const INIT: &str = "the handshake";

/// Time limit of one step: no launcher answers later; a fence waits for the slowest rank of a large job.
const STEP_TIMEOUT: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn card_is_the_same_on_the_other_side() {
        for problem in [None, Some("x".to_owned()), Some("a ; = \" \n b".to_owned())] {
            let card = DoctorCard { host: "node1".to_owned(), problem };
            assert_eq!(DoctorCard::from_value(card.to_value().as_bytes()), Some(card));
        }
        assert_eq!(DoctorCard::from_value(b"no digits"), None);
    }

    #[test]
    fn long_problem_is_cut_to_what_every_server_holds() {
        let card = DoctorCard { host: "node1".to_owned(), problem: Some("ü".repeat(4000)) };
        let value = card.to_value();
        assert!(value.len() < VALUE_BYTES / 2, "{}", value.len());
        let there = DoctorCard::from_value(value.as_bytes()).unwrap();
        assert!(there.problem.is_some_and(|problem| problem.starts_with('ü')));
    }

    #[test]
    fn mapping_is_explained() {
        assert_eq!(mapping(Some("(vector,(0,2,2))"), 4), "(vector,(0,2,2)): 4 ranks on 2 nodes");
        assert!(mapping(Some("nonsense"), 4).contains("'nonsense'"));
        assert!(mapping(None, 4).contains("does not report"));
    }
}
