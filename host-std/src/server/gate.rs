//! Where ranks that are not our children dial in, and what they must know to be let in.
//!
//! Nothing listens unless somebody asked for it. Without a secret only this machine may call: whoever
//! can dial could take the place of a rank. With one, a PMI-2 client answers a challenge, and a PMI-1
//! client, which has no words for that, says a number that follows from the secret.

use super::secure::Certificate;
use crate::web::WebGate;
use pmi_core::auth::{Challenge, NONCE_DIGITS, Nonce, Secret};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;

/// An address to listen on, for how many, and the secret.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The address; none if ranks dial in through web sockets only.
    pub address: Option<SocketAddr>,
    /// How many ranks are to dial in.
    pub expected: u32,
    /// What they must know.
    pub secret: Option<Secret>,
    /// Whether they speak TLS.
    pub is_secured: bool,
}

impl Gate {
    /// Finds the address and reads the secret.
    ///
    /// Errors: a sentence for people, with the way out.
    pub fn resolve(
        address: Option<&str>,
        expected: u32,
        secret_file: Option<&OsStr>,
        is_secured: bool,
    ) -> Result<Self, String> {
        let address = address.map(|address| look_up("--listen", address)).transpose()?;
        let secret = secret_file.map(read_secret).transpose()?;
        address.map_or(Ok(()), |address| guard(address, secret.as_ref()))?;
        Ok(Self { address, expected, secret, is_secured })
    }

    /// The number by which rank `number` of those dials in that may, counted through all jobs.
    pub fn identity(&self, number: u32) -> u64 {
        self.secret.as_ref().map_or(u64::from(number), |secret| identity(secret, number))
    }

    /// The certificate by which ranks know us, if they speak TLS: a new one for each job.
    ///
    /// Errors: a sentence for people.
    pub fn certificate(&self) -> Result<Option<Certificate>, String> {
        self.is_secured.then(Certificate::for_job).transpose()
    }

    /// A new challenge, if one is to be met.
    ///
    /// Errors: those of the system's random source.
    pub fn challenge(&self) -> io::Result<Option<Challenge>> {
        Self::challenge_of(self.secret.as_ref())
    }

    /// A new challenge for whoever must know `secret`, if there is one.
    ///
    /// Errors: those of the system's random source.
    pub fn challenge_of(secret: Option<&Secret>) -> io::Result<Option<Challenge>> {
        let Some(secret) = secret else { return Ok(None) };
        let mut random = [0; NONCE_DIGITS];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        Ok(Some(Challenge::new(secret, Nonce::new(random))))
    }
}

impl WebGate {
    /// Finds the address, which may be a port of this machine, and reads the secret.
    ///
    /// Errors: a sentence for people, with the way out.
    pub fn resolve(
        address: &str,
        secret_file: Option<&OsStr>,
        is_secured: bool,
        origins: &[String],
    ) -> Result<Self, String> {
        let address = match address.parse::<u16>() {
            Ok(port) => SocketAddr::from(([127, 0, 0, 1], port)),
            Err(_) => look_up("--websocket", address)?,
        };
        let secret = secret_file.map(read_secret).transpose()?;
        guard(address, secret.as_ref())?;
        if is_secured && !address.ip().is_loopback() {
            return Err(format!(
                "pages would speak in the clear at {address}, in spite of '--tls'; let them dial in \
                 at 127.0.0.1, behind something that speaks TLS, or leave '--tls' out"
            ));
        }
        Ok(Self { address, secret, origins: origins.to_vec() })
    }
}

fn look_up(option: &str, address: &str) -> Result<SocketAddr, String> {
    let found = address.to_socket_addrs().map_err(|error| {
        format!("'{option} {address}' is no address ({error}); try '{option} 127.0.0.1:0'")
    })?;
    { found }
        .next()
        .ok_or_else(|| format!("'{option} {address}' names no address; try '{option} 127.0.0.1:0'"))
}

/// Only this machine may call without a secret.
fn guard(address: SocketAddr, secret: Option<&Secret>) -> Result<(), String> {
    match secret.is_some() || address.ip().is_loopback() {
        true => Ok(()),
        false => Err(format!(
            "other machines can dial in at {address}, so a secret is needed: add \
             '--secret-file FILE', or listen on 127.0.0.1"
        )),
    }
}

/// Reads a secret from a file that nobody else may read. A line end behind it does not count.
///
/// Errors: a sentence for people, with the way out.
pub fn read_secret(file: &OsStr) -> Result<Secret, String> {
    let shown = file.display();
    let cannot = |error: io::Error| format!("the secret in '{shown}' cannot be read ({error})");
    let mut open = File::open(file).map_err(cannot)?;
    if open.metadata().map_err(cannot)?.mode() & OTHERS != 0 {
        return Err(format!(
            "others may read the secret in '{shown}'; 'chmod 600 {shown}' ends that"
        ));
    }
    let mut bytes = Vec::new();
    open.read_to_end(&mut bytes).map_err(cannot)?;
    Secret::new(bytes.trim_ascii_end()).map_err(|_| {
        format!(
            "the secret in '{shown}' must have 16 to 64 bytes; 'head -c 32 /dev/urandom | base64' \
             makes one"
        )
    })
}

/// The number by which `rank` dials in: the first 31 bits of the SHA-256 of the secret and `pmiid-RANK`,
/// which is as much as a client keeps that reads it into an `int`.
pub fn identity(secret: &Secret, rank: u32) -> u64 {
    let proof = secret.prove(format!("pmiid-{rank}").as_bytes());
    let digits = proof.as_bytes().iter().take(8);
    let value = digits.fold(0, |sum, digit| {
        let digit = char::from(*digit).to_digit(16).unwrap_or_default();
        sum << 4 | u64::from(digit)
    });
    value >> 1
}

/// Everybody but the owner.
const OTHERS: u32 = 0o077;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_may_call_without_a_secret() {
        for here in ["127.0.0.1:0", "[::1]:4000"] {
            assert!(Gate::resolve(Some(here), 1, None, true).is_ok(), "{here}");
        }
        for open in ["0.0.0.0:4000", "[::]:4000", "192.0.2.1:4000"] {
            let why = Gate::resolve(Some(open), 1, None, true).unwrap_err();
            assert!(why.contains("--secret-file"), "{why}");
        }
        assert!(
            Gate::resolve(Some("127.0.0.1"), 1, None, false).unwrap_err().contains("127.0.0.1:0")
        );
    }

    #[test]
    fn a_port_for_pages_is_one_of_this_machine() {
        let here = WebGate::resolve("4711", None, true, &[]).unwrap();
        assert_eq!(here.address.to_string(), "127.0.0.1:4711");
        assert!(WebGate::resolve("0.0.0.0:1", None, false, &[]).unwrap_err().contains("secret"));
        assert!(WebGate::resolve("nowhere", None, false, &[]).unwrap_err().contains("--websocket"));
    }

    #[test]
    fn the_number_of_a_rank_follows_from_the_secret() {
        let secret = Secret::new(b"correct horse battery staple").unwrap();
        // printf 'correct horse battery staplepmiid-3' | sha256sum
        assert_eq!(identity(&secret, 3), FIRST_EIGHT_DIGITS >> 1);
        assert_ne!(identity(&secret, 3), identity(&secret, 4));
    }

    const FIRST_EIGHT_DIGITS: u64 = 0x77a9_2014;
}
