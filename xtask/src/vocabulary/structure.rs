//! Figures of types, files and parameters.

use super::{Count, Source};
use crate::source::Token;
use std::collections::{BTreeMap, BTreeSet};

/// Names of structs, enums and traits that `least` types or more share.
pub(super) fn shared_names(sources: &[&Source<'_>], least: usize) -> Count {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources {
        for name in types(&source.tokens) {
            places.entry(name.text).or_default().push(format!("{}:{}", source.path, name.line));
        }
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() >= least);
    Count::of(shared.map(|(name, places)| format!("{name}: {}", places.join(" "))).collect())
}

/// Names that two types of one package share.
pub(super) fn names_not_unique(sources: &[&Source<'_>]) -> Count {
    let packages: BTreeSet<&str> = sources.iter().map(|source| source.package).collect();
    let own = |package: &&str| -> Vec<&Source<'_>> {
        sources.iter().filter(|source| source.package == *package).copied().collect()
    };
    Count::of(packages.iter().flat_map(|package| shared_names(&own(package), 2).places).collect())
}

/// The names in `struct NAME`, `enum NAME` and `trait NAME`.
fn types<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let is_kind = |text: &str| matches!(text, "struct" | "enum" | "trait");
    let is_name = |text: &str| text.starts_with(|c: char| c.is_uppercase());
    tokens
        .windows(2)
        .filter(|pair| is_kind(pair[0].text) && is_name(pair[1].text))
        .map(|pair| pair[1])
        .collect()
}

/// The largest number of files in which one type has inherent impls.
pub(super) fn impl_files(sources: &[&Source<'_>]) -> Count {
    let mut files: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        for name in inherent_impls(&source.tokens) {
            files.entry((source.package, name)).or_default().insert(source.path);
        }
    }
    largest(files.iter().map(|((_, name), files)| (files.len(), format!("impl {name}"))))
}

/// The types of `impl TYPE { ... }` without `for`.
fn inherent_impls<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        // `impl Trait` in a type follows a mark that an item does not.
        let before = at.checked_sub(1).map_or("}", |before| tokens[before].text);
        if token.text != "impl" || !matches!(before, "}" | ";" | "]" | "unsafe" | "{") {
            continue;
        }
        let head =
            || tokens[at + 1..].iter().take_while(|token| !matches!(token.text, "{" | "where"));
        if head().any(|token| token.text == "for") {
            continue;
        }
        let mut depth = 0_usize;
        let mut name = None;
        for token in head() {
            match token.text {
                "<" => depth += 1,
                ">" => depth = depth.saturating_sub(1),
                text if depth == 0 && text.starts_with(char::is_uppercase) => name = Some(text),
                _ => {}
            }
        }
        names.extend(name);
    }
    names
}

/// The largest number of fields of a struct with named fields.
pub(super) fn fields(sources: &[&Source<'_>]) -> Count {
    let structs = sources.iter().flat_map(|source| {
        let path = source.path;
        structs(&source.tokens)
            .into_iter()
            .map(move |(name, fields)| (fields, format!("{name} {path}")))
    });
    largest(structs)
}

/// Each `struct NAME { ... }` and the number of its fields.
fn structs<'a>(tokens: &[Token<'a>]) -> Vec<(&'a str, usize)> {
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        if pair[0].text != "struct" {
            continue;
        }
        let open = tokens[at..].iter().position(|token| matches!(token.text, "{" | ";" | "("));
        let Some(open) = open.map(|open| at + open).filter(|open| tokens[*open].text == "{") else {
            continue;
        };
        let mut depth = 0_usize;
        let mut fields = 0;
        for (index, token) in tokens[open..].iter().enumerate() {
            match token.text {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                // Paths are one token, `::`, so a single colon at this depth ends a field's name.
                ":" if depth == 1 && tokens[open + index - 1].is_word() => fields += 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        found.push((pair[1].text, fields));
    }
    found
}

/// The number of lines of the longest file.
pub(super) fn file_lines(sources: &[&Source<'_>]) -> Count {
    let lines = |source: &Source<'_>| source.lines.last().map_or(0, |(number, _)| *number);
    largest(sources.iter().map(|source| (lines(source), source.path.to_owned())))
}

/// Each public item; fields do not count.
pub(super) fn public_items(sources: &[&Source<'_>]) -> Count {
    const ITEMS: &[&str] = &[
        "async", "const", "enum", "extern", "fn", "mod", "static", "struct", "trait", "type",
        "union", "unsafe", "use",
    ];
    find(sources, |tokens, at| {
        tokens[at].text == "pub"
            && tokens.get(at + 1).is_some_and(|next| ITEMS.contains(&next.text))
    })
}

/// Each parameter `name: &mut Server<...>` or `name: &Server<...>`.
pub(super) fn server_parameters(sources: &[&Source<'_>]) -> Count {
    find(sources, |tokens, at| {
        let before = |back: usize| at.checked_sub(back).map_or("", |index| tokens[index].text);
        let is_reference = before(1) == "&" || before(1) == "mut" && before(2) == "&";
        let colon = if before(1) == "&" { before(2) } else { before(3) };
        tokens[at].text == "Server" && is_reference && colon == ":"
    })
}

/// Each `Request::...` in a file that imports the `Request` of PMI-1 and PMI-2.
pub(super) fn forged_requests(sources: &[&Source<'_>]) -> Count {
    let imports = |source: &Source<'_>| {
        source.lines.iter().any(|(_, line)| {
            let line = line.trim_start();
            let from = line.starts_with("use crate::command::")
                || line.starts_with("use crate::message::");
            from && line.split(|c: char| !c.is_alphanumeric()).any(|word| word == "Request")
        })
    };
    let importing: Vec<&Source<'_>> = sources.iter().copied().filter(|s| imports(s)).collect();
    find(&importing, |tokens, at| {
        tokens[at].text == "Request" && tokens.get(at + 1).is_some_and(|next| next.text == "::")
    })
}

fn find(sources: &[&Source<'_>], holds: impl Fn(&[Token<'_>], usize) -> bool) -> Count {
    let mut places = Vec::new();
    for source in sources {
        for at in 0..source.tokens.len() {
            if holds(&source.tokens, at) {
                places.push(format!("{}:{}", source.path, source.tokens[at].line));
            }
        }
    }
    Count::of(places)
}

/// The largest number as the value, and all of them as places, the largest first.
fn largest(found: impl Iterator<Item = (usize, String)>) -> Count {
    let mut found: Vec<(usize, String)> = found.collect();
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let value = found.first().map_or(0, |(number, _)| *number) as f64;
    Count {
        value,
        places: found.iter().map(|(number, name)| format!("{number:>5} {name}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tokens;

    fn source<'a>(path: &'a str, package: &'a str, text: &'a str) -> Source<'a> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line)).collect();
        Source { path, package, lines, tokens: tokens(text), texts: Vec::new() }
    }

    #[test]
    fn shared_names_count_structs_enums_and_traits() {
        let a = source("a.rs", "p", "struct State; enum Other { A }");
        let b = source("b.rs", "p", "enum State { A } type Other = u8;");
        let c = source("c.rs", "q", "trait State {} fn f() { struct_of(State) }");
        assert_eq!(shared_names(&[&a, &b, &c], 3).places, ["State: a.rs:1 b.rs:1 c.rs:1"]);
        assert_eq!(names_not_unique(&[&a, &b, &c]).value, 1.0);
    }

    #[test]
    fn inherent_impls_are_distinguished_from_traits_and_types() {
        let text = "impl Run {} impl<S: Storage> Server<S> where S: A {} impl Drop for Run {} \
                    fn f(a: impl Fn(u8)) -> impl Iterator {}";
        assert_eq!(inherent_impls(&tokens(text)), ["Run", "Server"]);
    }

    #[test]
    fn fields_are_counted_in_structs_with_names() {
        let text = "struct A<T: B> { a: u8, pub b: Vec<(u8, c::D)>, e: fn(u8) -> u8 } \
                    struct F(u8); struct G;";
        assert_eq!(structs(&tokens(text)), [("A", 3)]);
    }

    #[test]
    fn parameters_that_are_the_server_are_found() {
        let text = "fn a(server: &mut Server<S>, b: &Server<S>) -> Server<S> { Server::new() }";
        assert_eq!(server_parameters(&[&source("a.rs", "", text)]).value, 2.0);
    }

    #[test]
    fn requests_count_only_where_they_are_those_of_pmi() {
        let text = "use crate::command::{Reply, Request};\nfn a() { Request::Fence }";
        assert_eq!(forged_requests(&[&source("a.rs", "", text)]).value, 1.0);
        let text = "use crate::wire::pmix::Request;\nfn a() { Request::Fence }";
        assert_eq!(forged_requests(&[&source("a.rs", "", text)]).value, 0.0);
    }

    #[test]
    fn restricted_items_and_fields_are_not_public_items() {
        let text = "pub fn a() {} pub(crate) fn b() {} pub struct C { pub d: u8 }";
        assert_eq!(public_items(&[&source("a.rs", "", text)]).value, 2.0);
    }
}
