//! Hosts on which no node server could be started, and the table of them.

use super::starter::NODE;
use std::time::{Duration, Instant};

/// A host that joins the run when it comes: its start is slow, or has failed and is tried again.
#[derive(Clone, Debug)]
pub struct LateHost {
    /// Its name.
    pub name: String,
    /// Number of its slots.
    pub slots: u32,
    /// Time at which its start has begun.
    pub since: Instant,
    /// Number of its starts that have failed.
    failures: u32,
    /// Time of the next start; `None` while one is under way.
    retry_at: Option<Instant>,
}

impl LateHost {
    /// A host whose start is slow.
    pub const fn new(name: String, slots: u32, since: Instant) -> Self {
        Self { name, slots, since, failures: 0, retry_at: None }
    }

    /// Records a start that has failed. Returns the time until the next one, which is longer the more have
    /// failed; `None` if there is none. The first pause is `pause`.
    pub fn fail(&mut self, now: Instant, pause: Duration) -> Option<Duration> {
        let wait = pause.saturating_mul(1 << self.failures.min(STARTS_AGAIN));
        let is_last = self.failures >= STARTS_AGAIN;
        self.failures += 1;
        self.retry_at = (!is_last).then_some(now + wait);
        self.retry_at.map(|_| wait)
    }

    /// Waits once more before the next start.
    pub fn put_off(&mut self, now: Instant, pause: Duration) {
        self.retry_at = Some(now + pause);
    }

    /// Time of the next start; `None` while one is under way.
    pub const fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// True if the next start is due, once.
    pub fn takes_retry(&mut self, now: Instant) -> bool {
        self.retry_at.take_if(|at| *at <= now).is_some()
    }
}

/// Number of times that the start of a host is tried again.
const STARTS_AGAIN: u32 = 3;

/// A host without a node server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedHost {
    /// Its name.
    pub name: String,
    /// Reason, with the output of the starter in further lines.
    pub(crate) why: String,
    /// True if its start has not failed, but takes too long.
    pub is_slow: bool,
}

/// Hosts without which a run starts again.
#[derive(Clone, Debug, Default)]
pub struct HostsLeftOut {
    /// Names of all of them.
    pub names: Vec<String>,
    /// Those that join the run when they come.
    pub late: Vec<LateHost>,
}

/// Table of hosts without a node server, after which the run is over.
pub fn failed_hosts(failed: &[FailedHost], all: usize) -> String {
    table(failed, all, ", and nothing is left running")
}

/// Table of hosts without a node server, which are left out. Starts that have failed are tried again after
/// `pause`.
pub fn hosts_left_out(failed: &[FailedHost], all: usize, pause: Duration) -> String {
    let why = |host: &FailedHost| match (host.is_slow, host.why.split_once('\n')) {
        (true, _) => format!("{}; it joins the run when it comes", host.why),
        (false, None) => format!("{}{}", host.why, tried_again(pause)),
        (false, Some((first, output))) => format!("{first}{}\n{output}", tried_again(pause)),
    };
    let failed: Vec<FailedHost> =
        failed.iter().map(|host| FailedHost { why: why(host), ..host.clone() }).collect();
    table(&failed, all, "; the run starts on the others (--min-nodes)")
}

/// Report of hosts that are not in the allocation any more, without which the run starts again.
pub fn hosts_given_back(failed: &[FailedHost], all: usize) -> String {
    let names: Vec<&str> = failed.iter().map(|host| host.name.as_str()).collect();
    format!(
        "{} of {all} hosts are not in the allocation any more ({}); the run starts on the others",
        names.len(),
        names.join(", ")
    )
}

/// Report of a host that was to join the run, whose start has failed, and is tried again after `pause` or
/// not.
pub fn late_host_failed(failed: &FailedHost, pause: Option<Duration>) -> String {
    let FailedHost { name, why, .. } = failed;
    let mut lines = why.lines();
    let first = lines.next().unwrap_or_default();
    let more: String = lines.map(|line| format!("\n  {line}")).collect();
    let again = pause.map_or_else(String::new, tried_again);
    format!(
        "host '{name}' has not joined the run, which continues: {first}{again}{more}\n  \
         'pmi-host doctor --hosts {name}' checks it"
    )
}

fn tried_again(pause: Duration) -> String {
    format!("; its start is tried again in {} s", pause.as_secs_f64())
}

/// Reason of a spawn for which hosts were to be added to the run.
pub fn hosts_not_added(failed: &[FailedHost]) -> String {
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
    use pmi_host_os::clock;

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
        let left_out = hosts_left_out(&failed, 3, Duration::from_millis(1500));
        assert!(
            left_out.ends_with(
                "\n  a    'ssh' exited with 255; its start is tried again in 1.5 s\n       no route\
                 \n  bcd  closed; it joins the run when it comes"
            ),
            "{left_out}"
        );
    }

    #[test]
    fn pauses_between_starts_grow_and_their_number_is_bounded() {
        let (now, pause) = (clock::now(), Duration::from_secs(60));
        let mut host = LateHost::new("a".to_owned(), 1, now);
        assert_eq!(host.retry_at(), None);
        for factor in [1, 2, 4] {
            assert_eq!(host.fail(now, pause), Some(factor * pause));
            assert_eq!(host.retry_at(), Some(now + factor * pause));
            assert!(!host.takes_retry(now) && host.takes_retry(now + factor * pause));
            assert!(!host.takes_retry(now + factor * pause), "it is under way");
        }
        assert_eq!((host.fail(now, pause), host.retry_at()), (None, None));
    }
}
