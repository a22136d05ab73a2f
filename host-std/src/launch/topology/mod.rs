//! Processors of this machine: what they share ([`processors`]), their description for libraries ([`hwloc`])
//! and for the run ([`resources`]), which of them each rank gets ([`binding`]), and whether they are busy
//! ([`load`]).

pub(crate) mod binding;
pub(crate) mod hwloc;
pub(crate) mod load;
pub(crate) mod processors;
pub(crate) mod resources;
