//! Signals to this process, as events of the one loop.

use rustix::process::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use std::fs;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;

/// Signals that arrived since the last look.
#[derive(Debug)]
pub struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
}

impl Signals {
    /// Takes over the signals that end a job or are meant for its ranks.
    ///
    /// One that is ignored when we start stays ignored, for us and for the ranks: `nohup` and the
    /// background jobs of a plain shell count on it.
    /// Errors: those of the system.
    pub fn new() -> io::Result<Self> {
        let ignored = ignored();
        let wanted = FORWARDED.iter().filter(|&&signal| !is_in(ignored, signal));
        // Only while it is not ignored does the system keep the exit code of a child for us.
        let children = is_in(ignored, SIGCHLD).then_some(&SIGCHLD);
        let (read, write) = UnixStream::pair()?;
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, wanted.chain(children))?;
        Ok(Self { delivery })
    }

    /// Everything that arrived, as signals that can be sent on.
    pub fn arrived(&mut self) -> impl Iterator<Item = Signal> {
        self.delivery
            .pending()
            .filter(|&signal| signal != SIGCHLD)
            .filter_map(Signal::from_named_raw)
    }

    /// Becomes readable when a signal has arrived.
    pub fn source(&self) -> &UnixStream {
        self.delivery.get_read()
    }
}

/// True for a signal by which the sender wants the job to end.
pub fn ends_the_job(signal: Signal) -> bool {
    signal != Signal::USR1 && signal != Signal::USR2
}

/// The name of `signal` as people know it, for messages.
pub fn name(signal: i32) -> String {
    match NAMES.iter().find(|(number, _)| *number == signal) {
        Some((_, name)) => format!("signal {signal} ({name})"),
        None => format!("signal {signal}"),
    }
}

/// The name alone, or the number of one that has none.
pub fn short_name(signal: i32) -> String {
    let found = NAMES.iter().find(|(number, _)| *number == signal);
    found.map_or_else(|| signal.to_string(), |(_, name)| (*name).to_owned())
}

/// The signal that a client means by `name`, with or without `SIG` in front.
pub fn named(name: &str) -> Option<Signal> {
    let name = name.strip_prefix("SIG").unwrap_or(name);
    let found = NAMES.iter().find(|(_, known)| known.strip_prefix("SIG") == Some(name));
    found.and_then(|(number, _)| Signal::from_named_raw(*number))
}

/// The signals that are ignored now, one bit each. Where the system does not tell, none.
fn ignored() -> u64 {
    // One read is enough for what is there, and the system makes the text anew for each file opened.
    let mut text = [0; 8192];
    let read = fs::File::open("/proc/self/status").and_then(|mut file| file.read(&mut text));
    let status = String::from_utf8_lossy(&text[..read.unwrap_or(0)]);
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Bit 0 of the mask is signal 1.
fn is_in(mask: u64, signal: i32) -> bool {
    mask >> (signal - 1) & 1 == 1
}

const FORWARDED: &[i32] = &[SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

const NAMES: &[(i32, &str)] = &[
    (Signal::HUP.as_raw(), "SIGHUP"),
    (Signal::INT.as_raw(), "SIGINT"),
    (Signal::QUIT.as_raw(), "SIGQUIT"),
    (Signal::ILL.as_raw(), "SIGILL"),
    (Signal::TRAP.as_raw(), "SIGTRAP"),
    (Signal::ABORT.as_raw(), "SIGABRT"),
    (Signal::BUS.as_raw(), "SIGBUS"),
    (Signal::FPE.as_raw(), "SIGFPE"),
    (Signal::KILL.as_raw(), "SIGKILL"),
    (Signal::SEGV.as_raw(), "SIGSEGV"),
    (Signal::PIPE.as_raw(), "SIGPIPE"),
    (Signal::ALARM.as_raw(), "SIGALRM"),
    (Signal::TERM.as_raw(), "SIGTERM"),
    (Signal::USR1.as_raw(), "SIGUSR1"),
    (Signal::USR2.as_raw(), "SIGUSR2"),
    (Signal::XCPU.as_raw(), "SIGXCPU"),
    (Signal::SYS.as_raw(), "SIGSYS"),
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
    fn a_client_names_signals_in_two_ways() {
        assert_eq!([named("SIGUSR1"), named("USR1")], [Some(Signal::USR1); 2]);
        assert_eq!([named("SIG"), named(""), named("usr1"), named("9")], [None; 4]);
    }

    #[test]
    fn a_mask_counts_signals_from_one() {
        assert!(is_in(1, 1));
        assert!(is_in(1 << (SIGCHLD - 1), SIGCHLD));
        assert!(!is_in(1 << (SIGCHLD - 1), SIGINT));
    }

    #[test]
    fn user_signals_do_not_end_the_job() {
        assert!(ends_the_job(Signal::INT) && ends_the_job(Signal::HUP));
        assert!(!ends_the_job(Signal::USR1));
    }
}
