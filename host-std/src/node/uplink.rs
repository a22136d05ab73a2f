//! Connection of a node to the head of its run: messages in both directions, and input for ranks.

use super::earlier::EarlierData;
use super::processes::Processes;
use crate::launch::start::launcher::Launcher;
use crate::launch::topology::resources::OwnResources;
use crate::link::message::{FenceNumber, RankEnded, RankGone, ToNode, ToRun};
use crate::link::{RunLink, ToOwnNode};
use crate::server::nodes::FenceRule;
use crate::stdio::StreamOwner;
use crate::stdio::merge::MergedOutput;
use crate::stdio::outputs::{NodeOutput, Outputs};
use crate::trace::{Tracer, monotonic_ns};
use crate::verdict::Failure;
use pmi_host_os::cleanup::guard::Guard;
use pmi_host_os::clock;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_nodes::clock::ClockSync;
use pmi_nodes::network::{Network, NetworkEvent};
use pmi_nodes::stage::StagedPrograms;
use pmi_tree::{
    ChildMessage, Class, CollectiveId, Destination, NodeId, Silence, TreeConfig, TreeEvent,
    TreeNode,
};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::Instant;

/// The node's side of a run on several nodes.
pub(super) struct Uplink {
    pub(super) link: RunLink,
    /// Number of this node among the hosts.
    node: u32,
    /// Number of processes whose start was reported.
    started_count: usize,
    sent: SentOutput,
    input: ReaderPipe,
    jobs: RemoteJobs,
    /// In a run whose messages are recorded: difference between the clocks.
    clock: Option<ClockSync>,
    /// Way of committed data to other nodes.
    fence_rule: FenceRule,
    /// Programs that were sent to this host, which are removed with this value.
    pub(super) programs: StagedPrograms,
    /// Number of requests for the trace of the run that the head has not answered; `None` unless pages
    /// observe it.
    observed: Option<u32>,
    state: UplinkState,
    /// In the process of the run: rank for which the terminal of the user is raw.
    raw_for: Option<u32>,
    /// Data of jobs for nodes that join later.
    pub(super) earlier: EarlierData,
}

/// Output that was sent to the head, or to the parent to be merged.
#[derive(Debug, Default)]
struct SentOutput {
    /// Number of output messages of this node, and of batches of output.
    outputs_count: u64,
    /// Number of batches of output that were merged with that of other nodes.
    batches_count: u64,
    /// Number of messages to the parent.
    merged_count: u64,
    /// Messages of children that are settled with these messages to the parent.
    unsettled: VecDeque<(u64, Vec<ChildMessage>)>,
}

/// Messages of the head about jobs, which also concern ranks of other nodes.
#[derive(Debug, Default)]
struct RemoteJobs {
    /// By job: the rank that left before all others.
    gone: BTreeMap<u32, RankGone>,
    /// By job: the last fence that other nodes have entered, in a run that continues after failures.
    fences: BTreeMap<u32, u32>,
    /// Spawned jobs that have ended and are still connected with others, the oldest first.
    ended: VecDeque<u32>,
}

/// Progress of a node towards its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UplinkState {
    /// Ranks may run.
    Busy,
    /// No rank is left, and the head knows.
    Quiet,
    /// The head has dismissed the node.
    Finished,
    /// The head is lost.
    Lost,
}

/// Event of the connection for the rest of the node.
#[derive(Debug)]
pub(super) enum UplinkEvent {
    /// What the run has sent.
    FromRun(ToOwnNode),
    /// A collective operation has ended on all nodes.
    CollectiveEnded { id: CollectiveId, data: Rc<[u8]>, members: u64 },
    /// A child has sent output.
    FromChild { child: NodeId, message: ChildMessage, body: Vec<u8> },
    /// The head is lost: all ranks are to be killed.
    HeadLost,
}

/// Pipe to the standard input of the node, which its ranks read as if it were the head's.
#[derive(Debug, Default)]
struct ReaderPipe {
    write: Option<OwnedFd>,
    watched: Option<Interest>,
    /// Bytes that the pipe has not taken.
    left: Vec<u8>,
    /// True if no input follows.
    has_ended: bool,
}

impl Uplink {
    /// Creates the node's side. The standard input of this process becomes a pipe from the head if its ranks
    /// are to read.
    pub(super) fn new(
        mut link: RunLink,
        node: u32,
        has_readers: bool,
        poller: &Poller,
    ) -> io::Result<Self> {
        let joins_late = link.network().is_some_and(|network| network.joins_late());
        let earlier = EarlierData::new(joins_late);
        let mut input = ReaderPipe::default();
        // A node in the process of its run has the standard input of that.
        if has_readers && !link.has_streams_of_user() {
            input.open(poller)?;
        }
        Ok(Self {
            link,
            node,
            started_count: 0,
            sent: SentOutput::default(),
            input,
            jobs: RemoteJobs::default(),
            clock: None,
            fence_rule: FenceRule::default(),
            programs: StagedPrograms::default(),
            observed: None,
            state: UplinkState::Busy,
            raw_for: None,
            earlier,
        })
    }

    /// Prepares the output of the ranks of this node, and of what it merges.
    pub(super) fn prepare_outputs(&mut self, output: NodeOutput) -> Outputs {
        let place =
            TreeConfig::new(NodeId(self.node.saturating_add(1)), self.node.saturating_add(2));
        let tree = self.tree().map(|tree| *tree.config());
        Outputs::of_node(output, tree.unwrap_or(place))
    }

    /// Sets the way of committed data to other nodes.
    pub(super) fn set_fence_rule(&mut self, rule: FenceRule) {
        self.fence_rule = rule;
    }

    /// Way of committed data to other nodes.
    pub(super) fn fence_rule(&self) -> FenceRule {
        self.fence_rule
    }

    /// Sets whether the records of ranks go to the head.
    pub(super) fn send_trace(&mut self, is_traced: bool) {
        self.clock = is_traced.then(|| self.link.clock());
    }

    /// True if the records of ranks go to the head.
    pub(super) fn sends_trace(&self) -> bool {
        self.clock.is_some()
    }

    /// Number of this node among the hosts.
    pub(super) const fn node(&self) -> u32 {
        self.node
    }

    /// Describes this node to the run in its process.
    pub(super) fn describe_node(&self, launcher: &Launcher, resources: &Rc<OwnResources>) {
        let mark = launcher.guard.as_ref().map(Guard::mark);
        self.link.describe_node(mark, launcher.limit.most(), resources);
    }

    fn tree(&mut self) -> Option<&mut TreeNode> {
        self.link.network()?.tree()
    }

    /// The next event, after connections were served.
    pub(super) fn poll_event(&mut self) -> Option<UplinkEvent> {
        let of_own_run = self.link.next_of_own_run().map(UplinkEvent::FromRun);
        of_own_run.or_else(|| self.poll_network())
    }

    fn poll_network(&mut self) -> Option<UplinkEvent> {
        loop {
            match self.link.network()?.poll_event()? {
                NetworkEvent::Tree(TreeEvent::Message { body, .. }) => {
                    return Some(match ToNode::read(&body) {
                        Some(message) => UplinkEvent::FromRun(ToOwnNode::Message(message)),
                        // The head has the same version, so this is a defect; ranks without a head must end.
                        None => self.lose(),
                    });
                }
                NetworkEvent::Tree(TreeEvent::CollectiveEnded { id, data, members, .. }) => {
                    return Some(UplinkEvent::CollectiveEnded { id, data, members });
                }
                NetworkEvent::Tree(TreeEvent::FromChild { child, message, body }) => {
                    return Some(UplinkEvent::FromChild { child, message, body });
                }
                // A silent parent cannot be reported to the head.
                NetworkEvent::Tree(TreeEvent::Silent { peer, silence }) => {
                    self.report_silence(peer, Some(silence));
                }
                NetworkEvent::Tree(TreeEvent::Continued { peer }) => {
                    self.report_silence(peer, None);
                }
                NetworkEvent::HeadLost { .. } if self.state != UplinkState::Finished => {
                    return Some(self.lose());
                }
                _ => {}
            }
        }
    }

    /// Reports that a child is silent, or continues.
    fn report_silence(&mut self, peer: NodeId, silence: Option<Silence>) {
        let is_child = |tree: &mut TreeNode| tree.children().any(|child| child == peer);
        if self.tree().is_some_and(is_child) {
            self.send(ToRun::ChildSilent { node: peer.0, silence });
        }
    }

    fn lose(&mut self) -> UplinkEvent {
        self.state = UplinkState::Lost;
        UplinkEvent::HeadLost
    }

    /// Records a rank that has left earlier than those known: fences from the one that it has not entered
    /// cannot complete.
    pub(super) fn note_gone(&mut self, gone: RankGone) {
        self.jobs.gone.insert(gone.job, gone);
    }

    /// For each job, the rank that left before all others.
    pub(super) fn gone(&self) -> Vec<RankGone> {
        self.jobs.gone.values().copied().collect()
    }

    /// True if a message of a rank may concern other nodes although it causes no event of the server: records
    /// of ranks go to the head, or the end of a fence depends on ranks that are gone.
    pub(super) fn follows_messages(&self) -> bool {
        self.sends_trace() || !self.jobs.gone.is_empty() || !self.jobs.fences.is_empty()
    }

    /// Records a fence that other nodes have entered.
    pub(super) fn note_fence(&mut self, fence: FenceNumber) {
        self.jobs.fences.insert(fence.job, fence.number);
    }

    /// For each job, the last fence that other nodes have entered.
    pub(super) fn fences(&self) -> Vec<FenceNumber> {
        self.jobs
            .fences
            .iter()
            .map(|(job, number)| FenceNumber { job: *job, number: *number })
            .collect()
    }

    /// Sends the start of processes that was not reported yet.
    pub(super) fn report_starts(&mut self, processes: &Processes) {
        let new: Vec<_> = processes.iter().skip(self.started_count).collect();
        self.started_count += new.len();
        for of_job in new.chunk_by(|one, other| one.job == other.job) {
            let pids = of_job.iter().map(|entry| entry.pid).collect();
            let job = of_job.first().map_or(0, |entry| entry.job.0);
            self.send(ToRun::Started { job, pids });
        }
    }

    /// Tells the run in this process for which rank the terminal of the user is raw: with `begins`, if it has
    /// become raw, else if it is raw no more.
    pub(super) fn report_terminal(&mut self, raw_for: Option<StreamOwner>, begins: bool) {
        let rank = raw_for.map(|owner| owner.rank);
        if self.link.has_streams_of_user() && rank.is_some() == begins && self.raw_for != rank {
            self.raw_for = rank;
            self.send(ToRun::Terminal(rank));
        }
    }

    /// Sends the end of a rank.
    pub(super) fn report_end(&mut self, ended: RankEnded) {
        self.send(ToRun::Ended(ended));
    }

    /// Sends the first failure on this node.
    pub(super) fn report_failure(&mut self, job: u32, failure: &Failure) {
        let failure = failure.clone();
        self.send(ToRun::Failed { job, failure, outputs: self.sent.outputs_count });
    }

    /// Sends queued output as far as the head takes it.
    pub(super) fn send_outputs(&mut self, outputs: &mut Outputs) {
        if let (Some(merge), Some(tree)) = (outputs.merge(), self.tree()) {
            merge.set_children(tree.children());
            return self.send_merged(outputs);
        }
        while self.link.takes_output() {
            let records = outputs.take_records();
            if records.is_empty() {
                return;
            }
            self.sent.outputs_count += 1;
            self.link.send_output(ToRun::Output(records));
        }
    }

    /// Sends output of this node and of those below to the parent, equal lines once.
    fn send_merged(&mut self, outputs: &mut Outputs) {
        // What is sent makes room for more of the ranks of this node.
        loop {
            while outputs.merge_own(self.sent.batches_count + 1) {
                self.sent.batches_count += 1;
                self.sent.outputs_count += 1;
            }
            let Some(merge) = outputs.merge() else { return };
            merge.release(clock::now());
            let first_count = self.sent.merged_count;
            while self.link.takes_output()
                && let Some(MergedOutput { messages, counts, records }) = merge.take()
            {
                self.sent.merged_count += 1;
                self.sent.unsettled.push_back((self.sent.merged_count, messages));
                let body = ToRun::Merged { counts, records }.body();
                if let Some(network) = self.link.network() {
                    // Only a node without a head cannot send, and it ends.
                    let _ = network.send(Destination::Parent, Class::Output, body);
                }
            }
            if self.sent.merged_count == first_count {
                break;
            }
        }
        let Some(tree) = self.link.network().and_then(Network::tree) else { return };
        let passed_on = tree.passed_on();
        let is_settled = |(number, _): &(u64, Vec<ChildMessage>)| *number <= passed_on;
        while self.sent.unsettled.front().is_some_and(is_settled)
            && let Some((_, messages)) = self.sent.unsettled.pop_front()
        {
            messages.into_iter().for_each(|message| tree.settle(message));
        }
    }

    /// Sends records as far as the head takes them, once the difference between the clocks is known. Returns
    /// true if none is left.
    pub(super) fn send_records(&mut self, tracer: &mut Tracer) -> bool {
        let Some(clock) = &mut self.clock else { return true };
        let sent_ns = monotonic_ns();
        if clock.poll_request(sent_ns) {
            self.send(ToRun::Clock { sent_ns });
        }
        let Some(offset_ns) = self.clock.as_ref().and_then(ClockSync::offset_ns) else {
            return !tracer.has_unsent();
        };
        while self.link.takes_output() {
            let Some(records) = tracer.take_unsent() else { return true };
            self.sent.outputs_count += 1;
            let zero_ns = offset_ns.saturating_add_unsigned(tracer.zero_ns());
            self.link.send_output(ToRun::Trace { zero_ns, records });
        }
        !tracer.has_unsent()
    }

    /// Handles the time of the head, which it has sent in answer to the request of `sent_ns`.
    pub(super) fn handle_clock(&mut self, sent_ns: u64, head_ns: u64) {
        if let Some(clock) = &mut self.clock {
            clock.handle_answer(sent_ns, head_ns, monotonic_ns());
        }
    }

    /// Requests the records of the run for a page.
    pub(super) fn observe(&mut self, page: u32) {
        self.observed = Some(self.observed.unwrap_or_default() + 1);
        self.send(ToRun::Observe { page });
    }

    /// Records that the head has answered such a request.
    pub(super) fn note_observed(&mut self) {
        self.observed = self.observed.map(|open| open.saturating_sub(1));
    }

    /// Lets the head send no more records once no page observes the run.
    pub(super) fn note_observers(&mut self, is_watched: bool) {
        if self.observed == Some(0) && !is_watched {
            self.observed = None;
            self.send(ToRun::NotObserved);
        }
    }

    /// Reports once that no rank is left of this many jobs, and that everything was sent.
    pub(super) fn report_quiet(&mut self, jobs: u32) {
        if self.state == UplinkState::Busy {
            self.state = UplinkState::Quiet;
            self.send(ToRun::Quiet { outputs: self.sent.outputs_count, jobs });
        }
    }

    /// Records a new job, after which ranks may run again.
    pub(super) fn note_job(&mut self) {
        if self.state == UplinkState::Quiet {
            self.state = UplinkState::Busy;
        }
    }

    /// Records the end of a spawned job. Returns one that has ended before, whose connections are not needed
    /// any more.
    pub(super) fn note_job_end(&mut self, job: u32) -> Option<u32> {
        self.jobs.ended.push_back(job);
        if self.jobs.ended.len() > ENDED_KEPT { self.jobs.ended.pop_front() } else { None }
    }

    /// Records that the head has dismissed this node.
    pub(super) fn finish(&mut self) {
        self.state = UplinkState::Finished;
    }

    /// True if nothing is left to do, once no rank runs. Messages for nodes below this one are written by
    /// then.
    pub(super) fn is_done(&self) -> bool {
        match self.state {
            UplinkState::Busy | UplinkState::Quiet => false,
            UplinkState::Finished => !self.link.has_output(),
            UplinkState::Lost => true,
        }
    }

    /// Time of the next turn without an event.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.link.deadline()
    }

    /// Sends a message to the head.
    pub(super) fn send(&mut self, message: ToRun) {
        self.link.send(message);
    }
}

/// Input for ranks.
impl Uplink {
    /// Takes input from the head.
    pub(super) fn take_input(&mut self, bytes: Vec<u8>, poller: &Poller) -> io::Result<()> {
        self.input.left = bytes;
        self.feed(poller)
    }

    /// Closes the input after what has arrived.
    pub(super) fn end_input(&mut self, poller: &Poller) -> io::Result<()> {
        self.input.has_ended = true;
        self.feed(poller)
    }

    /// Continues after the pipe has become writable, or has no reader any more.
    pub(super) fn feed(&mut self, poller: &Poller) -> io::Result<()> {
        match self.input.write_more(poller)? {
            InputProgress::Waiting => {}
            InputProgress::Taken => self.send(ToRun::InputWanted),
            InputProgress::Closed => self.send(ToRun::InputClosed),
        }
        Ok(())
    }
}

/// Progress of input for ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputProgress {
    Waiting,
    /// The pipe takes more than there is.
    Taken,
    /// No reader is left.
    Closed,
}

impl ReaderPipe {
    fn open(&mut self, poller: &Poller) -> io::Result<()> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        // Little is taken from the head's input that no rank has read.
        fcntl_setpipe_size(&write, INPUT_BYTES)?;
        ioctl_fionbio(&write, true)?;
        rustix::stdio::dup2_stdin(&read)?;
        poller.rewatch(Token::NodeInput, &write, (&mut self.watched, Some(Interest::Write)))?;
        self.write = Some(write);
        Ok(())
    }

    fn write_more(&mut self, poller: &Poller) -> io::Result<InputProgress> {
        let Some(write) = &self.write else { return Ok(InputProgress::Waiting) };
        while !self.left.is_empty() {
            match rustix::io::write(write, &self.left) {
                Ok(count) => drop(self.left.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let change = (&mut self.watched, Some(Interest::Write));
                    poller.rewatch(Token::NodeInput, write, change)?;
                    return Ok(InputProgress::Waiting);
                }
                Err(_) => {
                    self.close(poller)?;
                    return Ok(InputProgress::Closed);
                }
            }
        }
        if self.has_ended {
            self.close(poller)?;
            return Ok(InputProgress::Waiting);
        }
        poller.rewatch(Token::NodeInput, write, (&mut self.watched, None))?;
        Ok(InputProgress::Taken)
    }

    fn close(&mut self, poller: &Poller) -> io::Result<()> {
        let Some(write) = self.write.take() else { return Ok(()) };
        poller.rewatch(Token::NodeInput, &write, (&mut self.watched, None))
    }
}

/// Number of spawned jobs that stay connected after their end: others may still read their data.
const ENDED_KEPT: usize = 16;

/// Capacity of the pipe: one page.
const INPUT_BYTES: usize = 4096;
