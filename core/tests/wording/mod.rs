//! Writes a message again in the codec's own form.

#![allow(dead_code, reason = "each test program uses its own part of this module")]

use crate::transcript::{Side, Voice};
use pmi_core::command::{Place, Request, Verb};
use pmi_core::error::Full;
use pmi_core::wire::pmi2::{self, FrameStyle};
use pmi_core::wire::{Dialect, RequestMessage, WriteError, binary, pmi1};

/// Writes the meaning of `bytes` again; `None` if the codec cannot express it.
pub(crate) fn write(from: Voice, bytes: &[u8], out: &mut [u8]) -> Option<Result<usize, Full>> {
    let dialect = from.dialect(bytes);
    match from.side {
        Side::Client => {
            let RequestMessage { tag, request } = dialect.read_request(bytes).ok()?;
            let request = request?;
            let space = own_space(&request);
            match match dialect {
                Dialect::Lines => pmi1::write_request(&request, &space, out),
                Dialect::Frames(_) => pmi2::write_request(&request, tag, &space, out),
                Dialect::Binary => binary::write_request(&request, tag, out),
            } {
                Ok(len) => Some(Ok(len)),
                Err(WriteError::Full(full)) => Some(Err(full)),
                Err(WriteError::Misuse(_)) => None,
            }
        }
        Side::Server => {
            let reply = from.read_reply(bytes).ok()?;
            let word = if reply.to == Verb::Unknown { word(bytes) } else { b"" };
            // Only clients that double `;` are sent one, so every reply is written in this form.
            let doubled = Dialect::Frames(FrameStyle::LeftAligned);
            let dialect = if matches!(dialect, Dialect::Frames(_)) { doubled } else { dialect };
            Some(dialect.write_reply(&reply, word, out))
        }
    }
}

/// True if the message has the codec's own form.
pub(crate) fn is_ours(from: Voice, bytes: &[u8]) -> bool {
    let mut out = vec![0; bytes.len()];
    write(from, bytes, &mut out) == Some(Ok(bytes.len())) && out == bytes
}

/// Name of the space that a client would have to own for this request.
fn own_space(request: &Request<'_>) -> Vec<u8> {
    match request {
        Request::Put { place: Place::Job(Some(name)), .. } => name.bytes().collect(),
        _ => Vec::new(),
    }
}

/// The command that a server names in its reply because it is unknown.
fn word(bytes: &[u8]) -> &[u8] {
    let (_, message) = bytes.split_at(bytes.iter().position(|b| *b == b'c').unwrap_or(0));
    let message = message.strip_prefix(b"cmd=").unwrap_or(b"");
    let word = message.split(|b| matches!(b, b' ' | b'\n' | b';')).next().unwrap_or(b"");
    let of_line = word.strip_suffix(b"_result");
    of_line.or(word.strip_suffix(b"-response")).unwrap_or(b"")
}
