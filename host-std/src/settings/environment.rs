//! Environment of ranks.

use pmi_host_base::program::Inherit;
use pmi_host_base::variables::{BY_NODE, covers, fits};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Environment of the ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Environment {
    /// Part of the launcher's environment that ranks inherit (`-genvall`, `-genvnone`, `-genvlist`).
    pub(crate) inherit: Inherit,
    /// Variables that are set for all ranks besides (`--env`, `-genv`).
    pub(crate) set: Vec<(OsString, OsString)>,
    /// Variables that ranks do not inherit (`--unset-env`).
    pub(crate) unset: Vec<OsString>,
    /// Further variables that a node decides, with a star at the end for any suffix (`--node-env`).
    pub(crate) of_node: Vec<OsString>,
    /// True if removed and added variables are reported (`--env-report`).
    pub(crate) report: bool,
    /// Protocols that ranks are offered (`--pmi`).
    pub(crate) offer: Offer,
    /// True if ranks find the server of PMI at a port, and inherit no descriptor (`--pmi-port`).
    pub(crate) has_port: bool,
    /// True if ranks use the C libraries of this project (`--preload-pmi`).
    pub(crate) preload_pmi: bool,
    /// Directory of these libraries (`--pmi-libraries`); complete when the run is resolved with
    /// `preload_pmi`.
    pub(crate) pmi_libraries: Option<PathBuf>,
    /// Directory in which the run creates that of the temporary files of its ranks (`--tmpdir`).
    pub(crate) temporary: Option<PathBuf>,
    /// Launchers whose variables ranks get, too (`--env-for`).
    pub(crate) emulated: EmulatedLaunchers,
    /// Address for ranks that find each other by these variables; chosen when the run is resolved.
    pub(crate) rendezvous: Option<Rendezvous>,
    /// Environment of the head of the run, on another node than its own: ranks inherit it in place of that of
    /// their launcher.
    pub(crate) of_head: Option<Vec<(OsString, OsString)>>,
}

impl Environment {
    /// True if a node decides the value of a variable of this name, where it has one.
    pub(crate) fn is_of_node(&self, name: &OsStr) -> bool {
        let name = name.as_bytes();
        covers(BY_NODE, name) || self.of_node.iter().any(|pattern| fits(pattern.as_bytes(), name))
    }
}

/// Launchers whose variables ranks get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EmulatedLaunchers {
    /// `torchrun`.
    pub(crate) torch: bool,
    /// `srun`, as in a task of Slurm.
    pub(crate) slurm: bool,
    /// Open MPI's `mpirun`, for programs that link no MPI library.
    pub(crate) open_mpi: bool,
    /// HPE's PALS.
    pub(crate) pals: bool,
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
