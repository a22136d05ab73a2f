//! The command line of Hydra, which many scripts are written in: `mpiexec` and `mpirun`.
//!
//! Its words fill the same settings as those of `run`. An option has the meaning it has there; what cannot
//! be had is refused with a sentence, and never ignored. Options of ours (with two dashes) work here too.
//!
//! Options in front of a program hold for it alone if they are local in Hydra (`-n`, `-env` and its family,
//! `-wdir`), and for the whole run otherwise, wherever they stand.

mod hosts;
mod table;

pub use table::{HydraOption, OPTIONS, Takes};

use super::args::{self, PartArgs, RunArgs, Said, Task};
use super::layers::Origin;
use super::options;
use super::usage::{UsageError, nearest};
use super::words;
use crate::settings::Settings;
use clap::{Arg, ArgAction, Command};
use hosts::Host;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use table::Does;

/// What the meaning of words depends on.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// The name of this node.
    pub host: &'a str,
    /// Our environment.
    pub variables: &'a [(OsString, OsString)],
    /// Reads a file.
    pub read: fn(&Path) -> io::Result<String>,
}

/// Reads the words behind `mpiexec`.
///
/// Errors: [`UsageError`], which is exit code 2.
pub fn parse(words: Vec<OsString>, around: &Surroundings<'_>) -> Result<RunArgs, UsageError> {
    let mut typed = Reader::new(around, Origin::Typed);
    typed.take_all(words)?;
    let mut reader = Reader::new(around, Origin::Default);
    reader.take_variables()?;
    if let Some((file, is_named)) = typed.config_file.clone().map(|f| (f, true)).or_else(|| {
        let named = reader.config_file.take();
        let home = || Some(Path::new(&hosts::variable(around.variables, "HOME")?).join(OWN_FILE));
        named.or_else(|| home().map(Into::into)).map(|file| (file, false))
    }) {
        match (around.read)(Path::new(&file)) {
            Ok(text) => reader.take_file(&file, &text)?,
            // Hydra takes one of these only if it is there.
            Err(_) if !is_named => {}
            Err(error) => return Err(unreadable("-configfile", &file, &error)),
        }
    }
    reader.join(typed)?;
    reader.finish()
}

/// `mpiexec`, as completions and the man page know it. There all options have two dashes, which work too.
pub fn define(name: &'static str) -> Command {
    let command = Command::new(name)
        .about("Start the ranks of a program, with the command line of Hydra")
        .disable_help_flag(true);
    let command = OPTIONS.iter().fold(command, |command, option| {
        let letter = option.names.iter().find(|name| name.len() == 1);
        let letter = letter.and_then(|name| name.chars().next());
        let mut words = option.names.iter().copied().filter(|name| name.len() > 1);
        let arg = Arg::new(option.names[0]).help(option.meaning());
        let arg = letter.into_iter().fold(arg, Arg::short);
        let arg = words
            .next()
            .into_iter()
            .fold(arg, Arg::long)
            .visible_aliases(words.collect::<Vec<_>>());
        command.arg(match option.takes {
            Takes::Nothing => arg.action(ArgAction::SetTrue),
            Takes::Word => arg.value_name("VALUE"),
            Takes::Pair => arg.value_names(["NAME", "VALUE"]).num_args(2),
        })
    });
    command.arg(
        Arg::new("PROGRAM")
            .value_hint(clap::ValueHint::CommandWithArguments)
            .trailing_var_arg(true)
            .num_args(0..)
            .help("the program and its arguments; ':' begins the next one"),
    )
}

/// What was read so far.
struct Reader<'a> {
    around: &'a Surroundings<'a>,
    origin: Origin,
    args: RunArgs,
    hosts: Option<Vec<Host>>,
    per_node: Option<u32>,
    wants_system_universe: bool,
    config_file: Option<OsString>,
}

impl<'a> Reader<'a> {
    fn new(around: &'a Surroundings<'a>, origin: Origin) -> Self {
        Self {
            around,
            origin,
            args: RunArgs::default(),
            hosts: None,
            per_node: None,
            wants_system_universe: false,
            config_file: None,
        }
    }

    /// Takes a whole command line.
    fn take_all(&mut self, words: Vec<OsString>) -> Result<(), UsageError> {
        let mut words = words.into_iter().peekable();
        let mut is_behind_colon = false;
        while words.peek().is_some() || is_behind_colon {
            let mut part = PartArgs::default();
            let is_option = |word: &OsString| word.len() > 1 && word.as_bytes()[0] == b'-';
            while let Some(word) = words.next_if(is_option) {
                if word == "--" {
                    break;
                }
                self.take_option(&word, &mut words, &mut part)?;
            }
            while let Some(word) = words.next_if(|word| word != NEXT) {
                part.words.push(word);
            }
            let says_something = !part.words.is_empty() || !part.said.is_empty();
            let was_behind_colon = std::mem::replace(&mut is_behind_colon, words.next().is_some());
            if says_something || was_behind_colon || is_behind_colon {
                self.args.parts.push(part);
            }
        }
        Ok(())
    }

    fn take_option(
        &mut self,
        word: &OsStr,
        words: &mut impl Iterator<Item = OsString>,
        part: &mut PartArgs,
    ) -> Result<(), UsageError> {
        let bytes = word.as_bytes();
        let bare = bytes.strip_prefix(b"--").unwrap_or(&bytes[1..]);
        let end = bare.iter().position(|byte| *byte == b'=').unwrap_or(bare.len());
        let (name, attached) = (String::from_utf8_lossy(&bare[..end]), bare.get(end + 1..));
        let found = OPTIONS.iter().find(|option| option.names.contains(&&*name));
        let Some(option) = found else { return self.take_ours(word, &name, attached, words) };
        let mut next = |value: &str| {
            words.next().ok_or_else(|| UsageError::MissingValue {
                option: format!("-{name}"),
                value: value.to_owned(),
            })
        };
        let mut value = match (option.takes, attached) {
            (Takes::Nothing, None) => OsString::new(),
            (Takes::Nothing, Some(_)) => {
                return Err(UsageError::NeedlessValue { option: format!("-{name}") });
            }
            (_, Some(attached)) => OsString::from_vec(attached.to_vec()),
            (Takes::Word, None) => next("a value")?,
            (Takes::Pair, None) => next("a name and a value")?,
        };
        if option.takes == Takes::Pair && !value.as_bytes().contains(&b'=') {
            value.push("=");
            value.push(next("a name and a value")?);
        }
        self.take(option, &name, &value, part)
    }

    /// An option of `run`, which has two dashes.
    fn take_ours(
        &mut self,
        word: &OsStr,
        name: &str,
        attached: Option<&[u8]>,
        words: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), UsageError> {
        let is_long = word.as_bytes().starts_with(b"--");
        let takes_value = args::takes_value(name).filter(|_| is_long);
        let Some(takes_value) = takes_value else {
            let ours = options::all().map(|option| format!("--{}", option.name));
            let known = OPTIONS.iter().flat_map(|option| option.names);
            let known = known.map(|name| format!("-{name}")).chain(ours);
            let got = word.to_string_lossy().into_owned();
            return Err(UsageError::UnknownOption { nearest: nearest(&got, known), got });
        };
        let mut ours = vec![word.to_owned()];
        if takes_value && attached.is_none() {
            ours.extend(words.next());
        }
        let parsed = args::parse(ours)?;
        self.args.said.extend(parsed.said);
        self.args.config = parsed.config.or(self.args.config.take());
        if parsed.task != Task::Start {
            self.args.task = parsed.task;
        }
        Ok(())
    }

    fn take(
        &mut self,
        option: &HydraOption,
        name: &str,
        value: &OsStr,
        part: &mut PartArgs,
    ) -> Result<(), UsageError> {
        let shown = format!("-{name} {}", value.display());
        let wrong = |why: String| UsageError::Value { said: shown.trim_end().to_owned(), why };
        match option.does {
            Does::Whole(ours, reword) => {
                let said = self.said(ours, reword(value).map_err(wrong)?, &wrong)?;
                self.args.said.push(said);
            }
            Does::Own(ours, reword) => {
                let said = self.said(ours, reword(value).map_err(wrong)?, &wrong)?;
                part.said.push(said);
            }
            Does::Hosts => self.hosts = Some(hosts::list(&value.to_string_lossy()).map_err(wrong)?),
            Does::HostFile if value == USE_LOCALHOST => {
                self.hosts = Some(vec![Host { name: String::new(), slots: 1 }]);
            }
            Does::HostFile => {
                let text = (self.around.read)(Path::new(value));
                let text = text.map_err(|error| unreadable(&format!("-{name}"), value, &error))?;
                self.hosts = Some(hosts::file(&text).map_err(wrong)?);
            }
            Does::PerNode => match value.to_str().and_then(|value| value.parse().ok()) {
                Some(ranks) if ranks > 0 => self.per_node = Some(ranks),
                _ => return Err(wrong("that is not a number of ranks; try '4'".into())),
            },
            Does::Universe => match value.to_str() {
                Some("SYSTEM") => self.wants_system_universe = true,
                known => {
                    self.wants_system_universe = false;
                    let value =
                        if known == Some("INFINITE") { "endless".into() } else { value.into() };
                    let said = self.said("universe", value, &wrong)?;
                    self.args.said.push(said);
                }
            },
            Does::ConfigFile => self.config_file = Some(value.to_owned()),
            Does::Verbose => {
                for (ours, value) in
                    [("env-report", "true"), ("display", "map"), ("print-all-exitcodes", "true")]
                {
                    let said = self.said(ours, value.into(), &wrong)?;
                    self.args.said.push(said);
                }
            }
            Does::Only(values, why) if !values.iter().any(|known| value == *known) => {
                return Err(wrong(why.to_owned()));
            }
            Does::Only(..) => {}
            Does::RankMap => rank_map(&value.to_string_lossy()).map_err(wrong)?,
            Does::Info => self.args.task = Task::Info,
            Does::Help => self.args.task = Task::MpiexecHelp,
            Does::Refused(why) => return Err(wrong(why.to_owned())),
        }
        Ok(())
    }

    fn said(
        &self,
        ours: &str,
        value: OsString,
        wrong: &dyn Fn(String) -> UsageError,
    ) -> Result<Said, UsageError> {
        let option = options::named(ours).expect("the table of Hydra's options names ours");
        option.set(&mut Settings::default(), &value).map_err(wrong)?;
        Ok(Said { option, value, origin: self.origin.clone() })
    }

    /// Hydra's own variables.
    fn take_variables(&mut self) -> Result<(), UsageError> {
        let own = OPTIONS.iter().filter_map(|option| Some((option.variable?, option.names[0])));
        for (variable, name) in own.chain(table::VARIABLES.iter().copied()) {
            let Some(value) = hosts::variable(self.around.variables, variable) else { continue };
            self.origin = Origin::Variable(variable.to_owned());
            let option = OPTIONS.iter().find(|option| option.names[0] == name);
            let option = option.expect("the table names an option of its own");
            // A flag is on or off there.
            let is_off = ["0", "no", "false", "off"].contains(&&*value);
            if option.takes == Takes::Nothing && is_off {
                continue;
            }
            let value = if option.takes == Takes::Nothing { OsString::new() } else { value.into() };
            let taken = self.take(option, name, &value, &mut PartArgs::default());
            taken.map_err(|error| UsageError::Other { what: format!("{variable}: {error}") })?;
        }
        if let Some(value) = hosts::variable(self.around.variables, "HYDRA_ENV") {
            self.origin = Origin::Variable("HYDRA_ENV".to_owned());
            let value = if value == "all" { "all" } else { "none" };
            let said = self.said("inherit", value.into(), &|what| UsageError::Other { what })?;
            self.args.said.push(said);
        }
        Ok(())
    }

    /// A file of words, in which a line end stands for a colon.
    fn take_file(&mut self, file: &OsStr, text: &str) -> Result<(), UsageError> {
        self.origin = Origin::File(file.into());
        let wrong =
            |what: String| UsageError::Other { what: format!("'{}': {what}", file.display()) };
        let mut words: Vec<OsString> = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            if line.is_empty() {
                continue;
            }
            if !words.is_empty() && words.last().is_none_or(|word| word != NEXT) {
                words.push(NEXT.into());
            }
            words.extend(words::split(line).map_err(wrong)?.into_iter().map(OsString::from));
        }
        self.take_all(words).map_err(|error| wrong(error.to_string()))
    }

    /// Puts what was typed behind what variables and a file say.
    fn join(&mut self, typed: Self) -> Result<(), UsageError> {
        let Self { args, hosts, per_node, wants_system_universe, .. } = typed;
        let RunArgs { said, parts, config, task, .. } = args;
        let has_program = |parts: &[PartArgs]| parts.iter().any(|part| !part.words.is_empty());
        match (has_program(&parts), has_program(&self.args.parts)) {
            (true, true) => {
                let what = "there are programs in the -configfile and on the command line; name them in \
                            one place";
                return Err(UsageError::Other { what: what.to_owned() });
            }
            (false, true) => {
                // Local options without a program hold for those of the file.
                self.args.said.extend(parts.into_iter().flat_map(|part| part.said));
            }
            (_, false) => self.args.parts = parts,
        }
        self.args.said.extend(said);
        (self.args.config, self.args.task) = (config, task);
        self.hosts = hosts.or(self.hosts.take());
        self.per_node = per_node.or(self.per_node);
        self.wants_system_universe |= wants_system_universe;
        Ok(())
    }

    /// Settles what depends on several options.
    fn finish(mut self) -> Result<RunArgs, UsageError> {
        let around = self.around;
        let named = self.hosts.take();
        let given = named.map(|hosts| (None, hosts)).or_else(|| {
            let variable = |name: &str| hosts::variable(around.variables, name);
            let read = |file: &str| (around.read)(Path::new(file)).ok();
            hosts::of_batch_system(variable, read).map(|(system, hosts)| (Some(system), hosts))
        });
        let slots = match &given {
            Some((system, hosts)) => {
                check(hosts, *system, around.host)?;
                let all = hosts.iter().map(|host| self.per_node.unwrap_or(host.slots));
                Some(all.fold(0, u32::saturating_add))
            }
            None => self.per_node,
        };
        let wrong = |what: String| UsageError::Other { what };
        self.origin = Origin::Default;
        let mut weakest = vec![
            self.said("ranks", slots.unwrap_or(1).max(1).to_string().into(), &wrong)?,
            self.said("universe", "endless".into(), &wrong)?,
        ];
        if self.wants_system_universe {
            let ranks: u32 = self.args.parts.iter().map(|part| ranks(part, slots)).sum();
            let universe = slots.unwrap_or(1).max(ranks).max(1);
            self.origin = Origin::Typed;
            weakest.push(self.said("universe", universe.to_string().into(), &wrong)?);
        }
        self.args.weakest = weakest;
        self.args.needs_program = true;
        Ok(self.args)
    }
}

/// How many ranks a part has, as far as that was said.
fn ranks(part: &PartArgs, slots: Option<u32>) -> u32 {
    let mut own = Settings::default();
    // What is wrong with one of them was told when it was read.
    part.said.iter().for_each(|said| drop(said.apply(&mut own)));
    own.job.ranks.or(slots).unwrap_or(1)
}

/// Refuses hosts other than this one.
fn check(hosts: &[Host], system: Option<&str>, host: &str) -> Result<(), UsageError> {
    let Some(other) = hosts.iter().find(|one| !hosts::is_here(&one.name, host)) else {
        return Ok(());
    };
    let other = &other.name;
    let what = match system {
        None => format!(
            "'{other}' is another host, and ranks are started on '{host}' only; name '{host}' alone, or \
             start those of '{other}' there and let them dial in ('--listen')"
        ),
        Some(system) => format!(
            "{system} has given {} nodes ({other}), and ranks are started on '{host}' only; say '-hosts \
             {host}' to use this one alone, or let the others dial in ('--listen')",
            hosts.len()
        ),
    };
    Err(UsageError::Other { what })
}

/// A list of nodes for ranks, or of blocks of them, in which all must be the first node.
fn rank_map(text: &str) -> Result<(), String> {
    let inner = text.strip_prefix("(vector,").and_then(|rest| rest.strip_suffix(')'));
    let inner = inner.unwrap_or(text);
    let elsewhere =
        "ranks are started on this node only, which is number 0; leave it out".to_owned();
    let number =
        |text: &str| text.trim().parse::<u32>().map_err(|_| "that is no map of ranks".to_owned());
    let mut rest = inner;
    while !rest.is_empty() {
        let piece = match rest.strip_prefix('(') {
            Some(block) => {
                let (block, behind) = block.split_once(')').ok_or("that is no map of ranks")?;
                rest = behind;
                let numbers: Vec<u32> = block.split(',').map(number).collect::<Result<_, _>>()?;
                match numbers[..] {
                    [first, nodes, _] if nodes > 0 => first + (nodes - 1),
                    _ => return Err("that is no map of ranks".to_owned()),
                }
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (one, behind) = rest.split_at(end);
                rest = behind;
                number(one)?
            }
        };
        if piece != 0 {
            return Err(elsewhere);
        }
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    Ok(())
}

fn unreadable(option: &str, file: &OsStr, error: &io::Error) -> UsageError {
    let why = format!("it cannot be read ({error})");
    UsageError::Value { said: format!("{option} {}", file.display()), why }
}

/// What `-info` prints.
pub fn info(host: &str) -> String {
    format!(
        "pmi-host {} as mpiexec, with Hydra's command line\n\
         \x20   starts ranks on:      this node only ({host}); others dial in ('--listen')\n\
         \x20   batch systems:        their nodes are refused unless there is one\n\
         \x20   process managers:     PMI-1, PMI-2\n\
         \x20   topology:             from the system itself\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// The word between two programs.
const NEXT: &str = ":";

/// Hydra's word for this node where a file is expected.
const USE_LOCALHOST: &str = "HYDRA_USE_LOCALHOST";

/// Hydra's file in the home folder.
const OWN_FILE: &str = ".mpiexec.hydra.conf";
