//! Published names of several launchers, and their connections: a server of its own, `pmi-host name-server`,
//! which the head of each run asks in place of its own table.
//!
//! Both sides prove a key, as node servers do, and the records of the connection have tags
//! (`docs/nodes-wire.md`, Name servers). A launcher sends requests with numbers, which the server answers,
//! lookups that wait later than others. A name belongs to the process that has published it; the launcher
//! tells the server which processes and jobs have ended. For an operation of processes of several launchers,
//! each of them sends its part, and receives those of the others.

pub(crate) mod client;
mod connects;
pub(crate) mod server;
mod store;

use crate::operation::NameAnswerMessage;
use crate::other_runs::CONNECT_BYTES;
use pmi_host_base::user_file::{self, SecretFileCause};
use pmi_host_os::byte_vec;
use pmi_nodes::edge::EdgeError;
use pmi_nodes::key::RunKey;
use pmi_nodes::record::CONTENT_MAX;
use rustix::fs::Mode;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Write};
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

impl NameQuery {
    /// Content of a record with this request.
    fn encode(number: u64, request: NameServerRequest) -> Vec<u8> {
        // Serialization into a vector fails for no message of these types.
        postcard::to_stdvec(&Self { version: VERSION, number, request }).unwrap_or_default()
    }
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
    /// A job has been started.
    JobStarted {
        /// Its namespace.
        nspace: Vec<u8>,
        /// Number of its ranks.
        size: u32,
    },
    /// The next piece of the part of the launcher in an operation with processes of others
    /// ([`ConnectPart`](crate::other_runs::ConnectPart)). All pieces are the same query.
    Connect(Piece),
    /// The members have given up an operation.
    Withdraw {
        /// Number of its query.
        query: u64,
    },
}

/// A piece of bytes that are longer than a record; the pieces of others do not stand between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    is_last: bool,
    #[serde(with = "byte_vec")]
    data: Vec<u8>,
}

impl Piece {
    /// The pieces of `bytes`.
    fn all(bytes: &[u8]) -> impl Iterator<Item = Self> {
        let count = bytes.len().div_ceil(PIECE_BYTES).max(1);
        (0..count).map(move |at| {
            let end = bytes.len().min((at + 1) * PIECE_BYTES);
            Self { is_last: at + 1 == count, data: bytes[at * PIECE_BYTES..end].to_vec() }
        })
    }

    /// Appends the piece to those before it. Returns all bytes after the last one.
    ///
    /// # Errors
    ///
    /// They are too many.
    fn append_to(self, pieces: &mut Vec<u8>) -> Result<Option<Vec<u8>>, EdgeError> {
        if pieces.len() + self.data.len() > PIECES_BYTES {
            return Err(EdgeError::Protocol("it is too long"));
        }
        pieces.extend(self.data);
        Ok(self.is_last.then(|| std::mem::take(pieces)))
    }
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
    /// As in the query; of a notice, [`NOTICE`].
    number: u64,
    outcome: NameOutcome,
}

/// Outcome of a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum NameOutcome {
    /// There is no answer: to the start or end of a process or job, to a lookup that has waited long enough,
    /// to an operation that was withdrawn, and to its withdrawal.
    None,
    /// Answer to a request about a name.
    Answer(NameAnswerMessage),
    /// The next piece of the result of an operation ([`ConnectResult`](crate::other_runs::ConnectResult)).
    Connected(Piece),
    /// An operation has failed, with this status of PMIx.
    Failed(i32),
    /// Notice: the job with this namespace, which processes of the launcher were connected with, has ended.
    Ended(Vec<u8>),
}

/// Version of the messages.
const VERSION: u8 = 3;

/// Number of results that are notices.
const NOTICE: u64 = u64::MAX;

/// Bytes of a piece: the message around it fits into the record.
const PIECE_BYTES: usize = CONTENT_MAX - 64;

/// Most bytes of all pieces: the parts of an operation, and what stands around them.
const PIECES_BYTES: usize = CONNECT_BYTES + (1 << 20);

/// Reason for the end of a connection to another version.
const OTHER_VERSION: EdgeError =
    EdgeError::Protocol("it has another version; run the same version of pmi-host on both sides");

/// Reads a value that ends with the bytes.
///
/// # Errors
///
/// It is malformed, or bytes follow.
fn read<'a, T: Deserialize<'a>>(content: &'a [u8]) -> Result<T, EdgeError> {
    match postcard::take_from_bytes(content) {
        Ok((value, [])) => Ok(value),
        _ => Err(EdgeError::Protocol("it is malformed")),
    }
}

/// Reads the key of a name server.
///
/// # Errors
///
/// A message for the user, with the remedy.
fn read_key(path: &Path) -> Result<RunKey, String> {
    let shown = path.display();
    let wrong = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => format!(
            "there is no key of a name server in '{shown}'; 'pmi-host name-server' makes one, which the \
             hosts of all launchers need, or '--name-key FILE' names another"
        ),
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof => format!(
            "'{shown}' is no key of a name server; remove it, and 'pmi-host name-server' makes another"
        ),
        _ => format!("the key of the name server in '{shown}' cannot be read ({error})"),
    };
    let opened = user_file::open_secret(path, "key of the name server");
    let mut file = opened.map_err(|error| match error.why {
        SecretFileCause::Unreadable(error) => wrong(error),
        _ => error.to_string(),
    })?;
    RunKey::read(&mut file).map_err(wrong)
}

/// Reads the key of a name server, which is made if there is none.
///
/// # Errors
///
/// As [`read_key`].
fn read_or_make_key(path: &Path) -> Result<RunKey, String> {
    let make = || {
        if let Some(directory) = path.parent().filter(|path| !path.as_os_str().is_empty()) {
            user_file::make_directories(directory, Mode::RWXU)?;
        }
        let mut file = user_file::create_new(path, Mode::RUSR | Mode::WUSR)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_fit_into_records_and_are_put_together() {
        for len in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let bytes: Vec<u8> = (0..=250).cycle().take(len).collect();
            let (mut pieces, mut whole) = (Vec::new(), None);
            for piece in Piece::all(&bytes) {
                assert_eq!(whole, None, "a piece behind the last one");
                let request = NameServerRequest::Connect(piece);
                let query = NameQuery { version: VERSION, number: u64::MAX, request };
                let content = postcard::to_stdvec(&query).unwrap();
                assert!(content.len() <= CONTENT_MAX);
                let read: NameQuery = postcard::from_bytes(&content).unwrap();
                let NameServerRequest::Connect(piece) = read.request else { panic!("{read:?}") };
                whole = piece.append_to(&mut pieces).unwrap();
            }
            assert_eq!(whole, Some(bytes));
        }
        let mut pieces = vec![0; PIECES_BYTES];
        let piece = |data| Piece { is_last: true, data };
        assert!(piece(vec![0]).append_to(&mut pieces).is_err());
        assert!(piece(Vec::new()).append_to(&mut pieces).is_ok());
    }
}
