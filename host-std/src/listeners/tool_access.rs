//! Files by which PMIx tools find this launcher.

use crate::control::rendezvous::{Rendezvous, ServerAddress};
use crate::settings::Watching;
use pmi_host_os::clock;
use std::path::Path;
use std::time::{Duration, Instant};

/// Access of tools to a run: the time at which they can find it, and its rendezvous files from then on.
#[derive(Debug, Default)]
pub(crate) struct ToolAccess {
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
    pub(crate) fn new(settings: &Watching) -> Self {
        let is_on = settings.tools || settings.is_system_server || settings.report_uri.is_some();
        let open_at = is_on.then(|| clock::now() + OPEN_AFTER);
        Self { is_on, open_at, ..Self::default() }
    }

    /// True if tools are admitted.
    pub(crate) const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Time at which the files are to be written.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.open_at
    }

    /// Writes the file of the system server, before anything is started.
    pub(crate) fn open_system(&mut self, server: &ServerAddress) -> Result<(), String> {
        self.files.open_system(server)
    }

    /// Writes the other files. The guard removes all of them if the launcher cannot do it.
    pub(crate) fn open(&mut self, server: &ServerAddress, guard_file: &mut dyn FnMut(&Path)) {
        self.open_at = None;
        // Without a directory for the files the run is unaffected; a tool needs the address then.
        if self.files.open(server).is_ok() {
            self.server = Some(server.clone());
        }
        self.files.paths().iter().for_each(|path| guard_file(path));
        for nspace in std::mem::take(&mut self.unlisted) {
            self.add_job(nspace, guard_file);
        }
    }

    /// Writes the file of a spawned job, now or with the others.
    pub(crate) fn add_job(&mut self, nspace: String, guard_file: &mut dyn FnMut(&Path)) {
        match &self.server {
            // As above, the run is unaffected by a failure.
            Some(server) => {
                if let Ok(path) = self.files.add_job(&server.host, &nspace, &server.uri) {
                    guard_file(&path);
                }
            }
            None if self.open_at.is_some() => self.unlisted.push(nspace),
            None => {}
        }
    }

    /// Removes the file of a spawned job that has ended.
    pub(crate) fn remove_job(&mut self, nspace: &str) {
        self.unlisted.retain(|of| of != nspace);
        if let Some(server) = &self.server {
            self.files.remove_job(&server.host, nspace);
        }
    }
}

/// Delay before the files are written: a shorter run creates none.
const OPEN_AFTER: Duration = Duration::from_millis(100);
