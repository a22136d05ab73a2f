//! Storage of a server, lent by the owner.

use super::{Job, Member, PendingReply, PmiPeerState, Session};
use crate::storage::{Buffer, Slots};
use crate::store::Kvs;
use core::marker::PhantomData;

#[cfg(feature = "pmix")]
use super::pmix::tables::PmixStorage;

/// Without PMIx its sessions have no storage, so that any type names it.
#[cfg(not(feature = "pmix"))]
pub trait PmixStorage {}

#[cfg(not(feature = "pmix"))]
impl<T> PmixStorage for T {}

/// Storage of a server. The owner chooses the kinds of slots and buffers once.
pub trait Storage {
    /// Holds the input of one session: a message that has not ended, or that the session does not read
    /// yet.
    type Inbox: Buffer + 'static;
    /// Slots for the requests of one session that have not been answered.
    type Pending<T: 'static>: Slots<T> + 'static;
    /// Slots for the sessions.
    type Sessions<T: 'static>: Slots<T>;
    /// Holds the keys and values of one job, or the published names.
    type Kvs: Kvs + 'static;
    /// Holds the members of one job.
    type Members: AsRef<[Member]> + AsMut<[Member]> + 'static;
    /// Slots for the jobs.
    type Jobs<T: 'static>: Slots<T>;
    /// Storage of the sessions of PMIx clients; `()` for a server that serves none.
    type Pmix: PmixStorage;

    /// True if the system has a signal of this name, so that a member may request it with each notice; the
    /// owner sends it then. Spec: PMI-2 wire protocol, Out-of-Band Messaging.
    fn has_signal(_name: &[u8]) -> bool {
        true
    }
}

/// A session in the memory of `S`, for an owner that lends its slots from a `static`.
pub type SessionOf<S> =
    Session<<S as Storage>::Inbox, <S as Storage>::Pending<PendingReply>, PmiPeerState>;

/// A job in the memory of `S`, for an owner that lends its slots from a `static`.
pub type JobOf<S> = Job<<S as Storage>::Kvs, <S as Storage>::Members>;

pub(super) type SessionsOf<S> = <S as Storage>::Sessions<SessionOf<S>>;
pub(super) type JobsOf<S> = <S as Storage>::Jobs<JobOf<S>>;

/// Memory in arrays, for an owner that knows how many there will be of each.
///
/// `I` holds half a message, `K` a job's keys and values, `M` its members. There may be `SESSIONS`
/// sessions, each with `EXCHANGES` pending replies at once, of `JOBS` jobs. `P` holds the sessions of PMIx
/// clients.
///
/// ```
/// use pmi_core::limits::MESSAGE_BYTES;
/// use pmi_core::server::{Arrays, Member, Server};
/// use pmi_core::storage::ArrayBuffer;
/// use pmi_core::store::{Arena, ArenaCell};
///
/// type Inbox = ArrayBuffer<MESSAGE_BYTES>;
/// type Store = Arena<[ArenaCell; 32], [u8; 4096]>;
/// // Eight ranks of one job, of which each asks one thing at a time.
/// type Board = Arrays<Inbox, Store, [Member; 8], 8, 1, 1>;
///
/// let names = Arena::new([ArenaCell::FREE; 32], [0; 4096]);
/// let server = Server::<Board>::new([const { None }; 8], [const { None }; 1], names);
/// ```
#[derive(Debug)]
pub struct Arrays<I, K, M, const SESSIONS: usize, const EXCHANGES: usize, const JOBS: usize, P = ()>(
    PhantomData<(I, K, M, P)>,
);

impl<I, K, M, const SESSIONS: usize, const EXCHANGES: usize, const JOBS: usize, P> Storage
    for Arrays<I, K, M, SESSIONS, EXCHANGES, JOBS, P>
where
    I: Buffer + 'static,
    K: Kvs + 'static,
    M: AsRef<[Member]> + AsMut<[Member]> + 'static,
    P: PmixStorage,
{
    type Inbox = I;
    type Pending<T: 'static> = [Option<T>; EXCHANGES];
    type Sessions<T: 'static> = [Option<T>; SESSIONS];
    type Kvs = K;
    type Members = M;
    type Jobs<T: 'static> = [Option<T>; JOBS];
    type Pmix = P;
}
