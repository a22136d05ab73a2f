//! Says a message again in our own words.

#![allow(dead_code, reason = "each test program uses its own part of this module")]

use crate::transcript::Side;
use pmi_core::command::{Place, Request, Verb};
use pmi_core::error::Full;
use pmi_core::wire::{Unwritten, pmi1};

/// Writes again what `bytes` were read to mean; `None` if we have no words for it.
pub(crate) fn write(from: Side, bytes: &[u8], out: &mut [u8]) -> Option<Result<usize, Full>> {
    match from {
        Side::Client => {
            let request = pmi1::read_request(bytes).ok()??;
            match pmi1::write_request(&request, &own_space(&request), out) {
                Ok(len) => Some(Ok(len)),
                Err(Unwritten::Full(full)) => Some(Err(full)),
                Err(Unwritten::Misuse(_)) => None,
            }
        }
        Side::Server => {
            let reply = pmi1::read_reply(bytes).ok()?;
            let word = if reply.to == Verb::Unknown { word(bytes) } else { b"" };
            Some(pmi1::write_reply(&reply, word, out))
        }
    }
}

/// Whether the message is worded as we word it.
pub(crate) fn is_ours(from: Side, bytes: &[u8]) -> bool {
    let mut out = vec![0; bytes.len()];
    write(from, bytes, &mut out) == Some(Ok(bytes.len())) && out == bytes
}

/// The name that a client would have to own to say this.
fn own_space(request: &Request<'_>) -> Vec<u8> {
    match request {
        Request::Put { place: Place::Job(Some(name)), .. } => name.bytes().collect(),
        _ => Vec::new(),
    }
}

/// The command that a server answers with `COMMAND_result` because it does not know it.
fn word(bytes: &[u8]) -> &[u8] {
    let line = bytes.strip_prefix(b"cmd=").unwrap_or(b"");
    let word = line.split(|b| matches!(b, b' ' | b'\n')).next().unwrap_or(b"");
    word.strip_suffix(b"_result").unwrap_or(b"")
}
