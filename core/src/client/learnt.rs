//! What a client knows about its server, as far as it has asked.

use crate::command::{Answer, Identity, Maxes, Reply};
use crate::error::{Malformed, PeerError};
use crate::ids::KvsName;
use crate::limits::{PMI1_MAX_KEYLEN, PMI1_MAX_KVSNAME, PMI1_MAX_VALLEN};
use crate::parts;

/// What the server has said about itself, as far as it was asked.
#[derive(Debug)]
pub(super) struct Learnt {
    pub(super) kvsname: Option<KvsName>,
    pub(super) maxes: Maxes,
    pub(super) identity: Option<Identity<'static>>,
    /// Whether another job has spawned this one, as `fullinit` says it.
    pub(super) spawned: bool,
}

impl Learnt {
    pub(super) const fn new() -> Self {
        Self { kvsname: None, maxes: MAXES_UNASKED, identity: None, spawned: false }
    }

    /// The caller's own space; empty while it is not known.
    pub(super) fn name(&self) -> &[u8] {
        self.kvsname.as_ref().map_or(b"", KvsName::as_bytes)
    }

    /// Takes over what an answer says.
    ///
    /// Errors: [`PeerError::Malformed`] for a name that cannot be said back.
    pub(super) fn learn(&mut self, reply: &Reply<'_>) -> Result<(), PeerError> {
        match reply.answer {
            Answer::Name(name) => {
                let bad = PeerError::Malformed(Malformed::new(0, "the name of a space"));
                let name = name.as_plain().ok_or(bad)?;
                self.kvsname = Some(KvsName::new(name).map_err(|_| bad)?);
            }
            Answer::Maxes(maxes) => self.maxes = maxes,
            Answer::Identity(identity) if parts::FRAMES || parts::DIAL => {
                self.spawned = identity.spawner.is_some();
                self.identity = Some(Identity {
                    rank: identity.rank,
                    size: identity.size,
                    appnum: identity.appnum,
                    // It lies in bytes that go, and the owner sees it in the event.
                    spawner: None,
                });
            }
            _ => {}
        }
        Ok(())
    }
}

/// What every known server allows at least.
#[allow(clippy::cast_possible_truncation, reason = "the sizes are constants below 2000")]
const MAXES_UNASKED: Maxes = Maxes {
    kvsname: PMI1_MAX_KVSNAME as u32,
    key: PMI1_MAX_KEYLEN as u32,
    value: PMI1_MAX_VALLEN as u32,
};
