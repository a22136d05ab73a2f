//! Hosts on which no node server could be started, and the table of them.

use super::starter::NODE;

/// A host without a node server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedHost {
    /// Its name.
    pub(crate) name: String,
    /// Reason, with the output of the starter in further lines.
    pub(crate) why: String,
}

/// Table of hosts without a node server, after which the run is over.
pub(crate) fn failed_hosts(failed: &[FailedHost], all: usize) -> String {
    table(failed, all, ", and nothing is left running")
}

/// Table of hosts without a node server, which are left out.
pub(crate) fn hosts_left_out(failed: &[FailedHost], all: usize) -> String {
    table(failed, all, "; the run starts on the others (--min-nodes)")
}

/// Reason of a spawn for which hosts were to be added to the run.
pub(crate) fn hosts_not_added(failed: &[FailedHost]) -> String {
    let mut text = String::new();
    for FailedHost { name, why } in failed {
        let mut lines = why.lines();
        let first = lines.next().unwrap_or_default();
        let more: String = lines.map(|line| format!("\n  {line}")).collect();
        let separator = if text.is_empty() { "" } else { "; " };
        text.push_str(&format!(
            "{separator}host '{name}' cannot be added to the run: {first}{more}"
        ));
    }
    text.push_str("\n  'pmi-host doctor --hosts' checks hosts; name hosts of the run, or others");
    text
}

fn table(failed: &[FailedHost], all: usize, effect: &str) -> String {
    let width = failed.iter().map(|host| host.name.chars().count()).max().unwrap_or_default();
    let mut text =
        format!("no '{NODE}' server could be started on {} of {all} hosts{effect}:", failed.len());
    for FailedHost { name, why } in failed {
        for (at, line) in why.lines().enumerate() {
            let name = if at == 0 { name } else { "" };
            text.push_str(&format!("\n  {name:<width$}  {line}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_hosts_are_listed_with_the_output_of_their_starters() {
        let failed = [
            FailedHost { name: "a".to_owned(), why: "'ssh' exited with 255\nno route".to_owned() },
            FailedHost { name: "bcd".to_owned(), why: "closed".to_owned() },
        ];
        assert_eq!(
            failed_hosts(&failed, 3),
            "no 'node' server could be started on 2 of 3 hosts, and nothing is left running:\
             \n  a    'ssh' exited with 255\n       no route\n  bcd  closed"
        );
    }
}
