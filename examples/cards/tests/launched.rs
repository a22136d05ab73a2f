//! The example under the launcher, in each of its three forms.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The launcher, built beside the example if it is not there yet.
fn launcher() -> PathBuf {
    let launcher = Path::new(env!("CARGO_BIN_EXE_pmi-cards")).with_file_name("pmi-host");
    if !launcher.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        let built = cargo.args(["build", "--package", "pmi-host"]).status().unwrap();
        assert!(built.success());
    }
    launcher
}

#[test]
fn ranks_read_all_cards_in_each_form() {
    let launcher = launcher();
    for (options, form) in [(&[][..], ""), (&[], "async"), (&["--pmi", "x"], "pmix")] {
        let mut command = Command::new(&launcher);
        command.arg("run").args(options).args(["-n", "3", env!("CARGO_BIN_EXE_pmi-cards")]);
        command.args((!form.is_empty()).then_some(form)).stdin(Stdio::null());
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{form}: {errors}");
        let output = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<&str> = output.lines().collect();
        lines.sort_unstable();
        let pairs = (0..3).flat_map(|rank| (0..3).map(move |peer| (rank, peer)));
        let expected: Vec<String> = pairs
            .map(|(rank, peer)| format!("rank {rank} of 3: card-{peer} = rank-{peer}@linux"))
            .collect();
        assert_eq!(lines, expected, "{form}: {errors}");
    }
}
