//! Handshake of a connection between node servers: both sides prove that they know the key of the run.
//!
//! ```text
//! initiator                          acceptor
//! opening (38 bytes)  ───────────▶
//!                     ◀───────────   opening
//! proof (32 bytes)    ───────────▶   the acceptor proves nothing to a side that has not
//!                     ◀───────────   proof
//! records             ◀──────────▶   records, each direction with a key of its own
//! ```
//!
//! Wire: opening = `a8 70 6d 6e`, version (`u16`, big-endian), nonce (32 random bytes). The transcript is
//! the opening of the initiator followed by that of the acceptor, so a proof is valid in one connection
//! only, and names the version and the nonces of both. Proofs and keys are HMAC-SHA-256, with the key of
//! the run, of a label, a byte and the transcript; the byte is 1 in a run whose records have no tags, else 0.
//! The labels of the two sides differ, so that a proof that is sent back proves nothing.

use super::key::{KEY_BYTES, KeyPurpose, RunKey};
use super::record::{RecordReader, RecordWriter};
use hmac::Mac;

/// Side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkSide {
    /// It has connected.
    Initiator,
    /// It has accepted.
    Acceptor,
}

/// Handshake of one side. It does no I/O.
#[derive(Debug)]
pub(super) struct Handshake {
    side: LinkSide,
    key: RunKey,
    own: Opening,
    state: HandshakeState,
    /// Bytes of the awaited message that have arrived.
    received: Vec<u8>,
    /// Bytes to send.
    due: Vec<u8>,
}

#[derive(Debug)]
enum HandshakeState {
    /// Awaits the opening of the other side.
    Opening,
    /// Awaits its proof.
    Proof { transcript: [u8; 2 * OPENING_BYTES] },
    /// Both sides have proved the key.
    Proved { transcript: [u8; 2 * OPENING_BYTES] },
}

/// End of a handshake without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// The first bytes are not those of a node server.
    #[error("does not speak the protocol of node servers")]
    Magic,
    /// The other side has another version of the protocol.
    #[error(
        "speaks version {theirs} of the protocol between nodes, and this one version {VERSION}; install \
         the same pmi-host on all hosts"
    )]
    Version {
        /// Its version.
        theirs: u16,
    },
    /// The proof is wrong.
    #[error("does not know the key of this run")]
    Proof,
}

type Opening = [u8; OPENING_BYTES];

impl Handshake {
    /// Begins a handshake. `nonce` is random and was never used before.
    pub(super) fn new(side: LinkSide, key: RunKey, nonce: [u8; KEY_BYTES]) -> Self {
        Self::with_version(side, key, nonce, VERSION)
    }

    fn with_version(side: LinkSide, key: RunKey, nonce: [u8; KEY_BYTES], version: u16) -> Self {
        let mut own = [0; OPENING_BYTES];
        own[..NONCE_AT].copy_from_slice(&opening_start(version));
        own[NONCE_AT..].copy_from_slice(&nonce);
        let due = own.to_vec();
        let (state, received) = (HandshakeState::Opening, Vec::new());
        Self { side, key, own, state, received, due }
    }

    /// Processes a prefix of `bytes` and returns its length. Bytes after the handshake are left.
    ///
    /// # Errors
    ///
    /// [`HandshakeError`]; the connection is to be closed, after the bytes that are [due](Self::due).
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<usize, HandshakeError> {
        let mut taken = 0;
        for byte in bytes {
            let awaited = match self.state {
                HandshakeState::Opening => OPENING_BYTES,
                HandshakeState::Proof { .. } => KEY_BYTES,
                HandshakeState::Proved { .. } => break,
            };
            self.received.push(*byte);
            taken += 1;
            self.check_start()?;
            if self.received.len() == awaited {
                self.handle_message()?;
            }
        }
        Ok(taken)
    }

    /// Bytes to send now. They are due once: [`sent`](Self::sent) removes them.
    pub(super) fn due(&self) -> &[u8] {
        &self.due
    }

    /// Removes the bytes that were due.
    pub(super) fn sent(&mut self) {
        self.due.clear();
    }

    /// Both directions of the connection, once both sides have proved the key.
    pub(super) fn records(&self) -> Option<(RecordReader, RecordWriter)> {
        let HandshakeState::Proved { transcript } = &self.state else { return None };
        let [from_initiator, from_acceptor] =
            [KeyPurpose::InitiatorRecords, KeyPurpose::AcceptorRecords]
                .map(|purpose| self.key.derive(purpose, transcript));
        let (read, write) = match self.side {
            LinkSide::Initiator => (from_acceptor, from_initiator),
            LinkSide::Acceptor => (from_initiator, from_acceptor),
        };
        Some(match self.key.is_plain() {
            true => (RecordReader::plain(), RecordWriter::plain()),
            false => (RecordReader::new(&read), RecordWriter::new(&write)),
        })
    }

    /// Rejects an opening by its first wrong byte: a peer of another protocol may send no more.
    fn check_start(&self) -> Result<(), HandshakeError> {
        if !matches!(self.state, HandshakeState::Opening) {
            return Ok(());
        }
        let start = self.received.iter().zip(MAGIC);
        if { start }.any(|(byte, magic)| *byte != magic) {
            return Err(HandshakeError::Magic);
        }
        let own = u16::from_be_bytes([self.own[MAGIC.len()], self.own[MAGIC.len() + 1]]);
        match self.received.get(MAGIC.len()..NONCE_AT) {
            Some(&[high, low]) if u16::from_be_bytes([high, low]) != own => {
                Err(HandshakeError::Version { theirs: u16::from_be_bytes([high, low]) })
            }
            _ => Ok(()),
        }
    }

    /// Handles a complete message.
    fn handle_message(&mut self) -> Result<(), HandshakeError> {
        match self.state {
            HandshakeState::Opening => {
                let mut transcript = [0; 2 * OPENING_BYTES];
                let (first, second) = match self.side {
                    LinkSide::Initiator => (&self.own[..], &self.received[..]),
                    LinkSide::Acceptor => (&self.received[..], &self.own[..]),
                };
                transcript[..OPENING_BYTES].copy_from_slice(first);
                transcript[OPENING_BYTES..].copy_from_slice(second);
                if self.side == LinkSide::Initiator {
                    self.prove(KeyPurpose::InitiatorProof, &transcript);
                }
                self.state = HandshakeState::Proof { transcript };
            }
            HandshakeState::Proof { transcript } => {
                let theirs = match self.side {
                    LinkSide::Initiator => KeyPurpose::AcceptorProof,
                    LinkSide::Acceptor => KeyPurpose::InitiatorProof,
                };
                // Takes as long for a wrong proof as for a right one.
                let checked = self.key.keyed(theirs, &transcript).verify_slice(&self.received);
                checked.map_err(|_| HandshakeError::Proof)?;
                if self.side == LinkSide::Acceptor {
                    self.prove(KeyPurpose::AcceptorProof, &transcript);
                }
                self.state = HandshakeState::Proved { transcript };
            }
            HandshakeState::Proved { .. } => {}
        }
        self.received.clear();
        Ok(())
    }

    fn prove(&mut self, purpose: KeyPurpose, transcript: &[u8]) {
        self.due.extend(self.key.derive(purpose, transcript));
    }
}

/// Start of an opening: magic and version.
fn opening_start(version: u16) -> [u8; NONCE_AT] {
    let [high, low] = version.to_be_bytes();
    [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], high, low]
}

/// First bytes of a connection between node servers; no PMI message begins with them.
const MAGIC: [u8; 4] = *b"\xa8pmn";

/// Version of the protocol between node servers: of handshake, records, and the messages within.
const VERSION: u16 = 1;

const NONCE_AT: usize = MAGIC.len() + 2;
const OPENING_BYTES: usize = NONCE_AT + KEY_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    /// All that one side sends: an opening and a proof.
    const DUE_MAX: usize = OPENING_BYTES + KEY_BYTES;

    fn key(byte: u8) -> RunKey {
        let line = format!("{}\n", format!("{byte:02x}").repeat(KEY_BYTES));
        RunKey::read(&mut line.as_bytes()).unwrap()
    }

    fn pair(initiator: u8, acceptor: u8) -> (Handshake, Handshake) {
        (
            Handshake::new(LinkSide::Initiator, key(initiator), [1; KEY_BYTES]),
            Handshake::new(LinkSide::Acceptor, key(acceptor), [2; KEY_BYTES]),
        )
    }

    /// Moves the due bytes of `from` to `to`, in pieces of at most `split` bytes.
    fn pass(from: &mut Handshake, to: &mut Handshake, split: usize) -> Result<(), HandshakeError> {
        let due = from.due().to_vec();
        from.sent();
        for piece in due.chunks(split) {
            assert_eq!(to.receive(piece)?, piece.len());
        }
        Ok(())
    }

    fn complete(
        (initiator, acceptor): (&mut Handshake, &mut Handshake),
        split: usize,
    ) -> Result<(), HandshakeError> {
        for _ in 0..2 {
            pass(initiator, acceptor, split)?;
            pass(acceptor, initiator, split)?;
        }
        Ok(())
    }

    #[test]
    fn handshake_succeeds_with_every_split() {
        for split in 1..=DUE_MAX {
            let (mut initiator, mut acceptor) = pair(7, 7);
            assert!(initiator.records().is_none() && acceptor.records().is_none());
            complete((&mut initiator, &mut acceptor), split).unwrap();
            let (mut read, mut write) = initiator.records().unwrap();
            let (mut other_read, mut other_write) = acceptor.records().unwrap();
            let mut wire = Vec::new();
            write.write(b"up", &mut wire);
            let mut bytes = &wire[..];
            assert_eq!(other_read.read(&mut bytes).unwrap(), Some(&b"up"[..]));
            let mut wire = Vec::new();
            other_write.write(b"down", &mut wire);
            let mut bytes = &wire[..];
            assert_eq!(read.read(&mut bytes).unwrap(), Some(&b"down"[..]));
        }
    }

    #[test]
    fn bytes_after_the_handshake_are_left() {
        let (mut initiator, mut acceptor) = pair(7, 7);
        pass(&mut initiator, &mut acceptor, 99).unwrap();
        pass(&mut acceptor, &mut initiator, 99).unwrap();
        pass(&mut initiator, &mut acceptor, 99).unwrap();
        let sent = [acceptor.due(), b"record"].concat();
        assert_eq!(initiator.receive(&sent), Ok(KEY_BYTES));
        assert_eq!((initiator.receive(b"record"), acceptor.receive(b"record")), (Ok(0), Ok(0)));
    }

    #[test]
    fn another_key_is_rejected_by_both_sides() {
        let (mut initiator, mut acceptor) = pair(7, 8);
        let ended = complete((&mut initiator, &mut acceptor), 99);
        assert_eq!(ended, Err(HandshakeError::Proof));
        // The acceptor has proved nothing: only its opening was sent.
        assert!(acceptor.due().is_empty() && acceptor.records().is_none());
        // An acceptor of another run that sends a proof all the same.
        let (mut initiator, _) = pair(7, 8);
        initiator.sent();
        initiator.receive(&opening_start(VERSION)).unwrap();
        initiator.receive(&[9; KEY_BYTES]).unwrap();
        assert_eq!(initiator.receive(&[0; KEY_BYTES]), Err(HandshakeError::Proof));
    }

    #[test]
    fn sides_that_do_not_agree_on_tags_reject_each_other() {
        let plain =
            |side, nonce| Handshake::new(side, key(7).with_plain_records(true), [nonce; KEY_BYTES]);
        let (mut initiator, mut acceptor) = pair(7, 7);
        let mut other = plain(LinkSide::Acceptor, 2);
        let ended = complete((&mut initiator, &mut other), 99);
        assert_eq!(ended, Err(HandshakeError::Proof));
        let ended = complete((&mut plain(LinkSide::Initiator, 1), &mut acceptor), 99);
        assert_eq!(ended, Err(HandshakeError::Proof));
        let (mut one, mut other) = (plain(LinkSide::Initiator, 1), plain(LinkSide::Acceptor, 2));
        complete((&mut one, &mut other), 99).unwrap();
        let (_, mut writer) = one.records().unwrap();
        let (mut reader, _) = other.records().unwrap();
        let mut wire = Vec::new();
        writer.write(b"up", &mut wire);
        assert_eq!(wire, b"\0\x02up");
        assert_eq!(reader.read(&mut &wire[..]).unwrap(), Some(&b"up"[..]));
    }

    #[test]
    fn message_that_is_changed_anywhere_is_rejected() {
        // All that the initiator sends: opening and proof.
        for at in 0..DUE_MAX {
            let (mut initiator, mut acceptor) = pair(7, 7);
            pass(&mut acceptor, &mut initiator, 99).unwrap();
            let mut sent = initiator.due().to_vec();
            sent[at] ^= 1;
            assert!(acceptor.receive(&sent).is_err(), "byte {at}");
            assert!(acceptor.records().is_none());
        }
    }

    #[test]
    fn reflected_messages_prove_nothing() {
        let (mut initiator, _) = pair(7, 7);
        let opening = initiator.due().to_vec();
        initiator.sent();
        initiator.receive(&opening).unwrap();
        let proof = initiator.due().to_vec();
        assert_eq!(initiator.receive(&proof), Err(HandshakeError::Proof));
    }

    #[test]
    fn proof_of_an_earlier_connection_is_rejected() {
        let (mut initiator, mut acceptor) = pair(7, 7);
        pass(&mut acceptor, &mut initiator, 99).unwrap();
        let recorded = initiator.due().to_vec();
        let nonce = [3; KEY_BYTES];
        let mut later = Handshake::new(LinkSide::Acceptor, key(7), nonce);
        assert_eq!(later.receive(&recorded), Err(HandshakeError::Proof));
    }

    #[test]
    fn version_and_protocol_are_checked_before_anything_else() {
        let (_, mut acceptor) = pair(7, 7);
        let other =
            Handshake::with_version(LinkSide::Initiator, key(7), [1; KEY_BYTES], VERSION + 1);
        let error = acceptor.receive(other.due()).unwrap_err();
        assert_eq!(error, HandshakeError::Version { theirs: VERSION + 1 });
        assert!(error.to_string().contains("same pmi-host on all hosts"));
        for start in [&b"GET / HTTP/1.1"[..], b"cmd=init", b"\xa8pm\0", b"\x16\x03\x01"] {
            let (_, mut acceptor) = pair(7, 7);
            assert_eq!(acceptor.receive(start), Err(HandshakeError::Magic));
        }
    }
}
