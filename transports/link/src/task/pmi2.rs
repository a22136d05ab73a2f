//! The calls that PMI-2 has more.

use embedded_io_async::{Read, Write};
use pmi_core::command::{Answer, Pair, Place, Reply, Request, Text};
use pmi_core::error::Full;
use pmi_core::ids::KvsName;
use pmi_core::parts;
use pmi_core::storage::Buffer;

use super::reply::{ReplyError, copy, done, numbers, refused};
use super::{AsyncPmi, CallResult};
use crate::CallError;

/// Position of a rank in a ring, and how long its neighbours' values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Its place, from 0.
    pub place: u32,
    /// The length of what the rank before gave to its right.
    pub left_bytes: usize,
    /// The length of what the rank behind gave to its left.
    pub right_bytes: usize,
}

/// In PMI-1 each of these is [`CallError::Misuse`] unless stated otherwise; nothing is sent.
impl<IO: Read + Write, B: Buffer, const MESSAGE_BYTES: usize, const GENERATIONS: u16>
    AsyncPmi<IO, B, MESSAGE_BYTES, GENERATIONS>
{
    /// True if this build has attributes of nodes.
    const HAS_NODES: bool = (parts::PMI2 && GENERATIONS >= 2) || parts::BINARY;
    /// True if this build has requests beyond the keyspace of the job.
    const HAS_CONNECT: bool = parts::CONNECT && Self::HAS_NODES;

    /// Asks for the id of the job, which is also the name of its space.
    ///
    /// It is [`kvsname`](Self::kvsname) by the name that PMI-2 gives it, and serves both.
    pub async fn job_id(&mut self) -> CallResult<&KvsName, IO> {
        self.kvsname().await
    }

    /// Stores an attribute of this node, which all ranks on it see at once.
    ///
    /// Wire: `cmd=info-putnodeattr;key=K;value=V;`.
    /// Shape: as for [`put`](Self::put).
    ///
    /// # Errors
    ///
    /// As for [`put`](Self::put).
    pub async fn put_node(&mut self, key: &[u8], value: &[u8]) -> CallResult<(), IO> {
        const {
            assert!(
                Self::HAS_NODES,
                "`put_node` needs PMI-2 (not `Pmi1`, and the feature `pmi2` of pmi-core)"
            )
        }
        let (key, value) = (Text::plain(key), Text::plain(value));
        self.ask_done(&Request::Put { place: Place::Node, key, value }).await
    }

    /// Reads an attribute of this node; with `wait` once some rank has put it.
    ///
    /// Wire: `cmd=info-getnodeattr;key=K;wait=TRUE;`.
    /// Shape: as for [`get`](Self::get).
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get).
    pub async fn get_node(
        &mut self,
        key: &[u8],
        wait: bool,
        out: &mut [u8],
    ) -> CallResult<Option<usize>, IO> {
        const {
            assert!(
                Self::HAS_NODES,
                "`get_node` needs PMI-2 (not `Pmi1`, and the feature `pmi2` of pmi-core)"
            )
        }
        let key = Text::plain(key);
        self.ask_value(&Request::Get { place: Place::Node, key, wait }, out).await
    }

    /// Reads an attribute of this node that is a list of numbers, as
    /// [`job_numbers`](Self::job_numbers) does.
    pub async fn node_numbers(
        &mut self,
        key: &[u8],
        wait: bool,
        out: &mut [i32],
    ) -> CallResult<Option<usize>, IO> {
        const {
            assert!(
                Self::HAS_NODES,
                "`node_numbers` needs PMI-2 (not `Pmi1`, and the feature `pmi2` of pmi-core)"
            )
        }
        let key = Text::plain(key);
        self.call_numbers(&Request::Get { place: Place::Node, key, wait }, out).await
    }

    /// Reads an attribute that the process manager sets for the job; `None` if there is none.
    ///
    /// Wire: `cmd=info-getjobattr;key=K;`. In PMI-1, where a manager stores it in the key-value
    /// space of the job, it is [`get`](Self::get).
    /// Shape: as for [`get`](Self::get).
    /// Spec: PMI-2 wire protocol, GETJOBATTR.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get).
    pub async fn job_attribute(
        &mut self,
        key: &[u8],
        out: &mut [u8],
    ) -> CallResult<Option<usize>, IO> {
        let request = self.attribute(key);
        self.ask_value(&request, out).await
    }

    /// Reads an attribute of the job that is a list of numbers.
    ///
    /// Shape: `1,2,3`. As many as fit are written to `out`; the count is that of the whole list.
    ///
    /// # Errors
    ///
    /// [`CallError::Unreadable`] if the value is no such list.
    pub async fn job_numbers(
        &mut self,
        key: &[u8],
        out: &mut [i32],
    ) -> CallResult<Option<usize>, IO> {
        let request = self.attribute(key);
        self.call_numbers(&request, out).await
    }

    /// Connects this job with another: they may then read each other's space with
    /// [`get_from`](Self::get_from).
    ///
    /// Wire: `cmd=job-connect;jobid=J;`. No known server but ours answers it.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if there is no such job.
    pub async fn connect_job(&mut self, job: &[u8]) -> CallResult<(), IO> {
        const {
            assert!(
                Self::HAS_CONNECT,
                "`connect_job` needs PMI-2 (not `Pmi1`, and the feature `connect` of pmi-core)"
            )
        }
        self.ask_done(&Request::Connect { job: Text::plain(job) }).await
    }

    /// Takes a connection with another job back.
    ///
    /// Wire: `cmd=job-disconnect;jobid=J;`. No known server but ours answers it.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if there is no such connection.
    pub async fn disconnect_job(&mut self, job: &[u8]) -> CallResult<(), IO> {
        const {
            assert!(
                Self::HAS_CONNECT,
                "`disconnect_job` needs PMI-2 (not `Pmi1`, and the feature `connect` of pmi-core)"
            )
        }
        self.ask_done(&Request::Disconnect { job: Text::plain(job) }).await
    }

    /// Waits for every rank of the job and exchanges values with both neighbours.
    ///
    /// Wire: `cmd=ring;ring-count=1;ring-left=L;ring-right=R;`. Slurm and this server answer it;
    /// hydra ends the job.
    /// Shape: `left` is for the rank before and `right` for the rank after; their values are
    /// written into `out`, that of the rank before first.
    /// Spec: Slurm, `contribs/pmi2`, `PMIX_Ring`.
    ///
    /// # Errors
    ///
    /// [`CallError::Full`] with the longer length if one of `out` is too small.
    pub async fn ring(
        &mut self,
        left: &[u8],
        right: &[u8],
        out: [&mut [u8]; 2],
    ) -> CallResult<Ring, IO> {
        const {
            assert!(
                Self::HAS_CONNECT,
                "`ring` needs PMI-2 (not `Pmi1`, and the feature `connect` of pmi-core)"
            )
        }
        let request = Request::Ring { left: Text::plain(left), right: Text::plain(right) };
        let [left_out, right_out] = out;
        let mut result = Err(ReplyError::Unanswered);
        let read = &mut |reply: &Reply<'_>| {
            result = match reply.answer {
                Answer::Ring { count, left, right } if reply.code.is_success() => {
                    let copied = (copy(left, left_out), copy(right, right_out));
                    match copied {
                        (Ok(left_bytes), Ok(right_bytes)) => {
                            Ok(Ring { place: count, left_bytes, right_bytes })
                        }
                        _ => Err(ReplyError::Full(Full { needed: left.len().max(right.len()) })),
                    }
                }
                _ => Err(refused(reply)),
            };
        };
        self.call(&request, read).await?;
        Ok(result?)
    }

    /// Reads the whole space of a job, pair by pair, and gives their number.
    ///
    /// Wire: `cmd=kvs-getall;jobid=J;`. No known server but ours answers it.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if there is no such job, or it is not connected.
    pub async fn get_all(
        &mut self,
        job: &[u8],
        each: &mut (dyn FnMut(Pair<'_>) + Send),
    ) -> CallResult<usize, IO> {
        const {
            assert!(
                Self::HAS_CONNECT,
                "`get_all` needs PMI-2 (not `Pmi1`, and the feature `connect` of pmi-core)"
            )
        }
        let mut count = 0;
        let mut result = Err(ReplyError::Unanswered);
        let read = &mut |reply: &Reply<'_>| match reply.answer {
            Answer::Pair(pair) => {
                count += 1;
                each(pair);
            }
            _ => result = done(reply),
        };
        self.call(&Request::GetAll { job: Text::plain(job) }, read).await?;
        result?;
        Ok(count)
    }

    /// Copies pairs into the space of a job, where they are seen at once.
    ///
    /// Wire: `cmd=kvs-putall;jobid=J;npair=N;`, then `cmd=kvs-putall-pair;key=K;val=V;` for each.
    /// No known server but ours answers it.
    ///
    /// # Errors
    ///
    /// [`CallError::Misuse`] for a pair that does not fit, [`CallError::Refused`] with the
    /// server's first reason; nothing was sent, or the other pairs were stored.
    pub async fn put_all(&mut self, job: &[u8], pairs: &[Pair<'_>]) -> CallResult<(), IO> {
        const {
            assert!(
                Self::HAS_CONNECT,
                "`put_all` needs PMI-2 (not `Pmi1`, and the feature `connect` of pmi-core)"
            )
        }
        // All announced pairs must follow, so all are checked first.
        for pair in pairs {
            let needed = self.client.message_bytes(&put_pair(*pair))?;
            if needed > MESSAGE_BYTES {
                return Err(CallError::Full(Full { needed }));
            }
        }
        self.drain().await?;
        let count = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
        self.check_state()?;
        self.send(&Request::PutAll { job: Text::plain(job), pairs: count }).await?;
        for pair in pairs {
            self.send(&put_pair(*pair)).await?;
        }
        let mut result = Err(ReplyError::Unanswered);
        self.recv_reply(&mut |reply| result = done(reply)).await?;
        Ok(result?)
    }

    fn attribute<'k>(&self, key: &'k [u8]) -> Request<'k> {
        let place = if self.has_frames() { Place::Attributes } else { Place::Job(None) };
        Request::Get { place, key: Text::plain(key), wait: false }
    }

    async fn call_numbers(
        &mut self,
        request: &Request<'_>,
        out: &mut [i32],
    ) -> CallResult<Option<usize>, IO> {
        let mut result = Err(ReplyError::Unanswered);
        self.call(request, &mut |reply| result = numbers(reply, out)).await?;
        Ok(result?)
    }
}

const fn put_pair(Pair { key, value }: Pair<'_>) -> Request<'_> {
    Request::PutPair { key, value }
}
