//! The challenge of PMI-2: a caller proves that it knows a secret without saying it.
//!
//! Wire: `fullinit;authtype=challenge-sha256` · `auth-response;authinfo=NONCE` ·
//! `auth-response-complete;authinfo=PROOF` · `fullinit-response`. The proof is the SHA-256 of the
//! secret followed by the nonce as it stands on the wire, in 64 hexadecimal digits; the nonce is a
//! decimal number that fits 64 bits.
//! Spec: PMI-2 wire protocol, "Authentication". No known peer implements it; that the digits of
//! the proof are hexadecimal is our reading.
//!
//! The nonce is the owner's to make: from a random source, and a new one for every session.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::Misuse;

/// The one method that is spoken, as `authtype` names it.
pub const METHOD: &[u8] = b"challenge-sha256";

/// Digits of a nonce: a peer that reads it as a number must not lose any.
pub const NONCE_DIGITS: usize = 18;

/// Digits of a proof on the wire.
pub const PROOF_DIGITS: usize = 64;

/// Longest secret.
pub const SECRET_BYTES: usize = 64;

/// What both ends know and nobody says.
#[derive(Clone)]
pub struct Secret(heapless::Vec<u8, SECRET_BYTES>);

/// A number used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce([u8; NONCE_DIGITS]);

/// A nonce and the proof that answers it.
///
/// A session holds this and no secret, so it needs no hash function and can give none away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    nonce: Nonce,
    expected: Proof,
}

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

    /// Answers the challenge `nonce`, given as it stands on the wire.
    pub fn prove(&self, nonce: &[u8]) -> Proof {
        let sum = Sha256::new().chain_update(&self.0).chain_update(nonce).finalize();
        let mut digits = [0; PROOF_DIGITS];
        write_digits(&sum, &mut digits);
        Proof(digits)
    }

    /// True if `proof` is what [`prove`](Self::prove) gives for these bytes, digit by digit; takes as
    /// long for a wrong one as for a right one.
    pub fn is_proved(&self, what: &[u8], proof: &[u8; PROOF_DIGITS]) -> bool {
        self.prove(what).0.ct_eq(proof).into()
    }
}

impl Challenge {
    /// Makes a challenge from a nonce that was never used before.
    pub fn new(secret: &Secret, nonce: Nonce) -> Self {
        Self { nonce, expected: secret.prove(nonce.as_bytes()) }
    }

    /// The nonce, to be told.
    pub const fn nonce(&self) -> &Nonce {
        &self.nonce
    }

    /// True if `proof` is the right answer; takes as long for a wrong one as for a right one.
    pub fn is_met(&self, proof: &[u8]) -> bool {
        let mut given = [0; PROOF_DIGITS];
        let fits = proof.len() == PROOF_DIGITS;
        given.iter_mut().zip(proof).for_each(|(to, byte)| *to = byte.to_ascii_lowercase());
        bool::from(self.expected.0.ct_eq(&given)) && fits
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

    #[test]
    fn the_proof_is_the_sum_of_secret_and_nonce() {
        let nonce = Nonce::new([0xa0; NONCE_DIGITS]);
        assert_eq!(nonce.as_bytes(), b"100000000000000000");
        let proof = Secret::new(SECRET).unwrap().prove(nonce.as_bytes());
        // printf 'correct horse battery staple100000000000000000' | sha256sum
        let sum = b"b492319eaa4de26aff784e1246448e5cd8fad1171171c0f57606c5b23217f201";
        assert_eq!(proof.as_bytes(), sum);
    }

    #[test]
    fn only_the_whole_proof_of_this_nonce_is_one() {
        let secret = Secret::new(SECRET).unwrap();
        let nonce = Nonce::new([7; NONCE_DIGITS]);
        let proof = secret.prove(nonce.as_bytes());
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
    fn a_secret_has_a_length_and_no_printed_form() {
        assert!(Secret::new(&[1; 15]).is_err());
        assert!(Secret::new(&[1; 16]).is_ok());
        assert!(Secret::new(&[1; 64]).is_ok());
        assert!(Secret::new(&[1; 65]).is_err());
        assert_eq!(std::format!("{:?}", Secret::new(SECRET).unwrap()), "Secret");
    }
}
