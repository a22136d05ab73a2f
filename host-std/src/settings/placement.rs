//! Order of the ranks, and their processors.

use serde::{Deserialize, Serialize};

/// Order of the ranks, and their processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placement {
    /// Binding of a rank (`--bind-to`).
    pub(crate) bind_to: BindTo,
    /// Unit of the order in which ranks are placed (`--map-by`); that of the binding by default.
    pub(crate) map_by: Option<Units>,
    /// Processors that ranks may use (`--cpu-set`); all of the launcher's if `None`.
    pub(crate) processors: Option<Vec<u32>>,
    /// True if processors of other runs are as good as free ones, and other runs may take those of this run
    /// (`--overlap`).
    pub(crate) overlaps: bool,
    /// True if the table of ranks and processors is printed before the start (`--display map`).
    pub(crate) display_map: bool,
}

/// Binding of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BindTo {
    /// No binding: the system places the rank.
    #[default]
    Nothing,
    /// A number of neighbouring pieces.
    Units(Units),
    /// These sets of processors, one per rank, in turn (`user:0+1,2+3`).
    User(Vec<Vec<u32>>),
    /// That of another launcher without an option (`as:ompi`).
    Launcher(LauncherBinding),
}

/// Binding of another launcher without an option, where the processors of a host suffice for its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LauncherBinding {
    /// That of the launcher of the MPI library that the program links.
    OfLibrary,
    /// Of Open MPI 4: to cores in a job of two ranks at most, else to memory domains.
    OpenMpi,
    /// The same with hardware threads in place of cores (`--use-hwthread-cpus`).
    OpenMpiThreads,
    /// Of Open MPI 5: to cores.
    Prrte,
    /// The same with hardware threads in place of cores.
    PrrteThreads,
    /// Of Open MPI 5 with an order of the hosts: as Open MPI 4, and memory domains are filled.
    PrrteOrdered,
    /// Of Intel MPI: each rank to its share of the processors.
    Intel,
    /// Of Slurm: to threads, cores or sockets if there are as many as ranks.
    Slurm,
}

/// A number of neighbouring pieces of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Units {
    /// Kind of the pieces.
    pub(crate) unit: Unit,
    /// Number of pieces; one at least.
    pub(crate) count: u32,
}

/// A piece of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    /// One hardware thread, which is what the system calls a processor.
    HwThread,
    /// One core, with all its threads.
    Core,
    /// The processors that share a cache of this level.
    Cache(u8),
    /// One memory domain.
    Numa,
    /// One socket.
    Socket,
    /// The whole machine.
    Machine,
}
