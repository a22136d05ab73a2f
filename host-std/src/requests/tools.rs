//! Admission of PMIx tools.

use crate::io::Io;
use crate::server::service::Service;
use pmi_core::ids::SessionId;
use pmi_core::wire::pmix::names::Status;

/// A tool that waits for admission, and the user that its greeting names.
pub(crate) type NewTool = (SessionId, Option<u32>);

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
    /// Admits a tool if the user of its socket, which the listener has checked, is the one it claims; else
    /// rejects and reports it. True if it was admitted.
    pub(crate) fn decide(
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
