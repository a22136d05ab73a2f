//! XML of hwloc, of versions 1 and 2.
//!
//! A file may come from anybody: sizes are bounded by [`limits`], entities of its own are errors, and what
//! objects say is checked against each other. An object may name no processor that the object around it
//! lacks, and siblings share none.

mod links;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;

/// Version of the XML: hwloc 2 reads both, hwloc 1 its own only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HwlocVersion {
    /// hwloc 1.11: memory domains stand between the machine and its processors.
    V1,
    /// hwloc 2.0 and later 2.x: memory domains hang at the objects that they are near.
    V2,
}

/// Text that describes no machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {object}{reason}")]
pub struct HwlocError {
    /// Line, from 1.
    pub line: usize,
    /// The object at fault, or none.
    pub object: ObjectLabel,
    /// What is wrong.
    pub reason: HwlocReason,
}

/// An object as messages name it. Printed as `Core 3: `, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectLabel(pub Option<String>);

impl fmt::Display for ObjectLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |label| write!(f, "{label}: "))
    }
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HwlocReason {
    /// Not well-formed, or it ends early.
    #[error("no well-formed XML ({0})")]
    Syntax(String),
    /// Another document.
    #[error("no <topology> of hwloc")]
    NoTopology,
    /// A version that is not read.
    #[error("version '{0}' of hwloc's XML is not read; lstopo of hwloc 2 writes one that is")]
    Version(String),
    /// Above one of the [`limits`].
    #[error("more than {most} {what}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// An attribute is missing or unreadable.
    #[error("no usable attribute '{0}'")]
    Attribute(&'static str),
    /// An object stands where none of its type can be.
    #[error("it does not belong inside {0}")]
    Place(String),
    /// Processors beyond those of the object around it.
    #[error("it has the processors {0}, which the object around it lacks")]
    Beyond(String),
    /// Processors that a sibling has.
    #[error("it has the processors {0}, which an object beside it has, too")]
    Shared(String),
    /// The same number as another object.
    #[error("another object has the same {0}")]
    Twice(&'static str),
    /// No processors at all.
    #[error("no processor that may be used")]
    NoProcessors,
}

/// Bounds of what is read.
pub mod limits {
    /// Bytes of a text; the largest known file, of a machine with 1,792 cores, has 6 MiB.
    pub const BYTES_MAX: usize = 64 << 20;
    /// Elements inside each other.
    pub const DEPTH_MAX: usize = 64;
    /// Objects.
    pub const OBJECTS_MAX: usize = 1_000_000;
    /// Attributes of an element.
    pub const ATTRIBUTES_MAX: usize = 64;
    /// Processors in all sets together, each of which takes about six bytes.
    pub const SET_MEMBERS_MAX: usize = 16 << 20;
    /// Memory domains, as in Linux.
    pub const MEMORIES_MAX: usize = 1024;
    /// Devices, each of which is compared with each memory domain.
    pub const DEVICES_MAX: usize = 16_384;
    /// Names of devices.
    pub const NAMES_MAX: usize = 65_536;
    /// Devices in a matrix of links.
    pub const LINKED_MAX: usize = 1024;
    /// Kinds of cores, each of which is compared with each core.
    pub const KINDS_MAX: usize = 64;
    /// Bytes of a name of a device.
    pub const NAME_BYTES_MAX: usize = 128;
}
