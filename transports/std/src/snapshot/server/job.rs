//! Publications of one job.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pmi_core::server::{Job, Member};
use pmi_core::store::Keyspace;
use pmi_core::wire::snapshot::Generation;
use rustix::io::{Errno, pread};

use super::changed_keys::TrackedKvs;
use crate::env::DEAD_PROCESSES;
use crate::snapshot::{DESCRIPTORS_MAX, GenerationBuilder, publish};

/// The generations of a job. The first one has the attributes that the launcher has set, and stays.
#[derive(Debug, Default)]
pub(super) struct JobSnapshot {
    /// Number of completed fences whose values are published; `None` before the first publication.
    fences: Option<u32>,
    /// From the oldest to the newest.
    generations: Vec<PublishedGeneration>,
    /// True after a generation could not be made: clients ask the server for all values.
    is_incomplete: bool,
}

/// A generation that clients may have.
#[derive(Debug)]
struct PublishedGeneration {
    /// Number of the first publication in it.
    first: u32,
    /// Number of the publication after which clients receive it.
    last: u32,
    len_bytes: usize,
    file: Arc<OwnedFd>,
}

impl JobSnapshot {
    /// Number of the last publication.
    pub(super) fn last(&self) -> Option<u32> {
        self.generations.iter().map(|generation| generation.last).max()
    }

    /// The generations that a client lacks that has those up to the publication `sent`.
    pub(super) fn newer(&self, sent: Option<u32>) -> Vec<Arc<OwnedFd>> {
        let all = self.generations.iter();
        let newer = all.filter(|generation| sent.is_none_or(|sent| generation.last > sent));
        newer.map(|generation| Arc::clone(&generation.file)).collect()
    }

    /// Publishes what became visible since the last call, if a fence has ended since.
    pub(super) fn publish<K, M>(&mut self, job: &Job<K, M>)
    where
        K: TrackedKvs,
        M: AsRef<[Member]> + AsMut<[Member]>,
    {
        let fences = job.fence().generation();
        if self.fences == Some(fences) {
            return;
        }
        let published = match self.fences {
            None => self.publish_attributes(job.kvs()).and_then(|()| self.publish_changes(job)),
            Some(_) if self.is_incomplete => Ok(()),
            Some(_) => self.publish_changes(job),
        };
        self.fences = Some(fences);
        if published.is_err() {
            self.withdraw();
        }
    }

    fn publish_attributes(&mut self, kvs: &impl TrackedKvs) -> io::Result<()> {
        let mut pairs = GenerationBuilder::default();
        let mut next = kvs.next(None);
        while let Some(entry) = next.and_then(|id| kvs.entry(id)) {
            if entry.keyspace == Keyspace::Attributes && entry.key != DEAD_PROCESSES {
                pairs.insert(entry.key, entry.value);
            }
            next = kvs.next(next);
        }
        self.add(&pairs, 0, 0)
    }

    fn publish_changes<K, M>(&mut self, job: &Job<K, M>) -> io::Result<()>
    where
        K: TrackedKvs,
        M: AsRef<[Member]> + AsMut<[Member]>,
    {
        let mut pairs = GenerationBuilder::default();
        for key in job.kvs().take_changes(job.fence().generation()) {
            if let Some(value) = job.visible_value(&key) {
                pairs.insert(&key, value);
            }
        }
        if pairs.is_empty() {
            return Ok(());
        }
        let last = self.last().map_or(Some(0), |last| last.checked_add(1));
        let last = last.ok_or(io::ErrorKind::QuotaExceeded)?;
        let (mut first, mut len_bytes) = (last, pairs.len_bytes());
        // Each generation is more than twice as long as the next one, so there are few.
        while let count @ 2.. = self.generations.len()
            && let Some(older) = self
                .generations
                .pop_if(|older| older.len_bytes / 2 <= len_bytes || count >= DESCRIPTORS_MAX)
        {
            for (key, value) in older.read()?.pairs() {
                pairs.insert_older(key, value);
            }
            (first, len_bytes) = (older.first, pairs.len_bytes());
        }
        self.add(&pairs, first, last)
    }

    fn add(&mut self, pairs: &GenerationBuilder, first: u32, last: u32) -> io::Result<()> {
        let bytes = pairs.finish(first, last).ok_or(io::ErrorKind::FileTooLarge)?;
        let (file, len_bytes) = (Arc::new(publish(&bytes)?), pairs.len_bytes());
        self.generations.push(PublishedGeneration { first, last, len_bytes, file });
        Ok(())
    }

    /// Leaves the first generation alone, which clients receive again: it replaces all others.
    fn withdraw(&mut self) {
        let last = self.last().map_or(0, |last| last.saturating_add(1));
        self.is_incomplete = true;
        self.generations.truncate(1);
        if let Some(generation) = self.generations.first_mut() {
            generation.last = last;
        }
    }
}

impl PublishedGeneration {
    fn read(&self) -> io::Result<Generation<Vec<u8>>> {
        let len = usize::try_from(rustix::fs::fstat(&self.file)?.st_size).unwrap_or(0);
        let (mut bytes, mut held) = (vec![0; len], 0);
        while held < len {
            match pread(&self.file, &mut bytes[held..], u64::try_from(held).unwrap_or(u64::MAX)) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => held += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Generation::new(bytes).map_err(io::Error::other)
    }
}
