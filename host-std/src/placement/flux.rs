//! Hosts and cores in a resource set of Flux.
//!
//! Spec: RFC 20 (Flux), *Resource Set Specification Version 1*; RFC 22, *Idset String Representation*.

use super::host::{HostList, HostListBuilder, too_many};
use super::{HOSTS_MAX, SLOTS_MAX, host_item, host_range};
use serde::Deserialize;

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

/// Hosts of a resource set; the number of slots is that of cores, as for tasks of Flux itself.
///
/// # Errors
///
/// A message with the fault of the set.
pub(super) fn hosts(text: &str) -> Result<HostList, String> {
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
    let mut hosts = HostListBuilder::default();
    let mut rest = names.iter();
    for ResourcePart { rank, children } in &set.execution.parts {
        let brokers = id_count(rank).and_then(|count| usize::try_from(count).ok());
        let cores = id_count(&children.core).and_then(|count| u32::try_from(count).ok());
        let (Some(brokers), Some(cores)) = (brokers, cores.filter(|cores| *cores <= SLOTS_MAX))
        else {
            return Err(format!(
                "the resource set of Flux has brokers '{rank}' with cores '{}'",
                children.core
            ));
        };
        if brokers > rest.len() {
            return Err("the resource set of Flux has more brokers than names of nodes".to_owned());
        }
        for name in rest.by_ref().take(brokers) {
            hosts.add(name, cores, None)?;
        }
    }
    match rest.next() {
        Some(name) => Err(format!("the resource set of Flux has no cores of '{name}'")),
        None => hosts.finish(),
    }
}

/// Number of ids in a set such as `0-3,7` or `[0-3,7]`; `None` if it is invalid or empty.
fn id_count(text: &str) -> Option<u64> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let counts = inner.split(',').map(|piece| {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some(u64::from(last.checked_sub(first)?) + 1)
    });
    counts.sum()
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
