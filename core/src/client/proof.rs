//! The client's side of the challenge.

use crate::auth::{Proof, Secret};
use crate::command::{Answer, Reply};

/// Answers the challenge that `reply` is; `None` if it is something else.
///
/// Shape: the digits are for [`Request::Proof`](crate::command::Request::Proof), which is the next
/// question. A nonce of more than 64 bytes is none.
/// Spec: PMI-2 wire protocol, "Authentication".
pub fn prove(secret: &Secret, reply: &Reply<'_>) -> Option<Proof> {
    let Answer::Challenge(nonce) = reply.answer else { return None };
    let mut room = [0; NONCE_BYTES];
    let nonce = nonce.resolve(&mut room).ok().filter(|nonce| nonce.len() <= NONCE_BYTES)?;
    Some(secret.prove(nonce))
}

/// The longest nonce of a server: a number, whatever its base.
const NONCE_BYTES: usize = 64;
