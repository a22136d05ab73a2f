//! What PMIx clients are told about their job, and about others.

use super::Memory;
use super::block::{Block, packed};
use super::connection::{Owed, Talk};
use super::post::Post;
use super::state::Reach;
use crate::ids::{JobId, Rank};
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::{
    Format, Info, Kval, Kvals, Packer, Proc, Release, Type, Unpacker, WILDCARD,
};

/// A job as PMIx clients see it.
#[derive(Debug)]
pub struct JobView<B, M> {
    pub(super) job: JobId,
    /// KVALs, in [`Format::PLAIN`].
    pub(super) info: B,
    pub(super) posts: M,
    /// The fence of the whole job that was looked at last.
    pub(super) generation: u32,
    /// How that fence ends, if not for all that should have come.
    pub(super) is_partial: bool,
    /// Answers to REQ, one for each way to write it.
    answers: heapless::Vec<(Manner, B), MANNERS_MAX>,
}

/// A way to write the description of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Manner {
    format: Format,
    /// Data of the session stands by itself and not in an array.
    is_flat: bool,
}

impl<B: Block, M: AsMut<[Post<B>]>> JobView<B, M> {
    pub(super) const fn new(job: JobId, info: B, posts: M) -> Self {
        let answers = heapless::Vec::new();
        Self { job, info, posts, generation: 0, is_partial: false, answers }
    }

    /// The description of the job as it is given to `release` in `format`. All ranks of a job mostly
    /// have the same library, so that one is made for all of them.
    fn describe(&mut self, nspace: &[u8], format: Format, release: Release) -> Option<B> {
        let manner = Manner { format, is_flat: release < Release::V4_2 };
        if let Some((_, answer)) = self.answers.iter().find(|(other, _)| *other == manner) {
            return Some(answer.clone());
        }
        let answer: B = packed(format, |to| {
            to.one(Type::STRING).text(Some(nspace));
            write_info(self.info.as_ref(), manner.is_flat, to);
        })?;
        // With no place left it is made anew each time.
        let _ = self.answers.push((manner, answer.clone()));
        Some(answer)
    }
}

impl<B, M> JobView<B, M>
where
    B: Block,
    M: AsRef<[Post<B>]>,
{
    pub(super) fn post(&self, rank: Rank) -> Option<&Post<B>> {
        self.posts.as_ref().get(rank.index())
    }

    /// What the job's description says about one rank under a key, or about the job, node or
    /// application: the value of the process comes first.
    pub(super) fn find(&self, rank: u32, key: &[u8]) -> Option<crate::wire::pmix::Value<'_>> {
        let kvals = || Kvals::new(self.info.as_ref(), Format::PLAIN).map_while(Result::ok);
        let of_rank = kvals().filter(|kval| kval.key == keys::PROC_BLOB).find_map(|blob| {
            let mut from = Unpacker::new(blob.value.blob()?, Format::PLAIN);
            let is_it = from.one(Type::PROC_RANK).ok()?.u32().ok()? == rank;
            Kvals::after(from).find(key).filter(|_| is_it)
        });
        let of_job = || kvals().find(|kval| kval.key == key).map(|kval| kval.value);
        let in_array = || {
            let arrays = kvals().filter_map(|kval| {
                let arrays = [keys::SESSION_ARRAY, keys::NODE_ARRAY, keys::APP_ARRAY];
                arrays.contains(&kval.key).then(|| kval.value.array())?
            });
            { arrays }.find_map(|array| array.find(key))
        };
        of_rank.or_else(of_job).or_else(in_array)
    }

    /// Writes the description of the job behind its name space, as REQ is answered.
    pub(super) fn write_description(&self, nspace: &[u8], release: Release, to: &mut Packer<'_>) {
        to.one(Type::STRING).text(Some(nspace));
        write_info(self.info.as_ref(), release < Release::V4_2, to);
    }

    /// Writes the description of the job without its name.
    pub(super) fn write_kvals(&self, to: &mut Packer<'_>) {
        write_info(self.info.as_ref(), false, to);
    }

    /// Writes what is known of the job as one object of an answer.
    pub(super) fn write_object(&self, nspace: &[u8], to: &mut Packer<'_>) {
        to.one(Type::BYTE_OBJECT).nested(|to| {
            Proc { nspace, rank: WILDCARD }.write(to.one(Type::PROC));
            self.write_kvals(to);
        });
    }
}

impl<P: Memory, S: Storage> Reach<'_, P, S> {
    /// Answers REQ.
    pub(super) fn describe(
        &mut self,
        talk: &Talk<P::Block, P::Pendings>,
        job: JobId,
    ) -> Owed<P::Block> {
        let name = self.server.job(job).map(|job| job.name().clone());
        let (Some(name), Some(view)) = (name, view_mut(self.jobs, job)) else {
            return Owed::Status(Status::NOT_FOUND);
        };
        let answer = view.describe(name.as_bytes(), talk.format, talk.release);
        answer.map_or(Owed::Status(Status::NOMEM), Owed::Body)
    }
}

/// The job with this name.
pub(super) fn named<B, M, S: Storage>(
    jobs: &impl Slots<JobView<B, M>>,
    server: &Server<S>,
    nspace: &[u8],
) -> Option<JobId> {
    let is = |id: &JobId| server.job(*id).is_some_and(|job| job.name().as_bytes() == nspace);
    (0..jobs.end()).filter_map(|at| jobs.get(at)).map(|view| view.job).find(is)
}

pub(super) fn view<B, M>(jobs: &impl Slots<JobView<B, M>>, job: JobId) -> Option<&JobView<B, M>> {
    jobs.get(place(jobs, job)?)
}

pub(super) fn view_mut<B, M>(
    jobs: &mut impl Slots<JobView<B, M>>,
    job: JobId,
) -> Option<&mut JobView<B, M>> {
    let at = place(jobs, job)?;
    jobs.get_mut(at)
}

pub(super) fn post_mut<'a, B: 'a, M: AsMut<[Post<B>]> + 'a>(
    jobs: &'a mut impl Slots<JobView<B, M>>,
    job: JobId,
    rank: Rank,
) -> Option<&'a mut Post<B>> {
    view_mut(jobs, job)?.posts.as_mut().get_mut(rank.index())
}

pub(super) fn place<B, M>(jobs: &impl Slots<JobView<B, M>>, job: JobId) -> Option<usize> {
    (0..jobs.end()).find(|at| jobs.get(*at).is_some_and(|view| view.job == job))
}

/// Writes the description of a job, which is in [`Format::PLAIN`], as `to` is written. Every value
/// of it is ours, so that none is of an unknown type.
fn write_info(info: &[u8], is_flat: bool, to: &mut Packer<'_>) {
    if to.format() == Format::PLAIN && !is_flat {
        to.raw(info);
        return;
    }
    for kval in Kvals::new(info, Format::PLAIN).map_while(Result::ok) {
        match kval.value.array().filter(|_| is_flat && kval.key == keys::SESSION_ARRAY) {
            Some(session) => session.infos().for_each(|Info { key, value, .. }| {
                let _ = Kval { key, value }.write(to);
            }),
            None if kval.key == keys::PROC_BLOB => write_blob(&kval, to),
            None => {
                let _ = kval.write(to);
            }
        }
    }
}

/// What holds for a process is packed once more inside, in the format of the connection.
fn write_blob(kval: &Kval<'_>, to: &mut Packer<'_>) {
    let Some(bytes) = kval.value.blob() else { return };
    to.one(Type::KVAL).text(Some(kval.key)).of(Type::BYTE_OBJECT).nested(|to| {
        let mut from = Unpacker::new(bytes, Format::PLAIN);
        let Ok(rank) = from.one(Type::PROC_RANK).and_then(|from| from.u32()) else { return };
        to.one(Type::PROC_RANK).u32(rank);
        for kval in Kvals::after(from).map_while(Result::ok) {
            let _ = kval.write(to);
        }
    });
}

/// Two families, described or not, for old libraries and for new ones.
const MANNERS_MAX: usize = 8;
