//! Runs in parallel environments of Grid Engine: the hosts are those of the allocation, and `qrsh` starts the
//! node servers.

use crate::common::hosts::grid_engine;
use crate::common::{host_path, mpi_program};

// Coverage: GE-1, GE-2, GE-3, GE-4
#[test]
fn job_uses_the_slots_of_its_parallel_environment() {
    let Some(engine) = grid_engine("slots", 3) else { return };
    let host = host_path();
    let mut script = format!(
        "work=$(mktemp -d); cd \"$work\"\nexport XDG_CONFIG_HOME=/nowhere\n\
         timeout 60 '{host}' run --allocation -l uname -n\n\
         '{host}' run --allocation sh -c '[ $PMI_RANK = 5 ] && exit 7; exec sleep 60'; echo \"code $?\"\n"
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
        script.push_str(&format!("timeout 60 '{host}' run --allocation '{}'\n", program.display()));
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

// Coverage: GE-5, GE-6, GE-7, GE-8, GE-9, GE-10
#[test]
fn signals_limits_elements_and_refusals_of_jobs_reach_their_runs() {
    let Some(engine) = grid_engine("signals", 2) else { return };
    let rank = "trap \"echo rank $PMI_RANK got USR1\" USR1; trap \"echo rank $PMI_RANK got USR2\" USR2; \
                echo rank $PMI_RANK of element $SGE_TASK_ID on $HOSTNAME is up; \
                echo node $HOSTNAME has files in $SGE_JOB_SPOOL_DIR, processors $SGE_BINDING; \
                while :; do sleep 0.1; done";
    let script = format!(
        "work=$(mktemp -d); cd \"$work\"\n\
         cat >job <<'END'\nexport XDG_CONFIG_HOME=/nowhere\nexec '{}' mpiexec sh -c '{rank}' 7777790\nEND\n\
         submit() {{ qsub -terse -cwd -pe mpi \"$@\" -S /bin/sh -j y job | cut -d. -f1; }}\n\
         until_has() {{ until [ \"$(cat $1 2>/dev/null | grep -c \"$2\")\" -ge $3 ]; do sleep 0.1; done; }}\n\
         until_ended() {{ while qstat | grep -q \"^ *$1 \"; do sleep 0.1; done; }}\n\
         left() {{ grep -lz '777779[0]' /proc/[0-9]*/cmdline 2>/dev/null | wc -l; }}\n\
         gone() {{ turns=0; while [ $(left) -gt 0 ] && [ $turns -lt 50 ]; do sleep 0.1; turns=$((turns+1)); done; echo left $(left); }}\n\
         qconf -mattr queue notify 00:00:01 all.q >/dev/null\n\
         notified=$(submit 4 -o notified -notify -binding env linear:1); until_has notified 'is up' 4\n\
         qmod -sj $notified >/dev/null; until_has notified 'got USR1' 4; qmod -usj $notified >/dev/null\n\
         qdel $notified >/dev/null; until_has notified 'got USR2' 4; until_ended $notified\n\
         echo notified; cat notified; gone\n\
         limited=$(submit 4 -o limited -notify -l h_rt=0:0:2); until_has limited 'got USR2' 4; until_ended $limited\n\
         echo limited; gone\n\
         elements=$(submit 2 -o 'element$TASK_ID' -t 1-2)\n\
         until_has element1 'is up' 2; until_has element2 'is up' 2; qdel $elements -t 1 >/dev/null\n\
         while qstat | grep \"^ *$elements \" | grep -q ' 1$'; do sleep 0.1; done\n\
         echo elements; cat element1; qstat | grep -c \"^ *$elements .* 2\\$\"\n\
         qdel $elements >/dev/null; until_ended $elements; gone\n\
         qconf -mattr pe control_slaves FALSE mpi >/dev/null; refused=$(submit 4 -o refused); until_ended $refused\n\
         echo refused; cat refused\n\
         rm -r \"$work\"\n",
        host_path()
    );
    let output = engine.submit(&script).unwrap();
    let of_ranks =
        |what: &str| (0..4).all(|rank| output.contains(&format!("rank {rank} {what}\n")));
    assert!(of_ranks("got USR1") && of_ranks("got USR2"), "{output}");
    for host in ["ge1", "ge2"] {
        // What a node has, not what the script has.
        let of_node = format!("node {host} has files in /var/spool/gridengine/execd/{host}/");
        assert!(output.contains(&of_node), "{output}");
    }
    let bound = |line: &&str| line.contains("processors ") && !line.ends_with("processors ");
    assert_eq!(output.lines().filter(bound).count(), 4, "{output}");
    assert!(output.contains("of element 1 on "), "{output}");
    assert!(!output.contains("of element 2 on "), "{output}");
    assert_eq!(output.matches("left 0\n").count(), 3, "{output}");
    assert!(output.contains("execution daemon on host \"ge"), "{output}");
}
