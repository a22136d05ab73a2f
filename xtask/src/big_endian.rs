//! The tests of the core on a machine whose numbers begin with their highest byte.
//!
//! All targets that are measured or booted begin with the lowest one, so that a number which is written as
//! it is in memory would pass there. The machine is an s390x, emulated for single programs by QEMU; Debian
//! has its C library and linker.

use crate::machine::{Machine, Need};
use crate::process;
use crate::tally::Tally;
use crate::test::tally_of;
use crate::toolchain::{self, Toolchain};
use std::process::Command;

pub(crate) const TARGET: &str = "s390x-unknown-linux-gnu";

pub(crate) const NEEDS: &[Need] = &[Need::Target(TARGET), Need::BigEndian];

/// The linker, and the emulator with the directory of the libraries.
pub(crate) const LINKER: &str = "s390x-linux-gnu-gcc";
pub(crate) const EMULATOR: &str = "qemu-s390x";
const LIBRARIES: &str = "/usr/s390x-linux-gnu";

/// Tests that read and write bytes, besides those of the modules.
const TESTS: [&str; 4] = ["binary", "pmix_codec", "round_trip", "round_trip_pmi2"];

/// Runs the tests.
pub(crate) fn check(machine: &Machine) -> Tally {
    tally_of(toolchain::choose(TARGET, &machine.facts).map(|choice| {
        println!("compiler: {choice}");
        process::count_tests(&mut command(&choice))
    }))
}

/// `cargo test` with the emulator.
fn command(choice: &Toolchain) -> Command {
    let mut cargo = toolchain::cargo(choice, "test", TARGET, "std,panic_unwind", "dev");
    cargo.args(["--package", "pmi-core", "--features", "pmix", "--no-fail-fast", "--lib"]);
    cargo.args(TESTS.iter().flat_map(|test| ["--test", test]));
    // An emulated processor is slow, and the order of bytes does not depend on the case.
    cargo.env("PROPTEST_CASES", "16");
    cargo.env("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    let runner = format!("{EMULATOR} -L {LIBRARIES}");
    cargo.env("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_RUNNER", runner);
    // Faults are found on other machines; here only the results count.
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "false");
    cargo
}
