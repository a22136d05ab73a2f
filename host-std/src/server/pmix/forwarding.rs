//! Requests of PMIx tools for the output of ranks, and their input for ranks.
//!
//! | directive of a pull | effect |
//! |---|---|
//! | `pmix.iof.csize` | number of bytes kept while the tool does not read, 1 MiB by default, 64 MiB at most |
//! | `pmix.iof.old`, `pmix.iof.new` | the oldest bytes or, by default, new ones are dropped beyond that |
//! | `pmix.iof.bsize`, `pmix.iof.btime` | bytes of a stream are sent together, after this time in any case |
//! | `pmix.iof.tag`, `.tagfull`, `.tagdet`, `.rank`, `.ts`, `.xml` | lines are labelled or written as XML |
//!
//! Other directives are ignored unless they are required.

use super::control::{Controller, target};
use super::heap::PmixHeap;
use crate::stdio::forward::{LineTag, OutputDelivery, OutputPull};
use pmi_core::ids::JobId;
use pmi_core::server::Server;
use pmi_core::wire::pmix::names::{Status, channel, flags, keys};
use pmi_core::wire::pmix::{Info, List};
use pmi_host_base::storage::Heap;
use pmi_host_os::stream::Stream;
use std::time::Duration;

/// Input of a tool for ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputPush {
    /// Readers: jobs, each with one rank or as a whole; none for all ranks that read pushed input.
    pub(crate) readers: Vec<(JobId, Option<u32>)>,
    /// The input.
    pub(crate) input: Vec<u8>,
    /// True if no more follows.
    pub(crate) is_complete: bool,
}

/// Reads a request of a tool for output.
///
/// # Errors
///
/// The status of a request that is rejected.
pub(super) fn read_pull(
    server: &Server<Heap<PmixHeap>>,
    own: Controller,
    (procs, infos): (&List<'_>, &List<'_>),
    (channels, reference): (u16, Option<u64>),
) -> Result<OutputPull, Status> {
    let mut delivery = OutputDelivery::default();
    for info in infos.infos() {
        if !take(&mut delivery, &info) && info.flags & flags::REQUIRED != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
    }
    let sources = procs.procs().map(|proc| target(server, own, &proc));
    let sources = sources.collect::<Result<Vec<_>, Status>>()?;
    let mut streams = [false; 2];
    for (stream, bit) in [(Stream::Out, channel::STDOUT), (Stream::Err, channel::STDERR)] {
        streams[stream.index()] = channels & bit != 0;
    }
    if sources.is_empty() || channels & channel::STDIN != 0 || streams == [false; 2] {
        return Err(Status::BAD_PARAM);
    }
    // Libraries before 4.0 have no numbers: they expect that of the server, which starts with 1 as well.
    Ok(OutputPull { sources, streams, reference: reference.unwrap_or(0), delivery })
}

/// Reads input of a tool for ranks.
///
/// # Errors
///
/// The status of a request that is rejected.
pub(super) fn read_push(
    server: &Server<Heap<PmixHeap>>,
    own: Controller,
    (procs, infos): (&List<'_>, &List<'_>),
    input: &[u8],
) -> Result<InputPush, Status> {
    let is_strange =
        |info: Info<'_>| info.flags & flags::REQUIRED != 0 && info.key != keys::IOF_COMPLETE;
    if infos.infos().any(is_strange) {
        return Err(Status::NOT_SUPPORTED);
    }
    let readers = procs.procs().map(|proc| target(server, own, &proc));
    Ok(InputPush {
        readers: readers.collect::<Result<Vec<_>, Status>>()?,
        input: input.to_vec(),
        is_complete: input.is_empty() || infos.is_set(keys::IOF_COMPLETE),
    })
}

/// Applies a directive; false if it is not supported.
fn take(delivery: &mut OutputDelivery, info: &Info<'_>) -> bool {
    let is_true = info.value.is_true();
    let number = || info.value.number().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    let bytes = || usize::try_from(number()).unwrap_or(usize::MAX).min(CACHE_MAX);
    let tag = &mut delivery.format.tag;
    match info.key {
        keys::IOF_CACHE_SIZE => delivery.cache_bytes = bytes(),
        keys::IOF_DROP_OLDEST => delivery.drops_oldest = is_true,
        keys::IOF_DROP_NEWEST => delivery.drops_oldest = !is_true,
        keys::IOF_BUFFERING_SIZE => delivery.grouped_bytes = bytes(),
        keys::IOF_BUFFERING_TIME => {
            delivery.grouped_for = Some(Duration::from_secs(number().into()));
        }
        keys::IOF_TAG_OUTPUT | keys::IOF_TAG_FULLNAME if is_true => *tag = LineTag::Process,
        keys::IOF_TAG_DETAILED if is_true => *tag = LineTag::Detailed,
        keys::IOF_RANK_OUTPUT if is_true => *tag = LineTag::Rank,
        keys::IOF_TIMESTAMP_OUTPUT => delivery.format.has_time = is_true,
        keys::IOF_XML_OUTPUT => delivery.format.is_xml = is_true,
        key => return TAGS.contains(&key),
    }
    true
}

/// Labels, which a directive may also switch off.
const TAGS: [&[u8]; 4] =
    [keys::IOF_TAG_OUTPUT, keys::IOF_TAG_FULLNAME, keys::IOF_TAG_DETAILED, keys::IOF_RANK_OUTPUT];

/// Largest number of bytes that a tool can have kept for it.
const CACHE_MAX: usize = 64 << 20;
