//! Sessions with a server of PMIx, such as `prterun`: the calls of PMI are mapped to those of PMIx.
//!
//! | PMI | PMIx |
//! |---|---|
//! | put, fence | put of a text, commit before the next fence; a fence exchanges committed data |
//! | get of a key | get of the committed data of each rank until one has the key, once after each fence |
//! | attribute of the node | text of local scope, committed at once; read of the ranks of the node |
//! | process mapping | numbers of the nodes of all ranks |
//!
//! Spawns and connected jobs are not mapped, and fail. The requests of several threads take turns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pmi_core::command::Spawn;
use pmi_core::error::Code;
use pmi_core::wire::mapping::{PROCESS_MAPPING, write_mapping};
use pmi_std::pmix::{CallError, Datum, Pmix, Proc, Scope, keys};
use pmi_std::{OwnedPair, Spawned};

use super::{MAXES, Session, SessionFacts};
use crate::code::{self, CodeResult};

/// A session with a server of PMIx.
#[derive(Debug)]
pub(crate) struct PmixSession {
    facts: SessionFacts,
    state: Mutex<PmixSessionState>,
}

#[derive(Debug)]
struct PmixSessionState {
    /// `None` behind the end of the session.
    pmix: Option<Pmix>,
    /// Texts of the ranks in `read`, as received since the last fence.
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    read: BTreeSet<u32>,
    /// True if a value was put that is not committed.
    has_uncommitted: bool,
}

impl PmixSession {
    pub(crate) fn new(pmix: Pmix) -> Self {
        let (rank, size) = (pmix.rank(), pmix.size());
        let of_job = |key| pmix.job_info().find(rank, key).and_then(|value| value.number());
        let spawned = of_job(keys::SPAWNED).is_some_and(|spawned| spawned != 0);
        let kvsname = pmix.nspace().to_vec();
        let facts = SessionFacts { rank, size, spawned, kvsname, maxes: MAXES };
        let (pairs, read) = (BTreeMap::new(), BTreeSet::new());
        let state = PmixSessionState { pmix: Some(pmix), pairs, read, has_uncommitted: false };
        Self { facts, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, PmixSessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number of the job, or of this rank in it.
    fn number(&self, key: &[u8]) -> CodeResult<Option<u32>> {
        let mut state = self.state();
        let value = state.pmix()?.job_info().find(self.facts.rank, key);
        Ok(value.and_then(|value| value.number()).and_then(|number| u32::try_from(number).ok()))
    }

    /// Ranks on this node.
    fn peers(&self, state: &mut PmixSessionState) -> CodeResult<Vec<u32>> {
        let job = state.pmix()?.job_info();
        let list = job.find(self.facts.rank, keys::LOCAL_PEERS).and_then(|value| value.text());
        let list = std::str::from_utf8(list.ok_or(Code::FAIL)?).map_err(|_| Code::FAIL)?;
        let ranks = list.split(',').map(|rank| rank.trim().parse().map_err(|_| Code::FAIL));
        ranks.filter(|rank| !matches!(rank, Ok(rank) if *rank >= self.facts.size)).collect()
    }

    fn mapping(&self) -> CodeResult<Option<Vec<u8>>> {
        let mut state = self.state();
        let job = state.pmix()?.job_info();
        let node = |rank| u32::try_from(job.find(rank, keys::NODEID)?.number()?).ok();
        let Some(nodes) = (0..self.facts.size).map(node).collect::<Option<Vec<u32>>>() else {
            return Ok(None);
        };
        let mut text = vec![0; MAXES.value as usize - 1];
        // A mapping that is too long for a value is unknown.
        Ok(write_mapping(nodes.into_iter(), &mut text).ok().map(|len| {
            text.truncate(len);
            text
        }))
    }
}

impl PmixSessionState {
    fn pmix(&mut self) -> CodeResult<&mut Pmix> {
        self.pmix.as_mut().ok_or(Code::FAIL)
    }

    fn put(&mut self, scope: Scope, key: &[u8], value: &[u8]) -> CodeResult<()> {
        self.pmix()?.put(scope, key, Datum::Text(value)).map_err(of_pmix)?;
        self.has_uncommitted = true;
        Ok(())
    }

    fn commit(&mut self) -> CodeResult<()> {
        if self.has_uncommitted {
            self.pmix()?.commit().map_err(of_pmix)?;
            self.has_uncommitted = false;
        }
        Ok(())
    }

    /// Reads the committed texts of a rank, unless they are there.
    fn read(&mut self, rank: u32) -> CodeResult<()> {
        if self.read.contains(&rank) {
            return Ok(());
        }
        let texts = texts_of(self.pmix()?, rank)?;
        self.pairs.extend(texts);
        self.read.insert(rank);
        Ok(())
    }
}

/// Texts that a rank has committed; other types are those of other interfaces.
fn texts_of(pmix: &mut Pmix, rank: u32) -> CodeResult<Vec<OwnedPair>> {
    let kvals = pmix.get_all(Proc { nspace: b"", rank }).map_err(of_pmix)?;
    let texts = kvals.map_while(Result::ok);
    Ok(texts.filter_map(|kval| Some((kval.key.to_vec(), kval.value.text()?.to_vec()))).collect())
}

impl Session for PmixSession {
    fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    fn put(&self, key: &[u8], value: &[u8]) -> CodeResult<()> {
        self.state().put(Scope::Global, &own_key(VALUE, key), value)
    }

    fn get(
        &self,
        job: Option<&[u8]>,
        source: Option<u32>,
        key: &[u8],
    ) -> CodeResult<Option<Vec<u8>>> {
        if job.is_some_and(|job| job != self.facts.kvsname) {
            return Ok(None);
        }
        if key == PROCESS_MAPPING {
            return self.mapping();
        }
        let (key, mut state) = (own_key(VALUE, key), self.state());
        let source = source.filter(|source| *source < self.facts.size);
        for rank in source.into_iter().chain(0..self.facts.size) {
            // All ranks that were read may have it.
            if let Some(value) = state.pairs.get(&key) {
                return Ok(Some(value.clone()));
            }
            state.read(rank)?;
        }
        Ok(state.pairs.get(&key).cloned())
    }

    fn pairs(&self) -> CodeResult<Vec<OwnedPair>> {
        let mut state = self.state();
        (0..self.facts.size).try_for_each(|rank| state.read(rank))?;
        let own = state.pairs.iter().filter_map(|(key, value)| {
            let key = key.strip_prefix(VALUE)?;
            Some((key.to_vec(), value.clone()))
        });
        Ok(own.collect())
    }

    fn fence(&self) -> CodeResult<()> {
        let mut state = self.state();
        state.commit()?;
        state.pairs.clear();
        state.read.clear();
        state.pmix()?.fence().map_err(of_pmix)
    }

    fn local_ranks(&self) -> CodeResult<Option<Vec<u32>>> {
        self.peers(&mut self.state()).map(Some)
    }

    fn appnum(&self) -> CodeResult<Option<u32>> {
        self.number(keys::APPNUM)
    }

    fn universe_size(&self) -> CodeResult<Option<u32>> {
        self.number(keys::UNIV_SIZE)
    }

    fn put_node(&self, key: &[u8], value: &[u8]) -> CodeResult<()> {
        let mut state = self.state();
        state.put(Scope::Local, &own_key(NODE_ATTRIBUTE, key), value)?;
        state.commit()
    }

    fn get_node(&self, key: &[u8], wait: bool) -> CodeResult<Option<Vec<u8>>> {
        let key = own_key(NODE_ATTRIBUTE, key);
        loop {
            {
                let mut state = self.state();
                for rank in self.peers(&mut state)? {
                    let texts = texts_of(state.pmix()?, rank)?;
                    if let Some((_, value)) = texts.into_iter().rfind(|(other, _)| *other == key) {
                        return Ok(Some(value));
                    }
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
            PROCESS_MAPPING => self.mapping(),
            b"universeSize" => {
                let size = self.universe_size()?;
                Ok(size.map(|size| size.to_string().into_bytes()))
            }
            b"hasNameServ" => Ok(Some(b"TRUE".to_vec())),
            _ => Ok(None),
        }
    }

    fn publish(&self, service: &[u8], port: &[u8]) -> CodeResult<()> {
        self.state().pmix()?.publish(&own_key(VALUE, service), port).map_err(of_pmix)
    }

    fn unpublish(&self, service: &[u8]) -> CodeResult<()> {
        self.state().pmix()?.unpublish(&own_key(VALUE, service)).map_err(of_pmix)
    }

    fn lookup(&self, service: &[u8]) -> CodeResult<Option<Vec<u8>>> {
        self.state().pmix()?.lookup(&own_key(VALUE, service)).map_err(of_pmix)
    }

    fn spawn(&self, _spawn: Spawn<'_>) -> CodeResult<Spawned> {
        Err(Code::FAIL)
    }

    fn connect_job(&self, _job: &[u8]) -> CodeResult<()> {
        Err(Code::FAIL)
    }

    fn disconnect_job(&self, _job: &[u8]) -> CodeResult<()> {
        Err(Code::FAIL)
    }

    fn abort(&self, code: i32, _world: bool, message: &[u8]) {
        if let Some(pmix) = self.state().pmix.take() {
            // The process exits next, so an error of the connection changes nothing.
            let _ = pmix.abort(code, &String::from_utf8_lossy(message));
        }
    }

    fn finalize(&self) -> CodeResult<()> {
        let pmix = self.state().pmix.take();
        pmix.ok_or(Code::FAIL)?.finalize().map_err(of_pmix)
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

/// Interval between reads of an attribute that is waited for.
const NODE_POLL: Duration = Duration::from_millis(5);
