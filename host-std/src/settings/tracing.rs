//! Records of messages.

use std::path::PathBuf;

/// What is recorded of the messages between ranks and server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// Where all messages are recorded (`--trace`).
    pub file: Option<PathBuf>,
    /// How many of the last messages of all ranks are kept in memory for the tables (`--trace-ring`).
    pub ring: usize,
    /// Every message is written to standard error as it passes (`--show-messages`).
    pub shows_messages: bool,
}

impl Default for Tracing {
    fn default() -> Self {
        Self { file: None, ring: 4096, shows_messages: false }
    }
}
