//! Environment of ranks.

use pmi_host_base::program::Inherit;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;

/// Environment of the ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Environment {
    /// Part of the launcher's environment that ranks inherit (`-genvall`, `-genvnone`, `-genvlist`).
    pub(crate) inherit: Inherit,
    /// Variables that are set for all ranks besides (`--env`, `-genv`).
    pub(crate) set: Vec<(OsString, OsString)>,
    /// True if removed and added variables are reported (`--env-report`).
    pub(crate) report: bool,
    /// Protocols that ranks are offered (`--pmi`).
    pub(crate) offer: Offer,
    /// True if ranks use the C libraries of this project (`--preload-pmi`).
    pub(crate) preload_pmi: bool,
    /// Directory of these libraries (`--pmi-libraries`); complete when the run is resolved with
    /// `preload_pmi`.
    pub(crate) pmi_libraries: Option<PathBuf>,
    /// True if ranks get the variables of `torchrun` (`--env-for torch`).
    pub(crate) for_torch: bool,
    /// Address for ranks that find each other by these variables; chosen when the run is resolved.
    pub(crate) rendezvous: Option<Rendezvous>,
    /// Environment of the head of the run, on another node than its own: ranks inherit it in place of that of
    /// their launcher.
    pub(crate) of_head: Option<Vec<(OsString, OsString)>>,
}

/// Address at which the program of rank 0 listens for the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rendezvous {
    /// Name or address of the host.
    pub(crate) address: String,
    /// Port, which was free when it was chosen.
    pub(crate) port: u16,
}

/// Protocols that ranks are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
