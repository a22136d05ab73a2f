//! Sixteen bytes in front of every message but the first.

use crate::wire::{Framed, Writer};

/// Header of a message.
///
/// Wire: `i32` index, `u32` tag, `u32` length of the body, four bytes of zero; all big endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Index that the server assigned to the connection; servers send 0.
    pub index: u32,
    /// Tag of the exchange: a response has the tag of its request. See the constants below.
    pub tag: u32,
    /// Length of the body.
    pub body_bytes: u32,
}

impl Header {
    /// Length of a header.
    pub const BYTES: usize = 16;

    /// Reads a header; `None` while it is incomplete.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (numbers, _) = bytes.get(..Self::BYTES)?.as_chunks::<4>();
        let number = |at: usize| numbers.get(at).map(|bytes| u32::from_be_bytes(*bytes));
        Some(Self { index: number(0)?, tag: number(1)?, body_bytes: number(2)? })
    }

    /// Bytes of the header.
    pub fn bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut writer = Writer::new(&mut bytes);
        for number in [self.index, self.tag, self.body_bytes] {
            writer.bytes(&number.to_be_bytes());
        }
        bytes
    }

    /// Finds the end of the message at the front of `bytes`.
    pub fn frame(bytes: &[u8]) -> Framed {
        let whole = Self::read(bytes).and_then(|header| {
            let len = Self::BYTES.checked_add(usize::try_from(header.body_bytes).ok()?)?;
            (len <= bytes.len()).then_some(len)
        });
        whole.map_or(Framed::Partial, Framed::Whole)
    }
}

/// Tag of event notifications, which the server sends without a request.
pub const TAG_EVENT: u32 = 0;
/// Tag of a heartbeat, which has no body.
pub const TAG_HEARTBEAT: u32 = 1;
/// Tag of forwarded output.
pub const TAG_OUTPUT: u32 = 2;
/// Lowest tag of a request.
pub const TAG_REQUESTS: u32 = 100;
