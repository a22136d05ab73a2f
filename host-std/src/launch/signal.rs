//! Signals to this process, as events of the event loop.

use nix::libc::{SI_KERNEL, SIGPWR, signalfd_siginfo};
use nix::sys::signal::{SigSet, Signal as NixSignal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use pmi_host_base::system_file;
use pmi_host_os::cleanup::guard_protocol::RUN;
use pmi_host_os::processes::own_session;
use pmi_host_os::refusal;
use rustix::fs::OFlags;
use rustix::process::{Signal, getpid};
use signal_hook::consts::{
    FORBIDDEN, SIGABRT, SIGALRM, SIGBUS, SIGCHLD, SIGCONT, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGKILL,
    SIGPIPE, SIGPROF, SIGQUIT, SIGSEGV, SIGSYS, SIGTERM, SIGTRAP, SIGTSTP, SIGURG, SIGUSR1,
    SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};
use signal_hook::low_level::emulate_default_handler;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

/// Signals that have arrived since the last read.
#[derive(Debug)]
pub(crate) struct Signals {
    source: SignalFd,
    forwarded: Vec<i32>,
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// The signal.
    pub(crate) signal: Signal,
    /// True if the system sent it to more than this process: a key was pressed, or a terminal is gone.
    /// Then every process of the group has got it.
    pub(crate) is_for_group: bool,
}

/// Meaning of a signal for the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// End the job.
    End,
    /// Report the state of the run.
    Report,
    /// Forward it to the ranks.
    Forward,
    /// Stop the job.
    Stop,
    /// The launcher was stopped and continues.
    Continue,
    /// A child has terminated, an adopted one for instance.
    ChildEnded,
    /// Terminate as after a fault of the launcher itself.
    Crash,
    /// The launcher's terminal has another size.
    Resized,
}

/// What reacts to signals to this process.
pub(crate) trait OnSignal {
    /// Reacts to a signal. After one that [stops](Meaning::Stop) the job this process stops as well, so what
    /// ranks have to receive leaves before.
    fn handle_signal(&mut self, arrived: Arrived, meaning: Meaning) -> io::Result<()>;

    /// This process stopped, and continues.
    fn handle_continued(&mut self) -> io::Result<()>;
}

/// Signals as the user of this process has set them: ranks begin with the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserSignals {
    /// Those that are blocked.
    pub(crate) mask: SigSet,
    pub(crate) ignored: Ignored,
}

impl UserSignals {
    /// Those of this process, before it takes over any.
    pub(crate) fn read() -> io::Result<Self> {
        Ok(Self { mask: SigSet::thread_get_mask()?, ignored: Ignored::at_start() })
    }
}

impl Signals {
    /// Takes over signals as [`new`](Self::new) does, and returns what they were before. Nothing that would
    /// be left behind exists by then.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub(crate) fn take(forwarded: &[i32]) -> io::Result<(UserSignals, Self)> {
        let before = UserSignals::read()?;
        Ok((before, Self::new(forwarded, before.ignored)?))
    }

    /// Takes over the signals that end a job, those with a meaning for the launcher, and `forwarded`
    /// ones, meant for its ranks.
    ///
    /// One that is `ignored` at the start stays ignored, for the launcher and for the ranks: `nohup` and
    /// the background jobs of a plain shell count on it.
    ///
    /// # Errors
    ///
    /// Those of the system; for example, some signals cannot be taken over.
    fn new(forwarded: &[i32], ignored: Ignored) -> io::Result<Self> {
        if let Some(signal) = forwarded.iter().find(|signal| !can_forward(**signal)) {
            let what = format!("{} cannot be forwarded", name(*signal));
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut wanted = SigSet::empty();
        for signal in TAKEN_OVER.iter().chain(forwarded).filter(|&&one| !ignored.has(one)) {
            wanted.add(NixSignal::try_from(*signal)?);
        }
        wanted.add(NixSignal::SIGCHLD);
        // The system keeps the exit code of a child only if this signal is not ignored.
        if ignored.has(SIGCHLD) {
            signal_hook::flag::register(SIGCHLD, Arc::default())?;
        }
        // Threads started later inherit this mask; ranks do not.
        wanted.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let source = SignalFd::with_flags(&wanted, flags).map_err(|error| {
            refusal::of_call("signalfd4", rustix::io::Errno::from_raw_os_error(error as i32))
        })?;
        Ok(Self { source, forwarded: forwarded.to_vec() })
    }

    fn read(&mut self) -> impl Iterator<Item = Arrived> {
        let next = || self.source.read_signal().ok().flatten();
        std::iter::from_fn(next).filter_map(|info| {
            let signal = Signal::from_named_raw(info.ssi_signo.cast_signed())?;
            Some(Arrived { signal, is_for_group: is_for_group(&info) })
        })
    }

    /// Signals that have arrived, in a form that can be forwarded, each with its meaning.
    fn arrived(&mut self) -> VecDeque<(Arrived, Meaning)> {
        let all: Vec<Arrived> = self.read().collect();
        all.into_iter().map(|arrived| (arrived, self.meaning(arrived.signal))).collect()
    }

    /// Hands all signals that have arrived to `handler`.
    ///
    /// # Errors
    ///
    /// Those of the handler, and of the system if this process cannot stop or crash as a signal demands.
    pub(crate) fn handle(&mut self, handler: &mut impl OnSignal) -> io::Result<()> {
        let mut all = self.arrived();
        while let Some((arrived, meaning)) = all.pop_front() {
            if meaning == Meaning::Crash {
                crash(arrived.signal)?;
            }
            handler.handle_signal(arrived, meaning)?;
            if meaning == Meaning::Stop {
                self.stand_still(&mut all)?;
                handler.handle_continued()?;
            }
        }
        Ok(())
    }

    /// Stops this process, until it is continued. Signals that arrive before are added to `later`: with
    /// `SIGCONT` among them this process goes on at once, since stopping would discard it and no other would
    /// come.
    fn stand_still(&mut self, later: &mut VecDeque<(Arrived, Meaning)>) -> io::Result<()> {
        later.extend(self.arrived());
        match later.iter().any(|(arrived, _)| arrived.signal == Signal::CONT) {
            true => Ok(()),
            false => stand_still(),
        }
    }

    /// Meaning of `signal` for the launcher.
    fn meaning(&self, signal: Signal) -> Meaning {
        match signal.as_raw() {
            SIGINT | SIGTERM | SIGHUP | SIGQUIT => Meaning::End,
            forwarded if self.forwarded.contains(&forwarded) => Meaning::Forward,
            // Of a timer that was set before this program was executed, as by Perl's 'alarm'.
            SIGALRM | SIGPROF | SIGVTALRM => Meaning::End,
            // The latter also under the names of launchers that forward the former.
            SIGUSR1 | SIGPWR => Meaning::Report,
            SIGTSTP => Meaning::Stop,
            SIGCONT => Meaning::Continue,
            SIGWINCH => Meaning::Resized,
            SIGCHLD => Meaning::ChildEnded,
            SIGSEGV | SIGBUS => Meaning::Crash,
            _ => Meaning::Forward,
        }
    }

    /// Descriptor that becomes readable when a signal has arrived.
    pub(crate) fn source(&self) -> &SignalFd {
        &self.source
    }
}

/// When a terminal is gone, only the leader of its session gets the signal.
fn is_for_group(info: &signalfd_siginfo) -> bool {
    let is_hangup = info.ssi_signo.cast_signed() == SIGHUP;
    let is_alone = || is_hangup && own_session() == getpid().as_raw_nonzero().get();
    info.ssi_code == SI_KERNEL && !is_alone()
}

/// Stops this process, until it is continued. The system does not stop it in an orphaned process group,
/// since no shell could continue it. An outer launcher that runs this one as a rank can continue it.
fn stand_still() -> io::Result<()> {
    if std::env::var_os(RUN).is_some() {
        return Ok(raise(NixSignal::SIGSTOP)?);
    }
    let mut stop = SigSet::empty();
    stop.add(NixSignal::SIGTSTP);
    stop.thread_unblock()?;
    raise(NixSignal::SIGTSTP)?;
    Ok(stop.thread_block()?)
}

/// Terminates this process by `signal`. The handler of Rust's standard library ignores a signal that was
/// sent; one that the system raises for a fault terminates the process at once, blocked or not.
///
/// # Errors
///
/// The signal does not terminate a process.
fn crash(signal: Signal) -> io::Result<()> {
    emulate_default_handler(signal.as_raw())
}

/// True for a signal that can be forwarded: it can be caught, and does not report faults or children of
/// the launcher.
pub(crate) fn can_forward(signal: i32) -> bool {
    NAMED.contains(&signal) && signal != SIGCHLD && !FORBIDDEN.contains(&signal)
}

/// Conventional name of `signal`, for messages.
pub(crate) fn name(signal: i32) -> String {
    match known_name(signal) {
        Some(name) => format!("signal {signal} ({name})"),
        None => format!("signal {signal}"),
    }
}

/// The bare name, or the number of a signal without a name.
pub(crate) fn short_name(signal: i32) -> String {
    known_name(signal).map_or_else(|| signal.to_string(), str::to_owned)
}

/// The signal that a rank or a user calls `name`: its name with or without `SIG`, or its number.
///
/// `None` for a name that the system does not have, and for the signals from 32 on.
pub(crate) fn named(name: &str) -> Option<Signal> {
    if let Ok(number) = name.parse() {
        return Signal::from_named_raw(number);
    }
    let name = name.strip_prefix("SIG").unwrap_or(name);
    let signal: NixSignal = format!("SIG{name}").parse().ok()?;
    Signal::from_named_raw(signal as i32)
}

fn known_name(signal: i32) -> Option<&'static str> {
    NAMED.contains(&signal).then(|| NixSignal::try_from(signal).ok().map(NixSignal::as_str))?
}

/// The signals that were ignored at the start of the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ignored(
    /// One bit each, of which bit 0 is signal 1; `None` if the system does not report them.
    Option<u64>,
);

impl Ignored {
    /// The set with which this process began to run commands; it is read once.
    pub(crate) fn at_start() -> Self {
        static AT_START: OnceLock<Ignored> = OnceLock::new();
        *AT_START.get_or_init(Self::now)
    }

    /// Reads the present set from `/proc`.
    fn now() -> Self {
        // One read suffices for existing content, and the kernel generates the text anew for each open.
        let mut text = [0; 8192];
        let read = system_file::open("/proc/self/status", OFlags::RDONLY)
            .and_then(|mut file| file.read(&mut text));
        let mut lines = text[..read.unwrap_or(0)].split(|byte| *byte == b'\n');
        let mask = lines.find_map(|line| str::from_utf8(line.strip_prefix(b"SigIgn:")?).ok());
        Self(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()))
    }

    /// True if `signal` is known to be among them.
    pub(crate) fn has(self, signal: i32) -> bool {
        self.0.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    }

    /// All others, and SIGPIPE, which this process ignores as all Rust programs do. SIGPIPE alone if the
    /// ignored signals are unknown or include signals without a name.
    ///
    /// A rank begins with the default action of each of these. For a signal outside this set, the C
    /// library first queries its disposition: these are more calls than all others needed to start a
    /// program.
    pub(crate) fn others(self) -> SigSet {
        let mut others = match self.0.filter(|mask| mask >> NUMBERED == 0) {
            Some(_) => SigSet::all(),
            None => SigSet::empty(),
        };
        NixSignal::iterator()
            .filter(|one| self.has(*one as i32))
            .for_each(|one| others.remove(one));
        others.add(NixSignal::SIGPIPE);
        others
    }
}

/// Signals from here on are real-time ones; below are the signals with names, and two that the C library
/// reserves and ignores in the programs it starts.
const NUMBERED: u32 = 33;

const TAKEN_OVER: &[i32] = &[
    SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGPROF, SIGVTALRM, SIGUSR1, SIGUSR2, SIGPWR,
    SIGTSTP, SIGCONT, SIGWINCH, SIGSEGV, SIGBUS,
];

const NAMED: &[i32] = &[
    SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGPIPE,
    SIGALRM, SIGVTALRM, SIGPROF, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP, SIGURG, SIGXCPU,
    SIGXFSZ, SIGWINCH, SIGSYS, SIGPWR,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_signals_have_names_and_others_numbers() {
        assert_eq!(name(11), "signal 11 (SIGSEGV)");
        assert_eq!(name(40), "signal 40");
    }

    #[test]
    fn client_names_signals_in_two_ways_or_by_number() {
        assert_eq!(["SIGUSR1", "USR1", "10"].map(named), [Some(Signal::USR1); 3]);
        assert_eq!(["SIGSTOP", "SIGIO"].map(named), [Some(Signal::STOP), Some(Signal::IO)]);
        assert_eq!(["SIG", "", "usr1", "64", "SIGRTMIN"].map(named), [None; 5]);
        // Those that a second connection may request.
        assert!((1..32).all(|number| named(&number.to_string()).is_some()));
    }

    #[test]
    fn mask_counts_signals_from_one() {
        assert!(Ignored(Some(1)).has(1));
        let ignored = Ignored(Some(1 << (SIGCHLD - 1)));
        assert!(ignored.has(SIGCHLD) && !ignored.has(SIGINT) && !Ignored(None).has(SIGCHLD));
    }

    #[test]
    fn ignored_signals_stay_ignored_in_ranks_and_no_others_do() {
        let has = |ignored: Option<u64>| {
            let others = Ignored(ignored).others();
            let all = [NixSignal::SIGHUP, NixSignal::SIGINT, NixSignal::SIGPIPE];
            all.map(|one| others.contains(one))
        };
        assert_eq!(has(Some(0)), [true; 3]);
        assert_eq!(has(Some(1 | 1 << 12 | 3 << 31)), [false, true, true]);
        // Signal 40 in the set, and an unknown set.
        assert_eq!(has(Some(1 << 39)), [false, false, true]);
        assert_eq!(has(None), [false, false, true]);
    }

    #[test]
    fn first_user_signal_asks_us_unless_it_is_meant_for_the_ranks() {
        let meanings = |forwarded: &[i32]| {
            let signals = Signals::new(forwarded, Ignored::now()).unwrap();
            [Signal::INT, Signal::USR1, Signal::USR2, Signal::CONT].map(|one| signals.meaning(one))
        };
        use Meaning::{Continue, End, Forward, Report};
        assert_eq!(meanings(&[]), [End, Report, Forward, Continue]);
        assert_eq!(meanings(&[SIGUSR1, SIGCONT]), [End, Forward, Forward, Forward]);
    }

    #[test]
    fn signals_that_no_program_can_handle_are_refused() {
        for signal in
            [Signal::KILL, Signal::SEGV].map(Signal::as_raw).into_iter().chain([SIGCHLD, 0, 99])
        {
            assert!(
                !can_forward(signal) && Signals::new(&[signal], Ignored::now()).is_err(),
                "{signal}"
            );
        }
        assert!(can_forward(SIGUSR1) && can_forward(Signal::WINCH.as_raw()));
    }
}
