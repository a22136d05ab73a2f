//! Verification of credentials of munge: the program `unmunge` asks the daemon of this machine, in a thread
//! for each credential, since the daemon may be slow or stopped.

use crate::clock;
use pmi_core::auth::{MungeCredential, Nonce};
use pmi_core::ids::SessionId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::geteuid;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Request of a peer whose credential is to be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialRequest {
    /// Session of the peer.
    pub session: SessionId,
    /// Number of the request.
    pub exchange: usize,
}

/// Verdict on a credential.
#[derive(Debug)]
pub struct CredentialVerdict {
    /// The request.
    pub request: CredentialRequest,
    /// Its outcome.
    pub result: Result<(), CredentialRejection>,
}

/// Rejection of a credential. The reason is the predicate of a message about the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialRejection {
    /// It was not verified, which is no fault of the peer.
    Unverified(String),
    /// It proves nothing.
    Invalid(String),
}

/// Verifies credentials beside the event loop.
#[derive(Debug)]
pub struct MungeVerifier {
    /// Socket of the daemon.
    socket: PathBuf,
    verdicts: (Sender<CredentialVerdict>, Receiver<CredentialVerdict>),
    /// A byte per verdict: written by threads, read by the event loop.
    wake: (UnixStream, UnixStream),
    running_count: usize,
}

impl MungeVerifier {
    /// Prepares verification by the daemon at `socket`.
    pub fn new(socket: PathBuf) -> io::Result<Self> {
        let wake = UnixStream::pair()?;
        wake.0.set_nonblocking(true)?;
        Ok(Self { socket, verdicts: channel(), wake, running_count: 0 })
    }

    /// Descriptor that is readable when a verdict is there.
    pub const fn source(&self) -> &UnixStream {
        &self.wake.0
    }

    /// Begins a verification; its verdict comes later, that of a rejection without verification too.
    pub fn start(&mut self, request: CredentialRequest, credential: Vec<u8>, nonce: Nonce) {
        let socket = self.socket.clone();
        let decide = move || verify(&socket, &credential, &nonce);
        let (to, wake) = (self.verdicts.0.clone(), self.wake.1.try_clone());
        let send = move |result| {
            // The receiver is gone if the launcher ends.
            let _ = to.send(CredentialVerdict { request, result });
            let _ = wake.and_then(|mut wake| wake.write_all(b"v"));
        };
        if self.running_count >= RUNNING_MAX {
            self.running_count += 1;
            let why = "cannot be verified: too many credentials are being verified".to_owned();
            return send(Err(CredentialRejection::Unverified(why)));
        }
        self.running_count += 1;
        let thread = thread::Builder::new().name("munge".into());
        // Without a thread the session ends at its deadline.
        if thread.spawn(move || send(decide())).is_err() {
            self.running_count -= 1;
        }
    }

    /// The next verdict, if there is one.
    pub fn next_verdict(&mut self) -> Option<CredentialVerdict> {
        let mut byte = [0];
        let _ = (&self.wake.0).read(&mut byte);
        let verdict = self.verdicts.1.try_recv().ok()?;
        self.running_count -= 1;
        Some(verdict)
    }
}

/// Verifies that a credential has the nonce of its session and is of this user or root.
fn verify(socket: &Path, credential: &[u8], nonce: &Nonce) -> Result<(), CredentialRejection> {
    let cannot = |error: io::Error| match error.kind() {
        io::ErrorKind::TimedOut => unverified(socket, &error.to_string()),
        _ => CredentialRejection::Unverified(format!(
            "cannot be verified: 'unmunge' cannot be executed ({error}); install 'munge'"
        )),
    };
    let mut command = Command::new("unmunge");
    command.arg("--socket").arg(socket).args(["--keys=UID"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(cannot)?;
    let answer = converse(&mut child, credential);
    if answer.is_err() {
        // It fails only if the program has exited by itself.
        let _ = child.kill();
    }
    let status = child.wait().map_err(cannot)?;
    let answer = answer.map_err(cannot)?;
    if !status.success() {
        let mut said = String::new();
        // A reason that cannot be read is none.
        let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
        return Err(rejection(status.code(), said.trim(), socket));
    }
    let payload = MungeCredential::payload(nonce.as_bytes()).unwrap_or_default();
    judge(&answer, &payload, geteuid().as_raw()).map_err(CredentialRejection::Invalid)
}

/// Rejection of a credential for which `unmunge` has exited with `code`, after it `said` why.
fn rejection(code: Option<i32>, said: &str, socket: &Path) -> CredentialRejection {
    let clocks = "compare the clocks of both hosts";
    let why = match code {
        Some(UNREACHABLE | TIMED_OUT) => return unverified(socket, said),
        Some(EXPIRED) => {
            format!("gave a credential of munge that has expired; {clocks}")
        }
        Some(REWOUND) => format!("gave a credential of munge from the future; {clocks}"),
        Some(REPLAYED) => "gave a credential of munge that was used before".to_owned(),
        _ => format!("gave a credential that munge does not accept ({said})"),
    };
    CredentialRejection::Invalid(why)
}

/// Rejection of a credential that the daemon has not verified.
fn unverified(socket: &Path, why: &str) -> CredentialRejection {
    CredentialRejection::Unverified(format!(
        "cannot be verified: munged does not answer at '{}' ({why}); start it there, or name the socket \
         of the one that runs with '--munge'",
        socket.display()
    ))
}

/// Judges the output of `unmunge`: a line with the user, an empty one, and the payload.
///
/// The user is a name, or `???` for one without a name, and the number in parentheses. Versions before 0.5.14
/// have no option for the number alone.
fn judge(answer: &[u8], payload: &[u8], own: u32) -> Result<(), String> {
    let end = answer.windows(2).position(|bytes| bytes == b"\n\n");
    let (head, given) = answer.split_at(end.ok_or("gave a credential without a payload")?);
    let head = String::from_utf8_lossy(head);
    let user = head.strip_prefix("UID:").and_then(|user| user.trim().strip_suffix(')'));
    let user = user.and_then(|user| user.rsplit_once('(')?.1.parse::<u32>().ok());
    match user {
        _ if given.get(2..) != Some(payload) => {
            Err("gave a credential for another session".to_owned())
        }
        Some(user) if user == own || user == 0 => Ok(()),
        Some(user) => Err(format!(
            "gave a credential of user {user}; ranks of this job run as user {own}, or as root"
        )),
        None => Err("gave a credential of an unknown user".to_owned()),
    }
}

/// Hands the credential over and reads the answer, within the time limit.
fn converse(child: &mut Child, credential: &[u8]) -> io::Result<Vec<u8>> {
    let until = clock::now() + WITHIN;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends before it has read all tells why.
        let _ = stdin.write_all(credential);
    }
    let Some(mut stdout) = child.stdout.take() else { return Ok(Vec::new()) };
    let (mut answer, mut part) = (Vec::new(), [0; 512]);
    while answer.len() < ANSWER_MAX {
        let left = until.saturating_duration_since(clock::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        if poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&timeout))? == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "within the time limit"));
        }
        match stdout.read(&mut part)? {
            0 => break,
            len => answer.extend_from_slice(&part[..len]),
        }
    }
    Ok(answer)
}

/// Time limit of a verification, less than that of its session, which the verdict must find open.
const WITHIN: Duration = Duration::from_secs(3);

/// Exit codes of `unmunge`: the daemon cannot be reached, or has not answered in time; the credential is
/// too old, was made later than now, or was verified before.
const UNREACHABLE: i32 = 6;
const TIMED_OUT: i32 = 7;
const EXPIRED: i32 = 15;
const REWOUND: i32 = 16;
const REPLAYED: i32 = 17;

/// Number of verifications at once, that of unauthenticated connections.
const RUNNING_MAX: usize = 64;

/// Longest answer that is read; a payload of this project is much shorter.
const ANSWER_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    // Coverage: W2-26
    #[test]
    fn credential_is_of_this_session_and_of_this_user_or_root() {
        let payload = b"pmi-munge 333333333333333333";
        let answer = |user: &str, payload: &[u8]| {
            [format!("UID:              {user}\n\n").as_bytes(), payload].concat()
        };
        for user in ["name (1000)", "??? (1000)", "a (1001) b (1000)", "root (0)"] {
            assert_eq!(judge(&answer(user, payload), payload, 1000), Ok(()), "{user}");
        }
        let other = judge(&answer("(1000) (1001)", payload), payload, 1000).unwrap_err();
        assert!(other.contains("of user 1001") && other.contains("as user 1000"), "{other}");
        for wrong in [&b""[..], b"pmi-munge 333333333333333334", b"pmi-munge 333333333333333333\n"]
        {
            assert!(judge(&answer("name (1000)", wrong), payload, 1000).is_err());
        }
        for user in ["", "1000", "name (-1)", "name (x)", "name (1000", "name 1000)", "(1000) x"] {
            assert!(judge(&answer(user, payload), payload, 1000).is_err());
        }
        assert!(judge(b"UID: root (0)", payload, 0).is_err());
    }

    #[test]
    fn cause_of_a_rejection_follows_from_the_exit_code() {
        let of = |code| match rejection(code, "said", Path::new("/run/socket")) {
            CredentialRejection::Unverified(why) => (true, why),
            CredentialRejection::Invalid(why) => (false, why),
        };
        for (code, is_unverified, parts) in [
            (Some(6), true, ["'/run/socket'", "said"]),
            (Some(7), true, ["'/run/socket'", "said"]),
            (Some(15), false, ["expired", "clocks of both hosts"]),
            (Some(16), false, ["future", "clocks of both hosts"]),
            (Some(17), false, ["used before", ""]),
            (Some(14), false, ["does not accept", "(said)"]),
            (None, false, ["does not accept", "(said)"]),
        ] {
            let (is_it, why) = of(code);
            assert_eq!(is_it, is_unverified, "{why}");
            assert!(parts.into_iter().all(|part| why.contains(part)), "{why}");
        }
    }
}
