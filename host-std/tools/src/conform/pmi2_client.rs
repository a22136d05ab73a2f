//! Client of PMI-2 that sends raw frames.

use super::kvs_client::KvsClient;
use super::raw_connection::{RawConnection, Reply};
use super::verdict::{Finding, Verdict};

/// Rank that sends frames.
#[derive(Debug)]
pub(super) struct Pmi2Client {
    pub(super) connection: RawConnection,
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Id of the job, once it is known.
    pub(super) job: String,
    /// True once the rank has finalized.
    pub(super) has_finalized: bool,
}

impl Pmi2Client {
    pub(super) const fn new(connection: RawConnection, rank: u32, size: u32) -> Self {
        Self { connection, rank, size, job: String::new(), has_finalized: false }
    }

    /// Sends `cmd=REQUEST` in a frame and reads the reply of that name.
    pub(super) fn request(&mut self, request: &str) -> Result<Reply, Finding> {
        self.request_bytes(request.as_bytes())
    }

    pub(super) fn request_bytes(&mut self, request: &[u8]) -> Result<Reply, Finding> {
        self.connection.send(&framed(request))?;
        self.recv(request)
    }

    /// Reads the reply to `request`.
    pub(super) fn recv(&mut self, request: &[u8]) -> Result<Reply, Finding> {
        let end = request.iter().position(|byte| *byte == b';').unwrap_or(request.len());
        let word = String::from_utf8_lossy(&request[..end]);
        self.connection.recv_frame()?.expect(&format!("{word}-response"))
    }

    /// Sends the line that opens PMI-2.
    pub(super) fn init(&mut self) -> Result<Reply, Finding> {
        self.connection.send(b"cmd=init pmi_version=2 pmi_subversion=0\n")?;
        let reply = self.connection.recv_line()?.expect("response_to_init")?;
        if reply.number("rc") == Some(0) { Ok(reply) } else { Err(reply.judged(Verdict::Refused)) }
    }

    /// Opens a session as the most careful client would, and stores the id of the job.
    pub(super) fn open(&mut self) -> Result<(), Finding> {
        self.init()?;
        let job = std::env::var("PMI_JOBID").unwrap_or_else(|_| "x".to_owned());
        let reply = self
            .request(&format!("fullinit;pmijobid={job};pmirank={};threaded=FALSE;", self.rank))?;
        if !reply.is_good() {
            return Err(reply.judged(Verdict::Refused));
        }
        let reply = self.request("job-getid;")?;
        match reply.text("jobid") {
            Some(job) if !job.is_empty() => self.job = job,
            _ => return Err(reply.judged(Verdict::Wrong)),
        }
        Ok(())
    }

    pub(super) fn get_reply(&mut self, key: &str) -> Result<Reply, Finding> {
        let request = format!("kvs-get;jobid={};srcid=-1;key={key};", self.job);
        self.request(&request)
    }

    pub(super) fn finalize(&mut self) -> Result<Reply, Finding> {
        self.request("finalize;")
    }
}

impl KvsClient for Pmi2Client {
    fn place(&self) -> (u32, u32) {
        (self.rank, self.size)
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<Reply, Finding> {
        let start = format!("kvs-put;key={key};value=");
        self.request_bytes(&[start.as_bytes(), value, b";"].concat())
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Finding> {
        let reply = self.get_reply(key)?;
        found(&reply).map(|value| value.map(<[u8]>::to_vec))
    }

    fn fence(&mut self) -> Result<Reply, Finding> {
        let reply = self.request("kvs-fence;")?;
        if reply.is_good() { Ok(reply) } else { Err(reply.judged(Verdict::Refused)) }
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
    let length = format!("{:6}", request.len() + CMD.len());
    [length.as_bytes(), CMD, request].concat()
}

const CMD: &[u8] = b"cmd=";
