//! Text that is added to forwarded lines.

use super::OutputSource;
use pmi_host_os::stream::Stream;
use std::time::SystemTime;

/// Format of forwarded lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputFormat {
    /// Source of the line.
    pub(crate) tag: LineTag,
    /// True if the time precedes it, in seconds since 1970.
    pub(crate) has_time: bool,
    /// True for elements of XML.
    pub(crate) is_xml: bool,
}

/// Source of a line, as it precedes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LineTag {
    /// None.
    #[default]
    Nothing,
    /// `[RANK]<stdout>: `
    Rank,
    /// `[NAMESPACE,RANK]<stdout>: `
    Process,
    /// `[NAMESPACE,RANK][HOST:PID]<stdout>: `
    Detailed,
}

impl OutputFormat {
    /// True if output is forwarded as it is.
    pub(crate) fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// Moves whole lines to `to`, formatted; at the end of the stream and if it is too long to wait for,
    /// also an unfinished one.
    pub(super) fn take_lines(
        self,
        of: (&OutputSource, Stream),
        is_end: bool,
        partial: &mut Vec<u8>,
        to: &mut Vec<u8>,
    ) {
        let is_last = is_end || partial.len() > LINE_MAX;
        let end = match partial.iter().rposition(|byte| *byte == b'\n') {
            _ if is_last => partial.len(),
            Some(last) => last + 1,
            None => return,
        };
        let lines: Vec<u8> = partial.drain(..end).collect();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            self.put(of, line.strip_suffix(b"\n").unwrap_or(line), to);
        }
    }

    fn put(self, (source, stream): (&OutputSource, Stream), line: &[u8], to: &mut Vec<u8>) {
        let OutputSource { nspace, rank, pid, host, .. } = source;
        let channel = match stream {
            Stream::Out => "stdout",
            Stream::Err => "stderr",
        };
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = format!("{}.{:06}", since.as_secs(), since.subsec_micros());
        if self.is_xml {
            let mut tag = format!("<{channel}");
            if [LineTag::Process, LineTag::Detailed].contains(&self.tag) {
                tag += &format!(" nspace=\"{}\"", escaped(nspace.as_bytes()));
            }
            tag += &format!(" rank=\"{rank}\"");
            if self.tag == LineTag::Detailed {
                tag += &format!(" host=\"{}\" pid=\"{pid}\"", escaped(host.as_bytes()));
            }
            if self.has_time {
                tag += &format!(" timestamp=\"{time}\"");
            }
            to.extend(format!("{tag}>{}</{channel}>\n", escaped(line)).bytes());
            return;
        }
        if self.has_time {
            to.extend(format!("[{time}]").bytes());
        }
        let tag = match self.tag {
            LineTag::Nothing => format!("<{channel}>: "),
            LineTag::Rank => format!("[{rank}]<{channel}>: "),
            LineTag::Process => format!("[{nspace},{rank}]<{channel}>: "),
            LineTag::Detailed => format!("[{nspace},{rank}][{host}:{pid}]<{channel}>: "),
        };
        to.extend(tag.bytes());
        to.extend_from_slice(line);
        to.push(b'\n');
    }
}

/// Text of an element or attribute of XML. Bytes that are no text are replaced.
fn escaped(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' => escaped.push(letter),
            // XML 1.0 has no other control characters, not even by number.
            letter if letter.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Longest unfinished line that is kept back.
const LINE_MAX: usize = 64 << 10;
