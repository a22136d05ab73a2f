//! Starting processes, in both interfaces: arrays of C callers become one request.

use std::ffi::{c_char, c_int};

use pmi_core::command::{Argument, InfoList, Pair, Program, Spawn, Text};
use pmi_core::error::Code;

use crate::boundary::call;
use crate::code::CodeResult;
use crate::process;
use crate::text::{InArray, InText, OutArray};

/// `PMI_keyval_t`: a key and its value.
#[repr(C)]
#[derive(Debug)]
pub struct KeyValue {
    /// The key.
    pub key: InText,
    /// The value.
    pub val: InText,
}

/// One program, as the arrays of a caller describe it.
pub(crate) struct RequestedProgram<'a> {
    pub(crate) executable: &'a [u8],
    pub(crate) processes: u32,
    pub(crate) arguments: Vec<Text<'a>>,
    pub(crate) info: Vec<Pair<'a>>,
}

/// Starts processes as a job of their own and waits until the server has answered.
///
/// Shape: each list of arguments ends with a null pointer, or is one; `errors` has one element for each
/// requested process, or is null.
#[allow(unsafe_code, reason = "a name for programs in C")]
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the prototype of the specification")]
pub extern "C" fn PMI_Spawn_multiple(
    count: c_int,
    cmds: InArray<InText>,
    argvs: InArray<InArray<InText>>,
    maxprocs: InArray<c_int>,
    info_keyval_sizes: InArray<c_int>,
    info_keyval_vectors: InArray<InArray<KeyValue>>,
    preput_keyval_size: c_int,
    preput_keyval_vector: InArray<KeyValue>,
    mut errors: OutArray,
) -> c_int {
    call(|| {
        let session = process::session()?;
        let count = positive(count)?;
        let info = |at: usize| -> CodeResult<Vec<Pair<'_>>> {
            let Some(sizes) = info_keyval_sizes.elements(count) else { return Ok(Vec::new()) };
            let len = length(sizes[at])?;
            if len == 0 {
                return Ok(Vec::new());
            }
            let vectors = info_keyval_vectors.elements(count).ok_or(Code::INVALID_ARG)?;
            pairs(vectors[at].elements(len).ok_or(Code::INVALID_ARG)?)
        };
        let programs = requested(count, &cmds, &argvs, None, &maxprocs, info)?;
        let preputs = match length(preput_keyval_size)? {
            0 => Vec::new(),
            len => pairs(preput_keyval_vector.elements(len).ok_or(Code::INVALID_ARG)?)?,
        };
        start(&*session, &programs, &preputs, &mut errors).map(drop)
    })
}

/// The programs of the parallel arrays of a caller. Without `argcs` a null pointer ends each list of
/// arguments.
pub(crate) fn requested<'a>(
    count: usize,
    cmds: &'a InArray<InText>,
    argvs: &'a InArray<InArray<InText>>,
    argcs: Option<&'a [c_int]>,
    maxprocs: &'a InArray<c_int>,
    info: impl Fn(usize) -> CodeResult<Vec<Pair<'a>>>,
) -> CodeResult<Vec<RequestedProgram<'a>>> {
    let cmds = cmds.elements(count).ok_or(Code::INVALID_ARG)?;
    let maxprocs = maxprocs.elements(count).ok_or(Code::INVALID_ARG)?;
    let argvs = argvs.elements(count);
    let program = |at: usize| {
        let executable = cmds[at].required(Code::INVALID_ARG)?;
        let processes = u32::try_from(maxprocs[at]).ok().filter(|number| *number > 0);
        let list = match (argvs.map(|argvs| &argvs[at]), argcs) {
            (None, _) => None,
            (Some(list), Some(argcs)) => list.elements(length(argcs[at])?),
            (Some(list), None) => list.until(|argument| argument.bytes().is_none()),
        };
        let arguments = list.unwrap_or_default().iter().filter_map(InText::bytes);
        Ok(RequestedProgram {
            executable: Some(executable)
                .filter(|text| !text.is_empty())
                .ok_or(Code::INVALID_ARG)?,
            processes: processes.ok_or(Code::INVALID_ARG)?,
            arguments: arguments.map(Text::plain).collect(),
            info: info(at)?,
        })
    };
    (0..count).map(program).collect()
}

/// Sends the request; returns the id of the new job, if the server reports it.
///
/// Shape: `errors` has one element for each requested process, or is null. It is written also if the spawn
/// fails: a process whose code the server does not report has that of the call.
pub(crate) fn start(
    session: &dyn crate::session::Session,
    requested: &[RequestedProgram<'_>],
    preputs: &[Pair<'_>],
    errors: &mut OutArray,
) -> CodeResult<Option<Vec<u8>>> {
    let programs: Vec<Program<'_>> = requested
        .iter()
        .map(|program| Program {
            executable: Text::plain(program.executable),
            processes: program.processes,
            arguments: Argument::Given(&program.arguments),
            info: InfoList::Given(&program.info),
        })
        .collect();
    let total: u64 = requested.iter().map(|program| u64::from(program.processes)).sum();
    let total = usize::try_from(total).map_err(|_| Code::INVALID_ARG)?;
    let (job, reported, unreported) =
        match session.spawn(Spawn::Given { programs: &programs, preputs }) {
            // Servers leave codes out that are all zero.
            Ok(spawned) => (Ok(spawned.job), spawned.codes, Code::SUCCESS),
            Err(refusal) => (Err(refusal.code), refusal.codes, refusal.code),
        };
    if !errors.is_null() {
        let codes = reported.into_iter().chain(std::iter::repeat(unreported)).take(total);
        errors.write_start(c_int::MAX, &codes.map(|code| code.0).collect::<Vec<_>>())?;
    }
    job
}

/// Pairs of a caller's array.
fn pairs<'a>(keyvals: &'a [KeyValue]) -> CodeResult<Vec<Pair<'a>>> {
    let pair = |keyval: &'a KeyValue| {
        let (key, value) = (keyval.key.bytes(), keyval.val.bytes());
        key.zip(value)
            .map(|(key, value)| Pair { key: Text::plain(key), value: Text::plain(value) })
            .ok_or(Code::INVALID_ARG)
    };
    keyvals.iter().map(pair).collect()
}

/// A count of at least one.
pub(crate) fn positive(count: c_int) -> CodeResult<usize> {
    length(count).and_then(|count| if count == 0 { Err(Code::INVALID_ARG) } else { Ok(count) })
}

/// A count that may be none.
pub(crate) fn length(count: c_int) -> CodeResult<usize> {
    usize::try_from(count).map_err(|_| Code::INVALID_ARG)
}

// The layout of `pmi.h`.
const _: () = assert!(size_of::<KeyValue>() == 2 * size_of::<*const c_char>());
