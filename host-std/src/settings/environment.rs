//! Environment of ranks.

use std::ffi::OsString;

/// What ranks find in their environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// What of our own environment they see (`-genvall`, `-genvnone`, `-genvlist`).
    pub inherit: Inherit,
    /// What is set for all of them besides (`--env`, `-genv`).
    pub set: Vec<(OsString, OsString)>,
    /// What is taken out and set is told (`--env-report`).
    pub report: bool,
    /// Which protocols ranks find a server for (`--pmi`).
    pub offer: Offer,
}

/// Which protocols ranks find a server for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// What the program can speak, by what it links; both where that cannot be told.
    #[default]
    Auto,
    /// PMI over an inherited socket. MPICH's library speaks PMI-1.
    Pmi1,
    /// The same. MPICH's library speaks PMI-2.
    Pmi2,
    /// PMIx over a loopback port.
    Pmix,
    /// Both.
    All,
}

/// What of our own environment ranks see. What an outer launcher has left is taken out in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Inherit {
    /// All of it.
    #[default]
    All,
    /// Nothing.
    Nothing,
    /// These variables.
    Only(Vec<OsString>),
}
