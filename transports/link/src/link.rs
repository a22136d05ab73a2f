//! The wire as a driver sees it: two calls that never wait.

use crate::LinkError;

/// A connected stream of bytes, in both directions.
///
/// Neither call blocks. Bytes arrive in order, complete, and once; their division into calls has no
/// meaning. Dropping a link closes it. Every implementation is tested with
/// [`conformance`](crate::conformance).
pub trait Link {
    /// Reads what is there into the front of `out`.
    ///
    /// Shape: [`Read::Bytes`] is at least 1; an empty `out` reads nothing and gives
    /// [`Read::NotNow`]. After [`Read::End`] every call gives it again.
    ///
    /// # Errors
    ///
    /// [`LinkError`] is final for both directions. What the peer sent before can be lost.
    fn try_read(&mut self, out: &mut [u8]) -> Result<Read, LinkError>;

    /// Writes a prefix of `bytes`.
    ///
    /// Shape: [`Wrote::Bytes`] is at least 1; of an empty `bytes` nothing is written, which gives
    /// [`Wrote::NotNow`].
    ///
    /// # Errors
    ///
    /// [`LinkError`] is final for this direction. What the peer sent before can still be
    /// read.
    fn try_write(&mut self, bytes: &[u8]) -> Result<Wrote, LinkError>;
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Read {
    /// So many bytes.
    Bytes(usize),
    /// Nothing is there yet.
    NotNow,
    /// The peer sends no more.
    End,
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Wrote {
    /// So many bytes were taken.
    Bytes(usize),
    /// There is no room yet.
    NotNow,
}

impl<L: Link + ?Sized> Link for &mut L {
    fn try_read(&mut self, out: &mut [u8]) -> Result<Read, LinkError> {
        (**self).try_read(out)
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Wrote, LinkError> {
        (**self).try_write(bytes)
    }
}
