//! A message as fields, each with the place of its bytes.

#[cfg(any(feature = "pmix", feature = "recorded"))]
pub(crate) mod connection;
#[cfg(feature = "tree")]
pub(crate) mod nodes;
pub(crate) mod pmix;

/// In the module that the page begins with, no message depends on earlier ones.
#[cfg(not(any(feature = "pmix", feature = "recorded")))]
pub(crate) mod connection {
    use super::Fields;

    /// State of one connection: none.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct PmixConversation;

    impl PmixConversation {
        /// Leaves the fields as they are.
        pub(crate) const fn describe(
            &mut self,
            _: &mut Fields,
            _: &[u8],
            _: bool,
        ) -> Option<&'static str> {
            None
        }
    }
}

use pmi_core::command::Verb;
use pmi_core::wire::{Framed, names, pmi2};

/// Fields of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    /// The wire format: `lines`, `frames`, `pmix` or `nodes`; empty if it is none of them.
    pub(crate) dialect: &'static str,
    /// Its fields, in their order.
    pub(crate) fields: Vec<MessageField>,
}

/// A field, and its position in the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageField {
    /// Start of the field.
    pub(crate) start: usize,
    /// Start of the value.
    pub(crate) value: usize,
    /// End of the field.
    pub(crate) end: usize,
    /// Its name.
    pub(crate) name: String,
    /// The value in words, if its bytes are no text.
    pub(crate) text: Option<String>,
}

impl Fields {
    /// Splits a message into fields. Bytes without a name belong to the value before them.
    pub(crate) fn of(message: &[u8], is_request: bool) -> Self {
        let is_line = [&b"cmd="[..], b"mcmd="].iter().any(|word| message.starts_with(word));
        if is_line {
            return Self { dialect: "lines", fields: lines(message) };
        }
        if PMIX && let Some(fields) = pmix::of(message, is_request) {
            return fields;
        }
        match pmi2::frame(message) {
            Ok(Framed::Whole(_)) => Self { dialect: "frames", fields: frames(message) },
            _ => Self::default(),
        }
    }

    /// The value of the first field of this name.
    pub(crate) fn value<'a>(&self, message: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        message.get(field.value..field.end)
    }

    /// The tag that a reply of PMIx shares with its request.
    pub(crate) fn tag(&self, message: &[u8]) -> Option<u32> {
        (PMIX && self.dialect == pmix::DIALECT).then(|| pmix::tag(message)).flatten()
    }

    /// Common name of the exchange; `None` if the message belongs to none.
    pub(crate) fn display_name(&self, message: &[u8], is_request: bool) -> Option<&'static str> {
        if PMIX && self.dialect == pmix::DIALECT {
            return pmix::display_name(message, is_request);
        }
        let word = self.value(message, "cmd").or_else(|| self.value(message, "mcmd"))?;
        let asked = word.strip_suffix(names::RESPONSE).unwrap_or(word);
        let found = match (self.dialect, is_request) {
            ("frames", _) => names::find(asked, |words| words.frame),
            (_, true) => names::find(word, |words| words.line),
            (_, false) => names::find(word, |words| words.line_reply),
        };
        let other = || (word == names::CHALLENGE).then_some(Verb::FullInit);
        found.or_else(other).map(names::display_name)
    }
}

/// True if messages of PMIx are among what is read: not in what the page begins with.
pub(crate) const PMIX: bool = cfg!(any(feature = "pmix", feature = "recorded"));

/// The fields of lines, which end with blanks and line ends.
fn lines(message: &[u8]) -> Vec<MessageField> {
    let mut fields = Vec::new();
    cut(message, 0, |byte| matches!(byte, b' ' | b'\n'), &mut fields);
    fields
}

/// The fields of a frame, which end with semicolons, behind its length.
fn frames(message: &[u8]) -> Vec<MessageField> {
    let end = LENGTH_DIGITS;
    let length = MessageField { end, name: "length".into(), ..MessageField::default() };
    let mut fields = vec![length];
    cut(&message[end..], end, |byte| *byte == b';', &mut fields);
    fields
}

/// Adds the fields of `message`, which begins at `at`. A piece without a name belongs to the field before.
fn cut(message: &[u8], mut at: usize, ends: fn(&u8) -> bool, fields: &mut Vec<MessageField>) {
    for token in message.split(ends) {
        let end = at + token.len();
        match (token.iter().position(|byte| *byte == b'='), fields.last_mut()) {
            (Some(name), _) if name > 0 => fields.push(field(token, at, name, end)),
            (_, Some(before)) if !token.is_empty() => before.end = end,
            _ => {}
        }
        at = end + 1;
    }
}

fn field(token: &[u8], start: usize, name_len: usize, end: usize) -> MessageField {
    let name = token[..name_len].iter().map(|byte| char::from(*byte)).collect();
    MessageField { start, value: start + name_len + 1, end, name, text: None }
}

const LENGTH_DIGITS: usize = pmi_core::limits::PMI2_LENGTH_DIGITS;

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_up(message: &[u8]) -> Vec<(String, String)> {
        let fields = Fields::of(message, true);
        let pair = |field: &MessageField| {
            let value = String::from_utf8_lossy(&message[field.value..field.end]).into_owned();
            (field.name.clone(), value)
        };
        fields.fields.iter().map(pair).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn line_is_cut_at_blanks_and_a_value_may_hold_some() {
        let message = b"cmd=get_result rc=0 msg=not found value=a b=c\n";
        let expected = pairs(&[
            ("cmd", "get_result"),
            ("rc", "0"),
            ("msg", "not found"),
            ("value", "a"),
            ("b", "c"),
        ]);
        assert_eq!(cut_up(message), expected);
        assert_eq!(Fields::of(message, true).dialect, "lines");
        assert_eq!(Fields::of(message, true).display_name(message, false), Some("get"));
    }

    #[test]
    fn frame_is_cut_at_semicolons_behind_its_length() {
        let expected =
            pairs(&[("length", "    26"), ("cmd", "kvs-put"), ("key", "k"), ("value", "v")]);
        assert_eq!(cut_up(b"    27cmd=kvs-put;key=k;value=v;"), [], "it has not ended yet");
        let message = b"    26cmd=kvs-put;key=k;value=v;";
        assert_eq!(cut_up(message), expected);
        assert_eq!(Fields::of(message, true).display_name(message, true), Some("put"));
        let answer = b"    26cmd=kvs-put-response;rc=0;";
        assert_eq!(Fields::of(answer, false).display_name(answer, false), Some("put"));
    }

    #[test]
    fn bytes_that_are_no_message_have_no_fields() {
        for bytes in [&b""[..], b"hello\n", b"\xff\x00", b"     9cmd"] {
            assert_eq!(Fields::of(bytes, true), Fields::default());
        }
    }
}
