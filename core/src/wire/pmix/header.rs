//! Sixteen bytes in front of every message but the first.

use crate::wire::{Framed, Writer};

/// What stands in front of a message.
///
/// Wire: `i32` index, `u32` tag, `u32` length of the body, four bytes of zero; all big endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// From clients the number that the server gave the connection; servers send 0.
    pub index: u32,
    /// What belongs together: an answer has the tag of its request. See below.
    pub tag: u32,
    /// How long the body is.
    pub body_bytes: u32,
}

impl Header {
    /// How long it is.
    pub const BYTES: usize = 16;

    /// Reads one; `None` while it is not whole.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (numbers, _) = bytes.get(..Self::BYTES)?.as_chunks::<4>();
        let number = |at: usize| numbers.get(at).map(|bytes| u32::from_be_bytes(*bytes));
        Some(Self { index: number(0)?, tag: number(1)?, body_bytes: number(2)? })
    }

    /// Its bytes.
    pub fn bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut writer = Writer::new(&mut bytes);
        for number in [self.index, self.tag, self.body_bytes] {
            writer.bytes(&number.to_be_bytes());
        }
        bytes
    }

    /// Where the message at the front of `bytes` ends.
    pub fn frame(bytes: &[u8]) -> Framed {
        let whole = Self::read(bytes).and_then(|header| {
            let len = Self::BYTES.checked_add(usize::try_from(header.body_bytes).ok()?)?;
            (len <= bytes.len()).then_some(len)
        });
        whole.map_or(Framed::Partial, Framed::Whole)
    }
}

/// The tag of what the server says unasked about events.
pub const TAG_EVENT: u32 = 0;
/// The tag of a sign of life, which has no body.
pub const TAG_HEARTBEAT: u32 = 1;
/// The tag of output that is forwarded.
pub const TAG_OUTPUT: u32 = 2;
/// The lowest tag of a request.
pub const TAG_REQUESTS: u32 = 100;
