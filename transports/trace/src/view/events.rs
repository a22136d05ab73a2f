//! Everything that is no message, as a sentence.

use crate::record::What;

/// An event, as the predicate of a sentence about its rank.
pub(super) fn sentence(what: &What) -> Option<String> {
    Some(match what {
        What::Message { .. } => return None,
        What::Connected { from: None } => "connected".into(),
        What::Connected { from: Some(from) } => format!("connected from {from}"),
        What::Closed => "connection closed".into(),
        What::Started { pid, host } => format!("started as pid {pid} on {host}"),
        What::Exited { code } => format!("exited with {code}"),
        What::Killed { signal } => format!("was terminated by signal {signal}"),
        What::Spawned(facts) => {
            format!("job {} was spawned: {} ranks, space {}", facts.job, facts.ranks, facts.name)
        }
        What::Told { text } => text.clone(),
        What::Lost { count } => format!("{count} records are missing here"),
        What::Ended { code } => format!("the run ended with {code}"),
    })
}
