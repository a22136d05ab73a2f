//! The links of a built book: each leads to a file, and to a place that exists in it.

use crate::files;
use html5gum::{Token, Tokenizer};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Links and places of one page.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    ids: BTreeSet<String>,
}

/// The links below `directory` that lead nowhere. Pages below `others` are targets only: their own links are
/// checked by the programs that write them.
pub(super) fn check(directory: &Path, others: &[&str]) -> Result<Vec<String>, String> {
    let mut pages = BTreeMap::new();
    collect(directory, directory, others, &mut pages)?;
    let mut findings = Vec::new();
    for (path, page) in &pages {
        let dead = page.links.iter().filter(|link| !leads_somewhere(directory, path, link, &pages));
        findings.extend(dead.map(|link| format!("{}: dead link {link}", path.display())));
    }
    Ok(findings)
}

fn collect(
    root: &Path,
    directory: &Path,
    others: &[&str],
    pages: &mut BTreeMap<PathBuf, Page>,
) -> Result<(), String> {
    for file in files::list(directory)? {
        let Ok(path) = file.strip_prefix(root) else { continue };
        if others.iter().any(|other| path == Path::new(other)) {
            continue;
        }
        if file.is_dir() {
            collect(root, &file, others, pages)?;
        } else if file.extension().is_some_and(|extension| extension == "html") {
            let text = files::read(&file)?;
            pages.insert(path.to_owned(), Page::read(&text));
        }
    }
    Ok(())
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        for Ok(token) in Tokenizer::new(text) {
            let Token::StartTag(tag) = token else { continue };
            for (name, value) in &tag.attributes {
                let value = String::from_utf8_lossy(value).into_owned();
                match &name[..] {
                    b"href" | b"src" => page.links.push(value),
                    b"id" => drop(page.ids.insert(value)),
                    _ => {}
                }
            }
        }
        page
    }
}

/// True if a link of the page `path` leads to another host, or to an existing file and place.
fn leads_somewhere(root: &Path, path: &Path, link: &str, pages: &BTreeMap<PathBuf, Page>) -> bool {
    if link.contains("://")
        || ["mailto:", "data:", "javascript:"].iter().any(|s| link.starts_with(s))
    {
        return true;
    }
    let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
    let file = file.split('?').next().unwrap_or(file);
    let target = if file.is_empty() { Some(path.to_owned()) } else { resolved(path, file) };
    let Some(mut target) = target else { return false };
    if root.join(&target).is_dir() {
        target.push("index.html");
    }
    match pages.get(&target) {
        // Behind the address of the playground stands a run.
        Some(page) if !target.starts_with("playground") => {
            fragment.is_empty() || page.ids.contains(fragment)
        }
        _ => root.join(&target).is_file(),
    }
}

/// The path of `file`, seen from the page `page`; `None` if it leaves the book.
fn resolved(page: &Path, file: &str) -> Option<PathBuf> {
    let mut path = page.parent()?.to_owned();
    for component in Path::new(file).components() {
        match component {
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchain;
    use std::fs;

    #[test]
    fn dead_links_are_found() {
        let directory = toolchain::target_directory().join("tmp/book-links-test");
        fs::create_dir_all(directory.join("a")).unwrap();
        let page = "<h1 id=top>A</h1><a href=../b.html#here>b</a><a href='../b.html#gone'>b</a>\
                    <a href=#top>t</a><a href=c.html>c</a><img src=../../outside.png>\
                    <a href=https://example.org/>far</a>";
        fs::write(directory.join("a/a.html"), page).unwrap();
        fs::write(directory.join("b.html"), "<p id=\"here\"><a href=\"a/a.html\">a</a>").unwrap();
        let findings = check(&directory, &[]).unwrap();
        let expected = ["../b.html#gone", "c.html", "../../outside.png"];
        assert_eq!(findings, expected.map(|link| format!("a/a.html: dead link {link}")));
        fs::remove_dir_all(directory).unwrap();
    }
}
