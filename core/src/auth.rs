//! Proofs of identity: the challenges of PMI-2, and sums of a shared secret under labels for other uses.
//!
//! Wire: `fullinit;authtype=challenge-hmac-sha256` · `auth-response;authinfo=NONCE` ·
//! `auth-response-complete;authinfo=PROOF` · `fullinit-response`. The proof is the HMAC-SHA-256, with
//! the secret as key, of the label `pmi-challenge`, a zero byte and the nonce as it stands on the wire,
//! in 64 hexadecimal digits; the nonce is a decimal number that fits 64 bits.
//! Spec: PMI-2 wire protocol, "Authentication"; RFC 2104 (HMAC). The method of that text,
//! `challenge-sha256`, is the plain sum of secret and nonce. It is not used: a server could choose a
//! nonce with which the answer is the proof of something else. No known peer implements it.
//!
//! The nonce is made by the owner: from a random source, and a new one for every session.

mod munge;
mod mutual;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub use self::munge::{MUNGE_METHOD, MungeCredential};
pub use self::mutual::{MUTUAL_METHOD, MutualHmac};
use crate::error::Misuse;

/// Method of the challenge, as `authtype` names it.
pub const METHOD: &[u8] = b"challenge-hmac-sha256";

/// Digits of a nonce: a peer that reads it as a number must not lose any.
pub const NONCE_DIGITS: usize = 18;

/// Digits of a proof on the wire.
pub const PROOF_DIGITS: usize = 64;

/// Longest secret: one block of SHA-256, so that HMAC takes it as it is.
pub const SECRET_BYTES: usize = 64;

/// Longest nonce: the digits of a number of 64 bits.
const NONCE_MAX: usize = 20;

/// A secret that both ends have and that is never sent.
#[derive(Clone)]
pub struct Secret(heapless::Vec<u8, SECRET_BYTES>);

/// Use of a secret. Sums under two labels are unrelated, so the proof of one use is none of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Answer to the challenge of PMI-2.
    Challenge,
    /// Number by which a client of PMI-1 identifies itself, `PMI_ID`.
    Identity,
    /// Credential of PMIx.
    Credential,
    /// Key of one session, which both ends derive from the nonce of the server ([`MutualHmac`]).
    Session,
    /// Proof of the client under the key of the session.
    Client,
    /// Proof of the server under the key of the session.
    Server,
}

/// A number used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce([u8; NONCE_DIGITS]);

/// A nonce, the proofs that it demands, and the methods by which a peer may give them.
///
/// A session holds this and no secret, so it can give none away.
#[derive(Clone, Copy, Debug)]
pub struct Challenge {
    nonce: Nonce,
    /// Answer to the nonce under [`Label::Challenge`].
    expected: Sum,
    /// The same under [`Label::Session`]; zeros without a method that needs it.
    session_key: Sum,
    methods: &'static [&'static dyn AuthMethod],
}

/// A method of authentication, from the side of the server: one value serves all sessions, and what
/// differs between them is in the [`Challenge`].
///
/// The server has sent the nonce. A method of one round has the answer in the first message of the peer; one
/// of several rounds answers with a text until it accepts or rejects the peer.
/// Spec: PMI-2 wire protocol, PMI_Init ("additional exchanges").
pub trait AuthMethod: Sync + core::fmt::Debug {
    /// Name of the method, as `authtype` gives it.
    fn name(&self) -> &'static [u8];

    /// Handles message number `round` of the peer, from 1.
    fn handle(&self, challenge: &Challenge, round: u8, message: AuthMessage<'_>) -> AuthStep;
}

/// A message of a peer that proves a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthMessage<'a> {
    /// Its text, `authinfo`.
    pub text: &'a [u8],
    /// True if the peer expects no further message of the method: `auth-response-complete`.
    pub is_last: bool,
}

/// Result of one message of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthStep {
    /// The peer has proved the secret.
    Proven,
    /// The text to answer, `auth-response`; the peer has another round.
    Answer(Proof),
    /// The message is a credential that the owner of the server has verified by another service, which may
    /// take its time ([`CredentialGiven`](crate::server::Event::CredentialGiven)).
    Verify,
    /// The peer has not proved the secret: its session ends.
    Rejected,
}

/// The method of one round: the peer answers the nonce.
#[derive(Debug)]
pub struct HmacChallenge;

/// An HMAC-SHA-256.
type Sum = [u8; 32];

/// The digits that prove knowledge of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof([u8; PROOF_DIGITS]);

impl Secret {
    /// Takes `bytes` as a secret.
    ///
    /// # Errors
    ///
    /// [`Misuse::Length`] if it is shorter than 16 bytes, which could be guessed, or longer
    /// than [`SECRET_BYTES`].
    pub fn new(bytes: &[u8]) -> Result<Self, Misuse> {
        let len_bytes = bytes.len();
        let length = |limit_bytes| Misuse::Length { what: "secret", len_bytes, limit_bytes };
        if len_bytes < 16 {
            return Err(length(16));
        }
        heapless::Vec::from_slice(bytes).map(Self).map_err(|_| length(SECRET_BYTES))
    }

    /// Answers the challenge `nonce`, given as it stands on the wire; `None` unless it is a decimal
    /// number of 64 bits or less, since nothing else is a nonce.
    pub fn answer(&self, nonce: &[u8]) -> Option<Proof> {
        is_nonce(nonce).then(|| self.prove(Label::Challenge, nonce))
    }

    /// The key of the session that a nonce of the server begins, as a secret; `None` as for
    /// [`answer`](Self::answer).
    pub fn of_session(&self, nonce: &[u8]) -> Option<Self> {
        let key = is_nonce(nonce).then(|| self.prove(Label::Session, nonce))?;
        Self::new(key.as_bytes()).ok()
    }

    /// The proof of `what` under a label: HMAC-SHA-256 of the label, a zero byte, and `what`.
    pub fn prove(&self, label: Label, what: &[u8]) -> Proof {
        Proof::of(&self.sum(label, what))
    }

    fn sum(&self, label: Label, what: &[u8]) -> Sum {
        let keyed = |pad: u8| {
            let mut block = [pad; SECRET_BYTES];
            block.iter_mut().zip(&self.0).for_each(|(byte, key)| *byte ^= key);
            Sha256::new().chain_update(block)
        };
        let inner = keyed(0x36).chain_update(label.as_bytes()).chain_update([0]).chain_update(what);
        keyed(0x5c).chain_update(inner.finalize()).finalize().into()
    }

    /// Whether `proof` is what [`prove`](Self::prove) gives, digit by digit; takes as long for a wrong
    /// one as for a right one.
    pub fn is_proved(&self, label: Label, what: &[u8], proof: &[u8; PROOF_DIGITS]) -> bool {
        self.prove(label, what).0.ct_eq(proof).into()
    }
}

impl Label {
    /// The label as it stands in the sum. None is the start of another.
    const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Challenge => b"pmi-challenge",
            Self::Identity => b"pmi-identity",
            Self::Credential => b"pmi-credential",
            Self::Session => b"pmi-session-key",
            Self::Client => b"pmi-mutual-client",
            Self::Server => b"pmi-mutual-server",
        }
    }
}

impl Challenge {
    /// Makes a challenge from a nonce that was never used before, for the method of one round.
    pub fn new(secret: &Secret, nonce: Nonce) -> Self {
        Self {
            nonce,
            expected: secret.sum(Label::Challenge, nonce.as_bytes()),
            session_key: [0; 32],
            methods: &[&HmacChallenge],
        }
    }

    /// The same, for peers that may demand a proof of the server as well.
    pub fn with_mutual(secret: &Secret, nonce: Nonce) -> Self {
        Self {
            session_key: secret.sum(Label::Session, nonce.as_bytes()),
            methods: &[&HmacChallenge, &MutualHmac],
            ..Self::new(secret, nonce)
        }
    }

    /// A challenge for peers without a secret: credentials of munge alone are offered.
    pub fn munge(nonce: Nonce) -> Self {
        Self { nonce, expected: [0; 32], session_key: [0; 32], methods: &[&MungeCredential] }
    }

    /// The same, and credentials of munge besides.
    #[must_use]
    pub fn or_munge(self) -> Self {
        Self { methods: &[&HmacChallenge, &MutualHmac, &MungeCredential], ..self }
    }

    /// The method that a peer names, if it is offered.
    pub fn method(&self, name: &[u8]) -> Option<&'static dyn AuthMethod> {
        self.methods.iter().copied().find(|method| method.name() == name)
    }

    /// The nonce, to be sent.
    pub const fn nonce(&self) -> &Nonce {
        &self.nonce
    }

    /// True if `proof` is the right answer; takes as long for a wrong one as for a right one.
    pub fn is_met(&self, proof: &[u8]) -> bool {
        let mut given = [0; PROOF_DIGITS];
        let fits = proof.len() == PROOF_DIGITS;
        given.iter_mut().zip(proof).for_each(|(to, byte)| *to = byte.to_ascii_lowercase());
        bool::from(Proof::of(&self.expected).0.ct_eq(&given)) && fits
    }

    /// The key of the session, as the secret of further proofs.
    fn session_secret(&self) -> Option<Secret> {
        Secret::new(Proof::of(&self.session_key).as_bytes()).ok()
    }
}

/// Two challenges are equal if they demand the same.
impl PartialEq for Challenge {
    fn eq(&self, other: &Self) -> bool {
        let demands = |of: &Self| (of.nonce, of.expected, of.session_key, of.methods.len());
        demands(self) == demands(other)
    }
}

impl Eq for Challenge {}

impl AuthMethod for HmacChallenge {
    fn name(&self) -> &'static [u8] {
        METHOD
    }

    fn handle(&self, challenge: &Challenge, round: u8, message: AuthMessage<'_>) -> AuthStep {
        match (round, message) {
            (1, AuthMessage { text, is_last: true }) if challenge.is_met(text) => AuthStep::Proven,
            _ => AuthStep::Rejected,
        }
    }
}

impl Nonce {
    /// Makes a nonce of random bytes, one digit of each.
    pub fn new(random: [u8; NONCE_DIGITS]) -> Self {
        let mut digits = random.map(|byte| b'0' + byte % 10);
        // A number does not begin with 0.
        if let [first @ b'0', ..] = &mut digits {
            *first = b'1';
        }
        Self(digits)
    }

    /// The digits, as they stand on the wire.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Proof {
    fn of(sum: &Sum) -> Self {
        let mut digits = [0; PROOF_DIGITS];
        write_digits(sum, &mut digits);
        Self(digits)
    }

    /// The digits, as they stand on the wire.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A secret is not printed, whatever it is part of.
impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

/// True for a decimal number of 64 bits or less.
fn is_nonce(text: &[u8]) -> bool {
    (1..=NONCE_MAX).contains(&text.len()) && text.iter().all(u8::is_ascii_digit)
}

fn write_digits(bytes: &[u8], out: &mut [u8]) {
    let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
    for (pair, byte) in out.chunks_exact_mut(2).zip(bytes) {
        if let [high, low] = pair {
            (*high, *low) = (digit(byte >> 4), digit(byte & 15));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"correct horse battery staple";
    const CHALLENGE_PROOF: &[u8] =
        b"861649bd28d9005c353ac82fa788665d8388764a10a4dbd97fa795bda62f2d19";
    const IDENTITY_PROOF: &[u8] =
        b"7d2c54e78ab508da10949b1696e252fc247700fd1a19b8bee772ab5485d13c37";

    #[test]
    fn proof_is_an_hmac_under_its_label() {
        let secret = Secret::new(SECRET).unwrap();
        let nonce = Nonce::new([0xa0; NONCE_DIGITS]);
        assert_eq!(nonce.as_bytes(), b"100000000000000000");
        let proof = secret.answer(nonce.as_bytes()).unwrap();
        // printf 'pmi-challenge\000100000000000000000' |
        // openssl dgst -sha256 -hmac 'correct horse battery staple'
        assert_eq!(proof.as_bytes(), CHALLENGE_PROOF);
        // The longest key fills the block: python3 -c 'import hmac; print(hmac.new(b"k" * 64,
        // b"pmi-identity\0" + b"3", "sha256").hexdigest())'
        let proof = Secret::new(&[b'k'; 64]).unwrap().prove(Label::Identity, b"3");
        assert_eq!(proof.as_bytes(), IDENTITY_PROOF);
    }

    #[test]
    fn proof_of_one_use_is_none_of_another() {
        let secret = Secret::new(SECRET).unwrap();
        let labels = [
            Label::Challenge,
            Label::Identity,
            Label::Credential,
            Label::Session,
            Label::Client,
            Label::Server,
        ];
        for (at, label) in labels.iter().enumerate() {
            let proof = secret.prove(*label, b"3");
            for (other_at, other) in labels.iter().enumerate() {
                assert_eq!(secret.is_proved(*other, b"3", &proof.0), at == other_at);
            }
        }
    }

    #[test]
    fn nonce_that_is_no_number_is_not_answered() {
        let secret = Secret::new(SECRET).unwrap();
        for nonce in
            [&b""[..], b"pmiid-3", b"pmi-identity\x003", b"-1", b"1 ", b"0x10", &[b'7'; 21]]
        {
            assert_eq!(secret.answer(nonce), None, "{}", nonce.escape_ascii());
        }
        assert!(secret.answer(&[b'7'; 20]).is_some());
    }

    #[test]
    fn only_the_whole_proof_of_this_nonce_is_one() {
        let secret = Secret::new(SECRET).unwrap();
        let nonce = Nonce::new([7; NONCE_DIGITS]);
        let proof = secret.answer(nonce.as_bytes()).unwrap();
        let challenge = Challenge::new(&secret, nonce);
        assert!(challenge.is_met(proof.as_bytes()));
        assert!(challenge.is_met(&proof.as_bytes().to_ascii_uppercase()));
        assert!(!Challenge::new(&secret, Nonce::new([8; NONCE_DIGITS])).is_met(proof.as_bytes()));
        assert!(!challenge.is_met(&proof.as_bytes()[..63]));
        assert!(!challenge.is_met(&[proof.as_bytes(), b"0"].concat()));
        assert!(!challenge.is_met(b""));
        let other = Secret::new(b"another secret of enough length").unwrap();
        assert!(!Challenge::new(&other, nonce).is_met(proof.as_bytes()));
    }

    #[test]
    fn secret_has_a_length_and_no_printed_form() {
        assert!(Secret::new(&[1; 15]).is_err());
        assert!(Secret::new(&[1; 16]).is_ok());
        assert!(Secret::new(&[1; 64]).is_ok());
        assert!(Secret::new(&[1; 65]).is_err());
        assert_eq!(std::format!("{:?}", Secret::new(SECRET).unwrap()), "Secret");
    }
}
