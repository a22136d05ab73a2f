//! What PMIx clients are told about their job, and about others.

use super::PmixStorage;
use super::connection::PmixResponse;
use super::modex::RankData;
use super::shared_bytes::{SharedBytes, pack};
use super::state::PmixContext;
use super::storage::ConnStateOf;
use crate::ids::{JobId, ProcId, Rank};
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::{
    Format, Info, Kval, Kvals, Packer, Proc, Release, Type, Unpacker, WILDCARD,
};

/// A job as PMIx clients see it.
#[derive(Debug)]
pub struct Namespace<B, M> {
    pub(super) job: JobId,
    /// KVALs, in [`Format::PLAIN`].
    pub(super) info: B,
    pub(super) ranks: M,
    /// The fence of the whole job that was looked at last.
    pub(super) generation: u32,
    /// How that fence ends, if not for all that should have come.
    pub(super) is_partial: bool,
    /// What stands first in answers to REQ, one for each way to write it.
    descriptions: heapless::Vec<(DescriptionFormat, B), DESCRIPTIONS_MAX>,
}

/// A way to write the description of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DescriptionFormat {
    format: Format,
    library: LibraryGeneration,
}

/// What libraries make of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LibraryGeneration {
    /// Before 4.2: data of the session stands by itself and not in an array, and nothing is asked for that
    /// the description lacks.
    Old,
    /// 4.2: what the description lacks of other ranks is asked for.
    Asking,
    /// From 5.0 on: the same, but for what tells the node and the application of a rank.
    New,
}

impl<B: SharedBytes, M: AsMut<[RankData<B>]>> Namespace<B, M> {
    pub(super) const fn new(job: JobId, info: B, posts: M) -> Self {
        let answers = heapless::Vec::new();
        Self { job, info, ranks: posts, generation: 0, is_partial: false, descriptions: answers }
    }

    /// The description of the job as it is given to `rank` of this `release` in `format`. All ranks of a job
    /// mostly have the same library, so that what is for all is made once for all of them.
    ///
    /// A library keeps what it is told value by value, which costs every rank more time for others than for
    /// all else in the description. So of others it gets what is looked for without asking, or by
    /// everybody, and the rest when it asks.
    fn describe(
        &mut self,
        nspace: &[u8],
        rank: Rank,
        (format, release): (Format, Release),
    ) -> Option<PmixResponse<B>> {
        let format_key = DescriptionFormat { format, library: LibraryGeneration::of(release) };
        let known = self.descriptions.iter().find(|(other, _)| *other == format_key);
        let answer = match known.map(|(_, answer)| answer.clone()) {
            Some(answer) => answer,
            None => {
                let only = format_key.library.peer_keys(self.info.as_ref());
                let answer: B = pack(format, |to| {
                    to.one(Type::STRING).text(Some(nspace));
                    write_info(self.info.as_ref(), format_key.library, only, to);
                })?;
                // With no place left it is made anew each time.
                let _ = self.descriptions.push((format_key, answer.clone()));
                answer
            }
        };
        if format_key.library == LibraryGeneration::Old {
            return Some(PmixResponse::Body(answer));
        }
        let own = blobs(self.info.as_ref()).find(|(of, _)| *of == rank.0);
        let own = pack(format, |to| {
            if let Some((rank, kvals)) = &own {
                write_blob(*rank, kvals.clone(), None, to);
            }
        })?;
        Some(PmixResponse::Bodies(answer, own))
    }
}

impl<B, M> Namespace<B, M>
where
    B: SharedBytes,
    M: AsRef<[RankData<B>]>,
{
    pub(super) fn rank_data(&self, rank: Rank) -> Option<&RankData<B>> {
        self.ranks.as_ref().get(rank.index())
    }

    /// What the job's description says about one rank under a key, or about the job, node or
    /// application: the value of the process comes first.
    pub(super) fn find(&self, rank: u32, key: &[u8]) -> Option<crate::wire::pmix::Value<'_>> {
        let kvals = || Kvals::new(self.info.as_ref(), Format::PLAIN).map_while(Result::ok);
        let of_rank = self.of_rank(rank).and_then(|kvals| kvals.find(key));
        let of_job = || kvals().find(|kval| kval.key == key).map(|kval| kval.value);
        let in_array = || {
            let arrays = kvals().filter_map(|kval| {
                let name = match kval.key {
                    keys::NODE_ARRAY => Some(keys::NODEID),
                    keys::APP_ARRAY => Some(keys::APPNUM),
                    keys::SESSION_ARRAY => None,
                    _ => return None,
                };
                let array = kval.value.array()?;
                // The node or application of somebody else has other values.
                let own = name.and_then(|name| self.of_rank(rank)?.find(name));
                let its = name.and_then(|name| array.find(name));
                let is_others = own.is_some() && its.is_some() && own != its;
                (!is_others).then_some(array)
            });
            { arrays }.find_map(|array| array.find(key))
        };
        of_rank.or_else(of_job).or_else(in_array)
    }

    /// All that the job's description says about one rank.
    pub(super) fn of_rank(&self, rank: u32) -> Option<Kvals<'_>> {
        blobs(self.info.as_ref()).find(|(of, _)| *of == rank).map(|(_, kvals)| kvals)
    }

    /// Writes the description of the job behind its name space, as those of other jobs are told it.
    pub(super) fn write_description(&self, nspace: &[u8], release: Release, to: &mut Packer<'_>) {
        to.one(Type::STRING).text(Some(nspace));
        write_info(self.info.as_ref(), LibraryGeneration::of(release), None, to);
    }

    /// Writes the description of the job without its name.
    pub(super) fn write_kvals(&self, to: &mut Packer<'_>) {
        write_info(self.info.as_ref(), LibraryGeneration::New, None, to);
    }

    /// Writes what is known of the job as one object of an answer.
    pub(super) fn write_object(&self, nspace: &[u8], to: &mut Packer<'_>) {
        to.one(Type::BYTE_OBJECT).nested(|to| {
            Proc { nspace, rank: WILDCARD }.write(to.one(Type::PROC));
            self.write_kvals(to);
        });
    }
}

impl<P: PmixStorage, S: Storage> PmixContext<'_, P, S> {
    /// Answers REQ.
    pub(super) fn describe(
        &mut self,
        state: &ConnStateOf<P>,
        ProcId { job, rank }: ProcId,
    ) -> PmixResponse<P::Bytes> {
        let name = self.server.job(job).map(|job| job.name().clone());
        let (Some(name), Some(namespace)) = (name, get_mut(self.jobs, job)) else {
            return PmixResponse::Status(Status::NOT_FOUND);
        };
        let answer = namespace.describe(name.as_bytes(), rank, (state.format, state.release));
        answer.unwrap_or(PmixResponse::Status(Status::NOMEM))
    }
}

impl LibraryGeneration {
    fn of(release: Release) -> Self {
        if release < Release::V4_2 {
            Self::Old
        } else if release < Release::new(5, 0, 0) {
            Self::Asking
        } else {
            Self::New
        }
    }

    /// Under which keys the description `namespace` is told about other ranks; `None` for all.
    fn peer_keys(self, info: &[u8]) -> Option<&'static [&'static [u8]]> {
        let kvals = Kvals::new(info, Format::PLAIN).map_while(Result::ok);
        let applications = kvals.filter(|kval| kval.key == keys::APP_ARRAY).count();
        let count = match self {
            Self::Old => return None,
            // Where there is one application, it is that of every rank.
            Self::Asking if applications < 2 => 2,
            Self::Asking => 3,
            Self::New => PEER_KEYS.len(),
        };
        PEER_KEYS.get(..count)
    }
}

/// The job with this name.
pub(super) fn named<B, M, S: Storage>(
    jobs: &impl Slots<Namespace<B, M>>,
    server: &Server<S>,
    nspace: &[u8],
) -> Option<JobId> {
    let is = |id: &JobId| server.job(*id).is_some_and(|job| job.name().as_bytes() == nspace);
    (0..jobs.end()).filter_map(|at| jobs.get(at)).map(|namespace| namespace.job).find(is)
}

pub(super) fn get<B, M>(
    jobs: &impl Slots<Namespace<B, M>>,
    job: JobId,
) -> Option<&Namespace<B, M>> {
    jobs.get(place(jobs, job)?)
}

pub(super) fn get_mut<B, M>(
    jobs: &mut impl Slots<Namespace<B, M>>,
    job: JobId,
) -> Option<&mut Namespace<B, M>> {
    let at = place(jobs, job)?;
    jobs.get_mut(at)
}

pub(super) fn rank_data_mut<'a, B: 'a, M: AsMut<[RankData<B>]> + 'a>(
    jobs: &'a mut impl Slots<Namespace<B, M>>,
    job: JobId,
    rank: Rank,
) -> Option<&'a mut RankData<B>> {
    get_mut(jobs, job)?.ranks.as_mut().get_mut(rank.index())
}

pub(super) fn place<B, M>(jobs: &impl Slots<Namespace<B, M>>, job: JobId) -> Option<usize> {
    (0..jobs.end()).find(|at| jobs.get(*at).is_some_and(|namespace| namespace.job == job))
}

/// What a description, which is in [`Format::PLAIN`], says about each rank.
fn blobs(info: &[u8]) -> impl Iterator<Item = (u32, Kvals<'_>)> {
    let kvals = Kvals::new(info, Format::PLAIN).map_while(Result::ok);
    kvals.filter(|kval| kval.key == keys::PROC_BLOB).filter_map(|kval| blob(&kval))
}

/// The rank that a value is about, and what it says.
fn blob<'a>(kval: &Kval<'a>) -> Option<(u32, Kvals<'a>)> {
    let mut from = Unpacker::new(kval.value.blob()?, Format::PLAIN);
    let rank = from.one(Type::PROC_RANK).and_then(|from| from.u32()).ok()?;
    Some((rank, Kvals::after(from)))
}

/// Writes the description of a job, which is in [`Format::PLAIN`], as `to` is written; `only` these keys of
/// ranks, if not all. Every value of it is ours, so that none is of an unknown type.
fn write_info(info: &[u8], era: LibraryGeneration, only: Option<&[&[u8]]>, to: &mut Packer<'_>) {
    if to.format() == Format::PLAIN && era != LibraryGeneration::Old && only.is_none() {
        to.raw(info);
        return;
    }
    for kval in Kvals::new(info, Format::PLAIN).map_while(Result::ok) {
        let is_flat = era == LibraryGeneration::Old && kval.key == keys::SESSION_ARRAY;
        match kval.value.array().filter(|_| is_flat) {
            Some(session) => session.infos().for_each(|Info { key, value, .. }| {
                let _ = Kval { key, value }.write(to);
            }),
            None if kval.key == keys::PROC_BLOB => {
                if let Some((rank, kvals)) = blob(&kval) {
                    write_blob(rank, kvals, only, to);
                }
            }
            None => {
                let _ = kval.write(to);
            }
        }
    }
}

/// What holds for a process is packed once more inside, in the format of the connection.
fn write_blob(rank: u32, kvals: Kvals<'_>, only: Option<&[&[u8]]>, to: &mut Packer<'_>) {
    to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT).nested(|to| {
        to.one(Type::PROC_RANK).u32(rank);
        let kvals = kvals.clone().map_while(Result::ok);
        for kval in kvals.filter(|kval| only.is_none_or(|only| only.contains(&kval.key))) {
            let _ = kval.write(to);
        }
    });
}

/// What is told of other ranks. Open MPI 4.1 and 5.0 take the name of a peer's node only if it is known
/// without asking, and 5.0 asks each peer's local rank to share memory with it. By its application and its
/// node a library finds what is said about these.
const PEER_KEYS: [&[u8]; 4] = [keys::HOSTNAME, keys::LOCAL_RANK, keys::APPNUM, keys::NODEID];

/// Two families, described or not, for old libraries and for new ones.
const DESCRIPTIONS_MAX: usize = 8;
