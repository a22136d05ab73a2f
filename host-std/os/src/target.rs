//! Writing to a place without ever blocking on its reader.

use crate::clock;
use crate::stream::Stream;
use pmi_host_base::system_file;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::time::Duration;

/// A descriptor, with a way to write to it without blocking.
#[derive(Debug)]
pub struct Target {
    place: TargetFd,
    way: WriteMode,
}

/// Descriptor of a target.
#[derive(Debug)]
enum TargetFd {
    /// A standard stream of the launcher. It is shared with the parent process, so its flags stay
    /// unchanged.
    Ours(Stream),
    /// Opened by the launcher.
    Own(OwnedFd),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteMode {
    /// Opened with `O_NONBLOCK`, or never blocking.
    Straight,
    /// A socket, with `MSG_DONTWAIT` for each call.
    Socket,
    /// Anything else: polled first, then given at most the atomic size of a pipe write.
    PendingSpawn,
}

impl Target {
    /// Determines the kind of the launcher's `stream` and a way to write to it without blocking.
    pub fn ours(stream: Stream) -> Self {
        let fd = fd_of(stream);
        let kind = fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
        let (place, way) = match kind {
            // A write takes its time, but waits for no reader.
            Ok(FileType::RegularFile) => (TargetFd::Ours(stream), WriteMode::Straight),
            Ok(FileType::Socket) => (TargetFd::Ours(stream), WriteMode::Socket),
            Ok(FileType::Fifo | FileType::CharacterDevice) => match open_again(stream) {
                Some(own) => (TargetFd::Own(own), WriteMode::Straight),
                None => (TargetFd::Ours(stream), WriteMode::PendingSpawn),
            },
            _ => (TargetFd::Ours(stream), WriteMode::PendingSpawn),
        };
        Self { place, way }
    }

    /// A file opened with `O_NONBLOCK`.
    pub const fn file(file: OwnedFd) -> Self {
        Self { place: TargetFd::Own(file), way: WriteMode::Straight }
    }

    /// Writes as much of `bytes` as possible without blocking.
    ///
    /// # Errors
    ///
    /// Those of the system; `AGAIN` if nothing is taken now.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let fd = self.fd();
        match self.way {
            WriteMode::Straight => rustix::io::write(fd, bytes),
            WriteMode::Socket => {
                rustix::net::send(fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            }
            WriteMode::PendingSpawn => {
                let mut wanted = [PollFd::new(&fd, PollFlags::OUT)];
                if poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? == 0 {
                    return Err(Errno::AGAIN);
                }
                rustix::io::write(fd, &bytes[..bytes.len().min(PIPE_ATOM)])
            }
        }
    }

    /// Writes all bytes, and waits at most `timeout` for readers.
    ///
    /// # Errors
    ///
    /// Errors of the system; [`Errno::TIMEDOUT`] if the time is up.
    pub fn write_within(&self, mut bytes: &[u8], timeout: Duration) -> Result<(), Errno> {
        let until = clock::now() + timeout;
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let left = until.saturating_duration_since(clock::now());
                    let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
                    if poll(&mut [PollFd::new(&self.fd(), PollFlags::OUT)], Some(&left)) == Ok(0) {
                        return Err(Errno::TIMEDOUT);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// True if it is a terminal.
    pub fn is_terminal(&self) -> bool {
        rustix::termios::isatty(self.fd())
    }

    /// Descriptor that becomes writable when more is taken.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.place {
            TargetFd::Ours(stream) => fd_of(*stream),
            TargetFd::Own(own) => own.as_fd(),
        }
    }
}

/// Writes `text` to standard error, directly before the exit. Waits for a slow reader up to a time
/// limit; the rest is dropped.
pub fn write_last(text: &[u8]) {
    let to = Target::ours(Stream::Err);
    let _ = to.write_within(text, LAST_PATIENCE);
}

fn fd_of(stream: Stream) -> BorrowedFd<'static> {
    match stream {
        Stream::Out => rustix::stdio::stdout(),
        Stream::Err => rustix::stdio::stderr(),
    }
}

/// Opens the same pipe or terminal once more. `None` if it belongs to another user, or without `/proc`.
fn open_again(stream: Stream) -> Option<OwnedFd> {
    let path = match stream {
        Stream::Out => "/proc/self/fd/1",
        Stream::Err => "/proc/self/fd/2",
    };
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    system_file::open(path, flags).ok().map(OwnedFd::from)
}

/// True if both streams lead to the same place, as after `2>&1`. Two outlets would then cut each other's
/// lines; one must serve both.
pub fn streams_are_one() -> bool {
    let (Ok(out), Ok(err)) = (fstat(fd_of(Stream::Out)), fstat(fd_of(Stream::Err))) else {
        return false;
    };
    (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino)
}

/// Time limit for a reader to take the last messages of the launcher.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// A pipe that is reported writable takes at least this much (`PIPE_BUF`).
const PIPE_ATOM: usize = 4096;
