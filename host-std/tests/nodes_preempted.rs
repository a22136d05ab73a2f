//! Ends of runs that Slurm requests: preemption, and signals to a job or to its script.

use crate::common::hosts::{preempting_slurm, slurm_nodes};
use crate::common::slurm::{BatchJob, command, script, wait_until_gone};
use crate::common::{host_path, run};

// Coverage: SLURM-8
#[test]
fn preempted_run_has_the_grace_time_of_its_partition() {
    let Some(slurm) = preempting_slurm("preempted", 3) else { return };
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
