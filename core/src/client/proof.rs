//! The client's side of the challenge.

use crate::auth::{Proof, Secret};
use crate::command::{Answer, Reply};

/// Computes the proof for the challenge in `reply`; `None` if the reply is no challenge.
///
/// Shape: the digits are for [`Request::Proof`](crate::command::Request::Proof), the next
/// request. A nonce that is no decimal number of 64 bits yields `None`.
/// Spec: PMI-2 wire protocol, "Authentication".
pub fn prove(secret: &Secret, reply: &Reply<'_>) -> Option<Proof> {
    let Answer::Challenge(nonce) = reply.answer else { return None };
    let mut room = [0; NONCE_BYTES];
    secret.answer(nonce.resolve(&mut room).ok()?)
}

/// Room for the longest nonce and a byte that makes it too long.
const NONCE_BYTES: usize = 21;
