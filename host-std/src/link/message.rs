//! Messages between the head of a run and its nodes, as bodies of the tree's messages.
//!
//! Wire: postcard; the first byte is the number of the variant. Both sides are the same version of this
//! program, which the handshake has checked, so there is no version here.
//!
//! A body comes from an authenticated node and is checked like any other input: lengths are bounded by the
//! body, and ranks and numbers are checked by the receiver.

use super::job_message::JobMessage;
use super::node_report::{NodeReport, ReportRequest};
use super::spawn_message::{SpawnMessage, SpawnNotice};
use crate::launch::signal::Arrived;
use crate::launch::start::process::ProcessEnd;
use crate::operation::{OperationReply, OperationRequest};
use crate::server::flush::Traffic;
use crate::verdict::{Failure, PmiPhase};
use pmi_host_os::byte_vec;
use pmi_host_os::stream::Stream;
use pmi_nodes::stage::ProgramPiece;
use pmi_tree::Silence;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

/// Message of the head to nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ToNode {
    /// Piece of a program of the job that follows.
    Program(ProgramPiece),
    /// Starts the ranks of the receiving node.
    Job(Box<JobMessage>),
    /// Forwards a signal to all ranks.
    Forward(SignalMessage),
    /// Forwards a signal that requests the end; bad ends of ranks are its consequence from now on.
    ForwardEnd(SignalMessage),
    /// Stops all ranks, as this signal requests.
    Stop(SignalMessage),
    /// Continues all ranks.
    Resume,
    /// Asks all ranks to terminate, and kills them after the grace period.
    Terminate {
        /// Exit code of the run, for ranks that listen for its end.
        code: i32,
    },
    /// Kills all ranks.
    Kill,
    /// Input for the readers of the node, after [`ToRun::InputWanted`].
    Input(#[serde(with = "byte_vec")] Vec<u8>),
    /// End of the input.
    InputEnded,
    /// Size of the terminal of a rank.
    TerminalSize {
        /// Lines.
        rows: u16,
        /// Characters of a line.
        columns: u16,
    },
    /// The reader of this stream has gone: ranks that continue to write get the error of the system.
    CloseOutput(Stream),
    /// A rank has ended and will enter no further fence.
    RankGone(RankGone),
    /// Ranks have failed, and the others continue.
    Failed(FailedRanks),
    /// The node with this number among the hosts is lost, and the run continues.
    NodeLost(u32),
    /// Ranks wait in this fence; nodes without a rank that runs contribute to it at once.
    FenceEntered(FenceNumber),
    /// Requests the state of ranks.
    Report(ReportRequest),
    /// Ends the node. No rank is left.
    Finish,
    /// Operation of ranks on several nodes.
    Operation(OperationReply),
    /// Spawned job.
    Spawn(SpawnNotice),
    /// Has the receiving node send data of all jobs to a node that joins the run.
    SendEarlier {
        /// Number of that node in the tree.
        node: u32,
        /// Number of the last result that it has not received.
        ended: u64,
    },
    /// Data of a job that fences have carried before the receiving node joined, from another node.
    Earlier {
        /// The job.
        job: u32,
        /// Records.
        #[serde(with = "byte_vec")]
        data: Vec<u8>,
    },
    /// End of such data.
    EarlierEnded,
    /// A piece of the trace of the run so far, for a page that begins to observe it.
    RecentRecords {
        /// Number of the page.
        page: u32,
        /// The trace, as in a file.
        #[serde(with = "byte_vec")]
        trace: Vec<u8>,
    },
    /// Further records of the run, for the pages that observe it.
    Records(#[serde(with = "byte_vec")] Vec<u8>),
    /// Answer to [`ToRun::Clock`].
    Clock {
        /// The time of the request.
        sent_ns: u64,
        /// Time of the head.
        ///
        /// Units: nanoseconds of its monotonic clock.
        head_ns: u64,
    },
    /// Asks for what a rank has written, since text of others waits for the end of its line. Its end in the
    /// output is [`OutputRecord::UpToDate`](crate::stdio::record::OutputRecord::UpToDate).
    WantLine {
        /// The job.
        job: u32,
        /// The rank.
        rank: u32,
        /// The stream.
        stream: Stream,
    },
}

/// Message of a node to the head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToRun {
    /// The next ranks of a job on the node were started, in ascending order, as these processes.
    Started {
        /// The job.
        job: u32,
        /// Numbers of the processes.
        pids: Vec<i32>,
    },
    /// A rank has ended.
    Ended(RankEnded),
    /// The first failure on the node. Its ranks are being terminated.
    Failed {
        /// Job of the rank that it is about.
        job: u32,
        /// Cause.
        failure: Failure,
        /// Number of output messages that the node had sent before.
        outputs: u64,
    },
    /// Output of ranks: [`OutputRecord`](crate::stdio::record::OutputRecord)s, one after the other.
    Output(#[serde(with = "byte_vec")] Vec<u8>),
    /// The readers of the node have taken the input so far, and want more.
    InputWanted,
    /// The readers of the node take no more input.
    InputClosed,
    /// A failure of a rank of this job after which the other ranks continue.
    Tolerated(u32, Failure),
    /// The node has contributed to this fence, in a run that continues after failures.
    FenceEntered(FenceNumber),
    /// A node whose parent this one is does not answer, or it does again.
    ChildSilent {
        /// Number of that node in the tree.
        node: u32,
        /// What does not answer.
        silence: Option<Silence>,
    },
    /// Ranks of the node wait, and none has made progress for a while.
    Standstill,
    /// A signal to the node requests a report of the state of the run.
    StateWanted,
    /// In the process of the run: the terminal of the user is raw for this rank, or for none.
    Terminal(Option<u32>),
    /// State of ranks.
    Report(NodeReport),
    /// All ranks of the node have ended.
    Quiet {
        /// Number of output messages that the node has sent; no other follows, unless a job is spawned.
        outputs: u64,
        /// Number of jobs that it knows.
        jobs: u32,
    },
    /// Operation of ranks on several nodes.
    Operation(OperationRequest),
    /// Spawn request of a rank of the node.
    Spawn(Box<SpawnMessage>),
    /// A rank of a spawned job cannot be started on the node.
    NotStarted {
        /// The job.
        job: u32,
        /// Cause.
        failure: Failure,
    },
    /// The node has sent data of all jobs to a node that joins the run.
    EarlierSent {
        /// Number of that node in the tree.
        node: u32,
    },
    /// Requests the time of the head, for a trace.
    Clock {
        /// Time of the node.
        ///
        /// Units: nanoseconds of its monotonic clock.
        sent_ns: u64,
    },
    /// Records of the trace. Counts as output.
    Trace {
        /// Time 0 of the records, by the clock of the head.
        ///
        /// Units: nanoseconds.
        zero_ns: i64,
        /// Whole records, as in a file.
        #[serde(with = "byte_vec")]
        records: Vec<u8>,
    },
    /// A page of the node begins to observe the run: requests the records of all nodes from then on.
    Observe {
        /// Its number.
        page: u32,
    },
    /// No page observes the run any more.
    NotObserved,
    /// To the parent: output of the node and of those below it, in a run in which equal lines are written
    /// once.
    Merged {
        /// For each node of these numbers: its batches up to this number are here, or were in earlier
        /// messages.
        counts: Vec<(u32, u64)>,
        /// Records, as in `Output`.
        #[serde(with = "byte_vec")]
        records: Vec<u8>,
    },
}

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SignalMessage {
    /// Its number.
    pub(crate) signal: i32,
    /// True if the system has sent it to the process group of the receiving process as well.
    pub(crate) is_for_group: bool,
}

impl SignalMessage {
    /// A signal to one process.
    pub(crate) const fn alone(signal: i32) -> Self {
        Self { signal, is_for_group: false }
    }

    /// The signal; `None` for a number without one.
    pub(crate) fn arrived(self) -> Option<Arrived> {
        let Self { signal, is_for_group } = self;
        Some(Arrived { signal: Signal::from_named_raw(signal)?, is_for_group })
    }
}

impl From<Arrived> for SignalMessage {
    fn from(Arrived { signal, is_for_group }: Arrived) -> Self {
        Self { signal: signal.as_raw(), is_for_group }
    }
}

/// End of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankEnded {
    /// Its job.
    pub(crate) job: u32,
    /// The rank.
    pub(crate) rank: u32,
    /// Exit code or signal.
    pub(crate) ending: ProcessEnd,
    /// Its PMI phase at its end.
    pub(crate) phase: PmiPhase,
    /// True if it had been asked to terminate.
    pub(crate) was_over: bool,
    /// Number of fences that it has entered.
    pub(crate) fence_count: u32,
    /// Its messages and bytes.
    pub(crate) traffic: Traffic,
    /// True if it has called `MPI_Init` without the launcher, which counts as a failure.
    pub(crate) is_singleton: bool,
}

/// Ranks that have failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailedRanks {
    /// Their job.
    pub(crate) job: u32,
    /// Ranks of the job that have failed, for its key-value space: as many as a value may list.
    pub(crate) all: Vec<u32>,
    /// Those that have failed now, with their ends.
    pub(crate) new: Vec<(u32, ProcessEnd, PmiPhase)>,
}

/// A rank that has ended, and the first fence that it has not entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankGone {
    /// Its job.
    pub(crate) job: u32,
    /// The rank.
    pub(crate) rank: u32,
    /// Number of the fence.
    pub(crate) fence: u32,
}

/// A fence of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FenceNumber {
    /// The job.
    pub(crate) job: u32,
    /// Number of the fence among those of the job.
    pub(crate) number: u32,
}

impl ToNode {
    /// Reads a body; `None` if it is malformed.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        whole(body)
    }

    /// The body of the message.
    pub(crate) fn body(&self) -> Vec<u8> {
        write(self)
    }
}

impl ToRun {
    /// Reads a body; `None` if it is malformed.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        whole(body)
    }

    /// The body of the message.
    pub(crate) fn body(&self) -> Vec<u8> {
        write(self)
    }
}

/// Reads a message that ends with the body.
fn whole<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    let (message, rest) = postcard::take_from_bytes(body).ok()?;
    rest.is_empty().then_some(message)
}

fn write(message: &impl Serialize) -> Vec<u8> {
    // Types of this module have no serialization that can fail.
    postcard::to_stdvec(message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::job_message::tests::job;
    use super::super::spawn_message::tests::{notices, request};
    use super::*;
    use crate::link::node_report::{JobReport, NodeWait, RowsWanted};
    use crate::operation::tests::{replies, requests};
    use crate::watch::process::State;
    use crate::watch::table::{Phase, Rank, WaitCondition};
    use pmi_host_base::ranges::Ranks;
    use std::time::Duration;

    fn ranks(all: impl IntoIterator<Item = u32>) -> Ranks {
        all.into_iter().collect()
    }

    fn report() -> NodeReport {
        let rank = Rank {
            rank: 3,
            pid: Some(4711),
            host: None,
            phase: Phase::Silent,
            state: Some(State::Stopped),
            kernel_wait: Some("do_signal_stop".to_owned()),
            cpu_seconds: Some(0.03),
            cpu_seconds_new: None,
            messages: 0,
            last_message: None,
            last_message_is_answer: false,
            last_message_seconds: None,
            activity: None,
        };
        let wait = NodeWait {
            what: WaitCondition::Value { key: None, job: None, rank: Some(1) },
            inside: ranks([0, 1, 2]),
            missing: ranks([3]),
            elsewhere: vec![("kvs_7_1".to_owned(), ranks([0]))],
            seconds: Some(1.5),
        };
        let job = JobReport {
            name: "kvs_7_0".to_owned(),
            fences: 1,
            messages: 9,
            waits_for: Some(Duration::from_millis(1500)),
            in_init: None,
            progress_ago: None,
            waits: vec![wait],
            more_waits: 0,
            ranks: vec![rank],
            more_ranks: 2,
        };
        let variables = vec![("CUDA_VISIBLE_DEVICES".into(), "0,3".into())];
        NodeReport { number: 5, jobs: vec![job], variables }
    }

    fn of_head() -> Vec<ToNode> {
        let mut all = vec![
            ToNode::Job(Box::new(job())),
            ToNode::Forward(SignalMessage::alone(12)),
            ToNode::ForwardEnd(SignalMessage { signal: 2, is_for_group: true }),
            ToNode::Stop(SignalMessage::alone(20)),
            ToNode::Resume,
            ToNode::Terminate { code: -1 },
            ToNode::Kill,
            ToNode::Input(b"a\0b".to_vec()),
            ToNode::InputEnded,
            ToNode::TerminalSize { rows: 24, columns: 300 },
            ToNode::CloseOutput(Stream::Err),
            ToNode::SendEarlier { node: 4, ended: 3 },
            ToNode::Earlier { job: 1, data: b"records".to_vec() },
            ToNode::EarlierEnded,
            ToNode::RankGone(RankGone { job: 1, rank: 3, fence: 1 << 20 }),
            ToNode::Failed(FailedRanks {
                job: 0,
                all: vec![1, 7],
                new: vec![(7, ProcessEnd::Exited(3), PmiPhase::Open)],
            }),
            ToNode::NodeLost(2),
            ToNode::FenceEntered(FenceNumber { job: 1, number: 3 }),
            ToNode::Report(ReportRequest { number: 1, rows: RowsWanted::NoRank }),
            ToNode::Report(ReportRequest {
                number: u32::MAX,
                rows: RowsWanted::Listed(vec![("kvs_7_0".to_owned(), ranks([1, 2, 7]))]),
            }),
            ToNode::Finish,
            ToNode::RecentRecords { page: 300, trace: b"pmi".to_vec() },
            ToNode::Records(b"\x01\0\0\0\0".to_vec()),
            ToNode::Clock { sent_ns: 1, head_ns: u64::MAX },
        ];
        all.extend(replies().map(ToNode::Operation));
        all.extend(notices().map(ToNode::Spawn));
        all
    }

    fn of_agent() -> Vec<ToRun> {
        let failure = |failure| ToRun::Failed { job: 0, failure, outputs: 300 };
        let ending = ProcessEnd::Killed { signal: 11, dumped: true };
        let traffic = Traffic { requests: 1, received_bytes: 2, sent_bytes: 3 };
        let (rank, phase) = (u32::MAX, PmiPhase::Open);
        let ended = RankEnded {
            job: 1,
            rank,
            ending,
            phase,
            was_over: true,
            fence_count: 2,
            traffic,
            is_singleton: true,
        };
        let mut all = vec![
            ToRun::Started { job: 0, pids: vec![7, i32::MAX] },
            ToRun::Ended(ended),
            failure(Failure::Ended { rank, ending: ProcessEnd::Exited(3), phase }),
            failure(Failure::Abort { rank: 1, code: -1, message: "ä".to_owned() }),
            failure(Failure::Stalled { limit: Duration::from_millis(1500) }),
            failure(Failure::Vanished { rank: 1, from: ([127, 0, 0, 1], 4000).into() }),
            ToRun::Output(b"\0\x01\x00".to_vec()),
            ToRun::InputWanted,
            ToRun::InputClosed,
            ToRun::Tolerated(1, Failure::Ended { rank, ending: ProcessEnd::Exited(3), phase }),
            ToRun::FenceEntered(FenceNumber { job: 0, number: u32::MAX }),
            ToRun::Standstill,
            ToRun::Report(report()),
            ToRun::Quiet { outputs: 1 << 40, jobs: 1 },
            ToRun::Spawn(Box::new(request())),
            ToRun::NotStarted { job: 1, failure: Failure::Launcher { what: "no".to_owned() } },
            ToRun::Clock { sent_ns: u64::MAX },
            ToRun::Trace { zero_ns: -7, records: b"\x01\0\0\0\0".to_vec() },
            ToRun::Observe { page: 300 },
            ToRun::NotObserved,
            ToRun::Merged { counts: vec![(1, 3), (5, 1 << 40)], records: b"\x01".to_vec() },
        ];
        all.extend(requests().map(ToRun::Operation));
        all
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for message in of_head() {
            assert_eq!(ToNode::read(&message.body()), Some(message));
        }
        for message in of_agent() {
            assert_eq!(ToRun::read(&message.body()), Some(message));
        }
    }

    #[test]
    fn cut_and_extended_messages_are_rejected() {
        for message in of_head() {
            let mut body = message.body();
            for len in 0..body.len() {
                assert_ne!(ToNode::read(&body[..len]), Some(message.clone()), "{message:?}");
            }
            body.push(0);
            assert_eq!(ToNode::read(&body), None, "{message:?}");
        }
        for message in of_agent() {
            let mut body = message.body();
            for len in 0..body.len() {
                assert_eq!(ToRun::read(&body[..len]), None, "{message:?}");
            }
            body.push(0);
            assert_eq!(ToRun::read(&body), None, "{message:?}");
        }
    }

    #[test]
    fn sets_of_ranks_that_do_not_ascend_are_rejected() {
        let mut body = ToRun::Report(report()).body();
        // The runs of the waiting ranks, 0 to 2.
        let at = body.windows(3).position(|bytes| bytes == [1, 0, 2]).unwrap();
        body[at + 1] = 3;
        assert_eq!(ToRun::read(&body), None);
    }

    #[test]
    fn lengths_beyond_the_body_take_no_memory() {
        // Variant 0 of the node: a list of 2^32 - 1 processes, of which none follows.
        assert_eq!(ToRun::read(b"\x00\x00\xff\xff\xff\xff\x0f"), None);
        assert_eq!(ToRun::read(b"\x03\xff\xff\xff\xff\x0fabc"), None);
    }
}
