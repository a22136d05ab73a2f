//! The help text, made from the table of options so that the two cannot differ.

use super::args::FLAGS;
use std::fmt::Write;

/// The whole help text.
pub fn text() -> String {
    let mut text = String::from(ABOUT);
    for flag in FLAGS {
        let mut names = flag.names.join(", ");
        if let Some(value) = flag.value {
            names.push(' ');
            names.push_str(value);
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {names:<24} {}", flag.help);
    }
    text.push_str(CODES);
    text
}

/// Name and version, as `--version` prints them.
pub fn version() -> String {
    format!("pmi-host {}\n", env!("CARGO_PKG_VERSION"))
}

const ABOUT: &str = "\
Starts the ranks of an MPI program on this machine and serves them PMI.

usage: pmi-host run -n N [--] PROGRAM [ARGUMENTS...]
       pmi-host run -n N          runs the built-in demo: who is where, and how fast
       pmi-host run [-n N] --listen ADDR:PORT --expect N [--secret-file FILE] [PROGRAM...]
                                  lets further ranks dial in
       pmi-host pmiid --secret-file FILE RANK
                                  prints the PMI_ID by which a rank of PMI-1 dials in with a secret
       pmi-host conform --help    checks another launcher, or a client
       pmi-host help | version

options of run:
";

const CODES: &str = "
Ranks may start others (MPI_Comm_spawn); a failure in any job that comes from this one ends all. SIGUSR1
goes to all ranks, and so does SIGUSR2, but those that listen for it on a second connection get the
message 'checkpoint' instead.

Output of the ranks comes by whole lines; rank 0 reads standard input, the others read nothing.

exit code: 0 when every rank ended well; else that of the first rank that failed, 128 + S when
signal S ended it, C after MPI_Abort(C); 127 program not found, 126 found but it cannot run,
2 wrong usage, 1 anything else.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_in_the_help_text() {
        let text = text();
        for name in FLAGS.iter().flat_map(|flag| flag.names) {
            assert!(text.contains(name), "{name}");
        }
    }
}
