//! The session of a process, whatever its server speaks.

mod escape;
mod local;
mod pmix;
mod wire;

use std::sync::atomic::{AtomicU32, Ordering};

use pmi_core::command::{Maxes, Spawn};
use pmi_core::error::Code;
use pmi_core::limits::{PMI1_MAX_KEYLEN, PMI1_MAX_KVSNAME, PMI1_MAX_VALLEN};
use pmi_core::wire::mapping::PROCESS_MAPPING;
use pmi_std::{Neighbours, OwnedPair, Spawned};

pub(crate) use self::local::LocalSession;
pub(crate) use self::pmix::PmixSession;
pub(crate) use self::wire::{ServerKind, WireSession};
use crate::code::{CodeResult, SpawnRefusal};

/// Interface by which the process is initialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// `PMI_Init`.
    Pmi1,
    /// `PMI2_Init`.
    Pmi2,
}

/// Facts that do not change during a session.
#[derive(Clone, Debug)]
pub(crate) struct SessionFacts {
    /// The rank of this process.
    pub(crate) rank: u32,
    /// Number of processes of the job.
    pub(crate) size: u32,
    /// True if another job has started this one.
    pub(crate) spawned: bool,
    /// Name of the key-value space, which is also the id of the job.
    pub(crate) kvsname: Vec<u8>,
    /// Largest name, key and value, each counting the NUL.
    pub(crate) maxes: Maxes,
}

/// A session. All calls may run at once; each waits for its own reply.
///
/// # Errors
///
/// The code of the failed call.
pub(crate) trait Session: Send + Sync {
    /// Facts that do not change.
    fn facts(&self) -> &SessionFacts;

    /// True if there is a server, and other processes may exist.
    fn has_server(&self) -> bool {
        true
    }

    /// Stores a value; others see it after the next fence.
    fn put(&self, key: &[u8], value: &[u8]) -> CodeResult<()>;

    /// Reads a value of this job, or of a connected one; `source` is the rank that has put it, if the caller
    /// knows it.
    fn get(
        &self,
        job: Option<&[u8]>,
        source: Option<u32>,
        key: &[u8],
    ) -> CodeResult<Option<Vec<u8>>>;

    /// Has `read` read a value of this job in place, if that needs no exchange with the server; false
    /// otherwise.
    fn read_in_place(&self, _key: &[u8], _read: &mut dyn FnMut(&[u8])) -> bool {
        false
    }

    /// All pairs of the job that are visible.
    fn pairs(&self) -> CodeResult<Vec<OwnedPair>>;

    /// Waits for all ranks.
    fn fence(&self) -> CodeResult<()>;

    /// Ranks on this node; `None` if they follow from the process mapping.
    fn local_ranks(&self) -> CodeResult<Option<Vec<u32>>> {
        Ok(None)
    }

    /// Number of the program in the launch; `None` if it is unknown.
    fn appnum(&self) -> CodeResult<Option<u32>>;

    /// Largest number of processes; `None` if it is unknown.
    fn universe_size(&self) -> CodeResult<Option<u32>>;

    /// Stores an attribute of this node.
    fn put_node(&self, key: &[u8], value: &[u8]) -> CodeResult<()>;

    /// Reads an attribute of this node; with `wait` once a rank has put it.
    fn get_node(&self, key: &[u8], wait: bool) -> CodeResult<Option<Vec<u8>>>;

    /// Reads an attribute of the job.
    fn job_attribute(&self, key: &[u8]) -> CodeResult<Option<Vec<u8>>>;

    /// Publishes a port under the name of a service.
    fn publish(&self, service: &[u8], port: &[u8]) -> CodeResult<()>;

    /// Withdraws a published name.
    fn unpublish(&self, service: &[u8]) -> CodeResult<()>;

    /// The port of a service.
    fn lookup(&self, service: &[u8]) -> CodeResult<Option<Vec<u8>>>;

    /// Starts processes as a job of their own.
    fn spawn(&self, spawn: Spawn<'_>) -> Result<Spawned, SpawnRefusal>;

    /// Connects this job with another.
    fn connect_job(&self, job: &[u8]) -> CodeResult<()>;

    /// Disconnects this job from another.
    fn disconnect_job(&self, job: &[u8]) -> CodeResult<()>;

    /// Exchanges a value with the ranks before and behind, as a collective operation.
    fn ring(&self, value: &[u8]) -> CodeResult<Neighbours> {
        ring_by_fence(self, value)
    }

    /// Asks the server to abort the job, or with `world` false this process alone.
    fn abort(&self, code: i32, world: bool, message: &[u8]);

    /// Ends the session with the server.
    fn finalize(&self) -> CodeResult<()>;
}

/// Has `read` read a value of this job; `None` if there is no such key.
pub(crate) fn read_value<T>(
    session: &dyn Session,
    source: Option<u32>,
    key: &[u8],
    mut read: impl FnMut(&[u8]) -> T,
) -> CodeResult<Option<T>> {
    let mut done = None;
    if session.read_in_place(key, &mut |value| done = Some(read(value))) {
        return Ok(done);
    }
    Ok(session.get(None, source, key)?.map(|value| read(&value)))
}

/// The mapping of ranks to nodes, if the server has one.
pub(crate) fn process_mapping(session: &dyn Session) -> CodeResult<Option<Vec<u8>>> {
    session.job_attribute(PROCESS_MAPPING)
}

/// Sizes of a session without a server that has others.
pub(crate) const MAXES: Maxes = Maxes { kvsname: 256, key: 64, value: 1024 };

// Those of every server of this project.
const _: () = {
    assert!(MAXES.kvsname as usize == PMI1_MAX_KVSNAME);
    assert!(MAXES.key as usize == PMI1_MAX_KEYLEN);
    assert!(MAXES.value as usize == PMI1_MAX_VALLEN);
};

/// A ring for servers without a request for it: each rank puts its value under a key of its own.
fn ring_by_fence<S: Session + ?Sized>(session: &S, value: &[u8]) -> CodeResult<Neighbours> {
    static ROUND: AtomicU32 = AtomicU32::new(0);
    let (rank, size) = (session.facts().rank, session.facts().size);
    // A ring is collective, so the count is the same in all ranks.
    let round = ROUND.fetch_add(1, Ordering::Relaxed);
    let key = |rank: u32| format!("PMIX_Ring-{round}-{rank}").into_bytes();
    session.put(&key(rank), value)?;
    session.fence()?;
    let read = |rank: u32| {
        let value = session.get(None, Some(rank), &key(rank))?;
        value.ok_or(Code::FAIL)
    };
    let left = read((rank + size - 1) % size)?;
    let right = read((rank + 1) % size)?;
    Ok(Neighbours { place: rank, left, right })
}
