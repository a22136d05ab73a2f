//! Store of PMIx data in shared memory, from the side of a program: libraries that read it, its place, and
//! the variables by which they find it. Its contents are those of [`store`](crate::server::pmix::store).

use pmi_host_base::limits::{Resource, limit};
use pmi_host_base::loader::{Search, Walk};
use std::ffi::OsStr;
use std::iter;
use std::path::{Path, PathBuf};

/// Directory for stores: a file system in memory of this machine, in which a write is seen by each process
/// that maps the file.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// Variable by which a client chooses a store.
pub(crate) const CHOICE: &str = "PMIX_GDS_MODULE";

/// Name of the store, with which the value of this variable begins.
pub(super) const STORE: &[u8] = b"ds21";

/// Length of the initial segment, which has the table of jobs.
pub(crate) const INITIAL_BYTES: u64 = 4096;

/// Length of a data segment. Its file takes memory as it is filled, and readers map all of it at once.
pub(crate) const DATA_BYTES: u64 = 256 << 20;

/// Length of the entry of a rank in the meta segment.
pub(crate) const ENTRY_BYTES: u64 = 24;

/// Length of the meta segment for this number of ranks, in whole pages.
pub(crate) fn meta_bytes(ranks: u32) -> u64 {
    (8 + ENTRY_BYTES * (u64::from(ranks) + 1)).next_multiple_of(4096)
}

/// Store of PMIx data in shared memory that the library of a program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreOffer {
    /// None that is known to this launcher.
    None,
    /// That of libpmix 4.2, if the user requests it with a variable.
    OnRequest,
    /// The same, unless the user chooses another one.
    Default,
}

impl StoreOffer {
    /// Offer to a program that is linked with the library of PMIx `linked`, and whose Open MPI loads
    /// `loaded`.
    ///
    /// Libraries of 4.2 that read a store never return from `PMIx_Get` of a reserved key, of no certain rank,
    /// that the arrays of their job lack. Open MPI makes no such call.
    pub(super) fn of(linked: Option<&Path>, loaded: Option<&Path>) -> Self {
        match (linked.map(reads_store), loaded.map(reads_store)) {
            (None, Some(true)) => Self::Default,
            (Some(true), None | Some(true)) => Self::OnRequest,
            _ => Self::None,
        }
    }
}

/// True if the system lets processes have a store: its file is as long as what they map.
pub(crate) fn is_possible() -> bool {
    let is_free = |resource| limit(resource).current.is_none();
    // Readers rely on the order in which other processors see the writes of one.
    cfg!(target_arch = "x86_64") && is_free(Resource::RLIMIT_AS) && is_free(Resource::RLIMIT_FSIZE)
}

/// Variables by which a client finds the store in `directory`, with the lengths of its segments. `ranks` is
/// the number of ranks of the job.
pub(crate) fn variables(directory: &Path, ranks: u32) -> [(&'static str, String); 5] {
    [
        // A client that finds no store takes the other one.
        (CHOICE, "ds21,hash".to_owned()),
        ("PMIX_DSTORE_21_BASE_PATH", directory.display().to_string()),
        ("INITIAL_SEG_SIZE", INITIAL_BYTES.to_string()),
        ("NS_META_SEG_SIZE", meta_bytes(ranks).to_string()),
        ("NS_DATA_SEG_SIZE", DATA_BYTES.to_string()),
    ]
}

/// Library of PMIx that Open MPI loads: one of its plugins is linked with it. `library` is one of Open
/// MPI's own; `None` if no plugin is found, or PMIx is part of Open MPI.
pub(super) fn loaded_by(library: &Path, search: &Search) -> Option<PathBuf> {
    let directory = library.parent()?;
    PLUGINS.iter().map(|place| directory.join(place)).find_map(|plugin| {
        let mut walk = Walk::of(&plugin, search)?;
        let needed = iter::from_fn(|| walk.next_needed());
        let pmix = needed.into_iter().find(|needed| needed.name.starts_with("libpmix.so"))?;
        Some(walk.load(&pmix)?.path().to_owned())
    })
}

/// True if the library of PMIx in this file is one of 4.2, which reads the store `ds21`. Each release has a
/// number of its own in the name of its file.
fn reads_store(path: &Path) -> bool {
    let Ok(file) = path.canonicalize() else { return false };
    let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    LIBRARIES.iter().any(|start| name.strip_prefix(start).is_some_and(is_number))
}

/// Names of the files of libpmix 4.2.0 to 4.2.9, without their last number.
const LIBRARIES: &[&str] =
    &["libpmix.so.2.6.", "libpmix.so.2.7.", "libpmix.so.2.8.", "libpmix.so.2.9."];

/// Plugins of Open MPI 4 for an external library of PMIx, from the directory of its libraries: as it is
/// installed by itself, and by Debian.
const PLUGINS: &[&str] = &["openmpi/mca_pmix_ext3x.so", "openmpi/lib/openmpi3/mca_pmix_ext3x.so"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn libraries_that_read_the_store_are_known_by_the_names_of_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let file = |name: &str| {
            let path = directory.join(name);
            fs::write(&path, "").unwrap();
            path
        };
        // 4.2.2 and 4.2.9; 3.2.5, 4.1.2 and 5.0.0; one without a number.
        let known = ["libpmix.so.2.6.2", "libpmix.so.2.9.5"].map(file);
        let others =
            ["libpmix.so.2.2.35", "libpmix.so.2.5.2", "libpmix.so.2.13.0", "libpmix.so"].map(file);
        let link = directory.join("libpmix.so.2");
        std::os::unix::fs::symlink(&known[0], &link).unwrap();
        for path in known.iter().chain([&link]) {
            assert_eq!(StoreOffer::of(None, Some(path)), StoreOffer::Default);
            assert_eq!(StoreOffer::of(Some(path), Some(path)), StoreOffer::OnRequest);
            assert_eq!(StoreOffer::of(Some(path), None), StoreOffer::OnRequest);
            for other in &others {
                assert_eq!(StoreOffer::of(Some(path), Some(other)), StoreOffer::None);
            }
        }
        for other in &others {
            assert_eq!(StoreOffer::of(None, Some(other)), StoreOffer::None, "{other:?}");
        }
        assert_eq!(StoreOffer::of(None, None), StoreOffer::None);
    }
}
