//! Everything a user can set for a run, with the values that hold when nobody says anything.
//!
//! One folder of plain values: what was typed, what the environment says and what a file says all end up
//! here, and the rest of the launcher reads nothing else. A part that acts on a group of settings takes
//! that group alone.

pub mod ending;
pub mod environment;
pub mod job;
pub mod output;
pub mod placement;
pub mod tracing;
pub mod watching;

pub use ending::Ending;
pub use environment::Environment;
pub use job::{Job, Universe};
pub use output::Output;
pub use placement::Placement;
pub use tracing::Tracing;
pub use watching::Watching;

/// All groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How many ranks, where they start, and who dials in.
    pub job: Job,
    /// Which rank runs where, and on which processors.
    pub placement: Placement,
    /// What ranks find in their environment.
    pub environment: Environment,
    /// What becomes of what ranks write and read.
    pub output: Output,
    /// How a run ends, and what is told of it.
    pub ending: Ending,
    /// How the launcher shows that a run is alive, or is not.
    pub watching: Watching,
    /// What is recorded of the messages.
    pub tracing: Tracing,
}
