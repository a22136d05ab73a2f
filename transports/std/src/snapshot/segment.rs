//! The segment of a rank: requests that need no reply of their own, handed to the server with the next
//! message.
//!
//! ```text
//!  0  number of the batch, from 1          8  code of the first refused request, 0 if there is none
//!  4  length of the batch in bytes        12  0
//! 16  requests of the batch: length in 4 bytes, then the message as on the wire
//! ```
//!
//! The segment belongs to one side at a time. The rank writes while none of its requests is outstanding.
//! It then writes the header and sends a message; from the first byte of that message to its reply the
//! segment belongs to the server, which reads a batch once. So nothing is shared at the same time, and
//! no order of memory accesses matters but that of the socket. A rank that violates this changes only
//! what is read as its own requests.

use super::sealed;
use crate::inherit::memory::{FIXED, SharedMemory, check_seals};
use pmi_core::error::Code;
use pmi_core::wire::snapshot::number_at;
use rustix::fs::fstat;
use rustix::io::{pread, pwrite};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A segment, as its rank writes it.
#[derive(Debug)]
pub struct SegmentWriter {
    memory: SharedMemory,
    /// End of the requests that were not handed over.
    tail: usize,
    batch: u32,
}

/// A segment, as the server reads it.
#[derive(Debug)]
pub struct SegmentReader {
    file: OwnedFd,
    /// The batch that was read last.
    batch: u32,
}

impl SegmentWriter {
    /// Creates a segment, and the descriptor for the server.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn create() -> io::Result<(Self, OwnedFd)> {
        let file = sealed::fixed("pmi-segment", SEGMENT_BYTES as u64)?;
        let memory = SharedMemory::new(&file)?;
        Ok((Self { memory, tail: HEADER_BYTES, batch: 0 }, file))
    }

    /// Appends a request to the batch; false if it does not fit, and nothing has changed.
    pub fn push(&mut self, message: &[u8]) -> bool {
        let Ok(len) = u32::try_from(message.len()) else { return false };
        let end = self.tail.saturating_add(LENGTH_BYTES).saturating_add(message.len());
        if end > self.memory.len() {
            return false;
        }
        self.memory.write(self.tail, &len.to_le_bytes());
        self.memory.write(self.tail + LENGTH_BYTES, message);
        self.tail = end;
        true
    }

    /// Hands the batch over, before the next message is sent. Without a request in it, nothing happens.
    pub fn commit(&mut self) {
        let Ok(len @ 1..) = u32::try_from(self.tail - HEADER_BYTES) else { return };
        self.batch = self.batch.wrapping_add(1);
        self.memory.write(0, &self.batch.to_le_bytes());
        self.memory.write(4, &len.to_le_bytes());
        self.tail = HEADER_BYTES;
    }

    /// The code of the first request that the server has refused since the last call.
    pub fn take_refused(&mut self) -> Option<Code> {
        let code = self.memory.number(8).cast_signed();
        if code == Code::SUCCESS.0 {
            return None;
        }
        self.memory.write(8, &[0; 4]);
        Some(Code(code))
    }
}

impl SegmentReader {
    /// Takes over the descriptor that a rank has sent.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::PermissionDenied`] for a file whose length may change, or of another length;
    /// errors of the system.
    pub fn new(file: OwnedFd) -> io::Result<Self> {
        check_seals(&file, FIXED)?;
        match usize::try_from(fstat(&file)?.st_size) {
            Ok(SEGMENT_BYTES) => Ok(Self { file, batch: 0 }),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    /// Copies the requests of a new batch into `batch`; false if there is none.
    ///
    /// Shape: one read for a short batch, two for others; the lengths in the copy are those that count.
    /// A length beyond the end of the segment ends there.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn read(&mut self, batch: &mut Vec<u8>) -> io::Result<bool> {
        batch.resize(SHORT_BYTES, 0);
        let held = pread(self.file.as_fd(), &mut batch[..], 0)?;
        batch.truncate(held);
        let [number, len] = [0, 4].map(|at| number_at(batch, at).unwrap_or(0));
        if number == self.batch {
            return Ok(false);
        }
        self.batch = number;
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(SEGMENT_BYTES - HEADER_BYTES);
        let end = HEADER_BYTES + len;
        while batch.len() < end {
            let held = batch.len();
            batch.resize(end, 0);
            let offset = u64::try_from(held).unwrap_or(u64::MAX);
            let more = pread(self.file.as_fd(), &mut batch[held..], offset)?;
            batch.truncate(held + more);
            if more == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        batch.truncate(end);
        batch.drain(..HEADER_BYTES);
        Ok(len > 0)
    }

    /// Tells the rank that a request was refused, unless an earlier one was.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn set_refused(&self, code: Code) -> io::Result<()> {
        let mut earlier = [0; 4];
        pread(self.file.as_fd(), &mut earlier[..], 8)?;
        if earlier == [0; 4] {
            pwrite(self.file.as_fd(), &code.0.to_le_bytes(), 8)?;
        }
        Ok(())
    }
}

/// Length of a segment. A put that does not fit is sent as a message.
pub const SEGMENT_BYTES: usize = 1 << 18;
const HEADER_BYTES: usize = 16;
const LENGTH_BYTES: usize = 4;
/// Bytes of the first read: enough for the puts of most programs between two fences.
const SHORT_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_core::wire::snapshot::split_message;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn pair() -> (SegmentWriter, SegmentReader) {
        let (writer, file) = SegmentWriter::create().unwrap();
        (writer, SegmentReader::new(file).unwrap())
    }

    fn requests(batch: &[u8]) -> Vec<Vec<u8>> {
        let (mut found, mut rest) = (Vec::new(), batch);
        while let Some((message, more)) = split_message(rest) {
            found.push(message.to_vec());
            rest = more;
        }
        found
    }

    #[test]
    fn batch_is_read_once_and_in_order() {
        let ((mut writer, mut reader), mut batch) = (pair(), Vec::new());
        assert!(!reader.read(&mut batch).unwrap());
        assert!(writer.push(b"one") && writer.push(b"two"));
        assert!(!reader.read(&mut batch).unwrap(), "it was not handed over");
        writer.commit();
        assert!(reader.read(&mut batch).unwrap());
        assert_eq!(requests(&batch), [b"one", b"two"]);
        writer.commit();
        assert!(!reader.read(&mut batch).unwrap());
        assert!(writer.push(&[7; 5000]));
        writer.commit();
        assert!(reader.read(&mut batch).unwrap());
        assert_eq!(requests(&batch), [[7; 5000]]);
    }

    #[test]
    fn full_segment_takes_no_more_until_it_is_handed_over() {
        let ((mut writer, mut reader), mut batch) = (pair(), Vec::new());
        let count =
            std::iter::repeat_with(|| writer.push(&[1; 1000])).take_while(|fit| *fit).count();
        assert_eq!(count, (SEGMENT_BYTES - HEADER_BYTES) / 1004);
        writer.commit();
        assert!(reader.read(&mut batch).unwrap());
        assert_eq!(requests(&batch).len(), count);
        assert!(writer.push(&[1; 1000]));
    }

    #[test]
    fn first_refusal_stays_until_it_is_taken() {
        let (mut writer, reader) = pair();
        assert_eq!(writer.take_refused(), None);
        reader.set_refused(Code(5)).unwrap();
        reader.set_refused(Code(7)).unwrap();
        assert_eq!((writer.take_refused(), writer.take_refused()), (Some(Code(5)), None));
    }

    #[test]
    fn rank_can_neither_shorten_its_segment_nor_offer_one_that_it_could() {
        let (_, file) = SegmentWriter::create().unwrap();
        let copy = File::from(file.try_clone().unwrap());
        assert!(copy.set_len(0).is_err() && copy.set_len(1 << 20).is_err());
        let mut reader = SegmentReader::new(file).unwrap();
        // A length beyond the end, and a request that is longer than the batch.
        copy.write_all_at(&[9, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], 0).unwrap();
        copy.write_all_at(&[0xff; 8], 16).unwrap();
        let mut batch = Vec::new();
        assert!(reader.read(&mut batch).unwrap());
        assert_eq!((batch.len(), split_message(&batch)), (SEGMENT_BYTES - HEADER_BYTES, None));
        let loose = sealed::create("test").unwrap();
        assert!(SegmentReader::new(loose).is_err());
        assert!(SegmentReader::new(sealed::fixed("test", 64).unwrap()).is_err());
        assert!(SegmentReader::new(File::open("/dev/null").unwrap().into()).is_err());
    }
}
