//! Ways by which a client finds the server, and connections to the port.

use crate::child;
use pmi_host_base::env;
use pmi_host_base::host_name;
use pmi_std::Stream;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};

/// Way by which a client finds the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discovery {
    /// Inherited socket: `PMI_FD`.
    Socket,
    /// Address: `PMI_PORT` and `PMI_ID`.
    Port,
    /// Number of a descriptor that is not open.
    Closed,
    /// No server in the environment.
    Absent,
}

/// Socket and environment of one rank.
#[derive(Debug)]
pub(super) struct RankSetup {
    /// Server's end of the rank's socket, if it has one.
    pub(super) link: Option<Stream>,
    /// Rank's end of the socket, kept open until the rank is started.
    pub(super) theirs: Option<OwnedFd>,
    /// Environment variables of the rank.
    pub(super) variables: Vec<(&'static str, String)>,
}

impl Discovery {
    /// Listener on this machine, if ranks connect to a port.
    #[expect(
        clippy::disallowed_methods,
        reason = "serves the one program under test, which an intruder could only make fail"
    )]
    pub(super) fn listener(self) -> io::Result<Option<TcpListener>> {
        if self != Self::Port {
            return Ok(None);
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(Some(listener))
    }

    /// Socket and environment of `rank_process` of `count` ranks.
    pub(super) fn setup(
        self,
        listener: Option<&TcpListener>,
        rank: u32,
        count: u32,
    ) -> io::Result<RankSetup> {
        let host = host_name::own();
        let named = |fd: u32| {
            env::of_job([count; 2], fd, &host, false).into_iter().chain(env::of_rank(rank, rank))
        };
        let mut setup = RankSetup { link: None, theirs: None, variables: Vec::new() };
        match (self, listener) {
            (Self::Absent, _) => {}
            (Self::Closed, _) => setup.variables.extend(named(CLOSED)),
            (Self::Port, Some(listener)) => {
                // A rank that is given an address receives its rank over the connection, and so not here.
                let left_out = ["PMI_FD", "PMI_RANK", "PMI_SIZE"];
                setup.variables.extend(named(0).filter(|(name, _)| !left_out.contains(name)));
                let address = listener.local_addr()?.to_string();
                setup.variables.extend([("PMI_PORT", address), ("PMI_ID", rank.to_string())]);
            }
            (Self::Socket | Self::Port, _) => {
                let (ours, theirs) = child::socket_pair()?;
                setup.variables.extend(named(theirs.as_raw_fd().unsigned_abs()));
                (setup.link, setup.theirs) = (Some(ours.into()), Some(theirs.into()));
            }
        }
        Ok(setup)
    }
}

/// Accepts the next connection to the port, if there is one.
pub(super) fn accept(listener: &TcpListener) -> io::Result<Option<Stream>> {
    match listener.accept() {
        Ok((stream, _)) => {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            Ok(Some(stream.into()))
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Number above any descriptor that a program starts with.
const CLOSED: u32 = 987;
