//! The first line, then the first frame, in the forms that known clients send.

use super::super::case::{Case, CaseResult};
use super::super::kvs_client::KvsClient;
use super::super::pmi2_client::Pmi2Client;
use super::super::raw_connection::Reply;
use super::super::verdict::Verdict::{AsSpecified, Refused, Tolerated, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::pmi2("pmi2-init", 1, "the init line", init),
    Case::pmi2("pmi2-fullinit", 2, "fullinit as Slurm's client sends it", |client| {
        let job = std::env::var("PMI_JOBID").unwrap_or_else(|_| "x".to_owned());
        fullinit(client, &format!("pmijobid={job};"), "threaded=FALSE;")
    }),
    Case::pmi2("pmi2-fullinit-threaded", 2, "fullinit as MPICH up to 4.0 sends it", |client| {
        fullinit(client, "", "threaded=TRUE;")
    }),
    Case::pmi2(
        "pmi2-fullinit-short",
        2,
        "fullinit as MPICH from 4.1 sends it: pmirank only",
        |client| fullinit(client, "", ""),
    ),
    Case::pmi2("pmi2-before-fullinit", 1, "job-getid before fullinit", before),
    Case::pmi2("pmi2-getid", 2, "job-getid is the same in all ranks", getid),
];

fn init(client: &mut Pmi2Client) -> CaseResult {
    let reply = client.init()?;
    let is_two = reply.number("pmi_version") == Some(2);
    let finding = reply.judged(if is_two { AsSpecified } else { Tolerated });
    client.request(&format!("fullinit;pmijobid=x;pmirank={};threaded=FALSE;", client.rank))?;
    Ok(finding)
}

fn fullinit(client: &mut Pmi2Client, before: &str, behind: &str) -> CaseResult {
    client.init()?;
    let request = format!("fullinit;{before}pmirank={};{behind}", client.rank);
    let reply = client.request(&request)?;
    Ok(answered(client, &reply))
}

fn answered(client: &Pmi2Client, reply: &Reply) -> super::super::verdict::Finding {
    let who = (reply.number("rank"), reply.number("size"));
    let is_me = who == (Some(client.rank.into()), Some(client.size.into()));
    // Clients up to MPICH 4.0 and Slurm's fail without the versions and `rc`, and read only these
    // two words as truth values.
    let truth = |name| matches!(reply.field(name), None | Some(b"TRUE" | b"FALSE"));
    let suits_old = reply.number("rc").is_some()
        && reply.number("pmi-version").is_some()
        && reply.number("pmi-subversion").is_some()
        && truth("debugged")
        && truth("pmiverbose");
    reply.judged(match (reply.is_good(), is_me && reply.number("appnum").is_some()) {
        (false, _) => Refused,
        (true, false) => Wrong,
        (true, true) if suits_old => AsSpecified,
        (true, true) => Tolerated,
    })
}

fn before(client: &mut Pmi2Client) -> CaseResult {
    client.init()?;
    // An answer or a refusal; the documents do not specify which.
    let finding = client.request("job-getid;")?.judged(AsSpecified);
    client.request(&format!("fullinit;pmijobid=x;pmirank={};threaded=FALSE;", client.rank))?;
    Ok(finding)
}

fn getid(client: &mut Pmi2Client) -> CaseResult {
    client.open()?;
    let own = client.job.clone();
    client.exchange("job", |_| own.clone())?;
    Ok(AsSpecified.on("one id for all"))
}
