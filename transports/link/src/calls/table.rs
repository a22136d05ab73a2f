//! The table of the calls that every driver has: one method for each, with its meaning, wire form and errors.

/// Writes the calls that every driver has as methods of it; see [`calls`](crate::calls).
///
/// Parameters: `async` or nothing, `await` or nothing, the type of `self`, the error of the transport, the
/// generations of the protocol that the driver has code for, and whether several threads share it.
#[macro_export]
macro_rules! client_calls {
    (
        [$($async:ident)?] [$($await:ident)*] [$receiver:ty] $error:ty,
        generations: $generations:expr, threaded: $threaded:literal
    ) => {
        /// True if this build has attributes of nodes.
        const HAS_NODES: bool = (parts::PMI2 && $generations >= 2) || parts::BINARY;
        /// True if this build has requests beyond the keyspace of the job.
        const HAS_CONNECT: bool = parts::CONNECT && Self::HAS_NODES;

        /// The negotiated version, once the session is open.
        pub fn version(&self) -> Option<Version> {
            self.read_client(|client| client.version())
        }

        /// The identity that the server has assigned: in PMI-2, or over TCP.
        pub fn identity(&self) -> Option<Identity<'static>> {
            self.read_client(|client| client.identity())
        }

        /// Sends the process id of a connection and receives its identity; only over TCP, only in
        /// PMI-1, and before every other call.
        ///
        /// Wire: `cmd=initack pmiid=N\n`, answered by four lines.
        /// Spec: PMI-1.1, `initack`.
        ///
        /// # Errors
        ///
        /// [`CallError::Peer`] if the server expects no process with this id.
        pub $($async)? fn greet(
            self: $receiver,
            id: u64,
        ) -> Result<Identity<'static>, CallError<$error>> {
            const { assert!(parts::LISTEN, "`greet` needs the feature `listen` of pmi-core") }
            self.call(&Request::InitAck { id }, AnyReply)$(.$await)*?;
            self.identity().ok_or(CallError::Peer(PeerError::LeftEarly))
        }

        /// Opens the session and returns the negotiated version.
        ///
        /// This is [`open`](Self::open) with nothing but a version: enough for PMI-1, and for PMI-2
        /// where the server knows the process at the other end.
        ///
        /// # Errors
        ///
        /// As for [`open`](Self::open).
        pub $($async)? fn init(
            self: $receiver,
            version: Version,
        ) -> Result<Version, CallError<$error>> {
            self.handshake(&Opening::new(version), &mut |_| ())$(.$await)*
        }

        /// The handshake; hands the id of the parent job over.
        $($async)? fn handshake(
            self: $receiver,
            opening: &Opening<'_>,
            on_spawner: &mut (dyn FnMut(Text<'_>) + Send),
        ) -> Result<Version, CallError<$error>> {
            let Opening { version, rank, job, prover, .. } = *opening;
            self.call(&Request::Init { version }, AnyReply)$(.$await)*?;
            let version = self.version().unwrap_or(version);
            // A driver of PMI-1 alone holds none of the rest.
            let may_join = parts::PMI2 && $generations >= 2;
            if !may_join
                || !matches!(self.read_client(|client| client.state()), State::Agreed { .. })
            {
                return opening.accept(&AuthProgress::default(), version);
            }
            let method = prover.map(|prover| Text::plain(prover.method()));
            let job = job.map(Text::plain);
            let request = Request::FullInit { rank, job, threaded: $threaded, method };
            let mut progress = AuthProgress::default();
            let progress = &mut progress;
            let join = JoinReply { prover, progress: &mut *progress, on_spawner: &mut *on_spawner };
            let mut answer = self.call(&request, join)$(.$await)*?;
            while let State::Challenged { .. } = self.read_client(|client| client.state()) {
                let own = answer.ok_or(CallError::Peer(PeerError::Unproven))?;
                let digits = Text::plain(own.text.as_bytes());
                let request = Request::Proof { digits, is_last: own.is_last };
                let progress = &mut *progress;
                let join = JoinReply { prover, progress, on_spawner: &mut *on_spawner };
                answer = self.call(&request, join)$(.$await)*?;
            }
            opening.accept(progress, version)
        }

        /// Requests the greatest lengths of name, key and value, which hold from now on.
        ///
        /// Wire: `cmd=get_maxes\n`. PMI-2 has fixed sizes, so nothing is sent.
        /// Units: bytes, each counting a C terminator.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] by the server.
        pub $($async)? fn maxes(self: $receiver) -> Result<Maxes, CallError<$error>> {
            if self.has_frames() {
                return Ok(self.read_client(|client| client.maxes()));
            }
            self.call(&Request::Maxes, MaxesReply)$(.$await)*
        }

        /// Requests the number of this program in the launch; `None` if the server does not know it.
        ///
        /// Wire: `cmd=get_appnum\n`. PMI-2 receives it in the handshake.
        /// Spec: PMI-1.1, `get_appnum`.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] by the server.
        pub $($async)? fn appnum(self: $receiver) -> Result<Option<u32>, CallError<$error>> {
            if self.has_frames() {
                return Ok(self.identity().and_then(|own| u32::try_from(own.appnum).ok()));
            }
            self.call(&Request::AppNum, NumberReply)$(.$await)*
        }

        /// Requests the greatest possible number of processes; `None` if there is no bound.
        ///
        /// Wire: `cmd=get_universe_size\n`; in PMI-2 the attribute `universeSize` of the job.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] by the server.
        pub $($async)? fn universe_size(
            self: $receiver,
        ) -> Result<Option<u32>, CallError<$error>> {
            if !self.has_frames() {
                return self.call(&Request::UniverseSize, NumberReply)$(.$await)*;
            }
            let mut size = [-1];
            let request = calls::get(Place::Attributes, b"universeSize", false);
            self.call(&request, NumbersReply(&mut size))$(.$await)*?;
            Ok(u32::try_from(size[0]).ok())
        }

        /// Stores `value` under `key`; others see it after the next [`fence`](Self::fence).
        ///
        /// Wire: `cmd=put kvsname=N key=K value=V\n`, `cmd=kvs-put;key=K;value=V;`.
        /// Shape: at most 63 and 1023 bytes unless [`maxes`](Self::maxes) reported other limits. PMI-1
        /// has no blanks or line ends in either; in PMI-2 known servers lose the text after a `;`.
        /// Spec: PMI-1.1, `put`; PMI-2 wire protocol, KVSPUT.
        ///
        /// # Errors
        ///
        /// [`CallError::Misuse`] for a key or value that does not fit, [`CallError::Refused`] by the
        /// server.
        pub $($async)? fn put(
            self: $receiver,
            key: &[u8],
            value: &[u8],
        ) -> Result<(), CallError<$error>> {
            self.call(&calls::put(Place::Job(None), key, value), DoneReply)$(.$await)*
        }

        /// Stores an attribute of this node, which all ranks on it see at once.
        ///
        /// Wire: `cmd=info-putnodeattr;key=K;value=V;`.
        /// Shape: as for [`put`](Self::put).
        ///
        /// # Errors
        ///
        /// As for [`put`](Self::put); [`CallError::Misuse`] in PMI-1.
        pub $($async)? fn put_node(
            self: $receiver,
            key: &[u8],
            value: &[u8],
        ) -> Result<(), CallError<$error>> {
            const {
                assert!(
                    Self::HAS_NODES,
                    "`put_node` needs PMI-2 (not `Pmi1`, and the feature `pmi2` of pmi-core)"
                )
            }
            self.call(&calls::put(Place::Node, key, value), DoneReply)$(.$await)*
        }

        /// Waits until every rank of the job is here; then all see the values that were put before.
        ///
        /// Wire: `cmd=barrier_in\n`, `cmd=kvs-fence;`. Hydra answers the latter at once and has the
        /// gets behind it wait instead.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] if a rank cannot arrive any more.
        pub $($async)? fn fence(self: $receiver) -> Result<(), CallError<$error>> {
            let request = Request::Fence { group: FenceGroup::World, tag: None };
            self.call(&request, DoneReply)$(.$await)*
        }

        /// Waits until every rank of `group` is here, with the same `tag`.
        ///
        /// Wire: `cmd=barrier_in group=G:T\n`.
        /// Spec: PMI-1.2, `barrier_in`.
        ///
        /// # Errors
        ///
        /// [`CallError::Misuse`] in every version but PMI-1.2.
        pub $($async)? fn fence_group(
            self: $receiver,
            group: FenceGroup<'_>,
            tag: u32,
        ) -> Result<(), CallError<$error>> {
            const { assert!(parts::GROUPS, "`fence_group` needs the feature `dynamic` of pmi-core") }
            self.call(&Request::Fence { group, tag: Some(tag) }, DoneReply)$(.$await)*
        }

        /// Publishes `port` under the name of a service.
        ///
        /// Wire: `cmd=publish_name service=S port=P\n`, `cmd=name-publish;name=S;port=P;infokeycount=0;`.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] if the name is taken.
        pub $($async)? fn publish(
            self: $receiver,
            service: &[u8],
            port: &[u8],
        ) -> Result<(), CallError<$error>> {
            const { assert!(parts::NAMES, "`publish` needs the feature `dynamic` of pmi-core") }
            let (service, port) = (Text::plain(service), Text::plain(port));
            self.call(&Request::Publish { service, port }, DoneReply)$(.$await)*
        }

        /// Unpublishes a name.
        ///
        /// Wire: `cmd=unpublish_name service=S\n`, `cmd=name-unpublish;name=S;infokeycount=0;`.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] if it was not published.
        pub $($async)? fn unpublish(
            self: $receiver,
            service: &[u8],
        ) -> Result<(), CallError<$error>> {
            const { assert!(parts::NAMES, "`unpublish` needs the feature `dynamic` of pmi-core") }
            self.call(&Request::Unpublish { service: Text::plain(service) }, DoneReply)$(.$await)*
        }

        /// Connects this job with another: they may then read each other's space with
        /// [`get_from`](Self::get_from).
        ///
        /// Returns true if the two jobs have servers that cannot read each other's spaces (`kvscopy=yes`):
        /// then a process of each job reads its own space with [`get_all`](Self::get_all), sends the pairs
        /// to the other, and writes those that it receives with [`put_all`](Self::put_all) under the name
        /// of their job.
        ///
        /// Wire: `cmd=job-connect;jobid=J;`. No known server but this project's answers it, whose answer is
        /// never yes.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] if there is no such job, [`CallError::Misuse`] in PMI-1.
        pub $($async)? fn connect_job(
            self: $receiver,
            job: &[u8],
        ) -> Result<bool, CallError<$error>> {
            const {
                assert!(
                    Self::HAS_CONNECT,
                    "`connect_job` needs PMI-2 (not `Pmi1`, and the feature `dynamic` of pmi-core)"
                )
            }
            self.call(&Request::Connect { job: Text::plain(job) }, CopyReply)$(.$await)*
        }

        /// Disconnects this job from another.
        ///
        /// Wire: `cmd=job-disconnect;jobid=J;`. No known server but this project's answers it.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] if there is no such connection, [`CallError::Misuse`] in PMI-1.
        pub $($async)? fn disconnect_job(
            self: $receiver,
            job: &[u8],
        ) -> Result<(), CallError<$error>> {
            const {
                assert!(
                    Self::HAS_CONNECT,
                    "`disconnect_job` needs PMI-2 (not `Pmi1`, and the feature `dynamic` of pmi-core)"
                )
            }
            self.call(&Request::Disconnect { job: Text::plain(job) }, DoneReply)$(.$await)*
        }

        /// Aborts the whole job with `code`. There is no reply: the caller should exit.
        ///
        /// Wire: `cmd=abort exitcode=C message=M\n`, `cmd=abort;isworld=TRUE;exitcode=C;msg=M;`.
        /// Shape: a message that is too long is cut.
        ///
        /// # Errors
        ///
        /// [`CallError::Misuse`] if the session is over.
        pub $($async)? fn abort(
            self: $receiver,
            code: i32,
            message: &[u8],
        ) -> Result<(), CallError<$error>> {
            self.send_abort(code, message)$(.$await)*
        }

        /// Finalizes the session; no call is possible afterwards.
        ///
        /// Wire: `cmd=finalize\n`, `cmd=finalize;`.
        /// Spec: PMI-1.1, `finalize`; PMI-2 wire protocol, FINALIZE.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] by the server.
        pub $($async)? fn finalize(self: $receiver) -> Result<(), CallError<$error>> {
            self.call(&Request::Finalize, DoneReply)$(.$await)*
        }

        fn has_frames(&self) -> bool {
            $generations >= 2 && self.version().is_some_and(|version| version.major == 2)
        }
    };
}
