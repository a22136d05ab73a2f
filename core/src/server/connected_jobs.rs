//! Connected jobs, which may read each other's data.
//!
//! Being connected is an equivalence: if A is connected to B and B to C, A may read C. Every job
//! carries the id of one job of its set; two jobs are connected exactly if they carry the same id.
//! Spec: PMI-2 API, `PMI2_Job_Connect` and `PMI2_Job_Disconnect`.

use super::job::Job;
use super::member::Member;
use crate::ids::JobId;
use crate::parts;
use crate::storage::Slots;
use crate::store::Kvs;

/// Initial state of a new job, connected only to itself and to the job that spawned it; false if that one has
/// no room for one more.
pub(super) fn start<K: Kvs, M: AsRef<[Member]>>(
    jobs: &mut impl Slots<Job<K, M>>,
    id: JobId,
) -> bool {
    if let Some(job) = jobs.get_mut(id.0 as usize) {
        job.connected_set = Some(id);
    }
    !parts::CONNECT || connect_with_spawner(jobs, id)
}

/// Connects a new job with the job that spawned it; false if that one has no room for one more. If they are
/// on several nodes, each server has both jobs, and reads what fences have carried from the other nodes.
/// Spec: PMI-2 API, Basic Concepts.
fn connect_with_spawner<K: Kvs, M: AsRef<[Member]>>(
    jobs: &mut impl Slots<Job<K, M>>,
    id: JobId,
) -> bool {
    let Some(spawner) = jobs.get(id.0 as usize).and_then(Job::spawner).cloned() else {
        return true;
    };
    let found = find_named(jobs, |name| name == spawner.as_bytes());
    found.is_none_or(|by| connect(jobs, by, id))
}

/// Connects two jobs; false if one of them has no room for one more.
pub(super) fn connect<K: Kvs, M: AsRef<[Member]>>(
    jobs: &mut impl Slots<Job<K, M>>,
    one: JobId,
    other: JobId,
) -> bool {
    if one == other || is_linked(jobs, one, other) {
        return true;
    }
    let has_room = |id: JobId| jobs.get(id.0 as usize).is_some_and(|job| !job.links.is_full());
    if !has_room(one) || !has_room(other) {
        return false;
    }
    for (id, to) in [(one, other), (other, one)] {
        if let Some(job) = jobs.get_mut(id.0 as usize) {
            // The room was checked above.
            let _ = job.links.push(to);
        }
    }
    merge(jobs, one, other);
    true
}

/// Disconnects two jobs; false if they were not connected.
pub(super) fn disconnect<K: Kvs, M: AsRef<[Member]>>(
    jobs: &mut impl Slots<Job<K, M>>,
    one: JobId,
    other: JobId,
) -> bool {
    if !is_linked(jobs, one, other) {
        return false;
    }
    for (id, to) in [(one, other), (other, one)] {
        if let Some(job) = jobs.get_mut(id.0 as usize) {
            job.links.retain(|link| *link != to);
        }
    }
    split(jobs, one);
    true
}

/// Disconnects a job from all others.
pub(super) fn leave<K: Kvs, M: AsRef<[Member]>>(jobs: &mut impl Slots<Job<K, M>>, id: JobId) {
    while let Some(other) = jobs.get(id.0 as usize).and_then(|job| job.links.first().copied()) {
        disconnect(jobs, id, other);
    }
}

/// True if two jobs may read each other's data.
pub(super) fn is_connected<K: Kvs, M: AsRef<[Member]>>(
    jobs: &impl Slots<Job<K, M>>,
    one: JobId,
    other: JobId,
) -> bool {
    connected_set(jobs, one).is_some_and(|own| Some(own) == connected_set(jobs, other))
}

/// The job with this name.
pub(super) fn find_named<K: Kvs, M: AsRef<[Member]>>(
    jobs: &impl Slots<Job<K, M>>,
    is_name: impl Fn(&[u8]) -> bool,
) -> Option<JobId> {
    let ids = (0..u32::try_from(jobs.end()).unwrap_or(u32::MAX)).map(JobId);
    let name = |id: &JobId| jobs.get(id.0 as usize).map(|job| job.name().as_bytes());
    { ids }.find(|id| name(id).is_some_and(&is_name))
}

fn is_linked<K: Kvs, M: AsRef<[Member]>>(
    jobs: &impl Slots<Job<K, M>>,
    one: JobId,
    other: JobId,
) -> bool {
    jobs.get(one.0 as usize).is_some_and(|job| job.links.contains(&other))
}

fn connected_set<K: Kvs, M: AsRef<[Member]>>(
    jobs: &impl Slots<Job<K, M>>,
    id: JobId,
) -> Option<JobId> {
    jobs.get(id.0 as usize)?.connected_set
}

/// Merges two sets of connected jobs.
fn merge<K: Kvs, M: AsRef<[Member]>>(jobs: &mut impl Slots<Job<K, M>>, one: JobId, other: JobId) {
    let (into, from) = (connected_set(jobs, one), connected_set(jobs, other));
    for at in 0..jobs.end() {
        if let Some(job) = jobs.get_mut(at).filter(|job| job.connected_set == from) {
            job.connected_set = into;
        }
    }
}

/// Recomputes the sets of connected jobs that remain of one.
fn split<K: Kvs, M: AsRef<[Member]>>(jobs: &mut impl Slots<Job<K, M>>, id: JobId) {
    let old = connected_set(jobs, id);
    for at in 0..jobs.end() {
        let found = jobs.get_mut(at).filter(|job| job.connected_set == old);
        if let (Ok(own), Some(job)) = (u32::try_from(at), found) {
            job.connected_set = Some(JobId(own));
        }
    }
    for at in 0..jobs.end() {
        let mut next = 0;
        while let Some(link) = jobs.get(at).and_then(|job| job.links.get(next).copied()) {
            if let Ok(own) = u32::try_from(at) {
                merge(jobs, JobId(own), link);
            }
            next += 1;
        }
    }
}
