//! Output of a command that has a time limit.

use crate::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Runs `command` without input until it has ended and closed its output. `None` if it has not within
/// `limit`; it is killed then. The first 64 MiB of each stream are kept. The caller sets where standard error
/// leads, which is read if it is a pipe.
pub fn output_within(command: &mut Command, limit: Duration) -> io::Result<Option<Output>> {
    let deadline = clock::now() + limit;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = collect(&mut child, deadline);
    if !matches!(output, Ok(Some(_))) {
        let _ = child.kill();
        let _ = child.wait();
    }
    output
}

fn collect(child: &mut Child, deadline: Instant) -> io::Result<Option<Output>> {
    let mut out = Collected::of(child.stdout.take().map(OwnedFd::from));
    let mut err = Collected::of(child.stderr.take().map(OwnedFd::from));
    loop {
        let left = deadline.saturating_duration_since(clock::now());
        let open = [&out, &err].into_iter().filter_map(|stream| stream.from.as_ref());
        let mut open = Vec::from_iter(open.map(|from| PollFd::new(from, PollFlags::IN)));
        if open.is_empty() {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(Output { status, stdout: out.bytes, stderr: err.bytes }));
            }
            if left.is_zero() {
                return Ok(None);
            }
            // It ends soon after it has closed its output, unless it is stopped.
            thread::sleep(LOOK_EVERY);
            continue;
        }
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut open, Some(&left)) {
            Ok(0) => return Ok(None),
            // The end of another child is a signal; the time that is left is measured anew.
            Err(Errno::INTR) => continue,
            other => other?,
        };
        let ready = Vec::from_iter(open.iter().map(|stream| !stream.revents().is_empty()));
        let mut ready = ready.into_iter();
        for stream in [&mut out, &mut err].into_iter().filter(|stream| stream.from.is_some()) {
            if ready.next() == Some(true) {
                stream.read()?;
            }
        }
    }
}

/// A stream, and what has been read of it.
struct Collected {
    /// `None` once it has ended.
    from: Option<OwnedFd>,
    bytes: Vec<u8>,
}

impl Collected {
    const fn of(from: Option<OwnedFd>) -> Self {
        Self { from, bytes: Vec::new() }
    }

    /// Reads what is there.
    fn read(&mut self) -> io::Result<()> {
        let Some(from) = &self.from else { return Ok(()) };
        let mut piece = [0; 65536];
        match rustix::io::read(from, &mut piece)? {
            0 => self.from = None,
            len if self.bytes.len() < BYTES_MAX => self.bytes.extend_from_slice(&piece[..len]),
            _ => {}
        }
        Ok(())
    }
}

/// Maximum number of bytes that are kept of a stream: names of the hosts of the largest machines, stacks of
/// thousands of threads.
const BYTES_MAX: usize = 64 << 20;

const LOOK_EVERY: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stderr(Stdio::piped());
        command
    }

    #[test]
    fn command_that_ends_has_its_output_of_any_length() {
        let script = "head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2; exit 3";
        let output = output_within(&mut shell(script), Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 200_000));
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn command_that_does_not_end_or_close_its_output_is_killed() {
        for script in ["exec sleep 600", "exec sleep 600 > /dev/null 2>&1", "sleep 1 & exit 0"] {
            let output = output_within(&mut shell(script), Duration::from_millis(30)).unwrap();
            assert!(output.is_none(), "{script}");
        }
        let missing = output_within(&mut Command::new("/nowhere/squeue"), Duration::from_secs(60));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
