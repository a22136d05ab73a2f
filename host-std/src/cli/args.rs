//! Arguments of `pmi-host run`, independent of the system.
//!
//! Everything from the first word that is no option belongs to the program, dashes included. A word that
//! is only a colon ends it, and the options of the next program follow; if the program itself needs such
//! a word, `--` before the program keeps all following words together.

use super::explain::explain;
use super::layers::Origin;
use super::options::{self, OptionSpec};
use super::system;
use crate::settings::Settings;
use crate::settings::job::RankTool;
use crate::settings::placement::Unit;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use pmi_host_base::usage::UsageError;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Arguments of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunArgs {
    /// Options that hold for the whole run, in the order of the command line.
    pub(crate) given: Vec<GivenOption>,
    /// Programs. The demo, and a part without a program, have no words.
    pub(crate) parts: Vec<PartArgs>,
    /// Defaults of this command line that differ from the usual ones.
    pub(crate) weakest: Vec<GivenOption>,
    /// True if a program is required, and its absence does not start the demo.
    pub(crate) needs_program: bool,
    /// Number of ranks of a program where neither an option nor hosts state it.
    pub(crate) default_ranks: DefaultRanks,
    /// Tools in front of the programs of some ranks.
    pub(crate) tools: Vec<RankTool>,
    /// Words that were accepted and have no effect, each as a message shows it.
    pub(crate) without_effect: Vec<String>,
    /// Path of the configuration file, if given.
    pub(crate) config: Option<PathBuf>,
    /// Requested task.
    pub(crate) task: Task,
}

/// Number of ranks of a program where neither an option nor hosts state it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DefaultRanks {
    /// None: the number is required.
    #[default]
    Required,
    /// One, as under Hydra.
    One,
    /// One for each of these, as under Open MPI.
    Slots(Unit),
    /// As under the launcher of the MPI library that the program links.
    OfLibrary(Unit),
}

/// Launcher whose meaning counts where launchers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Personality {
    /// Hydra, that of MPICH.
    Hydra,
    /// Hydra as Intel MPI brings it.
    Intel,
    /// That of Open MPI 4.
    OpenMpi,
    /// That of Open MPI 5, which is PRRTE's.
    Prrte,
    /// Slurm's `srun`.
    Slurm,
    /// `mpiexec` of HPE's PALS.
    Pals,
    /// `aprun` of PALS.
    Aprun,
    /// IBM's `jsrun`.
    Jsm,
}

/// Task of a command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Task {
    /// Start the job.
    #[default]
    Start,
    /// Print the job that would be started, and start nothing.
    Preview,
    /// Print every setting and its origin.
    Show,
    /// Print help for the most common options.
    Help,
    /// Print help for all options.
    FullHelp,
    /// Print help for the options of this launcher.
    LauncherHelp(Personality),
    /// Print the protocols in the words of Slurm.
    MpiTypes,
    /// Print the version and the abilities of this program, in the words of a launcher.
    Info(Personality),
}

/// Arguments of one program.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartArgs {
    /// Options that hold for this program alone.
    pub(crate) given: Vec<GivenOption>,
    /// Program and its arguments.
    pub(crate) words: Vec<OsString>,
}

impl PartArgs {
    /// Program and arguments, for messages.
    pub(super) fn line(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }
}

/// One option that was given.
#[derive(Clone, Debug)]
pub(crate) struct GivenOption {
    /// The option.
    pub(crate) option: &'static OptionSpec,
    /// Value; `true` or `false` for a switch.
    pub(crate) value: OsString,
    /// Origin of the option.
    pub(crate) origin: Origin,
}

/// Defines a command with the wanted options of the table.
type Define = fn(&dyn Fn(&OptionSpec) -> bool) -> Command;

/// The options in front of a program, and its words.
struct Section {
    options: Vec<OsString>,
    words: Vec<OsString>,
}

/// Parses the arguments of `run`.
///
/// # Errors
///
/// [`UsageError`], which is exit code 2.
pub(crate) fn parse(words: Vec<OsString>) -> Result<RunArgs, UsageError> {
    let mut sections = sections(words);
    let several = sections.len() > 1;
    let mut args = RunArgs::default();
    let mut first = sections.remove(0);
    let matches = matches(define_with, std::mem::take(&mut first.options))?;
    args.task = task(&matches);
    args.config = matches.get_one::<OsString>(CONFIG).map(PathBuf::from);
    let given = given(&matches)?;
    if !several {
        args.given = given;
        args.parts.push(PartArgs { given: Vec::new(), words: first.words });
    } else if first.words.is_empty() {
        args.given = given;
    } else {
        // The number of ranks of one program does not hold for the others.
        let (ranks, common) = given.into_iter().partition(|given| given.option.name == RANKS);
        args.given = common;
        args.parts.push(PartArgs { given: ranks, words: first.words });
    }
    for (at, Section { options, words }) in sections.into_iter().enumerate() {
        let before = args.parts.last().map(PartArgs::line).unwrap_or_default();
        let wrong =
            |error| UsageError::BehindColon { error: Box::new(error), words: before.clone() };
        let given = self::matches(define_part, options).and_then(|matches| self::given(&matches));
        let given = given.map_err(wrong)?;
        if words.is_empty() {
            return Err(wrong(UsageError::NoProgram { place: at + 2 }));
        }
        args.parts.push(PartArgs { given, words });
    }
    Ok(args)
}

/// Definition of `run` for help, completions and the man page.
pub(crate) fn define() -> Command {
    define_with(&|_| true)
}

/// Definition of `run` with the wanted options of the table.
fn define_with(is_wanted: &dyn Fn(&OptionSpec) -> bool) -> Command {
    let command = Command::new("run").about("Start the ranks of a program and serve them PMI");
    let command = options::all().filter(|option| is_wanted(option)).fold(command, with);
    command
        .disable_help_flag(true)
        .arg(flag(SHORT_HELP, "print the most frequently used options").short('h'))
        .arg(flag(LONG_HELP, "print all options").long("help"))
        .arg(
            Arg::new(CONFIG)
                .long(CONFIG)
                .value_name("FILE")
                .value_parser(clap::value_parser!(OsString))
                .value_hint(clap::ValueHint::FilePath)
                .overrides_with(CONFIG)
                .help("read further settings from this file"),
        )
        .arg(flag(SHOW, "print every setting with its source, and start nothing").long(SHOW))
        .arg(flag(PREVIEW, "print what would be started, and start nothing").long(PREVIEW))
        .arg(
            Arg::new(PROGRAM)
                .value_name("PROGRAM")
                .value_hint(clap::ValueHint::CommandWithArguments)
                .trailing_var_arg(true)
                .num_args(0..)
                .value_parser(clap::value_parser!(OsString))
                .help("the program and its arguments; without one, the built-in demo runs"),
        )
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).action(ArgAction::SetTrue).help(help)
}

fn task(matches: &ArgMatches) -> Task {
    let wanted = [
        (LONG_HELP, Task::FullHelp),
        (SHORT_HELP, Task::Help),
        (SHOW, Task::Show),
        (PREVIEW, Task::Preview),
    ];
    wanted
        .into_iter()
        .find(|(flag, _)| matches.get_flag(flag))
        .map_or(Task::Start, |(_, task)| task)
}

/// Defines the wanted options that may precede a program other than the first.
fn define_part(is_wanted: &dyn Fn(&OptionSpec) -> bool) -> Command {
    let options = options::all().filter(|option| option.is_of_part && is_wanted(option));
    options.fold(Command::new("run"), with).disable_help_flag(true)
}

fn with(command: Command, option: &'static OptionSpec) -> Command {
    // Long help is set as well, since the man page would otherwise lack the options that short help leaves
    // out.
    let arg = Arg::new(option.name).help(option.help).long_help(option.help);
    let arg = arg.help_heading(option.topic.about());
    let arg = option.short.into_iter().fold(arg, Arg::short);
    match option.effect {
        options::OptionEffect::Value { name, adds_up, .. } => {
            let arg = arg.long(option.name).value_name(name);
            let arg =
                options::hints::of_option(option, arg.value_parser(clap::value_parser!(OsString)))
                    .allow_hyphen_values(true)
                    .hide_short_help(!option.is_common);
            command.arg(match adds_up {
                // An option that overrides itself would lose all values but the last.
                true => arg.action(ArgAction::Append),
                false => arg.action(ArgAction::Set).overrides_with(option.name),
            })
        }
        options::OptionEffect::Switch { .. } => {
            // Of the two words, help shows the one that changes the default.
            let (is_on, not) = (option.is_on(), negation(option));
            let help = format!("do not {}", option.help);
            let off = Arg::new(not.clone()).long(not.clone()).help(&help).long_help(help);
            let off = off.help_heading(option.topic.about()).action(ArgAction::SetTrue);
            command
                .arg(
                    arg.long(option.name)
                        .action(ArgAction::SetTrue)
                        .hide(is_on)
                        .hide_short_help(!option.is_common)
                        .overrides_with_all([option.name.to_owned(), not.clone()]),
                )
                .arg(off.hide(!is_on).hide_short_help(true).overrides_with(not))
        }
    }
}

/// Cuts words at the colons between programs.
fn sections(words: Vec<OsString>) -> Vec<Section> {
    let (mut sections, mut rest) = (Vec::new(), words);
    loop {
        let (options, is_closed) = front(&mut rest);
        let cut = match is_closed {
            true => None,
            false => rest.iter().position(|word| word == NEXT),
        };
        let words: Vec<OsString> = rest.drain(..cut.unwrap_or(rest.len())).collect();
        sections.push(Section { options, words });
        if cut.is_none() {
            return sections;
        }
        rest.remove(0);
    }
}

/// Takes the options off the front of `words`; true if `--` ended them.
fn front(words: &mut Vec<OsString>) -> (Vec<OsString>, bool) {
    let mut options = Vec::new();
    let mut rest = std::mem::take(words).into_iter();
    let mut is_closed = false;
    while let Some(word) = rest.next() {
        if word.len() < 2 || word.as_bytes()[0] != b'-' {
            words.push(word);
            break;
        }
        if word == "--" {
            is_closed = true;
            break;
        }
        let word = respelt(word);
        let awaits_value = awaits_value(&word);
        options.push(word);
        if awaits_value {
            options.extend(rest.next());
        }
    }
    words.extend(rest);
    (options, is_closed)
}

/// Rewrites spellings of other launchers. `-np` is read as `-n`, since the parser would read it as two
/// letters.
fn respelt(word: OsString) -> OsString {
    let follows =
        |rest: &[u8]| rest.first().is_none_or(|byte| *byte == b'=' || byte.is_ascii_digit());
    if let Some(rest) = word.as_bytes().strip_prefix(b"-np").filter(|rest| follows(rest)) {
        return OsString::from_vec([b"-n", rest].concat());
    }
    let end = word.as_bytes().iter().position(|byte| *byte == b'=').unwrap_or(word.len());
    let (spelling, value) = word.as_bytes().split_at(end);
    match SPELLINGS.iter().find(|(other, _)| other.as_bytes() == spelling) {
        Some((_, name)) => OsString::from_vec([b"--", name.as_bytes(), value].concat()),
        None => word,
    }
}

/// True if the value of the option `word` is the next word.
fn awaits_value(word: &OsStr) -> bool {
    let word = word.to_string_lossy();
    if let Some(name) = word.strip_prefix("--") {
        return takes_value(name) == Some(true);
    }
    let lettered = |letter| options::all().find(|option| option.short == Some(letter));
    let mut letters = word.chars().skip(1);
    let takes = letters.find(|letter| lettered(*letter).is_some_and(OptionSpec::takes_value));
    takes.is_some() && letters.next().is_none()
}

/// True if a value follows the option of this name (without dashes); `None` if there is no such option.
pub(super) fn takes_value(name: &str) -> Option<bool> {
    match name {
        CONFIG => Some(true),
        SHOW | PREVIEW | "help" => Some(false),
        _ => {
            let negated = || options::named(name.strip_prefix("no-")?).filter(|o| !o.takes_value());
            options::named(name).or_else(negated).map(OptionSpec::takes_value)
        }
    }
}

/// Reads `options`.
///
/// A definition of all options takes longer than to start a rank, and few are used at once. So only those
/// are defined that a word may name; all of them after an error, because the nearest name may be any of
/// them.
fn matches(define: Define, options: Vec<OsString>) -> Result<ArgMatches, UsageError> {
    let is_named = |option: &OptionSpec| options.iter().any(|word| may_mean(word, option));
    let few = define(&is_named).no_binary_name(true);
    few.try_get_matches_from(&options).or_else(|_| {
        let mut all = define(&|_| true).no_binary_name(true);
        all.try_get_matches_from_mut(&options).map_err(|error| explain(&error, &all))
    })
}

/// True if `word` is no value and names `option` or its opposite.
fn may_mean(word: &OsStr, option: &OptionSpec) -> bool {
    match word.as_bytes() {
        [b'-', b'-', name @ ..] => {
            let name = name.split(|byte| *byte == b'=').next().unwrap_or_default();
            let name = name.strip_prefix(b"no-").filter(|_| !option.takes_value()).unwrap_or(name);
            name == option.name.as_bytes()
        }
        [b'-', letters @ ..] => {
            option.short.is_some_and(|own| letters.iter().any(|letter| char::from(*letter) == own))
        }
        _ => false,
    }
}

/// Options of the command line, in the order of the words.
fn given(matches: &ArgMatches) -> Result<Vec<GivenOption>, UsageError> {
    let mut found: Vec<(usize, GivenOption)> = Vec::new();
    let is_known = |id: &str| matches.try_contains_id(id).is_ok();
    for option in options::all().filter(|option| is_known(option.name)) {
        if option.takes_value() {
            let values = matches.get_many::<OsString>(option.name).into_iter().flatten();
            let places = matches.indices_of(option.name).into_iter().flatten();
            let given = values.map(|value| GivenOption {
                option,
                value: value.clone(),
                origin: Origin::Typed,
            });
            found.extend(places.zip(given));
            continue;
        }
        for (id, value) in [(option.name.to_owned(), "true"), (negation(option), "false")] {
            if matches.value_source(&id) == Some(ValueSource::CommandLine) {
                let place = matches.index_of(&id).unwrap_or_default();
                let value = value.into();
                found.push((place, GivenOption { option, value, origin: Origin::Typed }));
            }
        }
    }
    found.sort_by_key(|(place, _)| *place);
    let given: Vec<GivenOption> = found.into_iter().map(|(_, given)| given).collect();
    given.iter().try_for_each(|given| given.apply(&mut Settings::default()))?;
    Ok(given)
}

fn negation(option: &OptionSpec) -> String {
    format!("no-{}", option.name)
}

impl GivenOption {
    /// Applies this option to `settings`. A maximum changes them only if they are above it.
    ///
    /// # Errors
    ///
    /// [`UsageError::Value`], and that a user has set more than a maximum.
    pub(crate) fn apply(&self, settings: &mut Settings) -> Result<(), UsageError> {
        match &self.origin {
            Origin::Maximum(file) => system::hold_to(self, file, settings),
            _ => self.set(settings),
        }
    }

    /// Sets the value.
    ///
    /// # Errors
    ///
    /// [`UsageError::Value`].
    pub(crate) fn set(&self, settings: &mut Settings) -> Result<(), UsageError> {
        let value = self.value.display();
        self.option.set(settings, &self.value).map_err(|why| UsageError::Value {
            given: match &self.origin {
                Origin::Default | Origin::Typed => format!("{} {value}", self.option.shown()),
                Origin::Variable(name) => format!("{name}={value}"),
                Origin::File(file) | Origin::Maximum(file) => {
                    format!("{} = {value}' in '{}", self.option.name, file.display())
                }
            },
            why,
        })
    }
}

/// Spellings of options in Hydra, Intel MPI and Open MPI, with the names here.
const SPELLINGS: &[(&str, &str)] = &[
    ("--np", "ranks"),
    ("--n", "ranks"),
    ("-hosts", "hosts"),
    ("-host", "hosts"),
    ("--host", "hosts"),
    ("-H", "hosts"),
    ("-f", "hostfile"),
    ("-hostfile", "hostfile"),
    ("-machinefile", "hostfile"),
    ("--machinefile", "hostfile"),
    ("-ppn", "ppn"),
    ("-perhost", "ppn"),
    ("--perhost", "ppn"),
    ("-npernode", "ppn"),
    ("--npernode", "ppn"),
    ("-N", "ppn"),
    ("-rankmap", "rankmap"),
    ("-oversubscribe", "oversubscribe"),
    ("--nooversubscribe", "no-oversubscribe"),
    ("-nooversubscribe", "no-oversubscribe"),
];

/// Option that always holds for one program alone.
const RANKS: &str = "ranks";

/// Separator of programs.
const NEXT: &str = ":";

const SHORT_HELP: &str = "short-help";
const LONG_HELP: &str = "long-help";
const CONFIG: &str = "config";
const SHOW: &str = "show-config";
const PREVIEW: &str = "dry-run";
const PROGRAM: &str = "program";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::hosts::HostSource;

    fn parsed(line: &str) -> Result<RunArgs, UsageError> {
        parse(line.split_whitespace().map(OsString::from).collect())
    }

    /// Settings of the whole run, then the settings and words of each program.
    fn parts_of(line: &str) -> (Settings, Vec<(Settings, Vec<String>)>) {
        let args = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let applied = |given: &[GivenOption]| {
            let mut settings = Settings::default();
            given.iter().for_each(|given| given.apply(&mut settings).expect("was checked"));
            settings
        };
        let parts = args.parts.iter().map(|part| {
            let words = part.words.iter().map(|word| word.to_string_lossy().into_owned());
            (applied(&part.given), words.collect())
        });
        (applied(&args.given), parts.collect())
    }

    fn ranks_and_words(line: &str) -> Vec<(Option<u32>, Vec<String>)> {
        let (common, parts) = parts_of(line);
        let ranks = |own: Settings| own.job.ranks.or(common.job.ranks);
        parts.into_iter().map(|(own, words)| (ranks(own), words)).collect()
    }

    #[test]
    fn spellings_of_the_number_of_ranks_mean_the_same() {
        for number in
            ["-n 4", "-n4", "-n=4", "--ranks 4", "--ranks=4", "-np 4", "-np4", "-n 2 -n 4"]
        {
            let line = format!("{number} a");
            let line = line.as_str();
            assert_eq!(ranks_and_words(line), [(Some(4), vec!["a".to_owned()])], "{line}");
        }
    }

    #[test]
    fn spellings_of_other_launchers_name_hosts() {
        for line in
            ["-hosts a:2,b x", "-host=a:2,b x", "-H a:2,b x", "--host a:2,b x", "--hosts a:2,b x"]
        {
            let (common, parts) = parts_of(line);
            let Some(HostSource::List(list)) = common.hosts.source else { panic!("{line}") };
            assert_eq!((list.to_string(), parts[0].1.len()), ("a:2,b".to_owned(), 1), "{line}");
        }
        for line in ["-f h x", "-machinefile h x", "--hostfile=h x", "-hostfile h x"] {
            assert_eq!(parts_of(line).0.hosts.source, Some(HostSource::File("h".into())), "{line}");
        }
        for line in ["-ppn 2 x", "-perhost 2 x", "--npernode 2 x", "-N 2 x", "--ppn=2 x"] {
            assert_eq!(parts_of(line).0.hosts.ppn, Some(2), "{line}");
        }
        assert!(!parts_of("--nooversubscribe x").0.hosts.oversubscribe);
        assert!(parts_of("--nooversubscribe --oversubscribe x").0.hosts.oversubscribe);
        let (common, parts) = parts_of("-n 2 -host a x : -n 1 -host b y : -n 1 z");
        let source = |settings: &Settings| match &settings.hosts.source {
            Some(HostSource::List(list)) => Some(list.to_string()),
            _ => None,
        };
        assert_eq!(source(&common).as_deref(), Some("a"));
        let own: Vec<Option<String>> = parts.iter().map(|(own, _)| source(own)).collect();
        assert_eq!(own, [None, Some("b".to_owned()), None]);
    }

    #[test]
    fn arguments_behind_the_program_are_the_programs() {
        for (line, words) in [
            ("-n 2 ./a -n 3 --help -- x", &["./a", "-n", "3", "--help", "--", "x"][..]),
            ("-n 2 -- -odd-name -n 3", &["-odd-name", "-n", "3"]),
            ("-n 2 -- a : b", &["a", ":", "b"]),
            ("-ln 2 a -np 3", &["a", "-np", "3"]),
            ("-n 2 - a", &["-", "a"]),
            ("-n 2", &[]),
        ] {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(ranks_and_words(line), [(Some(2), words)], "{line}");
        }
    }

    #[test]
    fn colon_begins_the_next_program() {
        let (common, parts) =
            parts_of("-n 2 --env A=1 -l ./a x : -np 3 --env B=2 --wdir /tmp ./b : -n 1 -- ./c : y");
        assert!(common.output.label.is_some());
        assert_eq!(common.environment.set, [("A".into(), "1".into())]);
        let words: Vec<String> = parts.iter().map(|(_, words)| words.join(" ")).collect();
        assert_eq!(words, ["./a x", "./b", "./c : y"]);
        let ranks: Vec<Option<u32>> = parts.iter().map(|(own, _)| own.job.ranks).collect();
        assert_eq!(ranks, [Some(2), Some(3), Some(1)]);
        assert_eq!(parts[1].0.environment.set, [("B".into(), "2".into())]);
        assert_eq!(parts[1].0.job.directory.as_deref(), Some("/tmp".as_ref()));
        // Without a program before the first colon, the options there hold for all programs.
        let (common, parts) = parts_of("-n 2 -l : a : --env A=1 b");
        assert_eq!((common.job.ranks, parts.len()), (Some(2), 2));
        for line in ["-n 2 a :", "a : -n 2", "a : -l b", "a : : b"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn switch_can_be_taken_back() {
        assert!(parts_of("-n 1 --collapse a").0.output.collapse);
        assert!(!parts_of("-n 1 --collapse --no-collapse a").0.output.collapse);
        assert!(parts_of("-n 1 --no-collapse --collapse a").0.output.collapse);
        assert!(!parts_of("-n 1 --no-control a").0.watching.control);
    }

    #[test]
    fn misspelt_option_suggests_the_nearest_one() {
        let nearest = |line| match parsed(line) {
            Err(UsageError::UnknownOption { remedy, .. }) => {
                remedy.split('\'').nth(1).unwrap_or_default().to_owned()
            }
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(nearest("--rank=4 a"), "--ranks");
        assert_eq!(nearest("-m 4 a"), "pmi-host run --help");
        assert_eq!([nearest("--hlep"), nearest("--no-colapse")], ["--help", "--no-collapse"]);
    }

    #[test]
    fn value_that_makes_no_sense_is_a_usage_error() {
        for line in ["-n", "-n 0 ./a", "-n four ./a", "-n -1 ./a", "-n 4294967296 ./a", "-l=x a"] {
            assert!(parsed(line).is_err(), "{line}");
        }
        let given = |line| parsed(line).unwrap_err().to_string();
        assert_eq!(given("-n 0"), "'-n 0': a job has at least one rank; try '4'");
        assert_eq!(given("-n"), "option '-n' needs N after it");
        assert_eq!(given("--collapse=no a"), "option '--collapse' takes no value");
        for line in ["-n 2 --attribute a x", "-n 2 --attribute =b x"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
