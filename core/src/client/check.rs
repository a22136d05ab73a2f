//! What can be asked, before anything is kept: the sizes of the server and the words of the wire.

use super::dialect::Dialect;
use super::inflight::Inflight;
use super::{Client, State, TICKET_DIGITS, Ticket};
use crate::command::{Group, Place, Request, Text, Version};
use crate::error::Misuse;
use crate::parts;
use crate::storage::Buffer;
use crate::wire::{Unwritten, Writer};

impl<B: Buffer, const SLOTS: usize, const GENERATIONS: u16> Client<B, SLOTS, GENERATIONS> {
    /// How long the message would be that asks `request`, if the server and the wire take it.
    ///
    /// Errors: [`Misuse`] as for [`start`](Self::start), for what lies in the request itself.
    pub fn message_bytes(&self, request: &Request<'_>) -> Result<usize, Misuse> {
        let needs_name = match *request {
            Request::Put { key, value, .. } | Request::PutPair { key, value } => {
                within("key", key, self.learnt.maxes.key)?;
                within("value", value, self.learnt.maxes.value)?;
                // Frames do not say whose space it is, since there is no other to put into.
                self.dialect() == Dialect::Lines
            }
            Request::Get { place, key, .. } => {
                within("key", key, self.learnt.maxes.key)?;
                matches!(place, Place::Job(None)) && self.dialect() != Dialect::Own
            }
            Request::Init { version } if !self.may_ask_for(version) => {
                return Err(Misuse::NotSayable { what: "a version that is not spoken here" });
            }
            Request::Fence { group, tag } if self.version() < Some(Version::V1_2) => {
                if !matches!(group, Group::World) || tag.is_some() {
                    return Err(Misuse::NotSayable { what: "a fence of a group before PMI-1.2" });
                }
                false
            }
            _ => false,
        };
        if needs_name && self.learnt.kvsname.is_none() {
            return Err(Misuse::WrongState { needed: "the name of the space was asked for" });
        }
        // The codec knows what a dialect can say.
        let mut digits = [0; TICKET_DIGITS];
        let name = self.exchange_name(self.next_ticket(), &mut digits);
        match self.dialect().write(request, name, self.learnt.name(), &mut []) {
            Ok(len) => Ok(len),
            Err(Unwritten::Full(full)) => Ok(full.needed),
            Err(Unwritten::Misuse(misuse)) => Err(misuse),
        }
    }

    /// Whether this client can go on in `version`.
    fn may_ask_for(&self, version: Version) -> bool {
        match self.dialect() {
            Dialect::Own => version == Version::OWN,
            _ => version.major == 1 || (version.major <= GENERATIONS && parts::FRAMES),
        }
    }

    /// What an exchange is called on the wire, if it is called anything: the opening is alone.
    pub(super) fn exchange_name<'d>(
        &self,
        ticket: Ticket,
        digits: &'d mut [u8; TICKET_DIGITS],
    ) -> &'d [u8] {
        let is_open = matches!(self.state, State::Open { .. } | State::Finalizing { .. });
        if !Inflight::<SLOTS>::HAS_NAMES || !is_open {
            return b"";
        }
        let len = Writer::new(digits).unsigned(ticket.0.into()).len();
        digits.get(..len).unwrap_or(b"")
    }
}

/// Lets a text through that is shorter than a C buffer of `max` bytes.
fn within(what: &'static str, text: Text<'_>, max: u32) -> Result<(), Misuse> {
    let limit_bytes = usize::try_from(max).unwrap_or(usize::MAX).saturating_sub(1);
    let len_bytes = text.len();
    if len_bytes > limit_bytes {
        return Err(Misuse::Length { what, len_bytes, limit_bytes });
    }
    Ok(())
}
