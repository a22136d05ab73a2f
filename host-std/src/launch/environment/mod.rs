//! Variables of ranks: those by which they find their servers and their places ([`rank_variables`],
//! [`pmix`]), those of other launchers that programs read ([`other_launchers`]), what tells libraries that
//! processors are shared ([`sharing`]), and MPI processes that have lost them ([`singletons`]). The layers
//! below, of the head, the node and the user, are part of the plan:
//! [`program_environment`](super::plan::program_environment).

pub(crate) mod other_launchers;
mod pmix;
pub(crate) mod rank_variables;
mod sharing;
pub(crate) mod singletons;
