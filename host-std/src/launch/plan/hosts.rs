//! Hosts by their names: those of a run, and those that a spawn request lists.

use super::spawn_outcome::SpawnError;
use crate::numbers::index;
use pmi_host_base::user_file;
use pmi_host_base::words;
use pmi_host_os::host_name::{is_here, is_loopback, is_same};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Hosts by their names, and those that a file lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WantedHosts {
    pub(super) names: Vec<String>,
    pub(super) file: Option<OsString>,
}

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
        let find_among = |lost: bool| {
            let exact = all(lost).find(|(_, host)| *host == name);
            let found = exact.or_else(|| all(lost).find(|(_, host)| is_same(name, host)));
            found.map(|(at, _)| at)
        };
        find_among(false).or_else(|| find_among(true))
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

impl WantedHosts {
    /// Adds the hosts of the file, if there is one, for the program `name`.
    pub(super) fn read_file(&mut self, name: &OsStr) -> Result<(), SpawnError> {
        let Some(file) = self.file.take().map(PathBuf::from) else { return Ok(()) };
        match read_hosts(&file) {
            Ok(more) => self.names.extend(more),
            Err(why) => return Err(SpawnError::HostFile { name: name.to_owned(), file, why }),
        }
        Ok(())
    }
}

/// Names in a list with commas.
pub(super) fn names(list: &str) -> Vec<String> {
    list.split(',').map(|host| host.trim().to_owned()).collect()
}

/// First word of each line, with the number of Open MPI's `slots=` in the form of Hydra, behind a colon.
fn read_hosts(file: &Path) -> Result<Vec<String>, String> {
    let message = |error: io::Error| error.to_string();
    // Reading anything else could block.
    let opened = user_file::open_regular(file).map_err(message)?;
    let mut text = String::new();
    opened.take(HOSTS_BYTES).read_to_string(&mut text).map_err(message)?;
    let text = words::without_mark(text);
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let host = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let has_count =
            name.rsplit_once(':').is_some_and(|(_, count)| count.parse::<u16>().is_ok());
        let slots = words.find_map(|word| word.strip_prefix("slots=")).filter(|_| !has_count);
        Some(slots.map_or_else(|| name.to_owned(), |slots| format!("{name}:{slots}")))
    };
    Ok(lines.filter_map(host).collect())
}

/// Larger than any real list of hosts.
const HOSTS_BYTES: u64 = 1 << 20;

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
