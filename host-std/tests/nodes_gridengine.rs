//! Runs in parallel environments of Grid Engine: the hosts are those of the allocation, and `qrsh` starts the
//! node servers.

use crate::common::hosts::grid_engine;
use crate::common::{host_path, mpi_program};

// Coverage: GE-1, GE-2, GE-3, GE-4
#[test]
fn job_uses_the_slots_of_its_parallel_environment() {
    let Some(engine) = grid_engine("slots", 3) else { return };
    let host = host_path();
    // `qrsh` sometimes starts nothing, so each run has three attempts.
    let mut script = format!(
        "attempt() {{ for turn in 1 2 3; do timeout 15 \"$@\" && return; done; }}\n\
         work=$(mktemp -d); cd \"$work\"\nexport XDG_CONFIG_HOME=/nowhere\n\
         attempt '{host}' run --allocation -l uname -n\n\
         fails() {{ '{host}' run --allocation sh -c '[ $PMI_RANK = 5 ] && exit 7; exec sleep 60'; }}\n\
         for turn in 1 2 3; do fails; code=$?; [ $code = 7 ] && break; done; echo \"code $code\"\n"
    );
    // A process outside of the job suspends and continues it.
    script.push_str(&format!(
        "cat >suspends <<'END'\n\
         until [ -e up ]; do sleep 0.1; done\n\
         qmod -sj $JOB_ID; until qstat -s s | grep -q \"^ *$JOB_ID \"; do sleep 0.1; done; sleep 7\n\
         qmod -usj $JOB_ID; until qstat -s r | grep -q \"^ *$JOB_ID \"; do sleep 0.1; done; touch go\n\
         END\n\
         rm -f up go; setsid sh suspends >/dev/null 2>&1 &\n\
         timeout 60 '{host}' run --allocation sh -c \
         'touch up; until [ -e go ]; do sleep 0.1; done; echo rank $PMI_RANK ends'; echo \"suspended $?\"\n"
    ));
    if let Some(program) = mpi_program("allreduce") {
        // All hosts share the memory files of this machine.
        script.push_str(&format!("attempt '{host}' run --allocation '{}'\n", program.display()));
    }
    // The end of the job is that of its last command.
    script.push_str("rm -r \"$work\"; exit 0\n");
    let output = engine.run(&script).unwrap();
    // The order of the hosts is that of the batch system.
    let host_of = |rank: u32| {
        let label = format!("[{rank}] ");
        output.lines().find_map(|line| line.strip_prefix(&label)).unwrap_or_default()
    };
    let mut hosts = [0, 2, 4].map(host_of);
    assert_eq!(hosts, [1, 3, 5].map(host_of), "{output}");
    assert!(
        output.contains("rank 5 of 6") && output.contains(&format!("on {}", hosts[2])),
        "{output}"
    );
    hosts.sort_unstable();
    assert_eq!(hosts, ["ge1", "ge2", "ge3"], "{output}");
    assert!(output.contains("\ncode 7\n"), "{output}");
    let is_there = |rank| output.contains(&format!("rank {rank} ends\n"));
    assert!((0..6).all(is_there) && output.contains("\nsuspended 0\n"), "{output}");
    assert!(!output.contains("lost"), "{output}");
    if mpi_program("allreduce").is_some() {
        assert!(output.contains("allreduce of 6: "), "{output}");
    }
}
