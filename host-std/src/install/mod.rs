//! `pmi-host install` and `pmi-host uninstall`: this program below a prefix, with links, man pages,
//! completions and the files that accompany it in a release.
//!
//! ```text
//! layout     the files and their places
//! file       one file: written beside its place, then renamed
//! manifest   list of installed files, by which an upgrade and a removal know theirs
//! ```

mod file;
mod layout;
mod manifest;

use crate::cli::explain;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use clap_complete::Shell;
use file::{InstallFile, fingerprint_at};
use manifest::Manifest;
use pmi_host_base::exit::{FAILED, complain, print, refuse};
use pmi_host_base::usage::UsageError;
use rustix::process::geteuid;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Parts of an installation that follow from the command lines of this program.
#[derive(Clone, Copy)]
pub(crate) struct CommandPages {
    /// Names under which it reads another command line.
    pub(crate) names: &'static [&'static str],
    /// All man pages, with their titles.
    pub(crate) manuals: fn() -> Vec<(String, String)>,
    /// Completions of a shell for one of its names.
    pub(crate) completion: fn(Shell, &str) -> Option<String>,
}

/// Command line of `install`.
pub(crate) fn define() -> Command {
    Command::new("install")
        .about("Install this program with its links, man pages, completions and libraries")
        .args(places())
        .arg(
            Arg::new(LINKS)
                .long(LINKS)
                .value_name("NAMES")
                .default_value("mpiexec,mpirun")
                .help("further names of the program, or none"),
        )
        .arg(
            path(FROM)
                .value_name("DIR")
                .help("directory of a release (default: the one with this program in its bin)"),
        )
        .arg(
            Arg::new(FORCE)
                .long(FORCE)
                .action(ArgAction::SetTrue)
                .help("replace files that are not of an earlier installation"),
        )
}

/// Command line of `uninstall`.
pub(crate) fn define_uninstall() -> Command {
    Command::new("uninstall")
        .about("Remove an installation, except files that were changed since")
        .args(places())
}

fn places() -> [Arg; 2] {
    [
        path(PREFIX).value_name("DIR").help(
            "directory of the installation (default: /usr/local for root, .local in the home of others)",
        ),
        path(DESTDIR)
            .value_name("DIR")
            .help("directory that stands for the root of the system, for packages"),
    ]
}

fn path(name: &'static str) -> Arg {
    let parser = clap::value_parser!(OsString);
    Arg::new(name).long(name).value_parser(parser).value_hint(ValueHint::DirPath)
}

/// Installs this program.
pub(crate) fn run(words: Vec<OsString>, pages: &CommandPages) -> ExitCode {
    with(define(), words, |matches| install(matches, pages))
}

/// Removes an installation.
pub(crate) fn run_uninstall(words: Vec<OsString>) -> ExitCode {
    with(define_uninstall(), words, uninstall)
}

fn with(
    command: Command,
    words: Vec<OsString>,
    effect: impl Fn(&ArgMatches) -> Result<String, InstallError>,
) -> ExitCode {
    let matches = match explain::parse(command, words) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    match effect(&matches) {
        Ok(text) => print(&text),
        Err(InstallError::Usage(error)) => refuse(&error),
        Err(InstallError::Failed(why)) => complain(&why, FAILED),
    }
}

/// Reason for which nothing more is installed or removed.
enum InstallError {
    Usage(UsageError),
    Failed(String),
}

/// Prefix of an installation as users see it, and where it is now.
struct InstallPlace {
    prefix: PathBuf,
    root: PathBuf,
}

impl InstallPlace {
    fn of(matches: &ArgMatches) -> Result<Self, InstallError> {
        let given = matches.get_one::<OsString>(PREFIX).map(PathBuf::from);
        let prefix = given.or_else(default_prefix).ok_or_else(|| {
            let why = "there is no home directory; specify one, as '--prefix /opt/pmi-host'";
            InstallError::Usage(UsageError::Value {
                given: format!("--{PREFIX}"),
                why: why.to_owned(),
            })
        })?;
        let prefix = std::path::absolute(&prefix).map_err(|error| failed(&prefix, &error))?;
        let root = match matches.get_one::<OsString>(DESTDIR) {
            Some(destdir) => Path::new(destdir).join(prefix.strip_prefix("/").unwrap_or(&prefix)),
            None => prefix.clone(),
        };
        Ok(Self { prefix, root })
    }
}

fn default_prefix() -> Option<PathBuf> {
    match geteuid().is_root() {
        true => Some("/usr/local".into()),
        false => Some(PathBuf::from(std::env::var_os("HOME")?).join(".local")),
    }
}

fn failed(path: &Path, error: &io::Error) -> InstallError {
    InstallError::Failed(format!("{}: {error}", path.display()))
}

fn install(matches: &ArgMatches, pages: &CommandPages) -> Result<String, InstallError> {
    let InstallPlace { prefix, root } = InstallPlace::of(matches)?;
    let links =
        links(matches.get_one::<String>(LINKS).map_or("none", String::as_str), pages.names)?;
    let own = std::env::current_exe().map_err(|error| failed(Path::new("pmi-host"), &error))?;
    let from = matches.get_one::<OsString>(FROM).map(PathBuf::from);
    let release = from.or_else(|| layout::release_of(&own));
    let mut files = layout::files(pages, (&own, release.as_deref()), &prefix, &links)
        .map_err(|error| failed(release.as_deref().unwrap_or(&own), &error))?;
    let old = Manifest::read(&root).map_err(|error| failed(&root.join(manifest::PATH), &error))?;
    let old = old.unwrap_or_default();
    let mut fresh = Manifest::default();
    let mut foreign = Vec::new();
    for file in &files {
        let at = root.join(&file.path);
        let wanted = file.fingerprint().map_err(|error| failed(&at, &error))?;
        let found = fingerprint_at(&at).map_err(|error| failed(&at, &error))?;
        let is_own = found.as_ref().is_none_or(|found| {
            *found == wanted || old.0.get(&file.path).is_some_and(|known| known == found)
        });
        if !is_own {
            foreign.push(at.display().to_string());
        }
        fresh.0.insert(file.path.clone(), wanted);
    }
    if !foreign.is_empty() && !matches.get_flag(FORCE) {
        return Err(InstallError::Failed(format!(
            "these files are of no earlier installation or were changed: {}; nothing is installed. \
             '--force' replaces them, '--links none' omits links",
            foreign.join(", ")
        )));
    }
    files.push(InstallFile::text(manifest::PATH, fresh.text()));
    for file in &files {
        file.write(&root).map_err(|error| failed(&root.join(&file.path), &error))?;
    }
    for (path, _) in old.0.iter().filter(|(path, _)| !fresh.0.contains_key(*path)) {
        if old.is_unchanged(&root, path).unwrap_or(false) {
            manifest::remove(&root, path).map_err(|error| failed(&root.join(path), &error))?;
        }
    }
    Ok(installed(&prefix, files.len(), &links, release.is_some()))
}

/// What was installed, and what is left to do.
fn installed(prefix: &Path, count: usize, links: &[String], has_release: bool) -> String {
    let bin = prefix.join("bin");
    let names = std::iter::once("pmi-host").chain(links.iter().map(String::as_str));
    let mut text = format!(
        "{count} files are in {}: {}\n",
        prefix.display(),
        names.collect::<Vec<_>>().join(", ")
    );
    if !has_release {
        text.push_str("without the C libraries, which are in the archives of releases\n");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|directory| directory == bin) {
        text.push_str(&format!(
            "PATH does not contain {0}: export PATH={0}:$PATH\n",
            bin.display()
        ));
    }
    text
}

/// Names of links, which are those under which the program reads another command line.
fn links(list: &str, known: &[&str]) -> Result<Vec<String>, InstallError> {
    let names = list.split(',').map(str::trim).filter(|name| !matches!(*name, "" | "none"));
    let names: Vec<String> = names.map(str::to_owned).collect();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(names),
        Some(name) => Err(InstallError::Usage(UsageError::Value {
            given: format!("--{LINKS} {list}"),
            why: format!("'{name}' is none of {}", known.join(", ")),
        })),
    }
}

fn uninstall(matches: &ArgMatches) -> Result<String, InstallError> {
    let InstallPlace { prefix, root } = InstallPlace::of(matches)?;
    let list = root.join(manifest::PATH);
    let Some(installed) = Manifest::read(&root).map_err(|error| failed(&list, &error))? else {
        return Err(InstallError::Failed(format!(
            "there is no installation in {}; '--prefix DIR' names another directory",
            prefix.display()
        )));
    };
    let (mut count, mut kept) = (0, Vec::new());
    for path in installed.0.keys() {
        let at = root.join(path);
        let is_there = fingerprint_at(&at).map_err(|error| failed(&at, &error))?.is_some();
        if !is_there {
            continue;
        }
        match installed.is_unchanged(&root, path) {
            Ok(true) => {
                manifest::remove(&root, path).map_err(|error| failed(&at, &error))?;
                count += 1;
            }
            _ => kept.push(at.display().to_string()),
        }
    }
    manifest::remove(&root, Path::new(manifest::PATH)).map_err(|error| failed(&list, &error))?;
    let mut text = format!("{count} files are removed from {}\n", prefix.display());
    if !kept.is_empty() {
        text.push_str(&format!("changed since, and kept: {}\n", kept.join(", ")));
    }
    Ok(text)
}

const PREFIX: &str = "prefix";
const DESTDIR: &str = "destdir";
const LINKS: &str = "links";
const FROM: &str = "from";
const FORCE: &str = "force";
