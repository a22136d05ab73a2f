//! A run whose ranks are all on this machine: the run and its only node in one process.

use super::mpir;
use super::served_run::{OwnNode, ServedRun};
use crate::cli::config::Config;
use crate::launch::signal::{Signals, UserSignals};
use crate::link::{LocalLink, NodeLink, OWN_NODE, RunLink};
use crate::listeners;
use crate::node::lease::Lease;
use crate::node::{Node, NodeStart};
use crate::report;
use crate::run::{HeadInput, Run, RunEnd, RunStart};
use crate::server::singleton::SingletonArgs;
use crate::settings::{Settings, Watching};
use crate::stdio::label::RankNodes;
use crate::stdio::outputs::NodeOutput;
use crate::stdio::places::Places;
use pmi_host_os::descriptors::{DescriptorLimit, FdBudget};
use pmi_host_os::null_device;
use pmi_host_os::poller::Poller;
use pmi_nodes::stage::StagedPrograms;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Runs the first job and all jobs spawned from it on this machine.
///
/// # Errors
///
/// The reason why the job cannot be prepared.
pub(super) fn run(config: Config, lease: Option<Lease>) -> Result<RunEnd, String> {
    let others = listeners::open_files(&config);
    let mut limit = DescriptorLimit::new(config.settings.output.files_per_rank(), others);
    // The number of ranks is checked first: a plan with more than the limit allows is not worth making.
    let prepared = limit.raise_for(FdBudget { ranks: config.ranks, pmix: 0 });
    prepared.map_err(|error| error.to_string())?;
    let (run, signals) = start(config, lease, limit)?;
    Ok(run.serve(signals))
}

/// Takes over the signals to this process, and prepares the run and the node.
pub(super) fn start(
    config: Config,
    lease: Option<Lease>,
    limit: DescriptorLimit,
) -> Result<(ServedRun, Signals), String> {
    let reserved = reserve()?;
    let taken = Signals::take(&config.settings.ending.forward_signals);
    let (user_signals, signals) = taken.map_err(report::cannot_prepare)?;
    Ok((prepare(config, lease, limit, reserved, user_signals)?, signals))
}

/// Reserves the descriptor for the sockets of ranks: first of all, so that its number has one digit, since a
/// shell can name no other.
pub(super) fn reserve() -> Result<OwnedFd, String> {
    null_device::open().map_err(report::cannot_prepare)
}

/// Prepares the run and the node, whose ranks begin with these signals.
pub(super) fn prepare(
    mut config: Config,
    lease: Option<Lease>,
    limit: DescriptorLimit,
    reserved: OwnedFd,
    user_signals: UserSignals,
) -> Result<ServedRun, String> {
    let poller = Poller::new().map_err(report::cannot_prepare)?;
    let (settings, placed) = (config.settings.clone(), Rc::clone(&config.placed));
    let link = Rc::new(LocalLink::default());
    let output = NodeOutput {
        are_one: Places::are_one(&settings.output),
        // The run gathers equal lines.
        gather: None,
    };
    let is_traced = settings.tracing.is_requested() || config.web.is_some();
    let labels = RankNodes::One(config.host.clone());
    let observers = config.web.as_ref().map(|_| OWN_NODE);
    config.settings = of_node(config.settings);
    let start = NodeStart {
        poller: poller.clone(),
        reserved,
        user_signals,
        link: RunLink::Local(Rc::clone(&link)),
        resources: Rc::default(),
        output,
        is_traced,
        is_debugged: mpir::is_being_debugged(),
        programs: StagedPrograms::default(),
        terminal: None,
        lease,
    };
    let node = Node::new(config, limit, start)?;
    let plan = node.first_plan().map(Rc::clone);
    let start = RunStart {
        poller: poller.for_run(),
        link: NodeLink::Local(Rc::clone(&link)),
        plan: plan.ok_or("the job has no plan")?,
        placed,
        labels,
        input: HeadInput::default(),
        observers,
        unsent: None,
        late: Vec::new(),
        find_present: None,
        reports: Vec::new(),
    };
    let run = Run::new(&settings, start)?;
    Ok(ServedRun::new(run, Some(OwnNode { node, link }), poller))
}

/// Singletons, whose first rank has started this process.
impl ServedRun {
    /// Adopts the calling program as the rank that would be started first.
    pub(super) fn adopt(&mut self, caller: SingletonArgs) -> Result<(), String> {
        self.run.is_adopting = true;
        self.own.as_mut().map_or(Ok(()), |own| own.node.adopt(caller))
    }

    /// Adopts a process as the rank that would be started first, and returns the address of its server.
    pub(super) fn adopt_process(&mut self, pid: i32) -> Result<String, String> {
        self.run.is_adopting = true;
        let Some(OwnNode { node, .. }) = &mut self.own else { return Ok(String::new()) };
        node.adopt_process(pid)?;
        Ok(node.pmix_uri().unwrap_or_default())
    }
}

/// Settings of the node: the run judges whether there is progress.
fn of_node(settings: Settings) -> Settings {
    let stall_report = settings.watching.standstill();
    let watching = Watching { stall_report, stall_abort: None, ..settings.watching };
    Settings { watching, ..settings }
}
