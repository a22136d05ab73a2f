//! Order of the ranks, and their processors, memory and devices.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Order of the ranks, and their processors, memory and devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placement {
    /// Binding of a rank (`--bind-to`).
    pub(crate) bind_to: BindTo,
    /// Order of the ranks within a host (`--map-by`); along the pieces of the binding by default.
    pub(crate) map_by: Option<MapBy>,
    /// Processors that ranks may use (`--cpu-set`); all of the launcher's if `None`.
    pub(crate) processors: Option<Vec<u32>>,
    /// True if what other runs have is as good as what is free, and other runs may take what this run has
    /// (`--overlap`).
    pub(crate) overlaps: bool,
    /// Threads of each rank (`--threads-per-rank`).
    pub(crate) threads: Option<u32>,
    /// Memory of each rank (`--mem-bind`); `None` leaves it to the system.
    pub(crate) memory: Option<MemoryBinding>,
    /// GPUs of each rank.
    pub(crate) gpus: GpuPlacement,
    /// Number of network cards of each rank (`--nics-per-rank`); 0 leaves the choice to the libraries.
    pub(crate) nics: u32,
    /// File that describes each host (`--topology`); hosts are read by default.
    pub(crate) topology: Option<PathBuf>,
    /// Places of the ranks as they are printed before the start (`--display`); not at all if `None`.
    pub(crate) display: Option<Display>,
}

/// Places of ranks as people see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Display {
    /// A table.
    Table,
    /// A picture in SVG.
    Picture,
}

/// Order of the ranks within a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MapBy {
    /// Consecutive ranks are on consecutive pieces.
    Units(Units),
    /// Consecutive ranks are near consecutive devices.
    Device(MapDevice),
    /// Ranks are distributed over memory domains, and have processors and GPUs of their domain.
    Auto,
}

/// Kind of devices near which ranks are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MapDevice {
    /// GPUs.
    Gpu,
    /// Network cards.
    Nic,
}

/// GPUs of each rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GpuPlacement {
    /// Number of GPUs of each rank (`--gpus-per-rank`); `None` assigns none, unless `bind` lists them.
    pub(crate) per_rank: Option<u32>,
    /// Choice of the GPUs (`--gpu-bind`).
    pub(crate) bind: GpuBind,
    /// How a rank learns of its GPUs (`--gpu-expose`).
    pub(crate) expose: GpuExpose,
    /// Maximum number of ranks of a GPU (`--gpu-share`).
    pub(crate) share: u32,
    /// What counts as one GPU (`--gpu-unit`).
    pub(crate) unit: GpuUnit,
}

/// What counts as one GPU in numbers and lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GpuUnit {
    /// Whatever a rank can have alone: a tile, a partition, a MIG instance, else a GPU.
    #[default]
    Part,
    /// All tiles of a GPU together. Partitions and MIG instances are devices of their libraries.
    Device,
}

impl Default for GpuPlacement {
    fn default() -> Self {
        Self {
            per_rank: None,
            bind: GpuBind::default(),
            expose: GpuExpose::default(),
            share: 1,
            unit: GpuUnit::default(),
        }
    }
}

/// Choice of the GPUs of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GpuBind {
    /// The nearest to the processors of the rank.
    #[default]
    Closest,
    /// Consecutive ones for consecutive ranks.
    Packed,
    /// These, one list for each rank, in turn (`list:0+1,2+3`).
    List(Vec<Vec<u32>>),
    /// As another launcher does (`as:hydra`).
    Launcher(LauncherGpus),
}

/// Choice of the GPUs of ranks by another launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LauncherGpus {
    /// Of Hydra: consecutive ones; ranks for which none is left have no list.
    Hydra,
    /// Of Intel MPI: the number that is given, else an equal share, near the rank; none where there are none.
    Intel,
    /// Of Slurm: all at the least distance from the rank, whoever else has them; with a number, so
    /// many of these for as many ranks in a row as may share a GPU, and then the next ones.
    Slurm,
}

/// How a rank learns of its GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GpuExpose {
    /// The libraries show no other GPUs.
    #[default]
    Mask,
    /// The libraries show all GPUs, those of the rank first.
    Order,
    /// Variables of the launcher name the GPUs, and the libraries show all.
    Env,
}

/// Memory of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MemoryBinding {
    /// Memory domains of the processors of the rank, and no others.
    Local,
    /// The same, and others once these are full.
    Preferred,
    /// Page by page from all memory domains of the processors of the rank.
    Interleave,
    /// High bandwidth memory near the processors of the rank, and no other.
    HighBandwidth,
    /// These memory domains, one list for each rank, in turn (`list:0,1`).
    List(Vec<Vec<u32>>),
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
