//! Places of ranks.

/// Which rank runs where, and on which processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// What a rank is bound to (`--bind-to`).
    pub bind_to: BindTo,
    /// In which order ranks take their places (`--map-by`); as they are bound by default.
    pub map_by: Option<MapBy>,
    /// The table of places is shown before the start (`--display map`).
    pub display_map: bool,
}

/// What a rank is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BindTo {
    /// Nothing: the system places it.
    #[default]
    Nothing,
    /// One hardware thread.
    HwThread,
    /// One core, with all its threads.
    Core,
    /// One memory domain.
    Numa,
    /// One socket.
    Socket,
    /// These processors, one set a rank, over and over (`user:0+1,2+3`).
    User(Vec<Vec<u32>>),
}

/// What comes next when a rank has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapBy {
    /// The next hardware thread.
    HwThread,
    /// The next core.
    Core,
    /// The next memory domain.
    Numa,
    /// The next socket.
    Socket,
}
