//! Start results of single processes in the answer to a spawn: `errcodes`, a number for each, in both
//! generations.

use super::raw_connection::Reply;
use super::verdict::Finding;
use super::verdict::Verdict::{AsSpecified, Refused, Tolerated, Wrong};

/// Judges the answer to a spawn of `count` processes that can all be started.
pub(super) fn judged_good(reply: &Reply, count: usize) -> Finding {
    reply.judged(match (reply.is_good(), codes(reply)) {
        (false, _) => Refused,
        // Nearly all servers omit the codes of single processes then, and their clients take that for
        // success.
        (true, None) => AsSpecified,
        (true, Some(codes)) if codes == vec![Some(0); count] => AsSpecified,
        (true, Some(_)) => Wrong,
    })
}

/// Judges the answer to a spawn of which the processes at `good` could be started, and the others of `count`
/// cannot.
pub(super) fn judged_bad(reply: &Reply, good: &[usize], count: usize) -> Finding {
    let is_right = |codes: &[Option<i64>]| {
        let of_each = codes.iter().enumerate();
        codes.len() == count && { of_each }
            .all(|(at, code)| code.is_some_and(|code| good.contains(&at) || code != 0))
    };
    reply.judged(match (reply.is_good(), codes(reply)) {
        // The requesting client would believe that all processes run.
        (true, None) => Wrong,
        (true, Some(codes)) | (false, Some(codes)) if !is_right(&codes) => Wrong,
        (false, None) => Tolerated,
        (_, Some(_)) => AsSpecified,
    })
}

fn codes(reply: &Reply) -> Option<Vec<Option<i64>>> {
    let list = reply.text("errcodes")?;
    Some(list.split(',').map(|code| code.trim().parse().ok()).collect())
}
