//! One source, several readers, each at its own pace.

use super::source::{CHUNK, Source, SourceRead};
use pmi_host_os::clock;
use pmi_host_os::poller::{Interest, Poller, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, ioctl_fionread};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

/// Readers of one source, by the numbers of their processes.
///
/// Each has a pipe that holds one piece: the next piece is written when the pipe is empty.
#[derive(Debug)]
pub(crate) struct Feed {
    source: Source,
    watched: Option<Interest>,
    readers: BTreeMap<u32, InputPipe>,
    /// Number of readers still to be added.
    pending_readers: usize,
    /// Readers with empty pipes.
    hungry: BTreeSet<u32>,
    /// Number of readers at each position, including those still to be added.
    positions: BTreeMap<u64, usize>,
    /// A reader waits for the slowest one.
    is_full: bool,
    /// Time of the next attempt at a source without readiness events.
    retry_at: Option<Instant>,
    chunk: Vec<u8>,
}

#[derive(Debug)]
struct InputPipe {
    pipe: OwnedFd,
    watched: Option<Interest>,
    /// Position up to which the reader has read.
    position: u64,
    /// Number of bytes written to the pipe since.
    given: u64,
}

impl Feed {
    /// Creates a feed for `count` readers.
    pub(crate) fn new(source: Source, count: usize) -> Self {
        Self {
            source,
            watched: None,
            readers: BTreeMap::new(),
            pending_readers: count,
            hungry: BTreeSet::new(),
            positions: BTreeMap::from([(0, count)]),
            is_full: false,
            retry_at: None,
            chunk: Vec::with_capacity(CHUNK),
        }
    }

    /// Adds a reader with the launcher's end of its pipe, which must not block.
    pub(crate) fn add(&mut self, process: u32, pipe: OwnedFd, poller: &Poller) -> io::Result<()> {
        self.pending_readers = self.pending_readers.saturating_sub(1);
        let reader = InputPipe { pipe, watched: None, position: 0, given: 0 };
        self.readers.insert(process, reader);
        self.hungry.insert(process);
        self.serve(process, poller)
    }

    /// A pipe is ready: all of it was read, or it has no reader any more.
    pub(crate) fn ready(&mut self, process: u32, poller: &Poller) -> io::Result<()> {
        let Some(reader) = self.readers.get_mut(&process) else { return Ok(()) };
        match unread(&reader.pipe) {
            0 => {
                let position = reader.position + std::mem::take(&mut reader.given);
                let from = std::mem::replace(&mut reader.position, position);
                self.source.consume(position);
                self.hungry.insert(process);
                self.serve(process, poller)?;
                self.move_on(from, self.readers.contains_key(&process).then_some(position));
            }
            _ if has_no_reader(&reader.pipe) => self.remove(process),
            _ => return Ok(()),
        }
        if self.is_full { self.serve_all(poller) } else { Ok(()) }
    }

    /// The source is readable, or an attempt is due.
    pub(crate) fn serve_all(&mut self, poller: &Poller) -> io::Result<()> {
        self.watch(false, poller)?;
        (self.is_full, self.retry_at) = (false, None);
        let hungry: Vec<u32> = self.hungry.iter().copied().collect();
        hungry.into_iter().try_for_each(|process| self.serve(process, poller))
    }

    /// Time of the next [`serve_all`](Self::serve_all) without an event.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.retry_at
    }

    /// True if no reader is left and none is still to be added.
    pub(crate) fn is_over(&self) -> bool {
        self.readers.is_empty() && self.pending_readers == 0
    }

    /// Leaves unread input in the source.
    pub(crate) fn finish(mut self) {
        while let Some((&process, _)) = self.readers.first_key_value() {
            self.remove(process);
        }
    }

    /// Writes the next piece to a reader with an empty pipe.
    fn serve(&mut self, process: u32, poller: &Poller) -> io::Result<()> {
        let Some(reader) = self.readers.get_mut(&process) else { return Ok(()) };
        match self.source.read_at(reader.position, &mut self.chunk) {
            SourceRead::Some => match rustix::io::write(&reader.pipe, &self.chunk) {
                Ok(count) => {
                    reader.given = u64::try_from(count).unwrap_or(0);
                    self.hungry.remove(&process);
                    return reader.watch(process, true, poller);
                }
                Err(Errno::INTR | Errno::AGAIN) => return reader.watch(process, true, poller),
                Err(_) => self.remove(process),
            },
            SourceRead::End => self.remove(process),
            later => {
                reader.watch(process, false, poller)?;
                match later {
                    SourceRead::Full => self.is_full = true,
                    SourceRead::Elsewhere => self.retry_at = Some(clock::now() + RETRY),
                    _ => self.watch(true, poller)?,
                }
            }
        }
        Ok(())
    }

    /// Removes a reader. The unread part of its last piece is not taken.
    fn remove(&mut self, process: u32) {
        let Some(reader) = self.readers.remove(&process) else { return };
        self.hungry.remove(&process);
        let left = unread(&reader.pipe);
        self.source.consume(reader.position + reader.given.saturating_sub(left));
        self.move_on(reader.position, None);
    }

    /// Moves a reader to another position, and drops input that all readers have passed.
    fn move_on(&mut self, from: u64, to: Option<u64>) {
        if let Some(count) = self.positions.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                self.positions.remove(&from);
            }
        }
        if let Some(to) = to {
            *self.positions.entry(to).or_default() += 1;
        }
        if let Some((&slowest, _)) = self.positions.first_key_value() {
            self.source.forget(slowest);
        }
    }

    fn watch(&mut self, watch: bool, poller: &Poller) -> io::Result<()> {
        let change = (&mut self.watched, watch.then_some(Interest::Read));
        match poller.rewatch(Token::Source, self.source.fd(), change) {
            // A device that the poller does not support.
            Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                self.retry_at = Some(clock::now() + RETRY);
                Ok(())
            }
            other => other,
        }
    }
}

impl InputPipe {
    fn watch(&mut self, process: u32, watch: bool, poller: &Poller) -> io::Result<()> {
        let change = (&mut self.watched, watch.then_some(Interest::Write));
        poller.rewatch(Token::Input(process), &self.pipe, change)
    }
}

fn unread(pipe: &OwnedFd) -> u64 {
    ioctl_fionread(pipe).unwrap_or(0)
}

fn has_no_reader(pipe: &OwnedFd) -> bool {
    let mut state = [PollFd::new(pipe, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut state, Some(&now)).is_ok() && state[0].revents().contains(PollFlags::ERR)
}

/// Interval of attempts at a source without readiness events.
const RETRY: Duration = Duration::from_millis(500);
