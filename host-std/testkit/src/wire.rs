//! Bad wires of hosts that are network namespaces on a bridge.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Table of nftables with the rules of a wire that loses packets.
pub const LOSS: &str = "loss";

/// Commands of nftables by which a host loses `percent` of the TCP packets that it receives, and of those that
/// it sends.
pub fn loss(percent: u32) -> String {
    let chain = |hook: &str| {
        format!(
            "chain {hook} {{ type filter hook {hook} priority 0; \
             meta l4proto tcp numgen random mod 100 < {percent} counter drop; }}"
        )
    };
    format!("table inet {LOSS} {{ {}; {}; }}", chain("input"), chain("output"))
}

/// Place of a wire: its host, and the bridge where it ends as `v` with the number of the host.
#[derive(Clone, Copy, Debug)]
pub struct WireEnd<'a> {
    /// Name of the bridge.
    pub bridge: &'a str,
    /// Number of the host.
    pub host: u32,
}

/// Delays of a wire.
#[derive(Clone, Copy, Debug)]
pub struct WireDelays {
    /// What decides each of them.
    pub seed: u64,
    /// Longest one in milliseconds.
    pub longest_ms: u32,
}

/// Delays each frame on a wire: the wire is cut in the middle, and a program passes on what arrives at one TAP
/// interface to the other. `ip` executes `ip` with these words where the bridge is, and `python` is Python there.
///
/// # Errors
///
/// A sentence: a program or `/dev/net/tun` is missing.
pub fn delay(
    end: WireEnd<'_>,
    delays: WireDelays,
    ip: &dyn Fn(&[&str]) -> Result<(), String>,
    mut python: Command,
) -> Result<Child, String> {
    let host = end.host;
    let [wire, bridge, near, far] = ["v", "b", "near", "far"].map(|name| format!("{name}{host}"));
    ip(&["link", "add", &bridge, "type", "bridge"])?;
    ip(&["link", "set", &bridge, "up"])?;
    for (interface, of) in [(&near, end.bridge), (&far, &*bridge)] {
        ip(&["tuntap", "add", "dev", interface, "mode", "tap"])?;
        ip(&["link", "set", interface, "master", of, "up"])?;
    }
    ip(&["link", "set", &wire, "master", &bridge])?;
    python.args(["-c", include_str!("../delay.py"), &near, &far]);
    python.args([delays.seed.to_string(), delays.longest_ms.to_string()]);
    python.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let failed = |error: io::Error| format!("the relay of n{host}: {error}");
    let mut relay = python.spawn().map_err(failed)?;
    let mut line = String::new();
    let out = relay.stdout.take().map(BufReader::new);
    out.map_or(Ok(0), |mut out| out.read_line(&mut line)).map_err(failed)?;
    if line.trim_end() == "ready" {
        return Ok(relay);
    }
    let _ = relay.kill();
    let _ = relay.wait();
    Err(format!("the relay of n{host} does not start"))
}
