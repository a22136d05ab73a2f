//! Put of several pairs at once (PMI-2): an announcement, and a message for each pair.
//!
//! In a job on several nodes the pairs go to the owner, for all nodes; see
//! [`job_changes`](super::job_changes).

use super::Event;
use super::job::Job;
use super::job_changes::refusal_of_pair;
use super::member::Member;
use super::outcome::Wake;
use super::pmi_session::{PmiSessionState, PutAllState};
use super::response::{PendingReply, RequestHeader, Response};
use super::services::reachable;
use super::state::Context;
use crate::command::{Reason, Text};
use crate::parts::{self, PartOption};
use crate::storage::Slots;
use crate::store::Kvs;

impl<X: Slots<PendingReply>> PmiSessionState<X> {
    /// Starts a put of several pairs, which is answered after the last one.
    pub(super) fn start_put_all<K: Kvs, M: AsRef<[Member]>>(
        &mut self,
        jobs: &impl Slots<Job<K, M>>,
        header: RequestHeader,
        name: Text<'_>,
        pairs: u32,
    ) -> Wake {
        // An unreachable job is reported after the last pair, like every other refusal.
        let (job, response) = match reachable(jobs, self.protocol.job, name) {
            Some(job) => (job, Response::Done),
            None => {
                (self.protocol.job, Response::refused(Reason::NoSuch { what: "connected job" }))
            }
        };
        if pairs == 0 {
            self.push_request(PendingReply { header, response });
        } else {
            let state = PutAllState { header, job, left: pairs, is_handed_up: false, response };
            self.protocol.put_all = PartOption::keep(Some(state));
        }
        Wake::None
    }

    /// Puts one of the announced pairs, whose message has `len` bytes.
    pub(super) fn put_pair<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>, J: Slots<Job<K, M>>>(
        &mut self,
        context: &mut Context<'_, J, K>,
        header: RequestHeader,
        (key, value): (Text<'_>, Text<'_>),
        len: usize,
    ) -> Wake {
        let Some(mut announced) = self.protocol.put_all.take() else {
            let response = Response::refused(Reason::OutOfOrder { expected: "kvs-putall" });
            self.push_request(PendingReply { header, response });
            return Wake::None;
        };
        announced.left = announced.left.saturating_sub(1);
        // The first refusal holds, and nothing is stored after it.
        if announced.response == Response::Done {
            match context.jobs.get_mut(announced.job.0 as usize) {
                Some(job) if parts::NODES && job.is_over_nodes() => {
                    match refusal_of_pair(key, value) {
                        Some(refused) => announced.response = refused,
                        None => {
                            self.hand_up_pair(context, announced, len);
                            return Wake::None;
                        }
                    }
                }
                Some(job) => announced.response = job.put_visible(key, value),
                None => {
                    announced.response = Response::refused(Reason::NoSuch { what: "job" });
                }
            }
        }
        if announced.left == 0 {
            self.push_request(PendingReply {
                header: announced.header,
                response: announced.response,
            });
        } else {
            self.protocol.put_all = PartOption::keep(Some(announced));
        }
        Wake::None
    }

    /// Leaves a pair to the owner. The message stays in the inbox until the owner has read it.
    fn hand_up_pair<J, K>(
        &mut self,
        context: &mut Context<'_, J, K>,
        mut announced: PutAllState,
        len: usize,
    ) {
        let is_first = !core::mem::replace(&mut announced.is_handed_up, true);
        let (session, job) = (context.id, announced.job);
        let exchange = if announced.left == 0 {
            *context.spawns = context.spawns.wrapping_add(1);
            let response = Response::Head(*context.spawns);
            self.push_request(PendingReply { header: announced.header, response });
            Some(*context.spawns as usize)
        } else {
            self.protocol.put_all = PartOption::keep(Some(announced));
            None
        };
        self.lifecycle.event = Some(Event::PairRequested { session, exchange, job, is_first });
        self.lifecycle.held_len = Some(len);
    }
}
