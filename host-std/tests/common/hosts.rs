//! Hosts and batch systems on this machine. A test that lacks them prints the reason, which is a failure in CI.

use super::{host, host_path, or_skip};
use pmi_host_testkit::gridengine::GridEngine;
use pmi_host_testkit::slurm::{Slurm, SlurmPolicy};
use pmi_host_testkit::ssh::{HostFamily, SshHosts};
use pmi_host_testkit::wire::WireDelays;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Hosts `n1`, `n2`, …, for one test.
pub fn ssh_hosts(test: &str, count: u32) -> Option<SshHosts> {
    ssh_hosts_of(Path::new(host_path()), test, count)
}

/// The same with addresses of IPv6 only.
pub fn ipv6_hosts(test: &str, count: u32) -> Option<SshHosts> {
    let directory = directory(&format!("ssh-of-{test}"));
    let hosts = SshHosts::start(Path::new(host_path()), directory, count, HostFamily::Ipv6);
    or_skip(hosts, "tests of several hosts need that")
}

/// Lets a host lose every 20th packet, if the program that sets the rules is installed.
pub fn lose_packets(hosts: &SshHosts, host: u32) -> Option<()> {
    or_skip(hosts.lose_packets(host, 5), "Debian's package nftables brings what is missing")
}

/// Delays the frames of a host by up to 20 ms, if the kernel has TAP interfaces. The seed is its number.
pub fn delay_frames(hosts: &mut SshHosts, host: u32) -> Option<()> {
    let delays = WireDelays { seed: host.into(), longest_ms: 20 };
    or_skip(hosts.delay(host, delays), "it takes /dev/net/tun and Python 3")
}

/// The same hosts, for another path of the launcher.
pub fn ssh_hosts_of(launcher: &Path, test: &str, count: u32) -> Option<SshHosts> {
    let directory = directory(&format!("ssh-of-{test}"));
    let hosts = SshHosts::start(launcher, directory, count, HostFamily::Ipv4);
    or_skip(hosts, "tests of several hosts need that")
}

/// `pmi-host run --starter local:NODES -n RANKS WORDS…`, outside of any allocation. The hosts are this machine.
pub fn local_nodes(nodes: u32, ranks: u32, words: &[&str]) -> Command {
    let (starter, ranks) = (format!("local:{nodes}"), ranks.to_string());
    let mut command = host(["run", "--starter", &starter, "-n", &ranks]);
    for variable in ["SLURM_JOB_ID", "FLUX_URI", "LSB_MCPU_HOSTS", "PE_HOSTFILE", "HYDRA_LAUNCHER"]
    {
        command.env_remove(variable);
    }
    command.args(words);
    command
}

/// A controller and a node of Slurm, for one test.
pub fn slurm(test: &str) -> Option<Slurm> {
    or_skip(Slurm::start(directory(&format!("slurm-of-{test}"))), "tests with Slurm need that")
}

/// The same, with ranks that can be bound to processors.
pub fn binding_slurm(test: &str) -> Option<Slurm> {
    or_skip(
        Slurm::start_binding(directory(&format!("slurm-of-{test}"))),
        "tests with Slurm need that",
    )
}

/// Slurm with nodes `slurm1`, `slurm2`, …, for one test.
pub fn slurm_nodes(test: &str, count: u32) -> Option<Slurm> {
    slurm_nodes_with(SlurmPolicy::Shared, test, count)
}

/// The same with a policy.
pub fn slurm_nodes_with(policy: SlurmPolicy, test: &str, count: u32) -> Option<Slurm> {
    let slurm = Slurm::start_nodes(directory(&format!("slurm-of-{test}")), count, policy);
    or_skip(slurm, "tests with Slurm need that")
}

/// Hosts `ge1`, `ge2`, … of Grid Engine with two slots each, for one test.
pub fn grid_engine(test: &str, count: u32) -> Option<GridEngine> {
    let engine = GridEngine::new(directory(&format!("grid-engine-of-{test}")), count, 2);
    or_skip(engine, "tests with Grid Engine need that")
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}
