//! Participants of the construction of a group, as nodes exchange them: one record for each, in
//! [`Format::PLAIN`].
//!
//! ```text
//! PROC  BYTE flags  SIZE number of infos  INFO for each
//! SIZE number of leaders, or 0  SIZE number of processes that this one names as a leader  PROC for each
//! ```

use crate::error::Malformed;
use crate::wire::pmix::names::{flags, keys};
use crate::wire::pmix::{Format, Info, List, Packer, Proc, Type, Unpacker, request};

/// A participant that has joined, on any node.
#[derive(Clone, Copy, Debug)]
pub struct GroupParticipant<'a> {
    /// The process.
    pub proc: Proc<'a>,
    /// Number of the leaders of a bootstrap, if it is one of them, else 0.
    pub leaders: u64,
    /// [`TOLERANT`] and the others.
    pub(super) flags: u8,
    /// Number of infos that it contributes.
    count: u64,
    infos: Unpacker<'a>,
    /// Number of processes that it names as a leader.
    named_count: u64,
    named: Unpacker<'a>,
}

impl<'a> GroupParticipant<'a> {
    /// True if the participant contributes, and be it nothing.
    pub(super) const fn has_contribution(&self) -> bool {
        self.flags & CONTRIBUTES != 0
    }

    fn read(from: &mut Unpacker<'a>) -> Result<Self, Malformed> {
        let proc = Proc::read(from.one(Type::PROC)?)?;
        let flags = from.one(Type::BYTE)?.u8()?;
        let count = from.one(Type::SIZE)?.size()?;
        let infos = *from;
        for _ in 0..count {
            Info::read(from.one(Type::INFO)?)?;
        }
        let leaders = from.one(Type::SIZE)?.size()?;
        let named_count = from.one(Type::SIZE)?.size()?;
        let named = *from;
        for _ in 0..named_count {
            Proc::read(from.one(Type::PROC)?)?;
        }
        Ok(Self { proc, leaders, flags, count, infos, named_count, named })
    }

    /// Processes that a leader of a bootstrap names besides itself, or whole jobs.
    pub fn named(&self) -> impl Iterator<Item = Proc<'a>> + use<'a> {
        let mut from = self.named;
        (0..self.named_count).map_while(move |_| Proc::read(from.one(Type::PROC).ok()?).ok())
    }

    fn infos(&self) -> impl Iterator<Item = Info<'a>> + use<'a> {
        let mut from = self.infos;
        (0..self.count).map_while(move |_| Info::read(from.one(Type::INFO).ok()?).ok())
    }

    /// Writes the contribution as members receive it: one pack operation of an INFO, with the name of the
    /// process in front.
    pub(super) fn write_contribution(&self, to: &mut Packer<'_>) {
        to.one(Type::INFO).text(Some(keys::GROUP_INFO)).u32(0);
        to.of(Type::DATA_ARRAY).of(Type::INFO).size(self.count + 1);
        self.proc.write(to.text(Some(keys::PROC_ID)).u32(0).of(Type::PROC));
        self.infos().for_each(|info| write_info(&info, info.flags, to));
    }

    /// The contributed infos as KVALs, qualified by the context id of the group.
    pub(super) fn qualified(
        &self,
        context: u32,
    ) -> impl Iterator<Item = impl Fn(&mut Packer<'_>) + use<'a>> + use<'a> {
        self.infos().map(move |info| {
            move |to: &mut Packer<'_>| {
                to.one(Type::KVAL).text(Some(keys::QUALIFIED_VALUE)).of(Type::DATA_ARRAY);
                to.of(Type::INFO).size(2);
                write_info(&info, 0, to);
                to.text(Some(keys::GROUP_CONTEXT_ID)).u32(flags::QUALIFIER);
                to.of(Type::SIZE).size(context.into());
            }
        })
    }
}

/// Writes the record of a participant, from its request.
pub(super) fn write_participant(
    proc: Proc<'_>,
    group: &request::Collective<'_>,
    to: &mut Packer<'_>,
) {
    let is_set = |key| group.infos.is_set(key);
    let list = contribution(group);
    let mut flags = 0;
    for (is_set, flag) in [
        (is_set(keys::GROUP_OPTIONAL) || is_set(keys::GROUP_FT_COLLECTIVE), TOLERANT),
        (is_set(keys::GROUP_NOTIFY_TERMINATION), WATCHED),
        (is_set(keys::GROUP_ASSIGN_CONTEXT_ID), WANTS_CONTEXT),
        (list.is_some(), CONTRIBUTES),
    ] {
        flags |= if is_set { flag } else { 0 };
    }
    let infos = || {
        let all = list.iter().flat_map(|list| list.infos());
        all.filter(|info| info.key != keys::PROC_ID)
    };
    proc.write(to.one(Type::PROC));
    to.one(Type::BYTE).u8(flags).one(Type::SIZE).size(infos().count() as u64);
    infos().for_each(|info| write_info(&info, info.flags, to.one(Type::INFO)));
    let leaders = leaders(group);
    let named = || named(group).filter(|_| leaders.is_some());
    to.one(Type::SIZE).size(leaders.unwrap_or(0)).one(Type::SIZE).size(named().count() as u64);
    named().for_each(|proc| proc.write(to.one(Type::PROC)));
}

/// The participants of checked records, as a part of a construction has them.
pub fn participants(records: &[u8]) -> impl Iterator<Item = GroupParticipant<'_>> {
    let mut from = Unpacker::new(records, Format::PLAIN);
    core::iter::from_fn(
        move || {
            if from.is_empty() { None } else { GroupParticipant::read(&mut from).ok() }
        },
    )
}

/// Checks records.
///
/// # Errors
///
/// [`Malformed`].
pub(super) fn check_participants(records: &[u8]) -> Result<(), Malformed> {
    let mut from = Unpacker::new(records, Format::PLAIN);
    while !from.is_empty() {
        GroupParticipant::read(&mut from)?;
    }
    Ok(())
}

/// Number of leaders, if the request is of a leader.
pub(super) fn leaders(group: &request::Collective<'_>) -> Option<u64> {
    let number = group.infos.find(keys::GROUP_BOOTSTRAP)?.number()?;
    u64::try_from(number).ok().filter(|number| *number > 0)
}

/// Processes that a leader names besides itself: those it lists, and those it adds.
pub(super) fn named<'a>(
    group: &request::Collective<'a>,
) -> impl Iterator<Item = Proc<'a>> + use<'a> {
    let added = group.infos.find(keys::GROUP_ADD_MEMBERS);
    let added = added.and_then(|added| added.array()).map(|added| added.procs());
    group.procs.procs().chain(added.into_iter().flatten())
}

/// Contribution of a process, if any.
pub(super) fn contribution<'a>(group: &request::Collective<'a>) -> Option<List<'a>> {
    group.infos.find(keys::GROUP_INFO)?.array().filter(|list| list.of == Type::INFO)
}

/// Writes an info as it stands inside other values.
pub(super) fn write_info(info: &Info<'_>, flags: u32, to: &mut Packer<'_>) {
    to.text(Some(info.key)).u32(flags).of(info.value.of);
    // It was read as a value of this type, so writing succeeds.
    let _ = info.value.write(to);
}

/// A group without those that are gone will do.
pub(super) const TOLERANT: u8 = 1;

/// Members are notified of the end of a member.
pub(super) const WATCHED: u8 = 2;

/// The group gets a context id.
pub(super) const WANTS_CONTEXT: u8 = 4;

const CONTRIBUTES: u8 = 8;
