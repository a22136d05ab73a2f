//! A program to start.

use super::format::Format;
use super::parts::List;
use super::types::Type;
use super::unpack::Unpacker;
use crate::error::Malformed;

/// One program of a spawn.
///
/// Wire: STRING command; INT and as many STRINGs of arguments; `i32` and as many STRINGs of variables;
/// STRING working directory; INT processes; SIZE and as many INFOs.
#[derive(Clone, Copy, Debug)]
pub struct App<'a> {
    /// Program to start.
    pub command: &'a [u8],
    /// Arguments; the first one is the name of the program.
    pub words: Texts<'a>,
    /// Variables of its environment, as `NAME=VALUE`.
    pub variables: Texts<'a>,
    /// Working directory.
    pub directory: Option<&'a [u8]>,
    /// Number of processes.
    pub processes: i32,
    /// Directives for this program.
    pub infos: List<'a>,
}

/// Several texts.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    from: Unpacker<'a>,
    count: u32,
}

impl<'a> App<'a> {
    /// Reads a program without a pack operation, as inside other values.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn read(from: &mut Unpacker<'a>) -> Result<Self, Malformed> {
        let command = from.text()?.unwrap_or(b"");
        let count = from.int()?;
        let words = Texts::read(from, count)?;
        let count = from.i32()?;
        let variables = Texts::read(from, count)?;
        let (directory, processes) = (from.text()?, from.int()?);
        let infos = read_infos(from)?;
        Ok(Self { command, words, variables, directory, processes, infos })
    }
}

impl<'a> Texts<'a> {
    pub(super) fn read(from: &mut Unpacker<'a>, count: i32) -> Result<Self, Malformed> {
        let count = u32::try_from(count).map_err(|_| from.malformed("a number of texts"))?;
        from.check_count(u64::from(count))?;
        let texts = Self { from: *from, count };
        for _ in 0..count {
            from.text()?;
        }
        Ok(texts)
    }

    /// The texts in turn; a null pointer is an empty one.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut from = self.from;
        (0..self.count).map_while(move |_| from.text().ok().map(Option::unwrap_or_default))
    }
}

pub(super) fn read_infos<'a>(from: &mut Unpacker<'a>) -> Result<List<'a>, Malformed> {
    let count = from.size()?;
    from.check_count(count)?;
    let (start, format): (usize, Format) = (from.at(), from.format());
    for _ in 0..count {
        from.skip(Type::INFO)?;
    }
    let count = u32::try_from(count).map_err(|_| from.malformed("fewer infos"))?;
    Ok(List { of: Type::INFO, count, bytes: from.since(start), format })
}
