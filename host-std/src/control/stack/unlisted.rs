//! Ranks on this host that no launcher here lists: those of node servers, whose launcher is on another
//! host, and those of other launchers.

use procfs::process::{Process, all_processes};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

/// Ranks that one process has started.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnlistedRanks {
    /// Process that has started them.
    pub(super) parent: i32,
    /// Name of that program.
    pub(super) launcher: String,
    /// Name of the program of the first of them.
    pub(super) program: String,
    /// Number of ranks of the job, as far as they know it.
    pub(super) size: Option<u32>,
    /// Ranks with their processes, ascending.
    pub(super) ranks: Vec<(u32, i32)>,
}

/// Finds the processes with a rank in their environment whose parents have none, except `listed` ones.
pub(super) fn find(listed: &BTreeSet<i32>) -> Vec<UnlistedRanks> {
    let mut groups = BTreeMap::<i32, BTreeMap<u32, (i32, Option<u32>)>>::new();
    for process in all_processes().into_iter().flatten().flatten() {
        if listed.contains(&process.pid) {
            continue;
        }
        let Some((rank, size)) = identity(&process) else { continue };
        let Some(parent) = process.stat().ok().map(|stat| stat.ppid) else { continue };
        // A process below a rank has inherited its environment.
        if Process::new(parent).ok().is_some_and(|parent| identity(&parent).is_some()) {
            continue;
        }
        groups.entry(parent).or_default().insert(rank, (process.pid, size));
    }
    let name = |pid: i32| super::name_of(pid).unwrap_or_else(|| "?".to_owned());
    let group = |(parent, ranks): (i32, BTreeMap<u32, (i32, Option<u32>)>)| {
        let (first, size) = *ranks.values().next()?;
        Some(UnlistedRanks {
            parent,
            launcher: name(parent),
            program: name(first),
            size,
            ranks: ranks.into_iter().map(|(rank, (pid, _))| (rank, pid)).collect(),
        })
    };
    groups.into_iter().filter_map(group).collect()
}

/// Rank and size in the environment of a process. That of processes of other users cannot be read.
fn identity(process: &Process) -> Option<(u32, Option<u32>)> {
    let environment = process.environ().ok()?;
    let number = |name: &str| environment.get(OsStr::new(name))?.to_str()?.parse().ok();
    let rank = number("PMI_RANK").or_else(|| number("PMIX_RANK"))?;
    Some((rank, number("PMI_SIZE").or_else(|| number("OMPI_COMM_WORLD_SIZE"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn ranks_of_any_launcher_are_found_below_their_parent() {
        let start = |rank: &str| {
            let mut command = Command::new("cat");
            command
                .env("PMI_RANK", rank)
                .env("PMI_SIZE", "8")
                .stdin(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let mut children = [start("5"), start("2")];
        let pids = children.each_ref().map(|child| i32::try_from(child.id()).unwrap());
        let own = i32::try_from(std::process::id()).unwrap();
        let of_own = |listed: &[i32]| {
            let listed = listed.iter().copied().collect();
            find(&listed).into_iter().find(|group| group.parent == own)
        };
        let found = of_own(&[]).unwrap();
        assert_eq!((found.program.as_str(), found.size), ("cat", Some(8)));
        assert_eq!(found.ranks, [(2, pids[1]), (5, pids[0])]);
        assert_eq!(of_own(&pids[1..]).unwrap().ranks, [(5, pids[0])]);
        assert_eq!(of_own(&pids), None);
        for child in &mut children {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}
