//! Keys that starters hand to the node servers of their hosts.

use super::{StarterCommand, StarterHost};
use crate::key::{LinkKey, RunKey};

/// Keys that the starters of a run hand over.
#[derive(Debug)]
pub(crate) enum StartKeys {
    /// Without encryption, all hand over the key of the run.
    Plain,
    /// Each has a key of its own, which is derived from that of the run.
    OfEach(RunKey),
    /// The user hands over the key of the run by hand, for all hosts.
    OfAll(LinkKey),
}

impl StartKeys {
    /// Keys of the starters of a run with this key.
    pub(crate) fn new(run: &RunKey, is_manual: bool) -> Self {
        match (run.is_plain(), is_manual) {
            (true, _) => Self::Plain,
            (false, true) => Self::OfAll(run.key().clone()),
            (false, false) => Self::OfEach(run.clone()),
        }
    }

    /// Gives each of `commands`, which start node servers on `hosts`, its key. Returns all keys with the
    /// nodes that join by them.
    pub(crate) fn assign(
        &self,
        hosts: &[StarterHost],
        commands: &mut [StarterCommand],
    ) -> Vec<(LinkKey, Vec<u32>)> {
        match self {
            Self::Plain => Vec::new(),
            Self::OfAll(key) => vec![(key.clone(), hosts.iter().map(|host| host.node).collect())],
            Self::OfEach(run) => {
                let assign = |command: &mut StarterCommand| {
                    let first = command.nodes.first().copied().unwrap_or_default();
                    let key = command.key.insert(run.of_start(first)).clone();
                    (key, command.nodes.clone())
                };
                commands.iter_mut().map(assign).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_get_keys_for_all_of_their_hosts() {
        let host =
            |node| StarterHost { node, name: format!("n{node}"), is_here: false, is_apart: false };
        let command = |nodes: &[u32]| StarterCommand {
            words: Vec::new(),
            nodes: nodes.to_vec(),
            sends_program: false,
            is_relayed: false,
            is_srun: false,
            key: None,
        };
        let run = RunKey::generate().unwrap();
        let hosts = [1, 2, 3].map(host);
        let mut commands = [command(&[1]), command(&[2, 3])];
        let keys = StartKeys::new(&run, false).assign(&hosts, &mut commands);
        assert_eq!(keys, [(run.of_start(1), vec![1]), (run.of_start(2), vec![2, 3])]);
        assert_eq!(commands.map(|command| command.key), [1, 2].map(|at| Some(run.of_start(at))));
        let by_hand = StartKeys::new(&run, true).assign(&hosts, &mut []);
        assert_eq!(by_hand, [(run.key().clone(), vec![1, 2, 3])]);
        let mut commands = [command(&[1])];
        let plain = StartKeys::new(&run.without_encryption(true), false);
        assert!(plain.assign(&hosts, &mut commands).is_empty() && commands[0].key.is_none());
    }
}
