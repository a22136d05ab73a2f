//! Sessions with a server of PMIx, such as `prterun`: the calls of PMI are mapped to those of PMIx.
//!
//! | PMI | PMIx |
//! |---|---|
//! | put, fence | put of a text, commit before the next fence; a fence exchanges committed data |
//! | get of a key | get of the committed data of each rank until one has the key, once after each fence |
//! | attribute of the node | text of local scope, committed at once; read of the ranks of the node |
//! | process mapping | numbers of the nodes of all ranks |
//! | spawn | spawn; the hint `wdir` is the directory, and values for the new job are in a variable of it |
//! | connection with a job | get of its size, which shows that there is such a job; then its ranks are read as the own ones, at every get |
//!
//! `PMIx_Connect` is no connection as PMI-2 defines it: all processes of both jobs have to call it. The
//! threads of a process share one session, and each waits for its own reply.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pmi_core::command::{Spawn, Text};
use pmi_core::error::Code;
use pmi_core::wire::mapping::{PROCESS_MAPPING, write_mapping};
use pmi_std::pmix::{
    CallError, Datum, Pmix, Proc, Scope, SharedPmix, SpawnApp, WILDCARD, Within, keys,
};
use pmi_std::{OwnedPair, Spawned};

use super::escape::Carrier;
use super::{MAXES, Session, SessionFacts};
use crate::code::{self, CodeResult, SpawnRefusal};

/// A session with a server of PMIx.
#[derive(Debug)]
pub(crate) struct PmixSession {
    facts: SessionFacts,
    /// Values that the job which has spawned this one has given it.
    preputs: BTreeMap<Vec<u8>, Vec<u8>>,
    pmix: SharedPmix,
    known: Mutex<KnownTexts>,
    /// True if a value was put that is not committed.
    has_uncommitted: AtomicBool,
    /// Connected jobs, and the number of their ranks. A job that has spawned this one, or that this one has
    /// spawned, is connected without a call: its number of ranks is read when it is needed.
    connected: Mutex<BTreeMap<Vec<u8>, Option<u32>>>,
}

/// Texts of the ranks in `read`, as received since the last fence.
#[derive(Debug, Default)]
struct KnownTexts {
    fences: u64,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    read: BTreeSet<u32>,
}

impl PmixSession {
    pub(crate) fn new(pmix: Pmix) -> io::Result<Self> {
        let (rank, size) = (pmix.rank(), pmix.size());
        let of_job = |key| pmix.job_info().find(rank, key).and_then(|value| value.number());
        let kvsname = pmix.nspace().to_vec();
        let given = env::var_os(SPAWN).and_then(|given| SpawnVariable::read(given.as_bytes()));
        // A job around this one may have left the variable in the environment.
        let given = given.filter(|given| given.is_for(&kvsname));
        // Open MPI 4 does not tell its jobs that they were spawned.
        let spawned = given.is_some() || of_job(keys::SPAWNED).is_some_and(|spawned| spawned != 0);
        let facts = SessionFacts { rank, size, spawned, kvsname, maxes: MAXES };
        let spawner = given.as_ref().map(|given| (given.spawner.clone(), None));
        Ok(Self {
            facts,
            preputs: given.map(|given| given.preputs).unwrap_or_default(),
            pmix: SharedPmix::new(pmix)?,
            known: Mutex::default(),
            has_uncommitted: AtomicBool::new(false),
            connected: Mutex::new(spawner.into_iter().collect()),
        })
    }

    fn known(&self) -> MutexGuard<'_, KnownTexts> {
        lock(&self.known)
    }

    /// A number of the job, or of this rank in it.
    fn number(&self, key: &[u8]) -> Option<u32> {
        self.pmix.read_job_info(|job| {
            let number = job.find(self.facts.rank, key)?.number()?;
            u32::try_from(number).ok()
        })
    }

    /// Ranks on this node.
    fn peers(&self) -> CodeResult<Vec<u32>> {
        self.pmix.read_job_info(|job| {
            let list = job.find(self.facts.rank, keys::LOCAL_PEERS).and_then(|value| value.text());
            let list = std::str::from_utf8(list.ok_or(Code::FAIL)?).map_err(|_| Code::FAIL)?;
            let ranks = list.split(',').map(|rank| rank.trim().parse().map_err(|_| Code::FAIL));
            ranks.filter(|rank| !matches!(rank, Ok(rank) if *rank >= self.facts.size)).collect()
        })
    }

    fn mapping(&self) -> Option<Vec<u8>> {
        let nodes = self.pmix.read_job_info(|job| {
            let node = |rank| u32::try_from(job.find(rank, keys::NODEID)?.number()?).ok();
            (0..self.facts.size).map(node).collect::<Option<Vec<u32>>>()
        })?;
        let mut text = vec![0; MAXES.value as usize - 1];
        // A mapping that is too long for a value is unknown.
        let len = write_mapping(nodes.into_iter(), &mut text).ok()?;
        text.truncate(len);
        Some(text)
    }

    fn put_text(&self, scope: Scope, key: &[u8], value: &[u8]) -> CodeResult<()> {
        self.pmix.put(scope, key, Datum::Text(value)).map_err(of_pmix)?;
        self.has_uncommitted.store(true, Ordering::Release);
        Ok(())
    }

    fn commit(&self) -> CodeResult<()> {
        if self.has_uncommitted.swap(false, Ordering::AcqRel) {
            self.pmix.commit().map_err(of_pmix)?;
        }
        Ok(())
    }

    /// Reads the committed texts of a rank, unless they are there.
    fn read(&self, rank: u32) -> CodeResult<()> {
        loop {
            let fences = {
                let known = self.known();
                if known.read.contains(&rank) {
                    return Ok(());
                }
                known.fences
            };
            let texts = self.texts_of(b"", rank)?;
            let mut known = self.known();
            // Texts that were requested before the end of a fence may be older than it.
            if known.fences == fences {
                known.pairs.extend(texts);
                known.read.insert(rank);
                return Ok(());
            }
        }
    }

    /// Texts that a rank has committed; other types are those of other interfaces. An empty name is the own
    /// job.
    fn texts_of(&self, nspace: &[u8], rank: u32) -> CodeResult<Vec<OwnedPair>> {
        let texts = self.pmix.get_all(Proc { nspace, rank }, |kvals| {
            let texts = kvals.map_while(Result::ok);
            let text = |text: &[u8]| text.to_vec();
            texts.filter_map(|kval| Some((text(kval.key), text(kval.value.text()?)))).collect()
        });
        texts.map_err(of_pmix)
    }

    /// Number of ranks of another job; `None` if there is no such job.
    fn size_of(&self, job: &[u8]) -> CodeResult<Option<u32>> {
        let of = Proc { nspace: job, rank: WILDCARD };
        let size = self.pmix.get(of, keys::JOB_SIZE, Within::Immediate, |value| value.number());
        Ok(size.map_err(of_pmix)?.flatten().and_then(|size| u32::try_from(size).ok()))
    }

    /// Reads a value of a connected job. What its ranks have put is not known to be complete before they end,
    /// so nothing is kept.
    fn get_from(&self, job: &[u8], source: Option<u32>, key: &[u8]) -> CodeResult<Option<Vec<u8>>> {
        let size = match lock(&self.connected).get(job) {
            None => return Ok(None),
            Some(size) => *size,
        };
        let size = match size {
            Some(size) => size,
            None => {
                let Some(size) = self.size_of(job)? else { return Ok(None) };
                lock(&self.connected).insert(job.to_vec(), Some(size));
                size
            }
        };
        let key = own_key(VALUE, key);
        let source = source.filter(|source| *source < size);
        for rank in source.into_iter().chain(0..size) {
            let texts = self.texts_of(job, rank)?;
            if let Some((_, value)) = texts.into_iter().rfind(|(other, _)| *other == key) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

/// A panic under the lock leaves no half-made state: each change is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session for PmixSession {
    fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    fn put(&self, key: &[u8], value: &[u8]) -> CodeResult<()> {
        self.put_text(Scope::Global, &own_key(VALUE, key), value)
    }

    fn get(
        &self,
        job: Option<&[u8]>,
        source: Option<u32>,
        key: &[u8],
    ) -> CodeResult<Option<Vec<u8>>> {
        if let Some(job) = job.filter(|job| *job != self.facts.kvsname) {
            return self.get_from(job, source, key);
        }
        if key == PROCESS_MAPPING {
            return Ok(self.mapping());
        }
        let given = self.preputs.get(key);
        let key = own_key(VALUE, key);
        let source = source.filter(|source| *source < self.facts.size);
        for rank in source.into_iter().chain(0..self.facts.size) {
            // All ranks that were read may have it.
            if let Some(value) = self.known().pairs.get(&key) {
                return Ok(Some(value.clone()));
            }
            // Ranks rarely put a key that they were given.
            if given.is_some() {
                break;
            }
            self.read(rank)?;
        }
        Ok(self.known().pairs.get(&key).or(given).cloned())
    }

    fn pairs(&self) -> CodeResult<Vec<OwnedPair>> {
        (0..self.facts.size).try_for_each(|rank| self.read(rank))?;
        let known = self.known();
        let own = known.pairs.iter().filter_map(|(key, value)| {
            let key = key.strip_prefix(VALUE)?;
            Some((key.to_vec(), value.clone()))
        });
        let mut all = self.preputs.clone();
        all.extend(own);
        Ok(all.into_iter().collect())
    }

    fn fence(&self) -> CodeResult<()> {
        self.commit()?;
        let fenced = self.pmix.fence().map_err(of_pmix);
        let mut known = self.known();
        *known = KnownTexts { fences: known.fences + 1, ..KnownTexts::default() };
        fenced
    }

    fn local_ranks(&self) -> CodeResult<Option<Vec<u32>>> {
        self.peers().map(Some)
    }

    fn appnum(&self) -> CodeResult<Option<u32>> {
        Ok(self.number(keys::APPNUM))
    }

    fn universe_size(&self) -> CodeResult<Option<u32>> {
        Ok(self.number(keys::UNIV_SIZE))
    }

    fn put_node(&self, key: &[u8], value: &[u8]) -> CodeResult<()> {
        self.put_text(Scope::Local, &own_key(NODE_ATTRIBUTE, key), value)?;
        self.commit()
    }

    fn get_node(&self, key: &[u8], wait: bool) -> CodeResult<Option<Vec<u8>>> {
        let key = own_key(NODE_ATTRIBUTE, key);
        loop {
            for rank in self.peers()? {
                let texts = self.texts_of(b"", rank)?;
                if let Some((_, value)) = texts.into_iter().rfind(|(other, _)| *other == key) {
                    return Ok(Some(value));
                }
            }
            if !wait {
                return Ok(None);
            }
            // A get of PMIx waits for a rank, and any rank of the node may put the attribute.
            thread::sleep(NODE_POLL);
        }
    }

    fn job_attribute(&self, key: &[u8]) -> CodeResult<Option<Vec<u8>>> {
        match key {
            PROCESS_MAPPING => Ok(self.mapping()),
            b"universeSize" => {
                let size = self.universe_size()?;
                Ok(size.map(|size| size.to_string().into_bytes()))
            }
            b"hasNameServ" => Ok(Some(b"TRUE".to_vec())),
            _ => Ok(None),
        }
    }

    fn publish(&self, service: &[u8], port: &[u8]) -> CodeResult<()> {
        self.pmix.publish(&own_key(VALUE, service), port).map_err(of_pmix)
    }

    fn unpublish(&self, service: &[u8]) -> CodeResult<()> {
        self.pmix.unpublish(&own_key(VALUE, service)).map_err(of_pmix)
    }

    fn lookup(&self, service: &[u8]) -> CodeResult<Option<Vec<u8>>> {
        self.pmix.lookup(&own_key(VALUE, service)).map_err(of_pmix)
    }

    fn spawn(&self, spawn: Spawn<'_>) -> Result<Spawned, SpawnRefusal> {
        let bytes = |text: Text<'_>| text.bytes().collect::<Vec<u8>>();
        let preputs = spawn.preputs().map(|pair| (bytes(pair.key), bytes(pair.value))).collect();
        let spawner = self.facts.kvsname.clone();
        let variable = SpawnVariable { spawner, preputs }.entry();
        let variables = [variable.as_slice()];
        let programs = spawn.programs().map(|program| {
            let words = [program.executable].into_iter().chain(program.arguments.iter()).map(bytes);
            let directory = program.info.iter().find(|pair| pair.key == *WDIR);
            let (words, processes) = (words.collect(), program.processes);
            OwnedProgram { words, directory: directory.map(|pair| bytes(pair.value)), processes }
        });
        let programs: Vec<OwnedProgram> = programs.collect();
        let words =
            programs.iter().map(|program| program.words.iter().map(Vec::as_slice).collect());
        let words: Vec<Vec<&[u8]>> = words.collect();
        let requested = programs.iter().zip(&words).map(|(program, words)| {
            let OwnedProgram { directory, processes, .. } = program;
            let (directory, processes) = (directory.as_deref(), *processes);
            let (command, arguments) = words.split_first().unwrap_or((&EMPTY, &[]));
            SpawnApp {
                arguments,
                variables: &variables,
                directory,
                ..SpawnApp::new(command, processes)
            }
        });
        let requested: Vec<SpawnApp<'_>> = requested.collect();
        let job = self.pmix.spawn(&requested, &[]).map_err(of_pmix)?;
        lock(&self.connected).insert(job.clone(), None);
        Ok(Spawned { job: Some(job), codes: Vec::new() })
    }

    fn connect_job(&self, job: &[u8]) -> CodeResult<()> {
        if job == self.facts.kvsname {
            return Ok(());
        }
        let size = self.size_of(job)?.ok_or(Code::FAIL)?;
        lock(&self.connected).insert(job.to_vec(), Some(size));
        Ok(())
    }

    fn disconnect_job(&self, job: &[u8]) -> CodeResult<()> {
        lock(&self.connected).remove(job).map(drop).ok_or(Code::FAIL)
    }

    fn abort(&self, code: i32, _world: bool, message: &[u8]) {
        // As the process exits, an error of the connection changes nothing.
        let _ = self.pmix.abort(code, &String::from_utf8_lossy(message));
    }

    fn finalize(&self) -> CodeResult<()> {
        self.pmix.finalize().map_err(of_pmix)
    }
}

/// A program to spawn.
struct OwnedProgram {
    words: Vec<Vec<u8>>,
    directory: Option<Vec<u8>>,
    processes: u32,
}

/// The variable of a spawned job.
#[derive(Debug, PartialEq, Eq)]
struct SpawnVariable {
    /// Name of the job that has spawned it.
    spawner: Vec<u8>,
    /// Values that it was given.
    preputs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl SpawnVariable {
    /// Shape: lines with the name of the spawner, and then keys and values by turns, each escaped.
    fn entry(&self) -> Vec<u8> {
        let pairs = self.preputs.iter().flat_map(|(key, value)| [key, value]);
        let lines = [&self.spawner].into_iter().chain(pairs).map(|text| Carrier::Line.escape(text));
        [SPAWN.as_bytes(), b"=", &lines.collect::<Vec<_>>().join(&b'\n')].concat()
    }

    fn read(text: &[u8]) -> Option<Self> {
        let mut lines =
            text.split(|byte| *byte == b'\n').map(|line| Carrier::Line.unescape(line.to_vec()));
        let spawner = lines.next()?;
        let preputs = std::iter::from_fn(|| Some((lines.next()?, lines.next()?))).collect();
        Some(Self { spawner, preputs })
    }

    /// True if the spawner is a job of the same launcher: their names differ in a number at the end.
    fn is_for(&self, job: &[u8]) -> bool {
        let common = |name: &[u8]| {
            let end = name.iter().rposition(|byte| !byte.is_ascii_digit());
            name.iter().copied().take(end.map_or(0, |end| end + 1)).collect::<Vec<u8>>()
        };
        self.spawner != job && common(&self.spawner) == common(job)
    }
}

/// A key of PMI as one of PMIx, whose reserved keys begin with `pmix`.
fn own_key(kind: &[u8], key: &[u8]) -> Vec<u8> {
    [kind, key].concat()
}

fn of_pmix(error: CallError) -> Code {
    match error {
        CallError::Misuse(misuse) => code::of_misuse(misuse),
        _ => Code::FAIL,
    }
}

/// Start of the keys of values and services, and of attributes of a node.
const VALUE: &[u8] = b"pmi:";
const NODE_ATTRIBUTE: &[u8] = b"pmi-node:";

/// Name of the variable of a spawned job.
const SPAWN: &str = "LIBPMI_SPAWN";

/// Name of a program that was given none, which the server refuses.
const EMPTY: &[u8] = b"";

/// Hint that names the working directory.
const WDIR: &[u8] = b"wdir";

/// Interval between reads of an attribute that is waited for.
const NODE_POLL: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_of_a_spawned_job_is_read_as_it_was_written() {
        let pairs = [("a key", "a\nb %25"), ("b", ""), ("c=d", "=x")];
        let pairs = pairs.map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()));
        let variable = SpawnVariable { spawner: b"job@1".to_vec(), preputs: pairs.into() };
        let text = variable.entry();
        let text = text.strip_prefix(b"LIBPMI_SPAWN=").unwrap();
        assert_eq!(SpawnVariable::read(text), Some(variable));
    }

    #[test]
    fn variable_counts_for_other_jobs_of_the_same_launcher() {
        let is_for = |spawner: &str, job: &str| {
            let (spawner, preputs) = (spawner.as_bytes().to_vec(), BTreeMap::new());
            SpawnVariable { spawner, preputs }.is_for(job.as_bytes())
        };
        assert!(is_for("kvs_vm_7_0", "kvs_vm_7_12") && is_for("246611969", "246611970"));
        assert!(!is_for("kvs_vm_7_0", "kvs_vm_7_0") && !is_for("prterun-a-7@1", "prterun-a-8@1"));
    }
}
