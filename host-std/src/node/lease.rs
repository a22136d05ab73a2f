//! Leases: what each run of this user has of this host.
//!
//! Several launchers at once in one allocation know nothing of each other, and each would bind its ranks to
//! the first processors, and give them the first GPUs. So a run that does either enters what it takes into
//! one file in the directory of sockets, and chooses among what the other runs there leave. Without room for
//! its processors it binds as if it were alone; a run whose ranks must have GPUs is refused.
//!
//! A lease ends with its process, which keeps a byte of the file locked for as long as it lives
//! (`F_OFD_SETLK`); the record has the number of the byte. The kernel releases the lock however the process
//! ends, and knows whether it is held whatever numbers processes have: those that are used again, and those
//! of another container with the same directory, are never mistaken. Whoever reads the file leaves out the
//! records whose lock is free. The file itself is locked (`flock`) while it is read and written, and removed
//! with the last record.
//!
//! Format: a line with the version and the boot of the host, and the records in postcard. The file is input
//! like any other: its size is bounded, and bytes that are no records are replaced.

use super::resources::{Holder, Resources, Share};
use crate::cli::config::Config;
use crate::launch::topology::binding::{Binding, RankCounts, allowed};
use crate::launch::topology::places::{NodePlaces, Places};
use crate::settings::placement::BindTo;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use pmi_host_base::{system_file, user_file};
use pmi_host_hardware::processor_set::ProcessorSet;
use pmi_host_os::{clock, runtime_dir};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a run has of this host, until this value is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Lease {
    path: PathBuf,
    /// Keeps the byte locked.
    file: File,
    byte: u32,
    wish: Wish,
    share: Share,
}

/// Outcome for a run that begins.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// `None` for a run that binds no ranks or overlaps others, and where the file cannot be used.
    pub(crate) lease: Option<Lease>,
    /// Sentences for the user.
    pub(crate) notes: Vec<String>,
}

/// What a run asks for.
#[derive(Clone, Debug)]
struct Wish {
    holder: Holder,
    /// What ranks may use here.
    all: Share,
    /// Places of the ranks if no other run were here.
    alone: NodePlaces,
    /// Processors to which the whole run is limited.
    limit: ProcessorSet,
    /// True unless the user has chosen the processors of each rank.
    may_move: bool,
}

/// What a run gets.
#[derive(Debug)]
struct Grant {
    lease: Lease,
    choice: Choice,
    /// File whose contents were no records.
    damaged: Option<PathBuf>,
}

/// What is chosen for the ranks of a job.
#[derive(Debug)]
struct Choice {
    /// Places among what others leave; `None` if they are as without others.
    moved: Option<NodePlaces>,
    share: Share,
    /// What other runs have as well.
    shared: Share,
    /// Holders of it.
    sharing: Vec<Holder>,
}

/// Reason why a run has no lease.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("{0}")]
    System(#[from] io::Error),
    #[error("{} has kept '{}' locked for more than a second", process(*.pid), .path.display())]
    Held { path: PathBuf, pid: Option<u32> },
    #[error("runs of another version of pmi-host, or of another host, use '{}'", .path.display())]
    OfOthers { path: PathBuf },
    #[error("'{}' has the records of {RECORDS_MAX} runs", .path.display())]
    TooMany { path: PathBuf },
    /// Ranks must have GPUs, and other runs have these.
    #[error("{0}")]
    NoGpus(String),
}

/// Takes a lease for the ranks of this node, and moves these to processors and GPUs that no other run has.
/// Opens nothing if ranks are not bound and have no GPUs of their own.
///
/// # Errors
///
/// A message for the user: other runs have the GPUs that are asked for.
pub(crate) fn take(config: &mut Config) -> Result<Taken, String> {
    let (placement, alone) = (&config.settings.placement, &config.places);
    let has_gpus = alone.places.as_ref().is_some_and(|places| !places.gpus().is_empty());
    let is_bound = alone.binding.is_some() || placement.processors.is_some();
    let has_ranks = !config.has_servers || config.node.is_some();
    if placement.overlaps || !(is_bound || has_gpus) || !has_ranks {
        return Ok(Taken::default());
    }
    let node = config.node.unwrap_or_default();
    let names: Vec<_> = config.parts.iter().map(|part| part.program.name.display()).collect();
    let names = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let holder = Holder {
        run: config.run.clone(),
        node,
        pid: std::process::id(),
        program: names.chars().take(PROGRAM_CHARS).collect(),
    };
    let ranks = config.started();
    let all = match &alone.places {
        Some(places) => Share {
            processors: places.hardware().processors.clone(),
            devices: places.all_gpus().into_iter().collect(),
            ..Share::default()
        },
        None => Share {
            processors: allowed().unwrap_or_default().into_iter().collect(),
            ..Share::default()
        },
    };
    let wish = Wish {
        holder,
        all,
        alone: alone.clone(),
        limit: placement.processors.iter().flatten().copied().collect(),
        may_move: !matches!(placement.bind_to, BindTo::User(_)),
    };
    let granted = runtime_dir::create_in_first(|directory| {
        // Runs find each other in the same directory: another one will do only if this cannot be made.
        runtime_dir::prepare(directory)?;
        match take_in(directory, &wish, ranks) {
            // A launcher that ends may have removed it.
            Err(LeaseError::System(error)) if error.kind() == io::ErrorKind::NotFound => Err(error),
            granted => Ok(granted),
        }
    });
    // Nobody has asked for the default of another launcher.
    let is_asked = has_gpus || !matches!(placement.bind_to, BindTo::Launcher(_));
    let mut notes = Vec::new();
    let lease = match granted.unwrap_or_else(|error| Err(error.into())) {
        Ok(Grant { lease, choice, damaged }) => {
            let Choice { moved, shared, sharing, .. } = choice;
            if let Some(path) = damaged {
                notes.push(damage(&path));
            }
            if !sharing.is_empty() {
                notes.push(no_room(&config.host, &shared, &sharing));
            }
            if let Some(moved) = moved {
                config.places = moved;
            }
            Some(lease)
        }
        Err(LeaseError::NoGpus(why)) => return Err(format!("host {} {why}", config.host)),
        Err(error) => {
            notes.push(no_lease(&config.host, &error));
            None
        }
    };
    notes.retain(|_| is_asked);
    Ok(Taken { lease, notes })
}

/// Takes a lease for this number of ranks in the file of this directory.
fn take_in(directory: &Path, wish: &Wish, ranks: RankCounts) -> Result<Grant, LeaseError> {
    let file = LeaseFile::open(directory.join(NAME), wish.all.clone());
    let file = file.inspect_err(|_| runtime_dir::remove_if_empty(directory))?;
    let choice = file.choose(wish, &wish.alone, ranks)?;
    let damaged = file.is_damaged.then(|| file.path.clone());
    let lease = file.enter(wish.clone(), choice.share.clone())?;
    Ok(Grant { lease, choice, damaged })
}

impl Lease {
    /// Adds what a further job of the run takes on this node, whose ranks would have these places if no other
    /// run were here, and returns their places.
    pub(crate) fn add_job(&mut self, alone: NodePlaces, ranks: RankCounts) -> NodePlaces {
        // The binding of a job without other places is that of the first one, which may have been moved.
        let alone = if alone.places.is_some() { alone } else { self.wish.alone.clone() };
        let moved = self.add(&alone, ranks);
        let _ = flock(&self.file, FlockOperation::Unlock);
        // The run has begun, and goes on whatever others have.
        moved.ok().flatten().unwrap_or(alone)
    }

    fn add(
        &mut self,
        alone: &NodePlaces,
        ranks: RankCounts,
    ) -> Result<Option<NodePlaces>, LeaseError> {
        let Some(mut file) = self.locked(PATIENCE_OF_RUN)? else { return Ok(None) };
        let choice = file.choose(&self.wish, alone, ranks)?;
        self.share.processors = self.share.processors.or(&choice.share.processors);
        self.share.devices.extend(choice.share.devices);
        file.add(self.wish.holder.clone(), self.byte, self.share.clone());
        file.write()?;
        Ok(choice.moved)
    }

    /// The file without the record of this lease, whose lock does not count for this process; `None` if
    /// another process keeps it locked for longer.
    fn locked(&self, patience: Duration) -> Result<Option<LeaseFile>, LeaseError> {
        let file = self.file.try_clone()?;
        match lock(&file, clock::now() + patience)? {
            true => LeaseFile::read(file, self.path.clone(), self.wish.all.clone()).map(Some),
            false => Ok(None),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // If the file cannot be written, the next run leaves the record out.
        if let Ok(Some(mut file)) = self.locked(PATIENCE_OF_RUN) {
            let _ = file.write();
        }
    }
}

/// The file while it is locked, without records of processes that are gone.
#[derive(Debug)]
struct LeaseFile {
    path: PathBuf,
    file: File,
    /// Contents, which stay if new ones have no room.
    contents: Vec<u8>,
    /// First line.
    head: String,
    /// What each run has taken.
    resources: Resources,
    /// Number of the byte that each holder keeps locked.
    bytes: BTreeMap<Holder, u32>,
    /// True if the contents were no records.
    is_damaged: bool,
}

/// What the file says about a holder.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    holder: Holder,
    /// Number of the byte that the holder keeps locked.
    byte: u32,
    /// List of processors, as `0-3,8`.
    processors: String,
    memory_bytes: u64,
    devices: BTreeSet<String>,
}

impl LeaseFile {
    /// Opens and locks the file, which is created if there is none.
    fn open(path: PathBuf, all: Share) -> Result<Self, LeaseError> {
        let until = clock::now() + PATIENCE;
        loop {
            let file = user_file::open_own(&path)?;
            if !lock(&file, until)? {
                let pid = holder_of_lock(&file);
                return Err(LeaseError::Held { path, pid });
            }
            // Another run may have removed the file before it was locked.
            let inode = file.metadata()?.ino();
            if fs::symlink_metadata(&path).is_ok_and(|found| found.ino() == inode) {
                return Self::read(file, path, all);
            }
        }
    }

    /// Reads the file, which is locked.
    fn read(mut file: File, path: PathBuf, all: Share) -> Result<Self, LeaseError> {
        let boot = system_file::read_bounded(BOOT, BOOT_BYTES_MAX).unwrap_or_default();
        let head = format!("{TITLE} {VERSION} {}\n", boot.trim());
        let mut contents = Vec::new();
        file.rewind()?;
        (&file).take(FILE_BYTES_MAX + 1).read_to_end(&mut contents)?;
        let found = decode(&contents, &head);
        let is_of_others =
            contents.starts_with(TITLE.as_bytes()) && !contents.starts_with(head.as_bytes());
        // Nobody uses what is left of another version, or of the time before the host was started.
        if is_of_others && is_locked(&file, 0, 0)? {
            return Err(LeaseError::OfOthers { path });
        }
        let is_damaged = found.is_none() && !is_of_others;
        let mut resources = Resources::new(all);
        let mut bytes = BTreeMap::new();
        for record in found.unwrap_or_default() {
            let Record { holder, byte, memory_bytes, devices, .. } = record;
            let processors = ProcessorSet::of_list(&record.processors).unwrap_or_default();
            resources.take(holder.clone(), Share { processors, memory_bytes, devices });
            bytes.insert(holder, byte);
        }
        let mut gone = Vec::new();
        for (holder, byte) in &bytes {
            if !is_locked(&file, *byte, 1)? {
                gone.push(holder.clone());
            }
        }
        for holder in gone {
            resources.release(&holder);
            bytes.remove(&holder);
        }
        Ok(Self { path, file, contents, head, resources, bytes, is_damaged })
    }

    /// What ranks of a job of the run get that would have these places if the run were `alone`.
    fn choose(
        &self,
        wish: &Wish,
        alone: &NodePlaces,
        ranks: RankCounts,
    ) -> Result<Choice, LeaseError> {
        let run = &wish.holder.run;
        let free = self.resources.free(run);
        let moved = match (&alone.places, &alone.binding) {
            (Some(places), _) => beside(places, &free, wish, ranks),
            (None, Some(binding)) if wish.may_move => {
                let binding = binding.among(&free.processors, ranks.local).map(Arc::new);
                binding.map(|binding| NodePlaces { binding: Some(binding), places: None })
            }
            (None, _) => None,
        };
        let NodePlaces { binding, places } = moved.as_ref().unwrap_or(alone);
        // No option of a run asks for bytes of memory.
        let share = Share {
            processors: match binding {
                Some(binding) => binding.processors(ranks.local),
                None => wish.limit.clone(),
            },
            devices: places.as_ref().map(|places| places.gpus()).unwrap_or_default(),
            ..Share::default()
        };
        let shared = Share {
            processors: share.processors.without(&free.processors),
            devices: share.devices.difference(&free.devices).cloned().collect(),
            ..Share::default()
        };
        let sharing: Vec<Holder> = self.resources.sharing(run, &share).cloned().collect();
        let must_have = places.as_ref().is_some_and(|places| places.must_have_gpus());
        if must_have && !shared.devices.is_empty() {
            let taken = wish.all.devices.len().saturating_sub(free.devices.len());
            let gpus = Share { devices: wish.all.devices.clone(), ..Share::default() };
            let sharing: Vec<Holder> = self.resources.sharing(run, &gpus).cloned().collect();
            return Err(LeaseError::NoGpus(format!(
                "has {} GPUs for ranks, of which other runs ({}) have {taken}, and ranks of this run are to \
                 have {}; wait for the end of the others, or share GPUs with '--overlap'",
                wish.all.devices.len(),
                named(&sharing),
                share.devices.len()
            )));
        }
        Ok(Choice { moved, share, shared, sharing })
    }

    fn add(&mut self, holder: Holder, byte: u32, share: Share) {
        self.resources.take(holder.clone(), share);
        self.bytes.insert(holder, byte);
    }

    /// Adds a record, and unlocks the file.
    fn enter(mut self, wish: Wish, share: Share) -> Result<Lease, LeaseError> {
        let mut byte = None;
        for number in 0..RECORDS_MAX {
            // A copy of a process that has just ended may keep a byte without a record for a moment.
            if !self.bytes.values().any(|taken| *taken == number) && lock_byte(&self.file, number)?
            {
                byte = Some(number);
                break;
            }
        }
        let Some(byte) = byte else { return Err(LeaseError::TooMany { path: self.path }) };
        self.add(wish.holder.clone(), byte, share.clone());
        self.write()?;
        // Ranks find their sockets at numbers of one digit.
        let file = fcntl_dupfd_cloexec(&self.file, FIRST_DESCRIPTOR).map_err(io::Error::from)?;
        flock(&file, FlockOperation::Unlock).map_err(io::Error::from)?;
        Ok(Lease { path: self.path, file: file.into(), byte, wish, share })
    }

    /// Writes the records, or removes the file if there are none. It stays as it was if they have no room.
    fn write(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            runtime_dir::remove(&self.path);
            return Ok(());
        }
        let record = |(holder, share): (&Holder, &Share)| Record {
            byte: self.bytes.get(holder).copied().unwrap_or_default(),
            holder: holder.clone(),
            processors: share.processors.to_string(),
            memory_bytes: share.memory_bytes,
            devices: share.devices.clone(),
        };
        let records: Vec<Record> = self.resources.taken().map(record).collect();
        let records = postcard::to_stdvec(&records).map_err(io::Error::other)?;
        let contents = [self.head.as_bytes(), &records].concat();
        let written = self.replace(&contents);
        if written.is_err() && self.contents.is_empty() {
            runtime_dir::remove(&self.path);
        } else if written.is_err() {
            // Its blocks are there still.
            let _ = self.replace(&self.contents);
        }
        written
    }

    fn replace(&self, contents: &[u8]) -> io::Result<()> {
        self.file.write_all_at(contents, 0)?;
        self.file.set_len(contents.len() as u64)
    }
}

/// Places where others leave something: GPUs that are free and, if possible, processors that are. `None` if
/// ranks are placed as if their run were alone.
fn beside(places: &Places, free: &Share, wish: &Wish, ranks: RankCounts) -> Option<NodePlaces> {
    if *free == wish.all {
        return None;
    }
    let needs_gpus = !places.gpus().is_empty();
    let fits = |found: &NodePlaces| {
        let has_gpus = found.places.as_ref().is_some_and(|places| !places.gpus().is_empty());
        let is_shared = |binding: &Arc<Binding>| binding.shared(ranks.local).is_some();
        (has_gpus || !needs_gpus) && !found.binding.as_ref().is_some_and(is_shared)
    };
    let can_move = wish.may_move && !free.processors.is_empty();
    let processors = [can_move.then_some(&free.processors), Some(&wish.all.processors)];
    let found = processors.into_iter().flatten();
    { found.filter_map(|processors| places.among(processors, &free.devices, ranks).ok()) }
        .find(fits)
}

/// The records of a file whose first line is `head`; none of an empty file, `None` for any other text.
fn decode(contents: &[u8], head: &str) -> Option<Vec<Record>> {
    if contents.is_empty() {
        return Some(Vec::new());
    }
    if contents.len() as u64 > FILE_BYTES_MAX {
        return None;
    }
    let records: Vec<Record> =
        postcard::from_bytes(contents.strip_prefix(head.as_bytes())?).ok()?;
    let is_right = |record: &Record| {
        record.byte < RECORDS_MAX && ProcessorSet::of_list(&record.processors).is_ok()
    };
    records.iter().all(is_right).then_some(records)
}

/// Locks the file; false if another process keeps it locked until this moment.
fn lock(file: &File, until: Instant) -> io::Result<bool> {
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if clock::now() >= until => return Ok(false),
            Err(Errno::WOULDBLOCK) => sleep(PAUSE),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The process that has locked the whole file, as far as the system tells: `1: FLOCK ADVISORY WRITE 4711
/// 08:01:131 0 EOF`.
fn holder_of_lock(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let locks = system_file::read_bounded("/proc/locks", LOCKS_BYTES_MAX).ok()?;
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, place, ..] = words[..] else { return None };
        (place.rsplit(':').next() == Some(&inode)).then(|| pid.parse().ok())?
    })
}

/// Locks a byte for this process; false if another process has locked it.
fn lock_byte(file: &File, byte: u32) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&of_bytes(byte, 1))) {
        Ok(_) => Ok(true),
        Err(nix::Error::EAGAIN | nix::Error::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// True if another process has locked one of `count` bytes, or of all if that is 0.
fn is_locked(file: &File, first: u32, count: u32) -> io::Result<bool> {
    let mut found = of_bytes(first, count);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
    Ok(i32::from(found.l_type) != libc::F_UNLCK)
}

fn of_bytes(first: u32, count: u32) -> libc::flock {
    let word = |number: i32| libc::c_short::try_from(number).unwrap_or_default();
    libc::flock {
        l_type: word(libc::F_WRLCK),
        l_whence: word(libc::SEEK_SET),
        l_start: first.into(),
        l_len: count.into(),
        l_pid: 0,
    }
}

/// Note about a run that shares processors or GPUs.
fn no_room(host: &str, shared: &Share, sharing: &[Holder]) -> String {
    let mut things = Vec::new();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    if !shared.processors.is_empty() {
        let count = shared.processors.len();
        things.push(format!("processor{} {}", plural(count), shared.processors));
    }
    if !shared.devices.is_empty() {
        let names: Vec<&str> = shared.devices.iter().map(String::as_str).collect();
        things.push(format!("GPU{} {}", plural(names.len()), names.join(",")));
    }
    format!(
        "ranks on {host} share {} with other runs ({}): all run, but not at the same time; wait for the end \
         of the others, or accept it with '--overlap'",
        things.join(" and "),
        named(sharing)
    )
}

/// Processes and programs of some runs.
fn named(holders: &[Holder]) -> String {
    let named = holders.iter().take(NAMED_MAX).map(|holder| {
        let program: String = holder.program.chars().filter(|one| !one.is_control()).collect();
        format!("process {} of '{program}'", holder.pid)
    });
    let mut named = named.collect::<Vec<_>>().join(", ");
    if holders.len() > NAMED_MAX {
        named.push_str(" and others");
    }
    named
}

fn no_lease(host: &str, error: &LeaseError) -> String {
    format!(
        "ranks of this run and of others on {host} may be bound to the same processors, as the list of runs \
         cannot be used ({error}); set XDG_RUNTIME_DIR to a directory of yours, or accept it with '--overlap'"
    )
}

fn damage(path: &Path) -> String {
    format!(
        "the list of runs, '{}', was damaged and begins anew: ranks may share processors with those of runs \
         that were there",
        path.display()
    )
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// Name of the file in the directory of sockets.
const NAME: &str = "leases";

/// Start of the file.
const TITLE: &str = "pmi-host leases";

/// Version of the format.
const VERSION: u32 = 1;

/// File of the system with an identifier that each start of a host changes.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// An identifier has 36 characters.
const BOOT_BYTES_MAX: usize = 64;

/// Time for which another process may keep the file locked; it takes far less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same for a run that serves ranks, or ends.
const PATIENCE_OF_RUN: Duration = Duration::from_millis(100);

/// Pause between attempts to lock the file.
const PAUSE: Duration = Duration::from_millis(1);

/// Maximum number of records: more than the runs of a user that a host can serve.
const RECORDS_MAX: u32 = 1024;

/// More than that number of records has.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Bound on the list of all locks of a host.
const LOCKS_BYTES_MAX: usize = 1 << 20;

/// Maximum length of the names of the programs of a run.
const PROGRAM_CHARS: usize = 60;

/// Maximum number of other runs that a message names.
const NAMED_MAX: usize = 4;

/// First number of a descriptor that has two digits.
const FIRST_DESCRIPTOR: i32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::topology::places::PlaceRequest;
    use crate::settings::placement::{GpuPlacement, MapBy, Placement, Unit, Units};
    use pmi_host_hardware::described::machines;
    use pmi_host_hardware::hwloc::HwlocVersion;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    /// A directory of sockets with its file.
    struct Place {
        parent: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let place = Self { parent: tempfile::tempdir().unwrap() };
            runtime_dir::prepare(&place.directory()).unwrap();
            place
        }

        fn directory(&self) -> PathBuf {
            self.parent.path().join("pmi-host")
        }

        fn file(&self) -> PathBuf {
            self.directory().join(NAME)
        }

        /// A directory whose file has these contents.
        fn with(contents: &[u8]) -> Self {
            let place = Self::new();
            fs::write(place.file(), contents).unwrap();
            place
        }

        /// Asks for cores of a machine with four.
        fn take(&self, run: &str, ranks: u32) -> Result<Grant, LeaseError> {
            let binding = Binding::to_sets(&[&[0], &[1], &[2], &[3]]);
            take_in(&self.directory(), &wish(run, binding), counts(ranks))
        }
    }

    fn holder(run: &str) -> Holder {
        Holder { run: run.to_owned(), node: 0, pid: std::process::id(), program: "./a".to_owned() }
    }

    fn counts(ranks: u32) -> RankCounts {
        RankCounts { all: ranks, local: ranks }
    }

    fn wish(run: &str, binding: Binding) -> Wish {
        Wish {
            holder: holder(run),
            all: Share { processors: (0..4).collect(), ..Share::default() },
            alone: NodePlaces { binding: Some(Arc::new(binding)), places: None },
            limit: ProcessorSet::default(),
            may_move: true,
        }
    }

    /// Processors of the first ranks of a run that was moved.
    fn moved(grant: &Grant, ranks: u32) -> String {
        let places = grant.choice.moved.as_ref().unwrap();
        places.binding.as_ref().unwrap().processors(ranks).to_string()
    }

    fn head() -> String {
        format!("{TITLE} {VERSION} {}\n", fs::read_to_string(BOOT).unwrap().trim())
    }

    /// A file with one record.
    fn contents(record: Record) -> Vec<u8> {
        [head().into_bytes(), postcard::to_stdvec(&vec![record]).unwrap()].concat()
    }

    fn record(processors: &str) -> Record {
        Record {
            holder: holder("gone"),
            byte: 0,
            processors: processors.to_owned(),
            memory_bytes: 0,
            devices: BTreeSet::new(),
        }
    }

    #[test]
    fn runs_have_disjoint_processors_as_long_as_there_are_some() {
        let place = Place::new();
        let first = place.take("a", 2).unwrap();
        assert_eq!(moved(&first, 2), "0-1");
        let second = place.take("b", 1).unwrap();
        assert_eq!(moved(&second, 1), "2");
        let third = place.take("c", 2).unwrap();
        let Choice { moved: none, shared, sharing, .. } = &third.choice;
        assert!(none.is_none(), "one processor is left for two ranks");
        assert_eq!((shared.processors.to_string(), sharing.len()), ("0-1".to_owned(), 1));
        assert_eq!(sharing[0].run, "a");
        drop((first, third));
        let next = place.take("d", 3).unwrap();
        assert_eq!(moved(&next, 3), "0-1,3");
        assert!(next.choice.sharing.is_empty());
        drop((second, next));
        assert!(!place.directory().exists(), "the last run removes file and directory");
    }

    #[test]
    fn nodes_of_one_run_do_not_avoid_each_other() {
        let place = Place::new();
        let of_node = |node: u32| {
            let mut wish = wish("a", Binding::to_sets(&[&[0], &[1]]));
            wish.holder.node = node;
            take_in(&place.directory(), &wish, counts(1)).unwrap()
        };
        let (first, second) = (of_node(0), of_node(1));
        assert_eq!([moved(&first, 1), moved(&second, 1)], ["0", "0"]);
        assert!(second.choice.sharing.is_empty());
        drop(first);
        assert_eq!(
            moved(&place.take("b", 1).unwrap(), 1),
            "1",
            "one node of the run is there still"
        );
    }

    #[test]
    fn further_job_of_a_run_has_processors_beside_other_runs() {
        let place = Place::new();
        let mut first = place.take("a", 1).unwrap();
        let second = place.take("b", 1).unwrap();
        let mut job = |ranks: u32| {
            let places = first.lease.add_job(NodePlaces::default(), counts(ranks));
            places.binding.unwrap().processors(ranks).to_string()
        };
        assert_eq!(job(2), "0,2");
        let third = place.take("c", 1).unwrap();
        assert_eq!(moved(&third, 1), "3");
        drop(second);
        // Processors without another run are those of the first binding.
        assert_eq!(job(3), "0-2");
        assert_eq!(place.take("d", 1).unwrap().choice.sharing.len(), 1);
        drop(first);
        assert_eq!(moved(&place.take("d", 3).unwrap(), 3), "0-2");
    }

    /// Places of ranks on a described machine, with a GPU for each rank if `placement` says so.
    fn described(machine: &str, placement: Placement, ranks: u32) -> (Wish, RankCounts) {
        let (_, hardware) = machines().find(|(name, _)| *name == machine).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), hardware.hwloc(HwlocVersion::V2)).unwrap();
        let placement = Placement { topology: Some(file.path().to_owned()), ..placement };
        let variable = |_: &str| None;
        let request = PlaceRequest { host: "n1", ranks: counts(ranks), variable: &variable };
        let alone = NodePlaces::resolve(&placement, request).unwrap();
        let places = alone.places.as_ref().unwrap();
        let all = Share {
            processors: hardware.processors,
            devices: places.all_gpus().into_iter().collect(),
            ..Share::default()
        };
        let limit = ProcessorSet::default();
        (Wish { holder: holder("a"), all, alone, limit, may_move: true }, counts(ranks))
    }

    #[test]
    fn runs_have_different_gpus_and_one_that_must_have_more_is_refused() {
        for machine in ["eight-t4", "frontier", "aurora"] {
            let place = Place::new();
            let gpus = GpuPlacement { per_rank: Some(1), ..GpuPlacement::default() };
            let placement = Placement { gpus, ..Placement::default() };
            let take = |run: &str, placement: &Placement| {
                let (wish, ranks) = described(machine, placement.clone(), 3);
                let wish = Wish { holder: holder(run), ..wish };
                take_in(&place.directory(), &wish, ranks)
            };
            let mut held: Vec<Grant> = Vec::new();
            let all = described(machine, placement.clone(), 3).0.all.devices.len();
            for number in 0..all / 3 {
                held.push(take(&format!("run{number}"), &placement).unwrap());
            }
            let devices: Vec<&String> =
                held.iter().flat_map(|grant| &grant.choice.share.devices).collect();
            assert_eq!(devices.len(), all / 3 * 3, "{machine}");
            assert_eq!(devices.iter().collect::<BTreeSet<_>>().len(), devices.len(), "{devices:?}");
            let error = take("last", &placement).unwrap_err();
            let LeaseError::NoGpus(text) = error else { panic!("{error}") };
            let taken = devices.len();
            assert!(text.starts_with(&format!("has {all} GPUs for ranks, of which")), "{text}");
            assert!(text.contains(&format!("have {taken}, and")), "{text}");
            assert!(text.contains("to have 3; wait") && text.contains("'--overlap'"), "{text}");
            held.pop();
            let last = take("last", &placement).unwrap();
            assert!(last.choice.sharing.is_empty());
        }
    }

    #[test]
    fn placement_of_memory_first_avoids_processors_and_gpus_of_others() {
        let auto = Placement { map_by: Some(MapBy::Auto), ..Placement::default() };
        let place = Place::new();
        let gpus = GpuPlacement { per_rank: Some(2), ..GpuPlacement::default() };
        let core = BindTo::Units(Units { unit: Unit::Core, count: 1 });
        let some = Placement { gpus, bind_to: core, ..Placement::default() };
        let (wish, ranks) = described("frontier", some, 1);
        let first = take_in(&place.directory(), &wish, ranks).unwrap();
        let (wish, ranks) = described("frontier", auto, 4);
        let wish = Wish { holder: holder("b"), ..wish };
        let second = take_in(&place.directory(), &wish, ranks).unwrap();
        let (first, second) = (&first.choice.share, &second.choice.share);
        assert!(!first.processors.meets(&second.processors), "{first:?} {second:?}");
        assert!(first.devices.is_disjoint(&second.devices), "{first:?} {second:?}");
        assert_eq!((first.devices.len(), second.devices.len()), (2, 6));
    }

    #[test]
    fn processors_that_the_user_has_chosen_stay() {
        let place = Place::new();
        let first = place.take("a", 1).unwrap();
        let wish = Wish { may_move: false, ..wish("b", Binding::to_sets(&[&[0], &[3]])) };
        let second = take_in(&place.directory(), &wish, counts(2)).unwrap();
        assert!(second.choice.moved.is_none());
        assert_eq!(second.choice.shared.processors.to_string(), "0");
        let third = place.take("c", 1).unwrap();
        assert_eq!(moved(&third, 1), "1");
        let limit = [2].into_iter().collect();
        let limit = Wish { alone: NodePlaces::default(), limit, holder: holder("d"), ..wish };
        let fourth = take_in(&place.directory(), &limit, counts(1)).unwrap();
        assert!(fourth.choice.moved.is_none() && fourth.choice.sharing.is_empty());
        let none = place.take("e", 1).unwrap().choice;
        assert_eq!((none.moved.is_none(), none.sharing.len()), (true, 2), "{none:?}");
        drop((first, second, third, fourth));
    }

    #[test]
    fn record_whose_process_is_gone_is_left_out_although_its_number_is_used_again() {
        // The record has the number of this process, which lives, and has no lock.
        let place = Place::with(&contents(record("0-3")));
        let grant = place.take("a", 4).unwrap();
        assert_eq!((moved(&grant, 4), grant.damaged.is_none()), ("0-3".to_owned(), true));
        let text = fs::read(place.file()).unwrap();
        let left = decode(&text, &head()).unwrap();
        assert_eq!(left.iter().map(|one| &*one.holder.run).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn byte_that_a_copy_of_a_process_keeps_is_not_taken() {
        let place = Place::with(b"");
        let other = user_file::open_own(&place.file()).unwrap();
        assert!(lock_byte(&other, 0).unwrap());
        let grant = place.take("a", 1).unwrap();
        let records = decode(&fs::read(place.file()).unwrap(), &head()).unwrap();
        assert_eq!(records[0].byte, 1);
        drop(grant);
    }

    #[test]
    fn file_that_is_locked_for_long_gives_no_lease_and_names_the_process() {
        let place = Place::with(b"");
        let other = user_file::open_own(&place.file()).unwrap();
        flock(&other, FlockOperation::LockExclusive).unwrap();
        let since = Instant::now();
        let error = place.take("a", 1).unwrap_err();
        assert!((PATIENCE..10 * PATIENCE).contains(&since.elapsed()), "{:?}", since.elapsed());
        let text = no_lease("node1", &error);
        assert!(text.contains(&format!("process {} has kept", std::process::id())), "{text}");
        assert!(text.contains("--overlap"), "{text}");
    }

    #[test]
    fn file_of_another_version_is_used_again_once_nobody_uses_it() {
        for start in [format!("{TITLE} 2 x\n"), format!("{TITLE} {VERSION} of an earlier boot\n")] {
            let place = Place::with(start.as_bytes());
            let other = user_file::open_own(&place.file()).unwrap();
            assert!(lock_byte(&other, 700).unwrap());
            let error = place.take("a", 1).unwrap_err();
            assert!(matches!(error, LeaseError::OfOthers { .. }), "{error}");
            assert_eq!(fs::read_to_string(place.file()).unwrap(), start);
            drop(other);
            let grant = place.take("a", 1).unwrap();
            assert!(grant.damaged.is_none());
        }
    }

    #[test]
    fn link_or_directory_in_place_of_the_file_is_not_used() {
        let place = Place::with(b"");
        let other = place.parent.path().join("thesis");
        fs::write(&other, "text").unwrap();
        fs::remove_file(place.file()).unwrap();
        symlink(&other, place.file()).unwrap();
        assert!(matches!(place.take("a", 1), Err(LeaseError::System(_))));
        assert_eq!(fs::read_to_string(&other).unwrap(), "text");
        fs::remove_file(place.file()).unwrap();
        fs::create_dir(place.file()).unwrap();
        assert!(matches!(place.take("a", 1), Err(LeaseError::System(_))));
        fs::remove_dir(place.file()).unwrap();
        let fifo = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, place.file(), fifo).unwrap();
        assert!(matches!(place.take("a", 1), Err(LeaseError::System(_))));
    }

    #[test]
    fn file_of_another_user_is_not_used() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can make a file of another user");
            return;
        }
        let place = Place::with(b"");
        std::os::unix::fs::chown(place.file(), Some(65534), Some(65534)).unwrap();
        let error = place.take("a", 1).unwrap_err().to_string();
        assert!(error.contains("user 65534"), "{error}");
    }

    #[test]
    fn notes_name_processes_and_remedy_and_no_control_characters() {
        let mut other = holder("a");
        (other.pid, other.program) = (12, "./x\u{1b}[2J".to_owned());
        let shared = Share {
            processors: (0..2).collect(),
            devices: [String::from("0000:01:00.0")].into(),
            ..Share::default()
        };
        let text = no_room("node1", &shared, &vec![other; 9]);
        assert!(text.contains("node1 share processors 0-1 and GPU 0000:01:00.0 with"), "{text}");
        assert!(
            text.contains("process 12 of './x[2J', ") && text.contains(" and others)"),
            "{text}"
        );
        assert!(text.contains("'--overlap'"), "{text}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

        #[test]
        fn damaged_file_is_replaced(
            noise in prop::collection::vec(any::<u8>(), 1..200),
            has_head: bool,
        ) {
            let head = if has_head { head() } else { String::new() };
            let contents = [head.as_bytes(), &noise].concat();
            let place = Place::with(&contents);
            let grant = place.take("a", 4).unwrap();
            prop_assert_eq!(moved(&grant, 4), "0-3");
            prop_assert_eq!(grant.damaged.is_some(), decode(&contents, &self::head()).is_none());
            prop_assert!(place.take("b", 1).unwrap().damaged.is_none());
        }

        #[test]
        fn file_with_changed_bytes_is_read_or_replaced(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut contents = contents(record("0-2"));
            for (at, byte) in changes {
                let at = at.index(contents.len());
                contents[at] = byte;
            }
            let place = Place::with(&contents);
            prop_assert_eq!(moved(&place.take("a", 4).unwrap(), 4), "0-3");
        }
    }

    #[test]
    fn huge_file_is_replaced() {
        let place = Place::with(b"");
        let file = File::options().write(true).open(place.file()).unwrap();
        file.set_len(1 << 40).unwrap();
        let grant = place.take("a", 1).unwrap();
        assert!(grant.damaged.is_some());
        assert!(fs::metadata(place.file()).unwrap().len() < 1000);
    }
}
