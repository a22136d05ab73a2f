//! Connections that an `sshd` refuses since others are being opened (`MaxStartups`): the starter is executed
//! again.

use std::time::Duration;

/// Exit code of `ssh` for errors of its own.
pub(super) const SSH_ERROR: i32 = 255;

/// Times after which a refused starter is executed again.
pub(super) const RETRIES: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// True if `output`, that of a starter, says that the connection ended before the host has identified itself,
/// and gives no reason that lasts: a name, an address, a key or an account.
pub(super) fn is_passing(output: &str) -> bool {
    let is_unidentified = |line: &str| {
        let line = line.to_ascii_lowercase();
        let is_exchange = EXCHANGES.iter().any(|exchange| line.contains(exchange));
        is_exchange && ENDS.iter().any(|end| line.contains(end))
    };
    let lasts = |line: &str| {
        let line = line.to_ascii_lowercase();
        LASTING.iter().any(|reason| line.contains(reason))
    };
    output.lines().any(is_unidentified) && !output.lines().any(lasts)
}

/// Sentence about a starter that was refused at each of `count` attempts.
pub(super) fn shown(count: usize) -> String {
    format!(
        " in each of {count} attempts: the host refuses connections; raise MaxStartups of its sshd, or start \
         fewer runs at the same time"
    )
}

/// Steps of OpenSSH before keys and accounts matter.
const EXCHANGES: [&str; 3] =
    ["kex_exchange_identification", "ssh_exchange_identification", "banner exchange"];

const ENDS: [&str; 3] = ["connection reset", "connection closed", "closed by remote host"];

/// Reasons of another `ssh`, to a host on the way, whose end looks like a refusal.
const LASTING: [&str; 8] = [
    "permission denied",
    "could not resolve",
    "host key verification failed",
    "too many authentication failures",
    "connection refused",
    "no route to host",
    "timed out",
    "not allowed",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_that_ends_before_the_host_is_known_passes() {
        for output in [
            "kex_exchange_identification: read: Connection reset by peer\n\
             Connection reset by 10.77.0.1 port 22",
            "kex_exchange_identification: Connection closed by remote host\r",
            "ssh_exchange_identification: Connection closed by remote host",
            "some advice of the site\nkex_exchange_identification: Connection closed by remote host",
        ] {
            assert!(is_passing(output), "{output}");
        }
    }

    #[test]
    fn reasons_that_last_are_final() {
        for output in [
            "",
            "Connection closed by 10.77.0.1 port 22",
            "me@n1: Permission denied (publickey).",
            "ssh: Could not resolve hostname n1: Name or service not known",
            "Host key verification failed.",
            "ssh: connect to host n1 port 22: Connection refused",
            "me@gate: Permission denied (publickey).\n\
             kex_exchange_identification: Connection closed by remote host",
            "ssh: Could not resolve hostname gate: Name or service not known\n\
             kex_exchange_identification: Connection closed by remote host",
        ] {
            assert!(!is_passing(output), "{output}");
        }
    }
}
