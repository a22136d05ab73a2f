//! Runs of the playground that a page shows, each described by a comment of the page.
//!
//! | comment | shows |
//! |---|---|
//! | `<!-- play LINK: TITLE -->` | the run, in a frame |
//! | `<!-- play it LINK: TITLE -->` | a link to the run |
//!
//! A comment of several lines has the scenario itself behind the first one; its `LINK` holds settings, or
//! nothing.

use form_urlencoded::Serializer;

/// A run, and its way into the page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlayedRun {
    /// The part behind the `#` of the playground's address.
    pub(crate) link: String,
    pub(crate) title: String,
    /// True if the page shows it in a frame, false if by a link.
    pub(crate) is_framed: bool,
}

impl PlayedRun {
    /// The run of a comment; `None` for any other text.
    pub(crate) fn read(comment: &str) -> Option<Self> {
        let inner = comment.trim().strip_prefix(START)?.strip_suffix(END)?;
        let (head, scenario) = inner.split_once('\n').unwrap_or((inner, ""));
        let by_link = head.strip_prefix(" it").filter(|rest| rest.starts_with([' ', ':']));
        let (settings, title) = by_link.unwrap_or(head).split_once(": ")?;
        let title = title.trim().to_owned();
        let mut link = Serializer::new(String::new());
        if !scenario.is_empty() {
            // The page shows it above the diagram.
            link.append_pair("text", &format!("about \"{title}\"\n{scenario}"));
        }
        let parts = [&link.finish(), settings.trim()];
        let link = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&");
        (!link.is_empty()).then_some(Self { link, title, is_framed: by_link.is_none() })
    }

    /// The run as HTML, with `root` as the way to the directory of the book.
    pub(super) fn html(&self, root: &str) -> String {
        let Self { link, title, is_framed } = self;
        let address = format!("{root}playground/index.html");
        let link = link.replace('&', "&amp;");
        if !is_framed {
            return format!(
                "<p class=\"play-link\"><a href=\"{address}#{link}\">Play it</a>: {title}</p>\n"
            );
        }
        format!(
            "<iframe class=\"play\" loading=\"lazy\" title=\"{title}\" \
             src=\"{address}?embed=1#{link}\"></iframe>\n\n\
             <p class=\"play-link\"><a href=\"{address}#{link}\">{title}: open in the playground</a></p>\n"
        )
    }
}

/// True if a line begins the comment of a run.
pub(crate) fn is_start(line: &str) -> bool {
    line.trim_start().starts_with(START)
}

/// The comment that begins with the line `first`, of whose following lines `rest` loses those of the comment.
pub(crate) fn comment<'a>(first: &'a str, rest: &mut impl Iterator<Item = &'a str>) -> String {
    let mut comment = first.to_owned();
    while !comment.trim_end().ends_with(END)
        && let Some(line) = rest.next()
    {
        comment.push_str(line);
    }
    comment
}

const START: &str = "<!-- play";
const END: &str = "-->";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_framed_or_linked() {
        let framed = PlayedRun::read("<!-- play scenario=a&at=1: Two ranks -->\n").unwrap();
        assert_eq!(
            (&*framed.link, &*framed.title, framed.is_framed),
            ("scenario=a&at=1", "Two ranks", true)
        );
        assert!(
            framed
                .html("../")
                .contains("src=\"../playground/index.html?embed=1#scenario=a&amp;at=1\"")
        );
        let linked = PlayedRun::read("<!-- play it scenario=a: Two: ranks -->").unwrap();
        assert_eq!(
            (&*linked.link, &*linked.title, linked.is_framed),
            ("scenario=a", "Two: ranks", false)
        );
        let html = linked.html("");
        let address = "playground/index.html#scenario=a";
        let expected =
            format!("<p class=\"play-link\"><a href=\"{address}\">Play it</a>: Two: ranks</p>\n");
        assert_eq!(html, expected);
    }

    #[test]
    fn scenario_of_a_comment_is_in_the_link() {
        let run = PlayedRun::read("<!-- play it message=put: A put\nranks 1\n  put k \"a&b\"\n-->")
            .unwrap();
        let about = "about+%22A+put%22%0A";
        assert_eq!(run.link, format!("text={about}ranks+1%0A++put+k+%22a%26b%22%0A&message=put"));
        let run = PlayedRun::read("<!-- play it: A job\nranks 1\n-->").unwrap();
        let link = "text=about+%22A+job%22%0Aranks+1%0A";
        assert_eq!((&*run.link, run.is_framed), (link, false));
        for other in
            ["<!-- play it: A job -->", "<!-- play scenario=a -->", "<!-- other -->", "play a: b"]
        {
            assert_eq!(PlayedRun::read(other), None, "{other}");
        }
    }
}
