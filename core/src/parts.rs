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
//! build; a branch that cannot be taken leaves nothing behind. State that only an absent part would use has
//! a type without memory (`ListenOption` and its neighbours). The cost of each is in `docs/sizes.md`.

#[cfg(not(all(feature = "dynamic", feature = "pmi2", feature = "listen")))]
use core::marker::PhantomData;

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

/// State of [`LISTEN`]; without memory in a build that leaves it out.
#[cfg(feature = "listen")]
pub(crate) type ListenOption<T> = Option<T>;
#[cfg(not(feature = "listen"))]
pub(crate) type ListenOption<T> = AbsentOption<T>;

/// State of [`PMI2`]; without memory in a build that leaves it out.
#[cfg(feature = "pmi2")]
pub(crate) type Pmi2Option<T> = Option<T>;
#[cfg(not(feature = "pmi2"))]
pub(crate) type Pmi2Option<T> = AbsentOption<T>;

/// State of [`SPAWN`]; without memory in a build that leaves it out.
#[cfg(feature = "dynamic")]
pub(crate) type SpawnOption<T> = Option<T>;
#[cfg(not(feature = "dynamic"))]
pub(crate) type SpawnOption<T> = AbsentOption<T>;

/// State of [`CONNECT`]; without memory in a build that leaves it out.
#[cfg(all(feature = "dynamic", feature = "pmi2"))]
pub(crate) type ConnectOption<T> = Option<T>;
#[cfg(not(all(feature = "dynamic", feature = "pmi2")))]
pub(crate) type ConnectOption<T> = AbsentOption<T>;

/// An [`Option`] that is always `None`: state of a part that this build leaves out.
#[cfg(not(all(feature = "dynamic", feature = "pmi2", feature = "listen")))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AbsentOption<T>(PhantomData<T>);

#[cfg(not(all(feature = "dynamic", feature = "pmi2", feature = "listen")))]
#[allow(
    dead_code,
    clippy::unused_self,
    reason = "which of them a build uses depends on its features"
)]
impl<T> AbsentOption<T> {
    pub(crate) const NONE: Self = Self(PhantomData);

    pub(crate) const fn as_ref(&self) -> Option<&T> {
        None
    }

    pub(crate) const fn take(&mut self) -> Option<T> {
        None
    }

    pub(crate) const fn is_some(&self) -> bool {
        false
    }

    pub(crate) const fn is_none(&self) -> bool {
        true
    }
}

/// Optional state of a part.
pub(crate) trait PartOption<T> {
    /// Keeps the value, or drops it in a build without code that would read it.
    fn keep(value: Option<T>) -> Self;
}

impl<T> PartOption<T> for Option<T> {
    fn keep(value: Self) -> Self {
        value
    }
}

#[cfg(not(all(feature = "dynamic", feature = "pmi2", feature = "listen")))]
impl<T> PartOption<T> for AbsentOption<T> {
    fn keep(_: Option<T>) -> Self {
        Self(PhantomData)
    }
}
