//! Processes that say from time to time that they live, and who is told when they do not.

use super::connection::{Connection, Owed, Talk};
use super::{ConnectionId, Event, Memory, Pmix, noted_link};
use crate::storage::Slots;
use crate::time::{Duration, Instant};
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::{Info, List};

/// A process that shall be heard every so often.
#[derive(Clone, Debug)]
pub(super) struct Pulse {
    /// Its name, by which it is cancelled.
    id: heapless::Vec<u8, ID_BYTES>,
    /// What to tell when it is not heard.
    code: i32,
    /// After how long.
    after: Duration,
    heard: Instant,
    /// That it is not heard was told, and it was not heard since.
    is_told: bool,
}

impl<B: super::Block, X: Slots<super::Pending<B>>> Talk<B, X> {
    /// Expects heartbeats of the peer, or expects them no more.
    pub(super) fn monitor(
        &mut self,
        now: Instant,
        (what, code): (&Info<'_>, i32),
        infos: &List<'_>,
    ) -> Owed<B> {
        let cancelled = match what.key {
            keys::MONITOR_CANCEL => Some(what.value.text()),
            _ => infos.find(keys::MONITOR_CANCEL).map(|value| value.text()),
        };
        if let Some(id) = cancelled {
            self.pulses.retain(|pulse| id.is_some_and(|id| pulse.id != id));
            return Owed::Status(Status::SUCCESS);
        }
        if what.key != keys::MONITOR_HEARTBEAT {
            return Owed::Status(Status::NOT_SUPPORTED);
        }
        let number = |key: &[u8]| infos.find(key).and_then(|value| value.number());
        let every = number(keys::MONITOR_HEARTBEAT_TIME).and_then(|secs| u32::try_from(secs).ok());
        let drops = number(keys::MONITOR_HEARTBEAT_DROPS).map_or(Ok(1), u32::try_from);
        let id = infos.find(keys::MONITOR_ID).and_then(|value| value.text()).unwrap_or(b"");
        let (Some(every @ 1..), Ok(drops), Ok(id), true) =
            (every, drops, heapless::Vec::from_slice(id), what.value.is_true())
        else {
            return Owed::Status(Status::BAD_PARAM);
        };
        let after = Duration::from_secs(u64::from(every) * u64::from(drops.max(1)));
        let pulse = Pulse { id, code, after, heard: now, is_told: false };
        // One of the same name is another wish about the same thing.
        self.pulses.retain(|known| known.id != pulse.id);
        match self.pulses.push(pulse) {
            Ok(()) => Owed::Status(Status::SUCCESS),
            Err(_) => Owed::Status(Status::OUT_OF_RESOURCE),
        }
    }

    /// The peer has said that it lives.
    pub(super) fn beat(&mut self, now: Instant) {
        for pulse in &mut self.pulses {
            (pulse.heard, pulse.is_told) = (now, false);
        }
    }

    /// The first moment at which something is missing.
    pub(super) fn pulse_deadline(&self) -> Option<Instant> {
        self.pulses.iter().filter(|pulse| !pulse.is_told).map(Pulse::due).min()
    }
}

impl<P: Memory> Pmix<P> {
    /// Tells the owner of a peer that was not heard for as long as it was to be.
    pub(super) fn look_at_pulses(&mut self, id: ConnectionId, now: Instant) {
        let Some(Connection { talk, .. }) = self.connections.get_mut(id.0 as usize) else { return };
        // One thing at a time; the owner is about to take the other.
        let (Some((job, rank)), None) = (talk.peer, &talk.note) else { return };
        let late = talk.pulses.iter_mut().find(|pulse| !pulse.is_told && pulse.due() <= now);
        let Some(pulse) = late else { return };
        pulse.is_told = true;
        let (code, after) = (Status(pulse.code), pulse.after);
        talk.note = Some(Event::Silent { job, rank, code, after });
        self.noted.push(&mut self.connections, id.0, noted_link::<P>);
    }
}

impl Pulse {
    const fn due(&self) -> Instant {
        self.heard.plus(self.after)
    }
}

/// Longer than anybody names such a thing.
const ID_BYTES: usize = 64;
