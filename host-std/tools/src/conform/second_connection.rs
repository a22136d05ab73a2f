//! Second connections, on which the server sends notices, and TLS on the port that accepts them.
//!
//! A launcher that gives no address (`PMI_PORT`) beside the first connection offers none, which is a
//! refusal.

use super::case::{Case, CaseResult, ExpectedExit};
use super::player::LATE;
use super::rank_client::RankClient;
use super::raw_connection::RawConnection;
use super::verdict::Verdict::{AsSpecified, JobKilled, NoAnswer, Refused, Tolerated, Wrong};
use super::verdict::{Finding, shown};
use pmi_std::env::{Environment, Sockets, Transport};
use std::time::Instant;

/// All cases of second connections.
pub(super) const CASES: &[&[Case]] = &[&[
    Case::raw_pmi1("oob-lines", 1, "init_oob, for notices in lines", |client| {
        opened(client, "pmi_version=1 pmi_subversion=1")
    }),
    Case::raw_pmi1("oob-frames", 1, "init_oob, for notices in frames", |client| {
        opened(client, "pmi_version=2 pmi_subversion=0")
    }),
    Case::raw_pmi1("oob-stranger", 1, "init_oob with an unknown identity", unknown_identity),
    Case::raw_pmi1(
        "oob-abort",
        2,
        "a listening rank receives a notice of an abort before its end",
        abort,
    )
    .expecting(ExpectedExit::Code(39)),
    Case::raw_pmi1("tls-plain", 1, "a connection without TLS where TLS is required", plain),
]];

/// Address and identity for a second connection.
fn address() -> Result<(Environment, u64), Finding> {
    let found = Environment::second_connection(std::env::vars_os())
        .map_err(|error| Wrong.on(shown(error.to_string().as_bytes())))?;
    match found.transport {
        Transport::Tcp { id, .. } => Ok((found, id)),
        _ => Err(Refused.on("not offered: PMI_PORT is not set")),
    }
}

fn connect(environment: &Environment, client: &RankClient) -> Result<RawConnection, Finding> {
    match pmi_std::reach(environment) {
        Ok(stream) => Ok(RawConnection::new(stream, client.connection.timeout())),
        Err(error) => Err(Wrong.on(shown(error.to_string().as_bytes()))),
    }
}

fn init_oob(id: u64, version: &str) -> String {
    format!("cmd=init_oob signal=NONE {version} pmiid={id}\n")
}

fn opened(client: &mut RankClient, version: &str) -> CaseResult {
    let (environment, id) = address()?;
    client.open()?;
    let mut connection = connect(&environment, client)?;
    connection.send(init_oob(id, version).as_bytes())?;
    let reply = connection.recv_line()?.expect("response_to_init_oob")?;
    Ok(reply.judged(if reply.number("rc") == Some(0) { AsSpecified } else { Refused }))
}

fn unknown_identity(client: &mut RankClient) -> CaseResult {
    let (environment, _) = address()?;
    client.open()?;
    let mut connection = connect(&environment, client)?;
    connection.send(init_oob(UNKNOWN_IDENTITY, "pmi_version=1 pmi_subversion=1").as_bytes())?;
    match connection.recv_line() {
        Ok(reply) if reply.is_good() => Ok(reply.judged(Wrong)),
        Ok(reply) => Ok(reply.judged(AsSpecified)),
        // The server closed the connection without an answer, which a client tolerates if the job
        // continues.
        Err(finding) if finding.verdict == JobKilled => {
            client.fence()?;
            Ok(Tolerated.on(finding.seen))
        }
        Err(finding) => Err(finding),
    }
}

fn abort(client: &mut RankClient) -> CaseResult {
    let (environment, id) = address()?;
    client.open()?;
    if client.rank == 1 {
        client.fence()?;
        client.connection.send(b"cmd=abort exitcode=39\n")?;
        return Ok(AsSpecified.on("has sent abort"));
    }
    let mut connection = connect(&environment, client)?;
    connection.send(init_oob(id, "pmi_version=1 pmi_subversion=1").as_bytes())?;
    let reply = connection.recv_line()?.expect("response_to_init_oob")?;
    if reply.number("rc") != Some(0) {
        return Err(reply.judged(Refused));
    }
    client.fence()?;
    match connection.recv_line() {
        Ok(notice) if notice.field("cmd") == Some(b"abort") => {
            let is_right = notice.number("exitcode") == Some(39);
            Ok(notice.judged(if is_right { AsSpecified } else { Wrong }))
        }
        Ok(notice) => Err(notice.judged(Wrong)),
        Err(finding) if finding.verdict == NoAnswer => Err(finding),
        Err(_) => Ok(Tolerated.on("ended without a notice")),
    }
}

fn plain(client: &mut RankClient) -> CaseResult {
    let (environment, id) = address()?;
    if environment.sockets != Sockets::Ssl {
        return Err(Refused.on("not offered: PMI_SOCKTYPE is not OpenSSL"));
    }
    client.open()?;
    let in_the_clear = Environment { sockets: Sockets::Posix, ..environment };
    let mut connection = connect(&in_the_clear, client)?;
    connection.send(init_oob(id, "pmi_version=1 pmi_subversion=1").as_bytes())?;
    let asked_at = Instant::now();
    let finding = match connection.recv_line() {
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
    client.fence()?;
    Ok(if is_prompt { finding } else { Tolerated.on(finding.seen) })
}

/// Identity that no launcher assigns.
const UNKNOWN_IDENTITY: u64 = 999_999;
