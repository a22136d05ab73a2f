//! Leases: what each run of this user has of this host.
//!
//! Several launchers at once in one allocation know nothing of each other, and each would bind its ranks to
//! the first processors. So a run that binds ranks enters what it takes into one file in the directory of
//! sockets, and chooses among what the other runs there leave. Without room it binds as if it were alone.
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
use crate::launch::topology::binding::{Binding, allowed};
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
    /// What this process may use.
    all: ProcessorSet,
    /// The binding if no other run were here; `None` if ranks are not bound.
    binding: Option<Arc<Binding>>,
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

/// Processors for the ranks of a job.
#[derive(Debug)]
struct Choice {
    /// The binding among the processors that others leave; `None` if it stays as it is.
    moved: Option<Binding>,
    processors: ProcessorSet,
    /// Processors that other runs have as well.
    shared: ProcessorSet,
    /// Holders of these processors.
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
}

/// Takes a lease for the ranks of this node, and moves their binding to processors that no other run has.
/// Opens nothing if no ranks are bound.
pub(crate) fn take(config: &mut Config) -> Taken {
    let placement = &config.settings.placement;
    let is_bound = config.binding.is_some() || placement.processors.is_some();
    let has_ranks = !config.has_servers || config.node.is_some();
    if placement.overlaps || !is_bound || !has_ranks {
        return Taken::default();
    }
    let node = config.node.unwrap_or_default();
    let started: u32 = config.parts.iter().map(|part| part.ranks).sum();
    let local = config.placed.map.ranks_of(node).filter(|rank| *rank < started).count();
    let names: Vec<_> = config.parts.iter().map(|part| part.program.name.display()).collect();
    let names = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let holder = Holder {
        run: config.run.clone(),
        node,
        pid: std::process::id(),
        program: names.chars().take(PROGRAM_CHARS).collect(),
    };
    let ranks = u32::try_from(local).unwrap_or(u32::MAX);
    let wish = Wish {
        holder,
        all: allowed().unwrap_or_default().into_iter().collect(),
        binding: config.binding.clone(),
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
    let is_asked = !matches!(placement.bind_to, BindTo::Launcher(_));
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
                config.binding = Some(Arc::new(moved));
            }
            Some(lease)
        }
        Err(error) => {
            notes.push(no_lease(&config.host, &error));
            None
        }
    };
    notes.retain(|_| is_asked);
    Taken { lease, notes }
}

/// Takes a lease for this number of ranks in the file of this directory.
fn take_in(directory: &Path, wish: &Wish, ranks: u32) -> Result<Grant, LeaseError> {
    let file = LeaseFile::open(directory.join(NAME), wish.all.clone());
    let file = file.inspect_err(|_| runtime_dir::remove_if_empty(directory))?;
    let choice = file.choose(wish, ranks);
    let damaged = file.is_damaged.then(|| file.path.clone());
    // No option of a run asks for bytes of memory.
    let share = Share { processors: choice.processors.clone(), ..Share::default() };
    let lease = file.enter(wish.clone(), share)?;
    Ok(Grant { lease, choice, damaged })
}

impl Lease {
    /// Adds what a further job of the run takes on this node, and returns the binding of its ranks; `None` if
    /// they are not bound.
    pub(crate) fn add_job(&mut self, ranks: u32) -> Option<Arc<Binding>> {
        let alone = self.wish.binding.clone()?;
        let moved = self.add(ranks);
        let _ = flock(&self.file, FlockOperation::Unlock);
        // A job that was asked for starts, whether or not others know of it.
        Some(moved.ok().flatten().map_or(alone, Arc::new))
    }

    fn add(&mut self, ranks: u32) -> Result<Option<Binding>, LeaseError> {
        let Some(mut file) = self.locked(PATIENCE_OF_RUN)? else { return Ok(None) };
        let choice = file.choose(&self.wish, ranks);
        self.share.processors = self.share.processors.or(&choice.processors);
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
    fn open(path: PathBuf, all: ProcessorSet) -> Result<Self, LeaseError> {
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
    fn read(mut file: File, path: PathBuf, all: ProcessorSet) -> Result<Self, LeaseError> {
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
        let mut resources = Resources::new(Share { processors: all, ..Share::default() });
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

    /// Processors for ranks of a job of the run, as it wishes them.
    fn choose(&self, wish: &Wish, ranks: u32) -> Choice {
        let run = &wish.holder.run;
        let free = self.resources.free(run).processors;
        let movable = wish.binding.as_ref().filter(|_| wish.may_move);
        let moved = movable.and_then(|binding| binding.among(&free, ranks));
        let processors = match moved.as_ref().or(wish.binding.as_deref()) {
            Some(binding) => binding.processors(ranks),
            None => wish.limit.clone(),
        };
        let share = Share { processors, ..Share::default() };
        let sharing = self.resources.sharing(run, &share).cloned().collect();
        let shared = share.processors.without(&free);
        Choice { moved, processors: share.processors, shared, sharing }
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

/// Note about a run that shares processors.
fn no_room(host: &str, shared: &ProcessorSet, sharing: &[Holder]) -> String {
    let named = sharing.iter().take(NAMED_MAX).map(|holder| {
        let program: String = holder.program.chars().filter(|one| !one.is_control()).collect();
        format!("process {} of '{program}'", holder.pid)
    });
    let mut named = named.collect::<Vec<_>>().join(", ");
    if sharing.len() > NAMED_MAX {
        named.push_str(" and others");
    }
    let processors = if shared.len() == 1 { "processor" } else { "processors" };
    format!(
        "ranks on {host} share {processors} {shared} with other runs ({named}): all run, but not at the same \
         time; wait for the end of the others, or accept it with '--overlap'"
    )
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
            take_in(&self.directory(), &wish(run, binding), ranks)
        }
    }

    fn holder(run: &str) -> Holder {
        Holder { run: run.to_owned(), node: 0, pid: std::process::id(), program: "./a".to_owned() }
    }

    fn wish(run: &str, binding: Binding) -> Wish {
        Wish {
            holder: holder(run),
            all: (0..4).collect(),
            binding: Some(Arc::new(binding)),
            limit: ProcessorSet::default(),
            may_move: true,
        }
    }

    /// Processors of the first ranks of a run that was moved.
    fn moved(grant: &Grant, ranks: u32) -> String {
        grant.choice.moved.as_ref().unwrap().processors(ranks).to_string()
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
        assert_eq!((shared.to_string(), sharing.len()), ("0-1".to_owned(), 1));
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
            take_in(&place.directory(), &wish, 1).unwrap()
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
        let job = first.lease.add_job(2).unwrap();
        assert_eq!(job.processors(2).to_string(), "0,2");
        let third = place.take("c", 1).unwrap();
        assert_eq!(moved(&third, 1), "3");
        drop(second);
        // Processors without another run are those of the first binding.
        let job = first.lease.add_job(3).unwrap();
        assert_eq!(job.processors(3).to_string(), "0-2");
        assert_eq!(place.take("d", 1).unwrap().choice.sharing.len(), 1);
        drop(first);
        assert_eq!(moved(&place.take("d", 3).unwrap(), 3), "0-2");
    }

    #[test]
    fn processors_that_the_user_has_chosen_stay() {
        let place = Place::new();
        let first = place.take("a", 1).unwrap();
        let wish = Wish { may_move: false, ..wish("b", Binding::to_sets(&[&[0], &[3]])) };
        let second = take_in(&place.directory(), &wish, 2).unwrap();
        assert!(second.choice.moved.is_none());
        assert_eq!(second.choice.shared.to_string(), "0");
        let third = place.take("c", 1).unwrap();
        assert_eq!(moved(&third, 1), "1");
        let limit = [2].into_iter().collect();
        let limit = Wish { binding: None, limit, holder: holder("d"), ..wish };
        let fourth = take_in(&place.directory(), &limit, 1).unwrap();
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
        let text = no_room("node1", &ProcessorSet::of_list("0-1").unwrap(), &vec![other; 9]);
        assert!(text.contains("node1 share processors 0-1 with"), "{text}");
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
