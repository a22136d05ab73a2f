//! Nodes of a tree against each other.

mod children;
mod collectives;
mod growth;
mod healing;
mod hostile;
mod messages;
mod net;
