//! Smallest subset of PMI-1 and PMI-2 that a client needs, written and read by hand.
//!
//! Deliberately not the project's own client: the measurement is of the server, so the client does as
//! little as possible, and the same under every launcher.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

/// The wire protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireDialect {
    /// Lines of `key=value`, ended by a line feed.
    Pmi1,
    /// Six characters of length, then `key=value;` pairs.
    Pmi2,
}

/// An open session, one request at a time.
pub(crate) struct Wire {
    stream: UnixStream,
    dialect: WireDialect,
    /// Name of the space (PMI-1) or of the job (PMI-2); later requests repeat it.
    space: String,
    request: Vec<u8>,
    reply: Box<[u8]>,
    len: usize,
}

impl Wire {
    /// Opens the session as `rank`.
    pub(crate) fn open(stream: UnixStream, dialect: WireDialect, rank: u32) -> io::Result<Self> {
        let reply = vec![0; REPLY_MAX].into();
        let mut wire =
            Self { stream, dialect, space: String::new(), request: Vec::new(), reply, len: 0 };
        match dialect {
            WireDialect::Pmi1 => {
                wire.line("cmd=init pmi_version=1 pmi_subversion=1", b"")?;
                wire.expect("rc=0")?;
                wire.line("cmd=get_my_kvsname", b"")?;
                wire.space = wire.field("kvsname=")?;
            }
            WireDialect::Pmi2 => {
                wire.line("cmd=init pmi_version=2 pmi_subversion=0", b"")?;
                wire.expect("rc=0")?;
                wire.frame(
                    &format!("cmd=fullinit;pmijobid=0;pmirank={rank};threaded=FALSE;"),
                    b"",
                )?;
                wire.expect("rc=0")?;
                wire.frame("cmd=job-getid;", b"")?;
                wire.space = wire.field("jobid=")?;
            }
        }
        Ok(wire)
    }

    /// Stores `value`; [`expect`](Self::expect) checks the reply.
    pub(crate) fn put(&mut self, key: &str, value: &[u8]) -> io::Result<()> {
        match self.dialect {
            WireDialect::Pmi1 => {
                let space = std::mem::take(&mut self.space);
                let sent = self.line(&format!("cmd=put kvsname={space} key={key} value="), value);
                self.space = space;
                sent
            }
            WireDialect::Pmi2 => self.frame(&format!("cmd=kvs-put;key={key};value="), value),
        }
    }

    /// Requests the value of `key`; [`expect_value`](Self::expect_value) checks the reply.
    pub(crate) fn get(&mut self, key: &str) -> io::Result<()> {
        let space = std::mem::take(&mut self.space);
        let sent = match self.dialect {
            WireDialect::Pmi1 => self.line(&format!("cmd=get kvsname={space} key={key}"), b""),
            WireDialect::Pmi2 => {
                self.frame(&format!("cmd=kvs-get;jobid={space};srcid=-1;key={key};"), b"")
            }
        };
        self.space = space;
        sent
    }

    /// Enters the fence of the whole job and waits for its reply.
    pub(crate) fn fence(&mut self) -> io::Result<()> {
        match self.dialect {
            WireDialect::Pmi1 => self.line("cmd=barrier_in", b""),
            WireDialect::Pmi2 => self.frame("cmd=kvs-fence;", b""),
        }
    }

    /// Finalizes the session and waits for the reply.
    pub(crate) fn finalize(&mut self) -> io::Result<()> {
        match self.dialect {
            WireDialect::Pmi1 => self.line("cmd=finalize", b""),
            WireDialect::Pmi2 => self.frame("cmd=finalize;", b""),
        }
    }

    /// Checks that the last reply has `pair` in it.
    pub(crate) fn expect(&self, pair: &str) -> io::Result<()> {
        match find(self.answer(), pair.as_bytes()) {
            Some(_) => Ok(()),
            None => Err(self.nonsense(pair)),
        }
    }

    /// Checks that the last reply contains `value`.
    pub(crate) fn expect_value(&self, value: &[u8]) -> io::Result<()> {
        let brought = find(self.answer(), b"value=").map(|at| &self.answer()[at..]);
        match brought {
            Some(brought) if brought.starts_with(value) => Ok(()),
            _ => Err(self.nonsense("value=")),
        }
    }

    fn field(&self, name: &str) -> io::Result<String> {
        let at = find(self.answer(), name.as_bytes()).ok_or_else(|| self.nonsense(name))?;
        let rest = &self.answer()[at..];
        let end = rest.iter().position(|byte| b" ;\n".contains(byte)).unwrap_or(rest.len());
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    fn answer(&self) -> &[u8] {
        &self.reply[..self.len]
    }

    fn nonsense(&self, expected: &str) -> io::Error {
        let start = self.answer()[..self.len.min(EXCERPT)].escape_ascii();
        io::Error::other(format!("expected {expected:?} in the answer {start}"))
    }

    /// Sends one line and reads one.
    fn line(&mut self, start: &str, end: &[u8]) -> io::Result<()> {
        self.request.clear();
        self.request.extend_from_slice(start.as_bytes());
        self.request.extend_from_slice(end);
        self.request.push(b'\n');
        self.stream.write_all(&self.request)?;
        self.len = 0;
        while self.answer().last() != Some(&b'\n') {
            self.read()?;
        }
        Ok(())
    }

    /// Sends one frame and reads one.
    fn frame(&mut self, start: &str, value: &[u8]) -> io::Result<()> {
        let end: &[u8] = if value.is_empty() { b"" } else { b";" };
        self.request.clear();
        write!(self.request, "{:6}", start.len() + value.len() + end.len())?;
        for part in [start.as_bytes(), value, end] {
            self.request.extend_from_slice(part);
        }
        self.stream.write_all(&self.request)?;
        self.len = 0;
        while self.len < LENGTH {
            self.read()?;
        }
        let body =
            str::from_utf8(&self.reply[..LENGTH]).ok().and_then(|text| text.trim().parse().ok());
        let body: usize = body.ok_or_else(|| self.nonsense("a length"))?;
        while self.len < LENGTH + body {
            self.read()?;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        match self.stream.read(&mut self.reply[self.len..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.len += count;
                Ok(())
            }
        }
    }
}

/// Position after the first `wanted`.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let at = text.windows(wanted.len()).position(|window| window == wanted)?;
    Some(at + wanted.len())
}

/// Characters in front of every frame.
const LENGTH: usize = 6;
/// Room for the longest reply: a value of 1023 bytes and the fields around it.
const REPLY_MAX: usize = 4096;
/// Largest part of an unexpected reply that is shown.
const EXCERPT: usize = 100;
