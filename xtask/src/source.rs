//! Just enough of Rust's grammar to ask what a file uses: tokens without comments and texts, and without the
//! items that only tests compile.

use proc_macro2::{Punct, Spacing, Span, TokenStream, TokenTree};

/// A word or a mark of the source. Numbers count as words; texts and lifetimes do not appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

impl Token<'_> {
    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(is_word_part)
    }
}

/// Splits a file into tokens.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    // A file that is no Rust has no tokens; it does not compile either.
    flatten(text.parse().unwrap_or_default(), text, &mut found);
    found
}

fn flatten<'a>(stream: TokenStream, file: &'a str, found: &mut Vec<Token<'a>>) {
    let at = |span: Span| Token { text: &file[span.byte_range()], line: span.start().line };
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let token = at(tree.span());
        if ["//", "/*"].iter().any(|comment| token.text.starts_with(comment)) {
            continue; // documentation, which is an attribute to the compiler
        }
        match tree {
            TokenTree::Group(group) => {
                found.push(at(group.span_open()));
                flatten(group.stream(), file, found);
                found.push(at(group.span_close()));
            }
            // A lifetime, with its name.
            TokenTree::Punct(mark) if mark.as_char() == '\'' => drop(trees.next()),
            TokenTree::Punct(mark) if is_path(&mark, trees.peek()) => {
                trees.next();
                let from = mark.span().byte_range().start;
                found.push(Token { text: &file[from..from + 2], ..token });
            }
            TokenTree::Literal(_) if token.text.ends_with(['"', '#', '\'']) => {}
            _ => found.push(token),
        }
    }
}

/// True for the first mark of `::`.
fn is_path(mark: &Punct, next: Option<&TokenTree>) -> bool {
    let is_colon = |mark: &Punct| mark.as_char() == ':';
    is_colon(mark)
        && mark.spacing() == Spacing::Joint
        && matches!(next, Some(TokenTree::Punct(next)) if is_colon(next))
}

/// Leaves out what only a test build sees: items under `#[cfg(test)]` or `#[test]`.
pub(crate) fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match attribute(&tokens[at..]) {
            Some((_, true, true)) => return Vec::new(), // #![cfg(test)]: the whole file
            Some((len, false, true)) => {
                at += len;
                at += item_len(&tokens[at..]);
            }
            Some((len, ..)) => {
                kept.extend_from_slice(&tokens[at..at + len]);
                at += len;
            }
            None => {
                kept.push(tokens[at]);
                at += 1;
            }
        }
    }
    kept
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Length of the attribute that starts here, whether it is an inner one, and whether it is about tests.
fn attribute(tokens: &[Token<'_>]) -> Option<(usize, bool, bool)> {
    let inner = tokens.get(1)?.text == "!";
    let open = if inner { 2 } else { 1 };
    if tokens[0].text != "#" || tokens.get(open)?.text != "[" {
        return None;
    }
    let len = open + group_len(&tokens[open..]);
    let words: Vec<&str> =
        tokens[open..len].iter().filter(|t| t.is_word()).map(|t| t.text).collect();
    let test = match words.as_slice() {
        ["test"] => true,
        // `any(test, ...)` and `not(test)` are compiled without tests too.
        ["cfg", rest @ ..] => {
            rest.contains(&"test") && !rest.contains(&"any") && !rest.contains(&"not")
        }
        _ => false,
    };
    Some((len, inner, test))
}

/// Length of the bracketed group that starts here.
fn group_len(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Length of the item that starts here, with the attributes before it.
fn item_len(tokens: &[Token<'_>]) -> usize {
    let mut at = 0;
    while let Some((len, ..)) = attribute(&tokens[at..]) {
        at += len;
    }
    let ends_with_group = !ends_with_semicolon(&tokens[at..]);
    while at < tokens.len() {
        match tokens[at].text {
            ";" => return at + 1,
            "(" | "[" => at += group_len(&tokens[at..]),
            "{" => {
                at += group_len(&tokens[at..]);
                if ends_with_group {
                    return at;
                }
            }
            "}" => return at, // the end of what holds the item: a field or an arm
            _ => at += 1,
        }
    }
    at
}

/// Items whose braces are part of an expression or a list of names.
fn ends_with_semicolon(tokens: &[Token<'_>]) -> bool {
    let mut words = tokens.iter().filter(|token| token.is_word()).map(|token| token.text);
    let visible = |word: &&str| !matches!(*word, "pub" | "crate" | "super" | "in");
    match words.find(visible) {
        Some("const") => {
            words.next().is_some_and(|word| !matches!(word, "fn" | "unsafe" | "extern"))
        }
        Some(word) => matches!(word, "use" | "static" | "type" | "let"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        tokens(text).iter().map(|token| token.text).collect::<Vec<_>>().join(" ")
    }

    fn product(text: &str) -> String {
        without_tests(&tokens(text)).iter().map(|token| token.text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_texts_leave_no_token() {
        assert_eq!(words("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(words(r##"a("b \" c", b"d", r#"e " f"#, c"g")h"##), "a ( , , , ) h");
        assert_eq!(words(r"a '\'' '\\' '\u{1F600}' 'b' '€' c"), "a c");
        assert_eq!(words("br bring crate r"), "br bring crate r");
    }

    #[test]
    fn lifetimes_are_not_mistaken_for_characters() {
        assert_eq!(
            words("fn a<'a>(b: &'a str, c: &'static u8)"),
            "fn a < > ( b : & str , c : & u8 )"
        );
    }

    #[test]
    fn lines_are_counted_through_texts_and_comments() {
        let lines: Vec<usize> = tokens("a \"x\ny\" b\n/* \n */ c").iter().map(|t| t.line).collect();
        assert_eq!(lines, [1, 2, 4]);
    }

    #[test]
    fn items_of_tests_are_left_out() {
        assert_eq!(product("a; #[cfg(test)] mod tests { b { c } } d"), "a ; d");
        assert_eq!(product("#[cfg(test)] extern crate std; a"), "a");
        assert_eq!(product("#[cfg(test)] #[allow(x)] pub(crate) use b::{c, d}; a"), "a");
        assert_eq!(product("#[test] fn b() -> [u8; 3] { c } a"), "a");
        assert_eq!(product("#[cfg(test)] pub const fn b() { c } a"), "a");
        assert_eq!(product("#[cfg(test)] const B: C = C { d }; a"), "a");
        assert_eq!(product("#[cfg(all(test, unix))] mod b; a"), "a");
        assert_eq!(product("#![cfg(test)] a"), "");
    }

    #[test]
    fn items_that_a_product_may_contain_stay() {
        assert!(product("#[cfg(any(test, unix))] mod a;").contains("mod a"));
        assert!(product("#[cfg(not(test))] mod a;").contains("mod a"));
        assert!(product("#[cfg_attr(test, b)] mod a;").contains("mod a"));
        assert!(product("#![no_std] mod a;").contains("mod a"));
    }
}
