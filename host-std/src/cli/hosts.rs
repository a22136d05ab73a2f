//! Hosts of a run, from options, files and batch systems to the node of every rank.

use super::args::PartArgs;
use super::config::own_settings;
use crate::launch::spawn_request;
use crate::placement::allocation::{Allocation, AllocationSource, Surroundings, of_batch_system};
use crate::placement::{HostList, HostOrder, PartHosts, PlacedHosts, parse_file, place};
use crate::settings::HostSettings;
use crate::settings::hosts::HostSource;
use pmi_host_base::usage::UsageError;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

/// Hosts of the programs of a job, before their ranks are placed.
#[derive(Debug)]
pub(super) struct JobHosts {
    /// Hosts of all programs that name none.
    common: Allocation,
    /// True if these are named by the user or by a batch system, and not just this one.
    is_named: bool,
    /// Hosts of each program that names them.
    own: Vec<Option<Allocation>>,
}

impl JobHosts {
    /// Finds the hosts of each of `parts`; `host` is this one.
    ///
    /// # Errors
    ///
    /// [`UsageError`] for files and variables that describe no hosts.
    pub(super) fn resolve(
        settings: &HostSettings,
        parts: &[PartArgs],
        host: &str,
    ) -> Result<Self, UsageError> {
        let own = parts.iter().map(|part| {
            let source = own_settings(part)?.hosts.source;
            source.map(|source| named(&source, host)).transpose()
        });
        let own = own.collect::<Result<Vec<_>, UsageError>>()?;
        let is_needed = own.is_empty() || own.contains(&None);
        let common = match &settings.source {
            Some(source) => Some(named(source, host)?),
            None if settings.allocation && is_needed => allocated(host)?,
            None => None,
        };
        let is_named = common.is_some();
        let common = common.unwrap_or_else(|| {
            // Without a number of slots, only `--no-oversubscribe` limits the ranks of this host.
            let processors = available_parallelism().map_or(1, usize::from);
            let slots = if settings.oversubscribe { usize::MAX } else { processors };
            let slots = u32::try_from(slots).unwrap_or(u32::MAX);
            Allocation { hosts: HostList::single(host, slots), source: AllocationSource::Named }
        });
        Ok(Self { common, is_named, own })
    }

    /// Number of ranks of the program at this place if it has none; `None` if no host is named either.
    pub(super) fn default_ranks(&self, part: usize, settings: &HostSettings) -> Option<u32> {
        let own = self.own.get(part).and_then(Option::as_ref);
        let rules = settings.rules();
        match own.or(self.is_named.then_some(&self.common)) {
            Some(allocation) => Some(allocation.hosts.capacity(rules)),
            None => match settings.order {
                HostOrder::PerNode(ranks) => Some(ranks),
                HostOrder::Slot | HostOrder::Node => settings.ppn,
            },
        }
    }

    /// Places `ranks` of each program. `None` if all of them are on this host, which is called `host`.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if hosts do not take the ranks.
    pub(super) fn place(
        &self,
        ranks: &[u32],
        settings: &HostSettings,
        host: &str,
    ) -> Result<Option<PlacedHosts>, UsageError> {
        let parts: Vec<PartHosts<'_>> = ranks
            .iter()
            .enumerate()
            .filter(|(_, ranks)| **ranks > 0)
            .map(|(part, ranks)| {
                let own = self.own.get(part).and_then(Option::as_ref);
                PartHosts { ranks: *ranks, hosts: own.unwrap_or(&self.common) }
            })
            .collect();
        let placed = place(&parts, settings.rank_map.as_ref(), settings.rules());
        let placed = placed.map_err(|what| UsageError::Other { what })?;
        Ok(Some(placed).filter(|placed| placed.hosts.iter().any(|name| name != host)))
    }
}

/// Hosts that a user has named.
fn named(source: &HostSource, host: &str) -> Result<Allocation, UsageError> {
    let hosts = match source {
        HostSource::List(list) => list.clone(),
        HostSource::File(file) => {
            let wrong =
                |why| UsageError::Value { given: format!("--hostfile {}", file.display()), why };
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|error| wrong(format!("it cannot be read ({error})")))?;
            parse_file(&text).map_err(wrong)?
        }
    };
    let is_single = hosts.hosts().len() == 1;
    let hosts = hosts.with_own_name(host, &|name| is_here(name, host, is_single));
    Ok(Allocation { hosts, source: AllocationSource::Named })
}

/// Hosts that a batch system has allocated.
fn allocated(host: &str) -> Result<Option<Allocation>, UsageError> {
    let surroundings = Surroundings {
        variable: &|name| std::env::var(name).ok().filter(|value| !value.is_empty()),
        read: &|file| std::fs::read_to_string(Path::new(file)),
        output: &output,
    };
    let found = of_batch_system(&surroundings).map_err(|what| UsageError::Other { what })?;
    // Slurm names the node of this process, which may have another name than the system reports.
    let own_node = std::env::var("SLURMD_NODENAME").unwrap_or_default();
    Ok(found.map(|Allocation { hosts, source }| {
        let is_own = source == AllocationSource::Slurm && !own_node.is_empty();
        let is_single = hosts.hosts().len() == 1;
        let is_here = |name: &str| is_own && name == own_node || is_here(name, host, is_single);
        Allocation { hosts: hosts.with_own_name(host, &is_here), source }
    }))
}

/// Standard output of a command that ends by itself.
fn output(words: &[&str]) -> Result<String, String> {
    let shown = words.join(" ");
    let (name, args) = words.split_first().ok_or("there is no command")?;
    let mut command = Command::new(name);
    let command = command.args(args).stdin(Stdio::null()).stderr(Stdio::inherit());
    let ran = command.output().map_err(|error| format!("'{shown}' cannot be started ({error})"))?;
    match ran.status.success() {
        true => Ok(String::from_utf8_lossy(&ran.stdout).into_owned()),
        false => Err(format!("'{shown}' has failed ({})", ran.status)),
    }
}

/// True if a name or an address is this machine: only its own addresses can be bound here. A name is
/// resolved only if it `is_single`: a list of a thousand names takes the name service too long.
fn is_here(name: &str, host: &str, is_single: bool) -> bool {
    spawn_request::is_here(name, host)
        || (is_single || name.parse::<IpAddr>().is_ok()) && UdpSocket::bind((name, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_addresses_too() {
        for name in ["node1", "node1.example", "localhost", "127.0.0.1", "127.0.0.2", "::1", ""] {
            assert!(is_here(name, "node1", false), "{name}");
        }
        // An address that is reserved for documentation.
        for name in ["192.0.2.7", "node2", "me@node1"] {
            assert!(!is_here(name, "node1", false), "{name}");
        }
    }
}
