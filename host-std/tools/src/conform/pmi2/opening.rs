//! The first line, then the first frame, in the forms that known clients send.

use super::super::case::{Case, CaseResult};
use super::super::rank_client::RankClient;
use super::super::raw_connection::Reply;
use super::super::verdict::Verdict::{AsSpecified, Refused, Tolerated, Wrong};

pub(super) const CASES: &[Case] = &[
    Case::raw_pmi2("pmi2-init", 1, "the init line", init),
    Case::raw_pmi2("pmi2-fullinit", 2, "fullinit as Slurm's client sends it", |client| {
        let job = std::env::var("PMI_JOBID").unwrap_or_else(|_| "x".to_owned());
        fullinit(client, &format!("pmijobid={job};"), "threaded=FALSE;")
    }),
    Case::raw_pmi2("pmi2-fullinit-threaded", 2, "fullinit as MPICH up to 4.0 sends it", |client| {
        fullinit(client, "", "threaded=TRUE;")
    }),
    Case::raw_pmi2(
        "pmi2-fullinit-short",
        2,
        "fullinit as MPICH from 4.1 sends it: pmirank only",
        |client| fullinit(client, "", ""),
    ),
    Case::raw_pmi2("pmi2-before-fullinit", 1, "job-getid before fullinit", before),
    Case::pmi2("pmi2-getid", 2, "job-getid is the same in all ranks", getid),
];

fn init(client: &mut RankClient) -> CaseResult {
    let reply = client.init_pmi2()?;
    let is_two = reply.number("pmi_version") == Some(2);
    let finding = reply.judged(if is_two { AsSpecified } else { Tolerated });
    client.frame_reply(&client.fullinit())?;
    Ok(finding)
}

fn fullinit(client: &mut RankClient, before: &str, behind: &str) -> CaseResult {
    client.init_pmi2()?;
    let request = format!("fullinit;{before}pmirank={};{behind}", client.rank);
    let reply = client.frame_reply(&request)?;
    Ok(answered(client, &reply))
}

fn answered(client: &RankClient, reply: &Reply) -> super::super::verdict::Finding {
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

fn before(client: &mut RankClient) -> CaseResult {
    client.init_pmi2()?;
    // An answer or a refusal; the documents do not specify which.
    let finding = client.frame_reply("job-getid;")?.judged(AsSpecified);
    client.frame_reply(&client.fullinit())?;
    Ok(finding)
}

fn getid(client: &mut RankClient) -> CaseResult {
    let own = client.space.clone();
    client.exchange("job", |_| own.clone())?;
    Ok(AsSpecified.on("one id for all"))
}
