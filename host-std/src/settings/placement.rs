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
