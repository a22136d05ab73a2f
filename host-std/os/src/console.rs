//! Terminal of the launcher, while a rank has a terminal of its own.
//!
//! Every key then belongs to that rank: the launcher's terminal is "raw", that is, it neither echoes nor
//! makes a signal of Ctrl-C. Its modes are restored on every exit; if the launcher is killed, by the
//! guard of the run.

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{getpgrp, tcgetpgrp};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios,
    Winsize, isatty, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::io;
use std::panic;
use std::sync::Arc;

/// Terminal of the launcher.
#[derive(Debug)]
pub struct Console {
    /// Descriptor and original modes. Shared with the panic hook, since a panic may abort without
    /// dropping.
    saved: Arc<Saved>,
    is_raw: bool,
}

#[derive(Debug)]
struct Saved {
    fd: OwnedFd,
    modes: Termios,
}

impl Console {
    /// Takes over `fd`; `None` if it is not a terminal.
    pub fn new(fd: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        if !isatty(fd) {
            return Ok(None);
        }
        let saved = Arc::new(Saved { fd: fd.try_clone_to_owned()?, modes: tcgetattr(fd)? });
        let (for_panic, previous) = (Arc::clone(&saved), panic::take_hook());
        panic::set_hook(Box::new(move |what| {
            for_panic.restore();
            previous(what);
        }));
        Ok(Some(Self { saved, is_raw: false }))
    }

    /// Makes the terminal raw if the launcher is in its foreground process group. After a stop it may
    /// have any modes, so this is to be repeated.
    pub fn enter(&mut self) {
        let mut raw = self.saved.modes.clone();
        raw.make_raw();
        // The system stops a background process that changes the modes.
        self.is_raw =
            self.saved.is_ours() && tcsetattr(&self.saved.fd, OptionalActions::Now, &raw).is_ok();
    }

    /// Restores the modes of the terminal.
    pub(crate) fn leave(&mut self) {
        if std::mem::take(&mut self.is_raw) {
            self.saved.restore();
        }
    }

    /// Its size.
    pub fn size(&self) -> Winsize {
        size(Some(self.saved.fd.as_fd()))
    }

    /// Its original modes.
    pub fn modes(&self) -> &Termios {
        &self.saved.modes
    }

    /// True while every key belongs to a rank.
    pub const fn is_raw(&self) -> bool {
        self.is_raw
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Saved {
    fn is_ours(&self) -> bool {
        is_in_foreground(self.fd.as_fd()) == Some(true)
    }

    fn restore(&self) {
        if self.is_ours() {
            // A failure means that the terminal is gone.
            let _ = tcsetattr(&self.fd, OptionalActions::Now, &self.modes);
        }
    }
}

/// True if this process is in the foreground process group of `terminal`; `None` if that is not the
/// terminal of its session.
///
/// Groups from outside this PID namespace all have the number 0, and a launcher among them is taken for
/// one in the foreground. (`rustix` takes these ids for positive numbers.)
pub fn is_in_foreground(terminal: BorrowedFd<'_>) -> Option<bool> {
    tcgetpgrp(terminal).ok().map(|front| front == getpgrp())
}

/// Modes of standard input, in the format of the guard; `None` if it is not a terminal.
pub(crate) fn modes_to_keep() -> Option<String> {
    let modes = tcgetattr(rustix::stdio::stdin()).ok()?;
    let flags = [
        modes.input_modes.bits(),
        modes.output_modes.bits(),
        modes.control_modes.bits(),
        modes.local_modes.bits(),
    ];
    let codes = CODES.map(|code| modes.special_codes[code].into());
    Some([flags.as_slice(), codes.as_slice()].concat().iter().map(|n| format!("{n}:")).collect())
}

/// Restores modes from [`modes_to_keep`] on `terminal`, even if another program uses it.
pub(crate) fn give_back(terminal: BorrowedFd<'_>, kept: &str) {
    let numbers: Vec<u32> =
        kept.split_terminator(':').filter_map(|word| word.parse().ok()).collect();
    let (Ok(mut modes), [input, output, control, local, codes @ ..]) =
        (tcgetattr(terminal), &numbers[..])
    else {
        return;
    };
    modes.input_modes = InputModes::from_bits_retain(*input);
    modes.output_modes = OutputModes::from_bits_retain(*output);
    modes.control_modes = ControlModes::from_bits_retain(*control);
    modes.local_modes = LocalModes::from_bits_retain(*local);
    for (code, number) in CODES.into_iter().zip(codes) {
        modes.special_codes[code] = u8::try_from(*number).unwrap_or(0);
    }
    // With this signal blocked, a background process may change the modes too.
    let mut stop = SigSet::empty();
    stop.add(Signal::SIGTTOU);
    if stop.thread_block().is_ok() {
        // A failure means that the terminal is gone.
        let _ = tcsetattr(terminal, OptionalActions::Now, &modes);
    }
}

/// Control characters that raw mode changes, besides flags.
const CODES: [SpecialCodeIndex; 2] = [SpecialCodeIndex::VMIN, SpecialCodeIndex::VTIME];

/// Size of `terminal`, if there is one, or of the first standard stream that has one; that of the first
/// terminals if none has.
pub fn size(terminal: Option<BorrowedFd<'_>>) -> Winsize {
    let streams = [terminal, Some(rustix::stdio::stdout()), Some(rustix::stdio::stderr())];
    let mut sizes = streams.into_iter().flatten().filter_map(|stream| tcgetwinsize(stream).ok());
    let usual = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    sizes.find(|size| size.ws_row > 0 && size.ws_col > 0).unwrap_or(usual)
}
