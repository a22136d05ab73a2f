//! A client of PMI-1 made of raw lines.

use super::case::Played;
use super::talk::{Reply, Talk};
use super::verdict::{Finding, Verdict, shown};

/// One rank that speaks lines.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) talk: Talk,
    pub(super) rank: u32,
    pub(super) size: u32,
    /// The name of the space, once it is known.
    pub(super) kvs: String,
    /// It has said goodbye already.
    pub(super) is_gone: bool,
}

/// What became of a value on its way through the space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It came back as it was.
    Whole,
    /// Another one came back.
    Changed(Vec<u8>),
    /// The put was answered with success, and nothing is there.
    Lost,
    /// The put was refused.
    Refused(Reply),
}

impl Lines {
    pub(super) const fn new(talk: Talk, rank: u32, size: u32) -> Self {
        Self { talk, rank, size, kvs: String::new(), is_gone: false }
    }

    /// Sends one line and reads the reply, which must be a `reply`.
    pub(super) fn ask(&mut self, line: &str, reply: &str) -> Result<Reply, Finding> {
        self.ask_bytes(line.as_bytes(), reply)
    }

    pub(super) fn ask_bytes(&mut self, line: &[u8], reply: &str) -> Result<Reply, Finding> {
        self.talk.send(&[line, b"\n"].concat())?;
        self.talk.line()?.expect(reply)
    }

    pub(super) fn init(&mut self, major: u32, minor: u32) -> Result<Reply, Finding> {
        let line = format!("cmd=init pmi_version={major} pmi_subversion={minor}");
        self.ask(&line, "response_to_init")
    }

    /// Opens a session of 1.1 and learns the name of the space.
    pub(super) fn open(&mut self) -> Result<(), Finding> {
        self.open_as(1).map(drop)
    }

    /// Opens a session of 1.`minor`; the answer is the minor version that was agreed.
    pub(super) fn open_as(&mut self, minor: u32) -> Result<i64, Finding> {
        let reply = self.init(1, minor)?;
        if !reply.is_good() {
            return Err(reply.judged(Verdict::Refused));
        }
        let agreed = reply.number("pmi_subversion").unwrap_or(1);
        let reply = self.ask("cmd=get_my_kvsname", "my_kvsname")?;
        match reply.text("kvsname") {
            Some(name) if !name.is_empty() => self.kvs = name,
            _ => return Err(reply.judged(Verdict::Wrong)),
        }
        Ok(agreed)
    }

    pub(super) fn put(&mut self, key: &str, value: &[u8]) -> Result<Reply, Finding> {
        let start = format!("cmd=put kvsname={} key={key} value=", self.kvs);
        self.ask_bytes(&[start.as_bytes(), value].concat(), "put_result")
    }

    /// A put that must succeed for the case to go on.
    pub(super) fn put_well(&mut self, key: &str, value: &[u8]) -> Result<(), Finding> {
        let reply = self.put(key, value)?;
        if reply.is_good() { Ok(()) } else { Err(reply.judged(Verdict::Refused)) }
    }

    pub(super) fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Finding> {
        let line = format!("cmd=get kvsname={} key={key}", self.kvs);
        let reply = self.ask(&line, "get_result")?;
        value_of(&reply).map(|value| value.map(<[u8]>::to_vec))
    }

    pub(super) fn fence(&mut self) -> Result<Reply, Finding> {
        self.ask("cmd=barrier_in", "barrier_out")
    }

    pub(super) fn bye(&mut self) -> Result<Reply, Finding> {
        self.ask("cmd=finalize", "finalize_ack")
    }

    /// Puts, fences, gets.
    pub(super) fn keep(&mut self, key: &str, value: &[u8]) -> Result<Kept, Finding> {
        let reply = self.put(key, value)?;
        if !reply.is_good() {
            return Ok(Kept::Refused(reply));
        }
        self.fence()?;
        Ok(match self.get(key)? {
            Some(found) if found == value => Kept::Whole,
            Some(found) => Kept::Changed(found),
            None => Kept::Lost,
        })
    }

    /// Puts a key of this rank, fences, and gets the keys of all ranks. The first that is not as
    /// it must be ends the case.
    pub(super) fn exchange(
        &mut self,
        name: &str,
        value: impl Fn(u32) -> String,
    ) -> Result<(), Finding> {
        self.put_well(&format!("{name}-{}", self.rank), value(self.rank).as_bytes())?;
        self.fence()?;
        for other in 0..self.size {
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

impl Kept {
    /// A legal value must come back whole.
    pub(super) fn judged(self) -> Played {
        match self {
            Self::Whole => Ok(Verdict::AsSpecified.on("it comes back as it was")),
            Self::Changed(found) => {
                Ok(Verdict::Wrong.on(format!("comes back as {}", shown(&found))))
            }
            Self::Lost => Ok(Verdict::Wrong.on("put with success, then not found")),
            Self::Refused(reply) => Ok(reply.judged(Verdict::Refused)),
        }
    }

    /// Of what is over a limit, a refusal is right; some servers take it, cut it or lose it.
    pub(super) fn judged_over(self, takes: Verdict) -> Played {
        Ok(match self {
            Self::Whole => takes.on("taken whole"),
            Self::Changed(found) => {
                Verdict::Tolerated.on(format!("cut to {} bytes without a word", found.len()))
            }
            Self::Lost => Verdict::Tolerated.on("put with success, then not found"),
            Self::Refused(reply) => reply.judged(Verdict::AsSpecified),
        })
    }
}

/// The value in the answer to a get; `None` if there is no such key, however that is said.
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
