//! The events of a start: starters, node servers, ranks and their messages, on machines with processors.

use super::super::costs::{StartCost, StartCosts};
use super::plan::{StartLauncher, StartSchedule, StartSetting};
use super::processors::Processors;
use super::read_time;
use std::collections::{BTreeMap, VecDeque};

/// Times of a start, in microseconds from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StartTimes {
    /// The last `ssh` has executed its command.
    pub(super) starters: u64,
    /// The last node server has joined.
    pub(super) joined: u64,
    /// The last rank is connected.
    pub(super) ranks: u64,
    /// The last rank has returned from `MPI_Init`.
    pub(super) init: u64,
}

/// A due action.
#[derive(Clone, Copy, Debug)]
enum StartAction {
    /// A node executes the starters whose turn has come.
    Begin(u32),
    /// A part of the `ssh` of a host reaches the side that continues it.
    Ssh { host: u32, part: u32 },
    /// It has executed its command.
    Executed(u32),
    /// The node server of a host has started.
    Up(u32),
    /// A node that was started by another one has joined, which learns it now.
    Freed(u32),
    /// A task arrives at the event loop of a node.
    Arrived(u32, LoopTask),
    /// Its event loop has executed it.
    Done(u32, LoopTask),
    /// A node receives its place.
    Placed(u32),
    /// The head learns that a node is attached to its parent.
    Attached,
    /// A node receives the description of the job.
    Described(u32),
    /// A rank of a node is connected.
    Connected(u32),
    /// A rank of a node has done its own part of `MPI_Init`.
    Prepared(u32),
    /// A node receives the result of the fence.
    Fenced(u32),
    /// The first rank of a node has read the addresses of all hosts, which its others wait for.
    Returned,
}

/// A task of an event loop.
#[derive(Clone, Copy, Debug)]
enum LoopTask {
    /// The head prepares the run.
    Prepare,
    /// The head handles a node server that has connected.
    Join(u32),
    /// A node starts a rank.
    StartRank,
    /// It answers the messages of a rank in `MPI_Init`, up to its fence.
    Answer,
    /// It ends the fence of a rank.
    Release,
}

/// A node, or the head.
#[derive(Clone, Debug, Default)]
struct StartNode {
    /// Hosts that it has yet to start.
    waiting: VecDeque<u32>,
    /// Starters that wait for the node servers of their hosts.
    running: usize,
    has_joined: bool,
    is_placed: bool,
    /// Tasks of its event loop, behind the one that it executes.
    tasks: VecDeque<LoopTask>,
    is_busy: bool,
    /// Number of its ranks that have begun their requests, and that are behind the fence.
    asked: u32,
    released: u32,
    children: Vec<u32>,
}

/// A start under way.
struct StartRun<'a> {
    setting: &'a StartSetting,
    costs: &'a StartCosts,
    schedule: StartSchedule,
    is_bare: bool,
    now: u64,
    /// By time, and by the order of those of one time.
    due: BTreeMap<(u64, u64), StartAction>,
    /// Number of actions so far.
    order: u64,
    /// Processors by machine.
    machines: Vec<Processors>,
    /// Interfaces over which copies of the launcher leave.
    interfaces: Vec<Processors>,
    nodes: Vec<StartNode>,
    counts: StartCounts,
    times: StartTimes,
}

/// Numbers of what has happened.
#[derive(Clone, Copy, Debug, Default)]
struct StartCounts {
    attached: u32,
    entered: u64,
}

/// Simulates a start. `fence` is the time of a fence in the tree of node servers, in microseconds.
pub(super) fn run(
    launcher: StartLauncher,
    setting: &StartSetting,
    costs: &StartCosts,
    fence: u64,
) -> StartTimes {
    let mut run = StartRun::new(launcher, setting, costs, fence);
    run.arrive(0, 0, LoopTask::Prepare);
    while let Some(((time, _), action)) = run.due.pop_first() {
        run.now = time;
        run.act(action);
    }
    run.times
}

impl<'a> StartRun<'a> {
    fn new(
        launcher: StartLauncher,
        setting: &'a StartSetting,
        costs: &'a StartCosts,
        fence: u64,
    ) -> Self {
        let schedule = StartSchedule::new(launcher, setting, costs, fence);
        let count = schedule.starters.len();
        let machines = if setting.is_shared { 1 } else { count };
        let mut nodes = vec![StartNode::default(); count];
        for host in 1..=setting.hosts {
            let (starter, parent) = (schedule.starters[at(host)], schedule.parents[at(host)]);
            nodes[at(starter)].waiting.push_back(host);
            nodes[at(parent)].children.push(host);
        }
        // The head has its place.
        nodes[0].is_placed = true;
        Self {
            setting,
            costs,
            schedule,
            is_bare: launcher == StartLauncher::BareSsh,
            now: 0,
            due: BTreeMap::new(),
            order: 0,
            machines: vec![Processors::new(setting.cores); machines],
            interfaces: vec![Processors::new(1); count],
            nodes,
            counts: StartCounts::default(),
            times: StartTimes::default(),
        }
    }

    fn act(&mut self, action: StartAction) {
        match action {
            StartAction::Begin(node) => self.begin(node),
            StartAction::Ssh { host, part } => self.continue_ssh(host, part),
            StartAction::Executed(host) => self.handle_executed(host),
            StartAction::Up(host) => {
                if !self.schedule.is_placed {
                    self.begin(host);
                }
                self.arrive(HANDSHAKE_TRIPS * self.setting.latency, 0, LoopTask::Join(host));
            }
            StartAction::Freed(starter) => self.free(starter),
            StartAction::Arrived(node, task) => {
                self.nodes[at(node)].tasks.push_back(task);
                self.turn(node);
            }
            StartAction::Done(node, task) => {
                self.nodes[at(node)].is_busy = false;
                self.handle_done(node, task);
                self.turn(node);
            }
            StartAction::Placed(node) => self.handle_placed(node),
            StartAction::Attached => self.attach(),
            StartAction::Described(node) => {
                self.describe(node);
                for _ in 0..self.setting.ranks_per_host {
                    self.arrive(0, node, LoopTask::StartRank);
                }
            }
            StartAction::Connected(node) => {
                self.times.ranks = self.now;
                let own = if self.setting.has_mpi { self.costs.get(StartCost::MpiInit) } else { 0 };
                self.work(node, own, StartAction::Prepared(node));
            }
            StartAction::Prepared(node) => self.arrive(0, node, LoopTask::Answer),
            StartAction::Fenced(node) => {
                for _ in 0..self.setting.ranks_per_host {
                    self.arrive(0, node, LoopTask::Release);
                }
            }
            StartAction::Returned => self.times.init = self.now,
        }
    }

    /// Executes the starters of a node whose turn has come.
    fn begin(&mut self, node: u32) {
        let starts = &mut self.nodes[at(node)];
        while starts.running < self.schedule.at_once {
            let Some(host) = starts.waiting.pop_front() else { return };
            starts.running += 1;
            self.order += 1;
            self.due.insert((self.now, self.order), StartAction::Ssh { host, part: 0 });
        }
    }

    /// Lets both sides of an `ssh` work in turns: handshake, authentication, session.
    fn continue_ssh(&mut self, host: u32, part: u32) {
        let starter = self.schedule.starters[at(host)];
        let [client, server] = [StartCost::SshClient, StartCost::SshServer];
        let [client, server] = [client, server].map(|cost| self.costs.get(cost));
        if part == 2 * SSH_PARTS {
            let busy = client + server + u64::from(2 * SSH_PARTS) * self.setting.latency;
            let idle = self.costs.get(StartCost::SshAlone).saturating_sub(busy);
            return self.after(idle, StartAction::Executed(host));
        }
        let has_copy = self.setting.has_copies && !self.is_bare;
        let [to_client, to_server] = [StartCost::CopyClient, StartCost::CopyServer]
            .map(|cost| if has_copy { self.costs.get(cost) } else { 0 });
        let (node, whole) = match part % 2 {
            0 => (starter, client + to_client),
            _ => (host, server + to_server),
        };
        let number = u64::from(part / 2);
        let share = |number: u64| whole * number / u64::from(SSH_PARTS);
        let cost = share(number + 1) - share(number);
        let now = self.now;
        let end = self.machine(node).run(now, cost) + self.setting.latency;
        self.at(end, StartAction::Ssh { host, part: part + 1 });
    }

    /// Handles the start of the command of an `ssh`.
    fn handle_executed(&mut self, host: u32) {
        let starter = self.schedule.starters[at(host)];
        self.times.starters = self.now;
        if self.is_bare {
            self.free(starter);
            return self.begin(host);
        }
        let copy = match self.setting.has_copies {
            true => self.byte_time(self.costs.get(StartCost::LauncherBytes)),
            false => 0,
        };
        let arrival = self.interfaces[at(starter)].run(self.now, copy);
        let own = self.schedule.costs.node_start;
        let end = self.machine(host).run(arrival, own);
        self.at(end, StartAction::Up(host));
    }

    /// Handles the end of a wait for a node server.
    fn free(&mut self, starter: u32) {
        let node = &mut self.nodes[at(starter)];
        node.running = node.running.saturating_sub(1);
        self.begin(starter);
    }

    fn handle_done(&mut self, node: u32, task: LoopTask) {
        match task {
            LoopTask::Prepare => self.begin(0),
            LoopTask::Join(host) => self.join(host),
            LoopTask::StartRank => {
                let own = self.costs.get(StartCost::Rank);
                self.work(node, own, StartAction::Connected(node));
            }
            LoopTask::Answer => {
                self.counts.entered += 1;
                let all = u64::from(self.setting.hosts) * u64::from(self.setting.ranks_per_host);
                if self.counts.entered == all {
                    let fence = self.schedule.fence;
                    (1..=self.setting.hosts)
                        .for_each(|host| self.after(fence, StartAction::Fenced(host)));
                }
            }
            LoopTask::Release => self.release(node),
        }
    }

    /// Handles a rank that is behind the fence.
    fn release(&mut self, node: u32) {
        let released = &mut self.nodes[at(node)].released;
        *released += 1;
        if *released < self.setting.ranks_per_host {
            return;
        }
        self.after(read_time(self.setting, self.costs), StartAction::Returned);
    }

    /// Handles a node server that has connected to the head.
    fn join(&mut self, host: u32) {
        self.times.joined = self.now;
        self.nodes[at(host)].has_joined = true;
        match self.schedule.starters[at(host)] {
            0 => self.free(0),
            starter => self.after(self.setting.latency, StartAction::Freed(starter)),
        }
        if !self.schedule.awaits_all {
            let bytes = self.byte_time(self.costs.get(StartCost::NodeBytes));
            self.after(self.setting.latency + bytes, StartAction::Described(host));
        } else if self.schedule.is_placed {
            self.place(host);
        } else {
            self.attach();
        }
    }

    /// Gives a node its place if its parent has one, and then all nodes below that wait for it.
    fn place(&mut self, host: u32) {
        let parent = self.schedule.parents[at(host)];
        let (is_ready, node) = (self.nodes[at(parent)].is_placed, &mut self.nodes[at(host)]);
        if !is_ready || !node.has_joined || std::mem::replace(&mut node.is_placed, true) {
            return;
        }
        let children = node.children.clone();
        self.after(self.setting.latency, StartAction::Placed(host));
        children.into_iter().for_each(|child| self.place(child));
    }

    /// A node that was placed connects to its parent, and to the head for the hosts that it starts.
    fn handle_placed(&mut self, host: u32) {
        let trips = match self.schedule.parents[at(host)] {
            0 => 0,
            _ => (HANDSHAKE_TRIPS + 1) * self.setting.latency,
        };
        self.after(trips, StartAction::Attached);
        self.after((HANDSHAKE_TRIPS + 1) * self.setting.latency, StartAction::Begin(host));
    }

    /// Counts a node that is ready; the head describes the job when all are.
    fn attach(&mut self) {
        self.counts.attached += 1;
        if self.counts.attached == self.setting.hosts {
            self.describe(0);
        }
    }

    /// A node sends the description of the job to its children, one after the other.
    fn describe(&mut self, node: u32) {
        if !self.schedule.awaits_all {
            return;
        }
        let bytes = self.byte_time(self.costs.get(StartCost::NodeBytes));
        let children = self.nodes[at(node)].children.clone();
        for (child, turn) in children.into_iter().zip(1..) {
            self.after(self.setting.latency + turn * bytes, StartAction::Described(child));
        }
    }

    /// Begins the next task of an event loop, unless it executes one.
    fn turn(&mut self, node: u32) {
        let of_node = &mut self.nodes[at(node)];
        if of_node.is_busy {
            return;
        }
        let Some(task) = of_node.tasks.pop_front() else { return };
        of_node.is_busy = true;
        let (message, has_mpi) = (self.costs.get(StartCost::Message), self.setting.has_mpi);
        // The response to the last one is the end of the fence.
        let mut messages = self.costs.get(StartCost::MpiMessages).saturating_sub(1);
        if matches!(task, LoopTask::Answer) {
            of_node.asked += 1;
            if of_node.asked == 1 {
                messages += self.costs.get(StartCost::MpiPuts);
            }
        }
        let cost = match task {
            LoopTask::Prepare => self.schedule.costs.head_start,
            LoopTask::Join(_) => self.schedule.costs.head_host,
            LoopTask::StartRank => self.schedule.costs.rank_start,
            LoopTask::Answer if has_mpi => messages.saturating_mul(message),
            LoopTask::Release if has_mpi => message,
            // Part of the start of a rank.
            LoopTask::Answer | LoopTask::Release => 0,
        };
        self.work(node, cost, StartAction::Done(node, task));
    }

    /// Executes a task on the processors of a node, with `action` at its end.
    fn work(&mut self, node: u32, cost: u64, action: StartAction) {
        let now = self.now;
        let end = self.machine(node).run(now, cost);
        self.at(end, action);
    }

    fn machine(&mut self, node: u32) -> &mut Processors {
        let place = if self.setting.is_shared { 0 } else { at(node) };
        &mut self.machines[place]
    }

    fn arrive(&mut self, delay: u64, node: u32, task: LoopTask) {
        self.after(delay, StartAction::Arrived(node, task));
    }

    fn after(&mut self, delay: u64, action: StartAction) {
        self.at(self.now.saturating_add(delay), action);
    }

    fn at(&mut self, time: u64, action: StartAction) {
        self.order += 1;
        self.due.insert((time, self.order), action);
    }

    fn byte_time(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.setting.byte_picos()) / PICOS
    }
}

const fn at(node: u32) -> usize {
    node as usize
}

/// Turns of both sides of an `ssh`.
const SSH_PARTS: u32 = 4;
/// Trips of a handshake until the other side reads the first message: of TCP, of both proofs, of the message.
const HANDSHAKE_TRIPS: u64 = 7;
/// Picoseconds of a microsecond.
const PICOS: u64 = 1_000_000;
