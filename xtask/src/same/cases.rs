//! The cases: command lines from files and documents, and random ones with faults.

use crate::process::{self, quoted};
use crate::random::SplitMix;
use std::fs;

/// Way in which the ranks are started. An option of a command line has precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// Ranks of this host, without node servers.
    OneHost,
    /// The same, behind a node server.
    AllHosts,
    /// Two node servers.
    TwoNodes,
    /// A node server on this machine for each host of a list.
    Hosts,
}

impl Setting {
    const ALL: [Self; 3] = [Self::OneHost, Self::AllHosts, Self::TwoNodes];

    /// Variables that make the launcher start ranks like this.
    pub(super) const fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::OneHost => &[],
            Self::AllHosts => &[("PMI_HOST_ALL_HOSTS", "yes")],
            Self::TwoNodes => &[("PMI_HOST_STARTER", "local:2")],
            Self::Hosts => &[("PMI_HOST_STARTER", "local")],
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::OneHost => "one host",
            Self::AllHosts => "--all-hosts",
            Self::TwoNodes => "local:2",
            Self::Hosts => "local",
        }
    }
}

/// A signal to the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interruption {
    pub(super) after_ms: u64,
    pub(super) signal: rustix::process::Signal,
}

/// One case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// File and line, or the place in the list of random cases.
    origin: String,
    /// Command line for a shell.
    pub(super) line: String,
    pub(super) setting: Setting,
    pub(super) interruption: Option<Interruption>,
}

impl Case {
    #[cfg(test)]
    pub(super) fn written(line: &str, setting: Setting) -> Self {
        Self { origin: String::new(), line: line.into(), setting, interruption: None }
    }

    /// One line for people, which the table of differences refers to.
    pub(super) fn description(&self) -> String {
        let interruption = self.interruption.map_or(String::new(), |interruption| {
            let Interruption { after_ms, signal } = interruption;
            format!(", signal {} after {after_ms} ms", signal.as_raw())
        });
        format!("{} [{}{interruption}] {}", self.origin, self.setting.name(), self.line)
    }
}

/// A choice of cases.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) random: u32,
    pub(super) seed: u64,
    /// Texts of descriptions; all if empty.
    pub(super) only: Vec<String>,
}

/// All cases of a selection, in the same order everywhere.
pub(super) fn list(selection: &Selection) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    push_lines(&mut cases, "lines.txt", include_str!("lines.txt"));
    let peers = "host-std/tests/command-lines.txt";
    push_lines(&mut cases, peers, &peers_lines(&read(peers)?));
    for document in documents()? {
        for (number, line) in document_lines(&read(&document)?) {
            cases.push(Case {
                origin: format!("{document}:{number}"),
                line,
                setting: Setting::Hosts,
                interruption: None,
            });
        }
    }
    let mut random = SplitMix::new(selection.seed);
    cases.extend((0..selection.random).map(|at| random_case(at, &mut random)));
    let is_chosen = |case: &Case| {
        let description = case.description();
        selection.only.is_empty() || selection.only.iter().any(|only| description.contains(only))
    };
    cases.retain(is_chosen);
    Ok(cases)
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(process::root().join(path)).map_err(|error| format!("{path}: {error}"))
}

/// Each line of a file of command lines, in each setting.
fn push_lines(cases: &mut Vec<Case>, file: &str, text: &str) {
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        cases.extend(Setting::ALL.map(|setting| Case {
            origin: format!("{file}:{number}"),
            line: line.to_owned(),
            setting,
            interruption: None,
        }));
    }
}

/// The command lines of other launchers, without what the tests expect of them; the numbers of lines stay.
fn peers_lines(text: &str) -> String {
    let line = |line: &str| match line.split_once(" | ") {
        Some((_, typed)) if !line.starts_with('#') => {
            let typed = typed.replace("ECHO", "echo x").replace("OPENMPI", "./hello.openmpi");
            // The words are separated by blanks in this file, and mean nothing else to a shell.
            let words = typed.split(' ').map(quoted).collect::<Vec<_>>();
            words.join(" ") + "\n"
        }
        _ => "\n".to_owned(),
    };
    text.lines().map(line).collect()
}

fn documents() -> Result<Vec<String>, String> {
    let entries = fs::read_dir(process::root().join("docs")).map_err(|error| error.to_string())?;
    let mut paths = vec!["README.md".to_owned()];
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            paths.push(format!("docs/{name}"));
        }
    }
    paths.sort();
    Ok(paths)
}

/// Command lines of the launcher in a document, with their numbers.
fn document_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start().trim_start_matches("$ ");
        let command = line.split(' ').next().unwrap_or_default();
        let is_command = matches!(command, "pmi-host" | "mpiexec" | "mpirun" | "prterun");
        let second = line.split(' ').nth(1).unwrap_or_default();
        let is_word = second.starts_with(|c: char| c.is_ascii_lowercase() || c == '-');
        let is_elsewhere = ELSEWHERE.iter().any(|part| line.contains(part)) || line.ends_with('\\');
        if is_command && is_word && !is_elsewhere {
            lines.push((number, line.to_owned()));
        }
    }
    lines
}

/// Parts of command lines that need other machines, other programs, or too many processes.
const ELSEWHERE: [&str; 5] = ["conform", "doctor", "name-server", "[001-128", " pages"];

/// A command line of options, a program and a fault, any of which may be none.
fn random_case(at: u32, random: &mut SplitMix) -> Case {
    let ranks = 1 + random.below(6);
    let victim = random.below(ranks);
    let mut words = vec!["pmi-host".to_owned(), "run".to_owned(), "-n".to_owned()];
    words.push(ranks.to_string());
    for _ in 0..random.below(4) {
        let option = *random.pick(OPTIONS);
        if !words.iter().any(|word| option[0] == word.as_str()) {
            words.extend(option.iter().map(|word| (*word).to_owned()));
        }
    }
    let &(script, waits) = random.pick(SCRIPTS);
    let code = *random.pick(&[1, 3, 42, 126, 127, 255]);
    let signal = *random.pick(&[6, 9, 11, 15]);
    let number = |script: &str| {
        let script = script.replace("VICTIM", &victim.to_string());
        script.replace("CODE", &code.to_string()).replace("SIGNAL", &signal.to_string())
    };
    match script.strip_prefix("./") {
        Some(_) => words.extend(number(script).split(' ').map(str::to_owned)),
        None if script.is_empty() => {}
        None => words.extend(["sh".to_owned(), "-c".to_owned(), number(script)]),
    }
    if random.below(8) == 0 && !script.is_empty() {
        words.extend([":", "-n", "2", "sh", "-c", "echo second $PMI_RANK"].map(str::to_owned));
    }
    let signals = [
        rustix::process::Signal::TERM,
        rustix::process::Signal::INT,
        rustix::process::Signal::HUP,
        rustix::process::Signal::USR2,
    ];
    let after_ms = 700 + u64::from(random.below(300));
    let interruption = Interruption { after_ms, signal: *random.pick(&signals) };
    Case {
        origin: format!("random:{at}"),
        line: words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        setting: *random.pick(&Setting::ALL),
        interruption: waits.then_some(interruption),
    }
}

const OPTIONS: &[&[&str]] = &[
    &["-l"],
    &["--label-format", "%r@%j: "],
    &["--timestamps"],
    &["--collapse"],
    &["--output-dir", "out"],
    &["--stdout-to", "out.%r"],
    &["--stderr-to", "err.%r"],
    &["--copy-output"],
    &["--merge-stderr"],
    &["--stdin", "all"],
    &["--stdin-file", "input"],
    &["--result", "result.json"],
    &["--result", "result.xml"],
    &["--summary"],
    &["--print-all-exitcodes"],
    &["--on-exit-error", "ignore"],
    &["--exit-timeout", "1"],
    &["--timeout", "3"],
    &["--env", "A=b c"],
    &["--inherit", "none"],
    &["--unset-env", "HOME"],
    &["--wdir", "sub"],
    &["--pmi", "1"],
    &["--pmi", "2"],
    &["--pmi", "x"],
    &["--pmi", "all"],
    &["--pmi-port"],
    &["--env-for", "torch,slurm"],
    &["--universe", "9"],
    &["--bind-to", "core"],
    &["--display", "map"],
    &["--stall-report", "1"],
    &["--stall-abort", "2"],
    &["--trace", "run.trace"],
    &["--no-control"],
    &["--no-tools"],
    &["--dry-run"],
    &["--show-config"],
];

/// Programs of ranks; the flag is true for those that wait for a signal. Empty is the built-in demo.
const SCRIPTS: &[(&str, bool)] = &[
    ("", false),
    ("echo rank $PMI_RANK of $PMI_SIZE", false),
    ("echo $PMI_RANK; exit $((PMI_RANK == VICTIM ? CODE : 0))", false),
    ("[ $PMI_RANK = VICTIM ] && kill -SIGNAL $$; exec sleep 6", false),
    ("[ $PMI_RANK = VICTIM ] && exit 0; sleep 0.3", false),
    ("printf 'without an end %s' $PMI_RANK", false),
    ("cat; echo end", false),
    ("head -c 70000 /dev/zero | tr '\\0' x; echo", false),
    ("echo out $PMI_RANK; echo err $PMI_RANK >&2", false),
    ("exec 1>&- 2>&-; exit $((PMI_RANK == VICTIM ? CODE : 0))", false),
    ("trap '' TERM; [ $PMI_RANK = VICTIM ] && exit CODE; sleep 3", false),
    ("(setsid sleep 20 > /dev/null 2>&1 &); echo $PMI_RANK", false),
    ("echo 'cmd=nonsense' >&$PMI_FD; cat <&$PMI_FD > /dev/null", false),
    ("echo $PMI_RANK; exec sleep 8", true),
    ("trap 'echo caught; exit 3' TERM INT HUP USR2; echo $PMI_RANK; sleep 8 & wait", true),
    ("trap '' TERM INT HUP; echo $PMI_RANK; sleep 3", true),
    ("./hello", false),
    ("./ring", false),
    ("./leave VICTIM", false),
    ("./abort VICTIM CODE", false),
    ("./hang VICTIM sleep", true),
    ("./hello.openmpi", false),
    ("./missing", false),
    ("./input", false),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Case> {
        list(&Selection { random: 200, seed: 7, only: Vec::new() }).unwrap()
    }

    #[test]
    fn lists_of_a_seed_are_equal() {
        assert_eq!(all(), all());
        let other = list(&Selection { random: 200, seed: 8, only: Vec::new() }).unwrap();
        assert_ne!(all(), other);
    }

    #[test]
    fn cases_come_from_each_source_and_in_each_setting() {
        let cases = all();
        for origin in
            ["lines.txt:", "command-lines.txt:", "README.md:", "docs/nodes.md:", "random:"]
        {
            assert!(cases.iter().any(|case| case.origin.contains(origin)), "{origin}");
        }
        let written: usize = Setting::ALL.map(|setting| {
            cases
                .iter()
                .filter(|case| case.setting == setting && !case.origin.contains("random"))
                .count()
        })[0];
        assert!(written >= 150, "{written}");
        assert!(cases.iter().any(|case| case.interruption.is_some()));
    }

    #[test]
    fn lines_of_documents_are_found_with_and_without_a_prompt() {
        let text =
            "text pmi-host run\n$ pmi-host run -n 1 a\n    mpiexec -n 1 a # b\npmi-host is a\n";
        let lines = document_lines(text);
        assert_eq!(lines[0], (2, "pmi-host run -n 1 a".to_owned()));
        assert_eq!(lines[1].0, 3);
    }
}
