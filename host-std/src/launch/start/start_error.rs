//! Causes for which the system does not start the program of a rank, with their remedies. They are looked for
//! where the rank was to start: the files of another host may differ.

use super::script;
use pmi_host_base::executable::{Obstacle, obstacle};
use pmi_host_base::image::loader;
use rustix::io::Errno;
use std::env::consts::ARCH;
use std::ffi::{CStr, OsStr};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Explains `error` from starting the program at `path` on `host`, which is this one. The kind of the result
/// decides on the exit code.
pub(crate) fn explained(error: Errno, path: &CStr, host: &str) -> io::Error {
    let file = Path::new(OsStr::from_bytes(path.to_bytes()));
    let (kind, why) = match error {
        Errno::NOENT | Errno::NOTDIR => return missing(error, path, host),
        Errno::NOEXEC => (ErrorKind::Unsupported, no_format(path, host)),
        Errno::ACCESS => (ErrorKind::PermissionDenied, refused(file, path, host)),
        Errno::AGAIN => (
            ErrorKind::WouldBlock,
            "the limit on processes of this user ('ulimit -u'), or that of a control group ('pids.max'), is \
             reached; start fewer ranks, or raise it"
                .to_owned(),
        ),
        Errno::NOMEM | Errno::MFILE | Errno::NFILE => (
            ErrorKind::OutOfMemory,
            "start fewer ranks, or raise the limits of this session ('ulimit -a' shows them)".to_owned(),
        ),
        Errno::TOOBIG => (
            ErrorKind::ArgumentListTooLong,
            "its arguments and variables are longer than the system takes; 'ulimit -s' bounds them all \
             together, and one of them has at most 128 KiB"
                .to_owned(),
        ),
        Errno::TXTBSY => (
            ErrorKind::ExecutableFileBusy,
            "a process has the file open for writing; start again when it is written".to_owned(),
        ),
        _ => return error.into(),
    };
    io::Error::new(kind, format!("{error}: {why}"))
}

/// Error for a directory in which a program was to start.
pub(crate) fn no_directory(error: &io::Error, directory: &Path, host: &str) -> io::Error {
    let why = format!(
        "'{}' cannot be entered on {host} ({error}); create it there, or name another with --wdir",
        directory.display()
    );
    io::Error::new(ErrorKind::NotADirectory, why)
}

/// Exit code of a shell when starting a program failed with `error`.
pub(crate) fn start_code(error: &io::Error) -> u8 {
    match error.kind() {
        // The program, its interpreter or its loader is missing.
        ErrorKind::NotFound => 127,
        ErrorKind::PermissionDenied => 126,
        // A program for another machine.
        ErrorKind::Unsupported => 126,
        _ if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => 126,
        _ => 1,
    }
}

/// Cause if the system does not find a file: the program, its interpreter, or its loader.
fn missing(error: Errno, path: &CStr, host: &str) -> io::Error {
    let file = Path::new(OsStr::from_bytes(path.to_bytes()));
    let why = if file.symlink_metadata().is_ok_and(|meta| meta.is_symlink())
        && file.metadata().is_err()
    {
        let target = file.read_link().unwrap_or_default();
        format!(
            "'{}' is a link to '{}', which is missing on {host}",
            whole(file).display(),
            target.display()
        )
    } else if file.metadata().is_err() {
        let file = whole(file);
        let above = file.ancestors().skip(1).filter(|directory| !directory.is_dir());
        let directory = above
            .last()
            .map(|directory| format!(", since there is no directory '{}'", directory.display()));
        format!(
            "there is no program '{}' on {host}{}; install it at the same path there, or have it sent with \
             '--stage'",
            file.display(),
            directory.unwrap_or_default()
        )
    } else if let Some(interpreter) = Interpreter::of(path) {
        interpreter.missing(error, host)
    } else if let Some(loader) = loader(file).filter(|loader| !loader.exists()) {
        format!(
            "{error}: its loader '{}' is missing on {host}; install the C library that it was built with \
             there, or link it statically",
            loader.display()
        )
    } else {
        error.to_string()
    };
    io::Error::new(ErrorKind::NotFound, why)
}

/// Cause if the system may not execute a file.
fn refused(file: &Path, path: &CStr, host: &str) -> String {
    if let Some(Obstacle::Unfit(why)) = obstacle(file) {
        return format!("on {host}, {why}");
    }
    let interpreter = Interpreter::of(path);
    let of_interpreter = interpreter.and_then(|Interpreter { name, file, .. }| {
        let Some(Obstacle::Unfit(why)) = obstacle(&file) else { return None };
        Some(format!("its first line names '{name}' on {host}, and {why}"))
    });
    of_interpreter.unwrap_or_else(|| {
        format!("the permissions on {host} allow it, so a security module there may refuse it")
    })
}

/// Cause if the system knows no way to execute a file.
fn no_format(path: &CStr, host: &str) -> String {
    let start = script::start(path).unwrap_or_default();
    match machine(&start) {
        Some(machine) if machine == ARCH => format!(
            "it is a binary for this machine, {ARCH}, that {host} cannot load; it may be incomplete, so \
             copy or build it again"
        ),
        Some(machine) => format!(
            "it is a program for {machine}, and {host} is a machine of {ARCH}; build it for {ARCH}"
        ),
        None => {
            "a script must begin with '#!' and its interpreter, a binary must be for this machine"
                .to_owned()
        }
    }
}

/// Path with the directory in which the program was to start.
fn whole(file: &Path) -> PathBuf {
    let directory = std::env::current_dir().unwrap_or_default();
    // Without the "." of a path such as "./a.out".
    directory.join(file).components().collect()
}

/// Interpreter in the first line of a script.
struct Interpreter {
    /// Its path in printable letters.
    name: String,
    file: PathBuf,
}

impl Interpreter {
    fn of(path: &CStr) -> Option<Self> {
        let start = script::start(path)?;
        let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
        // The system removes blanks only.
        let line = line.trim_ascii_start();
        let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
        let (name, file) =
            (line[..end].escape_ascii().to_string(), OsStr::from_bytes(&line[..end]).into());
        Some(Self { name, file })
    }

    fn missing(&self, error: Errno, host: &str) -> String {
        let Self { name, file } = self;
        let why = match loader(file).filter(|loader| !loader.exists()) {
            Some(loader) => {
                format!("the loader of the interpreter, '{}', is missing", loader.display())
            }
            None => "the interpreter is missing".to_owned(),
        };
        let remedy = match name.ends_with("\\r") {
            true => {
                "; lines end with a carriage return there, as editors on Windows write them, and \
                 sed -i 's/\\r$//' takes it out"
            }
            false => "; install it there, or name another one",
        };
        format!("{error}: its first line names '{name}', and {why} on {host}{remedy}")
    }
}

/// Machine of a program, by the first bytes of its file; `None` if it is none.
///
/// Spec: ELF header, `EI_DATA` and `e_machine`.
fn machine(start: &[u8]) -> Option<String> {
    let header = start.strip_prefix(b"\x7fELF")?;
    let (order, bytes) = (*header.get(1)?, [*header.get(14)?, *header.get(15)?]);
    let number = if order == 2 { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) };
    let known = MACHINES.iter().find(|(known, _)| *known == number);
    Some(known.map_or_else(|| format!("machine {number}"), |(_, name)| (*name).to_owned()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::fs;
    use tempfile::NamedTempFile;

    /// A file and its path.
    fn file(content: &[u8]) -> (NamedTempFile, CString) {
        let file = NamedTempFile::new().unwrap();
        fs::write(&file, content).unwrap();
        let path = CString::new(file.path().as_os_str().as_bytes()).unwrap();
        (file, path)
    }

    /// Start of a program of this byte order for a machine.
    fn header(order: u8, machine: [u8; 2]) -> Vec<u8> {
        let ident = [b"\x7fELF\x02".as_slice(), &[order, 1, 0], &[0; 8]].concat();
        [ident.as_slice(), &[2, 0], &machine].concat()
    }

    fn said(error: Errno, content: &[u8]) -> String {
        explained(error, &file(content).1, "n1").to_string()
    }

    #[test]
    fn machine_of_a_foreign_program_and_a_limit_are_named() {
        let error = explained(Errno::NOEXEC, &file(&header(1, [183, 0])).1, "n1");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(text.contains("a program for aarch64, and n1 is a machine of"), "{text}");
        assert_eq!(machine(&header(2, [0, 22])).as_deref(), Some("s390x"));
        assert_eq!((machine(b"#!/bin/sh"), machine(b"\x7fELF")), (None, None));
        let own = fs::read("/proc/self/exe").unwrap();
        let text = said(Errno::NOEXEC, &own[..64]);
        assert!(text.contains("may be incomplete") && !text.contains("#!"), "{text}");
        let limit = explained(Errno::AGAIN, c"/bin/true", "n1").to_string();
        assert!(limit.contains("ulimit -u") && limit.contains("fewer ranks"), "{limit}");
    }

    #[test]
    fn interpreter_that_is_not_there_is_named() {
        let said = |content: &[u8]| said(Errno::NOENT, content);
        let text = said(b"#! /no/such -x\nbody");
        assert!(
            text.contains(
                ": its first line names '/no/such', and the interpreter is missing on n1"
            )
        );
        assert!(said(b"#!/bin/sh\r\nbody").contains("names '/bin/sh\\r'"));
        assert!(said(b"#!/bin/sh\r\nbody").contains("lines end with a carriage"));
        assert!(!said(b"\x7fELF").contains("first line"));
    }

    #[test]
    fn loader_that_is_not_there_is_named() {
        let mut own = fs::read("/proc/self/exe").unwrap();
        let Some(loader) = loader(Path::new("/proc/self/exe")) else { return };
        let name = loader.as_os_str().as_bytes();
        let at = own.windows(name.len()).position(|bytes| bytes == name).unwrap();
        own[at + 1..at + 4].copy_from_slice(b"xyz");
        let text = said(Errno::NOENT, &own);
        assert!(text.contains("its loader '/xyz") && text.contains("is missing on n1"), "{text}");
    }

    #[test]
    fn file_that_is_not_there_is_named_with_the_host_and_the_directory() {
        let error = explained(Errno::NOENT, c"/no/such/program", "n1");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let start = "there is no program '/no/such/program' on n1, since there is no directory '/no'; \
                     install";
        assert!(error.to_string().starts_with(start), "{error}");
        let error = explained(Errno::NOENT, c"./no-such-program", "n1").to_string();
        let directory = std::env::current_dir().unwrap();
        assert!(
            error.contains(&format!("'{}/no-such-program' on n1; ", directory.display())),
            "{error}"
        );
    }

    #[test]
    fn interpreter_that_may_not_be_executed_is_named() {
        let error = explained(Errno::ACCESS, &file(b"#!/etc/passwd\n").1, "n1");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        // The script itself is not executable, which is the first obstacle.
        assert!(error.to_string().contains("chmod +x"), "{error}");
        let (script, path) = file(b"#!/etc/passwd\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&script, mode).unwrap();
        let error = explained(Errno::ACCESS, &path, "n1").to_string();
        assert!(
            error.contains("its first line names '/etc/passwd' on n1, and it is not"),
            "{error}"
        );
    }

    #[test]
    fn codes_of_failed_starts_follow_the_shell() {
        assert_eq!(start_code(&io::Error::from(ErrorKind::NotFound)), 127);
        assert_eq!(start_code(&io::Error::from(Errno::NOEXEC)), 126);
        assert_eq!(start_code(&io::Error::from(Errno::AGAIN)), 1);
    }
}
