//! Starts the launcher as a user would, bounded in time, and builds the programs to start with it.
// Every test file is a crate of its own and uses only a part of this module.
#![allow(dead_code, unreachable_pub)]

pub mod capi;
pub mod flux;
pub mod hosts;
pub mod library;
pub mod listening;
pub mod peers;
pub mod slurm;
pub mod spawner;
pub mod terminal;
pub mod tools;
pub mod wheel;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Outcome of a command.
#[derive(Debug)]
pub struct Ran {
    /// Exit code, or 128 + signal.
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// A command that runs.
pub struct Running {
    child: Child,
    out: Collected,
    err: Collected,
    since: Instant,
}

/// `pmi-host run -n RANKS WORDS…`, ready to be started.
pub fn job<S: AsRef<OsStr>>(ranks: u32, words: impl IntoIterator<Item = S>) -> Command {
    let mut command = host(["run", "-n", &ranks.to_string()]);
    command.args(words);
    command
}

/// The launcher with `words`, ready to be started, without variables of a launcher around the tests.
pub fn host<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Command {
    let mut command = launcher_at(Path::new(env!("CARGO_BIN_EXE_pmi-host")));
    command.args(words).stdin(Stdio::null());
    // The user of the tests may have personal settings.
    command.env("XDG_CONFIG_HOME", "/nowhere");
    // Keeps MPI off the network.
    command.env("UCX_TLS", "self,sm");
    command
}

/// The launcher with this path. A signal that is ignored at the start stays ignored, as in tests that were
/// started in the background, so it is not ignored here.
pub fn launcher_at(path: &Path) -> Command {
    if !interrupts_are_ignored() {
        return Command::new(path);
    }
    let mut command = Command::new("/usr/bin/env");
    command.arg("--default-signal").arg(path);
    command
}

/// An empty directory at this path below that of the tests, with links of other launchers' names to this one.
pub fn launchers_at(path: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(path);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    for name in
        ["mpirun", "mpiexec", "prterun", "orterun", "srun", "mpiexec.hydra", "aprun", "jsrun"]
    {
        std::os::unix::fs::symlink(host_path(), directory.join(name)).unwrap();
    }
    directory
}

/// A command line whose first word is the name of a link in `directory`.
pub fn launched_by_name(directory: &Path, line: &str) -> Command {
    let mut words = line.split(' ');
    let mut command = Command::new(directory.join(words.next().expect("a line has a word")));
    command.args(words).current_dir(directory).stdin(Stdio::null());
    command.env("XDG_CONFIG_HOME", "/nowhere").env("HOME", directory);
    command
}

/// Path of the launcher, for a shell.
pub fn host_path() -> &'static str {
    env!("CARGO_BIN_EXE_pmi-host")
}

/// Path of a copy of the launcher without what only a debugger reads, of which tests store several at once.
pub fn small_host_path() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
        std::fs::create_dir_all(&directory).unwrap();
        let (made, path) = (directory.join("pmi-host.new"), directory.join("pmi-host"));
        let strip = Command::new("strip").arg("-o").arg(&made).arg(host_path()).status();
        assert!(strip.expect("'strip' of binutils, beside the linker").success());
        // Another run of the test may still execute the last one.
        std::fs::rename(made, &path).unwrap();
        path
    })
}

/// Copies a program, with this mode. Another process writes it: nobody could execute a file that a process which
/// another test is just starting has open for writing.
pub fn copy_program(from: impl AsRef<OsStr>, to: impl AsRef<OsStr>, mode: u32) {
    let mut install = Command::new("install");
    install.args(["-m", &format!("{mode:o}")]).arg(from).arg(to);
    assert!(install.status().unwrap().success());
}

/// True if this process ignores SIGINT.
fn interrupts_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 0b10 != 0)
}

/// `sh -c SCRIPT` as the program of a job. A shell redirects only descriptors of one digit; that of a
/// rank's socket is one.
pub fn shell(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// Ranks in front of a line, as in `[0-2,5] text`, and the text.
pub fn labelled(line: &str) -> (Vec<u32>, &str) {
    let (label, text) = line.strip_prefix('[').and_then(|line| line.split_once("] ")).unwrap();
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<u32>().unwrap()..=last.parse().unwrap()
    };
    (label.split(',').flat_map(range).collect(), text)
}

/// Runs `command` to its end.
pub fn run(command: &mut Command) -> Ran {
    start(command).end()
}

/// Runs `command` with `input` as its standard input.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Ran {
    let mut running = start(command.stdin(Stdio::piped()));
    let mut stdin = running.child.stdin.take().expect("was asked for");
    // The command may leave input unread.
    let _ = stdin.write_all(input);
    drop(stdin);
    running.end()
}

/// Starts `command` with its output collected. In a process group of its own, so that nothing of it is
/// left when it hangs.
pub fn start(command: &mut Command) -> Running {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    // Tests that run at the same time do not bind ranks beside each other's, unless they say so.
    if command.get_envs().all(|(name, _)| name != "PMI_HOST_OVERLAP") {
        command.env("PMI_HOST_OVERLAP", "1");
    }
    let mut child = command.spawn().expect("the launcher was built with this test");
    let out = collect(child.stdout.take().expect("was asked for"));
    let err = collect(child.stderr.take().expect("was asked for"));
    Running { child, out, err, since: Instant::now() }
}

/// Sends a signal to the process group that `leader` leads. (The program `kill` takes the small number of
/// a group, as in a container, for a signal.)
pub fn signal_group(leader: u32, name: &str) -> nix::Result<()> {
    let signal: Signal = format!("SIG{name}").parse().expect("a signal by its name");
    killpg(Pid::from_raw(leader.cast_signed()), signal)
}

impl Running {
    /// Sends a signal by its name, as `kill` knows it.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill").args(["-s", name, &pid]).status().expect("kill exists").success()
        );
    }

    /// Writes to standard input, if that was piped.
    pub fn types(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().expect("standard input is a pipe");
        stdin.write_all(text.as_bytes()).expect("the command reads");
    }

    /// Waits until standard output holds `text`.
    #[track_caller]
    pub fn wait_for_output(&self, text: &str) {
        self.wait_until(text, &self.out);
    }

    /// Waits until standard error holds `text`.
    #[track_caller]
    pub fn wait_for_errors(&self, text: &str) {
        self.wait_until(text, &self.err);
    }

    /// Standard error so far.
    pub fn errors(&self) -> String {
        self.err.so_far()
    }

    #[track_caller]
    fn wait_until(&self, text: &str, collected: &Collected) {
        while !collected.so_far().contains(text) {
            assert!(self.since.elapsed() < LIMIT, "no {text:?} in {:?}", collected.so_far());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Standard output so far.
    pub fn output(&self) -> String {
        self.out.so_far()
    }

    /// True if the process has terminated, by its state.
    pub fn has_ended(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        stat.map_or(true, |stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end.
    pub fn end(mut self) -> Ran {
        let status = self.wait();
        let (out, err) = (self.out.all(), self.err.all());
        let status = status
            .unwrap_or_else(|| panic!("still running after {LIMIT:?}\nout: {out}\nerr: {err}"));
        Ran { code: code(status), out, err }
    }

    fn wait(&mut self) -> Option<ExitStatus> {
        while self.since.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(2));
        }
        let _ = signal_group(self.child.id(), "KILL");
        let _ = self.child.wait();
        None
    }
}

impl Ran {
    /// Checks the exit code, and shows everything if it is another.
    #[track_caller]
    pub fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "\nout: {}\nerr: {}", self.out, self.err);
        self
    }

    /// Checks that standard error has exactly one line of the launcher and that it holds all of `parts`.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        let own: Vec<&str> =
            self.err.lines().filter(|line| line.starts_with("pmi-host: ")).collect();
        assert_eq!(own.len(), 1, "{:?}", self.err);
        for part in parts {
            assert!(own[0].contains(part), "no {part:?} in {:?}", own[0]);
        }
        self
    }

    /// Checks that the launcher itself printed nothing.
    #[track_caller]
    pub fn says_nothing(self) -> Self {
        assert!(!self.err.contains("pmi-host: "), "{:?}", self.err);
        self
    }

    /// The lines of standard output, sorted.
    pub fn lines(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.out.lines().collect();
        lines.sort_unstable();
        lines
    }
}

/// Builds `tests/programs/NAME.c` with MPICH's compiler. Without that compiler it prints the reason and the
/// test has nothing to run; in CI that is a failure.
pub fn mpi_program(name: &str) -> Option<PathBuf> {
    let built = build_as(OsStr::new("mpicc.mpich"), name, name);
    or_skip(built, "Debian's packages mpich and libmpich-dev bring what is missing")
}

/// Builds `tests/programs/NAME.c` with Open MPI's compiler, or prints the reason for a failure as
/// [`mpi_program`].
pub fn openmpi_program(name: &str) -> Option<PathBuf> {
    let built = build_as(OsStr::new("mpicc.openmpi"), name, &format!("openmpi-{name}"));
    or_skip(built, "Debian's packages openmpi-bin and libopenmpi-dev bring what is missing")
}

/// Debian's Open MPI as a launcher, without number and program of its ranks; prints a note if it is
/// missing.
pub fn openmpi_launcher() -> Option<Command> {
    let found = Command::new("orterun").arg("--version").output();
    let there = found.map(|_| PathBuf::from("orterun"));
    let there = there.map_err(|error| format!("orterun cannot be started ({error})"));
    or_skip(there, "Debian's package openmpi-bin brings what is missing").map(quiet_launcher)
}

/// A launcher of Open MPI that starts any requested number of ranks, for any user.
fn quiet_launcher(program: PathBuf) -> Command {
    let mut command = Command::new(program);
    command.args(["--allow-run-as-root", "--oversubscribe"]).stdin(Stdio::null());
    command
}

/// Builds `tests/programs/NAME.c` against Debian's PMIx library, or prints the reason for a failure as
/// [`mpi_program`].
pub fn pmix_program(name: &str) -> Option<PathBuf> {
    let flags = ["-I/usr/lib/x86_64-linux-gnu/pmix2/include", "-l:libpmix.so.2"];
    let built = build_once(name, name, || build_with(OsStr::new("cc"), name, name, &flags));
    or_skip(built, "Debian's package libpmix-dev brings what is missing")
}

/// Builds `tests/programs/NAME.c` against Slurm's client library for PMI-2, or prints the reason for a
/// failure as [`mpi_program`].
pub fn slurm_program(name: &str) -> Option<PathBuf> {
    let flags = ["-pthread", "-lpmi2"];
    let built = build_once(name, name, || build_with(OsStr::new("cc"), name, name, &flags));
    or_skip(built, "Debian's packages libpmi2-0 and libpmi2-0-dev bring what is missing")
}

/// Builds `tests/programs/NAME.c` with the compiler that every Rust machine has as its linker.
pub fn c_program(name: &str) -> PathBuf {
    build_as(OsStr::new("cc"), name, name).expect("cc builds a plain program")
}

/// The value, or a note that it is missing, which is a failure in CI.
pub fn or_skip<T>(found: Result<T, String>, remedy: &str) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(why) if std::env::var_os("CI").is_some() => panic!("{why}; {remedy}"),
        Err(why) => {
            eprintln!("skipped: {why}; {remedy}");
            None
        }
    }
}

fn build_as(compiler: &OsStr, name: &str, program: &str) -> Result<PathBuf, String> {
    build_once(name, program, || build_with(compiler, name, program, &[]))
}

fn build_with(
    compiler: &OsStr,
    name: &str,
    program: &str,
    libraries: &[&str],
) -> Result<PathBuf, String> {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(program);
    // Tests run side by side and may build the same program: each its own, then moved in one step.
    let unique = format!("{name}.{}.{:?}", std::process::id(), thread::current().id());
    let fresh = program.with_file_name(unique);
    let mut command = Command::new(compiler);
    command.arg("-O1").arg("-o").arg(&fresh).arg(&source).args(libraries);
    // Intel's compiler does not find its own installation directory.
    if let Some(root) = Path::new(compiler).ancestors().nth(2) {
        command.env("I_MPI_ROOT", root);
    }
    let shown = compiler.display();
    let built = command.output().map_err(|error| format!("{shown} cannot be started ({error})"))?;
    if !built.status.success() {
        return Err(format!("{shown} failed: {}", String::from_utf8_lossy(&built.stderr)));
    }
    std::fs::rename(&fresh, &program).map_err(|error| error.to_string())?;
    Ok(program)
}

/// The program, built from the source `name` unless that was done since the source, a header or the files of
/// compilers and options were changed. One that runs is not replaced: it may start itself, and a debugger may
/// read it.
fn build_once(
    name: &str,
    program: &str,
    build: impl FnOnce() -> Result<PathBuf, String>,
) -> Result<PathBuf, String> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(program);
    // Tests run side by side, in one process or several.
    let lock = File::create(program.with_extension("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let changed = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let programs = std::fs::read_dir(tests.join("programs")).into_iter().flatten().flatten();
    let own = |path: &PathBuf| {
        path.extension().is_some_and(|of| of == "h") || path.ends_with(format!("{name}.c"))
    };
    let sources = programs.map(|entry| entry.path()).filter(own);
    let options = ["common/mod.rs", "common/wheel.rs"].map(|file| tests.join(file));
    let latest = sources.chain(options).filter_map(|path| changed(&path));
    match changed(&program).zip(latest.max()) {
        Some((built, latest)) if built > latest => Ok(program),
        _ => build(),
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// Output read so far; a thread of its own goes on reading.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Collected {
    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().expect("reading does not panic")).into_owned()
    }

    fn all(self) -> String {
        self.reader.join().expect("reading does not panic");
        let bytes = self.bytes.lock().expect("the other holders have ended");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn collect(mut from: impl Read + Send + 'static) -> Collected {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&bytes);
    let reader = thread::spawn(move || {
        let mut piece = [0; 65536];
        while let Ok(len @ 1..) = from.read(&mut piece) {
            sink.lock().expect("no holder panics").extend_from_slice(&piece[..len]);
        }
    });
    Collected { bytes, reader }
}

/// Far above the duration of any of these tests on a slow and busy machine.
const LIMIT: Duration = Duration::from_secs(60);
