//! Processors, memory and devices of this machine: what processors share ([`processors`]), the hardware that
//! ranks may use ([`machine`]), its description for libraries ([`hwloc`]) and for the run ([`resources`]),
//! which processors each rank gets ([`binding`]), and which memory ([`memory_policy`]) and devices
//! ([`places`]), and whether processors are busy ([`load`]).

pub(crate) mod binding;
pub(crate) mod hwloc;
pub(crate) mod load;
pub(crate) mod machine;
pub(crate) mod memory_policy;
pub(crate) mod places;
pub(crate) mod processors;
pub(crate) mod resources;
