//! PMIx clients: storage ([`heap`]), job-level information ([`facts`]), connections ([`desk`]), requests
//! to the launcher ([`asked`]: job control in [`control`], log entries in [`log`], credentials in
//! [`credential`]) and events ([`events`]). Authentication is in [`crate::admission::peer`].

pub mod asked;
pub mod control;
pub mod credential;
pub mod desk;
pub mod events;
pub mod facts;
pub mod heap;
pub mod log;
