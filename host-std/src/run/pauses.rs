//! Silent nodes: paused ones, whose hosts answer and whose node servers do not, since they are stopped, and
//! those whose hosts are silent, too.

use super::Run;
use super::trace;
use crate::report;
use crate::verdict::SilentNode;
use pmi_host_os::clock;
use pmi_tree::{NodeId, Silence};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Nodes that are silent, and changes that were not reported.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    nodes: BTreeMap<NodeId, Pause>,
    /// Nodes that continue after a silence that was reported, with its duration.
    continued: Vec<(NodeId, Duration)>,
    /// Time of the next report: a batch system stops and continues all nodes of a job within a moment.
    report_at: Option<Instant>,
    /// Longest pause, after which a node is lost; unlimited if `None`.
    limit: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    silence: Silence,
    since: Instant,
    is_reported: bool,
}

/// Nodes of a report, each with the duration of its silence.
#[derive(Debug, Default, PartialEq, Eq)]
struct DuePauses {
    paused: Vec<(NodeId, Duration)>,
    cut_off: Vec<(NodeId, Duration)>,
    continued: Vec<(NodeId, Duration)>,
}

impl Pauses {
    /// No node is silent. `limit` is that of `--pause-timeout`.
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Records that a node is silent, since `since`, or continues at `now`.
    fn note(&mut self, node: NodeId, silence: Option<(Silence, Instant)>, now: Instant) {
        let is_new = match silence {
            Some((silence, since)) => {
                // A silence that is known has an earlier start.
                let known = self.nodes.get(&node).copied();
                let is_new = known.is_none_or(|pause| pause.silence != silence);
                let since = known.map_or(since, |pause| pause.since);
                if is_new {
                    self.nodes.insert(node, Pause { silence, since, is_reported: false });
                }
                is_new
            }
            None => match self.nodes.remove(&node) {
                Some(pause) if pause.is_reported => {
                    self.continued.push((node, now.saturating_duration_since(pause.since)));
                    true
                }
                _ => false,
            },
        };
        if is_new {
            self.report_at.get_or_insert(now + GATHERED_WITHIN);
        }
    }

    /// Start of the pause of a node.
    pub(super) fn since(&self, node: NodeId) -> Option<Instant> {
        self.nodes.get(&node).filter(|pause| pause.is_paused()).map(|pause| pause.since)
    }

    /// True if a node is silent, and the user knows.
    pub(super) fn is_reported(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|pause| pause.is_reported)
    }

    /// True if any node is silent.
    pub(super) fn is_any(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Forgets a node that is lost.
    pub(super) fn remove_node(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// Time of the next report, or of the next loss.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let paused = self.nodes.values().filter(|pause| pause.is_paused());
        let first = paused.map(|pause| pause.since).min();
        let loss_at = first.zip(self.limit).map(|(since, limit)| since + limit);
        self.report_at.into_iter().chain(loss_at).min()
    }

    /// Nodes that are paused for longer than the limit.
    pub(super) fn over_limit(&self, now: Instant) -> Vec<NodeId> {
        let is_over = |pause: &Pause| {
            pause.is_paused() && self.limit.is_some_and(|limit| now >= pause.since + limit)
        };
        let over = self.nodes.iter().filter(|(_, pause)| is_over(pause));
        over.map(|(node, _)| *node).collect()
    }

    /// Nodes whose silence was not reported, and those that continue after a report.
    fn take_due(&mut self, now: Instant) -> DuePauses {
        let mut due = DuePauses::default();
        if self.report_at.take_if(|at| now >= *at).is_none() {
            return due;
        }
        due.continued = std::mem::take(&mut self.continued);
        for (node, pause) in self.nodes.iter_mut().filter(|(_, pause)| !pause.is_reported) {
            pause.is_reported = true;
            let of_kind = if pause.is_paused() { &mut due.paused } else { &mut due.cut_off };
            of_kind.push((*node, now.saturating_duration_since(pause.since)));
        }
        due
    }
}

impl Pause {
    /// True if the host of the node answers.
    fn is_paused(&self) -> bool {
        self.silence == Silence::Process
    }
}

/// Handles the silence of a node, or its end. A node that notices one has waited before.
pub(super) fn note(run: &mut Run, node: NodeId, silence: Option<Silence>) {
    if run.nodes.get(node).is_none_or(|state| state.is_lost) {
        return;
    }
    let now = clock::now();
    let since = now.checked_sub(run.link.paused_after()).unwrap_or(now);
    run.reports.pauses.note(node, silence.map(|silence| (silence, since)), now);
    // Time in which ranks were stopped, or out of reach, is no time in which they made no progress.
    run.reports.excuse_stall();
}

/// Reports pauses and their ends, when that is due.
pub(super) fn check(run: &mut Run, now: Instant) {
    let due = run.reports.pauses.take_due(now);
    if run.ending.is_leaving() {
        return;
    }
    let described = |nodes: Vec<(NodeId, Duration)>| -> Vec<SilentNode> {
        let of = |(node, lasts): (NodeId, Duration)| {
            let host = run.nodes.get(node)?.host.clone();
            Some(SilentNode { host, ranks: run.nodes.ranks(node, 0), lasts })
        };
        nodes.into_iter().filter_map(of).collect()
    };
    let size = run.plan(0).ranks;
    let lines = [
        report::paused(&described(due.paused), size),
        report::cut_off(&described(due.cut_off), size, run.link.lost_after()),
        report::continued(&described(due.continued)),
    ];
    lines.into_iter().flatten().for_each(|line| trace::report(run, line));
}

/// Delay of a report for further nodes.
const GATHERED_WITHIN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn paused(since: Instant) -> Option<(Silence, Instant)> {
        Some((Silence::Process, since))
    }

    #[test]
    fn pauses_that_begin_and_end_together_are_one_report_each() {
        let (mut pauses, now) = (Pauses::default(), clock::now());
        let [one, two, three] = [1, 2, 3].map(NodeId);
        for node in [one, two] {
            pauses.note(node, paused(now), now + 5 * SECOND);
        }
        assert_eq!(pauses.take_due(now + 5 * SECOND), DuePauses::default());
        assert!(pauses.is_any());
        // Three is not reported before it continues.
        pauses.note(three, paused(now), now + 5 * SECOND);
        pauses.note(three, None, now + 5 * SECOND);
        let due = pauses.take_due(now + 6 * SECOND);
        let both = |lasts| vec![(one, lasts), (two, lasts)];
        assert_eq!(due, DuePauses { paused: both(6 * SECOND), ..DuePauses::default() });
        assert!(pauses.deadline().is_none());
        pauses.note(one, paused(now + 7 * SECOND), now + 7 * SECOND);
        assert_eq!((pauses.since(one), pauses.deadline()), (Some(now), None));
        for node in [one, two] {
            pauses.note(node, None, now + 8 * SECOND);
        }
        let due = pauses.take_due(now + 9 * SECOND);
        assert_eq!(due, DuePauses { continued: both(8 * SECOND), ..DuePauses::default() });
        assert!(!pauses.is_any());
    }

    #[test]
    fn node_whose_host_is_silent_is_reported_apart_and_has_no_pause() {
        let (mut pauses, now) = (Pauses::new(Some(10 * SECOND)), clock::now());
        let node = NodeId(1);
        pauses.note(node, Some((Silence::Host, now)), now + 5 * SECOND);
        let due = pauses.take_due(now + 6 * SECOND);
        let cut_off = vec![(node, 6 * SECOND)];
        assert_eq!(due, DuePauses { cut_off, ..DuePauses::default() });
        assert!(pauses.is_reported(node) && pauses.since(node).is_none());
        assert_eq!(pauses.over_limit(now + 20 * SECOND), []);
        // Its host answers again.
        pauses.note(node, paused(now + 7 * SECOND), now + 7 * SECOND);
        let due = pauses.take_due(now + 8 * SECOND);
        assert_eq!(due, DuePauses { paused: vec![(node, 8 * SECOND)], ..DuePauses::default() });
        assert_eq!(pauses.over_limit(now + 20 * SECOND), [node]);
    }

    #[test]
    fn node_is_over_the_limit_when_its_own_pause_is() {
        let now = clock::now();
        let mut pauses = Pauses::new(Some(10 * SECOND));
        let [one, two] = [1, 2].map(NodeId);
        pauses.note(one, paused(now), now + 5 * SECOND);
        pauses.note(two, paused(now + 3 * SECOND), now + 8 * SECOND);
        pauses.take_due(now + 9 * SECOND);
        assert_eq!(pauses.deadline(), Some(now + 10 * SECOND));
        assert_eq!(pauses.over_limit(now + 9 * SECOND), []);
        assert_eq!(pauses.over_limit(now + 10 * SECOND), [one]);
        pauses.remove_node(one);
        assert_eq!(pauses.deadline(), Some(now + 13 * SECOND));
        pauses.note(two, None, now + 12 * SECOND);
        assert_eq!(pauses.over_limit(now + 20 * SECOND), []);
        let mut unlimited = Pauses::new(None);
        unlimited.note(one, paused(now), now);
        assert_eq!(unlimited.over_limit(now + 10_000 * SECOND), []);
    }
}
