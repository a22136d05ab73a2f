//! One case from its first process to its last: brings a run into its phase, injects the fault, lets the rest
//! of the run go on, and looks for defects.

use super::case::FaultCase;
use super::control::{self, Control, Event, Reading, Stop};
use super::detect::{MARK, RunProcesses};
use super::hosts::{self, CaseHosts};
use super::launcher::{Launcher, LauncherKind, result_file, unreadable_rank};
use super::outcome::CaseOutcome;
use super::output::{OutputLines, shown_keys};
use super::table::{Fault, FaultPhase};
use crate::processes::{self, Process};
use rustix::process::{Signal, getpid, set_child_subreaper};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A hang: the launcher runs, and there was no event for so long.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
/// No case may take longer.
const LIMIT: Duration = Duration::from_secs(90);
/// Time that a process of the run may live after the end of the launcher.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// The same if the launcher, or its guard, was killed.
pub(super) const GRACE_WITHOUT_LAUNCHER: Duration = Duration::from_secs(10);

/// Number of ranks that leave daemons before two signals.
const DAEMONS: usize = 3;

/// A run that is being played.
pub(super) struct Play<'a> {
    pub(super) case: &'a FaultCase,
    pub(super) launcher: &'a Launcher,
    pub(super) directory: &'a Path,
    pub(super) control: Control,
    pub(super) run: RunProcesses,
    pub(super) output: Arc<Mutex<OutputLines>>,
    pub(super) errors: Arc<Mutex<OutputLines>>,
    pub(super) reading: Reading,
    /// The other end of the launcher's standard input, or of its terminal.
    pub(super) input: Option<ChildStdin>,
    pub(super) terminal: Option<File>,
    /// The rank that it happens to, and another one, which depend on who comes first in early phases.
    pub(super) victim: u32,
    pub(super) partner: u32,
    /// The fault has happened.
    pub(super) has_happened: bool,
    /// OutputLines that must come out, by rank.
    pub(super) promised: Vec<(u32, u64)>,
    /// A remark on what could not be done as it is meant.
    pub(super) note: String,
    /// What other commands have shown of the run.
    pub(super) shown: Vec<u8>,
    /// Hosts of the run, which end behind it.
    pub(super) hosts: CaseHosts,
}

/// Plays a case in `directory`, which is empty. The process must have no other child.
///
/// # Errors
///
/// The launcher cannot be started, or something of the machine is missing.
pub(super) fn play(
    launcher: &Launcher,
    case: &FaultCase,
    directory: &Path,
) -> Result<CaseOutcome, String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    set_child_subreaper(Some(getpid())).map_err(|error| failed("subreaper", &error))?;
    let listener =
        UnixListener::bind(directory.join("s")).map_err(|error| failed("socket", &error))?;
    fs::write(directory.join("no-program"), "").map_err(|error| failed("no-program", &error))?;
    if launcher.has_other_user(case) {
        open_to_others(launcher, directory).map_err(|error| failed("files", &error))?;
    }
    let hosts = CaseHosts::start(launcher, case, directory)?;

    let mark = format!("{}.{}", getpid().as_raw_nonzero(), case.id);
    let mut command = launcher.command(case, directory);
    command.env(MARK, &mark).current_dir(directory);
    let (mut terminal, mut slave) = (None, None);
    if case.fault == Fault::HangUp {
        let (ours, its) = open_terminal().map_err(|error| failed("terminal", &error))?;
        (terminal, slave) = (Some(ours), Some(its));
    } else {
        // As a shell does for each command.
        command.process_group(0);
    }
    match slave.as_ref().map(File::try_clone) {
        Some(its) => command.stdin(its.map_err(|error| failed("terminal", &error))?),
        None if case.fault == Fault::Streams && case.variant == 0 => command.stdin(Stdio::piped()),
        None => command.stdin(Stdio::null()),
    };
    command.stderr(Stdio::piped());
    if case.fault == Fault::DiskFull {
        let full = OpenOptions::new().write(true).open("/dev/full");
        command.stdout(full.map_err(|error| failed("/dev/full", &error))?);
    } else {
        command.stdout(Stdio::piped());
    }

    let began = Instant::now();
    let mut child = command.spawn().map_err(|error| failed(&launcher.label, &error))?;
    drop((command, slave));
    let pid = i32::try_from(child.id()).map_err(|error| failed("process", &error))?;
    let (events, received) = channel();
    control::accept(listener, events.clone());
    let (output, errors) = <(Arc<Mutex<OutputLines>>, Arc<Mutex<OutputLines>>)>::default();
    let reading = Reading::default();
    let stdout = child
        .stdout
        .take()
        .map(|stream| control::read(stream, reading.clone(), Arc::clone(&output), events.clone()));
    let stderr = child.stderr.take().map(|stream| {
        control::read(stream, Reading::default(), Arc::clone(&errors), events.clone())
    });
    let input = child.stdin.take();
    wait_for(child, events);

    let mut play = Play {
        case,
        launcher,
        directory,
        control: Control::new(received, case.ranks, SILENCE, LIMIT),
        run: RunProcesses {
            root: getpid().as_raw_nonzero().get(),
            mark,
            launcher: pid,
            others: hosts.holders(),
        },
        output,
        errors,
        reading,
        input,
        terminal,
        victim: case.victim,
        partner: case.partner,
        has_happened: false,
        promised: Vec::new(),
        note: String::new(),
        shown: Vec::new(),
        hosts,
    };
    let stop = match play.steps() {
        Ok(()) => play.control.wait_for_end(),
        Err(stop) => stop,
    };
    Ok(play.judge(stop, began, [stdout, stderr].into_iter().flatten().collect()))
}

/// Kills every descendant of this process and ends it: the suite that wanted the outcome is gone.
pub(super) fn give_up() -> ! {
    let root = getpid().as_raw_nonzero().get();
    // No process has this session, and none this mark.
    RunProcesses { root, mark: String::from("\n"), launcher: -1, others: Vec::new() }.kill();
    std::process::exit(1)
}

/// Lets another user start the ranks of a case, whose program that user may execute and not read.
fn open_to_others(launcher: &Launcher, directory: &Path) -> std::io::Result<()> {
    let rank = unreadable_rank(directory);
    fs::copy(launcher.pmix_rank.as_deref().unwrap_or(&launcher.rank), &rank)?;
    for (file, mode) in [(&rank, 0o711), (&directory.join("s"), 0o777), (&directory.into(), 0o777)]
    {
        fs::set_permissions(file, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn wait_for(mut child: std::process::Child, events: Sender<Event>) {
    thread::spawn(move || {
        if let Ok(status) = child.wait() {
            let _ = events.send(Event::Ended(status));
        }
    });
}

fn open_terminal() -> std::io::Result<(File, File)> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let name = name.to_str().map_err(std::io::Error::other)?;
    let mut its = OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut its, NOCTTY);
    Ok((ours.into(), its.read(true).write(true).open(name)?))
}

impl Play<'_> {
    /// All orders of a run, in sequence. After the fault, the survivors go on as without it.
    fn steps(&mut self) -> Result<(), Stop> {
        let case = self.case;
        let (fault, phase) = (case.fault, case.phase);
        if phase == FaultPhase::Before && !fault.is_of_rank() {
            self.await_launcher();
            // The delay of two signals is that between them.
            let limit_us = if fault == Fault::LauncherSignalTwice { 6000 } else { u64::MAX };
            thread::sleep(Duration::from_micros(case.delay_us % limit_us));
            self.happen()?;
        }
        self.gather()?;
        self.request("init", "", FaultPhase::Init)?;
        self.request("put", "", FaultPhase::Started)?;
        self.happen_in(FaultPhase::Put)?;
        self.fence(FaultPhase::Fence)?;
        let other = self.partner.to_string();
        self.request("get", &other, FaultPhase::Get)?;
        if phase == FaultPhase::Spawn {
            self.spawn()?;
        }
        self.fence(FaultPhase::Started)?;
        self.happen_in(FaultPhase::Finalize)?;
        self.end()
    }

    /// Waits until the process has become the launcher: a shell, or what sets the terminal, was it before.
    fn await_launcher(&self) {
        let is_other = |process: Process| {
            ["sh", "dash", "bash", "setsid", "setpriv"].contains(&&*process.name)
        };
        while processes::process(self.run.launcher).is_some_and(is_other) {
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Waits for the ranks, as many as the phase has.
    fn gather(&mut self) -> Result<(), Stop> {
        let case = self.case;
        let is_missing = case.fault == Fault::ExecFailure
            && matches!(case.phase, FaultPhase::Before | FaultPhase::Starting);
        if is_missing {
            self.has_happened = true;
            return Err(self.control.wait_for_end());
        }
        let early = match case.phase {
            FaultPhase::Before if !self.has_happened => Some(1),
            FaultPhase::Starting => Some(case.started),
            _ => None,
        };
        if let Some(count) = early {
            self.await_ranks(count)?;
            // It happens to the rank that came last; another one is needed for what follows from it.
            let last = count as usize - 1;
            self.victim = self.control.ranks[last].rank;
            self.greet(last);
            self.control.settle()?;
            if matches!(case.fault, Fault::Stop | Fault::Unread) {
                self.await_ranks(count.max(2))?;
                let victim = self.victim;
                let other = self.control.ranks.iter().find(|rank| rank.rank != victim);
                self.partner = other.map_or(case.partner, |rank| rank.rank);
            }
            self.happen()?;
        }
        self.await_ranks(case.ranks)?;
        for place in 0..self.control.ranks.len() {
            if early.is_none_or(|count| place != count as usize - 1) {
                self.greet(place);
            }
        }
        self.control.settle()?;
        self.happen_in(FaultPhase::Started)
    }

    fn await_ranks(&mut self, count: u32) -> Result<(), Stop> {
        self.control.wait(|control| control.ranks.len() >= count as usize)
    }

    /// The first orders of a rank.
    fn greet(&mut self, place: usize) {
        let case = self.case;
        if case.fault == Fault::LauncherSignalTwice {
            self.prepare_for_signals(place);
        } else if case.is_stubborn && self.control.ranks[place].rank != self.victim {
            self.control.order(place, "stubborn");
        }
        // A disk that is full is noticed in the phase of the case, or as soon as a rank can.
        if self.case.fault != Fault::DiskFull || self.case.phase == FaultPhase::Before {
            self.control.order(place, "lines 10");
        }
    }

    /// What a rank does before two signals: the first ones leave a daemon each, which mostly ignores signals,
    /// and in a quarter of the cases all ranks take long to end.
    fn prepare_for_signals(&mut self, place: usize) {
        let form = self.case.form;
        if place < DAEMONS {
            let bare = if form & 1 == 0 { "bare" } else { "" };
            let deaf = if form & 6 == 0 { "" } else { "deaf" };
            self.control.order(place, &format!("daemon {bare}{deaf}"));
        }
        if form & 24 == 0 {
            self.control.order(place, "slow 4500");
        }
    }

    /// Every rank makes a request; in `phase` the fault happens while that of the victim is under way.
    fn request(&mut self, word: &str, argument: &str, phase: FaultPhase) -> Result<(), Stop> {
        let order = format!("{word} {argument}");
        let is_now = self.case.phase == phase && phase != FaultPhase::Started;
        for place in self.first_job() {
            match is_now && self.control.ranks[place].rank == self.victim {
                true => self.control.order(place, &format!("begin-{order}")),
                false => self.control.order(place, &order),
            }
        }
        self.control.settle()?;
        if is_now {
            self.happen()?;
            self.finish(word)?;
        }
        Ok(())
    }

    /// The victim reads the answer to its request, if it still can.
    fn finish(&mut self, word: &str) -> Result<(), Stop> {
        if let Some(place) = self.control.place(self.victim) {
            self.control.order(place, &format!("finish-{word}"));
        }
        self.control.settle()
    }

    /// Every rank enters the fence; in `phase` the partner does not until the fault has happened.
    fn fence(&mut self, phase: FaultPhase) -> Result<(), Stop> {
        if self.case.phase != phase || phase == FaultPhase::Started {
            return self.request("fence", "", FaultPhase::Started);
        }
        for place in self.first_job() {
            let rank = self.control.ranks[place].rank;
            if rank == self.victim {
                self.control.order(place, "begin-fence");
            } else if rank != self.partner {
                self.control.order(place, "fence");
            }
        }
        let partner = self.partner;
        self.control.wait(|control| {
            let is_in = |at: &Option<String>| at.as_ref().is_some_and(|at| at.ends_with("fence"));
            control.ranks.iter().all(|rank| rank.rank == partner || rank.is_gone || is_in(&rank.at))
        })?;
        self.happen()?;
        if let Some(place) = self.control.place(self.partner) {
            self.control.order(place, "fence");
        }
        self.finish("fence")
    }

    /// The victim spawns a job, and the fault happens when the first rank of it runs.
    fn spawn(&mut self) -> Result<(), Stop> {
        let Some(place) = self.control.place(self.victim) else { return Ok(()) };
        if self.case.fault == Fault::ExecFailure {
            return self.happen();
        }
        self.control.order(place, "begin-spawn");
        self.control.wait(|control| control.ranks.iter().any(|rank| rank.is_spawned))?;
        self.happen()?;
        // A launcher may answer when its new ranks have sent init, and not before.
        self.control.order(place, "finish-spawn");
        let both = |control: &Control| control.ranks.iter().filter(|r| r.is_spawned).count() == 2;
        self.control.wait(both)?;
        for place in 0..self.control.ranks.len() {
            if self.control.ranks[place].is_spawned {
                for order in ["init", "fence", "finalize", "exit 0"] {
                    self.control.order(place, order);
                }
            }
        }
        self.control.settle()
    }

    /// Finalize and the ends of the ranks.
    fn end(&mut self) -> Result<(), Stop> {
        let is_now = self.case.phase == FaultPhase::Ending;
        for place in self.first_job() {
            // A rank that has finalized cannot abort any more.
            let can = !(is_now && self.case.fault == Fault::Abort);
            if can || self.control.ranks[place].rank != self.victim {
                self.control.order(place, "finalize");
            }
        }
        self.control.settle()?;
        if is_now {
            let (victim, partner) = (self.victim, self.partner);
            let others = self
                .first_job()
                .into_iter()
                .step_by(2)
                .filter(|place| ![victim, partner].contains(&self.control.ranks[*place].rank));
            for place in others.collect::<Vec<_>>() {
                self.control.order(place, "exit 0");
            }
            self.control.settle()?;
            self.happen()?;
        }
        for place in self.first_job() {
            self.control.order_last(place, "exit 0");
        }
        Ok(())
    }

    pub(super) fn first_job(&self) -> Vec<usize> {
        let is_first = |place: &usize| !self.control.ranks[*place].is_spawned;
        (0..self.control.ranks.len()).filter(is_first).collect()
    }

    fn happen_in(&mut self, phase: FaultPhase) -> Result<(), Stop> {
        match self.case.phase == phase {
            true => self.happen(),
            false => Ok(()),
        }
    }

    /// Looks at the state that the run has left, and sums the case up.
    fn judge(mut self, stop: Stop, began: Instant, streams: Vec<Receiver<()>>) -> CaseOutcome {
        let case = self.case;
        let code = match stop {
            Stop::Ended(status) => Some(shell_code(status)),
            Stop::Silent | Stop::Limit => None,
        };
        let mut left = self.run.alive();
        if code.is_none() {
            let who: Vec<_> = left.iter().take(8).map(Process::describe).collect();
            self.note += &format!("alive: {} of them, {}; ", left.len(), who.join(", "));
        }
        let seconds = began.elapsed().as_secs_f64();
        // The launcher is gone: everything it wrote is on the way.
        self.reading.resume();
        if code.is_some() {
            left = self.await_ends();
            for stream in &streams {
                let _ = stream.recv_timeout(Duration::from_secs(2));
            }
        }
        let stranger = self.stranger();
        let strangers_killed = code.is_some() && stranger == Some(false);
        let orphans: Vec<String> =
            if code.is_some() { left.iter().map(Process::describe).collect() } else { vec![] };
        let files = match code.is_some() && orphans.is_empty() {
            true => self.await_removals(),
            false => vec![],
        };
        let shown_keys = self.shown_keys();
        self.run.kill();
        drop(std::mem::take(&mut self.hosts));
        let lost = match code.is_none() || case.fault.loses_output() {
            true => 0,
            false => self.lost(),
        };
        let is_peer = self.launcher.kind != LauncherKind::Ours;
        let words = self.errors.lock().unwrap_or_else(PoisonError::into_inner).words();
        CaseOutcome {
            code,
            is_wrong: code.is_some_and(|code| CaseOutcome::is_wrong(case, code, is_peer)),
            orphans,
            lost,
            strangers_killed,
            files,
            shown_keys,
            has_happened: self.has_happened,
            seconds,
            note: format!("{}{}", self.note, words),
        }
    }

    fn lost(&self) -> u64 {
        let lines = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = self.promised.iter().map(|(rank, count)| lines.missing(*rank, *count));
        // A rank that is killed while it writes tears its own line; none of these does.
        missing.sum::<u64>() + lines.torn()
    }

    /// Waits until the run has left no file, at most for the grace; gives those that it has left.
    fn await_removals(&self) -> Vec<String> {
        let until = Instant::now() + GRACE;
        loop {
            let left = hosts::left_files(self.directory);
            if left.is_empty() || Instant::now() > until {
                return left;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Number of lines with a piece of the key that the starters have received, in all that the run has
    /// shown.
    fn shown_keys(&self) -> u64 {
        let Ok(keys) = fs::read(hosts::starter_input(self.directory)) else { return 0 };
        let said = |lines: &Mutex<OutputLines>| {
            lines.lock().unwrap_or_else(PoisonError::into_inner).said()
        };
        let result = fs::read(result_file(self.directory)).unwrap_or_default();
        let all = [said(&self.output), said(&self.errors), result, self.shown.clone()];
        all.iter().map(|shown| shown_keys(&keys, shown)).sum()
    }

    /// Waits until no process of the run is alive, at most for the grace; gives those that are.
    fn await_ends(&self) -> Vec<Process> {
        let fault = self.case.fault;
        let has_launcher = !fault.kills_launcher()
            && !matches!(fault, Fault::GuardKill | Fault::Stage)
            && !fault.is_of_node();
        let until = Instant::now() + if has_launcher { GRACE } else { GRACE_WITHOUT_LAUNCHER };
        let stranger = self.stranger_pid();
        loop {
            self.run.reap();
            let mut alive = self.run.alive();
            alive.retain(|process| Some(process.pid) != stranger);
            // One whose process has ended is a matter of the suite.
            let is_childless =
                |starter: &Process| alive.iter().all(|process| process.parent != starter.pid);
            let starters = alive.iter().filter(|process| process.is_stopped_starter());
            for starter in starters.filter(|starter| is_childless(starter)) {
                processes::send(starter.pid, Some(starter.since), Signal::CONT);
            }
            if alive.is_empty() || Instant::now() > until {
                return alive;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The child of the shell that has become the launcher.
    fn stranger_pid(&self) -> Option<i32> {
        fs::read_to_string(self.directory.join("stranger")).ok()?.trim().parse().ok()
    }

    /// Is it still alive? None if there is none in this case.
    fn stranger(&self) -> Option<bool> {
        let pid = self.stranger_pid()?;
        Some(processes::process(pid).is_some_and(|process| process.is_alive()))
    }
}

/// The code by which a shell knows an end.
fn shell_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// `O_NOCTTY` of Linux on all that Rust runs on but MIPS, PowerPC, SPARC and Alpha, where the terminal would
/// be ours only if we led a session without one.
const NOCTTY: i32 = 0o400;
