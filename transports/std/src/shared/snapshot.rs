//! Use of a [snapshot](crate::snapshot) by a session: calls that need no message.

use std::collections::HashSet;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use pmi_core::command::{Answer, FenceGroup, Place, Reply, Request, Text};
use pmi_core::error::{Code, Full};
use pmi_core::wire::snapshot::{Generation, hash_of};
use pmi_core::wire::{WriteError, quirks};
use pmi_link::CallError;
use pmi_link::calls::{ReadReply, ReplyResult};

use super::connection::{ConnectionState, SharedConnection};
use super::halves::WriteHalf;
use crate::snapshot::{SealedMemory, SegmentWriter, send_with};
use crate::stream::retry_interrupted;

/// The snapshot of a session.
#[derive(Debug)]
pub(super) struct ClientSnapshot {
    segment: SegmentWriter,
    /// Descriptor of the segment, until it is sent.
    offer: Option<OwnedFd>,
    /// True once the server has sent a generation: it reads the segment.
    is_accepted: bool,
    /// False if a generation could not be received, so that values may be missing.
    is_readable: bool,
    /// True after a fence of some ranks, which makes values visible without a new generation.
    is_outdated: bool,
    /// From the oldest to the newest.
    generations: Vec<Generation<SealedMemory>>,
    /// Hashes of the keys that this process has put since its last fence: the server has their values.
    put: HashSet<u32>,
    /// The same for the fence that is under way.
    fenced: HashSet<u32>,
    message: Vec<u8>,
}

impl ClientSnapshot {
    pub(super) fn create() -> io::Result<Self> {
        let (segment, file) = SegmentWriter::create()?;
        Ok(Self {
            segment,
            offer: Some(file),
            is_accepted: false,
            is_readable: true,
            is_outdated: false,
            generations: Vec::new(),
            put: HashSet::new(),
            fenced: HashSet::new(),
            message: vec![0; MESSAGE_BYTES],
        })
    }

    /// Hands the batch over before a message is sent. Returns the offer that the first message carries.
    pub(super) fn before_message(&mut self, request: &Request<'_>) -> Option<OwnedFd> {
        self.segment.commit();
        match request {
            Request::Put { key, .. } => self.note_put(*key),
            Request::Fence { .. } if is_world(request) => self.fenced.extend(self.put.drain()),
            Request::Fence { .. } => self.is_outdated = true,
            _ => {}
        }
        self.offer.take()
    }

    /// Adds the generations that came with a reply, in their order.
    pub(super) fn add(&mut self, files: &[OwnedFd], is_truncated: bool) {
        for file in files {
            let generation = SealedMemory::new(file)
                .and_then(|memory| Generation::new(memory).map_err(io::Error::other));
            match generation {
                Ok(generation) => {
                    self.is_accepted = true;
                    self.generations.retain(|earlier| earlier.first() < generation.first());
                    self.generations.push(generation);
                }
                Err(_) => self.is_readable = false,
            }
        }
        self.is_readable &= !is_truncated;
        if !self.is_readable {
            self.generations.clear();
        }
    }

    fn note_put(&mut self, key: Text<'_>) {
        if self.is_accepted
            && let Some(key) = key.as_plain()
        {
            self.put.insert(hash_of(key));
        }
    }

    /// The value of a key, as of the last fence; `None` if the server has to be asked.
    fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let hash = hash_of(key);
        if self.is_outdated || self.put.contains(&hash) || self.fenced.contains(&hash) {
            return None;
        }
        self.generations.iter().rev().find_map(|generation| generation.get(key))
    }
}

impl ConnectionState {
    /// Appends a put to the segment; false if it has to be sent. While a request is outstanding, the segment
    /// belongs to the server.
    fn put_in_memory(&mut self, request: &Request<'_>, key: Text<'_>) -> Result<bool, WriteError> {
        let is_idle = self.client.outstanding() == 0;
        let Some(snapshot) = self.snapshot.as_mut().filter(|own| own.is_accepted && is_idle) else {
            return Ok(false);
        };
        // Other ranks see these at once.
        if key.as_plain().is_none_or(|key| key.is_empty() || key.starts_with(quirks::NODE_LOCAL)) {
            return Ok(false);
        }
        let len = loop {
            match self.client.encode(request, &mut snapshot.message) {
                Err(WriteError::Full(Full { needed })) => snapshot.message.resize(needed, 0),
                encoded => break encoded?,
            }
        };
        let is_in = snapshot.segment.push(snapshot.message.get(..len).unwrap_or(b""));
        if is_in {
            snapshot.note_put(key);
        }
        Ok(is_in)
    }
}

impl SharedConnection {
    /// Makes a call without a message; `None` if it needs one.
    pub(super) fn call_in_memory<R: ReadReply>(
        &self,
        request: &Request<'_>,
        reply: &mut R,
    ) -> Result<Option<ReplyResult<R::Output>>, CallError<io::Error>> {
        let mut state = self.state();
        if state.snapshot.is_none() {
            return Ok(None);
        }
        let mut done = |answer| {
            let to = request.verb();
            Some(reply.on_reply(&Reply { to, tag: b"", code: Code::SUCCESS, answer }))
        };
        match *request {
            Request::Put { place: Place::Job(None), key, .. } => {
                state.check()?;
                match state.put_in_memory(request, key) {
                    Ok(is_in) => Ok(if is_in { done(Answer::Nothing) } else { None }),
                    Err(WriteError::Misuse(misuse)) => Err(CallError::Misuse(misuse)),
                    Err(WriteError::Full(full)) => Err(CallError::Full(full)),
                }
            }
            Request::Get { place: Place::Job(job), key, wait: false } => {
                state.check()?;
                let ConnectionState { client, snapshot, .. } = &*state;
                let is_own = job
                    .is_none_or(|job| client.kvsname().is_some_and(|own| job == *own.as_bytes()));
                let found = snapshot.as_ref().zip(key.as_plain());
                let found = found.and_then(|(snapshot, key)| snapshot.get(key));
                Ok(found
                    .filter(|_| is_own)
                    .and_then(|value| done(Answer::Value(Text::plain(value)))))
            }
            _ => Ok(None),
        }
    }

    /// Has `read` read a value without a message; `None` if it needs one, also after the end of the session.
    pub(super) fn read_in_memory<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let state = self.state();
        state.check().ok()?;
        state.snapshot.as_ref()?.get(key).map(read)
    }

    /// Ends a fence: own values are in the snapshot from now on.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the server has refused a put that was reported as done.
    pub(super) fn end_fence(&self, request: &Request<'_>) -> Result<(), CallError<io::Error>> {
        if !is_world(request) {
            return Ok(());
        }
        let mut state = self.state();
        let Some(snapshot) = &mut state.snapshot else { return Ok(()) };
        snapshot.fenced.clear();
        snapshot.is_outdated = false;
        match snapshot.segment.take_refused() {
            Some(code) => Err(CallError::Refused { verb: pmi_core::command::Verb::Put, code }),
            None => Ok(()),
        }
    }
}

/// True for the fence of all ranks, which publishes a generation.
fn is_world(request: &Request<'_>) -> bool {
    matches!(request, Request::Fence { group: FenceGroup::World, tag: None })
}

/// Sends a message with the offer of a segment.
pub(super) fn send_offer(
    writer: &mut WriteHalf,
    message: &[u8],
    offer: &OwnedFd,
) -> io::Result<()> {
    let len = retry_interrupted(|| send_with(&*writer, message, &[offer.as_fd()]))?;
    writer.write_all(message.get(len..).unwrap_or(b""))
}

/// Enough for most puts.
const MESSAGE_BYTES: usize = 256;
