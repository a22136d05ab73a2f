//! What a job needs others for: published names, connected jobs, and whole spaces.

use super::circle;
use super::job::Job;
use super::member::Member;
use super::owed::{Listing, Owed};
use crate::command::{Limited, Place, Reason, Text};
use crate::ids::{JobId, Key, Rank};
use crate::limits::{KEY_BYTES, VALUE_BYTES};
use crate::storage::Slots;
use crate::store::{Kvs, Shelf, Stamp};

pub(super) fn publish<K: Kvs>(
    names: &mut K,
    service: Text<'_>,
    port: Text<'_>,
    (job, by): (JobId, Rank),
) -> Owed {
    let (mut service_room, mut port_room) = ([0; KEY_BYTES], [0; VALUE_BYTES]);
    let too_long = |what, len_bytes, limit_bytes| {
        Owed::refused(Reason::Length { what, key: b"", len_bytes, limit_bytes, rank: by.0 })
    };
    let lens = (service.len(), port.len());
    let Ok(service) = service.resolve(&mut service_room) else {
        return too_long(Limited::Service, lens.0, KEY_BYTES);
    };
    if Key::check(service).is_err() {
        return too_long(Limited::Service, lens.0, KEY_BYTES);
    }
    let port = match port.resolve(&mut port_room) {
        Ok(port) if port.len() <= VALUE_BYTES => port,
        _ => return too_long(Limited::Port, lens.1, VALUE_BYTES),
    };
    if names.find(Shelf::Names, service).is_some() {
        return Owed::refused(Reason::Exists { what: "service" });
    }
    // The epoch of a name is the job that published it, so that it can go with its job.
    match names.put(Shelf::Names, service, port, Stamp { by, epoch: job.0 }) {
        Ok(_) => Owed::Done,
        Err(_) => Owed::refused(Reason::NoRoom { what: "names" }),
    }
}

pub(super) fn unpublish<K: Kvs>(names: &mut K, service: Text<'_>) -> Owed {
    match look_up(names, service) {
        Owed::Port(id) => {
            names.remove(id);
            Owed::Done
        }
        refused => refused,
    }
}

pub(super) fn look_up<K: Kvs>(names: &K, service: Text<'_>) -> Owed {
    let mut room = [0; KEY_BYTES];
    let found = service.resolve(&mut room).ok().and_then(|name| names.find(Shelf::Names, name));
    found.map_or(Owed::refused(Reason::NoSuch { what: "service" }), Owed::Port)
}

pub(super) fn connect<K: Kvs, M: AsRef<[Member]>>(
    jobs: &mut impl Slots<Job<K, M>>,
    own: JobId,
    name: Text<'_>,
    join: bool,
) -> Owed {
    let Some(other) = circle::named(jobs, |job| name == *job) else {
        return Owed::refused(Reason::NoSuch { what: "job" });
    };
    let done =
        if join { circle::connect(jobs, own, other) } else { circle::disconnect(jobs, own, other) };
    match (done, join) {
        (true, _) => Owed::Done,
        (false, true) => Owed::refused(Reason::NoRoom { what: "connected jobs" }),
        (false, false) => Owed::refused(Reason::NoSuch { what: "connection" }),
    }
}

/// Reads a key of another job, which only connected jobs may; what the other's last fence shows.
pub(super) fn get_foreign<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>>(
    jobs: &impl Slots<Job<K, M>>,
    own: JobId,
    name: Text<'_>,
    key: Text<'_>,
) -> Owed {
    let mut room = [0; KEY_BYTES];
    let found = circle::named(jobs, |job| name == *job)
        .filter(|other| circle::is_connected(jobs, own, *other))
        .and_then(|other| {
            let key = key.resolve(&mut room).ok()?;
            // A rank that no job has sees what everybody sees.
            let job = jobs.get(other.0 as usize)?;
            Some(Owed::Foreign(other, job.look_up(Stamp::MANAGER.by, Place::Job(None), key)?))
        });
    found.unwrap_or(Owed::Missing)
}

/// Begins to list the space of a job, own or connected.
pub(super) fn get_all<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>>(
    jobs: &impl Slots<Job<K, M>>,
    (own, rank): (JobId, Rank),
    name: Text<'_>,
) -> Owed {
    let Some(id) = reachable(jobs, own, name) else {
        return Owed::refused(Reason::NoSuch { what: "connected job" });
    };
    let Some(job) = jobs.get(id.0 as usize) else {
        return Owed::refused(Reason::NoSuch { what: "job" });
    };
    let rank = if id == own { rank } else { Stamp::MANAGER.by };
    let fences = job.fence().generation();
    let mut left = 0;
    let mut last = job.next_pair(None, rank, fences);
    while last.is_some() {
        left += 1;
        last = job.next_pair(last, rank, fences);
    }
    Owed::All(Listing { job: id, rank, fences, left, is_announced: false, last: None })
}

/// The job of this name, if it is the own one or connected; the own one if no name is given.
pub(super) fn reachable<K: Kvs, M: AsRef<[Member]>>(
    jobs: &impl Slots<Job<K, M>>,
    own: JobId,
    name: Text<'_>,
) -> Option<JobId> {
    if name.is_empty() {
        return Some(own);
    }
    let id = circle::named(jobs, |job| name == *job)?;
    (id == own || circle::is_connected(jobs, own, id)).then_some(id)
}
