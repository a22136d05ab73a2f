//! Sessions over the wire protocols of PMI.

use std::borrow::Cow;
use std::thread;
use std::time::Duration;

use pmi_core::command::{Pair, Spawn, Text, Version};
use pmi_core::error::Code;
use pmi_core::wire::mapping::{PROCESS_MAPPING, read_mapping, write_mapping};
use pmi_link::CallError;
use pmi_std::env::{SERVER_ATTRIBUTE, SERVER_PROJECT};
use pmi_std::{Member, Neighbours, OwnedPair, SharedPmi, Spawned};

use super::escape::Carrier;
use super::{MAXES, Session, SessionFacts, ring_by_fence};
use crate::code::{self, CodeResult, SpawnRefusal};

/// The server, as far as a client must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// `pmi-host`.
    Own,
    /// `slurmstepd`.
    Slurm,
    /// The shell of Flux, which speaks PMI-1 only.
    Flux,
    /// Hydra, among others: an unknown request ends the job.
    Other,
}

/// A session with a server that speaks PMI-1 or PMI-2.
#[derive(Debug)]
pub(crate) struct WireSession {
    pmi: SharedPmi,
    kind: ServerKind,
    is_pmi2: bool,
    /// What keys and values are escaped for; `None` if the server takes any.
    carrier: Option<Carrier>,
    facts: SessionFacts,
}

impl WireSession {
    pub(crate) fn new(
        member: Member<SharedPmi>,
        kind: ServerKind,
    ) -> Result<Self, CallError<std::io::Error>> {
        let Member { pmi, rank, size, spawned } = member;
        let kvsname = pmi.kvsname()?.as_bytes().to_vec();
        // An embedded server sets no variable of its own.
        let kind = match kind {
            ServerKind::Other if pmi.version() == Some(Version::V2_0) => {
                match pmi.job_attribute(SERVER_ATTRIBUTE) {
                    Ok(Some(project)) if project == SERVER_PROJECT => ServerKind::Own,
                    // A server may refuse attributes that it does not know.
                    Ok(_) | Err(CallError::Refused { .. }) => ServerKind::Other,
                    Err(error) => return Err(error),
                }
            }
            kind => kind,
        };
        let mut maxes = pmi.maxes()?;
        if kind == ServerKind::Slurm && pmi.version() != Some(Version::V2_0) {
            // It reads at most 1024 bytes of a line, and stores nothing of a longer one.
            let others = "cmd=put kvsname= key= value=\n".len() + kvsname.len();
            let others = u32::try_from(others).unwrap_or(u32::MAX);
            maxes.value = maxes.value.min(SLURM_LINE.saturating_sub(others + maxes.key));
        }
        let is_pmi2 = pmi.version() == Some(Version::V2_0);
        let carrier = match (is_pmi2, kind) {
            (true, ServerKind::Own) => None,
            (true, _) => Some(Carrier::Frame),
            (false, _) => Some(Carrier::Line),
        };
        let facts = SessionFacts { rank, size, spawned, kvsname, maxes };
        Ok(Self { pmi, kind, is_pmi2, carrier, facts })
    }

    /// The key under which a server of PMI-1 keeps an attribute of a node.
    fn node_key(&self, key: &[u8]) -> CodeResult<Vec<u8>> {
        match self.kind {
            ServerKind::Flux => Ok([b"local::", key].concat()),
            _ => Err(Code::FAIL),
        }
    }

    /// A key or value in the form that the server can have.
    fn carried<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        self.carrier.map_or(Cow::Borrowed(text), |carrier| carrier.escape(text))
    }

    /// The value behind the form that the server has.
    fn original(&self, text: Vec<u8>) -> Vec<u8> {
        match self.carrier {
            Some(carrier) => carrier.unescape(text),
            None => text,
        }
    }
}

impl Session for WireSession {
    fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    fn put(&self, key: &[u8], value: &[u8]) -> CodeResult<()> {
        self.pmi.put(&self.carried(key), &self.carried(value)).map_err(code::of_call)
    }

    fn get(
        &self,
        job: Option<&[u8]>,
        _source: Option<u32>,
        key: &[u8],
    ) -> CodeResult<Option<Vec<u8>>> {
        let value = match job {
            Some(job) if job != self.facts.kvsname => self.pmi.get_from(job, &self.carried(key)),
            _ => self.pmi.get(&self.carried(key)),
        };
        let value = value.map_err(code::of_call)?;
        if key == PROCESS_MAPPING {
            return Ok(value.map(|mapping| covering(mapping, self.facts.size)));
        }
        Ok(value.map(|value| self.original(value)))
    }

    fn read_in_place(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> bool {
        // Only this project's servers share memory, and in PMI-2 values are there as they were put.
        let is_plain = self.kind == ServerKind::Own && key != PROCESS_MAPPING && self.is_pmi2;
        is_plain && self.pmi.read_in_memory(key, read).is_some()
    }

    fn pairs(&self) -> CodeResult<Vec<OwnedPair>> {
        match self.kind {
            ServerKind::Own if self.is_pmi2 => {
                self.pmi.get_all(&self.facts.kvsname).map_err(code::of_call)
            }
            _ => Err(Code::FAIL),
        }
    }

    fn fence(&self) -> CodeResult<()> {
        self.pmi.fence().map_err(code::of_call)
    }

    fn appnum(&self) -> CodeResult<Option<u32>> {
        self.pmi.appnum().map_err(code::of_call)
    }

    fn universe_size(&self) -> CodeResult<Option<u32>> {
        match self.pmi.universe_size() {
            Ok(size) => Ok(size),
            // An attribute that the server does not have, or a word for "unknown".
            Err(CallError::Refused { .. } | CallError::Unreadable { .. }) => Ok(None),
            Err(error) => Err(code::of_call(error)),
        }
    }

    fn put_node(&self, key: &[u8], value: &[u8]) -> CodeResult<()> {
        if self.is_pmi2 {
            let (key, value) = (self.carried(key), self.carried(value));
            return self.pmi.put_node(&key, &value).map_err(code::of_call);
        }
        self.put(&self.node_key(key)?, value)
    }

    fn get_node(&self, key: &[u8], wait: bool) -> CodeResult<Option<Vec<u8>>> {
        if self.is_pmi2 {
            let value = self.pmi.get_node(&self.carried(key), wait).map_err(code::of_call)?;
            return Ok(value.map(|value| self.original(value)));
        }
        let key = self.node_key(key)?;
        loop {
            let value = self.get(None, None, &key)?;
            if value.is_some() || !wait {
                return Ok(value);
            }
            // PMI-1 has no request that waits for a key.
            thread::sleep(NODE_POLL);
        }
    }

    fn job_attribute(&self, key: &[u8]) -> CodeResult<Option<Vec<u8>>> {
        if !self.is_pmi2 && key == b"universeSize" {
            let size = self.universe_size()?;
            return Ok(size.map(|size| size.to_string().into_bytes()));
        }
        let value = self.pmi.job_attribute(&self.carried(key)).map_err(code::of_call)?;
        Ok(match key {
            PROCESS_MAPPING => value.map(|mapping| covering(mapping, self.facts.size)),
            _ => value,
        })
    }

    fn publish(&self, service: &[u8], port: &[u8]) -> CodeResult<()> {
        self.pmi.publish(&self.carried(service), &self.carried(port)).map_err(code::of_call)
    }

    fn unpublish(&self, service: &[u8]) -> CodeResult<()> {
        self.pmi.unpublish(&self.carried(service)).map_err(code::of_call)
    }

    fn lookup(&self, service: &[u8]) -> CodeResult<Option<Vec<u8>>> {
        let port = self.pmi.lookup(&self.carried(service)).map_err(code::of_call)?;
        Ok(port.map(|port| self.original(port)))
    }

    fn spawn(&self, spawn: Spawn<'_>) -> Result<Spawned, SpawnRefusal> {
        let Spawn::Given { programs, preputs } = spawn else { return Err(Code::FAIL.into()) };
        let is_cut = |text: Text<'_>| text.bytes().any(|byte| byte == b';');
        let has_cut = programs.iter().any(|program| {
            is_cut(program.executable)
                || program.arguments.iter().any(is_cut)
                || program.info.iter().any(|pair| is_cut(pair.key) || is_cut(pair.value))
        });
        // The new processes read these texts, so nothing could restore them.
        if self.carrier == Some(Carrier::Frame) && has_cut {
            return Err(Code::INVALID_ARG.into());
        }
        let carried = |text: Text<'_>| self.carried(&text.bytes().collect::<Vec<_>>()).into_owned();
        let preputs: Vec<OwnedPair> =
            preputs.iter().map(|pair| (carried(pair.key), carried(pair.value))).collect();
        let preputs: Vec<Pair<'_>> = preputs
            .iter()
            .map(|(key, value)| Pair { key: Text::plain(key), value: Text::plain(value) })
            .collect();
        Ok(self.pmi.spawn(Spawn::Given { programs, preputs: &preputs })?)
    }

    fn connect_job(&self, job: &[u8]) -> CodeResult<()> {
        match self.kind {
            ServerKind::Own => match self.pmi.connect_job(job).map_err(code::of_call)? {
                false => Ok(()),
                // The values of the other job would be missing without a word.
                true => Err(Code::FAIL),
            },
            // Hydra ends the job on this request, and Slurm does not answer it.
            _ => Err(Code::FAIL),
        }
    }

    fn disconnect_job(&self, job: &[u8]) -> CodeResult<()> {
        match self.kind {
            ServerKind::Own => self.pmi.disconnect_job(job).map_err(code::of_call),
            _ => Err(Code::FAIL),
        }
    }

    fn ring(&self, value: &[u8]) -> CodeResult<Neighbours> {
        match self.kind {
            ServerKind::Own | ServerKind::Slurm if self.is_pmi2 => {
                let value = self.carried(value);
                let ring = self.pmi.ring(&value, &value).map_err(code::of_call)?;
                let (left, right) = (self.original(ring.left), self.original(ring.right));
                Ok(Neighbours { left, right, ..ring })
            }
            _ => ring_by_fence(self, value),
        }
    }

    fn abort(&self, code: i32, world: bool, message: &[u8]) {
        // The process exits next, so an error of the connection changes nothing.
        let _ = match world {
            true => self.pmi.abort(code, message),
            false => self.pmi.abort_self(code, message),
        };
    }

    fn finalize(&self) -> CodeResult<()> {
        self.pmi.finalize().map_err(code::of_call)
    }
}

/// A mapping of `size` ranks that covers each of them: that of Hydra 4 is to be repeated, as
/// `(vector,(0,1,1))` for any number of ranks of one node, and Intel MPI does not repeat one that it has from
/// a library.
fn covering(mapping: Vec<u8>, size: u32) -> Vec<u8> {
    let mut text = vec![0; MAXES.value as usize - 1];
    let nodes = read_mapping(&mapping, size);
    match nodes.and_then(|nodes| write_mapping(nodes.take(size as usize), &mut text).ok()) {
        Some(len) => {
            text.truncate(len);
            text
        }
        None => mapping,
    }
}

/// Largest line that Slurm reads.
const SLURM_LINE: u32 = 1024;

/// Interval between reads of an attribute that is waited for.
const NODE_POLL: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_covers_each_rank_and_another_text_stays_as_it_is() {
        let covering = |text: &str, size| String::from_utf8(covering(text.into(), size)).unwrap();
        assert_eq!(covering("(vector,(0,1,1))", 3), "(vector,(0,1,3))");
        assert_eq!(covering("(vector,(0,2,2))", 4), "(vector,(0,2,2))");
        assert_eq!(covering("(vector,(0,2,1))", 4), "(vector,(0,2,1),(0,2,1))");
        assert_eq!(covering("nonsense", 4), "nonsense");
    }
}
