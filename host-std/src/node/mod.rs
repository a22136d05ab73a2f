//! A node: the processes of the ranks of one host, their streams and listeners, and the server that they
//! speak to, in one event loop.
//!
//! Everything between a node and its [run](crate::run) passes a [link](crate::link). Messages of ranks to
//! their server never pass it.
//!
//! The node owns the parts below and routes events between them. A part has its own state, and each of its
//! methods takes only what it needs; what concerns several parts is a reaction of the loop, in `handlers`.
//!
//! ```text
//! Jobs          plans and processes of all jobs; ranks that are not started yet
//! Processes     processes of ranks: signals, shutdown, cleanup; what they leave behind  > ProcessEvent
//! Io            input and output of ranks, reports to the user
//! Listeners     connections that ranks and pages open                                   > ListenerEvent
//! Service       protocol server and its connections                                     > ServerEvent
//! Status        state of the ranks, and whether they make progress
//! Unconnected   ranks that run without the launcher
//! Termination   first failure, interrupts
//! Uplink        messages to and from the run                                            > UplinkEvent
//! ```
//!
//! One turn of a node:
//!
//! 1. Start the next ranks, if there are any. Running ranks are served between two starts.
//! 2. Wait for readiness or a deadline, and in `messages` serve ranks while nothing else is due.
//! 3. Handle what is ready: signals, messages of ranks, output of ranks, and last the exits of ranks, so
//!    that messages sent before an exit count.
//! 4. Send the responses that are due, and execute the events of the server.
//! 5. Handle deadlines: ranks that were asked to terminate, connections that were closed.
//! 6. Exchange messages with the run.
//!
//! There is one job at first; ranks may spawn more. All jobs come from the first one, and MPI counts
//! jobs that come from each other as connected: a failure in one of them terminates all. The first failure
//! decides the exit code and starts the shutdown; see
//! [`Shutdown`](crate::launch::cleanup::shutdown::Shutdown).

mod earlier;
mod exchange;
mod file_monitors;
mod forwarding;
mod handlers;
mod jobs;
pub(crate) mod lease;
mod messages;
mod pages;
mod pmix;
mod process_rows;
mod processes;
mod requests;
mod resources;
mod self_abort;
mod server;
mod spawn;
mod spawned_jobs;
mod status;
mod unconnected;
mod uplink;

use crate::cli::config::Config;
use crate::io::Io;
use crate::launch::plan::job::Plan;
use crate::launch::start::launcher::Launcher;
use crate::launch::start::process::Process;
use crate::launch::topology::resources::OwnResources;
use crate::link::job_message::TerminalMessage;
use crate::link::message::ToRun;
use crate::listeners::dial_in::DialIn;
use crate::listeners::{ListenerEvent, Listeners};
use crate::report;
use crate::server::nodes::FenceRule;
use crate::server::others;
use crate::server::service::Service;
use crate::server::singleton::SingletonArgs;
use crate::settings;
use crate::settings::Tracing;
use crate::settings::ending::OnExitError;
use crate::settings::output::StdinTo;
use crate::stdio::inputs::Inputs;
use crate::termination::Termination;
use crate::web::Web;
use jobs::Jobs;
use lease::Lease;
use pmi_core::ids::JobId;
use pmi_host_base::exit;
use pmi_host_os::clock;
use pmi_host_os::descriptors::{DescriptorLimit, FdBudget};
use pmi_host_os::listen::ACCEPTED_AT_ONCE;
use pmi_host_os::poller::{Poller, Token};
use pmix::PmixRequests;
use processes::Processes;
pub(crate) use server::{NodeStart, serve_node};
use spawn::Spawning;
use status::{RunView, Status};
use std::io::{Error, Result as IoResult};
use std::rc::Rc;
use std::time::{Duration, Instant};
use unconnected::UnconnectedWatch;
use uplink::Uplink;

/// State of a node.
pub(crate) struct Node {
    poller: Poller,
    service: Service,
    jobs: Jobs,
    processes: Processes,
    io: Io,
    listeners: Listeners,
    status: Status,
    unconnected: UnconnectedWatch,
    on_exit_error: OnExitError,
    termination: Termination,
    /// Link to the run.
    uplink: Uplink,
    resources: Rc<OwnResources>,
    /// Kept until the last rank has ended.
    lease: Option<Lease>,
    /// End of the time limit of the run.
    ends_at: Option<Instant>,
    /// True if a debugger has started the launcher.
    is_debugged: bool,
}

impl Node {
    /// Prepares the ranks of the first job on this node. It is large: each frame that it passed through would
    /// be touched.
    // So that the frame of the caller does not become that of both.
    #[inline(never)]
    pub(crate) fn new(
        mut config: Config,
        limit: DescriptorLimit,
        start: NodeStart,
    ) -> Result<Box<Self>, String> {
        let NodeStart { mut poller, reserved, link, resources, output, .. } = start;
        let NodeStart { user_signals, is_traced, is_debugged, programs, terminal, lease, .. } =
            start;
        let has_starter = config.has_servers;
        let streams = &config.settings.output;
        let has_terminal = streams.pty.is_some();
        let mut launcher =
            Launcher::new(limit, reserved, output.are_one, has_terminal, has_starter, user_signals)
                .map_err(report::cannot_prepare)?;
        if let (Some(guard), Some(directory)) = (&mut launcher.guard, programs.directory()) {
            guard.report_directory(directory);
        }
        let has_readers = streams.stdin != StdinTo::NoRank;
        let node = config.node.unwrap_or_default();
        let mut uplink =
            Uplink::new(link, node, has_readers, &poller).map_err(report::cannot_prepare)?;
        let mut outputs = uplink.prepare_outputs(output);
        uplink.send_trace(is_traced);
        uplink.programs = programs;
        uplink.describe_node(&launcher, &resources);
        let nodes = config.placed.hosts.len();
        uplink.set_fence_rule(FenceRule { data: config.settings.job.fence, nodes });
        let inputs = Inputs::new(streams, config.ranks)?;
        if let Some(TerminalMessage { rows, columns, .. }) = terminal {
            inputs.resize(rows, columns);
        }
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
        plan.assign_processors(&resources);
        plan.note_idle_processors();
        let budget = FdBudget { ranks: plan.local(), pmix: plan.pmix_ranks() };
        launcher.limit.raise_for(budget).map_err(|error| error.to_string())?;
        let mut listeners = Listeners::new(dial_in, (web, web_listen), secret);
        listeners
            .open_pmix(&mut plan, launcher.guard.as_mut(), &poller)
            .map_err(report::cannot_prepare)?;
        outputs.prepare(FIRST_GROUP, plan.local()).map_err(|error| error.to_string())?;
        // A rank with a terminal writes no lines to be merged; others are not to wait for it.
        if let (Some(hosts), None) = (&plan.placement.hosts, &terminal) {
            outputs.merge_job(FIRST_GROUP, hosts, plan.started());
        }
        let mut service = Service::new(config.settings.tracing.ring, config.settings.job.kvs);
        if !has_starter {
            service.share_with_run();
        }
        if is_debugged {
            service.expect_debugger();
        }
        let first = service.add_job(&plan).map_err(report::cannot_prepare)?;
        others::allow(&mut service, config.settings.names.server.is_some());
        poller.allow_spinning(plan.leaves_room_to_spin());
        let head = crate::trace::head(&plan, service.facts(first, &plan));
        service.tracer.start(&Tracing::default(), head)?;
        service.tracer.keep_unsent(uplink.sends_trace());
        service.tracer.hide_proofs(config.has_secret());
        let status = Status::new(&config.settings.watching);
        let settings::Ending { on_exit_error, on_singletons, timeout, .. } = config.settings.ending;
        let unconnected = UnconnectedWatch::new(on_singletons);
        let mut io = Io::new(inputs, outputs);
        for text in listeners.addresses(&plan) {
            io.report(text);
        }
        let processes = Processes::new(launcher, plan.local());
        let mut jobs = Jobs::new(first);
        jobs.enqueue((first, FIRST_GROUP), plan);
        let termination = Termination::default();
        let mut node = Box::new(Self {
            poller,
            service,
            jobs,
            processes,
            io,
            listeners,
            status,
            unconnected,
            on_exit_error,
            termination,
            uplink,
            resources,
            lease,
            ends_at: timeout.and_then(|timeout| clock::now().checked_add(timeout)),
            is_debugged,
        });
        exchange::prepare(&mut node);
        Ok(node)
    }

    /// Leaves processes alone that came from other runs of this process.
    #[cfg(test)]
    pub(crate) const fn share_process(&mut self) {
        self.processes.launcher.orphans.share();
    }

    /// True once all ranks have ended.
    #[cfg(test)]
    pub(crate) const fn has_no_rank_left(&self) -> bool {
        self.termination.have_all_ended
    }

    /// Adopts the calling program as the rank that would be started first.
    pub(crate) fn adopt(&mut self, caller: SingletonArgs) -> Result<(), String> {
        let cannot = |error: Error| report::missing_caller(caller.pid, &error);
        // The process is opened first, so that its pid cannot be reused by another.
        let rank = self.adopt_process(caller.pid)?;
        let Some(plan) = self.jobs.plan(rank.0).cloned() else { return Ok(()) };
        let link = caller.connect(&plan.kvsname)?;
        self.service.add_member(rank, (link.0, Some(link.1)), &self.poller).map_err(cannot)
    }

    /// Adopts a process as the rank that would be started first.
    pub(crate) fn adopt_process(&mut self, pid: i32) -> Result<(JobId, u32), String> {
        self.jobs.clear_starts();
        let rank = (self.jobs.first(), 0);
        let cannot = |error: Error| report::missing_caller(pid, &error);
        let process = Process::of_others(pid).map_err(cannot)?;
        self.spawning().add_process(rank, process).map_err(cannot)?;
        Ok(rank)
    }

    /// True if the run has a list of hosts.
    fn names_hosts(&self) -> bool {
        self.first_plan().is_some_and(|plan| plan.names_hosts())
    }

    /// Plan of the first job.
    pub(crate) fn first_plan(&self) -> Option<&Rc<Plan>> {
        self.jobs.plan(self.jobs.first())
    }

    /// Address for PMIx clients, if any may come.
    pub(crate) fn pmix_uri(&self) -> Option<String> {
        self.listeners.pmix_uri()
    }

    /// Kills all ranks, since the loop cannot continue, and there is none left to wait in.
    pub(crate) fn give_up(&mut self) {
        self.processes.kill(clock::now());
    }

    /// Releases everything that ranks have used, and returns the last lines for standard error.
    pub(crate) fn finish(&mut self) -> String {
        let last = self.io.finish().map(|count| exit::line(report::unreported(count)));
        self.processes.clean_up();
        if let Some(guard) = &self.processes.launcher.guard {
            guard.dismiss();
        }
        pages::dismiss(self);
        self.service.leave_memory();
        last.unwrap_or_default()
    }

    /// One turn after a wait up to `until`, which has found `ready`.
    pub(crate) fn serve(&mut self, until: Option<Instant>, ready: &mut Vec<Token>) -> IoResult<()> {
        messages::serve(self, until, ready)?;
        self.serve_ready(ready)
    }

    /// The rest of a turn, after [`messages::serve`].
    fn serve_ready(&mut self, ready: &[Token]) -> IoResult<()> {
        self.handle_ready(ready)?;
        self.settle()?;
        self.handle_deadlines(clock::now())?;
        pages::feed(self)?;
        self.exchange()
    }

    /// Exchanges messages with the run until both sides have all of them.
    pub(crate) fn exchange(&mut self) -> IoResult<()> {
        while exchange::exchange(self)? {
            self.settle()?;
        }
        self.io.outputs.flush(&mut self.poller)
    }

    /// Starts ranks for the duration of [`STARTS_AT_ONCE`], if there are any left. Returns true if it did:
    /// responses may be due then, so the loop must not wait.
    ///
    /// A turn of the loop after every start would let each rank wait for the starts of all others just the
    /// same, and cost every rank three turns: initialization is of use only when all have started.
    pub(crate) fn start_next(&mut self) -> IoResult<bool> {
        if !self.jobs.has_starts() {
            return Ok(false);
        }
        let start = clock::now();
        let mut has_started = false;
        // No rank gets a response before a debugger that has started the launcher knows all of them.
        while clock::since(start) < STARTS_AT_ONCE || self.is_debugged {
            if self.termination.has_failed() {
                self.jobs.clear_starts();
            }
            let Some(event) = self.spawning().start_next()? else { break };
            self.handle_start(event);
            has_started = true;
        }
        Ok(has_started)
    }

    fn handle_ready(&mut self, ready: &[Token]) -> IoResult<()> {
        if ready.iter().any(|token| matches!(token, Token::Link(_) | Token::Web(_))) {
            self.status.note_message();
        }
        for &token in ready {
            match token {
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
                Token::PmixListen => self.accept(Listeners::accept_pmix)?,
                Token::NodeListen
                | Token::Node(_)
                | Token::StarterOutput(_)
                | Token::StarterInput(_)
                | Token::StarterExit(_)
                | Token::StarterRelay(_)
                | Token::HeadRelay => exchange::serve_network(self, token)?,
                Token::NodeInput => exchange::feed_readers(self)?,
                Token::Credential => self.handle_verdict(),
                Token::FileAlert => file_monitors::handle_alert(&mut self.pmix_requests()),
                // Written, or handled, at the end of every turn.
                Token::Outlet(_) | Token::Exit(_) | Token::Alarm | Token::Run => {}
                // Of the process, or of the run only.
                Token::Signal
                | Token::NameServer
                | Token::StatusSocket
                | Token::StatusClient(_) => {}
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
        // Tools connect to the run.
        if self.listeners.tick(now, &self.poller, &mut |_| {})? {
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
        if let Some(event) = self.processes.check_sweep(now) {
            self.handle_process_event(event)?;
        }
        self.processes.check_reap(now);
        self.processes.launcher.initializing.check(now, self.service.tracer.last_message());
        self.processes.check_kill_deadlines(now);
        self.handle_status_deadlines(now)
    }

    /// Handles the deadlines of reports on a running job.
    fn handle_status_deadlines(&mut self, now: Instant) -> IoResult<()> {
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
            if self.status.check_stall(now, found) {
                self.uplink.send(ToRun::Standstill);
            }
        }
        self.unconnected.note_starts(now, &self.processes);
        let Self { jobs, processes, service, .. } = self;
        if let Some(text) = self.unconnected.check(now, RunView { jobs, processes, service }) {
            self.io.report(text);
        }
        Ok(())
    }

    pub(crate) fn is_done(&self) -> bool {
        self.processes.is_quiet() && self.uplink.is_done()
    }

    fn starts_more(&self) -> bool {
        self.jobs.has_starts() && !self.termination.has_failed()
    }

    /// True while an expected rank is not connected or has not finalized.
    fn awaits_peers(&self) -> bool {
        self.listeners.awaits_peers() && !self.termination.has_failed()
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let parts = [self.processes.deadline(), self.io.deadline(), self.listeners.deadline()];
        let service = [self.service.deadline(), self.status.deadline()];
        let uplink = [self.unconnected.deadline(), self.uplink.deadline()];
        parts.into_iter().chain(service).chain(uplink).flatten().min()
    }

    /// The parts that take part in a start.
    fn spawning(&mut self) -> Spawning<'_> {
        let Self { jobs, processes, io, service, poller, .. } = self;
        Spawning { jobs, processes, io, service, poller }
    }

    /// The parts that PMIx clients may ask about.
    fn pmix_requests(&mut self) -> PmixRequests<'_> {
        let Self { jobs, processes, io, service, listeners, poller, .. } = self;
        let uri = listeners.pmix_uri();
        PmixRequests { jobs, processes, io, service, poller, uri }
    }
}

/// Number of the first job; spawned jobs continue from it.
const FIRST_GROUP: u32 = 0;
/// How long ranks are started before others are served.
const STARTS_AT_ONCE: Duration = Duration::from_millis(10);
