//! Command lines as users of other launchers have them, from `command-lines.txt`: each runs, or is refused with
//! the stated advice.

mod common;
use common::{Ran, openmpi_program, run};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

/// A directory with the files and links that the command lines name.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("command-lines").join(name);
    fs::create_dir_all(&directory).unwrap();
    for (file, text) in [
        ("slots", "localhost:4\n"),
        ("most", "localhost slots=4 max_slots=8\n"),
        ("names", "localhost\n"),
        ("apps", "-np 1 echo x\n-np 2 echo x\n"),
        ("parameters", "-x TUNED=1 --mca btl self\n# a comment\npml = ob1\n"),
    ] {
        fs::write(directory.join(file), text).unwrap();
    }
    for link in ["mpirun", "mpiexec", "prterun"] {
        let link = directory.join(link);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pmi-host"), &link).unwrap();
    }
    directory
}

/// Runs a command line in `directory`, whose links are the launchers.
fn ran(directory: &Path, words: &[&str]) -> Ran {
    let mut command = Command::new(directory.join(words[0]));
    command.args(&words[1..]).current_dir(directory).stdin(Stdio::null());
    run(command.env("XDG_CONFIG_HOME", "/nowhere").env("HOME", directory))
}

/// Number of cores with processors that this process may use.
fn cores() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = { status.lines() }.find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let numbers = list.trim().split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    });
    let siblings = numbers.map(|cpu| {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        fs::read_to_string(file).unwrap()
    });
    siblings.collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn collected_command_lines_run_or_are_refused_with_advice() {
    let directory = directory("collected");
    let open_mpi = openmpi_program("hello");
    let (mut counts, mut wrong) = (BTreeMap::<&str, u32>::new(), Vec::new());
    let text = include_str!("command-lines.txt");
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (expected, typed) = line.split_once(" | ").expect(line);
        let mut words: Vec<&str> = Vec::new();
        for word in typed.split(' ') {
            match (word, open_mpi.as_deref().and_then(Path::to_str)) {
                ("ECHO", _) => words.extend(["echo", "x"]),
                ("OPENMPI", Some(program)) => words.push(program),
                _ => words.push(word),
            }
        }
        if words.contains(&"OPENMPI") {
            continue;
        }
        let ran = ran(&directory, &words);
        let is_right = match expected.strip_prefix('"') {
            Some(advice) => {
                *counts.entry("refused").or_default() += 1;
                let is_refusal =
                    ran.code == 2 && ran.out.is_empty() && ran.err.lines().count() == 1;
                is_refusal && ran.err.contains(advice.trim_end_matches('"'))
            }
            None => {
                *counts.entry("run").or_default() += 1;
                let ranks = match expected {
                    "cores" => cores(),
                    "threads" => available_parallelism().unwrap().get(),
                    number => number.parse().unwrap(),
                };
                ran.code == 0 && ran.out.lines().count() == ranks
            }
        };
        if !is_right {
            wrong.push(format!("{line}\n    {ran:?}"));
        }
    }
    println!("{counts:?}");
    assert!(wrong.is_empty(), "{} of {counts:?}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(counts["run"] > 60, "{counts:?}");
}

#[test]
fn options_of_open_mpi_have_their_effects() {
    let directory = directory("effects");
    let lines = |words: &[&str]| {
        let ran = ran(&directory, words).exits_with(0);
        let mut lines: Vec<String> = ran.lines().into_iter().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let variable = |words: &[&str], name: &str| {
        let mut all = vec!["mpirun"];
        all.extend(words);
        all.extend(["-n", "1", "printenv", name]);
        lines(&all)
    };
    assert_eq!(variable(&["-x", "A=b=c"], "A"), ["b=c"]);
    assert_eq!(variable(&["-genvnone", "-x", "HO*"], "HOME"), [directory.to_str().unwrap()]);
    assert_eq!(variable(&["--mca", "btl", "self,tcp"], "OMPI_MCA_btl"), ["self,tcp"]);
    assert_eq!(variable(&["--prtemca", "a", "1"], "PRTE_MCA_a"), ["1"]);
    assert_eq!(variable(&["--pmixmca", "a", "1"], "PMIX_MCA_a"), ["1"]);
    assert_eq!(variable(&["--tune", "parameters"], "TUNED"), ["1"]);
    assert_eq!(variable(&["--tune", "parameters"], "OMPI_MCA_pml"), ["ob1"]);
    assert!(variable(&["--prefix", "/opt/mpi"], "PATH")[0].starts_with("/opt/mpi/bin:"));
    assert!(variable(&["--append-env", "PATH", "/opt"], "PATH")[0].ends_with(":/opt"));
    // Options in front of a program behind a colon hold for that one.
    let apps =
        ["-n", "1", "-x", "A=1", "printenv", "A", ":", "-n", "1", "-x", "A=2", "printenv", "A"];
    assert_eq!(lines(&[&["mpirun"], &apps[..]].concat()), ["1", "2"]);
    assert_eq!(lines(&["mpirun", "--tag-output", "-n", "2", "echo", "x"]), ["[0] x", "[1] x"]);
    assert_eq!(
        lines(&["mpirun", "--mca", "orte_tag_output", "1", "-n", "1", "echo", "x"]),
        ["[0] x"]
    );
    let files = ["mpirun", "--output-filename", "out", "-n", "2", "sh", "-c", "echo a; echo b >&2"];
    assert_eq!(lines(&files), [""; 0]);
    for (file, text) in [("out.1.out", "a\n"), ("out.1.err", "b\n")] {
        assert_eq!(fs::read_to_string(directory.join(file)).unwrap(), text);
    }
    for words in [
        &["mpirun", "--merge-stderr-to-stdout", "-l"][..],
        &["prterun", "--output", "tag,merge"],
        &["mpiexec", "-l", "--merge-stderr"],
    ] {
        let script = ["-n", "1", "sh", "-c", "echo b; echo a >&2"];
        let merged = ran(&directory, &[words, &script].concat()).exits_with(0);
        assert_eq!((&*merged.out, &*merged.err), ("[0] b\n[0] a\n", ""), "{words:?}");
    }
    let merged = ["mpirun", "--output-filename", "one", "--output", "merge", "-n", "1"];
    lines(&[&merged[..], &["sh", "-c", "echo b; echo a >&2"]].concat());
    assert_eq!(fs::read_to_string(directory.join("one.0.out")).unwrap(), "b\na\n");
    assert!(!directory.join("one.0.err").exists());
    let shown = |words: &[&str]| {
        let mut all = vec!["mpirun", "--show-config"];
        all.extend(words);
        all.push("true");
        ran(&directory, &all).exits_with(0).out
    };
    let is_set = |words: &[&str], name: &str, value: &str| {
        let shown = shown(words);
        let line = shown.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
        assert_eq!(line.split_whitespace().nth(1), Some(value), "{words:?}");
    };
    is_set(&["--map-by", "socket:PE=2"], "bind-to", "core:2");
    is_set(&["--map-by", "package:pe=2:OVERSUBSCRIBE"], "map-by", "socket");
    is_set(&["--map-by", "ppr:2:node:NOOVERSUBSCRIBE"], "map-by", "ppr:2:node");
    is_set(&["--map-by", "ppr:2:node:NOOVERSUBSCRIBE"], "oversubscribe", "false");
    is_set(&["--map-by", "core:2"], "map-by", "core:2");
    is_set(&["--bind-to", "package:REPORT"], "bind-to", "socket");
    is_set(&["--bind-to", "core:2"], "bind-to", "core:2");
    is_set(&["--mca", "hwloc_base_binding_policy", "core"], "bind-to", "core");
    is_set(&["--mca", "rmaps_base_mapping_policy", "node"], "map-by", "node");
    is_set(&["--mca", "plm_rsh_agent", "ssh -q"], "starter-exec", "ssh");
    is_set(&["--rtos", "error-nonzero-status=0"], "on-exit-error", "ignore");
    is_set(&["--cpu-bind", "list:0,1:2"], "bind-to", "user:0-1,2");
    is_set(&["-d", "2"], "bind-to", "hwthread:2");
    is_set(&["-localonly"], "hosts", "localhost");
}

#[test]
fn version_begins_with_the_name_of_the_launcher() {
    let directory = directory("version");
    for (words, start) in [
        (&["mpiexec", "--version"][..], "HYDRA"),
        (&["mpirun", "-V"], "Open MPI"),
        (&["prterun", "--version"], "Open MPI"),
        (&["mpirun", "--personality", "ompi", "--version"], "Open MPI"),
    ] {
        let ran = ran(&directory, words).exits_with(0);
        assert!(
            ran.out.starts_with(start) && ran.out.contains("pmi-host"),
            "{words:?}: {}",
            ran.out
        );
    }
    let ran = ran(&directory, &["mpirun", "--help"]).exits_with(0);
    for part in ["options of Hydra", "options of Open MPI", "-tag-output", "-print-rank-map"] {
        assert!(ran.out.contains(part), "{part}");
    }
}
