//! Published names of several launchers: a server of its own, `pmi-host name-server`, which the head of each
//! run asks in place of its own table.
//!
//! Both sides prove a key, as node servers do, and the records of the connection have tags
//! (`docs/nodes-wire.md`, Name servers). A launcher sends requests with numbers, which the server answers,
//! lookups that wait later than others. A name belongs to the process that has published it; the launcher
//! tells the server which processes and jobs have ended.

pub(crate) mod client;
pub(crate) mod server;
mod store;

use super::edge::EdgeError;
use super::key::RunKey;
use crate::byte_vec;
use crate::operation::NameAnswerMessage;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Message of a launcher to the name server.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NameQuery {
    /// [`VERSION`].
    version: u8,
    /// Number among the queries of the connection.
    number: u64,
    request: NameServerRequest,
}

/// Request of a launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NameServerRequest {
    /// PMI-1 and PMI-2: publishes a name.
    Publish {
        /// The process.
        by: Publisher,
        /// The name.
        service: Vec<u8>,
        /// Its port.
        port: Vec<u8>,
    },
    /// PMI-1 and PMI-2: unpublishes a name.
    Unpublish {
        /// The name.
        service: Vec<u8>,
    },
    /// PMI-1 and PMI-2: looks up a name.
    Lookup {
        /// The name.
        service: Vec<u8>,
    },
    /// PMIx: publishes, unpublishes or looks up data.
    Pmix {
        /// The process.
        by: Publisher,
        /// Number of its wire format.
        format: u8,
        /// Body of its message, which has the range and the persistence.
        #[serde(with = "byte_vec")]
        body: Vec<u8>,
    },
    /// A process has ended.
    RankEnded {
        /// Namespace of its job.
        nspace: Vec<u8>,
        /// Its rank.
        rank: u32,
    },
    /// All processes of a job have ended.
    JobEnded {
        /// Its namespace.
        nspace: Vec<u8>,
    },
}

/// Identity of a process among those of its launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Publisher {
    /// Namespace of its job.
    pub(crate) nspace: Vec<u8>,
    /// Its rank.
    pub(crate) rank: u32,
    /// Number of its node in the tree.
    pub(crate) node: u32,
    /// Its user.
    pub(crate) user: u32,
}

/// Message of the name server to a launcher.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NameResult {
    /// [`VERSION`].
    version: u8,
    /// As in the query.
    number: u64,
    /// The answer; `None` to the end of a process or job, and to a lookup that has waited long enough.
    answer: Option<NameAnswerMessage>,
}

/// Version of the messages.
const VERSION: u8 = 2;

/// Reason for the end of a connection to another version.
const OTHER_VERSION: EdgeError =
    EdgeError::Protocol("it has another version; run the same version of pmi-host on both sides");

/// Reads the key of a name server.
///
/// # Errors
///
/// A message for the user, with the remedy.
fn read_key(path: &Path) -> Result<RunKey, String> {
    let shown = path.display();
    let cannot = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => format!(
            "there is no key of a name server in '{shown}'; 'pmi-host name-server' makes one, which the \
             hosts of all launchers need, or '--name-key FILE' names another"
        ),
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof => format!(
            "'{shown}' is no key of a name server; remove it, and 'pmi-host name-server' makes another"
        ),
        _ => format!("the key of the name server in '{shown}' cannot be read ({error})"),
    };
    let mut file = File::open(path).map_err(cannot)?;
    if file.metadata().map_err(cannot)?.mode() & OTHERS != 0 {
        return Err(format!("other users may read the key in '{shown}'; run 'chmod 600 {shown}'"));
    }
    RunKey::read(&mut file).map_err(cannot)
}

/// Reads the key of a name server, which is made if there is none.
///
/// # Errors
///
/// As [`read_key`].
fn read_or_make_key(path: &Path) -> Result<RunKey, String> {
    let make = || {
        if let Some(directory) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(RunKey::generate()?.line().as_bytes())
    };
    match make() {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(format!(
            "the key of the name server cannot be stored in '{}' ({error}); specify another file with \
             '--name-key'",
            path.display()
        )),
        _ => read_key(path),
    }
}

/// Permissions of other users.
const OTHERS: u32 = 0o077;
