//! Every command word, once.
//!
//! | verb | PMI-1 request | PMI-1 reply | PMI-2 request (its reply adds `-response`) |
//! |---|---|---|---|
//!
//! An empty word means that the dialect has no such exchange.

use crate::command::Verb;
use crate::parts;

/// The words of one exchange.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// Kind of the request.
    pub verb: Verb,
    /// PMI-1, client to server.
    pub line: &'static str,
    /// PMI-1, server to client.
    pub line_reply: &'static str,
    /// PMI-2, client to server.
    pub frame: &'static str,
}

/// Greeting of both ends where a client has started its launcher. Spec: PMI-1, `singinit`.
pub const SINGLETON: &[u8] = b"singinit";
/// Second message of the launcher.
pub const SINGLETON_INFO: &[u8] = b"singinit_info";
/// The one reply of PMI-2 that is not named after its request. It answers `fullinit`, and itself where a
/// method of authentication has several rounds.
pub const CHALLENGE: &[u8] = b"auth-response";

/// Count and pairs of a whole space, before `kvs-getall-response`.
pub const GETALL_COUNT: &[u8] = b"kvs-getall-paircount-response";
/// See [`GETALL_COUNT`].
pub const GETALL_PAIR: &[u8] = b"kvs-getall-pair-response";

/// Unsolicited message of a server.
pub const CHECKPOINT: &[u8] = b"checkpoint";
/// See [`CHECKPOINT`].
pub const ABORT: &[u8] = b"abort";

/// Field of a message that continues in another frame, and command of the continuation.
pub const CONCAT: &str = "concat";

/// Command of a message that describes one program of the spawn before it.
pub const SPAWN_COMMAND: &[u8] = b"spawn-cmd";

/// Suffix of the reply to a command of PMI-2.
pub const RESPONSE: &[u8] = b"-response";

const fn words(
    verb: Verb,
    line: &'static str,
    line_reply: &'static str,
    frame: &'static str,
) -> Words {
    Words { verb, line, line_reply, frame }
}

/// Message of a client in a method of authentication with several rounds: beside the table, which boards
/// hold that have no such method.
const AUTH_RESPONSE: Words = words(Verb::AuthResponse, "", "", "auth-response");

/// All exchanges. Spec: PMI-1.1 and 1.2 message tables; PMI-2 wire protocol, message tables.
pub const TABLE: [Words; 27] = [
    // PMI-2 opens with the PMI-1 line, so `init` is in both columns of lines and in no frame.
    words(Verb::Init, "init", "response_to_init", ""),
    words(Verb::InitAck, "initack", "initack", ""),
    words(Verb::FullInit, "", "", "fullinit"),
    words(Verb::Proof, "", "", "auth-response-complete"),
    words(Verb::Maxes, "get_maxes", "maxes", ""),
    words(Verb::AppNum, "get_appnum", "appnum", ""),
    words(Verb::UniverseSize, "get_universe_size", "universe_size", ""),
    words(Verb::KvsName, "get_my_kvsname", "my_kvsname", "job-getid"),
    words(Verb::Put, "put", "put_result", "kvs-put"),
    words(Verb::Get, "get", "get_result", "kvs-get"),
    words(Verb::Fence, "barrier_in", "barrier_out", "kvs-fence"),
    words(Verb::NodePut, "", "", "info-putnodeattr"),
    words(Verb::NodeGet, "", "", "info-getnodeattr"),
    words(Verb::JobGet, "", "", "info-getjobattr"),
    words(Verb::Publish, "publish_name", "publish_result", "name-publish"),
    words(Verb::Unpublish, "unpublish_name", "unpublish_result", "name-unpublish"),
    words(Verb::Lookup, "lookup_name", "lookup_result", "name-lookup"),
    words(Verb::Spawn, "spawn", "spawn_result", "spawn"),
    words(Verb::Connect, "", "", "job-connect"),
    words(Verb::Disconnect, "", "", "job-disconnect"),
    words(Verb::GetAll, "", "", "kvs-getall"),
    words(Verb::PutAll, "", "", "kvs-putall"),
    words(Verb::PutPair, "", "", "kvs-putall-pair"),
    words(Verb::Ring, "", "", "ring"),
    words(Verb::OutOfBand, "init_oob", "response_to_init_oob", ""),
    words(Verb::Abort, "abort", "", "abort"),
    words(Verb::Finalize, "finalize", "finalize_ack", "finalize"),
];

/// The words of an exchange; `None` for [`Verb::Unknown`].
pub fn of(verb: Verb) -> Option<&'static Words> {
    if has(Verb::AuthResponse) && verb == Verb::AuthResponse {
        return Some(&AUTH_RESPONSE);
    }
    TABLE.iter().find(|words| words.verb == verb)
}

/// True if this build supports the request.
pub const fn has(verb: Verb) -> bool {
    match verb {
        Verb::NodePut | Verb::NodeGet | Verb::JobGet | Verb::FullInit => parts::PMI2,
        Verb::Connect
        | Verb::Disconnect
        | Verb::GetAll
        | Verb::PutAll
        | Verb::PutPair
        | Verb::Ring => parts::CONNECT,
        Verb::Proof | Verb::AuthResponse => parts::PMI2 && parts::LISTEN,
        Verb::InitAck | Verb::OutOfBand | Verb::Notice => parts::LISTEN,
        Verb::Publish | Verb::Unpublish | Verb::Lookup => parts::NAMES,
        Verb::Spawn => parts::SPAWN,
        _ => true,
    }
}

/// The exchange that `word` names in `column`, if this build has it.
pub fn find(word: &[u8], column: fn(&Words) -> &'static str) -> Option<Verb> {
    if has(Verb::AuthResponse) && word == CHALLENGE && column(&AUTH_RESPONSE).as_bytes() == word {
        return Some(Verb::AuthResponse);
    }
    let found = TABLE.iter().find(|words| column(words).as_bytes() == word)?;
    if word.is_empty() || !has(found.verb) { None } else { Some(found.verb) }
}

/// Name of a request in reports.
pub fn display_name(verb: Verb) -> &'static str {
    match of(verb) {
        Some(words) if words.line.is_empty() => words.frame,
        Some(words) => words.line,
        None => "an unknown command",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_stands_for_two_exchanges() {
        for column in [|w: &Words| w.line, |w: &Words| w.line_reply, |w: &Words| w.frame] {
            for (at, words) in TABLE.iter().enumerate() {
                let word = column(words);
                let first = TABLE.iter().position(|other| column(other) == word);
                assert!(word.is_empty() || first == Some(at), "{word}");
            }
        }
    }

    #[test]
    fn exchanges_have_words_and_are_found_by_them() {
        for words in &TABLE {
            assert!(!display_name(words.verb).is_empty());
            assert_eq!(of(words.verb).map(|w| w.verb), Some(words.verb));
        }
        assert_eq!(find(b"put", |w| w.line), Some(Verb::Put));
        assert_eq!(find(b"", |w| w.line), None);
        assert!(of(Verb::Unknown).is_none());
    }
}
