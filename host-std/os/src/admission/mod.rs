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

use pmi_host_base::system_file;
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

/// Answer to the question whether a peer is whom it has to be. What a listener does with one of whom this
/// cannot be known is decided where it accepts connections, or claims to be a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// It is.
    Admitted,
    /// It is not; the reason.
    Refused(String),
    /// The system does not tell; the reason.
    Unknown(String),
}

/// What the kernel says about the peer of a new connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Socket at the other end, if it was looked up and the kernel knows it.
    pub socket: Option<Socket>,
    /// Whether the protocol may begin. Reasons are predicates of a message.
    pub identity: Identity,
}

impl Identity {
    /// Reason for a refusal where a peer that may be another one is refused; `remedy` is what the user of the
    /// launcher can do then.
    pub fn doubt(self, remedy: &str) -> Option<String> {
        match self {
            Self::Admitted => None,
            Self::Refused(why) => Some(why),
            Self::Unknown(why) => Some(format!("{why}; {remedy}")),
        }
    }
}

impl Policy {
    /// Policy of a listener with a secret or without one. Without one it listens on loopback only.
    pub const fn of(has_secret: bool) -> Self {
        match has_secret {
            true => Self::Secret,
            false => Self::Owner,
        }
    }

    /// Judges the connection `stream`, which was accepted at `to` and comes from `from`. `None` if the peer
    /// has closed its socket, so that nothing can be known about it.
    pub(crate) fn judge(
        self,
        stream: &Stream,
        (from, to): (SocketAddr, SocketAddr),
    ) -> Option<Admission> {
        if self == Self::Secret {
            return Some(Admission { socket: None, identity: Identity::Admitted });
        }
        let found = peer::socket(from, to);
        // After a reset of the server's end its addresses may be those of another connection.
        let is_whole = match stream {
            Stream::Tcp(stream) => stream.peer_addr().is_ok_and(|peer| peer == from),
            _ => false,
        };
        match found {
            _ if !is_whole => None,
            Ok(socket) => Some(Admission { socket, identity: user_of_socket(socket?) }),
            Err(error) => {
                let why = format!("has a user that the kernel does not report ({error})");
                Some(Admission { socket: None, identity: Identity::Unknown(why) })
            }
        }
    }
}

/// Answers whether a socket belongs to the user of the launcher, or to root.
///
/// In a user namespace, users without a number in it share one, which may be that of the launcher. The
/// kernel shows the descriptors of a process to those only who may trace it: a holder that is found is no
/// other user.
fn user_of_socket(socket: Socket) -> Identity {
    match user(socket.user) {
        Identity::Unknown(_) if peer::holder(socket).is_some() => Identity::Admitted,
        identity => identity,
    }
}

/// Answers whether this is the user of the launcher, or root.
fn user(user: u32) -> Identity {
    let ours = geteuid().as_raw();
    if user != ours && user != ROOT {
        return Identity::Refused(format!("belongs to user {user}, and this job to user {ours}"));
    }
    match user == NO_NUMBER && !has_all_users() {
        true => Identity::Unknown(format!(
            "belongs to user {user}, as all users without a number in this user namespace do"
        )),
        false => Identity::Admitted,
    }
}

/// True if all users have numbers in the user namespace of this process.
fn has_all_users() -> bool {
    let map = system_file::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let count = map.split_ascii_whitespace().nth(2);
    count.and_then(|count| count.parse().ok()).is_some_and(|count: u32| count == u32::MAX)
}

/// True unless a program at the control socket runs as another user. Where that cannot be known, the
/// directory of the socket is the proof, which no other user can enter.
fn admits(program: &UnixStream) -> bool {
    let peer = socket_peercred(program);
    peer.is_ok_and(|peer| !matches!(user(peer.uid.as_raw()), Identity::Refused(_)))
}

const ROOT: u32 = 0;

/// Number that the kernel shows for a user without one, unless the administrator has chosen another
/// (`kernel.overflowuid`).
const NO_NUMBER: u32 = 65_534;

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
        let judged = Policy::Owner.judge(&near, (from, to)).unwrap();
        assert_eq!(judged.identity, Identity::Admitted);
        assert!(judged.socket.is_some());
        // The kernel names root as the user of a socket that no process holds.
        drop(ours);
        peer::tests::wait_until_closed([from, to]);
        assert_eq!(Policy::Owner.judge(&near, (from, to)), None);
        let secret = Policy::of(true).judge(&near, (from, to));
        assert_eq!(secret, Some(Admission { socket: None, identity: Identity::Admitted }));
    }

    #[test]
    fn user_of_the_launcher_and_root_are_its_owners() {
        assert_eq!([geteuid().as_raw(), 0].map(user), [Identity::Admitted, Identity::Admitted]);
        assert!(matches!(user(54_321), Identity::Refused(_)));
    }

    #[test]
    fn doubt_names_the_remedy_and_a_refusal_does_not() {
        assert_eq!(Identity::Admitted.doubt("remedy"), None);
        assert_eq!(Identity::Refused("no".into()).doubt("remedy").as_deref(), Some("no"));
        assert_eq!(Identity::Unknown("why".into()).doubt("do").as_deref(), Some("why; do"));
    }
}
