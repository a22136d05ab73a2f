//! Spawn in one frame: groups of fields, one group for each program.
//!
//! Spec: PMI-2 wire protocol, SPAWN, as practised: no `spawn-cmd` messages, numbers from 0.

use super::super::WriteError;
use super::fields::{FrameWriter, Semicolons, cut_doubled, cut_single, sayable};
use crate::command::{Spawn, SpawnWords, Text};
use crate::error::Misuse;

/// The words of a spawn, for peers that write `;` twice or once.
pub(super) fn words(semicolons: Semicolons) -> &'static SpawnWords {
    match semicolons {
        Semicolons::Doubled => &DOUBLED,
        Semicolons::Single => &SINGLE,
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
    semicolons: Semicolons,
) -> Result<(), WriteError> {
    let say = |text: Text<'_>| sayable(text, semicolons).map(drop);
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
    info: [b"infokey", b"infoval"],
};

static SINGLE: SpawnWords = SpawnWords { cut: cut_single, ..DOUBLED };
