//! Names of hosts: which mean the same host, which mean this machine, and its name in Slurm.

use std::net::{IpAddr, UdpSocket};

pub use pmi_host_base::host_name::own;

/// True if two names are those of one host, without regard to users. This is the one rule by which names are
/// compared: a name without a domain is the same in each domain, a name with a domain in no other domain, and
/// an address is the same as no other address and no name.
pub fn is_same(one: &str, other: &str) -> bool {
    // A dot at the end marks a whole name.
    let [one, other] = [one, other].map(|name| {
        let host = name.rsplit_once('@').map_or(name, |(_, host)| host);
        host.strip_suffix('.').unwrap_or(host)
    });
    let is_short = |name: &str, whole: &str| {
        short_name(whole).is_some_and(|first| first.eq_ignore_ascii_case(name))
    };
    let is_address = || match (one.parse::<IpAddr>(), other.parse::<IpAddr>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    one.eq_ignore_ascii_case(other) || is_short(one, other) || is_short(other, one) || is_address()
}

/// Name of a host without its domain; `None` if it has none, or is an address.
pub fn short_name(name: &str) -> Option<&str> {
    let (first, _) = name.split_once('.').filter(|_| name.parse::<IpAddr>().is_err())?;
    Some(first).filter(|first| !first.is_empty())
}

/// True if a name means this host, which is called `host`, for the user of the launcher: the same name, an
/// empty one, or a loopback name.
pub fn is_here(wanted: &str, host: &str) -> bool {
    is_loopback(wanted) || !wanted.contains('@') && is_same(wanted, host)
}

/// True if a name means the host on which it is read: an empty one, or a loopback name.
pub fn is_loopback(name: &str) -> bool {
    ["", "localhost", "127.0.0.1", "::1"].contains(&name)
}

/// True if a name or an address is this machine, which is called `host`: only its own addresses can be bound
/// here. A name is resolved only if it `is_single`: the name service takes long for a thousand names.
pub fn is_this_machine(name: &str, host: &str, is_single: bool) -> bool {
    let is_address = || name.parse::<IpAddr>().is_ok();
    is_here(name, host) || (is_single || is_address()) && UdpSocket::bind((name, 0)).is_ok()
}

/// Name of the node of this process in Slurm: `Some` within an allocation, empty if the node is not part of
/// it, which is where `salloc` runs its command.
pub fn slurm_node() -> Option<String> {
    std::env::var_os("SLURM_JOB_ID")?;
    Some(std::env::var("SLURMD_NODENAME").unwrap_or_default())
}

/// True if `node`, that of this process in Slurm, is called `name`.
pub fn is_node(name: &str, node: Option<&str>) -> bool {
    !name.is_empty() && node == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_unless_their_domains_or_addresses_differ() {
        for (one, other) in [
            ("a", "A"),
            ("a", "a.example"),
            ("a.example", "a.EXAMPLE."),
            ("u@a", "a.example"),
            ("::1", "0:0::1"),
        ] {
            assert!(is_same(one, other) && is_same(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("a", "b"),
            ("a.example", "a.other"),
            ("a.b", "a.c"),
            ("10.88.0.1", "10.88.0.2"),
            ("10", "10.88.0.1"),
            ("", ".example"),
        ] {
            assert!(!is_same(one, other) && !is_same(other, one), "{one} {other}");
        }
    }

    #[test]
    fn this_machine_has_addresses_too() {
        for name in ["node1", "node1.example", "localhost", "127.0.0.1", "127.0.0.2", "::1", ""] {
            assert!(is_this_machine(name, "node1", false), "{name}");
        }
        // An address that is reserved for documentation.
        for name in ["192.0.2.7", "node2", "me@node1"] {
            assert!(!is_this_machine(name, "node1", false), "{name}");
        }
        assert!(is_this_machine("node1", "node1.a", false));
        for (name, host) in [("node1.b", "node1.a"), ("192.0.2.7", "192.0.2.8")] {
            assert!(!is_this_machine(name, host, false), "{name}");
        }
    }
}
