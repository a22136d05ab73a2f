//! Hostile connections in place of PMIx clients: a false identity, or too much data. They are rejected and
//! reported; the ranks of the job notice nothing.

use crate::common::{copy_program, job, pmix_program, run};
use std::path::Path;
use tempfile::{NamedTempFile, TempPath};

/// A job of two ranks that put, fence and get; rank 1 first runs `script`, where `$CLAIM` and `$PMIX` are
/// programs.
#[track_caller]
fn beside_a_job(script: &str) -> Option<(Vec<String>, String)> {
    let pmix = pmix_program("pmix_fence")?;
    let claim = pmix_program("pmix_claim").expect("the other one was built");
    let (pmix, claim) = (for_everybody(&pmix), for_everybody(&claim));
    let script = format!(
        "PMIX={}; CLAIM={}; if [ $PMIX_RANK = 1 ]; then {script}; fi; exec $PMIX",
        pmix.display(),
        claim.display()
    );
    // On a busy machine a flood takes longer than the time after which waiting ranks are reported.
    let ran = run(&mut job(2, ["--stall-report", "0", "sh", "-c", &script])).exits_with(0);
    let mut lines: Vec<String> = ran.lines().into_iter().map(str::to_owned).collect();
    for rank in 0..2 {
        let said = format!("pmix {rank} of 2");
        let at = lines.iter().position(|line| *line == said);
        lines.remove(at.unwrap_or_else(|| panic!("no {said:?}\n{}\n{}", ran.out, ran.err)));
    }
    Some((lines, ran.err))
}

/// A copy that other users can run, independent of the directory of the tests.
fn for_everybody(program: &Path) -> TempPath {
    let copy = NamedTempFile::new().unwrap().into_temp_path();
    copy_program(program, &copy, 0o755);
    copy
}

/// The one line of the launcher, which names a process.
#[track_caller]
fn refusal(err: &str) -> &str {
    let mut own = err.lines().filter(|line| line.starts_with("pmi-host: "));
    let line = own.next().unwrap_or_else(|| panic!("nothing was said: {err}"));
    assert_eq!(own.next(), None, "{err}");
    assert!(line.contains("a connection from 127.0.0.1:") && line.contains("(pid "), "{line}");
    assert!(line.ends_with("it was rejected, and the job continues"), "{line}");
    line
}

#[test]
fn client_that_claims_another_rank_is_rejected() {
    let Some((lines, err)) = beside_a_job("$CLAIM 0; echo claim $?") else { return };
    assert_eq!(lines, ["claim 1"]);
    assert!(refusal(&err).contains("claims to be rank 0, and is not"), "{err}");
}

#[test]
fn client_that_claims_another_job_is_rejected() {
    let Some((lines, err)) = beside_a_job("$CLAIM 0 kvs_1_0; echo claim $?") else { return };
    assert_eq!(lines, ["claim 1"]);
    assert!(refusal(&err).contains("cannot be served"), "{err}");
}

#[test]
fn client_of_another_user_is_rejected() {
    if !rustix::process::getuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "CI runs as root");
        eprintln!("skipped: only root can run something as another user");
        return;
    }
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups $CLAIM 1; echo claim $?";
    let Some((lines, err)) = beside_a_job(nobody) else { return };
    assert_eq!(lines, ["claim 1"]);
    let line = refusal(&err);
    assert!(line.contains(", user 65534) belongs to user 65534, and this job to user 0"), "{line}");
}

#[test]
fn flood_harms_no_rank_and_fills_no_memory_and_no_log() {
    let flood = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/pmix_flood.py");
    let script = format!("/usr/bin/python3 {} || exit 9", flood.display());
    let Some((lines, err)) = beside_a_job(&script) else { return };
    let peak = lines.first().and_then(|line| line.strip_prefix("launcher ")?.parse::<u64>().ok());
    assert!(peak.is_some_and(|kib| kib < 100 << 10), "{lines:?}\n{err}");
    let own: Vec<&str> = err.lines().filter(|line| line.starts_with("pmi-host: ")).collect();
    assert!(!own.is_empty() && own.len() < 100, "{} lines:\n{err}", own.len());
    let is_known = |line: &&str| {
        line.contains("a connection from 127.0.0.1:") || line.contains("connections were rejected")
    };
    assert!(own.iter().all(is_known), "{err}");
    assert!(own.iter().any(|line| line.contains("(pid ")), "{err}");
}

#[test]
fn rank_with_many_connections_makes_the_launcher_hold_no_more_than_with_one() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/pmix_unfinished.py");
    let mut command = job(1, ["--pmi", "x", "/usr/bin/python3"]);
    let ran = run(command.arg(program)).exits_with(1);
    assert!(ran.err.contains("unfinished requests together exceed 67108864 bytes"), "{}", ran.err);
    let peak: Option<u64> = ran.out.split(' ').nth(1).and_then(|word| word.parse().ok());
    // Buffers grow by doubling, so a limit of 64 MiB may cost twice as much; unlimited it was 490 MiB.
    assert!(peak.is_some_and(|kib| kib < 300 << 10), "{}", ran.out);
}
