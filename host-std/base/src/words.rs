//! Splitting of texts into lines and words.

/// Splits a line as a shell would, quotes and backslashes included, and nothing else.
///
/// # Errors
///
/// A message about a quote that is not closed.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        match (sign, quote) {
            (_, Some(open)) if sign == open => quote = None,
            ('\\', None | Some('"')) => {
                word.get_or_insert_default().extend(signs.next());
            }
            (_, Some(_)) => word.get_or_insert_default().push(sign),
            ('\'' | '"', None) => {
                quote = Some(sign);
                word.get_or_insert_default();
            }
            (_, None) if sign.is_whitespace() => words.extend(word.take()),
            (_, None) => word.get_or_insert_default().push(sign),
        }
    }
    words.extend(word);
    match quote {
        Some(open) => Err(format!("the {open} in '{line}' is not closed")),
        None => Ok(words),
    }
}

/// Lines of a text, trimmed, without empty ones and comments. A line that ends in a backslash outside of
/// quotes continues in the next one.
pub fn lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut begun: Option<String> = None;
    let trimmed = text.lines().map(str::trim);
    for line in trimmed.filter(|line| !line.starts_with('#')) {
        let line = match begun.take() {
            Some(start) => format!("{start} {line}"),
            None => line.to_owned(),
        };
        match line.strip_suffix('\\').filter(|start| ends_outside_of_words(start)) {
            Some(start) => begun = Some(start.to_owned()),
            None => lines.push(line),
        }
    }
    lines.extend(begun);
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// True if neither a quote nor a backslash is open at the end of a line.
fn ends_outside_of_words(line: &str) -> bool {
    let mut quote = None;
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        let is_escape = matches!((sign, quote), ('\\', None | Some('"')));
        if is_escape && signs.next().is_none() {
            return false;
        }
        match (sign, quote) {
            (_, Some(open)) if sign == open => quote = None,
            ('\'' | '"', None) => quote = Some(sign),
            _ => {}
        }
    }
    quote.is_none()
}

/// A text without the byte order mark in front of it.
pub fn without_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn line_goes_on_behind_a_backslash_outside_of_quotes() {
        let text = "# words\n-n 1 echo a : \\\n  -n 2 \\\r\n# between\n \\\necho b\n\necho 'c\\\nd' \
                    e\\\\\nend \\";
        let lines = super::lines(text);
        assert_eq!(lines[0], "-n 1 echo a :  -n 2   echo b");
        assert_eq!(lines[1..], ["echo 'c\\", "d' e\\\\", "end "]);
        assert!(super::lines("\\\n\n# a\n").is_empty());
    }

    #[test]
    fn mark_of_an_editor_is_no_text() {
        assert_eq!(super::without_mark("\u{feff}a\u{feff}".to_owned()), "a\u{feff}");
        assert_eq!(super::without_mark("a".to_owned()), "a");
    }

    #[test]
    fn lines_are_split_as_a_shell_does() {
        let split = |line| super::split(line).unwrap();
        assert_eq!(split("a -n {n}  {prog}"), ["a", "-n", "{n}", "{prog}"]);
        assert_eq!(
            split(r#"sh -c 'a "b" c' "d e\"" f\ g ''"#),
            ["sh", "-c", "a \"b\" c", "d e\"", "f g", ""]
        );
        assert!(super::split("a 'b").is_err());
        assert!(split("  ").is_empty());
    }
}
