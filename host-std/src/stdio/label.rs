//! Labels in front of lines.

use super::StreamOwner;
use super::pattern::{Pattern, PatternError, PatternValues};
use crate::numbers::index;
use crate::placement::PlacedHosts;
use crate::settings::Output;
use pmi_host_base::ranges::ranges;
use pmi_host_os::clock;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Instant;

/// Labels of all ranks.
#[derive(Debug)]
pub(crate) struct Labels {
    pattern: Option<Pattern>,
    timestamps: bool,
    nodes: RankNodes,
    started: Instant,
}

/// Nodes of the ranks of a run.
#[derive(Clone, Debug)]
pub(crate) enum RankNodes {
    /// All ranks are on the node of this name.
    One(String),
    /// Ranks of each job are on several nodes; the index is the number of the job.
    Several(Rc<RefCell<Vec<Rc<PlacedHosts>>>>),
}

impl Labels {
    /// Creates the labels of `settings` for ranks on `nodes`. Time counts from now.
    pub(crate) fn new(settings: &Output, nodes: RankNodes) -> Result<Self, PatternError> {
        Ok(Self {
            pattern: settings.label.as_deref().map(Pattern::parse).transpose()?,
            timestamps: settings.timestamps,
            nodes,
            started: clock::now(),
        })
    }

    /// No labels.
    pub(crate) fn none() -> Self {
        let (nodes, started) = (RankNodes::One(String::new()), clock::now());
        Self { pattern: None, timestamps: false, nodes, started }
    }

    /// The label of a line that these ranks, in ascending order, wrote at `now`; empty if there is none.
    pub(crate) fn text(&self, group: u32, written_by: &[u32], now: Instant) -> String {
        let since = now.saturating_duration_since(self.started);
        let time = match self.timestamps {
            true => format!("{:.6} ", since.as_secs_f64()),
            false => String::new(),
        };
        match &self.pattern {
            Some(pattern) => {
                time + &self.filled_in(pattern, (group, written_by), (since.as_secs(), 0))
            }
            None => time,
        }
    }

    /// Text of `pattern` for a rank at this moment, in a job whose number of ranks has `width` digits.
    pub(crate) fn fill_in(
        &self,
        pattern: &Pattern,
        StreamOwner { group, rank }: StreamOwner,
        width: usize,
    ) -> String {
        let secs = clock::since(self.started).as_secs();
        self.filled_in(pattern, (group, &[rank]), (secs, width))
    }

    /// True if labels depend on the time, so that they must be made for each line.
    pub(crate) fn shows_time(&self) -> bool {
        self.timestamps || self.pattern.as_ref().is_some_and(Pattern::shows_time)
    }

    fn filled_in(
        &self,
        pattern: &Pattern,
        (group, of): (u32, &[u32]),
        (secs, width): (u64, usize),
    ) -> String {
        let rank = ranges(of, ",");
        let (node, host) = self.nodes.of(group, of);
        pattern.filled_in(PatternValues {
            rank: &rank,
            width,
            group,
            node: &node,
            host: &host,
            secs,
        })
    }
}

impl RankNodes {
    /// Nodes of the ranks of the first job.
    pub(crate) fn several(first: &Rc<PlacedHosts>) -> Self {
        Self::Several(Rc::new(RefCell::new(vec![Rc::clone(first)])))
    }

    /// Adds the places of the next job.
    pub(crate) fn add_job(&self, placed: &Rc<PlacedHosts>) {
        if let Self::Several(jobs) = self {
            jobs.borrow_mut().push(Rc::clone(placed));
        }
    }

    /// Numbers and names of the nodes of these ranks of a job.
    fn of(&self, group: u32, of: &[u32]) -> (String, String) {
        match self {
            Self::One(host) => ("0".to_owned(), host.clone()),
            Self::Several(jobs) => {
                let jobs = jobs.borrow();
                let Some(placed) = jobs.get(index(group)) else { return Default::default() };
                let nodes = of.iter().filter_map(|rank| placed.map.node_of(*rank));
                let nodes: Vec<u32> = BTreeSet::from_iter(nodes).into_iter().collect();
                let host = |node: &u32| placed.hosts.get(usize::try_from(*node).ok()?);
                let hosts: Vec<&str> = nodes.iter().filter_map(host).map(String::as_str).collect();
                (ranges(&nodes, ","), hosts.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::tests::placed;
    use std::time::Duration;

    fn label(label: Option<&str>, timestamps: bool) -> String {
        let settings = Output { label: label.map(str::to_owned), timestamps, ..Output::default() };
        let labels = Labels::new(&settings, RankNodes::One("node1".to_owned())).unwrap();
        assert_eq!(labels.shows_time(), timestamps);
        labels.text(1, &[7], labels.started + Duration::from_millis(12_345))
    }

    #[test]
    fn time_stands_before_the_rank() {
        assert_eq!(label(None, false), "");
        assert_eq!(label(Some("[%r] "), false), "[7] ");
        assert_eq!(label(Some("%h:%g "), true), "12.345000 node1:1 ");
    }

    #[test]
    fn nodes_of_several_ranks_are_named_once() {
        let settings = Output { label: Some("%r %p %h".to_owned()), ..Output::default() };
        let nodes = RankNodes::several(&Rc::new(placed("a:2,b:1,c:1", 4)));
        let labels = Labels::new(&settings, nodes).unwrap();
        let text = |written_by: &[u32]| labels.text(0, written_by, clock::now());
        assert_eq!((text(&[1]), text(&[0, 1, 3])), ("1 0 a".into(), "0-1,3 0,2 a,c".into()));
    }
}
