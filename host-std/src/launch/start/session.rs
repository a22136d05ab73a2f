//! Sessions of ranks, and how they begin.
//!
//! Where the kernel divides the processors by session, ranks in sessions of their own get shares of their
//! own, which helps those that spin while they wait. It harms those that yield: a yield is to processes of
//! the same session alone. So the latter stay in the launcher's session, and those of MPICH, which yield
//! while they set up shared memory, on a machine that has idle processors when they start.

use super::child_start::{ChildStart, Leads};
use super::scheduling::RankScheduling;
use super::trampoline;
use crate::launch::plan::directives::DebugHold;
use crate::launch::signal::Ignored;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFlags};
use nix::sys::signal::SigSet;
use std::io;

/// Session of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Session {
    /// One that it leads, with a process group: signals to its own group, as the PMI library of Slurm
    /// sends them to abort, reach neither the launcher nor other ranks.
    Own,
    /// That of the launcher, with a process group of its own: the rank shares a processor with others and
    /// yields it to them. [`Own`](Self::Own) where ranks may not share the session.
    Shared,
    /// That of the launcher, and its process group: the rank reads the launcher's terminal.
    Ours,
}

/// Ways to start ranks for each session.
pub(super) struct SpawnAttributes {
    own: ChildStart,
    /// Attributes of `posix_spawn` for the trampoline.
    own_of_trampoline: PosixSpawnAttr,
    shared: Option<SharedAttributes>,
    ours: PosixSpawnAttr,
    /// Stop signals that ranks in the launcher's session do not block when they run.
    stops: SigSet,
    /// Scheduling of ranks that initialize, if it differs from the usual one.
    pub(super) scheduling: Option<RankScheduling>,
}

/// Starts in the launcher's session with process groups of their own.
struct SharedAttributes {
    start: ChildStart,
    /// For the trampoline.
    spawn: PosixSpawnAttr,
}

/// Way to start a rank.
pub(super) enum StartMethod<'a> {
    /// As a child that becomes the program.
    Direct(&'a ChildStart),
    /// With these attributes, by the [`trampoline`], which unblocks these stop signals.
    Trampoline(&'a PosixSpawnAttr, SigSet),
}

impl SpawnAttributes {
    /// Attributes of ranks with the signal mask `mask` and the signals that are `ignored`, of which some
    /// `may_share` the session of the launcher: it has no terminal, so that no terminal stops them.
    pub(super) fn new(mask: &SigSet, ignored: Ignored, may_share: bool) -> io::Result<Self> {
        let stops = trampoline::stops_outside(mask);
        let mut blocked = *mask;
        blocked.extend(&stops);
        let shared = || -> io::Result<_> {
            let start = ChildStart { mask: *mask, leads: Leads::Group { stops } };
            let flags = PosixSpawnFlags::POSIX_SPAWN_SETPGROUP;
            Ok(SharedAttributes { start, spawn: attributes(flags, &blocked, ignored)? })
        };
        Ok(Self {
            own: ChildStart { mask: *mask, leads: Leads::Session },
            own_of_trampoline: attributes(SETSID, mask, ignored)?,
            shared: may_share.then(shared).transpose()?,
            ours: attributes(PosixSpawnFlags::empty(), &blocked, ignored)?,
            stops,
            scheduling: RankScheduling::of_this_process(),
        })
    }

    /// Way to start a rank with its preparation for a debugger.
    pub(super) fn of(&self, session: Session, hold: DebugHold) -> StartMethod<'_> {
        let is_held = hold != DebugHold::None;
        match (session, &self.shared) {
            (Session::Ours, _) => StartMethod::Trampoline(&self.ours, self.stops),
            (Session::Shared, Some(shared)) if is_held => {
                StartMethod::Trampoline(&shared.spawn, self.stops)
            }
            (Session::Shared, Some(shared)) => StartMethod::Direct(&shared.start),
            (Session::Shared, None) | (Session::Own, _) if is_held => {
                StartMethod::Trampoline(&self.own_of_trampoline, SigSet::empty())
            }
            (Session::Shared, None) | (Session::Own, _) => StartMethod::Direct(&self.own),
        }
    }
}

/// Spawn attributes of a rank: `flags`, its blocked signals, and default actions for the others.
fn attributes(
    flags: PosixSpawnFlags,
    mask: &SigSet,
    ignored: Ignored,
) -> io::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_sigdefault(&ignored.others())?;
    attributes.set_sigmask(mask)?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | flags,
    )?;
    Ok(attributes)
}

/// Begins a session. The crate has no name for the flag, which is the same in every C library of Linux.
const SETSID: PosixSpawnFlags = PosixSpawnFlags::from_bits_retain(0x80);
