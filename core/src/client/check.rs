//! What can be asked, before anything is kept: the sizes of the server and the words of the wire.

use super::dialect::Dialect;
use super::inflight::Inflight;
use super::{Client, State, TICKET_DIGITS, Ticket, UNSAYABLE};
use crate::command::{Group, Place, Request, Text, Version};
use crate::error::Misuse;
use crate::parts;
use crate::storage::Buffer;
use crate::wire::{Unwritten, Writer, is_list};

impl<B: Buffer, const SLOTS: usize, const GENERATIONS: u16> Client<B, SLOTS, GENERATIONS> {
    /// How long the message would be that asks `request`, if the server and the wire take it.
    ///
    /// Errors: [`Misuse`] as for [`say`](Self::say), for what lies in the request itself.
    pub fn message_bytes(&self, request: &Request<'_>) -> Result<usize, Misuse> {
        self.check(request)?;
        // The codec knows what a dialect can say.
        match self.write(request, self.next_ticket(), &mut []) {
            Ok(len) => Ok(len),
            Err(Unwritten::Full(full)) => Ok(full.needed),
            Err(Unwritten::Misuse(misuse)) => Err(misuse),
        }
    }

    /// Whether the server and the version that is spoken take `request`.
    pub(super) fn check(&self, request: &Request<'_>) -> Result<(), Misuse> {
        let needs_name = match *request {
            // No dialect can put into another job's space, or among what a manager says.
            Request::Put { place: Place::Attributes, .. } => return Err(UNSAYABLE),
            Request::Put { place: Place::Job(Some(name)), .. } if name != *self.learnt.name() => {
                return Err(UNSAYABLE);
            }
            Request::Put { key, value, .. } | Request::PutPair { key, value } => {
                within("key", key, self.learnt.maxes.key)?;
                within("value", value, self.learnt.maxes.value)?;
                // Frames do not say whose space it is, since there is no other to put into.
                self.dialect() == Dialect::Lines
            }
            // The one text that the codecs take as it is.
            Request::Get { place: Place::Job(Some(name)), .. }
                if name.bytes().any(|b| b <= b' ') =>
            {
                return Err(UNSAYABLE);
            }
            Request::Get { place, key, .. } => {
                within("key", key, self.learnt.maxes.key)?;
                matches!(place, Place::Job(None)) && self.dialect() != Dialect::Own
            }
            Request::Init { version } if !self.may_ask_for(version) => {
                return Err(Misuse::NotSayable { what: "a version that is not spoken here" });
            }
            Request::Fence { group: Group::World, tag: None } => false,
            Request::Fence { group, .. } => {
                if !parts::GROUPS || self.version() < Some(Version::V1_2) {
                    return Err(Misuse::NotSayable { what: "a fence of a group before PMI-1.2" });
                }
                if matches!(group, Group::Ranks(list) if !is_list(list)) {
                    return Err(UNSAYABLE);
                }
                false
            }
            Request::OutOfBand { .. } => return Err(UNSAYABLE),
            _ => false,
        };
        if needs_name && self.learnt.kvsname.is_none() {
            return Err(Misuse::WrongState { needed: "the name of the space was asked for" });
        }
        Ok(())
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
