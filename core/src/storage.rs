//! What the owner lends: bytes that grow to a bound, and numbered places.
//!
//! The machines are written once over these two traits. A board lends arrays, a host lends
//! vectors; neither shows in the protocol code.

use crate::error::Full;

/// Bytes that arrive at the end and leave at the front, up to a bound.
pub trait Buffer {
    /// All bytes held.
    fn as_slice(&self) -> &[u8];

    /// How many more bytes fit.
    fn room(&self) -> usize;

    /// Adds all of `bytes`.
    ///
    /// Errors: [`Full`] if they do not fit; nothing was added then.
    fn extend(&mut self, bytes: &[u8]) -> Result<(), Full>;

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

    /// How many things there may be at once.
    fn capacity(&self) -> usize;

    /// The thing at `index`.
    fn get(&self, index: usize) -> Option<&T>;

    /// The thing at `index`, to change it.
    fn get_mut(&mut self, index: usize) -> Option<&mut T>;

    /// Puts `item` into the lowest free place and gives its number.
    ///
    /// Errors: gives `item` back when no place is free.
    fn insert(&mut self, item: T) -> Result<usize, T>;

    /// Takes the thing at `index` out.
    fn remove(&mut self, index: usize) -> Option<T>;
}

impl<const N: usize> Buffer for heapless::Vec<u8, N> {
    fn as_slice(&self) -> &[u8] {
        self
    }

    fn room(&self) -> usize {
        N - self.len()
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let needed = self.len().saturating_add(bytes.len());
        self.extend_from_slice(bytes).map_err(|_| Full { needed })
    }

    fn drop_front(&mut self, len: usize) {
        let len = len.min(self.len());
        self.copy_within(len.., 0);
        self.truncate(self.len() - len);
    }

    // Nothing has to be moved, and a client needs no more.
    fn clear(&mut self) {
        self.truncate(0);
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

    fn insert(&mut self, item: T) -> Result<usize, T> {
        match self.iter().position(Option::is_none) {
            Some(free) => {
                self[free] = Some(item);
                Ok(free)
            }
            None => Err(item),
        }
    }

    fn remove(&mut self, index: usize) -> Option<T> {
        <[Option<T>]>::get_mut(self, index)?.take()
    }
}

/// Both shapes in which a fixed table is lent behave as the slice they hold.
macro_rules! slots_as_slice {
    ($(($($generic:tt)*) $table:ty),*) => {$(
        impl<T, $($generic)*> Slots<T> for $table {
            fn end(&self) -> usize {
                <[Option<T>] as Slots<T>>::end(&self[..])
            }
            fn capacity(&self) -> usize {
                <[Option<T>] as Slots<T>>::capacity(&self[..])
            }
            fn get(&self, index: usize) -> Option<&T> {
                <[Option<T>] as Slots<T>>::get(&self[..], index)
            }
            fn get_mut(&mut self, index: usize) -> Option<&mut T> {
                <[Option<T>] as Slots<T>>::get_mut(&mut self[..], index)
            }
            fn insert(&mut self, item: T) -> Result<usize, T> {
                <[Option<T>] as Slots<T>>::insert(&mut self[..], item)
            }
            fn remove(&mut self, index: usize) -> Option<T> {
                <[Option<T>] as Slots<T>>::remove(&mut self[..], index)
            }
        }
    )*};
}

slots_as_slice!((const N: usize) [Option<T>; N], () &mut [Option<T>]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_takes_all_or_nothing() {
        let mut buffer = heapless::Vec::<u8, 4>::new();
        Buffer::extend(&mut buffer, b"abc").unwrap();
        assert_eq!(Buffer::extend(&mut buffer, b"de"), Err(Full { needed: 5 }));
        assert_eq!((buffer.as_slice(), buffer.room()), (&b"abc"[..], 1));
        buffer.drop_front(2);
        assert_eq!(buffer.as_slice(), b"c");
        buffer.drop_front(9);
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_place_keeps_its_number_until_it_is_freed() {
        let mut slots = [const { None::<u8> }; 2];
        assert_eq!(Slots::insert(&mut slots, 7), Ok(0));
        assert_eq!(Slots::insert(&mut slots, 8), Ok(1));
        assert_eq!(Slots::insert(&mut slots, 9), Err(9));
        assert_eq!(Slots::remove(&mut slots, 0), Some(7));
        assert_eq!(
            (slots.end(), Slots::get(&slots, 0), Slots::get(&slots, 1)),
            (2, None, Some(&8))
        );
        let mut lent: &mut [Option<u8>] = &mut slots;
        assert_eq!(Slots::insert(&mut lent, 9), Ok(0));
        assert_eq!(Slots::get(&lent, 5), None);
    }
}
