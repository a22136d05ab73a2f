//! How other programs ask a launcher how its run goes.
//!
//! ```text
//! socket    ours: whoever connects is given the table of the run
//! ps        the other end: 'pmi-host ps'
//! ```
//!
//! The sockets are in the [runtime directory](crate::runtime_dir). There is nothing to say over the
//! socket, so there is nothing to get wrong: connecting is asking. The answer is a
//! [`Table`](crate::watch::table::Table) as one line of JSON, and then the end of the stream.

pub mod ps;
pub mod socket;
