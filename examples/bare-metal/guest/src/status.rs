//! Exit statuses of a guest. The table is in the README of this directory.

use core::fmt;

use pmi_core::error::{Misuse, PeerError};
use pmi_link::{CallError, LinkError, PumpError};
use pmi_smoltcp::StreamError;

/// The exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    Done = 0,
    BadArguments = 2,
    Panicked = 3,
    NoDevice = 4,
    NoAnswer = 5,
    ServerGone = 6,
    Refused = 7,
    TooLong = 8,
    Malformed = 9,
    Protocol = 10,
    TooLate = 11,
    WrongCard = 12,
    Trapped = 13,
}

/// Reason that the guest does not go on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    /// No connection.
    Connect(StreamError),
    Peer(PeerError),
    Misuse(Misuse),
    /// The connection is lost.
    Gone,
    TooLate,
    WrongCard,
    /// No serial port.
    NoDevice,
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Reset => Self::Gone,
            StreamError::TimedOut => Self::TooLate,
            error => Self::Connect(error),
        }
    }
}

impl From<CallError<StreamError>> for Failure {
    fn from(error: CallError<StreamError>) -> Self {
        match error {
            CallError::Io(error) => error.into(),
            CallError::Peer(error) => Self::Peer(error),
            CallError::Misuse(misuse) => Self::Misuse(misuse),
            _ => Self::WrongCard,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::Misuse(error) => error.fmt(f),
            Self::Peer(error) => error.fmt(f),
            Self::Gone => f.write_str("the connection is gone"),
            Self::TooLate => f.write_str("the time is over"),
            Self::WrongCard => f.write_str("an answer is not what it should be"),
            Self::NoDevice => f.write_str("no virtio serial port"),
        }
    }
}

impl Failure {
    pub(crate) const fn status(&self) -> Status {
        match self {
            Self::TooLate => Status::TooLate,
            Self::WrongCard => Status::WrongCard,
            Self::Gone => Status::ServerGone,
            Self::NoDevice => Status::NoDevice,
            Self::Peer(error) => of_peer(error),
            Self::Connect(StreamError::Unreachable) => Status::NoAnswer,
            Self::Connect(_) | Self::Misuse(_) => Status::Protocol,
        }
    }
}

/// Exit status for the end of a session.
pub(crate) const fn of_pump(error: &PumpError) -> Status {
    match error {
        PumpError::Link(LinkError::Reset | LinkError::Closed) => Status::ServerGone,
        PumpError::Peer { error, .. } => of_peer(error),
        _ => Status::Protocol,
    }
}

const fn of_peer(error: &PeerError) -> Status {
    match error {
        PeerError::LeftEarly => Status::ServerGone,
        PeerError::Refused(_) | PeerError::Unproven => Status::Refused,
        PeerError::MessageTooLong { .. } => Status::TooLong,
        PeerError::Malformed(_) => Status::Malformed,
        _ => Status::Protocol,
    }
}
