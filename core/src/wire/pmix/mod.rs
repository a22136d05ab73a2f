//! PMIx on the wire: bytes to meaning and back, over lent slices. Nothing here has state.
//!
//! ```text
//!   greeting   the first message of a connection, and both forms of its answer
//!   header     sixteen bytes in front of every later message
//!   pack       writes values, one pack operation after the other
//!   unpack     reads them
//!   value      one value of any type: skipped, copied into another encoding, looked into
//!   parts      what messages are made of: processes, infos, keys with values, lists of them
//!   request    what a client asks, command by command
//!   app        a program that it wants started
//!   query      something that it wants to know of the process manager
//!   types      the numbers of data types, and what a value of each is made of
//!   format     the two families of integers, with types described or not
//!   regex      lists of nodes and of processes, written short
//!   names      commands, status codes, keys, and the numbers of small sets
//! ```
//!
//! No document fixes these bytes: they are what the one library in use reads and writes. Numbers
//! are big endian or of variable length everywhere but in the header of the greeting, which is in
//! the order of the sender's machine.

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
pub use parts::{Info, Kval, Kvals, List, Proc, Scopes, WILDCARD, ranks};
pub use query::Query;
pub use request::Request;
pub use types::Type;
pub use unpack::Unpacker;
pub use value::{DEPTH_MAX, Value};
