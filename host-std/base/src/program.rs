//! A program: its path, and the cause if it cannot be started.

use crate::executable::{Obstacle, obstacle};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{env, io};

/// An existing, executable program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its path; always with a slash, so that `PATH` is not searched again for every rank.
    pub path: PathBuf,
    /// Its name as typed: its word zero, and its name in messages.
    pub name: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its working directory, if not that of the launcher. A relative path is resolved from there.
    pub directory: Option<PathBuf>,
    /// Selection of inherited variables, if it differs from that of all programs.
    pub inherit: Option<Inherit>,
    /// Variables for this program alone.
    pub variables: Vec<(OsString, OsString)>,
}

/// Part of the launcher's environment that ranks inherit. Variables of an outer launcher are removed in
/// any case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Inherit {
    /// All variables.
    #[default]
    All,
    /// No variables.
    Nothing,
    /// These variables.
    Only(Vec<OsString>),
}

/// Cause of a failure to start a program. The text ends with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// There is no such file.
    #[error("{}", not_found(.name, .in_path))]
    NotFound {
        /// The program as typed.
        name: OsString,
        /// True if `PATH` was searched.
        in_path: bool,
    },
    /// The file exists, but is not allowed or not able to run.
    #[error("program '{}' cannot run: {why}", .name.display())]
    NotExecutable {
        /// The program as typed.
        name: OsString,
        /// The obstacle, with the remedy.
        why: String,
    },
    /// The working directory is not a directory.
    #[error(
        "program '{}' cannot start in '{}', which is not a directory on this host",
        .name.display(),
        .directory.display()
    )]
    NoDirectory {
        /// The program as typed.
        name: OsString,
        /// The directory.
        directory: PathBuf,
    },
    /// The path of this program is unknown, so it cannot start the demo.
    #[error(
        "the demo starts this very program, whose path cannot be read ({0}); specify a program instead"
    )]
    NoDemo(io::Error),
}

impl Program {
    /// A program with the working directory and the variables of the launcher.
    pub fn new(path: PathBuf, name: OsString, args: Vec<OsString>) -> Self {
        Self { path, name, args, directory: None, inherit: None, variables: Vec::new() }
    }

    /// Finds `name` as a shell in `directory` would: unchanged when it has a slash, else in each directory
    /// of `search`, which is `PATH` if there is none.
    ///
    /// # Errors
    ///
    /// [`ProgramError`].
    pub fn find(
        name: &OsStr,
        search: Option<OsString>,
        directory: Option<&Path>,
    ) -> Result<PathBuf, ProgramError> {
        if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
            return Err(ProgramError::NoDirectory {
                name: name.to_owned(),
                directory: directory.to_owned(),
            });
        }
        let obstacle = |path: &Path| match directory {
            Some(directory) => obstacle(&directory.join(path)),
            None => obstacle(path),
        };
        if name.as_bytes().contains(&b'/') {
            let path = Path::new(name);
            return match obstacle(path) {
                None => Ok(path.to_owned()),
                Some(Obstacle::Absent) => {
                    Err(ProgramError::NotFound { name: name.to_owned(), in_path: false })
                }
                Some(Obstacle::Unfit(why)) => {
                    Err(ProgramError::NotExecutable { name: name.to_owned(), why })
                }
            };
        }
        let mut unfit = None;
        let search = search.or_else(|| env::var_os("PATH")).unwrap_or_else(|| DEFAULT_PATH.into());
        for place in env::split_paths(&search).filter(|_| !name.is_empty()) {
            let path = with_slash(&place, name);
            match obstacle(&path) {
                None => return Ok(path),
                Some(Obstacle::Absent) => {}
                Some(Obstacle::Unfit(why)) => unfit = unfit.or(Some(why)),
            }
        }
        match unfit {
            Some(why) => Err(ProgramError::NotExecutable { name: name.to_owned(), why }),
            None => Err(ProgramError::NotFound { name: name.to_owned(), in_path: true }),
        }
    }
}

impl Program {
    /// Finds `name` as [`find`](Self::find), and else in `directory` itself, where launchers of Open MPI look
    /// behind the directories of `PATH`.
    ///
    /// # Errors
    ///
    /// [`ProgramError`].
    pub fn find_or_here(
        name: &OsStr,
        search: Option<OsString>,
        directory: Option<&Path>,
    ) -> Result<PathBuf, ProgramError> {
        let missing = match Self::find(name, search, directory) {
            Err(missing @ ProgramError::NotFound { in_path: true, .. }) if !name.is_empty() => {
                missing
            }
            found => return found,
        };
        match Self::find(with_slash(Path::new(""), name).as_os_str(), None, directory) {
            Err(ProgramError::NotFound { .. }) => Err(missing),
            found => found,
        }
    }
}

/// An empty entry of `PATH` means the current directory.
fn with_slash(directory: &Path, name: &OsStr) -> PathBuf {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let mut path = directory.as_os_str().as_bytes().to_vec();
    path.push(b'/');
    path.extend_from_slice(name.as_bytes());
    PathBuf::from(OsString::from_vec(path))
}

fn not_found(name: &OsStr, in_path: &bool) -> String {
    let name = name.display();
    match in_path {
        true => format!(
            "program '{name}' is in no directory of PATH; if it is in the current directory, write './{name}'"
        ),
        false => format!("there is no program '{name}'; check the path"),
    }
}

impl ProgramError {
    /// Exit code by the convention of shells.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::NoDirectory { .. } => 1,
            Self::NoDemo(_) => 1,
        }
    }
}

/// Search path of the C library when `PATH` is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

#[cfg(test)]
mod tests {
    use super::*;

    fn code(name: &str, search: &str) -> Result<PathBuf, u8> {
        Program::find(OsStr::new(name), Some(OsString::from(search)), None)
            .map_err(|error| error.exit_code())
    }

    #[test]
    fn program_is_found_as_a_shell_finds_it() {
        assert_eq!(code("sh", "/nowhere:/bin"), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(code("/bin/sh", "/nowhere"), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(code("no-such-program", "/bin:/usr/bin"), Err(127));
        assert_eq!(code("./no/such/program", "/bin"), Err(127));
        assert_eq!(code("", "/bin"), Err(127));
    }

    #[test]
    fn program_that_exists_but_cannot_run_is_126() {
        assert_eq!(code("/", "/bin"), Err(126));
        assert_eq!(code("/dev/null", "/bin"), Err(126));
        assert_eq!(code("passwd", "/etc"), Err(126));
        assert_eq!(code("Cargo.toml", ""), Err(126));
    }

    #[test]
    fn program_beside_those_of_path_is_found_where_it_starts() {
        let here = |name, directory| {
            let search = Some(OsString::from("/nowhere"));
            Program::find_or_here(OsStr::new(name), search, Some(Path::new(directory)))
        };
        assert_eq!(here("sh", "/bin").unwrap(), PathBuf::from("./sh"));
        assert_eq!(here("passwd", "/etc").map_err(|error| error.exit_code()), Err(126));
        let missing = here("no-such", "/bin").unwrap_err();
        assert!(matches!(missing, ProgramError::NotFound { in_path: true, .. }), "{missing}");
        assert_eq!(here("", "/bin").map_err(|error| error.exit_code()), Err(127));
    }

    #[test]
    fn relative_path_is_meant_from_the_folder_it_starts_in() {
        let in_bin = |name| Program::find(OsStr::new(name), None, Some(Path::new("/bin")));
        assert_eq!(in_bin("./sh").unwrap(), PathBuf::from("./sh"));
        assert!(matches!(in_bin("./no-such"), Err(ProgramError::NotFound { .. })));
        let nowhere = Program::find(OsStr::new("sh"), None, Some(Path::new("/no/such")));
        assert!(matches!(nowhere, Err(ProgramError::NoDirectory { .. })));
    }
}
