//! Words of a line, and words with blanks to fill in.

use std::fmt;

/// A word in which `$r`, `$n`, `$next`, `$prev` and the names of loops stand for numbers, and `~N`
/// for N letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phrase(pub Vec<u8>);

/// Values of the names in a phrase.
#[derive(Clone, Debug)]
pub(super) struct Bindings {
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) loops: Vec<(String, u32)>,
}

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) bytes: Vec<u8>,
    /// True for a quoted word, which is never a keyword.
    pub(super) is_quoted: bool,
}

impl Word {
    /// The word, unless it is quoted.
    pub(super) fn plain(&self) -> Option<&str> {
        if self.is_quoted { None } else { str::from_utf8(&self.bytes).ok() }
    }
}

/// Splits a line into words; `#` begins a comment.
///
/// # Errors
///
/// A malformed quoted word.
pub(super) fn split(line: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with('#') {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (bytes, after) = unquote(quoted)?;
            words.push(Word { bytes, is_quoted: true });
            if !(after.is_empty() || after.starts_with(char::is_whitespace)) {
                return Err("a blank is missing behind the closing quote".into());
            }
            rest = after.trim_start();
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            words.push(Word { bytes: word.into(), is_quoted: false });
            rest = after.trim_start();
        }
    }
    Ok(words)
}

fn unquote(text: &str) -> Result<(Vec<u8>, &str), String> {
    let mut bytes = Vec::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((bytes, &text[at + 1..])),
            '\\' => match chars.next() {
                Some((_, 'n')) => bytes.push(b'\n'),
                Some((_, 'r')) => bytes.push(b'\r'),
                Some((_, 't')) => bytes.push(b'\t'),
                Some((_, '0')) => bytes.push(0),
                Some((_, c @ ('"' | '\\' | '\''))) => bytes.extend(c.to_string().bytes()),
                Some((at, 'x')) => {
                    let digits = text.get(at + 1..at + 3);
                    let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                    bytes.push(byte.ok_or("\\x needs two hexadecimal digits")?);
                    chars.nth(1);
                }
                _ => return Err("after \\ comes one of n r t 0 \" \\ or xHH".into()),
            },
            other => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    Err("the closing quote is missing".into())
}

/// Writes `bytes` as a quoted word, or bare if that reads the same.
pub(super) fn quote(bytes: &[u8]) -> String {
    let bare = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'#' | b'\\');
    if !bytes.is_empty() && bytes.iter().all(bare) {
        return bytes.escape_ascii().to_string().replace("\\'", "'");
    }
    format!("\"{}\"", bytes.escape_ascii().to_string().replace("\\'", "'"))
}

impl Phrase {
    /// Replaces the names by their values.
    ///
    /// # Errors
    ///
    /// An undefined name.
    pub(super) fn fill(&self, scope: &Bindings) -> Result<Vec<u8>, String> {
        let mut filled = Vec::new();
        let mut rest = &self.0[..];
        while let Some((first, after)) = rest.split_first() {
            let len = |is: fn(&u8) -> bool| after.iter().take_while(|b| is(b)).count();
            match first {
                b'$' if after.first() == Some(&b'$') => {
                    filled.push(b'$');
                    rest = &after[1..];
                }
                b'$' => {
                    let (name, behind) = after.split_at(len(u8::is_ascii_alphabetic));
                    let number = scope.number(name)?;
                    filled.extend(number.to_string().bytes());
                    rest = behind;
                }
                b'~' if after.first().is_some_and(u8::is_ascii_digit) => {
                    let (digits, behind) = after.split_at(len(u8::is_ascii_digit));
                    let count = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
                    let count: usize =
                        count.filter(|n| *n <= LETTERS_MAX).ok_or("too many letters")?;
                    // Letters that differ by rank, so that mixing two values up shows.
                    let start = u64::from(scope.rank);
                    let letters = (start..).map(|n| b'a' + u8::try_from(n % 26).unwrap_or(0));
                    filled.extend(letters.take(count));
                    rest = behind;
                }
                other => {
                    filled.push(*other);
                    rest = after;
                }
            }
        }
        Ok(filled)
    }
}

impl Bindings {
    fn number(&self, name: &[u8]) -> Result<u32, String> {
        match name {
            b"r" => return Ok(self.rank),
            b"n" => return Ok(self.size),
            b"next" => return Ok((self.rank + 1) % self.size),
            b"prev" => return Ok((self.rank + self.size - 1) % self.size),
            _ => {}
        }
        let found = self.loops.iter().rfind(|(own, _)| own.as_bytes() == name);
        found.map(|(_, number)| *number).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            format!("${name} is undefined here; there are $r $n $next $prev and loops")
        })
    }
}

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quote(&self.0))
    }
}

impl From<&str> for Phrase {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// Upper bound of a phrase, far above every limit of the protocol.
const LETTERS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Bindings {
        Bindings { rank: 3, size: 4, loops: vec![("p".into(), 9)] }
    }

    #[test]
    fn words_are_cut_at_blanks_and_quotes_hold_anything() {
        let words = split(r#" put  "a b\n\x00\"" c#d # rest"#).unwrap();
        let bytes: Vec<&[u8]> = words.iter().map(|word| &word.bytes[..]).collect();
        assert_eq!(bytes, [b"put", &b"a b\n\0\""[..], b"c#d"]);
        assert_eq!((words[0].plain(), words[1].plain()), (Some("put"), None));
        for bad in [r#""open"#, r#""\q""#, r#""\x4""#, r#""a"b"#] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn quoted_words_are_read_back() {
        for bytes in
            [&b""[..], b"plain", b"it's", b"a b", b"\n\xff\0\\\"", b"a#b", "\u{192}".as_bytes()]
        {
            let words = split(&quote(bytes)).unwrap();
            assert_eq!(words.len(), 1);
            assert_eq!(words[0].bytes, bytes);
        }
    }

    #[test]
    fn phrases_are_filled_in() {
        let fill =
            |text: &str| Phrase::from(text).fill(&scope()).map(|b| String::from_utf8(b).unwrap());
        assert_eq!(fill("card-$r/$n:$next,$prev;$p$$").unwrap(), "card-3/4:0,2;9$");
        assert_eq!(fill("x~3~").unwrap(), "xdef~");
        assert!(fill("$q").unwrap_err().contains("$q"));
        assert!(fill("~99999999999").is_err());
    }
}
