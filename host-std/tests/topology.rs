//! Hardware of a machine, as `pmi-host topology` shows it.

use crate::common::{Ran, host, run};
use pmi_host_base::ranges::ranges;
use pmi_host_hardware::described::machines;
use pmi_host_hardware::hwloc::HwlocVersion;
use pmi_host_hardware::model::NodeHardware;
use std::fs;
use std::path::Path;
use std::process::Command;

fn topology_of(file: &Path, form: &str) -> Ran {
    run(host(["topology", "--of", form, "--topology"]).arg(file))
}

/// Numbers of the processors in the system, in the order of the text.
fn processors(text: &str) -> Vec<u32> {
    let pieces = text.split("PU L#").skip(1);
    let numbers = pieces.filter_map(|piece| piece.split("P#").nth(1)?.split(')').next());
    numbers.map(|number| number.parse().unwrap()).collect()
}

#[test]
fn own_machine_agrees_with_the_system_and_with_lstopo() {
    let shown = run(&mut host(["topology"])).exits_with(0);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let mut all = processors(&shown.out);
    all.sort_unstable();
    assert_eq!(ranges(&all, ","), allowed.trim());
    // The tool of hwloc is no peer, and only compared with where it is installed.
    let words = ["--of", "console"];
    let Ok(theirs) = Command::new("lstopo-no-graphics").args(words).output() else { return };
    let theirs = String::from_utf8(theirs.stdout).unwrap();
    assert_eq!(processors(&shown.out), processors(&theirs));
    for word in ["Package L#", "NUMANode", "Core L#", "L1d L#", "L2 L#", "L3 L#", "PCI "] {
        assert_eq!(shown.out.matches(word).count(), theirs.matches(word).count(), "{word}");
    }
}

#[test]
fn processors_that_may_not_be_used_are_named() {
    let one = processors(&run(&mut host(["topology"])).out)[0];
    let mut command = Command::new("taskset");
    command.args(["-c", &one.to_string()]).arg(crate::common::host_path()).arg("topology");
    let ran = run(&mut command).exits_with(0);
    assert_eq!(processors(&ran.out), [one], "{}", ran.out);
    if std::thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
        ran.says(&["are left out by the control group, or the affinity"]);
    }
}

#[test]
fn described_machines_are_shown_and_written() {
    let directory = tempfile::tempdir().unwrap();
    for (name, machine) in machines() {
        let file = directory.path().join(format!("{name}.xml"));
        for version in [HwlocVersion::V2, HwlocVersion::V1] {
            let text = machine.hwloc(version);
            fs::write(&file, &text).unwrap();
            let expected = NodeHardware::of_hwloc(&text).unwrap();
            let console = topology_of(&file, "console").exits_with(0).says_nothing();
            assert_eq!(console.out, expected.console(), "{name} {version:?}");
            let form = if version == HwlocVersion::V2 { "xml" } else { "xml1" };
            let written = topology_of(&file, form).exits_with(0).says_nothing();
            assert_eq!(NodeHardware::of_hwloc(&written.out), Ok(expected), "{name} {version:?}");
        }
    }
}

#[test]
fn files_that_describe_no_machine_are_refused_with_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let file = directory.path().join(name);
        fs::write(&file, text).unwrap();
        file
    };
    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let entities =
        "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><topology>&b;</topology>";
    let cases = [
        (directory.path().join("missing"), "it cannot be read (No such file"),
        (directory.path().to_owned(), "it cannot be read (it is not a regular file)"),
        (pipe, "it cannot be read (it is not a regular file)"),
        ("/dev/zero".into(), "it cannot be read (it is not a regular file)"),
        (file("empty", ""), "it describes no machine (line 1:"),
        (file("list", "0-3\n"), "it describes no machine (line 2:"),
        (file("entities", entities), "it describes no machine (line 1:"),
        (file("nested", &"<a>".repeat(1_000_000)), "it describes no machine (line 1:"),
        (
            file("broken", "<topology version=\"2.0\"><object type=\"Machine\""),
            "describes no machine",
        ),
        (file("empty-machine", "<topology version=\"2.0\"></topology>"), "describes no machine"),
    ];
    for (file, sentence) in cases {
        topology_of(&file, "console").exits_with(2).says(&["'--topology ", sentence]);
    }
    run(&mut host(["topology", "--of", "fig"])).exits_with(2).says(&["--of"]);
    run(&mut host(["topology", "host1"])).exits_with(2);
}
