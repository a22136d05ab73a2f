//! Terminal for one rank.

use super::interrupt_keys::InterruptKeys;
use pmi_host_os::console::{Console, size};
use pmi_host_os::poller::{Interest, Poller, Token};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{
    OptionalActions, SpecialCodeIndex, Winsize, tcgetattr, tcsetattr, tcsetwinsize,
};
use std::collections::VecDeque;
use std::ffi::CString;
use std::io;

/// The launcher's end of the terminal, and its input.
///
/// If the launcher's standard input is a terminal, every key goes to the rank, Ctrl-C too, which
/// interrupts the rank alone; three of them within a second interrupt the launcher. Other input is typed
/// in unchanged, and its end becomes that of the terminal (Ctrl-D).
#[derive(Debug)]
pub(crate) struct Pty {
    /// The launcher's end, which does not block. `None` after the end of the rank: the poller reports a
    /// terminal without other users until its last descriptor is closed, even an unwatched one.
    master: Option<OwnedFd>,
    /// Number of the process, once it is started.
    process: u32,
    /// Source of the input; `None` after its end, or if there is none.
    keys: Option<OwnedFd>,
    console: Option<Console>,
    /// Input that the terminal has not taken yet.
    typed: VecDeque<u8>,
    /// The input has ended.
    has_ended: bool,
    source_watched: Option<Interest>,
    master_watched: Option<Interest>,
    /// Regular files are always readable and not supported by the poller.
    is_file: bool,
    interrupts: InterruptKeys,
    /// Last typed byte.
    last: u8,
    chunk: Vec<u8>,
}

impl Pty {
    /// Makes a terminal of the size of the launcher's; input from `keys` is typed there.
    pub(crate) fn open(keys: Option<OwnedFd>) -> io::Result<(Self, CString)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        ioctl_fionbio(&master, true)?;
        let console = keys.as_ref().map(|keys| Console::new(keys.as_fd())).transpose()?.flatten();
        if let Some(console) = &console {
            // The rank gets the user's terminal modes.
            tcsetattr(&master, OptionalActions::Now, console.modes())?;
        }
        let size = console.as_ref().map_or_else(|| size(None), Console::size);
        tcsetwinsize(&master, size)?;
        let pty = Self {
            master: Some(master),
            process: 0,
            keys,
            console,
            typed: VecDeque::new(),
            has_ended: false,
            source_watched: None,
            master_watched: None,
            is_file: false,
            interrupts: InterruptKeys::default(),
            last: b'\n',
            chunk: Vec::with_capacity(CHUNK),
        };
        Ok((pty, name))
    }

    /// Descriptor for the output of the rank.
    pub(crate) fn output(&self) -> io::Result<OwnedFd> {
        self.master.as_ref().ok_or(io::ErrorKind::NotFound)?.try_clone()
    }

    /// The rank was started: it gets all keys from now on.
    pub(crate) fn begin(&mut self, process: u32, poller: &Poller) -> io::Result<()> {
        self.process = process;
        if let Some(console) = &mut self.console {
            console.enter();
        }
        self.pump(poller)
    }

    /// Sets the size of the terminal: that of the user on another host.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        if let Some(master) = &self.master {
            // Harmless if the rank has just terminated.
            let _ = tcsetwinsize(master, size);
        }
    }

    /// The size of the launcher's terminal may have changed, or its foreground process group.
    pub(crate) fn handle_terminal_changes(&mut self, poller: &Poller) -> io::Result<()> {
        if let Some(console) = &mut self.console {
            console.enter();
            if let Some(master) = &self.master {
                // Harmless if the rank has just terminated.
                let _ = tcsetwinsize(master, console.size());
            }
        }
        self.pump(poller)
    }

    /// Types available input, as far as the terminal takes it.
    pub(crate) fn pump(&mut self, poller: &Poller) -> io::Result<()> {
        while self.write() && self.read() {}
        self.watch_source(poller)?;
        self.watch_master(poller)
    }

    /// The rank has terminated: restores the launcher's terminal, and leaves unread input in place.
    pub(crate) fn end(&mut self, poller: &Poller) -> io::Result<()> {
        self.typed.clear();
        self.watch_master(poller)?;
        self.master = None;
        self.console = None;
        if let Some(keys) = &self.keys {
            poller.rewatch(Token::Source, keys, (&mut self.source_watched, None))?;
        }
        self.keys = None;
        Ok(())
    }

    /// True while line ends need a carriage return.
    pub(crate) fn is_raw(&self) -> bool {
        self.console.as_ref().is_some_and(Console::is_raw)
    }

    /// Writes typed input to the terminal; true if all of it was taken.
    fn write(&mut self) -> bool {
        let Some(master) = &self.master else { return false };
        while !self.typed.is_empty() {
            match rustix::io::write(master, self.typed.as_slices().0) {
                Ok(count) => drop(self.typed.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                // The terminal has no reader any more.
                Err(_) => self.typed.clear(),
            }
        }
        true
    }

    /// Reads the next input; true if there was any.
    fn read(&mut self) -> bool {
        let Some(keys) = self.keys.as_ref().filter(|_| self.may_read()) else { return false };
        let mut wanted = [PollFd::new(keys, PollFlags::IN)];
        if poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0) {
            return false;
        }
        self.chunk.clear();
        match rustix::io::read(keys, spare_capacity(&mut self.chunk)) {
            Ok(count) if count > 0 => {
                self.last = self.chunk[count - 1];
                self.typed.extend(&self.chunk);
                if self.console.is_some() {
                    self.interrupts.check(&self.chunk);
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => return false,
            Ok(_) | Err(_) => self.type_end(),
        }
        true
    }

    /// Types the end of input of a terminal: once at the start of a line, twice within one.
    fn type_end(&mut self) {
        // The descriptor stays until the rank has terminated, for the poller may still know it.
        self.has_ended = true;
        if let Some(Ok(modes)) = self.master.as_ref().map(tcgetattr) {
            let end = modes.special_codes[SpecialCodeIndex::VEOF];
            self.typed.extend(std::iter::repeat_n(end, if self.last == b'\n' { 1 } else { 2 }));
        }
    }

    /// The system stops a process that reads a terminal in use by another one.
    fn may_read(&self) -> bool {
        !self.has_ended && self.console.as_ref().is_none_or(Console::is_raw)
    }

    fn watch_source(&mut self, poller: &Poller) -> io::Result<()> {
        let watch = self.typed.is_empty() && self.may_read() && !self.is_file;
        let Some(keys) = &self.keys else { return Ok(()) };
        let change = (&mut self.source_watched, watch.then_some(Interest::Read));
        match poller.rewatch(Token::Source, keys, change) {
            Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                self.is_file = true;
                Ok(())
            }
            other => other,
        }
    }

    fn watch_master(&mut self, poller: &Poller) -> io::Result<()> {
        let Some(master) = &self.master else { return Ok(()) };
        let watch = !self.typed.is_empty();
        let change = (&mut self.master_watched, watch.then_some(Interest::Write));
        poller.rewatch(Token::Input(self.process), master, change)
    }
}

/// Maximum number of bytes of one read.
const CHUNK: usize = 4096;
