//! Hosts on which no node server could be started, and the table of them.

use super::starter::NODE;
use std::time::Instant;

/// A host whose start is slow, and which joins the run when it comes.
#[derive(Clone, Debug)]
pub(crate) struct LateHost {
    /// Its name.
    pub(crate) name: String,
    /// Number of its slots.
    pub(crate) slots: u32,
    /// Time at which its start has begun.
    pub(crate) since: Instant,
}

/// A host without a node server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedHost {
    /// Its name.
    pub(crate) name: String,
    /// Reason, with the output of the starter in further lines.
    pub(crate) why: String,
    /// True if its start has not failed, but takes too long.
    pub(crate) is_slow: bool,
}

/// Hosts without which a run starts again.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostsLeftOut {
    /// Names of all of them.
    pub(crate) names: Vec<String>,
    /// Those that join the run when they come.
    pub(crate) late: Vec<LateHost>,
}

/// Table of hosts without a node server, after which the run is over.
pub(crate) fn failed_hosts(failed: &[FailedHost], all: usize) -> String {
    table(failed, all, ", and nothing is left running")
}

/// Table of hosts without a node server, which are left out.
pub(crate) fn hosts_left_out(failed: &[FailedHost], all: usize) -> String {
    let why = |host: &FailedHost| match host.is_slow {
        true => format!("{}; it joins the run when it comes", host.why),
        false => host.why.clone(),
    };
    let failed: Vec<FailedHost> =
        failed.iter().map(|host| FailedHost { why: why(host), ..host.clone() }).collect();
    table(&failed, all, "; the run starts on the others (--min-nodes)")
}

/// Report of a host that was slow and has failed now.
pub(crate) fn late_host_failed(failed: &FailedHost) -> String {
    let FailedHost { name, why, .. } = failed;
    let mut lines = why.lines();
    let first = lines.next().unwrap_or_default();
    let more: String = lines.map(|line| format!("\n  {line}")).collect();
    format!(
        "host '{name}', whose start was slow, cannot join the run, which continues: {first}{more}\n  \
         'pmi-host doctor --hosts {name}' checks it"
    )
}

/// Reason of a spawn for which hosts were to be added to the run.
pub(crate) fn hosts_not_added(failed: &[FailedHost]) -> String {
    let mut text = String::new();
    for FailedHost { name, why, .. } in failed {
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
    for FailedHost { name, why, .. } in failed {
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
        let failed = |name: &str, why: &str, is_slow| FailedHost {
            name: name.to_owned(),
            why: why.to_owned(),
            is_slow,
        };
        let failed =
            [failed("a", "'ssh' exited with 255\nno route", false), failed("bcd", "closed", true)];
        assert_eq!(
            failed_hosts(&failed, 3),
            "no 'node' server could be started on 2 of 3 hosts, and nothing is left running:\
             \n  a    'ssh' exited with 255\n       no route\n  bcd  closed"
        );
        let left_out = hosts_left_out(&failed, 3);
        assert!(
            left_out.ends_with("\n  bcd  closed; it joins the run when it comes"),
            "{left_out}"
        );
    }
}
