//! The session of a process without a launcher: rank 0 of 1, with its key-value space in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmi_core::command::Spawn;
use pmi_core::error::Code;
use pmi_core::wire::mapping::PROCESS_MAPPING;
use pmi_std::{OwnedPair, Spawned};

use super::{MAXES, Session, SessionFacts};
use crate::code::{CodeResult, SpawnRefusal};

/// A session without a server.
#[derive(Debug)]
pub(crate) struct LocalSession {
    facts: SessionFacts,
    pairs: Mutex<LocalPairs>,
}

/// Values of the key-value space and attributes of the node, in the order of their keys.
#[derive(Debug, Default)]
struct LocalPairs {
    space: BTreeMap<Vec<u8>, Vec<u8>>,
    node: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl LocalSession {
    pub(crate) fn new() -> Self {
        let kvsname = format!("singleton_{}", std::process::id()).into_bytes();
        let facts = SessionFacts { rank: 0, size: 1, spawned: false, kvsname, maxes: MAXES };
        Self { facts, pairs: Mutex::default() }
    }

    fn pairs_of_process(&self) -> MutexGuard<'_, LocalPairs> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session for LocalSession {
    fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    fn has_server(&self) -> bool {
        false
    }

    fn put(&self, key: &[u8], value: &[u8]) -> CodeResult<()> {
        self.pairs_of_process().space.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn get(
        &self,
        job: Option<&[u8]>,
        _source: Option<u32>,
        key: &[u8],
    ) -> CodeResult<Option<Vec<u8>>> {
        match job {
            Some(job) if job != self.facts.kvsname => Ok(None),
            _ if key == PROCESS_MAPPING => self.job_attribute(key),
            _ => Ok(self.pairs_of_process().space.get(key).cloned()),
        }
    }

    fn pairs(&self) -> CodeResult<Vec<OwnedPair>> {
        let pairs = self.pairs_of_process();
        Ok(pairs.space.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn fence(&self) -> CodeResult<()> {
        Ok(())
    }

    fn appnum(&self) -> CodeResult<Option<u32>> {
        Ok(Some(0))
    }

    fn universe_size(&self) -> CodeResult<Option<u32>> {
        Ok(Some(1))
    }

    fn put_node(&self, key: &[u8], value: &[u8]) -> CodeResult<()> {
        self.pairs_of_process().node.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    /// With `wait` another thread may put the attribute later; without one the call would never end, so it
    /// reports that there is none, as for a key that no rank can put any more.
    fn get_node(&self, key: &[u8], _wait: bool) -> CodeResult<Option<Vec<u8>>> {
        Ok(match key {
            b"localRanks" => Some(b"0".to_vec()),
            b"localRanksCount" => Some(b"1".to_vec()),
            _ => self.pairs_of_process().node.get(key).cloned(),
        })
    }

    fn job_attribute(&self, key: &[u8]) -> CodeResult<Option<Vec<u8>>> {
        Ok(match key {
            PROCESS_MAPPING => Some(b"(vector,(0,1,1))".to_vec()),
            b"universeSize" => Some(b"1".to_vec()),
            b"hasNameServ" => Some(b"FALSE".to_vec()),
            _ => None,
        })
    }

    fn publish(&self, _service: &[u8], _port: &[u8]) -> CodeResult<()> {
        Err(Code::FAIL)
    }

    fn unpublish(&self, _service: &[u8]) -> CodeResult<()> {
        Err(Code::FAIL)
    }

    fn lookup(&self, _service: &[u8]) -> CodeResult<Option<Vec<u8>>> {
        Ok(None)
    }

    fn spawn(&self, _spawn: Spawn<'_>) -> Result<Spawned, SpawnRefusal> {
        Err(Code::FAIL.into())
    }

    fn connect_job(&self, _job: &[u8]) -> CodeResult<()> {
        Err(Code::FAIL)
    }

    fn disconnect_job(&self, _job: &[u8]) -> CodeResult<()> {
        Err(Code::FAIL)
    }

    fn abort(&self, _code: i32, _world: bool, _message: &[u8]) {}

    fn finalize(&self) -> CodeResult<()> {
        Ok(())
    }
}
