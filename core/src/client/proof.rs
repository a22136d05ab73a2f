//! The client's side of the proofs of a shared secret.

use crate::auth::{Label, METHOD, MUTUAL_METHOD, Nonce, PROOF_DIGITS, Proof, Secret};
use crate::command::{Answer, Reply};

/// A method of authentication, from the side of the client.
///
/// A function that answers one challenge is the method of one round:
/// `&|reply: &Reply<'_>| prove(&secret, reply)` with [`prove`]. So only programs with a secret link a hash
/// function, and the secret may stay where it is.
pub trait Prover: Sync {
    /// Name of the method, which `fullinit` offers.
    fn method(&self) -> &'static [u8];

    /// Answers a message of the server; `None` if this end cannot prove the secret, or the server does not.
    fn answer(&self, progress: &mut AuthProgress, reply: &Reply<'_>) -> Option<AuthAnswer<'_>>;

    /// True if the session may be used after these messages: the server has proved what the method demands of
    /// it.
    fn accepts(&self, _progress: &AuthProgress) -> bool {
        true
    }
}

/// Progress of an authentication, which the driver keeps between the messages.
#[derive(Clone, Debug, Default)]
pub struct AuthProgress {
    rounds: u8,
    /// First message of the server.
    nonce: heapless::Vec<u8, NONCE_BYTES>,
    /// True if the server has proved the secret.
    is_proven: bool,
}

/// Answer to a message of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthAnswer<'a> {
    /// Text of the answer.
    pub text: AuthText<'a>,
    /// True if this end has no further message.
    pub is_last: bool,
}

/// Text of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthText<'a> {
    /// A nonce, a proof, or both.
    Digits(heapless::Vec<u8, { NONCE_BYTES + PROOF_DIGITS }>),
    /// A text that the prover keeps, for those that no board sends.
    Lent(&'a [u8]),
}

/// The method in which the server proves the secret as well; see [`MutualHmac`](crate::auth::MutualHmac).
#[derive(Clone, Debug)]
pub struct MutualProver {
    secret: Secret,
    nonce: Nonce,
}

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

impl MutualProver {
    /// A prover for one session. `nonce` was never used before.
    pub const fn new(secret: Secret, nonce: Nonce) -> Self {
        Self { secret, nonce }
    }
}

impl Prover for MutualProver {
    fn method(&self) -> &'static [u8] {
        MUTUAL_METHOD
    }

    fn answer(&self, progress: &mut AuthProgress, reply: &Reply<'_>) -> Option<AuthAnswer<'_>> {
        let Answer::Challenge(text) = reply.answer else { return None };
        let mut room = [0; PROOF_DIGITS];
        let text = text.resolve(&mut room).ok()?;
        let nonce = self.nonce.as_bytes();
        progress.rounds = progress.rounds.saturating_add(1);
        match progress.rounds {
            1 => {
                progress.nonce = heapless::Vec::from_slice(text).ok()?;
                let proof = self.secret.of_session(text)?.prove(Label::Client, nonce);
                let mut text = heapless::Vec::from_slice(nonce).ok()?;
                text.push(b',').ok()?;
                text.extend_from_slice(proof.as_bytes()).ok()?;
                Some(AuthAnswer { text: AuthText::Digits(text), is_last: false })
            }
            2 => {
                let key = self.secret.of_session(&progress.nonce)?;
                progress.is_proven = key.is_proved(Label::Server, nonce, text.try_into().ok()?);
                progress.is_proven.then_some(AuthAnswer { text: text_of(b"ok")?, is_last: true })
            }
            _ => None,
        }
    }

    fn accepts(&self, progress: &AuthProgress) -> bool {
        progress.is_proven
    }
}

impl<F: Fn(&Reply<'_>) -> Option<Proof> + Sync> Prover for F {
    fn method(&self) -> &'static [u8] {
        METHOD
    }

    fn answer(&self, progress: &mut AuthProgress, reply: &Reply<'_>) -> Option<AuthAnswer<'_>> {
        progress.rounds = progress.rounds.saturating_add(1);
        if progress.rounds > 1 {
            return None;
        }
        Some(AuthAnswer { text: text_of(self(reply)?.as_bytes())?, is_last: true })
    }
}

impl AuthText<'_> {
    /// The bytes of the text.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Digits(digits) => digits,
            Self::Lent(text) => text,
        }
    }
}

fn text_of<'a>(bytes: &[u8]) -> Option<AuthText<'a>> {
    heapless::Vec::from_slice(bytes).ok().map(AuthText::Digits)
}

/// Room for the longest nonce and a byte that makes it too long.
const NONCE_BYTES: usize = 21;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Text, Verb};
    use crate::error::Code;

    const NONCE: &[u8] = b"333333333333333333";

    fn secret() -> Secret {
        Secret::new(b"correct horse battery staple").unwrap()
    }

    fn reply(text: &[u8]) -> Reply<'_> {
        let answer = Answer::Challenge(Text::plain(text));
        Reply { to: Verb::FullInit, tag: b"", code: Code::SUCCESS, answer }
    }

    // Coverage: W2-26
    #[test]
    fn server_proves_the_secret_before_the_client_goes_on() {
        let prover = MutualProver::new(secret(), Nonce::new([7; 18]));
        let nonce = Nonce::new([7; 18]);
        let mut progress = AuthProgress::default();
        let first = prover.answer(&mut progress, &reply(NONCE)).unwrap();
        let key = secret().of_session(NONCE).unwrap();
        assert!(first.text.as_bytes().starts_with(nonce.as_bytes()) && !first.is_last);
        assert!(
            first.text.as_bytes().ends_with(key.prove(Label::Client, nonce.as_bytes()).as_bytes())
        );
        // The proof of the other end, of another nonce or of another session is none, nor is a part.
        let right = key.prove(Label::Server, nonce.as_bytes());
        let other = secret().of_session(b"1").unwrap();
        for wrong in [
            key.prove(Label::Client, nonce.as_bytes()).as_bytes(),
            key.prove(Label::Server, b"1").as_bytes(),
            other.prove(Label::Server, nonce.as_bytes()).as_bytes(),
            &right.as_bytes()[1..],
            b"",
        ] {
            let mut progress = progress.clone();
            assert_eq!(prover.answer(&mut progress, &reply(wrong)), None);
            assert!(!prover.accepts(&progress));
        }
        assert!(!prover.accepts(&progress));
        let last = prover.answer(&mut progress, &reply(right.as_bytes())).unwrap();
        assert!(last.is_last && prover.accepts(&progress));
        assert_eq!(prover.answer(&mut progress, &reply(right.as_bytes())), None);
    }

    #[test]
    fn nonce_that_is_no_number_and_other_answers_have_no_answer() {
        let prover = MutualProver::new(secret(), Nonce::new([7; 18]));
        for bad in [&b""[..], b"x", b"333333333333333333333", &[b'3'; 70]] {
            assert_eq!(prover.answer(&mut AuthProgress::default(), &reply(bad)), None);
        }
        let other = Reply { answer: Answer::Nothing, ..reply(b"") };
        assert_eq!(prover.answer(&mut AuthProgress::default(), &other), None);
        let one_round = |reply: &Reply<'_>| prove(&secret(), reply);
        assert_eq!(one_round.answer(&mut AuthProgress::default(), &other), None);
    }
}
