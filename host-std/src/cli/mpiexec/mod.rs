//! The command line of Hydra, in which many scripts are written: `mpiexec` and `mpirun`.
//!
//! Its words fill the same settings as those of `run`. An option has the meaning that it has in Hydra; an
//! option without an equivalent is refused with a message, and never ignored. Options of `run` (with two
//! dashes) work here too.
//!
//! Options in front of a program hold for it alone if they are local in Hydra (`-n`, `-env` and its
//! family, `-wdir`), and for the whole run otherwise, in any position.

mod gtool;
mod intel;
mod jsm;
mod multi_prog;
mod openmpi;
#[cfg(test)]
mod page;
mod pals;
mod parameters;
mod policies;
mod rankfile;
mod reader;
mod slurm;
mod slurm_values;
mod step_gpus;
mod table;

pub(crate) use slurm_values::MPI_TYPES;
pub(crate) use table::{FollowingWords, HydraOption};

use super::args::{self, Personality, RunArgs};
use super::foreign;
use super::layers::Origin;
use clap::{Arg, ArgAction, Command};
use pmi_host_base::usage::UsageError;
use pmi_nodes::settings::STARTERS;
use reader::{HydraReader, unreadable};
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// One launcher, and the options that it adds to those of the launchers in front of it.
#[derive(Debug)]
pub(crate) struct OptionFamily {
    /// Name of the launcher.
    pub(crate) name: &'static str,
    /// Its options.
    pub(crate) options: &'static [HydraOption],
}

/// Options of all launchers; none is named twice.
pub(crate) const FAMILIES: [OptionFamily; 3] = [
    OptionFamily { name: "Hydra", options: table::OPTIONS },
    OptionFamily { name: "Open MPI", options: openmpi::OPTIONS },
    OptionFamily { name: "Intel MPI and PALS", options: intel::OPTIONS },
];

/// Options of launchers that have a command line of their own, by the name of the command.
pub(crate) const OWN_LINES: [(&str, OptionFamily); 3] = [
    (SRUN, OptionFamily { name: "Slurm", options: slurm::OPTIONS }),
    (APRUN, OptionFamily { name: "ALPS", options: pals::OPTIONS }),
    (JSRUN, OptionFamily { name: "JSM", options: jsm::OPTIONS }),
];

/// All options of the command line with this name.
fn all(name: &str) -> impl Iterator<Item = &'static HydraOption> {
    families(name).iter().flat_map(|family| family.options)
}

/// Launchers whose options the command line with this name has.
pub(crate) fn families(name: &str) -> &'static [OptionFamily] {
    let own = OWN_LINES.iter().find(|(command, _)| *command == name);
    own.map_or(&FAMILIES, |(_, family)| std::slice::from_ref(family))
}

/// Options that the help of a launcher lists. Programs that look for a launcher search this text for names,
/// so it has those of no other.
pub(crate) fn listed(launcher: Personality) -> Vec<&'static OptionFamily> {
    let [hydra, open_mpi, intel] = &FAMILIES;
    match launcher {
        Personality::Hydra | Personality::Pals => vec![hydra],
        Personality::Intel => vec![hydra, intel],
        Personality::OpenMpi | Personality::Prrte => vec![hydra, open_mpi],
        Personality::Slurm => families(SRUN).iter().collect(),
        Personality::Aprun => families(APRUN).iter().collect(),
        Personality::Jsm => families(JSRUN).iter().collect(),
    }
}

/// Surroundings on which the meaning of words depends.
#[derive(Debug)]
pub(crate) struct ReadContext<'a> {
    /// Name by which this program was called.
    pub(crate) name: &'a str,
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
    if families(context.name).len() == 1 {
        reader.join(typed)?;
        return reader.finish();
    }
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
    let about = match name {
        SRUN => {
            "Start the ranks of a program within an allocation, with the command line of Slurm's srun"
        }
        _ => "Start the ranks of a program, with the command line of Hydra",
    };
    let command = Command::new(name).about(about).disable_help_flag(true);
    let command = all(name).fold(command, |command, option| {
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
        let arg = match option.words {
            FollowingWords::Nothing => arg,
            _ => table::hinted(option, arg),
        };
        command.arg(match option.words {
            FollowingWords::Nothing => arg.action(ArgAction::SetTrue),
            FollowingWords::Word => arg.value_name("VALUE"),
            FollowingWords::Pair => arg.value_names(["NAME", "VALUE"]).num_args(2),
            FollowingWords::Optional => {
                arg.value_name("VALUE").num_args(0..=1).require_equals(true)
            }
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

/// Answer to a word of `run` that is an option of another launcher, or one of `run` with one dash only.
pub(crate) fn answer(word: &str) -> Option<String> {
    let name = long_name(word);
    if lacks_a_dash(word) {
        return Some(format!("it has two dashes: '--{name}'"));
    }
    let in_family = |family: &OptionFamily| {
        let option = family.options.iter().find(|option| option.names.contains(&name))?;
        let meaning = option.meaning();
        Some(match meaning.starts_with("--") {
            true => format!("that of {} is '{meaning}' here", family.name),
            false => format!("it is one of {}: '{} {word}' reads it", family.name, MPIEXEC),
        })
    };
    FAMILIES.iter().find_map(in_family).or_else(|| foreign::answer(word))
}

/// True for a long option of `run` with one dash.
pub(crate) fn lacks_a_dash(word: &str) -> bool {
    let name = long_name(word);
    let has_one = word.starts_with('-') && !word.starts_with("--");
    has_one && name.len() > 1 && args::takes_value(name).is_some()
}

fn long_name(word: &str) -> &str {
    word.split('=').next().unwrap_or_default().trim_start_matches('-')
}

/// Text of `-info`, `--version` and `-V`. It begins with the words by which programs recognise a launcher,
/// and its version, and names no other launcher.
pub(crate) fn info(launcher: Personality, host: &str) -> String {
    let own = concat!("(pmi-host ", env!("CARGO_PKG_VERSION"), ")");
    let start = match launcher {
        Personality::Hydra => format!(
            "HYDRA build details:\n    Version:                                 4.0.2 {own}\n    command \
             line of:      MPICH"
        ),
        Personality::Intel => format!("Intel(R) MPI Library for Linux* OS, Version 2021.13 {own}"),
        Personality::OpenMpi | Personality::Prrte => format!("mpirun (Open MPI) 4.1.4 {own}"),
        Personality::Slurm => format!("slurm 22.05.8 {own}"),
        Personality::Pals => format!("mpiexec version 1.8.0 {own}"),
        Personality::Aprun => format!("aprun {own}"),
        Personality::Jsm => format!("jsrun {own}"),
    };
    format!(
        "{start}\n\x20   starts ranks on:      this \
         node ({host}), and hosts of '-hosts', '-f' or a batch system\n\x20   batch systems:        \
         Slurm, Flux, PBS, LSF, OAR, Grid Engine, Cobalt\n\x20   node servers by:      {}, or any \
         command ('--starter-cmd')\n\x20   protocols:            PMI-1, PMI-2, \
         PMIx\n\x20   topology:             from the system itself\n",
        STARTERS.join(", ")
    )
}

impl ReadContext<'_> {
    /// Launcher of the name by which this program was called, if that has only one meaning.
    fn launcher(&self) -> Option<Personality> {
        match self.name {
            ORTERUN => Some(Personality::OpenMpi),
            PRTERUN => Some(Personality::Prrte),
            SRUN => Some(Personality::Slurm),
            APRUN => Some(Personality::Aprun),
            JSRUN => Some(Personality::Jsm),
            "mpiexec.hydra" => Some(Personality::Hydra),
            _ => None,
        }
    }
}

/// Value of a variable that is valid text.
fn variable_of(variables: &[(OsString, OsString)], name: &str) -> Option<String> {
    let (_, value) = variables.iter().find(|(known, value)| known == name && !value.is_empty())?;
    value.to_str().map(str::to_owned)
}

/// Hydra's file in the home directory.
const OWN_FILE: &str = ".mpiexec.hydra.conf";

/// Command that reads the options of all launchers.
const MPIEXEC: &str = "pmi-host mpiexec";

/// Name of Slurm's launcher.
pub(crate) const SRUN: &str = "srun";

/// Name of the launcher of ALPS and PALS.
pub(crate) const APRUN: &str = "aprun";

/// Name of IBM's launcher.
pub(crate) const JSRUN: &str = "jsrun";

/// Name of the launchers of Open MPI and of others.
pub(super) const MPIRUN: &str = "mpirun";

/// Name of the launcher of Open MPI 4 that no other one has.
pub(crate) const ORTERUN: &str = "orterun";

/// Name of the launcher of Open MPI 5 that no other one has.
pub(crate) const PRTERUN: &str = "prterun";
