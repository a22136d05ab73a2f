//! Processor time of processes, as they list it or as the system adds it up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Processor time of the processes of a run, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Census {
    /// That of the head.
    pub(super) head: f64,
    /// That of the servers of all hosts, with what the head has started besides.
    pub(super) servers: f64,
}

impl Census {
    /// Adds up the lines `LABEL pid=5 parent=1 name=x ... cpu_ns=9` of the process `head`, and of those named
    /// `servers` among the descendants of it and of `roots`. Where several ranks print them, the last of a
    /// process counts.
    pub(super) fn read(
        (output, label): (&str, &str),
        head: u32,
        roots: &[u32],
        servers: &[&str],
    ) -> Self {
        let mut all = BTreeMap::new();
        for line in output.lines().filter_map(|line| line.strip_prefix(label)) {
            let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
            let number = |name: &str| field(name).and_then(|number| number.parse::<u32>().ok());
            let nanos = field("cpu_ns=").and_then(|nanos| nanos.parse::<f64>().ok());
            if let (Some(pid), Some(parent), Some(name), Some(nanos)) =
                (number("pid="), number("parent="), field("name="), nanos)
            {
                let (.., most) = all.entry(pid).or_insert((parent, name, 0.0_f64));
                *most = most.max(nanos / 1e3);
            }
        }
        let mut family: BTreeSet<u32> = roots.iter().copied().chain([head]).collect();
        // A descendant may have a smaller number than its parent.
        loop {
            let known = family.len();
            let children = all.iter().filter(|(_, (parent, ..))| family.contains(parent));
            family.extend(children.map(|(pid, _)| *pid).collect::<Vec<_>>());
            if family.len() == known {
                break;
            }
        }
        let head = all.remove(&head).map_or(0.0, |(.., micros)| micros);
        let of_run = all.iter().filter(|(pid, _)| family.contains(pid));
        let of_servers = of_run.filter(|(_, (_, name, _))| servers.contains(name));
        Self { head, servers: of_servers.map(|(_, (.., micros))| micros).sum() }
    }
}

/// Processor time of the processes that `act` starts and waits for, in microseconds.
///
/// # Errors
///
/// That of `act`.
pub(super) fn of_children(act: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
    let before = children_micros("self")?;
    act()?;
    Ok(children_micros("self")? - before)
}

/// Processor time of the ended children of a process, in microseconds.
///
/// # Errors
///
/// There is no such process, or the system does not state it.
pub(super) fn children_micros(pid: &str) -> Result<f64, String> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    ended_children(&stat).ok_or_else(|| format!("{path} has no processor time of children"))
}

fn ended_children(stat: &str) -> Option<f64> {
    // The name may have blanks.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut ticks = rest.split_whitespace().skip(13).map(|ticks| ticks.parse::<f64>().ok());
    Some((ticks.next()?? + ticks.next()??) * TICK_MICROS)
}

/// Unit of the kernel.
const TICK_MICROS: f64 = 10_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_added_up_but_the_head_and_others() {
        let line = |label: &str, (pid, parent): (u32, u32), name: &str, nanos: u32| {
            format!("{label} pid={pid} parent={parent} name={name} pss_kib=1 cpu_ns={nanos}\n")
        };
        let output = [
            line("before", (7, 1), "pmi-host", 9_000),
            line("before", (8, 10), "pmi-host", 2_000),
            line("before", (8, 10), "pmi-host", 4_000),
            line("before", (9, 7), "pmi-guard", 1_000),
            line("before", (10, 3), "sshd", 5_000),
            // Of another run.
            line("before", (11, 12), "pmi-host", 7_000),
            line("after", (8, 3), "pmi-host", 6_000),
        ]
        .concat();
        let of = |label| Census::read((&output, label), 7, &[3], &["pmi-host", "pmi-guard"]);
        assert_eq!(of("before"), Census { head: 9.0, servers: 5.0 });
        assert_eq!(of("after"), Census { head: 0.0, servers: 6.0 });
    }

    #[test]
    fn ended_children_are_read_behind_the_name() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 300 40 20 0";
        assert_eq!(ended_children(stat), Some(3_400_000.0));
        assert_eq!(ended_children("7 (a"), None);
        assert!(of_children(|| Err("no".into())).is_err());
    }
}
