//! What the system knows about the host of another node server: it acknowledges what arrives there, and
//! probes in turn, whether the process runs or is stopped.

use nix::libc::{self, c_int, c_void, socklen_t};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use std::io;
use std::time::Duration;

/// What has arrived on a connection from the system of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceivedSegments {
    /// Number of all segments, probes included.
    pub(super) count: u32,
    /// Time since the last one with an acknowledgement of what was sent, or with data.
    pub(super) last: Duration,
}

impl ReceivedSegments {
    /// Reads the counters of a TCP connection.
    ///
    /// # Errors
    ///
    /// Errors of the system; [`io::ErrorKind::Unsupported`] if it counts no segments (before Linux 4.2).
    #[allow(unsafe_code, reason = "no function of a library reads this option")]
    pub(super) fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut facts = [0_u8; FACTS_BYTES];
        let mut len_bytes = socklen_t::try_from(facts.len()).unwrap_or_default();
        let to = facts.as_mut_ptr().cast::<c_void>();
        // SAFETY: the call writes `len_bytes` bytes at most, which `facts` has, and then their number.
        let result = unsafe {
            let socket = socket.as_fd().as_raw_fd();
            libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut len_bytes)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        if usize::try_from(len_bytes).unwrap_or_default() < SEGMENTS_IN + 4 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let number = |at: usize| {
            let bytes = facts.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_ne_bytes)
        };
        let last_ms = number(LAST_DATA_RECEIVED).min(number(LAST_ACK_RECEIVED));
        let last = Duration::from_millis(last_ms.into());
        Ok(Self { count: number(SEGMENTS_IN), last })
    }
}

/// Has the system repeat often what is not acknowledged: it doubles the time between two transmissions
/// otherwise, and where packets are lost or late the other host would have few occasions to answer. The
/// system ends a connection after 15 transmissions, which is to be later than a silence of `timeout`.
pub(super) fn repeat_often(socket: impl AsFd, timeout: Duration) {
    let socket = socket.as_fd();
    let repeat_ms = c_int::try_from(timeout.as_millis() / 10).unwrap_or(c_int::MAX);
    let repeat_ms = repeat_ms.clamp(REPEAT_LEAST_MS, REPEAT_MOST_MS);
    // A kernel has the latter from Linux 6.15 on. Either is an improvement, and neither is needed.
    for (option, value) in [(libc::TCP_THIN_LINEAR_TIMEOUTS, 1), (TCP_RTO_MAX_MS, repeat_ms)] {
        set_number(socket, option, value);
    }
}

/// Sets an option of TCP, if the system has it.
#[allow(unsafe_code, reason = "no function of a library sets these options")]
fn set_number(socket: BorrowedFd<'_>, option: c_int, value: c_int) {
    let from = (&raw const value).cast::<c_void>();
    let len_bytes = socklen_t::try_from(size_of::<c_int>()).unwrap_or_default();
    // SAFETY: the call reads `len_bytes` bytes, which `value` has.
    unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, from, len_bytes);
    }
}

/// Longest time between two transmissions of the same bytes, in milliseconds: what the system takes.
const REPEAT_LEAST_MS: c_int = 1000;
const REPEAT_MOST_MS: c_int = 120_000;

/// Option for that time, from `linux/tcp.h`.
const TCP_RTO_MAX_MS: c_int = 44;

/// Positions in `struct tcp_info`, which grows at its end only.
const LAST_DATA_RECEIVED: usize = 52;
const LAST_ACK_RECEIVED: usize = 56;
const SEGMENTS_IN: usize = 140;

/// Bytes of that structure that are read.
const FACTS_BYTES: usize = 144;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn acknowledgements_of_bytes_that_nobody_reads_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let before = ReceivedSegments::of(&sender).unwrap();
        sender.write_all(b"one").unwrap();
        // The answer of the system may come with a delay, since nothing is read.
        let counts = || ReceivedSegments::of(&sender).unwrap().count;
        while counts() == before.count {
            std::thread::yield_now();
        }
        assert!(ReceivedSegments::of(&sender).unwrap().last < Duration::from_secs(60));
        receiver.read_exact(&mut [0; 3]).unwrap();
    }

    #[test]
    fn descriptor_without_a_connection_is_an_error() {
        assert!(ReceivedSegments::of(io::stdin()).is_err());
    }
}
