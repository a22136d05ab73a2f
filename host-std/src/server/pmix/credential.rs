//! Credentials: texts by which one process proves its identity to another.
//!
//! Wire: BYTE_OBJECT of `UID:GID:SECONDS:PROOF`. The first three are decimal numbers, the last of them
//! the age of the run at which the credential expires. The proof is the HMAC-SHA-256, under a label, of
//! all that precedes it, in 64 hexadecimal digits. Its key is random, generated with the first
//! credential, and known to this launcher only, so that a credential is valid for the processes of one
//! run.

use pmi_core::auth::{Label, PROOF_DIGITS, Secret};
use pmi_core::time::{Duration, Instant};
use pmi_host_os::random::random;
use std::io;

/// Issuer and validator of credentials.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    secret: Option<Secret>,
}

/// Identity under which a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserIdentity {
    /// User id.
    pub(crate) user: u32,
    /// Group id.
    pub(crate) group: u32,
}

impl Credentials {
    /// Issues a credential for `identity`.
    pub(crate) fn make(&mut self, identity: UserIdentity, now: Instant) -> io::Result<Vec<u8>> {
        let secret = match &self.secret {
            Some(secret) => secret,
            None => {
                let secret = Secret::new(&random::<32>()?).map_err(io::Error::other)?;
                self.secret.insert(secret)
            }
        };
        let mut text = claim(identity, now.plus(GOOD_FOR)).into_bytes();
        let proof = secret.prove(Label::Credential, &text);
        text.extend_from_slice(proof.as_bytes());
        Ok(text)
    }

    /// Identity of a credential; `None` if it is invalid or has expired.
    pub(crate) fn check(&self, credential: &[u8], now: Instant) -> Option<UserIdentity> {
        let (claimed, proof) = credential.split_last_chunk::<PROOF_DIGITS>()?;
        let text = str::from_utf8(claimed).ok()?;
        let mut fields = text.split(':');
        let user = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let until = Instant::from_micros(fields.next()?.parse::<u64>().ok()?.checked_mul(MICROS)?);
        let identity = UserIdentity { user, group };
        // The proof covers the only spelling of the claim, so that nothing can be added to it.
        let is_ours = text == claim(identity, until)
            && self
                .secret
                .as_ref()
                .is_some_and(|secret| secret.is_proved(Label::Credential, claimed, proof));
        (is_ours && now <= until).then_some(identity)
    }
}

fn claim(UserIdentity { user, group }: UserIdentity, until: Instant) -> String {
    format!("{user}:{group}:{}:", until.as_micros() / MICROS)
}

const MICROS: u64 = 1_000_000;

/// Lifetime of a credential, the same as in munge.
const GOOD_FOR: Duration = Duration::from_secs(300);

/// Type name of these credentials.
pub(crate) const TYPE: &[u8] = b"pmi-host";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_is_good_for_a_while_and_for_what_it_says_only() {
        let (mut ours, mut others) = (Credentials::default(), Credentials::default());
        let (now, subject) =
            (Instant::from_micros(7_500_000), UserIdentity { user: 1000, group: 100 });
        assert_eq!(ours.check(b"", now), None);
        let made = ours.make(subject, now).unwrap();
        assert!(made.starts_with(b"1000:100:307:"));
        assert_eq!(ours.check(&made, now), Some(subject));
        assert_eq!(ours.check(&made, now.plus(Duration::from_secs(299))), Some(subject));
        assert_eq!(ours.check(&made, now.plus(Duration::from_secs(301))), None);
        assert_eq!(others.check(&made, now), None);
        others.make(subject, now).unwrap();
        assert_eq!(others.check(&made, now), None);
        for at in 0..made.len() {
            let mut forged = made.clone();
            forged[at] ^= 1;
            assert_eq!(ours.check(&forged, now), None, "{}", forged.escape_ascii());
            assert_eq!(ours.check(&made[..at], now), None);
        }
        let longer = [b"0", &made[..]].concat();
        assert_eq!(ours.check(&longer, now), None);
    }
}
