//! Nodes of a tree against each other.

mod collectives;
mod healing;
mod hostile;
mod messages;
mod net;
