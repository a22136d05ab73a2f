//! Attributes of nodes and jobs in `pmi2.h`.

use std::ffi::c_int;

use pmi_core::error::Code;

use super::{fact, key_of, value_of};
use crate::boundary::call;
use crate::code::CodeResult;
use crate::session::Session;
use crate::text::{InText, OutArray, OutNumber, OutText, write_wanted};
use crate::{node, process};

/// Stores an attribute of this node, which its processes see at once.
#[allow(unsafe_code, reason = "a name for programs in C")]
// SAFETY: no other function has this name; likewise below.
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Info_PutNodeAttr(name: InText, value: InText) -> c_int {
    call(|| {
        let session = process::session()?;
        session.put_node(key_of(&*session, &name)?, value_of(&*session, &value)?)
    })
}

/// Reads an attribute of this node; with `waitfor` once a process has stored it. `found` is 0 if there is
/// none.
///
/// Returns: `NOMEM` if the value and its NUL do not fit.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Info_GetNodeAttr(
    name: InText,
    value: OutText,
    valuelen: c_int,
    found: OutNumber<'_>,
    waitfor: c_int,
) -> c_int {
    attribute(&name, value, valuelen, found, |session, key| {
        node_attribute(session, key, waitfor != 0)
    })
}

/// Reads an attribute of this node that is a list of numbers, and their number. `found` is 0 if there is
/// none.
///
/// Returns: `NOMEM` if the array is too small; `outlen` is the number of elements needed then.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Info_GetNodeAttrIntArray(
    name: InText,
    array: OutArray,
    arraylen: c_int,
    outlen: OutNumber<'_>,
    found: OutNumber<'_>,
) -> c_int {
    numbers(&name, array, arraylen, outlen, found, |session, key| {
        node_attribute(session, key, false)
    })
}

/// Reads an attribute that the process manager sets for the job. `found` is 0 if there is none.
///
/// Returns: `NOMEM` if the value and its NUL do not fit.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Info_GetJobAttr(
    name: InText,
    value: OutText,
    valuelen: c_int,
    found: OutNumber<'_>,
) -> c_int {
    attribute(&name, value, valuelen, found, |session, key| session.job_attribute(key))
}

/// Reads an attribute of the job that is a list of numbers, and their number. `found` is 0 if there is none.
///
/// Returns: `NOMEM` if the array is too small; `outlen` is the number of elements needed then.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Info_GetJobAttrIntArray(
    name: InText,
    array: OutArray,
    arraylen: c_int,
    outlen: OutNumber<'_>,
    found: OutNumber<'_>,
) -> c_int {
    numbers(&name, array, arraylen, outlen, found, |session, key| session.job_attribute(key))
}

/// The number of processes on this node. Spec: the common header.
#[allow(unsafe_code, reason = "a name for programs in C")]
#[unsafe(no_mangle)]
pub extern "C" fn PMI2_Info_GetSize(size: OutNumber<'_>) -> c_int {
    fact(size, |session| c_int::try_from(node::local_ranks(session)?.len()).map_err(|_| Code::FAIL))
}

/// An attribute of the node; the local ranks also if the server does not keep them as attributes.
fn node_attribute(session: &dyn Session, key: &[u8], wait: bool) -> CodeResult<Option<Vec<u8>>> {
    let is_known = matches!(key, LOCAL_RANKS | LOCAL_RANKS_COUNT);
    let found = session.get_node(key, wait && !is_known)?;
    if found.is_some() || !is_known {
        return Ok(found);
    }
    let Ok(ranks) = node::local_ranks(session) else { return Ok(None) };
    let text = match key {
        LOCAL_RANKS => ranks.iter().map(c_int::to_string).collect::<Vec<_>>().join(","),
        _ => ranks.len().to_string(),
    };
    Ok(Some(text.into_bytes()))
}

fn attribute(
    name: &InText,
    value: OutText,
    valuelen: c_int,
    mut found: OutNumber<'_>,
    read: impl FnOnce(&dyn Session, &[u8]) -> CodeResult<Option<Vec<u8>>>,
) -> c_int {
    call(|| {
        let session = process::session()?;
        let key = key_of(&*session, name)?;
        let value = value.wanted(valuelen)?;
        let attribute = read(&*session, key)?;
        report_found(&mut found, attribute.is_some())?;
        match attribute.zip(value) {
            Some((text, mut value)) => value.write(valuelen, &text, Code::NOMEM),
            None => Ok(()),
        }
    })
}

fn numbers(
    name: &InText,
    array: OutArray,
    arraylen: c_int,
    mut outlen: OutNumber<'_>,
    mut found: OutNumber<'_>,
    read: impl FnOnce(&dyn Session, &[u8]) -> CodeResult<Option<Vec<u8>>>,
) -> c_int {
    call(|| {
        let session = process::session()?;
        let key = key_of(&*session, name)?;
        let array = array.wanted(arraylen)?;
        let attribute = read(&*session, key)?;
        report_found(&mut found, attribute.is_some())?;
        let list = attribute.map_or(Ok(Vec::new()), |text| list_of(&text))?;
        let len = c_int::try_from(list.len()).map_err(|_| Code::FAIL)?;
        write_wanted(&mut outlen, len);
        let Some(mut array) = array else { return Ok(()) };
        array.write_start(arraylen, &list)?;
        if len > arraylen { Err(Code::NOMEM) } else { Ok(()) }
    })
}

/// Reports whether there is an attribute: by the code, if the caller does not want the number.
fn report_found(found: &mut OutNumber<'_>, is_found: bool) -> CodeResult<()> {
    if found.is_none() && !is_found {
        return Err(Code::INVALID_KEY);
    }
    write_wanted(found, c_int::from(is_found));
    Ok(())
}

/// Numbers with commas between.
fn list_of(text: &[u8]) -> CodeResult<Vec<c_int>> {
    let text = str::from_utf8(text).map_err(|_| Code::INVALID_VAL)?;
    let numbers = text.split(',').filter(|_| !text.is_empty());
    numbers.map(|number| number.trim().parse().map_err(|_| Code::INVALID_VAL)).collect()
}

/// Attribute with the ranks on a node. Spec: PMI v2 API, `PMI2_Info_GetNodeAttrIntArray`.
const LOCAL_RANKS: &[u8] = b"localRanks";
/// Attribute with their number.
const LOCAL_RANKS_COUNT: &[u8] = b"localRanksCount";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_numbers_is_read_and_other_text_is_an_invalid_value() {
        assert_eq!(list_of(b""), Ok(vec![]));
        assert_eq!(list_of(b"-1, 2,3"), Ok(vec![-1, 2, 3]));
        assert_eq!(list_of(b"1,,2"), Err(Code::INVALID_VAL));
        assert_eq!(list_of(b"(vector,(0,1,1))"), Err(Code::INVALID_VAL));
    }
}
