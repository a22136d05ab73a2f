//! The server over the storage of the test kit: one line per rank and step.

mod nodes;
mod pmi1;
mod pmi2;
#[cfg(feature = "pmix")]
mod pmix;
mod pooled;
mod waits;

use std::string::String;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::ids::{Excerpt, Word};
use crate::limits::MESSAGE_BYTES;
use crate::store::Kvs;
use crate::testkit::server::TestServer;
use crate::testkit::server::{Inbox, JOB_NAME, NOW, Vectors, job_spec, members};

#[test]
fn being_connected_reaches_through_others_and_ends_with_the_connection() {
    let mut world = TestServer::without_sessions(1);
    let [b, c, d] = ["b", "c", "d"].map(|name| world.add_job(job_spec(name), Vec::new()));
    let a = world.job;
    let jobs = &mut world.server.shared.jobs;
    for (one, other) in [(a, b), (c, d), (b, c), (b, b), (a, b)] {
        assert!(connected_jobs::connect(jobs, one, other));
    }
    assert!(connected_jobs::is_connected(jobs, a, d));
    assert!(connected_jobs::disconnect(jobs, c, b));
    assert!(!connected_jobs::disconnect(jobs, c, b));
    assert!(connected_jobs::is_connected(jobs, a, b) && connected_jobs::is_connected(jobs, c, d));
    assert!(!connected_jobs::is_connected(jobs, a, d) && !connected_jobs::is_connected(jobs, b, c));
    connected_jobs::leave(jobs, d);
    assert!(!connected_jobs::is_connected(jobs, c, d));
}
