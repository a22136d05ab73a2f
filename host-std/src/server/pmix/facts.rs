//! Job-level information for PMIx clients.

use super::heap::Shared;
use crate::launch::plan::directives::JobDirectives;
use crate::launch::plan::job::{NodePlacement, Plan, server_nspace};
use crate::launch::topology::binding;
use crate::launch::topology::processors::{self, LocalityLevels};
use crate::placement::PlacedHosts;
use pmi_core::server::pmix::SharedBytes;
use pmi_core::wire::pmix::names::keys;
use pmi_core::wire::pmix::{Format, Packer, Proc, Type};
use pmi_host_os::host_name::short_name;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Packs the job-level information of `plan`, whose ranks are on these hosts or, without any, on this one;
/// `pid` is that of the launcher.
pub(crate) fn describe(plan: &Plan, hosts: Option<&PlacedHosts>, pid: u32) -> Option<Shared> {
    let bound = bound(plan);
    let cpusets: Vec<&str> = bound.iter().map(|bound| bound.processors.as_str()).collect();
    let facts = JobInfo { cpusets: cpusets.join(":"), bound, ..JobInfo::new(plan, hosts, pid) };
    packed(|to| facts.write(to))
}

/// Packs the same for processes of other runs, which are on other nodes: what says where a reader of the
/// own run is has no meaning there.
pub(crate) fn describe_to_others(plan: &Plan, hosts: Option<&PlacedHosts>) -> Vec<u8> {
    let facts = JobInfo::new(plan, hosts, 0);
    let mut bytes = vec![0; packed_len(|to| facts.write_to_others(to))];
    facts.write_to_others(&mut Packer::new(&mut bytes, Format::PLAIN));
    bytes
}

/// Packs the job-level information of a tool on this host, which is the one process of its namespace; `pid`
/// is that of the launcher.
pub(crate) fn describe_tool((nspace, rank): (&[u8], u32), host: &str, pid: u32) -> Option<Shared> {
    let server = server_nspace(pid);
    let job = [
        (keys::JOB_SIZE, Fact::U32(1)),
        (keys::JOBID, Fact::Text(nspace)),
        (keys::NUM_NODES, Fact::U32(1)),
        (keys::JOB_NAPPS, Fact::U32(1)),
        (keys::SERVER_NSPACE, Fact::Text(server.as_bytes())),
        (keys::SERVER_RANK, Fact::Rank(0)),
    ];
    let session = [(keys::SESSION_ID, Fact::U32(0)), (keys::UNIV_SIZE, Fact::U32(1))];
    let node = [
        (keys::HOSTNAME, Fact::Text(host.as_bytes())),
        (keys::NODEID, Fact::U32(0)),
        (keys::LOCAL_SIZE, Fact::U32(1)),
        (keys::LOCAL_LEADER, Fact::Rank(rank)),
    ];
    packed(|to| {
        job.iter().for_each(|known| kval(*known, to));
        array(keys::SESSION_ARRAY, &session, to);
        array(keys::NODE_ARRAY, &node, to);
    })
}

/// A value of one of the types that occur.
#[derive(Clone, Copy)]
pub(super) enum Fact<'a> {
    Text(&'a [u8]),
    U16(u32),
    U32(u32),
    U64(u64),
    Rank(u32),
    Bool(bool),
    Proc(&'a [u8], u32),
    Procs(&'a [u8], &'a [u32]),
    Infos(&'a [Known<'a>]),
    Distances(&'a [FarDevice<'a>]),
}

/// A device, with its distance from a process.
pub(super) struct FarDevice<'a> {
    /// Name of the device on all nodes.
    pub(super) id: &'a str,
    /// Name on its node.
    pub(super) name: &'a str,
    /// Kind, one of [`device`](pmi_core::wire::pmix::names::device).
    pub(super) kind: u64,
    pub(super) levels: u16,
}

/// A key with its value.
pub(super) type Known<'a> = (&'static [u8], Fact<'a>);

struct JobInfo<'a> {
    plan: &'a Plan,
    server: String,
    /// Nodes with ranks, by number.
    nodes: Vec<NodeInfo<'a>>,
    /// Node and local rank of each rank.
    places: Vec<(u32, u32)>,
    /// Number of this node.
    own_node: u32,
    directories: Vec<Option<&'a [u8]>>,
    lines: Vec<Vec<u8>>,
    is_crowded: bool,
    /// Ranks of this node that are bound to processors.
    bound: Vec<BoundRank>,
    /// Their processors.
    cpusets: String,
}

/// The processors of a rank.
struct BoundRank {
    rank: u32,
    /// Their list.
    processors: String,
    /// Where they are in the machine; empty if the system does not describe it.
    locality: String,
    /// Number of ranks before it in its package; `None` if it has processors of several.
    package_rank: Option<u32>,
}

/// The processors of the ranks of `plan` that are started on this node.
fn bound(plan: &Plan) -> Vec<BoundRank> {
    let NodePlacement { ranks, binding, .. } = &plan.placement;
    let Some(binding) = binding.as_ref().filter(|_| ranks.count() > 0) else { return Vec::new() };
    let levels = LocalityLevels::read(Path::new(processors::ROOT)).ok();
    let mut packages: HashMap<String, u32> = HashMap::new();
    let ranks = ranks.iter().filter_map(|rank| {
        let mut processors = binding.of(plan.local_rank(rank)?).to_vec();
        processors.sort_unstable();
        let locality = levels.as_ref().map(|levels| levels.of(&processors));
        let locality = locality.unwrap_or_default();
        let package = locality.split(':').find_map(|level| level.strip_prefix("SK"));
        let package = package.filter(|number| number.parse::<u32>().is_ok());
        let package_rank = package.map(|package| {
            let next = packages.entry(package.to_owned()).or_default();
            let before = *next;
            *next += 1;
            before
        });
        Some(BoundRank { rank, processors: binding::shown(&processors), locality, package_rank })
    });
    ranks.collect()
}

/// The node of the launcher's process among those of `plan`.
pub(super) fn own_node(plan: &Plan) -> OwnNode<'_> {
    let facts = JobInfo::new(plan, plan.placement.hosts.as_deref(), 0);
    let node = usize::try_from(facts.own_node).ok().and_then(|own| facts.nodes.get(own));
    OwnNode { number: facts.own_node, name: node.map_or(&b""[..], |node| node.name) }
}

/// A node as ranks know it.
pub(super) struct OwnNode<'a> {
    pub(super) number: u32,
    pub(super) name: &'a [u8],
}

/// A node and its ranks, in ascending order.
struct NodeInfo<'a> {
    name: &'a [u8],
    /// Name without its domain, if no other node of the job may be meant by it.
    alias: Option<&'a str>,
    ranks: Vec<u32>,
}

impl NodeInfo<'_> {
    /// The ranks one by one.
    fn peers(&self) -> String {
        let ranks: Vec<String> = self.ranks.iter().map(u32::to_string).collect();
        ranks.join(",")
    }

    /// The ranks as ranges.
    fn runs(&self) -> String {
        let runs = self.ranks.chunk_by(|one, other| one + 1 == *other);
        let runs = runs.map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            _ => run.iter().map(u32::to_string).collect(),
        });
        runs.collect::<Vec<String>>().join(",")
    }
}

impl<'a> JobInfo<'a> {
    fn new(plan: &'a Plan, hosts: Option<&'a PlacedHosts>, pid: u32) -> Self {
        let names: Vec<&'a str> = match hosts {
            Some(placed) => placed.hosts.iter().map(String::as_str).collect(),
            None => vec![&plan.host],
        };
        let mut bearers: HashMap<String, u32> = HashMap::new();
        for name in &names {
            let first = short_name(name).unwrap_or(name).to_ascii_lowercase();
            *bearers.entry(first).or_default() += 1;
        }
        let is_unique = |alias: &&str| bearers.get(&alias.to_ascii_lowercase()) == Some(&1);
        let node = |name: &'a str| NodeInfo {
            name: name.as_bytes(),
            alias: short_name(name).filter(is_unique),
            ranks: Vec::new(),
        };
        let mut nodes: Vec<NodeInfo<'a>> = names.into_iter().map(node).collect();
        let node_of = |rank| hosts.and_then(|placed| placed.map.node_of(rank)).unwrap_or(0);
        let mut places = Vec::new();
        for rank in 0..plan.ranks {
            let node = node_of(rank);
            if let Some(info) = usize::try_from(node).ok().and_then(|at| nodes.get_mut(at)) {
                places.push((node, u32::try_from(info.ranks.len()).unwrap_or(u32::MAX)));
                info.ranks.push(rank);
            }
        }
        // A node without ranks of the job describes it to those of others.
        let own_node = plan.served().iter().next().map(node_of).or_else(|| {
            let own = nodes.iter().position(|node| node.name == plan.host.as_bytes());
            own.and_then(|own| u32::try_from(own).ok())
        });
        let directories = plan.parts.iter().map(|part| part.program.directory.as_ref());
        let lines = plan.parts.iter().map(|part| {
            let program = &part.program;
            let words = std::iter::once(&program.name).chain(&program.args);
            let words: Vec<&[u8]> = words.map(|word| word.as_bytes()).collect();
            words.join(&b' ')
        });
        Self {
            plan,
            server: server_nspace(pid),
            nodes,
            places,
            own_node: own_node.unwrap_or(0),
            directories: directories
                .map(|directory| Some(directory?.as_os_str().as_bytes()))
                .collect(),
            lines: lines.collect(),
            is_crowded: plan.is_oversubscribed(),
            bound: Vec::new(),
            cpusets: String::new(),
        }
    }

    fn write(&self, to: &mut Packer<'_>) {
        self.job(|known| kval(known, to));
        array(keys::SESSION_ARRAY, &self.session(), to);
        // The node of the reader comes first: a value that names no node is its own.
        let others = (0..).zip(&self.nodes).filter(|(number, _)| *number != self.own_node);
        let own = usize::try_from(self.own_node).ok().and_then(|own| self.nodes.get(own));
        for (number, node) in own.map(|own| (self.own_node, own)).into_iter().chain(others) {
            let peers = node.peers();
            array(keys::NODE_ARRAY, &self.node(number, node, &peers), to);
        }
        self.write_apps_and_ranks(to, |known| known);
    }

    fn write_apps_and_ranks<'b>(
        &'b self,
        to: &mut Packer<'_>,
        change: impl Fn(Known<'b>) -> Known<'b>,
    ) {
        let mut first = 0;
        for (number, part) in (0..).zip(&self.plan.parts) {
            array(keys::APP_ARRAY, &self.app(number, part.ranks, first), to);
            first += part.ranks;
        }
        for rank in 0..self.plan.ranks {
            of_rank(rank, self.rank(rank).into_iter().map(&change), to);
        }
    }

    /// Libraries look for their own node in descriptions of all jobs, by its number, and take the processes
    /// that are listed there for those that share its memory.
    fn write_to_others(&self, to: &mut Packer<'_>) {
        let of_job = [
            keys::JOB_SIZE,
            keys::MAX_SIZE,
            keys::JOBID,
            keys::JOB_NAPPS,
            keys::NUM_NODES,
            keys::NODE_LIST,
            keys::OFFSET,
        ];
        self.job(|known| {
            if of_job.contains(&known.0) {
                kval(known, to);
            }
        });
        let of_node = [
            keys::HOSTNAME,
            keys::HOSTNAME_ALIASES,
            keys::NODEID,
            keys::NODE_SIZE,
            keys::LOCAL_SIZE,
        ];
        for (number, node) in (0..).zip(&self.nodes) {
            let known = self.node(number, node, "");
            let known = known.into_iter().filter(|(key, _)| of_node.contains(key)).map(apart);
            array(keys::NODE_ARRAY, &known.collect::<Vec<_>>(), to);
        }
        self.write_apps_and_ranks(to, apart);
    }

    fn job(&self, mut each: impl FnMut(Known<'_>)) {
        let Plan { ranks, parts, kvsname, .. } = self.plan;
        let names: Vec<&[u8]> = self.nodes.iter().map(|node| node.name).collect();
        let names = names.join(&b',');
        let apps = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        each((keys::JOB_SIZE, Fact::U32(*ranks)));
        each((keys::MAX_SIZE, Fact::U32(*ranks)));
        each((keys::JOBID, Fact::Text(kvsname.as_bytes())));
        each((keys::JOB_NAPPS, Fact::U32(apps)));
        each((keys::NUM_NODES, Fact::U32(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX))));
        each((keys::NODE_LIST, Fact::Text(&names)));
        if self.nodes.len() > 1 {
            let raw = |list: &[u8]| [b"raw:", list].concat();
            let procs: Vec<String> = self.nodes.iter().map(NodeInfo::runs).collect();
            each((keys::NODE_MAP, Fact::Text(&raw(&names))));
            each((keys::PROC_MAP, Fact::Text(&raw(procs.join(";").as_bytes()))));
        }
        // Libraries before 5.0 do not find it in the array of the node.
        each((keys::NODEID, Fact::U32(self.own_node)));
        each((keys::OFFSET, Fact::U32(0)));
        each((keys::SERVER_NSPACE, Fact::Text(self.server.as_bytes())));
        each((keys::SERVER_RANK, Fact::Rank(0)));
        if let Some(parent) = self.parent() {
            each((keys::SPAWNED, Fact::Bool(true)));
            each((keys::PARENT, parent));
        }
        let JobDirectives { stop_in_init, stop_in_app, target, .. } = &self.plan.pairs.directives;
        for (key, choice) in
            [(keys::DEBUG_STOP_IN_INIT, stop_in_init), (keys::DEBUG_STOP_IN_APP, stop_in_app)]
        {
            if let Some(choice) = choice {
                each((key, Fact::Rank(choice.number())));
            }
        }
        if let Some((nspace, ranks)) = target {
            each((keys::DEBUG_TARGET, Fact::Proc(nspace.as_bytes(), ranks.number())));
        }
    }

    /// The session id comes first, since clients look for it there.
    fn session(&self) -> Vec<Known<'_>> {
        let mut known = vec![
            (keys::SESSION_ID, Fact::U32(0)),
            (keys::UNIV_SIZE, Fact::U32(self.plan.universe.pmix)),
        ];
        if let Some(directory) = self.plan.pmix.as_ref().and_then(|pmix| pmix.directory.as_ref()) {
            known.push((keys::TMPDIR, Fact::Text(directory.as_os_str().as_bytes())));
            known.push((keys::TDIR_RMCLEAN, Fact::Bool(true)));
        }
        known
    }

    fn node<'b>(&'b self, number: u32, node: &'b NodeInfo<'_>, peers: &'b str) -> Vec<Known<'b>> {
        let size = u32::try_from(node.ranks.len()).unwrap_or(u32::MAX);
        let mut known = vec![
            (keys::HOSTNAME, Fact::Text(node.name)),
            (keys::NODEID, Fact::U32(number)),
            (keys::NODE_SIZE, Fact::U32(size)),
            (keys::LOCAL_SIZE, Fact::U32(size)),
        ];
        // Open MPI reads no list of peers without any.
        if let Some(leader) = node.ranks.first() {
            known.extend([
                (keys::LOCAL_PEERS, Fact::Text(peers.as_bytes())),
                (keys::LOCAL_PROCS, Fact::Procs(self.plan.kvsname.as_bytes(), &node.ranks)),
                (keys::LOCAL_LEADER, Fact::Rank(*leader)),
            ]);
        }
        if !self.cpusets.is_empty() && number == self.own_node {
            known.push((keys::LOCAL_CPUSETS, Fact::Text(self.cpusets.as_bytes())));
        }
        let alias = node.alias.map(str::as_bytes);
        known.extend(alias.map(|alias| (keys::HOSTNAME_ALIASES, Fact::Text(alias))));
        // Open MPI 5 reads the presence of the key, not its value.
        if self.is_crowded && number == self.own_node {
            known.push((keys::OVERSUBSCRIBED, Fact::Bool(true)));
        }
        known
    }

    fn app(&self, number: u32, ranks: u32, first: u32) -> Vec<Known<'_>> {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let directory = self.directories.get(at).copied().flatten();
        let line = self.lines.get(at).map(Vec::as_slice);
        let known = [
            Some((keys::APPNUM, Fact::U32(number))),
            Some((keys::APP_SIZE, Fact::U32(ranks))),
            Some((keys::APP_LEADER, Fact::Rank(first))),
            directory.map(|directory| (keys::WDIR, Fact::Text(directory))),
            line.map(|line| (keys::APP_ARGV, Fact::Text(line))),
        ];
        known.into_iter().flatten().collect()
    }

    fn rank(&self, rank: u32) -> Vec<Known<'_>> {
        let number = self.plan.appnum(rank);
        let first: u32 = self.plan.parts.iter().take(number).map(|part| part.ranks).sum();
        let place = usize::try_from(rank).ok().and_then(|at| self.places.get(at));
        let (node, local_rank) = place.copied().unwrap_or_default();
        let name = usize::try_from(node).ok().and_then(|node| self.nodes.get(node));
        let known = [
            (keys::HOSTNAME, Fact::Text(name.map_or(&b""[..], |node| node.name))),
            (keys::NODEID, Fact::U32(node)),
            (keys::LOCAL_RANK, Fact::U16(local_rank)),
            (keys::NODE_RANK, Fact::U16(local_rank)),
            (keys::GLOBAL_RANK, Fact::Rank(rank)),
            (keys::APP_RANK, Fact::Rank(rank - first)),
            (keys::APPNUM, Fact::U32(u32::try_from(number).unwrap_or(u32::MAX))),
            (keys::REINCARNATION, Fact::U32(0)),
        ];
        let parent = self.parent().map(|parent| (keys::PARENT, parent));
        // In the order of the ranks.
        let bound = self.bound.binary_search_by_key(&rank, |bound| bound.rank);
        let bound = bound.ok().and_then(|at| self.bound.get(at));
        let texts = bound.into_iter().flat_map(|BoundRank { processors, locality, .. }| {
            [(keys::CPUSET, processors), (keys::LOCALITY_STRING, locality)]
        });
        let texts = texts.filter(|(_, text)| !text.is_empty());
        let texts = texts.map(|(key, text)| (key, Fact::Text(text.as_bytes())));
        let package_rank = bound.and_then(|bound| bound.package_rank);
        let package_rank = package_rank.map(|number| (keys::PACKAGE_RANK, Fact::U16(number)));
        known.into_iter().chain(parent).chain(texts).chain(package_rank).collect()
    }

    /// Rank that spawned the job.
    fn parent(&self) -> Option<Fact<'_>> {
        let spawner = self.plan.spawner.as_ref()?;
        Some(Fact::Proc(spawner.kvsname.as_bytes(), spawner.rank))
    }
}

/// Packs what `write` writes.
pub(super) fn packed(write: impl Fn(&mut Packer<'_>)) -> Option<Shared> {
    Shared::make(packed_len(&write), |bytes| write(&mut Packer::new(bytes, Format::PLAIN)))
}

/// Number of bytes that `write` writes.
fn packed_len(write: impl Fn(&mut Packer<'_>)) -> usize {
    let mut counted = Packer::new(&mut [], Format::PLAIN);
    write(&mut counted);
    counted.len()
}

/// Numbers nodes apart from those of other runs.
fn apart(known: Known<'_>) -> Known<'_> {
    match known {
        (keys::NODEID, Fact::U32(node)) => {
            (keys::NODEID, Fact::U32(node.saturating_add(OTHER_RUNS)))
        }
        other => other,
    }
}

pub(super) fn kval((key, fact): Known<'_>, to: &mut Packer<'_>) {
    value(fact, to.one(Type::KVAL).text(Some(key)));
}

pub(super) fn array(key: &'static [u8], facts: &[Known<'_>], to: &mut Packer<'_>) {
    kval((key, Fact::Infos(facts)), to);
}

/// Writes values of a rank.
pub(super) fn of_rank<'a>(
    rank: u32,
    facts: impl Iterator<Item = Known<'a>> + Clone,
    to: &mut Packer<'_>,
) {
    to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT).nested(|to| {
        to.one(Type::PROC_RANK).u32(rank);
        facts.clone().for_each(|known| kval(known, to));
    });
}

/// Writes a value behind the number of its type.
fn value(fact: Fact<'_>, to: &mut Packer<'_>) {
    match fact {
        Fact::Text(text) => to.of(Type::STRING).text(Some(text)),
        Fact::U16(number) => to.of(Type::UINT16).u16(u16::try_from(number).unwrap_or(u16::MAX)),
        Fact::U32(number) => to.of(Type::UINT32).u32(number),
        Fact::U64(number) => to.of(Type::UINT64).u64(number),
        Fact::Rank(rank) => to.of(Type::PROC_RANK).u32(rank),
        Fact::Bool(value) => to.of(Type::BOOL).u8(u8::from(value)),
        Fact::Proc(nspace, rank) => {
            let to = to.of(Type::PROC);
            Proc { nspace, rank }.write(to);
            to
        }
        Fact::Procs(nspace, ranks) => {
            let to = to.of(Type::DATA_ARRAY).of(Type::PROC).size(ranks.len() as u64);
            ranks.iter().for_each(|rank| Proc { nspace, rank: *rank }.write(to));
            to
        }
        Fact::Infos(facts) => {
            let to = to.of(Type::DATA_ARRAY).of(Type::INFO).size(facts.len() as u64);
            for (key, fact) in facts {
                value(*fact, to.text(Some(key)).u32(0));
            }
            to
        }
        Fact::Distances(devices) => {
            let to = to.of(Type::DATA_ARRAY).of(Type::DEVICE_DIST).size(devices.len() as u64);
            for FarDevice { id, name, kind, levels } in devices {
                to.text(Some(id.as_bytes())).text(Some(name.as_bytes())).u64(*kind);
                to.u16(*levels).u16(*levels);
            }
            to
        }
    };
}

/// Number of the first node of another run; no run has as many nodes.
const OTHER_RUNS: u32 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::plan::local_ranks::LocalRanks;
    use crate::placement::allocation::{Allocation, AllocationSource};
    use crate::placement::{FillRules, HostList, HostOrder, PartHosts, place};
    use pmi_core::wire::pmix::{Kval, Kvals, Unpacker};

    /// Four ranks, in turn on the hosts `a` and `b`, as the node of `b` describes them.
    fn described() -> Shared {
        let mut plan = crate::launch::plan::job::tests::plan(&[("./a", 4)]);
        let hosts = HostList::parse("a:2,b:2").unwrap();
        let hosts = Allocation { hosts, source: AllocationSource::Named };
        let rules = FillRules {
            order: HostOrder::Node,
            slots: None,
            oversubscribes: false,
            keeps_idle: false,
        };
        let placed = place(&[PartHosts { ranks: 4, hosts: &hosts }], None, rules).unwrap();
        plan.placement.ranks = LocalRanks::of(placed.map.ranks_of(1));
        describe(&plan, Some(&placed), 7).unwrap()
    }

    fn kvals(info: &[u8]) -> Vec<Kval<'_>> {
        Kvals::new(info, Format::PLAIN).map(Result::unwrap).collect()
    }

    #[test]
    fn job_on_several_hosts_has_its_nodes_and_maps() {
        let info = described();
        let all = kvals(info.as_ref());
        let value = |key: &[u8]| all.iter().find(|kval| kval.key == key).unwrap().value;
        assert_eq!(value(keys::NUM_NODES).number(), Some(2));
        assert_eq!(value(keys::NODEID).number(), Some(1));
        assert_eq!(value(keys::NODE_LIST).text(), Some(&b"a,b"[..]));
        assert_eq!(value(keys::NODE_MAP).text(), Some(&b"raw:a,b"[..]));
        assert_eq!(value(keys::PROC_MAP).text(), Some(&b"raw:0,2;1,3"[..]));
    }

    #[test]
    fn node_of_the_reader_is_described_first_and_each_rank_has_its_own() {
        let info = described();
        let all = kvals(info.as_ref());
        let nodes = all.iter().filter(|kval| kval.key == keys::NODE_ARRAY);
        let nodes: Vec<_> = nodes
            .map(|kval| {
                let node = kval.value.array().unwrap();
                let number = |key: &[u8]| node.find(key).unwrap().number().unwrap();
                let text = |key: &[u8]| node.find(key).unwrap().text().unwrap().to_vec();
                let procs = node.find(keys::LOCAL_PROCS).unwrap().array().unwrap();
                let procs: Vec<u32> = procs.procs().map(|proc| proc.rank).collect();
                let (peers, size) = (text(keys::LOCAL_PEERS), number(keys::LOCAL_SIZE));
                (text(keys::HOSTNAME), number(keys::NODEID), peers, size, procs)
            })
            .collect();
        let a = (b"a".to_vec(), 0, b"0,2".to_vec(), 2, vec![0, 2]);
        let b = (b"b".to_vec(), 1, b"1,3".to_vec(), 2, vec![1, 3]);
        assert_eq!(nodes, [b, a]);
        let ranks = all.iter().filter(|kval| kval.key == keys::PROC_BLOB).map(|kval| {
            let mut from = Unpacker::new(kval.value.blob().unwrap(), Format::PLAIN);
            let rank = from.one(Type::PROC_RANK).unwrap().u32().unwrap();
            let known = Kvals::after(from);
            let number = |key: &[u8]| known.clone().find(key).unwrap().number().unwrap();
            let name = known.clone().find(keys::HOSTNAME).unwrap().text().unwrap().to_vec();
            (rank, number(keys::NODEID), number(keys::LOCAL_RANK), name)
        });
        let expected = [(0, 0, 0, b"a"), (1, 1, 0, b"b"), (2, 0, 1, b"a"), (3, 1, 1, b"b")];
        assert!(ranks.eq(expected.map(|(rank, node, local, name)| (
            rank,
            node,
            local,
            name.to_vec()
        ))));
    }

    #[test]
    fn description_for_other_runs_places_no_process_beside_a_reader() {
        let mut plan = crate::launch::plan::job::tests::plan(&[("./a", 4)]);
        plan.placement.ranks = LocalRanks::default();
        let mut placed = crate::placement::tests::placed("a:2,b:2", 4);
        placed.hosts = vec!["a".to_owned(), "b".to_owned()];
        let info = describe_to_others(&plan, Some(&placed));
        let all = kvals(&info);
        let value = |key: &[u8]| all.iter().find(|kval| kval.key == key).map(|kval| kval.value);
        assert_eq!(value(keys::JOB_SIZE).unwrap().number(), Some(4));
        assert_eq!(value(keys::NODE_LIST).unwrap().text(), Some(&b"a,b"[..]));
        // Nothing about this node, and nothing that lists the processes of a node.
        for key in [keys::NODEID, keys::SESSION_ARRAY, keys::NODE_MAP, keys::PROC_MAP] {
            assert!(value(key).is_none(), "{}", key.escape_ascii());
        }
        let node_of = |number: u32| i64::from(OTHER_RUNS + number);
        let nodes = all.iter().filter(|kval| kval.key == keys::NODE_ARRAY);
        for (number, (host, kval)) in (0..).zip([&b"a"[..], b"b"].into_iter().zip(nodes)) {
            let node = kval.value.array().unwrap();
            assert_eq!(node.find(keys::HOSTNAME).unwrap().text(), Some(host));
            assert_eq!(node.find(keys::NODEID).unwrap().number(), Some(node_of(number)));
            for key in [keys::LOCAL_PEERS, keys::LOCAL_PROCS, keys::LOCAL_LEADER] {
                assert!(node.find(key).is_none());
            }
        }
        let ranks = all.iter().filter(|kval| kval.key == keys::PROC_BLOB).map(|kval| {
            let mut from = Unpacker::new(kval.value.blob().unwrap(), Format::PLAIN);
            let rank = from.one(Type::PROC_RANK).unwrap().u32().unwrap();
            (rank, Kvals::after(from).find(keys::NODEID).unwrap().number().unwrap())
        });
        assert!(ranks.eq([(0, node_of(0)), (1, node_of(0)), (2, node_of(1)), (3, node_of(1))]));
    }

    #[test]
    fn node_without_ranks_of_the_job_has_no_peers_and_is_that_of_the_reader() {
        let mut plan = crate::launch::plan::job::tests::plan(&[("./a", 1)]);
        let mut placed = crate::placement::tests::placed("a,b", 1);
        placed.hosts = vec!["a".to_owned(), "b".to_owned()];
        plan.host = "b".to_owned();
        plan.placement.ranks = LocalRanks::default();
        let info = describe(&plan, Some(&placed), 7).unwrap();
        let all = kvals(info.as_ref());
        let first = all.iter().find(|kval| kval.key == keys::NODE_ARRAY).unwrap();
        let node = first.value.array().unwrap();
        assert_eq!(node.find(keys::HOSTNAME).unwrap().text(), Some(&b"b"[..]));
        assert_eq!(node.find(keys::LOCAL_SIZE).unwrap().number(), Some(0));
        for key in [keys::LOCAL_PEERS, keys::LOCAL_PROCS, keys::LOCAL_LEADER] {
            assert!(node.find(key).is_none());
        }
        let own = all.iter().find(|kval| kval.key == keys::NODEID).unwrap();
        assert_eq!(own.value.number(), Some(1));
    }

    // Coverage: X2-25
    #[test]
    fn host_with_a_domain_is_known_without_it_as_well() {
        let mut plan = crate::launch::plan::job::tests::plan(&[("./a", 1)]);
        let mut aliases_of = |host: &str| {
            plan.host = host.to_owned();
            let info = describe(&plan, None, 7).unwrap();
            let all = kvals(info.as_ref());
            let node = all.iter().find(|kval| kval.key == keys::NODE_ARRAY).unwrap();
            let node = node.value.array().unwrap();
            node.find(keys::HOSTNAME_ALIASES).map(|aliases| aliases.text().unwrap().to_vec())
        };
        assert_eq!(aliases_of("node1.cluster.org"), Some(b"node1".to_vec()));
        for host in ["node1", "10.0.0.1", ".org"] {
            assert_eq!(aliases_of(host), None, "{host}");
        }
    }

    #[test]
    fn short_name_that_two_nodes_share_is_an_alias_of_neither() {
        let plan = crate::launch::plan::job::tests::plan(&[("./a", 4)]);
        let mut placed = crate::placement::tests::placed("a,b,c,d", 4);
        placed.hosts = ["n.a", "n.b", "m.a", "N"].map(str::to_owned).to_vec();
        let info = describe(&plan, Some(&placed), 7).unwrap();
        let all = kvals(info.as_ref());
        let nodes = all.iter().filter(|kval| kval.key == keys::NODE_ARRAY);
        let aliases = nodes.map(|kval| {
            let alias = kval.value.array().unwrap().find(keys::HOSTNAME_ALIASES);
            alias.map(|alias| alias.text().unwrap().to_vec())
        });
        assert_eq!(aliases.collect::<Vec<_>>(), [None, None, Some(b"m".to_vec()), None]);
    }

    #[test]
    fn ranks_of_a_node_are_written_as_ranges() {
        let node = |ranks: &[u32]| NodeInfo { name: b"a", alias: None, ranks: ranks.to_vec() };
        assert_eq!(node(&[0, 1, 2, 5, 7, 8]).runs(), "0-2,5,7-8");
        assert_eq!(
            (node(&[]).runs(), node(&[4]).runs(), node(&[4]).peers()),
            ("".into(), "4".into(), "4".into())
        );
    }
}
