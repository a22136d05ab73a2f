//! Splitting of lines into words.

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

#[cfg(test)]
mod tests {
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
