//! Groups formed by invitation: `PMIx_Group_invite` and `PMIx_Group_join`.
//!
//! The library sends invitations and acceptances as events from client to client. The server delivers
//! them as any other event, and reads in those of the inviter which processes a fence means by the name
//! of the group:
//!
//! | event of the inviter | infos | effect |
//! |---|---|---|
//! | INVITED | name; invited processes as custom range | an open invitation |
//! | CONSTRUCT_COMPLETE | name; members, before 6.0 as custom range | a group |
//! | CONSTRUCT_ABORT | name | the invitation is closed |
//!
//! An acceptance (INVITE_ACCEPTED) contains the inviter and no group name, so the server cannot assign it
//! to an invitation. `PMIx_Group_join` returns as soon as the acceptance is sent, and a member may enter a
//! fence of the group before CONSTRUCT_COMPLETE: the name of an open invitation stands for the inviter and
//! all invited processes.

use super::context::{PmixContext, PmixView};
use super::event_cache::procs;
use super::groups::NAME_BYTES;
use super::procs::{ListedProc, pack_sorted, unpack_procs};
use super::shared_bytes::copy_bytes;
use super::tables::{PmixStorage, ProcessGroup};
use crate::ids::ProcId;
use crate::server::Storage;
use crate::storage::Slots;
use crate::wire::pmix::List;
use crate::wire::pmix::names::{Status, keys};

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixContext<'_, P, S> {
    /// Updates the groups after an event of a client, if the event is one of an inviter.
    ///
    /// An event that names no group, or a process that does not exist, changes nothing.
    ///
    /// # Errors
    ///
    /// [`Status::NOMEM`] or [`Status::OUT_OF_RESOURCE`] without room for the group.
    pub(super) fn handle_group_event(
        &mut self,
        source: ProcId,
        code: i32,
        infos: &List<'_>,
    ) -> Result<(), Status> {
        let inviter = match Status(code) {
            Status::GROUP_INVITED => Some(source),
            Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_CONSTRUCT_ABORT => None,
            _ => return Ok(()),
        };
        let name = infos.find(keys::GROUP_NAME).and_then(|name| name.text());
        let Some(name) = name.filter(|name| name.len() <= NAME_BYTES) else { return Ok(()) };
        let view = self.view();
        let open = view.invitation_by(source, Some(name));
        if code == Status::GROUP_CONSTRUCT_ABORT.0 {
            if let Some(at) = open {
                self.pmix.groups.remove(at);
            }
            return Ok(());
        }
        let former = match inviter {
            Some(_) if view.invitations_by(source).count() < INVITATIONS_MAX => open,
            // The first one, since an invitation that a process has declined may never be closed.
            Some(_) => open.or_else(|| view.invitation_by(source, None)),
            None => open.or_else(|| view.group_of(source, name)),
        };
        let key = match infos.find(keys::GROUP_MEMBERSHIP) {
            Some(_) => keys::GROUP_MEMBERSHIP,
            None => keys::EVENT_CUSTOM_RANGE,
        };
        let all = || procs(infos, key).map(|proc| view.listed_proc(proc));
        if all().any(|listed| listed.is_none()) {
            return Ok(());
        }
        // Without duplicates before wildcards are expanded, so that the list stays short.
        let listed: P::Bytes =
            pack_sorted(|| all().flatten().chain([source.into()])).ok_or(Status::NOMEM)?;
        let each = || unpack_procs(listed.as_ref()).flat_map(|listed| view.expand(listed));
        let members = pack_sorted(|| each().map(ListedProc::from)).ok_or(Status::NOMEM)?;
        let name = copy_bytes(name).ok_or(Status::NOMEM)?;
        let group = ProcessGroup { name, members, is_watched: false, inviter };
        if let Some(at) = former {
            self.pmix.groups.remove(at);
        }
        self.pmix.groups.insert(group).map(drop).ok_or(Status::OUT_OF_RESOURCE)
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixView<'a, P, S> {
    /// Place of an open invitation with this name that a process has sent or received.
    pub(super) fn invitation_of(self, member: ProcId, name: &[u8]) -> Option<usize> {
        let groups = &self.pmix.groups;
        (0..groups.end()).find(|at| {
            groups.get(*at).is_some_and(|group| {
                !group.is_complete() && group.name.as_ref() == name && group.has(member)
            })
        })
    }

    /// Place of an open invitation of this inviter, with this name if one is given.
    fn invitation_by(self, inviter: ProcId, name: Option<&[u8]>) -> Option<usize> {
        let mut all = self.invitations_by(inviter);
        all.find(|(_, group)| name.is_none_or(|name| group.name.as_ref() == name)).map(|(at, _)| at)
    }

    fn invitations_by(
        self,
        inviter: ProcId,
    ) -> impl Iterator<Item = (usize, &'a ProcessGroup<P::Bytes>)> {
        let groups = &self.pmix.groups;
        let all = (0..groups.end()).filter_map(|at| Some((at, groups.get(at)?)));
        all.filter(move |(_, group)| group.inviter == Some(inviter))
    }
}

/// Upper bound of the open invitations of one process. A further one replaces the first.
const INVITATIONS_MAX: usize = 8;
