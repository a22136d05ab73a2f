//! A published value.

use crate::ids::ProcId;
use crate::wire::pmix::{Format, Type};

/// A published value.
#[derive(Clone, Debug)]
pub struct PublishedValue<B> {
    pub(super) key: B,
    pub(super) of: Type,
    /// The value without its type, as its publisher writes.
    pub(super) value: B,
    pub(super) format: Format,
    /// The name space of its publisher, which may be gone when the data is not.
    pub(super) nspace: B,
    pub(super) owner: ProcId,
    /// Number of the node of its publisher.
    pub(super) node: Option<u32>,
    pub(super) range: u8,
    pub(super) persistence: u8,
    /// True if it is a name of the server as well.
    pub(super) is_name: bool,
}
