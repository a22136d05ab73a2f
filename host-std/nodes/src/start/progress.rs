//! Progress of the start of node servers, also on the terminal of a user who waits for it.

use super::GATHERING;
use crate::failed_host::FailedHost;
use pmi_host_os::clock;
use pmi_host_os::stream::Stream;
use pmi_host_os::target::Target;
use rustix::termios::isatty;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

/// Nodes that have come so far.
#[derive(Debug)]
pub(super) struct PresentNodes {
    /// Nodes that have connected.
    pub(super) joined: BTreeSet<u32>,
    /// True for nodes that are in the tree, from node 1 on.
    pub(super) attached: Vec<bool>,
    /// True once all nodes of the start were in the tree.
    pub(super) is_complete: bool,
}

impl PresentNodes {
    /// None of this many nodes.
    pub(super) fn new(count: usize) -> Self {
        Self { joined: BTreeSet::new(), attached: vec![false; count], is_complete: false }
    }
}

/// Starts that have failed and are not reported.
#[derive(Debug, Default)]
pub(super) struct FailedStarts {
    /// Reason, by node.
    pub(super) reasons: BTreeMap<u32, String>,
    /// Those of them that have not failed, but take too long.
    slow: BTreeSet<u32>,
    /// Time of the first one.
    pub(super) since: Option<Instant>,
    /// True if they are reported when all others have succeeded or failed, and not after a short time.
    pub(super) is_patient: bool,
}

impl FailedStarts {
    /// Adds a node without a node server. The first reason counts.
    pub(super) fn note(&mut self, node: u32, why: String) {
        self.reasons.entry(node).or_insert(why);
        self.since.get_or_insert_with(clock::now);
    }

    /// Adds a node whose node server has not connected in time.
    pub(super) fn note_slow(&mut self, node: u32) {
        if !self.reasons.contains_key(&node) {
            self.slow.insert(node);
            self.note(node, LATE.to_owned());
        }
    }

    /// Takes all of them out, with the names of their hosts.
    pub(super) fn take(&mut self, name: impl Fn(u32) -> String) -> Vec<FailedHost> {
        self.since = None;
        let slow = std::mem::take(&mut self.slow);
        let of = |(node, why)| FailedHost { name: name(node), why, is_slow: slow.contains(&node) };
        std::mem::take(&mut self.reasons).into_iter().map(of).collect()
    }

    /// Time at which they are reported in any case.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.since.filter(|_| !self.is_patient).map(|first| first + GATHERING)
    }
}

/// A line with the number of hosts that have joined, which each new one replaces.
#[derive(Debug)]
pub(super) struct StartProgress {
    terminal: Target,
    hosts_count: usize,
    /// Number of hosts in the line; `None` if there is none.
    shown: Option<usize>,
    /// Earliest time of the next line.
    next: Instant,
}

impl StartProgress {
    /// Progress of several hosts from `now` on, if standard error is a terminal.
    pub(super) fn new(hosts_count: usize, now: Instant) -> Option<Self> {
        let is_shown = hosts_count > 1 && isatty(io::stderr());
        let of = |terminal| Self { terminal, hosts_count, shown: None, next: now + PATIENCE };
        is_shown.then(|| of(Target::ours(Stream::Err)))
    }

    /// Shows the number of hosts that have joined, if it is time.
    pub(super) fn show(&mut self, joined: usize, now: Instant) {
        if now < self.next || self.shown == Some(joined) {
            return;
        }
        let line = line(joined, self.hosts_count);
        // A line that the terminal does not take is replaced by the next one.
        let _ = self.terminal.write(line.as_bytes());
        self.shown = Some(joined);
        self.next = now + PAUSE;
    }

    /// Removes the line, for other output.
    pub(super) fn clear(&mut self, now: Instant) {
        if self.shown.take().is_some() {
            let _ = self.terminal.write(CLEAR.as_bytes());
            self.next = now + PAUSE;
        }
    }

    /// Time of the next line, while a start with this number of hosts goes on.
    pub(super) fn deadline(&self, joined: usize) -> Option<Instant> {
        (self.shown != Some(joined)).then_some(self.next)
    }
}

impl Drop for StartProgress {
    fn drop(&mut self) {
        self.clear(self.next);
    }
}

fn line(joined: usize, all: usize) -> String {
    format!("{CLEAR}pmi-host: {joined} of {all} hosts have joined the run")
}

/// Reason of a node without a connection.
const LATE: &str = "has not connected within the time limit of the start (--start-timeout); a firewall may \
                    be between";

/// Returns to the start of the line, and empties it.
const CLEAR: &str = "\r\x1b[K";

/// Time of a start that needs no explanation.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two lines.
const PAUSE: Duration = Duration::from_millis(100);
