//! The method in which a credential of munge is the proof: a service of the cluster vouches for the user of
//! a process.
//!
//! Wire: `fullinit;authtype=munge` · `auth-response;authinfo=NONCE` ·
//! `auth-response-complete;authinfo=CREDENTIAL` · `fullinit-response`. The payload of the credential is the
//! nonce as it stands on the wire, behind the word `pmi-munge` and a blank, so a credential made for another
//! service or session is none here. Its user, which the daemon of munge at the server tells, must be one that
//! the owner admits.
//! Spec: PMI-2 wire protocol, PMI_Init, whose methods may have additional exchanges; munge(7).

use super::{AuthMessage, AuthMethod, AuthStep, Challenge, is_nonce};

/// Name of the method.
pub const MUNGE_METHOD: &[u8] = b"munge";

/// First word of a payload.
const LABEL: &[u8] = b"pmi-munge";

/// Longest payload: the label, a blank and a nonce of 64 bits.
const PAYLOAD_BYTES: usize = 30;

/// The method of one round whose proof the owner of the server has verified by the daemon of munge.
#[derive(Debug)]
pub struct MungeCredential;

impl MungeCredential {
    /// Payload of the credential that answers `nonce`, given as it stands on the wire; `None` unless it is a
    /// decimal number of 64 bits or less.
    pub fn payload(nonce: &[u8]) -> Option<heapless::Vec<u8, PAYLOAD_BYTES>> {
        let mut payload = heapless::Vec::from_slice(LABEL).ok()?;
        payload.push(b' ').ok()?;
        payload.extend_from_slice(nonce).ok()?;
        is_nonce(nonce).then_some(payload)
    }

    /// True if `text` has the form of a credential: the word `MUNGE`, and digits of base 64 between colons.
    pub fn is_credential(text: &[u8]) -> bool {
        let digits = text.strip_prefix(b"MUNGE:").and_then(|text| text.strip_suffix(b":"));
        let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
        digits.is_some_and(|digits| !digits.is_empty() && digits.iter().all(is_digit))
    }
}

impl AuthMethod for MungeCredential {
    fn name(&self) -> &'static [u8] {
        MUNGE_METHOD
    }

    fn handle(&self, _: &Challenge, round: u8, message: AuthMessage<'_>) -> AuthStep {
        match (round, message) {
            (1, AuthMessage { text, is_last: true }) if Self::is_credential(text) => {
                AuthStep::Verify
            }
            _ => AuthStep::Rejected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{METHOD, MUTUAL_METHOD, Nonce, Secret};
    use super::*;

    #[test]
    fn payload_is_the_nonce_behind_a_label() {
        let payload = MungeCredential::payload(b"18446744073709551615").unwrap();
        assert_eq!(payload, b"pmi-munge 18446744073709551615");
        for bad in [&b""[..], b"x", b"1 2", &[b'1'; 21], &[b'1'; 200]] {
            assert_eq!(MungeCredential::payload(bad), None);
        }
    }

    #[test]
    fn text_of_another_form_is_rejected_without_the_daemon() {
        let challenge = Challenge::munge(Nonce::new([3; 18]));
        let method = challenge.method(MUNGE_METHOD).unwrap();
        let step =
            |round, text, is_last| method.handle(&challenge, round, AuthMessage { text, is_last });
        assert_eq!(step(1, b"MUNGE:AwQ+/w==:", true), AuthStep::Verify);
        for wrong in
            [&b""[..], b"MUNGE:", b"MUNGE::", b"MUNGE:a", b"MUNGE:a b:", b"munge:a:", b"MUNGE:-:"]
        {
            assert_eq!(step(1, wrong, true), AuthStep::Rejected, "{}", wrong.escape_ascii());
        }
        assert_eq!(step(1, b"MUNGE:AwQ=:", false), AuthStep::Rejected);
        assert_eq!(step(2, b"MUNGE:AwQ=:", true), AuthStep::Rejected);
    }

    #[test]
    fn method_is_offered_where_the_owner_asks_for_it() {
        let secret = Secret::new(b"correct horse battery staple").unwrap();
        let alone = Challenge::munge(Nonce::new([3; 18]));
        assert!(alone.method(METHOD).is_none() && alone.method(MUTUAL_METHOD).is_none());
        let mutual = Challenge::with_mutual(&secret, Nonce::new([3; 18]));
        assert!(mutual.method(MUNGE_METHOD).is_none());
        for name in [METHOD, MUTUAL_METHOD, MUNGE_METHOD] {
            assert!(mutual.or_munge().method(name).is_some());
        }
    }
}
