//! Check of the program of a run, on one host: it is there, can be executed, and has its libraries.

use pmi_host_base::library::Libraries;
use pmi_host_base::loader::Search;
use pmi_host_base::program::{Program, ProgramError};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::{env, fmt};

/// A program that ranks would execute, with what they would take over from the head to find it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramToCheck {
    /// Its path, which starts in the directory if it is relative.
    path: PathBuf,
    directory: PathBuf,
    /// Value of `LD_LIBRARY_PATH`; `None` if it is too long for a greeting, and libraries are not checked.
    libraries: Option<OsString>,
}

/// Reason for which a program cannot run on a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum ProgramTrouble {
    /// The working directory does not exist.
    NoDirectory(PathBuf),
    /// The program is not there, or cannot be executed.
    Unusable,
    /// Libraries that are in no directory of the loader.
    NoLibraries(Vec<String>),
}

impl ProgramToCheck {
    /// The program `name` of a command line at the head, which is found in `PATH` there if it has no slash.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(super) fn new(name: &OsStr) -> Result<Self, String> {
        let directory = env::current_dir()
            .map_err(|error| format!("the working directory cannot be read ({error})"))?;
        let path = match Program::find(name, None, None) {
            // The file may be on the hosts alone.
            Err(ProgramError::NotFound { in_path: false, .. }) => PathBuf::from(name),
            found => found.map_err(|error| error.to_string())?,
        };
        let libraries = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let libraries = Some(libraries).filter(|list| list.len() <= LIST_MAX);
        Ok(Self { path, directory, libraries })
    }

    /// Looks for it on this host.
    pub(super) fn trouble(&self) -> Option<ProgramTrouble> {
        if !self.directory.is_dir() {
            return Some(ProgramTrouble::NoDirectory(self.directory.clone()));
        }
        let path = self.directory.join(&self.path);
        if Program::find(path.as_os_str(), None, None).is_err() {
            return Some(ProgramTrouble::Unusable);
        }
        let search = Search::of(self.libraries.as_deref()?);
        let mut missing = Libraries::found_by(&path, &search)?.missing;
        missing.truncate(NAMES_MAX);
        (!missing.is_empty()).then_some(ProgramTrouble::NoLibraries(missing))
    }
}

impl ProgramTrouble {
    /// Sentence about some hosts, with the remedy.
    pub(super) fn sentence(&self, hosts: impl fmt::Display) -> String {
        match self {
            Self::NoDirectory(directory) => format!(
                "the working directory '{}' does not exist on {hosts}; create it there, or start in another",
                directory.display()
            ),
            Self::Unusable => format!(
                "the program is missing or cannot be executed on {hosts}; install it at the same path \
                 there"
            ),
            Self::NoLibraries(names) => format!(
                "the program needs {}, which the loader does not find on {hosts}; install it there, or \
                 add its directory to LD_LIBRARY_PATH here",
                names.join(", ")
            ),
        }
    }
}

/// Longest list of directories of libraries: a greeting is one record.
const LIST_MAX: usize = 8192;

/// Number of libraries in a sentence.
const NAMES_MAX: usize = 4;
