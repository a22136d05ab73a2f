//! How other programs ask a launcher how its run goes.
//!
//! ```text
//! folder    where the sockets are, who may look there, and what became of launchers that are gone
//! socket    ours: whoever connects is given the table of the run
//! ps        the other end: 'pmi-host ps'
//! ```
//!
//! There is nothing to say over the socket, so there is nothing to get wrong: connecting is asking. The
//! answer is a [`Table`](crate::watch::table::Table) as one line of JSON, and then the end of the stream.

pub mod folder;
pub mod ps;
pub mod socket;
