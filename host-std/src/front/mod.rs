//! What a process has once: commands of `pmi-host`, one row for each, and the dispatch from the command line
//! to them; and for a run its loop ([`served_run`]), over node servers ([`servers`]) or with the only node in
//! this process ([`local`]).

mod doctor;
mod help;
mod local;
mod manual;
mod mpir;
mod pages;
mod served_run;
mod servers;
mod singleton;
mod topology;

use crate::cli::args::{self, RunArgs, Task};
use crate::cli::config::Config;
use crate::cli::nearest::{near, nearest};
use crate::cli::system::System;
use crate::cli::{layers, mpiexec};
use crate::control::{ps, stack};
use crate::demo_rank;
use crate::demo_rank::DEMO_RANK;
use crate::install::{self, CommandPages};
use crate::launch::preview;
use crate::launch::signal::Ignored;
use crate::launch::start::trampoline::{self, TRAMPOLINE};
use crate::launch::topology::resources::OwnResources;
use crate::names::server as name_server;
use crate::node;
use crate::node::lease::{self, Taken};
use crate::run::RunEnd;
use crate::server::singleton::{PmixSingletonArgs, SingletonArgs};
use crate::settings::placement::BindTo;
use clap::{Arg, Command};
use pmi_host_base::exit::{FAILED, USAGE, complain, line, print, print_to, refuse, shown};
use pmi_host_base::usage::UsageError;
use pmi_host_base::user_file::{self, Readers};
use pmi_host_os::admission::secret::{self, IdWidth};
use pmi_host_os::cleanup::guard_protocol::GUARD;
use pmi_host_os::cleanup::survivors;
use pmi_host_os::host_name;
use pmi_host_os::refusal;
use pmi_host_tools::conform::RANK;
use pmi_host_tools::{bridge, conform, pmix, replay, trace};
use pmi_nodes::node as node_server;
use pmi_nodes::starter::NODE;
use rustix::fs::Mode;
use rustix::process::umask;
use rustix::stdio::dup2_stdin;
use served_run::write_last;
use signal_hook::consts::SIGXFSZ;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

/// One command of `pmi-host`. A new one is a row in [`COMMANDS`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subcommand {
    /// Name of the command.
    pub(crate) name: &'static str,
    /// Defines the command and its arguments, for help, completions and the man page.
    pub(crate) define: fn() -> Command,
    /// Runs the command with the words after its name.
    pub(crate) run: fn(Vec<OsString>) -> ExitCode,
}

/// All commands, in the order of the help text.
pub(crate) const COMMANDS: &[Subcommand] = &[
    Subcommand { name: "run", define: args::define, run },
    Subcommand {
        name: "mpiexec",
        define: || mpiexec::define("mpiexec"),
        run: |words| mpiexec(words, "mpiexec"),
    },
    Subcommand { name: "trace", define: trace::define, run: trace::run },
    Subcommand { name: "ps", define: ps::define, run: ps::run },
    Subcommand { name: "stack", define: stack::define, run: stack::run },
    Subcommand { name: "pmix", define: pmix::define, run: pmix::run },
    Subcommand { name: "replay", define: replay::define, run: replay::run },
    Subcommand { name: "doctor", define: doctor::define, run: doctor::run },
    Subcommand { name: "topology", define: topology::define, run: topology::run },
    Subcommand { name: "conform", define: define_conform, run: conform::run },
    Subcommand {
        name: name_server::NAME_SERVER,
        define: name_server::define,
        run: name_server::run,
    },
    Subcommand { name: "bridge", define: bridge::define, run: bridge::run },
    Subcommand { name: "pmiid", define: define_identity, run: identity },
    Subcommand { name: "help", define: help::define, run: help },
    Subcommand { name: "completions", define: pages::define_completions, run: pages::completions },
    Subcommand { name: "man", define: pages::define_man, run: pages::man },
    Subcommand {
        name: "install",
        define: install::define,
        run: |words| install::run(words, &PAGES),
    },
    Subcommand {
        name: "uninstall",
        define: install::define_uninstall,
        run: install::run_uninstall,
    },
    Subcommand { name: "version", define: define_version, run: version },
    Subcommand { name: NODE, define: node_server::define, run: serve_node },
    Subcommand { name: DEMO_RANK, define: || hidden(DEMO_RANK), run: demo_rank },
    Subcommand { name: GUARD, define: || hidden(GUARD), run: survivors::run },
    Subcommand { name: TRAMPOLINE, define: || hidden(TRAMPOLINE), run: trampoline::run },
    Subcommand { name: RANK, define: || hidden(RANK), run: conform::run_rank },
];

/// Runs the command that the words name, of which the first is the name of this program, and returns the
/// exit code.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    // With a handler, a limit on the size of files is an error of a write, which is reported, and not a
    // silent termination.
    if !Ignored::at_start().has(SIGXFSZ) {
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    }
    let mut words = words.into_iter();
    let own = words.next().unwrap_or_default();
    let words: Vec<OsString> = words.collect();
    // A singleton starts this program under any of its names, always with the same words.
    if let Some(caller) = SingletonArgs::among(&words) {
        return match caller {
            Ok(caller) => ExitCode::from(singleton::serve(caller)),
            Err(why) => complain(&why, USAGE),
        };
    }
    if let Some(caller) = PmixSingletonArgs::among(&words) {
        return match caller {
            Ok(caller) => ExitCode::from(singleton::serve_pmix(&caller)),
            Err(why) => complain(&why, USAGE),
        };
    }
    if let Some(name) = Path::new(&own).file_name()
        && let Some(face) = face(name)
    {
        return mpiexec(words, face);
    }
    let mut words = words.into_iter();
    let first = words.next().unwrap_or_else(|| "help".into());
    let name = match first.to_str() {
        Some("--help" | "-h") => "help",
        Some("--version" | "-V") => "version",
        Some(name) => name,
        None => "",
    };
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(words.collect()),
        None => {
            let got = first.to_string_lossy().into_owned();
            let names = COMMANDS.iter().map(|command| command.name);
            let typed =
                names.filter(|name| ![DEMO_RANK, GUARD, TRAMPOLINE, RANK, NODE].contains(name));
            let remedy = match near(&got, typed) {
                Some(name) => format!("the nearest is '{name}', as in 'pmi-host run -n 4 ./hello'"),
                // Options of a launcher, as under the name of one whose command line is not read here.
                None if got.starts_with('-') => {
                    let rest = words.map(|word| format!(" {}", word.to_string_lossy()));
                    format!("'pmi-host run {got}{}' starts a program", rest.collect::<String>())
                }
                None => format!("'pmi-host run -n 4 {got}' starts a program"),
            };
            refuse(&UsageError::UnknownCommand { remedy, got })
        }
    }
}

/// Definition of the whole command line for completions and the man page.
pub(crate) fn define() -> Command {
    let command = Command::new("pmi-host")
        .about("Starts the ranks of an MPI program on this machine and serves them PMI")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true);
    let all = COMMANDS.iter().map(|one| (one.define)()).filter(|one| !one.is_hide_set());
    all.fold(command, Command::subcommand)
}

/// The launcher whose command line a link of this name reads.
fn face(name: &OsStr) -> Option<&'static str> {
    let other = OTHER_FACES.iter().find(|(other, _)| name == *other);
    other.map(|(_, face)| *face).or_else(|| FACES.iter().find(|face| name == **face).copied())
}

fn run(words: Vec<OsString>) -> ExitCode {
    match args::parse(words.clone()) {
        Ok(args) => perform(args),
        Err(UsageError::UnknownOption { got, remedy }) => {
            // The parser reads a word with one dash as letters, and names the first that it does not know.
            // Options stand in front of the program, so the first such word is meant.
            let has_letter = |word: &String| {
                let is_letter = got.len() == 2 && got.starts_with('-');
                is_letter && mpiexec::lacks_a_dash(word) && word.contains(&got[1..])
            };
            let mut words = words.iter().map(|word| word.to_string_lossy().into_owned());
            let word = words.find(|word| word.starts_with(&got) || has_letter(word));
            let word = word.unwrap_or(got);
            let remedy = mpiexec::answer(&word).unwrap_or(remedy);
            let got = word.split('=').next().unwrap_or_default().to_owned();
            refuse(&UsageError::UnknownOption { got, remedy })
        }
        Err(error) => {
            // `-nodes` is read as `-n odes`.
            let is_joined = |word: &String| {
                let value = word.strip_prefix("-n").filter(|_| mpiexec::lacks_a_dash(word));
                let is_its =
                    |given: &str| value.is_some_and(|value| given == format!("-n {value}"));
                matches!(&error, UsageError::Value { given, .. } if is_its(given))
            };
            let mut words = words.iter().map(|word| word.to_string_lossy().into_owned());
            match words.find(is_joined).and_then(|word| Some((mpiexec::answer(&word)?, word))) {
                Some((remedy, got)) => refuse(&UsageError::UnknownOption { got, remedy }),
                None => refuse(&error),
            }
        }
    }
}

/// Runs a job from the command line of Hydra.
fn mpiexec(words: Vec<OsString>, name: &str) -> ExitCode {
    let variables: Vec<_> = std::env::vars_os().collect();
    let read = |file: &Path| user_file::read_to_string(file);
    let context = mpiexec::ReadContext { name, variables: &variables, read };
    match mpiexec::parse(words, &context) {
        Ok(args) => perform(args),
        Err(error) => refuse(&error),
    }
}

/// Name of this node.
fn node() -> String {
    host_name::own()
}

/// Executes the task of a run, from either command line.
fn perform(mut args: RunArgs) -> ExitCode {
    match args.task {
        Task::Help => return print(&help::of_run(false)),
        Task::FullHelp => return print(&help::of_run(true)),
        Task::LauncherHelp(launcher) => return print(&help::of_launcher(launcher)),
        Task::MpiTypes => return print(mpiexec::MPI_TYPES),
        Task::Info(launcher) => return print(&mpiexec::info(launcher, &node())),
        Task::Start | Task::Preview | Task::Show => {}
    }
    let variables: Vec<_> = std::env::vars_os().collect();
    let mut given = match layers::given(args.config.as_deref(), &variables) {
        Ok(given) => given,
        Err(error) => return refuse(&error),
    };
    let System { defaults, maxima } = match System::read() {
        Ok(system) => system,
        Err(error) => return refuse(&error),
    };
    given.splice(..0, args.weakest.drain(..).chain(defaults));
    given.append(&mut args.given);
    given.extend(maxima);
    args.given = given;
    if args.task == Task::Show {
        return match layers::shown(&args.given) {
            Ok(shown) => print(&help::of_settings(&shown)),
            Err(error) => refuse(&error),
        };
    }
    let (task, again) = (args.task, args.clone());
    match Config::resolve(args) {
        Ok(config) if task == Task::Preview => {
            print(&preview::of(config.job(), std::env::vars_os()))
        }
        Ok(config) => start(config, again),
        Err(error) if error.exit_code() == USAGE => refuse(&error),
        Err(error) => complain(&error, error.exit_code()),
    }
}

/// Serves a node of a run.
fn serve_node(words: Vec<OsString>) -> ExitCode {
    let own = Rc::<OwnResources>::default();
    let told = Rc::clone(&own);
    let resources = Box::new(move || told.all().clone());
    node_server::run(words, resources, |network, poller, node, reserved| {
        node::serve_node(network, poller, node, reserved, own)
    })
}

/// Starts a job of `args`, after the reports that precede it. Hosts that cannot be used are left out.
fn start(mut config: Config, args: RunArgs) -> ExitCode {
    if let Some(mask) = config.settings.job.umask {
        umask(Mode::from_raw_mode(mask));
    }
    if let Some(file) = &config.settings.output.stdin_file
        && let Err(error) = user_file::open_to_read(file).and_then(|file| Ok(dup2_stdin(file)?))
    {
        let given = format!("--stdin-file {}", file.display());
        return refuse(&UsageError::Value { given, why: format!("it cannot be read ({error})") });
    }
    if let Some(place) = &config.settings.watching.report_pid
        && let Err(error) = print_to(place, std::process::id(), Readers::Usual)
    {
        let what = format!("'--report-pid {}' cannot be written ({error})", place.display());
        return complain(&what, FAILED);
    }
    let Taken { mut lease, notes } = match lease::take(&mut config) {
        Ok(taken) => taken,
        Err(what) => return complain(&what, USAGE),
    };
    let mut before = String::new();
    if !args.without_effect.is_empty() {
        before.push_str(&line(format!("without effect here: {}", args.without_effect.join("; "))));
    }
    if let Some(form) = config.settings.placement.display {
        before.push_str(&preview::display(config.job(), form));
    } else if !matches!(config.settings.placement.bind_to, BindTo::Launcher(_))
        && let Some(shared) =
            config.places.binding.as_ref().and_then(|one| one.shared(config.ranks))
    {
        before.push_str(&line(shared));
    }
    notes.into_iter().for_each(|note| before.push_str(&line(note)));
    if let Some(warning) = config.mixed_families() {
        before.push_str(&line(warning));
    }
    if let Some(note) = config.idle_error_handler() {
        before.push_str(&line(note));
    }
    if config.settings.environment.report {
        before.push_str(&preview::environment(config.job(), std::env::vars_os()));
    }
    let here = config.places.check_here();
    if let (Ok(()), Some(note)) = (&here, config.places.strange_file()) {
        before.push_str(&line(note));
    }
    if !before.is_empty() {
        let _ = std::io::stderr().write_all(shown(&before).as_bytes());
    }
    if let Err(what) = here {
        return complain(&what, USAGE);
    }
    let (mut excluded, mut awaited) = (Vec::new(), Vec::new());
    loop {
        let end = match config.has_servers {
            true => servers::run(&config, &awaited),
            false => local::run(config, lease.take()),
        };
        let left_out = match end {
            Ok(RunEnd { left_out, .. }) if !left_out.names.is_empty() => left_out,
            end => return ExitCode::from(write_last(end)),
        };
        excluded.extend(left_out.names);
        awaited.extend(left_out.late);
        config = match Config::resolve_without(args.clone(), &excluded) {
            Ok(config) => config,
            Err(error) => return complain(&error, error.exit_code()),
        };
    }
}

fn help(words: Vec<OsString>) -> ExitCode {
    let Some(topic) = words.first().map(|word| word.to_string_lossy()) else {
        return print(&help::overview());
    };
    if let Some(text) = help::of(&topic) {
        return print(&text);
    }
    match COMMANDS.iter().find(|command| command.name == topic) {
        Some(command) => (command.run)(vec!["--help".into()]),
        None => {
            let why = match help::related(&topic) {
                Some(related) => format!("there is no such topic; {related}"),
                None => {
                    let nearest = nearest(&topic, help::topics());
                    format!("there is no such topic; the nearest is '{nearest}'")
                }
            };
            refuse(&UsageError::Value { given: format!("help {topic}"), why })
        }
    }
}

fn version(_: Vec<OsString>) -> ExitCode {
    print(&help::version())
}

fn define_version() -> Command {
    Command::new("version").about("Print name and version")
}

fn demo_rank(_: Vec<OsString>) -> ExitCode {
    match demo_rank::run_rank(&mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let refused = refusal::refused().map(|refused| format!("; {refused}"));
            complain(&format!("{error}{}", refused.unwrap_or_default()), FAILED)
        }
    }
}

/// `pmiid --secret-file FILE RANK`
fn identity(words: Vec<OsString>) -> ExitCode {
    let mut command = define_identity().no_binary_name(true);
    let matches = match command.try_get_matches_from_mut(words) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return print(&error.to_string()),
        Err(_) => return refuse(&UsageError::Identity),
    };
    let file = matches.get_one::<OsString>(SECRET_FILE).expect("clap has required it");
    let rank = *matches.get_one::<u32>("RANK").expect("clap has required it");
    let width = if matches.get_flag(SHORT) { IdWidth::Bits31 } else { IdWidth::Bits63 };
    match secret::read_secret(file) {
        Ok(known) => print(&format!("{}\n", secret::identity(&known, rank, width))),
        Err(error) => complain(&error, FAILED),
    }
}

fn define_identity() -> Command {
    Command::new("pmiid")
        .about("Print the PMI_ID of a rank of PMI-1, for jobs that require a secret")
        .arg(
            Arg::new(SECRET_FILE)
                .long(SECRET_FILE)
                .value_name("FILE")
                .value_parser(clap::value_parser!(OsString))
                .value_hint(clap::ValueHint::FilePath)
                .required(true)
                .help("the file with the secret"),
        )
        .arg(
            Arg::new(SHORT)
                .long(SHORT)
                .action(clap::ArgAction::SetTrue)
                .help("print one of 31 bits, for a run with '--short-ids'"),
        )
        .arg(
            Arg::new("RANK")
                .value_parser(clap::value_parser!(u32))
                .required(true)
                .help("the rank that connects"),
        )
}

fn define_conform() -> Command {
    Command::new("conform")
        .about("Check any launcher or client of PMI against the specification")
        .disable_help_flag(true)
        .arg(Arg::new("OPTIONS").num_args(0..).allow_hyphen_values(true).trailing_var_arg(true))
}

/// Internal command, which only this program itself starts.
fn hidden(name: &'static str) -> Command {
    Command::new(name).hide(true)
}

/// What an installation has of these command lines.
const PAGES: CommandPages = CommandPages {
    names: FACES,
    manuals: pages::manual_pages,
    completion: pages::shell_completion,
};

/// Further names of launchers, as distributions and other launchers have them.
const OTHER_FACES: [(&str, &str); 10] = [
    (mpiexec::APRUN, mpiexec::APRUN),
    (mpiexec::JSRUN, mpiexec::JSRUN),
    ("oshrun", mpiexec::ORTERUN),
    ("prun", mpiexec::PRTERUN),
    (mpiexec::ORTERUN, mpiexec::ORTERUN),
    ("mpirun.openmpi", mpiexec::ORTERUN),
    ("mpiexec.openmpi", mpiexec::ORTERUN),
    ("mpirun.mpich", "mpiexec.hydra"),
    ("mpiexec.mpich", "mpiexec.hydra"),
    ("mpirun.hydra", "mpiexec.hydra"),
];

/// Names of this program under which it reads the command line of Hydra.
pub(crate) const FACES: &[&str] =
    &["mpiexec", "mpirun", "mpiexec.hydra", mpiexec::PRTERUN, mpiexec::SRUN];

const SECRET_FILE: &str = "secret-file";
const SHORT: &str = "short";
