//! JSON for the page.
//!
//! The page needs five shapes; a general serializer would be a fifth of the module's budget.

use std::fmt::{Display, Write};

/// A JSON text under construction.
#[derive(Debug, Default)]
pub(crate) struct Json {
    text: String,
    /// True if a comma precedes the next item.
    is_next: bool,
}

impl Json {
    /// One object, made by `fill`.
    pub(crate) fn of(fill: impl FnOnce(&mut Self)) -> String {
        let mut json = Self::default();
        json.object(fill);
        json.text
    }

    /// Writes an object as the next item.
    pub(crate) fn object(&mut self, fill: impl FnOnce(&mut Self)) {
        self.within('{', '}', fill);
    }

    /// Writes a list under `name`, with an item for each of `all`.
    pub(crate) fn list<T>(
        &mut self,
        name: &str,
        all: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        self.name(name);
        self.within('[', ']', |json| all.into_iter().for_each(|one| each(json, one)));
    }

    /// An object under `name`.
    #[cfg(any(feature = "played", feature = "pmix", test))]
    pub(crate) fn part(&mut self, name: &str, fill: impl FnOnce(&mut Self)) {
        self.name(name);
        self.object(fill);
    }

    /// Writes a number or a boolean under `name`.
    pub(crate) fn plain(&mut self, name: &str, value: impl Display) {
        self.name(name);
        self.value(value);
    }

    /// Writes a number or a boolean under `name`, or `null`.
    pub(crate) fn maybe(&mut self, name: &str, value: Option<impl Display>) {
        match value {
            Some(value) => self.plain(name, value),
            None => self.plain(name, "null"),
        }
    }

    /// Text under `name`.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        self.word(text);
    }

    /// Writes bytes under `name`, each as the character of the same number.
    #[cfg(any(feature = "played", feature = "pmix", test))]
    pub(crate) fn bytes(&mut self, name: &str, bytes: &[u8]) {
        self.name(name);
        self.quoted(bytes.iter().map(|byte| char::from(*byte)));
    }

    /// Writes a number or a boolean as the next item of a list.
    pub(crate) fn value(&mut self, value: impl Display) {
        self.next();
        // Writing to a string does not fail.
        let _ = write!(self.text, "{value}");
    }

    /// Writes text as the next item of a list.
    pub(crate) fn word(&mut self, text: &str) {
        self.quoted(text.chars());
    }

    fn name(&mut self, name: &str) {
        self.word(name);
        self.text.push(':');
        self.is_next = false;
    }

    fn within(&mut self, open: char, close: char, fill: impl FnOnce(&mut Self)) {
        self.next();
        self.text.push(open);
        self.is_next = false;
        fill(self);
        self.text.push(close);
        self.is_next = true;
    }

    fn quoted(&mut self, letters: impl Iterator<Item = char>) {
        self.next();
        self.text.push('"');
        for letter in letters {
            match letter {
                '"' | '\\' => self.text.extend(['\\', letter]),
                '\n' => self.text.push_str("\\n"),
                '\0'..='\x1f' => {
                    let _ = write!(self.text, "\\u{:04x}", u32::from(letter));
                }
                _ => self.text.push(letter),
            }
        }
        self.text.push('"');
    }

    fn next(&mut self) {
        if self.is_next {
            self.text.push(',');
        }
        self.is_next = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_written_with_the_necessary_escapes() {
        let text = Json::of(|json| {
            json.plain("n", 7);
            json.maybe("no", None::<u32>);
            json.text("t", "a \"b\"\\\n");
            json.bytes("b", &[0, 65, 255]);
            json.list("l", [1, 2], |json, number| json.object(|json| json.plain("x", number)));
            json.part("p", |json| json.list("w", ["u", "v"], |json, word| json.word(word)));
            json.plain("z", true);
        });
        let expected = "{\"n\":7,\"no\":null,\"t\":\"a \\\"b\\\"\\\\\\n\",\"b\":\"\\u0000A\u{ff}\",\
                        \"l\":[{\"x\":1},{\"x\":2}],\"p\":{\"w\":[\"u\",\"v\"]},\"z\":true}";
        assert_eq!(text, expected);
    }
}
