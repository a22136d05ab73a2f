//! Other programs and a running launcher: status queries, and the files by which tools find it.
//!
//! ```text
//! socket      server side: each connection receives the table of the run; status_server: when it is open
//! query       client side: requests to all launchers of this user
//! ps          'pmi-host ps': their tables
//! stack       'pmi-host stack': stack traces of the ranks in these tables
//! rendezvous  files with the address of the server for PMIx tools
//! ```
//!
//! The sockets are in the [runtime directory](pmi_host_os::runtime_dir). Connecting is the request; nothing
//! is sent to the launcher, so there is no request to parse. The answer is a
//! [`Table`](crate::watch::table::Table) as one line of JSON, and then the end of the stream.

pub(crate) mod ps;
mod query;
pub(crate) mod rendezvous;
pub(crate) mod socket;
pub(crate) mod stack;
pub(crate) mod status_server;
