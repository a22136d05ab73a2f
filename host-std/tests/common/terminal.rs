//! A terminal for the launcher, with a simulated user.

use super::signal_group;
use nix::unistd::{Pid, getpgid};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A command that runs on a terminal of its own, which it controls.
pub struct Terminal {
    master: File,
    // An open descriptor keeps the terminal as it is after the command has terminated.
    slave: OwnedFd,
    child: Child,
    seen: Arc<Mutex<Vec<u8>>>,
    since: Instant,
}

/// Starts the launcher with `words` on a terminal of 50 rows and 132 columns.
pub fn on_terminal(words: &[&str]) -> Terminal {
    start(&[&[env!("CARGO_BIN_EXE_pmi-host")], words].concat())
}

/// Starts `sh -c SCRIPT` there.
pub fn shell_on_terminal(script: &str) -> Terminal {
    start(&["sh", "-c", script])
}

fn start(words: &[&str]) -> Terminal {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    tcsetwinsize(&master, size(50, 132)).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let stream = || Stdio::from(slave.try_clone().unwrap());
    let mut command = Command::new("setsid");
    // Tests that were started in the background ignore the signals of keys; a command on its own terminal
    // must not.
    command.args(["--ctty", "env", "--default-signal"]).args(words);
    command.stdin(stream()).stdout(stream()).stderr(stream());
    let child = command.spawn().expect("util-linux is everywhere");
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    while getpgid(Some(pid)).unwrap() != pid {
        thread::sleep(Duration::from_millis(1)); // until it leads the session that signals are sent to
    }
    let (master, seen) = (File::from(master), Arc::new(Mutex::new(Vec::new())));
    let (mut from, into) = (master.try_clone().unwrap(), Arc::clone(&seen));
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count) = from.read(&mut bytes) {
            into.lock().unwrap().extend_from_slice(&bytes[..count]);
        }
    });
    Terminal { master, slave, child, seen, since: Instant::now() }
}

impl Terminal {
    /// Types `text`.
    pub fn types(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until `text` was shown this number of times.
    #[track_caller]
    pub fn shows_times(&self, text: &str, times: usize) {
        self.waits(|seen| seen.matches(text).count() >= times, text);
    }

    /// Waits until `text` was shown.
    #[track_caller]
    pub fn shows(&self, text: &str) {
        self.shows_times(text, 1);
    }

    /// Changes the size of the window.
    pub fn resizes(&self, rows: u16, columns: u16) {
        tcsetwinsize(&self.master, size(rows, columns)).unwrap();
    }

    /// Its modes now.
    pub fn modes(&self) -> Termios {
        tcgetattr(&self.master).unwrap()
    }

    /// Sends a signal to the launcher by its name, as `kill` knows it.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// The process of the command.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the process group of the command.
    pub fn signal_group(&self, name: &str) {
        signal_group(self.child.id(), name).unwrap();
    }

    /// Waits for the end of the launcher, and gives its code and its output.
    #[track_caller]
    pub fn ends(&mut self) -> (i32, String) {
        while self.since.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait().unwrap() {
                let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
                return (code.unwrap(), self.seen_to_the_end());
            }
            thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        panic!("still running after {LIMIT:?}: {:?}", self.seen());
    }

    /// All output of a command that has ended: what is on its way through the terminal comes before a mark.
    /// A key that interrupts drops both.
    fn seen_to_the_end(&self) -> String {
        while !self.seen().contains(MARK) && self.since.elapsed() < LIMIT {
            rustix::io::write(&self.slave, MARK.as_bytes()).unwrap();
            thread::sleep(Duration::from_millis(20));
        }
        self.seen().replace(MARK, "")
    }

    /// Waits until the output satisfies a condition.
    #[track_caller]
    pub fn waits(&self, until: impl Fn(&str) -> bool, what: &str) {
        while !until(&self.seen()) {
            assert!(self.since.elapsed() < LIMIT, "no {what:?} in {:?}", self.seen());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Output so far.
    pub fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }
}

const fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Follows the last output of a command.
const MARK: &str = "<end of output>";

/// Far above the duration of any of these tests on a slow and busy machine.
const LIMIT: Duration = Duration::from_secs(60);
