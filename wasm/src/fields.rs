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
        if is_line(message) {
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
        if self.dialect != "frames" {
            return name_of_line(word, is_request);
        }
        let asked = word.strip_suffix(names::RESPONSE).unwrap_or(word);
        let found = names::find(asked, |words| words.frame);
        found.or_else(|| challenge(word)).map(names::display_name)
    }
}

/// True for messages of PMI-1.
pub(crate) fn is_line(message: &[u8]) -> bool {
    [&b"cmd="[..], b"mcmd="].iter().any(|word| message.starts_with(word))
}

/// The command of a line, and its result if it has one, without a list of its fields: of a hundred thousand
/// lines nothing else is needed at first.
pub(crate) fn words_of_line(message: &[u8]) -> (&[u8], Option<&[u8]>) {
    let (mut word, mut result) = (None, None);
    cut(message, 0, is_end_in_line, |field| {
        let value = &message[field.value..field.end];
        match &message[field.start..field.value - 1] {
            b"cmd" | b"mcmd" => _ = word.get_or_insert(value),
            b"rc" => _ = result.get_or_insert(value),
            _ => {}
        }
    });
    (word.unwrap_or_default(), result)
}

/// Common name of the exchange of a line with this command.
pub(crate) fn name_of_line(word: &[u8], is_request: bool) -> Option<&'static str> {
    let found = match is_request {
        true => names::find(word, |words| words.line),
        false => names::find(word, |words| words.line_reply),
    };
    found.or_else(|| challenge(word)).map(names::display_name)
}

fn challenge(word: &[u8]) -> Option<Verb> {
    (word == names::CHALLENGE).then_some(Verb::FullInit)
}

/// True if messages of PMIx are among what is read: not in what the page begins with.
pub(crate) const PMIX: bool = cfg!(any(feature = "pmix", feature = "recorded"));

/// The fields of lines, which end with blanks and line ends.
fn lines(message: &[u8]) -> Vec<MessageField> {
    let mut fields = Vec::new();
    cut(message, 0, is_end_in_line, |field| fields.push(field.named(message)));
    fields
}

const fn is_end_in_line(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\n')
}

/// The fields of a frame, which end with semicolons, behind its length.
fn frames(message: &[u8]) -> Vec<MessageField> {
    let end = LENGTH_DIGITS;
    let length = MessageField { end, name: "length".into(), ..MessageField::default() };
    let mut fields = vec![length];
    cut(message, end, |byte| *byte == b';', |field| fields.push(field.named(message)));
    fields
}

/// A field that is a place only.
#[derive(Clone, Copy)]
struct FieldPlace {
    start: usize,
    value: usize,
    end: usize,
}

impl FieldPlace {
    fn named(self, message: &[u8]) -> MessageField {
        let Self { start, value, end } = self;
        let name = message[start..value - 1].iter().map(|byte| char::from(*byte)).collect();
        MessageField { start, value, end, name, text: None }
    }
}

/// Finds the fields of `message` from `at` on. A piece without a name belongs to the field before.
fn cut(message: &[u8], mut at: usize, ends: fn(&u8) -> bool, mut each: impl FnMut(FieldPlace)) {
    let mut last: Option<FieldPlace> = None;
    for token in message[at..].split(ends) {
        let (start, end) = (at, at + token.len());
        match (token.iter().position(|byte| *byte == b'='), &mut last) {
            (Some(name), _) if name > 0 => {
                let next = FieldPlace { start, value: start + name + 1, end };
                if let Some(field) = last.replace(next) {
                    each(field);
                }
            }
            (_, Some(before)) if !token.is_empty() => before.end = end,
            _ => {}
        }
        at = end + 1;
    }
    if let Some(field) = last {
        each(field);
    }
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
