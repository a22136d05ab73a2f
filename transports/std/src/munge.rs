//! Proof of the user of this process by a credential of munge.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use pmi_core::auth::{MUNGE_METHOD, MungeCredential};
use pmi_core::client::{AuthAnswer, AuthProgress, AuthText, Prover};
use pmi_core::command::{Answer, Reply};

/// The client's side of the method `munge`: one session, whose credential the program `munge` requests from
/// the daemon of this machine.
#[derive(Debug)]
pub(crate) struct MungeProver {
    /// Socket of the daemon; `None` for that of the system.
    socket: Option<PathBuf>,
    credential: OnceLock<io::Result<Vec<u8>>>,
}

impl MungeProver {
    pub(crate) const fn new(socket: Option<PathBuf>) -> Self {
        Self { socket, credential: OnceLock::new() }
    }

    /// The reason for which there is no credential, if one was requested.
    pub(crate) fn into_failure(self) -> Option<io::Error> {
        self.credential.into_inner()?.err()
    }

    fn request(&self, payload: &[u8]) -> io::Result<Vec<u8>> {
        let mut command = Command::new("munge");
        command.stdin(Stdio::null());
        if let Some(socket) = &self.socket {
            command.arg("--socket").arg(socket);
        }
        command.arg("--string").arg(String::from_utf8_lossy(payload).as_ref());
        let done = command.output()?;
        let credential = done.stdout.trim_ascii();
        if done.status.success() && MungeCredential::is_credential(credential) {
            return Ok(credential.to_vec());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(io::Error::other(format!("{}: {}", done.status, said.trim())))
    }
}

impl Prover for MungeProver {
    fn method(&self) -> &'static [u8] {
        MUNGE_METHOD
    }

    fn answer(&self, _: &mut AuthProgress, reply: &Reply<'_>) -> Option<AuthAnswer<'_>> {
        let Answer::Challenge(nonce) = reply.answer else { return None };
        let nonce: Vec<u8> = nonce.bytes().collect();
        let payload = MungeCredential::payload(&nonce)?;
        // A server that sends a second nonce gets no second credential.
        if self.credential.get().is_some() {
            return None;
        }
        let credential = self.credential.get_or_init(|| self.request(&payload)).as_ref().ok()?;
        Some(AuthAnswer { text: AuthText::Lent(credential), is_last: true })
    }
}
