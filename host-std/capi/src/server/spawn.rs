//! A spawn as C callers read it.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use pmi_std::server::{SpawnProgram, SpawnRequest};

/// `pmi_server_pair`, lent to a callback.
#[repr(C)]
#[derive(Debug)]
pub struct OutPair {
    key: *const c_char,
    value: *const c_char,
}

/// `pmi_server_program`, lent to a callback.
#[repr(C)]
#[derive(Debug)]
pub struct OutProgram {
    arguments: *const *const c_char,
    processes: c_int,
    info_count: c_int,
    info: *const OutPair,
}

/// `pmi_server_spawn`, lent to a callback.
#[repr(C)]
#[derive(Debug)]
pub struct OutSpawn {
    id: u64,
    job: u32,
    program_count: c_int,
    programs: *const OutProgram,
    preput_count: c_int,
    preputs: *const OutPair,
}

/// The strings of a spawn.
pub(super) struct SpawnTexts {
    programs: Vec<ProgramTexts>,
    preputs: Vec<PairTexts>,
}

/// The arguments of a program, its executable first, and its hints.
struct ProgramTexts {
    arguments: Vec<CString>,
    processes: c_int,
    info: Vec<PairTexts>,
}

type PairTexts = (CString, CString);

impl SpawnTexts {
    /// The strings of a request; `None` for one that C cannot express, such as a NUL in an argument.
    pub(super) fn new(request: &SpawnRequest) -> Option<Self> {
        let programs = request.programs.iter().map(ProgramTexts::new).collect::<Option<_>>()?;
        Some(Self { programs, preputs: pairs(&request.preputs)? })
    }

    /// Lends the structure of C; its pointers are valid until `take` returns.
    pub(super) fn lend(&self, request: &SpawnRequest, take: impl FnOnce(&OutSpawn)) {
        let arguments: Vec<Vec<*const c_char>> = self.programs.iter().map(argv).collect();
        let infos: Vec<Vec<OutPair>> =
            self.programs.iter().map(|program| lent(&program.info)).collect();
        let each = self.programs.iter().zip(&arguments).zip(&infos);
        let programs: Vec<OutProgram> = each
            .map(|((program, arguments), info)| OutProgram {
                arguments: arguments.as_ptr(),
                processes: program.processes,
                info_count: count(info),
                info: info.as_ptr(),
            })
            .collect();
        let preputs = lent(&self.preputs);
        take(&OutSpawn {
            id: request.id.to_bits(),
            job: request.job.0,
            program_count: count(&programs),
            programs: programs.as_ptr(),
            preput_count: count(&preputs),
            preputs: preputs.as_ptr(),
        });
    }
}

impl ProgramTexts {
    fn new(program: &SpawnProgram) -> Option<Self> {
        let words = [&program.executable].into_iter().chain(&program.arguments);
        let arguments = words.map(|word| CString::new(word.clone()).ok()).collect::<Option<_>>()?;
        let processes = c_int::try_from(program.processes).ok()?;
        Some(Self { arguments, processes, info: pairs(&program.info)? })
    }
}

fn pairs(pairs: &[(Vec<u8>, Vec<u8>)]) -> Option<Vec<PairTexts>> {
    let text = |bytes: &Vec<u8>| CString::new(bytes.clone()).ok();
    pairs.iter().map(|(key, value)| Some((text(key)?, text(value)?))).collect()
}

fn argv(program: &ProgramTexts) -> Vec<*const c_char> {
    program.arguments.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect()
}

fn lent(pairs: &[PairTexts]) -> Vec<OutPair> {
    let lent = pairs.iter().map(|(key, value)| (key.as_ptr(), value.as_ptr()));
    lent.map(|(key, value)| OutPair { key, value }).collect()
}

/// Numbers of programs and pairs are bounded by the length of a message.
fn count<T>(of: &[T]) -> c_int {
    c_int::try_from(of.len()).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_with_a_nul_has_no_string_of_c() {
        let program = |argument: &[u8]| SpawnProgram {
            executable: b"a".to_vec(),
            arguments: vec![argument.to_vec()],
            processes: 1,
            info: Vec::new(),
        };
        assert!(ProgramTexts::new(&program(b"b")).is_some());
        assert!(ProgramTexts::new(&program(b"b\0c")).is_none());
    }
}
