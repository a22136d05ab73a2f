//! A script is a row of steps: one byte for who and what, one for the length, and so many bytes.
//!
//! It is made so that bytes of the wire stand in it as they are: whoever mutates it finds them, and
//! pieces of one script go well with pieces of another.

/// One step: somebody does something with these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Who, from 0 to 7.
    pub who: u8,
    /// What, from 0 to 31.
    pub what: u8,
    /// With what.
    pub bytes: &'a [u8],
}

/// Reads a script; what is cut off at its end is a shorter step.
pub fn steps(script: &[u8]) -> impl Iterator<Item = Step<'_>> {
    let mut rest = script;
    std::iter::from_fn(move || {
        let [head, len, after @ ..] = rest else { return None };
        let (bytes, after) = after.split_at(after.len().min(usize::from(*len)));
        rest = after;
        Some(Step { who: head & 7, what: head >> 3, bytes })
    })
}

/// Adds a step to a script, or several if its bytes are too many for one.
pub fn write_step(script: &mut Vec<u8>, step: Step<'_>) {
    let head = step.what << 3 | step.who & 7;
    let mut rest = step.bytes;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(usize::from(u8::MAX)));
        script.extend([head, u8::try_from(piece.len()).unwrap_or(u8::MAX)]);
        script.extend(piece);
        rest = after;
        if rest.is_empty() {
            return;
        }
    }
}
