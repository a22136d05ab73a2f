//! A script is a sequence of steps: one byte for the actor and the action, one for the length, and the
//! bytes.
//!
//! Bytes of the wire stand in it unchanged, so that a mutating fuzzer finds them and
//! pieces of one script combine with pieces of another.

/// One step: an actor performs an action with these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Number of the actor, from 0 to 7.
    pub who: u8,
    /// Number of the action, from 0 to 31.
    pub what: u8,
    /// Bytes of the action.
    pub bytes: &'a [u8],
}

/// Reads a script; a step that is cut off at the end is shorter.
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
