//! Resolved configuration of a run: the program is found and executable, and the host has a name.

use super::args::{DefaultRanks, GivenOption, PartArgs, RunArgs};
use super::hosts::JobHosts;
use super::options::RANKS_MAX;
use crate::demo_rank::DEMO_RANK;
use crate::launch::environment::other_launchers;
use crate::launch::plan::job::{App, JobSpec, name_of_this_run};
use crate::launch::plan::preload;
use crate::launch::plan::program_environment::{composed, found_by};
use crate::launch::plan::spawn_request::largest_in_set;
use crate::launch::start::gdb::GDB;
use crate::launch::topology::binding;
use crate::launch::topology::binding::RankCounts;
use crate::launch::topology::places::{NodePlaces, PlaceRequest};
use crate::placement::{ExpectedRanks, HostList, PlacedHosts};
use crate::server::listen_config::ListenConfig;
use crate::server::listen_config::WebListenConfig;
use crate::settings::environment::{Environment, Rendezvous};
use crate::settings::hosts::HostSource;
use crate::settings::job::RankTool;
use crate::settings::placement::{BindTo, Display, LauncherBinding};
use crate::settings::{JobSettings, Settings, Universe, UniverseSize};
use pmi_host_base::exit::USAGE;
use pmi_host_base::library::{self, Family, Libraries};
use pmi_host_base::program::{Program, ProgramError};
use pmi_host_base::usage::{UsageError, behind_colon};
use pmi_host_os::admission::secret::{GeneratedSecret, SecretUse, read_secret};
use pmi_host_os::host_name;
use pmi_host_os::refusal;
use pmi_nodes::settings::StarterName;
use rustix::io::Errno;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Configuration of the first job.
#[derive(Debug)]
pub(crate) struct Config {
    /// Number of ranks that are started, on all hosts.
    pub(crate) ranks: u32,
    /// Programs, in the order of the ranks; empty if no rank is started here.
    pub(crate) parts: Vec<App>,
    /// Name of this machine.
    pub(crate) host: String,
    /// Name of the run, which begins the names of its jobs.
    pub(crate) run: String,
    /// Hosts with ranks.
    pub(crate) placed: Rc<PlacedHosts>,
    /// True if each is served by a node server; otherwise, this process serves all ranks.
    pub(crate) has_servers: bool,
    /// Number of this node among the hosts; `None` at the head of a run.
    pub(crate) node: Option<u32>,
    /// Listener for further ranks, with its credentials.
    pub(crate) listen: Option<ListenConfig>,
    /// In a run on several hosts, the node at which these ranks and pages connect.
    pub(crate) dial_in_node: Option<u32>,
    /// Listener for pages, with its credentials.
    pub(crate) web: Option<WebListenConfig>,
    /// Places of the ranks of this node.
    pub(crate) places: NodePlaces,
    /// Number of processes that all jobs together may have.
    pub(crate) universe: UniverseSize,
    /// Name of the first job, if the program that has started the launcher has chosen it.
    pub(crate) nspace: Option<String>,
    /// Settings of the run.
    pub(crate) settings: Settings,
}

/// Error in the configuration of a run. The message ends with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ConfigError {
    /// The arguments contradict each other.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The program cannot be started.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// An error in what follows a colon, which may belong to the program before it.
    #[error("{error}; {}", behind_colon(.words))]
    BehindColon {
        /// The error.
        error: Box<ConfigError>,
        /// Words of the program before the colon.
        words: String,
    },
    /// The listener cannot be set up.
    #[error("{0}")]
    Listen(String),
    /// The requested placement is impossible.
    #[error("{0}")]
    Placement(String),
}

impl Config {
    /// Resolves `args`; options from other sources precede those of the command line in it.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], before any process was started.
    pub(crate) fn resolve(args: RunArgs) -> Result<Self, ConfigError> {
        Self::resolve_without(args, &[])
    }

    /// Resolves `args` without the hosts in `excluded`, which cannot be used.
    pub(crate) fn resolve_without(
        mut args: RunArgs,
        excluded: &[String],
    ) -> Result<Self, ConfigError> {
        share_variables_of_intel(&mut args);
        let mut settings = Settings::default();
        apply(&args.given, &mut settings)?;
        let callers = callers(&settings.job)?;
        if settings.environment.has_port && (callers > 0 || settings.job.listen.is_some()) {
            return Err(UsageError::Other { what: PORT_ALONE.to_owned() }.into());
        }
        if args.needs_program
            && let Some(place) = lacking(&args.parts, callers)
        {
            return Err(UsageError::NoProgram { place }.into());
        }
        if settings.hosts.starts_early && settings.hosts.min_nodes.is_some() {
            return Err(UsageError::Other { what: EARLY_WITH_ALL.to_owned() }.into());
        }
        let host = host_name::own();
        if let (Some(StarterName::Local(nodes)), None) =
            (&settings.nodes.starter, &settings.hosts.source)
        {
            let list = HostList::parse(&format!("local[1-{nodes}]"));
            let other = |what| UsageError::Other { what };
            settings.hosts.source = Some(HostSource::List(list.map_err(other)?));
        }
        let hosts = JobHosts::resolve(&settings.hosts, (&args.parts, excluded), &host)?;
        let fallback = |part| {
            let of_hosts = hosts.default_ranks(part, &settings.hosts);
            match of_hosts {
                Some(ranks) => Ok(Some(ranks)),
                None => default_ranks(args.default_ranks, &args.parts[part], &settings),
            }
        };
        let mut counts: Vec<u32> = Vec::new();
        for (at, part) in args.parts.iter().enumerate() {
            let stated = match stated_ranks(part, &settings)? {
                Some(ranks) => Ok(Some(ranks)),
                None => fallback(at),
            };
            let room = hosts.room(at, &settings.hosts).saturating_sub(counts.iter().sum());
            let counted = stated
                .and_then(|ranks| Ok(sufficient(count(ranks, callers)?, room, part, &settings)?));
            counts.push(counted.map_err(|error| error.of_part(&args.parts[..at]))?);
        }
        let ranks = counts.iter().fold(0_u32, |sum, count| sum.saturating_add(*count));
        let other = |what| UsageError::Other { what };
        settings.output.check_readers(ranks).map_err(other)?;
        settings.watching.check_debugged(ranks).map_err(other)?;
        if settings.watching.gdb.is_some() {
            Program::find(OsStr::new(GDB), None, None).map_err(|_| other(NO_GDB.to_owned()))?;
        }
        let all = ranks.saturating_add(callers);
        let universe = universe(&settings, &hosts, all)?;
        let own_name = hosts.own_name().to_owned();
        // Hosts are added to a run with a head only.
        let needs_head = settings.names.server.is_some() || settings.hosts.all_hosts;
        let mut placed = hosts.place(&counts, &settings.hosts)?;
        let is_oversubscribed = hosts.are_oversubscribed(&placed, &settings.hosts);
        let has_servers = needs_head || placed.hosts.iter().any(|name| *name != own_name);
        if has_servers && settings.watching.gdb.is_some() {
            return Err(other(GDB_ON_HOSTS.to_owned()).into());
        }
        if has_servers && settings.placement.display == Some(Display::Picture) {
            return Err(other(PICTURE_ON_HOSTS.to_owned()).into());
        }
        let has_callers = callers > 0 || settings.job.websocket.is_some();
        let dial_in_node =
            has_callers.then(|| placed.add_ranks(&own_name, callers).map_err(other)).transpose()?;
        let dial_in_node = dial_in_node.filter(|_| has_servers);
        let placed = Rc::new(placed);
        let hosts = has_servers.then_some(&*placed);

        let mut parts = Vec::new();
        let counted = { args.parts.iter().zip(counts) }.enumerate();
        let counted =
            counted.map(|(at, (part, ranks))| CountedPart { at, part: part.clone(), ranks });
        for CountedPart { at, part, ranks } in with_tools(counted, &args.tools) {
            let found = program(part, &settings, args.default_ranks);
            let program = found.map_err(|error| error.of_part(&args.parts[..at]))?;
            parts.push(App { program, ranks });
        }
        if settings.environment.preload_pmi {
            let specified = settings.environment.pmi_libraries.as_deref();
            let found = preload::find(specified);
            let other = |what| UsageError::Other { what };
            settings.environment.pmi_libraries = Some(found.map_err(other)?);
        }
        if settings.environment.emulated.torch {
            settings.environment.rendezvous = Some(rendezvous(&settings, &parts, hosts)?);
        }
        let job = &settings.job;
        let secret = job.proof.secret_file.as_ref().map(|file| read_secret(file.as_os_str()));
        let secret = secret.transpose().map_err(ConfigError::Listen)?;
        let has_listen = callers > 0 || job.listen.is_some();
        let listen = has_listen.then(|| ListenConfig::resolve(job, callers, secret.clone()));
        let listen = listen.transpose().map_err(ConfigError::Listen)?;
        let has_port = settings.environment.has_port && hosts.is_none();
        let listen = listen.or_else(|| has_port.then(ListenConfig::for_started));
        let address = job.websocket.as_ref();
        let web = address.map(|address| WebListenConfig::resolve(address, job, secret.clone()));
        let web = web.transpose().map_err(ConfigError::Listen)?;
        if let (None, Some(processors)) = (&hosts, &settings.placement.processors) {
            binding::limit_to(processors).map_err(ConfigError::Placement)?;
        }
        if let BindTo::Launcher(launcher) = settings.placement.bind_to {
            // Nodes of one machine would all take its first processors.
            let is_here = settings.nodes.starter.as_ref().is_some_and(StarterName::is_here);
            settings.placement.bind_to = match hosts.is_some() && is_here {
                true => BindTo::Nothing,
                false => {
                    let of_parts = || links_open_mpi(&parts, &settings.environment);
                    of_launcher(launcher, of_parts, is_oversubscribed)
                }
            };
        }
        let places = match hosts {
            None => place_ranks(&settings, &parts, &host, RankCounts { all: ranks, local: ranks }),
            // Each node has processors and devices of its own.
            Some(_) => NodePlaces::check(&settings.placement).map(|()| NodePlaces::default()),
        };
        let places = places.map_err(ConfigError::Placement)?;
        let (node, nspace) = (None, None);
        Ok(Self {
            ranks,
            parts,
            run: name_of_this_run(&host),
            host,
            placed,
            has_servers,
            node,
            listen,
            dial_in_node,
            web,
            places,
            universe,
            nspace,
            settings,
        })
    }

    /// Hosts with ranks, if they have node servers.
    pub(crate) fn hosts(&self) -> Option<&Rc<PlacedHosts>> {
        self.has_servers.then_some(&self.placed)
    }

    /// Numbers of ranks of the first job that are started: of all, and of those on this node.
    pub(crate) fn started(&self) -> RankCounts {
        let all = self.parts.iter().map(|part| part.ranks).sum();
        let own = self.placed.map.ranks_of(self.node.unwrap_or_default());
        let local = own.filter(|rank| *rank < all).count();
        RankCounts { all, local: u32::try_from(local).unwrap_or(u32::MAX) }
    }

    /// The first job, with the ranks that connect from elsewhere.
    pub(crate) fn job(&self) -> JobSpec<'_> {
        let callers = self.listen.as_ref().map_or(0, |listen| listen.expected);
        JobSpec {
            parts: &self.parts,
            ranks: self.ranks + callers,
            host: &self.host,
            run: &self.run,
            hosts: self.hosts(),
            node: self.node,
            places: &self.places,
            universe: self.universe,
            nspace: self.nspace.as_deref(),
            settings: &self.settings,
        }
    }

    /// Generates a secret for listeners that need one and were given none.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(crate) fn complete_secret(&mut self) -> Result<Option<GeneratedSecret>, String> {
        let listen = self.listen.as_ref().is_some_and(ListenConfig::lacks_secret);
        let web = self.web.as_ref().is_some_and(WebListenConfig::lacks_secret);
        if !listen && !web {
            return Ok(None);
        }
        let made = GeneratedSecret::create(SecretUse::Ranks)?;
        // The processes of ranks that are started prove what they are.
        let of_listen = self.listen.as_mut().filter(|listen| !listen.is_for_started);
        let of_listen = of_listen.map(|listen| &mut listen.secret);
        let of_web = self.web.as_mut().map(|web| &mut web.secret);
        for secret in of_listen.into_iter().chain(of_web) {
            *secret = Some(made.secret.clone());
        }
        Ok(Some(made))
    }

    /// Warning if programs link MPI libraries of both families, whose ranks cannot reach each other.
    pub(crate) fn mixed_families(&self) -> Option<String> {
        if self.parts.len() < 2 {
            return None;
        }
        let of = |part: &App| {
            let Program { path, directory, name, .. } = &part.program;
            let path = directory.as_ref().map_or(path.clone(), |directory| directory.join(path));
            let environment = composed(&part.program, &self.settings.environment);
            let libraries = Libraries::found_by(&path, &environment.search(&part.program))?;
            Some((libraries.family()?, name.display().to_string()))
        };
        let all: Vec<(Family, String)> = self.parts.iter().filter_map(of).collect();
        let (first, one) = all.first()?;
        let (second, other) = all.iter().find(|(family, _)| family != first)?;
        Some(format!(
            "'{one}' is linked with {first} and '{other}' with {second}: they cannot form one \
             MPI_COMM_WORLD, and MPI_Init fails or waits; start them as separate runs"
        ))
    }

    /// Note if the user chooses an initial error handler for a program of a library that reads none.
    pub(crate) fn idle_error_handler(&self) -> Option<String> {
        let is_chosen = |(name, value): &(OsString, OsString)| {
            name == ERROR_HANDLER && value != "mpi_errors_are_fatal"
        };
        let all = &self.settings.environment;
        let is_idle = |part: &&App| {
            let program = &part.program;
            let is_named = all.set.iter().chain(&program.variables).any(is_chosen);
            let directory = program.directory.as_deref().unwrap_or(Path::new(""));
            let search = || composed(program, all).search(program);
            let family = || library::mpi_of(&directory.join(&program.path), &search());
            is_named && family().is_some_and(|(_, family)| family == Family::Mpich)
        };
        let idle = self.parts.iter().find(is_idle)?;
        Some(format!(
            "the initial error handler has no effect on '{}': MPICH and its derivatives read none; call \
             MPI_Comm_set_errhandler",
            idle.program.name.display()
        ))
    }

    /// True if ranks or pages must know a secret.
    pub(crate) fn has_secret(&self) -> bool {
        let of_listen = self.listen.as_ref().and_then(|listen| listen.secret.as_ref());
        of_listen.or_else(|| self.web.as_ref().and_then(|web| web.secret.as_ref())).is_some()
    }
}

/// A program with its number of ranks.
struct CountedPart {
    /// Place on the command line, from 0.
    at: usize,
    part: PartArgs,
    ranks: u32,
}

/// Programs with their numbers of ranks, where ranks with a tool are a program of their own.
fn with_tools(parts: impl Iterator<Item = CountedPart>, tools: &[RankTool]) -> Vec<CountedPart> {
    let mut all: Vec<CountedPart> = Vec::new();
    let mut first = 0_u32;
    for CountedPart { at, part, ranks } in parts.filter(|one| one.ranks > 0) {
        if tools.is_empty() {
            all.push(CountedPart { at, part, ranks });
            continue;
        }
        let of = |rank: u32| -> Vec<usize> {
            let has = |tool: &RankTool| tool.ranks.as_ref().is_none_or(|of| of.contains(&rank));
            (0..tools.len()).filter(|tool| has(&tools[*tool])).collect()
        };
        let mut last = None;
        for chosen in (first..first.saturating_add(ranks)).map(of) {
            if let (Some(same), true) = (all.last_mut(), last.as_ref() == Some(&chosen)) {
                same.ranks += 1;
                continue;
            }
            let tools = chosen.iter().flat_map(|tool| tools[*tool].words.iter().cloned());
            let words = tools.chain(part.words.iter().cloned()).collect();
            let part = PartArgs { words, given: part.given.clone() };
            all.push(CountedPart { at, part, ranks: 1 });
            last = Some(chosen);
        }
        first = first.saturating_add(ranks);
    }
    all
}

/// Address for `--env-for torch`.
fn rendezvous(
    settings: &Settings,
    parts: &[App],
    hosts: Option<&PlacedHosts>,
) -> Result<Rendezvous, ConfigError> {
    let common = &settings.environment.set;
    let own = parts.iter().flat_map(|part| &part.program.variables);
    if let Some((name, _)) =
        common.iter().chain(own).find(|(name, _)| other_launchers::is_of_torch(name))
    {
        let what = format!(
            "'--env-for torch' sets {0} for each rank; leave '--env {0}=…' out",
            name.display()
        );
        return Err(UsageError::Other { what }.into());
    }
    let is_here = settings.nodes.starter.as_ref().is_some_and(StarterName::is_here);
    let chosen = match hosts.filter(|_| !is_here).and_then(|placed| placed.host_of(0)) {
        Some(name) => Rendezvous::on_host(name),
        None => Rendezvous::on_this_machine(),
    };
    chosen.map_err(ConfigError::Listen)
}

/// Place of a part without a program, from 1.
fn lacking(parts: &[PartArgs], callers: u32) -> Option<usize> {
    match parts {
        [] if callers == 0 => Some(1),
        parts => parts.iter().position(|part| part.words.is_empty()).map(|place| place + 1),
    }
}

/// Number of processes that all jobs together may have, of which the first one has `ranks`.
///
/// # Errors
///
/// [`UsageError`] if the number that was requested is smaller.
fn universe(settings: &Settings, hosts: &JobHosts, ranks: u32) -> Result<UniverseSize, UsageError> {
    let stated = |slots: u32| UniverseSize::of(slots.max(ranks));
    let slots = || hosts.slots(&settings.hosts).map(stated);
    Ok(match settings.job.universe {
        Universe::Of(universe) if universe < ranks => {
            return Err(UsageError::Universe { universe, ranks });
        }
        Universe::Of(universe) => UniverseSize::of(universe),
        Universe::Slots => slots().unwrap_or_else(|| UniverseSize::of_machine(ranks)),
        Universe::Hosts => stated(hosts.default_ranks(usize::MAX, &settings.hosts).unwrap_or(1)),
        Universe::Endless => {
            let size = slots().unwrap_or_else(|| UniverseSize::of_machine(ranks));
            UniverseSize { pmi: None, ..size }
        }
    })
}

/// Number of ranks that connect from elsewhere.
fn callers(job: &JobSettings) -> Result<u32, UsageError> {
    let alone = |option, other| Err(UsageError::Alone { option, other });
    let (listens, has_pages) = (job.listen.is_some(), job.websocket.is_some());
    match &job.expected {
        _ if !has_pages && !job.origins.is_empty() => alone("--origin", "--websocket"),
        Some(_) if !listens && !has_pages => alone("--expect", "--listen"),
        _ if job.proof.secret_file.is_some() && !listens && !has_pages => {
            alone("--secret-file", "--listen")
        }
        _ if job.proof.requires_challenge && !listens && !has_pages => {
            alone("--require-challenge", "--listen")
        }
        _ if job.proof.has_short_ids && !listens && !has_pages => alone("--short-ids", "--listen"),
        _ if job.proof.munge.is_some() && !listens => alone("--munge", "--listen"),
        _ if job.is_secured && !listens => alone("--tls", "--listen"),
        None if listens => alone("--listen", "--expect"),
        expected => Ok(expected.as_ref().map_or(0, ExpectedRanks::count)),
    }
}

/// Number of ranks that run a program; `fallback` if none is given.
fn count(ranks: Option<u32>, callers: u32) -> Result<u32, UsageError> {
    match ranks {
        Some(ranks) if ranks > RANKS_MAX => Err(UsageError::Other {
            what: format!(
                "the hosts take {ranks} ranks, which is more than the {RANKS_MAX} that one launcher \
                 starts; specify a number with -n"
            ),
        }),
        Some(ranks) => Ok(ranks),
        None if callers > 0 => Ok(0),
        None => Err(UsageError::NoRanks),
    }
}

/// Number of ranks of a program for which a set of numbers will do (`--soft`): the largest of the set up to
/// `ranks` and `room`. Without a set it is `ranks`.
fn sufficient(
    ranks: u32,
    room: u32,
    part: &PartArgs,
    settings: &Settings,
) -> Result<u32, UsageError> {
    let own = own_settings(part)?.job.soft;
    let Some(set) = own.as_ref().or(settings.job.soft.as_ref()) else { return Ok(ranks) };
    let most = ranks.min(room);
    largest_in_set(set, most).filter(|ranks| *ranks > 0).ok_or_else(|| UsageError::Other {
        what: format!(
            "'--soft {set}' has no number from 1 to {most}, the most that can be started; name another set, \
             or more ranks with -n"
        ),
    })
}

/// Number of ranks that an option states.
fn stated_ranks(part: &PartArgs, settings: &Settings) -> Result<Option<u32>, UsageError> {
    Ok(own_settings(part)?.job.ranks.or(settings.job.ranks))
}

/// Number of ranks of a program without an option or hosts that state it.
fn default_ranks(
    default: DefaultRanks,
    part: &PartArgs,
    settings: &Settings,
) -> Result<Option<u32>, ConfigError> {
    let unit = match default {
        DefaultRanks::Required => return Ok(None),
        DefaultRanks::One => return Ok(Some(1)),
        DefaultRanks::Slots(unit) => unit,
        DefaultRanks::OfLibrary(unit) => {
            let program = program(part.clone(), settings, default)?;
            let path = program.directory.as_deref().map(|directory| directory.join(&program.path));
            let search = composed(&program, &settings.environment).search(&program);
            let path = path.as_deref().unwrap_or(&program.path);
            let libraries = Libraries::found_by(path, &search);
            if libraries.and_then(|all| all.family()) != Some(Family::OpenMpi) {
                return Ok(Some(1));
            }
            unit
        }
    };
    let units = binding::count(unit).map_err(ConfigError::Placement)?;
    Ok(Some(u32::try_from(units).unwrap_or(u32::MAX)))
}

/// Settings of a program that are its own.
pub(super) fn own_settings(part: &PartArgs) -> Result<Settings, UsageError> {
    let mut own = Settings::default();
    apply(&part.given, &mut own)?;
    Ok(own)
}

fn apply(given: &[GivenOption], settings: &mut Settings) -> Result<(), UsageError> {
    given.iter().try_for_each(|given| given.apply(settings))
}

/// Resolves the program of a part, for a launcher with this default number of ranks.
fn program(
    part: PartArgs,
    settings: &Settings,
    launcher: DefaultRanks,
) -> Result<Program, ConfigError> {
    let own = own_settings(&part)?;
    let directory = own.job.directory.or_else(|| settings.job.directory.clone());
    let mut words = part.words.into_iter();
    let program = match words.next() {
        Some(name) => {
            let search = own.job.search.or_else(|| settings.job.search.clone());
            let find = match looks_here(launcher, &name, directory.as_deref()) {
                true => Program::find_or_here,
                false => Program::find,
            };
            let path = find(&name, search, directory.as_deref())?;
            Program::new(path, name, words.collect())
        }
        None => demo()?,
    };
    let says_inherit = part.given.iter().any(|given| given.option.name == "inherit");
    let inherit = says_inherit.then_some(own.environment.inherit);
    Ok(Program { directory, inherit, variables: own.environment.set, ..program })
}

/// True if a launcher looks for a program behind the directories of `PATH` in the current one, as Open MPI's
/// does.
fn looks_here(launcher: DefaultRanks, name: &OsStr, directory: Option<&Path>) -> bool {
    match launcher {
        DefaultRanks::Slots(_) => true,
        DefaultRanks::OfLibrary(_) => {
            let path = directory.unwrap_or(Path::new(".")).join(name);
            Libraries::of(&path).and_then(|all| all.family()) == Some(Family::OpenMpi)
        }
        DefaultRanks::Required | DefaultRanks::One => false,
    }
}

/// Places the ranks of this node.
///
/// # Errors
///
/// A message for the user, with the remedy.
pub(crate) fn place_ranks(
    settings: &Settings,
    parts: &[App],
    host: &str,
    ranks: RankCounts,
) -> Result<NodePlaces, String> {
    let variable = |name: &str| {
        let found = found_by(&parts.first()?.program, &settings.environment, name)?;
        found.into_string().ok()
    };
    NodePlaces::resolve(&settings.placement, PlaceRequest { host, ranks, variable: &variable })
}

/// Binding of another launcher without an option: Open MPI's binds no ranks where hosts have more of them
/// than slots.
fn of_launcher(
    launcher: LauncherBinding,
    links_open_mpi: impl Fn() -> bool,
    is_oversubscribed: bool,
) -> BindTo {
    match launcher {
        LauncherBinding::OfLibrary if !links_open_mpi() => BindTo::Nothing,
        LauncherBinding::Intel | LauncherBinding::Slurm => BindTo::Launcher(launcher),
        _ if is_oversubscribed => BindTo::Nothing,
        LauncherBinding::OfLibrary => BindTo::Launcher(LauncherBinding::OpenMpi),
        _ => BindTo::Launcher(launcher),
    }
}

/// True if the first program is linked with Open MPI.
fn links_open_mpi(parts: &[App], all: &Environment) -> bool {
    let Some(App { program, .. }) = parts.first() else { return false };
    let directory = program.directory.as_deref().unwrap_or(Path::new(""));
    let search = composed(program, all).search(program);
    library::mpi_of(&directory.join(&program.path), &search)
        .is_some_and(|(_, family)| family == Family::OpenMpi)
}

/// Lets variables of Intel MPI that one program has hold for all, as under Intel's launcher: ranks of one job
/// with different ones wait for each other without end.
fn share_variables_of_intel(args: &mut RunArgs) {
    let is_shared = |given: &mut GivenOption| {
        given.option.name == "env" && given.value.as_bytes().starts_with(b"I_MPI_")
    };
    for part in &mut args.parts {
        args.given.extend(part.given.extract_if(.., is_shared));
    }
}

/// The demo is this executable, started with a hidden command word.
fn demo() -> Result<Program, ProgramError> {
    let path = own_path().map_err(ProgramError::NoDemo)?;
    Ok(Program::new(path, OsString::from("pmi-host"), vec![OsString::from(DEMO_RANK)]))
}

/// Path of this executable. Where a sandbox refuses to read the link in `/proc`, a child that has not
/// executed another program has the same one; without `/proc` the path is that of the command.
fn own_path() -> io::Result<PathBuf> {
    env::current_exe().or_else(|error| {
        if Errno::from_io_error(&error).is_some_and(refusal::is_refusal) {
            return Ok(SELF.into());
        }
        let typed = env::args_os().next().map(PathBuf::from);
        typed.filter(|path| path.components().count() > 1 && path.is_file()).ok_or(error)
    })
}

impl ConfigError {
    /// The error of a program behind others.
    fn of_part(self, before: &[PartArgs]) -> Self {
        match before.last().map(PartArgs::line) {
            Some(words) => Self::BehindColon { error: Box::new(self), words },
            None => self,
        }
    }

    /// Exit code, as a shell would return it.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Placement(_) => USAGE,
            Self::Program(error) => error.exit_code(),
            Self::BehindColon { error, .. } => error.exit_code(),
            Self::Listen(_) => 1,
        }
    }
}

/// Variable by which Open MPI reads the initial error handler.
pub(super) const ERROR_HANDLER: &str = "OMPI_MCA_mpi_initial_errhandler";

/// This executable, for a child that has not executed another one.
const SELF: &str = "/proc/self/exe";

const NO_GDB: &str =
    "'--gdb' needs gdb, which is not installed; install it, or leave the option out";

/// Both options decide differently about hosts that have not joined.
const EARLY_WITH_ALL: &str = "'--start-early' starts ranks before it is known which hosts can be used, and \
    '--min-nodes' places them on those that can; leave one of them out";

const GDB_ON_HOSTS: &str =
    "'--gdb' works on one node only; leave it out, or run all ranks on this machine";

const PICTURE_ON_HOSTS: &str = "'--display map=svg' draws the ranks of one host, and each host of a run \
    places its own; run all ranks on one host, or use '--display map'";

const PORT_ALONE: &str = "'--pmi-port' is the port of ranks that are started here, and '--listen' that of \
    others; leave one of the two out";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args;
    use std::path::PathBuf;

    fn resolved(line: &str) -> Result<Config, ConfigError> {
        let words = line.split_whitespace().map(OsString::from).collect();
        Config::resolve(args::parse(words).expect("words that can be read"))
    }

    #[test]
    fn job_without_ranks_is_a_usage_error() {
        assert!(matches!(resolved("sh"), Err(ConfigError::Usage(UsageError::NoRanks))));
        let Err(ConfigError::BehindColon { error, words }) = resolved("-n 1 sh : sh") else {
            panic!("the second program has no number of ranks");
        };
        assert!(matches!(*error, ConfigError::Usage(UsageError::NoRanks)), "{error}");
        assert_eq!(words, "sh");
    }

    #[test]
    fn universe_holds_its_job() {
        let universe = |line: &str| resolved(line).unwrap().universe;
        assert_eq!(universe("-n 2 --universe=4 sh"), UniverseSize::of(4));
        assert_eq!(universe("-n 1 --hosts a:2,b:3 sh"), UniverseSize::of(5));
        assert_eq!(universe("-n 7 --hosts a:2,b:3 sh"), UniverseSize::of(7));
        assert_eq!(universe("-n 1 --hosts a:2,b:3 --universe 4 sh"), UniverseSize::of(4));
        assert_eq!(universe("-n 1 --hosts a:2 sh : -n 1 --hosts a:3,b sh"), UniverseSize::of(4));
        let endless = universe("-n 1 --hosts a:2,b:3 --universe endless sh");
        assert_eq!(endless, UniverseSize { pmi: None, pmix: 5 });
        let alone = universe("-n 1 sh");
        assert_eq!(alone.pmi, None);
        assert_eq!(
            usize::try_from(alone.pmix),
            Ok(std::thread::available_parallelism().unwrap().get())
        );
        assert_eq!(universe("-n 5000 sh").pmix, 5000);
        for line in ["-n 2 --universe 1 sh", "-n 1 --listen localhost:0 --expect 2 --universe 2 sh"]
        {
            assert_eq!(resolved(line).unwrap_err().exit_code(), USAGE, "{line}");
        }
    }

    #[test]
    fn ranks_that_dial_in_need_an_address_and_a_number() {
        let config = resolved("--listen localhost:0 --expect 3").unwrap();
        assert_eq!((config.ranks, config.parts.len()), (0, 0));
        assert_eq!(config.listen.map(|listen| listen.expected), Some(3));
        let config = resolved("-n 2 --listen localhost:0 --expect 0 sh").unwrap();
        assert_eq!((config.ranks, config.listen.map(|listen| listen.expected)), (2, Some(0)));
        for line in [
            "-n 1 --listen localhost:0 sh",
            "--listen localhost:0 --expect 0",
            "-n 1 --expect 2 sh",
            "-n 1 --secret-file f sh",
            "-n 1 --require-challenge sh",
            "-n 1 --short-ids sh",
            "-n 1 --tls sh",
        ] {
            assert_eq!(resolved(line).unwrap_err().exit_code(), USAGE, "{line}");
        }
    }

    #[test]
    fn part_has_what_is_its_own_and_else_what_all_have() {
        let line = "--wdir /usr : -n 2 --wdir /bin --env A=1 ./sh : -n 1 --inherit none sh";
        let parts = resolved(line).unwrap().parts;
        assert_eq!(parts.iter().map(|part| part.ranks).collect::<Vec<_>>(), [2, 1]);
        let [first, second] = [&parts[0].program, &parts[1].program];
        assert_eq!(first.directory, Some(PathBuf::from("/bin")));
        assert_eq!(first.variables, [("A".into(), "1".into())]);
        assert_eq!(second.directory, Some(PathBuf::from("/usr")));
        assert!(first.inherit.is_none() && second.inherit.is_some());
    }
}
