//! Standard input of ranks.
//!
//! A single reader gets the launcher's own descriptor: it reads what it wants, and the rest is there for
//! the next program after the launcher. Several readers are fed by a [`Feed`]. A rank with a terminal of
//! its own reads that, and the launcher's input is typed there ([`Pty`]).

use super::StreamOwner;
use super::feed::Feed;
use super::pty::Pty;
use super::source::{CHUNK, Source};
use crate::settings::Output;
use crate::settings::output::StdinTo;
use pmi_host_os::poller::Poller;
use pmi_host_os::refusal;
use pmi_host_os::stream::Streams;
use rustix::fd::OwnedFd;
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::ffi::CString;
use std::io;
use std::time::Instant;

/// Readers of the launcher's standard input.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// Ranks of the first job, in ascending order.
    readers: Vec<u32>,
    /// For a single reader, until it is started.
    ours: Option<OwnedFd>,
    /// For several readers.
    feed: Option<Feed>,
    terminal: Option<Terminal>,
}

/// The terminal of one rank.
#[derive(Debug)]
struct Terminal {
    rank: u32,
    name: CString,
    pty: Pty,
    /// Number of its process while it runs.
    process: Option<u32>,
}

/// Standard streams of a rank before its start, and what they are connected with here.
#[derive(Debug)]
pub(crate) struct RankInput {
    pub(crate) streams: Streams,
    /// Writing end of the pipe that is its standard input, if the launcher writes it.
    pub(crate) pipe: Option<InputWriter>,
}

/// Writing end of the standard input of a rank.
#[derive(Debug)]
pub(crate) enum InputWriter {
    /// The input of the launcher.
    Fed(OwnedFd),
    /// What PMIx requests push.
    Pushed(OwnedFd),
}

impl RankInput {
    /// Streams into which the launcher writes nothing.
    const fn of(streams: Streams) -> Self {
        Self { streams, pipe: None }
    }
}

impl Inputs {
    /// Determines the readers of standard input among the `ranks` that are started here;
    /// [`Output::check_readers`] has accepted them.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn new(settings: &Output, ranks: u32) -> Result<Self, String> {
        if let Some(rank) = settings.pty {
            return Self::of_terminal(rank, settings);
        }
        let readers: Vec<u32> = match &settings.stdin {
            StdinTo::First => (0..ranks.min(1)).collect(),
            StdinTo::All => (0..ranks).collect(),
            StdinTo::NoRank => Vec::new(),
            StdinTo::Ranks(list) => list.clone(),
        };
        let unusable =
            |error| format!("standard input cannot be forwarded: {}", refusal::words(&error));
        let ours = || rustix::stdio::stdin().try_clone_to_owned();
        let feed = |fd| Ok(Feed::new(Source::new(fd)?, readers.len()));
        let (ours, feed) = match readers.len() {
            0 => (None, None),
            1 => (Some(ours().map_err(unusable)?), None),
            _ => (None, Some(ours().and_then(feed).map_err(unusable)?)),
        };
        Ok(Self { readers, ours, feed, terminal: None })
    }

    /// No reader among the ranks.
    pub(crate) fn none() -> Self {
        Self { readers: Vec::new(), ours: None, feed: None, terminal: None }
    }

    fn of_terminal(rank: u32, settings: &Output) -> Result<Self, String> {
        let is_reader = settings.stdin != StdinTo::NoRank;
        let keys = is_reader.then(|| rustix::stdio::stdin().try_clone_to_owned()).transpose();
        let (pty, name) = keys
            .and_then(Pty::open)
            .map_err(|error| format!("there is no terminal for rank {rank}: {error}"))?;
        let terminal = Some(Terminal { rank, name, pty, process: None });
        Ok(Self { readers: Vec::new(), ours: None, feed: None, terminal })
    }

    /// Standard streams for a rank that is about to start.
    pub(crate) fn open(
        &mut self,
        StreamOwner { group, rank }: StreamOwner,
    ) -> io::Result<RankInput> {
        if group != 0 {
            return Ok(RankInput::of(Streams::Pipes(None)));
        }
        if let Some(terminal) = self.terminal.as_ref().filter(|terminal| terminal.rank == rank) {
            return Ok(RankInput::of(Streams::Terminal(terminal.name.clone())));
        }
        if self.readers.binary_search(&rank).is_err() {
            return Ok(RankInput::of(Streams::Pipes(None)));
        }
        if self.feed.is_none() {
            return Ok(RankInput::of(Streams::Pipes(self.ours.take())));
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        // A capacity of one page, so that the pipe holds one piece.
        fcntl_setpipe_size(&write, CHUNK)?;
        ioctl_fionbio(&write, true)?;
        let pipe = Some(InputWriter::Fed(write));
        Ok(RankInput { streams: Streams::Pipes(Some(read)), pipe })
    }

    /// A rank was started, as this process, and reads from this pipe.
    pub(crate) fn add(&mut self, process: u32, pipe: OwnedFd, poller: &Poller) -> io::Result<()> {
        self.turn(|feed| feed.add(process, pipe, poller))
    }

    /// The rank with a terminal was started, as this process. Returns a descriptor for its output.
    pub(crate) fn begin(&mut self, process: u32, poller: &Poller) -> io::Result<Option<OwnedFd>> {
        let Some(terminal) = &mut self.terminal else { return Ok(None) };
        terminal.process = Some(process);
        terminal.pty.begin(process, poller)?;
        terminal.pty.output().map(Some)
    }

    /// A process has terminated.
    pub(crate) fn end(&mut self, process: u32, poller: &Poller) -> io::Result<()> {
        match self.terminal.as_mut().filter(|terminal| terminal.process == Some(process)) {
            Some(terminal) => terminal.pty.end(poller),
            None => Ok(()),
        }
    }

    /// The terminal of a process that has terminated is free for others.
    pub(crate) fn end_terminal(&mut self, poller: &Poller) -> io::Result<()> {
        self.terminal.as_mut().map_or(Ok(()), |terminal| terminal.pty.end(poller))
    }

    /// The launcher's terminal has changed its size or its foreground process group.
    pub(crate) fn handle_terminal_changes(&mut self, poller: &Poller) -> io::Result<()> {
        self.terminal
            .as_mut()
            .map_or(Ok(()), |terminal| terminal.pty.handle_terminal_changes(poller))
    }

    /// Sets the size of the terminal: that of the user on another host.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        if let Some(terminal) = &self.terminal {
            terminal.pty.resize(rows, columns);
        }
    }

    /// The rank to which every key on the launcher's terminal belongs now, if any.
    pub(crate) fn raw_for(&self) -> Option<StreamOwner> {
        let terminal = self.terminal.as_ref().filter(|terminal| terminal.pty.is_raw());
        terminal.map(|terminal| StreamOwner { group: 0, rank: terminal.rank })
    }

    /// The pipe of a reader is empty or closed, or a terminal takes more.
    pub(crate) fn ready(&mut self, process: u32, poller: &Poller) -> io::Result<()> {
        if let Some(terminal) = &mut self.terminal {
            return terminal.pty.pump(poller);
        }
        self.turn(|feed| feed.ready(process, poller))
    }

    /// Standard input is readable.
    pub(crate) fn source_ready(&mut self, poller: &Poller) -> io::Result<()> {
        if let Some(terminal) = &mut self.terminal {
            return terminal.pty.pump(poller);
        }
        self.turn(|feed| feed.serve_all(poller))
    }

    /// Time of the next [`tick`](Self::tick).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.feed.as_ref().and_then(Feed::deadline)
    }

    /// Does the work that is due at `now`.
    pub(crate) fn tick(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        match self.deadline() {
            Some(at) if now >= at => self.source_ready(poller),
            _ => Ok(()),
        }
    }

    /// Leaves unread input in standard input, and restores the terminal. For the end.
    pub(crate) fn finish(&mut self) {
        self.terminal = None;
        if let Some(feed) = self.feed.take() {
            feed.finish();
        }
    }

    /// Closes standard input after the last reader, so that the system reports that to its writer.
    fn turn(&mut self, with: impl FnOnce(&mut Feed) -> io::Result<()>) -> io::Result<()> {
        let Some(feed) = &mut self.feed else { return Ok(()) };
        with(feed)?;
        if feed.is_over() {
            self.finish();
        }
        Ok(())
    }
}
