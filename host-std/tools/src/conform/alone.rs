//! A singleton, a program without a launcher, that needs one: it starts the launcher, which connects back.

use super::case::{Case, Played};
use super::lines::Lines;
use super::space::Space;
use super::talk::Talk;
use super::verdict::Verdict::{AsSpecified, NoAnswer, Refused, Wrong};
use super::verdict::{Finding, shown};
use pmi_std::Stream;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// All cases of singletons.
pub(super) const CASES: &[&[Case]] = &[&[Case::alone(
    "pmi1-singleton",
    "a program started alone starts a launcher: -pmi_args",
    play,
)]];

/// Starts `launcher` as a singleton does, and runs a session with it.
fn play(launcher: &str, patience: Duration) -> Played {
    let lost = |error: std::io::Error| Wrong.on(shown(error.to_string().as_bytes()));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(lost)?;
    let port = listener.local_addr().map_err(lost)?.port().to_string();
    let pid = std::process::id().to_string();
    let mut command = Command::new(launcher);
    command.args(["-pmi_args", &port, "default_interface", "default_key", &pid]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(lost)?;
    let finding = talk(&listener, &mut child, patience);
    // A launcher that is still running by now did not terminate after finalize.
    let _ = child.kill();
    let _ = child.wait();
    finding
}

fn talk(listener: &TcpListener, child: &mut Child, patience: Duration) -> Played {
    let mut talk = Talk::new(accept(listener, child, patience)?, patience);
    talk.line()?.expect("singinit")?;
    talk.send(b"cmd=singinit pmi_version=1 pmi_subversion=1 stdio=no authtype=none\n")?;
    let info = talk.line()?.expect("singinit_info")?;
    if info.field("versionok") != Some(b"yes") || info.field("kvsname").is_none() {
        return Err(info.judged(Refused));
    }
    let mut lines = Lines::new(talk, 0, 1);
    lines.open()?;
    lines.put("card", b"here")?;
    lines.fence()?;
    let found = lines.get("card")?;
    if found.as_deref() != Some(b"here") {
        return Err(Wrong.on("a value that was put is not there"));
    }
    let bye = lines.bye()?;
    match ended(child, patience) {
        None => Err(NoAnswer.on("the launcher had not ended after finalize")),
        Some(status) if status.success() => Ok(bye.judged(AsSpecified)),
        Some(status) => Err(Wrong.on(format!("{status} after a good end"))),
    }
}

/// Waits for the launcher to connect.
fn accept(
    listener: &TcpListener,
    child: &mut Child,
    patience: Duration,
) -> Result<Stream, Finding> {
    let until = Instant::now() + patience;
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
            return Err(Refused.on(format!("{status}, and nobody has connected")));
        }
        thread::sleep(LOOK);
    }
    Err(NoAnswer.on("nobody has connected"))
}

fn ended(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(LOOK);
    }
    None
}

/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(3);
