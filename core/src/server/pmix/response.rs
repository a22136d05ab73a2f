//! Pending requests of a connection, and the content of their responses.

use super::shared_bytes::{SharedBytes, pack};
use crate::ids::JobId;
use crate::storage::{ArrayBuffer, Buffer, copy};
use crate::time::Instant;
use crate::wire::pmix::header::Header;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Format, Type};

/// A request without a response, or a notification to send.
#[derive(Clone, Debug)]
pub struct PendingRequest<B> {
    /// The tag of the request or of the notification.
    pub(super) tag: u32,
    pub(super) response: PmixResponse<B>,
    /// Order in which it became due, as an increasing number.
    pub(super) order: u32,
}

/// Content of a response, and the condition under which it is due.
#[derive(Clone, Debug)]
pub(super) enum PmixResponse<B> {
    /// A status, and nothing more.
    Status(Status),
    /// A body.
    Body(B),
    /// A body in two pieces, of which the first is shared by many connections.
    Bodies(B, B),
    /// The answer to a greeting, which has no header.
    Bare(heapless::Vec<u8, 8>),
    /// The answer to the greeting of a tool.
    ToolWelcome(B),
    /// The end of the job's fence with this number.
    Fence { generation: u32, deadline: Option<Instant> },
    /// The same, for a process that is in an earlier fence of the job and enters the next one later.
    QueuedFence { deadline: Option<Instant>, collects_data: bool },
    /// The end of a collective.
    Collective { at: usize, deadline: Option<Instant>, contributed: Option<B> },
    /// Committed data of a process under a key; under any key, if absent.
    Get { job: JobId, rank: u32, key: Option<B>, scope: Option<u8>, deadline: Option<Instant> },
    /// Published data under the keys of this request.
    Lookup { body: B, deadline: Option<Instant> },
    /// The response of the owner to the request with this number, and its body if it is a lookup.
    Host { number: u32, deadline: Option<Instant>, lookup: Option<B> },
}

impl<B: SharedBytes> PendingRequest<B> {
    /// True if the deadline has passed.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.response.until().is_some_and(|deadline| deadline <= now)
    }

    /// Writes the message from byte `sent` on as far as there is room, and returns the number of
    /// bytes and whether the message is complete.
    pub(super) fn write(&self, format: Format, sent: usize, out: &mut [u8]) -> (usize, bool) {
        let status: Option<ArrayBuffer<STATUS_BYTES>> = match self.response {
            PmixResponse::Status(status) => pack(format, |to| {
                to.one(Type::STATUS).i32(status.0);
            }),
            _ => None,
        };
        let (body, more) = match &self.response {
            PmixResponse::Body(block) | PmixResponse::ToolWelcome(block) => {
                (block.as_ref(), &b""[..])
            }
            PmixResponse::Bodies(block, more) => (block.as_ref(), more.as_ref()),
            PmixResponse::Bare(bytes) => (&bytes[..], &b""[..]),
            _ => (status.as_ref().map_or(&b""[..], Buffer::as_slice), &b""[..]),
        };
        let body_bytes = u32::try_from(body.len() + more.len()).unwrap_or(u32::MAX);
        let header = Header { index: 0, tag: self.tag, body_bytes }.bytes();
        let header = match self.response {
            PmixResponse::Bare(_) | PmixResponse::ToolWelcome(_) => &b""[..],
            _ => &header,
        };
        let (mut len, mut before) = (0, 0);
        for part in [header, body, more] {
            let rest = part.get(sent.saturating_sub(before)..).unwrap_or(b"");
            let room = out.get_mut(len..).unwrap_or_default();
            copy(room, rest);
            len += rest.len().min(room.len());
            before += part.len();
        }
        (len, sent + len >= before)
    }
}

impl<B> PmixResponse<B> {
    /// The response of the owner to a request without a deadline, which is no lookup.
    pub(super) const fn of_owner() -> Self {
        Self::Host { number: 0, deadline: None, lookup: None }
    }

    /// A response with this body; without memory for it, a status.
    pub(super) fn body(body: Option<B>) -> Self {
        body.map_or(Self::Status(Status::NOMEM), Self::Body)
    }

    /// True if the response can be sent.
    pub(super) const fn is_due(&self) -> bool {
        matches!(
            self,
            Self::Status(_)
                | Self::Body(_)
                | Self::Bodies(..)
                | Self::Bare(_)
                | Self::ToolWelcome(_)
        )
    }

    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Self::Fence { deadline, .. }
            | Self::QueuedFence { deadline, .. }
            | Self::Collective { deadline, .. }
            | Self::Lookup { deadline, .. }
            | Self::Host { deadline, .. }
            | Self::Get { deadline, .. } => *deadline,
            _ => None,
        }
    }
}

/// A status in the longest format: its count, two types, and itself.
const STATUS_BYTES: usize = 16;
