//! PMIx on the wire: decoding and encoding over lent slices. The codec has no state.
//!
//! ```text
//!   greeting   the first message of a connection, and both forms of its response
//!   header     sixteen bytes in front of every later message
//!   pack       writes values, one pack operation after the other
//!   unpack     reads them
//!   value      one value of any type: skipping, copying into another encoding, access
//!   parts      components of messages: processes, infos, keys with values, lists of them
//!   request    requests of clients, command by command
//!   app        a program to start
//!   query      queries to the process manager
//!   types      numbers of data types, and the fields of a value of each type
//!   format     the two families of integers, with types described or not
//!   regex      compressed lists of nodes and of processes
//!   names      commands, status codes, keys, and the numbers of small sets
//! ```
//!
//! No specification fixes these bytes: they are the ones that the only library in use reads and writes.
//! Numbers are big endian or of variable length everywhere but in the header of the greeting, which is
//! in the order of the sender's machine.

mod app;
mod format;
pub mod greeting;
pub mod header;
pub mod names;
mod pack;
mod parts;
mod query;
pub mod regex;
pub mod request;
mod types;
mod unpack;
mod value;

pub use app::{App, Texts};
pub use format::{Family, Format, Release};
pub use pack::Packer;
pub use parts::{Info, Kval, Kvals, List, Proc, ProcInfo, Scopes, WILDCARD, ranks};
pub use query::Query;
pub use request::Request;
pub use types::Type;
pub use unpack::Unpacker;
pub use value::{DEPTH_MAX, Value};
