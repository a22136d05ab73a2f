//! One case with one build: a directory, a run in it, and what is left.

use super::cases::{Case, Setting};
use super::normal::normal;
use crate::processes::{Process, send, with_entry};
use crate::toolchain;
use rustix::process::Signal;
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// What a run has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Outcome {
    pub(super) code: String,
    pub(super) out: Vec<String>,
    pub(super) err: Vec<String>,
    pub(super) files: Vec<String>,
    pub(super) processes: Vec<String>,
}

impl Outcome {
    fn parts(&self) -> [(&'static str, Vec<String>); 5] {
        [
            ("exit code", vec![self.code.clone()]),
            ("output", self.out.clone()),
            ("messages", self.err.clone()),
            ("files", self.files.clone()),
            ("processes left", self.processes.clone()),
        ]
    }

    /// Names of the parts in which two outcomes differ.
    pub(super) fn differing_parts(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.parts().into_iter().zip(other.parts());
        pairs.filter(|(old, new)| old != new).map(|(old, _)| old.0).collect()
    }

    /// The lines in which they differ, or all of them.
    pub(super) fn compared(&self, other: &Self, is_whole: bool) -> String {
        let mut text = String::new();
        for ((part, old), (_, new)) in self.parts().into_iter().zip(other.parts()) {
            if old == new && !is_whole {
                continue;
            }
            text += &format!("  {part}:\n");
            for (mark, lines, others) in [("old", &old, &new), ("new", &new, &old)] {
                let shown = lines.iter().filter(|line| is_whole || !others.contains(line));
                for line in shown.take(LINES_MAX) {
                    let line: String = line.chars().take(CHARS_MAX).collect();
                    text += &format!("    {mark}  {line}\n");
                }
            }
            if old != new && old.iter().all(|line| new.contains(line)) && old.len() == new.len() {
                text += "    the same lines in another order\n";
            }
        }
        text
    }
}

const LINES_MAX: usize = 12;
const CHARS_MAX: usize = 200;

/// Programs that command lines name, built once.
pub(super) struct Programs(PathBuf);

impl Programs {
    /// Builds them. Those whose MPI is not installed are left out, so that command lines with them fail
    /// alike.
    pub(super) fn build() -> Result<Self, String> {
        let directory = toolchain::target_directory().join("same/programs");
        fs::create_dir_all(&directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        let sources = crate::process::root().join("host-std/tests/programs");
        for name in ["abort", "hang", "hello", "leave", "ring", "spawn"] {
            compile("mpicc.mpich", &sources.join(format!("{name}.c")), &directory.join(name));
        }
        compile("mpicc.openmpi", &sources.join("hello.c"), &directory.join("hello.openmpi"));
        Ok(Self(directory))
    }
}

fn compile(compiler: &str, source: &Path, program: &Path) {
    let mut command = Command::new(compiler);
    command.arg("-O1").arg("-o").arg(program).arg(source).stderr(Stdio::null());
    if !command.status().is_ok_and(|status| status.success()) {
        println!("not built: {} by {compiler}", source.display());
    }
}

/// The places where cases are played.
pub(super) struct Stage {
    programs: Programs,
    directory: PathBuf,
}

impl Stage {
    pub(super) fn new(programs: Programs) -> Self {
        Self { programs, directory: toolchain::target_directory().join("same") }
    }

    /// Plays a case with a build. `place` is one that no other thread uses.
    pub(super) fn play(&self, place: usize, build: &Path, case: &Case) -> Outcome {
        let directory = self.directory.join(format!("place-{place}"));
        let played = self.prepare(&directory, build).and_then(|()| run(&directory, place, case));
        played.unwrap_or_else(|error| Outcome { code: error.to_string(), ..Outcome::default() })
    }

    /// Makes the directory of a run, which is equal for all builds.
    fn prepare(&self, directory: &Path, build: &Path) -> io::Result<()> {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for name in ["bin", "home", "tmp", "work/sub"] {
            fs::create_dir_all(directory.join(name))?;
        }
        let (bin, work) = (directory.join("bin"), directory.join("work"));
        fs::hard_link(build, bin.join("pmi-host"))
            .or_else(|_| fs::copy(build, bin.join("pmi-host")).map(drop))?;
        for link in ["mpirun", "mpiexec", "prterun", "srun", "orterun", "mpiexec.mpich"] {
            symlink("pmi-host", bin.join(link))?;
        }
        for program in fs::read_dir(&self.programs.0)?.flatten() {
            symlink(program.path(), work.join(program.file_name()))?;
        }
        for (file, text) in FILES {
            fs::write(work.join(file), text)?;
        }
        Ok(())
    }
}

/// Files that command lines name.
const FILES: [(&str, &str); 8] = [
    ("input", "first line\nsecond line\n"),
    ("hosts", "n1:2\nn2:2\n"),
    ("slots", "localhost:4\n"),
    ("most", "localhost slots=4 max_slots=8\n"),
    ("names", "localhost\n"),
    ("ranks", "rank 0=localhost slot=0\nrank 1=localhost slot=0\n"),
    ("programs", "0 echo %t\n* echo x %o\n"),
    ("apps", "-np 1 echo x\n-np 2 echo x\n"),
];

/// The variable by which processes of a run are known.
const MARK: &str = "PMI_SAME_RUN";

fn run(directory: &Path, place: usize, case: &Case) -> io::Result<Outcome> {
    let mark = format!("{}.{place}", std::process::id());
    let (out, err) = (directory.join("out"), directory.join("err"));
    let path = format!("{}:{}", directory.join("bin").display(), SEARCH);
    let mut shell = Command::new("/bin/sh");
    // The shell becomes the launcher where the line is a command, so a signal reaches that.
    let does_exec = case.interruption.is_some() || case.setting != Setting::Hosts;
    let line = if does_exec { format!("exec {}", case.line) } else { case.line.clone() };
    shell.args(["-c", &line]).current_dir(directory.join("work")).env_clear();
    shell.env("PATH", path).env("HOME", directory.join("home")).env(MARK, &mark);
    shell.env("TMPDIR", directory.join("tmp")).env("XDG_RUNTIME_DIR", directory.join("tmp"));
    shell.env("XDG_CONFIG_HOME", directory.join("home")).env("LANG", "C.UTF-8");
    // Keeps MPI off the network, and lets root run ranks of Open MPI.
    shell.env("UCX_TLS", "self,sm").env("OMPI_ALLOW_RUN_AS_ROOT", "1");
    shell.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1").envs(case.setting.variables().iter().copied());
    shell.stdin(fs::File::open(directory.join("work/input"))?);
    shell.stdout(fs::File::create(&out)?).stderr(fs::File::create(&err)?).process_group(0);
    let mut child = shell.spawn()?;
    let status = wait(&mut child, case)?;
    let code = status.map_or_else(|| "does not end".to_owned(), code);
    let processes = left(&mark);
    kill(&mark);
    if status.is_none() {
        let _ = child.wait();
    }
    // One rank writes in an order; several do not.
    let is_ordered = case.line.contains("-n 1 ") && !case.line.contains(" : ");
    Ok(Outcome {
        code,
        out: lines(&out, is_ordered),
        err: lines(&err, is_ordered),
        files: files(directory),
        processes,
    })
}

const SEARCH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

fn code(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => code.to_string(),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    }
}

/// Waits for the end of the run, and sends the signal of the case. `None` if it does not end.
fn wait(child: &mut Child, case: &Case) -> io::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    let mut interruption = case.interruption;
    while begin.elapsed() < RUN_TIME {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let due =
            interruption.take_if(|due| begin.elapsed() >= Duration::from_millis(due.after_ms));
        if let (Some(due), Ok(pid)) = (due, i32::try_from(child.id())) {
            send(pid, None, due.signal);
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(None)
}

/// Longest time of a run.
const RUN_TIME: Duration = Duration::from_secs(20);

/// Names of processes that are there when the launcher and its helpers have had time to end.
fn left(mark: &str) -> Vec<String> {
    let until = Instant::now() + GRACE;
    loop {
        let alive = marked(mark);
        if alive.is_empty() || Instant::now() > until {
            let mut names: Vec<String> = alive.into_iter().map(|process| process.name).collect();
            names.sort();
            return names;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Time for processes that are told to end.
const GRACE: Duration = Duration::from_secs(3);

fn marked(mark: &str) -> Vec<Process> {
    with_entry(&format!("{MARK}={mark}"))
}

/// Kills what is left.
fn kill(mark: &str) {
    let until = Instant::now() + GRACE;
    loop {
        let alive = marked(mark);
        for process in &alive {
            send(process.pid, Some(process.since), Signal::KILL);
        }
        if alive.is_empty() || Instant::now() > until {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// The lines of a file without what differs between runs.
fn lines(path: &Path, is_ordered: bool) -> Vec<String> {
    let text = fs::read(path).unwrap_or_default();
    let mut lines: Vec<String> =
        normal(&String::from_utf8_lossy(&text)).lines().map(str::to_owned).collect();
    if !is_ordered {
        lines.sort();
    }
    lines
}

/// The files that a run has left, and the lines of those with text.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for name in ["home", "tmp", "work"] {
        walk(&directory.join(name), directory, &mut found);
    }
    found.sort();
    found
}

fn walk(directory: &Path, root: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let was_there = FILES.iter().any(|(file, _)| name == format!("work/{file}"));
        if kind.is_dir() {
            if name != "work/sub" {
                found.push(normal(&format!("{name}/")));
            }
            walk(&path, root, found);
        } else if kind.is_file() && !was_there {
            let name = normal(&name);
            match fs::read_to_string(&path) {
                Ok(text) if text.is_empty() => found.push(format!("{name}: empty")),
                Ok(text) => {
                    found.extend(normal(&text).lines().map(|line| format!("{name}: {line}")));
                }
                Err(_) => found.push(format!("{name}: no text")),
            }
        } else if !kind.is_symlink() && !was_there {
            found.push(format!("{}: no file", normal(&name)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_parts_are_named_with_their_lines() {
        let outcome = |code: &str, out: &[&str]| Outcome {
            code: code.into(),
            out: out.iter().map(|line| (*line).to_owned()).collect(),
            ..Outcome::default()
        };
        let (old, new) = (outcome("0", &["a", "b"]), outcome("1", &["a", "c"]));
        assert_eq!(old.differing_parts(&new), ["exit code", "output"]);
        assert_eq!(old.differing_parts(&old), [""; 0]);
        let text = old.compared(&new, false);
        assert!(
            text.contains("old  b") && text.contains("new  c") && !text.contains(" a\n"),
            "{text}"
        );
        let turned = outcome("0", &["b", "a"]);
        assert!(old.compared(&turned, false).contains("another order"));
    }

    #[test]
    fn run_shows_code_output_files_and_processes() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["work", "home", "tmp"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("work/input"), "in\n").unwrap();
        let script = "sh -c 'cat; echo err >&2; echo x > made; sleep 60 & exit 3'";
        let case = Case::written(script, Setting::OneHost);
        let outcome = run(directory.path(), 991, &case).unwrap();
        assert_eq!(outcome.code, "3");
        assert_eq!([&outcome.out[..], &outcome.err], [["in".to_owned()], ["err".to_owned()]]);
        assert_eq!(outcome.files, ["work/made: x"]);
        assert_eq!(outcome.processes, ["sleep"]);
        assert!(marked(&format!("{}.991", std::process::id())).is_empty());
    }
}
