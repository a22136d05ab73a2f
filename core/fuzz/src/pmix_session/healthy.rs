//! The two healthy clients, which must get their replies regardless of the others.

use super::memory::Inbox;
use super::world::World;
use pmi_core::client::pmix::{
    Datum, PmixBuffers, PmixClient, PmixClientEvent, PmixRequest, ProcIdentity, Scope,
};
use pmi_core::ids::{KvsName, SessionId};
use pmi_core::machine::Machine;
use pmi_core::time::Instant;
use pmi_core::wire::pmix::greeting::Credential;
use pmi_core::wire::pmix::names::Status;
use pmi_core::wire::pmix::{Family, Format, Proc};

/// One healthy client.
pub(super) struct Healthy {
    pub(super) id: SessionId,
    client: PmixClient<Inbox>,
    /// Bytes that the server has not taken yet.
    said: Vec<u8>,
}

impl Healthy {
    pub(super) fn new(nspace: KvsName, rank: u32, id: SessionId) -> Self {
        let (family, is_described) = [(Family::Flex, false), (Family::Fixed, true)][rank as usize];
        let format = Format { family, is_described };
        let credential = Some(Credential { user: 1, group: 1 });
        let lent = Inbox::new;
        let memory = PmixBuffers { request: lent(), response: lent(), puts: lent(), job: lent() };
        let identity = ProcIdentity { nspace, rank, credential, format };
        Self { id, client: PmixClient::new(identity, memory), said: Vec::new() }
    }
}

impl World {
    /// Performs requests of both clients, and checks the replies.
    pub(super) fn check_healthy(&mut self) {
        self.check_rest();
        if self.round == 0 {
            self.ask(&[&PmixRequest::Init, &PmixRequest::Init], &[]);
        }
        let key = format!("key-{}", self.round % 3);
        let value = |rank: usize| format!("{rank} in {}", self.round);
        let values = [value(0), value(1)];
        for (healthy, value) in self.healthy.iter_mut().zip(&values) {
            let text = Datum::Text(value.as_bytes());
            healthy.client.put(Scope::Global, key.as_bytes(), text).expect("room for a value");
        }
        self.ask(&[&PmixRequest::Commit, &PmixRequest::Commit], &[]);
        let fence = PmixRequest::Fence { procs: &[], collect: true, timeout_s: None };
        self.ask(&[&fence, &fence], &[]);
        let get = |rank| PmixRequest::Get {
            of: Proc { nspace: b"", rank },
            key: Some(key.as_bytes()),
            immediate: false,
            timeout_s: None,
        };
        self.ask(&[&get(1), &get(0)], &[(&key, &values[1]), (&key, &values[0])]);
        self.round += 1;
    }

    /// Performs requests of both clients; they must succeed, and reads must return these values.
    fn ask(&mut self, requests: &[&PmixRequest<'_>], expected: &[(&String, &String)]) {
        for (healthy, request) in self.healthy.iter_mut().zip(requests) {
            healthy.client.start(request).expect("nothing else is asked");
        }
        // One after the other, and once more for the data that the first waits for.
        for _ in 0..3 {
            for at in 0..self.healthy.len() {
                self.serve_healthy(at);
            }
            self.settle();
        }
        for (at, healthy) in self.healthy.iter_mut().enumerate() {
            let Some(PmixClientEvent::Reply { status, answer, .. }) = healthy.client.poll_event()
            else {
                panic!("rank {at} of the healthy ones has no answer")
            };
            assert_eq!(status, Status::SUCCESS, "for rank {at} of the healthy ones");
            if let Some((key, value)) = expected.get(at) {
                let object = answer.objects().next().expect("the process and its values");
                let found = object.kvals.find(key.as_bytes()).expect("what was committed");
                assert_eq!(found.text(), Some(value.as_bytes()));
            }
        }
    }

    /// Moves the bytes of one client, as long as any move.
    pub(super) fn serve_healthy(&mut self, at: usize) {
        let now = self.now;
        loop {
            let Healthy { id, client, said } = &mut self.healthy[at];
            let mut out = [0; 2048];
            while let Some(len) = client.poll_transmit(&mut out).expect("room for a request") {
                said.extend(&out[..len]);
            }
            let mut connection = self.server.session(*id).expect("a healthy one stays");
            let taken = connection.handle_input(now, said).expect("a healthy one is received");
            said.drain(..taken);
            let mut has_moved = taken > 0;
            let mut piece = [0; 37];
            while let Some(len) = connection.poll_transmit(&mut piece).expect("any room will do") {
                let received = client.handle_input(Instant::ZERO, &piece[..len]);
                assert_eq!(received, Ok(len), "a healthy one understands");
                has_moved = true;
            }
            self.hear_owner();
            if !has_moved {
                return;
            }
        }
    }
}
