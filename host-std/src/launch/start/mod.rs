//! From a plan to running processes: ranks are prepared and started in batches ([`launcher`], [`batch`]), as
//! children that become their programs ([`child_start`], [`session`], [`script`]) or by way of this program
//! ([`trampoline`], [`exec_stop`], [`gdb`]), with the scheduling ([`scheduling`]) that they
//! need. A start leads to a [`process`] or to the reason why there is none ([`start_error`]).

pub(crate) mod batch;
mod child_start;
mod exec_stop;
pub(crate) mod gdb;
pub(crate) mod launcher;
pub(crate) mod process;
pub(crate) mod scheduling;
mod script;
mod session;
pub(crate) mod start_error;
pub(crate) mod trampoline;
