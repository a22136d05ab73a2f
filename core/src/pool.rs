//! Buffers that connections borrow while they need one.
//!
//! A connection needs memory only for a message that has begun and not ended, and most have none at a given
//! moment. A server for eight ranks of a board therefore needs two buffers in place of eight: each session
//! borrows one with the first byte that it has to hold and returns it with the last.
//!
//! While no buffer is free, a session takes no byte of a message that does not arrive as a whole
//! ([`handle_input`](crate::machine::Machine::handle_input) returns a smaller number); the bytes stay in the
//! link, and [`next_ready`](crate::server::Server::next_ready) names the session when a buffer is free
//! again. A whole message needs no buffer unless the build supports spawns or PMIx, whose requests the
//! server keeps until its owner has read them. A session that waits for a response holds none, so a job
//! makes progress with a single buffer. A peer that stops within a message keeps its buffer until its
//! session is closed: where peers are not trusted, a pool needs one buffer for each of them.
//!
//! ```
//! use pmi_core::pool::Pool;
//! use pmi_core::storage::Buffer;
//!
//! # fn owned_for_good<T>(value: T) -> &'static mut T { Box::leak(Box::new(value)) }
//! // A board takes both from memory with a fixed place, and lends them once.
//! let lines: &'static mut [[u8; 96]; 2] = owned_for_good([[0; 96]; 2]);
//! let pool: &'static Pool<96, 2> = owned_for_good(Pool::new(lines));
//!
//! let [mut first, mut second, mut third] = [pool.buffer(), pool.buffer(), pool.buffer()];
//! first.extend(b"cmd=in")?;
//! second.extend(b"cmd=g")?;
//! assert_eq!(third.room(), 0);
//! first.clear();
//! assert_eq!(third.room(), 96);
//! # Ok::<(), pmi_core::error::Full>(())
//! ```

use crate::error::Full;
use crate::storage::{Buffer, copy, move_down};
use core::cell::Cell;

/// `COUNT` buffers of `BYTES` bytes, for one thread.
///
/// Its memory is lent for good, since sessions are as long-lived as the server.
pub struct Pool<const BYTES: usize, const COUNT: usize> {
    /// The free buffers are in the first places.
    places: [Cell<Option<&'static mut [u8; BYTES]>>; COUNT],
    free_count: Cell<usize>,
}

/// A buffer that borrows its memory from a [`Pool`] while it holds bytes.
pub struct PooledBuffer<const BYTES: usize, const COUNT: usize> {
    pool: &'static Pool<BYTES, COUNT>,
    memory: Option<&'static mut [u8; BYTES]>,
    len: usize,
}

impl<const BYTES: usize, const COUNT: usize> Pool<BYTES, COUNT> {
    /// Creates a pool of free buffers.
    pub fn new(memory: &'static mut [[u8; BYTES]; COUNT]) -> Self {
        let places = memory.each_mut().map(|buffer| Cell::new(Some(buffer)));
        Self { places, free_count: Cell::new(COUNT) }
    }

    /// An empty buffer of one connection.
    pub const fn buffer(&'static self) -> PooledBuffer<BYTES, COUNT> {
        PooledBuffer { pool: self, memory: None, len: 0 }
    }

    /// Number of buffers that no connection has borrowed.
    pub const fn free_count(&self) -> usize {
        self.free_count.get()
    }

    fn take(&self) -> Option<&'static mut [u8; BYTES]> {
        let last = self.free_count.get().checked_sub(1)?;
        self.free_count.set(last);
        self.places.get(last)?.take()
    }

    fn put_back(&self, memory: &'static mut [u8; BYTES]) {
        let free_count = self.free_count.get();
        // There is a place, since each of the pool's buffers has one.
        debug_assert!(free_count < COUNT);
        if let Some(place) = self.places.get(free_count) {
            place.set(Some(memory));
            self.free_count.set(free_count + 1);
        }
    }
}

impl<const BYTES: usize, const COUNT: usize> PooledBuffer<BYTES, COUNT> {
    /// The memory behind the held bytes, borrowed now if there is none yet; empty if no buffer is free.
    fn room_mut(&mut self) -> &mut [u8] {
        if self.memory.is_none() {
            self.memory = self.pool.take();
        }
        let memory = self.memory.as_deref_mut().map(|memory| &mut memory[..]);
        memory.and_then(|memory| memory.get_mut(self.len..)).unwrap_or(&mut [])
    }

    /// Returns the memory if it holds no byte.
    fn release_empty(&mut self) {
        if self.len == 0
            && let Some(memory) = self.memory.take()
        {
            self.pool.put_back(memory);
        }
    }
}

impl<const BYTES: usize, const COUNT: usize> Buffer for PooledBuffer<BYTES, COUNT> {
    const IS_POOLED: bool = true;

    #[inline(never)]
    fn as_slice(&self) -> &[u8] {
        self.memory.as_deref().and_then(|memory| memory.get(..self.len)).unwrap_or(b"")
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        let held = self.memory.as_deref_mut().and_then(|memory| memory.get_mut(..self.len));
        held.unwrap_or(&mut [])
    }

    fn room(&self) -> usize {
        match self.memory.is_some() || self.pool.free_count() > 0 {
            true => BYTES.saturating_sub(self.len),
            false => 0,
        }
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let needed = self.len.saturating_add(bytes.len());
        let room = self.room_mut();
        if bytes.len() > room.len() {
            self.release_empty();
            return Err(Full { needed });
        }
        copy(room, bytes);
        self.len = needed;
        self.release_empty();
        Ok(())
    }

    fn extend_fitting(&mut self, bytes: &[u8]) -> usize {
        let room = self.room_mut();
        let len = bytes.len().min(room.len());
        copy(room, bytes);
        self.len += len;
        self.release_empty();
        len
    }

    fn append_with<E>(
        &mut self,
        _needed: impl FnOnce() -> usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let room = self.room_mut();
        let room_bytes = room.len();
        let written = fill(room);
        self.len += written.as_ref().map_or(0, |len| (*len).min(room_bytes));
        self.release_empty();
        written
    }

    fn drop_front(&mut self, len: usize) {
        let len = len.min(self.len);
        let kept = self.len - len;
        if let Some(memory) = &mut self.memory {
            move_down(&mut memory[..], len, 0, kept);
        }
        self.len = kept;
        self.release_empty();
    }

    fn clear(&mut self) {
        self.len = 0;
        self.release_empty();
    }
}

impl<const BYTES: usize, const COUNT: usize> Drop for PooledBuffer<BYTES, COUNT> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<const BYTES: usize, const COUNT: usize> core::fmt::Debug for Pool<BYTES, COUNT> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pool").field("free_count", &self.free_count()).finish_non_exhaustive()
    }
}

impl<const BYTES: usize, const COUNT: usize> core::fmt::Debug for PooledBuffer<BYTES, COUNT> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("PooledBuffer").field(&self.as_slice()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    fn pool<const COUNT: usize>() -> &'static Pool<4, COUNT> {
        Box::leak(Box::new(Pool::new(Box::leak(Box::new([[0; 4]; COUNT])))))
    }

    #[test]
    fn memory_is_borrowed_with_the_first_byte_and_returned_with_the_last() {
        let pool = pool::<1>();
        let (mut one, mut two) = (pool.buffer(), pool.buffer());
        one.extend(b"").unwrap();
        assert_eq!((pool.free_count(), one.room()), (1, 4));
        one.extend(b"abc").unwrap();
        assert_eq!((pool.free_count(), one.room(), two.room()), (0, 1, 0));
        assert_eq!(one.extend(b"de"), Err(Full { needed: 5 }));
        assert_eq!(two.extend(b"x"), Err(Full { needed: 1 }));
        one.drop_front(2);
        assert_eq!((one.as_slice(), pool.free_count()), (&b"c"[..], 0));
        one.drop_front(1);
        assert_eq!((one.as_slice(), pool.free_count()), (&b""[..], 1));
        two.extend(b"wxyz").unwrap();
        assert_eq!((two.as_slice(), two.room()), (&b"wxyz"[..], 0));
        drop(two);
        assert_eq!(pool.free_count(), 1);
    }

    #[test]
    fn failed_append_borrows_nothing() {
        let pool = pool::<2>();
        let mut one = pool.buffer();
        assert_eq!(one.append_with(|| 1, |_| Err::<usize, _>("refused")), Err("refused"));
        assert_eq!(one.extend(b"abcde"), Err(Full { needed: 5 }));
        assert_eq!(pool.free_count(), 2);
        let appended = one.append_with(
            || 1,
            |room| {
                room[..2].copy_from_slice(b"de");
                Ok::<_, Full>(2)
            },
        );
        assert_eq!((appended, one.as_slice(), pool.free_count()), (Ok(2), &b"de"[..], 1));
    }
}
