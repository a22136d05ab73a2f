//! Job-level information of PMIx clients: their own job and, on request, others.

use super::rank_data::{RankData, RemoteModex};
use super::session::PmixResponse;
use super::shared_bytes::{SharedBytes, pack};
use crate::ids::{JobId, Rank};
use crate::server::roster::place_of;
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::{
    Format, Info, Kval, Kvals, Packer, Proc, Release, Type, Unpacker, Value, WILDCARD,
};

/// A job as PMIx clients see it.
#[derive(Debug)]
pub struct Namespace<B, M> {
    pub(super) job: JobId,
    /// KVALs, in [`Format::PLAIN`].
    pub(super) info: B,
    /// The same about the hardware of this node, for ranks of the job that are here.
    pub(super) hardware: Option<B>,
    pub(super) ranks: M,
    /// Committed data of ranks on other nodes.
    pub(super) remote: RemoteModex<B>,
    /// True if a get may wait for data of a rank on another node.
    pub(super) is_remote_awaited: bool,
    /// Generation of the last fence of the whole job that was handled.
    pub(super) generation: u32,
    /// True if a get may wait for data of any rank.
    pub(super) is_awaited: bool,
    /// True if that fence completes without some of its participants.
    pub(super) is_partial: bool,
    /// True if a process in that fence has requested the data of all others with it.
    pub(super) collects_data: bool,
    /// True if its process is a tool.
    pub(super) is_tool: bool,
    /// True if the owner keeps a store of the job in shared memory.
    pub(super) has_store: bool,
    /// Name of a job of another run, which has no number.
    pub(super) foreign: Option<ForeignName<B>>,
    /// Encoded job descriptions, which begin each answer to REQ: one per wire format and library
    /// generation.
    descriptions: heapless::Vec<(DescriptionFormat, B), DESCRIPTIONS_MAX>,
}

/// A way to write the description of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DescriptionFormat {
    format: Format,
    library: LibraryGeneration,
    /// True for a client that reads the rest in the store of its job.
    is_stored: bool,
}

/// Treatment of a job description by the client library, which differs by release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LibraryGeneration {
    /// Before 4.2: session data stands by itself and not in an array, and the library requests
    /// nothing that the description lacks.
    Old,
    /// 4.2: the library requests values of other ranks that the description lacks.
    Requesting,
    /// From 5.0 on: like 4.2, except for the keys that locate the node and the application of a
    /// rank.
    New,
}

impl<B: SharedBytes, M: AsMut<[RankData<B>]>> Namespace<B, M> {
    pub(super) const fn new(job: JobId, info: B, posts: M) -> Self {
        Self {
            job,
            info,
            hardware: None,
            ranks: posts,
            remote: RemoteModex::new(),
            is_remote_awaited: false,
            generation: 0,
            is_awaited: false,
            is_partial: false,
            collects_data: false,
            is_tool: false,
            has_store: false,
            foreign: None,
            descriptions: heapless::Vec::new(),
        }
    }

    pub(super) fn rank_data_mut(&mut self, rank: Rank) -> Option<&mut RankData<B>> {
        let ranks = self.ranks.as_mut();
        let place = place_of(ranks, rank)?;
        ranks.get_mut(place)
    }

    /// Notes that other nodes get what the ranks have committed for them so far.
    pub(super) fn mark_elsewhere(&mut self) {
        for data in self.ranks.as_mut() {
            data.is_elsewhere |= data.remote.is_some();
        }
    }

    /// Packs the description of the job for `rank`, whose library has this `release` and reads
    /// `format`. Ranks of a job mostly share a library, so the part common to all of them is packed
    /// once and cached.
    ///
    /// A library stores a description value by value, so data about the other ranks costs each rank
    /// more time than the rest of the description. About other ranks it therefore contains only the
    /// values that libraries read without a request, or that every rank reads; the others are sent
    /// on request.
    pub(super) fn describe(
        &mut self,
        nspace: &[u8],
        rank: Rank,
        (format, release): (Format, Release),
        is_stored: bool,
    ) -> Option<PmixResponse<B>> {
        let library = LibraryGeneration::of(release);
        let format_key = DescriptionFormat { format, library, is_stored };
        let known = self.descriptions.iter().find(|(other, _)| *other == format_key);
        let answer = match known.map(|(_, answer)| answer.clone()) {
            Some(answer) => answer,
            None => {
                let only = format_key.library.peer_keys(self.info.as_ref());
                let answer: B = pack(format, |to| {
                    to.one(Type::STRING).text(Some(nspace));
                    match is_stored {
                        true => write_arrays(self.info.as_ref(), to),
                        false => {
                            write_info(self.info.as_ref(), library, only, to);
                            if library != LibraryGeneration::Old {
                                write_of_node(self.hardware(), to);
                            }
                        }
                    }
                })?;
                // Without a free place it is packed for each request.
                let _ = self.descriptions.push((format_key, answer.clone()));
                answer
            }
        };
        if is_stored || library == LibraryGeneration::Old {
            return Some(PmixResponse::Body(answer));
        }
        let own = pack(format, |to| {
            for info in [self.info.as_ref(), self.hardware()] {
                if let Some((rank, kvals)) = blobs(info).find(|(of, _)| *of == rank.0) {
                    write_blob(rank, kvals, None, to);
                }
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
        let ranks = self.ranks.as_ref();
        ranks.get(place_of(ranks, rank)?)
    }

    /// Finds the value of a key for a rank in the job description. The value of the process
    /// precedes those of the job, its node and its application.
    pub(super) fn find(&self, rank: u32, key: &[u8]) -> Option<Value<'_>> {
        let placed = || blobs(self.hardware()).find(|(of, _)| *of == rank).map(|(_, kvals)| kvals);
        let mut of_rank = self.of_rank(rank).into_iter().chain(placed());
        let of_rank = of_rank.find_map(|kvals| kvals.find(key));
        let of_job = || self.kvals().find(|kval| kval.key == key).map(|kval| kval.value);
        let in_array = || {
            let arrays = self.kvals().filter_map(|kval| {
                let name = match kval.key {
                    keys::NODE_ARRAY => Some(keys::NODEID),
                    keys::APP_ARRAY => Some(keys::APPNUM),
                    keys::SESSION_ARRAY => None,
                    _ => return None,
                };
                let array = kval.value.array()?;
                // The node or application of another process has other values.
                let own = name.and_then(|name| self.of_rank(rank)?.find(name));
                let its = name.and_then(|name| array.find(name));
                let is_others = own.is_some() && its.is_some() && own != its;
                (!is_others).then_some(array)
            });
            { arrays }.find_map(|array| array.find(key))
        };
        of_rank.or_else(of_job).or_else(in_array)
    }

    /// Values of one rank in the job description.
    pub(super) fn of_rank(&self, rank: u32) -> Option<Kvals<'_>> {
        blobs(self.info.as_ref()).find(|(of, _)| *of == rank).map(|(_, kvals)| kvals)
    }

    /// Writes the namespace and its job description, in the form used for descriptions of other
    /// jobs.
    pub(super) fn write_description(&self, nspace: &[u8], release: Release, to: &mut Packer<'_>) {
        to.one(Type::STRING).text(Some(nspace));
        write_info(self.info.as_ref(), LibraryGeneration::of(release), None, to);
    }

    /// Writes the description of the job without its name.
    pub(super) fn write_kvals(&self, to: &mut Packer<'_>) {
        write_info(self.info.as_ref(), LibraryGeneration::New, None, to);
    }

    /// Writes the job description as one object of an answer, with that of the hardware or without.
    pub(super) fn write_object(&self, nspace: &[u8], with_hardware: bool, to: &mut Packer<'_>) {
        to.one(Type::BYTE_OBJECT).nested(|to| {
            Proc { nspace, rank: WILDCARD }.write(to.one(Type::PROC));
            self.write_kvals(to);
            if with_hardware {
                write_of_node(self.hardware(), to);
            }
        });
    }
}

impl<B: SharedBytes, M> Namespace<B, M> {
    /// Values of the job description, and of the hardware of this node.
    pub(super) fn kvals(&self) -> impl Iterator<Item = Kval<'_>> + Clone {
        let parts = [self.info.as_ref(), self.hardware()].into_iter();
        parts.flat_map(|info| Kvals::new(info, Format::PLAIN).map_while(Result::ok))
    }

    /// Description of the hardware; empty if there is none yet.
    fn hardware(&self) -> &[u8] {
        self.hardware.as_ref().map_or(&[], AsRef::as_ref)
    }

    /// Adds the description of the hardware.
    pub(super) fn set_hardware(&mut self, hardware: B) {
        self.hardware = Some(hardware);
        self.descriptions.clear();
    }
}

impl LibraryGeneration {
    fn of(release: Release) -> Self {
        if release < Release::V4_2 {
            Self::Old
        } else if release < Release::new(5, 0, 0) {
            Self::Requesting
        } else {
            Self::New
        }
    }

    /// Keys about other ranks that the description `info` contains; `None` for all.
    fn peer_keys(self, info: &[u8]) -> Option<&'static [&'static [u8]]> {
        let kvals = Kvals::new(info, Format::PLAIN).map_while(Result::ok);
        let applications = kvals.filter(|kval| kval.key == keys::APP_ARRAY).count();
        let count = match self {
            Self::Old => return None,
            // A single application is that of every rank.
            Self::Requesting if applications < 2 => 3,
            Self::Requesting => 4,
            Self::New => PEER_KEYS.len(),
        };
        PEER_KEYS.get(..count)
    }
}

/// Values of each rank in a description, which is in [`Format::PLAIN`].
fn blobs(info: &[u8]) -> impl Iterator<Item = (u32, Kvals<'_>)> {
    let kvals = Kvals::new(info, Format::PLAIN).map_while(Result::ok);
    kvals.filter(|kval| kval.key == keys::PROC_BLOB).filter_map(|kval| blob(&kval))
}

/// True for a description that can be read to its end: other runs write their own.
pub(super) fn is_description(info: &[u8]) -> bool {
    Kvals::new(info, Format::PLAIN).all(|kval| {
        kval.is_ok_and(|kval| {
            let is_whole = |(_, mut kvals): (u32, Kvals<'_>)| kvals.all(|kval| kval.is_ok());
            kval.key != keys::PROC_BLOB || blob(&kval).is_some_and(is_whole)
        })
    })
}

/// Rank of a process blob, and its values.
fn blob<'a>(kval: &Kval<'a>) -> Option<(u32, Kvals<'a>)> {
    let mut from = Unpacker::new(kval.value.blob()?, Format::PLAIN);
    let rank = from.one(Type::PROC_RANK).and_then(|from| from.u32()).ok()?;
    Some((rank, Kvals::after(from)))
}

/// Writes a job description, which is in [`Format::PLAIN`], in the format of `to`. `only` restricts
/// the keys of ranks. The server packed the description itself, so no value has an unknown type.
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

/// True if a description has a key, for the job or in an array.
fn has_key(info: &[u8], key: &[u8]) -> bool {
    let mut kvals = Kvals::new(info, Format::PLAIN).map_while(Result::ok);
    kvals.any(|kval| {
        let inside = || kval.value.array().is_some_and(|array| array.find(key).is_some());
        kval.key == key || inside()
    })
}

/// Writes values that are in [`Format::PLAIN`], but for those of ranks, in the format of `to`.
fn write_of_node(info: &[u8], to: &mut Packer<'_>) {
    let kvals = Kvals::new(info, Format::PLAIN).map_while(Result::ok);
    for kval in kvals.filter(|kval| kval.key != keys::PROC_BLOB) {
        let _ = kval.write(to);
    }
}

/// Writes the arrays of a job description, in the format of `to`: a client that reads a store takes session,
/// nodes and applications from its answer, and all else from the store.
fn write_arrays(info: &[u8], to: &mut Packer<'_>) {
    let arrays = [keys::SESSION_ARRAY, keys::NODE_ARRAY, keys::APP_ARRAY];
    let kvals = Kvals::new(info, Format::PLAIN).map_while(Result::ok);
    for kval in kvals.filter(|kval| arrays.contains(&kval.key)) {
        let _ = kval.write(to);
    }
}

/// Writes the values of a process, packed once more inside, in the format of the connection.
fn write_blob(rank: u32, kvals: Kvals<'_>, only: Option<&[&[u8]]>, to: &mut Packer<'_>) {
    to.one(Type::KVAL).text(Some(keys::PROC_BLOB)).of(Type::BYTE_OBJECT).nested(|to| {
        to.one(Type::PROC_RANK).u32(rank);
        let kvals = kvals.clone().map_while(Result::ok);
        for kval in kvals.filter(|kval| only.is_none_or(|only| only.contains(&kval.key))) {
            let _ = kval.write(to);
        }
    });
}

/// A namespace of another run.
#[derive(Clone, Debug)]
pub(super) struct ForeignName<B> {
    pub(super) name: B,
    /// Number of ranks.
    pub(super) size: u32,
    /// Number of connects that have not been undone.
    pub(super) connects: u32,
}

impl<B: AsRef<[u8]>> ForeignName<B> {
    pub(super) fn name(&self) -> &[u8] {
        self.name.as_ref()
    }
}

impl<B: SharedBytes, M: AsRef<[RankData<B>]>> Namespace<B, M> {
    /// Answers a get about the job, or about a reserved key of it.
    pub(super) fn answer_job(
        &self,
        format: Format,
        nspace: &[u8],
        reserved: Option<&[u8]>,
    ) -> PmixResponse<B> {
        if reserved.is_some_and(|key| self.find(WILDCARD, key).is_none()) {
            return PmixResponse::Status(Status::NOT_FOUND);
        }
        // Everything else is known without the hardware, which is long.
        let with_hardware = reserved.is_some_and(|key| !has_key(self.info.as_ref(), key));
        PmixResponse::body(pack(format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0);
            self.write_object(nspace, with_hardware, to);
        }))
    }

    /// Answers a get about a reserved key of a rank that exists.
    pub(super) fn answer_rank(
        &self,
        format: Format,
        owner: Proc<'_>,
        key: &[u8],
    ) -> PmixResponse<B> {
        let Some(value) = self.find(owner.rank, key) else {
            return PmixResponse::Status(Status::NOT_FOUND);
        };
        // All values of the process, so that the client sends one request.
        let of_rank = self.of_rank(owner.rank).filter(|kvals| kvals.clone().find(key).is_some());
        PmixResponse::body(pack(format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0).one(Type::BYTE_OBJECT).nested(|to| {
                owner.write(to.one(Type::PROC));
                // The server packed the description, so no value has an unknown type.
                match &of_rank {
                    Some(kvals) => kvals.clone().map_while(Result::ok).for_each(|kval| {
                        let _ = kval.write(to);
                    }),
                    None => {
                        let _ = Kval { key, value }.write(to);
                    }
                }
            });
        }))
    }
}

/// Keys about other ranks in a description. Open MPI 4.1 and 5.0 use the host name of a peer only
/// if it is known without a request, and 5.0 reads the local rank of each peer to share memory with
/// it. Both read so where a bound peer is in the machine. The application number and the node id of a rank
/// lead the library to the values of its application and its node.
const PEER_KEYS: [&[u8]; 5] =
    [keys::HOSTNAME, keys::LOCAL_RANK, keys::LOCALITY_STRING, keys::APPNUM, keys::NODEID];

/// Two families, described or not, for old libraries and for new ones.
const DESCRIPTIONS_MAX: usize = 8;
