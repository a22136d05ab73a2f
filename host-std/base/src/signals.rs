//! Signals by the names and numbers that ranks use.

/// True for the name of a signal, with or without `SIG`, or its number.
///
/// The signals from 32 on have numbers only and are reserved in part; a rank cannot request them.
pub(crate) fn is_known(name: &str) -> bool {
    if let Ok(number) = name.parse::<usize>() {
        return (1..=NAMES.len()).contains(&number);
    }
    NAMES.contains(&name.strip_prefix("SIG").unwrap_or(name))
}

/// The names in the order of their numbers, from 1.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for known in ["SIGUSR1", "USR1", "10", "SIGSTOP", "SIGIO", "31"] {
            assert!(is_known(known), "{known}");
        }
        for none in ["SIG", "", "usr1", "SIGFOO", "0", "-1", "32", "SIGRTMIN", "NONE"] {
            assert!(!is_known(none), "{none}");
        }
    }
}
