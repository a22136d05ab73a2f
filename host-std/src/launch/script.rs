//! Programs that the system does not run by itself: text without a first line that names an interpreter
//! (`execvp` and every shell give it to `/bin/sh`), and text with a missing interpreter.

use pmi_host_base::user_file;
use rustix::io::Errno;
use std::env::consts::ARCH;
use std::ffi::{CStr, CString, OsStr};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

/// Interpreter of text that names none.
pub(crate) const SHELL: &CStr = c"/bin/sh";

/// Arguments of [`SHELL`] in place of the program at `path` with its `words`, of which the first is its
/// name; `None` unless the program is text.
pub(crate) fn by_shell(path: &CStr, words: &[CString]) -> Option<Vec<CString>> {
    let start = start(path)?;
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    // A truncated program, or one for another machine, must not be run as commands.
    if start.is_empty() || line.contains(&0) {
        return None;
    }
    let fixed = [SHELL.to_owned(), c"--".to_owned(), path.to_owned()];
    Some(fixed.into_iter().chain(words.iter().skip(1).cloned()).collect())
}

/// Extends `error` from starting the program at `path` with a diagnosis of its first line.
pub(crate) fn explained(error: Errno, path: &CStr) -> io::Error {
    if error == Errno::AGAIN {
        let why = "the limit on processes of this user ('ulimit -u'), or that of a control group \
                   ('pids.max'), is reached";
        return io::Error::new(io::ErrorKind::WouldBlock, format!("{error}: {why}"));
    }
    if error == Errno::NOEXEC
        && let Some(machine) = start(path).as_deref().and_then(machine)
    {
        let why = format!("{error}: it is a program for {machine}, and this machine is {ARCH}");
        return io::Error::new(io::ErrorKind::Unsupported, why);
    }
    let error = io::Error::from(error);
    // Other kinds of files are not opened: a pipe would block.
    let start = if error.kind() == io::ErrorKind::NotFound { start(path) } else { None };
    let start = start.unwrap_or_default();
    let Some(line) = start.strip_prefix(b"#!") else { return error };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    // The system removes blanks only.
    let line = line.trim_ascii_start();
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let name = line[..end].escape_ascii();
    let why = match line[..end].ends_with(b"\r") {
        true => {
            "; lines end with a carriage return there, as editors on Windows write them, and \
                 sed -i 's/\\r$//' takes it out"
        }
        false => "",
    };
    io::Error::new(error.kind(), format!("{error}: its first line names '{name}'{why}"))
}

/// Machine of a program, by the first bytes of its file; `None` if it is none, or one for this machine.
///
/// Spec: ELF header, `EI_DATA` and `e_machine`.
fn machine(start: &[u8]) -> Option<String> {
    let header = start.strip_prefix(b"\x7fELF")?;
    let (order, bytes) = (*header.get(1)?, [*header.get(14)?, *header.get(15)?]);
    let number = if order == 2 { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) };
    let known = MACHINES.iter().find(|(known, _)| *known == number);
    let name = known.map_or_else(|| format!("machine {number}"), |(_, name)| (*name).to_owned());
    Some(name).filter(|name| name != ARCH)
}

/// Numbers of machines in ELF files, with their names in Rust and in `uname -m`.
const MACHINES: &[(u16, &str)] = &[
    (3, "x86"),
    (8, "mips"),
    (20, "powerpc"),
    (21, "powerpc64"),
    (22, "s390x"),
    (40, "arm"),
    (43, "sparc64"),
    (62, "x86_64"),
    (183, "aarch64"),
    (243, "riscv64"),
    (258, "loongarch64"),
];

/// First bytes of a file, if it can be read.
fn start(path: &CStr) -> Option<Vec<u8>> {
    let mut start = Vec::new();
    let file = user_file::open_program(OsStr::from_bytes(path.to_bytes()).as_ref()).ok()?;
    file.take(LOOKED_AT).read_to_end(&mut start).ok()?;
    Some(start)
}

/// Number of bytes in which the system looks for a first line.
const LOOKED_AT: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::NamedTempFile;

    /// A file and its path.
    fn file(content: &[u8]) -> (NamedTempFile, CString) {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(&file, content).unwrap();
        let path = CString::new(file.path().as_os_str().as_bytes()).unwrap();
        (file, path)
    }

    #[test]
    fn only_text_is_given_to_the_shell() {
        let words = [c"name".to_owned(), c"a b".to_owned()];
        let (_file, text) = file(b"echo x\n\0behind it anything may stand");
        let read = by_shell(&text, &words).unwrap();
        assert_eq!(read, [c"/bin/sh".into(), c"--".into(), text, c"a b".to_owned()]);
        for content in [&b"\x7fELF\x02\x01\x01\0\0\n"[..], b""] {
            assert_eq!(by_shell(&file(content).1, &words), None);
        }
        assert_eq!(by_shell(c"/no/such/file", &words), None);
    }

    #[test]
    fn machine_of_a_foreign_program_and_a_limit_are_named() {
        let header = |order: u8, machine: [u8; 2]| {
            let ident = [b"\x7fELF\x02".as_slice(), &[order, 1, 0], &[0; 8]].concat();
            [ident.as_slice(), &[2, 0], &machine].concat()
        };
        let error = explained(Errno::NOEXEC, &file(&header(1, [183, 0])).1);
        assert!(
            error.to_string().contains("a program for aarch64, and this machine is"),
            "{error}"
        );
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert_eq!(machine(&header(2, [0, 22])).as_deref(), Some("s390x"));
        assert_eq!((machine(b"#!/bin/sh"), machine(b"\x7fELF")), (None, None));
        let limit = explained(Errno::AGAIN, c"/bin/true").to_string();
        assert!(limit.contains("ulimit -u"), "{limit}");
    }

    #[test]
    fn interpreter_that_is_not_there_is_named() {
        let said = |content: &[u8]| explained(Errno::NOENT, &file(content).1).to_string();
        assert!(said(b"#! /no/such -x\nbody").ends_with(": its first line names '/no/such'"));
        assert!(
            said(b"#!/bin/sh\r\nbody").contains("names '/bin/sh\\r'; lines end with a carriage")
        );
        assert!(!said(b"\x7fELF").contains("first line"));
        let other = explained(Errno::ACCESS, &file(b"#!/bin/sh\n").1);
        assert_eq!(other.kind(), io::ErrorKind::PermissionDenied);
        assert!(!other.to_string().contains("first line"));
    }
}
