//! Way of a node server to the head: to one of its addresses, or over standard input and output.

use super::super::addresses;
use super::super::edge::{self, Edge};
use super::super::handshake::KnownKey;
use super::super::relay::Relay;
use pmi_host_os::poller::{Interest, Poller, Token};
use pmi_std::Stream;
use rustix::net::sockopt::set_tcp_user_timeout;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Way of a node server to the head.
#[derive(Debug)]
pub(crate) struct HeadRoute {
    /// Addresses of the head.
    addresses: Vec<SocketAddr>,
    /// Number of ways that were tried: the last one is the way.
    tried: usize,
    /// The only way, if there is one.
    relay: Option<Relay>,
}

impl HeadRoute {
    /// Takes the addresses of the head; or standard input and output, if connections `may_be_relayed` and
    /// none of the addresses is reached.
    pub(crate) fn find(
        addresses: Vec<SocketAddr>,
        may_be_relayed: bool,
        poller: &Poller,
    ) -> io::Result<Self> {
        let reaches = |address| TcpStream::connect_timeout(address, REACHED_WITHIN).is_ok();
        let is_relayed = may_be_relayed && !addresses.iter().any(reaches);
        let relay = is_relayed.then(Relay::of_host).transpose()?;
        if let Some(relay) = &relay {
            poller.add(Token::HeadRelay, relay, Interest::Read)?;
        }
        Ok(Self { addresses, tried: 0, relay })
    }

    /// Turns to the next way; false if none is left.
    pub(super) fn turn(&mut self) -> bool {
        self.tried += 1;
        self.tried <= self.relay.as_ref().map_or(self.addresses.len(), |_| 1)
    }

    /// Begins a connection to the head.
    ///
    /// # Errors
    ///
    /// Errors of the system, and `ConnectionRefused` once the relay has ended.
    pub(super) fn connect(&mut self, key: KnownKey, timeout: Duration) -> io::Result<Edge> {
        Edge::initiated(self.dial(timeout)?, self.name(), key)
    }

    /// Begins a connection to the head for another node, whose bytes are passed on. It stays while the head
    /// is stopped: what that means is for the other node to decide.
    pub(super) fn dial_for_other(&mut self, timeout: Duration) -> io::Result<Stream> {
        let stream = self.dial(timeout)?;
        // A pair of sockets has no such option.
        let _ = set_tcp_user_timeout(&stream, 0);
        Ok(stream)
    }

    fn dial(&mut self, timeout: Duration) -> io::Result<Stream> {
        match (&mut self.relay, self.addresses.get(self.tried.saturating_sub(1))) {
            (Some(relay), _) => Ok(relay.open()?.into()),
            (None, Some(address)) => edge::dial(*address, timeout),
            (None, None) => Err(ErrorKind::AddrNotAvailable.into()),
        }
    }

    /// Serves the relay, and returns whether there is more to do.
    ///
    /// # Errors
    ///
    /// A sentence about what has come over it.
    pub(super) fn serve_relay(&mut self) -> io::Result<bool> {
        let Some(relay) = &mut self.relay else { return Ok(false) };
        // The head opens no connections.
        let is_any = relay.ready(&mut || Err(ErrorKind::ConnectionRefused.into()))?;
        Ok(is_any || !relay.is_done())
    }

    /// Address of this host at which nodes connect that are reached as the head is.
    pub(super) fn own_address(&self, to_head: &Edge) -> io::Result<IpAddr> {
        if self.relay.is_none() {
            return Ok(to_head.local_address()?.ip());
        }
        let own = self.addresses.first().and_then(|head| addresses::own_address(*head));
        Ok(own.unwrap_or(Ipv4Addr::LOCALHOST.into()))
    }

    /// The way, for messages.
    pub(super) fn name(&self) -> String {
        let address = self.addresses.get(self.tried.saturating_sub(1));
        match address.filter(|_| self.relay.is_none()) {
            Some(address) => address.to_string(),
            None => "standard input and output".to_owned(),
        }
    }

    /// Remedy if the head is not reached, at the end of a sentence.
    pub(super) const fn remedy(&self) -> &'static str {
        match self.relay {
            Some(_) => "",
            None => "; if a firewall is between, '--node-relay' connects over the starter",
        }
    }

    /// True if connections go over the starter.
    pub(super) const fn is_relayed(&self) -> bool {
        self.relay.is_some()
    }
}

/// Time in which a host reaches an address of the head that it can reach.
const REACHED_WITHIN: Duration = Duration::from_secs(1);
