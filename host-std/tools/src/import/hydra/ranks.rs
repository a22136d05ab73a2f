//! Ranks of clients: jobs and their mapping to nodes, from the arguments that `mpiexec` gives to
//! its proxies.

use super::Key;
use pmi_core::wire::mapping::read_mapping;
use pmi_trace::JobFacts;
use std::collections::BTreeMap;

/// Jobs of a log, and the positions of their lines.
#[derive(Debug, Default)]
pub(super) struct LogJobs {
    pub(super) host: String,
    /// By number, which is their order.
    known: Vec<LoggedJob>,
}

#[derive(Debug)]
struct LoggedJob {
    name: String,
    spawner: String,
    mapping: String,
    ranks: u32,
    /// By number of the proxy; none in 4.x, which leaves it to the mapping.
    nodes: BTreeMap<u32, Vec<u32>>,
}

impl LogJobs {
    /// Reads the arguments of a proxy. All proxies of a job receive the same ones, and in 5.x the
    /// list of their own ranks.
    pub(super) fn learn(&mut self, proxy: u32, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let after = |name: &str| {
            let mut words = text.split(' ').skip_while(|word| *word != name);
            words.nth(1).unwrap_or_default().to_owned()
        };
        let name = after("--pmi-kvsname");
        if name.is_empty() {
            return;
        }
        let place = self.known.iter().position(|job| job.name == name).unwrap_or_else(|| {
            self.known.push(LoggedJob {
                name,
                spawner: after("--pmi-spawner-kvsname"),
                mapping: after("--pmi-process-mapping"),
                ranks: after("--global-process-count").parse().unwrap_or(0).min(RANKS_MAX),
                nodes: BTreeMap::new(),
            });
            self.known.len() - 1
        });
        let job = &mut self.known[place];
        let mut first = None;
        for pair in text.split(' ').collect::<Vec<_>>().windows(2) {
            let number = || pair[1].parse::<u32>().ok();
            match (pair[0], first) {
                ("--exec-rank", _) => first = number(),
                ("--exec-proc-count", Some(from)) => {
                    let to = number().map_or(from, |count| from.saturating_add(count));
                    let ranks = job.nodes.entry(proxy).or_default();
                    ranks.extend(from..to.min(job.ranks));
                    ranks.truncate(index(job.ranks));
                    first = None;
                }
                _ => {}
            }
        }
    }

    /// The rank of each client: its place among those of its node, looked up in the mapping.
    pub(super) fn ranks(&self, keys: &[Key]) -> BTreeMap<Key, u32> {
        let mut ranks = BTreeMap::new();
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        for job in sorted.chunk_by(|a, b| a.job == b.job) {
            let nodes = job.first().map(|key| self.nodes(key.job)).unwrap_or_default();
            for clients in job.chunk_by(|a, b| a.proxy == b.proxy) {
                let proxy = clients.first().map_or(0, |key| key.proxy);
                let node = nodes.get(&proxy);
                let by_place = |(place, key): (usize, &Key)| match node {
                    Some(node) => Some((*key, *node.get(place)?)),
                    // Without a mapping, only the first node is certain.
                    None if proxy == 0 => Some((*key, u32::try_from(place).ok()?)),
                    None => None,
                };
                ranks.extend(clients.iter().enumerate().filter_map(by_place));
            }
        }
        ranks
    }

    /// The ranks on each node of a job. Nodes of a mapping have labels, and proxies their numbers in the
    /// order of those.
    fn nodes(&self, job: u32) -> BTreeMap<u32, Vec<u32>> {
        let Some(known) = self.known.get(index(job)) else { return BTreeMap::new() };
        if !known.nodes.is_empty() {
            return known.nodes.clone();
        }
        let (mut nodes, mut proxies) = (BTreeMap::<u32, Vec<u32>>::new(), BTreeMap::new());
        let labels = read_mapping(known.mapping.as_bytes(), known.ranks).into_iter().flatten();
        for (rank, label) in (0..).zip(labels) {
            let next = u32::try_from(proxies.len()).unwrap_or(u32::MAX);
            nodes.entry(*proxies.entry(label).or_insert(next)).or_default().push(rank);
        }
        nodes
    }

    /// Facts about all jobs that are known or have clients.
    pub(super) fn facts(&self, keys: &[Key]) -> Vec<JobFacts> {
        let named = u32::try_from(self.known.len()).unwrap_or(0);
        let count = keys.iter().map(|key| key.job.saturating_add(1)).max().unwrap_or(0).max(named);
        let facts = |job: u32| {
            let clients = keys.iter().filter(|key| key.job == job).count();
            let known = self.known.get(index(job));
            JobFacts {
                job,
                name: known.map(|job| job.name.clone()).unwrap_or_default(),
                ranks: known.map_or(0, |job| job.ranks).max(u32::try_from(clients).unwrap_or(0)),
                spawner: known
                    .and_then(|job| self.known.iter().position(|one| one.name == job.spawner))
                    .and_then(|job| u32::try_from(job).ok()),
            }
        };
        (0..count.min(JOBS_MAX)).map(facts).collect()
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Bound of a number from a log; a mapping of so many ranks takes memory.
const RANKS_MAX: u32 = 1 << 20;
const JOBS_MAX: u32 = 1 << 12;
