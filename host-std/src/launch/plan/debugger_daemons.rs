//! Places of daemons of a debugger: beside the processes that they control.
//!
//! | directives | daemons of each program |
//! |---|---|
//! | `pmix.dbg.dpproc`, or none of the two | so many, or one, for each process, in the order of the processes |
//! | `pmix.dbg.dpnd` | so many for each node with a process, in the order of its first one |
//! | none of the two, and hosts or no target | as many as requested, placed as other processes |

use super::directives::{JobDirectives, RankChoice};
use super::spawn_request::SpawnRequest;

/// Cause of a refused request for daemons.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DaemonError {
    /// The job that they are to control is unknown.
    #[error("daemons of a debugger are for '{0}', which is no job of this run with such a process")]
    Target(String),
    /// Both numbers are requested.
    #[error(
        "daemons of a debugger are requested for each node and for each process; request one of them"
    )]
    Both,
    /// There are too many.
    #[error("more daemons of a debugger are requested than there are numbers for")]
    TooMany,
}

/// Nodes with numbers of processes, in the order of the ranks.
pub(crate) type NodeRuns = Vec<(u32, u32)>;

/// Sets the number of processes of each program if these are daemons of a debugger that go beside the
/// processes of a job, for which `job` returns the nodes. Returns the nodes for one program then.
pub(crate) fn place_daemons(
    request: &mut SpawnRequest,
    job: impl FnOnce(&str) -> Option<NodeRuns>,
) -> Result<Option<NodeRuns>, DaemonError> {
    let JobDirectives { are_daemons: true, target: Some((nspace, ranks)), .. } =
        &request.directives
    else {
        return Ok(None);
    };
    let (per_node, per_process) = (request.directives.per_node, request.directives.per_process);
    if per_node.is_none() && per_process.is_none() && request.names_hosts() {
        return Ok(None);
    }
    if per_node.is_some() && per_process.is_some() {
        return Err(DaemonError::Both);
    }
    let unknown = || DaemonError::Target(nspace.clone());
    let targets = chosen(&job(nspace).ok_or_else(unknown)?, *ranks);
    let runs = match per_node {
        Some(count) => beside_nodes(&targets, count),
        None => beside_processes(&targets, per_process.unwrap_or(1)),
    };
    let runs = runs.ok_or(DaemonError::TooMany)?;
    if runs.is_empty() {
        return Err(unknown());
    }
    let sum = |sum: u32, (_, count): &(u32, u32)| sum.checked_add(*count);
    let count = runs.iter().try_fold(0, sum).ok_or(DaemonError::TooMany)?;
    request.set_processes(count);
    Ok(Some(runs))
}

/// The part of the runs that these ranks make.
fn chosen(runs: &[(u32, u32)], ranks: RankChoice) -> NodeRuns {
    let RankChoice::One(rank) = ranks else { return runs.to_vec() };
    let mut first = 0_u32;
    for (node, count) in runs {
        first = first.saturating_add(*count);
        if rank < first {
            return vec![(*node, 1)];
        }
    }
    Vec::new()
}

fn beside_processes(targets: &[(u32, u32)], count: u32) -> Option<NodeRuns> {
    targets.iter().map(|(node, ranks)| Some((*node, ranks.checked_mul(count)?))).collect()
}

fn beside_nodes(targets: &[(u32, u32)], count: u32) -> Option<NodeRuns> {
    let mut runs = NodeRuns::new();
    for (node, _) in targets {
        if runs.iter().all(|(other, _)| other != node) {
            runs.push((*node, count));
        }
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places of daemons for a job with two ranks on node 1, then one on node 0 and one on node 1.
    fn placed(change: impl Fn(&mut JobDirectives)) -> Result<Option<NodeRuns>, DaemonError> {
        let mut request = SpawnRequest::default();
        request.directives.are_daemons = true;
        request.directives.target = Some(("kvs".to_owned(), RankChoice::All));
        change(&mut request.directives);
        place_daemons(&mut request, |name| (name == "kvs").then(|| vec![(1, 2), (0, 1), (1, 1)]))
    }

    #[test]
    fn daemons_go_beside_processes_or_on_their_nodes() {
        let one = Ok(Some(vec![(1, 2), (0, 1), (1, 1)]));
        assert_eq!(placed(|_| ()), one);
        assert_eq!(placed(|of| of.per_process = Some(1)), one);
        assert_eq!(placed(|of| of.per_process = Some(2)), Ok(Some(vec![(1, 4), (0, 2), (1, 2)])));
        assert_eq!(placed(|of| of.per_node = Some(3)), Ok(Some(vec![(1, 3), (0, 3)])));
        let rank = |rank: u32, of: &mut JobDirectives| {
            of.target = Some(("kvs".to_owned(), RankChoice::One(rank)));
        };
        assert_eq!(placed(|of| rank(2, of)), Ok(Some(vec![(0, 1)])));
        let target = Err(DaemonError::Target("kvs".to_owned()));
        assert_eq!(placed(|of| rank(4, of)), target);
        assert_eq!(placed(|of| of.are_daemons = false), Ok(None));
        assert_eq!(placed(|of| of.target = None), Ok(None));
    }

    #[test]
    fn daemons_of_an_unknown_job_and_too_many_are_refused() {
        let other = |of: &mut JobDirectives| {
            of.target = Some(("other".to_owned(), RankChoice::All));
        };
        assert_eq!(placed(other), Err(DaemonError::Target("other".to_owned())));
        let both = |of: &mut JobDirectives| (of.per_node, of.per_process) = (Some(1), Some(1));
        assert_eq!(placed(both), Err(DaemonError::Both));
        assert_eq!(placed(|of| of.per_node = Some(u32::MAX)), Err(DaemonError::TooMany));
        let many = |of: &mut JobDirectives| of.per_process = Some(u32::MAX);
        assert_eq!(placed(many), Err(DaemonError::TooMany));
    }
}
