//! Memory that counts what is made of it.

use pmi_core::server::pmix::{PmixStorage, SharedBytes};
use pmi_core::server::{Arrays, Member};
use pmi_core::store::{Arena, ArenaCell};
use std::cell::Cell;
use std::rc::Rc;

thread_local! {
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// How many bytes there are in blocks.
pub(super) fn live_bytes() -> usize {
    LIVE_BYTES.get()
}

/// Bytes that several have, and that are counted once.
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

/// Bytes of one message, of which nobody can make more than the owner wants to hold.
pub(super) type Inbox = heapless::Vec<u8, INBOX_BYTES>;

/// What the sessions of PMIx are made of.
#[derive(Debug)]
pub(super) struct Lent;

impl PmixStorage for Lent {
    type Bytes = Counted;
    type Inbox = Inbox;
    type Pending<T: 'static> = [Option<T>; PENDINGS];
    type Connections<T: 'static> = [Option<T>; CONNECTIONS];
    type Ranks<T: 'static> = Vec<T>;
    type Namespaces<T: 'static> = [Option<T>; 2];
    type Collectives<T: 'static> = [Option<T>; 4];
    type Names<T: 'static> = [Option<T>; 4];
    type Events<T: 'static> = [Option<T>; 4];
    type Groups<T: 'static> = [Option<T>; 4];
}

pub(super) type Store = Arena<Vec<ArenaCell>, Vec<u8>>;

/// What the server behind them is made of.
pub(super) type Vectors = Arrays<Inbox, Store, Vec<Member>, 1, 1, 2>;

/// Seven callers, and two that are healthy.
pub(super) const CONNECTIONS: usize = 9;
pub(super) const PENDINGS: usize = 4;
/// Less than some messages are long.
pub(super) const INBOX_BYTES: usize = 1024;
