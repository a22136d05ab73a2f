//! What was typed, made sure of: the program is found and may run, and the host has a name.

use super::args::{DEMO_RANK, RunArgs};
use crate::launch::program::{Program, ProgramError};
use std::env;
use std::ffi::OsString;

/// Everything the first job needs to know before it starts.
#[derive(Debug)]
pub struct Config {
    /// How many ranks are started here.
    pub ranks: u32,
    /// What every one of them runs.
    pub program: Program,
    /// The name of this machine.
    pub host: String,
    /// How many processes there may be in all jobs together, if somebody said so.
    pub universe: Option<u32>,
    /// Attributes of the job besides those that are always there.
    pub attributes: Vec<(String, String)>,
}

impl Config {
    /// Looks up what `args` names.
    ///
    /// Errors: [`ProgramError`], before anything was started.
    pub fn resolve(args: RunArgs) -> Result<Self, ProgramError> {
        let mut words = args.words.into_iter();
        let program = match words.next() {
            Some(name) => {
                let path = Program::find(&name, None, None)?;
                Program::new(path, name, words.collect())
            }
            None => demo()?,
        };
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Ok(Self {
            ranks: args.ranks,
            program,
            host,
            universe: args.universe,
            attributes: args.attributes,
        })
    }
}

/// The demo is this very file, started with one hidden word.
fn demo() -> Result<Program, ProgramError> {
    let path = env::current_exe().map_err(ProgramError::NoDemo)?;
    Ok(Program::new(path, OsString::from("pmi-host"), vec![OsString::from(DEMO_RANK)]))
}
