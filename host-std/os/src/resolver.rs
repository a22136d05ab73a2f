//! Addresses of hosts, from the name services of the system.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Failure of a look-up.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The name services have no address, or have failed.
    #[error("{0}")]
    Failed(#[from] io::Error),
    /// The name services have not answered.
    #[error("no name service has answered within {} s", .0.as_secs())]
    TimedOut(Duration),
}

/// Addresses of `HOST:PORT`.
///
/// # Errors
///
/// The text has another form, no name service has the host, or none answers within a minute.
pub fn resolve(address: &str) -> Result<Vec<SocketAddr>, LookupError> {
    // Digits need no name service.
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let address = address.to_owned();
    within(LOOKUP_MAX, move || address.to_socket_addrs().map(Iterator::collect))
}

/// Calls `look_up` on a thread, which nothing can end before it returns.
fn within(
    limit: Duration,
    look_up: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
) -> Result<Vec<SocketAddr>, LookupError> {
    let (sender, receiver) = channel();
    // Nobody receives after the limit.
    thread::Builder::new().spawn(move || drop(sender.send(look_up())))?;
    // The thread sends before it ends.
    receiver
        .recv_timeout(limit)
        .map_err(|_| LookupError::TimedOut(limit))?
        .map_err(LookupError::Failed)
}

/// Limit of a look-up. Those of the name services are shorter, with few servers that do not answer.
const LOOKUP_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_up_has_a_limit_that_its_error_names() {
        let (sender, receiver) = channel::<()>();
        let waits = move || {
            let _ = receiver.recv();
            Ok(Vec::new())
        };
        let error = within(Duration::from_millis(1), waits).unwrap_err();
        assert_eq!(error.to_string(), "no name service has answered within 0 s");
        drop(sender);
    }

    #[test]
    fn addresses_are_read_as_they_are() {
        for text in ["127.0.0.1:7", "[::1]:7", "[fe80::1%2]:7"] {
            assert_eq!(resolve(text).unwrap(), [text.parse().unwrap()]);
        }
        assert!(resolve("localhost").is_err());
    }
}
