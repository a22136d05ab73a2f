//! Help: an overview on one screen, and a page for each topic. All texts are derived from the tables of
//! commands and options, so that they cannot differ.

use super::COMMANDS;
use crate::cli::args;
use crate::cli::args::Personality;
use crate::cli::layers::ShownSetting;
use crate::cli::mpiexec::{self, OptionFamily};
use crate::cli::options::{self, OptionEffect, OptionSpec, Topic};
use clap::{Arg, Command};
use std::fmt::Write;

/// Overview that fits on a screen: commands, the most common options, and references to the rest.
pub(super) fn overview() -> String {
    let mut text = format!("{ABOUT}\ncommands:\n");
    for command in COMMANDS.iter().map(|command| (command.define)()).filter(|c| !c.is_hide_set()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        row(&mut text, command.get_name(), &about);
    }
    text.push_str("\nmost frequently used options of run ('pmi-host run --help' lists all):\n");
    options::all().filter(|option| option.is_common).for_each(|option| describe(&mut text, option));
    text.push_str("\n'pmi-host help TOPIC' explains one topic:\n");
    let pages: Vec<&str> = pages().collect();
    row(&mut text, "TOPIC", &pages.join(", "));
    text
}

/// Help for `run`: the most common options, or all of them.
pub(super) fn of_run(in_full: bool) -> String {
    if !in_full {
        let mut text = format!("{ABOUT}\nmost frequently used options ('--help' lists all):\n");
        let common = options::all().filter(|option| option.is_common);
        common.for_each(|option| describe(&mut text, option));
        return text;
    }
    let mut text = String::from(ABOUT);
    text.push_str("\ninstead of starting ranks:\n");
    for arg in args::define().get_arguments().filter(|arg| arg.get_help_heading().is_none()) {
        let names =
            [arg.get_short().map(|c| format!("-{c}")), arg.get_long().map(|l| format!("--{l}"))];
        let name: Vec<String> = names.into_iter().flatten().collect();
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        if !arg.is_positional() {
            row(&mut text, &name.join(", "), &help);
        }
    }
    for topic in Topic::ALL {
        text.push('\n');
        text.push_str(&of_topic(topic));
    }
    for page in [PROGRAMS, FILES, CODES, SIGNALS] {
        text.push('\n');
        text.push_str(page);
    }
    text
}

/// Options of one launcher, and their equivalents here.
pub(super) fn of_launcher(launcher: Personality) -> String {
    let families = |has_two_dashes| of_families(mpiexec::listed(launcher), has_two_dashes);
    let head = |name| MPIEXEC.replace("{launcher}", name);
    match launcher {
        Personality::Slurm => format!("{SRUN}{}", families(true)),
        Personality::Jsm => format!("{}{}", head("IBM's jsrun"), families(true)),
        Personality::Aprun => format!("{}{}", head("aprun"), families(true)),
        Personality::Pals => format!("{}{OTHERS}{}", head("PALS"), families(false)),
        Personality::Hydra => format!("{}{OTHERS}{}", head("MPICH's Hydra"), families(false)),
        Personality::Intel => {
            format!("{}{OTHERS}{}", head("the Intel(R) MPI Library"), families(false))
        }
        Personality::OpenMpi | Personality::Prrte => {
            format!("{}{OTHERS}{}", head("Open MPI (OpenRTE)"), families(false))
        }
    }
}

/// Options of all launchers that `mpiexec` reads, and their equivalents here.
pub(super) fn of_mpiexec() -> String {
    let families = of_families(mpiexec::families("mpiexec"), false);
    format!("{}{families}", MPIEXEC.replace("{launcher}", "Hydra"))
}

fn of_families<'a>(
    families: impl IntoIterator<Item = &'a OptionFamily>,
    has_two_dashes: bool,
) -> String {
    let mut text = String::new();
    for family in families {
        let _ = writeln!(text, "options of {}:", family.name);
        for option in family.options {
            let dashes = |name: &str| if has_two_dashes && name.len() > 1 { "--" } else { "-" };
            let names = option.names.iter().map(|name| format!("{}{name}", dashes(name)));
            let names: Vec<String> = names.collect();
            row(&mut text, &names.join(", "), &option.meaning());
        }
        text.push('\n');
    }
    text
}

/// Every setting as it would be typed, with its origin.
pub(super) fn of_settings(shown: &[ShownSetting]) -> String {
    let value = |shown: &ShownSetting| shown.value.clone().unwrap_or_else(|| "-".to_owned());
    let widths = shown.iter().map(|shown| value(shown).chars().count());
    let width = widths.max().unwrap_or_default().min(LEFT);
    let mut text = String::new();
    for one in shown {
        let _ = writeln!(text, "{:<19}  {:<width$}  {}", one.option.name, value(one), one.origin);
    }
    text
}

/// Page of a topic, if there is one; commands print their own help.
pub(super) fn of(name: &str) -> Option<String> {
    if let Some(topic) = Topic::ALL.into_iter().find(|topic| topic.name() == name) {
        return Some(of_topic(topic));
    }
    match name {
        "run" => return Some(of_run(true)),
        "help" => return Some(overview()),
        "mpiexec" => return Some(of_mpiexec()),
        _ => {}
    }
    TEXTS.iter().find(|(page, _)| *page == name).map(|(_, text)| (*text).to_owned())
}

/// Pages that explain the options to which a word belongs that is no topic: `stall` to `--stall-report`.
/// `None` if there is no such option.
pub(super) fn related(word: &str) -> Option<String> {
    let word = word.trim_start_matches('-').to_ascii_lowercase();
    let is_letter = |option: &OptionSpec| {
        option.short.is_some_and(|letter| word.len() == 1 && word.starts_with(letter))
    };
    let is_named = |option: &&'static OptionSpec| option.name == word || is_letter(option);
    let has_part = |option: &&'static OptionSpec| option.name.split('-').any(|part| part == word);
    let mut found: Vec<&OptionSpec> = options::all().filter(is_named).collect();
    if found.is_empty() {
        found = options::all().filter(has_part).collect();
    }
    let first = found.first()?;
    let names: Vec<String> = { found.iter() }
        .filter(|option| option.topic == first.topic)
        .map(|option| format!("--{}", option.name))
        .collect();
    let verb = if names.len() == 1 { "belongs" } else { "belong" };
    let topic = first.topic.name();
    Some(format!("{} {verb} to the topic '{topic}': 'pmi-host help {topic}'", names.join(", ")))
}

/// All arguments of `pmi-host help`.
pub(super) fn topics() -> impl Iterator<Item = &'static str> {
    let commands = COMMANDS.iter().filter(|command| !(command.define)().is_hide_set());
    pages().chain(commands.map(|command| command.name))
}

/// Definition of `help` for completions and the man page.
pub(super) fn define() -> Command {
    let topic = Arg::new("TOPIC").help("a page of the list, or a command");
    Command::new("help").about("Explain").arg(topic)
}

/// Name and version, as `--version` prints them.
pub(super) fn version() -> String {
    format!("pmi-host {}\n", env!("CARGO_PKG_VERSION"))
}

fn pages() -> impl Iterator<Item = &'static str> {
    Topic::ALL.into_iter().map(Topic::name).chain(TEXTS.iter().map(|(name, _)| *name))
}

fn of_topic(topic: Topic) -> String {
    let mut text = format!("{} ({}):\n", topic.name(), topic.about());
    let rows = options::all().filter(|option| option.topic == topic);
    rows.for_each(|option| describe(&mut text, option));
    text
}

fn describe(text: &mut String, option: &OptionSpec) {
    let mut names = String::new();
    if let Some(letter) = option.short {
        names = format!("-{letter}, ");
    }
    let not = if option.is_on() { "no-" } else { "" };
    let _ = write!(names, "--{not}{}", option.name);
    if let OptionEffect::Value { name, .. } = option.effect {
        let _ = write!(names, " {name}");
    }
    match option.is_on() {
        true => row(text, &names, &format!("do not {}", option.help)),
        false => row(text, &names, option.help),
    }
}

/// Appends a row of two columns; the second one wraps below itself.
fn row(text: &mut String, left: &str, right: &str) {
    let mut line = format!("  {left:<LEFT$}");
    if left.len() > LEFT {
        let _ = writeln!(text, "{}", line.trim_end());
        line = " ".repeat(LEFT + 2);
    }
    for word in right.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{}", line.trim_end());
            line = " ".repeat(LEFT + 2);
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}

const LEFT: usize = 24;
const WIDTH: usize = 100;

const ABOUT: &str = "Starts the ranks of an MPI program on this machine and serves them PMI.

usage: pmi-host run -n N [OPTIONS] [--] PROGRAM [ARGUMENTS...]
       pmi-host run -n N PROGRAM... : -n M [OPTIONS] PROGRAM...     several programs, one job
       pmi-host run -n N                                            the built-in demo
       pmi-host run [-n N] --listen ADDR:PORT --expect N [PROGRAM...]   with ranks over TCP
";

const MPIEXEC: &str =
    "Starts the ranks of an MPI program on this machine, with the command line of {launcher}.

usage: COMMAND [GLOBAL] [LOCAL] PROGRAM [ARGUMENTS...] [: [LOCAL] PROGRAM [ARGUMENTS...] ...]

Options of 'pmi-host run' (with two dashes) are accepted too; 'pmi-host help' explains them.

";

const OTHERS: &str = "Options of other launchers are read, too: 'pmi-host help mpiexec' lists them.

";

const SRUN: &str =
    "Starts the ranks of a program within the current allocation, or on this machine, with the
command line of Slurm's srun for job steps.

usage: srun [OPTIONS] PROGRAM [ARGUMENTS...] [: [OPTIONS] PROGRAM [ARGUMENTS...] ...]

Options of 'pmi-host run' (with two dashes) are accepted too; 'pmi-host help' explains them.

";

const PROGRAMS: &str = "\
several programs:
  The argument ':' separates a program and its arguments from the options of the next program: its
  number of ranks (-n), working directory (--wdir) and variables (--env, --inherit). All other options
  precede the first program and apply to all programs; there, --env, --inherit and --wdir do so too.
  Options for the first program alone follow a colon of their own:

    pmi-host run -l : -n 1 --env ROLE=main ./a : -n 3 ./b

  For a program with an argument ':', write '--' in front of the program; ':' then separates nothing.
";

const FILES: &str = "sources of settings, in order of precedence:
  1. the command line
  2. variables: PMI_HOST_ and the name of the option, as PMI_HOST_EXIT_TIMEOUT=5 or PMI_HOST_COLLAPSE=yes
  3. one file: the one that --config or PMI_HOST_CONFIG names, else pmi-host/config.toml in
     XDG_CONFIG_HOME (default: .config in the home directory)
  4. the administrator's file, /etc/pmi-host/config.toml
  5. the defaults

  The keys of a file are the names of the options without leading dashes:

    timeout = 3600
    collapse = true
    forward-signals = [\"SIGUSR1\", \"SIGUSR2\"]
    env = { OMP_NUM_THREADS = 4 }

  In the administrator's file a table holds maxima, which no user can raise: for kvs-pairs, kvs-bytes,
  timeout and trace-ring. A larger value is refused; without a value, and for 'never', the maximum applies.

    [maximum]
    kvs-bytes = 268435456
    timeout = 86400

  --env and --attribute accumulate over all sources; every other setting is taken from the first source
  that has it.
  --show-config prints every setting with its source. Ranks do not see PMI_HOST_ variables.
";

const CODES: &str = "\
exit code: 0 if every rank succeeded; else that of the first rank that failed, 128 + S if signal S
terminated it, C after MPI_Abort(C); 127 program not found, 126 program cannot run, 124 terminated by
--timeout, 2 wrong usage, 1 any other error.

Ranks may spawn jobs (MPI_Comm_spawn); a failure in one of them terminates all jobs of the run.
";

const SIGNALS: &str = "\
signals to the launcher:
  SIGINT, SIGTERM, SIGHUP and SIGQUIT are forwarded to the ranks; the launcher reports the ranks that
  still run and the operations they wait for. A second one within 2 s kills all ranks. After a key at
  the terminal each rank receives one signal, not two. SIGALRM, SIGPROF and SIGVTALRM have the same effect.
  SIGUSR1 and SIGPWR print a table of all ranks. SIGUSR2 is forwarded to the ranks; those that listen on
  a second connection receive a checkpoint notice instead.
  --forward-signals lists further signals to forward; if it contains SIGUSR1, no table is printed.
  As mpiexec, mpirun, prterun or srun, SIGUSR1, SIGALRM and SIGURG are forwarded, as by these launchers;
  SIGPWR prints the table there, too.
  Where all ranks ignore SIGTERM, they are killed 3 s after it.
";

const TEXTS: &[(&str, &str)] =
    &[("programs", PROGRAMS), ("files", FILES), ("codes", CODES), ("signals", SIGNALS)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front;

    #[test]
    fn options_are_in_the_help_text() {
        let text = of_run(true);
        for option in options::all() {
            assert!(text.contains(option.name), "{}", option.name);
        }
    }

    #[test]
    fn short_help_fits_a_screen() {
        for text in [overview(), of_run(false)] {
            assert!(text.lines().count() <= 45, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        }
    }

    #[test]
    fn topics_have_pages() {
        for topic in pages() {
            assert!(of(topic).is_some_and(|page| page.lines().count() > 1), "{topic}");
        }
        let words =
            [("stall", "watching"), ("--timeout", "ending"), ("-n", "job"), ("l", "output")];
        for (word, topic) in words {
            assert!(
                related(word).is_some_and(|text| text.ends_with(&format!("help {topic}'"))),
                "{word}"
            );
        }
        assert_eq!((related("nothing"), related("")), (None, None));
        assert!(of("nothing").is_none());
    }

    #[test]
    fn definition_of_the_command_line_is_sound() {
        front::define().debug_assert();
        assert!(args::define().get_arguments().count() > options::all().count());
    }
}
