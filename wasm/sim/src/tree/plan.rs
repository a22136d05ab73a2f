//! Plans of runs: shape, load and faults, from a seed.

use crate::rng::{Percent, Rng, Span};
use pmi_core::time::Duration;
use pmi_tree::{Class, Destination, NodeId, TreeConfig};

/// A run before it starts. Times are microseconds.
#[derive(Clone, Debug)]
pub struct TreePlan {
    /// Number of nodes, with the head.
    pub nodes: u32,
    /// Radix of the tree.
    pub radix: u32,
    /// Collective operations, one after the other.
    pub operations: u32,
    /// Bytes that a node contributes.
    pub bytes: Span,
    /// Members on each node.
    pub members: u32,
    /// Time of a node between two operations.
    pub pace: Span,
    /// Time of a byte on its way.
    pub latency: Span,
    /// Picoseconds for a byte at the interface of a node.
    pub byte_picos: u64,
    /// Bytes on their way in one direction of a connection.
    pub room: usize,
    /// Bytes that a connection takes at a time.
    pub piece: usize,
    /// Messages.
    pub talks: Vec<Talk>,
    /// Faults and their times.
    pub faults: Vec<(u64, TreeFault)>,
    /// True if a host may be silent for half a minute before its node is lost, as within a batch system.
    pub is_watched: bool,
    /// Times at which the tree grows, and numbers of nodes that join. All nodes that there are then have as
    /// many operations again, of another job.
    pub growths: Vec<(u64, u32)>,
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct Talk {
    /// Time.
    pub at: u64,
    /// Sender.
    pub from: NodeId,
    /// Receiver.
    pub to: Destination,
    /// Class.
    pub class: Class,
    /// Length.
    pub len: usize,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeFault {
    /// The process of a node ends; its connections are closed.
    Kill(NodeId),
    /// A node is silent, and reaches no other one.
    Isolate(NodeId),
    /// The connection of a node to its parent is reset.
    Cut(NodeId),
    /// The connection of a node to its parent is silent from now on.
    Mute(NodeId),
    /// The process of a node is stopped for 40 seconds, and its host goes on to answer.
    Freeze(NodeId),
    /// The process of a node runs for moments only for 30 seconds, as one whose memory is swapped out.
    Storm(NodeId),
    /// The clock of a node jumps ahead by an hour, as that of a virtual machine that has moved.
    Jump(NodeId),
}

impl TreeFault {
    /// True if it takes no node from the tree.
    pub(super) const fn is_harmless(self) -> bool {
        matches!(self, Self::Freeze(_) | Self::Storm(_) | Self::Jump(_))
    }
}

impl TreePlan {
    /// A plan without messages and faults.
    pub fn quiet(nodes: u32, operations: u32, bytes: u64) -> Self {
        Self {
            nodes,
            radix: 4,
            operations,
            bytes: Span::just(bytes),
            members: 100,
            pace: Span::just(0),
            latency: Span::just(30),
            byte_picos: 800,
            room: 256 * 1024,
            piece: 64 * 1024,
            talks: Vec::new(),
            faults: Vec::new(),
            is_watched: false,
            growths: Vec::new(),
        }
    }

    /// The plan of a seed: every fifth one stops nodes, the others have all other faults.
    pub fn of_seed(seed: u64) -> Self {
        if seed % 5 == 2 { Self::frozen(seed) } else { Self::random(seed) }
    }

    /// The plan of a seed: 2 to 64 nodes.
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 1);
        let nodes = u32::try_from(rng.within(Span::new(2, 64))).unwrap_or(2);
        let radix = if rng.chance(Percent(60)) { 4 } else { 1 + rng.below(5) };
        // Much data in small pieces takes many steps and shows nothing new.
        let is_heavy = rng.chance(Percent(10));
        let light = [Span::just(0), Span::new(0, 60), Span::new(12, 400)];
        let bytes = if is_heavy { Span::new(0, 40_000) } else { light[rng.index(light.len())] };
        let sizes = if is_heavy { (4096, 1500) } else { (512, [7, 100][rng.index(2)]) };
        let mut plan = Self {
            radix: u32::try_from(radix).unwrap_or(4),
            operations: u32::try_from(rng.within(Span::new(1, 4))).unwrap_or(1),
            bytes,
            pace: Span::new(0, 1 + rng.below(2000)),
            latency: Span::new(5, 5 + rng.below(300)),
            room: [sizes.0, 65_536][rng.index(2)],
            piece: [sizes.1, 65_536][rng.index(2)],
            ..Self::quiet(nodes, 1, 0)
        };
        let len_max = if is_heavy { 70_000 } else { 300 };
        plan.talks = (0..rng.below(30)).map(|_| talk(&mut rng, nodes, len_max)).collect();
        // Most faults hit the operations, some a tree that is idle.
        let horizon = [500, 5_000, 30_000, 9_000_000][rng.index(4)];
        let count = [0, 1, 1, 2, 3, 5][rng.index(6)];
        plan.faults = (0..count).map(|_| (rng.below(horizon), fault(&mut rng, nodes))).collect();
        plan.add_growths(&mut Rng::new(seed, 3));
        plan
    }

    /// The plan of a seed, with nodes that are stopped in place of its faults, the head among them, mostly
    /// for longer than a tree waits for signs of life, or whose clocks jump.
    pub fn frozen(seed: u64) -> Self {
        let mut plan = Self::random(seed);
        plan.growths.clear();
        plan.talks.retain(|talk| match talk.to {
            Destination::Node(node) => node.0 < plan.nodes,
            Destination::Head | Destination::All | Destination::Parent => true,
        });
        let mut rng = Rng::new(seed, 4);
        // All nodes are attached by then.
        let from = START + 2 * plan.pace.to;
        let horizon = [5_000, 50_000, 15_000_000][rng.index(3)];
        let count = 1 + rng.below(3);
        let mut fault = || {
            let at = from + rng.below(horizon);
            let node = node(&mut rng, 0, plan.nodes);
            let kinds = [TreeFault::Freeze, TreeFault::Freeze, TreeFault::Storm, TreeFault::Jump];
            (at, kinds[rng.index(kinds.len())](node))
        };
        plan.faults = (0..count).map(|_| fault()).collect();
        plan.is_watched = rng.chance(Percent(50));
        plan
    }

    /// Configuration of a node, among `nodes` nodes.
    pub(super) fn config(&self, node: NodeId, nodes: u32) -> TreeConfig {
        let mut config = TreeConfig { radix: self.radix, ..TreeConfig::new(node, nodes) };
        if self.is_watched {
            config.silence = Duration::from_secs(30);
        }
        config
    }

    /// Lets the tree grow under some seeds, with messages to the new nodes, and faults.
    fn add_growths(&mut self, rng: &mut Rng) {
        let count = [0, 0, 1, 1, 2][rng.index(5)];
        let horizon = [10_000, 40_000, 2_000_000][rng.index(3)];
        let mut times: Vec<u64> = (0..count).map(|_| rng.below(horizon)).collect();
        times.sort_unstable();
        for at in times {
            let first = self.nodes_after(self.growths.len());
            let joining = 1 + u32::try_from(rng.below(6)).unwrap_or(0);
            self.growths.push((at, joining));
            let all = first + joining;
            for _ in 0..rng.below(8) {
                let to = match rng.below(3) {
                    0 => Destination::All,
                    _ => Destination::Node(node(rng, first, all)),
                };
                let class = if rng.chance(Percent(70)) { Class::Control } else { Class::Output };
                let at = (at + rng.below(8_000)).saturating_sub(START);
                self.talks.push(Talk { at, from: NodeId::HEAD, to, class, len: 20 });
            }
            if rng.chance(Percent(40)) {
                self.faults.push((at + rng.below(10_000), fault(rng, all)));
            }
        }
    }

    /// Number of nodes, with the head, after this many growths.
    pub fn nodes_after(&self, growths: usize) -> u32 {
        self.nodes + self.growths.iter().take(growths).map(|(_, count)| count).sum::<u32>()
    }
}

fn node(rng: &mut Rng, first: u32, nodes: u32) -> NodeId {
    let below = u64::from(nodes.saturating_sub(first));
    NodeId(first + u32::try_from(rng.below(below)).unwrap_or(0))
}

fn talk(rng: &mut Rng, nodes: u32, len_max: usize) -> Talk {
    let from = if rng.chance(Percent(40)) { NodeId::HEAD } else { node(rng, 1, nodes) };
    let to = match rng.below(4) {
        0 if from == NodeId::HEAD => Destination::All,
        1 => Destination::All,
        2 => Destination::Node(node(rng, 0, nodes)),
        _ if from == NodeId::HEAD => Destination::Node(node(rng, 1, nodes)),
        _ => Destination::Head,
    };
    let class = if rng.chance(Percent(50)) { Class::Control } else { Class::Output };
    let len = [20, 20, len_max][rng.index(3)];
    Talk { at: rng.below(20_000), from, to, class, len }
}

fn fault(rng: &mut Rng, nodes: u32) -> TreeFault {
    let hit = node(rng, 1, nodes);
    match rng.below(100) {
        0..4 => TreeFault::Kill(NodeId::HEAD),
        4..7 => TreeFault::Isolate(NodeId::HEAD),
        7..45 => TreeFault::Kill(hit),
        45..60 => TreeFault::Isolate(hit),
        60..82 => TreeFault::Cut(hit),
        _ => TreeFault::Mute(hit),
    }
}

/// Time when operations begin, in microseconds.
pub(super) const START: u64 = 5_000;

/// Time after which the starter reports the end of a node that has never been attached.
pub(super) const START_REPORT: u64 = 50_000;

/// Time for which a node is stopped, in microseconds: longer than a tree waits for signs of life.
pub(super) const FREEZE: u64 = 40_000_000;

/// Time for which a node runs for moments only.
pub(super) const STORM: u64 = 30_000_000;

/// Time by which a clock jumps.
pub(super) const JUMP: u64 = 3_600_000_000;

/// Time limit for a connection to a silent node.
pub(super) const DIAL_LIMIT: u64 = 3_000_000;

/// Time for a tree to heal after the last fault.
pub(super) const PATIENCE: u64 = 60_000_000;

/// Picoseconds of a microsecond.
pub(super) const PICOS: u64 = 1_000_000;
