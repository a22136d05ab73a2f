//! Standard input of the launcher, for several readers, without ever taking more of it than they have
//! read.
//!
//! A shell may read the same input before and after the launcher, as in a `while read` loop around it.
//! Bytes taken from a pipe cannot be put back, so they are inspected first: a pipe can be copied without
//! being read (`tee`), a socket be peeked into, a file be read at any place. Only bytes that a rank has
//! read are then taken. A terminal supports none of that: one line at most is taken there before a rank
//! has read it.

use pmi_host_os::console::is_in_foreground;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, SeekFrom, fstat, seek};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};
use std::collections::VecDeque;
use std::io;

/// Standard input. Positions count from its initial offset.
#[derive(Debug)]
pub(crate) struct Source {
    fd: OwnedFd,
    kind: Kind,
    /// Bytes that a reader may still need.
    window: VecDeque<u8>,
    /// Position of the first byte of the window.
    window_start: u64,
    /// Position up to which input was taken.
    taken: u64,
    /// The end was seen. A terminal reports it once, and there are several readers.
    has_ended: bool,
}

#[derive(Debug)]
enum Kind {
    /// Regular file, with its initial offset.
    File(u64),
    /// With an internal pipe to copy into.
    Pipe {
        read: OwnedFd,
        write: OwnedFd,
    },
    Socket,
    /// A terminal or another device.
    Other,
}

/// Result of a look at the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceRead {
    /// Input is available.
    Some,
    /// Nothing is available yet.
    Later,
    /// Input is available, but without room before the slowest reader has read more.
    Full,
    /// It is a terminal that another program uses now, and reading it would stop this process.
    Elsewhere,
    /// End of input.
    End,
}

impl Source {
    /// Determines the kind of `fd`.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let kind = match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
            FileType::RegularFile => Kind::File(seek(&fd, SeekFrom::Current(0))?),
            FileType::Fifo => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
                Kind::Pipe { read, write }
            }
            FileType::Socket => Kind::Socket,
            _ => Kind::Other,
        };
        Ok(Self { fd, kind, window: VecDeque::new(), window_start: 0, taken: 0, has_ended: false })
    }

    /// Copies up to [`CHUNK`] bytes from `position` on into `chunk`. Everything before must have been
    /// taken with [`take`](Self::take).
    pub(crate) fn read_at(&mut self, position: u64, chunk: &mut Vec<u8>) -> SourceRead {
        chunk.clear();
        if let Kind::File(start) = self.kind {
            return match rustix::io::pread(&self.fd, spare_capacity(chunk), start + position) {
                Ok(count) if count > 0 => SourceRead::Some,
                Err(Errno::INTR) => self.read_at(position, chunk),
                Ok(_) | Err(_) => SourceRead::End,
            };
        }
        let offset = usize::try_from(position - self.window_start).unwrap_or(usize::MAX);
        if offset >= self.window.len() {
            if self.has_ended {
                return SourceRead::End;
            }
            if self.is_full() {
                return SourceRead::Full;
            }
            match self.peek(chunk) {
                Ok(0) => {
                    self.has_ended = true;
                    return SourceRead::End;
                }
                Ok(_) => self.window.extend(&*chunk),
                Err(look) => return look,
            }
            chunk.clear();
        }
        chunk.extend(self.window.range(offset..).take(CHUNK));
        SourceRead::Some
    }

    /// Takes everything up to `position`, which a reader has read.
    pub(crate) fn consume(&mut self, position: u64) {
        let Some(count) = position.checked_sub(self.taken).filter(|count| *count > 0) else {
            return;
        };
        self.taken = position;
        match &self.kind {
            // For a file, taking means moving its offset.
            Kind::File(start) => drop(seek(&self.fd, SeekFrom::Start(start + position))),
            Kind::Pipe { .. } => self.discard(count, |fd, room| rustix::io::read(fd, room)),
            Kind::Socket => self.discard(count, |fd, room| {
                let flags = RecvFlags::DONTWAIT;
                rustix::net::recv(fd, room, flags).map(|(count, _)| count)
            }),
            Kind::Other => {}
        }
    }

    /// Drops everything before `position`, which no reader needs any more.
    pub(crate) fn forget(&mut self, position: u64) {
        let count =
            usize::try_from(position.saturating_sub(self.window_start)).unwrap_or(usize::MAX);
        let count = count.min(self.window.len());
        self.window.drain(..count);
        self.window_start = position.max(self.window_start);
    }

    /// Descriptor that becomes readable when there is more.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn is_full(&self) -> bool {
        self.window.len() >= WINDOW
    }

    /// Copies the next input into `chunk`. In a pipe or a socket it also stays.
    fn peek(&mut self, chunk: &mut Vec<u8>) -> Result<usize, SourceRead> {
        let peeked = match &self.kind {
            Kind::Pipe { read, write } => {
                match tee(&self.fd, write, CHUNK, SpliceFlags::NONBLOCK) {
                    Ok(count) if count > 0 => rustix::io::read(read, spare_capacity(chunk)),
                    nothing => nothing,
                }
            }
            Kind::Socket => {
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                rustix::net::recv(&self.fd, spare_capacity(chunk), flags).map(|(count, _)| count)
            }
            Kind::File(_) | Kind::Other => {
                if self.has_something() == Ok(false) {
                    return Err(SourceRead::Later);
                }
                if is_in_foreground(self.fd.as_fd()) == Some(false) {
                    return Err(SourceRead::Elsewhere);
                }
                rustix::io::read(&self.fd, spare_capacity(chunk))
            }
        };
        peeked.map_err(|error| match error {
            Errno::AGAIN | Errno::INTR => SourceRead::Later,
            _ => SourceRead::End,
        })
    }

    /// Reads and drops input that was inspected before.
    fn discard(
        &self,
        mut count: u64,
        read: impl Fn(BorrowedFd<'_>, &mut [u8]) -> Result<usize, Errno>,
    ) {
        let mut room = [0; CHUNK];
        // The input may be missing if another program reads the same pipe; do not block for it then.
        while count > 0 && self.has_something() == Ok(true) {
            let wanted = usize::try_from(count).map_or(CHUNK, |count| count.min(CHUNK));
            match read(self.fd(), &mut room[..wanted]) {
                Ok(0) => return,
                Ok(got) => count -= u64::try_from(got).unwrap_or(count),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn has_something(&self) -> Result<bool, Errno> {
        let mut wanted = [PollFd::new(&self.fd, PollFlags::IN)];
        Ok(poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
    }
}

/// Maximum number of bytes of one look: the atomic size of a pipe write (`PIPE_BUF`).
pub(crate) const CHUNK: usize = 4096;

/// Maximum distance between the fastest reader and the slowest one. A file has no such bound.
const WINDOW: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    /// Looks at everything but takes `taken` bytes only; returns the inspected input and the rest left
    /// for others.
    fn seen_and_left(fd: OwnedFd, taken: u64) -> (String, String) {
        let mut left = File::from(fd.try_clone().unwrap());
        let mut source = Source::new(fd).unwrap();
        let mut chunk = Vec::with_capacity(CHUNK);
        assert_eq!(source.read_at(0, &mut chunk), SourceRead::Some);
        let seen = String::from_utf8(chunk).unwrap();
        source.consume(taken);
        let mut rest = String::new();
        left.read_to_string(&mut rest).unwrap();
        (seen, rest)
    }

    #[test]
    fn unread_input_stays_for_others() {
        let expected = ("one\ntwo\n".to_owned(), "two\n".to_owned());
        let (read, write) = pipe_with(PipeFlags::empty()).unwrap();
        File::from(write).write_all(b"one\ntwo\n").unwrap();
        assert_eq!(seen_and_left(read, 4), expected);

        let (read, mut write) = UnixStream::pair().unwrap();
        write.write_all(b"one\ntwo\n").unwrap();
        drop(write);
        assert_eq!(seen_and_left(read.into(), 4), expected);

        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"zero\none\ntwo\n").unwrap();
        seek(&file, SeekFrom::Start(5)).unwrap();
        assert_eq!(seen_and_left(file.into(), 4), expected);
    }

    #[test]
    fn reader_that_is_behind_finds_what_was_taken() {
        let (read, write) = pipe_with(PipeFlags::empty()).unwrap();
        let mut write = File::from(write);
        write.write_all(b"abc").unwrap();
        let (mut source, mut chunk) = (Source::new(read).unwrap(), Vec::with_capacity(CHUNK));
        assert_eq!(source.read_at(0, &mut chunk), SourceRead::Some);
        source.consume(3);
        assert_eq!(source.read_at(3, &mut chunk), SourceRead::Later);
        write.write_all(b"def").unwrap();
        drop(write);
        assert_eq!((source.read_at(3, &mut chunk), &*chunk), (SourceRead::Some, &b"def"[..]));
        source.consume(6);
        source.forget(1);
        assert_eq!((source.read_at(1, &mut chunk), &*chunk), (SourceRead::Some, &b"bcdef"[..]));
        assert_eq!(source.read_at(6, &mut chunk), SourceRead::End);
    }
}
