//! Ranks on the node of this process.

use std::ffi::c_int;

use pmi_core::error::Code;
use pmi_core::wire::mapping::read_mapping;

use crate::code::{self, CodeResult};
use crate::session::{Session, process_mapping};

/// Ranks on this node, in ascending order.
///
/// Spec: RFC 13, "Local Process Group Information".
///
/// # Errors
///
/// `FAIL` if the server does not report the mapping of ranks to nodes.
pub(crate) fn local_ranks(session: &dyn Session) -> CodeResult<Vec<c_int>> {
    let (rank, size) = (session.facts().rank, session.facts().size);
    if size == 1 {
        return Ok(vec![0]);
    }
    if let Some(ranks) = session.local_ranks()? {
        return ranks.into_iter().map(code::number).collect();
    }
    let mapping = process_mapping(session)?.ok_or(Code::FAIL)?;
    let nodes = read_mapping(&mapping, size).ok_or(Code::FAIL)?;
    let own = nodes.clone().zip(0..).find(|(_, of)| *of == rank).ok_or(Code::FAIL)?.0;
    nodes
        .zip(0..size)
        .filter(|(node, _)| *node == own)
        .map(|(_, rank)| code::number(rank))
        .collect()
}
