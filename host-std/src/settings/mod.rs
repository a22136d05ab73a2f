//! All settings of a run, with their defaults.
//!
//! The settings are plain values: the command line, the environment and a file all end up here, and the
//! rest of the launcher reads nothing else. A part that acts on a group of settings takes that group alone.

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

/// Settings of a run, in groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Size of the job, its working directory, and its listeners.
    pub job: Job,
    /// Order of the ranks, and their processors.
    pub placement: Placement,
    /// Environment of the ranks.
    pub environment: Environment,
    /// Standard output and input of the ranks.
    pub output: Output,
    /// End of a run, and the reports about it.
    pub ending: Ending,
    /// Signs of life of a run, and reports of no progress.
    pub watching: Watching,
    /// Records of messages.
    pub tracing: Tracing,
}
