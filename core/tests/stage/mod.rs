//! Puts the crate's own machines into the roles of a transcript.

pub(crate) mod client;
pub(crate) mod listener;
pub(crate) mod server;
