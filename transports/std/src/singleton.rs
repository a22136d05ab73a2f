//! A singleton that starts a launcher of its own.
//!
//! A program that was started by itself is rank 0 of 1: [`connect()`](crate::connect()) returns
//! `None`, and the program decides on the consequences. To spawn, to publish a name or to look one
//! up, it starts a launcher here, which connects back and serves it like a rank of its own.
//!
//! ```no_run
//! use std::process::Command;
//!
//! let member = match pmi_std::connect()? {
//!     Some(member) => member,
//!     // Started without a launcher: start one that can spawn processes.
//!     None => pmi_std::singleton::launch(&mut Command::new("pmi-host"))?.member,
//! };
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Wire: the launcher is started with `-pmi_args PORT default_interface default_key PID` and
//! connects to PORT of this machine; then `singinit` in both directions, `singinit_info`, and a
//! session in PMI-1, or in PMI-2 by [`launch_in`]. The connecting process is not authenticated; the port is
//! open to this machine alone, for one connection and a limited time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use pmi_core::command::Version;
use pmi_core::wire::pmi1::SingletonGreeting;
use thiserror::Error;

use crate::connect::{ConnectError, Member};
use crate::env::{Environment, Transport};
use crate::pmi::Pmi;
use crate::stream::Stream;

/// A process with the launcher that it has started.
#[derive(Debug)]
pub struct Launched {
    /// Session with the launcher: this process is rank 0 of 1.
    pub member: Member,
    /// The launcher. It exits some time after `finalize`, when all spawned processes have exited.
    pub launcher: Child,
}

/// Error of starting a launcher.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The launcher cannot be started.
    #[error("the launcher cannot be started: {0}")]
    Start(#[source] io::Error),
    /// It has exited, or has not connected in time.
    #[error(
        "the launcher was started and has not connected back; not every launcher supports '-pmi_args'"
    )]
    Silent,
    /// The connection has failed, or carried an unexpected message.
    #[error("the handshake with the launcher failed: {0}")]
    Greeting(#[source] io::Error),
    /// It rejects this process.
    #[error("the launcher refuses to serve this process")]
    Refused,
    /// The session could not be opened.
    #[error("{0}")]
    Open(#[source] ConnectError),
}

/// Starts `launcher`, and opens a session in PMI-1 with it.
///
/// Shape: `launcher` has no arguments yet; it takes what this function appends. Its standard streams are
/// those of the command, so by default what is spawned writes where this process does.
///
/// # Errors
///
/// [`LaunchError`]; the launcher was killed then, if it ran.
pub fn launch(launcher: &mut Command) -> Result<Launched, LaunchError> {
    launch_in(Version::V1_1, launcher)
}

/// Does as [`launch`], with a session of this version: with [`Version::V2_0`] attributes of the node and
/// connections of jobs are available, too.
///
/// Wire: the greeting is in PMI-1, which alone has one; then `init` asks for the version, which a launcher
/// may refuse. `pmi-host` speaks PMI-2 here.
///
/// # Errors
///
/// [`LaunchError`]; the launcher was killed then, if it ran.
pub fn launch_in(version: Version, launcher: &mut Command) -> Result<Launched, LaunchError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(LaunchError::Start)?;
    let port = listener.local_addr().map_err(LaunchError::Start)?.port().to_string();
    let pid = std::process::id().to_string();
    launcher.args(["-pmi_args", &port, "default_interface", "default_key", &pid]);
    let mut child = launcher.spawn().map_err(LaunchError::Start)?;
    match begin(&listener, &mut child, version) {
        Ok(member) => Ok(Launched { member, launcher: child }),
        Err(error) => {
            // Both fail only if it has exited by itself.
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

fn begin(
    listener: &TcpListener,
    child: &mut Child,
    version: Version,
) -> Result<Member, LaunchError> {
    let mut stream = accept(listener, child)?;
    greet(&mut stream)?;
    let environment = Environment::new(Transport::Singleton, 0, 1);
    let mut pmi = Pmi::new(Stream::from(stream));
    let membership = pmi.join(&environment, version, None);
    let membership = membership.map_err(|error| LaunchError::Open(error.into()))?;
    Ok(Member::new(pmi, membership))
}

/// Waits for the launcher to connect, unless it exits before.
fn accept(listener: &TcpListener, child: &mut Child) -> Result<TcpStream, LaunchError> {
    let until = Instant::now() + WITHIN;
    listener.set_nonblocking(true).map_err(LaunchError::Greeting)?;
    while Instant::now() < until {
        match listener.accept() {
            Ok((stream, _)) => {
                let prepared = stream
                    .set_nonblocking(false)
                    .and_then(|()| stream.set_nodelay(true))
                    .and_then(|()| stream.set_read_timeout(Some(WITHIN)));
                return prepared.map(|()| stream).map_err(LaunchError::Greeting);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if child.try_wait().map_err(LaunchError::Greeting)?.is_some() {
                    return Err(LaunchError::Silent);
                }
                thread::sleep(LOOK);
            }
            Err(error) => return Err(LaunchError::Greeting(error)),
        }
    }
    Err(LaunchError::Silent)
}

/// The greeting that precedes the session.
fn greet(stream: &mut TcpStream) -> Result<(), LaunchError> {
    let other = |line: &[u8]| {
        let what = format!("the launcher answered '{}'", line.escape_ascii());
        LaunchError::Greeting(io::Error::new(ErrorKind::InvalidData, what))
    };
    let line = read_line(stream)?;
    match SingletonGreeting::read(&line) {
        Ok(SingletonGreeting::Hello { .. }) => {}
        _ => return Err(other(&line)),
    }
    // The standard streams of this process are not forwarded, even if the launcher offers that.
    let hello = SingletonGreeting::Hello { version: Some(Version::V1_1), has_streams: false };
    let mut out = [0; LINE_BYTES];
    let len = hello.write(&mut out).map_err(|_| LaunchError::Refused)?;
    stream.write_all(out.get(..len).unwrap_or(b"")).map_err(LaunchError::Greeting)?;
    let line = read_line(stream)?;
    match SingletonGreeting::read(&line) {
        Ok(SingletonGreeting::Info { kvsname: Some(_) }) => {}
        Ok(SingletonGreeting::Info { kvsname: None }) => return Err(LaunchError::Refused),
        _ => return Err(other(&line)),
    }
    // From here on an answer may take as long as the requested operation.
    stream.set_read_timeout(None).map_err(LaunchError::Greeting)
}

/// Reads byte by byte, since later bytes belong to the session.
fn read_line(stream: &mut TcpStream) -> Result<Vec<u8>, LaunchError> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.last() != Some(&b'\n') && line.len() < LINE_BYTES {
        stream.read_exact(&mut byte).map_err(LaunchError::Greeting)?;
        line.extend_from_slice(&byte);
    }
    Ok(line)
}

/// Time limit of the connection. A launcher that works connects at once.
const WITHIN: Duration = Duration::from_secs(10);

/// Interval between checks of whether it has connected or exited.
const LOOK: Duration = Duration::from_millis(2);

/// Upper bound of a line. The longest one has the name of a key-value space.
const LINE_BYTES: usize = 512;
