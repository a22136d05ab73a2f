//! Names of hosts: which of them are this machine, and which addresses those in options stand for.

use crate::common::listening::Host;
use crate::common::{host, host_path, run};
use std::fs;
use std::path::Path;
use std::process::Command;

/// `command`, with these lines as `/etc/hosts`; `None` where the machine does not permit that.
fn with_names(lines: &str, test: &str, command: &Command) -> Option<Command> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hosts-{test}"));
    fs::write(&path, lines).unwrap();
    let mut changed = Command::new("unshare");
    changed.args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\""]);
    let can = Command::new("unshare").args(["--mount", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "CI runs as root");
        eprintln!("skipped: only root can give this machine other names");
        return None;
    }
    changed.arg(path).arg(command.get_program()).args(command.get_args());
    changed.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(changed)
}

/// `pmi-host run --listen ADDRESS --expect 1`.
fn listener(address: &str) -> Command {
    host(["run", "--listen", address, "--expect", "1"])
}

/// Address that a launcher reports with `--listen`.
fn heard_at(command: Command) -> String {
    Host::start_command(command, "PMI_PORT=").port.clone()
}

#[test]
fn name_stands_for_its_first_address() {
    let names = "127.0.0.3 node7.cluster node7\n127.0.0.4 node8\n";
    for (name, expected) in [("node7.cluster", "127.0.0.3:"), ("node8", "127.0.0.4:")] {
        let command = listener(&format!("{name}:0"));
        let Some(command) = with_names(names, name, &command) else { return };
        let address = heard_at(command);
        assert!(address.starts_with(expected), "{name}: {address}");
    }
}

#[test]
fn name_without_an_address_is_refused_with_a_remedy() {
    for address in ["node7.invalid:0", "-s:0"] {
        let option = format!("'--listen {address}' is not an address");
        run(&mut listener(address)).exits_with(1).says(&[&option, "'--listen 127.0.0.1:0'"]);
    }
}

#[test]
fn addresses_and_localhost_are_known_everywhere() {
    for address in ["localhost:0", "LocalHost:0", "127.0.0.1:0"] {
        let heard = heard_at(listener(address));
        assert!(heard.starts_with("127.0.0.1:"), "{address}: {heard}");
    }
}

#[test]
fn ranks_reach_their_server_by_name() {
    let server = Host::start(&["--expect", "1"]);
    let port = server.port.replace("127.0.0.1", "head");
    assert!(port.starts_with("head:"), "{port}");
    let mut rank = host(["demo-rank"]);
    rank.env("PMI_PORT", port).env("PMI_ID", "0");
    let Some(mut rank) = with_names("127.0.0.1 head\n", "rank", &rank) else { return };
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
