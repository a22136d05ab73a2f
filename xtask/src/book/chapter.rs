//! The text of a chapter, and the targets of its links.

use super::played_run::{self, PlayedRun};
use std::borrow::Cow;

/// A chapter, by its path from the root of the repository.
pub(super) struct Chapter<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

/// What a link of a chapter leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkTarget {
    /// Another chapter.
    Chapter,
    /// A picture, which is copied.
    Image,
    /// A file, which gets a page with its text.
    Text,
    /// A file that mdBook copies into the chapter.
    Included,
    /// A directory, which gets a page with its names.
    Directory,
    /// A part of the book that is not made of chapters.
    Built,
    /// Nothing.
    Missing,
}

/// A chapter as mdBook gets it.
pub(super) struct Rewritten {
    pub(super) text: String,
    /// The targets of its links, as paths from the root, and their kinds.
    pub(super) linked: Vec<(String, LinkTarget)>,
}

impl Chapter<'_> {
    /// The chapter with links to pages instead of files, and with the runs of the playground that it shows.
    /// `kind` classifies a path from the root.
    pub(super) fn rewritten(&self, kind: impl Fn(&str) -> LinkTarget) -> Rewritten {
        let (mut text, mut linked) = (String::new(), Vec::new());
        let mut is_code = false;
        let mut lines = self.text.split_inclusive('\n');
        while let Some(line) = lines.next() {
            is_code ^= line.trim_start().starts_with("```");
            if !is_code && played_run::is_start(line) {
                let comment = played_run::comment(line, &mut lines);
                let run = PlayedRun::read(&comment);
                text.push_str(&run.map_or(comment, |run| run.html(&to_root(self.path))));
                continue;
            }
            if let Some(path) = included(line).and_then(|target| resolve(self.path, target)) {
                let kind = kind(&path);
                linked.push((
                    path,
                    if kind == LinkTarget::Text { LinkTarget::Included } else { kind },
                ));
            }
            if is_code {
                text.push_str(line);
            } else {
                text.push_str(&mapped(line, |target| {
                    let path = resolve(self.path, target)?;
                    let kind = kind(&path);
                    linked.push((path.clone(), kind));
                    match kind {
                        LinkTarget::Text => Some(relative(self.path, &source_path(&path))),
                        LinkTarget::Directory => Some(relative(self.path, &listing_path(&path))),
                        _ => None,
                    }
                }));
            }
        }
        Rewritten { text, linked }
    }
}

/// The page with the text of a file.
pub(super) fn source_path(path: &str) -> String {
    format!("{path}.md")
}

/// The page with the names of a directory.
pub(super) fn listing_path(path: &str) -> String {
    format!("{path}/files.md")
}

/// The targets of the links of a text, without those to other hosts and to places of the same page.
pub(crate) fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|t| is_local(t))
}

/// The text with all targets as paths from the root; `path` is that of the text.
pub(super) fn from_root(text: &str, path: &str) -> String {
    mapped(text, |target| resolve(path, target))
}

/// True if `path` is `directory` or a file in it.
pub(super) fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The path from the root of a target of the page `page`, without its fragment; `None` if it leaves the tree.
pub(crate) fn resolve(page: &str, target: &str) -> Option<String> {
    let target = target.split('#').next()?.trim_end_matches('/');
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The way from the page `page` to `path`.
fn relative(page: &str, path: &str) -> String {
    format!("{}{path}", to_root(page))
}

fn to_root(page: &str) -> String {
    "../".repeat(page.matches('/').count())
}

fn is_local(target: &str) -> bool {
    !(target.is_empty() || target.starts_with('#') || target.contains(':'))
}

/// The line with other targets where `map` has one. A fragment is kept if the page stays the same.
fn mapped(text: &str, mut map: impl FnMut(&str) -> Option<String>) -> String {
    let mut parts = text.split("](");
    let mut mapped = String::from(parts.next().unwrap_or_default());
    for part in parts {
        mapped.push_str("](");
        let (target, rest) = part.split_once(')').unwrap_or((part, ""));
        let other = is_local(target).then(|| map(target)).flatten();
        let target = other.map_or(Cow::Borrowed(target), Cow::Owned);
        mapped.push_str(&target);
        if part.contains(')') {
            mapped.push(')');
        }
        mapped.push_str(rest);
    }
    mapped
}

/// The file of a line `{{#include FILE}}`.
fn included(line: &str) -> Option<&str> {
    line.trim().strip_prefix("{{#include ")?.strip_suffix("}}")
}

/// The list of the chapters.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Chapter<'_> = Chapter {
        path: "docs/learn/a.md",
        text: "See [b](b.md#x), [code](../../core/a.rs), [far](https://example.org/).\n\n\
               ```text\n[no](link)\n{{#include ../x.py}}\n```\n\
               <!-- play scenario=put-fence-get&at=12: Two ranks -->\n\
               <!-- play it: One rank\nranks 1\n-->\nEnd.\n",
    };

    #[test]
    fn links_to_chapters_stay_and_others_lead_to_pages() {
        let page = PAGE.rewritten(|path| match path.ends_with(".md") {
            true => LinkTarget::Chapter,
            false => LinkTarget::Text,
        });
        let first = page.text.lines().next();
        let expected = "See [b](b.md#x), [code](../../core/a.rs.md), [far](https://example.org/).";
        assert_eq!(first, Some(expected));
        assert!(page.text.contains("[no](link)"), "{}", page.text);
        let linked = [
            ("docs/learn/b.md".into(), LinkTarget::Chapter),
            ("core/a.rs".into(), LinkTarget::Text),
            ("docs/x.py".into(), LinkTarget::Included),
        ];
        assert_eq!(page.linked, linked);
    }

    #[test]
    fn run_is_a_frame_and_a_link() {
        let page = PAGE.rewritten(|_| LinkTarget::Chapter);
        let address = "../../playground/index.html?embed=1#scenario=put-fence-get&amp;at=12";
        assert!(page.text.contains(&format!("src=\"{address}\"")));
        assert!(page.text.contains("Two ranks: open in the playground</a>"));
        assert!(
            page.text.ends_with(
                "#text=about+%22One+rank%22%0Aranks+1%0A\">Play it</a>: One rank</p>\nEnd.\n"
            ),
            "{}",
            page.text
        );
    }

    #[test]
    fn targets_are_resolved_from_their_page() {
        assert_eq!(resolve("docs/SUMMARY.md", "../README.md").as_deref(), Some("README.md"));
        assert_eq!(resolve("docs/a.md", "learn/b.md#c").as_deref(), Some("docs/learn/b.md"));
        assert_eq!(resolve("a.md", "../b.md"), None);
        assert_eq!(from_root("- [A](learn/a.md)\n", "docs/SUMMARY.md"), "- [A](docs/learn/a.md)\n");
    }
}
