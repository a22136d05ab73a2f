//! PMIx tools: their admission, and the files by which they find this launcher.

use super::io::Io;
use super::jobs::JobState;
use super::pmix::PmixRequests;
use crate::control::rendezvous::{Rendezvous, ServerAddress};
use crate::launch::cleanup::guard::Guard;
use crate::server::service::Service;
use crate::settings::Watching;
use pmi_core::ids::{JobId, SessionId};
use pmi_core::wire::pmix::names::Status;
use std::time::{Duration, Instant};

/// Access of tools to a run: the time at which they can find it, and its rendezvous files from then on.
#[derive(Debug, Default)]
pub(super) struct ToolAccess {
    /// False if tools are rejected.
    is_on: bool,
    /// Time at which the files are written.
    open_at: Option<Instant>,
    files: Rendezvous,
    /// Address for files of spawned jobs, while there are files.
    server: Option<ServerAddress>,
    /// Spawned jobs whose file is not written yet.
    unlisted: Vec<String>,
}

impl ToolAccess {
    /// Access as the user has set it.
    pub(super) fn new(settings: &Watching) -> Self {
        let is_on = settings.tools || settings.is_system_server || settings.report_uri.is_some();
        let open_at = is_on.then(|| Instant::now() + OPEN_AFTER);
        Self { is_on, open_at, ..Self::default() }
    }

    /// True if tools are admitted.
    pub(super) const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Time at which the files are to be written.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.open_at
    }

    /// Writes the file of the system server, before anything is started.
    ///
    /// # Errors
    ///
    /// A message for the user.
    pub(super) fn open_system(&mut self, server: &ServerAddress) -> Result<(), String> {
        self.files.open_system(server)
    }

    /// Writes the other files. The guard removes all of them if the launcher cannot do it.
    pub(super) fn open(&mut self, server: &ServerAddress, mut guard: Option<&mut Guard>) {
        self.open_at = None;
        // Without a directory for the files the run is unaffected; a tool needs the address then.
        if self.files.open(server).is_ok() {
            self.server = Some(server.clone());
        }
        if let Some(guard) = &mut guard {
            self.files.paths().iter().for_each(|path| guard.report_file(path));
        }
        for nspace in std::mem::take(&mut self.unlisted) {
            self.add_job(nspace, guard.as_deref_mut());
        }
    }

    /// Writes the file of a spawned job, now or with the others.
    pub(super) fn add_job(&mut self, nspace: String, guard: Option<&mut Guard>) {
        match &self.server {
            // As above, the run is unaffected by a failure.
            Some(server) => {
                let made = self.files.add_job(&server.host, &nspace, &server.uri);
                if let (Some(guard), Ok(path)) = (guard, made) {
                    guard.report_file(&path);
                }
            }
            None if self.open_at.is_some() => self.unlisted.push(nspace),
            None => {}
        }
    }

    /// Removes the file of a spawned job that has ended.
    pub(super) fn remove_job(&mut self, nspace: &str) {
        self.unlisted.retain(|of| of != nspace);
        if let Some(server) = &self.server {
            self.files.remove_job(&server.host, nspace);
        }
    }
}

/// A tool that waits for admission, and the user that its greeting names.
pub(super) type NewTool = (SessionId, Option<u32>);

/// Conditions of the admission of a tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToolAdmission<'a> {
    /// Name of this host.
    pub(super) host: &'a str,
    /// False if the run admits none.
    pub(super) is_on: bool,
    /// False if the open files that are left have another use.
    pub(super) has_room: bool,
}

impl ToolAdmission<'_> {
    /// Admits a tool if the user of its socket, which the listener has checked, is the one it claims; else
    /// rejects and reports it. True if it was admitted.
    pub(super) fn decide(
        self,
        (service, io): (&mut Service, &mut Io),
        (session, user): NewTool,
    ) -> bool {
        let Some((from, socket)) = service.pmix_caller(session) else { return false };
        let (status, why) = match user {
            _ if !self.is_on => (
                Status::NOT_SUPPORTED,
                "is a tool, and the run admits none (--no-tools)".to_owned(),
            ),
            Some(user) if user != socket.user => {
                (Status::INVALID_CRED, format!("claims to belong to user {user}, and does not"))
            }
            _ if !self.has_room => {
                let why = "is a tool, and the open files that are left are for ranks (raise the \
                           launcher's limit: 'ulimit -n')";
                (Status::OUT_OF_RESOURCE, why.to_owned())
            }
            _ => match service.admit_tool(session, self.host) {
                Ok(()) => return true,
                Err(error) => (Status::OUT_OF_RESOURCE, format!("cannot be served: {error}")),
            },
        };
        service.refuse_pmix(session, status);
        io.report_rejected(from, Some(socket), &why);
        false
    }
}

impl PmixRequests<'_> {
    /// Admits or rejects a tool.
    pub(super) fn admit_tool(&mut self, tool: NewTool) {
        let first = self.jobs.plan(self.jobs.first());
        let host = first.map_or_else(String::new, |plan| plan.host.clone());
        let has_room = self.more_connections(self.service.pmix_links().saturating_sub(1)) > 0;
        let admission = ToolAdmission { host: &host, is_on: self.admits_tools, has_room };
        if admission.decide((self.service, self.io), tool) {
            self.describe_to_tools();
        }
    }

    /// Lets tools know the jobs whose ranks use other protocols.
    pub(super) fn describe_to_tools(&mut self) {
        let jobs = self.jobs.iter();
        let jobs: Vec<(JobId, &JobState)> = jobs.collect();
        for (job, state) in jobs {
            self.service.describe_to_tools(job, &state.plan);
        }
    }
}

/// Delay before the files are written: a shorter run creates none.
const OPEN_AFTER: Duration = Duration::from_millis(100);
