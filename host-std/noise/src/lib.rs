//! Encryption of a connection between node servers: the only crate that calls `snow`.
//!
//! The pattern is `NNpsk0` of the Noise protocol framework: both sides send a key that they have made for
//! this connection, and know a further one, without which neither message can be made or read. So nothing
//! that was recorded can be read by who learns that further key later.
//!
//! AES-GCM encrypts where both sides have instructions for it, and else ChaCha20-Poly1305. Without these
//! instructions AES is slow.
#![forbid(unsafe_code)]

use aes_gcm::aead::AeadInPlace;
use aes_gcm::{Aes256Gcm, KeyInit};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState, TransportState};
use std::io;

pub use snow::Error;

/// Side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkSide {
    /// It has connected.
    Initiator,
    /// It has accepted.
    Acceptor,
}

/// Source of random bytes: fills the slice, or fails.
pub type RandomSource = fn(&mut [u8]) -> io::Result<()>;

/// Handshake of Noise: a message of the initiator, and one of the acceptor.
#[derive(Debug)]
pub struct NoiseHandshake(Box<HandshakeState>);

/// Keys of both directions of a connection, and the numbers of their next records.
#[derive(Debug)]
pub struct NoiseChannel(Box<TransportState>);

impl NoiseHandshake {
    /// Begins a handshake about `prologue`, which both sides must have seen alike, with a key that both know.
    ///
    /// # Errors
    ///
    /// Those of `snow`, for no parameters of this function.
    pub fn new(
        side: LinkSide,
        has_aes: bool,
        key: &[u8; KEY_BYTES],
        prologue: &[u8],
        random: RandomSource,
    ) -> Result<Self, Error> {
        let pattern = if has_aes { WITH_AES } else { WITH_CHACHA };
        let builder = Builder::with_resolver(pattern.parse()?, Box::new(Resolver(random)));
        let builder = builder.prologue(prologue)?.psk(0, key)?;
        let state = match side {
            LinkSide::Initiator => builder.build_initiator()?,
            LinkSide::Acceptor => builder.build_responder()?,
        };
        Ok(Self(Box::new(state)))
    }

    /// The message of this side, which is its turn.
    ///
    /// # Errors
    ///
    /// The system has no random bytes.
    pub fn write(&mut self) -> Result<[u8; MESSAGE_BYTES], Error> {
        let mut message = [0; MESSAGE_BYTES];
        self.0.write_message(&[], &mut message)?;
        Ok(message)
    }

    /// Reads the message of the other side.
    ///
    /// # Errors
    ///
    /// The other side does not know the key, or has seen another prologue.
    pub fn read(&mut self, message: &[u8]) -> Result<(), Error> {
        self.0.read_message(message, &mut []).map(|_| ())
    }

    /// The channel, after both messages.
    ///
    /// # Errors
    ///
    /// A message is missing.
    pub fn into_channel(self) -> Result<NoiseChannel, Error> {
        Ok(NoiseChannel(Box::new(self.0.into_transport_mode()?)))
    }
}

impl NoiseChannel {
    /// Appends the encrypted `content` and its tag to `wire`.
    ///
    /// # Errors
    ///
    /// 2^64 records were sent, or the content is longer than a message of Noise.
    pub fn seal(&mut self, content: &[u8], wire: &mut Vec<u8>) -> Result<(), Error> {
        let start = wire.len();
        wire.resize(start + content.len() + TAG_BYTES, 0);
        self.0.write_message(content, &mut wire[start..]).map(|_| ())
    }

    /// Decrypts the next content, which is [`TAG_BYTES`] shorter than `sealed`, into `content`.
    ///
    /// # Errors
    ///
    /// The other side has not sent this as its next content.
    pub fn open(&mut self, sealed: &[u8], content: &mut [u8]) -> Result<(), Error> {
        self.0.read_message(sealed, content).map(|_| ())
    }
}

/// Algorithms of `snow`, with the random source of the system.
struct Resolver(RandomSource);

struct SystemRandom(RandomSource);

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(SystemRandom(self.0)))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        match choice {
            CipherChoice::AESGCM => Some(Box::new(ScheduledAes::with(&[0; KEY_BYTES]))),
            _ => DefaultResolver.resolve_cipher(choice),
        }
    }
}

/// AES-GCM whose key schedule is made once for a key. The cipher of `snow` makes it for each record, which
/// takes longer than the encryption of a short one.
struct ScheduledAes(Aes256Gcm);

impl ScheduledAes {
    fn with(key: &[u8; KEY_BYTES]) -> Self {
        Self(Aes256Gcm::new(key.into()))
    }

    /// The number of a record as the nonce of AES-GCM: four zeros, and the number, big-endian.
    fn nonce(number: u64) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        nonce
    }
}

impl Cipher for ScheduledAes {
    fn name(&self) -> &'static str {
        "AESGCM"
    }

    fn set(&mut self, key: &[u8; KEY_BYTES]) {
        *self = Self::with(key);
    }

    fn encrypt(&self, number: u64, header: &[u8], content: &[u8], out: &mut [u8]) -> usize {
        let (sealed, rest) = out.split_at_mut(content.len());
        sealed.copy_from_slice(content);
        let nonce = Self::nonce(number);
        let tag = self.0.encrypt_in_place_detached(&nonce.into(), header, sealed);
        // Only a content of more than 64 GiB has none, and a message of Noise is shorter.
        rest[..TAG_BYTES].copy_from_slice(&tag.unwrap_or_default());
        content.len() + TAG_BYTES
    }

    fn decrypt(
        &self,
        number: u64,
        header: &[u8],
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        let Some((content, tag)) = sealed.split_last_chunk::<TAG_BYTES>() else {
            return Err(Error::Decrypt);
        };
        let out = out.get_mut(..content.len()).ok_or(Error::Decrypt)?;
        out.copy_from_slice(content);
        let nonce = Self::nonce(number);
        let opened = self.0.decrypt_in_place_detached(&nonce.into(), header, out, tag.into());
        opened.map(|()| content.len()).map_err(|_| Error::Decrypt)
    }
}

impl Random for SystemRandom {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        (self.0)(bytes).map_err(|_| Error::Rng)
    }
}

/// True if this processor has instructions for AES-GCM that the implementation uses.
pub fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("aes")
            && std::arch::is_x86_feature_detected!("pclmulqdq")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

const WITH_AES: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";
const WITH_CHACHA: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

/// Length of a message of the handshake in bytes: a public key, and the tag of an empty content.
pub const MESSAGE_BYTES: usize = 32 + TAG_BYTES;

/// Length of a tag in bytes.
pub const TAG_BYTES: usize = 16;

/// Length of a key in bytes.
pub const KEY_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_either_cipher_of_aes_are_those_of_the_other() {
        let mut own: Box<dyn Cipher> =
            Resolver(|_| Ok(())).resolve_cipher(&CipherChoice::AESGCM).unwrap();
        let mut other: Box<dyn Cipher> =
            DefaultResolver.resolve_cipher(&CipherChoice::AESGCM).unwrap();
        for (number, len) in [(0, 0), (1, 1), (1 << 40, 1000), (u64::MAX - 1, 16_384)] {
            let key = [number.to_le_bytes()[5].wrapping_add(7); KEY_BYTES];
            let content: Vec<u8> = (0..len).map(|at: usize| at.to_le_bytes()[0]).collect();
            let seal = |cipher: &mut Box<dyn Cipher>| {
                cipher.set(&key);
                let mut sealed = vec![0; content.len() + TAG_BYTES];
                assert_eq!(cipher.encrypt(number, b"header", &content, &mut sealed), sealed.len());
                sealed
            };
            let sealed = seal(&mut own);
            assert_eq!(sealed, seal(&mut other));
            let mut opened = vec![0; content.len()];
            let opens = own.decrypt(number, b"header", &sealed, &mut opened);
            assert_eq!((opens, &opened), (Ok(content.len()), &content));
            let changed = [&[sealed[0] ^ 1], &sealed[1..]].concat();
            assert!(own.decrypt(number, b"header", &changed, &mut opened).is_err());
            assert!(own.decrypt(number, b"header", &sealed[..TAG_BYTES - 1], &mut opened).is_err());
        }
    }
}
