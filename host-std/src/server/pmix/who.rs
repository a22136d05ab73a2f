//! Whether somebody who dials in is the rank that it says.
//!
//! Over TCP a client can claim anything, and knows nothing that others do not. What it cannot choose is
//! whose socket it calls from: the system knows the socket at the other end, the user it belongs to, and
//! which processes hold it. It is let in if it is held by the process of the rank, or by one that comes
//! from that.

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};

/// The socket at the other end, as the system knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// The user it belongs to.
    pub user: u32,
    /// Its number.
    pub inode: u64,
}

/// Finds the socket that calls from `from` to `to`, on this machine.
///
/// Errors: those of the system; there is none for a caller that has hung up.
pub fn socket(from: SocketAddr, to: SocketAddr) -> io::Result<Option<Socket>> {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else { return Ok(None) };
    // The one question costs the same however many sockets there are; the table, which has to be written
    // and read whole, is for systems that take no such questions.
    ask(from, to).or_else(|_| read(from, to))
}

/// Asks the system for one socket.
///
/// Wire: a netlink header (`u32` length, `u16` type, `u16` flags, `u32` number, `u32` zero) and the question
/// of `sock_diag(7)`, all in the order of the machine but ports and addresses.
fn ask(from: SocketAddrV4, to: SocketAddrV4) -> io::Result<Option<Socket>> {
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
    // IPv4, TCP, nothing more about it, in any state.
    question.extend([AF_INET, IPPROTO_TCP, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    question.extend(from.port().to_be_bytes());
    question.extend(to.port().to_be_bytes());
    for address in [from, to] {
        question.extend(address.ip().octets());
        question.extend([0; 12]);
    }
    // On any interface, whatever the system calls the socket.
    question.extend([0; 4]);
    question.extend([0xff; 8]);
    sendto(&socket, &question, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 4096];
    // The answer is there when the question was taken.
    let (len, _) = recv(&socket, &mut answer, RecvFlags::DONTWAIT)?;
    let answer = answer.get(..len).unwrap_or_default();
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_ne_bytes).ok_or(io::ErrorKind::InvalidData)
    };
    match answer.get(4..6) {
        // Where there is no such socket, the system gives one that listens at its near end.
        Some(kind) if kind == SOCK_DIAG_BY_FAMILY.to_ne_bytes() => {
            if answer.get(ENDS_AT..ENDS_AT + ENDS_BYTES)
                != question.get(ASKED_ENDS_AT..ASKED_ENDS_AT + ENDS_BYTES)
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

/// Looks for a socket in the table of all.
fn read(from: SocketAddrV4, to: SocketAddrV4) -> io::Result<Option<Socket>> {
    let shown = |address: SocketAddrV4| {
        format!("{:08X}:{:04X}", u32::from_le_bytes(address.ip().octets()), address.port())
    };
    let table = fs::read_to_string("/proc/net/tcp")?;
    Ok(find(&table, &shown(from), &shown(to)))
}

/// The row of the table with these two ends.
fn find(table: &str, local: &str, remote: &str) -> Option<Socket> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next()? != local || fields.next()? != remote {
            return None;
        }
        let mut fields = fields.skip(4);
        let user = fields.next()?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        Some(Socket { user, inode })
    })
}

/// A process that holds this socket, as far as the system lets us look.
pub fn holder(socket: Socket) -> Option<i32> {
    let name = format!("socket:[{}]", socket.inode);
    let processes = fs::read_dir("/proc").ok()?;
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    { pids }.find(|pid| holds(*pid, &name))
}

/// Whether the process `pid`, or one that comes from it, holds this socket.
pub fn is_held_below(pid: i32, socket: Socket) -> bool {
    let name = format!("socket:[{}]", socket.inode);
    let mut processes = VecDeque::from([pid]);
    let mut looked_at = 0;
    while let Some(pid) = processes.pop_front() {
        if holds(pid, &name) {
            return true;
        }
        looked_at += 1;
        if looked_at > PROCESSES_MAX {
            return false;
        }
        processes.extend(children(pid));
    }
    false
}

fn holds(pid: i32, socket: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let mut links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    links.any(|link| link.as_os_str() == socket)
}

fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of_task = |task: io::Result<fs::DirEntry>| {
        let list = fs::read_to_string(task.ok()?.path().join("children")).ok()?;
        Some(list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
    };
    tasks.filter_map(of_task).flatten().collect()
}

/// Numbers of the system: what is asked, and what an answer is.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const AF_INET: u8 = 2;
const IPPROTO_TCP: u8 = 6;

/// Lengths of a netlink header, and of a question with it.
const HEADER_BYTES: usize = 16;
const QUESTION_BYTES: u32 = 16 + 56;

/// Where ports and addresses of both ends stand in an answer and in a question, and how long they are.
const ENDS_AT: usize = HEADER_BYTES + 4;
const ASKED_ENDS_AT: usize = HEADER_BYTES + 8;
const ENDS_BYTES: usize = 36;

/// Where the user and the number of the socket stand in an answer.
const USER_AT: usize = HEADER_BYTES + 64;
const INODE_AT: usize = HEADER_BYTES + 68;

/// A rank that starts this many processes and then one that dials in for it is none.
const PROCESSES_MAX: usize = 1 << 12;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_system_knows_who_calls() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, from) = listener.accept().unwrap();
        let to = accepted.local_addr().unwrap();
        let found = socket(from, to).unwrap().unwrap();
        let (SocketAddr::V4(one), SocketAddr::V4(other)) = (from, to) else { panic!("IPv4") };
        assert_eq!(read(one, other).unwrap(), Some(found), "asked or read, it is the same");
        assert_eq!(holder(found), Some(std::process::id().cast_signed()));
        assert_eq!(found.user, rustix::process::getuid().as_raw());
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(is_held_below(own, found));
        assert!(is_held_below(std::os::unix::process::parent_id().cast_signed(), found));
        assert!(!is_held_below(own, Socket { inode: 1, ..found }));
        drop((caller, accepted));
        assert_eq!(socket(to, from).unwrap().filter(|socket| socket.inode != 0), None);
        let nobody = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1);
        assert!(matches!(ask(nobody, nobody), Ok(None) | Err(_)));
    }

    #[test]
    fn a_row_of_the_table_is_found_by_both_ends() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n   \
                     0: 0100007F:1F90 0100007F:A000 01 00000000:00000000 00:00000000 00000000  1000        0 \
                     4711 1 0000000000000000 20 4 30 10 -1\n";
        let found = find(table, "0100007F:1F90", "0100007F:A000");
        assert_eq!(found, Some(Socket { user: 1000, inode: 4711 }));
        assert_eq!(find(table, "0100007F:A000", "0100007F:1F90"), None);
    }
}
