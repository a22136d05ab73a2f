//! Output of all ranks, from their pipes to our own two streams.

use crate::launch::outlet::{Flushed, Outlet, streams_are_one};
use crate::launch::stdio::{Lines, Stream};
use crate::report;
use crate::server::ready::{Interest, Poller, Token};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::io;

/// The pipes of all ranks and the two outlets they lead to.
#[derive(Debug)]
pub(super) struct Outputs {
    /// By number of the process, then by stream.
    pipes: Vec<[Option<Pipe>; 2]>,
    open_count: usize,
    outlets: Vec<Watched>,
    /// One buffer to read into, lent to whichever pipe is read. Of its memory only what output has once
    /// filled is ever touched.
    scratch: Vec<u8>,
}

/// The reading end of a pipe and its unfinished line.
#[derive(Debug)]
struct Pipe {
    fd: OwnedFd,
    lines: Lines,
}

/// An outlet and what became of it.
#[derive(Debug)]
struct Watched {
    outlet: Outlet,
    stream: Stream,
    /// The poller tells when it takes more.
    is_watched: bool,
    is_closed: bool,
    is_flushed: bool,
    failure_said: bool,
}

/// What became of one attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    Some,
    Later,
    End,
}

impl Outputs {
    /// Prepares our own ends.
    pub(super) fn new() -> Self {
        let streams = if streams_are_one() { &Stream::BOTH[..1] } else { &Stream::BOTH[..] };
        let outlets = streams.iter().map(|&stream| Watched::new(stream)).collect();
        Self { pipes: Vec::new(), open_count: 0, outlets, scratch: Vec::with_capacity(SCRATCH) }
    }

    /// Takes over a pipe of a rank that was started.
    ///
    /// Errors: those of the system.
    pub(super) fn add(
        &mut self,
        process: u32,
        stream: Stream,
        fd: OwnedFd,
        poller: &Poller,
    ) -> io::Result<()> {
        if !self.outlet(stream).is_closed {
            poller.add(Token::Output(stream, process), &fd, Interest::Read)?;
            let needed = self.pipes.len().max(index(process) + 1);
            self.pipes.resize_with(needed, || [None, None]);
            self.pipes[index(process)][stream.index()] = Some(Pipe { fd, lines: Lines::default() });
            self.open_count += 1;
        }
        Ok(())
    }

    /// Reads what a rank has written, once. What is left is told again.
    pub(super) fn read(&mut self, stream: Stream, process: u32) {
        self.read_once(stream, process);
    }

    /// Reads all that a rank has written so far, so that its last words come before ours.
    pub(super) fn drain(&mut self, process: u32) {
        for stream in Stream::BOTH {
            while self.has_something(stream, process)
                && self.read_once(stream, process) == Read::Some
            {}
        }
    }

    /// Adds a line of our own to standard error.
    pub(super) fn say(&mut self, what: impl std::fmt::Display) {
        self.outlet(Stream::Err).outlet.push(report::line(what).as_bytes());
    }

    /// Writes what our reader takes, and lets ranks wait while it takes too little.
    ///
    /// Errors: those of the system's readiness calls; trouble with our own streams is not among them.
    pub(super) fn flush(&mut self, poller: &mut Poller) -> io::Result<()> {
        let shared = self.outlets.len() == 1;
        let mut lost = None;
        for place in 0..self.outlets.len() {
            let watched = &mut self.outlets[place];
            let flushed = watched.outlet.flush();
            watched.is_flushed = flushed != Flushed::Waiting;
            watched.watch(flushed == Flushed::Waiting, poller)?;
            if let Flushed::Failed(error) = flushed
                && !std::mem::replace(&mut watched.failure_said, true)
            {
                lost = Some(error);
            }
            let (stream, full) = (watched.stream, watched.outlet.is_full());
            let closes =
                flushed == Flushed::Closed && !std::mem::replace(&mut watched.is_closed, true);
            for stream in Stream::BOTH.into_iter().filter(|&other| shared || other == stream) {
                poller.pause(stream, full)?;
                if closes {
                    self.close(stream);
                }
            }
        }
        match lost {
            Some(error) => {
                self.say(report::output_lost(error));
                self.flush(poller)
            }
            None => Ok(()),
        }
    }

    /// True when nothing more can come and everything that came is written.
    pub(super) fn is_done(&self) -> bool {
        self.open_count == 0 && self.is_flushed()
    }

    /// True when everything that came so far is written.
    pub(super) fn is_flushed(&self) -> bool {
        self.outlets.iter().all(|watched| watched.is_flushed)
    }

    /// True when ranks still can write.
    pub(super) fn is_open(&self) -> bool {
        self.open_count > 0
    }

    /// True when writing to one of our streams failed for another reason than that its reader has gone.
    pub(super) fn has_failed(&self) -> bool {
        self.outlets.iter().any(|watched| watched.failure_said)
    }

    /// True when a reader of ours has gone, so that ranks may be ended by writing.
    pub(super) fn has_closed(&self) -> bool {
        self.outlets.iter().any(|watched| watched.is_closed)
    }

    /// Stops reading everywhere. Unfinished lines go out as they are.
    pub(super) fn close_all(&mut self) {
        for stream in Stream::BOTH {
            self.close(stream);
        }
    }

    /// Closes our ends of one stream of all ranks: who writes on is told by the system, just as if the
    /// rank had written to our reader itself.
    fn close(&mut self, stream: Stream) {
        for process in 0..self.pipes.len() {
            self.end(stream, process);
        }
    }

    fn end(&mut self, stream: Stream, process: usize) {
        if let Some(mut pipe) = self.pipes[process][stream.index()].take() {
            self.open_count -= 1;
            let outlet = &mut self.outlet(stream).outlet;
            pipe.lines.end(|rest| outlet.push(rest));
        }
    }

    fn read_once(&mut self, stream: Stream, process: u32) -> Read {
        let place = self.outlets.len().min(stream.index() + 1) - 1;
        let outlet = &mut self.outlets[place].outlet;
        if outlet.is_full() && outlet.flush() == Flushed::Waiting && outlet.is_full() {
            return Read::Later;
        }
        let Some(pipe) = &mut self.pipes[index(process)][stream.index()] else {
            return Read::Later;
        };
        self.scratch.clear();
        match rustix::io::read(&pipe.fd, spare_capacity(&mut self.scratch)) {
            Ok(count) if count > 0 => {
                pipe.lines.take(&self.scratch, |piece| outlet.push(piece));
                Read::Some
            }
            Err(Errno::INTR | Errno::AGAIN) => Read::Later,
            // A pipe has no other errors; should there be one, nothing more can come.
            Ok(_) | Err(_) => {
                self.end(stream, index(process));
                Read::End
            }
        }
    }

    fn has_something(&self, stream: Stream, process: u32) -> bool {
        let Some(pipe) = &self.pipes[index(process)][stream.index()] else { return false };
        let mut wanted = [PollFd::new(&pipe.fd, PollFlags::IN)];
        poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }

    fn outlet(&mut self, stream: Stream) -> &mut Watched {
        let last = self.outlets.len() - 1;
        &mut self.outlets[stream.index().min(last)]
    }
}

impl Watched {
    fn new(stream: Stream) -> Self {
        Self {
            outlet: Outlet::new(stream),
            stream,
            is_watched: false,
            is_closed: false,
            is_flushed: true,
            failure_said: false,
        }
    }

    fn watch(&mut self, watch: bool, poller: &Poller) -> io::Result<()> {
        if watch == self.is_watched {
            return Ok(());
        }
        self.is_watched = watch;
        let token = Token::Outlet(self.stream);
        match watch {
            true => poller.add(token, self.outlet.source(), Interest::Write),
            false => poller.remove(token, self.outlet.source()),
        }
    }
}

/// A number as a place in a table, which is smaller than the number of things in it.
pub(super) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// What a pipe of the system holds at most, unless somebody changed that.
const SCRATCH: usize = 64 * 1024;
