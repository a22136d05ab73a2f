//! Our own standard output and standard error, written to without ever waiting for their reader.

use crate::launch::stdio::Stream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

/// One of our two output streams, with what could not be written yet.
#[derive(Debug)]
pub struct Outlet {
    target: Target,
    waiting: Vec<u8>,
    written: usize,
    state: State,
}

/// How far a call of [`Outlet::flush`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Everything is written.
    All,
    /// The reader is slow; call again when [`Outlet::source`] takes more.
    Waiting,
    /// The reader has gone, now or earlier; what was to be written is dropped.
    Closed,
    /// Writing failed for this reason, now or earlier; as for `Closed`.
    Failed(Errno),
}

/// How to write so that it cannot block. The descriptor is shared with whoever started us, so its own
/// flags stay as they are.
#[derive(Debug)]
enum Target {
    /// A pipe or terminal opened again, with flags of our own.
    Own(OwnedFd),
    /// A regular file: writing takes as long as it takes, but waits for nobody.
    File(Stream),
    /// A socket, which can be told not to block for one call.
    Socket(Stream),
    /// Anything else: asked first, and then given no more than a pipe takes at once.
    Asked(Stream),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Closed,
    Failed(Errno),
}

impl Outlet {
    /// Finds out what `stream` is and how to write to it.
    pub fn new(stream: Stream) -> Self {
        Self { target: Target::of(stream), waiting: Vec::new(), written: 0, state: State::Open }
    }

    /// Adds `bytes` to what is to be written. Nothing is written before [`flush`](Self::flush), so that
    /// many lines make one call.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.state == State::Open {
            self.waiting.extend_from_slice(bytes);
        }
    }

    /// Writes as much as the reader takes now.
    pub fn flush(&mut self) -> Flushed {
        while self.written < self.waiting.len() && self.state == State::Open {
            match self.target.write(&self.waiting[self.written..]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.waiting.drain(..self.written);
                    self.written = 0;
                    return Flushed::Waiting;
                }
                Err(Errno::PIPE) => self.state = State::Closed,
                Err(error) => self.state = State::Failed(error),
            }
        }
        self.written = 0;
        self.waiting.clear();
        self.waiting.shrink_to(FULL);
        match self.state {
            State::Open => Flushed::All,
            State::Closed => Flushed::Closed,
            State::Failed(error) => Flushed::Failed(error),
        }
    }

    /// True when so much is waiting that nobody should add more before some is written.
    pub fn is_full(&self) -> bool {
        self.waiting.len() - self.written >= FULL
    }

    /// What becomes writable when the reader takes more.
    pub fn source(&self) -> BorrowedFd<'_> {
        self.target.fd()
    }
}

impl Target {
    fn of(stream: Stream) -> Self {
        let Ok(stat) = fstat(fd_of(stream)) else { return Self::Asked(stream) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File(stream),
            FileType::Socket => Self::Socket(stream),
            FileType::Fifo | FileType::CharacterDevice => match open_again(stream) {
                Some(own) => Self::Own(own),
                None => Self::Asked(stream),
            },
            _ => Self::Asked(stream),
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Self::Own(own) => rustix::io::write(own, bytes),
            Self::File(stream) => rustix::io::write(fd_of(*stream), bytes),
            Self::Socket(stream) => {
                rustix::net::send(fd_of(*stream), bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            }
            Self::Asked(stream) => {
                let fd = fd_of(*stream);
                let mut wanted = [PollFd::new(&fd, PollFlags::OUT)];
                if poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? == 0 {
                    return Err(Errno::AGAIN);
                }
                rustix::io::write(fd_of(*stream), &bytes[..bytes.len().min(PIPE_ATOM)])
            }
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(own) => own.as_fd(),
            Self::File(stream) | Self::Socket(stream) | Self::Asked(stream) => fd_of(*stream),
        }
    }
}

fn fd_of(stream: Stream) -> BorrowedFd<'static> {
    match stream {
        Stream::Out => rustix::stdio::stdout(),
        Stream::Err => rustix::stdio::stderr(),
    }
}

/// Opens the same pipe or terminal once more. It may belong to somebody else, or there may be no
/// `/proc`: then there is none.
fn open_again(stream: Stream) -> Option<OwnedFd> {
    let path = match stream {
        Stream::Out => "/proc/self/fd/1",
        Stream::Err => "/proc/self/fd/2",
    };
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).ok()?;
    OpenOptions::new().write(true).custom_flags(flags).open(path).ok().map(OwnedFd::from)
}

/// True when both streams lead to the same place, as after `2>&1`. Two outlets would then cut each
/// other's lines; one must do for both.
pub fn streams_are_one() -> bool {
    let (Ok(out), Ok(err)) = (fstat(fd_of(Stream::Out)), fstat(fd_of(Stream::Err))) else {
        return false;
    };
    (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino)
}

/// With this much waiting, output of ranks stays in their pipes: what a pipe of the system holds.
const FULL: usize = 64 * 1024;

/// A pipe that says it takes something takes at least this much (`PIPE_BUF`).
const PIPE_ATOM: usize = 4096;
