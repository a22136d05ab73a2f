//! Tools: programs that no launcher has started, and how they find one.
//!
//! ```no_run
//! use pmi_std::pmix::tool::{self, ToolServer};
//! use pmi_std::pmix::keys;
//!
//! let mut pmix = tool::connect(&ToolServer::Only)?;
//! let known = pmix.query(&[keys::QUERY_NAMESPACES], &[])?;
//! let names = known.find(keys::QUERY_NAMESPACES).and_then(|value| value.text());
//! println!("{}", String::from_utf8_lossy(names.unwrap_or_default()));
//! pmix.finalize()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A launcher writes rendezvous files below the directory of the system, which are named after its host and
//! its process or the namespaces of its jobs. Files of other users, except root, are ignored: every user can
//! write to that directory.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pmi_core::client::pmix::{Attribute, Datum, PmixClient, ToolIdentity};
use pmi_core::wire::pmix::Format;
use pmi_core::wire::pmix::names::keys;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, geteuid, test_kill_process};
use thiserror::Error;

use super::calls::{Pmix, own_credential};
use super::connection::PmixConnection;
use super::env::{PmixEnvironment, address_in};
use super::error::PmixConnectError;

/// Selects the server of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolServer {
    /// The server that has started this process, else the only one of this user on this host.
    #[default]
    Only,
    /// The server with this process id. Spec: `PMIX_SERVER_PIDINFO`.
    Pid(u32),
    /// The server of this namespace, or of a job of this name. Spec: `PMIX_SERVER_NSPACE`.
    Nspace(String),
    /// The server at this address, `NAME.RANK;tcp4://ADDRESS:PORT`, or `file:` and the path of a file whose
    /// first line is one. Spec: `PMIX_SERVER_URI`.
    Uri(String),
    /// The system server of this host. Spec: `PMIX_CONNECT_TO_SYSTEM`.
    System,
    /// The server that has started this process, else the system server if there is one, else the only one.
    /// Spec: `PMIX_CONNECT_SYSTEM_FIRST`.
    SystemFirst,
}

/// Error of connecting a tool.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ToolError {
    /// There is no such server.
    #[error("there is no PMIx server {what} below {}", .directory.display())]
    NotFound {
        /// Selection of the server.
        what: String,
        /// Searched directory.
        directory: PathBuf,
    },
    /// There are several.
    #[error("there are {} PMIx servers below {}, of the processes {}; select one of them",
        .pids.len(), .directory.display(), listed(.pids))]
    Several {
        /// Their processes.
        pids: Vec<String>,
        /// Searched directory.
        directory: PathBuf,
    },
    /// The address is none.
    #[error("'{0}' is no address of a PMIx server, as in NAME.RANK;tcp4://ADDRESS:PORT")]
    Address(String),
    /// The file with the address cannot be read.
    #[error("the address of the PMIx server cannot be read from {}: {error}", .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
    /// The server is known, and connecting to it failed.
    #[error("{0}")]
    Connect(#[from] PmixConnectError),
}

/// A rendezvous file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RendezvousFile {
    uri: String,
    /// Process of the server; empty if the file does not name it.
    pid: String,
}

/// Connects to a server as a tool, which is rank 0 of a job of its own.
///
/// Wire: the greeting of a tool, and REQ.
/// Spec: PMIx Standard, `PMIx_tool_init`.
///
/// # Errors
///
/// [`ToolError`].
pub fn connect(server: &ToolServer) -> Result<Pmix, ToolError> {
    let address = find(server)?;
    let tool = ToolIdentity { owner: own_credential(), is_native: true, format: Format::PLAIN };
    let words: Vec<OsString> = std::env::args_os().collect();
    let line = words.join(OsStr::new(" ")).into_vec();
    let attributes = [
        Attribute::new(keys::PROC_PID, Datum::Pid(std::process::id())),
        Attribute::new(keys::COMMAND_LINE, Datum::Text(&line)),
    ];
    let connection =
        PmixConnection::open(address, |memory| PmixClient::tool(tool, &attributes, memory))?;
    Ok(Pmix::new(connection))
}

/// Finds the address of a server.
///
/// # Errors
///
/// [`ToolError`], except for those of connecting.
pub fn find(server: &ToolServer) -> Result<SocketAddr, ToolError> {
    // A launcher tells a process that it has started where it is.
    if matches!(server, ToolServer::Only | ToolServer::SystemFirst)
        && let Some(found) = PmixEnvironment::of_this_process().ok().flatten()
    {
        return Ok(found.address);
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    find_in(server, &host, &Directories::of_this_process())
}

/// Directories in which servers write their files.
#[derive(Clone, Debug)]
struct Directories {
    system: PathBuf,
    /// Directory of the session, if it was set.
    session: Option<PathBuf>,
}

impl Directories {
    fn of_this_process() -> Self {
        let set = |name: &&str| std::env::var_os(name).filter(|path| !path.is_empty());
        let system: Option<OsString> = SYSTEM_DIRECTORY.iter().find_map(set);
        Self {
            system: system.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from),
            session: set(&SESSION_DIRECTORY).map(PathBuf::from),
        }
    }
}

fn find_in(
    server: &ToolServer,
    host: &str,
    directories: &Directories,
) -> Result<SocketAddr, ToolError> {
    let short = host.split('.').next().unwrap_or(host);
    let tool = |suffix: &str| [host, short].map(|host| format!("pmix.{host}.tool{suffix}"));
    let system = || {
        let found = [host, short].iter().find_map(|host| {
            read_file(&directories.system.join(format!("pmix.sys.{host}"))).ok().flatten()
        });
        found.filter(RendezvousFile::is_alive)
    };
    let among = |is_its: &dyn Fn(&str) -> bool| {
        let mut found = BTreeSet::new();
        let mut budget = ENTRIES_MAX;
        for directory in directories.session.iter().chain([&directories.system]) {
            search(directory, &mut budget, is_its, &mut found);
        }
        found
    };
    let only = |found: BTreeSet<(String, String)>, what: String| {
        let directory = directories.system.clone();
        let uris: BTreeSet<&String> = found.iter().map(|(uri, _)| uri).collect();
        match (uris.len(), found.first()) {
            (1, Some((uri, _))) => Ok(uri.clone()),
            (0, _) | (_, None) => Err(ToolError::NotFound { what, directory }),
            _ => {
                let pids = found.into_iter().map(|(_, pid)| pid).collect();
                Err(ToolError::Several { pids, directory })
            }
        }
    };
    let any = || among(&|name| tool("").iter().any(|prefix| name.starts_with(prefix)));
    let uri = match server {
        ToolServer::Only => only(any(), "of this user".into())?,
        ToolServer::Pid(pid) => {
            let names = tool(&format!(".{pid}"));
            only(among(&|name| names.iter().any(|of| of == name)), format!("of process {pid}"))?
        }
        ToolServer::Nspace(nspace) => {
            let names = tool(&format!(".{nspace}"));
            let found = among(&|name| names.iter().any(|of| of == name));
            only(found, format!("of the namespace '{nspace}'"))?
        }
        ToolServer::System | ToolServer::SystemFirst => match system() {
            Some(found) => found.uri,
            None if *server == ToolServer::System => {
                let (what, directory) = ("of the system".into(), directories.system.clone());
                return Err(ToolError::NotFound { what, directory });
            }
            None => only(any(), "of this user".into())?,
        },
        ToolServer::Uri(uri) => match uri.strip_prefix("file:") {
            None => uri.clone(),
            Some(path) => {
                let path = PathBuf::from(path);
                match read_file(&path) {
                    Ok(Some(found)) => found.uri,
                    Ok(None) => {
                        let error = io::Error::other("it is no file of this user or of root");
                        return Err(ToolError::File { path, error });
                    }
                    Err(error) => return Err(ToolError::File { path, error }),
                }
            }
        },
    };
    address_in(&uri).ok_or(ToolError::Address(uri))
}

/// Adds the servers of the files below `top` whose names `is_its` accepts, those of upper directories first.
/// Links and directories of other users are not followed: a deep tree of theirs would use up the budget.
fn search(
    top: &Path,
    budget: &mut usize,
    is_its: &dyn Fn(&str) -> bool,
    found: &mut BTreeSet<(String, String)>,
) {
    let mut open = VecDeque::from([(top.to_path_buf(), 0)]);
    while let Some((directory, depth)) = open.pop_front() {
        // A directory that this user cannot read has none of its servers.
        for entry in fs::read_dir(directory).into_iter().flatten().map_while(Result::ok) {
            let Some(left) = budget.checked_sub(1) else { return };
            *budget = left;
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if depth < DEPTH_MAX && entry.metadata().is_ok_and(|about| is_trusted(&about)) {
                    open.push_back((entry.path(), depth + 1));
                }
            } else if kind.is_file()
                && is_its(&entry.file_name().to_string_lossy())
                && let Ok(Some(file)) = read_file(&entry.path())
                && file.is_alive()
            {
                found.insert((file.uri, file.pid));
            }
        }
    }
}

/// True if it belongs to this user or to root.
fn is_trusted(about: &fs::Metadata) -> bool {
    about.uid() == 0 || about.uid() == geteuid().as_raw()
}

/// Reads a rendezvous file; `None` if it is no file of this user or of root. A FIFO of another user in its
/// place would block an ordinary open.
fn read_file(path: &Path) -> io::Result<Option<RendezvousFile>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    let about = file.metadata()?;
    if !about.is_file() || !is_trusted(&about) {
        return Ok(None);
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    let mut lines = text.lines();
    let (uri, pid) = (lines.next().unwrap_or_default(), lines.nth(1).unwrap_or_default());
    Ok(Some(RendezvousFile { uri: uri.trim().into(), pid: pid.trim().into() }))
}

impl RendezvousFile {
    /// False if the server has ended without removing its file.
    fn is_alive(&self) -> bool {
        let pid = self.pid.parse().ok().and_then(Pid::from_raw);
        pid.is_none_or(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }
}

fn listed(pids: &[String]) -> String {
    pids.join(", ")
}

/// The first variable that is set names the directory of the system.
const SYSTEM_DIRECTORY: [&str; 4] = ["PMIX_SYSTEM_TMPDIR", "TMPDIR", "TEMP", "TMP"];
const SESSION_DIRECTORY: &str = "PMIX_SERVER_TMPDIR";
/// A file has an address and four short lines.
const FILE_BYTES_MAX: u64 = 4096;
/// Launchers write into a directory of the session below that of the system.
const DEPTH_MAX: usize = 8;
/// Bound of a search in a directory of many files.
const ENTRIES_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// Files of servers, in a directory that is removed at the end.
    struct Servers(TempDir);

    impl Servers {
        fn new() -> Self {
            let system = tempfile::tempdir().unwrap();
            fs::create_dir(system.path().join("session")).unwrap();
            Self(system)
        }

        fn add(&self, name: &str, port: u16, pid: u32) {
            let text = format!("server.0;tcp4://127.0.0.1:{port}\nv4.2.2\n{pid}\n0:0\nnow\n\n");
            fs::write(self.0.path().join(name), text).unwrap();
        }

        fn port(&self, server: &ToolServer) -> Result<u16, String> {
            let directories = Directories { system: self.0.path().to_owned(), session: None };
            let found = find_in(server, "n1.site", &directories);
            found.map(|address| address.port()).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn server_is_found_by_each_of_its_names() {
        let servers = Servers::new();
        let own = std::process::id();
        assert!(
            servers.port(&ToolServer::Only).unwrap_err().contains("no PMIx server of this user")
        );
        servers.add("session/pmix.n1.site.tool.71", 4000, own);
        servers.add("session/pmix.n1.site.tool.job-1", 4000, own);
        servers.add("session/pmix.n2.tool.72", 4002, own);
        assert_eq!(servers.port(&ToolServer::Only), Ok(4000));
        servers.add("pmix.n1.tool.73", 4003, own);
        let several = servers.port(&ToolServer::Only).unwrap_err();
        assert!(several.contains("there are 2 PMIx servers"), "{several}");
        assert_eq!(servers.port(&ToolServer::Pid(73)), Ok(4003));
        assert_eq!(servers.port(&ToolServer::Nspace("job-1".into())), Ok(4000));
        let none = servers.port(&ToolServer::Pid(74)).unwrap_err();
        assert!(none.contains("of process 74"), "{none}");
        let uri = |text: String| ToolServer::Uri(text);
        assert_eq!(servers.port(&uri("a.0;tcp4://127.0.0.1:9".into())), Ok(9));
        let file = servers.0.path().join("pmix.n1.tool.73");
        assert_eq!(servers.port(&uri(format!("file:{}", file.display()))), Ok(4003));
        assert!(servers.port(&uri("nowhere".into())).unwrap_err().contains("'nowhere'"));
        assert!(servers.port(&uri("file:/no/such/file".into())).is_err());
    }

    #[test]
    fn system_server_has_a_file_of_its_own() {
        let servers = Servers::new();
        let own = std::process::id();
        servers.add("session/pmix.n1.site.tool.71", 4000, own);
        assert!(servers.port(&ToolServer::System).unwrap_err().contains("of the system"));
        assert_eq!(servers.port(&ToolServer::SystemFirst), Ok(4000));
        servers.add("pmix.sys.n1", 4001, own);
        assert_eq!(servers.port(&ToolServer::System), Ok(4001));
        assert_eq!(servers.port(&ToolServer::SystemFirst), Ok(4001));
        // The file of a server that is gone names no server.
        servers.add("pmix.sys.n1", 4001, 2_000_000_001);
        assert!(servers.port(&ToolServer::System).is_err());
        assert_eq!(servers.port(&ToolServer::SystemFirst), Ok(4000));
    }
    /// True if the files below the system directory were found within a budget of entries.
    fn is_found(servers: &Servers, mut budget: usize) -> bool {
        let mut found = BTreeSet::new();
        search(servers.0.path(), &mut budget, &|name| name.starts_with("pmix."), &mut found);
        !found.is_empty()
    }

    #[test]
    fn upper_directories_are_searched_first() {
        let servers = Servers::new();
        for number in 0..40 {
            let below = servers.0.path().join(format!("full-{number}"));
            fs::create_dir_all(&below).unwrap();
            (0..40).for_each(|file| fs::write(below.join(file.to_string()), "").unwrap());
        }
        servers.add("pmix.n1.tool.73", 4003, std::process::id());
        // The entries of the system directory itself, the session's among them.
        assert!(is_found(&servers, 42));
        assert!(!is_found(&servers, 0));
    }

    #[test]
    fn directories_of_other_users_are_not_searched() {
        let servers = Servers::new();
        servers.add("session/pmix.n1.tool.73", 4003, std::process::id());
        assert!(is_found(&servers, ENTRIES_MAX));
        let session = servers.0.path().join("session");
        let is_root = std::os::unix::fs::chown(session, Some(geteuid().as_raw() + 1), None);
        // Only root can give a directory away.
        assert_eq!(is_found(&servers, ENTRIES_MAX), is_root.is_err());
    }

    #[test]
    fn fifo_in_the_place_of_a_file_is_refused() {
        let servers = Servers::new();
        for name in ["pmix.sys.n1", "pmix.n1.tool.73"] {
            let path = servers.0.path().join(name);
            rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
        }
        assert!(servers.port(&ToolServer::System).unwrap_err().contains("of the system"));
        assert!(servers.port(&ToolServer::Only).unwrap_err().contains("of this user"));
        let file = servers.0.path().join("pmix.sys.n1");
        let refused = servers.port(&ToolServer::Uri(format!("file:{}", file.display())));
        let refused = refused.unwrap_err();
        assert!(refused.ends_with(": it is no file of this user or of root"), "{refused}");
    }
}
