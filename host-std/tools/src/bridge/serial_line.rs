//! The serial line: a device, or a pseudo-terminal made for it.

use pmi_host_base::{system_file, user_file};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Termios, tcdrain, tcgetattr, tcsetattr};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// One end of a serial line, raw: every byte passes as it is.
#[derive(Debug)]
pub(super) struct SerialLine {
    fd: OwnedFd,
    name: String,
    /// Second descriptor of a pseudo-terminal, until the board has opened it: the system treats a line
    /// without an open end as hung up.
    keeper: Option<OwnedFd>,
    is_pseudo: bool,
}

impl SerialLine {
    /// Opens `device`, or creates a pseudo-terminal for `pty`.
    ///
    /// # Errors
    ///
    /// Errors of the system; a device that is no terminal cannot be used.
    pub(super) fn open(device: &str, baud: u32) -> io::Result<Self> {
        if device == PTY {
            return Self::open_pty();
        }
        let fd = user_file::open_device(device.as_ref())?;
        let mut settings = tcgetattr(&fd)?;
        settings.make_raw();
        settings.set_speed(baud)?;
        tcsetattr(&fd, OptionalActions::Now, &settings)?;
        Ok(Self { fd, name: device.to_owned(), keeper: None, is_pseudo: false })
    }

    fn open_pty() -> io::Result<Self> {
        let fd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&fd)?;
        unlockpt(&fd)?;
        fcntl_setfl(&fd, OFlags::RDWR | OFlags::NONBLOCK)?;
        let name = ptsname(&fd, Vec::new())?;
        let keeper = OwnedFd::from(system_file::open(
            OsStr::from_bytes(name.to_bytes()),
            OFlags::RDWR | OFlags::NOCTTY,
        )?);
        let mut settings: Termios = tcgetattr(&keeper)?;
        settings.make_raw();
        tcsetattr(&keeper, OptionalActions::Now, &settings)?;
        let name = name.to_string_lossy().into_owned();
        Ok(Self { fd, name, keeper: Some(keeper), is_pseudo: true })
    }

    /// Name of the device, as users know it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the first bytes from the board.
    ///
    /// # Errors
    ///
    /// Errors of the system, and the end of the line.
    pub(super) fn recv_first(&mut self) -> io::Result<Vec<u8>> {
        let mut room = [0; 256];
        loop {
            let mut ends = [PollFd::new(&self.fd, PollFlags::IN)];
            match poll(&mut ends, None::<&Timespec>) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            match rustix::io::read(&self.fd, &mut room) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    // The board has opened the line, so a closed end is the end of the line from here on.
                    self.keeper = None;
                    return Ok(room[..len].to_vec());
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl SerialLine {
    /// Gives the board time to read the last bytes, which would be lost if the line were closed before.
    pub(super) fn drain(&self) {
        if self.is_pseudo {
            // The system does not report unread bytes, but it reports that no reader is left.
            let until = Instant::now() + DRAIN_TIMEOUT;
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                let mut ends = [PollFd::new(&self.fd, PollFlags::empty())];
                let left = Timespec::try_from(left).ok();
                match poll(&mut ends, left.as_ref()) {
                    Err(Errno::INTR) => {}
                    _ => break,
                }
            }
        } else {
            // A failed wait leaves nothing to do: the line is closed next.
            let _ = tcdrain(&self.fd);
        }
    }
}

impl AsFd for SerialLine {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Time limit for a board to read the last bytes and hang up.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Device name that stands for a new pseudo-terminal.
const PTY: &str = "pty";
