//! PMIx: the calls of a program under any launcher that speaks it, without libpmix.
//!
//! ```no_run
//! use pmi_std::pmix::{self, Datum, Scope};
//!
//! match pmix::connect()? {
//!     Some(mut pmix) => {
//!         let (rank, size) = (pmix.rank(), pmix.size());
//!         let card = format!("rank-{rank}-of-{size}");
//!         pmix.put(Scope::Global, b"card", Datum::Text(card.as_bytes()))?;
//!         pmix.commit()?;
//!         pmix.fence()?;
//!         for peer in 0..size {
//!             let card = pmix.get(peer, b"card")?.and_then(|value| value.text());
//!             println!("{peer}: {}", String::from_utf8_lossy(card.unwrap_or(b"nothing")));
//!         }
//!         pmix.finalize()?;
//!     }
//!     None => println!("started by itself"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The protocol is in the machine of [`pmi_core::client::pmix`]; this module has the environment, the
//! socket, and a cache of the received data.

mod calls;
mod connection;
mod env;
mod error;
mod prefetch;
mod reply;
mod services;
mod shared;
pub mod tool;

pub use calls::{Pending, PendingFence, PendingGet, Pmix, Within};
pub use env::{PmixEnvironment, Security};
pub use error::{CallError, PmixConnectError};
pub use pmi_core::client::pmix::{Attribute, DataRealm, Datum, JobInfo, Scope, SpawnApp};
pub use pmi_core::wire::pmix::names::{
    Status, job_state, keys, persistence, proc_state, range, scope,
};
pub use pmi_core::wire::pmix::{Info, List, Proc, ProcInfo, Type, Value, WILDCARD, ranks};
pub use reply::{Infos, OwnedProc, PmixEvent, PmixGroup};
pub use shared::SharedPmix;

/// Finds the PMIx server through the environment of this process, and joins the job.
///
/// `None` if the process was not started under PMIx.
///
/// # Errors
///
/// [`PmixConnectError`].
pub fn connect() -> Result<Option<Pmix>, PmixConnectError> {
    PmixEnvironment::of_this_process()?.map(|environment| connect_by(&environment)).transpose()
}

/// Joins the job that `environment` leads to.
///
/// Wire: the greeting, and REQ.
///
/// # Errors
///
/// [`PmixConnectError`].
pub fn connect_by(environment: &PmixEnvironment) -> Result<Pmix, PmixConnectError> {
    Pmix::open(environment)
}
