//! Raw bytes to a server and back, with a bound on every wait.
//!
//! Deliberately not the project's own client: the check observes the reaction of a server to exactly
//! these bytes, and nothing here may repair them.

use super::verdict::{Finding, Verdict, shown};
use pmi_std::Stream;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use signal_hook::consts::SIGTERM;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One connection to a server.
#[derive(Debug)]
pub(super) struct RawConnection {
    stream: Stream,
    inbox: Vec<u8>,
    timeout: Duration,
    /// Last request, for reports.
    sent: String,
    /// True once a signal has asked this process to terminate.
    is_terminating: Arc<AtomicBool>,
}

/// One message of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// Message without the length before it or the line feed after it.
    body: Vec<u8>,
    separator: u8,
}

impl RawConnection {
    /// Takes over a stream. No wait for an answer exceeds `timeout`, or continues after the launcher has
    /// asked for the end of the process, so that the process can still report it.
    pub(super) fn new(stream: Stream, timeout: Duration) -> Self {
        let is_terminating = Arc::default();
        // Without the handler, the signal terminates the process by default.
        let _ = signal_hook::flag::register(SIGTERM, Arc::clone(&is_terminating));
        Self { stream, inbox: Vec::new(), timeout, sent: String::new(), is_terminating }
    }

    /// Time limit for an answer.
    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sends bytes as they are, in one piece.
    ///
    /// # Errors
    ///
    /// The connection is closed.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Finding> {
        self.sent = shown(bytes);
        self.stream.write_all(bytes).map_err(|error| self.closed(&error.kind().to_string()))
    }

    /// Reads one line.
    ///
    /// # Errors
    ///
    /// Silence, the end of the stream, or a line without end.
    pub(super) fn recv_line(&mut self) -> Result<Reply, Finding> {
        let until = Instant::now() + self.timeout;
        loop {
            if let Some(end) = self.inbox.iter().position(|byte| *byte == b'\n') {
                let mut body: Vec<u8> = self.inbox.drain(..=end).collect();
                body.pop();
                return Ok(Reply { body, separator: b' ' });
            }
            self.more(until)?;
        }
    }

    /// Reads one frame: six characters of length and so many bytes.
    ///
    /// # Errors
    ///
    /// Silence, the end of the stream, or no length.
    pub(super) fn recv_frame(&mut self) -> Result<Reply, Finding> {
        let until = Instant::now() + self.timeout;
        loop {
            if let Some((length, rest)) = self.inbox.split_at_checked(LENGTH) {
                let text = String::from_utf8_lossy(length);
                let Ok(len) = text.trim().parse::<usize>() else {
                    let received = shown(&self.inbox);
                    return Err(
                        Verdict::Wrong.on(format!("no frame after {}: {received}", self.sent))
                    );
                };
                if rest.len() >= len {
                    let body = rest[..len].to_vec();
                    self.inbox.drain(..LENGTH + len);
                    return Ok(Reply { body, separator: b';' });
                }
            }
            self.more(until)?;
        }
    }

    /// Waits for a signal to terminate; false if the time limit passes first.
    pub(super) fn wait_for_termination(&mut self) -> bool {
        let until = Instant::now() + self.timeout;
        while self.more(until).is_ok() {
            self.inbox.clear();
        }
        // A closed connection may be the first sign of a job that is being ended.
        while !self.is_terminating.load(Ordering::Relaxed) && Instant::now() < until {
            std::thread::sleep(SLICE);
        }
        self.is_terminating.load(Ordering::Relaxed)
    }

    fn more(&mut self, until: Instant) -> Result<(), Finding> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.silent());
        }
        if self.inbox.len() > INBOX_MAX {
            return Err(Verdict::Wrong.on(format!("an answer without end to {}", self.sent)));
        }
        // Bytes that arrived before the signal count: a launcher may answer and end the job at once.
        let is_last = self.is_terminating.load(Ordering::Relaxed);
        let _ = set_socket_timeout(&self.stream, Timeout::Recv, Some(SLICE));
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(self.closed("end of stream")),
            Ok(len) => {
                self.inbox.extend_from_slice(&piece[..len]);
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut if is_last => {
                    Err(self.closed("SIGTERM"))
                }
                ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(()),
                kind => Err(self.closed(&kind.to_string())),
            },
        }
    }

    fn silent(&self) -> Finding {
        Verdict::NoAnswer.on(format!("to {}", self.sent))
    }

    fn closed(&self, how: &str) -> Finding {
        Verdict::JobKilled.on(format!("{how} after {}", self.sent))
    }
}

impl Reply {
    /// Printable form of the message.
    pub(super) fn shown(&self) -> String {
        shown(&self.body)
    }

    /// Bytes of the message.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The value of the first field of that name, up to the next separator.
    pub(super) fn field(&self, name: &str) -> Option<&[u8]> {
        self.rest(name).map(|rest| {
            let end = rest.iter().position(|byte| *byte == self.separator);
            &rest[..end.unwrap_or(rest.len())]
        })
    }

    /// The value of the first field of that name and everything behind it.
    pub(super) fn rest(&self, name: &str) -> Option<&[u8]> {
        let mut at = 0;
        loop {
            let rest = &self.body[at..];
            if let Some(value) =
                rest.strip_prefix(name.as_bytes()).and_then(|r| r.strip_prefix(b"="))
            {
                return Some(value);
            }
            at += rest.iter().position(|byte| *byte == self.separator)? + 1;
        }
    }

    /// A field as text.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.field(name).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// A field as a number.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.trim().parse().ok()
    }

    /// True unless a return code reports an error. Older servers omit the code on success.
    pub(super) fn is_good(&self) -> bool {
        self.field("rc").is_none() || self.number("rc") == Some(0)
    }

    /// Finding with this verdict, and this reply as the observation.
    pub(super) fn judged(&self, verdict: Verdict) -> Finding {
        verdict.on(self.shown())
    }

    /// Returns this reply if it means success; else the request was refused.
    pub(super) fn if_good(self) -> Result<Self, Finding> {
        if self.is_good() { Ok(self) } else { Err(self.judged(Verdict::Refused)) }
    }

    /// Returns this reply if it is a `cmd`.
    ///
    /// # Errors
    ///
    /// The reply is another message.
    pub(super) fn expect(self, cmd: &str) -> Result<Self, Finding> {
        if self.field("cmd") == Some(cmd.as_bytes()) {
            return Ok(self);
        }
        Err(Verdict::Wrong.on(format!("{} where {cmd} was due", self.shown())))
    }
}

/// Number of characters of the length of a frame.
pub(super) const LENGTH: usize = 6;

/// Interval between checks for the request to end this process.
const SLICE: Duration = Duration::from_millis(20);

/// Bound of the input, far above any answer.
const INBOX_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn pair() -> (RawConnection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (RawConnection::new(ours.into(), Duration::from_millis(50)), theirs)
    }

    #[test]
    fn lines_and_frames_are_read_one_by_one() {
        let (mut connection, mut server) = pair();
        server
            .write_all(b"cmd=a rc=-1 value=x=y z\ncmd=b\n    11cmd=c;rc=0;7     cmd=d;k")
            .unwrap();
        let line = connection.recv_line().unwrap();
        assert_eq!((line.number("rc"), line.is_good()), (Some(-1), false));
        assert_eq!(line.text("value").as_deref(), Some("x=y"));
        assert_eq!(line.rest("value"), Some(&b"x=y z"[..]));
        assert_eq!(connection.recv_line().unwrap().expect("b").unwrap().field("rc"), None);
        assert_eq!(connection.recv_frame().unwrap().field("rc"), Some(&b"0"[..]));
        assert_eq!(
            connection.recv_frame().unwrap().expect("c").unwrap_err().verdict,
            Verdict::Wrong
        );
    }

    #[test]
    fn silence_an_end_and_garbage_are_told_apart() {
        let (mut connection, server) = pair();
        connection.send(b"cmd=a\n").unwrap();
        assert_eq!(connection.recv_line().unwrap_err(), Verdict::NoAnswer.on("to cmd=a\\n"));
        drop(server);
        assert_eq!(connection.recv_line().unwrap_err().verdict, Verdict::JobKilled);
        let (mut connection, mut server) = pair();
        server.write_all(b"cmd=response").unwrap();
        assert_eq!(connection.recv_frame().unwrap_err().verdict, Verdict::Wrong);
    }
}
