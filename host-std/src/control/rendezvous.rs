//! Rendezvous files, by which PMIx tools find this launcher.
//!
//! A tool that was given no address searches the system directory and all directories below it. It reads
//! the address of the server from a file that is named after the host and the process or the namespace of
//! the server. The one system server of a host has a further file in the system directory itself.
//!
//! Wire: five lines (URI, version, process, user and group, start), and an empty one.

use pmi_host_base::user_file;
use pmi_host_os::runtime_dir::{self, BEGUN, FRESH};
use rustix::fs::{FlockOperation, Mode, flock};
use rustix::process::{Pid, getegid, geteuid, test_kill_process};
use std::env;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Address of a server, and the names under which tools search for it.
#[derive(Clone, Debug)]
pub(crate) struct ServerAddress {
    /// Name of this host.
    pub(crate) host: String,
    /// Namespaces of the server and of its first job.
    pub(crate) nspaces: Vec<String>,
    /// Address, as clients read it from their environment.
    pub(crate) uri: String,
}

/// Rendezvous files of this launcher, which are removed with it.
#[derive(Debug, Default)]
pub(crate) struct Rendezvous {
    paths: Vec<PathBuf>,
    /// Directory of the files, once there is one.
    directory: PathBuf,
    /// File of the system server. Its lock shows that the server exists.
    system: Option<File>,
}

impl Rendezvous {
    /// Writes the files of a server, by process and by namespace.
    pub(crate) fn open(&mut self, server: &ServerAddress) -> io::Result<()> {
        let text = content(&server.uri);
        let own = std::process::id().to_string();
        let name = |name: &str| format!("pmix.{}.tool.{name}", server.host);
        let mut write = |directory: &Path| {
            sweep(directory, &server.host);
            self.directory = directory.to_owned();
            self.write(directory.join(name(&own)), &text)
        };
        match path_in(&[SESSION_DIRECTORY]) {
            Some(directory) => runtime_dir::create_in(&directory, write),
            None => runtime_dir::create_below(&system_directory(), |directory| {
                runtime_dir::prepare(directory)?;
                write(directory)
            }),
        }?;
        for nspace in &server.nspaces {
            self.write(self.directory.join(name(nspace)), &text)?;
        }
        // A tool that has started the launcher waits for this file. The others do without it.
        if let Some(path) = path_in(&STARTER_FILES) {
            let _ = self.write(path, &text);
        }
        Ok(())
    }

    /// Adds the file of a spawned job, and returns its path.
    pub(crate) fn add_job(&mut self, host: &str, nspace: &str, uri: &str) -> io::Result<PathBuf> {
        let path = self.directory.join(format!("pmix.{host}.tool.{nspace}"));
        self.write(path.clone(), &content(uri))?;
        Ok(path)
    }

    /// Removes the file of a spawned job that has ended.
    pub(crate) fn remove_job(&mut self, host: &str, nspace: &str) {
        let name = format!("pmix.{host}.tool.{nspace}");
        self.paths.retain(|path| {
            let is_its = path.file_name().is_some_and(|of| of == name.as_str());
            // A failure is harmless: the next launcher removes it.
            let _ = is_its.then(|| fs::remove_file(path));
            !is_its
        });
    }

    /// Adds the file of the system server.
    ///
    /// # Errors
    ///
    /// A message for the user: the host has a system server, or the file cannot be written.
    pub(crate) fn open_system(&mut self, server: &ServerAddress) -> Result<(), String> {
        let path = system_directory().join(format!("pmix.sys.{}", server.host));
        // The second attempt follows the removal of a file whose server is gone.
        for _ in 0..2 {
            match self.write(path.clone(), &content(&server.uri)) {
                Ok(file) => {
                    self.system = Some(file);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(format!(
                        "the file of the system server, {}: {error}",
                        path.display()
                    ));
                }
            }
            if !remove_stale(&path) {
                break;
            }
        }
        let user = fs::symlink_metadata(&path).map_or(ROOT, |found| found.uid());
        if ![ROOT, geteuid().as_raw()].contains(&user) {
            return Err(format!(
                "user {user} has put a file under the name of the system server, {}, which tools of other \
                 users do not trust; have it removed, or set PMIX_SYSTEM_TMPDIR to a directory of yours",
                path.display()
            ));
        }
        let pid = open_file(&path).and_then(|file| pid_in(&file));
        let who = pid.map_or_else(String::new, |pid| format!(", process {pid}"));
        Err(format!(
            "this host has a system server already{who} ({}); leave out '--system-server'",
            path.display()
        ))
    }

    /// Paths of the files.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Writes a file that no tool sees before it is complete. It stays locked until it is closed.
    fn write(&mut self, path: PathBuf, text: &str) -> io::Result<File> {
        // The time keeps the name from other users, who may create files in the same directory.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let fresh = format!("{BEGUN}{}-{:x}.{FRESH}", std::process::id(), since.as_nanos());
        let fresh = path.with_file_name(fresh);
        let mut file = user_file::create_new(&fresh, Mode::RUSR | Mode::WUSR)?;
        let linked = file
            .write_all(text.as_bytes())
            .and_then(|()| Ok(flock(&file, FlockOperation::NonBlockingLockExclusive)?))
            .and_then(|()| fs::hard_link(&fresh, &path));
        fs::remove_file(&fresh)?;
        linked?;
        self.paths.push(path);
        Ok(file)
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        // A failure is harmless: the next launcher removes files of processes that are gone.
        for path in &self.paths {
            let _ = fs::remove_file(path);
        }
        if has_own_directory() {
            runtime_dir::remove_if_empty(&self.directory);
        }
    }
}

/// Directory of the system server, below which tools search.
pub(crate) fn system_directory() -> PathBuf {
    path_in(&["PMIX_SYSTEM_TMPDIR", "TMPDIR", "TEMP", "TMP"]).unwrap_or_else(|| "/tmp".into())
}

/// True if the files of this launcher are in a directory that launchers make, not in one of the user.
fn has_own_directory() -> bool {
    path_in(&[SESSION_DIRECTORY]).is_none()
}

fn path_in(variables: &[&str]) -> Option<PathBuf> {
    let values = variables.iter().filter_map(env::var_os);
    { values }.find(|path| !path.is_empty()).map(PathBuf::from)
}

fn content(uri: &str) -> String {
    let (user, group, pid) = (geteuid().as_raw(), getegid().as_raw(), std::process::id());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    format!("{uri}\nv{VERSION}\n{pid}\n{user}:{group}\n{}\n\n", calendar(now))
}

/// A time in seconds since 1970 as `ctime(3)` writes it, in UTC.
fn calendar(secs: u64) -> String {
    let (days, rest) = (secs / 86_400, secs % 86_400);
    let mut year = 1970;
    let mut day = days;
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 0;
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let names =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = names.get(month).copied().unwrap_or_default();
    // The first of January 1970 was a Thursday.
    let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let weekday = weekdays.iter().cycle().nth((days % 7) as usize).copied().unwrap_or_default();
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{weekday} {month} {:2} {hour:02}:{minute:02}:{second:02} {year}", day + 1)
}

/// Opens a file of this user or of root. A FIFO of another user in its place would block an ordinary open.
fn open_file(path: &Path) -> Option<File> {
    let file = user_file::open_regular(path).ok()?;
    let of = file.metadata().ok()?;
    (of.is_file() && (of.uid() == ROOT || of.uid() == geteuid().as_raw())).then_some(file)
}

/// The process in a rendezvous file.
fn pid_in(file: &File) -> Option<i32> {
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.lines().nth(2)?.trim().parse().ok().filter(|pid| *pid > 0)
}

/// Removes the files of launchers of this user that are gone and could not remove them.
fn sweep(directory: &Path, host: &str) {
    let prefix = format!("pmix.{host}.tool.");
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    for entry in entries.take(SWEPT_MAX) {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            remove_stale(&entry.path());
        }
    }
}

/// Removes a file of this user whose server is gone; false if it exists, or may. The file of a running
/// system server of this project is locked; one of another project has only its process.
fn remove_stale(path: &Path) -> bool {
    let is_ours = |of: &fs::Metadata| of.is_file() && of.uid() == geteuid().as_raw();
    // A link of another user is not followed.
    if !fs::symlink_metadata(path).is_ok_and(|found| is_ours(&found)) {
        return false;
    }
    let Some(file) = open_file(path) else { return false };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    let pid = pid_in(&file).and_then(Pid::from_raw);
    if pid.is_none_or(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH)) {
        return false;
    }
    // Another launcher may have replaced the file before it was locked.
    let is_same = |found: fs::Metadata| file.metadata().is_ok_and(|of| of.ino() == found.ino());
    fs::symlink_metadata(path).is_ok_and(is_same) && fs::remove_file(path).is_ok()
}

/// The administrator, who can do everything anyway.
const ROOT: u32 = 0;

/// Variable that names the directory of the files of a launcher.
const SESSION_DIRECTORY: &str = "PMIX_SERVER_TMPDIR";

/// Variables with the path of a further file: that of the standard, and that of OpenPMIx.
const STARTER_FILES: [&str; 2] = ["PMIX_LAUNCHER_RNDZ_FILE", "PMIX_LAUNCHER_RENDEZVOUS_FILE"];

/// Version that a tool assumes for its server; ranks read the same from `PMIX_VERSION`.
const VERSION: &str = "4.2.2";

/// A file has an address and four short lines.
const FILE_BYTES_MAX: u64 = 4096;

/// Maximum number of entries that a launcher checks when it starts; the next one checks the rest.
const SWEPT_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_written_as_the_c_library_does() {
        assert_eq!(calendar(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(calendar(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(calendar(1_767_225_599), "Wed Dec 31 23:59:59 2025");
    }

    #[test]
    fn file_of_a_process_that_is_gone_is_removed_and_of_another_kept() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let file = |name: &str, pid: u32| {
            let path = directory.join(name);
            fs::write(&path, format!("uri\nv1\n{pid}\n0:0\nnow\n\n")).unwrap();
            path
        };
        let prefix = "pmix.here.tool.";
        // Pids end far below this one.
        let gone = file(&format!("{prefix}gone"), 2_000_000_001);
        let lives = file(&format!("{prefix}lives"), std::process::id());
        let locked = file(&format!("{prefix}locked"), 2_000_000_002);
        let lock = File::open(&locked).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let other = file("notes", 2_000_000_003);
        sweep(directory, "here");
        assert!(!gone.exists() && lives.exists() && locked.exists() && other.exists());
        let pid = |path| open_file(path).and_then(|file| pid_in(&file));
        assert_eq!(pid(&lives), Some(std::process::id().cast_signed()));
        let fifo = directory.join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        assert_eq!((pid(&fifo), pid(directory)), (None, None));
    }
}
