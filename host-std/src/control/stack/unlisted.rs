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
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn ranks_of_any_launcher_are_found_below_their_parent() {
        // Not of this process: other tests start ranks as well.
        let script = "exec 3<&0; for rank in 5 2; do PMI_RANK=$rank PMI_SIZE=8 cat <&3 & echo $!; done; wait";
        let mut launcher = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let own = i32::try_from(launcher.id()).unwrap();
        let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
        let pids = [(); 2].map(|()| lines.next().unwrap().unwrap().parse::<i32>().unwrap());
        let of_own = |listed: &[i32]| {
            let listed = listed.iter().copied().collect();
            find(&listed).into_iter().find(|group| group.parent == own)
        };
        let until = Instant::now() + Duration::from_secs(60);
        while of_own(&[]).is_none_or(|found| found.ranks.len() < 2 || found.program != "cat") {
            assert!(Instant::now() < until, "{:?}", of_own(&[]));
        }
        let found = of_own(&[]).unwrap();
        assert_eq!((found.program.as_str(), found.size), ("cat", Some(8)));
        assert_eq!(found.ranks, [(2, pids[1]), (5, pids[0])]);
        assert_eq!(of_own(&pids[1..]).unwrap().ranks, [(5, pids[0])]);
        assert_eq!(of_own(&pids), None);
        drop(launcher.stdin.take());
        launcher.wait().unwrap();
    }
}
