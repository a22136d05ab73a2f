//! `--preload-pmi`: programs that would load the library of another launcher use that of this project.

use crate::common::capi::{capi_program, libraries, program_with};
use crate::common::wheel::{intel_program, on_loopback};
use crate::common::{host, job, openmpi_program, run, shell};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A job whose ranks use the libraries.
fn preloading(ranks: u32, program: &Path) -> Command {
    let mut command = host(["run", "-n", &ranks.to_string(), "--preload-pmi", "--pmi-libraries"]);
    command.arg(libraries()).arg(program);
    command
}

/// The lines of `capi_cards`.
fn cards(ranks: u32) -> Vec<String> {
    let card = |rank| format!("rank {rank} of {ranks}: card from-{}", (rank + 1) % ranks);
    (0..ranks).map(card).collect()
}

#[test]
fn program_with_the_path_of_slurm_s_library_in_it_uses_that_of_pmi_host() {
    let flags = format!(
        "-I/usr/include/slurm -L{SYSTEM} -Wl,--disable-new-dtags,-rpath,{SYSTEM} -l:libpmi.so.0"
    );
    let Some(program) = program_with("capi_cards", "capi_cards-slurm", &flags) else { return };
    // Slurm's library has no wire protocol: it takes each rank for a job of one, and stores nothing.
    run(&mut job(2, [&program])).exits_with(7);
    let ran = run(&mut preloading(3, &program)).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), cards(3));
}

#[test]
fn program_that_loads_a_library_by_its_name_loads_that_of_pmi_host_behind_a_shell_too() {
    let flags = format!("-DBY_NAME -I{}/../include -ldl", libraries().display());
    let Some(program) = program_with("capi_cards", "capi_cards-by-name", &flags) else { return };
    let ran = run(preloading(2, &program).arg("libpmi.so.0")).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), cards(2));
    let script = format!("{} libpmi.so.0; true", program.display());
    let words = shell(&script);
    let mut command = preloading(2, Path::new(words[0]));
    let ran = run(command.args(&words[1..])).exits_with(0).says_nothing();
    assert_eq!(ran.lines(), cards(2));
}

#[test]
fn variables_of_the_user_stay_behind_those_of_the_libraries() {
    let show = shell("echo $LD_LIBRARY_PATH; echo $I_MPI_PMI_LIBRARY");
    let mut command = host(["run", "-n", "1", "--preload-pmi", "--pmi-libraries"]);
    command.arg(libraries()).args(["--env", "I_MPI_PMI_LIBRARY=/other.so"]);
    command.env("LD_LIBRARY_PATH", "/a:/b").args(show);
    let ran = run(&mut command).exits_with(0).says_nothing();
    let directory = fs::canonicalize(libraries()).unwrap();
    assert_eq!(ran.out, format!("{}:/a:/b\n/other.so\n", directory.display()));
}

#[test]
fn libraries_that_are_missing_or_whose_path_the_loader_splits_are_refused_with_a_remedy() {
    let run_with = |directory: &Path| {
        let mut command = host(["run", "-n", "1", "--preload-pmi", "--pmi-libraries"]);
        run(command.arg(directory).arg("true")).exits_with(2)
    };
    run_with(Path::new("/nowhere")).says(&["/nowhere", "--pmi-libraries"]);
    let split = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libraries of pmi");
    fs::create_dir_all(&split).unwrap();
    for name in ["libpmi.so.0", "libpmi2.so.0"] {
        fs::copy(libraries().join(name), split.join(name)).unwrap();
    }
    run_with(&split).says(&["libraries of pmi", "without spaces"]);
}

#[test]
fn intel_mpi_uses_the_library_in_place_of_the_one_that_its_environment_names() {
    let Some(ring) = intel_program("ring") else { return };
    let mut command = preloading(3, &ring);
    // Slurm's kills the ranks; modules of clusters set it for every job.
    command.env("I_MPI_PMI_LIBRARY", format!("{SYSTEM}/libpmi.so.0"));
    let ran = run(on_loopback(&mut command)).exits_with(0).says_nothing();
    assert_eq!(ran.out, "ring of 3: token 3\n");
    // The same with each library by its path.
    for library in ["libpmi.so.0", "libpmi2.so.0"] {
        let mut command = job(3, [&ring]);
        command.env("I_MPI_PMI_LIBRARY", libraries().join(library));
        let ran = run(on_loopback(&mut command)).exits_with(0).says_nothing();
        assert_eq!(ran.out, "ring of 3: token 3\n", "{library}");
    }
}

#[test]
fn open_mpi_4_runs_with_the_library_by_its_component_for_flux() {
    let Some(ring) = openmpi_program("ring") else { return };
    let mut command = host(["run", "-n", "3", "--pmi", "1", "--env", "FLUX_JOB_ID=1", "--env"]);
    command.arg(format!("FLUX_PMI_LIBRARY_PATH={}", libraries().join("libpmi.so.0").display()));
    command.arg(&ring);
    let ran = run(on_loopback(&mut command)).exits_with(0).says_nothing();
    assert_eq!(ran.out, "ring of 3: token 3\n");
}

#[test]
fn programs_that_need_no_library_run_with_them_as_without() {
    let program = capi_program("capi_pmi2", "pmi2");
    let ran = run(&mut preloading(2, &program)).exits_with(0).says_nothing();
    assert_eq!(ran.lines().len(), 2, "{}", ran.out);
    let Some(ring) = crate::common::mpi_program("ring") else { return };
    let ran = run(&mut preloading(3, &ring)).exits_with(0).says_nothing();
    assert_eq!(ran.out, "ring of 3: token 3\n");
}

/// Directory of Debian's libraries.
const SYSTEM: &str = "/usr/lib/x86_64-linux-gnu";
