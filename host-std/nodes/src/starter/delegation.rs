//! Division of a start: the head starts some hosts, whose node servers start the others.

use super::StarterCommand;
use crate::relay::LINKS_MAX;
use std::collections::BTreeMap;

/// Commands of the head, and those of the nodes that it starts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StartPlan {
    /// Commands that the head executes.
    pub(crate) own: Vec<StarterCommand>,
    /// Commands that node servers execute, by node.
    pub(crate) delegated: BTreeMap<u32, Vec<StarterCommand>>,
}

impl StartPlan {
    /// All commands for the head.
    pub(super) fn flat(own: Vec<StarterCommand>) -> Self {
        Self { own, delegated: BTreeMap::new() }
    }

    /// Commands for the head are those without `is_remote` and the first `own_count` of the others; the nodes
    /// of the latter execute the rest in turns. So all nodes above one that starts others are started by the
    /// head, and the nodes next to the root are started first.
    pub(super) fn divided(
        commands: Vec<StarterCommand>,
        own_count: usize,
        is_remote: impl Fn(&StarterCommand) -> bool,
    ) -> Self {
        let remote_count = commands.iter().filter(|command| is_remote(command)).count();
        let own_count = own_count.max(remote_count.div_ceil(EACH_MAX + 1)).max(1);
        let (mut plan, mut delegates, mut turn) = (Self::default(), Vec::new(), 0);
        for command in commands {
            let node = command.nodes.first().copied().unwrap_or_default();
            if !is_remote(&command) {
                plan.own.push(command);
            } else if delegates.len() < own_count {
                delegates.push(node);
                plan.own.push(command);
            } else {
                let delegate = delegates.get(turn % delegates.len()).copied().unwrap_or_default();
                plan.delegated.entry(delegate).or_default().push(command);
                turn += 1;
            }
        }
        plan
    }
}

/// Most commands of a node server: each takes two open files until the end of the run, beside those of ranks.
const EACH_MAX: usize = 128;

/// A node has a connection of the tree to the head, one that replaces it, and one for starts.
const _: () = assert!(LINKS_MAX >= 3 * (EACH_MAX + 1));

/// Starts that are left to other nodes, until they have succeeded or the head starts the node itself.
#[derive(Debug, Default)]
pub(crate) struct DelegatedStarts {
    /// By node: the other one, and its command.
    all: BTreeMap<u32, (u32, StarterCommand)>,
    /// True once a failure was reported.
    pub(crate) has_reported: bool,
}

impl DelegatedStarts {
    /// Starts of a [`StartPlan`].
    pub(crate) fn new(delegated: BTreeMap<u32, Vec<StarterCommand>>) -> Self {
        let of_delegate = |(delegate, commands): (u32, Vec<StarterCommand>)| {
            let node = |command: &StarterCommand| command.nodes.first().copied();
            commands.into_iter().filter_map(move |one| Some((node(&one)?, (delegate, one))))
        };
        let all = delegated.into_iter().flat_map(of_delegate).collect();
        Self { all, has_reported: false }
    }

    /// Nodes that `delegate` is to start, with the commands.
    pub(crate) fn of(&self, delegate: u32) -> impl Iterator<Item = (u32, &StarterCommand)> {
        let of_delegate = self.all.iter().filter(move |(_, (starts, _))| *starts == delegate);
        of_delegate.map(|(node, (_, command))| (*node, command))
    }

    /// The node that is to start `node`.
    pub(crate) fn get(&self, node: u32) -> Option<u32> {
        self.all.get(&node).map(|(delegate, _)| *delegate)
    }

    /// Removes the start of `node`, and returns the node that was to do it, with the command.
    pub(crate) fn remove(&mut self, node: u32) -> Option<(u32, StarterCommand)> {
        self.all.remove(&node)
    }

    /// Removes all.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(count: u32) -> Vec<StarterCommand> {
        (1..=count).map(command).collect()
    }

    fn command(node: u32) -> StarterCommand {
        StarterCommand {
            words: Vec::new(),
            nodes: vec![node],
            sends_program: false,
            is_relayed: false,
            is_srun: false,
            key: None,
        }
    }

    fn nodes(commands: &[StarterCommand]) -> Vec<u32> {
        commands.iter().flat_map(|command| command.nodes.clone()).collect()
    }

    #[test]
    fn first_hosts_start_the_others_in_turns() {
        let plan = StartPlan::divided(commands(9), 3, |command| command.nodes != [2]);
        assert_eq!(nodes(&plan.own), [1, 2, 3, 4]);
        let delegated: Vec<_> =
            plan.delegated.iter().map(|(node, of_node)| (*node, nodes(of_node))).collect();
        assert_eq!(delegated, [(1, vec![5, 8]), (3, vec![6, 9]), (4, vec![7])]);
    }

    #[test]
    fn no_host_starts_more_than_its_open_files_allow_and_each_is_started_once() {
        let plan = StartPlan::divided(commands(5000), 2, |_| true);
        assert_eq!(plan.own.len(), 39);
        assert!(plan.delegated.values().all(|of_node| of_node.len() <= EACH_MAX));
        let mut all = nodes(&plan.own);
        all.extend(plan.delegated.values().flat_map(|of_node| nodes(of_node)));
        all.sort_unstable();
        assert_eq!(all, (1..=5000).collect::<Vec<_>>());
    }

    #[test]
    fn start_is_known_by_its_delegate_until_it_is_over() {
        let plan = StartPlan::divided(commands(5), 2, |_| true);
        let mut starts = DelegatedStarts::new(plan.delegated);
        let of =
            |starts: &DelegatedStarts, node| Vec::from_iter(starts.of(node).map(|(node, _)| node));
        assert_eq!((of(&starts, 1), of(&starts, 2), of(&starts, 3)), (vec![3, 5], vec![4], vec![]));
        assert_eq!(
            starts.remove(5).map(|(delegate, command)| (delegate, command.nodes)),
            Some((1, vec![5]))
        );
        assert_eq!((of(&starts, 1), starts.remove(5)), (vec![3], None));
        starts.clear();
        assert!(of(&starts, 2).is_empty());
    }

    #[test]
    fn few_hosts_are_all_started_by_the_head() {
        for plan in [
            StartPlan::divided(commands(3), 3, |_| true),
            StartPlan::divided(commands(3), 1, |_| false),
            StartPlan::flat(commands(3)),
        ] {
            assert_eq!((plan.own.len(), plan.delegated.len()), (3, 0));
        }
    }
}
