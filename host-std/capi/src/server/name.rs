//! A request about a published name, as C callers read it.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use pmi_std::server::{NameOperation, NameServiceRequest};

use super::handle::number;

/// `pmi_server_name`, lent to a callback.
#[repr(C)]
#[derive(Debug)]
pub struct OutName {
    id: u64,
    job: u32,
    rank: c_int,
    operation: c_int,
    service: *const c_char,
    port: *const c_char,
}

/// Lends a request to `take`; its pointers are valid until `take` returns. False for one that C cannot
/// express: a name or a port with a NUL.
pub(super) fn lend(request: &NameServiceRequest, take: impl FnOnce(&OutName)) -> bool {
    let (operation, port) = match &request.operation {
        NameOperation::Publish(port) => (PUBLISH, Some(port)),
        NameOperation::Unpublish => (UNPUBLISH, None),
        NameOperation::Lookup => (LOOKUP, None),
    };
    let text = |bytes: &Vec<u8>| CString::new(bytes.clone());
    let Ok(service) = text(&request.service) else { return false };
    let Ok(port) = port.map(text).transpose() else { return false };
    take(&OutName {
        id: request.id.to_bits(),
        job: request.job.0,
        rank: number(request.rank),
        operation,
        service: service.as_ptr(),
        port: port.as_ref().map_or(ptr::null(), |port| port.as_ptr()),
    });
    true
}

const PUBLISH: c_int = 1;
const UNPUBLISH: c_int = 2;
const LOOKUP: c_int = 3;
