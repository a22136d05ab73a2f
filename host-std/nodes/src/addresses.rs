//! Addresses at which node servers can connect to this machine, and the ports for that.

use crate::settings::PortRange;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;
use pmi_host_os::admission::Policy;
use pmi_host_os::admission::gate::TcpGate;
use pmi_host_os::refusal;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Address at which the head listens, and the addresses that its node servers try.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeadAddresses {
    /// Address to bind.
    pub(super) bind: IpAddr,
    /// Addresses of this machine to connect to, the most likely first.
    pub(super) reachable: Vec<IpAddr>,
}

impl HeadAddresses {
    /// Addresses for node servers on `hosts`, the names of the hosts that are not this machine.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(super) fn find(interface: Option<&str>, hosts: &[&str]) -> Result<Self, String> {
        if let Some(name) = interface {
            return Self::of_interface(name, interfaces());
        }
        if hosts.is_empty() {
            let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
            return Ok(Self { bind: here, reachable: vec![here] });
        }
        // The route to a host names the address from which this machine reaches it.
        let routes = hosts.iter().take(ROUTES_MAX).filter_map(|host| route_to(host));
        let others = interfaces().into_iter().map(|(_, address)| address);
        let mut reachable = Vec::new();
        for address in routes.chain(others) {
            if is_reachable(address) && !reachable.contains(&address) {
                reachable.push(address);
            }
        }
        reachable.truncate(ADDRESSES_MAX);
        if reachable.is_empty() {
            return Err(
                "this machine has no address that other hosts could connect to; give an interface \
                        one, or start all node servers here with '--starter local:N'"
                    .to_owned(),
            );
        }
        let has_ipv6 = reachable.iter().any(IpAddr::is_ipv6);
        // A socket for both families where there are both.
        let bind =
            if has_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        Ok(Self { bind, reachable })
    }

    fn of_interface(name: &str, all: Vec<(String, IpAddr)>) -> Result<Self, String> {
        if let Ok(address) = name.parse() {
            return Ok(Self { bind: address, reachable: vec![address] });
        }
        let of_name =
            all.iter().filter(|(known, address)| known == name && !is_link_local(*address));
        // One socket has one address; IPv4 first, which more hosts have.
        match of_name.map(|(_, address)| *address).min_by_key(IpAddr::is_ipv6) {
            Some(address) => Ok(Self { bind: address, reachable: vec![address] }),
            None => {
                let mut names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
                names.dedup();
                Err(format!(
                    "'--node-interface {name}' is no interface with an address; there are: {}",
                    names.join(", ")
                ))
            }
        }
    }
}

/// Address of this machine on the way to the head, else any that other hosts may reach.
pub(super) fn own_address(head: SocketAddr) -> Option<IpAddr> {
    let on_route = route_to(&head.ip().to_string()).filter(|address| is_reachable(*address));
    let others = interfaces().into_iter().map(|(_, address)| address);
    on_route.or_else(|| others.into_iter().find(|address| is_reachable(*address)))
}

/// Binds a listener at `address`, at the first free port of the range, or at any.
///
/// # Errors
///
/// A message for the user, with the remedy.
pub(super) fn bind(address: IpAddr, ports: Option<PortRange>) -> Result<TcpGate, String> {
    // Both sides prove the key of the run.
    let open = |port| TcpGate::open((address, port).into(), Policy::Secret);
    let Some(range) = ports else {
        return open(0).map_err(|error| {
            let why = refusal::words(&error);
            format!("no port at {address} can be opened for node servers ({why})")
        });
    };
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for port in range.first..=range.last {
        match open(port) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(format!("no port of {range} at {address} is free ({last}); '--node-ports' names others"))
}

/// Names and addresses of the interfaces that are up.
fn interfaces() -> Vec<(String, IpAddr)> {
    let Ok(all) = getifaddrs() else { return Vec::new() };
    let up = all.filter(|one| one.flags.contains(InterfaceFlags::IFF_UP));
    up.filter_map(|one| Some((one.interface_name, ip(&one.address?)?))).collect()
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}

/// Address of this machine on the way to `host`; no packet is sent.
fn route_to(host: &str) -> Option<IpAddr> {
    let host = host.rsplit('@').next()?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // An address of IPv6 needs a socket of its own.
    let connected = socket.connect((host, DISCARD));
    let socket = match connected {
        Ok(()) => socket,
        Err(_) => {
            let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).ok()?;
            socket.connect((host, DISCARD)).ok()?;
            socket
        }
    };
    socket.local_addr().ok().map(|address: SocketAddr| address.ip().to_canonical())
}

fn is_reachable(address: IpAddr) -> bool {
    !address.is_loopback() && !address.is_unspecified() && !is_link_local(address)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Number of hosts whose routes are looked up: a name that cannot be resolved may take seconds.
const ROUTES_MAX: usize = 1;

/// Number of addresses that a node server tries.
const ADDRESSES_MAX: usize = 8;

/// Any port: nothing is sent to it.
const DISCARD: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_on_this_machine_connect_over_loopback() {
        let here: IpAddr = Ipv4Addr::LOCALHOST.into();
        let found = HeadAddresses::find(None, &[]).unwrap();
        assert_eq!(found, HeadAddresses { bind: here, reachable: vec![here] });
        assert_eq!(route_to("127.0.0.1"), Some(here));
        assert_eq!(route_to("user@127.0.0.1"), Some(here));
    }

    #[test]
    fn interface_is_named_or_given_by_its_address() {
        let all = || {
            vec![
                ("eth0".to_owned(), "fe80::1".parse().unwrap()),
                ("eth0".to_owned(), "2001:db8::1".parse().unwrap()),
                ("eth0".to_owned(), "192.0.2.1".parse().unwrap()),
                ("ib0".to_owned(), "2001:db8::2".parse().unwrap()),
            ]
        };
        let bind =
            |name| HeadAddresses::of_interface(name, all()).map(|found| found.bind.to_string());
        assert_eq!(bind("eth0").as_deref(), Ok("192.0.2.1"));
        assert_eq!(bind("ib0").as_deref(), Ok("2001:db8::2"));
        assert_eq!(bind("192.0.2.9").as_deref(), Ok("192.0.2.9"));
        assert!(bind("eth1").unwrap_err().contains("there are: eth0, ib0"));
    }

    #[test]
    fn first_free_port_of_the_range_is_taken() {
        let here: IpAddr = Ipv4Addr::LOCALHOST.into();
        let taken = bind(here, None).unwrap();
        let port = taken.address.port();
        let only = PortRange { first: port, last: port };
        assert!(bind(here, Some(only)).unwrap_err().contains("'--node-ports' names others"));
        if let Some(last) = port.checked_add(20) {
            let bound = bind(here, Some(PortRange { first: port, last })).unwrap();
            let range = port + 1..=last;
            assert!(range.contains(&bound.address.port()));
        }
    }
}
