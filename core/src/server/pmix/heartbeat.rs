//! Heartbeat monitors: processes that send heartbeats, and the event when one is overdue.

use super::connection::{ConnState, Connection, PmixResponse};
use super::{ConnectionId, Pmix, PmixEvent, PmixStorage, event_link};
use crate::ids::ProcId;
use crate::storage::Slots;
use crate::time::{Duration, Instant};
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::{Info, List};

/// A heartbeat monitor requested with `PMIX_MONITOR_HEARTBEAT`.
#[derive(Clone, Debug)]
pub(super) struct HeartbeatMonitor {
    /// Its name, by which it is cancelled.
    id: heapless::Vec<u8, ID_BYTES>,
    /// Event code for an overdue heartbeat.
    code: i32,
    /// Interval without a heartbeat after which it is overdue.
    after: Duration,
    last_heartbeat: Instant,
    /// True if the missing heartbeat was reported, and none has arrived since.
    is_reported: bool,
}

impl<B: super::SharedBytes, X: Slots<super::PendingRequest<B>>> ConnState<B, X> {
    /// Handles a monitoring request: starts or cancels a heartbeat monitor.
    pub(super) fn monitor(
        &mut self,
        now: Instant,
        (what, code): (&Info<'_>, i32),
        infos: &List<'_>,
    ) -> PmixResponse<B> {
        let cancelled = match what.key {
            keys::MONITOR_CANCEL => Some(what.value.text()),
            _ => infos.find(keys::MONITOR_CANCEL).map(|value| value.text()),
        };
        if let Some(id) = cancelled {
            self.heartbeats.retain(|monitor| id.is_some_and(|id| monitor.id != id));
            return PmixResponse::Status(Status::SUCCESS);
        }
        if what.key != keys::MONITOR_HEARTBEAT {
            return PmixResponse::Status(Status::NOT_SUPPORTED);
        }
        let number = |key: &[u8]| infos.find(key).and_then(|value| value.number());
        let every = number(keys::MONITOR_HEARTBEAT_TIME).and_then(|secs| u32::try_from(secs).ok());
        let drops = number(keys::MONITOR_HEARTBEAT_DROPS).map_or(Ok(1), u32::try_from);
        let id = infos.find(keys::MONITOR_ID).and_then(|value| value.text()).unwrap_or(b"");
        let (Some(every @ 1..), Ok(drops), Ok(id), true) =
            (every, drops, heapless::Vec::from_slice(id), what.value.is_true())
        else {
            return PmixResponse::Status(Status::BAD_PARAM);
        };
        let after = Duration::from_secs(u64::from(every) * u64::from(drops.max(1)));
        let monitor = HeartbeatMonitor { id, code, after, last_heartbeat: now, is_reported: false };
        // A monitor with the same id is replaced.
        self.heartbeats.retain(|known| known.id != monitor.id);
        match self.heartbeats.push(monitor) {
            Ok(()) => PmixResponse::Status(Status::SUCCESS),
            Err(_) => PmixResponse::Status(Status::OUT_OF_RESOURCE),
        }
    }

    /// Records a heartbeat of the peer.
    pub(super) fn heartbeat(&mut self, now: Instant) {
        for monitor in &mut self.heartbeats {
            (monitor.last_heartbeat, monitor.is_reported) = (now, false);
        }
    }

    /// Earliest time at which a heartbeat is overdue.
    pub(super) fn heartbeat_deadline(&self) -> Option<Instant> {
        self.heartbeats
            .iter()
            .filter(|monitor| !monitor.is_reported)
            .map(HeartbeatMonitor::due)
            .min()
    }
}

impl<P: PmixStorage> Pmix<P> {
    /// Reports an overdue heartbeat of the peer to the owner.
    pub(super) fn check_heartbeats(&mut self, id: ConnectionId, now: Instant) {
        let Some(Connection { state, .. }) = self.connections.get_mut(id.0 as usize) else {
            return;
        };
        // One event at a time; the owner has not polled the previous one.
        let (Some(ProcId { job, rank }), None) = (state.peer, &state.event) else { return };
        let late = state
            .heartbeats
            .iter_mut()
            .find(|monitor| !monitor.is_reported && monitor.due() <= now);
        let Some(monitor) = late else { return };
        monitor.is_reported = true;
        let (code, after) = (Status(monitor.code), monitor.after);
        state.event = Some(PmixEvent::HeartbeatLost { job, rank, code, after });
        self.events_queue.push(&mut self.connections, id.0, event_link::<P>);
    }
}

impl HeartbeatMonitor {
    const fn due(&self) -> Instant {
        self.last_heartbeat.plus(self.after)
    }
}

/// Upper bound of the length of monitor ids, longer than those in use.
const ID_BYTES: usize = 64;
