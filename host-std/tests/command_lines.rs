//! Command lines as users of other launchers have them, from `command-lines.txt`: each runs, or is refused with
//! the stated advice.

use crate::common::{Ran, copy_program, host, mpi_program, openmpi_program, run, start};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
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
        ("ranks", "rank 0=localhost slot=0\nrank 1=localhost slot=0\n"),
        ("programs", "0 echo %t\n* echo x %o\n"),
        ("apps", "-np 1 echo x\n-np 2 echo x\n"),
        ("parameters", "-x TUNED=1 --mca btl self\n# a comment\npml = ob1\n"),
        ("lists", "mca_base_env_list = TUNED=1;LATER=x=y\n-mca mca_base_env_list \"LAST=3\"\n"),
    ] {
        fs::write(directory.join(file), text).unwrap();
    }
    for link in ["mpirun", "mpiexec", "prterun", "srun", "orterun", "mpiexec.mpich"] {
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

// Coverage: PALS-2
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
    let list = ["--mca", "mca_base_env_list", "A=1;HOME; B=x=y;UNSET"];
    for (name, value) in [("A", "1"), ("B", "x=y"), ("HOME", directory.to_str().unwrap())] {
        assert_eq!(variable(&[&["-genvnone"], &list[..]].concat(), name), [value]);
    }
    for (name, value) in [("TUNED", "1"), ("LATER", "x=y"), ("LAST", "3")] {
        assert_eq!(variable(&["--tune", "lists"], name), [value]);
    }
    for (words, says) in [
        (["--mca", "mca_base_env_list", "=1"], "'=1' names no variable"),
        (["--mca", "mca_base_env_list_delimiter", ","], "are separated by ';' here"),
    ] {
        let words = [&["mpirun"], &words[..], &["-n", "1", "true"]].concat();
        ran(&directory, &words).exits_with(2).says(&[says]);
    }
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
    let files =
        ["mpirun", "--output-filename", "out", "-n", "10", "sh", "-c", "echo a; echo b >&2"];
    let copied = ran(&directory, &files).exits_with(0);
    assert_eq!((copied.out, copied.err), ("a\n".repeat(10), "b\n".repeat(10)));
    for (file, text) in [("out/1/rank.01/stdout", "a\n"), ("out/1/rank.09/stderr", "b\n")] {
        assert_eq!(fs::read_to_string(directory.join(file)).unwrap(), text);
    }
    assert_eq!(lines(&["prterun", "--output", "dir=out:nocopy", "-n", "2", "echo", "c"]), [""; 0]);
    assert_eq!(fs::read_to_string(directory.join("out/1/rank.1/stdout")).unwrap(), "c\n");
    assert_eq!(lines(&["prterun", "--output", "file=each", "-n", "1", "echo", "c"]), ["c"]);
    assert_eq!(fs::read_to_string(directory.join("each.0.out")).unwrap(), "c\n");
    for words in [
        &["mpirun", "--merge-stderr-to-stdout", "-l"][..],
        &["prterun", "--output", "tag,merge"],
        &["mpiexec", "-l", "--merge-stderr"],
    ] {
        let script = ["-n", "1", "sh", "-c", "echo b; echo a >&2"];
        let merged = ran(&directory, &[words, &script].concat()).exits_with(0);
        assert_eq!((&*merged.out, &*merged.err), ("[0] b\n[0] a\n", ""), "{words:?}");
    }
    let merged = ["mpirun", "--output", "file=one", "--output", "merge,nocopy", "-n", "1"];
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
    is_set(&["--rankfile", "ranks"], "hosts", "localhost:2");
    is_set(&["--cpu-list", "0-2"], "cpu-set", "0-2");
    is_set(&["--max-vm-size", "2"], "nodes", "2");
    is_set(&["--map-by", "core:NOLOCAL"], "local", "false");
    assert!(lines(&["mpirun", "--path", "/usr/bin", "-n", "1", "printenv", "PMI_RANK"]) == ["0"]);
    let unset = ["prterun", "--unset-env", "HOME", "-n", "1", "sh", "-c", "echo ${HOME-none}"];
    assert_eq!(lines(&unset), ["none"]);
    let pid = lines(&["mpirun", "--report-pid", "-", "-n", "1", "true"]);
    assert!(pid.len() == 1 && pid[0].parse::<u32>().is_ok(), "{pid:?}");
    let tool = ["mpirun", "-gtool", "env TOOL=1:1;env ALL=2:all", "-n", "2", "sh", "-c"];
    let tool = [&tool[..], &["echo $PMI_RANK $TOOL $ALL"]].concat();
    assert_eq!(lines(&tool), ["0 2", "1 1 2"]);
}

#[test]
fn version_begins_with_the_name_of_the_launcher() {
    let directory = directory("version");
    for (words, start) in [
        (&["mpiexec", "--version"][..], "HYDRA build details:\n"),
        (&["mpirun", "-V"], "mpirun (Open MPI) 4.1.4 (pmi-host "),
        (&["prterun", "--version"], "mpirun (Open MPI)"),
        (&["orterun", "--version"], "mpirun (Open MPI)"),
        (&["mpiexec.mpich", "--version"], "HYDRA"),
        (&["mpirun", "--personality", "ompi", "--version"], "mpirun (Open MPI)"),
    ] {
        let ran = ran(&directory, words).exits_with(0);
        assert!(
            ran.out.starts_with(start) && ran.out.contains("pmi-host"),
            "{words:?}: {}",
            ran.out
        );
    }
    let ran = ran(&directory, &["mpirun", "--help"]).exits_with(0);
    for part in ["options of Hydra", "options of Open MPI", "-tag-output", "pmi-host help mpiexec"]
    {
        assert!(ran.out.contains(part), "{part}");
    }
    let all = run(&mut host(["help", "mpiexec"])).exits_with(0).out;
    assert!(
        all.contains("options of Intel MPI and PALS") && all.contains("-print-rank-map"),
        "{all}"
    );
}

// Coverage: SLURM-16
#[test]
fn options_of_srun_have_their_effects() {
    let directory = directory("srun");
    let lines = |words: &[&str]| {
        let ran = ran(&directory, &[&["srun"], words].concat()).exits_with(0);
        let mut lines: Vec<String> = ran.lines().into_iter().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let script = "echo $SLURM_PROCID of $SLURM_NTASKS, $SLURM_LOCALID on $SLURM_NODEID";
    assert_eq!(
        lines(&["-n2", "-l", "sh", "-c", script]),
        ["0: 0 of 2, 0 on 0", "1: 1 of 2, 1 on 0"]
    );
    assert_eq!(lines(&["-n", "1", "-D", "/usr", "pwd"]), ["/usr"]);
    // Each once, as given: programs find the first, shells the last.
    let all = lines(&["-n", "2", "--export=PATH,SLURM_PROCID=7", "env"]);
    let ranks = all.iter().filter(|line| line.starts_with("SLURM_PROCID="));
    assert_eq!(Vec::from_iter(ranks), ["SLURM_PROCID=7"; 2]);
    let exported = lines(&["--export=HOME,A=1", "sh", "-c", "echo $HOME $A ${XDG_CONFIG_HOME-no}"]);
    assert_eq!(exported, [format!("{} 1 no", directory.display())]);
    assert_eq!(lines(&["--export=NONE", "sh", "-c", "echo ${HOME-none}"]), ["none"]);
    assert_eq!(lines(&["-c", "1", "printenv", "SLURM_CPUS_PER_TASK"]), ["1"]);
    assert_eq!(lines(&["--multi-prog", "-n3", "programs"]), ["0", "x 1", "x 2"]);
    fs::write(directory.join("input"), "read\n").unwrap();
    assert_eq!(lines(&["-n", "2", "-i", "input", "cat"]), ["read", "read"]);
    let script = ["sh", "-c", "echo a; echo b >&2"];
    assert_eq!(lines(&[&["-n2", "-o", "out.%t"], &script[..]].concat()), [""; 0]);
    assert_eq!(fs::read_to_string(directory.join("out.1")).unwrap(), "a\nb\n");
    assert_eq!(lines(&[&["-n2", "-o", "out.%t", "-e", "none"], &script[..]].concat()), [""; 0]);
    assert_eq!(fs::read_to_string(directory.join("out.1")).unwrap(), "a\n");
    let failing = ["sh", "-c", "[ $SLURM_PROCID = 0 ] && exit 3; sleep 0.1; echo on"];
    let ran_on = ran(&directory, &[&["srun", "-n2", "-K0"], &failing[..]].concat());
    assert_eq!((ran_on.code, &*ran_on.out), (3, "on\n"));
    // Slurm's own variables of the allocation do not hold for the step.
    let mut command = Command::new(directory.join("srun"));
    command.args(["-n1", "printenv", "SLURM_NTASKS"]).env("SLURM_NTASKS", "7").stdin(Stdio::null());
    assert_eq!(run(&mut command).exits_with(0).out, "1\n");
    let shown = ran(&directory, &["srun", "--version"]).exits_with(0);
    assert!(shown.out.starts_with("slurm "), "{}", shown.out);
    let shown = ran(&directory, &["srun", "--help"]).exits_with(0);
    assert!(shown.out.contains("--ntasks-per-node") && !shown.out.contains("-tag-output"));
    let is_set = |words: &[&str], name: &str, value: &str| {
        let shown =
            ran(&directory, &[&["srun", "--show-config"], words, &["true"]].concat()).exits_with(0);
        let line = shown.out.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
        assert_eq!(line.split_whitespace().nth(1), Some(value), "{words:?}");
    };
    is_set(&["-c", "2"], "bind-to", "hwthread:2");
    is_set(&["--cpu-bind=cores", "-c", "2"], "bind-to", "core");
    is_set(&["--cpu-bind=mask_cpu:0x3,0x4"], "bind-to", "user:0-1,2");
    is_set(&["-t", "1:30"], "timeout", "90");
    is_set(&["-m", "cyclic"], "map-by", "node");
    is_set(&["--mpi=pmix_v4"], "pmi", "x");
    is_set(&["-W", "3"], "exit-timeout", "3");
}

#[test]
fn unbuffered_output_of_other_launchers_is_passed_on_at_once() {
    let directory = directory("unbuffered");
    // Two ranks that wait at the same time.
    let script = ["-n", "2", "sh", "-c", "printf \"${PMI_RANK-$SLURM_PROCID}? \"; exec sleep 60"];
    for words in [
        &["srun", "-u"][..],
        &["srun", "--unbuffered"],
        &["mpirun", "--stream-buffering", "0"],
        &["prterun", "--output", "raw"],
        &["prterun", "--output", ":raw"],
    ] {
        let mut command = Command::new(directory.join(words[0]));
        command.args(&words[1..]).args(script).current_dir(&directory).stdin(Stdio::null());
        let running = start(command.env("XDG_CONFIG_HOME", "/nowhere").env("HOME", &directory));
        ["0? ", "1? "].iter().for_each(|text| running.wait_for_output(text));
        running.signal("TERM");
        running.end();
    }
    for (value, code) in [("1", 0), ("2", 2), ("x", 2)] {
        let ran = ran(&directory, &["mpirun", "--stream-buffering", value, "-n", "1", "echo", "x"]);
        assert_eq!(ran.exits_with(code).out, if code == 0 { "x\n" } else { "" });
    }
}

#[test]
fn launcher_does_not_start_itself_as_a_starter() {
    let directory = directory("self");
    let mut command = Command::new(directory.join("mpirun"));
    command.args(["--starter", "srun", "--hosts", "no-such-host", "-n", "1", "/bin/true"]);
    let ran = run(command.env("PATH", &directory).stdin(Stdio::null()));
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("srun") && !ran.err.contains("usage"), "{}", ran.err);
}

#[test]
fn programs_of_two_mpi_families_in_one_job_are_reported() {
    let Some((mpich, open_mpi)) = mpi_program("noinit").zip(openmpi_program("noinit")) else {
        return;
    };
    let [mpich, open_mpi] = [&mpich, &open_mpi].map(|path| path.to_str().unwrap());
    let directory = directory("mixed");
    let both =
        ran(&directory, &["mpirun", "-n", "1", mpich, ":", "-n", "1", open_mpi]).exits_with(0);
    let said = ["with MPICH and", "with Open MPI: they cannot form one MPI_COMM_WORLD"];
    assert!(said.iter().all(|text| both.err.contains(text)), "{}", both.err);
    let one = ran(&directory, &["mpirun", "-n", "1", mpich, ":", "-n", "1", mpich]).exits_with(0);
    assert!(!one.err.contains("cannot form"), "{}", one.err);
}

#[test]
fn line_of_a_file_of_words_goes_on_behind_a_backslash() {
    let directory = directory("continued");
    for (text, expected) in [
        ("-n 1 echo a : \\\n-n 2 echo b\n", vec!["a", "b", "b"]),
        ("-n 2 \\\necho b\n", vec!["b", "b"]),
        ("-n 1 \\\n  \\\n# a comment between\necho a\n-n 1 echo b \\", vec!["a", "b"]),
        ("-n 1 echo a\\\\\n-n 1 echo b\n", vec!["a\\", "b"]),
    ] {
        fs::write(directory.join("words"), text).unwrap();
        for option in [["mpiexec", "-configfile"], ["mpirun", "--app"]] {
            let ran = ran(&directory, &[option[0], option[1], "words"]).exits_with(0);
            assert_eq!(ran.lines(), expected, "{option:?} {text}");
        }
    }
    // A quote ends on its line.
    fs::write(directory.join("words"), "-n 1 echo 'a \\\nb'\n").unwrap();
    ran(&directory, &["mpiexec", "-configfile", "words"]).exits_with(2).says(&["is not closed"]);
    fs::write(directory.join("programs"), "0 echo \\\na\n1 echo b\n").unwrap();
    let ran = ran(&directory, &["srun", "-n2", "--multi-prog", "programs"]).exits_with(0);
    assert_eq!(ran.lines(), ["a", "b"]);
}

#[test]
fn file_with_the_mark_of_an_editor_is_read() {
    let directory = directory("mark");
    for (file, text, words) in [
        ("hosts", "localhost:4\n", &["mpiexec", "-f", "hosts", "-n", "2", "echo", "x"][..]),
        (
            "hosts",
            "localhost slots=4\n",
            &["mpirun", "--hostfile", "hosts", "-n", "2", "echo", "x"],
        ),
        ("words", "-n 2 echo x\n", &["mpiexec", "-configfile", "words"]),
        ("words", "-n 2 echo x\n", &["mpirun", "--app", "words"]),
        (
            "ranks",
            "rank 0=localhost\nrank 1=localhost\n",
            &["mpirun", "-rankfile", "ranks", "echo", "x"],
        ),
        ("programs", "0-1 echo x\n", &["srun", "-n2", "--multi-prog", "programs"]),
        (
            "settings",
            "label = false\n",
            &["mpiexec", "--config", "settings", "-n", "2", "echo", "x"],
        ),
        ("tuned", "-x A=1\n", &["mpirun", "--tune", "tuned", "-n", "2", "echo", "x"]),
    ] {
        fs::write(directory.join(file), format!("\u{feff}{text}")).unwrap();
        assert_eq!(ran(&directory, words).exits_with(0).out, "x\nx\n", "{words:?}");
    }
}

#[test]
fn program_in_the_current_directory_is_found_under_the_names_of_open_mpi_only() {
    let directory = directory("here");
    let script = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("#!/bin/sh\necho {text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let elsewhere = directory.join("elsewhere");
    script(&directory.join("a.out"), "here");
    script(&elsewhere.join("b.out"), "in PATH");
    script(&directory.join("b.out"), "here");
    let path = format!("{}:/usr/bin:/bin", elsewhere.display());
    let started = |words: &[&str]| {
        let mut command = Command::new(directory.join(words[0]));
        command.args(&words[1..]).current_dir(&directory).stdin(Stdio::null());
        run(command.env("XDG_CONFIG_HOME", "/nowhere").env("HOME", &directory).env("PATH", &path))
    };
    for words in [&["prterun", "-n", "2"][..], &["mpiexec", "--personality", "ompi", "-n", "2"]] {
        assert_eq!(started(&[words, &["a.out"]].concat()).exits_with(0).out, "here\nhere\n");
        // PATH comes first.
        let ran = started(&[words, &["b.out"]].concat()).exits_with(0);
        assert_eq!(ran.out, "in PATH\nin PATH\n");
    }
    for words in
        [&["mpirun"][..], &["mpiexec.mpich"], &["mpirun", "--personality", "hydra"], &["srun"]]
    {
        let ran = started(&[words, &["-n", "2", "a.out"]].concat()).exits_with(127);
        ran.says(&["'a.out' is in no directory of PATH", "'./a.out'"]);
    }
    started(&["prterun", "-n", "1", "c.out"]).exits_with(127).says(&["no directory of PATH"]);
    // Of a shared name, the library of the program decides.
    let Some(hello) = openmpi_program("hello") else { return };
    copy_program(hello, directory.join("hello.out"), 0o755);
    let ran = started(&["mpirun", "-n", "2", "hello.out"]).exits_with(0);
    assert_eq!(ran.lines().len(), 2, "{}", ran.out);
}

#[test]
fn rank_file_of_a_mapping_places_ranks() {
    let directory = directory("mapping");
    let shown = |words: &[&str]| {
        let ran = ran(&directory, &[&["mpirun", "--show-config"], words, &["true"]].concat());
        let lines = ran.exits_with(0).out;
        let value = |name: &str| {
            let line = lines.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        ["hosts", "oversubscribe", "bind-to"].map(value)
    };
    let named = shown(&["--rankfile", "ranks"]);
    assert_eq!(shown(&["--map-by", "rankfile:file=ranks"]), named);
    let with_modifier = shown(&["--map-by", "RANKFILE:OVERSUBSCRIBE:FILE=ranks"]);
    assert_eq!((&*with_modifier[0], &*with_modifier[1]), (&*named[0], "true"));
    for (value, part) in [("rankfile", "file=NAME"), ("rankfile:file=/no/such", "cannot be read")] {
        let ran = ran(&directory, &["mpirun", "--map-by", value, "true"]);
        ran.exits_with(2).says(&[part]);
    }
    let ran = ran(&directory, &["mpirun", "--map-by", "rankfile:file=ranks", "echo", "x"]);
    assert_eq!(ran.exits_with(0).out, "x\nx\n");
}

#[test]
fn options_of_intel_mpi_show_times_and_start_debuggers() {
    let directory = directory("intel");
    let shown = ran(&directory, &["mpiexec", "-prepend-timestamp", "-n", "1", "echo", "x"]);
    let line = shown.exits_with(0).out;
    let time = line.strip_suffix(" x\n").map(str::trim);
    assert!(time.is_some_and(|time| time.parse::<f64>().is_ok()), "{line}");
    for (words, expected) in [(&["-gdb"][..], "all"), (&["--gdb", "0"], "0")] {
        let words = [&["mpiexec", "--show-config"], words, &["-n", "2", "true"]].concat();
        let shown = ran(&directory, &words).exits_with(0).out;
        let line = shown.lines().find(|line| line.starts_with("gdb ")).unwrap();
        assert_eq!(line.split_whitespace().nth(1), Some(expected), "{words:?}");
    }
}

#[test]
fn number_of_ranks_may_be_spelled_as_other_launchers_spell_it() {
    for words in [&["--np", "2"][..], &["--np=2"], &["--n", "2"], &["-np", "2"]] {
        let ran = run(host([&["run"], words, &["echo", "x"]].concat()).stdin(Stdio::null()));
        assert_eq!(ran.exits_with(0).out, "x\nx\n", "{words:?}");
    }
}

#[test]
fn colon_in_the_words_of_a_program_is_explained() {
    let directory = directory("colon");
    for words in [
        &["mpirun", "-n", "1", "echo", "-n", ":", "/etc/passwd"][..],
        &["mpiexec", "-n", "1", "echo", "-n", ":", "no-such-program"],
    ] {
        let ran = ran(&directory, words);
        assert!([126, 127].contains(&ran.code), "{ran:?}");
        let ran = ran.says(&[
            "the ':' after '-n' begins a second program",
            "a program that needs this word: pmi-host run -n 1 -- echo -n : …",
        ]);
        assert!(!ran.err.contains("chmod"), "{}", ran.err);
    }
    for words in [
        &["run", "-n", "1", "echo", "-n", ":", "x"][..],
        &["run", "-n", "1", "echo", "-n", ":", "--no-such-option", "x"],
        &["run", "-n", "1", "echo", "-n", ":"],
    ] {
        run(&mut host(words)).exits_with(2).says(&["the ':' after '-n' begins a second program"]);
    }
    let ran = run(&mut host(["run", "-n", "1", "--", "echo", "-n", ":", "x"])).exits_with(0);
    assert_eq!(ran.out, ": x");
}

#[test]
fn options_that_show_the_version_agree() {
    let directory = directory("version");
    for launcher in [
        &["mpirun"][..],
        &["mpiexec"],
        &["prterun"],
        &["orterun"],
        &["mpiexec.mpich"],
        &["mpirun", "--personality", "hydra"],
        &["mpiexec", "--personality", "ompi"],
        &["srun"],
    ] {
        let shown = |option: &'static str| {
            ran(&directory, &[launcher, &[option]].concat()).exits_with(0).out
        };
        assert_eq!(shown("-V"), shown("--version"), "{launcher:?}");
        // The personality may follow.
        let [name, personality @ ..] = launcher else { continue };
        let words = [&[*name, "--version"], personality].concat();
        assert_eq!(ran(&directory, &words).exits_with(0).out, shown("-V"), "{launcher:?}");
    }
}
