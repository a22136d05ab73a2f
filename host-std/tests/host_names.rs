//! Names of hosts: which of them are this machine, and how those in options are looked up, by the system's
//! command `getent`, here one of the test.

mod common;
use common::listening::Host;
use common::{host, host_path, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory for `PATH` whose `getent` is this shell script.
fn getent(name: &str, script: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("getent-{name}"));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("getent");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// `pmi-host run --listen ADDRESS --expect 1`, where commands are those of the directory `path`.
fn listener(address: &str, path: &Path) -> Command {
    let mut command = host(["run", "--listen", address, "--expect", "1"]);
    command.env("PATH", path);
    command
}

/// Address that a launcher reports with `--listen ADDRESS`.
fn heard_at(address: &str, path: &Path) -> String {
    Host::start_command(listener(address, path), "PMI_PORT=").port.clone()
}

fn refused(address: &str, path: &Path, parts: &[&str]) {
    let option = format!("'--listen {address}'");
    run(&mut listener(address, path)).exits_with(1).says(&[&[option.as_str()], parts].concat());
}

#[test]
fn name_stands_for_the_first_address_that_getent_prints() {
    let answers = "[ \"$*\" = 'ahosts node7.cluster' ] || exit 2
        echo '127.0.0.3       STREAM node7.cluster'
        echo '127.0.0.3       DGRAM  '
        echo '127.0.0.4       STREAM '";
    let path = getent("answers", answers);
    let address = heard_at("node7.cluster:0", &path);
    assert!(address.starts_with("127.0.0.3:"), "{address}");
    refused("node8.cluster:0", &path, &["the name has no address", "'--listen 127.0.0.1:0'"]);
    // An option of the command is no name.
    let path = getent("options", "echo 127.0.0.3 STREAM");
    refused("-s:0", &path, &["the name has no address"]);
}

#[test]
fn addresses_and_localhost_need_no_command() {
    let nothing = Path::new("/nowhere");
    for address in ["localhost:0", "LocalHost:0", "127.0.0.1:0"] {
        let heard = heard_at(address, nothing);
        assert!(heard.starts_with("127.0.0.1:"), "{address}: {heard}");
    }
    refused("node7:0", nothing, &["'getent'"]);
}

#[test]
fn failure_of_getent_is_no_missing_name() {
    let path = getent("fails", "echo 'Address STREAM'; exit 3");
    refused("node7:0", &path, &["the name service has failed"]);
}

#[test]
fn ranks_reach_their_server_by_name() {
    // Commands of the system come after that of the test.
    let script = getent("server", "[ \"$2\" = head ] && echo '127.0.0.1 STREAM head'");
    let path = format!("{}:/usr/bin:/bin", script.display());
    let server = Host::start(&["--expect", "1"]);
    let port = server.port.replace("127.0.0.1", "head");
    assert!(port.starts_with("head:"), "{port}");
    let mut rank = host(["demo-rank"]);
    rank.env("PATH", path).env("PMI_PORT", port).env("PMI_ID", "0");
    run(&mut rank).exits_with(0);
    assert_eq!(server.end().0, 0);
}

/// Names that the ranks of a run on `hosts` have for their hosts, on a machine called `own`; `None` where none
/// can be called so.
fn hosts_of_ranks(own: &str, hosts: &str) -> Option<Vec<String>> {
    let can = Command::new("unshare").args(["--uts", "hostname", own]).status();
    if !can.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "CI runs as root");
        eprintln!("skipped: only root can give this machine another name");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["--uts", "sh", "-c", "hostname \"$0\" && exec \"$@\"", own, host_path()]);
    command.args(["run", "--hosts", hosts, "--node-interface", "127.0.0.1"]);
    command.args(["--starter-cmd", "env STARTED_AS={host} {cmd}"]);
    command.args(["sh", "-c", "echo $PMI_HOSTNAME"]).env("XDG_CONFIG_HOME", "/nowhere");
    let ran = run(&mut command).exits_with(0).says_nothing();
    let mut names: Vec<String> = ran.lines().into_iter().map(str::to_owned).collect();
    names.sort();
    Some(names)
}

#[test]
fn hosts_of_other_domains_and_other_addresses_are_not_this_machine() {
    for (own, hosts, expected) in [
        ("host.a", "host.b,host.c", ["host.b", "host.c"]),
        ("host.a", "host.a,host.b", ["host.a", "host.b"]),
        ("host.a", "host,other", ["host.a", "other"]),
        ("host", "host.a,other", ["host", "other"]),
        ("198.51.100.1", "198.51.100.2,198.51.100.3", ["198.51.100.2", "198.51.100.3"]),
    ] {
        let Some(names) = hosts_of_ranks(own, hosts) else { return };
        assert_eq!(names, expected, "{hosts} on {own}");
    }
}
