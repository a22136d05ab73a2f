//! The command line of Hydra, in which many scripts are written: `mpiexec` and `mpirun`.
//!
//! Its words fill the same settings as those of `run`. An option has the meaning that it has in Hydra; an
//! option without an equivalent is refused with a message, and never ignored. Options of `run` (with two
//! dashes) work here too.
//!
//! Options in front of a program hold for it alone if they are local in Hydra (`-n`, `-env` and its
//! family, `-wdir`), and for the whole run otherwise, in any position.

mod reader;
mod table;

pub(crate) use table::{FollowingWords, OPTIONS};

use super::args::RunArgs;
use super::layers::Origin;
use crate::settings::nodes::STARTERS;
use clap::{Arg, ArgAction, Command};
use pmi_host_base::usage::UsageError;
use reader::{HydraReader, unreadable};
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Surroundings on which the meaning of words depends.
#[derive(Debug)]
pub(crate) struct ReadContext<'a> {
    /// Environment of this process.
    pub(crate) variables: &'a [(OsString, OsString)],
    /// Reads a file.
    pub(crate) read: fn(&Path) -> io::Result<String>,
}

/// Parses the arguments of `mpiexec`.
///
/// # Errors
///
/// [`UsageError`], which is exit code 2.
pub(crate) fn parse(
    words: Vec<OsString>,
    context: &ReadContext<'_>,
) -> Result<RunArgs, UsageError> {
    let mut typed = HydraReader::new(context, Origin::Typed);
    typed.read_words(words)?;
    let mut reader = HydraReader::new(context, Origin::Default);
    reader.read_variables()?;
    if let Some((file, is_named)) = typed.config_file.clone().map(|f| (f, true)).or_else(|| {
        let named = reader.config_file.take();
        let home = || Some(Path::new(&variable_of(context.variables, "HOME")?).join(OWN_FILE));
        named.or_else(|| home().map(Into::into)).map(|file| (file, false))
    }) {
        match (context.read)(Path::new(&file)) {
            Ok(text) => reader.read_file(&file, &text)?,
            // The default file of Hydra is optional.
            Err(_) if !is_named => {}
            Err(error) => return Err(unreadable("-configfile", &file, &error)),
        }
    }
    reader.join(typed)?;
    reader.finish()
}

/// Definition of `mpiexec` for completions and the man page. There all options have two dashes, which
/// work too.
pub(crate) fn define(name: &'static str) -> Command {
    let command = Command::new(name)
        .about("Start the ranks of a program, with the command line of Hydra")
        .disable_help_flag(true);
    let command = OPTIONS.iter().fold(command, |command, option| {
        let letter = option.names.iter().find(|name| name.len() == 1);
        let letter = letter.and_then(|name| name.chars().next());
        let mut words = option.names.iter().copied().filter(|name| name.len() > 1);
        let arg = Arg::new(option.names[0]).help(option.meaning());
        let arg = letter.into_iter().fold(arg, Arg::short);
        let arg = words
            .next()
            .into_iter()
            .fold(arg, Arg::long)
            .visible_aliases(words.collect::<Vec<_>>());
        command.arg(match option.words {
            FollowingWords::Nothing => arg.action(ArgAction::SetTrue),
            FollowingWords::Word => arg.value_name("VALUE"),
            FollowingWords::Pair => arg.value_names(["NAME", "VALUE"]).num_args(2),
        })
    });
    command.arg(
        Arg::new("PROGRAM")
            .value_hint(clap::ValueHint::CommandWithArguments)
            .trailing_var_arg(true)
            .num_args(0..)
            .help("the program and its arguments; ':' begins the next one"),
    )
}

/// Text of `-info`.
pub(crate) fn info(host: &str) -> String {
    format!(
        "pmi-host {} as mpiexec, with Hydra's command line\n\x20   starts ranks on:      this \
         node ({host}), and hosts of '-hosts', '-f' or a batch system\n\x20   batch systems:        \
         Slurm, Flux, PBS, LSF, Grid Engine, Cobalt\n\x20   node servers by:      {}, or any \
         command ('--starter-cmd')\n\x20   protocols:            PMI-1, PMI-2, \
         PMIx\n\x20   topology:             from the system itself\n",
        env!("CARGO_PKG_VERSION"),
        STARTERS.join(", ")
    )
}

/// Value of a variable that is valid text.
fn variable_of(variables: &[(OsString, OsString)], name: &str) -> Option<String> {
    let (_, value) = variables.iter().find(|(known, value)| known == name && !value.is_empty())?;
    value.to_str().map(str::to_owned)
}

/// Hydra's file in the home directory.
const OWN_FILE: &str = ".mpiexec.hydra.conf";
