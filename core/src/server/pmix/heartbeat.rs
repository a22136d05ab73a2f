//! Heartbeat monitors: processes that send heartbeats, and the event when one is overdue.

use crate::time::{Duration, Instant};
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::{Info, List};

/// A heartbeat monitor requested with `PMIX_MONITOR_HEARTBEAT`.
#[derive(Clone, Debug)]
struct HeartbeatMonitor {
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

/// The heartbeat monitors of one peer.
#[derive(Debug)]
pub(super) struct HeartbeatMonitors {
    all: heapless::Vec<HeartbeatMonitor, HEARTBEATS_MAX>,
    /// True once the owner was asked for a file monitor, which it may have to cancel.
    has_file_monitors: bool,
}

/// An overdue heartbeat.
pub(super) struct OverdueHeartbeat {
    /// Event code for other processes.
    pub(super) code: Status,
    /// Length of the interval.
    pub(super) after: Duration,
}

impl HeartbeatMonitors {
    pub(super) const fn new() -> Self {
        Self { all: heapless::Vec::new(), has_file_monitors: false }
    }

    /// Handles a monitoring request: starts or cancels a heartbeat monitor. `None` for a request that the
    /// owner handles, about a file monitor.
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        what: &Info<'_>,
        code: i32,
        infos: &List<'_>,
    ) -> Option<Status> {
        let cancelled = match what.key {
            keys::MONITOR_CANCEL => Some(what.value.text()),
            _ => infos.find(keys::MONITOR_CANCEL).map(|value| value.text()),
        };
        if let Some(id) = cancelled {
            self.all.retain(|monitor| id.is_some_and(|id| monitor.id != id));
            return (!self.has_file_monitors).then_some(Status::SUCCESS);
        }
        match what.key {
            keys::MONITOR_HEARTBEAT => Some(self.start(now, what, code, infos)),
            keys::MONITOR_FILE => {
                self.has_file_monitors = true;
                None
            }
            _ => Some(Status::NOT_SUPPORTED),
        }
    }

    fn start(&mut self, now: Instant, what: &Info<'_>, code: i32, infos: &List<'_>) -> Status {
        let number = |key: &[u8]| infos.find(key).and_then(|value| value.number());
        let every = number(keys::MONITOR_HEARTBEAT_TIME).and_then(|secs| u32::try_from(secs).ok());
        let drops = number(keys::MONITOR_HEARTBEAT_DROPS).map_or(Ok(1), u32::try_from);
        let id = infos.find(keys::MONITOR_ID).and_then(|value| value.text()).unwrap_or(b"");
        let (Some(every @ 1..), Ok(drops), Ok(id), true) =
            (every, drops, heapless::Vec::from_slice(id), what.value.is_true())
        else {
            return Status::BAD_PARAM;
        };
        let after = Duration::from_secs(u64::from(every) * u64::from(drops.max(1)));
        let monitor = HeartbeatMonitor { id, code, after, last_heartbeat: now, is_reported: false };
        // A monitor with the same id is replaced.
        self.all.retain(|known| known.id != monitor.id);
        match self.all.push(monitor) {
            Ok(()) => Status::SUCCESS,
            Err(_) => Status::OUT_OF_RESOURCE,
        }
    }

    /// Records a heartbeat of the peer.
    pub(super) fn record(&mut self, now: Instant) {
        for monitor in &mut self.all {
            (monitor.last_heartbeat, monitor.is_reported) = (now, false);
        }
    }

    /// Earliest time at which a heartbeat is overdue.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let waiting = self.all.iter().filter(|monitor| !monitor.is_reported);
        waiting.map(HeartbeatMonitor::due).min()
    }

    /// The first overdue heartbeat, once.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Option<OverdueHeartbeat> {
        let mut all = self.all.iter_mut();
        let late = all.find(|monitor| !monitor.is_reported && monitor.due() <= now)?;
        late.is_reported = true;
        Some(OverdueHeartbeat { code: Status(late.code), after: late.after })
    }
}

impl HeartbeatMonitor {
    const fn due(&self) -> Instant {
        self.last_heartbeat.plus(self.after)
    }
}

/// Upper bound of the length of monitor ids, longer than those in use.
const ID_BYTES: usize = 64;

/// Upper bound of the number of heartbeat monitors of one peer.
const HEARTBEATS_MAX: usize = 4;
