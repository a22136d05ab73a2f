//! Return codes of both interfaces, and the code of each error of a session.

use std::ffi::c_int;
use std::io;

use pmi_core::error::{Code, Misuse};
use pmi_link::{CallError, SpawnError};

/// Result of a function, before it is a number.
pub(crate) type CodeResult<T> = Result<T, Code>;

/// The number of arguments is wrong.
pub(crate) const INVALID_NUM_ARGS: Code = Code(9);
/// The list of arguments is missing.
pub(crate) const INVALID_ARGS: Code = Code(10);
/// The place for the number of parsed arguments is missing.
pub(crate) const INVALID_NUM_PARSED: Code = Code(11);
/// The place for pairs is missing.
pub(crate) const INVALID_KEYVALP: Code = Code(12);
/// The name is not that of the key-value space. PMI-2 has `PMI2_ERR_OTHER` under this number.
pub(crate) const INVALID_KVS: Code = Code(14);

/// The code of an error of a session.
pub(crate) fn of_call(error: CallError<io::Error>) -> Code {
    match error {
        CallError::Misuse(misuse) => of_misuse(misuse),
        // The numbers of servers are not those of the headers: Hydra sends 1 for a missing key.
        _ => Code::FAIL,
    }
}

/// The code of a call that was not made.
pub(crate) fn of_misuse(misuse: Misuse) -> Code {
    let is_about = |what: &str, field: &str| what.starts_with(field);
    match misuse {
        Misuse::Length { what, .. } if is_about(what, "key") => Code::INVALID_KEY_LENGTH,
        Misuse::Length { what, .. } if is_about(what, "value") => Code::INVALID_VAL_LENGTH,
        Misuse::NotRepresentable { what } if what.contains("key") => Code::INVALID_KEY,
        Misuse::NotRepresentable { what } if what.contains("value") => Code::INVALID_VAL,
        Misuse::Length { .. } | Misuse::NotRepresentable { .. } => Code::INVALID_ARG,
        _ => Code::FAIL,
    }
}

/// Why a spawn has made no job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SpawnRefusal {
    /// The code of the call.
    pub(crate) code: Code,
    /// Codes of the requested processes, if the server has reported them.
    pub(crate) codes: Vec<Code>,
}

impl From<Code> for SpawnRefusal {
    fn from(code: Code) -> Self {
        Self { code, codes: Vec::new() }
    }
}

impl From<SpawnError<Vec<Code>, io::Error>> for SpawnRefusal {
    fn from(error: SpawnError<Vec<Code>, io::Error>) -> Self {
        match error {
            SpawnError::Call(error) => of_call(error).into(),
            SpawnError::Refused { codes, .. } => Self { code: Code::FAIL, codes },
        }
    }
}

/// A count or rank as C has it.
pub(crate) fn number(number: u32) -> CodeResult<c_int> {
    c_int::try_from(number).map_err(|_| Code::FAIL)
}
