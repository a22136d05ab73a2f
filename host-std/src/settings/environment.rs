//! Environment of ranks.

use std::ffi::OsString;

use pmi_host_base::program::Inherit;

/// Environment of the ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    /// Part of the launcher's environment that ranks inherit (`-genvall`, `-genvnone`, `-genvlist`).
    pub(crate) inherit: Inherit,
    /// Variables that are set for all ranks besides (`--env`, `-genv`).
    pub(crate) set: Vec<(OsString, OsString)>,
    /// True if removed and added variables are reported (`--env-report`).
    pub(crate) report: bool,
    /// Protocols that ranks are offered (`--pmi`).
    pub(crate) offer: Offer,
}

/// Protocols that ranks are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Protocols that the program can speak, from the libraries that it links; both if that is unknown.
    #[default]
    Auto,
    /// PMI over an inherited socket; MPICH's library uses PMI-1.
    Pmi1,
    /// PMI over an inherited socket; MPICH's library uses PMI-2.
    Pmi2,
    /// PMIx over a loopback port.
    Pmix,
    /// PMI and PMIx.
    All,
}
