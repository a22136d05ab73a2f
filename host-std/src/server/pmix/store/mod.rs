//! Store of a job in shared memory, which clients of libpmix 4.2 read in place of requests: the values of the
//! job, and what the ranks of this node have committed for each other. docs/pmix-store.md has its format.
//!
//! A store makes no value available that a request would not find, and may lack any: a client sends a request
//! for what it does not find. So whatever cannot be stored (a value that no longer fits, one of an unknown
//! type) is left out, and if it replaces another value, all values of its rank are.
//!
//! ```text
//!   session ─ poll_transmit ─► JobStore::publish ── chain: order of writes ── layout: bytes ── files
//! ```

mod chain;
mod layout;
mod session;
#[cfg(test)]
mod tests;

pub(in crate::server) use session::PublishingSession;

use self::chain::{RankChain, Segment, SegmentWrite};
use super::heap::Shared;
use crate::launch::plan::pmix_store::{DATA_BYTES, INITIAL_BYTES, meta_bytes};
use pmi_core::server::pmix::CommittedData;
use pmi_core::wire::pmix::names::keys;
use pmi_core::wire::pmix::{Format, Info, Kval, Kvals, Type, Unpacker};
use pmi_host_base::user_file;
use pmi_host_os::cleanup::files::remove_directory;
use rustix::fs::Mode;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Store of one job. Its files are removed when it is dropped.
#[derive(Debug)]
pub(crate) struct JobStore {
    directory: PathBuf,
    meta: File,
    data: File,
    /// Offset of the free end of the data segment.
    end: u64,
    ranks: Vec<PublishedRank>,
}

/// Job of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredJob<'a> {
    /// Name of the job.
    pub(crate) nspace: &'a str,
    /// Number of ranks.
    pub(crate) ranks: u32,
    /// Number of ranks of this node.
    pub(crate) local: u32,
    /// Description of the job, in [`Format::PLAIN`].
    pub(crate) info: &'a [u8],
}

/// State of a rank in the store.
#[derive(Debug)]
struct PublishedRank {
    chain: RankChain,
    /// Number of commits that were published.
    version: u32,
    /// Data that is published, and the offset of its first value.
    latest: Option<(Shared, usize)>,
    /// True if none of its data is published any more.
    is_withdrawn: bool,
}

impl JobStore {
    /// Creates the files of a store in `directory`, which must not exist.
    ///
    /// # Errors
    ///
    /// Errors of the system, and `InvalidInput` for a job that fits into no store. The directory may exist
    /// then.
    pub(crate) fn create(directory: &Path, job: StoredJob<'_>) -> io::Result<Self> {
        let StoredJob { nspace, ranks, local, info } = job;
        let too_large = || io::Error::from(io::ErrorKind::InvalidInput);
        let initial = layout::initial_segment(nspace.as_bytes()).ok_or_else(too_large)?;
        let described = DescribedJob::read(info, ranks);
        rustix::fs::mkdir(directory, Mode::RWXU)?;
        let file = |name: String| create(&directory.join(name));
        let (meta, data) =
            (file(format!("smseg-{nspace}-0"))?, file(format!("smdataseg-{nspace}-0"))?);
        let (entries, records, chains) = described.layout();
        let end = layout::DATA_START + u64::try_from(records.len()).unwrap_or(u64::MAX);
        if end > DATA_BYTES {
            return Err(too_large());
        }
        data.set_len(DATA_BYTES)?;
        data.write_all_at(&records, layout::DATA_START)?;
        meta.write_all_at(&entries, 0)?;
        let file_of_jobs = file("initial-pmix_shared-segment-0".to_owned())?;
        file_of_jobs.set_len(INITIAL_BYTES)?;
        file_of_jobs.write_all_at(&initial, layout::JOBS_AT)?;
        // Without it a client has no store, so it comes last.
        let locks = layout::lock_segment(local.saturating_add(READERS_MORE));
        file(format!("smlockseg-{nspace}"))?.write_all_at(&locks, 0)?;
        let rank = |chain| PublishedRank { chain, version: 0, latest: None, is_withdrawn: false };
        let ranks = chains.into_iter().map(rank).collect();
        Ok(Self { directory: directory.to_owned(), meta, data, end, ranks })
    }

    /// True unless the store has this number of commits of a rank.
    fn lacks(&self, rank: u32, version: u32) -> bool {
        let of = usize::try_from(rank).ok().and_then(|rank| self.ranks.get(rank));
        of.is_some_and(|of| of.version != version)
    }

    /// Publishes what a rank has committed for its node, up to its commit number `version`.
    fn publish(&mut self, rank: u32, version: u32, committed: CommittedData<'_, Shared>) {
        let at = usize::try_from(rank).ok();
        let Some(published) = at.and_then(|at| self.ranks.get_mut(at)) else { return };
        published.version = version;
        if published.is_withdrawn {
            return;
        }
        let appended = published.records(&committed).and_then(|(records, keys)| {
            if keys.is_empty() {
                return Some(());
            }
            let room = DATA_BYTES.checked_sub(self.end)?;
            let needed =
                Some(RankChain::append_bytes(&records)).filter(|needed| *needed <= room)?;
            let keys: Vec<_> = keys.iter().map(|(key, at)| (*key, *at)).collect();
            let writes = published.chain.append(rank, self.end, records, &keys);
            self.end += needed;
            writes.iter().try_for_each(|write| perform(&self.meta, &self.data, write)).ok()
        });
        if appended.is_some() {
            let start = committed.bytes.as_ref().len() - committed.kvals.rest().len();
            published.latest = Some((committed.bytes.clone(), start));
            return;
        }
        (published.latest, published.is_withdrawn) = (None, true);
        for write in published.chain.withdraw(rank) {
            // Its page was written before, so there is room for it.
            let _ = perform(&self.meta, &self.data, &write);
        }
    }
}

impl Drop for JobStore {
    fn drop(&mut self) {
        remove_directory(&self.directory);
    }
}

/// Records of values, and their keys with the offsets of their records.
type Records<'a> = (Vec<u8>, BTreeMap<&'a [u8], usize>);

impl PublishedRank {
    /// Records of the values that are not published; `None` if a value cannot be read or written.
    fn records<'a>(&self, committed: &CommittedData<'a, Shared>) -> Option<Records<'a>> {
        let CommittedData { kvals, format, .. } = committed;
        let old = self.latest.as_ref().and_then(|(bytes, at)| bytes.as_ref().get(*at..));
        let old = old.unwrap_or(b"");
        // Mostly values were added to the former ones, which are left as they were.
        let added = kvals.rest().strip_prefix(old).map(|added| Kvals::new(added, *format));
        let (fresh, old) = match added {
            Some(added) => (added, BTreeMap::new()),
            None => (kvals.clone(), values(Kvals::new(old, *format))?),
        };
        let fresh = values(fresh)?;
        let (mut records, mut keys) = (Vec::new(), BTreeMap::new());
        for (key, kval) in fresh {
            // A value of the description holds in any case, and is published.
            if !layout::is_key(key) || keys::is_reserved(key) || old.get(key) == Some(&kval) {
                continue;
            }
            keys.insert(key, records.len());
            if !layout::push_record(&kval, &mut records) {
                return None;
            }
        }
        Some((records, keys))
    }
}

/// The last value of each key; `None` if one cannot be read.
fn values<'a>(kvals: Kvals<'a>) -> Option<BTreeMap<&'a [u8], Kval<'a>>> {
    kvals.map(|kval| kval.ok().map(|kval| (kval.key, kval))).collect()
}

/// Description of a job as a store has it: values without arrays, for the job and for each rank.
struct DescribedJob<'a> {
    job: Vec<Kval<'a>>,
    ranks: Vec<Vec<Kval<'a>>>,
}

impl<'a> DescribedJob<'a> {
    fn read(info: &'a [u8], ranks: u32) -> Self {
        let mut job = Vec::new();
        let mut of_ranks = vec![Vec::new(); usize::try_from(ranks).unwrap_or(0)];
        let mut has_node = false;
        for kval in Kvals::new(info, Format::PLAIN).map_while(Result::ok) {
            match kval.key {
                keys::PROC_BLOB => {
                    let Some((rank, kvals)) = proc_blob(&kval) else { continue };
                    let of_rank = usize::try_from(rank).ok().and_then(|at| of_ranks.get_mut(at));
                    of_rank
                        .into_iter()
                        .for_each(|of| of.extend(kvals.clone().map_while(Result::ok)));
                }
                // That of this node comes first; names and number of a node are looked for elsewhere.
                keys::NODE_ARRAY if !has_node => {
                    has_node = true;
                    let names = [keys::HOSTNAME, keys::NODEID, keys::HOSTNAME_ALIASES];
                    job.extend(infos(&kval).filter(|info| !names.contains(&info.key)));
                }
                keys::SESSION_ARRAY => job.extend(infos(&kval)),
                keys::NODE_ARRAY | keys::APP_ARRAY => {}
                _ => job.push(kval),
            }
        }
        Self { job, ranks: of_ranks }
    }

    /// The meta segment, the data segment from its first record on, and the chains of the ranks.
    fn layout(&self) -> (Vec<u8>, Vec<u8>, Vec<RankChain>) {
        let ranks = u32::try_from(self.ranks.len()).unwrap_or(u32::MAX);
        let mut entries = vec![0; usize::try_from(meta_bytes(ranks)).unwrap_or(0)];
        let (mut records, mut chains) = (Vec::new(), Vec::new());
        let mut push = |rank: Option<u32>, kvals: &[Kval<'_>]| {
            let offset = |records: &[u8]| {
                layout::DATA_START + u64::try_from(records.len()).unwrap_or(u64::MAX)
            };
            let first = offset(&records);
            let pushed = kvals.iter().filter(|kval| layout::push_record(kval, &mut records));
            let count = u64::try_from(pushed.count()).unwrap_or(0);
            let end = offset(&records);
            layout::push_end(&mut records);
            let (entry, at) = (layout::entry(rank, first, count), layout::entry_at(rank));
            let to = usize::try_from(at).ok().and_then(|at| entries.get_mut(at..at + entry.len()));
            to.into_iter().for_each(|to| to.copy_from_slice(&entry));
            RankChain::new(count, end)
        };
        push(None, &self.job);
        for (rank, kvals) in (0..).zip(&self.ranks) {
            chains.push(push(Some(rank), kvals));
        }
        (entries, records, chains)
    }
}

/// Rank of a process in a description, and its values.
fn proc_blob<'a>(kval: &Kval<'a>) -> Option<(u32, Kvals<'a>)> {
    let mut from = Unpacker::new(kval.value.blob()?, Format::PLAIN);
    let rank = from.one(Type::PROC_RANK).and_then(|from| from.u32()).ok()?;
    Some((rank, Kvals::after(from)))
}

/// Values of an array, each under its own key.
fn infos<'a>(kval: &Kval<'a>) -> impl Iterator<Item = Kval<'a>> + use<'a> {
    let array = kval.value.array();
    array
        .into_iter()
        .flat_map(|array| array.infos())
        .map(|Info { key, value, .. }| Kval { key, value })
}

/// Creates a file that only this user may open.
fn create(path: &Path) -> io::Result<File> {
    user_file::create_new(path, Mode::RUSR | Mode::WUSR)
}

fn perform(meta: &File, data: &File, write: &SegmentWrite) -> io::Result<()> {
    let SegmentWrite { segment, at, bytes } = write;
    let file = match segment {
        Segment::Meta => meta,
        Segment::Data => data,
    };
    file.write_all_at(bytes, *at)
}

/// Number of readers besides the ranks of the node: each process that a rank forks may be one.
const READERS_MORE: u32 = 64;
