//! Storage of PMIx sessions on a host.

use pmi_core::server::pmix::{PmixStorage, SharedBytes};
use pmi_host_base::storage::Slab;
use pmi_std::BoundedBuf;
use std::cell::Cell;
use std::rc::Rc;

/// Storage types of a host's [`Pmix`](pmi_core::server::pmix::Pmix).
#[derive(Debug)]
pub(crate) struct PmixHeap;

/// Reference-counted bytes.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Rc<Counted>);

/// Bytes that count towards the limit of all blocks until they are dropped.
#[derive(Debug)]
struct Counted(Box<[u8]>);

thread_local! {
    /// Accounting of blocks, thread-local since blocks are made without access to any state. A launcher
    /// serves its clients in one thread.
    static BLOCKS: Blocks = const {
        Blocks {
            bytes: Cell::new(0),
            limit_bytes: Cell::new(u64::MAX),
            refusal: Cell::new(BlockRefusal::None),
        }
    };
}

/// Total size of all blocks, with its limit.
struct Blocks {
    bytes: Cell<u64>,
    limit_bytes: Cell<u64>,
    refusal: Cell<BlockRefusal>,
}

/// State of the report that a block was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockRefusal {
    None,
    Unreported,
    Reported,
}

/// Sets the limit of all blocks that this thread makes from now on: a new run begins.
pub(crate) fn limit_blocks(limit_bytes: u64) {
    BLOCKS.with(|blocks| {
        blocks.limit_bytes.set(limit_bytes);
        blocks.refusal.set(BlockRefusal::None);
    });
}

/// The limit, once, if it was reached.
pub(crate) fn take_refused() -> Option<u64> {
    BLOCKS.with(|blocks| {
        let is_new = blocks.refusal.get() == BlockRefusal::Unreported;
        is_new.then(|| {
            blocks.refusal.set(BlockRefusal::Reported);
            blocks.limit_bytes.get()
        })
    })
}

impl PmixStorage for PmixHeap {
    const ADMITS_TOOLS: bool = true;

    type Bytes = Shared;
    type Inbox = BoundedBuf;
    type Pending<T: 'static> = Slab<T>;
    type Sessions<T: 'static> = Slab<T>;
    type Ranks<T: 'static> = Vec<T>;
    type Namespaces<T: 'static> = Slab<T>;
    type Collectives<T: 'static> = Slab<T>;
    type Names<T: 'static> = Slab<T>;
    type Events<T: 'static> = Slab<T>;
    type Groups<T: 'static> = Slab<T>;
}

impl SharedBytes for Shared {
    fn make(len: usize, fill: impl FnOnce(&mut [u8])) -> Option<Self> {
        let all = BLOCKS.with(|blocks| {
            let reserve = if len <= SMALL_BYTES { RESERVE_BYTES } else { 0 };
            let all = blocks.bytes.get().saturating_add(count(len));
            if all > blocks.limit_bytes.get().saturating_add(reserve) {
                if blocks.refusal.get() == BlockRefusal::None {
                    blocks.refusal.set(BlockRefusal::Unreported);
                }
                return None;
            }
            Some(all)
        })?;
        let mut bytes = vec![0; len].into_boxed_slice();
        fill(&mut bytes);
        // `fill` makes no blocks, so the total is still right.
        BLOCKS.with(|blocks| blocks.bytes.set(all));
        Some(Self(Rc::new(Counted(bytes))))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // At the end of a thread its total may be destroyed before.
        let _ = BLOCKS.try_with(|blocks| {
            blocks.bytes.set(blocks.bytes.get().saturating_sub(count(self.0.len())));
        });
    }
}

fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// Maximum length of a block that may exceed the limit, as far as the reserve goes: a rank whose modex is
/// too large deprives no other rank of its replies.
const SMALL_BYTES: usize = 4096;

/// See [`SMALL_BYTES`].
const RESERVE_BYTES: u64 = 64 << 20;

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_limited_in_all_but_for_small_ones() {
        limit_blocks(20_000);
        let made = |len| Shared::make(len, |bytes| bytes.fill(1));
        let first = made(15_000).unwrap();
        let same = first.clone();
        assert_eq!(take_refused(), None);
        assert!(made(5_001).is_none() && made(6_000).is_none());
        assert_eq!((take_refused(), take_refused()), (Some(20_000), None));
        let small: Vec<Shared> = (0..10).map(|_| made(SMALL_BYTES).unwrap()).collect();
        drop((first, small));
        assert!(made(5_001).is_none(), "it still counts");
        drop(same);
        assert_eq!(made(20_000).unwrap().as_ref().len(), 20_000);
        limit_blocks(u64::MAX);
    }
}
