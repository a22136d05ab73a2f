//! A run whose ranks are all on this machine: the run and its only node in one process, and one loop.

use crate::cli::config::Config;
use crate::launch::null_device;
use crate::launch::signal::{Ignored, Signals};
use crate::launch::start::descriptors::{DescriptorLimit, FdBudget};
use crate::link::{LocalLink, NodeLink, OWN_NODE, RunLink};
use crate::listeners;
use crate::node::{Node, NodeStart};
use crate::nodes::stage::StagedPrograms;
use crate::poller::{Poller, Token};
use crate::run::{HeadInput, Run, RunOutcome, RunStart};
use crate::server::singleton::SingletonArgs;
use crate::settings::{Settings, Watching};
use crate::stdio::label::RankNodes;
use crate::stdio::outputs::NodeOutput;
use crate::stdio::places::Places;
use crate::stdio::target;
use crate::verdict::Failure;
use pmi_host_base::exit;
use std::io::{Error, Result as IoResult};
use std::rc::Rc;
use std::time::Instant;

/// The run, and the node with all its ranks.
pub(crate) struct LocalRun {
    run: Run,
    node: Node,
    link: Rc<LocalLink>,
    /// The node's end of the poller, which waits.
    poller: Poller,
}

/// Runs the first job and all jobs spawned from it on this machine.
pub(crate) fn run(config: Config) -> RunOutcome {
    let others = listeners::open_files(&config);
    let mut limit = DescriptorLimit::new(config.settings.output.files_per_rank(), others);
    // The number of ranks is checked first: a plan with more than the limit allows is not worth making.
    let prepared = limit.raise_for(FdBudget { ranks: config.ranks, pmix: 0 });
    let prepared = prepared.map_err(|error| error.to_string());
    RunOutcome::Ended(match prepared.and_then(|()| LocalRun::new(config, limit)) {
        Ok(run) => run.run(),
        Err(what) => {
            target::write_last(exit::line(what).as_bytes());
            Failure::Launcher { what: String::new() }.exit_code()
        }
    })
}

impl LocalRun {
    /// Prepares the run and the node.
    pub(crate) fn new(mut config: Config, limit: DescriptorLimit) -> Result<Self, String> {
        let prepare = |error: Error| format!("the job cannot be prepared: {error}");
        // First of all, so that the sockets of ranks get a descriptor of one digit: a shell can name no
        // other.
        let reserved = null_device::open().map_err(prepare)?;
        let poller = Poller::new().map_err(prepare)?;
        let (settings, placed) = (config.settings.clone(), Rc::clone(&config.placed));
        let link = Rc::new(LocalLink::default());
        let output = NodeOutput {
            are_one: Places::are_one(&settings.output),
            // The run decides when text is passed on, and gathers equal lines.
            is_unbuffered: true,
            gather: None,
        };
        let is_traced = settings.tracing.is_requested() || config.web.is_some();
        let labels = RankNodes::One(config.host.clone());
        let observers = config.web.as_ref().map(|_| OWN_NODE);
        config.settings = of_node(config.settings);
        let start = NodeStart {
            poller: poller.clone(),
            reserved,
            link: RunLink::Local(Rc::clone(&link)),
            resources: Rc::default(),
            output,
            is_traced,
            programs: StagedPrograms::default(),
            terminal: None,
        };
        let node = Node::new(config, limit, start)?;
        // Ranks begin with the mask that this process had before.
        let forwarded = &settings.ending.forward_signals;
        let signals = Signals::new(forwarded, Ignored::at_start()).map_err(prepare)?;
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
            signals,
            reports: Vec::new(),
        };
        let run = Run::new(&settings, start)?;
        Ok(Self { run, node, link, poller })
    }

    /// Adopts the calling program as the rank that would be started first.
    pub(crate) fn adopt(&mut self, caller: SingletonArgs) -> Result<(), String> {
        self.run.is_adopting = true;
        self.node.adopt(caller)
    }

    /// Adopts a process as the rank that would be started first, and returns the address of its server.
    pub(crate) fn adopt_process(&mut self, pid: i32) -> Result<String, String> {
        self.run.is_adopting = true;
        self.node.adopt_process(pid)?;
        Ok(self.node.pmix_uri().unwrap_or_default())
    }

    /// Serves the ranks until the end of the run, and returns its exit code.
    pub(crate) fn run(mut self) -> u8 {
        if let Err(error) = self.turn_until_done() {
            self.node.give_up();
            self.run.give_up(&error);
        }
        self.node.finish();
        self.run.finish()
    }

    fn turn_until_done(&mut self) -> IoResult<()> {
        let (mut ready, mut of_run) = (Vec::new(), Vec::new());
        // A user who waits for the listening address reads it before anything else happens.
        self.settle()?;
        while !self.run.is_done() {
            let has_started = self.node.start_next()?;
            if has_started {
                self.settle()?;
            }
            let until = match has_started {
                true => Some(Instant::now()),
                false => [self.run.deadline(), self.node.deadline()].into_iter().flatten().min(),
            };
            self.poller.wait(until, &mut ready)?;
            self.node.serve(until, &mut ready)?;
            self.run.poller.take_ready(&mut of_run);
            for token in &of_run {
                self.handle_run(*token)?;
            }
            self.run.handle_deadlines(Instant::now())?;
            self.settle()?;
        }
        Ok(())
    }

    /// Handles what is ready for the run.
    fn handle_run(&mut self, token: Token) -> IoResult<()> {
        let Self { run, node, .. } = self;
        match token {
            Token::Signal => run.handle_signals(|_| node.exchange()),
            token => run.handle_ready(token),
        }
    }

    /// Exchanges messages until both sides have all of them.
    fn settle(&mut self) -> IoResult<()> {
        loop {
            // First what the guard has to know.
            if self.link.take_activity() {
                self.node.exchange()?;
            }
            self.run.advance()?;
            if !self.link.take_activity() {
                break;
            }
            self.node.exchange()?;
        }
        if self.node.is_done() {
            self.link.set_over();
            self.run.advance()?;
        }
        Ok(())
    }
}

/// Settings of the node: the run judges whether there is progress.
fn of_node(settings: Settings) -> Settings {
    let stall_report = settings.watching.standstill();
    let watching = Watching { stall_report, stall_abort: None, ..settings.watching };
    Settings { watching, ..settings }
}
