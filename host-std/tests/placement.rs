//! Memory, devices and threads of ranks: what each rank has, and what is refused before any starts.

use crate::common::spawner::SPAWNER;
use crate::common::{host, run};
use pmi_host_base::ranges::ranges;
use pmi_host_hardware::described::{tree_parent, write_tree};
use pmi_host_hardware::hwloc::HwlocVersion;
use pmi_host_hardware::model::NodeHardware;
use pmi_host_hardware::processor_set::ProcessorSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Processors that the tests may use.
pub(crate) fn allowed() -> Vec<u32> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    ProcessorSet::of_list(list).unwrap().iter().copied().collect()
}

/// A machine with the processors of this one, and lines of a description.
pub(crate) fn machine(lines: &str) -> NodeHardware {
    let cores = allowed().last().unwrap() + 1;
    let text = format!("name Test\npackages 1\ncores {cores}\n{lines}");
    NodeHardware::of_description(&text).unwrap()
}

/// GPUs of AMD near the first and the last processor, which are numbered the other way round.
pub(crate) fn two_gpus() -> String {
    let all = allowed();
    let device = |number: u32, near: u32| {
        format!(
            "device 0000:0{number}:00.0 1002:7408 0380 names=card{number},renderD{} near={near} \
             uuid=GPU-000000000000000{number}\n",
            128 + number
        )
    };
    let (first, last) = (all[0], all[all.len() - 1]);
    format!("memory 0 1GiB\n{}{}", device(1, last), device(2, first))
}

/// A file that describes a machine.
pub(crate) struct Description {
    directory: TempDir,
}

impl Description {
    pub(crate) fn of(hardware: &NodeHardware) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("node.xml"), hardware.hwloc(HwlocVersion::V2)).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("node.xml")
    }

    /// `pmi-host run -n RANKS --topology FILE OPTIONS…`.
    fn job(&self, ranks: u32, options: &[&str]) -> Command {
        let mut command = host(["run", "-n", &ranks.to_string(), "--topology"]);
        command.arg(self.path()).args(options);
        for name in ["ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"] {
            command.env_remove(name);
        }
        command
    }
}

/// Prints the rank, its GPUs and its processors.
const TELL: [&str; 3] = [
    "sh",
    "-c",
    "echo $PMI_RANK ${ROCR_VISIBLE_DEVICES-all} $(grep Cpus_allowed_list: /proc/self/status | cut -f 2)",
];

/// Memory of a rank, as the system reports it.
const TELL_MEMORY: [&str; 3] = ["sh", "-c", "cut -d ' ' -f 2 /proc/self/numa_maps | head -1"];

/// True if ranks can be placed apart here, and the system has policies of memory.
pub(crate) fn is_alone(what: &str) -> bool {
    let is_alone = allowed().len() < 2 || !PathBuf::from("/proc/self/numa_maps").exists();
    if is_alone {
        eprintln!("skipped: one processor, or no memory domains ({what})");
    }
    is_alone
}

#[test]
fn ranks_have_the_gpus_near_their_processors() {
    let description = Description::of(&machine(&two_gpus()));
    let (first, last) = (allowed()[0], *allowed().last().unwrap());
    if is_alone("GPUs") {
        return;
    }
    let all = ranges(&allowed(), ",");
    let bind_to = format!("user:{first},{last}");
    let [near_last, near_first] = ["GPU-0000000000000001", "GPU-0000000000000002"];
    let cases: [(&[&str], [String; 2]); 5] = [
        (
            &["--gpus-per-rank", "1", "--bind-to", &bind_to],
            [format!("0 {near_first} {first}"), format!("1 {near_last} {last}")],
        ),
        (
            &["--gpus-per-rank", "1", "--gpu-bind", "packed"],
            [format!("0 {near_last} {all}"), format!("1 {near_first} {all}")],
        ),
        (
            &["--gpu-bind", "list:1,0"],
            [format!("0 {near_first} {all}"), format!("1 {near_last} {all}")],
        ),
        (
            &["--gpus-per-rank", "2", "--gpu-share", "2"],
            [0, 1].map(|rank| format!("{rank} {near_last},{near_first} {all}")),
        ),
        (
            &["--gpus-per-rank", "1", "--map-by", "gpu"],
            [format!("0 {near_last} {last}"), format!("1 {near_first} {first}")],
        ),
    ];
    for (options, expected) in cases {
        let ran = run(description.job(2, options).args(TELL)).exits_with(0);
        assert_eq!(ran.lines(), expected, "{options:?}");
    }
    // Without an option for them, ranks see all.
    let ran = run(description.job(2, &["--bind-to", &bind_to]).args(TELL)).exits_with(0);
    assert_eq!(ran.lines(), [format!("0 all {first}"), format!("1 all {last}")]);
}

#[test]
fn own_gpus_come_first_or_are_only_told() {
    let description = Description::of(&machine(&two_gpus()));
    let told = |how: &str| {
        let options = ["--gpu-bind", "list:1", "--gpu-expose", how];
        let words = ["sh", "-c", "echo ${ROCR_VISIBLE_DEVICES-all} $PMI_LOCAL_GPUS"];
        run(description.job(1, &options).args(words)).exits_with(0).out.trim().to_owned()
    };
    assert_eq!(told("mask"), "GPU-0000000000000002");
    assert_eq!(told("order"), "GPU-0000000000000002,GPU-0000000000000001");
    assert_eq!(told("env"), "all 1");
}

#[test]
fn gpus_of_the_user_restrict_those_of_ranks() {
    let description = Description::of(&machine(&two_gpus()));
    let mut job = description.job(1, &["--gpus-per-rank", "1"]);
    let ran = run(job.args(TELL).env("ROCR_VISIBLE_DEVICES", "1")).exits_with(0);
    assert!(ran.out.starts_with("0 GPU-0000000000000002 "), "{}", ran.out);
    // An option of the run counts as the environment does, and the rank has the variable once.
    let options = ["--gpus-per-rank", "1", "--env", "ROCR_VISIBLE_DEVICES=1"];
    let ran = run(description.job(1, &options).arg("env")).exits_with(0);
    let lines = ran.lines().into_iter().filter(|line| line.starts_with("ROCR_"));
    assert_eq!(lines.collect::<Vec<_>>(), ["ROCR_VISIBLE_DEVICES=GPU-0000000000000002"]);
    let mut job = description.job(2, &["--gpus-per-rank", "1"]);
    let ran = run(job.args(TELL).env("ROCR_VISIBLE_DEVICES", "1")).exits_with(2);
    assert_eq!(ran.out, "");
    ran.says(&[
        "has 1 GPU for ranks",
        "ROCR_VISIBLE_DEVICES=1",
        "2 ranks with '--gpus-per-rank 1'",
    ]);
}

#[test]
fn impossible_places_end_the_run_before_anything_starts() {
    let description = Description::of(&machine(&two_gpus()));
    let cases: [(&[&str], &[&str]); 11] = [
        (&["--gpus-per-rank", "1"], &["has 2 GPUs", "3 ranks", "'--gpu-share 2' lets 2 ranks"]),
        (&["--gpus-per-rank", "3"], &["has 2 GPUs", "ask for 9", "ask for 2 at most"]),
        (&["--gpus-per-rank", "0"], &["'--gpus-per-rank 0'", "not a number of GPUs"]),
        (&["--gpu-bind", "list:0,4"], &["has 2 GPUs", "names 4"]),
        (&["--gpus-per-rank", "2", "--gpu-bind", "list:0,1"], &["contradicts"]),
        (&["--nics-per-rank", "1"], &["has no network cards", "'--nics-per-rank 1'"]),
        (&["--map-by", "nic"], &["has no network cards", "'--map-by nic'"]),
        (&["--map-by", "auto", "--bind-to", "core"], &["'--map-by auto'", "leave '--bind-to' out"]),
        (&["--mem-bind", "list:7"], &["has memory domains 0", "names 7"]),
        (&["--mem-bind", "hbm"], &["no high bandwidth memory", "leave '--mem-bind hbm' out"]),
        (&["--mem-bind", "local"], &["ranks are not bound", "add '--bind-to numa'"]),
    ];
    for (options, parts) in cases {
        let ran = run(description.job(3, options).args(["echo", "started"])).exits_with(2);
        assert_eq!(ran.out, "", "{options:?}");
        ran.says(parts);
    }
    let mut job =
        host(["run", "-n", "1", "--bind-to", "core", "--topology", "/no/such.xml", "echo"]);
    run(&mut job).exits_with(2).says(&["'--topology /no/such.xml'", "cannot be read"]);
}

#[test]
fn described_processors_that_may_not_be_used_are_left_out() {
    let description = Description::of(&machine(&two_gpus()));
    let last = allowed().last().unwrap().to_string();
    let mut confined = Command::new("taskset");
    let job = description.job(2, &["--map-by", "auto"]);
    confined.args(["-c", &last]).arg(job.get_program()).args(job.get_args()).args(TELL);
    let ran = run(&mut confined).exits_with(0);
    let processors: Vec<&str> =
        ran.lines().iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(processors, [&*last, &*last]);
}

#[test]
fn description_of_a_larger_machine_is_shown_and_not_used() {
    let cores = allowed().last().unwrap() + 9;
    let text = format!("name Larger\npackages 1\ncores {cores}\nmemory 0 1GiB\n");
    let description = Description::of(&NodeHardware::of_description(&text).unwrap());
    let ranks = cores;
    let options = ["--bind-to", "core", "--display", "map"];
    let ran = run(description.job(ranks, &options).args(["echo", "started"])).exits_with(2);
    assert_eq!(ran.out, "");
    let last = format!("gives ranks processors {}-{}", allowed().last().unwrap() + 1, cores - 1);
    assert!(ran.err.starts_with("rank  host  NUMA  cores  processors\n   0  "), "{}", ran.err);
    ran.says(&[&last, "lets them use"]);
    // One that needs none of the processors that are not there.
    let ran =
        run(description.job(1, &["--bind-to", "core"]).args(["echo", "started"])).exits_with(0);
    assert_eq!(ran.out, "started\n");
    ran.says(&["describes processors 0-", "so it is not this host"]);
    // A picture, and no process.
    let options = ["--bind-to", "core", "--display", "map=svg"];
    let ran = run(description.job(ranks, &options).args(["echo", "started"])).exits_with(2);
    assert!(ran.err.starts_with("<svg") && ran.err.contains("</svg>\npmi-host: "), "{}", ran.err);
}

#[test]
fn rank_has_the_memory_of_its_processors() {
    if is_alone("memory") {
        return;
    }
    let description = Description::of(&machine("memory 0 1GiB\n"));
    for (binding, policy) in [
        ("local", "bind:0"),
        ("preferred", "prefer (many):0"),
        ("interleave", "interleave:0"),
        ("list:0", "bind:0"),
        ("none", "default"),
    ] {
        let options = ["--bind-to", "core", "--mem-bind", binding];
        let ran = run(description.job(2, &options).args(TELL_MEMORY)).exits_with(0);
        let is_meant = |line: &&str| line.starts_with(policy.split(' ').next().unwrap());
        assert!(
            ran.lines().len() == 2 && ran.lines().iter().all(is_meant),
            "{binding}: {}",
            ran.out
        );
    }
}

#[test]
fn launcher_keeps_its_own_memory() {
    if is_alone("memory") {
        return;
    }
    // A rank may run before its launcher has restored its policy.
    let wait = "for _ in $(seq 500); do
        now=$(cut -d ' ' -f 2 /proc/$PPID/numa_maps | head -1)
        if [ \"$now\" = default ]; then break; fi
        sleep 0.01
    done
    echo \"$now\"";
    let words = ["run", "-n", "1", "--bind-to", "core", "--mem-bind", "local", "sh", "-c", wait];
    assert_eq!(run(&mut host(words)).exits_with(0).out, "default\n");
}

#[test]
fn memory_that_the_system_refuses_ends_the_run_unless_it_is_preferred() {
    if is_alone("memory") {
        return;
    }
    // The second half of the cores is near a domain that no test machine has.
    let description = Description::of(&machine("memory 0,200 1GiB\n"));
    let last = format!("user:{}", allowed().last().unwrap());
    let job = |binding: &str| {
        let options = ["--bind-to", &last, "--mem-bind", binding];
        run(description.job(1, &options).args(["echo", "started"]))
    };
    for binding in ["local", "interleave", "list:200"] {
        let ran = job(binding).exits_with(2);
        assert_eq!(ran.out, "", "{binding}");
        ran.says(&[
            "the system refuses memory domains 200 (",
            "'--mem-bind preferred' does without",
        ]);
    }
    assert_eq!(job("preferred").exits_with(0).out, "started\n");
}

#[test]
fn threads_of_ranks_have_places_and_the_user_has_the_last_word() {
    let script = "echo $OMP_NUM_THREADS $OMP_PLACES";
    let one = allowed()[0].to_string();
    let bind_to = format!("user:{one}");
    let words = ["run", "-n", "1", "--bind-to", &bind_to, "--threads-per-rank", "1", "sh", "-c"];
    let clean = |command: &mut Command| {
        command.env_remove("OMP_NUM_THREADS").env_remove("OMP_PLACES").arg(script);
    };
    let mut command = host(words);
    clean(&mut command);
    assert_eq!(run(&mut command).exits_with(0).out, format!("1 {{{one}}}\n"));
    let mut command = host(words);
    clean(&mut command);
    command.env("OMP_NUM_THREADS", "7").env("OMP_PLACES", "cores");
    assert_eq!(run(&mut command).exits_with(0).out, "7 cores\n");
}

#[test]
fn hosts_place_their_ranks_by_themselves() {
    let description = Description::of(&machine(&two_gpus()));
    let hosts = ["--starter", "local:2", "--gpus-per-rank", "1"];
    let ran = run(description.job(4, &hosts).args(TELL)).exits_with(0);
    let mut gpus: Vec<&str> =
        ran.lines().iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
    gpus.sort_unstable();
    let [first, second] = ["GPU-0000000000000001", "GPU-0000000000000002"];
    assert_eq!(gpus, [first, first, second, second]);
    let ran = run(description.job(6, &hosts).args(["echo", "started"])).exits_with(2);
    ran.says(&["host local", "has 2 GPUs", "3 ranks with '--gpus-per-rank 1'"]);
    let memory = ["--starter", "local:2", "--bind-to", "core", "--mem-bind", "list:200"];
    run(description.job(2, &memory).args(["echo", "started"])).exits_with(2).says(&["names 200"]);
}

#[test]
fn spawned_ranks_have_places_as_those_of_the_first_job() {
    let description = Description::of(&machine(&two_gpus()));
    let child = format!("{SPAWNER} echo child $PMI_RANK $ROCR_VISIBLE_DEVICES; ask finalize");
    let script = format!("{SPAWNER} spawn 2 '' \"$CHILD\"; ask finalize >/dev/null");
    let mut job = description.job(1, &["--gpus-per-rank", "1"]);
    let ran = run(job.args(["sh", "-c", &script]).env("CHILD", child)).exits_with(0);
    for expected in ["child 0 GPU-0000000000000001", "child 1 GPU-0000000000000002"] {
        assert!(ran.lines().contains(&expected), "{}", ran.out);
    }
}

#[test]
fn devices_of_this_machine_are_read_from_its_files() {
    let can = Command::new("unshare").args(["--mount", "true"]).status();
    if !can.is_ok_and(|status| status.success()) || is_alone("files of the system") {
        assert!(std::env::var_os("CI").is_none() || allowed().len() < 2, "CI runs as root");
        return;
    }
    let root = tempfile::tempdir_in(tree_parent()).unwrap();
    write_tree(&machine(&two_gpus()), root.path()).unwrap();
    // Device files of both GPUs, and then of the first alone.
    let script = "set -e; root=$1; files=$2; shift 2
        mkdir $root/dev; mount -t tmpfs tmpfs $root/dev; mkdir $root/dev/dri $root/dev/shm
        for name in null zero full random urandom tty; do cp -a /dev/$name $root/dev/; done
        for file in $files; do : > $root/dev/dri/$file; done
        mount --bind /dev/shm $root/dev/shm; mount --rbind $root/dev /dev
        mount --rbind $root/sys /sys; exec \"$@\"";
    let inside = |files: &str, options: &[&str], words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(root.path()).arg(files);
        let job = host(["run", "-n", "2"].iter().chain(options).chain(words));
        let ran = run(command.arg(job.get_program()).args(job.get_args()));
        fs::remove_dir(root.path().join("dev")).unwrap();
        ran
    };
    let (first, last) = (allowed()[0], *allowed().last().unwrap());
    let bind_to = format!("user:{first},{last}");
    let expected =
        [format!("0 GPU-0000000000000002 {first}"), format!("1 GPU-0000000000000001 {last}")];
    let options = ["--gpus-per-rank", "1", "--bind-to", &bind_to];
    let ran = inside("renderD129 renderD130", &options, &TELL).exits_with(0);
    assert_eq!(ran.lines(), expected);
    let hosts = ["--starter", "local:1", "--gpus-per-rank", "1", "--bind-to", &bind_to];
    let ran = inside("renderD129 renderD130", &hosts, &TELL).exits_with(0);
    assert_eq!(ran.lines(), expected);
    let ran = inside("renderD129", &options, &TELL).exits_with(2);
    assert_eq!(ran.out, "");
    ran.says(&["has 1 GPU for ranks", "'--gpu-share 2'"]);
}
