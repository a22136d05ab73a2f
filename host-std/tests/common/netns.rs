//! Hosts on this machine, for tests: network namespaces with a real `sshd`, a name and an address each.
//!
//! Nothing outside the namespaces changes: the bridge between them is in one of its own, where the head runs.

use super::host_path;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Hosts `n1`, `n2`, … until the value goes out of scope.
pub struct SshHosts {
    directory: PathBuf,
    /// Start of the names of the namespaces.
    name: String,
    servers: Vec<Child>,
}

impl SshHosts {
    /// Starts that many hosts; prints the reason if that is impossible, which is a failure in CI.
    pub fn start(test: &str, count: u32) -> Option<Self> {
        if let Err(why) = Self::check() {
            assert!(std::env::var_os("CI").is_none(), "{why}");
            eprintln!("skipped: {why}");
            return None;
        }
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ssh-of-{test}"));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let mut hosts = Self {
            directory,
            name: format!("pmi{}-{test}", std::process::id()),
            servers: Vec::new(),
        };
        hosts.write_keys(count);
        let head = hosts.namespace(0);
        ip(&["netns", "add", &head]);
        ip(&["-n", &head, "link", "set", "lo", "up"]);
        ip(&["-n", &head, "link", "add", "br0", "type", "bridge"]);
        ip(&["-n", &head, "addr", "add", &format!("{}/24", address(0)), "dev", "br0"]);
        ip(&["-n", &head, "link", "set", "br0", "up"]);
        (1..=count).for_each(|host| hosts.add(host));
        (1..=count).for_each(|host| hosts.wait_for_server(host));
        Some(hosts)
    }

    fn check() -> Result<(), String> {
        let says = |program: &str, words: &[&str]| {
            let output = Command::new(program).args(words).stdin(Stdio::null()).output();
            output.ok().map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        if says("id", &["-u"]).as_deref() != Some("0\n") {
            return Err("network namespaces need root".to_owned());
        }
        for (program, words) in [("ip", &["-V"][..]), ("ssh-keygen", &["-?"]), (SSHD, &["-?"])] {
            if says(program, words).is_none() {
                let packages = "Debian's packages iproute2, openssh-client and openssh-server";
                return Err(format!("{program} cannot be executed; {packages} bring it"));
            }
        }
        Ok(())
    }

    /// Keys of users and hosts, and configurations with nothing of this machine.
    fn write_keys(&self, count: u32) {
        for key in ["user", "host"] {
            let file = self.path(key);
            let words = ["-q", "-t", "ed25519", "-N", "", "-f", &file];
            assert!(Command::new("ssh-keygen").args(words).status().unwrap().success());
        }
        let public = |key: &str| fs::read_to_string(self.path(&format!("{key}.pub"))).unwrap();
        fs::write(self.path("authorized"), public("user")).unwrap();
        fs::write(self.path("known"), format!("* {}", public("host"))).unwrap();
        let mut client = String::new();
        for host in 1..=count {
            client.push_str(&format!("Host n{host}\n  HostName {}\n", address(host)));
        }
        client.push_str(&format!(
            "Host *\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  \
             GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n",
            self.path("user"),
            self.path("known")
        ));
        fs::write(self.path("client"), client).unwrap();
        let server = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PermitRootLogin prohibit-password\nPasswordAuthentication no\nPrintMotd no\n\
             MaxStartups 100\nUseDNS no\n",
            self.path("host"),
            self.path("authorized")
        );
        fs::write(self.path("server"), server).unwrap();
        // Where the server drops its privileges.
        let _ = fs::create_dir("/run/sshd");
    }

    fn add(&mut self, host: u32) {
        let (head, own) = (self.namespace(0), self.namespace(host));
        ip(&["netns", "add", &own]);
        ip(&["-n", &own, "link", "set", "lo", "up"]);
        let port = format!("v{host}");
        let ends = ["type", "veth", "peer", "name", "eth0", "netns", &own];
        ip(&[&["-n", &head, "link", "add", &port][..], &ends].concat());
        ip(&["-n", &head, "link", "set", &port, "master", "br0", "up"]);
        ip(&["-n", &own, "addr", "add", &format!("{}/24", address(host)), "dev", "eth0"]);
        ip(&["-n", &own, "link", "set", "eth0", "up"]);
        let log = File::create(self.path(&format!("log-{host}"))).unwrap();
        let mut server = named(&own, &format!("n{host}"), SSHD);
        server.args(["-D", "-e", "-f", &self.path("server")]);
        let server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        self.servers.push(server.expect("ip can be executed"));
    }

    fn wait_for_server(&self, host: u32) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if self.listeners(host).iter().any(|port| port == "0016") {
                return;
            }
            assert!(Instant::now() < until, "sshd of n{host}: {}", self.log(host));
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// `pmi-host WORDS…` where the head runs, without variables of a launcher around the tests.
    pub fn head(&self, words: &[&str]) -> Command {
        let mut command = named(&self.namespace(0), "head", host_path());
        command.args(words).stdin(Stdio::null()).env("XDG_CONFIG_HOME", "/nowhere");
        command.env("HYDRA_LAUNCHER_EXTRA_ARGS", format!("-F '{}'", self.path("client")));
        for variable in
            ["SLURM_JOB_ID", "FLUX_URI", "LSB_MCPU_HOSTS", "PE_HOSTFILE", "HYDRA_LAUNCHER"]
        {
            command.env_remove(variable);
        }
        command
    }

    /// `pmi-host WORDS…` on a host, without `ssh`.
    pub fn on(&self, host: u32, words: &[&str]) -> Command {
        let mut command = named(&self.namespace(host), &format!("n{host}"), host_path());
        command.args(words);
        command
    }

    /// Cuts the wire of a host, without a word to either end.
    pub fn cut(&self, host: u32) {
        ip(&["-n", &self.namespace(0), "link", "set", &format!("v{host}"), "down"]);
    }

    /// Commands of `pmi-host` that run on a host.
    pub fn processes(&self, host: u32) -> Vec<String> {
        let command = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok();
        let all = self.pids(host).iter().filter_map(command).collect::<Vec<_>>();
        all.into_iter().filter(|command| command.contains("pmi-host\0")).collect()
    }

    /// True if a host accepts other connections than those of `ssh`.
    pub fn listens(&self, host: u32) -> bool {
        self.listeners(host).iter().any(|port| port != "0016")
    }

    /// Ports with a listener on a host, in hexadecimal digits.
    fn listeners(&self, host: u32) -> Vec<String> {
        let output = Command::new("ip")
            .args(["netns", "exec", &self.namespace(host), "cat", "/proc/net/tcp"])
            .output()
            .expect("it was found before");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let listening = text.lines().filter(|line| line.split_whitespace().nth(3) == Some("0A"));
        let port = |line: &str| Some(line.split_whitespace().nth(1)?.split_once(':')?.1.to_owned());
        listening.filter_map(port).collect()
    }

    /// Messages of the `sshd` of a host.
    pub fn log(&self, host: u32) -> String {
        fs::read_to_string(self.path(&format!("log-{host}"))).unwrap_or_default()
    }

    fn pids(&self, host: u32) -> Vec<u32> {
        let output = Command::new("ip").args(["netns", "pids", &self.namespace(host)]).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        text.unwrap_or_default().lines().filter_map(|pid| pid.trim().parse().ok()).collect()
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
            for pid in self.pids(host) {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(host)]).status();
        }
        for server in &mut self.servers {
            let _ = server.wait();
        }
    }
}

/// Address of a host; the head is 254.
fn address(host: u32) -> String {
    match host {
        0 => "10.77.0.254".to_owned(),
        _ => format!("10.77.0.{host}"),
    }
}

/// `program` in a namespace, with a name of the machine of its own.
fn named(namespace: &str, name: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    let script = "hostname \"$1\"; shift; exec \"$@\"";
    command.args(["netns", "exec", namespace, "unshare", "--uts", "sh", "-c", script, "sh", name]);
    command.arg(program);
    command
}

fn ip(words: &[&str]) {
    let status = Command::new("ip").args(words).status().expect("it was found before");
    assert!(status.success(), "ip {}", words.join(" "));
}

const SSHD: &str = "/usr/sbin/sshd";
