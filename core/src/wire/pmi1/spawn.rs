//! The one PMI-1 message that is a block of lines.
//!
//! Spec: PMI-1.1 `mcmd=spawn`; `docs/pmi1.md`, spawn.

use super::super::{Framed, WriteError, Writer};
use super::line::{is_pair, up_to};
use crate::command::{Field, Spawn, SpawnWords, Text, is_numbered};
use crate::error::{Malformed, Misuse};

/// Start of a spawn.
pub(super) const SPAWN_START: &[u8] = b"mcmd=spawn";

/// The words of a spawn in PMI-1.
pub(super) static SPAWN_WORDS: SpawnWords = SpawnWords {
    cut,
    begins: b"mcmd",
    executable: b"execname",
    processes: b"nprocs",
    argument: b"arg",
    preput: [b"preput_key_", b"preput_val_"],
    info: [b"info_key_", b"info_val_", b"info_val_"],
};

/// Fields with one line as their value, besides the ends of blocks.
const LINES: [&[u8]; 8] = [
    b"mcmd",
    b"cmd",
    b"nprocs",
    b"execname",
    b"totspawns",
    b"spawnssofar",
    b"argcnt",
    b"preput_num",
];

/// Numbered fields, whose values may have line ends.
const TEXTS: [&[u8]; 3] = [b"arg", b"preput_key_", b"preput_val_"];

/// Numbered fields behind which a field may follow that this server does not know.
const HINTS: [&[u8]; 2] = [b"info_key_", b"info_val_"];

const END: &[u8] = b"endcmd";

/// Scans the programs of a spawn up to the last one.
pub(super) fn frame_spawn(bytes: &[u8]) -> Result<Framed, Malformed> {
    let mut at = 0;
    let (mut programs, mut total, mut so_far) = (0u32, None, None);
    loop {
        let rest = bytes.get(at..).unwrap_or(b"");
        // The whole rest of a line is its value: an argument may look like a count.
        let Some((name, value, after)) = cut(rest) else { return Ok(Framed::Partial) };
        let begin = at;
        at = bytes.len() - after.len();
        match name {
            // Spec: RFC 13, Wire Protocol: another command before the end of a block is an error.
            b"cmd" => return Err(Malformed::new(begin, "endcmd")),
            b"totspawns" => total = value.number().or(total),
            b"spawnssofar" => so_far = value.number().or(so_far),
            END => {
                programs = programs.saturating_add(1);
                // Without the two numbers there is one program. Clients count from 0 or from 1.
                let counted = so_far.take().unwrap_or(programs).max(programs);
                if counted >= total.unwrap_or(1) {
                    return Ok(Framed::Whole(at));
                }
                if !after.iter().zip(SPAWN_START).all(|(a, b)| a == b) {
                    return Err(Malformed::new(at, "mcmd=spawn"));
                }
            }
            _ => {}
        }
    }
}

/// Writes one block for each program.
///
/// # Errors
///
/// As for [`super::write_request`].
pub(crate) fn write_spawn(spawn: Spawn<'_>, out: &mut [u8]) -> Result<usize, WriteError> {
    let mut writer = Writer::new(out);
    let total = u32::try_from(spawn.programs().count()).unwrap_or(u32::MAX);
    if total == 0 {
        return Err(Misuse::Length { what: "spawn", len_bytes: 0, limit_bytes: 0 }.into());
    }
    for (at, program) in (1u32..).zip(spawn.programs()) {
        if program.executable.is_empty() {
            return Err(Misuse::Length { what: "executable", len_bytes: 0, limit_bytes: 0 }.into());
        }
        let mut block = BlockWriter(&mut writer);
        block.line("mcmd", 0, Text::from("spawn"))?;
        block.number("nprocs", program.processes).line("execname", 0, program.executable)?;
        block.number("totspawns", total).number("spawnssofar", at);
        // Numbered from 1, with the count behind: the form that the strictest servers read.
        let mut count = 0;
        for argument in program.arguments.iter() {
            count += 1;
            block.line("arg", count, argument)?;
        }
        block.number("argcnt", count);
        let preputs = u32::try_from(spawn.preputs().count()).unwrap_or(u32::MAX);
        block.number("preput_num", preputs);
        for (at, pair) in (0..).zip(spawn.preputs()) {
            block.indexed("preput_key_", at, pair.key)?.indexed("preput_val_", at, pair.value)?;
        }
        block.number("info_num", u32::try_from(program.info.iter().count()).unwrap_or(u32::MAX));
        for (at, pair) in (0..).zip(program.info.iter()) {
            block.indexed("info_key_", at, pair.key)?.indexed("info_val_", at, pair.value)?;
        }
        writer.bytes(b"endcmd\n");
    }
    Ok(writer.finish()?)
}

/// Writes the lines of a spawn.
struct BlockWriter<'w, 'a>(&'w mut Writer<'a>);

impl BlockWriter<'_, '_> {
    fn number(&mut self, key: &str, value: u32) -> &mut Self {
        self.0.bytes(key.as_bytes()).byte(b'=').number(value).byte(b'\n');
        self
    }

    /// `key=value`, or `keyN=value` for N from 1.
    fn line(&mut self, key: &str, number: u32, value: Text<'_>) -> Result<&mut Self, Misuse> {
        self.0.bytes(key.as_bytes());
        if number > 0 {
            self.0.number(number);
        }
        self.value(value)
    }

    fn indexed(&mut self, key: &str, index: u32, value: Text<'_>) -> Result<&mut Self, Misuse> {
        self.0.bytes(key.as_bytes()).number(index);
        self.value(value)
    }

    fn value(&mut self, value: Text<'_>) -> Result<&mut Self, Misuse> {
        // A carriage return is part of the value, unless it may belong to the line's end.
        let last = value.bytes().last();
        if value.bytes().any(|b| matches!(b, 0 | b'\n')) || last == Some(b'\r') {
            return Err(Misuse::NotRepresentable {
                what: "PMI-1 has no line end or NUL in a spawn",
            });
        }
        self.0.byte(b'=').text(value).byte(b'\n');
        Ok(self)
    }
}

/// Cuts `key=value` off the front of a spawn.
///
/// Shape: a value ends with its line, or, as clients write an argument with line ends as it is, before the
/// next line that is a field. `None` until that one is whole.
fn cut(bytes: &[u8]) -> Option<Field<'_>> {
    let mut end = line_end(bytes)?;
    let first = name_of(bytes.get(..end)?);
    while is_any(first, &TEXTS) || is_any(first, &HINTS) {
        let next = bytes.get(end + 1..)?;
        let len = line_end(next)?;
        if is_field(next.get(..len)?, first) {
            break;
        }
        end += 1 + len;
    }
    let field = bytes.get(..end)?;
    let field = field.strip_suffix(b"\r").unwrap_or(field);
    let value = field.get(first.len() + 1..).unwrap_or(b"");
    Some((first, Text::plain(value), bytes.get(end + 1..)?))
}

fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|b| *b == b'\n')
}

/// The part of a line in front of its `=`.
fn name_of(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    up_to(line, b'=')
}

/// True if a line is a field of its own, and not the rest of the value of the field `before` it.
fn is_field(line: &[u8], before: &[u8]) -> bool {
    let name = name_of(line);
    let has_value = line.contains(&b'=');
    let is_known = LINES.contains(&name)
        || *name == *b"info_num"
        || is_any(name, &TEXTS)
        || is_any(name, &HINTS)
        // Nobody inserts a field between arguments, so that it is one of their lines.
        || is_pair(line) && is_any(before, &HINTS);
    has_value && is_known || name == END && !has_value
}

/// True if a name is one of these words with a number.
fn is_any(name: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|word| is_numbered(name, word))
}
