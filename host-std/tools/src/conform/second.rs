//! Second connections, on which the server sends notices, and TLS on the port that accepts them.
//!
//! A launcher that gives no address (`PMI_PORT`) beside the first connection offers none, which is a
//! refusal.

use super::case::{Case, Ends, Played};
use super::lines::Lines;
use super::player::LATE;
use super::space::Space;
use super::talk::Talk;
use super::verdict::Verdict::{AsSpecified, JobKilled, NoAnswer, Refused, Tolerated, Wrong};
use super::verdict::{Finding, shown};
use pmi_std::env::{Environment, Sockets, Way};
use std::time::Instant;

/// All cases of second connections.
pub(super) const CASES: &[&[Case]] = &[&[
    Case::lines("oob-lines", 1, "init_oob, for notices in lines", |lines| {
        opened(lines, "pmi_version=1 pmi_subversion=1")
    }),
    Case::lines("oob-frames", 1, "init_oob, for notices in frames", |lines| {
        opened(lines, "pmi_version=2 pmi_subversion=0")
    }),
    Case::lines("oob-stranger", 1, "init_oob with an identity that nobody has", stranger),
    Case::lines("oob-abort", 2, "a rank that listens is told of an abort before the end", abort)
        .ending(Ends::Code(39)),
    Case::lines("tls-plain", 1, "a caller without TLS where TLS is spoken", plain),
]];

/// Address and identity for a second connection.
fn door() -> Result<(Environment, u64), Finding> {
    let found = Environment::second_connection(std::env::vars_os())
        .map_err(|error| Wrong.on(shown(error.to_string().as_bytes())))?;
    match found.way {
        Way::Dial { id, .. } => Ok((found, id)),
        _ => Err(Refused.on("not offered: PMI_PORT is not set")),
    }
}

fn dial(environment: &Environment, lines: &Lines) -> Result<Talk, Finding> {
    match pmi_std::reach(environment) {
        Ok(stream) => Ok(Talk::new(stream, lines.talk.patience())),
        Err(error) => Err(Wrong.on(shown(error.to_string().as_bytes()))),
    }
}

fn hello(id: u64, version: &str) -> String {
    format!("cmd=init_oob signal=NONE {version} pmiid={id}\n")
}

fn opened(lines: &mut Lines, version: &str) -> Played {
    let (environment, id) = door()?;
    lines.open()?;
    let mut talk = dial(&environment, lines)?;
    talk.send(hello(id, version).as_bytes())?;
    let reply = talk.line()?.expect("response_to_init_oob")?;
    Ok(reply.judged(if reply.number("rc") == Some(0) { AsSpecified } else { Refused }))
}

fn stranger(lines: &mut Lines) -> Played {
    let (environment, _) = door()?;
    lines.open()?;
    let mut talk = dial(&environment, lines)?;
    talk.send(hello(NOBODY, "pmi_version=1 pmi_subversion=1").as_bytes())?;
    match talk.line() {
        Ok(reply) if reply.is_good() => Ok(reply.judged(Wrong)),
        Ok(reply) => Ok(reply.judged(AsSpecified)),
        // The server closed the connection without an answer, which a client tolerates if the job
        // continues.
        Err(finding) if finding.verdict == JobKilled => {
            lines.fence()?;
            Ok(Tolerated.on(finding.seen))
        }
        Err(finding) => Err(finding),
    }
}

fn abort(lines: &mut Lines) -> Played {
    let (environment, id) = door()?;
    lines.open()?;
    if lines.rank == 1 {
        lines.fence()?;
        lines.talk.send(b"cmd=abort exitcode=39\n")?;
        return Ok(AsSpecified.on("has said abort"));
    }
    let mut talk = dial(&environment, lines)?;
    talk.send(hello(id, "pmi_version=1 pmi_subversion=1").as_bytes())?;
    let reply = talk.line()?.expect("response_to_init_oob")?;
    if reply.number("rc") != Some(0) {
        return Err(reply.judged(Refused));
    }
    lines.fence()?;
    match talk.line() {
        Ok(notice) if notice.field("cmd") == Some(b"abort") => {
            let is_right = notice.number("exitcode") == Some(39);
            Ok(notice.judged(if is_right { AsSpecified } else { Wrong }))
        }
        Ok(notice) => Err(notice.judged(Wrong)),
        Err(finding) if finding.verdict == NoAnswer => Err(finding),
        Err(_) => Ok(Tolerated.on("ended without a notice")),
    }
}

fn plain(lines: &mut Lines) -> Played {
    let (environment, id) = door()?;
    if environment.sockets != Sockets::Ssl {
        return Err(Refused.on("not offered: PMI_SOCKTYPE is not ssl"));
    }
    lines.open()?;
    let in_the_clear = Environment { sockets: Sockets::Posix, ..environment };
    let mut talk = dial(&in_the_clear, lines)?;
    talk.send(hello(id, "pmi_version=1 pmi_subversion=1").as_bytes())?;
    let asked_at = Instant::now();
    let finding = match talk.line() {
        Ok(reply) if reply.is_good() => return Err(reply.judged(Wrong)),
        Ok(reply) if reply.field("cmd") == Some(b"response_to_init_oob") => {
            reply.judged(AsSpecified)
        }
        Ok(reply) => reply.judged(Tolerated),
        Err(finding) if finding.verdict == JobKilled => Tolerated.on(finding.seen),
        Err(finding) => return Err(finding),
    };
    // A server that answers only after its time limit has waited for a handshake.
    let is_prompt = asked_at.elapsed() < 2 * LATE;
    lines.fence()?;
    Ok(if is_prompt { finding } else { Tolerated.on(finding.seen) })
}

/// Identity that no launcher assigns.
const NOBODY: u64 = 999_999;
