//! Memory of the processes that serve the ranks of one host, as if it had a machine of its own: the hosts of
//! the comparison share files with each other, which the figures of the kernel show.

use super::NodeRow;
use super::bench_hosts::{BenchHosts, SshLauncher};
use super::loss::SleepingJob;
use crate::bench::Comparison;
use crate::bench::stats::median;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

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
    let mut all_pages = Vec::new();
    for _ in 0..TURNS {
        for ((launcher, programs), found) in launchers.iter().zip(&mut mib) {
            let command = bench.launcher(*launcher, HOSTS, RANKS);
            let words = [&bench.tools.client, "memory", "pmi1", "1023"];
            let mut job = SleepingJob::start(command, RANKS, &words)?;
            let all = bench.hosts.pids(OBSERVED);
            let pids = processes_of(&all, programs);
            let pages = |pid: &u32| (pids.contains(pid), ProcessPages::of(*pid));
            let footprint = Footprint::of(all.iter().map(pages));
            found.push(footprint.share);
            if *launcher == SshLauncher::PmiHost {
                all_pages.push(footprint);
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
    let of = |read: fn(&Footprint) -> f64| median(all_pages.iter().map(read)).unwrap_or(f64::NAN);
    table.notes.push(format!(
        "Of the memory of a node server and its guard {:.1} MiB are their own; with all pages of files that \
         they have mapped, among them those of the C library, it is {:.1} MiB.",
        of(|one| one.own),
        of(|one| one.all),
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

/// Memory of some processes of a host, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Footprint {
    /// Their proportional share (PSS): a page of a file is divided among all processes of the host that have
    /// mapped it.
    share: f64,
    /// Pages that are in no file.
    own: f64,
    /// All pages, with those of files counted once.
    all: f64,
}

/// Page of a file: device, inode and number.
type FilePage = (String, String, u64);

/// Pages of a process.
#[derive(Debug, Default, PartialEq)]
struct ProcessPages {
    files: BTreeSet<FilePage>,
    /// Number of the others, where one that a process shares with its copy is half a page.
    own: f64,
}

impl Footprint {
    /// That of some of all processes of a host, those with `true`.
    fn of(all: impl Iterator<Item = (bool, ProcessPages)>) -> Self {
        let (mut mapped, mut own) = (BTreeMap::new(), 0.0);
        for (is_counted, pages) in all {
            own += if is_counted { pages.own } else { 0.0 };
            for page in pages.files {
                let [counted, count]: &mut [f64; 2] = mapped.entry(page).or_default();
                *counted += f64::from(u8::from(is_counted));
                *count += 1.0;
            }
        }
        let shares = mapped.values().map(|[counted, count]| counted / count);
        let pages = mapped.values().filter(|[counted, _]| *counted > 0.0).count();
        let mib = |pages: f64| pages * PAGE_BYTES as f64 / 1024.0 / 1024.0;
        let [share, all] = [shares.sum::<f64>(), pages as f64].map(|files| mib(own + files));
        Self { share, own: mib(own), all }
    }
}

impl ProcessPages {
    /// Those of a process; none if it has ended.
    fn of(pid: u32) -> Self {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let Ok(table) = File::open(format!("/proc/{pid}/pagemap")) else { return Self::default() };
        let mut pages = Self::default();
        for line in maps.lines() {
            pages.add_mapping(line, |first, count| {
                let mut entries = vec![0; count * ENTRY_BYTES];
                // The last mapping belongs to the kernel, and its pages are in no table.
                match table.read_exact_at(&mut entries, first * ENTRY_BYTES as u64) {
                    Ok(()) => entries,
                    Err(_) => Vec::new(),
                }
            });
        }
        pages
    }

    /// Adds the pages of a line of `maps`. `read` returns the entries of `pagemap` for some pages.
    fn add_mapping(&mut self, line: &str, read: impl Fn(u64, usize) -> Vec<u8>) -> Option<()> {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let mut hexadecimal = [start, end, words.nth(1)?].into_iter();
        let mut page = || {
            let number = u64::from_str_radix(hexadecimal.next()?, 16).ok()?;
            Some(number / PAGE_BYTES)
        };
        let (start, end, offset) = (page()?, page()?, page()?);
        let (device, inode) = (words.next()?.to_owned(), words.next()?.to_owned());
        let entries = read(start, usize::try_from(end.checked_sub(start)?).ok()?);
        for (entry, page) in entries.chunks_exact(ENTRY_BYTES).zip(offset..) {
            let entry = u64::from_ne_bytes(entry.try_into().ok()?);
            let is = |bit: u32| entry >> bit & 1 == 1;
            match () {
                () if !is(PRESENT) => {}
                () if is(OF_FILE) => {
                    self.files.insert((device.clone(), inode.clone(), page));
                }
                () => self.own += if is(EXCLUSIVE) { 1.0 } else { 0.5 },
            }
        }
        Some(())
    }
}

/// Bits of an entry of `pagemap`: the page is in memory; it is that of a file; no other process has it.
const PRESENT: u32 = 63;
const OF_FILE: u32 = 61;
const EXCLUSIVE: u32 = 56;

const ENTRY_BYTES: usize = 8;
const PAGE_BYTES: u64 = 4096;

const HOSTS: u32 = 8;
const RANKS: u32 = 64;
const OBSERVED: u32 = 2;
const TURNS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_files_are_known_by_file_and_others_by_their_number() {
        let present = 1_u64 << PRESENT;
        let file = present | 1 << OF_FILE;
        let entries = [0, file, present, present | 1 << EXCLUSIVE];
        let mut pages = ProcessPages::default();
        let read = |first, count| {
            assert_eq!((first, count), (5, 4));
            entries.iter().flat_map(|entry: &u64| entry.to_ne_bytes()).collect()
        };
        assert_eq!(pages.add_mapping("5000-9000 r-xp 00002000 00:21 7 /bin/a", read), Some(()));
        assert_eq!(pages.files, [("00:21".to_owned(), "7".to_owned(), 3)].into());
        assert!((pages.own - 1.5).abs() < 1e-9, "{pages:?}");
        assert_eq!(pages.add_mapping("no mapping", |_, _| Vec::new()), None);
    }

    #[test]
    fn page_of_a_file_is_divided_among_processes_and_another_counts_for_its_own() {
        let of = |pages: &[u64], own| {
            let page = |page: &u64| (String::new(), String::new(), *page);
            ProcessPages { files: pages.iter().map(page).collect(), own }
        };
        // The counted ones have mapped pages 1, 2 and 3, and the other one pages 2 and 4.
        let all = [(true, of(&[1, 2], 256.0)), (true, of(&[1, 3], 0.5)), (false, of(&[2, 4], 9.0))];
        let found = Footprint::of(all.into_iter());
        let pages = [found.own, found.share, found.all].map(|mib| mib * 256.0);
        assert_eq!(pages, [256.5, 256.5 + 2.5, 256.5 + 3.0]);
    }
}
