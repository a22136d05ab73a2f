//! All jobs of one launcher, from the first rank to the exit code, in one event loop.
//!
//! 1. Start the next rank, if there is one. Running ranks are served between two starts.
//! 2. Wait for readiness or a deadline.
//! 3. Handle what is ready: signals, messages of ranks, output of ranks, and last the exits of ranks, so
//!    that messages sent before an exit count.
//! 4. Send the responses that are due, and execute the events of the server.
//! 5. Handle deadlines: ranks that were asked to terminate, connections that were closed.
//! 6. Write the launcher's own output as far as its reader takes it.
//!
//! There is one job at first; ranks may spawn more. All jobs come from the first one, and MPI counts
//! jobs that come from each other as connected: a failure in one of them terminates all. The first failure
//! decides the exit code and starts the shutdown; see [`Shutdown`].

mod asking;
mod control;
mod delivery;
mod dial_in;
mod ending;
mod ends;
mod orphans;
mod pages;
mod pmix;
mod query;
mod refusals;
mod silent;
mod singleton;
mod start;
mod watching;

use crate::admission::PENDING_MAX;
use crate::admission::limits::RejectionLog;
use crate::admission::secret::GeneratedSecret;
use crate::cli::config::Config;
use crate::exit;
use crate::launch::cleanup::Cleanup;
use crate::launch::descriptors::{DescriptorLimit, FdBudget};
use crate::launch::plan::Plan;
use crate::launch::process::{Launcher, Process};
use crate::launch::shutdown::Shutdown;
use crate::launch::signal::{self, Ignored, Signals};
use crate::poller::{Interest, Poller, Token};
use crate::report;
use crate::server::event::ServerEvent;
use crate::server::listen::Listener;
use crate::server::listen_config::WebListenConfig;
use crate::server::service::Service;
use crate::stdio::index;
use crate::stdio::inputs::Inputs;
use crate::stdio::outputs::Outputs;
use crate::stdio::places::Places;
use crate::stdio::target;
use crate::verdict::Failure;
use crate::web::{WATCHING_MAX, Web};
use delivery::Delivery;
use dial_in::DialIn;
use ends::Summary;
use pmi_core::ids::JobId;
use pmi_trace::{Head, JobFacts};
use rustix::process::Signal;
pub(crate) use singleton::serve;
use start::Start;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};
use watching::Watch;

/// Runs the first job and all jobs spawned from it, and returns the exit code. All reports are written by
/// then.
pub(crate) fn run(config: Config) -> u8 {
    let expected = config.listen.as_ref().map_or(0, |listen| listen.expected);
    let callers = config.listen.as_ref().map_or(0, |_| expected + PENDING);
    // A page that is a rank needs an open file and both ends of a pair; one that watches needs an open
    // file.
    let pages = config.web.as_ref().map_or(0, |_| 3 * PENDING + 2 * expected + WATCHING);
    let others = callers + pages;
    let mut limit = DescriptorLimit::new(config.settings.output.files_per_rank(), others);
    // The number of ranks is checked first: a plan with more than the limit allows is not worth making.
    let prepared = limit.raise_for(FdBudget { ranks: config.ranks, pmix: 0 });
    let prepared = prepared.map_err(|error| error.to_string());
    match prepared.and_then(|()| EventLoop::new(config, limit)) {
        Ok(run) => run.run(),
        Err(what) => {
            target::write_last(exit::line(what).as_bytes());
            Failure::Launcher { what: String::new() }.exit_code()
        }
    }
}

/// State of the event loop: one run of the launcher.
struct EventLoop {
    launcher: Launcher,
    /// Jobs with ranks that are not started yet; the first one is being started.
    starts: VecDeque<Start>,
    poller: Poller,
    signals: Signals,
    service: Service,
    inputs: Inputs,
    outputs: Outputs,
    /// The job from which all others come.
    first: JobId,
    /// Dial-in of the first job, if its ranks may connect by themselves.
    dial_in: Option<DialIn>,
    /// Listener for PMIx clients, if there may be any.
    pmix: Option<Listener>,
    /// Reports of rejected connections, with a limit on their number.
    rejections: RejectionLog,
    /// Secret generated for this run; dropping it removes its file.
    secret: Option<GeneratedSecret>,
    /// Files to remove when a rank has exited, or all have.
    cleanups: Vec<(JobId, Option<u32>, Cleanup)>,
    /// Processes that a rank asked to terminate, with the time at which they are killed.
    kill_deadlines: VecDeque<(Instant, u32)>,
    /// Listener for pages, if they may connect, and the configuration they must match.
    web: Option<Web>,
    web_listen: Option<WebListenConfig>,
    /// By job number.
    jobs: BTreeMap<u32, JobState>,
    /// Number of spawned jobs; names of new ones continue from it.
    spawned_count: u32,
    /// Spawned jobs that have ended and are still known, oldest first.
    ended: VecDeque<JobId>,
    /// All processes ever started, in this order. Process numbers are indices into it.
    processes: Vec<ProcessEntry>,
    running_count: usize,
    failure: Option<Failure>,
    shutdown: Shutdown,
    /// Last signal that requested the end, with its time.
    interrupted: Option<(Instant, Signal)>,
    watch: Watch,
    /// Processes whose connection closed while they ran, with the time at which that counts.
    closed_early: Vec<(Instant, u32)>,
    /// Start and end of every rank.
    ends: Summary,
    /// Time to stop waiting for output of processes that ranks left behind.
    linger_until: Option<Instant>,
    /// Delivery of remaining output, once the run is over by failure.
    delivery: Option<Delivery>,
    /// Time of the next check for processes that ranks left behind.
    sweep_at: Option<Instant>,
    /// Time to reap orphans that were adopted and have exited.
    reap_at: Option<Instant>,
    all_have_ended: bool,
    /// True if a signal asked not to wait any longer.
    is_abandoned: bool,
}

/// State of one job in the event loop.
struct JobState {
    plan: Rc<Plan>,
    /// Process number of rank 0; the other ranks follow.
    first_process: u32,
    started_count: u32,
    running_count: u32,
    /// True if the job was not started completely, or a rank terminated it: its processes are killed, which
    /// is no failure.
    is_unwanted: bool,
    /// True if two puts of one key by different ranks were reported.
    put_twice_said: bool,
}

/// A process that was started.
struct ProcessEntry {
    job: JobId,
    rank: u32,
    pid: i32,
    /// `None` once its exit was seen.
    process: Option<Process>,
}

impl EventLoop {
    /// Prepares the first job.
    fn new(mut config: Config, limit: DescriptorLimit) -> Result<Self, String> {
        let prepare = |error: io::Error| format!("the job cannot be prepared: {error}");
        // First of all, so that the sockets of ranks get a descriptor of one digit: a shell can name no
        // other.
        let streams = &config.settings.output;
        let (one_pipe, has_terminal) = (Places::are_one(streams), streams.pty.is_some());
        let ignored = Ignored::now();
        let mut launcher =
            Launcher::new(limit, one_pipe, has_terminal, ignored).map_err(prepare)?;
        let ends = Summary::new(&config.settings.ending)?;
        let inputs = Inputs::new(streams, config.ranks)?;
        let mut outputs = Outputs::new(streams, &config.host).map_err(|error| error.to_string())?;
        let poller = Poller::new().map_err(prepare)?;
        let forwarded = &config.settings.ending.forward_signals;
        let signals = Signals::new(forwarded, ignored).map_err(prepare)?;
        poller.add(Token::Signal, signals.source(), Interest::Read).map_err(prepare)?;
        let secret = config.complete_secret()?;
        let mut dial_in =
            config.listen.clone().map(|listen| DialIn::open(listen, &poller)).transpose()?;
        let web_listen = config.web.clone();
        let web = web_listen.as_ref().map(|listen| Web::open(listen, &poller)).transpose()?;
        let dial =
            dial_in.as_mut().map(|dial_in| dial_in.dial(&config, web.as_ref())).transpose()?;
        let mut plan = Plan::first(config.job(), dial, std::process::id());
        let budget = FdBudget { ranks: config.ranks, pmix: plan.pmix_ranks() };
        launcher.limit.raise_for(budget).map_err(|error| error.to_string())?;
        let mut pmix = None;
        Self::open_for(&mut pmix, &mut plan, &poller).map_err(prepare)?;
        outputs.prepare(FIRST_GROUP, plan.local()).map_err(|error| error.to_string())?;
        let mut service = Service::new(config.settings.tracing.ring, config.settings.job.kvs);
        let first = service.add_job(&plan).map_err(prepare)?;
        let head = head(&plan, service.facts(first, &plan));
        service.tracer.start(&config.settings.tracing, head)?;
        service.tracer.hide_proofs(config.has_secret());
        let has_person = outputs.has_person();
        let mut run = Self {
            launcher,
            starts: VecDeque::new(),
            poller,
            signals,
            service,
            inputs,
            outputs,
            first,
            dial_in,
            pmix,
            rejections: RejectionLog::default(),
            secret,
            cleanups: Vec::new(),
            kill_deadlines: VecDeque::new(),
            web,
            web_listen,
            jobs: BTreeMap::new(),
            spawned_count: 0,
            ended: VecDeque::new(),
            processes: Vec::with_capacity(index(plan.ranks)),
            running_count: 0,
            failure: None,
            shutdown: Shutdown::default(),
            interrupted: None,
            watch: Watch::new(&config.settings, has_person),
            closed_early: Vec::new(),
            ends,
            linger_until: None,
            delivery: None,
            sweep_at: None,
            reap_at: None,
            all_have_ended: false,
            is_abandoned: false,
        };
        let has_listener = run.dial_in.as_ref().is_some_and(DialIn::has_listener);
        if let Some(dial) = plan.dial.as_ref().filter(|_| has_listener) {
            run.outputs.say(report::listening(&plan, dial));
        }
        if let Some(secret) = &run.secret {
            let shown = rustix::termios::isatty(io::stderr()).then_some(secret.text.as_str());
            run.outputs.say(report::generated_secret(&secret.path, shown));
        }
        if let Some(web) = &run.web {
            run.outputs.say(report::for_pages(&web.url(), has_listener));
        }
        run.enqueue((first, FIRST_GROUP), plan, None);
        Ok(run)
    }

    fn run(mut self) -> u8 {
        if let Err(error) = self.turn_until_done() {
            // Only system calls fail here (no memory, no descriptors left), and there is no loop left to
            // wait in: all processes must be killed, and pending reports must be written.
            self.kill_everybody();
            let what = format!("the launcher cannot go on: {error}");
            target::write_last(exit::line(&what).as_bytes());
            self.failure.get_or_insert(Failure::Launcher { what });
        }
        if let Some(count) = self.rejections.finish() {
            target::write_last(exit::line(report::unreported(count)).as_bytes());
        }
        self.inputs.finish();
        self.clean_up();
        let code = match &self.failure {
            Some(failure) => failure.exit_code(),
            None => match self.ends.tolerated_code() {
                Some(code) => code,
                None => u8::from(self.outputs.has_failed()),
            },
        };
        let code = self.write_summary(code);
        if let Some(guard) = &self.launcher.guard {
            guard.dismiss();
        }
        if let Some(trouble) = self.service.tracer.finish(code) {
            target::write_last(exit::line(trouble).as_bytes());
        }
        self.dismiss_pages();
        code
    }

    fn turn_until_done(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        // A user who waits for the listening address reads it before anything else happens.
        self.outputs.flush(&mut self.poller)?;
        while !self.is_done() {
            let has_started = self.start_next()?;
            let until = if has_started { Some(Instant::now()) } else { self.deadline() };
            self.poller.wait(until, &mut ready)?;
            self.take(&ready)?;
            self.settle()?;
            self.handle_deadlines(Instant::now())?;
            self.flush_trace();
            self.feed_pages()?;
            self.outputs.flush(&mut self.poller)?;
        }
        Ok(())
    }

    fn take(&mut self, ready: &[Token]) -> io::Result<()> {
        for &token in ready {
            if let Token::Link(_) | Token::Pmix(_) | Token::Web(_) = token {
                self.watch.stall.heard(Instant::now());
            }
            match token {
                Token::Signal => self.handle_signals()?,
                Token::Link(session) => {
                    self.service.ready(session, &self.poller)?;
                }
                Token::Output(stream, process) => self.outputs.read(stream, process),
                Token::Input(process) => self.inputs.ready(process, &self.poller)?,
                Token::Source => self.inputs.source_ready(&self.poller)?,
                Token::Listen => self.accept_peers()?,
                Token::WebListen => self.accept_pages()?,
                Token::Web(page) | Token::WebPair(page) => self.handle_page(page)?,
                Token::StatusSocket => self.accept_status_clients()?,
                Token::StatusClient(number) => self.handle_status_client(number)?,
                Token::Pmix(connection) => self.service.pmix_ready(connection, &self.poller)?,
                Token::PmixListen => self.accept_pmix_peers()?,
                // Written at the end of every turn.
                Token::Outlet(_) | Token::Exit(_) => {}
            }
        }
        self.handle_server_events();
        // Of several processes that exited since the last turn, the one started first counts as first.
        let ends = ready.iter().filter_map(|token| match token {
            Token::Exit(process) => Some(*process),
            _ => None,
        });
        let mut ends: Vec<u32> = ends.collect();
        ends.sort_unstable();
        ends.into_iter().try_for_each(|process| self.handle_exit(process))
    }

    /// Writes the trace, and prints the messages it shows.
    fn flush_trace(&mut self) {
        for message in self.service.tracer.take_shown(self.outputs.is_flushed()) {
            self.outputs.say(message);
        }
        if let Some(trouble) = self.service.tracer.flush() {
            self.outputs.say(trouble);
        }
    }

    /// Sends the responses that are due. Server events may unblock a session, so it repeats until all is
    /// quiet.
    fn settle(&mut self) -> io::Result<()> {
        self.service.flush(&self.poller)?;
        while self.handle_server_events() {
            self.service.flush(&self.poller)?;
        }
        if let Some(put) = self.service.take_refused_put() {
            self.outputs.say(put);
        }
        if let Some(limit) = self.service.take_refused_block() {
            self.outputs.say(report::pmix_full(limit));
        }
        Ok(())
    }

    /// Executes server events; true if there were any.
    fn handle_server_events(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.service.poll_event() {
            any = true;
            match event {
                ServerEvent::Failed { job, failure } => self.fail(job, failure),
                ServerEvent::Closed { job, rank } => self.handle_closed(job, rank),
                ServerEvent::Spawn { job, rank, request, asked } => {
                    self.handle_spawn((job, rank), request, asked)
                }
                ServerEvent::PmixRefused { from, socket, why } => {
                    self.say_refused(from, Some(socket), &why);
                }
                ServerEvent::PmixDialled { connection, job, rank, user } => {
                    self.handle_pmix_connected(connection, (job, rank), user);
                }
                ServerEvent::PmixAsked { connection, pending } => {
                    self.handle_pmix_request(connection, pending);
                }
                ServerEvent::PmixSilent { job, rank, code, after } => {
                    self.handle_pmix_silent((job, rank), code, after);
                }
                ServerEvent::PutTwice { job, key, ranks } => {
                    self.handle_put_twice(job, &key, ranks)
                }
                ServerEvent::Joined => self.handle_joined(),
                ServerEvent::Refused { from, why } => self.say_refused(from, None, &why),
                ServerEvent::Signal { job, rank, name } => {
                    self.take_requested_signal(job, rank, signal::named(&name));
                }
            }
        }
        any
    }

    /// Handles the end of a connection. Usually its process is exiting too, and the exit status tells more.
    fn handle_closed(&mut self, job: JobId, rank: u32) {
        let number = self.process_of(job, rank);
        let running = number.and_then(|number| self.processes[index(number)].process.as_ref());
        match (number, running) {
            (Some(number), Some(process)) if process.is_ours() => {
                self.closed_early.push((Instant::now() + ENDING, number));
            }
            // A singleton counts as exited when its connection closes.
            (Some(number), Some(_)) => self.closed_early.insert(0, (Instant::now(), number)),
            (None, _) if self.service.from(job, rank).is_some() => {
                self.handle_peer_closed(job, rank);
            }
            _ => self.service.set_gone(job, rank),
        }
    }

    /// The later value holds, as with every known server; but its reader may have meant the other.
    fn handle_put_twice(&mut self, job: JobId, key: &str, ranks: [u32; 2]) {
        if let Some(JobState { plan, put_twice_said, .. }) = self.jobs.get_mut(&job.0)
            && !std::mem::replace(put_twice_said, true)
        {
            self.outputs.say(report::put_twice(plan, key, ranks));
        }
    }

    fn is_done(&self) -> bool {
        let quiet = self.running_count == 0 && self.sweep_at.is_none() && self.outputs.is_done();
        (quiet && !self.starts_more() && !self.awaits_peers()) || self.is_abandoned
    }

    fn starts_more(&self) -> bool {
        !self.starts.is_empty() && self.failure.is_none()
    }

    fn deadline(&self) -> Option<Instant> {
        let kill_deadlines = self.kill_deadlines.front().map(|(at, _)| *at);
        let closed = self.closed_early.first().map(|(at, _)| *at);
        let dial_in = self.dial_in.as_ref().and_then(DialIn::deadline);
        let service = self.service.deadline();
        let overdue = self.ends.deadline();
        let ends = [self.shutdown.deadline(), closed, self.linger_until, self.sweep_at, overdue];
        let delivery = self.delivery.as_ref().map(Delivery::deadline);
        let streams = [self.inputs.deadline(), self.outputs.deadline(), delivery];
        let web = self.web.as_ref().and_then(Web::deadline);
        let pmix = self.pmix.as_ref().and_then(|listener| listener.paused_until);
        let rejections = self.rejections.deadline();
        let others = [self.reap_at, dial_in, web, service, self.watch.deadline(), kill_deadlines];
        let others = others.into_iter().chain([pmix, rejections]);
        ends.into_iter().chain(streams).chain(others).flatten().min()
    }

    /// Process number of a rank, if it was started.
    fn process_of(&self, job: JobId, rank: u32) -> Option<u32> {
        let job = self.jobs.get(&job.0).filter(|job| rank < job.started_count)?;
        Some(job.first_process + rank)
    }

    fn pid(&self, job: JobId, rank: u32) -> Option<i32> {
        self.process_of(job, rank).map(|process| self.processes[index(process)].pid)
    }
}

/// Facts about the run, for its trace.
fn head(plan: &Plan, facts: JobFacts) -> Head {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Head {
        started_unix_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        recorder: concat!("pmi-host ", env!("CARGO_PKG_VERSION")).into(),
        host: plan.host.clone(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        jobs: vec![facts],
    }
}

/// Longest delay between the end of a connection and the exit of its process. The kernel closes files
/// first and notifies the parent last; on a loaded machine with a large process there is time between.
const ENDING: Duration = Duration::from_secs(1);

/// Number of the first job; spawned jobs continue from it.
const FIRST_GROUP: u32 = 0;

/// Number of unauthenticated connections that have room.
const PENDING: u32 = 64;
const _: () = assert!(PENDING as usize == PENDING_MAX);

/// Number of watching pages that have room.
const WATCHING: u32 = 64;
const _: () = assert!(WATCHING as usize == WATCHING_MAX);
