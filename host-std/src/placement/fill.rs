//! Ranks on hosts, in the order of slots or of nodes.
//!
//! A host takes ranks up to its slots before the next one has its turn (`slot`), or one rank at each turn
//! (`node`). When all slots are taken, the turns begin again, as under Hydra; a host with `max_slots` is left
//! out once it has that many. The job is refused if ranks remain then, or if no host may have more ranks than
//! slots.

use super::allocation::{Allocation, AllocationSource};
use super::host::{Host, HostList, HostTurn};
use super::node_map::{NodeBlock, NodeRound};
use super::{NodeMap, PlacedHosts, RankMap};
use std::collections::HashMap;

/// Rules by which hosts are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FillRules {
    /// Order of the turns.
    pub(crate) order: HostOrder,
    /// Number of slots of every host, in place of those of the list.
    pub(crate) slots: Option<u32>,
    /// True if hosts may have more ranks than slots.
    pub(crate) oversubscribes: bool,
    /// True if hosts without ranks take part in the run.
    pub(crate) keeps_idle: bool,
}

/// Order in which hosts have their turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HostOrder {
    /// As many ranks as a host has slots, then the next host.
    #[default]
    Slot,
    /// One rank, then the next host.
    Node,
    /// This number of ranks, then the next host; no host takes more.
    PerNode(u32),
}

/// Ranks of one program, and the hosts for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartHosts<'a> {
    /// Number of ranks.
    pub(crate) ranks: u32,
    /// Hosts of the program.
    pub(crate) hosts: &'a Allocation,
}

/// Placement in progress.
#[derive(Default)]
struct Filling {
    /// Names of all hosts, and those that have ranks.
    names: Vec<String>,
    known: HashMap<String, usize>,
    /// Number of ranks of each host so far.
    used: Vec<u32>,
    /// Number of ranks that each host takes in one turn.
    slots: Vec<u32>,
    /// Runs of ranks; nodes are indexes of `names`.
    rounds: Vec<NodeRound>,
}

impl HostList {
    /// Number of ranks that the hosts take without sharing slots.
    pub(crate) fn capacity(&self, rules: FillRules) -> u32 {
        self.capacities(rules).map(|(_, ranks)| ranks).fold(0, u32::saturating_add)
    }

    /// Names of the hosts, each with this number for it alone.
    pub(crate) fn capacities(&self, rules: FillRules) -> impl Iterator<Item = (&str, u32)> {
        let slots = move |host: &Host| match rules.order {
            HostOrder::PerNode(ranks) => ranks.min(host.max_slots.unwrap_or(u32::MAX)),
            HostOrder::Slot | HostOrder::Node => rules.slots_of(host),
        };
        self.hosts().iter().map(move |host| (host.name.as_str(), slots(host)))
    }
}

impl FillRules {
    fn slots_of(self, host: &Host) -> u32 {
        self.slots.unwrap_or(host.slots).min(host.max_slots.unwrap_or(u32::MAX))
    }

    /// Number of ranks that a host takes in one turn.
    fn turn_of(self, host: &Host) -> u32 {
        match self.order {
            HostOrder::Slot => self.slots_of(host),
            HostOrder::Node => 1,
            HostOrder::PerNode(ranks) => ranks,
        }
    }
}

/// Places the ranks of all programs, in their order. Consecutive programs with the same hosts share the
/// turns. With a `rank_map` all programs must have the same hosts.
///
/// # Errors
///
/// A message with the numbers of ranks and slots, and the remedy.
pub(crate) fn place(
    parts: &[PartHosts<'_>],
    rank_map: Option<&RankMap>,
    rules: FillRules,
) -> Result<PlacedHosts, String> {
    let mut filling = Filling::default();
    for group in parts.chunk_by(|a, b| std::ptr::eq(a.hosts, b.hosts)) {
        let hosts = &group[0].hosts.hosts;
        let nodes = filling.indexes_of(hosts.hosts(), rules);
        let ranks = group.iter().map(|part| part.ranks).fold(0, u32::saturating_add);
        match rank_map {
            None => filling.fill(hosts, &nodes, ranks, rules)?,
            Some(_) if group.len() < parts.len() => {
                return Err(
                    "'--rankmap' numbers the hosts of the whole job, and programs have hosts \
                            of their own; leave one of them out"
                        .to_owned(),
                );
            }
            Some(map) => filling.follow(map, hosts.hosts(), ranks)?,
        }
    }
    let source = parts.first().map_or(AllocationSource::Named, |part| part.hosts.source);
    filling.finish(source, rules.keeps_idle)
}

impl Filling {
    /// Indexes of these hosts among those of all programs.
    fn indexes_of(&mut self, hosts: &[Host], rules: FillRules) -> Vec<usize> {
        let index = |host: &Host| {
            let at = *self.known.entry(host.name.clone()).or_insert_with(|| {
                self.names.push(host.name.clone());
                self.used.push(0);
                self.slots.push(1);
                self.names.len() - 1
            });
            self.slots[at] = self.slots[at].max(rules.turn_of(host));
            at
        };
        hosts.iter().map(index).collect()
    }

    fn fill(
        &mut self,
        list: &HostList,
        nodes: &[usize],
        ranks: u32,
        rules: FillRules,
    ) -> Result<(), String> {
        let hosts = list.hosts();
        let each = |slots| -> Vec<HostTurn> {
            (0..hosts.len()).map(|host| HostTurn { host, slots }).collect()
        };
        let turns = match (rules.order, rules.slots) {
            (HostOrder::Slot, None) => list.turns().to_vec(),
            (HostOrder::Slot, Some(slots)) | (HostOrder::PerNode(slots), _) => each(slots),
            (HostOrder::Node, _) => each(1),
        };
        let slots = |host: &Host| match rules.order {
            HostOrder::PerNode(most) if rules.oversubscribes => most,
            HostOrder::PerNode(most) => most.min(rules.slots_of(host)),
            HostOrder::Slot | HostOrder::Node => rules.slots_of(host),
        };
        let most = |host: &Host| host.max_slots.unwrap_or(u32::MAX);
        let mut rest = ranks;
        self.take_turns(&turns, nodes, &mut rest, |at| slots(&hosts[at]).min(most(&hosts[at])));
        if rules.oversubscribes && !matches!(rules.order, HostOrder::PerNode(_)) {
            self.take_turns(&turns, nodes, &mut rest, |at| most(&hosts[at]));
        }
        if rest == 0 {
            return Ok(());
        }
        Err(refusal(hosts, ranks, ranks - rest, rules))
    }

    /// Gives turns to hosts until no rank is left, or each host has as many as `limit` allows.
    fn take_turns(
        &mut self,
        turns: &[HostTurn],
        nodes: &[usize],
        rest: &mut u32,
        limit: impl Fn(usize) -> u32,
    ) {
        let mut left: Vec<u32> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| limit(at).saturating_sub(self.used[*node]))
            .collect();
        let mut turns = turns.to_vec();
        let mut load = vec![0_u64; nodes.len()];
        while *rest > 0 {
            turns.retain(|turn| left[turn.host] > 0);
            if turns.is_empty() {
                return;
            }
            turns.iter().for_each(|turn| load[turn.host] = 0);
            turns.iter().for_each(|turn| load[turn.host] += u64::from(turn.slots));
            let round: u64 = turns.iter().map(|turn| u64::from(turn.slots)).sum();
            let fits = turns.iter().map(|turn| u64::from(left[turn.host]) / load[turn.host]);
            let times = fits.chain([u64::from(*rest) / round]).min().unwrap_or(0);
            let times = u32::try_from(times).unwrap_or(u32::MAX);
            let mut blocks = Vec::new();
            for turn in &turns {
                // Without a whole round, each host takes what it may.
                let ranks = match times {
                    0 => turn.slots.min(left[turn.host]).min(*rest),
                    _ => turn.slots,
                };
                let all = ranks.saturating_mul(times.max(1));
                left[turn.host] = left[turn.host].saturating_sub(all);
                let used = &mut self.used[nodes[turn.host]];
                *used = used.saturating_add(all);
                *rest -= all;
                extend(&mut blocks, nodes[turn.host], ranks);
            }
            self.push(blocks, times.max(1));
        }
    }

    fn push(&mut self, blocks: Vec<NodeBlock>, times: u32) {
        match self.rounds.last_mut().filter(|round| round.blocks == blocks) {
            Some(round) => round.times += times,
            None => self.rounds.push(NodeRound { blocks, times }),
        }
    }

    /// Places ranks as an explicit map says.
    fn follow(&mut self, map: &RankMap, hosts: &[Host], ranks: u32) -> Result<(), String> {
        self.rounds = map.rounds(ranks);
        for NodeRound { blocks, times } in &self.rounds {
            for block in blocks {
                let numbers = block.node as usize..block.node as usize + block.nodes as usize;
                if numbers.end > hosts.len() {
                    return Err(format!(
                        "'--rankmap {map}' names host {}, and the last of the {} is number {}; hosts \
                         are counted from 0",
                        numbers.end - 1,
                        count(hosts.len(), "host"),
                        hosts.len() - 1
                    ));
                }
                self.used[numbers].iter_mut().for_each(|used| {
                    *used = used.saturating_add(block.ranks.saturating_mul(*times))
                });
            }
        }
        let is_full =
            |(host, used): &(&Host, &u32)| host.max_slots.is_some_and(|most| most < **used);
        match hosts.iter().zip(&self.used).find(is_full) {
            Some((host, used)) => Err(format!(
                "'--rankmap {map}' places {used} ranks on '{}', which takes {} at most (max_slots)",
                host.name,
                host.max_slots.unwrap_or_default()
            )),
            None => Ok(()),
        }
    }

    /// Leaves out hosts without ranks, or puts them behind the others, and numbers all.
    fn finish(self, source: AllocationSource, keeps_idle: bool) -> Result<PlacedHosts, String> {
        let mut number = 0;
        let numbers: Vec<u32> = self
            .used
            .iter()
            .map(|used| {
                let own = number;
                number += u32::from(*used > 0);
                own
            })
            .collect();
        let rounds: Vec<NodeRound> = self
            .rounds
            .into_iter()
            .map(|round| {
                let mut blocks = Vec::with_capacity(round.blocks.len());
                for NodeBlock { node, nodes, ranks } in round.blocks {
                    // Nodes of a block have ranks, so their numbers stay consecutive.
                    let node = numbers[node as usize];
                    append(&mut blocks, NodeBlock { node, nodes, ranks });
                }
                NodeRound { blocks, times: round.times }
            })
            .collect();
        let all = self.names.into_iter().zip(self.slots).zip(self.used);
        let (used, idle): (Vec<_>, Vec<_>) = all.partition(|(_, used)| *used > 0);
        let idle = idle.into_iter().filter(|_| keeps_idle);
        let (hosts, slots): (Vec<_>, Vec<_>) =
            used.into_iter().chain(idle).map(|(host, _)| host).unzip();
        let map = NodeMap::try_from(rounds).map_err(str::to_owned)?;
        let nodes =
            u32::try_from(hosts.len()).map_err(|_| "there are too many hosts".to_owned())?;
        Ok(PlacedHosts { hosts, slots, map: map.with_nodes(nodes), source })
    }
}

/// Appends a run of ranks on a node.
fn extend(blocks: &mut Vec<NodeBlock>, node: usize, ranks: u32) {
    if ranks > 0 {
        let node = u32::try_from(node).unwrap_or(u32::MAX);
        append(blocks, NodeBlock { node, nodes: 1, ranks });
    }
}

/// Appends a block, and joins it with the one before if that is possible.
fn append(blocks: &mut Vec<NodeBlock>, block: NodeBlock) {
    match blocks.last_mut() {
        Some(last) if last.ranks == block.ranks && last.node + last.nodes == block.node => {
            last.nodes += block.nodes;
        }
        _ => blocks.push(block),
    }
}

/// Message about ranks that no host takes.
fn refusal(hosts: &[Host], ranks: u32, placed: u32, rules: FillRules) -> String {
    let hosts = count(hosts.len(), "host");
    let (limit, remedy) = match rules.order {
        HostOrder::PerNode(most) => (
            format!("{most} on each ('--map-by ppr:{most}:node')"),
            "start fewer, or raise the number",
        ),
        _ if rules.oversubscribes => {
            ("no more ('max_slots')".to_owned(), "start fewer, or raise 'max_slots'")
        }
        _ => (
            "one in each slot ('--no-oversubscribe')".to_owned(),
            "start fewer, name more hosts, or leave the option out",
        ),
    };
    format!("{ranks} ranks are to run on {hosts}, which take {placed} of them, {limit}; {remedy}")
}

fn count(number: usize, name: &str) -> String {
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
