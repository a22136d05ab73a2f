//! Which parts of the protocols this build has.
//!
//! A board that never spawns need not hold the code for it. Each part is a feature of the crate, all of
//! them are there unless somebody leaves them out, and what is left out is answered like a word nobody
//! knows. The types stay as they are, so a program that names less than its build has is the same program.
//!
//! | feature | what it has |
//! |---|---|
//! | `pmi2` | frames, and attributes of nodes and jobs |
//! | `circles` | what goes beyond one's own space, in frames: connected jobs, whole spaces, rings |
//! | `frames` | our own frames, besides lines and those of PMI-2 |
//! | `names` | publishing names, and looking them up |
//! | `spawn` | starting further processes |
//! | `groups` | fences of some ranks, since PMI-1.2 |
//! | `dial` | ranks that dial in: saying who one is, proving it, and the second connection out of band |
//!
//! They are constants and not conditions of compilation, because a match then names every case, in every
//! build; a branch that cannot be taken leaves nothing behind. What each takes is in `docs/sizes.md`.

/// Frames, and attributes of nodes and jobs.
pub const FRAMES: bool = cfg!(feature = "pmi2");

/// Our own frames.
pub const OWN_FRAMES: bool = cfg!(feature = "frames");

/// Connected jobs, whole spaces, rings.
pub const CIRCLES: bool = cfg!(feature = "circles");

/// Publishing names, and looking them up.
pub const NAMES: bool = cfg!(feature = "names");

/// Starting further processes.
pub const SPAWN: bool = cfg!(feature = "spawn");

/// Fences of some ranks.
pub const GROUPS: bool = cfg!(feature = "groups");

/// Ranks that dial in.
pub const DIAL: bool = cfg!(feature = "dial");
