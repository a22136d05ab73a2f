//! Rank of a case: a client of PMI-1 or PMI-2 that sends raw lines and frames.

use super::case::CaseResult;
use super::raw_connection::{RawConnection, Reply};
use super::verdict::{Finding, Verdict, shown};

/// Protocol that a case tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseProtocol {
    /// Lines of PMI-1.
    Pmi1,
    /// Frames of PMI-2.
    Pmi2,
}

/// Rank that plays a case.
#[derive(Debug)]
pub(super) struct RankClient {
    pub(super) protocol: CaseProtocol,
    pub(super) connection: RawConnection,
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Name of the key-value space (PMI-1), or id of the job (PMI-2), once it is known.
    pub(super) space: String,
    /// True once the rank has finalized.
    pub(super) has_finalized: bool,
}

impl RankClient {
    pub(super) const fn new(
        protocol: CaseProtocol,
        connection: RawConnection,
        rank: u32,
        size: u32,
    ) -> Self {
        Self { protocol, connection, rank, size, space: String::new(), has_finalized: false }
    }

    /// Sends one line and reads the reply, which must be a `reply`.
    pub(super) fn line_reply(&mut self, line: &str, reply: &str) -> Result<Reply, Finding> {
        self.line_bytes_reply(line.as_bytes(), reply)
    }

    pub(super) fn line_bytes_reply(&mut self, line: &[u8], reply: &str) -> Result<Reply, Finding> {
        self.connection.send(&[line, b"\n"].concat())?;
        self.connection.recv_line()?.expect(reply)
    }

    /// Sends `cmd=REQUEST` in a frame and reads the reply of that name.
    pub(super) fn frame_reply(&mut self, request: &str) -> Result<Reply, Finding> {
        self.frame_bytes_reply(request.as_bytes())
    }

    fn frame_bytes_reply(&mut self, request: &[u8]) -> Result<Reply, Finding> {
        self.connection.send(&framed(request))?;
        self.recv(request)
    }

    /// Reads the reply to `request`, a frame.
    pub(super) fn recv(&mut self, request: &[u8]) -> Result<Reply, Finding> {
        let end = request.iter().position(|byte| *byte == b';').unwrap_or(request.len());
        let word = String::from_utf8_lossy(&request[..end]);
        self.connection.recv_frame()?.expect(&format!("{word}-response"))
    }

    /// Sends the line that opens a session of this version.
    pub(super) fn init(&mut self, major: u32, minor: u32) -> Result<Reply, Finding> {
        let line = format!("cmd=init pmi_version={major} pmi_subversion={minor}");
        self.line_reply(&line, "response_to_init")
    }

    /// Sends the line that opens PMI-2, which must succeed.
    pub(super) fn init_pmi2(&mut self) -> Result<Reply, Finding> {
        let reply = self.init(2, 0)?;
        if reply.number("rc") == Some(0) { Ok(reply) } else { Err(reply.judged(Verdict::Refused)) }
    }

    /// Opens a session of 1.1 or 2.0, and stores the name of the key-value space or of the job.
    pub(super) fn open(&mut self) -> Result<(), Finding> {
        match self.protocol {
            CaseProtocol::Pmi1 => self.open_pmi1(1).map(drop),
            CaseProtocol::Pmi2 => self.open_pmi2(),
        }
    }

    /// Opens a session of 1.`minor`; returns the negotiated minor version.
    pub(super) fn open_pmi1(&mut self, minor: u32) -> Result<i64, Finding> {
        let reply = self.init(1, minor)?.if_good()?;
        let agreed = reply.number("pmi_subversion").unwrap_or(1);
        let reply = self.line_reply("cmd=get_my_kvsname", "my_kvsname")?;
        self.space = named(&reply, "kvsname")?;
        Ok(agreed)
    }

    /// `fullinit` as the most careful client writes it.
    pub(super) fn fullinit(&self) -> String {
        let job = std::env::var("PMI_JOBID").unwrap_or_else(|_| "x".to_owned());
        format!("fullinit;pmijobid={job};pmirank={};threaded=FALSE;", self.rank)
    }

    /// Opens a session as the most careful client would.
    fn open_pmi2(&mut self) -> Result<(), Finding> {
        self.init_pmi2()?;
        let request = self.fullinit();
        self.frame_reply(&request)?.if_good()?;
        let reply = self.frame_reply("job-getid;")?;
        self.space = named(&reply, "jobid")?;
        Ok(())
    }

    pub(super) fn finalize(&mut self) -> Result<Reply, Finding> {
        match self.protocol {
            CaseProtocol::Pmi1 => self.line_reply("cmd=finalize", "finalize_ack"),
            CaseProtocol::Pmi2 => self.frame_reply("finalize;"),
        }
    }

    pub(super) fn put(&mut self, key: &str, value: &[u8]) -> Result<Reply, Finding> {
        match self.protocol {
            CaseProtocol::Pmi1 => {
                let start = format!("cmd=put kvsname={} key={key} value=", self.space);
                self.line_bytes_reply(&[start.as_bytes(), value].concat(), "put_result")
            }
            CaseProtocol::Pmi2 => {
                let start = format!("kvs-put;key={key};value=");
                self.frame_bytes_reply(&[start.as_bytes(), value, b";"].concat())
            }
        }
    }

    /// Reply to a get of a key of the job.
    pub(super) fn get_reply(&mut self, key: &str) -> Result<Reply, Finding> {
        let space = &self.space;
        match self.protocol {
            CaseProtocol::Pmi1 => {
                let line = format!("cmd=get kvsname={space} key={key}");
                self.line_reply(&line, "get_result")
            }
            CaseProtocol::Pmi2 => {
                let request = format!("kvs-get;jobid={space};srcid=-1;key={key};");
                self.frame_reply(&request)
            }
        }
    }

    pub(super) fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Finding> {
        let reply = self.get_reply(key)?;
        let value = match self.protocol {
            CaseProtocol::Pmi1 => value_of(&reply),
            CaseProtocol::Pmi2 => found(&reply),
        };
        value.map(|value| value.map(<[u8]>::to_vec))
    }

    pub(super) fn fence(&mut self) -> Result<Reply, Finding> {
        match self.protocol {
            CaseProtocol::Pmi1 => self.line_reply("cmd=barrier_in", "barrier_out"),
            CaseProtocol::Pmi2 => self.frame_reply("kvs-fence;")?.if_good(),
        }
    }

    /// A put that must succeed for the case to go on.
    pub(super) fn must_put(&mut self, key: &str, value: &[u8]) -> Result<(), Finding> {
        self.put(key, value)?.if_good().map(drop)
    }

    /// Puts a value, fences, and gets it.
    pub(super) fn round_trip(&mut self, key: &str, value: &[u8]) -> Result<RoundTrip, Finding> {
        let reply = self.put(key, value)?;
        if !reply.is_good() {
            return Ok(RoundTrip::Refused(reply));
        }
        self.fence()?;
        Ok(match self.get(key)? {
            Some(found) if found == value => RoundTrip::Unchanged,
            Some(found) => RoundTrip::Changed(found),
            None => RoundTrip::Missing,
        })
    }

    /// Puts a key of this rank, fences, and gets the keys of all ranks. The first wrong value ends the
    /// case.
    pub(super) fn exchange(
        &mut self,
        name: &str,
        value: impl Fn(u32) -> String,
    ) -> Result<(), Finding> {
        let Self { rank, size, .. } = *self;
        self.must_put(&format!("{name}-{rank}"), value(rank).as_bytes())?;
        self.fence()?;
        for other in 0..size {
            let found = self.get(&format!("{name}-{other}"))?;
            if found.as_deref() != Some(value(other).as_bytes()) {
                let found = found.map_or("nothing".to_owned(), |found| shown(&found));
                return Err(
                    Verdict::Wrong.on(format!("{found} where rank {other} put {}", value(other)))
                );
            }
        }
        Ok(())
    }
}

/// Result of a put, a fence and a get of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RoundTrip {
    /// The get returned the same value.
    Unchanged,
    /// The get returned another value.
    Changed(Vec<u8>),
    /// The put was answered with success, and nothing is there.
    Missing,
    /// The put was refused.
    Refused(Reply),
}

impl RoundTrip {
    /// A legal value must come back whole.
    pub(super) fn judged(self) -> CaseResult {
        match self {
            Self::Unchanged => Ok(Verdict::AsSpecified.on("it is returned unchanged")),
            Self::Changed(found) => {
                Ok(Verdict::Wrong.on(format!("is returned as {}", shown(&found))))
            }
            Self::Missing => Ok(Verdict::Wrong.on("put with success, then not found")),
            Self::Refused(reply) => Ok(reply.judged(Verdict::Refused)),
        }
    }

    /// Judges a value over a limit: a refusal is right; some servers accept it, cut it or lose it.
    pub(super) fn judged_over(self, takes: Verdict) -> CaseResult {
        Ok(match self {
            Self::Unchanged => takes.on("stored whole"),
            Self::Changed(found) => {
                Verdict::Tolerated.on(format!("cut to {} bytes without an error", found.len()))
            }
            Self::Missing => Verdict::Tolerated.on("put with success, then not found"),
            Self::Refused(reply) => reply.judged(Verdict::AsSpecified),
        })
    }
}

/// The name in field `name`, which must not be empty.
fn named(reply: &Reply, name: &str) -> Result<String, Finding> {
    let text = reply.text(name).filter(|text| !text.is_empty());
    text.ok_or_else(|| reply.judged(Verdict::Wrong))
}

/// Value in the answer to a get; `None` if there is no such key, in any form in which servers report that.
pub(super) fn value_of(reply: &Reply) -> Result<Option<&[u8]>, Finding> {
    if !reply.is_good() {
        return Ok(None);
    }
    let says_missing = reply.text("msg").is_some_and(|msg| msg.ends_with("_not_found"));
    match reply.field("value") {
        Some(b"") if says_missing => Ok(None),
        Some(value) => Ok(Some(value)),
        None => Err(reply.judged(Verdict::Wrong)),
    }
}

/// Value in an answer with `found`; `None` if there is none, in any form in which servers report that.
pub(super) fn found(reply: &Reply) -> Result<Option<&[u8]>, Finding> {
    if !reply.is_good() || reply.field("found") == Some(b"FALSE") {
        return Ok(None);
    }
    match reply.field("value") {
        Some(value) => Ok(Some(value)),
        None => Err(reply.judged(Verdict::Wrong)),
    }
}

/// A whole frame around `cmd=REQUEST`, its length aligned to the right.
pub(super) fn framed(request: &[u8]) -> Vec<u8> {
    let len = request.len() + CMD.len();
    // The clients whose opening has this field align the length left; a server may tell by that who speaks.
    let is_left = request.windows(THREADED.len()).any(|part| part == THREADED);
    let length = if is_left { format!("{len:<6}") } else { format!("{len:6}") };
    [length.as_bytes(), CMD, request].concat()
}

const CMD: &[u8] = b"cmd=";

/// Field of the opening of MPICH up to 4.0 and of Slurm's client.
const THREADED: &[u8] = b";threaded=";
