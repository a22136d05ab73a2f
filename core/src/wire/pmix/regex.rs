//! Compressed lists of nodes and of processes.
//!
//! Clients that receive their data by messages need no such lists; they are read if another server
//! sends them.
//!
//! Wire: `raw:` and a comma list; or `pmix[node[2:1-3,7],login]`, where the number in front of a
//! colon is the number of digits; or `blob`, NUL, `component=zlib:`, NUL, `size=N:`, NUL and
//! N bytes. The first two end with NUL. Processes of one node stand between `;`.

/// Length of the list at the front of `bytes`; `None` if there is none.
pub(super) fn len(bytes: &[u8]) -> Option<usize> {
    let until_nul = |from: usize| {
        let rest = bytes.get(from..)?;
        Some(from + rest.iter().position(|byte| *byte == 0)? + 1)
    };
    if !bytes.starts_with(b"blob\0") {
        let is_known = bytes.starts_with(b"raw:") || bytes.starts_with(b"pmix");
        return until_nul(0).filter(|_| is_known);
    }
    let component = until_nul(b"blob\0".len())?;
    let end = until_nul(component)?;
    let size = bytes.get(component..end)?.strip_prefix(b"size=")?.strip_suffix(b":\0")?;
    let size = size.iter().try_fold(0_usize, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| usize::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })?;
    end.checked_add(size).filter(|end| *end <= bytes.len())
}

/// Calls `each` with every name of a list, in order: the part in front of the digits, and the
/// digits, if they come from a range.
///
/// # Errors
///
/// `None` for a list that was compressed by zlib, and for an invalid list.
pub fn names(list: &[u8], mut each: impl FnMut(&[u8], Option<Numbered>)) -> Option<()> {
    let list = list.strip_suffix(b"\0").unwrap_or(list);
    if let Some(plain) = list.strip_prefix(b"raw:") {
        plain.split(|byte| *byte == b',').for_each(|name| each(name, None));
        return Some(());
    }
    let mut rest = list.strip_prefix(b"pmix[")?.strip_suffix(b"]")?;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| matches!(byte, b',' | b'[')).unwrap_or(rest.len());
        let (name, behind) = rest.split_at_checked(end)?;
        rest = match behind.strip_prefix(b"[") {
            None => {
                each(name, None);
                behind
            }
            Some(inside) => {
                let close = inside.iter().position(|byte| *byte == b']')?;
                let (ranges, behind) = inside.split_at_checked(close)?;
                numbered(name, ranges, &mut each)?;
                behind.get(1..)?
            }
        };
        rest = match rest.strip_prefix(b",") {
            Some(more) => more,
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    Some(())
}

/// A number with a fixed number of digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The number.
    pub number: u32,
    /// Number of digits, with zeros in front.
    pub digits: u32,
}

fn numbered(
    name: &[u8],
    ranges: &[u8],
    each: &mut impl FnMut(&[u8], Option<Numbered>),
) -> Option<()> {
    let colon = ranges.iter().position(|byte| *byte == b':')?;
    let digits = number(ranges.get(..colon)?)?;
    for range in ranges.get(colon + 1..)?.split(|byte| *byte == b',') {
        let mut ends = range.split(|byte| *byte == b'-').map(number);
        let first = ends.next()??;
        let last = ends.next().unwrap_or(Some(first))?;
        if last < first || last - first >= RANGE_MAX || ends.next().is_some() {
            return None;
        }
        (first..=last).for_each(|number| each(name, Some(Numbered { number, digits })));
    }
    Some(())
}

fn number(text: &[u8]) -> Option<u32> {
    (!text.is_empty()).then_some(())?;
    text.iter().try_fold(0_u32, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u32::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// Limit of a range, above the nodes of any machine: a few bytes must not cause hours of work.
const RANGE_MAX: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;
    use std::vec::Vec;
    use std::{format, vec};

    fn listed(list: &str) -> Option<Vec<String>> {
        let mut all = vec![];
        names(list.as_bytes(), |name, number| {
            let name = String::from_utf8_lossy(name);
            all.push(match number {
                None => name.into_owned(),
                Some(Numbered { number, digits }) => {
                    format!("{name}{number:0width$}", width = digits as usize)
                }
            });
        })?;
        Some(all)
    }

    #[test]
    fn both_forms_name_the_same_nodes() {
        let nodes = ["node01", "node02", "node03", "node07", "login"];
        assert_eq!(listed("pmix[node[2:1-3,7],login]").unwrap(), nodes);
        assert_eq!(listed("raw:node01,node02,node03,node07,login\0").unwrap(), nodes);
        assert_eq!(listed("pmix[a,b[1:9-10]]").unwrap(), ["a", "b9", "b10"]);
        for bad in ["", "pmix[a", "pmix[a[1:2]b]", "pmix[a[2]]", "pmix[a[1:3-2]]", "pmix[a[1:x]]"] {
            assert_eq!(listed(bad), None, "{bad}");
        }
        assert_eq!(listed("pmix[a[1:0-4294967295]]"), None);
    }

    #[test]
    fn forms_determine_their_ends() {
        assert_eq!(len(b"raw:a,b\0rest"), Some(8));
        assert_eq!(len(b"pmix[a]\0rest"), Some(8));
        let blob = b"blob\0component=zlib:\0size=5:\0abcderest";
        assert_eq!(len(blob), Some(blob.len() - 4));
        for bad in [&b"raw:a"[..], b"other\0", b"blob\0component=zlib:\0size=9:\0abc", b""] {
            assert_eq!(len(bad), None);
        }
    }
}
