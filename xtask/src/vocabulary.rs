//! `cargo xtask vocabulary`: names, prose and structure against their bars, per crate and in total.
//!
//! Each figure is counted in the product code, without tests. `--check` fails where a figure exceeds a bar
//! that it has reached, so what has improved cannot deteriorate unnoticed. `--list FIGURE [PATH]` prints the
//! places that a figure consists of.

mod modules;
mod prose;
mod structure;

pub(crate) use self::prose::PERSONS;
use crate::report;
use crate::source::{Token, texts, tokens, without_tests};
use crate::tree::{self, File};
use std::process::ExitCode;

/// One source file of a product, with the lines and tokens of tests left out, or one document.
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    /// Directory of the nearest manifest.
    pub(crate) package: &'a str,
    /// Lines with their numbers, from 1.
    pub(crate) lines: Vec<(usize, &'a str)>,
    pub(crate) tokens: Vec<Token<'a>>,
    /// String literals.
    pub(crate) texts: Vec<Token<'a>>,
}

/// A figure of one package or of the whole tree, and the places it consists of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Count {
    pub(crate) value: f64,
    pub(crate) places: Vec<String>,
}

impl Count {
    pub(crate) fn of(places: Vec<String>) -> Self {
        Self { value: places.len() as f64, places }
    }
}

/// One row of the report.
struct Figure {
    name: &'static str,
    about: &'static str,
    /// The largest value to reach, for the total.
    bar: Option<f64>,
    /// Only the Rust sources under this directory count; after a `*`, only files with this ending.
    scope: &'static str,
    count: fn(&[&Source<'_>]) -> Count,
}

const FIGURES: &[Figure] = &[
    figure(
        "persons",
        "lines with whoever, somebody, nobody, ... per 1,000 comment lines",
        2.0,
        prose::persons,
    ),
    figure(
        "persons-texts",
        "the same words, per 1,000 string literals of several words",
        2.0,
        prose::persons_of_texts,
    ),
    figure(
        "persons-pages",
        "the same words, per 1,000 lines of documents",
        2.0,
        prose::persons_of_pages,
    )
    .within("*.md"),
    figure(
        "questions",
        "lines that begin with what, how, who, which, ... per 1,000 comment lines",
        20.0,
        prose::questions,
    ),
    figure(
        "speech",
        "lines with say, tell, told, hear, ... per 1,000 comment lines",
        10.0,
        prose::speech,
    ),
    figure("shared-names", "type names that three types or more share", 8.0, |sources| {
        structure::shared_names(sources, 3)
    }),
    Figure {
        bar: None,
        ..figure(
            "crate-names",
            "type names that two types of one crate share",
            0.0,
            structure::names_not_unique,
        )
    },
    figure(
        "impl-files",
        "largest number of files with inherent impls of one type",
        2.0,
        structure::impl_files,
    )
    .within("host-std/"),
    figure("fields", "fields of the largest struct", 12.0, structure::fields).within("host-std/"),
    figure("file-lines", "lines of the longest file", 600.0, structure::file_lines),
    figure("cycle", "modules in a cycle", 0.0, modules::cycle).within("host-std/"),
    figure("public-items", "`pub` items", 60.0, structure::public_items).within("host-std/src/"),
    figure("tools-items", "`pub` items of the tools", 22.0, structure::public_items)
        .within("host-std/tools/src/"),
    figure(
        "base-items",
        "`pub` items that launcher and tools share",
        80.0,
        structure::public_items,
    )
    .within("host-std/base/src/"),
    figure(
        "pmix-server",
        "parameters of PMIx handlers that are the server",
        0.0,
        structure::server_parameters,
    )
    .within("core/src/server/pmix/"),
    figure(
        "pmix-requests",
        "PMI requests that PMIx handlers build",
        0.0,
        structure::forged_requests,
    )
    .within("core/src/server/pmix/"),
    figure("product-lines", "lines without blanks and comments", 55_400.0, prose::product_lines),
];

/// A figure of the whole tree.
const fn figure(
    name: &'static str,
    about: &'static str,
    bar: f64,
    count: fn(&[&Source<'_>]) -> Count,
) -> Figure {
    Figure { name, about, bar: Some(bar), scope: "", count }
}

impl Figure {
    const fn within(self, scope: &'static str) -> Self {
        Self { scope, ..self }
    }
}

/// Packages, by the start of their paths, whose prose has reached its bars.
const REWRITTEN: &[&str] = &["examples/", "transports/", "wasm", "xtask"];

/// Figures that have reached their bars, for the whole tree.
const REACHED: &[&str] = &[
    "base-items",
    "cycle",
    "fields",
    "file-lines",
    "impl-files",
    "persons-pages",
    "persons-texts",
    "pmix-requests",
    "pmix-server",
    "public-items",
    "shared-names",
    "tools-items",
];

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let files = tree::files()?;
    let sources = sources(&files);
    match words.as_slice() {
        [] => {
            print!("{}", table(&sources));
            Ok(ExitCode::SUCCESS)
        }
        ["--check"] => Ok(report("vocabulary", &exceeded_bars(&sources))),
        ["--list", name, rest @ ..] if rest.len() <= 1 => {
            let figure = find(name)?;
            let under = rest.first().copied().unwrap_or("");
            for place in (figure.count)(&in_scope(figure, &sources, under)).places {
                println!("{place}");
            }
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("usage: cargo xtask vocabulary [--check | --list FIGURE [PATH]]".into()),
    }
}

fn find(name: &str) -> Result<&'static Figure, String> {
    let names = || FIGURES.iter().map(|figure| figure.name).collect::<Vec<_>>().join(", ");
    FIGURES
        .iter()
        .find(|figure| figure.name == name)
        .ok_or_else(|| format!("no figure {name:?}; there are {}", names()))
}

/// The Rust files of products and the documents, in the order of their paths.
fn sources(files: &[File]) -> Vec<Source<'_>> {
    let mut packages: Vec<&str> = files
        .iter()
        .filter_map(|file| file.path.strip_suffix("/Cargo.toml"))
        .filter(|package| !package.ends_with("/fuzz"))
        .collect();
    packages.sort_by_key(|package| std::cmp::Reverse(package.len()));
    let holds = |package: &str, path: &str| {
        path.strip_prefix(package).is_some_and(|rest| rest.starts_with('/'))
    };
    files
        .iter()
        .filter(|file| file.has_extension(&["md", "rs"]) && !file.is_test())
        .map(|file| {
            let package = packages.iter().find(|package| holds(package, &file.path));
            source(file, package.copied().unwrap_or(""))
        })
        .collect()
}

fn source<'a>(file: &'a File, package: &'a str) -> Source<'a> {
    if file.has_extension(&["md"]) {
        let lines = file.text.lines().enumerate().map(|(index, line)| (index + 1, line)).collect();
        let (tokens, texts) = (Vec::new(), Vec::new());
        return Source { path: &file.path, package: "", lines, tokens, texts };
    }
    let all = tokens(&file.text);
    let tokens = without_tests(&all);
    let tests = test_lines(&all, &tokens);
    let is_product =
        |line: usize| !tests.iter().any(|(first, last)| (*first..=*last).contains(&line));
    let numbered = file.text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let lines = numbered.filter(|(line, _)| is_product(*line)).collect();
    let mut texts = texts(&file.text);
    texts.retain(|text| is_product(text.line));
    Source { path: &file.path, package, lines, tokens, texts }
}

/// First and last lines of what [`without_tests`] has left out.
fn test_lines(all: &[Token<'_>], kept: &[Token<'_>]) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let mut kept = kept.iter().peekable();
    let mut is_open = false;
    for token in all {
        if kept.next_if(|next| next.text.as_ptr() == token.text.as_ptr()).is_some() {
            is_open = false;
        } else if let (true, Some(range)) = (is_open, ranges.last_mut()) {
            range.1 = token.line;
        } else {
            ranges.push((token.line, token.line));
            is_open = true;
        }
    }
    ranges
}

fn in_scope<'a>(figure: &Figure, sources: &'a [Source<'a>], under: &str) -> Vec<&'a Source<'a>> {
    let covers = |path: &str| match figure.scope.strip_prefix('*') {
        Some(ending) => path.ends_with(ending),
        None => path.ends_with(".rs") && path.starts_with(figure.scope),
    };
    let holds = |source: &&Source<'_>| covers(source.path) && source.path.starts_with(under);
    sources.iter().filter(holds).collect()
}

fn total(figure: &Figure, sources: &[Source<'_>]) -> f64 {
    (figure.count)(&in_scope(figure, sources, "")).value
}

/// One line for each package and each figure that has a value there, then the totals with their bars.
fn table(sources: &[Source<'_>]) -> String {
    let mut packages: Vec<&str> = sources.iter().map(|source| source.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages.retain(|package| !package.is_empty());
    let everywhere: Vec<&Figure> =
        FIGURES.iter().filter(|figure| figure.scope.is_empty()).collect();
    let mut text = format!("{:<28}", "");
    for figure in &everywhere {
        text += &format!("{:>15}", figure.name);
    }
    text.push('\n');
    for package in packages {
        text += &format!("{package:<28}");
        for figure in &everywhere {
            let own: Vec<&Source<'_>> = sources.iter().filter(|s| s.package == package).collect();
            text += &format!("{:>15}", shown((figure.count)(&own).value));
        }
        text.push('\n');
    }
    text.push('\n');
    for figure in FIGURES {
        let value = total(figure, sources);
        let bar = figure.bar.map_or("-".to_owned(), shown);
        let mark = if figure.bar.is_some_and(|bar| value > bar) { "above" } else { "" };
        let (name, about, scope) = (figure.name, figure.about, figure.scope);
        let scope = if scope.is_empty() { String::new() } else { format!(" ({scope})") };
        text += &format!("{name:<14}{:>9}  bar {bar:>7}  {mark:<6} {about}{scope}\n", shown(value));
    }
    text
}

fn shown(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// The step of the tests.
pub(crate) fn check() -> Result<Vec<String>, String> {
    Ok(exceeded_bars(&sources(&tree::files()?)))
}

/// Bars that were reached and are exceeded again.
fn exceeded_bars(sources: &[Source<'_>]) -> Vec<String> {
    let mut packages: Vec<&str> = sources.iter().map(|source| source.package).collect();
    packages.dedup();
    packages.retain(|package| REWRITTEN.iter().any(|start| package.starts_with(start)));
    let prose = FIGURES.iter().filter(|figure| figure.about.ends_with("comment lines"));
    let mut findings = Vec::new();
    for figure in prose {
        for package in &packages {
            let own: Vec<&Source<'_>> = sources.iter().filter(|s| s.package == *package).collect();
            findings.extend(exceeded(figure, package, (figure.count)(&own).value));
        }
    }
    for figure in FIGURES.iter().filter(|figure| REACHED.contains(&figure.name)) {
        findings.extend(exceeded(figure, "all", total(figure, sources)));
    }
    findings
}

fn exceeded(figure: &Figure, place: &str, value: f64) -> Option<String> {
    let bar = figure.bar?;
    let (name, about) = (figure.name, figure.about);
    (value > bar).then(|| {
        let (value, bar) = (shown(value), shown(bar));
        format!("{place}: {name} {value}, at most {bar}: {about}; see `cargo xtask vocabulary --list {name}`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_lines_are_left_out_of_a_source() {
        let text =
            "fn a() {}\n// b\n#[cfg(test)]\nmod t {\n    // c\n    fn d() {}\n}\nfn e() {}\n";
        let file = File { path: "core/src/a.rs".into(), text: text.into() };
        let lines: Vec<usize> = source(&file, "core").lines.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 2, 8]);
    }

    #[test]
    fn figure_above_its_bar_is_reported_with_its_place() {
        let persons = find("persons").unwrap();
        assert_eq!(exceeded(persons, "core", 2.0), None);
        assert!(
            exceeded(persons, "core", 2.1).unwrap().starts_with("core: persons 2.1, at most 2:")
        );
    }

    #[test]
    fn reached_figures_exist() {
        assert!(REACHED.iter().all(|name| find(name).is_ok()));
    }

    #[test]
    fn figure_names_are_unique() {
        let mut names: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FIGURES.len());
    }
}
