//! Mutations of single messages.

use super::message::{Message, MessageField};

/// A value that no rank has put: a client that prints it or sends it has accepted an invalid answer.
pub(super) const FOREIGN_VALUE: &str = "not-a-value";

pub(super) fn extra(message: &mut Message) {
    message.fields.insert(1, MessageField::new("colour", "blue"));
}

/// A value of a frame holds `;` only for clients that know how it is written.
pub(super) fn inside(message: &mut Message) {
    let text = match message.is_frame && message.doubles {
        true => format!("value={FOREIGN_VALUE};;found=TRUE;;value={FOREIGN_VALUE};;rc=1"),
        false => format!("value={FOREIGN_VALUE},rc=1"),
    };
    message.fields.insert(1, MessageField::new("colour", &text));
}

/// Applies to lines only: no known server sends it in frames.
pub(super) fn text(message: &mut Message) {
    if !message.is_frame && message.has("rc") && !message.has("msg") {
        message.fields.insert(1, MessageField::new("msg", "success"));
    }
}

/// The fields behind `cmd` in reverse order; a value stays last on a line.
pub(super) fn order(message: &mut Message) {
    let Message { is_frame, fields, .. } = message;
    let last = fields.iter().position(|field| field.is("value") || field.is("port"));
    // The value of a line reaches to its end for some clients, so nothing may follow it.
    let end = last.filter(|_| !*is_frame).unwrap_or(fields.len());
    if let Some(turned) = fields.get_mut(1..end) {
        turned.reverse();
    }
}

pub(super) fn no_code(message: &mut Message) {
    if message.cmd_is(NEEDS_NO_CODE) && message.is_success() {
        message.fields.retain(|field| !field.is("rc"));
    }
}

/// Changes the requested version to 1.2, so that the answer of the server offers it.
pub(super) fn offer_1_2(request: &mut [u8]) -> bool {
    let asks = b"cmd=init pmi_version=1 pmi_subversion=1";
    let does = request.starts_with(asks);
    if does {
        request[asks.len() - 1] = b'2';
    }
    does
}

/// Changes the requested version to 1.1, so that the answer of the server offers it.
pub(super) fn offer_1_1(request: &mut [u8]) -> bool {
    let [asks, gets] =
        [b"cmd=init pmi_version=2 pmi_subversion=0", b"cmd=init pmi_version=1 pmi_subversion=1"];
    let does = request.starts_with(asks);
    if does {
        request[..gets.len()].copy_from_slice(gets);
    }
    does
}

pub(super) fn offer_2_1(message: &mut Message) {
    let is_2 = message.fields.iter().any(|field| field.is("pmi_version") && field.value == b"2");
    if message.cmd_is(INIT) && is_2 {
        message.set("pmi_subversion", "1");
    }
}

pub(super) fn short_fullinit(message: &mut Message) {
    if message.cmd_is(FULLINIT) {
        let gone = ["pmi-version", "pmi-subversion", "debugged"];
        message.fields.retain(|field| !gone.iter().any(|name| field.is(name)));
        message.set("pmiverbose", "0");
    }
}

pub(super) fn found_behind(message: &mut Message) {
    if message.cmd_is(GETS) && message.has("value") {
        message.fields.retain(|field| !field.is("found"));
        message.push("found", "TRUE");
    }
}

pub(super) fn length_left(message: &mut Message) {
    message.is_left = message.is_frame;
}

pub(super) fn no_thrid(message: &mut Message) {
    message.fields.retain(|field| !field.is("thrid"));
}

pub(super) fn unknown(message: &mut Message) {
    message.set("appnum", "-1");
    if message.cmd_is(&["universe_size"]) {
        message.set("size", "-1");
    }
}

pub(super) fn large(message: &mut Message) {
    message.set("vallen_max", "4096");
}

pub(super) fn small(message: &mut Message) {
    message.set("kvsname_max", "64");
}

/// A return code and nothing else.
pub(super) fn errors(message: &mut Message) {
    refuse(message, FAILING, "1", None);
}

pub(super) fn errors_text(message: &mut Message) {
    refuse(message, FAILING, "7", Some(TEXT));
}

/// Hydra 4 sends `value=unknown` for this, and mvapich2 `value=NOTFOUND`.
pub(super) fn missing(message: &mut Message) {
    if !message.cmd_is(GETS) {
        return;
    }
    message.clear();
    if message.is_frame {
        message.push("rc", "0");
        message.push("found", "FALSE");
    } else {
        message.push("rc", "-1");
        message.push("msg", "key_x_not_found");
    }
    message.push("value", FOREIGN_VALUE);
}

/// Form in which gforker refuses an unknown version.
pub(super) fn no_init(message: &mut Message) {
    if message.cmd_is(INIT) {
        message.clear();
        for (name, value) in [("pmi_version", "1"), ("pmi_subversion", "1"), ("rc", "-1")] {
            message.push(name, value);
        }
    }
}

pub(super) fn no_fullinit(message: &mut Message) {
    refuse(message, FULLINIT, "3", Some(TEXT));
}

pub(super) fn no_put(message: &mut Message) {
    refuse(message, &["put_result", "kvs-put-response"], "7", Some(TEXT));
}

pub(super) fn no_fence(message: &mut Message) {
    refuse(message, FENCES, "1", Some(TEXT));
}

pub(super) fn no_finalize(message: &mut Message) {
    refuse(message, &["finalize_ack", "finalize-response"], "1", None);
}

pub(super) fn other(message: &mut Message) {
    if message.cmd_is(GETS) {
        message.clear();
        message.push("rc", "0");
        let name = if message.is_frame { "kvs-put-response" } else { "put_result" };
        message.set("cmd", name);
    }
}

pub(super) fn nonsense(message: &Message) -> Option<Vec<u8>> {
    message.cmd_is(GETS).then(|| match message.is_frame {
        true => b"  zz12nothing=of;the=kind;".to_vec(),
        false => b"\x01\x02 nothing of the kind\n".to_vec(),
    })
}

pub(super) fn endless(message: &Message) -> Option<Vec<u8>> {
    message.cmd_is(GETS).then(|| {
        let front: &[u8] = if message.is_frame {
            b"999999cmd=kvs-get-response;value="
        } else {
            b"cmd=get_result value="
        };
        [front, &[b'v'; ENDLESS]].concat()
    })
}

fn refuse(message: &mut Message, which: &[&str], code: &str, text: Option<&str>) {
    if !message.cmd_is(which) {
        return;
    }
    message.clear();
    message.push("rc", code);
    if let Some(text) = text {
        let name = if message.is_frame { "errmsg" } else { "msg" };
        message.push(name, text);
    }
}

/// One word, since old clients lose a message if its text has several.
const TEXT: &str = "the_server_will_not_because=it_was_told_so";

const ENDLESS: usize = 100_000;

const INIT: &[&str] = &["response_to_init"];
const FULLINIT: &[&str] = &["fullinit-response"];

/// Answers to fences.
pub(super) const FENCES: &[&str] = &["barrier_out", "kvs-fence-response"];

/// Answers of PMI-1 that hydra up to 4.0 and gforker send without `rc`.
const NEEDS_NO_CODE: &[&str] =
    &["maxes", "appnum", "universe_size", "my_kvsname", "barrier_out", "finalize_ack"];

/// Answers with a value that `found` may follow.
const GETS: &[&str] =
    &["get_result", "kvs-get-response", "info-getnodeattr-response", "info-getjobattr-response"];

/// Answers that may report an error at any time.
pub(super) const FAILING: &[&str] = &[
    "get_result",
    "lookup_result",
    "kvs-get-response",
    "info-getnodeattr-response",
    "info-getjobattr-response",
    "name-lookup-response",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn becomes(change: fn(&mut Message), old: &str, new: &str) {
        let mut message = Message::read(old.as_bytes());
        change(&mut message);
        assert_eq!(String::from_utf8(message.write()).unwrap(), new);
    }

    #[test]
    fn answers_are_changed_as_the_name_says() {
        let get = "cmd=get_result rc=0 value=a b\n";
        becomes(extra, get, "cmd=get_result colour=blue rc=0 value=a b\n");
        becomes(inside, get, "cmd=get_result colour=value=not-a-value,rc=1 rc=0 value=a b\n");
        becomes(text, get, "cmd=get_result msg=success rc=0 value=a b\n");
        becomes(found_behind, get, "cmd=get_result rc=0 value=a b found=TRUE\n");
        becomes(errors, get, "cmd=get_result rc=1\n");
        becomes(missing, get, "cmd=get_result rc=-1 msg=key_x_not_found value=not-a-value\n");
        becomes(other, get, "cmd=put_result rc=0\n");
        becomes(order, get, get);
        becomes(no_code, get, get);
        becomes(length_left, get, get);
        let maxes = "cmd=maxes rc=0 kvsname_max=1 keylen_max=2\n";
        becomes(order, maxes, "cmd=maxes keylen_max=2 kvsname_max=1 rc=0\n");
        becomes(no_code, maxes, "cmd=maxes kvsname_max=1 keylen_max=2\n");
        becomes(small, maxes, "cmd=maxes rc=0 kvsname_max=64 keylen_max=2\n");
        let size = "cmd=universe_size rc=0 size=3\n";
        becomes(unknown, size, "cmd=universe_size rc=0 size=-1\n");
    }

    #[test]
    fn frames_are_changed_as_the_name_says() {
        let get = "    54cmd=kvs-get-response;thrid=1;rc=0;found=TRUE;value=v1;";
        let new = "    54cmd=kvs-get-response;thrid=1;rc=0;value=v1;found=TRUE;";
        becomes(found_behind, get, new);
        becomes(length_left, get, &get.replace("    54", "54    "));
        becomes(no_thrid, get, "    46cmd=kvs-get-response;rc=0;found=TRUE;value=v1;");
        becomes(errors, get, "    34cmd=kvs-get-response;thrid=1;rc=1;");
        let new = "    64cmd=kvs-get-response;thrid=1;rc=0;found=FALSE;value=not-a-value;";
        becomes(missing, get, new);
        becomes(other, get, "    34cmd=kvs-put-response;thrid=1;rc=0;");
        let doubled = |message: &mut Message| {
            message.doubles = true;
            inside(message);
        };
        let new = "    68cmd=a;colour=value=not-a-value;;found=TRUE;;value=not-a-value;;rc=1;";
        becomes(doubled, "     6cmd=a;", new);
        becomes(inside, "     6cmd=a;", "    36cmd=a;colour=value=not-a-value,rc=1;");
        let full = "65    cmd=fullinit-response;pmi-version=2;debugged=TRUE;pmiverbose=TRUE;";
        becomes(short_fullinit, full, "35    cmd=fullinit-response;pmiverbose=0;");
    }

    #[test]
    fn only_an_init_becomes_one_for_another_version() {
        let changed = |change: fn(&mut [u8]) -> bool, minor: &str| {
            let mut init = format!("cmd=init pmi_version={minor}\n").into_bytes();
            change(&mut init).then(|| String::from_utf8(init).unwrap())
        };
        let [one, two] = ["1 pmi_subversion=1", "2 pmi_subversion=0"];
        assert_eq!(
            changed(offer_1_2, one).as_deref(),
            Some("cmd=init pmi_version=1 pmi_subversion=2\n")
        );
        assert_eq!(changed(offer_1_2, two), None);
        assert_eq!(
            changed(offer_1_1, two).as_deref(),
            Some("cmd=init pmi_version=1 pmi_subversion=1\n")
        );
        assert_eq!(changed(offer_1_1, one), None);
    }
}
