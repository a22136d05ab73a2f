//! Messages taken apart and put together again, fields in any order.

/// One message of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// True for a frame of PMI-2, false for a line.
    pub(super) is_frame: bool,
    /// True if the length is aligned to the left.
    pub(super) is_left: bool,
    /// True if the receiver reads `;;` in a value as one `;`.
    pub(super) doubles: bool,
    /// The fields, `cmd` first, without their separators.
    pub(super) fields: Vec<MessageField>,
}

/// A name and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MessageField {
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl MessageField {
    pub(super) fn new(name: &str, value: &str) -> Self {
        Self { name: name.into(), value: value.into() }
    }

    fn of(bytes: &[u8]) -> Self {
        let end = bytes.iter().position(|byte| *byte == b'=').unwrap_or(bytes.len());
        let value = bytes.get(end + 1..).unwrap_or_default();
        Self { name: bytes[..end].to_vec(), value: value.to_vec() }
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.name == name.as_bytes()
    }
}

impl Message {
    /// Parses a whole message.
    pub(super) fn read(bytes: &[u8]) -> Self {
        match bytes.first() {
            Some(b'c' | b'm') | None => Self {
                is_frame: false,
                is_left: false,
                doubles: false,
                fields: line_fields(bytes.trim_ascii_end()),
            },
            Some(_) => Self {
                is_frame: true,
                is_left: doubles(bytes),
                doubles: false,
                fields: frame_fields(bytes.get(LENGTH..).unwrap_or_default()),
            },
        }
    }

    pub(super) fn cmd(&self) -> &[u8] {
        self.fields.first().map_or(b"", |field| &field.value)
    }

    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.is(name))
    }

    pub(super) fn cmd_is(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.cmd() == name.as_bytes())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// Replaces the value of a field, if it is there.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        for field in self.fields.iter_mut().filter(|field| field.is(name)) {
            field.value = value.into();
        }
    }

    /// Keeps only the fields that match the answer to its request.
    pub(super) fn clear(&mut self) {
        self.fields.retain(|field| ["cmd", "thrid"].iter().any(|name| field.is(name)));
    }

    pub(super) fn push(&mut self, name: &str, value: &str) {
        self.fields.push(MessageField::new(name, value));
    }

    pub(super) fn is_success(&self) -> bool {
        self.position("rc").is_none_or(|at| self.fields[at].value == b"0")
    }

    /// Encodes the message.
    pub(super) fn write(&self) -> Vec<u8> {
        let pairs = self
            .fields
            .iter()
            .map(|MessageField { name, value }| [name, value].map(Vec::as_slice).join(&b'='));
        if !self.is_frame {
            return [pairs.collect::<Vec<_>>().join(&b' '), b"\n".to_vec()].concat();
        }
        let body: Vec<u8> = pairs.flat_map(|pair| [pair, b";".to_vec()].concat()).collect();
        let length =
            if self.is_left { format!("{:<6}", body.len()) } else { format!("{:6}", body.len()) };
        [length.into_bytes(), body].concat()
    }
}

/// Fields of a line. The last one may hold blanks: a value, a port or a human-readable text.
fn line_fields(line: &[u8]) -> Vec<MessageField> {
    let (mut fields, mut rest) = (Vec::new(), line);
    while !rest.is_empty() {
        let to_the_end = ["value=", "port="].iter().any(|name| rest.starts_with(name.as_bytes()));
        let blank = rest.iter().position(|byte| *byte == b' ').filter(|_| !to_the_end);
        let end = blank.unwrap_or(rest.len());
        if end > 0 {
            fields.push(MessageField::of(&rest[..end]));
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    fields
}

/// A doubled `;` is part of a value.
fn frame_fields(body: &[u8]) -> Vec<MessageField> {
    let (mut fields, mut start, mut at) = (Vec::new(), 0, 0);
    while at < body.len() {
        if body[at] == b';' && body.get(at + 1) == Some(&b';') {
            at += 2;
        } else if body[at] == b';' {
            fields.push(MessageField::of(&body[start..at]));
            at += 1;
            start = at;
        } else {
            at += 1;
        }
    }
    fields
}

/// True if the sender of these bytes aligns lengths to the left, and so doubles a `;` in a value.
pub(super) fn doubles(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(u8::is_ascii_digit) && bytes.get(LENGTH - 1) == Some(&b' ')
}

/// Takes the first whole message of a client from `bytes` and returns the name of its request.
pub(super) fn pop_request(bytes: &mut Vec<u8>) -> Option<String> {
    let is_line = matches!(bytes.first()?, b'c' | b'm' | b'\n');
    let end = match is_line {
        true if bytes.starts_with(b"m") => find(bytes, b"endcmd\n")? + b"endcmd\n".len(),
        true => find(bytes, b"\n")? + 1,
        false => {
            let length = String::from_utf8_lossy(bytes.get(..LENGTH)?).trim().parse::<usize>();
            LENGTH + length.unwrap_or(0)
        }
    };
    if bytes.len() < end {
        return None;
    }
    let whole: Vec<u8> = bytes.drain(..end).collect();
    let start = find(&whole, b"cmd=").map_or(whole.len(), |at| at + b"cmd=".len());
    let word = whole[start..].split(|byte| b" ;\n".contains(byte)).next().unwrap_or_default();
    Some(String::from_utf8_lossy(word).into_owned())
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Number of characters of the length of a frame.
const LENGTH: usize = super::super::raw_connection::LENGTH;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_the_same_after_it_was_taken_apart() {
        for text in [
            "cmd=get_result rc=0 value=a b=c\n",
            "cmd=finalize_ack rc=0\n",
            "    43cmd=kvs-get-response;rc=0;value=a;;b;x=abc;",
            "18    cmd=a-response;x=;",
        ] {
            let again = Message::read(text.as_bytes()).write();
            assert_eq!(String::from_utf8_lossy(&again), text);
        }
        let mut message = Message::read(b"    26cmd=a-response;rc=0;x=1;;;");
        assert_eq!(message.fields[2], MessageField::new("x", "1;;"));
        message.is_left = true;
        assert_eq!(message.write(), b"26    cmd=a-response;rc=0;x=1;;;");
        assert!(message.is_success());
    }

    #[test]
    fn requests_are_taken_one_by_one_in_both_dialects() {
        let mut bytes =
            b"cmd=init pmi_version=2\n    14cmd=job-getid;mcmd=spawn\nx=1\nendcmd\ncmd=fin"
                .to_vec();
        let mut words = Vec::new();
        while let Some(word) = pop_request(&mut bytes) {
            words.push(word);
        }
        assert_eq!(words, ["init", "job-getid", "spawn"]);
        assert_eq!(bytes, b"cmd=fin");
    }
}
