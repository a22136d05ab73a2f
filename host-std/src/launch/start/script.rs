//! Text without a first line that names an interpreter, which the system does not run by itself: `execvp` and
//! every shell give it to `/bin/sh`.

use pmi_host_base::user_file;
use std::ffi::{CStr, CString, OsStr};
use std::io::Read;
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

/// First bytes of a file, if it can be read.
pub(super) fn start(path: &CStr) -> Option<Vec<u8>> {
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
}
