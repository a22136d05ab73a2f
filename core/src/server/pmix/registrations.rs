//! Event registrations of a connection.

use super::cached_event::CACHED_MAX;
use super::collective::ListedProc;
use crate::wire::pmix::request::EventCodes;

/// Event registrations of one connection, and which cached events it has already received.
#[derive(Debug)]
pub(super) struct EventRegistrations {
    pub(super) codes: heapless::Vec<EventRegistration, REGISTRATIONS_MAX>,
    /// One bit per place of the cache: set once the event was delivered or does not match.
    delivered: [u64; CACHED_MAX.div_ceil(u64::BITS as usize)],
    /// True if events are waiting for free places of the connection.
    pub(super) is_behind: bool,
}

/// One code that a connection registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventRegistration {
    /// Event code; `None` for all.
    pub(super) code: Option<i32>,
    /// Restriction to events that affect this process, or any of this job.
    pub(super) about: Option<ListedProc>,
}

impl EventRegistrations {
    pub(super) const fn new() -> Self {
        let delivered = [0; CACHED_MAX.div_ceil(u64::BITS as usize)];
        Self { codes: heapless::Vec::new(), delivered, is_behind: false }
    }

    /// Removes the registrations of these codes.
    pub(super) fn deregister(&mut self, codes: EventCodes<'_>) {
        for code in codes {
            let code = (code != DEFAULT_HANDLER).then_some(code);
            self.codes.retain(|registration| registration.code != code);
        }
    }

    pub(super) fn is_delivered(&self, at: usize) -> bool {
        let (word, bit) = place(at);
        self.delivered.get(word).is_none_or(|word| word & bit != 0)
    }

    pub(super) fn set_delivered(&mut self, at: usize, is_delivered: bool) {
        let (word, bit) = place(at);
        if let Some(word) = self.delivered.get_mut(word) {
            *word = if is_delivered { *word | bit } else { *word & !bit };
        }
    }
}

const fn place(at: usize) -> (usize, u64) {
    (at / u64::BITS as usize, 1 << (at % u64::BITS as usize))
}

/// The code that stands for the handler of all codes.
const DEFAULT_HANDLER: i32 = i32::MIN;

/// Upper bound of the number of registrations of one peer, counted for each process of a
/// restriction.
pub(super) const REGISTRATIONS_MAX: usize = 64;
