//! Queries to the process manager.

use super::app::{Texts, read_infos};
use super::parts::List;
use super::unpack::Unpacker;
use crate::error::Malformed;

/// Requested keys with their qualifiers.
///
/// Wire: `i32` and as many STRINGs; SIZE and as many INFOs.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// Requested keys; each has one entry in the response.
    pub keys: Texts<'a>,
    /// Job, process or nodes of the query. A repeated qualifier matches any of its values.
    pub qualifiers: List<'a>,
}

impl<'a> Query<'a> {
    /// Reads a query without a pack operation, as inside other values.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn read(from: &mut Unpacker<'a>) -> Result<Self, Malformed> {
        let count = from.i32()?;
        let keys = Texts::read(from, count)?;
        Ok(Self { keys, qualifiers: read_infos(from)? })
    }
}
