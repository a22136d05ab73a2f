//! Key of a run: known to its head and its node servers, and derived keys for each purpose.
//!
//! The head generates it, and each starter hands it to its node server on standard input. It stands in no
//! argument, no environment and no file, since other users can read the first two.

use crate::random::random;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::io::{self, ErrorKind, Read};

/// HMAC-SHA-256, with its key.
pub(super) type KeyedHash = Hmac<Sha256>;

/// Length of the key, of nonces and of proofs in bytes.
pub(super) const KEY_BYTES: usize = 32;

/// Key of a run.
#[derive(Clone)]
pub(crate) struct RunKey {
    key: [u8; KEY_BYTES],
    /// True if records have no tags: the key is proved, and protects nothing after that.
    is_plain: bool,
}

/// Purpose of a value that is derived from the key. None is the start of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyPurpose {
    /// Proof of the side that has connected.
    InitiatorProof,
    /// Proof of the side that has accepted.
    AcceptorProof,
    /// Key of records to the side that has accepted.
    InitiatorRecords,
    /// Key of records to the side that has connected.
    AcceptorRecords,
}

impl RunKey {
    /// Generates a key from the random source of the system.
    ///
    /// # Errors
    ///
    /// Errors of that source.
    pub(crate) fn generate() -> io::Result<Self> {
        Ok(Self { key: random()?, is_plain: false })
    }

    /// The key of a run whose records have no tags, if `is_plain`. Proofs differ then, so that sides which
    /// do not agree end their connection.
    pub(crate) fn with_plain_records(self, is_plain: bool) -> Self {
        Self { is_plain, ..self }
    }

    /// True if records have no tags.
    pub(super) const fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Line that a starter hands to a node server: 64 hexadecimal digits and a line end.
    pub(crate) fn line(&self) -> String {
        let mut line: String = self.key.iter().map(|byte| format!("{byte:02x}")).collect();
        line.push('\n');
        line
    }

    /// Reads a [`line`](Self::line) from `input`, and no byte after it.
    ///
    /// # Errors
    ///
    /// Errors of the system, `UnexpectedEof` if the input ends early, and `InvalidData` for another line.
    pub(crate) fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut line = [0; 2 * KEY_BYTES + 1];
        input.read_exact(&mut line)?;
        let invalid = || io::Error::from(ErrorKind::InvalidData);
        let [digits @ .., b'\n'] = &line else { return Err(invalid()) };
        let mut key = [0; KEY_BYTES];
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).ok_or_else(invalid);
            *byte = u8::try_from(digit(0)? << 4 | digit(1)?).map_err(|_| invalid())?;
        }
        Ok(Self { key, is_plain: false })
    }

    /// HMAC-SHA-256 with this key over the label of `purpose`, a byte that is 1 for records without tags and
    /// else 0, and `transcript`.
    pub(super) fn keyed(&self, purpose: KeyPurpose, transcript: &[u8]) -> KeyedHash {
        let mode = [u8::from(self.is_plain)];
        let hash = keyed_hash(&self.key).chain_update(purpose.label()).chain_update(mode);
        hash.chain_update(transcript)
    }

    /// Value for `purpose` in the connection with this transcript.
    pub(super) fn derive(&self, purpose: KeyPurpose, transcript: &[u8]) -> [u8; KEY_BYTES] {
        self.keyed(purpose, transcript).finalize().into_bytes().into()
    }
}

/// HMAC-SHA-256 with a key.
pub(super) fn keyed_hash(key: &[u8; KEY_BYTES]) -> KeyedHash {
    KeyedHash::new_from_slice(key).expect("HMAC takes keys of any length")
}

impl KeyPurpose {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::InitiatorProof => b"pmi-node-initiator-proof",
            Self::AcceptorProof => b"pmi-node-acceptor-proof",
            Self::InitiatorRecords => b"pmi-node-initiator-records",
            Self::AcceptorRecords => b"pmi-node-acceptor-records",
        }
    }
}

/// A key is not printed, whatever it is part of.
impl fmt::Debug for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_survives_the_way_through_standard_input() {
        let key = RunKey { key: [0xa5; KEY_BYTES], is_plain: false };
        let input = format!("{}rest", key.line());
        let mut input = input.as_bytes();
        assert_eq!(RunKey::read(&mut input).unwrap().key, key.key);
        assert_eq!((input, format!("{key:?}").as_str()), (&b"rest"[..], "RunKey"));
        assert_ne!(RunKey::generate().unwrap().key, RunKey::generate().unwrap().key);
    }

    #[test]
    fn line_that_is_no_key_is_refused() {
        let line = RunKey { key: [7; KEY_BYTES], is_plain: false }.line();
        let kind = |text: &str| RunKey::read(&mut text.as_bytes()).unwrap_err().kind();
        assert_eq!(kind(""), ErrorKind::UnexpectedEof);
        assert_eq!(kind(line.trim_end()), ErrorKind::UnexpectedEof);
        assert_eq!(kind(&line.replace('\n', "0")), ErrorKind::InvalidData);
        assert_eq!(kind(&line.replacen('0', "g", 1)), ErrorKind::InvalidData);
        assert_eq!(kind(&line.replacen("07", "+7", 1)), ErrorKind::InvalidData);
        assert_eq!(kind(&line.replacen("0707", "é07", 1)), ErrorKind::InvalidData);
    }

    #[test]
    fn derived_value_is_an_hmac_under_its_label() {
        let key = RunKey { key: [b'k'; KEY_BYTES], is_plain: false };
        let digits = |purpose| -> String {
            key.derive(purpose, b"transcript").iter().map(|byte| format!("{byte:02x}")).collect()
        };
        // python3 -c 'import hmac; print(hmac.new(b"k" * 32, b"pmi-node-initiator-proof\0transcript",
        // "sha256").hexdigest())'
        assert_eq!(digits(KeyPurpose::InitiatorProof), INITIATOR_PROOF);
        assert_ne!(digits(KeyPurpose::AcceptorProof), INITIATOR_PROOF);
    }

    const INITIATOR_PROOF: &str =
        "990b68494e01b0d8fd19780b6db05d01b3ab62a6e81fd36cc2928f0f60b2e9ab";
}
