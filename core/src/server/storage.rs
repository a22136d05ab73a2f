//! What the memory of a server is made of.

use super::{Job, Member, PendingReply, Session};
use crate::storage::{Buffer, Slots};
use crate::store::Kvs;
use core::marker::PhantomData;

/// What the memory of a server is made of. An owner names its kinds once.
pub trait Storage {
    /// Holds a message of one session that has not ended yet. Its size bounds what a peer can make
    /// the server hold; [`MESSAGE_BYTES`](crate::limits::MESSAGE_BYTES) is enough for all but spawn.
    type Inbox: Buffer + 'static;
    /// Holds what one session is owed: one place for PMI-1.1, one for each thread of later ones.
    type Exchanges: Slots<PendingReply> + 'static;
    /// Holds the sessions.
    type Sessions: Slots<Session<Self::Inbox, Self::Exchanges>>;
    /// Holds the keys and values of a job, and the published names.
    type Kvs: Kvs;
    /// Holds the members of a job.
    type Members: AsRef<[Member]> + AsMut<[Member]>;
    /// Holds the jobs.
    type Jobs: Slots<Job<Self::Kvs, Self::Members>>;
}

/// Memory in arrays, for an owner that knows how many there will be of each.
///
/// `I` holds half a message, `K` a job's keys and values, `M` its members. There may be `SESSIONS`
/// sessions, each owed `EXCHANGES` answers at once, of `JOBS` jobs.
///
/// ```
/// use pmi_core::limits::MESSAGE_BYTES;
/// use pmi_core::server::{Arrays, Member, Server};
/// use pmi_core::store::{Arena, ArenaCell};
///
/// type Inbox = heapless::Vec<u8, MESSAGE_BYTES>;
/// type Store = Arena<[ArenaCell; 32], [u8; 4096]>;
/// // Eight ranks of one job, of which each asks one thing at a time.
/// type Board = Arrays<Inbox, Store, [Member; 8], 8, 1, 1>;
///
/// let names = Arena::new([ArenaCell::FREE; 32], [0; 4096]);
/// let server = Server::<Board>::new([const { None }; 8], [const { None }; 1], names);
/// ```
#[derive(Debug)]
pub struct Arrays<I, K, M, const SESSIONS: usize, const EXCHANGES: usize, const JOBS: usize>(
    PhantomData<(I, K, M)>,
);

impl<I, K, M, const SESSIONS: usize, const EXCHANGES: usize, const JOBS: usize> Storage
    for Arrays<I, K, M, SESSIONS, EXCHANGES, JOBS>
where
    I: Buffer + 'static,
    K: Kvs,
    M: AsRef<[Member]> + AsMut<[Member]>,
{
    type Inbox = I;
    type Exchanges = [Option<PendingReply>; EXCHANGES];
    type Sessions = [Option<Session<I, [Option<PendingReply>; EXCHANGES]>>; SESSIONS];
    type Kvs = K;
    type Members = M;
    type Jobs = [Option<Job<K, M>>; JOBS];
}
