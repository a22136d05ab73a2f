//! Parts of a trace: facts about the run, and records in the order in which they were made.

use crate::bytes;
use serde::{Deserialize, Serialize};

/// A recorded run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Facts about the run.
    pub head: Head,
    /// Records in the order of their times.
    pub records: Vec<Record>,
}

/// Facts about a run that hold from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Start of the run.
    ///
    /// Units: nanoseconds since 1970; 0 if it is unknown.
    pub started_unix_ns: u64,
    /// The program that recorded it, with its version; or what the record was made from.
    pub recorder: String,
    /// The machine where the server ran; empty if it is unknown.
    pub host: String,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// The jobs that were known from the start. Those that ranks spawned are records.
    pub jobs: Vec<JobFacts>,
}

/// Facts about a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFacts {
    /// Number of the job in records.
    pub job: u32,
    /// The name of its key-value space.
    pub name: String,
    /// Number of ranks it has.
    pub ranks: u32,
    /// The job with the ranks that spawned it.
    pub spawner: Option<u32>,
}

/// A record of one event.
///
/// `B` is the representation of message bytes: readers give `Vec<u8>`, a writer may lend a slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(serialize = "B: AsRef<[u8]>", deserialize = "B: From<Vec<u8>>"))]
pub struct Record<B = Vec<u8>> {
    /// Time of the event.
    ///
    /// Units: nanoseconds since the start of the run, by a clock that never goes back.
    pub time_ns: u64,
    /// Number of the job.
    pub job: u32,
    /// The rank of the job; `None` if the record concerns no rank, or if the rank is not known yet.
    pub rank: Option<u32>,
    /// Number of the connection. It is used again after [`Content::Closed`]; see [`PMIX_SESSION`].
    pub session: Option<u32>,
    /// Its kind and contents.
    pub what: Content<B>,
}

/// Kinds of records. New kinds are added at the end: the position of a kind is its number in a
/// file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "snake_case",
    bound(serialize = "B: AsRef<[u8]>", deserialize = "B: From<Vec<u8>>")
)]
#[non_exhaustive]
pub enum Content<B = Vec<u8>> {
    /// One whole message. Bytes that can be no message are recorded as received.
    Message {
        /// The sender.
        direction: Direction,
        /// All of it, with its length in front or its line end.
        #[serde(with = "bytes")]
        bytes: B,
    },
    /// A connection was made, or handed to a process that was started.
    Connected {
        /// The address of a peer that connected; `None` for a process of the launcher.
        from: Option<String>,
    },
    /// The connection has closed.
    Closed,
    /// A process was started.
    Started {
        /// Its process number.
        pid: u32,
        /// Its host.
        host: String,
    },
    /// A process has exited.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// A process was terminated by a signal.
    Killed {
        /// The number of the signal.
        signal: i32,
    },
    /// Ranks spawned a job; the record's job is the new one.
    Spawned(JobFacts),
    /// A message of the launcher to the user.
    #[serde(rename = "told")]
    Report {
        /// The sentence.
        text: String,
    },
    /// Records are missing here: they came faster than they could be written.
    Lost {
        /// Number of records.
        count: u64,
    },
    /// The run is over. A trace without it was cut off: its launcher was killed, or the disk was full.
    Ended {
        /// The exit code of the launcher.
        code: u8,
    },
}

/// Bit that marks the number of a PMIx connection; those connections are counted separately.
pub const PMIX_SESSION: u32 = 1 << 31;

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client: requests.
    ToServer,
    /// The server: replies, and notices.
    ToClient,
}

impl Trace {
    /// Facts about a job, known from the start or spawned.
    pub fn job(&self, number: u32) -> Option<&JobFacts> {
        self.jobs().find(|facts| facts.job == number)
    }

    /// Facts about all jobs, in the order in which they began.
    pub fn jobs(&self) -> impl Iterator<Item = &JobFacts> {
        let spawned = self.records.iter().filter_map(|record| match &record.what {
            Content::Spawned(facts) => Some(facts),
            _ => None,
        });
        self.head.jobs.iter().chain(spawned)
    }

    /// The messages, each with its place among the records.
    pub fn messages(&self) -> impl Iterator<Item = (usize, &Record, Direction, &[u8])> {
        self.records.iter().enumerate().filter_map(|(at, record)| match &record.what {
            Content::Message { direction, bytes } => {
                Some((at, record, *direction, bytes.as_slice()))
            }
            _ => None,
        })
    }

    /// The exit code with which the run ended; none if the trace was cut off before.
    pub fn exit_code(&self) -> Option<u8> {
        self.records.iter().rev().find_map(|record| match record.what {
            Content::Ended { code } => Some(code),
            _ => None,
        })
    }
}
