//! What a message says.

/// The command of a message: what stands behind its first `cmd=`. Empty if it does not begin with one.
pub fn word(message: &[u8]) -> &[u8] {
    let front = message.iter().take_while(|byte| b" 0123456789\r\tm".contains(byte)).count();
    let rest = message.get(front..).and_then(|rest| rest.strip_prefix(b"cmd=")).unwrap_or_default();
    let end = rest.iter().position(|byte| b" ;\r\n\0".contains(byte)).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}
