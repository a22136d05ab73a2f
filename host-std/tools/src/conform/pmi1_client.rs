//! Client of PMI-1 that sends raw lines.

use super::kvs_client::KvsClient;
use super::raw_connection::{RawConnection, Reply};
use super::verdict::{Finding, Verdict};

/// Rank that sends lines.
#[derive(Debug)]
pub(super) struct Pmi1Client {
    pub(super) connection: RawConnection,
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Name of the key-value space, once it is known.
    pub(super) kvs: String,
    /// True once the rank has finalized.
    pub(super) has_finalized: bool,
}

impl Pmi1Client {
    pub(super) const fn new(connection: RawConnection, rank: u32, size: u32) -> Self {
        Self { connection, rank, size, kvs: String::new(), has_finalized: false }
    }

    /// Sends one line and reads the reply, which must be a `reply`.
    pub(super) fn request(&mut self, line: &str, reply: &str) -> Result<Reply, Finding> {
        self.request_bytes(line.as_bytes(), reply)
    }

    pub(super) fn request_bytes(&mut self, line: &[u8], reply: &str) -> Result<Reply, Finding> {
        self.connection.send(&[line, b"\n"].concat())?;
        self.connection.recv_line()?.expect(reply)
    }

    pub(super) fn init(&mut self, major: u32, minor: u32) -> Result<Reply, Finding> {
        let line = format!("cmd=init pmi_version={major} pmi_subversion={minor}");
        self.request(&line, "response_to_init")
    }

    /// Opens a session of 1.1 and stores the name of the key-value space.
    pub(super) fn open(&mut self) -> Result<(), Finding> {
        self.open_as(1).map(drop)
    }

    /// Opens a session of 1.`minor`; returns the negotiated minor version.
    pub(super) fn open_as(&mut self, minor: u32) -> Result<i64, Finding> {
        let reply = self.init(1, minor)?;
        if !reply.is_good() {
            return Err(reply.judged(Verdict::Refused));
        }
        let agreed = reply.number("pmi_subversion").unwrap_or(1);
        let reply = self.request("cmd=get_my_kvsname", "my_kvsname")?;
        match reply.text("kvsname") {
            Some(name) if !name.is_empty() => self.kvs = name,
            _ => return Err(reply.judged(Verdict::Wrong)),
        }
        Ok(agreed)
    }

    pub(super) fn finalize(&mut self) -> Result<Reply, Finding> {
        self.request("cmd=finalize", "finalize_ack")
    }
}

impl KvsClient for Pmi1Client {
    fn place(&self) -> (u32, u32) {
        (self.rank, self.size)
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<Reply, Finding> {
        let start = format!("cmd=put kvsname={} key={key} value=", self.kvs);
        self.request_bytes(&[start.as_bytes(), value].concat(), "put_result")
    }

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Finding> {
        let line = format!("cmd=get kvsname={} key={key}", self.kvs);
        let reply = self.request(&line, "get_result")?;
        value_of(&reply).map(|value| value.map(<[u8]>::to_vec))
    }

    fn fence(&mut self) -> Result<Reply, Finding> {
        self.request("cmd=barrier_in", "barrier_out")
    }
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
