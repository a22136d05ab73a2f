//! Services across jobs: published names, connected jobs, and whole keyspaces.

use super::connected_jobs;
use super::job::Job;
use super::member::Member;
use super::response::{KvsListing, Response};
use crate::command::{LimitedField, Pair, Place, Reason, Spawn, Text};
use crate::ids::{JobId, Key, ProcId, Rank, check_service};
use crate::limits::{KEY_BYTES, SERVICE_BYTES, VALUE_BYTES};
use crate::storage::Slots;
use crate::store::{Keyspace, Kvs, Visibility};

pub(super) fn publish<K: Kvs>(
    names: &mut K,
    service: Text<'_>,
    port: Text<'_>,
    owner: ProcId,
) -> Response {
    if let Some(refused) = check_publish(service, port, owner.rank) {
        return refused;
    }
    let (mut service_room, mut port_room) = ([0; SERVICE_BYTES], [0; VALUE_BYTES]);
    let service = service.resolve(&mut service_room).unwrap_or(b"");
    let port = port.resolve(&mut port_room).unwrap_or(b"");
    if names.find(Keyspace::Names, service).is_some() {
        return Response::refused(Reason::Exists { what: "service" });
    }
    match names.put(Keyspace::Names, service, port, Visibility::Published(owner)) {
        Ok(_) => Response::Done,
        Err(_) => Response::refused(Reason::NoRoom { what: "names" }),
    }
}

/// Refusal of a name that is none, and of a name or a port that is too long. The reason quotes the name.
pub(super) fn check_publish(service: Text<'_>, port: Text<'_>, by: Rank) -> Option<Response> {
    let mut room = [0; SERVICE_BYTES];
    let (what, len_bytes, limit_bytes) = match (service.len(), port.len()) {
        (len, _) if len > SERVICE_BYTES => (LimitedField::Service, len, SERVICE_BYTES),
        (_, len) if len > VALUE_BYTES => (LimitedField::Port, len, VALUE_BYTES),
        _ if service.resolve(&mut room).is_ok_and(|service| check_service(service).is_ok()) => {
            return None;
        }
        _ => return Some(Response::refused(Reason::Lacking { field: "service" })),
    };
    let reason = Reason::Length { what, key: b"", len_bytes, limit_bytes, rank: by.0 };
    Some(refused_about(&reason, service))
}

/// Refusal of the pairs that a spawn puts before the start: they are limited as other pairs are.
pub(super) fn check_preputs(spawn: Spawn<'_>, by: Rank) -> Option<Response> {
    for Pair { key, value } in spawn.preputs() {
        let mut room = [0; KEY_BYTES];
        let (what, len_bytes, limit_bytes) = match (key.len(), value.len()) {
            (len, _) if len > KEY_BYTES => (LimitedField::Key, len, KEY_BYTES),
            (_, len) if len > VALUE_BYTES => (LimitedField::Value, len, VALUE_BYTES),
            _ if key.resolve(&mut room).is_ok_and(|key| Key::check(key).is_ok()) => continue,
            _ => return Some(Response::refused(Reason::Lacking { field: "key" })),
        };
        let reason = Reason::Length { what, key: b"", len_bytes, limit_bytes, rank: by.0 };
        return Some(refused_about(&reason, key));
    }
    None
}

/// Refusal that quotes the name which it is about, if that is plain.
fn refused_about(reason: &Reason<'static>, about: Text<'_>) -> Response {
    let mut refused = Response::Done;
    refused.refuse_about(reason, about.as_plain().unwrap_or(b""));
    refused
}

pub(super) fn unpublish<K: Kvs>(names: &mut K, service: Text<'_>) -> Response {
    match look_up(names, service) {
        Response::Port(id) => {
            names.remove(id);
            Response::Done
        }
        refused => refused,
    }
}

pub(super) fn look_up<K: Kvs>(names: &K, service: Text<'_>) -> Response {
    let mut room = [0; SERVICE_BYTES];
    let found = service.resolve(&mut room).ok().and_then(|name| names.find(Keyspace::Names, name));
    found.map_or(Response::refused(Reason::NoSuch { what: "service" }), Response::Port)
}

pub(super) fn connect<K: Kvs, M: AsRef<[Member]>>(
    jobs: &mut impl Slots<Job<K, M>>,
    own: JobId,
    name: Text<'_>,
    join: bool,
) -> Response {
    let Some(other) = connected_jobs::find_named(jobs, |job| name == *job) else {
        return Response::refused(Reason::NoSuch { what: "job" });
    };
    let is_over_nodes = |id: JobId| jobs.get(id.0 as usize).is_some_and(Job::has_remote);
    if is_over_nodes(own) || is_over_nodes(other) {
        return Response::refused(OVER_NODES);
    }
    let done = if join {
        connected_jobs::connect(jobs, own, other)
    } else {
        connected_jobs::disconnect(jobs, own, other)
    };
    match (done, join) {
        (true, _) => Response::Done,
        (false, true) => Response::refused(Reason::NoRoom { what: "connected jobs" }),
        (false, false) => Response::refused(Reason::NoSuch { what: "connection" }),
    }
}

/// Reads a key of a connected job, as of the last fence of that job.
pub(super) fn get_foreign<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>>(
    jobs: &impl Slots<Job<K, M>>,
    own: JobId,
    name: Text<'_>,
    key: Text<'_>,
) -> Response {
    let mut room = [0; KEY_BYTES];
    let found = connected_jobs::find_named(jobs, |job| name == *job)
        .filter(|other| connected_jobs::is_connected(jobs, own, *other))
        .and_then(|other| {
            let key = key.resolve(&mut room).ok()?;
            let job = jobs.get(other.0 as usize)?;
            Some(Response::Foreign(other, job.look_up(None, Place::Job(None), key)?))
        });
    found.unwrap_or(Response::Missing)
}

/// Starts a listing of the key-value space of a job, own or connected.
pub(super) fn get_all<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>>(
    jobs: &impl Slots<Job<K, M>>,
    ProcId { job: own, rank }: ProcId,
    name: Text<'_>,
) -> Response {
    let Some(id) = reachable(jobs, own, name) else {
        return Response::refused(Reason::NoSuch { what: "connected job" });
    };
    let Some(job) = jobs.get(id.0 as usize) else {
        return Response::refused(Reason::NoSuch { what: "job" });
    };
    let reader = (id == own).then_some(rank);
    let fences = job.fence().generation();
    let mut left = 0;
    let mut last = job.next_pair(None, reader, fences);
    while last.is_some() {
        left += 1;
        last = job.next_pair(last, reader, fences);
    }
    Response::All(KvsListing { job: id, reader, fences, left, count_sent: false, last: None })
}

/// The job of this name, if it is the own or a connected one; the own job without a name.
pub(super) fn reachable<K: Kvs, M: AsRef<[Member]>>(
    jobs: &impl Slots<Job<K, M>>,
    own: JobId,
    name: Text<'_>,
) -> Option<JobId> {
    if name.is_empty() {
        return Some(own);
    }
    let id = connected_jobs::find_named(jobs, |job| name == *job)?;
    (id == own || connected_jobs::is_connected(jobs, own, id)).then_some(id)
}

/// Refusal of a connection with a job whose ranks are on several nodes.
const OVER_NODES: Reason<'static> =
    Reason::NotOffered { what: "a connection of jobs over several nodes" };
