//! Something that is asked of the process manager.

use super::app::{Texts, read_infos};
use super::parts::List;
use super::unpack::Unpacker;
use crate::error::Malformed;

/// Keys that are asked for, with what restricts them.
///
/// Wire: `i32` and as many STRINGs; SIZE and as many INFOs.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// What is asked for; each has one entry in the answer.
    pub keys: Texts<'a>,
    /// Of which job, process or nodes. What occurs several times means any of them.
    pub qualifiers: List<'a>,
}

impl<'a> Query<'a> {
    /// Reads one, as it stands inside other values.
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
