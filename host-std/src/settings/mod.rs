//! All settings of a run, with their defaults.
//!
//! The settings are plain values: the command line, the environment and a file all end up here, and the
//! rest of the launcher reads nothing else. A part that acts on a group of settings takes that group alone.

pub(crate) mod ending;
pub(crate) mod environment;
pub(crate) mod hosts;
pub(crate) mod job;
pub(crate) mod names;
pub(crate) mod output;
pub(crate) mod placement;
pub(crate) mod tracing;
pub(crate) mod watching;

pub(crate) use ending::Ending;
pub(crate) use environment::Environment;
pub(crate) use hosts::HostSettings;
pub(crate) use job::{JobSettings, Universe, UniverseSize};
pub(crate) use names::NameSettings;
pub(crate) use output::Output;
pub(crate) use placement::Placement;
pub use tracing::Tracing;
pub(crate) use watching::{DebuggedRanks, Watching};

use pmi_nodes::settings::NodeSettings;

/// Settings of a run, in groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Size of the job, its working directory, and its listeners.
    pub(crate) job: JobSettings,
    /// Hosts, and the order in which they take ranks.
    pub(crate) hosts: HostSettings,
    /// Order of the ranks on a host, and their processors.
    pub(crate) placement: Placement,
    /// Node servers on the hosts.
    pub(crate) nodes: NodeSettings,
    /// Server of published names.
    pub(crate) names: NameSettings,
    /// Environment of the ranks.
    pub(crate) environment: Environment,
    /// Standard output and input of the ranks.
    pub(crate) output: Output,
    /// End of a run, and the reports about it.
    pub(crate) ending: Ending,
    /// Signs of life of a run, and reports of no progress.
    pub(crate) watching: Watching,
    /// Records of messages.
    pub(crate) tracing: Tracing,
}
