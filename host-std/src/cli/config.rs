//! What was typed, made sure of: the program is found and may run, and the host has a name.

use super::args::{DEMO_RANK, Listen, RunArgs};
use crate::launch::program::{Program, ProgramError};
use crate::server::gate::Gate;
use crate::settings::Settings;
use std::ffi::OsString;
use std::{env, fmt};

/// Everything the first job needs to know before it starts.
#[derive(Debug)]
pub struct Config {
    /// How many ranks are started here.
    pub ranks: u32,
    /// What every one of them runs; none if no rank is started here.
    pub program: Option<Program>,
    /// The name of this machine.
    pub host: String,
    /// How many processes there may be in all jobs together, if somebody said so.
    pub universe: Option<u32>,
    /// Attributes of the job besides those that are always there.
    pub attributes: Vec<(String, String)>,
    /// Where further ranks dial in, and what they must know.
    pub gate: Option<Gate>,
    /// Everything else that can be set.
    pub settings: Settings,
}

/// Why what was typed cannot be done here. The text ends with the way out.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The program cannot be started.
    Program(ProgramError),
    /// Nobody can dial in.
    Gate(String),
}

impl Config {
    /// Looks up what `args` names.
    ///
    /// Errors: [`ConfigError`], before anything was started.
    pub fn resolve(args: RunArgs) -> Result<Self, ConfigError> {
        let mut words = args.words.into_iter();
        let program = match words.next() {
            _ if args.ranks == 0 => None,
            Some(name) => {
                let path = Program::find(&name, None, None)?;
                Some(Program::new(path, name, words.collect()))
            }
            None => Some(demo()?),
        };
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let gate = args.listen.map(|Listen { address, expected, secret_file }| {
            Gate::resolve(&address, expected, secret_file.as_deref())
        });
        Ok(Self {
            ranks: args.ranks,
            program,
            host,
            universe: args.universe,
            attributes: args.attributes,
            gate: gate.transpose().map_err(ConfigError::Gate)?,
            settings: Settings::default(),
        })
    }
}

/// The demo is this very file, started with one hidden word.
fn demo() -> Result<Program, ProgramError> {
    let path = env::current_exe().map_err(ProgramError::NoDemo)?;
    Ok(Program::new(path, OsString::from("pmi-host"), vec![OsString::from(DEMO_RANK)]))
}

impl ConfigError {
    /// The code a shell would give.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Program(error) => error.exit_code(),
            Self::Gate(_) => 1,
        }
    }
}

impl From<ProgramError> for ConfigError {
    fn from(error: ProgramError) -> Self {
        Self::Program(error)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(error) => error.fmt(f),
            Self::Gate(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ConfigError {}
