//! Handshake of a connection between node servers: both sides prove that they know the same key.
//!
//! ```text
//! initiator                             acceptor
//! opening (38 bytes)       ─────────▶
//!                          ◀─────────   opening
//! key, message (57 bytes)  ─────────▶   the acceptor proves nothing to a side that does not know the key
//!                          ◀─────────   message (48 bytes)
//! confirmation (16 bytes)  ─────────▶   a message of the initiator may be one of an earlier connection
//! records                  ◀────────▶   records
//!
//! without encryption, instead of the last four lines:
//! proof (32 bytes)         ─────────▶
//!                          ◀─────────   proof
//! records                  ◀────────▶   records
//! ```
//!
//! Wire: opening = `a8 70 6d 6e`, version (`u16`, big-endian), mode (1 byte: bit 0 is set by a side that
//! encrypts, bit 1 by one with instructions for AES), nonce (31 random bytes). The transcript is the opening
//! of the initiator followed by that of the acceptor, so the rest is valid in one connection only.
//!
//! With encryption: key = kind (1 byte) and name (8 bytes): 0 with the name of the key of a start, 1 with the
//! number of the initiator (`u64`, big-endian) for the key that the head has given to it and the acceptor.
//! The messages are those of `Noise_NNpsk0_25519_AESGCM_SHA256`, or of `Noise_NNpsk0_25519_ChaChaPoly_SHA256`
//! unless both sides have instructions for AES, with the transcript and `key` as the prologue. The
//! confirmation is an empty message under the new keys.
//!
//! Without it the proofs are HMAC-SHA-256, with the key of the run, of a label, a zero byte and the
//! transcript. The labels of the two sides differ, so that a proof that is sent back proves nothing.

use super::key::{KEY_BYTES, KeyName, KeyPurpose, LinkKey, NAME_BYTES};
use super::record::Records;
use hmac::Mac;
use pmi_host_noise::{LinkSide, MESSAGE_BYTES, NoiseChannel, NoiseHandshake, TAG_BYTES};
use pmi_host_os::random;

/// Key of a connection, as its sides tell each other which one it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyId {
    /// The only key of a run without encryption.
    Plain,
    /// A key that a starter has handed over, or that of a name server.
    Start(KeyName),
    /// The key of the node with this number, which has connected, and of the other side.
    Attachment(u32),
}

/// A key that this side knows.
#[derive(Clone, Debug)]
pub struct KnownKey {
    pub(super) id: KeyId,
    pub(super) key: LinkKey,
}

/// Finds the key that the other side names, at a side that has accepted.
pub(super) type FindKey<'a> = &'a dyn Fn(KeyId) -> Result<LinkKey, HandshakeError>;

/// Handshake of one side. It does no I/O.
#[derive(Debug)]
pub(super) struct Handshake {
    side: LinkSide,
    own: Opening,
    /// `None` before the other side has named the key.
    key: Option<KnownKey>,
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
    /// Without encryption: awaits its proof.
    Proof { transcript: Transcript },
    /// At the acceptor: awaits the name of the key, and a message.
    Message { transcript: Transcript, has_aes: bool },
    /// At the initiator: awaits the message of the acceptor.
    Reply(NoiseHandshake),
    /// At the acceptor: awaits a message under the new keys.
    Confirmation(NoiseChannel),
    /// Both sides have proved the key.
    Proved(Records),
    /// It has failed, or the records were taken.
    Over,
}

/// End of a handshake without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
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
    /// The other side does not encrypt, and this one does.
    #[error(
        "was started with '--plain', and this side encrypts all messages; start both with '--plain', or none"
    )]
    Plain,
    /// The other side encrypts, and this one does not.
    #[error(
        "encrypts all messages, and this side was started with '--plain'; start both with '--plain', or none"
    )]
    Encrypted,
    /// The proof is wrong, or the key unknown.
    #[error("does not know the key of this run")]
    Proof,
    /// All hosts that were to join by the key have joined.
    #[error("has the key of a node server that has joined already; a key admits no second one")]
    Spent,
    /// Nothing can be encrypted.
    #[error("cannot be used: the system of this side has no random bytes")]
    Random,
}

/// Finds no key, at a side that has connected.
///
/// # Errors
///
/// In any case.
pub const fn none(_: KeyId) -> Result<LinkKey, HandshakeError> {
    Err(HandshakeError::Proof)
}

type Transcript = [u8; 2 * OPENING_BYTES];

impl KnownKey {
    /// The only key of a run without encryption.
    pub(super) fn plain(key: &LinkKey) -> Self {
        Self { id: KeyId::Plain, key: key.clone() }
    }

    /// A key that a starter has handed over, or that of a name server.
    pub fn start(key: &LinkKey) -> Self {
        Self { id: KeyId::Start(key.name()), key: key.clone() }
    }

    /// The key of the node with this number and of one above it.
    pub(super) fn attachment(node: u32, key: &LinkKey) -> Self {
        Self { id: KeyId::Attachment(node), key: key.clone() }
    }
}

impl KeyId {
    fn to_wire(self) -> [u8; KEY_ID_BYTES] {
        let (kind, name) = match self {
            Self::Attachment(node) => (ATTACHMENT, u64::from(node).to_be_bytes()),
            Self::Start(KeyName(name)) => (START, name),
            // It is named by the mode of the opening.
            Self::Plain => (START, [0; NAME_BYTES]),
        };
        let mut wire = [kind; KEY_ID_BYTES];
        wire[1..].copy_from_slice(&name);
        wire
    }

    fn of_wire(wire: [u8; KEY_ID_BYTES]) -> Option<Self> {
        let [kind, name @ ..] = wire;
        match kind {
            START => Some(Self::Start(KeyName(name))),
            ATTACHMENT => u32::try_from(u64::from_be_bytes(name)).ok().map(Self::Attachment),
            _ => None,
        }
    }
}

type Opening = [u8; OPENING_BYTES];

impl Handshake {
    /// Begins a handshake of the side that has connected. `nonce` is random and was never used before.
    pub(super) fn initiator(key: KnownKey, nonce: [u8; NONCE_BYTES]) -> Self {
        Self::new(LinkSide::Initiator, Some(key), nonce)
    }

    /// Begins a handshake of the side that has accepted, which either has one key without encryption, or
    /// finds the one that the other side names. `nonce` is random and was never used before.
    pub(super) fn acceptor(plain: Option<&LinkKey>, nonce: [u8; NONCE_BYTES]) -> Self {
        Self::new(LinkSide::Acceptor, plain.map(KnownKey::plain), nonce)
    }

    fn new(side: LinkSide, key: Option<KnownKey>, nonce: [u8; NONCE_BYTES]) -> Self {
        let is_plain = matches!(key, Some(KnownKey { id: KeyId::Plain, .. }));
        let aes = if pmi_host_noise::has_aes() { HAS_AES } else { 0 };
        let mode = if is_plain { 0 } else { ENCRYPTS | aes };
        Self::with_opening(side, key, opening(VERSION, mode, nonce))
    }

    fn with_opening(side: LinkSide, key: Option<KnownKey>, own: Opening) -> Self {
        let (state, received, due) = (HandshakeState::Opening, Vec::new(), own.to_vec());
        Self { side, own, key, state, received, due }
    }

    /// Processes a prefix of `bytes` and returns its length. Bytes after the handshake are left. The side
    /// that has accepted finds the key by `find`.
    ///
    /// # Errors
    ///
    /// [`HandshakeError`]; the connection is to be closed, after the bytes that are [due](Self::due).
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        find: FindKey<'_>,
    ) -> Result<usize, HandshakeError> {
        let mut taken = 0;
        for byte in bytes {
            let awaited = match &self.state {
                HandshakeState::Opening => OPENING_BYTES,
                HandshakeState::Proof { .. } => KEY_BYTES,
                HandshakeState::Message { .. } => KEY_ID_BYTES + MESSAGE_BYTES,
                HandshakeState::Reply(_) => MESSAGE_BYTES,
                HandshakeState::Confirmation(_) => TAG_BYTES,
                HandshakeState::Proved(_) | HandshakeState::Over => break,
            };
            self.received.push(*byte);
            taken += 1;
            self.check_start()?;
            if self.received.len() == awaited {
                let received = std::mem::take(&mut self.received);
                self.handle_message(&received, find)?;
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

    /// The records of the connection and the key that was proved, once both sides have proved it.
    pub(super) fn take_records(&mut self) -> Option<(KeyId, Records)> {
        match std::mem::replace(&mut self.state, HandshakeState::Over) {
            HandshakeState::Proved(records) => self.key.take().map(|key| (key.id, records)),
            state => {
                self.state = state;
                None
            }
        }
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
        if let Some(&[high, low]) = self.received.get(MAGIC.len()..MODE_AT)
            && u16::from_be_bytes([high, low]) != own
        {
            return Err(HandshakeError::Version { theirs: u16::from_be_bytes([high, low]) });
        }
        match self.received.get(MODE_AT).map(|theirs| theirs & ENCRYPTS) {
            Some(0) if self.own[MODE_AT] & ENCRYPTS != 0 => Err(HandshakeError::Plain),
            Some(ENCRYPTS) if self.own[MODE_AT] & ENCRYPTS == 0 => Err(HandshakeError::Encrypted),
            _ => Ok(()),
        }
    }

    /// Handles a complete message. After an error nothing further is accepted.
    fn handle_message(&mut self, received: &[u8], find: FindKey<'_>) -> Result<(), HandshakeError> {
        self.state = match std::mem::replace(&mut self.state, HandshakeState::Over) {
            HandshakeState::Opening => self.handle_opening(received)?,
            HandshakeState::Proof { transcript } => self.handle_proof(received, &transcript)?,
            HandshakeState::Message { transcript, has_aes } => {
                let (id, message) = received.split_at(KEY_ID_BYTES);
                self.handle_initiator(id, message, (&transcript, has_aes), find)?
            }
            HandshakeState::Reply(mut noise) => {
                noise.read(received).map_err(|_| HandshakeError::Proof)?;
                let mut channel = noise.into_channel().map_err(|_| HandshakeError::Proof)?;
                channel.seal(&[], &mut self.due).map_err(|_| HandshakeError::Proof)?;
                HandshakeState::Proved(Records::new(Some(channel)))
            }
            HandshakeState::Confirmation(mut channel) => {
                channel.open(received, &mut []).map_err(|_| HandshakeError::Proof)?;
                HandshakeState::Proved(Records::new(Some(channel)))
            }
            state @ (HandshakeState::Proved(_) | HandshakeState::Over) => state,
        };
        Ok(())
    }

    fn handle_opening(&mut self, theirs: &[u8]) -> Result<HandshakeState, HandshakeError> {
        let mut transcript = [0; 2 * OPENING_BYTES];
        let (first, second) = match self.side {
            LinkSide::Initiator => (&self.own[..], theirs),
            LinkSide::Acceptor => (theirs, &self.own[..]),
        };
        transcript[..OPENING_BYTES].copy_from_slice(first);
        transcript[OPENING_BYTES..].copy_from_slice(second);
        let both = self.own[MODE_AT] & theirs[MODE_AT];
        let has_aes = both & HAS_AES != 0;
        Ok(match (self.side, &self.key) {
            (LinkSide::Initiator, Some(known)) if both & ENCRYPTS != 0 => {
                let id = known.id.to_wire();
                let mut noise = begin(self.side, has_aes, &known.key, (&transcript, id))?;
                self.due.extend(id);
                self.due.extend(noise.write().map_err(|_| HandshakeError::Random)?);
                HandshakeState::Reply(noise)
            }
            (LinkSide::Acceptor, None) => HandshakeState::Message { transcript, has_aes },
            (LinkSide::Initiator, Some(known)) => {
                self.due.extend(proof(KeyPurpose::InitiatorProof, &known.key, &transcript));
                HandshakeState::Proof { transcript }
            }
            (LinkSide::Acceptor, Some(_)) => HandshakeState::Proof { transcript },
            (LinkSide::Initiator, None) => return Err(HandshakeError::Proof),
        })
    }

    fn handle_proof(
        &mut self,
        received: &[u8],
        transcript: &Transcript,
    ) -> Result<HandshakeState, HandshakeError> {
        let theirs = match self.side {
            LinkSide::Initiator => KeyPurpose::AcceptorProof,
            LinkSide::Acceptor => KeyPurpose::InitiatorProof,
        };
        let Some(KnownKey { key, .. }) = &self.key else { return Err(HandshakeError::Proof) };
        // Takes as long for a wrong proof as for a right one.
        let checked = key.keyed(theirs, transcript).verify_slice(received);
        checked.map_err(|_| HandshakeError::Proof)?;
        if self.side == LinkSide::Acceptor {
            self.due.extend(proof(KeyPurpose::AcceptorProof, key, transcript));
        }
        Ok(HandshakeState::Proved(Records::new(None)))
    }

    fn handle_initiator(
        &mut self,
        id: &[u8],
        message: &[u8],
        (transcript, has_aes): (&Transcript, bool),
        find: FindKey<'_>,
    ) -> Result<HandshakeState, HandshakeError> {
        let wire: [u8; KEY_ID_BYTES] = id.try_into().map_err(|_| HandshakeError::Proof)?;
        let id = KeyId::of_wire(wire).ok_or(HandshakeError::Proof)?;
        let key = find(id)?;
        let mut noise = begin(self.side, has_aes, &key, (transcript, wire))?;
        noise.read(message).map_err(|_| HandshakeError::Proof)?;
        self.due.extend(noise.write().map_err(|_| HandshakeError::Random)?);
        self.key = Some(KnownKey { id, key });
        let channel = noise.into_channel().map_err(|_| HandshakeError::Proof)?;
        Ok(HandshakeState::Confirmation(channel))
    }
}

fn begin(
    side: LinkSide,
    has_aes: bool,
    key: &LinkKey,
    (transcript, id): (&Transcript, [u8; KEY_ID_BYTES]),
) -> Result<NoiseHandshake, HandshakeError> {
    let prologue = [&transcript[..], &id].concat();
    let noise = NoiseHandshake::new(side, has_aes, key.bytes(), &prologue, random::fill);
    noise.map_err(|_| HandshakeError::Random)
}

fn proof(purpose: KeyPurpose, key: &LinkKey, transcript: &Transcript) -> [u8; KEY_BYTES] {
    key.keyed(purpose, transcript).finalize().into_bytes().into()
}

fn opening(version: u16, mode: u8, nonce: [u8; NONCE_BYTES]) -> Opening {
    let mut opening = [mode; OPENING_BYTES];
    opening[..MAGIC.len()].copy_from_slice(&MAGIC);
    opening[MAGIC.len()..MODE_AT].copy_from_slice(&version.to_be_bytes());
    opening[MODE_AT + 1..].copy_from_slice(&nonce);
    opening
}

/// First bytes of a connection between node servers; no PMI message begins with them.
const MAGIC: [u8; 4] = *b"\xa8pmn";

/// Version of the protocol between node servers: of handshake, records, and the messages within.
const VERSION: u16 = 3;

const MODE_AT: usize = MAGIC.len() + 2;

/// Length of the random part of an opening in bytes.
pub(super) const NONCE_BYTES: usize = 31;

const OPENING_BYTES: usize = MODE_AT + 1 + NONCE_BYTES;

/// Bit of the mode: the side encrypts.
const ENCRYPTS: u8 = 1;

/// Bit of the mode: the side has instructions for AES.
const HAS_AES: u8 = 2;

/// Kinds of keys that an initiator names.
const START: u8 = 0;
const ATTACHMENT: u8 = 1;

const KEY_ID_BYTES: usize = 1 + NAME_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    /// The most that one side sends: opening, name of the key, message and confirmation.
    const DUE_MAX: usize = OPENING_BYTES + KEY_ID_BYTES + MESSAGE_BYTES + TAG_BYTES;

    /// Form of a connection.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Form {
        Plain,
        Start,
        Attachment,
    }

    const FORMS: [Form; 3] = [Form::Plain, Form::Start, Form::Attachment];

    fn key(byte: u8) -> LinkKey {
        let line = format!("{}\n", format!("{byte:02x}").repeat(KEY_BYTES));
        super::super::key::RunKey::read(&mut line.as_bytes()).unwrap().key().clone()
    }

    fn initiator(form: Form, byte: u8) -> Handshake {
        let known = match form {
            Form::Plain => KnownKey::plain(&key(byte)),
            Form::Start => KnownKey::start(&key(byte)),
            Form::Attachment => KnownKey::attachment(5, &key(byte)),
        };
        Handshake::initiator(known, [1; NONCE_BYTES])
    }

    fn acceptor(form: Form, byte: u8) -> Handshake {
        Handshake::acceptor((form == Form::Plain).then(|| key(byte)).as_ref(), [2; NONCE_BYTES])
    }

    fn pair(form: Form) -> (Handshake, Handshake) {
        (initiator(form, 7), acceptor(form, 7))
    }

    /// The keys of a side that has accepted: one of a start, and those of attachments.
    fn find(byte: u8) -> impl Fn(KeyId) -> Result<LinkKey, HandshakeError> {
        move |id| match id {
            KeyId::Start(name) if name == key(byte).name() => Ok(key(byte)),
            KeyId::Attachment(5) => Ok(key(byte)),
            _ => Err(HandshakeError::Proof),
        }
    }

    /// Moves the due bytes of `from` to `to`, in pieces of at most `split` bytes.
    fn pass(from: &mut Handshake, to: &mut Handshake, split: usize) -> Result<(), HandshakeError> {
        let due = from.due().to_vec();
        from.sent();
        for piece in due.chunks(split) {
            assert_eq!(to.receive(piece, &find(7))?, piece.len());
        }
        Ok(())
    }

    fn complete(
        (initiator, acceptor): (&mut Handshake, &mut Handshake),
        split: usize,
    ) -> Result<(), HandshakeError> {
        pass(acceptor, initiator, split)?;
        for _ in 0..3 {
            pass(initiator, acceptor, split)?;
            pass(acceptor, initiator, split)?;
        }
        Ok(())
    }

    fn is_proved(handshake: &Handshake) -> bool {
        matches!(handshake.state, HandshakeState::Proved(_))
    }

    #[test]
    fn handshake_succeeds_with_every_split() {
        for (form, split) in
            FORMS.into_iter().flat_map(|form| (1..=DUE_MAX).map(move |at| (form, at)))
        {
            let (mut initiator, mut acceptor) = pair(form);
            assert!(initiator.take_records().is_none() && acceptor.take_records().is_none());
            complete((&mut initiator, &mut acceptor), split).unwrap();
            let (id, mut one) = initiator.take_records().unwrap();
            let (other_id, mut other) = acceptor.take_records().unwrap();
            assert_eq!(id, other_id);
            for (from, to) in [(0, 1), (1, 0)] {
                let sides = [&mut one, &mut other];
                let mut wire = Vec::new();
                sides[from].write(b"content", &mut wire);
                assert_eq!(wire == b"\0\x07content", form == Form::Plain);
                assert_eq!(sides[to].read(&mut &wire[..]).unwrap(), Some(&b"content"[..]));
            }
            assert!(initiator.take_records().is_none() && acceptor.take_records().is_none());
        }
    }

    #[test]
    fn handshake_is_never_over_before_its_end() {
        for form in FORMS {
            // All that the initiator sends to this acceptor.
            for end in 0..DUE_MAX {
                let (mut initiator, mut acceptor) = pair(form);
                let mut sent = 0;
                pass(&mut acceptor, &mut initiator, 99).unwrap();
                while !initiator.due().is_empty() && sent < end {
                    let due = initiator.due().to_vec();
                    initiator.sent();
                    let part = &due[..due.len().min(end - sent)];
                    sent += acceptor.receive(part, &find(7)).unwrap();
                    pass(&mut acceptor, &mut initiator, 99).unwrap();
                }
                let is_whole = form == Form::Plain && sent == OPENING_BYTES + KEY_BYTES;
                assert_eq!(is_proved(&acceptor), is_whole, "{form:?}, {end} bytes");
            }
        }
    }

    #[test]
    fn bytes_after_the_handshake_are_left() {
        let (mut initiator, mut acceptor) = pair(Form::Plain);
        pass(&mut initiator, &mut acceptor, 99).unwrap();
        pass(&mut acceptor, &mut initiator, 99).unwrap();
        pass(&mut initiator, &mut acceptor, 99).unwrap();
        let sent = [acceptor.due(), b"record"].concat();
        assert_eq!(initiator.receive(&sent, &find(7)), Ok(KEY_BYTES));
        let (mut other, mut acceptor_of_other) = pair(Form::Start);
        pass(&mut acceptor_of_other, &mut other, 99).unwrap();
        pass(&mut other, &mut acceptor_of_other, 99).unwrap();
        pass(&mut acceptor_of_other, &mut other, 99).unwrap();
        let sent = [other.due(), b"record"].concat();
        assert_eq!(acceptor_of_other.receive(&sent, &find(7)), Ok(TAG_BYTES));
        for mut side in [initiator, acceptor, other, acceptor_of_other] {
            assert_eq!(side.receive(b"record", &find(7)), Ok(0));
        }
    }

    #[test]
    fn another_key_is_rejected_by_both_sides() {
        for form in FORMS {
            let (mut initiator, mut acceptor) = (initiator(form, 8), acceptor(form, 7));
            let ended = complete((&mut initiator, &mut acceptor), 99);
            assert_eq!(ended, Err(HandshakeError::Proof), "{form:?}");
            // The acceptor has proved nothing: only its opening was sent.
            assert!(acceptor.due().is_empty() && acceptor.take_records().is_none());
            assert_eq!(acceptor.receive(&[0; 99], &find(7)), Ok(0), "nothing further is read");
        }
        // An acceptor of another run that answers all the same.
        for (form, answer) in [(Form::Plain, KEY_BYTES), (Form::Start, MESSAGE_BYTES)] {
            let (mut initiator, acceptor) = pair(form);
            initiator.receive(acceptor.due(), &find(7)).unwrap();
            let ended = initiator.receive(&vec![9; answer], &find(7));
            assert_eq!(ended, Err(HandshakeError::Proof));
        }
    }

    #[test]
    fn key_with_the_name_of_another_one_is_rejected() {
        let named = KnownKey { id: KnownKey::start(&key(7)).id, key: key(8) };
        let (mut initiator, mut acceptor) =
            (Handshake::initiator(named, [1; NONCE_BYTES]), acceptor(Form::Start, 7));
        let ended = complete((&mut initiator, &mut acceptor), 99);
        assert_eq!(ended, Err(HandshakeError::Proof));
        assert!(acceptor.due().is_empty());
    }

    #[test]
    fn sides_that_do_not_agree_on_encryption_say_which_one_has_it() {
        for (plain, encrypted) in [
            (initiator(Form::Plain, 7), acceptor(Form::Start, 7)),
            (acceptor(Form::Plain, 7), initiator(Form::Start, 7)),
        ] {
            let (mut plain, mut encrypted) = (plain, encrypted);
            let (of_plain, of_encrypted) = (plain.due().to_vec(), encrypted.due().to_vec());
            let error = encrypted.receive(&of_plain, &find(7)).unwrap_err();
            assert_eq!(error, HandshakeError::Plain);
            assert!(error.to_string().starts_with("was started with '--plain'"), "{error}");
            let error = plain.receive(&of_encrypted, &find(7)).unwrap_err();
            assert_eq!(error, HandshakeError::Encrypted);
            assert!(error.to_string().starts_with("encrypts all messages"), "{error}");
            assert!(plain.take_records().is_none() && encrypted.take_records().is_none());
        }
    }

    #[test]
    fn aes_is_used_if_both_sides_have_instructions_for_it() {
        for modes in [[0, 0], [0, HAS_AES], [HAS_AES, 0], [HAS_AES, HAS_AES]] {
            let [own, theirs] = modes.map(|aes| opening(VERSION, ENCRYPTS | aes, [3; NONCE_BYTES]));
            let known = Some(KnownKey::start(&key(7)));
            let mut initiator = Handshake::with_opening(LinkSide::Initiator, known, own);
            let mut acceptor = Handshake::with_opening(LinkSide::Acceptor, None, theirs);
            complete((&mut initiator, &mut acceptor), 99).unwrap();
            assert!(is_proved(&initiator) && is_proved(&acceptor), "{modes:?}");
        }
    }

    #[test]
    fn message_that_is_changed_anywhere_is_rejected() {
        for form in FORMS {
            // The bytes of both directions are numbered in the order in which they are sent.
            for at in 0..2 * DUE_MAX {
                let (mut initiator, mut acceptor) = pair(form);
                let (mut sent, mut ended) = (0, Ok(()));
                for _ in 0..4 {
                    let sides = [&mut initiator, &mut acceptor];
                    for from in [1, 0] {
                        let mut due = sides[from].due().to_vec();
                        sides[from].sent();
                        if let Some(byte) = at.checked_sub(sent).and_then(|at| due.get_mut(at)) {
                            *byte ^= 4;
                        }
                        sent += due.len();
                        let received = sides[1 - from].receive(&due, &find(7));
                        ended = ended.and(received.map(|_| ()));
                    }
                }
                assert_eq!(ended.is_err(), at < sent, "{form:?}, byte {at} of {sent}");
                assert!(at >= sent || !is_proved(&initiator) || !is_proved(&acceptor));
            }
        }
    }

    #[test]
    fn reflected_messages_prove_nothing() {
        for form in FORMS {
            let (mut initiator, _) = pair(form);
            let opening = initiator.due().to_vec();
            initiator.sent();
            initiator.receive(&opening, &find(7)).unwrap();
            let sent = initiator.due().to_vec();
            for start in [0, sent.len().saturating_sub(MESSAGE_BYTES)] {
                let (mut initiator, _) = pair(form);
                initiator.receive(&opening, &find(7)).unwrap();
                let ended = initiator.receive(&sent[start..], &find(7));
                assert_eq!(ended, Err(HandshakeError::Proof), "{form:?}");
            }
        }
    }

    #[test]
    fn messages_of_an_earlier_connection_are_rejected() {
        for form in FORMS {
            let (mut initiator, mut acceptor) = pair(form);
            pass(&mut acceptor, &mut initiator, 99).unwrap();
            let recorded = initiator.due().to_vec();
            let plain = (form == Form::Plain).then(|| key(7));
            let mut later = Handshake::acceptor(plain.as_ref(), [3; NONCE_BYTES]);
            assert_eq!(later.receive(&recorded, &find(7)), Err(HandshakeError::Proof), "{form:?}");
        }
    }

    // Without its confirmation, the message of an earlier connection would hold a place at the acceptor if
    // the nonce of that were the same.
    #[test]
    fn message_alone_admits_nobody() {
        let (mut initiator, mut acceptor) = pair(Form::Start);
        pass(&mut acceptor, &mut initiator, 99).unwrap();
        let recorded = initiator.due().to_vec();
        let (_, mut later) = pair(Form::Start);
        later.receive(&recorded, &find(7)).unwrap();
        assert!(!is_proved(&later));
        assert_eq!(later.receive(&[0; TAG_BYTES], &find(7)), Err(HandshakeError::Proof));
    }

    #[test]
    fn version_and_protocol_are_checked_before_anything_else() {
        let (_, mut acceptor) = pair(Form::Start);
        let theirs = opening(VERSION + 1, 0, [1; NONCE_BYTES]);
        let error = acceptor.receive(&theirs, &find(7)).unwrap_err();
        assert_eq!(error, HandshakeError::Version { theirs: VERSION + 1 });
        assert!(error.to_string().contains("same pmi-host on all hosts"));
        for start in [&b"GET / HTTP/1.1"[..], b"cmd=init", b"\xa8pm\0", b"\x16\x03\x01"] {
            let (_, mut acceptor) = pair(Form::Start);
            assert_eq!(acceptor.receive(start, &find(7)), Err(HandshakeError::Magic));
        }
    }

    #[test]
    fn name_of_a_key_is_read_as_it_was_written() {
        for id in [KnownKey::start(&key(7)).id, KeyId::Attachment(0), KeyId::Attachment(u32::MAX)] {
            assert_eq!(KeyId::of_wire(id.to_wire()), Some(id));
        }
        assert_eq!(KeyId::of_wire([2; KEY_ID_BYTES]), None);
        let mut large = KeyId::Attachment(u32::MAX).to_wire();
        large[KEY_ID_BYTES - 5] = 1;
        assert_eq!(KeyId::of_wire(large), None);
    }
}
