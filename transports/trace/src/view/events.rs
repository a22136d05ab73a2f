//! Everything that is no message, as a sentence.

use crate::record::Content;

/// An event, as the predicate of a sentence about its rank.
pub(super) fn sentence(what: &Content) -> Option<String> {
    Some(match what {
        Content::Message { .. } => return None,
        Content::Connected { from: None } => "connected".into(),
        Content::Connected { from: Some(from) } => format!("connected from {from}"),
        Content::Closed => "connection closed".into(),
        Content::Started { pid, host } => format!("started as pid {pid} on {host}"),
        Content::Exited { code } => format!("exited with {code}"),
        Content::Killed { signal } => format!("was terminated by signal {signal}"),
        Content::Spawned(facts) => {
            format!("job {} was spawned: {} ranks, space {}", facts.job, facts.ranks, facts.name)
        }
        Content::Report { text } => text.clone(),
        Content::Lost { count } => format!("{count} records are missing here"),
        Content::Ended { code } => format!("the run ended with {code}"),
    })
}
