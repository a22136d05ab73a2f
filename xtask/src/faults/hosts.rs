//! Hosts on this machine for one case, and a place of its own for the files of the case's processes.
//!
//! Each host is a network, mount, UTS and PID name space that one process holds: with an address on a bridge,
//! a name and a first process of its own, and a `/tmp` and `/dev/shm` that no other host sees. The process
//! that plays the case is in the name spaces of the head. All of them end with the processes in them, so
//! nothing is left on this machine.
//!
//! Node servers are started on these hosts by a script (`--starter-cmd`), in place of `ssh`.

use super::case::FaultCase;
use super::launcher::Launcher;
use crate::process;
use crate::processes::{self, Process};
use pmi_host_testkit::wire::{self, LOSS, WireDelays, WireEnd};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The hosts of a case.
#[derive(Debug, Default)]
pub(super) struct CaseHosts {
    holders: Vec<Child>,
    /// Programs that delay frames.
    relays: Vec<Child>,
}

impl CaseHosts {
    /// Gives this process, which is in a mount name space of its own, places for its files, and starts the
    /// hosts of `launcher` if it has some. Files are in `directory`.
    ///
    /// # Errors
    ///
    /// A program or a privilege is missing.
    pub(super) fn start(
        launcher: &Launcher,
        case: &FaultCase,
        directory: &Path,
    ) -> Result<Self, String> {
        let mut hosts = Self::default();
        if !launcher.has_places() {
            make_place(&place(directory, 0))?;
            return Ok(hosts);
        }
        let own = place(directory, 0);
        make_place(&own)?;
        if launcher.has_hosts {
            process::output(process::command("hostname").arg("head"))?;
            ip(&["link", "set", "lo", "up"])?;
            ip(&["link", "add", BRIDGE, "type", "bridge"])?;
            ip(&["link", "set", BRIDGE, "up"])?;
            ip(&["address", "add", "10.99.0.254/24", "dev", BRIDGE])?;
            for host in 1..=launcher.nodes {
                hosts.add(host, &place(directory, host))?;
            }
            // Within the key, at first, or the launcher.
            write_starters(directory, 20 + case.form * 150_000)?;
        }
        mount(&own)?;
        Ok(hosts)
    }

    fn add(&mut self, host: u32, place: &Path) -> Result<(), String> {
        make_place(place)?;
        let failed = |why: &dyn std::fmt::Display| format!("host n{host}: {why}");
        let mut holder = Command::new("unshare");
        holder.args([
            "--net",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]);
        holder.args(["sh", "-ec", HOLDER, "sh"]);
        holder.arg(place).arg(host.to_string());
        holder.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = holder.spawn().map_err(|error| failed(&error))?;
        let (pid, input, output) = (holder.id(), holder.stdin.take(), holder.stdout.take());
        self.holders.push(holder);
        let (Some(mut input), Some(output)) = (input, output) else {
            return Err(failed(&"no pipes"));
        };
        let mut output = BufReader::new(output);
        await_word(&mut output).map_err(|why| failed(&why))?;
        let wire = wire_of(host);
        let pid = pid.to_string();
        ip(&["link", "add", &wire, "type", "veth", "peer", "name", "eth0", "netns", &pid])?;
        ip(&["link", "set", &wire, "master", BRIDGE, "up"])?;
        let init = self.inits().pop().ok_or_else(|| failed(&"it has no process"))?;
        fs::write(place.join("holder"), init.to_string()).map_err(|error| failed(&error))?;
        input.write_all(b"\n").map_err(|error| failed(&error))?;
        await_word(&mut output).map_err(|why| failed(&why))?;
        // Its end ends the host.
        if let Some(holder) = self.holders.last_mut() {
            holder.stdin = Some(input);
        }
        Ok(())
    }

    /// Cuts the wire of a host.
    pub(super) fn cut(&self, host: u32) -> Result<(), String> {
        ip(&["link", "set", &wire_of(host), "down"])
    }

    /// Has a host lose `percent` of the packets that it receives, and of those that it sends.
    pub(super) fn lose(&self, host: u32, percent: u32) -> Result<(), String> {
        self.on(host, &["nft", &wire::loss(percent)])
    }

    /// Delays each frame on the wire of a host.
    pub(super) fn delay(&mut self, host: u32, delays: WireDelays) -> Result<(), String> {
        let end = WireEnd { bridge: BRIDGE, host };
        self.relays.push(wire::delay(end, delays, &ip, Command::new("python3"))?);
        Ok(())
    }

    /// Ends all that impairs the wire of a host.
    pub(super) fn mend(&self, host: u32) -> Result<(), String> {
        for relay in &self.relays {
            processes::send(i32::try_from(relay.id()).unwrap_or(-1), None, Signal::TERM);
        }
        ip(&["link", "set", &wire_of(host), "up"])?;
        // There is no such table unless packets were lost.
        let _ = self.on(host, &["nft", &format!("delete table inet {LOSS}")]);
        Ok(())
    }

    /// Executes a command in the network of a host.
    fn on(&self, host: u32, words: &[&str]) -> Result<(), String> {
        let at = host as usize - 1;
        let init = self.inits().get(at).copied().ok_or("the host has no process")?;
        let mut command = process::command("nsenter");
        command.args(["--target", &init.to_string(), "--net", "--"]).args(words);
        process::output(&mut command).map(drop)
    }

    /// The processes that hold the hosts and delay frames, which belong to no run.
    pub(super) fn holders(&self) -> Vec<i32> {
        let own = self.holders.iter().chain(&self.relays);
        let holders = own.filter_map(|holder| i32::try_from(holder.id()).ok());
        holders.chain(self.inits()).collect()
    }

    /// The first process of each host, in the order of the hosts: the others become its children when their
    /// starters end.
    fn inits(&self) -> Vec<i32> {
        let all = processes::processes();
        let init = |holder: &Child| {
            let is_its = |process: &&Process| u32::try_from(process.parent) == Ok(holder.id());
            all.iter().find(is_its).map(|process| process.pid)
        };
        self.holders.iter().filter_map(init).collect()
    }
}

impl Drop for CaseHosts {
    fn drop(&mut self) {
        for holder in self.holders.iter_mut().chain(&mut self.relays) {
            drop(holder.stdin.take());
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

/// Files in the places of a case: what the run has left on its hosts.
pub(super) fn left_files(directory: &Path) -> Vec<String> {
    let mut left = Vec::new();
    for host in 0.. {
        let place = place(directory, host);
        if !place.exists() {
            return left;
        }
        let mut open: Vec<PathBuf> = FOLDERS.iter().map(|folder| place.join(folder)).collect();
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.path();
                let shown = name.strip_prefix(&place).unwrap_or(&name).display().to_string();
                left.push(if host == 0 { shown } else { format!("n{host}:{shown}") });
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    open.push(name);
                }
            }
        }
    }
    left
}

/// The directory with the files of a host, or of the head (0).
pub(super) fn place(directory: &Path, host: u32) -> PathBuf {
    directory.join(format!("place-{host}"))
}

/// File with all that starters have received on their standard input, in a case about that.
pub(super) fn starter_input(directory: &Path) -> PathBuf {
    directory.join("starter-input")
}

fn make_place(place: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    for folder in FOLDERS {
        let folder = place.join(folder);
        fs::create_dir_all(&folder).map_err(failed)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).map_err(failed)?;
    }
    Ok(())
}

/// Puts the folders of the head's place where programs look for them.
fn mount(place: &Path) -> Result<(), String> {
    // Behind the last of these, programs of this machine that are below `/tmp` are out of sight.
    for (folder, at) in FOLDERS.iter().zip(["/tmp", "/dev/shm"]).rev() {
        let mut command = process::command("mount");
        process::output(command.arg("--bind").arg(place.join(folder)).arg(at))?;
    }
    Ok(())
}

/// The scripts that start a command on a host, with the name of the host in front of it: one that does no
/// more, one that passes its standard input on with pauses behind `slow_bytes` and in front of its end, as a
/// slow network, and two that write their standard input to an output first, as a terminal does. As behind
/// `ssh`, the command is in no process group of its starter, and sees the end of that as the end of its
/// input.
fn write_starters(directory: &Path, slow_bytes: u32) -> Result<(), String> {
    let shown = directory.display();
    let enter = format!(
        "place='{shown}'/place-${{1#n}}; shift\n\
         cat | setsid nsenter --target \"$(cat \"$place/holder\")\" --net --mount --uts --pid -- \
         env --default-signal TMPDIR=/tmp \"$@\"\n"
    );
    let input = starter_input(directory);
    let echo = |descriptor: u32| {
        format!(
            "exec 3>&{descriptor}\n\
             tee -a '{}' /dev/fd/3 | '{shown}'/{ENTER} \"$@\" 3>&-\n",
            input.display()
        )
    };
    let slow = format!(
        "{{ head -c {slow_bytes}; sleep 0.3; cat; sleep 0.3; }} | '{shown}'/{ENTER} \"$@\"\n"
    );
    let scripts = [(ENTER, enter), (SLOW, slow), (ECHO_OUT, echo(1)), (ECHO_ERR, echo(2))];
    for (name, script) in scripts {
        let path = directory.join(name);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        fs::write(&path, format!("#!/bin/sh\n{script}")).map_err(failed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    }
    Ok(())
}

fn await_word(output: &mut BufReader<ChildStdout>) -> Result<(), String> {
    let mut line = String::new();
    output.read_line(&mut line).map_err(|error| error.to_string())?;
    if line.trim() == "ready" { Ok(()) } else { Err("its name spaces cannot be made".into()) }
}

fn ip(words: &[&str]) -> Result<(), String> {
    process::output(process::command("ip").args(words)).map(drop)
}

/// The end of the wire of a host at the bridge.
fn wire_of(host: u32) -> String {
    format!("v{host}")
}

/// Names of the scripts.
pub(super) const ENTER: &str = "enter";
pub(super) const SLOW: &str = "slow";
pub(super) const ECHO_OUT: &str = "echo-out";
pub(super) const ECHO_ERR: &str = "echo-err";

/// What holds a host: it makes the places, and waits for the wire and for its end.
const HOLDER: &str = "hostname \"n$2\"
    mount --bind \"$1/tmp\" /tmp
    mount --bind \"$1/shm\" /dev/shm
    ip link set lo up
    echo ready
    read wire
    ip link set eth0 up
    ip address add \"10.99.0.$2/24\" dev eth0
    echo ready
    read end || exit 0";

/// Folders of a place, for `/tmp` and `/dev/shm`.
const FOLDERS: [&str; 2] = ["tmp", "shm"];

const BRIDGE: &str = "br0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_in_a_place_is_left_and_named_with_its_host() {
        let directory = tempfile::tempdir().unwrap();
        for host in 0..3 {
            make_place(&place(directory.path(), host)).unwrap();
        }
        assert_eq!(left_files(directory.path()), [""; 0]);
        fs::create_dir(place(directory.path(), 2).join("tmp/stage")).unwrap();
        fs::write(place(directory.path(), 2).join("tmp/stage/program"), "").unwrap();
        fs::write(place(directory.path(), 0).join("shm/values"), "").unwrap();
        let expected = ["shm/values", "n2:tmp/stage", "n2:tmp/stage/program"];
        assert_eq!(left_files(directory.path()), expected);
    }
}
