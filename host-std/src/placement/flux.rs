//! Hosts and cores in a resource set of Flux.
//!
//! Spec: RFC 20 (Flux), *Resource Set Specification Version 1*; RFC 22, *Idset String Representation*.

use super::host::{HostList, HostListBuilder, too_many};
use super::{HOSTS_MAX, SLOTS_MAX, host_item, host_range};
use serde::Deserialize;
use std::ops::RangeInclusive;

/// Resource set, as far as it is needed here.
#[derive(Deserialize)]
struct ResourceSet {
    version: u32,
    execution: Execution,
}

#[derive(Deserialize)]
struct Execution {
    #[serde(rename = "R_lite")]
    parts: Vec<ResourcePart>,
    nodelist: Vec<String>,
}

/// Brokers with the same resources.
#[derive(Deserialize)]
struct ResourcePart {
    rank: String,
    children: Children,
}

#[derive(Deserialize)]
struct Children {
    core: String,
}

/// Broker of an instance, and its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broker {
    /// Name of the host.
    pub(crate) host: String,
    /// Rank in the instance.
    pub(crate) rank: u32,
    /// Number of cores of it.
    pub(crate) cores: u32,
}

/// Hosts of a resource set; the number of slots is that of cores, as for tasks of Flux itself.
///
/// # Errors
///
/// A message with the fault of the set.
pub(super) fn hosts(text: &str) -> Result<HostList, String> {
    let mut hosts = HostListBuilder::default();
    for broker in brokers(text)? {
        hosts.add(&broker.host, broker.cores, None)?;
    }
    hosts.finish()
}

/// Brokers of a resource set.
///
/// # Errors
///
/// A message with the fault of the set.
pub(crate) fn brokers(text: &str) -> Result<Vec<Broker>, String> {
    let set: ResourceSet = serde_json::from_str(text)
        .map_err(|error| format!("the resource set of Flux cannot be read ({error})"))?;
    if set.version != 1 {
        let version = set.version;
        return Err(format!("the resource set of Flux has version {version} instead of 1"));
    }
    let mut names = Vec::new();
    for list in &set.execution.nodelist {
        for word in host_item::split(list)? {
            names.append(&mut host_range::expand(word)?);
        }
        if names.len() > HOSTS_MAX {
            return Err(too_many());
        }
    }
    let mut brokers = Vec::new();
    let mut rest = names.into_iter();
    for ResourcePart { rank, children } in &set.execution.parts {
        let count = |text| ids(text).map(|ranges| ranges.iter().map(id_count).sum::<u64>());
        let of_ranks = ids(rank).zip(count(rank));
        let cores = count(&children.core).and_then(|count| u32::try_from(count).ok());
        let (Some((ranks, count)), Some(cores)) =
            (of_ranks, cores.filter(|cores| *cores <= SLOTS_MAX))
        else {
            return Err(format!(
                "the resource set of Flux has brokers '{rank}' with cores '{}'",
                children.core
            ));
        };
        if u64::try_from(rest.len()).is_ok_and(|left| count > left) {
            return Err("the resource set of Flux has more brokers than names of nodes".to_owned());
        }
        let ranks = ranks.into_iter().flatten();
        brokers.extend(ranks.zip(rest.by_ref()).map(|(rank, host)| Broker { host, rank, cores }));
    }
    match rest.next() {
        Some(name) => Err(format!("the resource set of Flux has no cores of '{name}'")),
        None => Ok(brokers),
    }
}

/// Ranges of a set such as `0-3,7` or `[0-3,7]`; `None` if it is invalid or empty.
fn ids(text: &str) -> Option<Vec<RangeInclusive<u32>>> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let ranges = inner.split(',').map(|piece| {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let range: RangeInclusive<u32> = first.parse().ok()?..=last.parse().ok()?;
        (!range.is_empty()).then_some(range)
    });
    ranges.collect()
}

fn id_count(range: &RangeInclusive<u32>) -> u64 {
    u64::from(range.end() - range.start()) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(parts: &str, nodes: &str) -> String {
        format!(
            r#"{{"version":1,"execution":{{"R_lite":[{parts}],"nodelist":[{nodes}],"starttime":0}}}}"#
        )
    }

    #[test]
    fn cores_of_brokers_are_slots_of_hosts() {
        let four = r#"{"rank":"0-2","children":{"core":"0-3","gpu":"0"}}"#;
        let two = r#"{"rank":"7","children":{"core":"1,3"}}"#;
        let list = hosts(&set(&format!("{four},{two}"), r#""n[1-3]","x""#)).unwrap();
        assert_eq!(list.to_string(), "n1:4,n2:4,n3:4,x:2");
        let brokers = brokers(&set(&format!("{four},{two}"), r#""n[1-3]","x""#)).unwrap();
        let ranks: Vec<(&str, u32)> =
            brokers.iter().map(|broker| (broker.host.as_str(), broker.rank)).collect();
        assert_eq!(ranks, [("n1", 0), ("n2", 1), ("n3", 2), ("x", 7)]);
        // Several brokers on one node.
        let list = hosts(&set(four, r#""n1","n1,n1""#)).unwrap();
        assert_eq!(list.to_string(), "n1:12");
    }

    #[test]
    fn sets_that_contradict_themselves_are_refused() {
        let four = r#"{"rank":"0-1","children":{"core":"0-3"}}"#;
        for (text, part) in [
            (set(four, r#""n1""#), "more brokers"),
            (set(four, r#""n[1-3]""#), "no cores of 'n3'"),
            (set(r#"{"rank":"1-0","children":{"core":"0"}}"#, r#""n1""#), "brokers '1-0'"),
            (set(r#"{"rank":"0","children":{"core":"0-4000000000"}}"#, r#""n1""#), "cores '0-4"),
            (set(r#"{"rank":"0-4294967295","children":{"core":"0"}}"#, r#""n1""#), "more brokers"),
            (set(four, r#""n[1-4000000000]""#), "131072 hosts"),
            (set("", ""), "names no host"),
            (set(four, "").replace("\"version\":1", "\"version\":2"), "version 2"),
            ("{".to_owned(), "cannot be read"),
        ] {
            let why = hosts(&text).expect_err(part);
            assert!(why.contains(part), "{why}");
        }
    }
}
