//! Operations on a key-value space, independent of the wire protocol.

use super::case::CaseResult;
use super::raw_connection::Reply;
use super::verdict::{Finding, Verdict, shown};

/// Rank that puts, fences and gets.
pub(super) trait KvsClient {
    /// Rank, and number of ranks.
    fn place(&self) -> (u32, u32);

    fn put(&mut self, key: &str, value: &[u8]) -> Result<Reply, Finding>;

    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Finding>;

    fn fence(&mut self) -> Result<Reply, Finding>;

    /// A put that must succeed for the case to go on.
    fn must_put(&mut self, key: &str, value: &[u8]) -> Result<(), Finding> {
        let reply = self.put(key, value)?;
        if reply.is_good() { Ok(()) } else { Err(reply.judged(Verdict::Refused)) }
    }

    /// Puts a value, fences, and gets it.
    fn round_trip(&mut self, key: &str, value: &[u8]) -> Result<RoundTrip, Finding> {
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
    fn exchange(&mut self, name: &str, value: impl Fn(u32) -> String) -> Result<(), Finding> {
        let (rank, size) = self.place();
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
