//! Records of messages.

use std::path::PathBuf;

/// Recording of the messages between ranks and server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// Path of the record of all messages (`--trace`).
    pub file: Option<PathBuf>,
    /// Number of recent messages of all ranks that are kept in memory for the tables (`--trace-ring`).
    pub ring: usize,
    /// True if every message is written to standard error as it passes (`--show-messages`).
    pub shows_messages: bool,
}

impl Tracing {
    /// True if every message is recorded or shown.
    pub(crate) fn is_requested(&self) -> bool {
        self.file.is_some() || self.shows_messages
    }
}

impl Default for Tracing {
    fn default() -> Self {
        Self { file: None, ring: 4096, shows_messages: false }
    }
}
