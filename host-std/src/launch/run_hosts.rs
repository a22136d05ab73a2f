//! Hosts of a run, as spawn requests name them.

use super::spawn_error::SpawnError;
use super::spawn_request::{is_here, is_loopback};
use crate::numbers::index;
use crate::placement::is_same;
use std::ffi::OsString;

/// Hosts on which programs may be started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunHosts<'a> {
    /// This one alone.
    One(&'a str),
    /// Those of a run on several nodes.
    Several {
        /// Their names. A name that occurs again is that of a host that was lost and added again.
        hosts: &'a [String],
        /// True for those that are lost, in the same order.
        lost: &'a [bool],
        /// Name of the requesting rank's host.
        own: &'a str,
    },
}

impl RunHosts<'_> {
    /// Node with this name, as often as the number behind the name; `None` if there is none. It is a lost one
    /// only if there is no other.
    pub(super) fn nodes_of(self, wanted: &str) -> Option<impl Iterator<Item = u32> + use<>> {
        let (node, count) = match (self.find(wanted), with_count(wanted)) {
            (None, Some((name, count))) => (self.find(name), usize::from(count)),
            (found, _) => (found, 1),
        };
        let node = u32::try_from(node?).ok()?;
        Some(std::iter::repeat_n(node, count))
    }

    fn find(self, name: &str) -> Option<usize> {
        let (hosts, own) = match self {
            Self::One(host) => return is_here(name, host).then_some(0),
            Self::Several { hosts, own, .. } => (hosts, own),
        };
        let name = if is_loopback(name) { own } else { name };
        let is_lost = |at: usize| self.is_lost(at);
        let all = |lost: bool| hosts.iter().enumerate().filter(move |(at, _)| is_lost(*at) == lost);
        let of = |lost: bool| {
            let exact = all(lost).find(|(_, host)| *host == name);
            let found = exact.or_else(|| all(lost).find(|(_, host)| is_same(name, host)));
            found.map(|(at, _)| at)
        };
        of(false).or_else(|| of(true))
    }

    fn is_lost(self, at: usize) -> bool {
        matches!(self, Self::Several { lost, .. } if lost.get(at) == Some(&true))
    }

    /// True if there is a node with this name that is not lost.
    pub(super) fn has(self, wanted: &str) -> bool {
        let node = self.nodes_of(wanted).and_then(|mut nodes| nodes.next());
        node.is_some_and(|node| !self.is_lost(index(node)))
    }

    pub(super) fn refusal(self, name: OsString, wanted: String) -> SpawnError {
        let wanted = match wanted.rsplit_once(':') {
            Some((host, count)) if count.parse::<u16>().is_ok() => host.to_owned(),
            _ => wanted,
        };
        match self {
            Self::One(host) => SpawnError::Elsewhere { name, wanted, host: host.to_owned() },
            Self::Several { .. } => SpawnError::Unknown { name, wanted },
        }
    }
}

/// Name and number of a host with a number of ranks.
pub(super) fn with_count(wanted: &str) -> Option<(&str, u16)> {
    let (name, count) = wanted.rsplit_once(':')?;
    Some((name, count.parse().ok().filter(|count| *count > 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_host_is_named_unless_it_was_added_again() {
        let hosts = ["n1", "n2", "n1"].map(str::to_owned);
        let of = |lost: &[bool], wanted: &str| {
            let known = RunHosts::Several { hosts: &hosts, lost, own: "n2" };
            let nodes: Vec<u32> = known.nodes_of(wanted).into_iter().flatten().collect();
            (nodes, known.has(wanted))
        };
        assert_eq!(of(&[true, false, false], "n1:2"), (vec![2, 2], true));
        assert_eq!(of(&[true, false, true], "n1"), (vec![0], false));
        assert_eq!(of(&[false; 3], "localhost"), (vec![1], true));
        assert_eq!(of(&[false; 3], "n3"), (vec![], false));
    }

    #[test]
    fn host_is_found_with_or_without_its_domain_and_no_other_one() {
        let hosts = ["n.a", "n.b", "me@m.a", "10.0.0.1", "10.0.0.2"].map(str::to_owned);
        let of = |wanted: &str| {
            let known = RunHosts::Several { hosts: &hosts, lost: &[], own: "n.a" };
            known.nodes_of(wanted).and_then(|mut nodes| nodes.next())
        };
        for (wanted, node) in [
            ("n.b", Some(1)),
            ("N.B", Some(1)),
            ("n", Some(0)),
            ("m", Some(2)),
            ("10.0.0.2", Some(4)),
            ("n.c", None),
            ("10.0.0.3", None),
            ("10", None),
        ] {
            assert_eq!(of(wanted), node, "{wanted}");
        }
    }
}
