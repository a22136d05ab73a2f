//! Entries of the system log of this host.
//!
//! Wire: one datagram, `<PRIORITY>pmi-host[PID]: TEXT`, to the socket of the log daemon; the time is that of
//! its arrival. Spec: RFC 3164, 4.1; syslog(3).

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Severity of an entry without one. Spec: PMIx 4.1, `PMIX_LOG_SYSLOG`.
pub(super) const ERROR: u8 = 3;

/// Socket of the log daemon.
pub(crate) const SOCKET: &str = "/dev/log";

/// Writes a text of the process `pid` to the log behind `socket`, with a severity from 0 to 7. Never waits.
///
/// # Errors
///
/// Errors of the system: no daemon listens there, or it reads too slowly.
pub(crate) fn write(socket: &Path, (severity, pid): (u8, i32), text: &[u8]) -> io::Result<()> {
    let log = UnixDatagram::unbound()?;
    log.set_nonblocking(true)?;
    // A line feed would begin another entry in a file.
    let text = text.trim_ascii_end();
    let line: Vec<u8> = text.iter().map(|byte| if *byte < b' ' { b' ' } else { *byte }).collect();
    let head = format!("<{}>pmi-host[{pid}]: ", USER << 3 | severity.min(7));
    log.send_to(&[head.as_bytes(), &line].concat(), socket).map(drop)
}

/// Facility of messages of users' programs.
const USER: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_one_datagram_of_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        assert!(write(&path, (ERROR, 7), b"no reader").is_err());
        let daemon = UnixDatagram::bind(&path).unwrap();
        write(&path, (ERROR, 7), b"disk\nfull\n").unwrap();
        write(&path, (9, 7), b"").unwrap();
        let mut entry = [0; 64];
        for expected in ["<11>pmi-host[7]: disk full", "<15>pmi-host[7]: "] {
            let len = daemon.recv(&mut entry).unwrap();
            assert_eq!(std::str::from_utf8(&entry[..len]).unwrap(), expected);
        }
    }
}
