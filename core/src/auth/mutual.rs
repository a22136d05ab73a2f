//! The method in which both ends prove the secret, in two rounds.
//!
//! Wire: `fullinit;authtype=mutual-hmac-sha256` · `auth-response;authinfo=NONCE` ·
//! `auth-response;authinfo=NONCE,PROOF` · `auth-response;authinfo=PROOF` ·
//! `auth-response-complete;authinfo=ok` · `fullinit-response`. Both proofs are under a key of the session,
//! which is the HMAC of the first nonce; the second nonce is of the client, and each proof is the HMAC of it
//! under the label of the end that gives it. A server answers a client that has proved the secret only, and
//! the client is a member of the job only after it has accepted the proof of the server.
//! Spec: PMI-2 wire protocol, PMI_Init, whose methods may have additional exchanges.

use super::{AuthMessage, AuthMethod, AuthStep, Challenge, Label, PROOF_DIGITS, is_nonce};

/// Name of the method.
pub const MUTUAL_METHOD: &[u8] = b"mutual-hmac-sha256";

/// The method of two rounds: peer and server prove the secret to each other.
#[derive(Debug)]
pub struct MutualHmac;

impl AuthMethod for MutualHmac {
    fn name(&self) -> &'static [u8] {
        MUTUAL_METHOD
    }

    fn handle(&self, challenge: &Challenge, round: u8, message: AuthMessage<'_>) -> AuthStep {
        match (round, message.is_last) {
            (1, false) => proof_of_server(challenge, message.text).unwrap_or(AuthStep::Rejected),
            (2, true) => AuthStep::Proven,
            _ => AuthStep::Rejected,
        }
    }
}

/// The proof for a client whose own proof is right.
fn proof_of_server(challenge: &Challenge, text: &[u8]) -> Option<AuthStep> {
    let comma = text.iter().position(|byte| *byte == b',')?;
    let (nonce, proof) = text.split_at_checked(comma)?;
    let proof: &[u8; PROOF_DIGITS] = proof.strip_prefix(b",")?.try_into().ok()?;
    let key = challenge.session_secret()?;
    let is_proven = is_nonce(nonce) && key.is_proved(Label::Client, nonce, proof);
    is_proven.then(|| AuthStep::Answer(key.prove(Label::Server, nonce)))
}

#[cfg(test)]
mod tests {
    use super::super::{METHOD, Nonce, Secret};
    use super::*;
    use std::vec::Vec;

    const NONCE: &[u8] = b"271828182845904523";

    fn secret() -> Secret {
        Secret::new(b"correct horse battery staple").unwrap()
    }

    fn challenge() -> Challenge {
        Challenge::with_mutual(&secret(), Nonce::new([3; 18]))
    }

    /// The first message of a client that knows `secret`.
    fn first(secret: &Secret, nonce: &[u8]) -> Vec<u8> {
        let key = secret.of_session(challenge().nonce().as_bytes()).unwrap();
        [nonce, b",", key.prove(Label::Client, nonce).as_bytes()].concat()
    }

    fn step(round: u8, text: &[u8], is_last: bool) -> AuthStep {
        let challenge = challenge();
        let method = challenge.method(MUTUAL_METHOD).unwrap();
        method.handle(&challenge, round, AuthMessage { text, is_last })
    }

    #[test]
    fn both_ends_prove_the_secret_in_two_rounds() {
        let AuthStep::Answer(proof) = step(1, &first(&secret(), NONCE), false) else {
            panic!("no answer")
        };
        let key = secret().of_session(challenge().nonce().as_bytes()).unwrap();
        assert_eq!(proof, key.prove(Label::Server, NONCE));
        assert_eq!(step(2, b"ok", true), AuthStep::Proven);
    }

    #[test]
    fn whole_answer_of_a_client_with_the_secret_is_needed() {
        let right = first(&secret(), NONCE);
        let other = first(&Secret::new(b"another secret of enough length").unwrap(), NONCE);
        for wrong in [&other[..], &right[1..], &right[..right.len() - 1], NONCE, b"", b","] {
            assert_eq!(step(1, wrong, false), AuthStep::Rejected, "{}", wrong.escape_ascii());
        }
        // No round is left out, and none is repeated.
        assert_eq!(step(1, &right, true), AuthStep::Rejected);
        assert_eq!(step(1, b"ok", true), AuthStep::Rejected);
        assert_eq!(step(2, &right, false), AuthStep::Rejected);
        assert_eq!(step(3, b"ok", true), AuthStep::Rejected);
    }

    #[test]
    fn method_is_offered_by_name() {
        let one_round = Challenge::new(&secret(), Nonce::new([3; 18]));
        assert!(one_round.method(MUTUAL_METHOD).is_none());
        assert!(one_round.method(METHOD).is_some());
        assert!(challenge().method(METHOD).is_some());
        assert!(challenge().method(b"challenge-sha256").is_none());
        assert_ne!(challenge(), one_round);
    }
}
