//! Starting ranks and everything that ties a running rank to this process: its environment
//! ([`mod@env`]), its place in the job ([`plan`]), the process itself ([`process`]), its output
//! ([`stdio`]), signals to and from it ([`signal`]) and what it may leave behind ([`orphans`]).

pub mod descriptors;
pub mod env;
pub mod ladder;
pub mod orphans;
pub mod outlet;
pub mod plan;
pub mod process;
pub mod signal;
pub mod stdio;
