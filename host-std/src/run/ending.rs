//! The order in which a run on several nodes ends: first failure, its report, and deadlines.

use crate::link::message::{FenceNumber, RankGone};
use crate::settings;
use crate::termination::Termination;
use pmi_host_os::clock;
use pmi_host_os::stream::Stream;
use pmi_nodes::failed_host::HostsLeftOut;
use pmi_tree::NodeId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Progress of a run on several nodes towards its end.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) termination: Termination,
    /// Time limit of the run: deadline and duration.
    limit: Option<(Instant, Duration)>,
    /// Report of the first failure, until the output before it has arrived.
    report: Option<PendingReport>,
    /// True once all nodes were asked to terminate their ranks.
    is_terminating: bool,
    /// Time at which all ranks are killed.
    kill_at: Option<Instant>,
    /// Time at which the head stops waiting for the end of its nodes.
    give_up_at: Option<Instant>,
    /// Time at which the head stops waiting for nodes that it has dismissed.
    leave_at: Option<Instant>,
    /// True once starters were asked to end.
    has_asked_starters: bool,
    pub(super) hosts: HostChoice,
    /// True if nothing but output is left.
    is_over: bool,
    /// True for streams whose readers have gone, once the nodes know.
    closed: [bool; 2],
    /// By job: first fence that cannot complete, because a rank has ended without entering it.
    blocked_fences: BTreeMap<u32, u32>,
    /// By job: last fence that a node has contributed to, in a run that continues after failures.
    entered_fences: BTreeMap<u32, u32>,
}

/// Asks the batch system for the hosts of the allocation; the error is a message.
pub(crate) type FindPresent = fn() -> Result<Vec<String>, String>;

/// Hosts that may be left out of the run.
#[derive(Debug, Default)]
pub(super) struct HostChoice {
    /// Number of hosts that the run needs; `None` if it needs all.
    pub(super) min_nodes: Option<u32>,
    /// True if the ranks of a host start before all hosts have joined.
    pub(super) starts_early: bool,
    /// Finds those that the allocation has now, if its batch system can tell.
    pub(super) find_present: Option<FindPresent>,
    /// Hosts without which the run starts again.
    pub(super) left_out: HostsLeftOut,
}

/// Report of a failure that follows the output of its node.
#[derive(Debug)]
pub(super) struct PendingReport {
    pub(super) text: String,
    pub(super) node: NodeId,
    /// Number of output messages of the node that precede it.
    pub(super) outputs: u64,
    /// Time at which it is printed in any case.
    pub(super) until: Instant,
}

/// Deadline that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndingEvent {
    /// The time limit of the run.
    TimedOut { limit: Duration },
    /// All ranks are to be killed.
    Kill,
    /// Nodes have not ended in time.
    GiveUp,
    /// Starters of nodes that were dismissed are asked to end.
    AskStarters,
    /// Nodes that were dismissed are not waited for any more.
    Leave,
}

impl Ending {
    pub(super) fn new(settings: &settings::Ending) -> Self {
        let now = clock::now();
        let limit = settings.timeout;
        Self {
            termination: Termination::default(),
            limit: limit.and_then(|limit| Some((now.checked_add(limit)?, limit))),
            report: None,
            is_terminating: false,
            kill_at: None,
            give_up_at: None,
            leave_at: None,
            has_asked_starters: false,
            hosts: HostChoice::default(),
            is_over: false,
            closed: [false; 2],
            blocked_fences: BTreeMap::new(),
            entered_fences: BTreeMap::new(),
        }
    }

    /// Records a rank that has ended; true if that blocks an earlier fence of its job than those before it.
    pub(super) fn note_gone(&mut self, gone: RankGone) -> bool {
        let is_earlier = self.blocked_fences.get(&gone.job).is_none_or(|fence| gone.fence < *fence);
        if is_earlier {
            self.blocked_fences.insert(gone.job, gone.fence);
        }
        is_earlier
    }

    /// Records a fence that a node has contributed to; false if that one or a later one was known.
    pub(super) fn note_fence(&mut self, FenceNumber { job, number }: FenceNumber) -> bool {
        let is_later = self.entered_fences.get(&job).is_none_or(|last| *last < number);
        if is_later {
            self.entered_fences.insert(job, number);
        }
        is_later
    }

    /// The last fence of a job that a node has contributed to.
    pub(super) fn entered_fence(&self, job: u32) -> Option<FenceNumber> {
        let number = *self.entered_fences.get(&job)?;
        Some(FenceNumber { job, number })
    }

    /// Records that the reader of a stream has gone; false if that was done before.
    pub(super) fn note_closed(&mut self, stream: Stream) -> bool {
        !std::mem::replace(&mut self.closed[stream.index()], true)
    }

    /// Holds a report back until [`take_report`](Self::take_report) returns it.
    pub(super) fn hold_report(&mut self, text: String, node: NodeId, outputs: u64) {
        let until = clock::now() + REPORT_WITHIN;
        self.report = Some(PendingReport { text, node, outputs, until });
    }

    /// The report that was held back, if the output before it has arrived, or its time has come.
    pub(super) fn take_report(
        &mut self,
        has_arrived: impl FnOnce(&PendingReport) -> bool,
    ) -> Option<String> {
        let now = clock::now();
        let is_due = |report: &mut PendingReport| now >= report.until || has_arrived(report);
        self.report.take_if(is_due).map(|report| report.text)
    }

    /// Records that all nodes are asked to terminate their ranks; false if that was done before. They are
    /// killed after `grace` if it is shorter than that of the nodes.
    pub(super) fn begin_terminating(&mut self, grace: Option<Duration>) -> bool {
        let now = clock::now();
        if let Some(grace) = grace {
            let at = now + grace;
            self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
        }
        self.give_up_at.get_or_insert(now + GIVE_UP_AFTER);
        !std::mem::replace(&mut self.is_terminating, true)
    }

    /// Records that nodes are dismissed; false if that was done before.
    pub(super) fn begin_leaving(&mut self) -> bool {
        if self.leave_at.is_some() || self.is_over {
            return false;
        }
        (self.give_up_at, self.kill_at) = (None, None);
        self.leave_at = Some(clock::now() + LEAVE_WITHIN);
        true
    }

    /// True once nodes are dismissed.
    pub(super) const fn is_leaving(&self) -> bool {
        self.leave_at.is_some() || self.is_over
    }

    /// True if nothing more is started: the run has failed, or nodes are dismissed.
    pub(super) fn has_begun(&self) -> bool {
        self.is_leaving() || self.termination.has_failed()
    }

    /// Records that nothing but output is left.
    pub(super) fn set_over(&mut self) {
        (self.give_up_at, self.kill_at, self.leave_at) = (None, None, None);
        self.is_over = true;
    }

    /// True if nothing but output is left.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over && self.report.is_none()
    }

    /// End of the time limit of the run.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        self.limit.map(|(at, _)| at)
    }

    /// Time of the next deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let limit = self.limit.map(|(at, _)| at);
        let report = self.report.as_ref().map(|report| report.until);
        [limit, report, self.kill_at, self.give_up_at, self.leave_at].into_iter().flatten().min()
    }

    /// The next deadline that has passed, once.
    pub(super) fn check(&mut self, now: Instant) -> Option<EndingEvent> {
        let has_passed = |at: &mut Instant| now >= *at;
        if let Some((_, limit)) = self.limit.take_if(|(at, _)| now >= *at) {
            return Some(EndingEvent::TimedOut { limit });
        }
        if self.kill_at.take_if(has_passed).is_some() {
            return Some(EndingEvent::Kill);
        }
        if self.give_up_at.take_if(has_passed).is_some() {
            return Some(EndingEvent::GiveUp);
        }
        self.leave_at.take_if(has_passed)?;
        if std::mem::replace(&mut self.has_asked_starters, true) {
            return Some(EndingEvent::Leave);
        }
        self.leave_at = Some(now + LEAVE_WITHIN);
        Some(EndingEvent::AskStarters)
    }
}

/// Longest delay of a report for the output of ranks before it.
const REPORT_WITHIN: Duration = Duration::from_secs(1);

/// Longest wait for the end of all ranks: nodes kill theirs after 3 s and give up after 3 more.
const GIVE_UP_AFTER: Duration = Duration::from_secs(8);

/// Longest wait for nodes that were dismissed, and then for their starters, which remove what they have
/// stored.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);
