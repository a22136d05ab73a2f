//! The table of the calls whose results are in slices that the caller lends.

/// Writes the calls whose results are in slices of the caller, for a driver over a stream.
///
/// Parameters: as for [`client_calls!`](crate::client_calls).
macro_rules! lent_calls {
    ([$($async:ident)?] [$($await:ident)*] [$receiver:ty] $error:ty) => {
        /// Opens the session.
        ///
        /// Wire: `cmd=init pmi_version=M pmi_subversion=N\n`; then, in PMI-2,
        /// `cmd=fullinit;pmijobid=J;pmirank=R;threaded=FALSE;`, with `authtype` if there is a prover,
        /// and after a challenge `cmd=auth-response-complete;authinfo=PROOF;`.
        /// Shape: the id of the parent job is written into `spawner` if it fits; its length is returned
        /// in any case. [`identity`](Self::identity) has the rest.
        /// Spec: PMI-1.1, `init`; PMI-2 wire protocol, FULLINIT and "Authentication".
        ///
        /// # Errors
        ///
        /// [`CallError::Peer`] without a common version ([`PeerError::Version`]) or if the server
        /// refuses. To request an older version, take the stream [back](Self::into_inner) and open a
        /// new session.
        pub $($async)? fn open(
            self: $receiver,
            opening: &Opening<'_>,
            spawner: &mut [u8],
        ) -> Result<Opened, CallError<$error>> {
            let mut spawner_bytes = None;
            let on_spawner = &mut |name: Text<'_>| {
                spawner_bytes = Some(name.len());
                if let Some(out) = spawner.get_mut(..name.len()) {
                    out.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte);
                }
            };
            let version = self.handshake(opening, on_spawner)$(.$await)*?;
            Ok(Opened::new(version, spawner_bytes))
        }

        /// Requests the name of the job's space; needed once before [`put`](Self::put) and
        /// [`get`](Self::get).
        ///
        /// Wire: `cmd=get_my_kvsname\n`, `cmd=job-getid;`.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] by the server.
        pub $($async)? fn kvsname(self: $receiver) -> Result<&KvsName, CallError<$error>> {
            self.call(&Request::KvsName, NameReply)$(.$await)*?;
            self.client().kvsname().ok_or(CallError::Peer(PeerError::LeftEarly))
        }

        /// Requests the id of the job, which is also the name of its space.
        ///
        /// It is [`kvsname`](Self::kvsname) by the name that PMI-2 gives it, and serves both.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] by the server.
        pub $($async)? fn job_id(self: $receiver) -> Result<&KvsName, CallError<$error>> {
            self.kvsname()$(.$await)*
        }

        /// Reads the value of `key` into `out` and returns its length; `None` if there is no such key.
        ///
        /// Wire: `cmd=get kvsname=N key=K\n`, `cmd=kvs-get;jobid=N;srcid=-1;key=K;`. It never waits for
        /// a later put.
        /// Spec: PMI-1.1, `get`; PMI-2 wire protocol, KVSGET.
        ///
        /// # Errors
        ///
        /// [`CallError::Full`] with the length of the value if `out` is too small.
        pub $($async)? fn get(
            self: $receiver,
            key: &[u8],
            out: &mut [u8],
        ) -> Result<Option<usize>, CallError<$error>> {
            self.call(&calls::get(Place::Job(None), key, false), ValueReply(out))$(.$await)*
        }

        /// Reads from the key-value space of a connected job.
        ///
        /// Wire and shape: as for [`get`](Self::get), with the other name.
        ///
        /// # Errors
        ///
        /// As for [`get`](Self::get).
        pub $($async)? fn get_from(
            self: $receiver,
            job: &[u8],
            key: &[u8],
            out: &mut [u8],
        ) -> Result<Option<usize>, CallError<$error>> {
            let place = Place::Job(Some(Text::plain(job)));
            self.call(&calls::get(place, key, false), ValueReply(out))$(.$await)*
        }

        /// Reads an attribute of this node; with `wait` once some rank has put it.
        ///
        /// Wire: `cmd=info-getnodeattr;key=K;wait=TRUE;`.
        /// Shape: as for [`get`](Self::get).
        ///
        /// # Errors
        ///
        /// As for [`get`](Self::get); [`CallError::Misuse`] in PMI-1.
        pub $($async)? fn get_node(
            self: $receiver,
            key: &[u8],
            wait: bool,
            out: &mut [u8],
        ) -> Result<Option<usize>, CallError<$error>> {
            const {
                assert!(
                    Self::HAS_NODES,
                    "`get_node` needs PMI-2 (not `Pmi1`, and the feature `pmi2` of pmi-core)"
                )
            }
            self.call(&calls::get(Place::Node, key, wait), ValueReply(out))$(.$await)*
        }

        /// Reads an attribute of this node that is a list of numbers, as
        /// [`job_numbers`](Self::job_numbers) does.
        ///
        /// # Errors
        ///
        /// As for [`job_numbers`](Self::job_numbers); [`CallError::Misuse`] in PMI-1.
        pub $($async)? fn node_numbers(
            self: $receiver,
            key: &[u8],
            wait: bool,
            out: &mut [i32],
        ) -> Result<Option<usize>, CallError<$error>> {
            const {
                assert!(
                    Self::HAS_NODES,
                    "`node_numbers` needs PMI-2 (not `Pmi1`, and the feature `pmi2` of pmi-core)"
                )
            }
            self.call(&calls::get(Place::Node, key, wait), NumbersReply(out))$(.$await)*
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
        pub $($async)? fn job_attribute(
            self: $receiver,
            key: &[u8],
            out: &mut [u8],
        ) -> Result<Option<usize>, CallError<$error>> {
            let request = calls::get(calls::attributes(self.has_frames()), key, false);
            self.call(&request, ValueReply(out))$(.$await)*
        }

        /// Reads an attribute of the job that is a list of numbers.
        ///
        /// Shape: `1,2,3`. As many as fit are written to `out`; the count is that of the whole list.
        ///
        /// # Errors
        ///
        /// [`CallError::Unreadable`] if the value is no such list.
        pub $($async)? fn job_numbers(
            self: $receiver,
            key: &[u8],
            out: &mut [i32],
        ) -> Result<Option<usize>, CallError<$error>> {
            let request = calls::get(calls::attributes(self.has_frames()), key, false);
            self.call(&request, NumbersReply(out))$(.$await)*
        }

        /// Reads the port of a service into `out` and returns its length; `None` if there is no such
        /// service, or the server keeps none.
        ///
        /// Wire: `cmd=lookup_name service=S\n`, `cmd=name-lookup;name=S;infokeycount=0;`.
        ///
        /// # Errors
        ///
        /// [`CallError::Full`] with the length of the port if `out` is too small.
        pub $($async)? fn lookup(
            self: $receiver,
            service: &[u8],
            out: &mut [u8],
        ) -> Result<Option<usize>, CallError<$error>> {
            const { assert!(parts::NAMES, "`lookup` needs the feature `dynamic` of pmi-core") }
            self.call(&Request::Lookup { service: Text::plain(service) }, ValueReply(out))$(.$await)*
        }

        /// Waits for every rank of the job and exchanges values with both neighbours.
        ///
        /// Wire: `cmd=ring;ring-count=1;ring-left=L;ring-right=R;`. Slurm and this project's server
        /// answer it; hydra aborts the job.
        /// Shape: `left` is for the previous rank and `right` for the next; their values are
        /// written into `out`, that of the previous rank first.
        /// Spec: Slurm, `contribs/pmi2`, `PMIX_Ring`.
        ///
        /// # Errors
        ///
        /// [`CallError::Full`] with the longer length if one of `out` is too small;
        /// [`CallError::Misuse`] in PMI-1.
        pub $($async)? fn ring(
            self: $receiver,
            left: &[u8],
            right: &[u8],
            out: [&mut [u8]; 2],
        ) -> Result<Ring, CallError<$error>> {
            const {
                assert!(
                    Self::HAS_CONNECT,
                    "`ring` needs PMI-2 (not `Pmi1`, and the feature `dynamic` of pmi-core)"
                )
            }
            let request = Request::Ring { left: Text::plain(left), right: Text::plain(right) };
            self.call(&request, RingReply(out))$(.$await)*
        }

        /// Reads the whole space of a job, pair by pair, and returns their number.
        ///
        /// Wire: `cmd=kvs-getall;jobid=J;`. No known server but this project's answers it.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] if there is no such job, or it is not connected;
        /// [`CallError::Misuse`] in PMI-1.
        pub $($async)? fn get_all(
            self: $receiver,
            job: &[u8],
            each: &mut (dyn FnMut(Pair<'_>) + Send),
        ) -> Result<usize, CallError<$error>> {
            const {
                assert!(
                    Self::HAS_CONNECT,
                    "`get_all` needs PMI-2 (not `Pmi1`, and the feature `dynamic` of pmi-core)"
                )
            }
            let request = Request::GetAll { job: Text::plain(job) };
            self.call(&request, PairsReply::new(each))$(.$await)*
        }

        /// Spawns processes, which become a job of their own.
        ///
        /// Wire: one `mcmd=spawn` block for each program; in PMI-2 one message.
        /// Shape: `scratch` is lent for the request, which has no bound, and then for the reply: at
        /// least 320 bytes, so that there is room for the job id. It holds as many of the codes as fit.
        /// Spec: PMI-1.1, `mcmd=spawn`; PMI-2 wire protocol, SPAWN.
        ///
        /// # Errors
        ///
        /// [`SpawnError::Refused`] with the codes of the processes; [`CallError::Full`] with the length
        /// that `scratch` needs, in which case nothing was sent.
        pub $($async)? fn spawn<'s>(
            self: $receiver,
            spawn: Spawn<'_>,
            scratch: &'s mut [u8],
        ) -> Result<Spawned<'s>, SpawnError<Codes<'s>, $error>> {
            const { assert!(parts::SPAWN, "`spawn` needs the feature `dynamic` of pmi-core") }
            self.drain()$(.$await)*?;
            let len = self.session.begin_spawn(spawn, scratch)?;
            self.session.is_borrowing = true;
            self.write(scratch.get(..len).unwrap_or(b""))$(.$await)*?;
            self.session.is_borrowing = false;
            let spawned = self.recv_reply(calls::SpawnCodes(&mut *scratch))$(.$await)*?;
            calls::lend_spawned(spawned, scratch)
        }

        /// Copies pairs into the space of a job, where they are seen at once.
        ///
        /// Wire: `cmd=kvs-putall;jobid=J;npair=N;`, then `cmd=kvs-putall-pair;key=K;val=V;` for each.
        /// No known server but this project's answers it.
        ///
        /// # Errors
        ///
        /// [`CallError::Misuse`] for a pair that does not fit, [`CallError::Refused`] with the
        /// server's first reason; nothing was sent, or the other pairs were stored.
        pub $($async)? fn put_all(
            self: $receiver,
            job: &[u8],
            pairs: &[Pair<'_>],
        ) -> Result<(), CallError<$error>> {
            const {
                assert!(
                    Self::HAS_CONNECT,
                    "`put_all` needs PMI-2 (not `Pmi1`, and the feature `dynamic` of pmi-core)"
                )
            }
            self.session.check_pairs(pairs)?;
            self.drain()$(.$await)*?;
            self.session.check_state()?;
            self.session.client.send_in_place(&calls::put_all(job, pairs))?;
            self.session.is_borrowing = true;
            self.write_outgoing()$(.$await)*?;
            for pair in pairs {
                self.send(&calls::put_pair(*pair))$(.$await)*?;
            }
            self.session.is_borrowing = false;
            self.recv_reply(DoneReply)$(.$await)*
        }
    };
}
pub(crate) use lent_calls;
