//! A link for the calls of a client.

use embedded_io::ErrorKind;
use embedded_io_async::{ErrorType, Read, Write};
use pmi_link::{LinkError, Wrote};

use crate::AsyncLink;

/// Reads and writes that are awaited, over a link: what [`pmi_link::task::AsyncPmi`] wants.
#[derive(Debug)]
pub struct LinkStream<L>(L);

/// Error of a stream.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error(transparent)]
pub struct StreamError(pub LinkError);

impl<L: AsyncLink> LinkStream<L> {
    /// Wraps a link.
    pub const fn new(link: L) -> Self {
        Self(link)
    }
}

impl<L: AsyncLink> ErrorType for LinkStream<L> {
    type Error = StreamError;
}

impl<L: AsyncLink> Read for LinkStream<L> {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, StreamError> {
        loop {
            match self.0.try_read(out).map_err(StreamError)? {
                pmi_link::Read::Bytes(len) => return Ok(len),
                pmi_link::Read::End => return Ok(0),
                pmi_link::Read::NotNow if out.is_empty() => return Ok(0),
                pmi_link::Read::NotNow => self.0.changed().await,
            }
        }
    }
}

impl<L: AsyncLink> Write for LinkStream<L> {
    async fn write(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        loop {
            match self.0.try_write(bytes).map_err(StreamError)? {
                Wrote::Bytes(len) => return Ok(len),
                Wrote::NotNow if bytes.is_empty() => return Ok(0),
                Wrote::NotNow => self.0.changed().await,
            }
        }
    }

    async fn flush(&mut self) -> Result<(), StreamError> {
        Ok(())
    }
}

impl embedded_io::Error for StreamError {
    fn kind(&self) -> ErrorKind {
        match self.0 {
            LinkError::Reset => ErrorKind::ConnectionReset,
            LinkError::Closed => ErrorKind::BrokenPipe,
            _ => ErrorKind::Other,
        }
    }
}
