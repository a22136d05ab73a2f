//! Execution of starters, by several threads.
//!
//! `posix_spawn` returns when the child has become the program, and until then the child needs a processor.
//! A starter leads a session, which competes with those of the starters before it. One after the other, the
//! last `ssh` of eight begins up to 40 ms after the first one on two processors, and its handshake is alone
//! at the end.

use super::StarterCommand;
use super::child::StarterChild;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};

/// A starter before its execution: its ends of the pipes, and those of the head. The key is on its way.
#[derive(Debug)]
pub(super) struct PreparedStarter {
    pub(super) command: StarterCommand,
    /// What follows the key on its standard input.
    pub(super) input: Option<StarterInput>,
    /// Its standard error, which does not block here, and its standard output unless that is the channel.
    pub(super) output: OwnedFd,
    /// Its standard output, and its standard input behind the key and the program, if they carry connections.
    pub(super) channel: Option<(OwnedFd, OwnedFd)>,
    their_input: OwnedFd,
    pub(super) their_output: OwnedFd,
    /// Its end of the channel.
    their_channel: Option<OwnedFd>,
}

/// This program, as far as it was not written to the standard input of a starter.
#[derive(Debug)]
pub(super) struct StarterInput {
    pub(super) pipe: File,
    pub(super) program: Arc<[u8]>,
    pub(super) written: usize,
}

impl PreparedStarter {
    /// Opens the pipes of a starter, and writes the key. `program` follows it on its standard input.
    pub(super) fn new(
        command: StarterCommand,
        key_line: &str,
        program: Option<Arc<[u8]>>,
    ) -> io::Result<Self> {
        let (output, their_output) = pipe_with(PipeFlags::CLOEXEC)?;
        stop_blocking(&output)?;
        let (their_input, mut key) = io::pipe()?;
        // The pipe is empty, so the key fits.
        key.write_all(key_line.as_bytes())?;
        let channel = command.is_relayed.then(|| -> io::Result<_> {
            let (output, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
            Ok(((output, key.try_clone()?.into()), theirs))
        });
        let (channel, their_channel) = channel.transpose()?.unzip();
        let input = program.map(|program| -> io::Result<StarterInput> {
            let pipe = File::from(OwnedFd::from(key));
            stop_blocking(&pipe)?;
            Ok(StarterInput { pipe, program, written: 0 })
        });
        let (input, their_input) = (input.transpose()?, their_input.into());
        Ok(Self { command, input, output, channel, their_input, their_output, their_channel })
    }

    fn spawn(&self) -> io::Result<StarterChild> {
        // Some programs report their failures on standard output, such as the shell of an account that is
        // locked.
        let output = self.their_channel.as_ref().unwrap_or(&self.their_output);
        StarterChild::spawn(&self.command, &self.their_input, output, &self.their_output)
    }
}

fn stop_blocking(pipe: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&pipe)?;
    Ok(fcntl_setfl(&pipe, flags | OFlags::NONBLOCK)?)
}

/// Executes all of them, and returns each with its process or its error, in no particular order.
pub(super) fn spawn_all(
    starters: Vec<PreparedStarter>,
) -> Vec<(PreparedStarter, io::Result<StarterChild>)> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut spawned = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(starter) = starters.get(place) else { return spawned };
            spawned.push((place, starter.spawn()));
        }
    };
    let mut results: Vec<_> = starters.iter().map(|_| None).collect();
    thread::scope(|scope| {
        let others = THREADS.min(starters.len()).saturating_sub(1);
        // Where the number of threads or their memory is limited, there are fewer.
        let start = |_| Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work).ok();
        let threads: Vec<_> = (0..others).map_while(start).collect();
        let mut spawned = work();
        spawned.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()));
        for (place, result) in spawned {
            if let Some(slot) = results.get_mut(place) {
                *slot = Some(result);
            }
        }
    });
    let retried = |(starter, result): (PreparedStarter, Option<io::Result<StarterChild>>)| {
        let result = match result {
            // Each thread counted as a process of the user.
            Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => starter.spawn(),
            Some(result) => result,
            None => starter.spawn(),
        };
        (starter, result)
    };
    starters.into_iter().zip(results).map(retried).collect()
}

/// Threads that wait for the execution of starters at the same time, that of the caller included.
const THREADS: usize = 8;

/// Stack of such a thread.
const STACK_BYTES: usize = 128 * 1024;
