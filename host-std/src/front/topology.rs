//! `pmi-host topology`: the hardware of this machine, or of one that a file describes.

use crate::cli::explain;
use crate::launch::topology::machine::{self, KnownHardware};
use clap::{Arg, Command};
use pmi_host_base::exit::{FAILED, complain, line, print, refuse, shown};
use pmi_host_base::usage::UsageError;
use pmi_host_hardware::hwloc::HwlocVersion;
use pmi_host_hardware::linux::Wanted;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Command line of `topology`.
pub(super) fn define() -> Command {
    Command::new("topology")
        .about("Show packages, caches, cores, memory and devices of this machine")
        .arg(
            Arg::new(FILE)
                .long(FILE)
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .value_hint(clap::ValueHint::FilePath)
                .help("show the machine that this XML of hwloc describes, as 'lstopo --of xml' writes it"),
        )
        .arg(
            Arg::new(FORM)
                .long(FORM)
                .value_name("FORM")
                .value_parser([CONSOLE, XML, XML_1])
                .default_value(CONSOLE)
                .hide_possible_values(true)
                .help("form: text as of lstopo (console), XML of hwloc 2 (xml) or 1 (xml1)"),
        )
}

/// Prints the hardware, and on standard error what is missing and why. Returns the exit code: 2 if the file
/// describes no machine.
pub(super) fn run(words: Vec<OsString>) -> ExitCode {
    let matches = match explain::parse(define(), words) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    let known = match matches.get_one::<PathBuf>(FILE) {
        Some(file) => match machine::of_file(file) {
            Ok(hardware) => KnownHardware { hardware, ..KnownHardware::default() },
            Err(why) => {
                let given = format!("--{FILE} {}", file.display());
                return refuse(&UsageError::Value { given, why });
            }
        },
        None => match of_this_machine() {
            Ok(known) => known,
            Err(why) => return complain(&why, FAILED),
        },
    };
    let printed = match matches.get_one::<String>(FORM).map(String::as_str) {
        Some(XML) => print(&known.hardware.hwloc(HwlocVersion::V2)),
        Some(XML_1) => print(&known.hardware.hwloc(HwlocVersion::V1)),
        _ => print(&known.hardware.console()),
    };
    let missing: String = known.missing.iter().map(line).collect();
    let _ = io::stderr().write_all(shown(&missing).as_bytes());
    printed
}

/// Adds what concerns people only: what the system does not list.
fn of_this_machine() -> Result<KnownHardware, String> {
    let mut known = machine::of_this_machine(Wanted::ALL, &|name| std::env::var(name).ok())?;
    let KnownHardware { hardware, missing, .. } = &mut known;
    if hardware.groups.is_empty() {
        missing.push("the system lists neither packages nor cores nor caches".to_owned());
    }
    if hardware.memories.is_empty() {
        missing.push("the system lists no memory domains".to_owned());
    }
    if !Path::new(PCI).exists() {
        missing.push(format!("there is no '{PCI}', and so no device"));
    }
    Ok(known)
}

const PCI: &str = "/sys/bus/pci/devices";

const FILE: &str = "topology";
const FORM: &str = "of";
const CONSOLE: &str = "console";
const XML: &str = "xml";
const XML_1: &str = "xml1";
