//! Monitors of files: ranks announce that a file changes as long as they live.
//!
//! A file system may not answer, so each file is looked at in a thread of its own, which may block
//! indefinitely; its monitor then reports nothing, and the run is unaffected.

use super::pmix::PmixRequests;
use crate::report;
use crate::server::pmix::monitor::{FileMonitor, MonitorRequest};
use pmi_core::ids::{JobId, SessionId};
use pmi_core::wire::pmix::names::Status;
use pmi_host_os::poller::{Interest, Poller, Token};
use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

/// All monitors of files.
#[derive(Debug)]
pub(super) struct FileMonitors {
    all: Vec<ActiveMonitor>,
    started_count: u64,
    /// Numbers of monitors whose files show no sign of life.
    alerts: (Sender<u64>, Receiver<u64>),
    /// A byte for each alert: written by threads, read by the event loop.
    wake: Option<(UnixStream, UnixStream)>,
}

/// A monitor whose thread runs.
#[derive(Debug)]
struct ActiveMonitor {
    number: u64,
    session: SessionId,
    /// Job and rank.
    by: (JobId, u32),
    monitor: FileMonitor,
    /// The thread ends with it.
    _end: Sender<Infallible>,
}

impl Default for FileMonitors {
    fn default() -> Self {
        Self { all: Vec::new(), started_count: 0, alerts: channel(), wake: None }
    }
}

impl FileMonitors {
    /// Starts a monitor for a session of a rank.
    fn start(
        &mut self,
        (session, by): (SessionId, (JobId, u32)),
        monitor: FileMonitor,
        poller: &Poller,
    ) -> io::Result<()> {
        self.all
            .retain(|one| (one.session, one.by) != (session, by) || one.monitor.id != monitor.id);
        if self.all.len() >= MONITORS_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        if self.wake.is_none() {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            poller.add(Token::FileAlert, &read, Interest::Read)?;
            self.wake = Some((read, write));
        }
        let wake = self.wake.as_ref().map(|(_, write)| write.try_clone()).transpose()?;
        self.started_count += 1;
        let (number, to) = (self.started_count, self.alerts.0.clone());
        let alert = move || {
            // The receiver is gone if the launcher ends.
            let _ = to.send(number);
            let _ = wake.as_ref().map(|mut wake| wake.write_all(b"f"));
        };
        let (end, ended) = channel();
        let of_thread = monitor.clone();
        let thread = thread::Builder::new().name("file".into()).stack_size(STACK);
        thread.spawn(move || watch(&of_thread, &ended, alert))?;
        self.all.push(ActiveMonitor { number, session, by, monitor, _end: end });
        Ok(())
    }

    fn cancel(&mut self, session: SessionId, id: Option<&[u8]>) {
        let is_meant = |one: &ActiveMonitor| id.is_none_or(|id| one.monitor.id == id);
        self.all.retain(|one| one.session != session || !is_meant(one));
    }

    /// The next monitor whose file shows no sign of life.
    fn next_alert(&mut self) -> Option<&ActiveMonitor> {
        if let Some((read, _)) = &self.wake {
            let mut byte = [0];
            let _ = { read }.read(&mut byte);
        }
        // A monitor may have ended meanwhile.
        let number = self.alerts.1.try_recv().ok()?;
        self.all.iter().find(|one| one.number == number)
    }
}

/// Starts or ends monitors of a session of a rank.
pub(super) fn handle_request(
    run: &mut PmixRequests<'_>,
    (session, by): (SessionId, (JobId, u32)),
    request: MonitorRequest,
) -> Status {
    let monitors = &mut run.processes.file_monitors;
    let mut monitor = match request {
        MonitorRequest::Start(monitor) => monitor,
        MonitorRequest::Cancel(id) => {
            monitors.cancel(session, id.as_deref());
            return Status::SUCCESS;
        }
    };
    // Those of sessions that were closed have room for others.
    let calls = run.service.pmix_calls();
    monitors.all.retain(|one| calls.is_of(one.session, one.by));
    let process = run.jobs.process_of(by.0, by.1);
    let Some(process) = process.and_then(|number| run.processes.get(number)) else {
        // A tool has no process that the launcher knows.
        return Status::NOT_SUPPORTED;
    };
    match std::fs::read_link(format!("/proc/{}/cwd", process.pid)) {
        Ok(directory) => monitor.path = directory.join(monitor.path),
        Err(_) if monitor.path.is_absolute() => {}
        Err(_) => return Status::BAD_PARAM,
    }
    match run.processes.file_monitors.start((session, by), monitor, run.poller) {
        Ok(()) => Status::SUCCESS,
        Err(_) => Status::OUT_OF_RESOURCE,
    }
}

/// Reports a rank whose file shows no sign of life, unless it has ended meanwhile.
pub(super) fn handle_alert(run: &mut PmixRequests<'_>) {
    let Some(ActiveMonitor { session, by, monitor, number, .. }) =
        run.processes.file_monitors.next_alert()
    else {
        return;
    };
    let (session, (job, rank), number, code) = (*session, *by, *number, monitor.code);
    let (path, secs) = (monitor.path.clone(), monitor.silence().as_secs());
    if !run.service.pmix_calls().is_of(session, (job, rank)) {
        run.processes.file_monitors.all.retain(|one| one.number != number);
        return;
    }
    let Some(plan) = run.jobs.plan(job) else { return };
    let process = run.jobs.process_of(job, rank);
    let pid = process.and_then(|number| run.processes.get(number)).map(|one| one.pid);
    run.io.report(report::without_change(plan, (rank, pid), (&path, secs), code));
    run.service.pmix_notifier().notify_silent(job, rank, code);
}

/// Looks at a file until the monitor has ended, and calls `alert` once for each time without signs of life.
fn watch(monitor: &FileMonitor, ended: &Receiver<Infallible>, alert: impl Fn()) {
    let mut last = monitor.signs.of_file(&monitor.path);
    let mut missed = 0_u32;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(monitor.every) {
        let now = monitor.signs.of_file(&monitor.path);
        missed = if now == last { missed.saturating_add(1) } else { 0 };
        last = now;
        if missed == monitor.drops {
            alert();
        }
    }
}

/// Upper bound of the number of monitors of a launcher, each of which has a thread.
const MONITORS_MAX: usize = 64;

/// Stack of a thread, which makes one system call after another.
const STACK: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::pmix::monitor::SignsOfLife;
    use pmi_host_os::clock;
    use std::time::Duration;

    #[test]
    fn file_that_never_changes_is_reported_once_until_its_monitor_ends() {
        let (mut monitors, mut poller) = (FileMonitors::default(), Poller::new().unwrap());
        let monitor = |id: &[u8]| FileMonitor {
            path: "/no/such/file".into(),
            signs: SignsOfLife { size: true, access: false, modification: false },
            every: Duration::from_millis(1),
            drops: 2,
            id: id.to_vec(),
            code: Status(-110),
        };
        let by = (JobId(0), 1);
        monitors.start((SessionId(4), by), monitor(b"one"), &poller).unwrap();
        let mut ready = Vec::new();
        let until = clock::now() + Duration::from_secs(60);
        // A signal for another test may interrupt it.
        while ready.is_empty() && clock::now() < until {
            poller.wait(Some(until), &mut ready).unwrap();
        }
        assert_eq!(ready, [Token::FileAlert]);
        assert_eq!(monitors.next_alert().map(|one| one.by), Some(by));
        // It ends with its name, and with one that replaces it.
        monitors.cancel(SessionId(5), Some(b"one"));
        monitors.cancel(SessionId(4), Some(b"two"));
        assert_eq!(monitors.all.len(), 1);
        monitors.start((SessionId(4), by), monitor(b"one"), &poller).unwrap();
        assert_eq!(monitors.all.iter().map(|one| one.number).collect::<Vec<_>>(), [2]);
        monitors.cancel(SessionId(4), None);
        assert_eq!(monitors.all.len(), 0);
        for _ in 0..MONITORS_MAX {
            monitors.start((SessionId(6), by), monitor(b""), &poller).unwrap();
            monitors.all.iter_mut().for_each(|one| one.monitor.id = b"kept".to_vec());
        }
        assert!(monitors.start((SessionId(6), by), monitor(b""), &poller).is_err());
    }
}
