//! Checks of requests before anything is kept: the server's sizes and the words of the wire.

use super::dialect::ClientDialect;
use super::inflight::Inflight;
use super::{Client, TICKET_DIGITS, Ticket, UNSUPPORTED};
use crate::command::{FenceGroup, Maxes, Place, Request, Text, Verb, Version};
use crate::error::Misuse;
use crate::parts;
use crate::storage::Buffer;
use crate::wire::{WriteError, Writer, is_list, names_twice};

/// Length of a message that was written into no room at all.
pub(super) const fn needed_bytes(written: Result<usize, WriteError>) -> Result<usize, Misuse> {
    match written {
        Ok(len) => Ok(len),
        Err(WriteError::Full(full)) => Ok(full.needed),
        Err(WriteError::Misuse(misuse)) => Err(misuse),
    }
}

impl<B: Buffer, const SLOTS: usize, const GENERATIONS: u16> Client<B, SLOTS, GENERATIONS> {
    /// Length of the message for `request`, if the server and the wire accept it.
    ///
    /// # Errors
    ///
    /// [`Misuse`] as for [`send`](Self::send), for faults of the request itself.
    pub fn message_bytes(&self, request: &Request<'_>) -> Result<usize, Misuse> {
        self.check(request)?;
        // The codec decides if the dialect can express the request.
        needed_bytes(self.write(request, self.next_ticket(), &mut []))
    }

    /// Checks that the server and the agreed version allow `request`.
    pub(super) fn check(&self, request: &Request<'_>) -> Result<(), Misuse> {
        let (key, value, place) = match *request {
            Request::Put { place, key, value } => {
                let is_own = match place {
                    Place::Job(Some(name)) => name.as_plain() == Some(self.server_info.name()),
                    Place::Job(None) => true,
                    Place::Node => parts::PMI2 || parts::BINARY,
                    Place::Attributes => false,
                };
                if !is_own {
                    // No dialect can put into another job's space, or among job attributes.
                    return Err(UNSUPPORTED);
                }
                (key, value, Place::Job(None))
            }
            Request::PutPair { key, value } if parts::CONNECT => (key, value, Place::Job(None)),
            Request::Get { place, key, .. } => (key, Text::EMPTY, place),
            Request::Init { version } if !self.supports(version) => {
                return Err(Misuse::NotRepresentable { what: "an unsupported version" });
            }
            Request::Fence { group, tag } => return self.check_group(group, tag),
            Request::OutOfBand { .. } | Request::Lacking { .. } => return Err(UNSUPPORTED),
            _ => return Ok(()),
        };
        let Maxes { key: keys, value: values, .. } = self.server_info.maxes;
        within("key", key, keys)?;
        within("value", value, values)?;
        let needs_name = match place {
            // Frames do not name the space of a put, since there is no other to put into.
            Place::Job(None) => match self.dialect() {
                ClientDialect::Lines => true,
                ClientDialect::Frames => matches!(request, Request::Get { .. }),
                ClientDialect::Binary => false,
            },
            // The only text that frames do not escape.
            Place::Job(Some(name))
                if self.dialect() != ClientDialect::Lines && name.bytes().any(|b| b <= b' ') =>
            {
                return Err(UNSUPPORTED);
            }
            _ => false,
        };
        if needs_name && self.server_info.name().is_empty() {
            return Err(Misuse::WrongState { needed: "the name of the space was requested" });
        }
        Ok(())
    }

    /// Checks that a fence of this group can be expressed.
    fn check_group(&self, group: FenceGroup<'_>, tag: Option<u32>) -> Result<(), Misuse> {
        match group {
            FenceGroup::World if tag.is_none() => Ok(()),
            _ if !parts::GROUPS => Err(Misuse::NotRepresentable {
                what: "a fence of a group, which this build leaves out (feature `dynamic`)",
            }),
            _ if self.version() < Some(Version::V1_2) => {
                Err(Misuse::NotRepresentable { what: "a fence of a group before PMI-1.2" })
            }
            FenceGroup::Ranks(list) if !is_list(list) => Err(UNSUPPORTED),
            FenceGroup::Ranks(list) if names_twice(list) => {
                Err(Misuse::NotRepresentable { what: "a group that names a rank twice" })
            }
            _ => Ok(()),
        }
    }

    /// True if this client supports `version`.
    fn supports(&self, version: Version) -> bool {
        match self.dialect() {
            ClientDialect::Binary => version == Version::BINARY,
            _ if version == Version::V2_0 => GENERATIONS >= 2 && parts::PMI2,
            _ => version.major == 1 && version.minor <= Version::V1_2.minor,
        }
    }

    /// Name of an exchange on the wire, if it has one: the opening has none.
    pub(super) fn exchange_name<'d>(
        &self,
        verb: Verb,
        ticket: Ticket,
        digits: &'d mut [u8; TICKET_DIGITS],
    ) -> &'d [u8] {
        // No reply to an abort will follow.
        if !Inflight::<SLOTS>::HAS_NAMES || !self.lifecycle.is_open() || verb == Verb::Abort {
            return b"";
        }
        let len = Writer::new(digits).unsigned(ticket.0.into()).len();
        digits.get(..len).unwrap_or(b"")
    }
}

/// Checks that a text is shorter than a C buffer of `max` bytes.
fn within(what: &'static str, text: Text<'_>, max: u32) -> Result<(), Misuse> {
    let limit_bytes = usize::try_from(max).unwrap_or(usize::MAX).saturating_sub(1);
    let len_bytes = text.len();
    if len_bytes > limit_bytes {
        return Err(Misuse::Length { what, len_bytes, limit_bytes });
    }
    Ok(())
}
