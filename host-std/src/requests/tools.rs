//! Admission of PMIx tools.

use crate::io::Io;
use crate::server::service::Service;
use pmi_core::ids::SessionId;
use pmi_core::wire::pmix::names::Status;

/// Conditions of the admission of a tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolAdmission<'a> {
    /// Name of this host.
    pub(crate) host: &'a str,
    /// False if the run admits none.
    pub(crate) is_on: bool,
    /// False if the open files that are left have another use.
    pub(crate) has_room: bool,
}

impl ToolAdmission<'_> {
    /// Admits a tool, whose user the listener has checked, or rejects and reports it. True if it was
    /// admitted.
    pub(crate) fn decide(self, (service, io): (&mut Service, &mut Io), session: SessionId) -> bool {
        let Some((from, socket)) = service.pmix_caller(session) else { return false };
        let (status, why) = match (self.is_on, self.has_room) {
            (false, _) => (
                Status::NOT_SUPPORTED,
                "is a tool, and the run admits none (--no-tools)".to_owned(),
            ),
            (true, false) => {
                let why = "is a tool, and the open files that are left are for ranks (raise the \
                           launcher's limit: 'ulimit -n')";
                (Status::OUT_OF_RESOURCE, why.to_owned())
            }
            (true, true) => match service.admit_tool(session, self.host) {
                Ok(()) => return true,
                Err(error) => (Status::OUT_OF_RESOURCE, format!("cannot be served: {error}")),
            },
        };
        service.refuse_pmix(session, status);
        io.report_rejected(from, Some(socket), &why);
        false
    }
}
