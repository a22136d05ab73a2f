//! Status queries from other programs to a running launcher.
//!
//! ```text
//! socket    server side: each connection receives the table of the run
//! ps        client side: 'pmi-host ps'
//! ```
//!
//! The sockets are in the [runtime directory](crate::runtime_dir). Connecting is the request; nothing is
//! sent to the launcher, so there is no request to parse. The answer is a
//! [`Table`](crate::watch::table::Table) as one line of JSON, and then the end of the stream.

pub(crate) mod ps;
pub(crate) mod socket;
