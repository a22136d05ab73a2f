//! Runs that Slurm ends, signals or pauses: preemption, signals to a job or to its script, requeue, the time limit,
//! suspension, and turns of jobs that share processors.

use crate::common::hosts::{slurm_nodes, slurm_nodes_with};
use crate::common::slurm::{BatchJob, command, script, wait_until_gone};
use crate::common::{Running, host_path, run, start};
use pmi_host_testkit::slurm::{Slurm, SlurmPolicy};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

// Coverage: SLURM-8
#[test]
fn preempted_run_has_the_grace_time_of_its_partition() {
    let Some(slurm) = slurm_nodes_with(SlurmPolicy::Preempting, "preempted", 3) else { return };
    // Saving takes longer than the launcher waits for ranks that a failure terminates. Slurm signals ranks, too, so
    // that they receive the signal up to twice.
    let rank = "save() { trap : TERM; echo rank $PMI_RANK got TERM; n=0; \
                while [ $n -lt 50 ]; do n=$((n+1)); sleep 0.1; done; echo rank $PMI_RANK has saved; exit 0; }; \
                trap save TERM; echo rank $PMI_RANK is up; while :; do sleep 0.1; done";
    let text = format!("'{}' mpiexec sh -c '{rank}' 7777786; echo over with $?", host_path());
    let job = BatchJob::submit(&slurm, &["-p", "low", "--exclusive"], &script("preempted", &text));
    job.wait_for(&["rank 0 is up", "rank 1 is up", "rank 2 is up"]);
    run(command(&slurm, "srun").args(["-p", "high", "-N3", "--exclusive", "true"])).exits_with(0);
    let saved = ["rank 0 has saved", "rank 1 has saved", "rank 2 has saved", "over with 143"];
    let output = job.wait_for(&saved);
    assert_eq!(output.matches("got TERM").count(), 3, "{output}");
    assert!(!output.contains("slurm1: these still run"), "{output}");
    for part in ["pmi-host: signal 15 (SIGTERM) arrived at the agent on slurm", "preemption"] {
        assert!(output.contains(part), "no {part:?} in {output}");
    }
    wait_until_gone("7777786");
}

// Coverage: SLURM-7
#[test]
fn signals_to_a_job_and_to_its_script_reach_the_ranks() {
    let Some(slurm) = slurm_nodes("signals", 3) else { return };
    let rank = "trap \"echo rank $PMI_RANK got TERM; exit 0\" TERM; trap \"echo rank $PMI_RANK got USR2\" USR2; \
                echo rank $PMI_RANK is up; while :; do sleep 0.1; done";
    // The script hands a signal on that it receives before its time limit.
    let text = format!(
        "trap 'echo the script got USR1; kill -TERM $job' USR1\n\
         '{}' mpiexec sh -c '{rank}' 7777787 & job=$!\n\
         wait $job; wait $job; echo over with $?",
        host_path()
    );
    let job = BatchJob::submit(&slurm, &[], &script("signals", &text));
    job.wait_for(&["rank 0 is up", "rank 1 is up", "rank 2 is up"]);
    job.cancel(&["--signal=USR2"]);
    job.wait_for(&["rank 0 got USR2", "rank 1 got USR2", "rank 2 got USR2"]);
    job.cancel(&["--batch", "--signal=USR1"]);
    let output = job.wait_for(&["the script got USR1", "over with 143"]);
    assert_eq!(output.matches("got TERM").count(), 3, "{output}");
    assert!(
        output.contains("signal 15 (SIGTERM) was forwarded to the 3 running ranks"),
        "{output}"
    );
    wait_until_gone("7777787");
}

// Coverage: SLURM-39, SLURM-40, SLURM-41
#[test]
fn forms_of_scancel_reach_the_script_the_ranks_or_both() {
    let Some(slurm) = slurm_nodes("scancel", 3) else { return };
    let rank = "trap \"echo rank $PMI_RANK got TERM; exit 0\" TERM; trap \"echo rank $PMI_RANK got USR1\" USR1; \
                trap \"echo rank $PMI_RANK got USR2\" USR2; echo rank $PMI_RANK is ready; while :; do sleep 0.1; done";
    let text = format!(
        "trap 'echo the script got USR1' USR1; trap 'echo the script got USR2' USR2\n\
         '{}' mpiexec sh -c '{rank}' 7777789 & job=$!\n\
         wait $job; code=$?; while [ $code = 138 ] || [ $code = 140 ]; do wait $job; code=$?; done\n\
         echo over with $code",
        host_path()
    );
    let of_ranks = |what: &str| [0, 1, 2].map(|rank| format!("rank {rank} {what}"));
    let wait_for = |job: &BatchJob<'_>, texts: &[String]| {
        job.wait_for(&texts.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let file = script("scancel", &text);
    let output = file.with_file_name("%a").display().to_string();
    let elements = BatchJob::submit(&slurm, &["--array=1-2", "-o", &output], &file);
    let (first, second) = (elements.element(1), elements.element(2));
    wait_for(&first, &of_ranks("is ready"));
    wait_for(&second, &of_ranks("is ready"));
    first.cancel(&["--signal=USR1"]);
    assert!(!wait_for(&first, &of_ranks("got USR1")).contains("the script"));
    first.cancel(&["--full", "--signal=USR2"]);
    wait_for(&first, &of_ranks("got USR2"));
    first.wait_for(&["the script got USR2"]);
    first.cancel(&["--batch", "--signal=USR1"]);
    first.wait_for(&["the script got USR1"]);
    // One element ends and the other one runs.
    first.cancel(&[]);
    wait_for(&first, &of_ranks("got TERM"));
    let before = second.wait_for(&[]);
    assert!(!before.contains("got"), "{before}");
    // Slurm kills the processes of a step, which is that of the node servers.
    let step = format!("{}.0", second.id());
    run(command(&slurm, "scancel").arg(step)).exits_with(0);
    let output = second.wait_for(&["over with 1"]);
    assert!(!output.contains("got TERM"), "{output}");
    wait_until_gone("7777789");
}

/// A run by `salloc` with a rank on each of two nodes, and its job. The ranks continue when `go` is there.
fn run_until(slurm: &Slurm, options: &[&str], go: &Path) -> (Running, String) {
    let rank = "echo up in $SLURM_JOB_ID; until [ -e \"$GO\" ]; do sleep 0.1; done; echo rank $PMI_RANK ends";
    let mut salloc = command(slurm, "salloc");
    salloc.args(["-Q", "-N2", "--ntasks-per-node=1"]).args(options);
    salloc.args([host_path(), "mpiexec", "--node-timeout", "1", "sh", "-c", rank]);
    let running = start(salloc.env("GO", go));
    let places = |out: &str| out.lines().filter_map(|line| line.strip_prefix("up in ")).count();
    running.wait_for_output("up in ");
    while places(&running.output()) < 2 {
        assert!(!running.has_ended(), "{}", running.errors());
        sleep(Duration::from_millis(20));
    }
    let job =
        running.output().lines().find_map(|line| Some(line.strip_prefix("up in ")?.to_owned()));
    let job = job.expect("the number of the job");
    (running, job)
}

/// Waits until the run has reported that many pauses of nodes, or ends of pauses.
fn wait_for(running: &Running, report: &str, count: usize) {
    let until = Instant::now() + Duration::from_secs(60);
    let nodes =
        |line: &str| line.split_once(report).map_or(0, |(nodes, _)| nodes.matches("slurm").count());
    while running.errors().lines().map(nodes).sum::<usize>() < count {
        assert!(Instant::now() < until, "no {count} times {report:?} in {}", running.errors());
        sleep(Duration::from_millis(20));
    }
}

const PAUSED: &str = " paused since ";
const CONTINUED: &str = " after ";

/// Lets the run end, which has lost nothing.
fn ends_well(running: Running, go: &Path) {
    std::fs::write(go, "").unwrap();
    let ran = running.end().exits_with(0);
    assert_eq!(ran.out.matches(" ends\n").count(), 2, "{ran:?}");
    assert!(!ran.err.contains("lost"), "{}", ran.err);
}

/// `scontrol suspend` and `resume`, and the same by signals.
fn suspended_run_is_paused_and_loses_nothing(slurm: &Slurm) {
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let (running, job) = run_until(slurm, &[], &go);
    // The head of a batch job is suspended as well.
    let rank = "'echo up; until [ -e \"$GO\" ]; do sleep 0.1; done'";
    let text = format!(
        "export GO='{}'; '{}' mpiexec --node-timeout 1 sh -c {rank}; echo code $?",
        go.display(),
        host_path()
    );
    let batch = BatchJob::submit(slurm, &[], &script("suspended", &text));
    batch.wait_for(&["up\nup\nup\n"]);
    let scontrol = |word: &str, job: &str| {
        run(command(slurm, "scontrol").args([word, job])).exits_with(0);
    };
    let scancel = |signal: &str| {
        run(command(slurm, "scancel").args([signal, &job])).exits_with(0);
    };
    scontrol("suspend", batch.id());
    scontrol("suspend", &job);
    wait_for(&running, PAUSED, 2);
    scontrol("resume", &job);
    wait_for(&running, CONTINUED, 2);
    scontrol("resume", batch.id());
    scancel("--signal=STOP");
    wait_for(&running, PAUSED, 4);
    scancel("--signal=CONT");
    wait_for(&running, CONTINUED, 4);
    ends_well(running, &go);
    batch.wait_for(&["code 0"]);
}

/// Elements of an array, of which each is a job of its own.
fn array_has_a_run_for_each_element(slurm: &Slurm) {
    let rank = "'echo element $SLURM_ARRAY_TASK_ID has rank $PMI_RANK of $PMI_SIZE'";
    let file = script("array", &format!("'{}' mpiexec sh -c {rank}; echo code $?", host_path()));
    let output = file.with_file_name("%a").display().to_string();
    let jobs = BatchJob::submit(slurm, &["--array=0-5", "-o", &output], &file);
    for element in 0..6 {
        let of_rank = |rank| format!("element {element} has rank {rank} of 3\n");
        let output = jobs.element(element).wait_for(&["code 0"]);
        assert!((0..3).map(of_rank).all(|line| output.contains(&line)), "{output}");
    }
}

/// A job that gives a node back, and reads the variables that Slurm writes for it.
fn job_that_is_resized_runs_on_the_nodes_that_it_keeps(slurm: &Slurm) {
    let rank = "'echo rank $PMI_RANK of $PMI_SIZE on $SLURMD_NODENAME'";
    let host = host_path();
    let text = format!(
        "'{host}' mpiexec sh -c {rank}\n\
         cd '{}'\n\
         scontrol update JobId=$SLURM_JOB_ID NumNodes=2\n\
         . ./slurm_job_${{SLURM_JOB_ID}}_resize.sh\n\
         '{host}' mpiexec sh -c {rank}; echo code $?",
        env!("CARGO_TARGET_TMPDIR")
    );
    let job = BatchJob::submit(slurm, &[], &script("resize", &text));
    let output = job.wait_for(&["code 0"]);
    for line in ["rank 2 of 3 on slurm3", "rank 0 of 2 on slurm1", "rank 1 of 2 on slurm2"] {
        assert!(output.contains(&format!("{line}\n")), "no {line:?} in {output}");
    }
}

// Coverage: SLURM-17, SLURM-18, SLURM-19, SLURM-20, SLURM-21, SLURM-22
#[test]
fn suspension_resize_requeue_and_time_limit_of_jobs_are_followed_by_their_runs() {
    let Some(slurm) = slurm_nodes("events", 3) else { return };
    let rank = "trap \"echo rank $PMI_RANK got TERM; exit 0\" TERM; echo rank $PMI_RANK is up; \
                while :; do sleep 0.1; done";
    let text = format!(
        "echo turn ${{SLURM_RESTART_COUNT:-0}}; exec '{}' mpiexec sh -c '{rank}' 7777788",
        host_path()
    );
    let update = |job: &BatchJob<'_>, change: &str| {
        let of_job = format!("JobId={}", job.id());
        run(command(&slurm, "scontrol").args(["update", &of_job, change])).exits_with(0);
    };
    let (up, ended) = (["rank 0 is up", "rank 1 is up"], ["rank 0 got TERM", "rank 1 got TERM"]);
    // Slurm looks at time limits twice a minute.
    let limited = BatchJob::submit(&slurm, &["-N2"], &script("time-limit", &text));
    limited.wait_for(&up);
    update(&limited, "EndTime=now+1");
    let options = ["-N2", "--requeue", "--open-mode=append"];
    let requeued = BatchJob::submit(&slurm, &options, &script("requeue", &text));
    requeued.wait_for(&up);
    run(command(&slurm, "scontrol").args(["requeue", requeued.id()])).exits_with(0);
    requeued.wait_for(&ended);
    suspended_run_is_paused_and_loses_nothing(&slurm);
    array_has_a_run_for_each_element(&slurm);
    job_that_is_resized_runs_on_the_nodes_that_it_keeps(&slurm);
    // Slurm starts it again after two minutes, or when that is requested.
    update(&requeued, "StartTime=now");
    let again = requeued.wait_for(&["DUE TO JOB REQUEUE", "turn 1\n"]);
    let first = again.find("turn 1\n").unwrap();
    while requeued.wait_for(&[])[first..].matches(" is up\n").count() < 2 {
        sleep(Duration::from_millis(20));
    }
    requeued.cancel(&[]);
    limited.wait_for(&[&ended[..], &["DUE TO TIME LIMIT"]].concat());
    wait_until_gone("7777788");
}

// Coverage: SLURM-23, SLURM-24
#[test]
fn runs_that_share_nodes_have_turns_and_lose_nothing() {
    let Some(slurm) = slurm_nodes_with(SlurmPolicy::Gang, "gang", 2) else { return };
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let whole = ["-p", "low", "-c", "16"];
    let (running, _) = run_until(&slurm, &whole, &go);
    // A job of another partition suspends it.
    let urgent = ["-p", "high", "-N2", "-n2", "-c", "16", "sleep", "3"];
    run(command(&slurm, "srun").args(urgent)).exits_with(0);
    wait_for(&running, CONTINUED, 2);
    let text = format!("until [ -e '{}' ]; do sleep 0.1; done; echo ends", go.display());
    let options = [&whole[..], &["-N2"]].concat();
    let second = BatchJob::submit(&slurm, &options, &script("gang", &text));
    wait_for(&running, CONTINUED, 4);
    ends_well(running, &go);
    second.wait_for(&["ends"]);
}
