//! Actions on processes of ranks that clients request.

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

/// Action on a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ControlAction {
    /// Sends this signal.
    Signal(#[serde(with = "signal_number")] Signal),
    /// Sends SIGTERM, and SIGKILL if the process does not exit in time.
    Terminate,
    /// Sends SIGKILL.
    Kill,
}

/// Serialization of a signal as its number.
mod signal_number {
    use rustix::process::Signal;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(
        signal: &Signal,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_i32(signal.as_raw())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Signal, D::Error> {
        let number = i32::deserialize(deserializer)?;
        Signal::from_named_raw(number).ok_or_else(|| D::Error::custom("no such signal"))
    }
}
