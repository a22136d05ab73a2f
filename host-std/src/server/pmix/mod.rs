//! PMIx clients: storage ([`heap`]), job-level information ([`facts`], [`hardware`]), connections
//! ([`service`]), requests to the launcher ([`host_request`]: job control in [`control`], output and input
//! of tools in [`forwarding`], log entries in [`log`] and [`syslog`], file monitors in [`monitor`],
//! credentials in [`credential`]), tools ([`tools`]), shared memory ([`store`]) and events ([`events`]).
//! Authentication is in [`pmi_host_os::admission::peer`].

pub(crate) mod control;
pub(crate) mod credential;
pub(crate) mod events;
pub(crate) mod facts;
pub(crate) mod forwarding;
pub(crate) mod hardware;
pub(crate) mod heap;
pub(crate) mod host_request;
pub(crate) mod log;
pub(crate) mod monitor;
pub(crate) mod service;
pub(crate) mod store;
pub(crate) mod syslog;
pub(crate) mod tools;
