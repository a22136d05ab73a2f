//! Standard input that PMIx tools push to ranks.

use crate::stdio::inputs::{InputWriter, RankInput};
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_host_os::stream::Streams;
use rustix::fd::OwnedFd;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::{BTreeMap, VecDeque};
use std::io;

/// Pipes of ranks whose input comes from tools, by the numbers of their processes.
#[derive(Debug, Default)]
pub(crate) struct PushedInputs {
    pipes: BTreeMap<u32, PushedPipe>,
}

/// The launcher's end of a pipe, and the input that did not fit.
#[derive(Debug)]
struct PushedPipe {
    /// `None` once it is closed: further input has no reader.
    pipe: Option<OwnedFd>,
    queue: VecDeque<u8>,
    /// No input follows: the pipe is closed after the queue.
    is_complete: bool,
    watched: Option<Interest>,
}

/// Result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The input was queued, or the process does not read any more.
    Taken,
    /// The process takes no pushed input.
    NoPipe,
    /// Too much is queued.
    Full,
}

impl PushedInputs {
    /// Makes the standard input of a rank that is about to start.
    pub(crate) fn open() -> io::Result<RankInput> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&write, true)?;
        let pipe = Some(InputWriter::Pushed(write));
        Ok(RankInput { streams: Streams::Pipes(Some(read)), pipe })
    }

    /// A rank was started, as this process, and reads from this pipe.
    pub(crate) fn add(&mut self, process: u32, pipe: OwnedFd) {
        let queue = VecDeque::new();
        let pushed = PushedPipe { pipe: Some(pipe), queue, is_complete: false, watched: None };
        self.pipes.insert(process, pushed);
    }

    /// True if this process gets its input here.
    pub(crate) fn has(&self, process: u32) -> bool {
        self.pipes.contains_key(&process)
    }

    /// A process has exited.
    pub(crate) fn end(&mut self, process: u32) {
        self.pipes.remove(&process);
    }

    /// Writes `input` to a process as far as its pipe takes it, and queues the rest. With `is_complete`, the
    /// pipe is closed after it.
    pub(crate) fn push(
        &mut self,
        process: u32,
        (input, is_complete): (&[u8], bool),
        poller: &Poller,
    ) -> io::Result<Pushed> {
        let Some(pipe) = self.pipes.get_mut(&process) else { return Ok(Pushed::NoPipe) };
        if pipe.queue.len() + input.len() > QUEUED_MAX {
            return Ok(Pushed::Full);
        }
        if !pipe.is_complete {
            pipe.queue.extend(input);
            pipe.is_complete = is_complete;
        }
        self.ready(process, poller)?;
        Ok(Pushed::Taken)
    }

    /// The pipe of a process takes more, or has no reader any more.
    pub(crate) fn ready(&mut self, process: u32, poller: &Poller) -> io::Result<()> {
        let Some(pushed) = self.pipes.get_mut(&process) else { return Ok(()) };
        let PushedPipe { pipe: Some(pipe), queue, is_complete, watched } = pushed else {
            pushed.queue.clear();
            return Ok(());
        };
        let mut has_reader = true;
        while has_reader && !queue.is_empty() {
            match rustix::io::write(&*pipe, queue.as_slices().0) {
                Ok(count) => drop(queue.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let change = (watched, Some(Interest::Write));
                    return poller.rewatch(Token::Input(process), &*pipe, change);
                }
                Err(_) => has_reader = false,
            }
        }
        poller.rewatch(Token::Input(process), &*pipe, (watched, None))?;
        if *is_complete || !has_reader {
            queue.clear();
            pushed.pipe = None;
        }
        Ok(())
    }
}

/// Maximum number of bytes that a process has not read.
const QUEUED_MAX: usize = 64 << 20;
