//! The layers inside core: allowed edges between modules, checked against the paths in product
//! code.

use crate::source::{Token, tokens, without_tests};
use crate::tree::File;

/// A top-level module of core and the modules it may use besides itself. What is not in a row is forbidden:
/// above all, codecs know no state, and client and server do not know each other.
struct Module {
    name: &'static str,
    uses: &'static [&'static str],
}

const MODULES: &[Module] = &[
    Module { name: "limits", uses: &[] },
    Module { name: "time", uses: &[] },
    Module { name: "error", uses: &["limits"] },
    Module { name: "ids", uses: &["error", "limits"] },
    Module { name: "auth", uses: &["error", "limits"] },
    Module { name: "storage", uses: &["error"] },
    Module { name: "pool", uses: &["error", "storage"] },
    Module { name: "machine", uses: &["error", "time"] },
    Module { name: "parts", uses: &[] },
    Module { name: "command", uses: &["error", "ids", "limits", "parts"] },
    Module { name: "format", uses: &["command", "ids", "time"] },
    Module { name: "wire", uses: &["command", "error", "ids", "limits", "parts"] },
    Module { name: "store", uses: &["command", "error", "ids", "limits", "storage", "time"] },
    Module {
        name: "client",
        uses: &[
            "auth", "command", "error", "ids", "limits", "machine", "parts", "storage", "time",
            "wire",
        ],
    },
    Module {
        name: "server",
        uses: &[
            "auth", "command", "error", "ids", "limits", "machine", "parts", "storage", "store",
            "time", "wire",
        ],
    },
];

const SOURCE: &str = "core/src/";

/// Forbidden edges between modules of core.
pub(crate) fn check(files: &[File]) -> Vec<String> {
    files.iter().filter(|file| !file.is_test()).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<String> {
    let Some(place) = file.path.strip_prefix(SOURCE).and_then(|path| path.strip_suffix(".rs"))
    else {
        return Vec::new();
    };
    let path: Vec<&str> = place.split('/').filter(|part| *part != "mod").collect();
    if path == ["lib"] {
        return Vec::new(); // the root declares and re-exports; it may name everything
    }
    let Some(module) = MODULES.iter().find(|module| module.name == path[0]) else {
        return vec![format!(
            "{}: module `{}` has no row in xtask/src/modules.rs",
            file.path, path[0]
        )];
    };
    let product = without_tests(&tokens(&file.text));
    let mut findings = Vec::new();
    for used in root_uses(&product, path.len()) {
        let at = format!("{}:{}", file.path, used.line);
        if used.text == module.name || module.uses.contains(&used.text) {
            continue;
        }
        findings.push(if MODULES.iter().any(|known| known.name == used.text) {
            format!("{at}: `{}` must not use `{}`", module.name, used.text)
        } else {
            format!("{at}: `crate::{}` hides its layer; name the module it is in", used.text)
        });
    }
    findings
}

/// Modules at the root of the crate that a file uses: the first word after `crate::` or after as
/// many `super::` as lead there. `depth` is the file's own depth below the root.
pub(crate) fn root_uses<'a>(tokens: &[Token<'a>], depth: usize) -> Vec<Token<'a>> {
    let mut uses = Vec::new();
    let mut braces = 0_usize;
    let mut inline = Vec::new(); // brace depth inside each `mod name { ... }` that is open
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let mut at = 0;
    while at < tokens.len() {
        match text(at) {
            "{" => braces += 1,
            "}" => {
                if inline.last() == Some(&braces) {
                    inline.pop();
                }
                braces = braces.saturating_sub(1);
            }
            "mod" if text(at + 2) == "{" => inline.push(braces + 1),
            "crate" if text(at + 1) == "::" => uses.extend(heads(&tokens[at + 2..])),
            "super" => {
                let mut levels = 1;
                while text(at + 1) == "::" && text(at + 2) == "super" {
                    levels += 1;
                    at += 2;
                }
                if levels == depth + inline.len() && text(at + 1) == "::" {
                    uses.extend(heads(&tokens[at + 2..]));
                }
            }
            _ => {}
        }
        at += 1;
    }
    uses
}

/// The first word of a path, or of each path in a `{...}` list; macros live at the root and have no layer.
fn heads<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    if tokens.first().is_none_or(|token| token.text != "{") {
        let is_macro = tokens.get(1).is_some_and(|token| token.text == "!");
        return tokens.first().filter(|_| !is_macro).copied().into_iter().collect();
    }
    let mut heads = Vec::new();
    let mut depth = 0_usize;
    let mut fresh = false;
    for token in tokens {
        match token.text {
            "{" => {
                depth += 1;
                fresh = depth == 1;
            }
            "}" if depth == 1 => break,
            "}" => depth -= 1,
            "," => fresh = depth == 1,
            _ if fresh => {
                heads.push(*token);
                fresh = false;
            }
            _ => {}
        }
    }
    heads
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&[File { path: path.into(), text: text.into() }])
    }

    #[test]
    fn downward_edges_are_allowed() {
        let text = "use crate::command::Request; use crate::{ids::{Key, Rank}, store::Kvs};\n\
                    use super::session::Session; fn a() -> crate::time::Instant {}";
        assert_eq!(findings("core/src/server/job.rs", text), [""; 0]);
        assert_eq!(findings("core/src/lib.rs", "pub use crate::server::Server;"), [""; 0]);
        assert_eq!(findings("host-std/src/server/ready.rs", "use crate::client::X;"), [""; 0]);
    }

    #[test]
    fn upward_edge_is_named_with_its_line() {
        let found =
            findings("core/src/wire/pmi1.rs", "use crate::ids::Key;\nuse crate::server::Job;");
        assert_eq!(found, ["core/src/wire/pmi1.rs:2: `wire` must not use `server`"]);
        assert_eq!(
            findings("core/src/store/fence.rs", "fn a(b: crate::wire::Dialect) {}").len(),
            1
        );
        assert_eq!(
            findings("core/src/ids.rs", "use crate::{error::Full, time::Instant};").len(),
            1
        );
        assert_eq!(findings("core/src/client/state.rs", "use crate::server::Job;").len(), 1);
    }

    #[test]
    fn edge_through_super_is_seen() {
        assert_eq!(findings("core/src/wire/pmi1.rs", "use super::super::server::Job;").len(), 1);
        assert_eq!(findings("core/src/wire/mod.rs", "use super::server::Job;").len(), 1);
        assert_eq!(findings("core/src/wire/mod.rs", "use super::*;").len(), 1);
        assert_eq!(findings("core/src/wire/pmi1.rs", "use super::server::Job;"), [""; 0]);
        let inline =
            "mod a { use super::b; use super::super::server::Job; } use super::server::Job;";
        assert_eq!(findings("core/src/wire/mod.rs", inline).len(), 2);
    }

    #[test]
    fn tests_and_comments_may_name_anything() {
        let text = "//! See [`crate::server`].\n#[cfg(test)] mod tests { use crate::server::Job; }";
        assert_eq!(findings("core/src/wire/pmi1.rs", text), [""; 0]);
        assert_eq!(findings("core/src/client/tests.rs", "use crate::server::Job;"), [""; 0]);
    }

    #[test]
    fn name_at_the_root_hides_its_layer() {
        assert_eq!(findings("core/src/wire/pmi1.rs", "use crate::Server;").len(), 1);
        assert_eq!(findings("core/src/wire/pmi1.rs", "crate::some_macro!(1);"), [""; 0]);
    }

    #[test]
    fn new_module_needs_a_row() {
        assert!(findings("core/src/extra/mod.rs", "")[0].contains("has no row"));
    }
}
