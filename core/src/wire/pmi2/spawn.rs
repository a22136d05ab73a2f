//! Spawn in one frame: groups of fields, one group for each program.
//!
//! Spec: PMI-2 wire protocol, SPAWN, as practised: no `spawn-cmd` messages, numbers from 0.

use super::super::{WriteError, names};
use super::fields::{Body, FrameStyle, FrameWriter, cut_doubled, cut_single, sayable};
use crate::command::{Field, Spawn, SpawnWords, Text};
use crate::error::Misuse;
use crate::limits::PMI2_LENGTH_DIGITS;

/// The words of a spawn with these fields.
pub(super) fn words(body: Body<'_>) -> &'static SpawnWords {
    match body.style {
        FrameStyle::LeftAligned => &DOUBLED,
        // The text's form has no other sign than the messages behind the first.
        _ if body.field("subcmd").is_none() => &SPECIFIED,
        FrameStyle::RightAligned => &SINGLE,
        FrameStyle::Specified => &DOUBLED,
    }
}

/// Writes the fields behind the command.
///
/// # Errors
///
/// [`WriteError::Misuse`] for a text that the peer's form of `;` cannot carry.
pub(super) fn write(
    spawn: Spawn<'_>,
    frame: &mut FrameWriter<'_>,
    style: FrameStyle,
) -> Result<(), WriteError> {
    let say = |text: Text<'_>| sayable(text, style).map(drop);
    let many = |count: usize| {
        let limit_bytes = u32::MAX as usize;
        u32::try_from(count).map_err(|_| Misuse::Length {
            what: "spawn",
            len_bytes: count,
            limit_bytes,
        })
    };
    frame.number("ncmds", many(spawn.programs().count())?);
    frame.number("preputcount", many(spawn.preputs().count())?);
    for (at, pair) in (0..).zip(spawn.preputs()) {
        say(pair.key).and(say(pair.value))?;
        frame.indexed("ppkey", at, pair.key).indexed("ppval", at, pair.value);
    }
    for program in spawn.programs() {
        say(program.executable)?;
        frame.text("subcmd", program.executable).number("maxprocs", program.processes);
        frame.number("argc", many(program.arguments.iter().count())?);
        for (at, argument) in (0..).zip(program.arguments.iter()) {
            say(argument)?;
            frame.indexed("argv", at, argument);
        }
        frame.number("infokeycount", many(program.info.iter().count())?);
        for (at, pair) in (0..).zip(program.info.iter()) {
            say(pair.key).and(say(pair.value))?;
            frame.indexed("infokey", at, pair.key).indexed("infoval", at, pair.value);
        }
    }
    Ok(())
}

static DOUBLED: SpawnWords = SpawnWords {
    cut: cut_doubled,
    begins: b"subcmd",
    executable: b"subcmd",
    processes: b"maxprocs",
    argument: b"argv",
    preput: [b"ppkey", b"ppval"],
    info: [b"infokey", b"infoval", b"infovalue"],
};

/// One message `spawn-cmd` for each program, whose name is its first argument.
static SPECIFIED: SpawnWords =
    SpawnWords { cut: cut_messages, begins: names::SPAWN_COMMAND, executable: b"argv0", ..DOUBLED };

static SINGLE: SpawnWords = SpawnWords { cut: cut_single, ..DOUBLED };

/// Cuts off the first field of several messages. The head of a message becomes a field without a value, named
/// like its command.
fn cut_messages(bytes: &[u8]) -> Option<Field<'_>> {
    let head = bytes.get(PMI2_LENGTH_DIGITS..).filter(|rest| {
        let is_length = |byte: &u8| matches!(byte, b' ' | b'\t' | b'0'..=b'9');
        rest.starts_with(b"cmd=") && bytes.iter().take(PMI2_LENGTH_DIGITS).all(is_length)
    });
    let Some(head) = head else { return cut_doubled(bytes) };
    let (_, word, rest) = cut_doubled(head)?;
    Some((word.as_plain()?, Text::EMPTY, rest))
}
