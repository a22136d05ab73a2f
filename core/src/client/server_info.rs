//! Data that a client has received about its server and its job.

use crate::command::{Answer, Identity, Maxes, Reply};
use crate::error::Malformed;
use crate::ids::KvsName;
use crate::limits::{PMI1_MAX_KEYLEN, PMI1_MAX_KVSNAME, PMI1_MAX_VALLEN};
use crate::parts;

/// Server information, as far as the client has requested it.
#[derive(Debug)]
pub(super) struct ServerInfo {
    /// The name of the caller's own space; [`KvsName::none()`] while it is not known.
    kvsname: KvsName,
    pub(super) maxes: Maxes,
    pub(super) identity: Option<Identity<'static>>,
    /// True if another job has spawned this one, according to `fullinit`.
    pub(super) spawned: bool,
}

impl ServerInfo {
    pub(super) const fn new() -> Self {
        Self { kvsname: KvsName::none(), maxes: MAXES_UNASKED, identity: None, spawned: false }
    }

    /// Name of the caller's own space; empty while it is not known.
    pub(super) fn name(&self) -> &[u8] {
        self.kvsname.as_bytes()
    }

    /// Name of the caller's own space, once it is known.
    pub(super) fn kvsname(&self) -> Option<&KvsName> {
        if self.name().is_empty() { None } else { Some(&self.kvsname) }
    }

    /// Stores the content of a reply; fails for a name that cannot be written back.
    pub(super) fn learn(&mut self, reply: &Reply<'_>) -> Result<(), Malformed> {
        match reply.answer {
            Answer::Name(name) => {
                let learnt = name.as_plain().map(|name| self.kvsname.become_name(name));
                if !matches!(learnt, Some(Ok(()))) {
                    return Err(Malformed::new(0, "the name of a space"));
                }
            }
            Answer::Maxes(maxes) => self.maxes = maxes,
            Answer::Identity(identity) if parts::PMI2 || parts::LISTEN => {
                self.spawned = identity.spawner.is_some();
                self.identity = Some(Identity {
                    rank: identity.rank,
                    size: identity.size,
                    appnum: identity.appnum,
                    // Its bytes are released after the event, which shows it to the owner.
                    spawner: None,
                    is_debugged: identity.is_debugged,
                    is_verbose: identity.is_verbose,
                });
            }
            _ => {}
        }
        Ok(())
    }
}

/// Sizes that every known server allows at least.
#[allow(clippy::cast_possible_truncation, reason = "the sizes are constants below 2000")]
const MAXES_UNASKED: Maxes = Maxes {
    kvsname: PMI1_MAX_KVSNAME as u32,
    key: PMI1_MAX_KEYLEN as u32,
    value: PMI1_MAX_VALLEN as u32,
};
