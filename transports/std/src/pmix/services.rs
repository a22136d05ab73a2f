//! Calls of both kinds of handles, that of one thread and that of several. Each sends one request, waits for
//! its reply, and returns owned values.

/// Defines the calls for a handle with `call(&PmixRequest) -> Result<PmixReply, CallError>`, `format()` and
/// `send(&PmixRequest)`, which waits for no reply.
macro_rules! service_calls {
    ($handle:ty) => {
        /// Publishes the values that were put. Wire: COMMIT.
        ///
        /// # Errors
        ///
        /// [`CallError`], here and below.
        pub fn commit(self: $handle) -> Result<(), CallError> {
            self.call(&PmixRequest::Commit)?.done()
        }

        /// Waits for every process of the job; values committed by them can be read then. Wire: FENCENB.
        pub fn fence(self: $handle) -> Result<(), CallError> {
            self.fence_of(&[], true, None)
        }

        /// Waits for some processes; with `collect` their committed data is exchanged at once. An empty
        /// namespace is the own one, and an empty list is the whole job.
        /// Spec: PMIx Standard, `PMIx_Fence`.
        pub fn fence_of(
            self: $handle,
            procs: &[Proc<'_>],
            collect: bool,
            timeout: Option<Duration>,
        ) -> Result<(), CallError> {
            let timeout_s = timeout.map(whole_seconds);
            self.call(&PmixRequest::Fence { procs, collect, timeout_s })?.done()
        }

        /// Publishes a text under a key for every job of the launcher, until this job has ended. Wire:
        /// PUBLISHNB.
        /// Spec: PMIx Standard, `PMIx_Publish`.
        pub fn publish(self: $handle, key: &[u8], text: &[u8]) -> Result<(), CallError> {
            self.call(&PmixRequest::Publish { key, text })?.done()
        }

        /// Withdraws what this process has published under a key. Wire: UNPUBLISHNB.
        /// Spec: PMIx Standard, `PMIx_Unpublish`.
        pub fn unpublish(self: $handle, key: &[u8]) -> Result<(), CallError> {
            self.call(&PmixRequest::Unpublish { key })?.done()
        }

        /// The text that is published under a key; `None` if there is none. Wire: LOOKUPNB.
        /// Spec: PMIx Standard, `PMIx_Lookup`.
        pub fn lookup(self: $handle, key: &[u8]) -> Result<Option<Vec<u8>>, CallError> {
            let reply = self.call(&PmixRequest::Lookup { key, wait: false, timeout_s: None })?;
            if reply.is_missing() {
                return Ok(None);
            }
            reply.done()?;
            Ok(reply.published(key))
        }

        /// Does as [`lookup`](Self::lookup), and waits until the text is published or the time is over, which
        /// is [`Status::TIMEOUT`](super::Status).
        pub fn lookup_within(
            self: $handle,
            key: &[u8],
            timeout: Duration,
        ) -> Result<Option<Vec<u8>>, CallError> {
            let timeout_s = Some(whole_seconds(timeout));
            let reply = self.call(&PmixRequest::Lookup { key, wait: true, timeout_s })?;
            reply.done()?;
            Ok(reply.published(key))
        }

        /// Starts programs as a job of their own, and returns its namespace when its processes run. Wire:
        /// SPAWNNB.
        /// Spec: PMIx Standard, `PMIx_Spawn`.
        pub fn spawn(
            self: $handle,
            apps: &[SpawnApp<'_>],
            directives: &[Attribute<'_>],
        ) -> Result<Vec<u8>, CallError> {
            let reply = self.call(&PmixRequest::Spawn { apps, directives })?;
            reply.done()?;
            Ok(reply.nspace())
        }

        /// Connects the jobs of the processes, of which this process is one, and waits for all. Wire:
        /// CONNECTNB.
        /// Spec: PMIx Standard, `PMIx_Connect`.
        pub fn connect(
            self: $handle,
            procs: &[Proc<'_>],
            timeout: Option<Duration>,
        ) -> Result<(), CallError> {
            let timeout_s = timeout.map(whole_seconds);
            self.call(&PmixRequest::Connect { procs, timeout_s })?.done()
        }

        /// Ends a connection of jobs, and waits for all its processes. Wire: DISCONNECTNB.
        /// Spec: PMIx Standard, `PMIx_Disconnect`.
        pub fn disconnect(
            self: $handle,
            procs: &[Proc<'_>],
            timeout: Option<Duration>,
        ) -> Result<(), CallError> {
            let timeout_s = timeout.map(whole_seconds);
            self.call(&PmixRequest::Disconnect { procs, timeout_s })?.done()
        }

        /// Registers for events of these codes, or for all events if there are none;
        /// [`next_event`](Self::next_event) returns them. Wire: REGEVENTS.
        /// Spec: PMIx Standard, `PMIx_Register_event_handler`.
        pub fn register(
            self: $handle,
            codes: &[Status],
            directives: &[Attribute<'_>],
        ) -> Result<(), CallError> {
            self.call(&PmixRequest::Register { codes, directives })?.done()
        }

        /// Ends the registration for these codes, or that for all events if there are none. The server sends
        /// no reply, so events may still arrive. Wire: DEREGEVENTS.
        /// Spec: PMIx Standard, `PMIx_Deregister_event_handler`.
        pub fn deregister(self: $handle, codes: &[Status]) -> Result<(), CallError> {
            self.send(&PmixRequest::Deregister { codes })
        }

        /// Notifies the processes of a [`range`](super::range) of an event of this process. Wire: NOTIFY.
        /// Spec: PMIx Standard, `PMIx_Notify_event`.
        pub fn notify(
            self: $handle,
            code: Status,
            range: u8,
            attributes: &[Attribute<'_>],
        ) -> Result<(), CallError> {
            self.call(&PmixRequest::Notify { code, range, attributes })?.done()
        }

        /// Queries the launcher. The returned entries are those of the keys that it knows. Wire: QUERY.
        /// Spec: PMIx Standard, `PMIx_Query_info`.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] if it knows none.
        pub fn query(
            self: $handle,
            keys: &[&[u8]],
            qualifiers: &[Attribute<'_>],
        ) -> Result<Infos, CallError> {
            let format = self.format();
            let reply = self.call(&PmixRequest::Query { keys, qualifiers })?;
            reply.done_or(Status::QUERY_PARTIAL_SUCCESS)?;
            Ok(reply.infos(format))
        }

        /// Writes log entries: each attribute of `data` is a channel with its text. Wire: LOG.
        /// Spec: PMIx Standard, `PMIx_Log`.
        ///
        /// # Errors
        ///
        /// [`CallError::Refused`] with [`Status::PARTIAL_SUCCESS`] if the launcher lacks some channels.
        pub fn log(
            self: $handle,
            data: &[Attribute<'_>],
            directives: &[Attribute<'_>],
        ) -> Result<(), CallError> {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let time_s = now.map_or(0, |time| time.as_secs());
            self.call(&PmixRequest::Log { time_s, data, directives })?.done()
        }

        /// Signals, pauses or terminates processes, or registers files to remove; an empty list is the whole
        /// session. Returns what the launcher reports about it. Wire: JOB_CONTROL.
        /// Spec: PMIx Standard, `PMIx_Job_control`.
        pub fn job_control(
            self: $handle,
            targets: &[Proc<'_>],
            directives: &[Attribute<'_>],
        ) -> Result<Infos, CallError> {
            let format = self.format();
            let reply = self.call(&PmixRequest::JobControl { targets, directives })?;
            reply.done()?;
            Ok(reply.infos(format))
        }

        /// Constructs a group with the other members, and waits for them. Wire: GROUP_CONSTRUCT.
        /// Spec: PMIx Standard, `PMIx_Group_construct`.
        pub fn group_construct(
            self: $handle,
            name: &[u8],
            procs: &[Proc<'_>],
            directives: &[Attribute<'_>],
        ) -> Result<PmixGroup, CallError> {
            let reply = self.call(&PmixRequest::GroupConstruct { name, procs, directives })?;
            reply.done()?;
            Ok(reply.group())
        }

        /// Destructs a group with the other members, and waits for them. Wire: GROUP_DESTRUCT.
        /// Spec: PMIx Standard, `PMIx_Group_destruct`.
        pub fn group_destruct(
            self: $handle,
            name: &[u8],
            timeout: Option<Duration>,
        ) -> Result<(), CallError> {
            let timeout_s = timeout.map(whole_seconds);
            self.call(&PmixRequest::GroupDestruct { name, timeout_s })?.done()
        }

        /// Leaves a group; its other members are notified. Wire: GROUP_LEAVE.
        /// Spec: PMIx Standard, `PMIx_Group_leave`.
        pub fn group_leave(self: $handle, name: &[u8]) -> Result<(), CallError> {
            self.call(&PmixRequest::GroupLeave { name })?.done()
        }
    };
}

pub(super) use service_calls;
