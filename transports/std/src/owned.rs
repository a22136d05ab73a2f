//! The calls whose results are owned, for every driver of this crate.

use pmi_core::command::{Answer, ProcessCodes, Reply, Text};
use pmi_core::error::Code;
use pmi_link::SpawnError;
use pmi_link::calls::{NumbersReply, ReadReply, ReplyError, ReplyResult};

/// Values of the neighbours in a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// The place of this rank, from 0.
    pub place: u32,
    /// The value that the previous rank gave to its right.
    pub left: Vec<u8>,
    /// The value that the next rank gave to its left.
    pub right: Vec<u8>,
}

/// The job that a spawn has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spawned {
    /// Its id; some servers do not report it.
    pub job: Option<Vec<u8>>,
    /// One code for each process; none at all means success for all.
    pub codes: Vec<Code>,
}

/// A key and its value.
pub type OwnedPair = (Vec<u8>, Vec<u8>);

/// Returns a value; `None` if there is none.
pub(crate) struct OwnedValue;

/// Returns a list of numbers; `None` if there is none.
pub(crate) struct OwnedNumbers;

/// Returns the neighbours' values.
pub(crate) struct OwnedRing;

/// Collects pairs.
#[derive(Default)]
pub(crate) struct OwnedPairs(Vec<OwnedPair>);

/// Returns the spawned job, or the codes of a refusal.
pub(crate) struct OwnedSpawn;

impl Spawned {
    pub(crate) fn new(spawned: pmi_link::calls::Spawned<'_>) -> Self {
        Self { job: spawned.job.map(<[u8]>::to_vec), codes: spawned.codes().collect() }
    }
}

impl ReadReply for OwnedValue {
    type Output = Option<Vec<u8>>;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<Self::Output> {
        match reply.answer {
            Answer::Value(text) if reply.code.is_success() => Ok(Some(owned(text))),
            _ => Ok(None),
        }
    }
}

impl ReadReply for OwnedNumbers {
    type Output = Option<Vec<i32>>;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<Self::Output> {
        let Some(len) = NumbersReply(&mut []).on_reply(reply)? else { return Ok(None) };
        let mut numbers = vec![0; len];
        NumbersReply(&mut numbers).on_reply(reply)?;
        Ok(Some(numbers))
    }
}

impl ReadReply for OwnedRing {
    type Output = Neighbours;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<Neighbours> {
        match reply.answer {
            Answer::Ring { count, left, right } if reply.code.is_success() => {
                Ok(Neighbours { place: count, left: owned(left), right: owned(right) })
            }
            _ => Err(ReplyError::refused(reply)),
        }
    }
}

impl ReadReply for OwnedPairs {
    type Output = Vec<OwnedPair>;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<Self::Output> {
        match reply.answer {
            Answer::Count(_) => Ok(Vec::new()),
            Answer::Pair(pair) => {
                self.0.push((owned(pair.key), owned(pair.value)));
                Ok(Vec::new())
            }
            _ if reply.code.is_success() => Ok(std::mem::take(&mut self.0)),
            _ => Err(ReplyError::refused(reply)),
        }
    }
}

impl ReadReply for OwnedSpawn {
    type Output = Result<Spawned, (Code, Vec<Code>)>;

    fn on_reply(&mut self, reply: &Reply<'_>) -> ReplyResult<Self::Output> {
        let (job, codes) = match reply.answer {
            Answer::Spawned { job, codes } => (job.map(owned), codes.map_or(Vec::new(), codes_of)),
            _ if reply.code.is_success() => return Err(ReplyError::refused(reply)),
            _ => (None, Vec::new()),
        };
        Ok(if reply.code.is_success() {
            Ok(Spawned { job, codes })
        } else {
            Err((reply.code, codes))
        })
    }
}

/// The error of a spawn that the server has refused.
pub(crate) fn refused_spawn<E>((code, codes): (Code, Vec<Code>)) -> SpawnError<Vec<Code>, E> {
    SpawnError::Refused { code, codes }
}

pub(crate) fn owned(text: Text<'_>) -> Vec<u8> {
    // At once, where no byte of it is doubled.
    text.as_plain().map_or_else(|| text.bytes().collect(), <[u8]>::to_vec)
}

/// Comma-separated codes; an empty text is an empty list.
fn codes_of(codes: ProcessCodes<'_>) -> Vec<Code> {
    let list: Vec<u8> = codes.bytes().collect();
    let pieces = list.split(|b| *b == b',').filter(|_| !list.is_empty());
    pieces
        .map(|piece| {
            let number = Text::plain(piece.trim_ascii()).signed();
            number.and_then(|n| i32::try_from(n).ok()).map_or(Code::FAIL, Code)
        })
        .collect()
}

/// Writes the calls whose results are owned as methods of a driver. Parameter: the type of `self`.
macro_rules! owned_calls {
    ([$receiver:ty]) => {
        /// Opens the session; returns the negotiated version, and the id of the job that has spawned this
        /// one.
        ///
        /// Wire: `cmd=init pmi_version=M pmi_subversion=N\n`; then, in PMI-2,
        /// `cmd=fullinit;pmijobid=J;pmirank=R;`, with `authtype` if there is a prover,
        /// and after a challenge `cmd=auth-response-complete;authinfo=PROOF;`.
        /// Spec: PMI-1.1, `init`; PMI-2 wire protocol, FULLINIT and "Authentication".
        ///
        /// # Errors
        ///
        /// [`CallError::Peer`] without a common version or if the server refuses.
        pub fn open(
            self: $receiver,
            opening: &Opening<'_>,
        ) -> CallResult<(Version, Option<Vec<u8>>)> {
            let mut spawner = None;
            let on_spawner = &mut |name: Text<'_>| spawner = Some(name.bytes().collect());
            let version = self.handshake(opening, on_spawner)?;
            Ok((version, spawner))
        }

        /// Requests the name of the job's space, unless it is known; needed once before [`put`](Self::put)
        /// and [`get`](Self::get).
        ///
        /// Wire: `cmd=get_my_kvsname\n`, `cmd=job-getid;`.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] by the server.
        pub fn kvsname(self: $receiver) -> CallResult<KvsName> {
            if let Some(name) = self.read_client(|client| client.kvsname().cloned()) {
                return Ok(name);
            }
            self.call(&Request::KvsName, NameReply)?;
            let name = self.read_client(|client| client.kvsname().cloned());
            name.ok_or(CallError::Peer(PeerError::LeftEarly))
        }

        /// Requests the id of the job, which is also the name of its space: [`kvsname`](Self::kvsname) by the
        /// name that PMI-2 gives it.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] by the server.
        pub fn job_id(self: $receiver) -> CallResult<KvsName> {
            self.kvsname()
        }

        /// Reads the value of `key`; `None` if there is no such key.
        ///
        /// Wire: `cmd=get kvsname=N key=K\n`, `cmd=kvs-get;jobid=N;srcid=-1;key=K;`. It never waits for
        /// a later put.
        /// Spec: PMI-1.1, `get`; PMI-2 wire protocol, KVSGET.
        ///
        /// # Errors
        ///
        /// [`CallError::Misuse`] for a key that does not fit.
        pub fn get(self: $receiver, key: &[u8]) -> CallResult<Option<Vec<u8>>> {
            self.call(&calls::get(Place::Job(None), key, false), OwnedValue)
        }

        /// Reads from the key-value space of a connected job; see [`get`](Self::get).
        ///
        /// # Errors
        ///
        /// As for [`get`](Self::get).
        pub fn get_from(self: $receiver, job: &[u8], key: &[u8]) -> CallResult<Option<Vec<u8>>> {
            let place = Place::Job(Some(Text::plain(job)));
            self.call(&calls::get(place, key, false), OwnedValue)
        }

        /// Reads an attribute of this node; with `wait` once some rank has put it.
        ///
        /// Wire: `cmd=info-getnodeattr;key=K;wait=TRUE;`.
        ///
        /// # Errors
        ///
        /// As for [`get`](Self::get); [`CallError::Misuse`] in PMI-1.
        pub fn get_node(self: $receiver, key: &[u8], wait: bool) -> CallResult<Option<Vec<u8>>> {
            self.call(&calls::get(Place::Node, key, wait), OwnedValue)
        }

        /// Reads an attribute of this node that is a list of numbers.
        ///
        /// # Errors
        ///
        /// [`CallError::Unreadable`] if the value is no such list; [`CallError::Misuse`] in PMI-1.
        pub fn node_numbers(
            self: $receiver,
            key: &[u8],
            wait: bool,
        ) -> CallResult<Option<Vec<i32>>> {
            self.call(&calls::get(Place::Node, key, wait), OwnedNumbers)
        }

        /// Reads an attribute that the process manager sets for the job; `None` if there is none.
        ///
        /// Wire: `cmd=info-getjobattr;key=K;`. In PMI-1, where a manager stores it in the key-value
        /// space of the job, it is [`get`](Self::get).
        /// Spec: PMI-2 wire protocol, GETJOBATTR.
        ///
        /// # Errors
        ///
        /// As for [`get`](Self::get).
        pub fn job_attribute(self: $receiver, key: &[u8]) -> CallResult<Option<Vec<u8>>> {
            self.call(&calls::get(calls::attributes(self.has_frames()), key, false), OwnedValue)
        }

        /// Reads an attribute of the job that is a list of numbers, `1,2,3`.
        ///
        /// # Errors
        ///
        /// [`CallError::Unreadable`] if the value is no such list.
        pub fn job_numbers(self: $receiver, key: &[u8]) -> CallResult<Option<Vec<i32>>> {
            self.call(&calls::get(calls::attributes(self.has_frames()), key, false), OwnedNumbers)
        }

        /// Reads the port of a service; `None` if there is no such service, or the server keeps none.
        ///
        /// Wire: `cmd=lookup_name service=S\n`, `cmd=name-lookup;name=S;infokeycount=0;`.
        ///
        /// # Errors
        ///
        /// [`CallError::Misuse`] for a name that does not fit.
        pub fn lookup(self: $receiver, service: &[u8]) -> CallResult<Option<Vec<u8>>> {
            self.call(&Request::Lookup { service: Text::plain(service) }, OwnedValue)
        }

        /// Waits for every rank of the job and exchanges values with both neighbours.
        ///
        /// Wire: `cmd=ring;ring-count=1;ring-left=L;ring-right=R;`. Slurm and this project's server
        /// answer it; hydra aborts the job.
        /// Shape: `left` is for the previous rank and `right` for the next.
        /// Spec: Slurm, `contribs/pmi2`, `PMIX_Ring`.
        ///
        /// # Errors
        ///
        /// [`CallError::Misuse`] in PMI-1.
        pub fn ring(self: $receiver, left: &[u8], right: &[u8]) -> CallResult<Neighbours> {
            let request = Request::Ring { left: Text::plain(left), right: Text::plain(right) };
            self.call(&request, OwnedRing)
        }

        /// Reads the whole space of a job.
        ///
        /// Wire: `cmd=kvs-getall;jobid=J;`. No known server but this project's answers it.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] if there is no such job, or it is not connected;
        /// [`CallError::Misuse`] in PMI-1.
        pub fn get_all(self: $receiver, job: &[u8]) -> CallResult<Vec<OwnedPair>> {
            self.call(&Request::GetAll { job: Text::plain(job) }, OwnedPairs::default())
        }

        /// Opens the session of the process that `environment` describes, and requests limits and names as
        /// far as the version has requests for them.
        pub(crate) fn join(
            self: $receiver,
            environment: &Environment,
            version: Version,
            prover: Option<&dyn Prover>,
        ) -> CallResult<Membership> {
            let Environment { transport, rank, size, spawned, job, .. } = environment;
            if let (Transport::Tcp { id, .. }, 1) = (transport, version.major) {
                self.greet(*id)?;
            }
            let mut opening = Opening::new(version);
            opening.rank = Some(*rank);
            opening.job = job.as_deref().map(str::as_bytes);
            opening.prover = prover;
            self.open(&opening)?;
            self.maxes()?;
            self.kvsname()?;
            let identity = self.identity();
            Ok(Membership {
                rank: identity.map_or(*rank, |own| own.rank),
                size: identity.map_or(*size, |own| own.size),
                spawned: *spawned || self.read_client(|client| client.is_spawned()),
            })
        }
    };
}
pub(crate) use owned_calls;

/// Membership of a process in its job, as environment and server report it.
pub(crate) struct Membership {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) spawned: bool,
}
