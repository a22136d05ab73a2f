//! Published data of a job on several nodes, which one server holds: that of the head.

use super::forward::ForwardedRequest;
use super::publish::{EndedPublisher, NamesRequester};
use super::rank_data::numbered_format;
use super::server::{PmixServer, PmixServerRef};
use super::session::PmixResponse;
use super::shared_bytes::{copy_bytes, pack};
use super::tables::PmixStorage;
use crate::error::Misuse;
use crate::ids::{JobId, SessionId};
use crate::server::Storage;
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::{Format, Request, Type, Unpacker};

/// Reply to a request about published data.
#[derive(Clone, Debug)]
pub enum NamesReply<B> {
    /// Body of the answer; `None` without memory for it.
    Answer(Option<B>),
    /// Too little is published for a lookup that waits: repeat the request after the next publication.
    Wait {
        /// The time that the client waits, if it is limited.
        seconds: Option<u64>,
    },
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'_, P, S> {
    /// True if processes of the job have published data that is still held.
    pub fn has_published(self, job: JobId) -> bool {
        self.view.published().any(|(_, own)| own.owner.job == job)
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// At the head: executes a request of a process of the node with this number about published data.
    pub fn serve_names(
        &mut self,
        request: ForwardedRequest<'_>,
        node: u32,
    ) -> NamesReply<P::Bytes> {
        let ForwardedRequest { peer, format, body } = request;
        let format = numbered_format(format).unwrap_or(Format::PLAIN);
        let requester = NamesRequester { peer, format, node: Some(node) };
        let response = match Request::read(Unpacker::new(body, format)) {
            Ok(Request::Publish { infos, .. }) => {
                let status = self.context.publish(requester, &infos);
                // Tools are clients of the head itself.
                self.answer_lookups();
                PmixResponse::Status(status)
            }
            Ok(Request::Unpublish(target)) => {
                PmixResponse::Status(self.context.unpublish(peer, &target))
            }
            Ok(Request::Lookup(target)) => match self.context.find_published(requester, &target) {
                Some(response) => response,
                None => {
                    let timeout = target.infos.find(keys::TIMEOUT);
                    let seconds = timeout.and_then(|value| value.number());
                    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
                    return NamesReply::Wait { seconds: seconds.filter(|seconds| *seconds > 0) };
                }
            },
            _ => PmixResponse::Status(Status::BAD_PARAM),
        };
        NamesReply::Answer(match response {
            PmixResponse::Body(body) => Some(body),
            PmixResponse::Status(status) => pack(format, |to| {
                to.one(Type::STATUS).i32(status.0);
            }),
            _ => None,
        })
    }

    /// At the head: removes published data that does not outlive what has ended.
    pub fn names_owner_gone(&mut self, ended: EndedPublisher) {
        self.context.remove_published(ended);
    }

    /// Answers a [`HostRequest`](crate::server::Event::HostRequest) with a body that another server has made;
    /// an empty one stands for the lack of memory there.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the session does not wait for this answer, or not any more.
    pub fn answer_with(
        &mut self,
        id: SessionId,
        pending: usize,
        body: &[u8],
    ) -> Result<(), Misuse> {
        let missing = Misuse::NoSuch { what: "request" };
        let state = self.sessions.state(id).ok_or(missing)?;
        let place = state.host_request(pending).ok_or(missing)?;
        let body = if body.is_empty() { None } else { copy_bytes(body) };
        self.sessions.resolve(id, place, PmixResponse::body(body));
        Ok(())
    }
}
