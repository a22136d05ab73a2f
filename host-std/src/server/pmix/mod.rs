//! Serving PMIx clients: what their part of the server is made of ([`heap`]), what they are told about
//! their job ([`facts`]), their connections ([`desk`]), what they ask of the launcher ([`asked`]: about
//! processes, [`control`]; to be written down, [`log`]; to prove who they are, [`credential`]), what it tells
//! them unasked ([`events`]), and whether they are who they say ([`who`]).

pub mod asked;
pub mod control;
pub mod credential;
pub mod desk;
pub mod events;
pub mod facts;
pub mod heap;
pub mod log;
