//! The words behind a command: options with and without a value, in any order, and names.

use std::str::FromStr;

/// Words that are not read yet.
pub(crate) struct Arguments<'a> {
    words: Vec<&'a str>,
    usage: &'static str,
}

impl<'a> Arguments<'a> {
    /// The words behind a command, and its line of usage for errors.
    pub(crate) fn new(words: &'a [String], usage: &'static str) -> Self {
        Self { words: words.iter().map(String::as_str).collect(), usage }
    }

    /// True if an option without a value is given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let count = self.words.len();
        self.words.retain(|word| *word != name);
        self.words.len() < count
    }

    /// The value of an option; the last one if it is repeated.
    ///
    /// # Errors
    ///
    /// A missing or unreadable value.
    pub(crate) fn value<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        self.values(name).map(|mut values| values.pop())
    }

    /// All values of an option that may be repeated.
    ///
    /// # Errors
    ///
    /// As for [`Arguments::value`].
    pub(crate) fn values<T: FromStr>(&mut self, name: &str) -> Result<Vec<T>, String> {
        self.values_by(name, |word| word.parse().ok())
    }

    /// The same, with the function that reads a value.
    ///
    /// # Errors
    ///
    /// As for [`Arguments::value`].
    pub(crate) fn values_by<T>(
        &mut self,
        name: &str,
        read: impl Fn(&'a str) -> Option<T>,
    ) -> Result<Vec<T>, String> {
        let mut values = Vec::new();
        while let Some(at) = self.words.iter().position(|word| *word == name) {
            let mut words = self.words.drain(at..(at + 2).min(self.words.len())).skip(1);
            let Some(word) = words.next() else {
                return Err(format!("{name} needs a value; usage: {}", self.usage));
            };
            let invalid = || format!("{word:?} is no value of {name}; usage: {}", self.usage);
            values.push(read(word).ok_or_else(invalid)?);
        }
        Ok(values)
    }

    /// The remaining words, none of which may be an option.
    ///
    /// # Errors
    ///
    /// The unknown option.
    pub(crate) fn names(self) -> Result<Vec<&'a str>, String> {
        match self.words.iter().find(|word| word.starts_with('-')) {
            Some(word) => Err(format!("no option {word:?}; usage: {}", self.usage)),
            None => Ok(self.words),
        }
    }

    /// Checks that every word is read.
    ///
    /// # Errors
    ///
    /// The first word that is not.
    pub(crate) fn end(self) -> Result<(), String> {
        match self.words.first() {
            Some(word) => Err(format!("no option {word:?}; usage: {}", self.usage)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_and_names_are_read_in_any_order() {
        let words = words("a --n 1 --fast b --n 2");
        let mut arguments = Arguments::new(&words, "x");
        assert!(arguments.flag("--fast") && !arguments.flag("--slow"));
        assert_eq!(arguments.values::<u8>("--n"), Ok(vec![1, 2]));
        assert_eq!(arguments.value::<u8>("--n"), Ok(None));
        assert_eq!(arguments.names(), Ok(vec!["a", "b"]));
    }

    #[test]
    fn words_without_a_meaning_are_named_with_the_usage() {
        let bad = words("--n --m x");
        let mut arguments = Arguments::new(&bad, "use");
        assert_eq!(arguments.value::<u8>("x"), Err("x needs a value; usage: use".into()));
        let mut arguments = Arguments::new(&bad, "use");
        let why = "\"--m\" is no value of --n; usage: use".to_owned();
        assert_eq!(arguments.value::<u8>("--n"), Err(why));
        assert_eq!(
            Arguments::new(&bad, "use").names(),
            Err("no option \"--n\"; usage: use".into())
        );
        assert!(Arguments::new(&bad, "use").end().is_err());
        assert!(Arguments::new(&[], "use").end().is_ok());
    }
}
