//! Immutable bytes shared by several responses.

use crate::storage::{ArrayBuffer, Buffer};
use crate::wire::pmix::{Format, Packer};

/// Immutable bytes with cheap clones.
///
/// On a host a clone is a counter; on a board it is a copy, which costs what the bytes cost.
pub trait SharedBytes: Clone + AsRef<[u8]> + 'static {
    /// Allocates `len` bytes and fills them; `None` without memory.
    fn make(len: usize, fill: impl FnOnce(&mut [u8])) -> Option<Self>;
}

impl<const N: usize> SharedBytes for ArrayBuffer<N> {
    fn make(len: usize, fill: impl FnOnce(&mut [u8])) -> Option<Self> {
        let mut bytes = Self::new();
        let filled = bytes.append_with(
            || len,
            |room| {
                fill(room.get_mut(..len).ok_or(())?);
                Ok::<_, ()>(len)
            },
        );
        filled.is_ok().then_some(bytes)
    }
}

/// Packs values into new shared bytes. `write` is called twice: to count, and to write.
pub(super) fn pack<B: SharedBytes>(format: Format, write: impl Fn(&mut Packer<'_>)) -> Option<B> {
    let mut counted = Packer::new(&mut [], format);
    write(&mut counted);
    let len = counted.len();
    B::make(len, |bytes| write(&mut Packer::new(bytes, format)))
}

/// Copies bytes into new shared bytes.
pub(super) fn copy_bytes<B: SharedBytes>(bytes: &[u8]) -> Option<B> {
    B::make(bytes.len(), |to| crate::storage::copy(to, bytes))
}
