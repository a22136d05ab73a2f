//! Messages as Hydra shows them, converted to messages as they were sent.

use pmi_core::command::Version;
use pmi_core::limits::PMI2_LENGTH_DIGITS;
use pmi_core::wire::{Framed, pmi1};

/// A message that is shown whole, but without its line end, or without blanks in front of its length.
pub(super) fn whole(text: &[u8]) -> Vec<u8> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 {
        // The text on the left of the six places is still there.
        let is_left = text.get(digits) == Some(&b' ');
        let blanks =
            PMI2_LENGTH_DIGITS.saturating_sub(if is_left { PMI2_LENGTH_DIGITS } else { digits });
        return [&b"      "[..blanks], text].concat();
    }
    let word_end = text.iter().position(|byte| b" ;".contains(byte));
    match word_end.and_then(|at| text.get(at)) {
        Some(b';') => [format!("{:PMI2_LENGTH_DIGITS$}", text.len()).as_bytes(), text].concat(),
        _ => [text, b"\n"].concat(),
    }
}

/// A request, reassembled from its word and the line of its fields.
pub(super) fn rebuilt(word: &[u8], fields: &[u8], version: Option<Version>) -> Vec<u8> {
    let is_frame = version.is_some_and(|version| version.major == 2) && word != b"init";
    if is_frame {
        let mut body = [b"cmd=", word, b";"].concat();
        for field in pieces(fields) {
            // A client that puts the length on the left writes `;` twice in values.
            field.iter().for_each(|byte| match byte {
                b';' => body.extend(b";;"),
                byte => body.push(*byte),
            });
            body.push(b';');
        }
        return [format!("{:<PMI2_LENGTH_DIGITS$}", body.len()).as_bytes(), &body].concat();
    }
    if word != b"spawn" {
        let front = [b"cmd=", word].concat();
        let fields = fields.trim_ascii_end();
        let blank: &[u8] = if fields.is_empty() { b"" } else { b" " };
        return [front.as_slice(), blank, fields, b"\n"].concat();
    }
    let mut block = b"mcmd=spawn\n".to_vec();
    for field in pieces(fields) {
        block.extend(field);
        block.push(b'\n');
    }
    block
}

/// True if a block of lines has all its programs.
pub(super) fn has_ended(block: &[u8]) -> bool {
    !matches!(pmi1::frame_request(block), Ok(Framed::Partial))
}

/// The fields of a line: a word without `=` belongs to the value before it, unless it ends a program.
fn pieces(line: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    for word in line.trim_ascii_end().split(|byte| *byte == b' ') {
        let starts = |word: &[u8]| word.contains(&b'=') && !word.starts_with(b"=");
        match pieces.last_mut() {
            Some(last) if !starts(word) && word != b"endcmd" => {
                last.push(b' ');
                last.extend(word);
            }
            _ if word.is_empty() => {}
            // The block of the next program begins.
            Some(last) if last == b"endcmd" && word.starts_with(b"cmd=") => {
                pieces.push([b"m", word].concat());
            }
            _ => pieces.push(word.to_vec()),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_that_is_shown_gets_its_length_or_its_end_back() {
        for (shown, sent) in [
            ("cmd=get_result rc=0 value=a;b", "cmd=get_result rc=0 value=a;b\n"),
            (
                "38cmd=fullinit;pmirank=0;threaded=FALSE;",
                "    38cmd=fullinit;pmirank=0;threaded=FALSE;",
            ),
            ("14    cmd=job-getid;", "14    cmd=job-getid;"),
            ("cmd=kvs-put-response;rc=0;", "    26cmd=kvs-put-response;rc=0;"),
        ] {
            assert_eq!(String::from_utf8_lossy(&whole(shown.as_bytes())), sent);
        }
    }

    #[test]
    fn request_is_put_together_from_its_fields() {
        let two = Some(Version::V2_0);
        for (word, fields, version, sent) in [
            ("get_maxes", "", None, "cmd=get_maxes\n"),
            ("put", "kvsname=k key=a value=b c ", None, "cmd=put kvsname=k key=a value=b c\n"),
            (
                "spawn",
                "nprocs=1 arg1=a b info_num=0 endcmd ",
                None,
                "mcmd=spawn\nnprocs=1\narg1=a b\ninfo_num=0\nendcmd\n",
            ),
            ("kvs-put", "key=k value=k;=x y ", two, "32    cmd=kvs-put;key=k;value=k;;=x y;"),
            (
                "init",
                "pmi_version=2 pmi_subversion=0 ",
                two,
                "cmd=init pmi_version=2 pmi_subversion=0\n",
            ),
        ] {
            let rebuilt = rebuilt(word.as_bytes(), fields.as_bytes(), version);
            assert_eq!(String::from_utf8_lossy(&rebuilt), sent);
        }
    }
}
