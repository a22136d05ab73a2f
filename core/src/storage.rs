//! Memory that the owner lends: bytes that grow to a bound, and numbered slots.
//!
//! The machines are generic over these two traits. A board lends arrays, a host lends
//! vectors; the protocol code is the same.

use crate::error::Full;

/// Bytes that arrive at the end and leave at the front, up to a bound.
pub trait Buffer {
    /// All bytes held.
    fn as_slice(&self) -> &[u8];

    /// All bytes held, to change their order.
    fn as_mut_slice(&mut self) -> &mut [u8];

    /// Number of bytes that still fit.
    fn room(&self) -> usize;

    /// Appends all of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Full`] if they do not fit; nothing was appended then.
    fn extend(&mut self, bytes: &[u8]) -> Result<(), Full>;

    /// Appends as many of `bytes` as fit, and returns their number.
    fn extend_fitting(&mut self, bytes: &[u8]) -> usize {
        let len = bytes.len().min(self.room());
        let fitting = bytes.get(..len).unwrap_or(b"");
        if self.extend(fitting).is_ok() { len } else { 0 }
    }

    /// Lends the room behind the held bytes to `fill`, which returns the number of bytes that it has written
    /// to the front of it; they are held from then on.
    ///
    /// Shape: a buffer that grows lends the number of bytes that `needed` returns, or all it may have if that
    /// is less; any other lends all it has, without calling `needed`.
    ///
    /// # Errors
    ///
    /// The error of `fill`; nothing was appended then.
    fn append_with<E>(
        &mut self,
        needed: impl FnOnce() -> usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E>;

    /// True if the memory is borrowed from a [`Pool`](crate::pool::Pool) while the buffer holds bytes, so
    /// that there may be none at the moment.
    const IS_POOLED: bool = false;

    /// Forgets the first `len` bytes, or all if there are fewer.
    fn drop_front(&mut self, len: usize);

    /// Forgets all bytes.
    fn clear(&mut self) {
        self.drop_front(usize::MAX);
    }
}

/// Numbered places for things of one kind. A number stays valid until its thing is removed.
pub trait Slots<T> {
    /// One more than the highest number in use; numbers below it may be free.
    fn end(&self) -> usize;

    /// Number of elements that fit.
    fn capacity(&self) -> usize;

    /// The thing at `index`.
    fn get(&self, index: usize) -> Option<&T>;

    /// The thing at `index`, to change it.
    fn get_mut(&mut self, index: usize) -> Option<&mut T>;

    /// Puts `item` into the lowest free place and gives its number; drops it when no place is free.
    fn insert(&mut self, item: T) -> Option<usize>;

    /// Takes the thing at `index` out.
    fn remove(&mut self, index: usize) -> Option<T>;
}

/// Bytes in an array, as the buffer of a machine on a board.
///
/// ```
/// use pmi_core::storage::{ArrayBuffer, Buffer};
///
/// static LINE: ArrayBuffer<192> = ArrayBuffer::new();
/// assert_eq!(LINE.room(), 192);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrayBuffer<const BYTES: usize>(heapless::Vec<u8, BYTES>);

impl<const BYTES: usize> ArrayBuffer<BYTES> {
    /// Creates an empty buffer.
    pub const fn new() -> Self {
        Self(heapless::Vec::new())
    }

    /// Creates a buffer that holds `bytes`.
    ///
    /// # Errors
    ///
    /// [`Full`] if they do not fit.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, Full> {
        heapless::Vec::from_slice(bytes).map(Self).map_err(|_| Full { needed: bytes.len() })
    }
}

impl<const BYTES: usize> AsRef<[u8]> for ArrayBuffer<BYTES> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<const BYTES: usize> Buffer for ArrayBuffer<BYTES> {
    fn as_slice(&self) -> &[u8] {
        &self.0
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn room(&self) -> usize {
        BYTES - self.0.len()
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let needed = self.0.len().saturating_add(bytes.len());
        self.0.extend_from_slice(bytes).map_err(|_| Full { needed })
    }

    fn append_with<E>(
        &mut self,
        _needed: impl FnOnce() -> usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let held = self.0.len();
        let _all_room_is_there = self.0.resize_default(BYTES);
        let written = fill(self.0.get_mut(held..).unwrap_or(&mut []));
        self.0.truncate(written.as_ref().map_or(held, |len| held.saturating_add(*len)));
        written
    }

    fn drop_front(&mut self, len: usize) {
        let len = len.min(self.0.len());
        let kept = self.0.len() - len;
        move_down(&mut self.0, len, 0, kept);
        self.0.truncate(kept);
    }

    // Nothing has to be moved, and a client needs no more.
    fn clear(&mut self) {
        self.0.truncate(0);
    }
}

impl<T> Slots<T> for [Option<T>] {
    fn end(&self) -> usize {
        self.iter().rposition(Option::is_some).map_or(0, |last| last + 1)
    }

    fn capacity(&self) -> usize {
        self.len()
    }

    fn get(&self, index: usize) -> Option<&T> {
        <[Option<T>]>::get(self, index)?.as_ref()
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        <[Option<T>]>::get_mut(self, index)?.as_mut()
    }

    fn insert(&mut self, item: T) -> Option<usize> {
        let free = self.iter().position(Option::is_none)?;
        *<[Option<T>]>::get_mut(self, free)? = Some(item);
        Some(free)
    }

    fn remove(&mut self, index: usize) -> Option<T> {
        <[Option<T>]>::get_mut(self, index)?.take()
    }
}

impl<T, const N: usize> Slots<T> for [Option<T>; N] {
    fn end(&self) -> usize {
        self[..].end()
    }

    fn capacity(&self) -> usize {
        N
    }

    fn get(&self, index: usize) -> Option<&T> {
        Slots::get(&self[..], index)
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        Slots::get_mut(&mut self[..], index)
    }

    fn insert(&mut self, item: T) -> Option<usize> {
        self[..].insert(item)
    }

    fn remove(&mut self, index: usize) -> Option<T> {
        self[..].remove(index)
    }
}

/// Numbered places in an array, of which those behind the last one in use take no initial value: an empty
/// table is all zeros and takes no room in an image, which a table of absent things does.
///
/// ```
/// use pmi_core::storage::{ArraySlots, Slots};
///
/// let mut slots = ArraySlots::<u8, 8>::new();
/// assert_eq!(slots.insert(7), Some(0));
/// assert_eq!(slots.remove(0), Some(7));
/// ```
#[derive(Debug)]
pub struct ArraySlots<T, const PLACES: usize>(heapless::Vec<Option<T>, PLACES>);

impl<T, const PLACES: usize> ArraySlots<T, PLACES> {
    /// Creates a table of free places.
    pub const fn new() -> Self {
        Self(heapless::Vec::new())
    }
}

impl<T, const PLACES: usize> Default for ArraySlots<T, PLACES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const PLACES: usize> Slots<T> for ArraySlots<T, PLACES> {
    fn end(&self) -> usize {
        self.0[..].end()
    }

    fn capacity(&self) -> usize {
        PLACES
    }

    fn get(&self, index: usize) -> Option<&T> {
        Slots::get(&self.0[..], index)
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        Slots::get_mut(&mut self.0[..], index)
    }

    fn insert(&mut self, item: T) -> Option<usize> {
        let free = match self.0.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                self.0.push(None).ok()?;
                self.0.len() - 1
            }
        };
        *self.0[..].get_mut(free)? = Some(item);
        Some(free)
    }

    fn remove(&mut self, index: usize) -> Option<T> {
        self.0[..].remove(index)
    }
}

/// A table that was lent is the table.
impl<T, S: Slots<T> + ?Sized> Slots<T> for &mut S {
    fn end(&self) -> usize {
        (**self).end()
    }

    fn capacity(&self) -> usize {
        (**self).capacity()
    }

    fn get(&self, index: usize) -> Option<&T> {
        (**self).get(index)
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        (**self).get_mut(index)
    }

    fn insert(&mut self, item: T) -> Option<usize> {
        (**self).insert(item)
    }

    fn remove(&mut self, index: usize) -> Option<T> {
        (**self).remove(index)
    }
}

/// Moves `len` bytes from `from` down to `to`; those beyond the end stay where they are.
///
/// Byte by byte: the library's ways of moving bytes end in a panic for what they are not shown to
/// be impossible.
pub(crate) fn move_down(bytes: &mut [u8], from: usize, to: usize, len: usize) {
    for at in 0..len {
        let Some(byte) = bytes.get(from.saturating_add(at)).copied() else { return };
        if let Some(place) = bytes.get_mut(to.saturating_add(at)) {
            *place = byte;
        }
    }
}

/// Copies `from` to the front of `to`, as far as both go.
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_takes_all_or_nothing() {
        let mut buffer = ArrayBuffer::<4>::new();
        buffer.extend(b"abc").unwrap();
        assert_eq!(buffer.extend(b"de"), Err(Full { needed: 5 }));
        assert_eq!((buffer.as_slice(), buffer.room()), (&b"abc"[..], 1));
        assert_eq!(buffer.append_with(|| 1, |_| Err::<usize, _>("refused")), Err("refused"));
        assert_eq!(buffer.as_slice(), b"abc");
        buffer.drop_front(2);
        assert_eq!(buffer.as_slice(), b"c");
        let appended = buffer.append_with(
            || 1,
            |room| {
                assert_eq!(room.len(), 3);
                room[..2].copy_from_slice(b"de");
                Ok::<_, Full>(2)
            },
        );
        assert_eq!((appended, buffer.as_slice()), (Ok(2), &b"cde"[..]));
        buffer.drop_front(9);
        assert_eq!(buffer, ArrayBuffer::new());
    }

    #[test]
    fn place_keeps_its_number_until_it_is_freed() {
        let mut slots = [const { None::<u8> }; 2];
        assert_eq!(Slots::insert(&mut slots, 7), Some(0));
        assert_eq!(Slots::insert(&mut slots, 8), Some(1));
        assert_eq!(Slots::insert(&mut slots, 9), None);
        assert_eq!(Slots::remove(&mut slots, 0), Some(7));
        assert_eq!(
            (slots.end(), Slots::get(&slots, 0), Slots::get(&slots, 1)),
            (2, None, Some(&8))
        );
        let mut growing = ArraySlots::<u8, 2>::new();
        assert_eq!(Slots::insert(&mut growing, 7), Some(0));
        assert_eq!(Slots::insert(&mut growing, 8), Some(1));
        assert_eq!(Slots::insert(&mut growing, 9), None);
        assert_eq!(Slots::remove(&mut growing, 0), Some(7));
        assert_eq!((Slots::insert(&mut growing, 9), growing.end()), (Some(0), 2));
        let mut lent: &mut [Option<u8>] = &mut slots;
        assert_eq!(Slots::insert(&mut lent, 9), Some(0));
        assert_eq!(Slots::get(&lent, 5), None);
    }
}
