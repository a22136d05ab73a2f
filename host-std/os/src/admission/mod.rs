//! Admission of connections: one module through which every listener of the launcher goes.
//!
//! | listener | peer | proof | limits before the proof |
//! |---|---|---|---|
//! | `--listen`, loopback, no secret | rank | user of the socket, by the kernel's tables | 64 at once and one for each absent rank, 5 s |
//! | `--listen`, any address, secret | rank | `PMI_ID` from the secret, or its challenge | the same, 10 wrong ids/s |
//! | `--listen`, `--munge` | rank | besides, a credential of munge of this user or root | the same, 64 verifications at once |
//! | `--pmi-port`, loopback | rank that was started | user of the socket, and the process that holds it | 64 at once and one for each rank, 5 s |
//! | `--websocket` | page | origin, token of the URL, and user or secret as for `--listen` | 64 at once, 5 s |
//! | PMIx | rank | user of the socket, and the process that holds it | as open files allow, 5 s |
//! | PMIx | tool | user of the socket | as open files allow, 5 s |
//! | node servers | node server | both sides prove the key of the run | 64 at once, or one for each host; 5 s |
//! | name server | launcher | both sides prove the key of the name server | 64 at once, 5 s |
//! | control (`pmi-host ps`) | program | directory of mode 0700, and the user of the peer | 8 at once, 10 s |
//!
//! Which connection is closed when there are too many is decided in [`pending`].
//!
//! Another address than loopback always has a secret: that of `--secret-file`, or one made for the run.
//! The threat model is in `docs/SECURITY.md`.

pub mod gate;
mod holders;
pub mod limits;
pub mod munge;
pub mod peer;
pub mod pending;
pub mod secret;

use pmi_std::Stream;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

pub use peer::Socket;

/// Proof that a listener demands of the process at the other end, before any byte of it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The kernel names its user: that of the launcher, or root.
    Owner,
    /// None: the protocol demands knowledge of the secret.
    Secret,
}

/// Decision on a new connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The protocol may begin. The socket at the other end is known where its user was looked up.
    Admitted(Option<Socket>),
    /// The connection is to be closed.
    Rejected {
        /// Socket at the other end, if the kernel knows it.
        socket: Option<Socket>,
        /// Reason, as the predicate of a message.
        why: String,
    },
    /// The peer has closed its socket, so that nothing can be known about it.
    Gone,
}

impl Policy {
    /// Policy of a listener with a secret or without one. Without one it listens on loopback only.
    pub const fn of(has_secret: bool) -> Self {
        match has_secret {
            true => Self::Secret,
            false => Self::Owner,
        }
    }

    /// Decides on the connection `stream`, which was accepted at `to` and comes from `from`.
    pub(crate) fn judge(self, stream: &Stream, (from, to): (SocketAddr, SocketAddr)) -> Admission {
        if self == Self::Secret {
            return Admission::Admitted(None);
        }
        let found = peer::socket(from, to);
        // After a reset of the server's end its addresses may be those of another connection.
        let is_whole = match stream {
            Stream::Tcp(stream) => stream.peer_addr().is_ok_and(|peer| peer == from),
            _ => false,
        };
        match found {
            _ if !is_whole => Admission::Gone,
            Ok(Some(socket)) if is_owner(socket.user) => Admission::Admitted(Some(socket)),
            Ok(Some(socket)) => {
                let (user, ours) = (socket.user, geteuid().as_raw());
                let why = format!("belongs to user {user}, and this job to user {ours}");
                Admission::Rejected { socket: Some(socket), why }
            }
            Ok(None) => Admission::Gone,
            Err(error) => {
                let why = format!("has a user that the kernel does not report ({error})");
                Admission::Rejected { socket: None, why }
            }
        }
    }
}

/// True if a program at the control socket runs as the user of the launcher, or as root.
fn admits(program: &UnixStream) -> bool {
    socket_peercred(program).is_ok_and(|peer| is_owner(peer.uid.as_raw()))
}

fn is_owner(user: u32) -> bool {
    user == geteuid().as_raw() || user == ROOT
}

const ROOT: u32 = 0;

/// Maximum number of unauthenticated connections of a listener.
pub const PENDING_MAX: usize = 64;

/// Reason for the end of a connection that made room for another one.
pub const EVICTED: &str = "sent nothing that identifies it while too many others connected";

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn connection_of_our_own_is_admitted_and_one_that_was_closed_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let ours = TcpStream::connect(to).unwrap();
        let (near, from) = listener.accept().unwrap();
        let near = Stream::Tcp(near);
        let judged = Policy::Owner.judge(&near, (from, to));
        assert!(matches!(judged, Admission::Admitted(Some(_))), "{judged:?}");
        // The kernel names root as the user of a socket that no process holds.
        drop(ours);
        peer::tests::wait_until_closed([from, to]);
        assert_eq!(Policy::Owner.judge(&near, (from, to)), Admission::Gone);
        assert_eq!(Policy::of(true).judge(&near, (from, to)), Admission::Admitted(None));
    }

    #[test]
    fn user_of_the_launcher_and_root_are_its_owners() {
        assert!(is_owner(geteuid().as_raw()) && is_owner(0));
        assert!(!is_owner(65_534));
    }
}
