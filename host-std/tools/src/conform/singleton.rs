//! A singleton, a program without a launcher, that needs one: it starts the launcher, which connects back.

use super::case::{Case, CaseResult};
use super::rank_client::{CaseProtocol, RankClient};
use super::raw_connection::RawConnection;
use super::verdict::Verdict::{AsSpecified, NoAnswer, Refused, Wrong};
use super::verdict::{Finding, shown};
use pmi_std::Stream;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// All cases of singletons.
pub(super) const CASES: &[&[Case]] = &[&[Case::singleton(
    "pmi1-singleton",
    "a program started alone starts a launcher: -pmi_args",
    play,
)]];

/// Starts `launcher` as a singleton does, and runs a session with it.
#[expect(
    clippy::disallowed_methods,
    reason = "serves the one program under test, which an intruder could only make fail"
)]
fn play(launcher: &str, timeout: Duration) -> CaseResult {
    let lost = |error: std::io::Error| Wrong.on(shown(error.to_string().as_bytes()));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(lost)?;
    let port = listener.local_addr().map_err(lost)?.port().to_string();
    let pid = std::process::id().to_string();
    let mut command = Command::new(launcher);
    command.args(["-pmi_args", &port, "default_interface", "default_key", &pid]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(lost)?;
    let finding = run_session(&listener, &mut child, timeout);
    // A launcher that is still running by now did not terminate after finalize.
    let _ = child.kill();
    let _ = child.wait();
    finding
}

fn run_session(listener: &TcpListener, child: &mut Child, timeout: Duration) -> CaseResult {
    let mut connection = RawConnection::new(accept(listener, child, timeout)?, timeout);
    connection.recv_line()?.expect("singinit")?;
    connection.send(b"cmd=singinit pmi_version=1 pmi_subversion=1 stdio=no authtype=none\n")?;
    let info = connection.recv_line()?.expect("singinit_info")?;
    if info.field("versionok") != Some(b"yes") || info.field("kvsname").is_none() {
        return Err(info.judged(Refused));
    }
    let mut client = RankClient::new(CaseProtocol::Pmi1, connection, 0, 1);
    client.open()?;
    client.put("card", b"here")?;
    client.fence()?;
    let found = client.get("card")?;
    if found.as_deref() != Some(b"here") {
        return Err(Wrong.on("a value that was put is not there"));
    }
    let finalize = client.finalize()?;
    match wait_for_exit(child, timeout) {
        None => Err(NoAnswer.on("the launcher had not exited after finalize")),
        Some(status) if status.success() => Ok(finalize.judged(AsSpecified)),
        Some(status) => Err(Wrong.on(format!("{status} after a successful run"))),
    }
}

/// Waits for the launcher to connect.
fn accept(listener: &TcpListener, child: &mut Child, timeout: Duration) -> Result<Stream, Finding> {
    let until = Instant::now() + timeout;
    let lost = |error: std::io::Error| Wrong.on(shown(error.to_string().as_bytes()));
    listener.set_nonblocking(true).map_err(lost)?;
    while Instant::now() < until {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(lost)?;
                return Ok(stream.into());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(lost(error)),
        }
        if let Some(status) = child.try_wait().map_err(lost)? {
            return Err(Refused.on(format!("{status}, and no client has connected")));
        }
        thread::sleep(CHECK_INTERVAL);
    }
    Err(NoAnswer.on("no client has connected"))
}

fn wait_for_exit(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + timeout;
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(CHECK_INTERVAL);
    }
    None
}

/// Interval between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(3);
