//! Hosts on this machine: network namespaces with a real `sshd`, a name and an address each.
//!
//! Nothing outside the namespaces changes: the bridge between them is in one of its own, where the head runs.

use crate::wire::{self, LOSS, WireDelays, WireEnd};
use crate::{is_root, output_of};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Hosts `n1`, `n2`, … until the value goes out of scope.
#[derive(Debug)]
pub struct SshHosts {
    /// Program of [`head`](Self::head).
    program: PathBuf,
    directory: PathBuf,
    /// Start of the names of the namespaces.
    name: String,
    servers: Vec<Child>,
    /// Programs that delay frames.
    relays: Vec<Child>,
    family: HostFamily,
}

/// Addresses of the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostFamily {
    /// Addresses of IPv4.
    Ipv4,
    /// Addresses of IPv6, and no others.
    Ipv6,
}

impl SshHosts {
    /// Starts `count` hosts for the launcher `program`. Keys, configurations and logs are in `directory`, which
    /// is emptied first and whose last part distinguishes the hosts from others that this process has started.
    ///
    /// # Errors
    ///
    /// A sentence with the remedy: a program or a privilege is missing, or an `sshd` does not start.
    pub fn start(
        program: &Path,
        directory: PathBuf,
        count: u32,
        family: HostFamily,
    ) -> Result<Self, String> {
        check()?;
        remove_leftovers();
        let failed = |error: io::Error| format!("{}: {error}", directory.display());
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => fs::create_dir_all(&directory).map_err(failed)?,
        }
        let label = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("{PREFIX}{}-{label}", process::id());
        let program = program.to_owned();
        let (servers, relays) = (Vec::new(), Vec::new());
        let mut hosts = Self { program, directory, name, servers, relays, family };
        hosts
            .write_files(count)
            .map_err(|error| format!("{}: {error}", hosts.directory.display()))?;
        let head = hosts.namespace(0);
        ip(&["netns", "add", &head])?;
        ip(&["-n", &head, "link", "set", "lo", "up"])?;
        ip(&["-n", &head, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &head, "link", "set", "br0", "up"])?;
        family.add_address((&head, "br0"), 0)?;
        (1..=count).try_for_each(|host| hosts.add(host))?;
        (1..=count).try_for_each(|host| hosts.wait_for_server(host))?;
        Ok(hosts)
    }

    /// Keys of users and hosts, and configurations with nothing of this machine.
    fn write_files(&self, count: u32) -> io::Result<()> {
        for key in ["user", "host"] {
            let file = self.path(key);
            let words = ["-q", "-t", "ed25519", "-N", "", "-f", &file];
            Command::new("ssh-keygen").args(words).stdin(Stdio::null()).status()?;
        }
        let public = |key: &str| fs::read_to_string(self.path(&format!("{key}.pub")));
        fs::write(self.path("authorized"), public("user")?)?;
        fs::write(self.path("known"), format!("* {}", public("host")?))?;
        let mut client = String::new();
        for host in 1..=count {
            let address = self.family.address(host);
            client.push_str(&format!("Host n{host}\n  HostName {address}\n"));
        }
        client.push_str(&format!(
            "Host *\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  \
             GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n",
            self.path("user"),
            self.path("known")
        ));
        fs::write(self.path("client"), client)?;
        // A shell that is not the first one does not read the start files of the user.
        let server = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PermitRootLogin prohibit-password\nPasswordAuthentication no\nPrintMotd no\n\
             MaxStartups 100\nUseDNS no\nSetEnv SHLVL=1\n",
            self.path("host"),
            self.path("authorized")
        );
        // Where the server drops its privileges.
        let _ = fs::create_dir("/run/sshd");
        fs::write(self.path("server"), server)
    }

    fn add(&mut self, host: u32) -> Result<(), String> {
        let (head, own) = (self.namespace(0), self.namespace(host));
        ip(&["netns", "add", &own])?;
        ip(&["-n", &own, "link", "set", "lo", "up"])?;
        let port = format!("v{host}");
        let ends = ["type", "veth", "peer", "name", "eth0", "netns", &own];
        ip(&[&["-n", &head, "link", "add", &port][..], &ends].concat())?;
        ip(&["-n", &head, "link", "set", &port, "master", "br0", "up"])?;
        ip(&["-n", &own, "link", "set", "eth0", "up"])?;
        self.family.add_address((&own, "eth0"), host)?;
        let server = self.start_server(host, "server")?;
        self.servers.push(server);
        Ok(())
    }

    fn start_server(&self, host: u32, configuration: &str) -> Result<Child, String> {
        let failed = |error: io::Error| format!("sshd of n{host}: {error}");
        let log = File::create(self.path(&format!("log-{host}"))).map_err(failed)?;
        let mut server = self.command(host, SSHD);
        server.args(["-D", "-e", "-f", &self.path(configuration)]);
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        server.spawn().map_err(failed)
    }

    /// Starts the `sshd` of a host again, with another value of `keyword` in its configuration.
    ///
    /// # Errors
    ///
    /// A sentence: it does not start.
    pub fn restart_server(
        &mut self,
        host: u32,
        (keyword, value): (&str, &str),
    ) -> Result<(), String> {
        let at = usize::try_from(host).unwrap_or_default().saturating_sub(1);
        let failed = |error: io::Error| format!("sshd of n{host}: {error}");
        let lines = fs::read_to_string(self.path("server")).map_err(failed)?;
        let others = lines.lines().filter(|line| line.split(' ').next() != Some(keyword));
        let configuration = format!("server-{host}");
        let own = format!("{keyword} {value}");
        let lines: Vec<&str> = others.chain([own.as_str()]).collect();
        fs::write(self.path(&configuration), lines.join("\n") + "\n").map_err(failed)?;
        let server = self.servers.get_mut(at).ok_or("there is no such host")?;
        server.kill().and_then(|()| server.wait()).map_err(failed)?;
        let restarted = self.start_server(host, &configuration)?;
        self.servers[at] = restarted;
        self.wait_for_server(host)
    }

    fn wait_for_server(&self, host: u32) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs(60);
        while !self.listeners(host).iter().any(|port| port == SSH_PORT) {
            if Instant::now() > until {
                return Err(format!("sshd of n{host} does not start: {}", self.log(host)));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// `program` in the namespace of a host, or of the head (0), with the host's name for the machine.
    pub fn command(&self, host: u32, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        let script = "hostname \"$1\"; shift; exec \"$@\"";
        let namespace = self.namespace(host);
        command.args(["netns", "exec", &namespace, "unshare", "--uts", "sh", "-c", script, "sh"]);
        command.arg(if host == 0 { "head".to_owned() } else { format!("n{host}") }).arg(program);
        // As on the hosts: programs that a launcher starts there inherit it.
        command.env("SHLVL", "1");
        command
    }

    /// The launcher with `words` where the head runs, without variables of a launcher around this process.
    pub fn head(&self, words: &[&str]) -> Command {
        let mut command = self.command(0, &self.program);
        command.args(words).stdin(Stdio::null()).env("XDG_CONFIG_HOME", "/nowhere");
        command.env("HYDRA_LAUNCHER_EXTRA_ARGS", format!("-F '{}'", self.client()));
        for variable in
            ["SLURM_JOB_ID", "FLUX_URI", "LSB_MCPU_HOSTS", "PE_HOSTFILE", "HYDRA_LAUNCHER"]
        {
            command.env_remove(variable);
        }
        command
    }

    /// The launcher with `words` on a host, without `ssh`.
    pub fn on(&self, host: u32, words: &[&str]) -> Command {
        let mut command = self.command(host, &self.program);
        command.args(words);
        command
    }

    /// Configuration of `ssh` (`-F`), with which it reaches the hosts.
    pub fn client(&self) -> String {
        self.path("client")
    }

    /// Cuts the wire of a host, without a word to either end.
    pub fn cut(&self, host: u32) {
        let wire = format!("v{host}");
        ip(&["-n", &self.namespace(0), "link", "set", &wire, "down"]).expect("the host is there");
    }

    /// Connects the wire of a host again.
    pub fn mend(&self, host: u32) {
        let wire = format!("v{host}");
        ip(&["-n", &self.namespace(0), "link", "set", &wire, "up"]).expect("the host is there");
    }

    /// Makes the wire of a host slow, with so small a queue on both ends that it drops what comes in a burst.
    ///
    /// # Errors
    ///
    /// What `tc` says.
    pub fn narrow(&self, host: u32) -> Result<(), String> {
        self.ends(host).iter().try_for_each(|(namespace, interface)| {
            let words = ["-n", namespace, "qdisc", "replace", "dev", interface, "root"];
            execute("tc", &[&words[..], &NARROW].concat())
        })
    }

    /// Number of packets that the wire of a host has dropped since it is narrow.
    pub fn dropped_count(&self, host: u32) -> u64 {
        let of_end = |(namespace, interface): &(String, String)| {
            let words = ["-n", namespace, "-s", "qdisc", "show", "dev", interface];
            let text = output_of("tc", &words).unwrap_or_default();
            let (_, rest) = text.split_once("dropped ")?;
            rest.split(',').next()?.parse::<u64>().ok()
        };
        self.ends(host).iter().filter_map(of_end).sum()
    }

    /// Delays each frame on the wire of a host.
    ///
    /// # Errors
    ///
    /// A sentence: a program or `/dev/net/tun` is missing.
    pub fn delay(&mut self, host: u32, delays: WireDelays) -> Result<(), String> {
        let head = self.namespace(0);
        let within = |words: &[&str]| ip(&[&["-n", &head], words].concat());
        let mut python = Command::new("ip");
        python.args(["netns", "exec", &head, "python3"]);
        let end = WireEnd { bridge: "br0", host };
        self.relays.push(wire::delay(end, delays, &within, python)?);
        Ok(())
    }

    /// Number of frames from a host that were delayed.
    pub fn delayed_count(&self, host: u32) -> u64 {
        let words = ["netns", "exec", &self.namespace(0), "cat", "/proc/net/dev"];
        let text = output_of("ip", &words).unwrap_or_default();
        let near = format!("near{host}:");
        let counts = text.lines().find_map(|line| line.trim_start().strip_prefix(&near));
        // Bytes that the interface has received, and frames.
        counts.and_then(|counts| counts.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
    }

    /// Has a host lose `percent` of the TCP packets that it receives, and of those that it sends.
    ///
    /// # Errors
    ///
    /// What `nft` says, or that it is missing.
    pub fn lose_packets(&self, host: u32, percent: u32) -> Result<(), String> {
        execute("ip", &["netns", "exec", &self.namespace(host), "nft", &wire::loss(percent)])
    }

    /// Number of packets that a host has lost by [`lose_packets`](Self::lose_packets).
    pub fn lost_count(&self, host: u32) -> u64 {
        let namespace = self.namespace(host);
        let words = ["netns", "exec", &namespace, "nft", "list", "table", "inet", LOSS];
        let text = output_of("ip", &words).unwrap_or_default();
        let counts = text.split("packets ").skip(1);
        counts.filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Both ends of the wire of a host: namespace and interface.
    fn ends(&self, host: u32) -> [(String, String); 2] {
        [(self.namespace(0), format!("v{host}")), (self.namespace(host), "eth0".to_owned())]
    }

    /// Commands of `pmi-host` that run on a host.
    pub fn processes(&self, host: u32) -> Vec<String> {
        let command = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok();
        let all = self.pids(host);
        all.iter().filter_map(command).filter(|line| line.contains("pmi-host\0")).collect()
    }

    /// True if a host accepts other connections than those of `ssh`.
    pub fn listens(&self, host: u32) -> bool {
        self.listeners(host).iter().any(|port| port != SSH_PORT)
    }

    /// Ports with a listener on a host, in hexadecimal digits.
    fn listeners(&self, host: u32) -> Vec<String> {
        let words = ["netns", "exec", &self.namespace(host), "cat", "/proc/net/tcp"];
        let text = output_of("ip", &words).unwrap_or_default();
        let listening = text.lines().filter(|line| line.split_whitespace().nth(3) == Some("0A"));
        let port = |line: &str| Some(line.split_whitespace().nth(1)?.split_once(':')?.1.to_owned());
        listening.filter_map(port).collect()
    }

    /// Messages of the `sshd` of a host.
    pub fn log(&self, host: u32) -> String {
        fs::read_to_string(self.path(&format!("log-{host}"))).unwrap_or_default()
    }

    /// Processes on a host.
    pub fn pids(&self, host: u32) -> Vec<u32> {
        pids(&self.namespace(host))
    }

    fn namespace(&self, host: u32) -> String {
        format!("{}-{host}", self.name)
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for SshHosts {
    fn drop(&mut self) {
        for host in 0..=u32::try_from(self.servers.len()).unwrap_or_default() {
            remove(&self.namespace(host));
        }
        for server in self.servers.iter_mut().chain(&mut self.relays) {
            let _ = server.wait();
        }
    }
}

/// Checks that hosts can be started.
fn check() -> Result<(), String> {
    if !is_root() {
        return Err("network namespaces need root".to_owned());
    }
    for (program, words) in [("ip", &["-V"][..]), ("ssh-keygen", &["-?"]), (SSHD, &["-?"])] {
        if output_of(program, words).is_none() {
            let packages = "Debian's packages iproute2, openssh-client and openssh-server";
            return Err(format!("{program} cannot be executed; {packages} bring it"));
        }
    }
    Ok(())
}

/// Removes hosts of processes that were killed before they could do so.
fn remove_leftovers() {
    let names = output_of("ip", &["netns", "list"]).unwrap_or_default();
    for name in names.lines().filter_map(|line| line.split(' ').next()) {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let owner = owner.filter(|pid| pid.parse::<u32>().is_ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(name);
        }
    }
}

/// Kills the processes of a namespace, and removes it.
fn remove(namespace: &str) {
    let pids: Vec<String> = pids(namespace).iter().map(ToString::to_string).collect();
    if !pids.is_empty() {
        let _ = Command::new("kill").arg("-9").args(pids).stderr(Stdio::null()).status();
    }
    // One that was never added is none.
    let _ = Command::new("ip").args(["netns", "del", namespace]).stderr(Stdio::null()).status();
}

fn pids(namespace: &str) -> Vec<u32> {
    let text = output_of("ip", &["netns", "pids", namespace]).unwrap_or_default();
    text.lines().filter_map(|pid| pid.trim().parse().ok()).collect()
}

impl HostFamily {
    /// Address of a host.
    fn address(self, host: u32) -> String {
        match self {
            Self::Ipv4 => address(host),
            Self::Ipv6 if host == 0 => "fd77::ff".to_owned(),
            Self::Ipv6 => format!("fd77::{host:x}"),
        }
    }

    /// Gives an interface of a namespace the address of a host, which can be used at once.
    fn add_address(self, (namespace, interface): (&str, &str), host: u32) -> Result<(), String> {
        let address = self.address(host);
        let (prefix, rest): (u32, &[&str]) = match self {
            Self::Ipv4 => (24, &[]),
            Self::Ipv6 => (64, &["nodad"]),
        };
        let address = format!("{address}/{prefix}");
        let words = ["-n", namespace, "addr", "add", &address, "dev", interface];
        ip(&[&words, rest].concat())
    }
}

/// Address of a host; the head (0) has the last one.
pub fn address(host: u32) -> String {
    match host {
        0 => "10.77.0.254".to_owned(),
        _ => format!("10.77.0.{host}"),
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    execute("ip", words)
}

fn execute(program: &str, words: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(format!("{program} {}: {why}", words.join(" ")))
        }
    }
}

/// Start of the names of namespaces, followed by the pid of their owner.
const PREFIX: &str = "pmi";

/// Options of a slow wire whose queue holds two or three large packets.
const NARROW: [&str; 7] = ["tbf", "rate", "4mbit", "burst", "3kb", "limit", "4kb"];

const SSHD: &str = "/usr/sbin/sshd";

/// Port of `sshd`, as in `/proc/net/tcp`.
const SSH_PORT: &str = "0016";
