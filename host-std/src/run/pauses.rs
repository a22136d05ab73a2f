//! Nodes that are paused: their hosts answer and their node servers do not, since they are stopped.

use super::Run;
use super::trace;
use crate::report;
use crate::verdict::PausedNode;
use pmi_host_os::clock;
use pmi_tree::NodeId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Nodes that are paused, and changes that were not reported.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    nodes: BTreeMap<NodeId, Pause>,
    /// Nodes that continue after a pause that was reported, with its duration.
    continued: Vec<(NodeId, Duration)>,
    /// Time of the next report: a batch system stops and continues all nodes of a job within a moment.
    report_at: Option<Instant>,
    /// Longest pause, after which a node is lost; unlimited if `None`.
    limit: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    since: Instant,
    is_reported: bool,
}

impl Pauses {
    /// No node is paused. `limit` is that of `--pause-timeout`.
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Records that a node is paused, since `since`, or continues at `now`.
    fn note(&mut self, node: NodeId, since: Option<Instant>, now: Instant) {
        let is_new = match since {
            // A pause that is known has an earlier start.
            Some(_) if self.nodes.contains_key(&node) => false,
            Some(since) => {
                self.nodes.insert(node, Pause { since, is_reported: false });
                true
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
        self.nodes.get(&node).map(|pause| pause.since)
    }

    /// True if a node is paused, and the user knows.
    pub(super) fn is_reported(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|pause| pause.is_reported)
    }

    /// True if any node is paused.
    pub(super) fn is_any(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Forgets a node that is lost.
    pub(super) fn remove_node(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// Time of the next report, or of the next loss.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let first = self.nodes.values().map(|pause| pause.since).min();
        let loss_at = first.zip(self.limit).map(|(since, limit)| since + limit);
        self.report_at.into_iter().chain(loss_at).min()
    }

    /// Nodes that are paused for longer than the limit.
    pub(super) fn over_limit(&self, now: Instant) -> Vec<NodeId> {
        let is_over = |pause: &Pause| self.limit.is_some_and(|limit| now >= pause.since + limit);
        let over = self.nodes.iter().filter(|(_, pause)| is_over(pause));
        over.map(|(node, _)| *node).collect()
    }

    /// Nodes that were not reported as paused, and those that continue after a report, with the durations.
    fn take_due(&mut self, now: Instant) -> [Vec<(NodeId, Duration)>; 2] {
        if self.report_at.take_if(|at| now >= *at).is_none() {
            return [const { Vec::new() }; 2];
        }
        let new = self.nodes.iter_mut().filter(|(_, pause)| !pause.is_reported);
        let new = new.map(|(node, pause)| {
            pause.is_reported = true;
            (*node, now.saturating_duration_since(pause.since))
        });
        [new.collect(), std::mem::take(&mut self.continued)]
    }
}

/// Handles the pause of a node, or its end. A node that notices one has waited for `--node-timeout`.
pub(super) fn note(run: &mut Run, node: NodeId, is_paused: bool) {
    if run.nodes.get(node).is_none_or(|state| state.is_lost) {
        return;
    }
    let now = clock::now();
    let since = now.checked_sub(run.link.timeout()).unwrap_or(now);
    run.reports.pauses.note(node, is_paused.then_some(since), now);
    // Time in which ranks were stopped is no time in which they made no progress.
    run.reports.excuse_stall();
}

/// Reports pauses and their ends, when that is due.
pub(super) fn check(run: &mut Run, now: Instant) {
    let [paused, continued] = run.reports.pauses.take_due(now);
    if run.ending.is_leaving() {
        return;
    }
    let described = |nodes: Vec<(NodeId, Duration)>| -> Vec<PausedNode> {
        let of = |(node, lasts): (NodeId, Duration)| {
            let host = run.nodes.get(node)?.host.clone();
            Some(PausedNode { host, ranks: run.nodes.ranks(node, 0), lasts })
        };
        nodes.into_iter().filter_map(of).collect()
    };
    let size = run.plan(0).ranks;
    let lines =
        [report::paused(&described(paused), size), report::continued(&described(continued))];
    lines.into_iter().flatten().for_each(|line| trace::report(run, line));
}

/// Delay of a report for further nodes.
const GATHERED_WITHIN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_that_begin_and_end_together_are_one_report_each() {
        let (mut pauses, now) = (Pauses::default(), clock::now());
        let [one, two, three] = [1, 2, 3].map(NodeId);
        let second = Duration::from_secs(1);
        for node in [one, two] {
            pauses.note(node, Some(now), now + 5 * second);
        }
        assert!(pauses.is_any() && pauses.take_due(now + 5 * second)[0].is_empty());
        // Three is not reported before it continues.
        pauses.note(three, Some(now), now + 5 * second);
        pauses.note(three, None, now + 5 * second);
        let [paused, continued] = pauses.take_due(now + 6 * second);
        assert_eq!(paused, [(one, 6 * second), (two, 6 * second)]);
        assert!(continued.is_empty() && pauses.deadline().is_none());
        pauses.note(one, Some(now + 7 * second), now + 7 * second);
        assert_eq!((pauses.since(one), pauses.deadline()), (Some(now), None));
        for node in [one, two] {
            pauses.note(node, None, now + 8 * second);
        }
        let [paused, continued] = pauses.take_due(now + 9 * second);
        assert!(paused.is_empty() && !pauses.is_any());
        assert_eq!(continued, [(one, 8 * second), (two, 8 * second)]);
    }

    #[test]
    fn node_is_over_the_limit_when_its_own_pause_is() {
        let (now, second) = (clock::now(), Duration::from_secs(1));
        let mut pauses = Pauses::new(Some(10 * second));
        let [one, two] = [1, 2].map(NodeId);
        pauses.note(one, Some(now), now + 5 * second);
        pauses.note(two, Some(now + 3 * second), now + 8 * second);
        pauses.take_due(now + 9 * second);
        assert_eq!(pauses.deadline(), Some(now + 10 * second));
        assert_eq!(pauses.over_limit(now + 9 * second), []);
        assert_eq!(pauses.over_limit(now + 10 * second), [one]);
        pauses.remove_node(one);
        assert_eq!(pauses.deadline(), Some(now + 13 * second));
        pauses.note(two, None, now + 12 * second);
        assert_eq!(pauses.over_limit(now + 20 * second), []);
        let mut unlimited = Pauses::new(None);
        unlimited.note(one, Some(now), now);
        assert_eq!(unlimited.over_limit(now + 10_000 * second), []);
    }
}
