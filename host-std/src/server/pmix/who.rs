//! Whether somebody who dials in is the rank that it says.
//!
//! Over TCP a client can claim anything, and knows nothing that others do not. What it cannot choose is
//! whose socket it calls from: the system knows the socket at the other end, the user it belongs to, and
//! which processes hold it. It is let in if it is held by the process of the rank, or by one that comes
//! from that.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::SocketAddr;

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
    let shown = |address: std::net::SocketAddrV4| {
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
        let found = socket(from, accepted.local_addr().unwrap()).unwrap().unwrap();
        assert_eq!(found.user, rustix::process::getuid().as_raw());
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(is_held_below(own, found));
        assert!(is_held_below(std::os::unix::process::parent_id().cast_signed(), found));
        assert!(!is_held_below(own, Socket { inode: 1, ..found }));
        drop(caller);
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
