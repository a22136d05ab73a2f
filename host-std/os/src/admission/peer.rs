//! Socket at the other end of a local connection: its user, and the processes that hold it.
//!
//! Over TCP a client can claim anything, and knows nothing that others do not. The socket from which it
//! connects is no claim: the kernel reports its user and its inode, and `/proc` the processes that hold
//! it.

use super::Identity;
use crate::cleanup::guard_protocol::RUN;
use crate::processes::{self, SocketSearch};
use pmi_host_base::system_file;
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Socket at the other end, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// User that owns it.
    pub user: u32,
    /// Inode number of the socket.
    pub(crate) inode: u64,
}

/// Finds the local socket that is connected from `from` to `to`; `None` if no process holds it any more.
///
/// A socket that was closed by its process stays in the kernel's tables for a while, as one of root. Its
/// user is unknown.
pub(crate) fn socket(from: SocketAddr, to: SocketAddr) -> io::Result<Option<Socket>> {
    let ends = [from, to].map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
    if ends[0].is_ipv4() != ends[1].is_ipv4() {
        return Ok(None);
    }
    // One query costs the same however many sockets there are; the table, which has to be written and
    // read whole, is for systems that do not support the query.
    let found = query(ends).or_else(|_| read(ends))?;
    Ok(found.filter(|socket| socket.inode != 0))
}

/// Queries the kernel for one socket.
///
/// Wire: a netlink header (`u32` length, `u16` type, `u16` flags, `u32` number, `u32` zero) and the
/// request of `sock_diag(7)`, in native byte order except for ports and addresses.
fn query(ends: [SocketAddr; 2]) -> io::Result<Option<Socket>> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    let mut question = Vec::new();
    question.extend(QUESTION_BYTES.to_ne_bytes());
    question.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    question.extend(NLM_F_REQUEST.to_ne_bytes());
    question.extend([0; 8]);
    // TCP, no extensions, in any state.
    let family = if ends[0].is_ipv4() { AF_INET } else { AF_INET6 };
    question.extend([family, IPPROTO_TCP, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    ends.iter().for_each(|end| question.extend(end.port().to_be_bytes()));
    for end in ends {
        let mut address = [0; 16];
        match end.ip() {
            IpAddr::V4(ip) => address[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => address = ip.octets(),
        }
        question.extend(address);
    }
    // On any interface, with any cookie.
    question.extend([0; 4]);
    question.extend([0xff; 8]);
    sendto(&socket, &question, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 4096];
    // The reply is available as soon as the request was accepted.
    let (len, _) = recv(&socket, &mut answer, RecvFlags::DONTWAIT)?;
    let answer = answer.get(..len).unwrap_or_default();
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_ne_bytes).ok_or(io::ErrorKind::InvalidData)
    };
    match answer.get(4..6) {
        // If there is no such socket, the kernel reports the listening one at the near end.
        Some(kind) if kind == SOCK_DIAG_BY_FAMILY.to_ne_bytes() => {
            if answer.get(ENDS_AT..ENDS_AT + ENDS_BYTES)
                != question.get(QUERY_ENDS_AT..QUERY_ENDS_AT + ENDS_BYTES)
                || answer.get(STATE_AT) == Some(&SYN_SENT)
            {
                return Ok(None);
            }
            let (user, inode) = (number(USER_AT)?, number(INODE_AT)?);
            Ok(Some(Socket { user, inode: inode.into() }))
        }
        Some(kind) if kind == NLMSG_ERROR.to_ne_bytes() => {
            let error = number(HEADER_BYTES)?.cast_signed().wrapping_neg();
            match Errno::from_raw_os_error(error) {
                Errno::NOENT => Ok(None),
                error => Err(error.into()),
            }
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Searches the table of all sockets.
fn read(ends: [SocketAddr; 2]) -> io::Result<Option<Socket>> {
    let table = if ends[0].is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let [from, to] = ends.map(shown);
    Ok(find(&system_file::read_to_string(table)?, &from, &to))
}

/// Spelling of an address in a row of the table: words in native byte order, and the port.
fn shown(end: SocketAddr) -> String {
    let words = |octets: &[u8]| -> String {
        let words = octets.chunks_exact(4).filter_map(|word| word.try_into().ok());
        words.map(|word| format!("{:08X}", u32::from_ne_bytes(word))).collect()
    };
    let address = match end.ip() {
        IpAddr::V4(ip) => words(&ip.octets()),
        IpAddr::V6(ip) => words(&ip.octets()),
    };
    format!("{address}:{:04X}", end.port())
}

/// Row of the table with these two ends.
fn find(table: &str, local: &str, remote: &str) -> Option<Socket> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next()? != local || fields.next()? != remote {
            return None;
        }
        let state = u8::from_str_radix(fields.next()?, 16);
        state.ok().filter(|state| *state != SYN_SENT)?;
        let mut fields = fields.skip(3);
        let user = fields.next()?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        Some(Socket { user, inode })
    })
}

/// A process that holds this socket, as far as the launcher may inspect processes.
pub fn holder(socket: Socket) -> Option<i32> {
    processes::pids().into_iter().find(|pid| processes::has_socket(*pid, socket.inode))
}

/// Answers whether this socket of the launcher's user belongs to the rank with process `pid`, that is,
/// whether one of these holds it:
///
/// - the process, or a descendant;
/// - one that has left its rank, and is a child of the launcher now;
/// - another one that is in the session of the rank or has its environment, and belongs to no other rank.
///
/// `others` are the processes of the other ranks.
///
/// It cannot be known where the system hides the descriptors of a process that may hold the socket, and no
/// other process holds it: a program without read permission, or with capabilities; all without `/proc`.
pub fn rank_identity(pid: i32, socket: Socket, others: &[i32]) -> Identity {
    let own = std::process::id().cast_signed();
    let is_rank = |one: i32| one == pid || others.contains(&one);
    let members = processes::family(pid).take(PROCESSES_MAX);
    let adopted = processes::family_without(own, is_rank).skip(1).take(PROCESSES_MAX);
    let mut hidden = None;
    for member in members.chain(adopted) {
        match processes::search_socket(member, socket.inode) {
            SocketSearch::Found => return Identity::Admitted,
            SocketSearch::Hidden => hidden = hidden.or(Some(member)),
            SocketSearch::Absent => {}
        }
    }
    let holder = holder(socket);
    let is_other = |holder: i32| {
        let mut families =
            others.iter().flat_map(|pid| processes::family(*pid).take(PROCESSES_MAX));
        families.any(|member| member == holder)
    };
    match (holder, hidden) {
        (Some(holder), _) if is_other(holder) => Identity::Refused(OF_ANOTHER_RANK.to_owned()),
        (Some(holder), _) if is_in_session(holder, pid) => Identity::Admitted,
        (Some(holder), _) if processes::share_variables([holder, pid], &VARIABLES) => {
            Identity::Admitted
        }
        (None, Some(hidden)) => Identity::Unknown(format!("/proc/{hidden}/fd cannot be read")),
        _ => Identity::Refused(OF_NO_RANK.to_owned()),
    }
}

/// True if a process is in the session that the rank with process `pid` leads.
fn is_in_session(holder: i32, pid: i32) -> bool {
    processes::relations(holder).is_some_and(|holder| holder.session == pid)
}

/// Constants of the kernel: type of the request, and types of the reply.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;

/// State of a socket that was not accepted yet. Its addresses may have been those of another one.
const SYN_SENT: u8 = 2;

/// Lengths of a netlink header, and of a request with it.
const HEADER_BYTES: usize = 16;
const QUESTION_BYTES: u32 = 16 + 56;

/// Offset of the state in a reply.
const STATE_AT: usize = HEADER_BYTES + 1;

/// Offset of the ports and addresses of both ends in a reply and in a request, and their length.
const ENDS_AT: usize = HEADER_BYTES + 4;
const QUERY_ENDS_AT: usize = HEADER_BYTES + 8;
const ENDS_BYTES: usize = 36;

/// Offset of the user and the inode in a reply.
const USER_AT: usize = HEADER_BYTES + 64;
const INODE_AT: usize = HEADER_BYTES + 68;

/// Variables whose values together belong to one rank.
const VARIABLES: [&str; 3] = [RUN, "PMI_JOBID", "PMI_RANK"];

const OF_ANOTHER_RANK: &str = "a process of another rank holds its socket";
const OF_NO_RANK: &str = "start it in that rank, or with the environment of that rank";

/// Maximum number of descendants examined; no genuine rank starts this many processes before one that
/// connects.
const PROCESSES_MAX: usize = 1 << 12;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    #[test]
    fn kernel_knows_the_socket_at_the_other_end() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, from) = listener.accept().unwrap();
            let to = accepted.local_addr().unwrap();
            let found = socket(from, to).unwrap().unwrap();
            assert_eq!(read([from, to]).unwrap(), Some(found), "asked or read, it is the same");
            assert_eq!(query([from, to]).unwrap(), Some(found));
            assert_eq!(holder(found), Some(std::process::id().cast_signed()));
            assert_eq!(found.user, rustix::process::getuid().as_raw());
            let own = i32::try_from(std::process::id()).unwrap();
            assert_eq!(rank_identity(own, found, &[]), Identity::Admitted);
            let parent = std::os::unix::process::parent_id().cast_signed();
            assert_eq!(rank_identity(parent, found, &[]), Identity::Admitted);
            let nowhere = rank_identity(own, Socket { inode: 1, ..found }, &[]);
            assert!(matches!(nowhere, Identity::Refused(_)), "{nowhere:?}");
            // The kernel reports a socket that its process has closed as one of root.
            drop(caller);
            wait_until_closed([from, to]);
            drop(accepted);
            wait_until_closed([to, from]);
            let none = SocketAddr::new(to.ip(), 1);
            assert!(matches!(query([none, none]), Ok(None) | Err(_)));
        }
    }

    /// Waits until nobody has a socket: a process that another test is just starting holds those of this one.
    pub(in crate::admission) fn wait_until_closed([from, to]: [SocketAddr; 2]) {
        let until = Instant::now() + Duration::from_secs(60);
        while socket(from, to).unwrap().is_some() {
            assert!(Instant::now() < until, "the socket at {from} is left");
            std::thread::yield_now();
        }
    }

    #[test]
    fn row_of_the_table_is_found_by_both_ends() {
        let table = |state: &str| {
            format!(
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n   \
                 0: 0100007F:1F90 0100007F:A000 {state} 00000000:00000000 00:00000000 00000000  1000        \
                 0 4711 1 0000000000000000 20 4 30 10 -1\n"
            )
        };
        let found = find(&table("01"), "0100007F:1F90", "0100007F:A000");
        assert_eq!(found, Some(Socket { user: 1000, inode: 4711 }));
        assert_eq!(find(&table("01"), "0100007F:A000", "0100007F:1F90"), None);
        assert_eq!(find(&table("02"), "0100007F:1F90", "0100007F:A000"), None);
    }
}
