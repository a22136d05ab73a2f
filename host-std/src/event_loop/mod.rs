//! All jobs of one launcher, from the first rank to the exit code, in one event loop.
//!
//! The loop owns the parts of a run and routes events between them. A part has its own state, and each of
//! its methods takes only what it needs; what concerns several parts is a reaction of the loop, in
//! `handlers`.
//!
//! ```text
//! Jobs          plans, counts and names of all jobs; ranks that are not started yet
//! Processes     processes of ranks: signals, shutdown, cleanup; what they leave behind  > ProcessEvent
//! Io            input and output of ranks, reports to the user
//! Listeners     connections that ranks and pages open                                   > ListenerEvent
//! Service       protocol server and its connections                                     > ServerEvent
//! Status        no progress, time limits, status tables                                 > StatusEvent
//! Unconnected   ranks that run without the launcher
//! Summary       start and end of every rank
//! Termination   first failure, interrupts
//! Uplink        on a node of a run with a head: messages to and from the head           > UplinkEvent
//! ```
//!
//! One turn of the loop:
//!
//! 1. Start the next rank, if there is one. Running ranks are served between two starts.
//! 2. Wait for readiness or a deadline, and in `messages` serve ranks while nothing else is due.
//! 3. Handle what is ready: signals, messages of ranks, output of ranks, and last the exits of ranks, so
//!    that messages sent before an exit count.
//! 4. Send the responses that are due, and execute the events of the server.
//! 5. Handle deadlines: ranks that were asked to terminate, connections that were closed.
//! 6. Write the launcher's own output as far as its reader takes it.
//!
//! There is one job at first; ranks may spawn more. All jobs come from the first one, and MPI counts
//! jobs that come from each other as connected: a failure in one of them terminates all. The first failure
//! decides the exit code and starts the shutdown; see
//! [`Shutdown`](crate::launch::cleanup::shutdown::Shutdown).

mod agent;
mod agent_requests;
mod agent_spawn;
mod debugger;
mod delivery;
mod dial_in;
mod file_monitors;
mod forwarding;
mod handlers;
mod head;
mod io;
mod jobs;
mod listeners;
mod messages;
mod pages;
mod pmix;
mod processes;
mod query;
mod self_abort;
mod singleton;
mod spawn;
mod status;
mod status_socket;
mod summary;
mod termination;
mod tools;
mod unconnected;
mod uplink;

use crate::cli::config::Config;
use crate::launch::null_device;
use crate::launch::plan::job::Plan;
use crate::launch::signal::{Ignored, Signals};
use crate::launch::start::descriptors::{DescriptorLimit, FdBudget};
use crate::launch::start::launcher::Launcher;
use crate::launch::start::process::Process;
use crate::nodes::failed_host::{HostsLeftOut, LateHost};
use crate::nodes::job_message::TerminalMessage;
use crate::poller::{Interest, Poller, Token};
use crate::server::listen::ACCEPTED_AT_ONCE;
use crate::server::nodes::FenceRule;
use crate::server::others;
use crate::server::service::Service;
use crate::server::singleton::SingletonArgs;
use crate::settings::output::StdinTo;
use crate::stdio::inputs::Inputs;
use crate::stdio::label::RankNodes;
use crate::stdio::outputs::Outputs;
use crate::stdio::places::Places;
use crate::stdio::target;
use crate::verdict::Failure;
use crate::watch::table::Table;
use crate::web::Web;
use crate::{mpir, numbers::number, report, working_set};
pub(crate) use agent::serve_node;
use agent::{AgentStart, ReservedAgent};
use dial_in::DialIn;
use io::Io;
use jobs::Jobs;
use listeners::{ListenerEvent, Listeners};
use pmi_core::ids::JobId;
use pmi_host_base::exit;
use pmix::PmixRequests;
use processes::Processes;
pub(crate) use singleton::{serve, serve_pmix};
use spawn::Spawning;
use status::{RunView, Status, Which};
use std::io::{Error, Result as IoResult};
use std::time::{Duration, Instant};
use summary::Summary;
use termination::Termination;
use unconnected::UnconnectedWatch;
use uplink::Uplink;

/// Outcome of a run.
#[derive(Debug)]
pub(crate) enum RunOutcome {
    /// It has ended with this exit code.
    Ended(u8),
    /// It has not begun, and is to start again without these hosts, which cannot be used.
    Again(HostsLeftOut),
}

/// Runs the first job and all jobs spawned from it. All reports are written when it returns. Hosts in `late`
/// were too slow for the start, and join the run when they come.
pub(crate) fn run(config: Config, late: &[LateHost]) -> RunOutcome {
    if config.hosts.is_some() {
        return head::run(&config, late);
    }
    working_set::trim_for(config.ranks);
    let others = listeners::open_files(&config);
    let mut limit = DescriptorLimit::new(config.settings.output.files_per_rank(), others);
    // The number of ranks is checked first: a plan with more than the limit allows is not worth making.
    let prepared = limit.raise_for(FdBudget { ranks: config.ranks, pmix: 0 });
    let prepared = prepared.map_err(|error| error.to_string());
    RunOutcome::Ended(match prepared.and_then(|()| EventLoop::new(config, limit, None)) {
        Ok(run) => run.run(),
        Err(what) => {
            target::write_last(exit::line(what).as_bytes());
            Failure::Launcher { what: String::new() }.exit_code()
        }
    })
}

/// Message about a program that has started the launcher.
fn missing(pid: i32, error: &Error) -> String {
    format!("process {pid}, which has started this launcher, does not exist: {error}")
}

/// State of the event loop: one run of the launcher.
struct EventLoop {
    poller: Poller,
    signals: Signals,
    service: Service,
    jobs: Jobs,
    processes: Processes,
    io: Io,
    listeners: Listeners,
    status: Status,
    unconnected: UnconnectedWatch,
    summary: Summary,
    termination: Termination,
    /// Connection to the head, if this is the agent of a node.
    uplink: Option<Uplink>,
}

impl EventLoop {
    /// Prepares the first job; with `agent`, the part of it on this node, and the descriptor of the sockets.
    fn new(
        mut config: Config,
        limit: DescriptorLimit,
        agent: Option<ReservedAgent>,
    ) -> Result<Self, String> {
        let prepare = |error: Error| format!("the job cannot be prepared: {error}");
        // First of all, so that the sockets of ranks get a descriptor of one digit: a shell can name no
        // other.
        let (link, agent) = agent.unzip();
        let link = link.map_or_else(null_device::open, Ok).map_err(prepare)?;
        let streams = &config.settings.output;
        let one_pipe =
            agent.as_ref().map_or_else(|| Places::are_one(streams), |of| of.output.are_one);
        let has_terminal = streams.pty.is_some();
        let ignored = Ignored::at_start();
        let has_starter = config.node.is_some();
        let mut launcher = Launcher::new(limit, link, one_pipe, has_terminal, has_starter, ignored)
            .map_err(prepare)?;
        let summary = Summary::new(&config.settings.ending)?;
        let (mut uplink, mut terminal) = (None, None);
        let (mut poller, mut outputs) = match agent {
            None => {
                let nodes = RankNodes::One(config.host.clone());
                let outputs = Outputs::new(streams, nodes).map_err(|error| error.to_string())?;
                (Poller::new().map_err(prepare)?, outputs)
            }
            Some(AgentStart {
                poller,
                network,
                output,
                is_traced,
                programs,
                terminal: of_rank,
            }) => {
                if let (Some(guard), Some(directory)) = (&mut launcher.guard, programs.directory())
                {
                    guard.report_directory(directory);
                }
                let has_readers = streams.stdin != StdinTo::NoRank;
                let node = config.node.unwrap_or_default();
                let opened = Uplink::new(network, node, has_readers, &poller);
                let mut opened = opened.map_err(prepare)?;
                let outputs = opened.prepare_outputs(output);
                opened.send_trace(is_traced);
                opened.programs = programs;
                terminal = of_rank;
                let nodes = config.hosts.as_ref().map_or(0, |placed| placed.hosts.len());
                opened.set_fence_rule(FenceRule { data: config.settings.nodes.fence, nodes });
                uplink = Some(opened);
                (poller, outputs)
            }
        };
        let inputs = Inputs::new(streams, config.ranks)?;
        if let Some(TerminalMessage { rows, columns, .. }) = terminal {
            inputs.resize(rows, columns);
        }
        let forwarded = &config.settings.ending.forward_signals;
        let signals = Signals::new(forwarded, ignored).map_err(prepare)?;
        poller.add(Token::Signal, signals.source(), Interest::Read).map_err(prepare)?;
        let secret = config.complete_secret()?;
        if let Some((guard, secret)) = launcher.guard.as_mut().zip(secret.as_ref()) {
            guard.report_file(&secret.path);
        }
        let dial_in = config.listen.clone().map(|listen| DialIn::open(listen, &poller));
        let mut dial_in = dial_in.transpose()?;
        let web_listen = config.web.clone();
        let web = web_listen.as_ref().map(|listen| Web::open(listen, &poller)).transpose()?;
        let endpoint = dial_in.as_mut().map(|dial_in| dial_in.endpoint(&config, web.as_ref()));
        let mut plan = Plan::first(config.job(), endpoint.transpose()?);
        let budget = FdBudget { ranks: plan.local(), pmix: plan.pmix_ranks() };
        launcher.limit.raise_for(budget).map_err(|error| error.to_string())?;
        let mut listeners = Listeners::new(dial_in, (web, web_listen), secret);
        listeners.open_pmix(&mut plan, launcher.guard.as_mut(), &poller).map_err(prepare)?;
        listeners.admit_tools(&config.settings.watching, &plan, &poller)?;
        outputs.prepare(FIRST_GROUP, plan.local()).map_err(|error| error.to_string())?;
        // A rank with a terminal writes no lines to be merged; others are not to wait for it.
        if let (Some(hosts), None) = (&plan.placement.hosts, &terminal) {
            outputs.merge_job(FIRST_GROUP, hosts, plan.started());
        }
        let mut service = Service::new(config.settings.tracing.ring, config.settings.job.kvs);
        let first = service.add_job(&plan).map_err(prepare)?;
        others::allow(&mut service, config.settings.names.server.is_some());
        poller.allow_spinning(plan.leaves_room_to_spin());
        let head = crate::trace::head(&plan, service.facts(first, &plan));
        service.tracer.start(&config.settings.tracing, head)?;
        service.tracer.keep_unsent(uplink.as_ref().is_some_and(Uplink::sends_trace));
        service.tracer.hide_proofs(config.has_secret());
        let status = Status::new(&config.settings, outputs.is_watched_by_user());
        let unconnected = UnconnectedWatch::new(config.settings.ending.on_singletons);
        if listeners.tools.is_on() {
            outputs.tap();
        }
        let mut io = Io::new(inputs, outputs);
        for text in listeners.addresses(&plan) {
            io.report(text);
        }
        let processes = Processes::new(launcher, plan.local());
        let mut jobs = Jobs::new(first);
        jobs.enqueue((first, FIRST_GROUP), plan, None);
        let termination = Termination::default();
        Ok(Self {
            poller,
            signals,
            service,
            jobs,
            processes,
            io,
            listeners,
            status,
            unconnected,
            summary,
            termination,
            uplink,
        })
    }

    /// Adopts the calling program as the rank that would be started first.
    fn adopt(&mut self, caller: SingletonArgs) -> Result<(), String> {
        let cannot = |error: Error| missing(caller.pid, &error);
        // The process is opened first, so that its pid cannot be reused by another.
        let rank = self.adopt_process(caller.pid)?;
        let Some(plan) = self.jobs.plan(rank.0).cloned() else { return Ok(()) };
        let link = caller.connect(&plan.kvsname)?;
        self.service.add_member(rank, (link.0, Some(link.1)), &self.poller).map_err(cannot)
    }

    /// Adopts a process as the rank that would be started first.
    fn adopt_process(&mut self, pid: i32) -> Result<(JobId, u32), String> {
        self.jobs.clear_starts();
        let rank = (self.jobs.first(), 0);
        let cannot = |error: Error| missing(pid, &error);
        let process = Process::of_others(pid).map_err(cannot)?;
        self.spawning().0.add_process(rank, process).map_err(cannot)?;
        Ok(rank)
    }

    fn run(mut self) -> u8 {
        agent::prepare(&mut self);
        if let Err(error) = self.turn_until_done() {
            // Only system calls fail here (no memory, no descriptors left), and there is no loop left to
            // wait in: all processes must be killed, and pending reports must be written.
            self.processes.kill(Instant::now());
            let what = format!("the launcher cannot continue: {error}");
            target::write_last(exit::line(&what).as_bytes());
            self.termination.set_failure(Failure::Launcher { what });
        }
        if let Some(count) = self.io.finish() {
            target::write_last(exit::line(report::unreported(count)).as_bytes());
        }
        self.processes.clean_up();
        let code = match (self.termination.failure(), self.summary.tolerated_code()) {
            (Some(failure), _) => failure.exit_code(),
            (None, Some(code)) => code,
            (None, None) => u8::from(self.io.outputs.has_failed()),
        };
        if self.termination.failure().is_some() {
            mpir::abort();
        }
        let code = self.summary.write(code);
        if let Some(guard) = &self.processes.launcher.guard {
            guard.dismiss();
        }
        if let Some(trouble) = self.service.tracer.finish(code) {
            target::write_last(exit::line(trouble).as_bytes());
        }
        pages::dismiss(&mut self);
        self.service.leave_memory();
        code
    }

    fn turn_until_done(&mut self) -> IoResult<()> {
        let mut ready = Vec::new();
        // A user who waits for the listening address reads it before anything else happens.
        self.io.outputs.flush(&mut self.poller)?;
        working_set::trim_for(self.jobs.waiting_count());
        while !self.is_done() {
            let has_started = self.start_next()?;
            let until = if has_started { Some(Instant::now()) } else { self.deadline() };
            self.poller.wait(until, &mut ready)?;
            messages::serve(self, until, &mut ready)?;
            self.handle_ready(&ready)?;
            self.settle()?;
            self.handle_deadlines(Instant::now())?;
            self.flush_trace();
            pages::feed(self)?;
            while agent::exchange(self)? {
                self.settle()?;
            }
            self.io.outputs.flush(&mut self.poller)?;
        }
        Ok(())
    }

    /// Starts ranks for the duration of [`STARTS_AT_ONCE`], if there are any left. Returns true if it did:
    /// responses may be due then, so the loop must not wait.
    ///
    /// A turn of the loop after every start would let each rank wait for the starts of all others just the
    /// same, and cost every rank three turns: initialization is of use only when all have started.
    fn start_next(&mut self) -> IoResult<bool> {
        if !self.jobs.has_starts() {
            return Ok(false);
        }
        let start = Instant::now();
        let mut has_started = false;
        // No rank gets a response before a debugger that has started the launcher knows all of them.
        while start.elapsed() < STARTS_AT_ONCE || mpir::is_being_debugged() {
            if self.termination.has_failed() {
                self.jobs.clear_starts();
            }
            let (mut spawning, listeners) = self.spawning();
            let Some(event) = spawning.start_next(listeners.has_pmix())? else { break };
            self.handle_start(event);
            has_started = true;
        }
        if has_started && !self.jobs.has_starts() {
            debugger::publish(self);
            working_set::trim_for(number(self.processes.started_count()));
        }
        Ok(has_started)
    }

    fn handle_ready(&mut self, ready: &[Token]) -> IoResult<()> {
        if ready.iter().any(|token| matches!(token, Token::Link(_) | Token::Web(_))) {
            self.status.note_message();
        }
        for &token in ready {
            match token {
                Token::Signal => self.handle_signals()?,
                Token::Link(session) => self.service.ready(session, &self.poller)?,
                Token::Output(stream, process) => self.io.outputs.read(stream, process),
                Token::Input(process) if self.io.pushed.has(process) => {
                    self.io.pushed.ready(process, &self.poller)?;
                }
                Token::Input(process) => self.io.inputs.ready(process, &self.poller)?,
                Token::Source => self.io.inputs.source_ready(&self.poller)?,
                Token::Listen => self.accept(Listeners::accept_peer)?,
                Token::WebListen => pages::accept(self)?,
                Token::Web(page) | Token::WebPair(page) => pages::serve(self, page)?,
                Token::StatusSocket => self.accept_status_clients()?,
                Token::StatusClient(number) => self.status.socket.serve(number, &self.poller)?,
                Token::PmixListen => self.accept(Listeners::accept_pmix)?,
                Token::NodeListen
                | Token::Node(_)
                | Token::StarterOutput(_)
                | Token::StarterInput(_)
                | Token::StarterExit(_) => agent::serve_network(self, token)?,
                Token::NodeInput => agent::feed_readers(self)?,
                Token::Credential => self.handle_verdict(),
                Token::FileAlert => file_monitors::handle_alert(&mut self.pmix_requests()),
                // Written, or handled, at the end of every turn.
                Token::Outlet(_) | Token::Exit(_) | Token::Alarm => {}
                // Of the head only.
                Token::NameServer => {}
            }
        }
        self.handle_server_events();
        // Of several processes that exited since the last turn, the one started first counts as first.
        let ended = |token: &Token| match token {
            Token::Exit(process) => Some(*process),
            _ => None,
        };
        let mut ends: Vec<u32> = ready.iter().filter_map(ended).collect();
        ends.sort_unstable();
        ends.into_iter().try_for_each(|process| self.handle_exit(process))
    }

    /// Accepts connections at one listener. Those that are left are reported again, after other descriptors
    /// had their turn.
    fn accept(
        &mut self,
        next: fn(&mut Listeners, &Poller) -> IoResult<Option<ListenerEvent>>,
    ) -> IoResult<()> {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(event) = next(&mut self.listeners, &self.poller)? else { break };
            self.handle_connection(event)?;
        }
        Ok(())
    }

    /// Accepts status requests and prepares the answer.
    fn accept_status_clients(&mut self) -> IoResult<()> {
        let now = Instant::now();
        if self.status.socket.wants_answer(now) {
            let table = self.table(Which::All);
            self.status.socket.set_answer(now, &table);
        }
        self.status.socket.accept(now, &self.poller)
    }

    /// Sends the responses that are due. Server events may unblock a session, so it repeats until all is
    /// quiet.
    fn settle(&mut self) -> IoResult<()> {
        self.service.flush(&self.poller)?;
        while self.handle_server_events() || forwarding::send_output(self) {
            self.service.flush(&self.poller)?;
        }
        if let Some(put) = self.service.take_refused_put() {
            self.io.report(put);
        }
        if let Some(limit) = self.service.take_refused_block() {
            self.io.report(report::pmix_full(limit));
        }
        Ok(())
    }

    /// Handles all deadlines that have passed.
    fn handle_deadlines(&mut self, now: Instant) -> IoResult<()> {
        if self.service.tick(now, &self.poller)? {
            self.settle()?;
        }
        self.io.check_rejections(now);
        let guard = self.processes.launcher.guard.as_mut();
        if self.listeners.tick(now, &self.poller, guard)? {
            self.report_attendance();
        }
        self.io.inputs.tick(now, &self.poller)?;
        self.io.outputs.tick(now);
        while let Some((number, end)) = self.processes.check_traced(now)? {
            self.handle_end(number, end)?;
        }
        if let Some(event) = self.processes.check_shutdown(now) {
            self.handle_process_event(event)?;
        }
        while let Some(event) = self.processes.check_closed(now) {
            self.handle_process_event(event)?;
        }
        self.io.check_linger(now);
        let is_over = self.termination.has_failed() && self.processes.is_quiet();
        self.termination.is_abandoned |= self.io.check_delivery(now, is_over);
        if let Some(event) = self.processes.check_sweep(now) {
            self.handle_process_event(event)?;
        }
        self.processes.check_reap(now);
        self.processes.launcher.initializing.check(now, self.service.tracer.last_message());
        self.processes.check_kill_deadlines(now);
        if let Some(limit) = self.summary.check_overdue(now, self.processes.running_count() > 0) {
            self.fail_with_state(Failure::Overdue { limit }, Which::Running);
        }
        self.handle_status_deadlines(now)
    }

    /// Handles the deadlines of reports on a running job.
    fn handle_status_deadlines(&mut self, now: Instant) -> IoResult<()> {
        let guard = self.processes.launcher.guard.as_mut();
        self.status.socket.tick(now, guard, &self.poller)?;
        if self.status.is_stall_check_due(now) {
            // Ranks that are not connected are covered by the attendance report, and waiting for ranks that
            // are being started is no lack of progress.
            if self.starts_more() || self.listeners.awaits_absent() {
                self.status.excuse_stall(now);
            }
            let has_failed = self.termination.has_failed();
            let Self { jobs, processes, service, status, .. } = self;
            let run = RunView { jobs, processes, service };
            let found = if has_failed { None } else { status.standstill(now, run) };
            if let Some(event) = self.status.check_stall(now, found) {
                self.handle_status_event(event);
            }
        }
        if let Some(event) = self.status.check_limit(now) {
            self.handle_status_event(event);
        }
        if let Some(event) = self.status.check_reminder(now) {
            self.handle_status_event(event);
        }
        self.unconnected.note_starts(now, &self.processes);
        let Self { jobs, processes, service, .. } = self;
        if let Some(text) = self.unconnected.check(now, RunView { jobs, processes, service }) {
            self.summary.record_report(&text);
            self.io.report(text);
        }
        let parts = (&self.jobs, &self.processes);
        if let Some(line) = self.status.check_progress(now, parts, self.termination.has_failed()) {
            self.io.outputs.set_status(line.as_deref());
        }
        Ok(())
    }

    /// Writes the trace, and prints the messages it shows.
    fn flush_trace(&mut self) {
        for message in self.service.tracer.take_shown(self.io.outputs.is_flushed()) {
            self.io.report(message);
        }
        if let Some(trouble) = self.service.tracer.flush() {
            self.io.report(trouble);
        }
    }

    fn is_done(&self) -> bool {
        if let Some(uplink) = &self.uplink {
            return self.processes.is_quiet() && uplink.is_done();
        }
        let is_quiet = self.processes.is_quiet() && self.io.outputs.is_done();
        (is_quiet && !self.starts_more() && !self.awaits_peers()) || self.termination.is_abandoned
    }

    fn starts_more(&self) -> bool {
        self.jobs.has_starts() && !self.termination.has_failed()
    }

    /// True while an expected rank is not connected or has not finalized.
    fn awaits_peers(&self) -> bool {
        self.listeners.awaits_peers() && !self.termination.has_failed()
    }

    fn deadline(&self) -> Option<Instant> {
        let parts = [self.processes.deadline(), self.io.deadline(), self.listeners.deadline()];
        let reports = [self.service.deadline(), self.status.deadline(), self.summary.deadline()];
        let uplink = self.uplink.as_ref().and_then(Uplink::deadline);
        let reports = reports.into_iter().chain([self.unconnected.deadline()]);
        parts.into_iter().chain(reports).flatten().chain(uplink).min()
    }

    /// The parts that take part in a start, and the listeners.
    fn spawning(&mut self) -> (Spawning<'_>, &mut Listeners) {
        let Self { jobs, processes, io, service, summary, poller, listeners, .. } = self;
        (Spawning { jobs, processes, io, service, summary, poller }, listeners)
    }

    /// The parts that PMIx clients may ask about.
    fn pmix_requests(&mut self) -> PmixRequests<'_> {
        let Self { jobs, processes, io, service, listeners, summary, poller, .. } = self;
        let (admits_tools, uri) = (listeners.tools.is_on(), listeners.pmix_uri());
        PmixRequests { jobs, processes, io, service, summary, poller, admits_tools, uri }
    }

    /// The parts that a table describes.
    fn view(&self) -> RunView<'_> {
        RunView { jobs: &self.jobs, processes: &self.processes, service: &self.service }
    }

    /// State of the run.
    fn table(&mut self, which: Which) -> Table {
        let Self { jobs, processes, service, status, .. } = self;
        status.table(RunView { jobs, processes, service }, which)
    }

    fn pid(&self, job: JobId, rank: u32) -> Option<i32> {
        self.processes.get(self.jobs.process_of(job, rank)?).map(|entry| entry.pid)
    }
}

/// Number of the first job; spawned jobs continue from it.
const FIRST_GROUP: u32 = 0;
/// How long ranks are started before others are served.
const STARTS_AT_ONCE: Duration = Duration::from_millis(10);
