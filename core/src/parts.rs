//! Protocol parts that this build contains.
//!
//! A board that never spawns need not hold the code for it. Each part is a feature of the crate and is on by
//! default; a request that belongs to an absent part is answered like an unknown command. The types stay the
//! same, so a program compiles against every build that contains what it uses.
//!
//! | feature | contents |
//! |---|---|
//! | `pmi2` | PMI-2 framing, attributes of nodes and jobs |
//! | `binary` | the binary dialect (`docs/binary.md`) |
//! | `dynamic` | all beyond a fixed set of ranks on one node: jobs over several nodes, spawned jobs, published names, fences of some ranks (PMI-1.2), and with PMI-2 connected jobs, whole keyspaces and rings |
//! | `listen` | ranks that connect by themselves: identification, proof, the second connection out of band |
//!
//! They are constants and not conditions of compilation, because a match then names every case, in every
//! build; a branch that cannot be taken leaves nothing behind. The cost of each is in `docs/sizes.md`.

/// PMI-2 framing, attributes of nodes and jobs.
pub const PMI2: bool = cfg!(feature = "pmi2");

/// Attributes of nodes and jobs, which PMI-2 brings.
pub const ATTRIBUTES: bool = PMI2;

/// Texts in which a byte may stand doubled, as in PMI-2.
pub const DOUBLED_TEXTS: bool = PMI2;

/// The binary dialect.
pub const BINARY: bool = cfg!(feature = "binary");

/// Connected jobs, whole spaces, rings.
pub const CONNECT: bool = cfg!(all(feature = "dynamic", feature = "pmi2"));

/// Replies of PMI-2 in several frames, and spawns.
pub const CONCAT: bool = cfg!(all(feature = "dynamic", feature = "pmi2"));

/// Publishing names, and looking them up.
pub const NAMES: bool = cfg!(feature = "dynamic");

/// Starting further processes.
pub const SPAWN: bool = cfg!(feature = "dynamic");

/// Fences of some ranks.
pub const GROUPS: bool = cfg!(feature = "dynamic");

/// Jobs with ranks on several nodes, each with a server of its own.
pub const NODES: bool = cfg!(feature = "dynamic");

/// Ranks that connect from elsewhere and identify themselves.
pub const LISTEN: bool = cfg!(feature = "listen");
