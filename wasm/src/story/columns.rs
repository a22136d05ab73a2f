//! Messages as columns of numbers: a page has a hundred thousand of them in memory before it could have read
//! their JSON.

use super::{Message, Story};
use crate::fields::connection::PmixConversation;
use crate::fields::{Fields, is_line, name_of_line, pmix, words_of_line};
use crate::json::Json;

/// What is drawn of a message without a look at its fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageSummary {
    /// Its wire format, as in [`Fields`].
    pub(crate) dialect: &'static str,
    /// Common name of its exchange; empty if it belongs to none.
    pub(crate) name: &'static str,
    /// True if it reports an error.
    pub(crate) is_refusal: bool,
    /// True if its own bytes name a fence.
    pub(crate) is_fence: bool,
    /// The tag that a reply of PMIx shares with its request.
    pub(crate) tag: Option<u32>,
}

/// Wire formats; a message is listed with the number of its own.
pub(crate) const DIALECTS: [&str; 5] = ["", "lines", "frames", "pmix", "nodes"];

impl Story {
    /// Names all messages.
    pub(super) fn summarize(&mut self) {
        let mut connections = vec![PmixConversation::default(); self.lanes.len()];
        for message in &mut self.messages {
            message.summary = message.summary(&mut connections[message.lane]);
        }
    }

    /// Names of exchanges; a message is listed with the number of its own.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for Message { summary, .. } in &self.messages {
            if !names.contains(&summary.name) {
                names.push(summary.name);
            }
        }
        names
    }

    /// Eight numbers of each message, in the order of sending: lane, flags (1: to the server, 2: made by
    /// no client, 4: an error), time and step of sending, length, number of parts, and the numbers of
    /// its name and its wire format.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        let names = self.names();
        let mut all = Vec::with_capacity(self.messages.len() * 8);
        for message in &self.messages {
            let MessageSummary { dialect, name, is_refusal, .. } = message.summary;
            let flags = u8::from(message.is_up) | u8::from(message.is_raw) << 1;
            let flags = flags | u8::from(is_refusal) << 2;
            let dialect = DIALECTS.iter().position(|known| *known == dialect).unwrap_or(0);
            all.extend([
                message.lane as f64,
                flags.into(),
                message.sent.ns as f64,
                message.sent.step as f64,
                message.bytes.len() as f64,
                message.parts.len() as f64,
                names.iter().position(|known| *known == name).unwrap_or(0) as f64,
                dialect as f64,
            ]);
        }
        all
    }

    /// Numbers of each part of each message: time and step of its arrival, and the bytes that had arrived.
    pub(crate) fn parts(&self) -> Vec<f64> {
        let parts = self.messages.iter().flat_map(|message| &message.parts);
        parts.flat_map(|(at, had)| [at.ns as f64, at.step as f64, *had as f64]).collect()
    }

    /// The bytes of all messages.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.messages.iter().map(|one| one.bytes.len()).sum());
        self.messages.iter().for_each(|message| all.extend_from_slice(&message.bytes));
        all
    }

    /// The fields of one message as JSON. Those of PMIx depend on the earlier messages of the connection.
    pub(crate) fn fields(&self, index: usize) -> String {
        Json::of(|json| {
            let Some(message) = self.messages.get(index) else { return };
            let mut fields = message.fields();
            if fields.dialect == pmix::DIALECT {
                let mut connection = PmixConversation::default();
                for one in self.messages[..index].iter().filter(|one| one.lane == message.lane) {
                    one.summary(&mut connection);
                }
                connection.describe(&mut fields, &message.bytes, message.is_up);
            }
            json.list("fields", &fields.fields, |json, field| {
                json.object(|json| {
                    json.text("name", &field.name);
                    json.plain("start", field.start);
                    json.plain("value", field.value);
                    json.plain("end", field.end);
                    if let Some(text) = &field.text {
                        json.text("text", text);
                    }
                });
            });
        })
    }
}

impl Message {
    /// Its fields, as far as they depend on its own bytes.
    fn fields(&self) -> Fields {
        #[cfg(feature = "tree")]
        if self.summary.dialect == crate::fields::nodes::DIALECT {
            return crate::fields::nodes::of(&self.bytes);
        }
        Fields::of(&self.bytes, self.is_up)
    }

    /// What its bytes say, after the earlier messages of the connection.
    fn summary(&self, connection: &mut PmixConversation) -> MessageSummary {
        if is_line(&self.bytes) {
            let (word, result) = words_of_line(&self.bytes);
            let name = name_of_line(word, self.is_up);
            return MessageSummary {
                dialect: "lines",
                name: name.unwrap_or_default(),
                is_refusal: result.is_some_and(|code| !matches!(code, b"" | b"0")),
                is_fence: name == Some("barrier_in"),
                tag: None,
            };
        }
        let mut fields = Fields::of(&self.bytes, self.is_up);
        let tag = fields.tag(&self.bytes);
        let own = fields.display_name(&self.bytes, self.is_up);
        let described = connection.describe(&mut fields, &self.bytes, self.is_up);
        let result = fields.value(&self.bytes, "rc");
        let status = fields.fields.iter().find(|field| field.name == "status");
        let status = status.filter(|_| fields.dialect == pmix::DIALECT && !self.is_up);
        let is_refusal = match (result, status.and_then(|status| status.text.as_deref())) {
            (Some(code), _) => !matches!(code, b"" | b"0"),
            (None, status) => status.is_some_and(|status| status != "SUCCESS"),
        };
        MessageSummary {
            dialect: fields.dialect,
            name: described.or(own).unwrap_or_default(),
            is_refusal,
            is_fence: own == Some("barrier_in"),
            tag,
        }
    }
}
