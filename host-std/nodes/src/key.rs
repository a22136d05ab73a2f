//! Keys of the connections between node servers, and what is derived from them.
//!
//! ```text
//! key of the run ── number of a start ──▶ key of the start    handed over by the starter, for one admission
//! channel key of the head, random
//!     └── number of a node ──▶ channel key of the node        handed over with its place, in the channel
//!             └── number of a node below ──▶ key of both      handed over with the place of the lower one
//! ```
//!
//! The key of the run stays in the head. A starter hands the key of its start to the node server on standard
//! input; it stands in no argument, no environment and no file, since other users can read the first two. It
//! opens one connection to the head for each host of the start, and nothing once these have joined. From then
//! on a node uses keys that it has received in its channel: the one that it has with each of its ancestors,
//! and the one from which it derives those that it has with the nodes below it.
//!
//! A run without encryption has one key, that of the run, for all connections: what a channel carries is no
//! secret there.

use hmac::{Hmac, KeyInit, Mac};
use pmi_host_os::random::random;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;
use std::io::{self, ErrorKind, Read};

/// HMAC-SHA-256, with its key.
pub(super) type KeyedHash = Hmac<Sha256>;

/// Length of a key and of a proof in bytes.
pub(super) const KEY_BYTES: usize = 32;

/// Key that both sides of a connection know.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkKey([u8; KEY_BYTES]);

/// Key of a run or of a name server.
#[derive(Clone, Debug)]
pub struct RunKey {
    key: LinkKey,
    /// True if connections are not encrypted: the key is proved, and protects nothing after that.
    is_plain: bool,
}

/// Name of a key that a starter has handed over: it tells the head which one the other side knows, and
/// nothing about the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyName(pub [u8; NAME_BYTES]);

/// Keys of a node for its connections to other ones, from the head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChannelKeys {
    /// Key from which those for the nodes below it are derived.
    own: LinkKey,
    /// Keys for the nodes above it, by their numbers; the head is 0.
    above: Vec<(u32, LinkKey)>,
}

/// Purpose of a value that is derived from a key. None is the start of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyPurpose {
    /// Proof of the side that has connected.
    InitiatorProof,
    /// Proof of the side that has accepted.
    AcceptorProof,
    /// Name of the key.
    Name,
    /// Key of a start.
    Start,
    /// Channel key of a node.
    Channel,
    /// Key of a node and one above it.
    Attachment,
}

impl RunKey {
    /// Generates a key from the random source of the system.
    pub fn generate() -> io::Result<Self> {
        Ok(Self { key: LinkKey::generate()?, is_plain: false })
    }

    /// The same key for connections that are not encrypted, if `is_plain`.
    pub(crate) fn without_encryption(self, is_plain: bool) -> Self {
        Self { is_plain, ..self }
    }

    /// True if connections are not encrypted.
    pub(super) const fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The key itself.
    pub const fn key(&self) -> &LinkKey {
        &self.key
    }

    /// Key of the start whose first node has this number.
    pub(crate) fn of_start(&self, number: u32) -> LinkKey {
        self.key.derive(KeyPurpose::Start, &number.to_be_bytes())
    }

    /// Reads a key as one [`line`](Self::line) from `input`, and no byte after it.
    ///
    /// # Errors
    ///
    /// Errors of the system, `UnexpectedEof` if the input ends early, and `InvalidData` for another line.
    pub fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut line = [0; 2 * KEY_BYTES + 1];
        input.read_exact(&mut line)?;
        let invalid = || io::Error::from(ErrorKind::InvalidData);
        let [digits @ .., b'\n'] = &line else { return Err(invalid()) };
        let mut key = [0; KEY_BYTES];
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).ok_or_else(invalid);
            *byte = u8::try_from(digit(0)? << 4 | digit(1)?).map_err(|_| invalid())?;
        }
        Ok(Self { key: LinkKey(key), is_plain: false })
    }

    /// Line that a starter hands to a node server, as `LinkKey::line`.
    pub fn line(&self) -> String {
        self.key.line()
    }
}

impl LinkKey {
    /// Generates a key from the random source of the system.
    pub(super) fn generate() -> io::Result<Self> {
        Ok(Self(random()?))
    }

    /// Its bytes.
    pub(super) const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Line that a starter hands to a node server: 64 hexadecimal digits and a line end.
    pub(crate) fn line(&self) -> String {
        let mut line: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        line.push('\n');
        line
    }

    /// Its name.
    pub fn name(&self) -> KeyName {
        let LinkKey(bytes) = self.derive(KeyPurpose::Name, &[]);
        let mut name = [0; NAME_BYTES];
        name.copy_from_slice(&bytes[..NAME_BYTES]);
        KeyName(name)
    }

    /// Channel key of a node, the head itself included, from the one that the head has generated.
    pub(super) fn of_node(&self, node: u32) -> Self {
        self.derive(KeyPurpose::Channel, &node.to_be_bytes())
    }

    /// Key of the node with this channel key and the node `below` it.
    pub(super) fn of_attachment(&self, below: u32) -> Self {
        self.derive(KeyPurpose::Attachment, &below.to_be_bytes())
    }

    /// HMAC-SHA-256 with this key over the label of `purpose`, a zero byte and `data`.
    pub(super) fn keyed(&self, purpose: KeyPurpose, data: &[u8]) -> KeyedHash {
        let hash = KeyedHash::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        hash.chain_update(purpose.label()).chain_update([0]).chain_update(data)
    }

    fn derive(&self, purpose: KeyPurpose, data: &[u8]) -> Self {
        Self(self.keyed(purpose, data).finalize().into_bytes().into())
    }
}

impl ChannelKeys {
    /// Keys of `node`, below the nodes `above` and the head, which has `head` for all of them.
    pub(super) fn of(head: &LinkKey, node: u32, above: impl Iterator<Item = u32>) -> Self {
        let above = above.chain([0]);
        let above = above.map(|above| (above, head.of_node(above).of_attachment(node))).collect();
        Self { own: head.of_node(node), above }
    }

    /// Key for an ancestor.
    pub(super) fn for_ancestor(&self, ancestor: u32) -> Option<&LinkKey> {
        self.above.iter().find(|(node, _)| *node == ancestor).map(|(_, key)| key)
    }

    /// Key for a node below.
    pub(super) fn for_descendant(&self, node: u32) -> LinkKey {
        self.own.of_attachment(node)
    }
}

impl KeyPurpose {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::InitiatorProof => b"pmi-node-initiator-proof",
            Self::AcceptorProof => b"pmi-node-acceptor-proof",
            Self::Name => b"pmi-node-key-name",
            Self::Start => b"pmi-node-start",
            Self::Channel => b"pmi-node-channel",
            Self::Attachment => b"pmi-node-attachment",
        }
    }
}

/// A key is not printed, whatever it is part of.
impl fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkKey")
    }
}

/// Length of the name of a key in bytes: two of the keys of a run have the same one by no chance.
pub(super) const NAME_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: LinkKey = LinkKey([b'k'; KEY_BYTES]);

    #[test]
    fn key_survives_the_way_through_standard_input() {
        let key = LinkKey([0xa5; KEY_BYTES]);
        let input = format!("{}rest", key.line());
        let mut input = input.as_bytes();
        let read = RunKey::read(&mut input).unwrap();
        assert_eq!(read.key, key);
        assert_eq!((input, format!("{key:?}").as_str()), (&b"rest"[..], "LinkKey"));
        assert!(!format!("{read:?}").contains("165"), "{read:?}");
        assert_ne!(RunKey::generate().unwrap().key, RunKey::generate().unwrap().key);
    }

    #[test]
    fn line_that_is_no_key_is_refused() {
        let line = LinkKey([7; KEY_BYTES]).line();
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
        let digits =
            |purpose| -> String { KEY.derive(purpose, b"transcript").line().trim_end().to_owned() };
        // python3 -c 'import hmac; print(hmac.new(b"k" * 32, b"pmi-node-initiator-proof\0transcript",
        // "sha256").hexdigest())'
        assert_eq!(digits(KeyPurpose::InitiatorProof), INITIATOR_PROOF);
        assert_ne!(digits(KeyPurpose::AcceptorProof), INITIATOR_PROOF);
    }

    #[test]
    fn keys_of_starts_differ() {
        let run = RunKey { key: KEY, is_plain: false };
        let keys: Vec<LinkKey> = (1..=3).map(|number| run.of_start(number)).chain([KEY]).collect();
        for (at, key) in keys.iter().enumerate() {
            assert!(keys[..at].iter().all(|other| other != key && other.name() != key.name()));
        }
        assert_eq!(run.of_start(2), keys[1]);
    }

    #[test]
    fn node_shares_a_key_with_each_ancestor_and_with_no_other_node() {
        let head = LinkKey([1; KEY_BYTES]);
        let keys = |node, above: &[u32]| ChannelKeys::of(&head, node, above.iter().copied());
        let (parent, other, child) = (keys(1, &[]), keys(2, &[]), keys(5, &[1]));
        let of_both = child.for_ancestor(1).unwrap();
        assert_eq!(of_both, &parent.for_descendant(5));
        assert_eq!(child.for_ancestor(0), Some(&head.of_node(0).of_attachment(5)));
        assert_eq!(child.for_ancestor(2), None);
        // What the neighbours of a node know is none of its keys with others.
        assert_ne!(of_both, &parent.for_descendant(6));
        assert_ne!(of_both, &other.for_descendant(5));
        assert_ne!(child.for_ancestor(0), parent.for_ancestor(0));
        assert_ne!(child.for_ancestor(0), Some(of_both));
    }

    const INITIATOR_PROOF: &str =
        "990b68494e01b0d8fd19780b6db05d01b3ab62a6e81fd36cc2928f0f60b2e9ab";
}
