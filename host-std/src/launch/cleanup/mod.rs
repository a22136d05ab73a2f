//! The end of ranks, by request and by force ([`control_action`], [`shutdown`], [`out_of_memory`]). What they
//! may leave behind is the subject of [`pmi_host_os::cleanup`].

pub(crate) mod control_action;
pub(crate) mod out_of_memory;
pub(crate) mod shutdown;
