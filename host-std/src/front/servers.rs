//! A run over node servers.

use super::served_run::ServedRun;
use crate::cli::config::Config;
use crate::cli::hosts::{numbered_hosts, present_in_slurm};
use crate::launch::plan::job::Plan;
use crate::launch::plan::program_environment;
use crate::launch::signal::Signals;
use crate::link::NodeLink;
use crate::link::job_message::{
    AppMessage, DialInMessage, ExchangeMessage, FactsMessage, JobMessage, Origin, StreamsMessage,
    Supervision, TerminalMessage,
};
use crate::placement::PlacedHosts;
use crate::placement::allocation::AllocationSource;
use crate::report;
use crate::run::{HeadInput, HeadTerminal, Run, RunEnd, RunStart};
use crate::server::listen_config::{ListenConfig, WebListenConfig};
use crate::settings::output::StdinTo;
use crate::settings::{Environment, Output, Settings};
use crate::stdio::gather::NodeGather;
use crate::stdio::label::RankNodes;
use crate::stdio::outputs::NodeOutput;
use crate::stdio::places::Places;
use crate::stdio::source::Source;
use pmi_host_os::admission::secret::{GeneratedSecret, SecretUse};
use pmi_host_os::cleanup::guard::Guard;
use pmi_host_os::cleanup::guard_protocol::Guarded;
use pmi_host_os::console::Console;
use pmi_host_os::poller::Poller;
use pmi_nodes::failed_host::LateHost;
use pmi_nodes::greeting::NodeTask;
use pmi_nodes::settings::StarterName;
use pmi_nodes::stage::SentPrograms;
use pmi_nodes::start::NodeServers;
use pmi_nodes::starter::StarterHost;
use pmi_tree::NodeId;
use rustix::fs::Mode;
use rustix::process::umask;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;

/// Runs the first job and all jobs spawned from it on the hosts of `config`, which those in `late` join when
/// they come.
///
/// # Errors
///
/// The reason why the job cannot be prepared.
// Its frame is large, and one frame with that of the caller would be touched by each run.
#[inline(never)]
pub(super) fn run(config: &Config, late: &[LateHost]) -> Result<RunEnd, String> {
    let taken = Signals::take(&config.settings.ending.forward_signals);
    let (_, signals) = taken.map_err(report::cannot_prepare)?;
    Ok(prepare(config, late)?.serve(signals))
}

/// Prepares the run, and starts the node servers.
fn prepare(config: &Config, late: &[LateHost]) -> Result<ServedRun, String> {
    let settings = &config.settings;
    let placed = Rc::clone(&config.placed);
    let plan = Rc::new(Plan::first(config.job(), None));
    let node_of = |rank| NodeId(placed.map.node_of(rank).unwrap_or_default() + 1);
    let terminal = terminal(&settings.output, node_of)?;
    let readers = match (settings.output.pty, &settings.output.stdin) {
        (None, readers) => readers.clone(),
        (Some(_), StdinTo::NoRank) => StdinTo::NoRank,
        (Some(rank), _) => StdinTo::Ranks(vec![rank]),
    };
    let mut input = HeadInput::new(&readers, plan.started(), node_of, || {
        rustix::stdio::stdin().try_clone_to_owned().and_then(Source::new)
    })?;
    input.terminal = terminal;
    let poller = Poller::new().map_err(report::cannot_prepare)?;
    let mut hosts =
        StarterHost::all(&placed.hosts, &settings.nodes, |name| std::env::var(name).ok());
    if let Some(node) = config.dial_in_node {
        hosts.iter_mut().for_each(|host| host.is_apart |= host.node == node + 1);
    }
    let mut servers = NodeServers::open(
        hosts,
        &settings.nodes,
        NodeTask::Job,
        numbered_hosts,
        &poller.for_run(),
    )?;
    let of_rank = input.terminal.as_ref().map(HeadTerminal::describe);
    let mut first = describe(config, &placed, of_rank)?;
    let mut reports = servers.instructions();
    if let Some(node) = config.dial_in_node {
        let (listen, web) = (config.listen.as_ref(), config.web.as_ref());
        let create = || GeneratedSecret::create(SecretUse::Ranks);
        let is_lacking = listen.is_some_and(ListenConfig::lacks_secret)
            || web.is_some_and(WebListenConfig::lacks_secret);
        let secret = is_lacking.then(create).transpose()?;
        let given = settings.job.proof.secret_file.as_deref();
        let file = secret.as_ref().map(|secret| &*secret.path).or(given.map(Path::new));
        let expected = settings.job.expected.clone().unwrap_or_default();
        first.dial_in = Some(DialInMessage::new((listen, web), expected, file, node)?);
        if let Some(secret) = secret {
            reports.push(report::generated_secret(&secret.path, None));
            servers.keep_secret(secret);
        }
    }
    let mut programs = settings.nodes.staging.has_programs.then(SentPrograms::default);
    if let Some(programs) = &mut programs {
        first.apps.iter_mut().try_for_each(|app| app.send_with(programs))?;
    }
    if settings.hosts.min_nodes.is_some() {
        servers.decide_all();
    }
    let observers = config.web.as_ref().and(config.dial_in_node).map(|node| NodeId(node + 1));
    let is_slurm = placed.source == AllocationSource::Slurm;
    let mut run = Run::new(
        settings,
        RunStart {
            poller: poller.for_run(),
            link: NodeLink::Tree(Box::new(servers)),
            plan,
            labels: RankNodes::several(&placed),
            placed,
            input,
            observers,
            unsent: Some((first, programs)),
            late: late.to_vec(),
            find_present: is_slurm.then_some(present_in_slurm),
            reports,
        },
    )?;
    if !settings.hosts.starts_early {
        run.show_start();
    }
    Ok(ServedRun::new(run, None, poller))
}

/// The terminal for a rank that the settings request.
fn terminal(
    settings: &Output,
    node_of: impl Fn(u32) -> NodeId,
) -> Result<Option<HeadTerminal>, String> {
    let Some(rank) = settings.pty else { return Ok(None) };
    let console = match settings.stdin == StdinTo::NoRank {
        true => None,
        false => Console::new(rustix::stdio::stdin().as_fd())
            .map_err(|error| format!("there is no terminal for rank {rank}: {error}"))?,
    };
    let guard = console.is_some().then(|| Guard::start(Guarded::Starters, true, &[])).flatten();
    Ok(Some(HeadTerminal::new((rank, node_of(rank)), console, guard)))
}

/// Description of the job of `config` for all nodes.
fn describe(
    config: &Config,
    placed: &PlacedHosts,
    terminal: Option<TerminalMessage>,
) -> Result<JobMessage, String> {
    let Settings { job, nodes, environment, output, placement, ending, watching, tracing, .. } =
        &config.settings;
    let directory = std::env::current_dir()
        .map_err(|error| format!("the working directory has no path: {error}"))?;
    // There is no call that only reads it.
    let mask = umask(Mode::empty());
    umask(mask);
    let of_head = Some(program_environment::for_other_nodes());
    Ok(JobMessage {
        run: config.run.clone(),
        hosts: placed.hosts.clone(),
        map: placed.map.clone(),
        dial_in: None,
        apps: config.parts.iter().map(AppMessage::from).collect(),
        facts: FactsMessage { universe: config.universe, attributes: job.attributes.clone() },
        exchange: ExchangeMessage {
            kvs: job.kvs,
            fence: job.fence,
            name_server: config.settings.names.server.clone(),
        },
        environment: Environment { of_head, ..environment.clone() },
        origin: Origin {
            directory: directory.into(),
            umask: mask.as_raw_mode(),
            is_one_machine: nodes.starter.as_ref().is_some_and(StarterName::is_here),
        },
        placement: placement.clone(),
        streams: StreamsMessage {
            readers: output.stdin.clone(),
            terminal,
            output: NodeOutput { are_one: Places::are_one(output), gather: NodeGather::of(output) },
        },
        supervision: Supervision {
            timeout: ending.timeout,
            standstill: watching.standstill(),
            on_exit_error: ending.on_exit_error,
            on_singletons: ending.on_singletons,
            is_traced: tracing.is_requested() || config.web.is_some(),
            forward_signals: ending.forward_signals.clone(),
        },
    })
}
