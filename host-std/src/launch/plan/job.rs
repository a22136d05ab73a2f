//! Plan of one job, complete before it starts: ranks, programs, places.

use super::directives::{DebugHold, JobDirectives};
use super::local_ranks::LocalRanks;
use super::pmix_store::{self, StoreOffer};
use super::program_environment;
use super::protocol_offer::{ProtocolOffer, Waiting};
use crate::launch::topology::binding::Binding;
use crate::launch::topology::hwloc::TopologyFile;
use crate::launch::topology::load::are_processors_busy;
use crate::launch::topology::places::{NodePlaces, Places};
use crate::launch::topology::resources::OwnResources;
use crate::placement::{ExpectedRanks, PlacedHosts};
use crate::settings::Settings;
use crate::settings::{Environment, UniverseSize};
use pmi_host_base::program::Program;
use pmi_nodes::settings::StarterName;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A job that can be started.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Number of ranks of the job.
    pub(crate) ranks: u32,
    /// Parts of the ranks that are started, in the order of the ranks. Ranks that connect by themselves
    /// follow.
    pub(crate) parts: Vec<App>,
    /// Endpoint for ranks that connect by themselves; `None` if that is not possible.
    pub(crate) endpoint: Option<Endpoint>,
    /// Endpoint for PMIx clients; `None` without PMIx.
    pub(crate) pmix: Option<PmixEndpoint>,
    /// Protocols offered to each part.
    pub(crate) offer: Vec<ProtocolOffer>,
    /// Name of this node.
    pub(crate) host: String,
    /// The name of the job's key-value space.
    pub(crate) kvsname: String,
    /// Rank that spawned this job; `None` for the first.
    pub(crate) spawner: Option<ParentRank>,
    /// Maximum number of processes in all jobs together.
    pub(crate) universe: UniverseSize,
    /// Environment of its ranks.
    pub(crate) environment: Environment,
    /// Its ranks on this node, and their processors.
    pub(crate) placement: NodePlacement,
    /// Pairs that its ranks may read from the start.
    pub(crate) pairs: InitialPairs,
}

/// Rank that has requested a spawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParentRank {
    /// The name of its job's key-value space.
    pub(crate) kvsname: String,
    /// Its rank there.
    pub(crate) rank: u32,
}

/// Ranks of a job on this node, and their processors.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodePlacement {
    /// Ranks that are started on this node.
    pub(crate) ranks: LocalRanks,
    /// Hosts of all ranks; `None` if they are all on this one.
    pub(crate) hosts: Option<Rc<PlacedHosts>>,
    /// Nodes of the ranks that connect by themselves.
    pub(crate) expected: ExpectedRanks,
    /// Processors of each rank; `None` if ranks are not bound.
    pub(crate) binding: Option<Arc<Binding>>,
    /// Memory, devices and threads of each rank; `None` if no option assigns any.
    pub(crate) places: Option<Arc<Places>>,
    /// Processors that ranks of this node may use; empty if the system does not list them, and before the
    /// node [assigns](Plan::assign_processors) them.
    pub(crate) processors: Vec<u32>,
    /// Ranks of other jobs that run on this node when the job starts.
    pub(crate) neighbours: u32,
    /// True if processors were idle before the first job.
    pub(crate) had_idle_processors: bool,
    /// True if other nodes of the run are on this machine, too.
    pub(crate) is_beside_nodes: bool,
    /// Topology of this node for ranks that would each detect it; `None` if there is no need for it.
    pub(crate) topology: Option<Rc<TopologyFile>>,
}

/// Key-value pairs of a job before its ranks put any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InitialPairs {
    /// Job attributes.
    pub(crate) attributes: Vec<(String, String)>,
    /// Pairs of the key-value space.
    pub(crate) preputs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Directives of the request that spawned the job, which PMIx clients find as pairs.
    pub(crate) directives: JobDirectives,
}

/// Endpoint for ranks without an inherited descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The address, as in the client's environment.
    pub(crate) port: String,
    /// True if ranks that are started here connect there, too, and inherit no descriptor.
    pub(crate) is_for_started: bool,
    /// Identifiers of the ranks in the handshake, if they differ from the ranks.
    pub(crate) ids: Option<Vec<u64>>,
    /// The certificate to trust, if TLS is used there.
    pub(crate) pin: Option<String>,
    /// True if ranks that are not started here must prove the secret by challenge; the secret itself is
    /// not accepted.
    pub(crate) requires_challenge: bool,
}

/// Endpoint for the PMIx clients of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PmixEndpoint {
    /// Namespace and rank of the server, and the address, in the format of clients.
    pub(crate) uri: String,
    /// Directory for temporary files of the clients, which the launcher removes.
    pub(crate) directory: Option<PathBuf>,
    /// Directory of the store of the job in shared memory; it is made when the job is added.
    pub(crate) store: Option<PathBuf>,
}

/// Ranks that run the same program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct App {
    /// Program of the ranks.
    pub(crate) program: Program,
    /// Number of ranks; at least one.
    pub(crate) ranks: u32,
}

/// Scheduling of a rank while it initializes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitScheduling {
    /// That of the launcher.
    Usual,
    /// A short slice, so that a rank that waits gives way to others soon.
    ShortSlice,
    /// A rank that wakes takes the processor from no other process.
    Batch,
}

/// The first job as it was specified, before its ranks are placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobSpec<'a> {
    /// Programs with their numbers of ranks, in the order of the ranks.
    pub(crate) parts: &'a [App],
    /// Number of ranks, those that connect from elsewhere included.
    pub(crate) ranks: u32,
    /// Name of this host.
    pub(crate) host: &'a str,
    /// Name of the run, which makes the names of jobs unique among launchers.
    pub(crate) run: &'a str,
    /// Hosts with ranks; `None` if all ranks are on this one.
    pub(crate) hosts: Option<&'a Rc<PlacedHosts>>,
    /// Number of this node among the hosts; `None` at the head.
    pub(crate) node: Option<u32>,
    /// Places of the ranks of this node.
    pub(crate) places: &'a NodePlaces,
    /// Number of processes that all jobs together may have.
    pub(crate) universe: UniverseSize,
    /// Name of the job, if the program that has started the launcher has chosen it.
    pub(crate) nspace: Option<&'a str>,
    /// All settings of the run.
    pub(crate) settings: &'a Settings,
}

impl Plan {
    /// Places the ranks of `spec`: all of them on this node if it has no hosts. They have no processors
    /// before [`assign_processors`](Self::assign_processors).
    pub(crate) fn first(spec: JobSpec<'_>, endpoint: Option<Endpoint>) -> Self {
        let JobSpec { parts, ranks, host, run, hosts, node, places, universe, nspace, settings } =
            spec;
        let local = match (hosts, node) {
            (None, _) => LocalRanks::first(started(parts)),
            (Some(placed), Some(node)) => {
                let is_started = |rank: &u32| *rank < started(parts);
                LocalRanks::of(placed.map.ranks_of(node).filter(is_started))
            }
            (Some(_), None) => LocalRanks::default(),
        };
        let offer = offered(parts, &settings.environment);
        Self {
            ranks,
            offer,
            parts: parts.to_vec(),
            endpoint,
            pmix: None,
            host: host.to_owned(),
            kvsname: nspace.map_or_else(|| format!("{run}_0"), str::to_owned),
            spawner: None,
            universe,
            environment: settings.environment.clone(),
            placement: NodePlacement {
                ranks: local,
                hosts: hosts.cloned(),
                expected: settings.job.expected.clone().unwrap_or_default(),
                binding: places.binding.clone(),
                places: places.places.clone(),
                processors: Vec::new(),
                neighbours: 0,
                had_idle_processors: false,
                is_beside_nodes: settings.nodes.starter.as_ref().is_some_and(StarterName::is_here),
                topology: None,
            },
            pairs: InitialPairs {
                attributes: settings.job.attributes.clone(),
                directives: JobDirectives {
                    gdb: settings.watching.gdb.clone(),
                    ..JobDirectives::default()
                },
                ..InitialPairs::default()
            },
        }
    }

    /// A job of `parts` spawned by `rank` of this job, as number `count` of the run.
    pub(crate) fn spawned(
        &self,
        rank: u32,
        parts: Vec<App>,
        preputs: Vec<(Vec<u8>, Vec<u8>)>,
        count: u32,
    ) -> Self {
        let ranks = started(&parts);
        Self {
            ranks,
            offer: offered(&parts, &self.environment),
            parts,
            endpoint: None,
            pmix: None,
            host: self.host.clone(),
            kvsname: format!("{}_{count}", self.run()),
            spawner: Some(ParentRank { kvsname: self.kvsname.clone(), rank }),
            universe: self.universe,
            environment: self.environment.clone(),
            placement: NodePlacement {
                ranks: LocalRanks::first(ranks),
                hosts: None,
                expected: ExpectedRanks::default(),
                neighbours: 0,
                ..self.placement.clone()
            },
            pairs: InitialPairs {
                attributes: self.pairs.attributes.clone(),
                preputs,
                ..InitialPairs::default()
            },
        }
    }

    /// Assigns the processors of this node to its ranks, which are placed.
    pub(crate) fn assign_processors(&mut self, own: &OwnResources) {
        let NodePlacement { ranks, hosts, neighbours, .. } = &self.placement;
        // One rank shares no processors, and needs no reading of the quota.
        let is_alone = hosts.is_none() && ranks.count().saturating_add(*neighbours) <= 1;
        let has_mpich = self.offer.iter().any(|offer| offer.takes_newer_pmi1);
        // Each rank of MPICH would detect the topology by itself.
        let shares_topology = ranks.count() > 1 && has_mpich;
        let processors = if is_alone { own.allowed() } else { own.granted() };
        self.placement.processors = processors.to_vec();
        if shares_topology && self.placement.topology.is_none() {
            self.placement.topology =
                TopologyFile::of_machine(Path::new("/"), processors).map(Rc::new);
        }
    }

    /// Records whether processors are idle, before the first job.
    pub(crate) fn note_idle_processors(&mut self) {
        self.placement.had_idle_processors = self.is_oversubscribed() && !are_processors_busy();
    }

    /// Name of the run, which begins the names of its jobs.
    fn run(&self) -> &str {
        self.kvsname.rsplit_once('_').map_or(&*self.kvsname, |(run, _)| run)
    }

    /// Protocols offered to part `number`.
    pub(crate) fn offer(&self, number: usize) -> ProtocolOffer {
        self.offer.get(number).copied().unwrap_or(ProtocolOffer::PMI)
    }

    /// True if any rank may use PMIx.
    pub(crate) fn has_pmix(&self) -> bool {
        self.offer.iter().any(|offer| offer.pmix)
    }

    /// True if all ranks that may use PMIx read a store in shared memory: their libraries can, and the user
    /// does not choose another one.
    pub(crate) fn has_pmix_store(&self) -> bool {
        let mut parts = self.parts.iter().zip(&self.offer).filter(|(_, offer)| offer.pmix);
        let name = pmix_store::CHOICE;
        let chosen =
            |part: &App| program_environment::found_by(&part.program, &self.environment, name);
        self.has_pmix()
            && parts.all(|(part, offer)| match (offer.pmix_store, chosen(part)) {
                (StoreOffer::None, _) | (StoreOffer::OnRequest, None) => false,
                (StoreOffer::Default, None) => true,
                (_, Some(choice)) => choice.as_bytes().starts_with(pmix_store::STORE),
            })
    }

    /// Number of ranks of this node that may use PMIx.
    pub(crate) fn pmix_ranks(&self) -> u32 {
        let mut first = 0;
        let counts = self.parts.iter().zip(&self.offer).map(|(part, offer)| {
            let ranks = first..first + part.ranks;
            first = ranks.end;
            if offer.pmix { self.placement.ranks.count_within(ranks) } else { 0 }
        });
        counts.sum()
    }

    /// True if ranks that are started connect to a port, and inherit no descriptor.
    pub(crate) fn has_port(&self) -> bool {
        self.endpoint.as_ref().is_some_and(|endpoint| endpoint.is_for_started)
    }

    /// Number of ranks that are started on any node; the others connect by themselves.
    pub(crate) fn started(&self) -> u32 {
        started(&self.parts)
    }

    /// Number of ranks that are started on this node.
    pub(crate) fn local(&self) -> u32 {
        self.placement.ranks.count()
    }

    /// True if ranks are started on other nodes, too.
    pub(crate) fn has_other_nodes(&self) -> bool {
        self.local() < self.started()
    }

    /// The place of `rank` among the ranks that are started on this node; `None` if it is not one of them.
    pub(crate) fn local_rank(&self, rank: u32) -> Option<u32> {
        self.placement.ranks.local_rank(rank)
    }

    /// Preparation of a rank for a debugger.
    pub(crate) fn debug_hold(&self, rank: u32) -> DebugHold {
        self.pairs.directives.debug_hold(rank)
    }

    /// True if the run has a list of hosts, and not only the launcher's own.
    pub(crate) fn names_hosts(&self) -> bool {
        self.placement.hosts.is_some()
    }

    /// Name of the node of `rank`.
    pub(crate) fn host_of(&self, rank: u32) -> &str {
        let hosts = self.placement.hosts.as_ref();
        hosts.and_then(|placed| placed.host_of(rank)).unwrap_or(&self.host)
    }

    /// Ranks that this launcher serves, in ascending order: those of this node, and those that connect by
    /// themselves, which do so at one node.
    pub(crate) fn served(&self) -> LocalRanks {
        let has_dial_in = self.endpoint.is_some() && !self.has_port();
        match self.ranks == self.started() || (self.placement.hosts.is_some() && !has_dial_in) {
            true => self.placement.ranks.clone(),
            false => LocalRanks::of(self.placement.ranks.iter().chain(self.started()..self.ranks)),
        }
    }

    /// Whether ranks of this node share processors, those of other jobs counted.
    pub(crate) fn is_oversubscribed(&self) -> bool {
        let ranks = usize::try_from(self.local().saturating_add(self.placement.neighbours));
        !self.placement.processors.is_empty()
            && ranks.is_ok_and(|ranks| ranks > self.placement.processors.len())
    }

    /// Whether `rank` yields a processor to ranks with which it shares one.
    ///
    /// Ranks of MPICH yield for a part of `MPI_Init` alone. On a machine that is busy with other work they
    /// gain more from a share of the processors for each of them.
    pub(crate) fn is_yielding(&self, rank: u32) -> bool {
        let yields = match self.offer(self.appnum(rank)).waiting {
            Waiting::Spinning => false,
            Waiting::YieldingInInit => self.placement.had_idle_processors,
            Waiting::Yielding => true,
        };
        yields && self.is_oversubscribed()
    }

    /// How `rank` is scheduled while it initializes.
    pub(crate) fn init_scheduling(&self, rank: u32) -> InitScheduling {
        if self.placement.had_idle_processors && self.is_oversubscribed() {
            return InitScheduling::Batch;
        }
        match self.offer(self.appnum(rank)).waiting {
            Waiting::Spinning => InitScheduling::Usual,
            Waiting::YieldingInInit | Waiting::Yielding => InitScheduling::ShortSlice,
        }
    }

    /// Whether each rank of this node has a processor, of which the server can use one while a rank waits.
    pub(crate) fn leaves_room_to_spin(&self) -> bool {
        self.placement.processors.len() > 1 && !self.is_oversubscribed()
    }

    /// The processor of the rank `local_rank` of this node: the first that it is bound to, else the one that
    /// it has if all jobs share the processors evenly. `None` if the system does not list them.
    pub(crate) fn processor(&self, local_rank: u32) -> Option<u32> {
        if let Some(binding) = &self.placement.binding {
            return binding.of(local_rank).first().copied();
        }
        let [own, all] =
            [self.local(), self.local().saturating_add(self.placement.neighbours)].map(u64::from);
        let count = u64::try_from(self.placement.processors.len()).ok()?;
        let share = count.saturating_mul(own).checked_div(all)?.clamp(1, count.max(1));
        let at = u64::from(local_rank).checked_rem(share)?;
        self.placement.processors.get(usize::try_from(at).ok()?).copied()
    }

    /// Application number of `rank` in its job, that is, the index of its part.
    pub(crate) fn appnum(&self, rank: u32) -> usize {
        let mut end = 0;
        let ends = self.parts.iter().map(|part| {
            end += part.ranks;
            end
        });
        { ends }.take_while(|end| *end <= rank).count()
    }

    /// Program of `rank`, for messages.
    pub(crate) fn program_name(&self, rank: u32) -> String {
        self.parts.get(self.appnum(rank)).map_or_else(String::new, App::name)
    }

    /// Programs of the ranks, for messages about all of them.
    pub(crate) fn program_names(&self) -> String {
        let mut names: Vec<String> = self.parts.iter().map(App::name).collect();
        names.dedup();
        if self.started() < self.ranks {
            names.push("connected over TCP".to_owned());
        }
        names.join(", ")
    }
}

/// Number of ranks of these parts.
fn started(parts: &[App]) -> u32 {
    parts.iter().map(|part| part.ranks).sum()
}

fn offered(parts: &[App], environment: &Environment) -> Vec<ProtocolOffer> {
    parts.iter().map(|part| ProtocolOffer::of(&part.program, environment)).collect()
}

impl Endpoint {
    /// True if the port is a web socket, to which only pages can connect.
    pub(crate) fn is_web(&self) -> bool {
        self.port.starts_with("ws://")
    }

    /// Identifier of `rank` in the handshake.
    pub(crate) fn id(&self, rank: u32) -> u64 {
        let place = usize::try_from(rank).ok();
        let id = self.ids.as_ref().and_then(|ids| ids.get(place?).copied());
        id.unwrap_or(u64::from(rank))
    }
}

impl PmixEndpoint {
    /// The server of the launcher `pid`, which listens at `address`, without a directory.
    pub(crate) fn new(pid: u32, address: impl Display) -> Self {
        let uri = format!("{}.0;tcp4://{address}", server_nspace(pid));
        Self { uri, directory: None, store: None }
    }
}

/// Namespace of the server itself. It has no dot: clients cut the address at one.
pub(crate) fn server_nspace(pid: u32) -> String {
    format!("pmi-host-{pid}")
}

impl App {
    fn name(&self) -> String {
        self.program.name.display().to_string()
    }
}

/// Name of the run of launcher `pid` on `host`, which begins the names of its jobs: unique beyond the host,
/// since clients of other launchers may publish or compare them, and beyond the life of the process, since
/// the number of a process returns. MPICH 5 derives the name of its shared memory from the name of the job,
/// and waits forever for ranks in memory that a killed job has left behind. Hence `moment`, the time of the
/// start in microseconds, of which the lower 32 bits are taken.
///
/// Shape: letters, digits, `-`, `.` and `_`, which every dialect expresses, and no more than 80 bytes.
fn run_name(host: &str, pid: u32, moment: Duration) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let host = host.chars().map(|c| if is_plain(c) { c } else { '-' });
    let host = host.take(HOST_CHARS).collect::<String>();
    format!("kvs_{host}_{pid}_{:08x}", moment.as_micros() & u128::from(u32::MAX))
}

/// Name of the run of this process, which starts now.
pub(crate) fn name_of_this_run(host: &str) -> String {
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    run_name(host, std::process::id(), moment)
}

/// Characters of the name of a host in the name of a run.
const HOST_CHARS: usize = 56;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::ffi::OsString;

    /// Ranks of these programs on `node1`.
    pub(crate) fn plan(parts: &[(&str, u32)]) -> Plan {
        let part = |(name, ranks): &(&str, u32)| {
            let program = Program::new(PathBuf::from(name), OsString::from(name), Vec::new());
            App { program, ranks: *ranks }
        };
        let parts: Vec<App> = parts.iter().map(part).collect();
        let ranks = parts.iter().map(|part| part.ranks).sum();
        Plan {
            ranks,
            offer: vec![ProtocolOffer::PMI; parts.len()],
            parts,
            endpoint: None,
            pmix: None,
            host: "node1".to_owned(),
            kvsname: "kvs_7_0".to_owned(),
            spawner: None,
            universe: UniverseSize::of(ranks),
            environment: Environment::default(),
            placement: NodePlacement {
                ranks: LocalRanks::first(ranks),
                ..NodePlacement::default()
            },
            pairs: InitialPairs::default(),
        }
    }

    #[test]
    fn ranks_are_numbered_through_all_parts() {
        let plan = plan(&[("./a", 2), ("./b", 1), ("./b", 3)]);
        let numbers: Vec<usize> = (0..6).map(|rank| plan.appnum(rank)).collect();
        assert_eq!(numbers, [0, 0, 1, 2, 2, 2]);
        assert_eq!((plan.program_name(1), plan.program_name(2)), ("./a".into(), "./b".into()));
        assert_eq!(plan.program_names(), "./a, ./b");
    }

    // Coverage: A2-10
    #[test]
    fn names_of_runs_have_host_and_process_and_plain_characters() {
        let moment = Duration::from_micros(0x1_0002_0003);
        assert_eq!(run_name("node1.cluster-2", 7, moment), "kvs_node1.cluster-2_7_00020003");
        assert_eq!(run_name("a b=c;d_e\u{e9}", 7, moment), "kvs_a-b-c-d-e-_7_00020003");
        assert_eq!(run_name(&"n".repeat(99), u32::MAX, moment).len(), 80);
    }

    // Coverage: A2-10
    #[test]
    fn names_of_runs_of_one_process_number_differ() {
        let [first, second] = [0, 1].map(|micros| run_name("n", 7, Duration::from_micros(micros)));
        assert_ne!(first, second);
    }

    #[test]
    fn spawned_job_knows_where_it_comes_from() {
        let parent = plan(&[("./a", 2)]);
        let child = parent.spawned(1, plan(&[("./b", 3)]).parts, Vec::new(), 4);
        assert_eq!((child.ranks, child.universe), (3, UniverseSize::of(2)));
        let spawner = ParentRank { kvsname: "kvs_7_0".to_owned(), rank: 1 };
        assert_eq!((&*child.kvsname, child.spawner), ("kvs_7_4", Some(spawner)));
    }

    #[test]
    fn plan_has_processors_once_its_node_assigns_them() {
        let own = OwnResources::default();
        let mut alone = plan(&[("./a", 1)]);
        assert!(alone.placement.processors.is_empty());
        alone.assign_processors(&own);
        assert_eq!(alone.placement.processors, own.allowed());
        let mut several = plan(&[("./a", 2)]);
        several.assign_processors(&own);
        assert_eq!(several.placement.processors, own.granted());
        // A rank beside others shares the time that the control group grants.
        let mut beside = alone.spawned(0, alone.parts.clone(), Vec::new(), 1);
        beside.placement.neighbours = 1;
        beside.assign_processors(&own);
        assert_eq!(beside.placement.processors, own.granted());
    }

    #[test]
    fn ranks_of_mpich_share_a_session_on_an_idle_machine_only() {
        let mut plan = plan(&[("./a", 3)]);
        plan.placement.processors = vec![0, 1];
        for (waiting, expected) in [
            (Waiting::Spinning, [false, false]),
            (Waiting::YieldingInInit, [false, true]),
            (Waiting::Yielding, [true, true]),
        ] {
            plan.offer = vec![ProtocolOffer { waiting, ..ProtocolOffer::PMI }];
            let is_yielding = [false, true].map(|was_idle| {
                plan.placement.had_idle_processors = was_idle;
                plan.is_yielding(1)
            });
            assert_eq!(is_yielding, expected, "{waiting:?}");
            assert_eq!(plan.init_scheduling(1), InitScheduling::Batch);
            plan.placement.had_idle_processors = false;
            let short = plan.init_scheduling(1) == InitScheduling::ShortSlice;
            assert_eq!(short, waiting != Waiting::Spinning);
        }
        plan.placement.processors = vec![0, 1, 2];
        assert!(!plan.is_yielding(1), "each has a processor");
        assert!(plan.leaves_room_to_spin());
    }
}
