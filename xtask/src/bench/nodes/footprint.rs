//! Memory of the processes that serve the ranks of one host.

use super::NodeRow;
use super::bench_hosts::{BenchHosts, SshLauncher};
use super::loss::SleepingJob;
use crate::bench::Comparison;
use crate::bench::stats::median;
use std::collections::BTreeMap;
use std::fs;

/// Adds the row of this comparison.
///
/// # Errors
///
/// A launcher fails.
pub(super) fn measure(bench: &BenchHosts<'_>, table: &mut Comparison) -> Result<(), String> {
    let launchers = [
        (SshLauncher::PmiHost, &["pmi-host", "pmi-guard"][..]),
        (SshLauncher::Hydra, &["hydra_pmi_proxy"]),
    ];
    let mut mib = [Vec::new(), Vec::new()];
    let mut rollups = Vec::new();
    for _ in 0..TURNS {
        for ((launcher, programs), found) in launchers.iter().zip(&mut mib) {
            let command = bench.launcher(*launcher, HOSTS, RANKS);
            let words = [&bench.tools.client, "memory", "pmi1", "1023"];
            let mut job = SleepingJob::start(command, RANKS, &words)?;
            let pids = processes_of(&bench.hosts.pids(OBSERVED), programs);
            found.push(resident(&pids) as f64 / 1024.0);
            if *launcher == SshLauncher::PmiHost {
                rollups.push(["Pss:", "Private_Dirty:"].map(|name| rollup(&pids, name)));
            }
            job.end();
        }
    }
    let [ours, theirs] = mib.map(|found| median(found).unwrap_or(f64::NAN));
    let figure = "memory of a node server, values of 1023 bytes";
    // Payload, and 64 bytes for each rank of other hosts.
    let limit = 4.0 + f64::from(RANKS) * (1023.0 + 64.0) / 1024.0 / 1024.0;
    let target = table.judge(&format!("{figure}, in MiB"), ours, (limit * 100.0).round() / 100.0);
    let beside = SshLauncher::Hydra.name();
    let row = NodeRow { figure, hosts: HOSTS, ranks: RANKS, beside, limit: None };
    let shown = |mib: f64| format!("{mib:.1} MiB");
    row.write(
        table,
        [format!("{} ({target})", shown(ours)), shown(theirs)],
        Some(ours / theirs),
        TURNS,
    );
    let of = |at: usize| {
        let kib = rollups.iter().filter_map(|rollup| rollup.get(at));
        median(kib.map(|kib| *kib as f64 / 1024.0)).unwrap_or(f64::NAN)
    };
    table.notes.push(format!(
        "Of a node server and its guard {:.1} MiB are their own (private and dirty); their proportional \
         share (PSS), with pages of files divided among {HOSTS} node servers on one machine, is {:.1} MiB.",
        of(1),
        of(0)
    ));
    Ok(())
}

/// Processes of these programs.
fn processes_of(pids: &[u32], programs: &[&str]) -> Vec<u32> {
    let is_one = |pid: &&u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = name.trim();
        // The kernel keeps 15 characters of a name.
        !name.is_empty() && programs.iter().any(|program| program.starts_with(name))
    };
    pids.iter().filter(is_one).copied().collect()
}

/// KiB of one figure of the kernel, over all processes.
fn rollup(pids: &[u32], figure: &str) -> u64 {
    let of = |pid: &u32| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(figure))?;
        line.split_whitespace().next()?.parse().ok()
    };
    pids.iter().filter_map(of).sum()
}

/// KiB of all these processes, with pages of files counted once: on a host of its own, nothing else
/// shares them.
fn resident(pids: &[u32]) -> u64 {
    let (mut files, mut own) = (BTreeMap::new(), 0);
    for pid in pids {
        let maps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
        own += add_mappings(&maps, &mut files);
    }
    own + files.values().sum::<u64>()
}

/// Adds the pages of files, and returns the KiB of the others.
fn add_mappings(maps: &str, files: &mut BTreeMap<String, u64>) -> u64 {
    let (mut file, mut own) = (None, 0);
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        let kib = |mut words: std::str::SplitWhitespace<'_>| words.next()?.parse::<u64>().ok();
        match first {
            "Rss:" => {
                if let Some((file, kib)) = file.as_ref().zip(kib(words)) {
                    let known: &mut u64 = files.entry(String::clone(file)).or_default();
                    *known = kib.max(*known);
                }
            }
            "Pss:" if file.is_none() => own += kib(words).unwrap_or(0),
            // An address range, then permissions, offset, device, inode and path.
            _ if first.contains('-') && !first.ends_with(':') => {
                let offset = words.nth(1).unwrap_or_default();
                let path = words.nth(2).filter(|path| path.starts_with('/'));
                file = path.map(|path| format!("{path} at {offset}"));
            }
            _ => {}
        }
    }
    own
}

const HOSTS: u32 = 8;
const RANKS: u32 = 64;
const OBSERVED: u32 = 2;
const TURNS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_files_count_once_and_others_by_their_share() {
        let maps = "5-6 r-xp 00001000 00:21 7 /bin/a\nRss: 30 kB\nPss: 15 kB\n\
                    6-7 rw-p 00000000 00:00 0 [heap]\nRss: 8 kB\nPss: 4 kB\n\
                    7-8 rw-p 00000000 00:00 0 \nRss: 2 kB\nPss: 1 kB\n";
        let mut files = BTreeMap::new();
        assert_eq!(add_mappings(maps, &mut files) + add_mappings(maps, &mut files), 2 * 5);
        assert_eq!(files.into_values().sum::<u64>(), 30);
    }
}
