//! The world: nodes, connections, faults, and a queue of due actions.

mod acts;
mod net;

use super::check::{self, Fate, TreeChecks};
use super::connection::Connection;
use super::mutant::TreeMutant;
use super::plan::{DIAL_LIMIT, FREEZE, PATIENCE, START, STORM, TreeFault, TreePlan};
use super::queue::DueQueue;
use super::record::{TreeEntry, TreeNodeLife, TreeNodeView, TreeRecord};
use crate::rng::Rng;
use pmi_core::time::Instant;
use pmi_tree::{AwakeClock, NodeId, Silence, TreeEvent, TreeNode};
use std::collections::{BTreeMap, BTreeSet};

/// A due action.
#[derive(Debug)]
enum Action {
    /// Of the next piece from a node.
    Deliver {
        connection: usize,
        from: NodeId,
    },
    Closed {
        connection: usize,
        at: NodeId,
    },
    Dialed {
        child: NodeId,
        parent: NodeId,
        is_open: bool,
    },
    Timer(NodeId),
    /// Of a node that was stopped.
    Thaw(NodeId),
    /// A node in a storm stops again.
    Stall {
        node: NodeId,
        until: u64,
    },
    /// Of a node to the next operation of a job.
    Contribute(NodeId, u32),
    Grow(u32),
    Talk(usize),
    Fault(TreeFault),
    Exclude(NodeId),
    /// The head receives a node's own report of its first parent.
    NoteParent {
        node: NodeId,
        parent: NodeId,
    },
}

/// A node and its surroundings.
#[derive(Debug)]
struct SimNode {
    /// None once it has ended.
    node: Option<TreeNode>,
    fate: Fate,
    is_isolated: bool,
    /// Time until which its process is stopped.
    frozen_until: u64,
    /// Time by which the clock of its system has jumped ahead.
    jumped: u64,
    clock: AwakeClock,
    was_attached: bool,
    /// True once the head has its own report of its first parent.
    is_noted: bool,
    /// The parent of the last entry about it.
    parent: Option<NodeId>,
    peers: BTreeMap<NodeId, usize>,
    /// Peers whose connections are full.
    waiting: BTreeSet<NodeId>,
    /// Time of the scheduled timer.
    timer: u64,
    /// Picoseconds until which its interface is busy: out, in.
    busy: [u64; 2],
    /// Numbers of operations it has contributed to, by job.
    contributed: BTreeMap<u32, u32>,
    /// First job that it takes part in.
    first_job: u32,
}

impl SimNode {
    fn new(node: TreeNode, first_job: u32, now: u64) -> Self {
        let is_head = node.config().node == NodeId::HEAD;
        Self {
            was_attached: is_head,
            is_noted: is_head,
            node: Some(node),
            fate: Fate::Alive { is_attached: false },
            is_isolated: false,
            frozen_until: 0,
            jumped: 0,
            clock: AwakeClock::start(Instant::from_micros(now)),
            parent: None,
            peers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            timer: u64::MAX,
            busy: [0; 2],
            contributed: BTreeMap::new(),
            first_job,
        }
    }
}

/// A run of a plan.
#[derive(Debug)]
pub struct TreeWorld {
    plan: TreePlan,
    rng: Rng,
    mutant: Option<TreeMutant>,
    has_acted: bool,
    time: u64,
    steps: u64,
    queue: DueQueue<Action>,
    nodes: Vec<SimNode>,
    /// All that were ever opened, by number.
    connections: Vec<Connection>,
    /// Room for a piece that is sent.
    buffer: Vec<u8>,
    checks: TreeChecks,
    span: Option<(u64, u64)>,
    /// Time up to which it runs before it may be over.
    look: u64,
    is_over: bool,
    /// Number of broken rules so far.
    violations: usize,
    /// Entries of the run, if they are kept.
    entries: Option<Vec<TreeEntry>>,
}

impl TreeWorld {
    /// The world of a plan before its first step.
    pub fn new(plan: TreePlan, seed: u64, mutant: Option<TreeMutant>) -> Self {
        let ids = || (0..plan.nodes).map(NodeId);
        let node = |id| {
            let config = plan.config(id, plan.nodes);
            SimNode::new(TreeNode::new(config), FIRST_JOB, 0)
        };
        let mut world = Self {
            rng: Rng::new(seed, 2),
            mutant,
            has_acted: false,
            time: 0,
            steps: 0,
            queue: DueQueue::new(),
            nodes: ids().map(node).collect(),
            connections: Vec::new(),
            buffer: vec![0; plan.piece.min(plan.room)],
            checks: TreeChecks::new(plan.nodes),
            span: None,
            look: 0,
            is_over: false,
            violations: 0,
            entries: None,
            plan,
        };
        world.look = world.least();
        for child in (1..world.plan.nodes).map(NodeId) {
            let parent = child.parent(world.plan.radix).unwrap_or(NodeId::HEAD);
            let at = world.rng.within(world.plan.pace);
            world.after(at, Action::Dialed { child, parent, is_open: true });
            let at = START + world.rng.within(world.plan.pace);
            world.after(at, Action::Contribute(child, FIRST_JOB));
        }
        let growths = world.plan.growths.clone();
        growths.into_iter().for_each(|(at, count)| world.after(at, Action::Grow(count)));
        for talk in 0..world.plan.talks.len() {
            world.after(START + world.plan.talks[talk].at, Action::Talk(talk));
        }
        for (at, fault) in world.plan.faults.clone() {
            world.after(at, Action::Fault(fault));
        }
        world
    }

    /// Keeps entries of all that happens from now on.
    pub fn record(&mut self) {
        self.entries = Some(Vec::new());
    }

    /// Runs to the end: nothing is left to do, or to wait for.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Executes the next due action; false if nothing is left to do, or to wait for, or if a rule is broken.
    pub fn step(&mut self) -> bool {
        let next = self.queue.next_time();
        let Some(time) = next.filter(|_| !self.is_over) else { return self.finish() };
        if time > self.look {
            if self.is_finished() || time > self.least() + PATIENCE {
                return self.finish();
            }
            self.look = time + 100_000;
        }
        let Some(action) = self.queue.pop() else { return self.finish() };
        // What has arrived at a node that was stopped is due since then.
        self.time = self.time.max(time);
        let time = self.time;
        self.steps += 1;
        self.checks.at(time, self.steps);
        self.act(action);
        self.note_violations();
        true
    }

    /// Lets a fault happen now. The run goes on.
    pub fn inject(&mut self, fault: TreeFault) {
        self.plan.faults.push((self.time, fault));
        self.look = self.look.max(self.least());
        self.is_over = false;
        self.fault(fault);
        self.touch(fault.node());
        self.note_violations();
    }

    /// Judges the end, once.
    fn finish(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        self.is_over = true;
        let fates = self.fates();
        self.checks.finish(&fates, &self.plan);
        self.note_violations();
        self.note(|| TreeRecord::Quiet);
        false
    }

    /// A run with a broken rule is over.
    fn note_violations(&mut self) {
        while let Some(violation) = self.checks.violations().get(self.violations).cloned() {
            self.violations += 1;
            self.is_over = true;
            self.note(|| TreeRecord::Violation(violation));
        }
    }

    /// Time before which no run is over.
    fn least(&self) -> u64 {
        let faults = self.plan.faults.iter().map(|(at, fault)| match fault {
            TreeFault::Kill(_) | TreeFault::Cut(_) => at + 500_000,
            TreeFault::Isolate(_) | TreeFault::Mute(_) | TreeFault::Jump(_) => at + 8_000_000,
            TreeFault::Freeze(_) => at + FREEZE + 8_000_000,
            TreeFault::Storm(_) => at + STORM + 8_000_000,
        });
        let talks = self.plan.talks.iter().map(|talk| START + talk.at);
        let times = faults.chain(talks).chain(self.plan.growths.iter().map(|(at, _)| *at));
        times.max().unwrap_or(0) + 10_000
    }

    fn note(&mut self, event: impl FnOnce() -> TreeRecord) {
        let (at, step) = (self.time, self.steps);
        if let Some(entries) = &mut self.entries {
            entries.push(TreeEntry { at, step, event: event() });
        }
    }

    /// Entries of the run, if they are [recorded](Self::record).
    pub fn entries(&self) -> &[TreeEntry] {
        self.entries.as_deref().unwrap_or_default()
    }

    /// The time, in microseconds.
    pub const fn time(&self) -> u64 {
        self.time
    }

    /// True if nothing more happens by itself.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// The plan, with the injected faults.
    pub const fn plan(&self) -> &TreePlan {
        &self.plan
    }

    /// State of a node now.
    pub fn view(&self, node: NodeId) -> TreeNodeView {
        let sim = self.sim(node);
        let life = match (&sim.node, sim.fate) {
            (Some(_), _) if sim.is_isolated || self.is_frozen(node) => TreeNodeLife::Stopped,
            (Some(_), _) => TreeNodeLife::Running,
            (None, Fate::Left { .. }) => TreeNodeLife::Left,
            (None, _) => TreeNodeLife::Killed,
        };
        let ended = u32::try_from(self.checks.ended(node)).unwrap_or(u32::MAX);
        let entered = sim.contributed.values().sum();
        TreeNodeView { life, parent: attached(sim), entered, ended }
    }

    /// The rules and their findings.
    pub fn checks(&self) -> &TreeChecks {
        &self.checks
    }

    /// Number of actions so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Time of the first contribution.
    pub fn first_contribution(&self) -> u64 {
        self.span.map_or(0, |span| span.0)
    }

    /// Time of the last result at a node.
    pub fn last_result(&self) -> u64 {
        self.span.map_or(0, |span| span.1)
    }

    fn is_finished(&self) -> bool {
        let has_all = (0..).map(NodeId).zip(&self.nodes).all(|(node, sim)| {
            !matches!(sim.fate, Fate::Alive { .. }) || self.checks.has_all(node)
        });
        let lives = |sim: &SimNode| matches!(sim.fate, Fate::Alive { .. });
        if !has_all && lives(self.sim(NodeId::HEAD)) && self.nodes.iter().skip(1).any(lives) {
            return false;
        }
        let mut trial = self.checks.clone();
        trial.finish(&self.fates(), &self.plan);
        trial.violations().is_empty()
    }

    fn fates(&self) -> Vec<Fate> {
        let fate = |sim: &SimNode| match (&sim.node, sim.fate) {
            (Some(node), Fate::Alive { .. }) => Fate::Alive { is_attached: node.is_attached() },
            (_, fate) => fate,
        };
        self.nodes.iter().map(fate).collect()
    }

    fn sim(&self, node: NodeId) -> &SimNode {
        &self.nodes[node.0 as usize]
    }

    fn sim_mut(&mut self, node: NodeId) -> &mut SimNode {
        &mut self.nodes[node.0 as usize]
    }

    /// The time of the clock of a node, at which the node looks. It stands still while the node is stopped,
    /// unless a mutant lets it go on.
    fn now(&mut self, node: NodeId) -> Instant {
        let (time, has_gap) = (self.time, self.mutant != Some(TreeMutant::TrustGap));
        let sim = self.sim_mut(node);
        let now = Instant::from_micros(time + sim.jumped);
        if has_gap {
            sim.clock.look(now);
        }
        sim.clock.at(now)
    }

    fn is_frozen(&self, node: NodeId) -> bool {
        self.time < self.sim(node).frozen_until
    }

    /// The node that an action is one of, if it acts by itself.
    fn actor(&self, action: &Action) -> Option<NodeId> {
        match action {
            Action::Deliver { connection, from } => {
                self.connections.get(*connection).map(|state| state.other(*from))
            }
            Action::Closed { at: node, .. }
            | Action::Dialed { child: node, .. }
            | Action::Timer(node)
            | Action::Contribute(node, _) => Some(*node),
            Action::Grow(_) | Action::Exclude(_) | Action::NoteParent { .. } => Some(NodeId::HEAD),
            Action::Talk(talk) => Some(self.plan.talks[*talk].from),
            Action::Fault(_) | Action::Thaw(_) | Action::Stall { .. } => None,
        }
    }

    fn after(&mut self, micros: u64, action: Action) {
        let due = self.queue.place(self.time + micros);
        self.queue.push(due, action);
    }

    fn latency(&mut self) -> u64 {
        self.rng.within(self.plan.latency)
    }

    fn act(&mut self, action: Action) {
        if let Some(node) = self.actor(&action).filter(|node| self.is_frozen(*node)) {
            return self.put_off(node, action);
        }
        match action {
            Action::Deliver { connection, from } => self.deliver(connection, from),
            Action::Closed { connection, at } => self.closed(connection, at),
            Action::Dialed { child, parent, is_open } => self.dialed(child, parent, is_open),
            Action::Timer(node) => {
                let now = self.now(node);
                self.note_answers(node);
                let sim = self.sim_mut(node);
                sim.timer = u64::MAX;
                if let Some(node) = &mut sim.node
                    && node.poll_timeout().is_some_and(|due| due <= now)
                {
                    node.handle_timeout(now);
                }
                self.touch(node);
            }
            Action::Thaw(node) => self.thaw(node),
            Action::Stall { node, until } => self.stall(node, until),
            Action::Contribute(node, job) => self.contribute(node, job),
            Action::Grow(count) => self.grow(count),
            Action::Talk(talk) => self.talk(talk),
            Action::Fault(fault) => self.fault(fault),
            Action::Exclude(node) => {
                if let Some(head) = &mut self.sim_mut(NodeId::HEAD).node {
                    let is_done = head.exclude(node).is_ok();
                    debug_assert!(is_done, "the node exists");
                    self.checks.on_excluded(node);
                }
                self.touch(NodeId::HEAD);
            }
            Action::NoteParent { node, parent } => self.note_parent(node, parent),
        }
    }

    /// Handles all that a node has to say: events, bytes, the next timer.
    fn touch(&mut self, me: NodeId) {
        loop {
            if let Some(event) = self.sim_mut(me).node.as_mut().and_then(TreeNode::poll_event) {
                self.handle_event(me, event);
            } else if let Some(peer) = self.sim_mut(me).node.as_mut().and_then(TreeNode::next_ready)
            {
                self.pump(me, peer);
            } else {
                break;
            }
        }
        let (time, has_gap) = (self.time, self.mutant != Some(TreeMutant::TrustGap));
        let sim = self.sim_mut(me);
        let Some(node) = &sim.node else { return };
        let is_first = node.is_attached() && !sim.was_attached;
        sim.was_attached |= is_first;
        let parent = attached(sim);
        if sim.parent != parent {
            sim.parent = parent;
            self.note(|| TreeRecord::Attached { node: me, parent });
        }
        if let Some(parent) = parent.filter(|_| is_first) {
            self.after(self.plan.latency.to, Action::NoteParent { node: me, parent });
        }
        let sim = self.sim_mut(me);
        let Some(node) = &sim.node else { return };
        if node.is_over() {
            return self.leave(me);
        }
        let look = if has_gap { sim.clock.next_look().as_micros() } else { u64::MAX };
        let due = node.poll_timeout().map_or(u64::MAX, |due| sim.clock.moment_of(due).as_micros());
        let due = due.min(look).saturating_sub(sim.jumped).max(time);
        if due < sim.timer {
            sim.timer = due;
            self.after(due - time, Action::Timer(me));
        }
    }

    fn handle_event(&mut self, me: NodeId, event: TreeEvent) {
        let Some(event) = self.mutate(me, event) else { return };
        match event {
            TreeEvent::Reconnect { to } => {
                let can_open = |sim: &SimNode| sim.node.is_some() && !sim.is_isolated;
                let is_open =
                    can_open(self.sim(me)) && can_open(self.sim(to)) && !self.is_frozen(to);
                let is_silent =
                    self.sim(me).is_isolated || self.sim(to).is_isolated || self.is_frozen(to);
                let wait = if is_silent { DIAL_LIMIT } else { 2 * self.latency() };
                self.after(wait, Action::Dialed { child: me, parent: to, is_open });
            }
            TreeEvent::Close { peer, .. } => self.close(me, peer),
            TreeEvent::CollectiveEnded { id, data, members } => {
                self.checks.on_ended(me, id, (&data, members), &self.plan);
                let number = check::number(id.job, id.number, &self.plan);
                self.note(|| TreeRecord::Ended { node: me, number });
                self.span = self.span.map(|(first, _)| (first, self.time));
                let sim = self.sim(me);
                let count = sim.contributed.get(&id.job).map_or(0, |count| *count);
                let is_its = me != NodeId::HEAD && id.job >= sim.first_job;
                if is_its && count < self.plan.operations {
                    let wait = self.rng.within(self.plan.pace);
                    self.after(wait, Action::Contribute(me, id.job));
                }
            }
            TreeEvent::Message { from, class, body } => {
                self.checks.on_message(me, from, class, &body);
            }
            TreeEvent::NodeLost { node, .. } => {
                // Several faults may leave a node without a way; an isolated head sees none.
                let is_hit = |node| self.sim(node).fate == Fate::Hit;
                // A node that is only stopped is no reason.
                let faults = self.plan.faults.iter();
                let faults = faults.filter(|(_, fault)| !fault.is_harmless());
                let is_expected = is_hit(node) || is_hit(NodeId::HEAD) || faults.count() > 1;
                self.checks.on_lost(node, is_expected);
                self.note(|| TreeRecord::Lost(node));
                let wait = self.rng.below(2_000);
                self.after(wait, Action::Exclude(node));
            }
            TreeEvent::Silent { peer, silence } => {
                let connection = self.sim(me).peers.get(&peer).copied().unwrap_or(usize::MAX);
                let is_silent =
                    self.open_connection(connection).is_none_or(|state| self.is_silent(state));
                // One that goes on sends its first sign of life within a second.
                let is_running = self.time > self.sim(peer).frozen_until + FIRST_SIGN;
                let is_wrong = match silence {
                    Silence::Process => !is_silent && is_running,
                    Silence::Host => !is_silent,
                };
                if is_wrong {
                    let what =
                        format!("{silence:?} of node {} is silent for node {}", peer.0, me.0);
                    self.checks.found("paused", what);
                }
            }
            TreeEvent::HeadLost => self.set_left(me, true),
            TreeEvent::Expelled => self.set_left(me, false),
            _ => {}
        }
    }
}

/// Time within which others hear of a node that was stopped, in microseconds.
const FIRST_SIGN: u64 = 1_500_000;

/// Number of the job of the operations at the start.
const FIRST_JOB: u32 = 1;

/// The parent that a node is attached to.
fn attached(sim: &SimNode) -> Option<NodeId> {
    let node = sim.node.as_ref().filter(|node| node.is_attached())?;
    node.parent().filter(|_| node.config().node != NodeId::HEAD)
}
