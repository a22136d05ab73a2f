//! Listen configuration for ranks that are not children of the launcher, and their authentication.
//!
//! The launcher listens only on request. Without a secret a listener is on loopback, and a peer must be
//! of the launcher's own user ([`Policy::Owner`](pmi_host_os::admission::Policy)). With one, a PMI-2 client
//! answers a challenge, and a PMI-1 client, whose protocol has no challenge, sends an identity that is
//! derived from the secret.

use super::secure::Certificate;
use crate::settings;
use pmi_core::auth::Secret;
use pmi_host_os::admission::secret::{IdWidth, identity};
use pmi_host_os::resolver;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Listen configuration: address, number of expected ranks and secret.
#[derive(Clone, Debug)]
pub(crate) struct ListenConfig {
    /// Address; `None` if ranks connect through web sockets only.
    pub(crate) address: Option<SocketAddr>,
    /// Number of ranks that are expected to connect.
    pub(crate) expected: u32,
    /// Secret that ranks must know.
    pub(crate) secret: Option<Secret>,
    /// True if connections use TLS.
    pub(crate) is_secured: bool,
    /// True if ranks must prove knowledge of the secret by the challenge; an identity is not enough then.
    pub(crate) requires_challenge: bool,
    /// Width of identities derived from the secret.
    pub(crate) id_width: IdWidth,
    /// Socket of munged, if a credential of munge is a proof, too.
    pub(crate) munge: Option<PathBuf>,
    /// True if ranks that the launcher starts connect here, and no others.
    pub(crate) is_for_started: bool,
}

impl ListenConfig {
    /// Resolves the address.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(crate) fn resolve(
        job: &settings::JobSettings,
        expected: u32,
        secret: Option<Secret>,
    ) -> Result<Self, String> {
        let address = job.listen.as_deref();
        // Programs that are executed later may have another working directory.
        let munge = job.proof.munge.as_ref().map(std::path::absolute).transpose();
        let munge = munge.map_err(|error| format!("the socket of munged has no path: {error}"))?;
        Ok(Self {
            address: address.map(|address| look_up("--listen", address)).transpose()?,
            expected,
            secret,
            is_secured: job.is_secured && job.listen.is_some(),
            requires_challenge: job.proof.requires_challenge,
            id_width: if job.proof.has_short_ids { IdWidth::Bits31 } else { IdWidth::Bits63 },
            munge,
            is_for_started: false,
        })
    }

    /// Listener of this node for the ranks that are started on it: their processes are the proof.
    pub(crate) fn for_started() -> Self {
        Self {
            address: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            expected: 0,
            secret: None,
            is_secured: false,
            requires_challenge: false,
            id_width: IdWidth::Bits31,
            munge: None,
            is_for_started: true,
        }
    }

    /// Identity of rank `number` of those that may connect, counted through all jobs.
    pub(crate) fn identity(&self, number: u32) -> u64 {
        let of_secret = |secret| identity(secret, number, self.id_width);
        self.secret.as_ref().map_or(u64::from(number), of_secret)
    }

    /// True if a secret must be generated.
    pub(crate) fn lacks_secret(&self) -> bool {
        let is_open = self.address.is_some_and(|address| !address.ip().is_loopback());
        self.secret.is_none() && (is_open || self.requires_challenge || self.munge.is_some())
    }

    /// Certificate by which ranks authenticate the server under TLS: a new one for each job.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(crate) fn certificate(&self) -> Result<Option<Certificate>, String> {
        self.is_secured.then(Certificate::for_job).transpose()
    }
}

/// Listen configuration for pages.
#[derive(Clone, Debug)]
pub(crate) struct WebListenConfig {
    /// Address of the listener.
    pub(crate) address: SocketAddr,
    /// Secret that observers must know.
    pub(crate) secret: Option<Secret>,
    /// Permitted origins of pages, besides those of this machine: `https://host:port`.
    pub(crate) origins: Vec<String>,
}

impl WebListenConfig {
    /// Resolves the address, which may be a port of the local machine.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(crate) fn resolve(
        address: &str,
        job: &settings::JobSettings,
        secret: Option<Secret>,
    ) -> Result<Self, String> {
        let address = match address.parse::<u16>() {
            Ok(port) => SocketAddr::from(([127, 0, 0, 1], port)),
            Err(_) => look_up("--websocket", address)?,
        };
        if job.is_secured && !address.ip().is_loopback() {
            return Err(format!(
                "pages would connect without encryption at {address}, in spite of '--tls'; let \
                 them connect at 127.0.0.1, behind a proxy that speaks TLS, or leave '--tls' out"
            ));
        }
        Ok(Self { address, secret, origins: job.origins.clone() })
    }

    /// True if a secret must be generated.
    pub(crate) fn lacks_secret(&self) -> bool {
        self.secret.is_none() && !self.address.ip().is_loopback()
    }
}

fn look_up(option: &str, address: &str) -> Result<SocketAddr, String> {
    let found = resolver::resolve(address).map_err(|error| {
        format!("'{option} {address}' is not an address ({error}); try '{option} 127.0.0.1:0'")
    })?;
    { found }
        .first()
        .copied()
        .ok_or_else(|| format!("'{option} {address}' names no address; try '{option} 127.0.0.1:0'"))
}

/// Remedy where the users of sockets cannot be known.
pub(crate) const WITH_SECRET: &str = "with '--secret-file FILE' peers prove themselves";

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(listen: &str, requires_challenge: bool) -> Result<ListenConfig, String> {
        let listen = Some(listen.to_owned());
        let proof = settings::job::ProofSettings { requires_challenge, ..Default::default() };
        let job = settings::JobSettings { listen, proof, ..Default::default() };
        ListenConfig::resolve(&job, 1, None)
    }

    fn web(address: &str, is_secured: bool) -> Result<WebListenConfig, String> {
        let job = settings::JobSettings { is_secured, ..settings::JobSettings::default() };
        WebListenConfig::resolve(address, &job, None)
    }

    #[test]
    fn other_machines_need_a_secret() {
        for here in ["127.0.0.1:0", "[::1]:4000"] {
            assert!(!listen(here, false).unwrap().lacks_secret(), "{here}");
            assert!(listen(here, true).unwrap().lacks_secret(), "{here}");
        }
        for open in ["0.0.0.0:4000", "[::]:4000", "192.0.2.1:4000", "[::ffff:127.0.0.1]:1"] {
            assert!(listen(open, false).unwrap().lacks_secret(), "{open}");
            assert!(web(open, false).unwrap().lacks_secret(), "{open}");
        }
        assert!(listen("127.0.0.1", false).unwrap_err().contains("127.0.0.1:0"));
    }

    #[test]
    fn socket_of_munged_has_an_absolute_path() {
        let proof =
            settings::job::ProofSettings { munge: Some("socket".into()), ..Default::default() };
        let job = settings::JobSettings { proof, ..Default::default() };
        let munge = ListenConfig::resolve(&job, 1, None).unwrap().munge;
        assert_eq!(munge, Some(std::env::current_dir().unwrap().join("socket")));
    }

    #[test]
    fn port_for_pages_is_one_of_this_machine() {
        let here = web("4711", true).unwrap();
        assert_eq!(here.address.to_string(), "127.0.0.1:4711");
        assert!(!here.lacks_secret());
        assert!(web("0.0.0.0:1", true).unwrap_err().contains("without encryption"));
        assert!(web("nowhere", false).unwrap_err().contains("--websocket"));
    }
}
