//! The client's side of the challenge.

use crate::auth::{Proof, Secret};
use crate::command::{Answer, Reply};

/// Answers the challenge that `reply` is; `None` if it is something else.
///
/// Shape: the digits are for [`Request::Proof`](crate::command::Request::Proof), which is the next
/// question. A nonce that is no decimal number of 64 bits is not answered.
/// Spec: PMI-2 wire protocol, "Authentication".
pub fn prove(secret: &Secret, reply: &Reply<'_>) -> Option<Proof> {
    let Answer::Challenge(nonce) = reply.answer else { return None };
    let mut room = [0; NONCE_BYTES];
    secret.answer(nonce.resolve(&mut room).ok()?)
}

/// Room for the longest nonce and a byte that makes it too long.
const NONCE_BYTES: usize = 21;
