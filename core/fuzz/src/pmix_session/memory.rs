//! Storage that counts its allocated bytes.

use pmi_core::server::pmix::{PmixStorage, SharedBytes};
use pmi_core::server::{Arrays, Member};
use pmi_core::store::{Arena, ArenaCell};
use std::cell::Cell;
use std::rc::Rc;

thread_local! {
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Number of bytes in live blocks.
pub(super) fn live_bytes() -> usize {
    LIVE_BYTES.get()
}

/// Shared bytes, counted once.
#[derive(Clone, Debug)]
pub(super) struct Counted(Rc<Bytes>);

#[derive(Debug)]
struct Bytes(Vec<u8>);

impl SharedBytes for Counted {
    fn make(len: usize, fill: impl FnOnce(&mut [u8])) -> Option<Self> {
        let mut bytes = vec![0; len];
        fill(&mut bytes);
        LIVE_BYTES.set(LIVE_BYTES.get() + len);
        Some(Self(Rc::new(Bytes(bytes))))
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0.0
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        LIVE_BYTES.set(LIVE_BYTES.get() - self.0.len());
    }
}

/// Input buffer of one message, limited by the owner.
pub(super) type Inbox = pmi_core::storage::ArrayBuffer<INBOX_BYTES>;

/// Storage of the PMIx sessions.
#[derive(Debug)]
pub(super) struct Lent;

impl PmixStorage for Lent {
    const ADMITS_TOOLS: bool = true;

    type Bytes = Counted;
    type Inbox = Inbox;
    type Pending<T: 'static> = [Option<T>; PENDINGS];
    type Sessions<T: 'static> = [Option<T>; CONNECTIONS];
    type Ranks<T: 'static> = Vec<T>;
    type Namespaces<T: 'static> = [Option<T>; 2];
    type Collectives<T: 'static> = [Option<T>; 4];
    type Names<T: 'static> = [Option<T>; 4];
    type Events<T: 'static> = [Option<T>; 4];
    type Groups<T: 'static> = [Option<T>; 4];
}

pub(super) type Store = Arena<Vec<ArenaCell>, Vec<u8>>;

/// Storage of the server.
pub(super) type Vectors = Arrays<Inbox, Store, Vec<Member>, 1, 1, 2, Lent>;

/// Seven arbitrary connections and two healthy clients.
pub(super) const CONNECTIONS: usize = 9;
pub(super) const PENDINGS: usize = 4;
/// Less than the length of some messages.
pub(super) const INBOX_BYTES: usize = 1024;
