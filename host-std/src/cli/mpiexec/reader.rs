//! Reader of Hydra's words, which translates them into options of `run`.

use super::intel::Pinning;
use super::parameters::{self, ParameterEffect};
use super::step_gpus::{StepGpus, StepSize};
use super::table::{self, Expand, FollowingWords, HydraEffect, HydraOption};
use super::{
    MPIRUN, ReadContext, SRUN, all, families, gtool, intel, multi_prog, policies, rankfile,
    slurm_values, variable_of,
};
use crate::cli::args::{self, DefaultRanks, GivenOption, PartArgs, Personality, RunArgs, Task};
use crate::cli::foreign;
use crate::cli::layers::{Origin, PERSONALITY};
use crate::cli::nearest::remedy;
use crate::cli::options;
use crate::launch::topology::machine;
use crate::settings::Settings;
use crate::settings::placement::Unit;
use pmi_host_base::usage::UsageError;
use pmi_host_base::words;
use pmi_host_hardware::linux::Wanted;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// State of the reader.
pub(super) struct HydraReader<'a> {
    context: &'a ReadContext<'a>,
    origin: Origin,
    args: RunArgs,
    /// Path of the file of words, if given.
    pub(super) config_file: Option<OsString>,
    /// Launcher whose meaning counts, if given.
    launcher: Option<Personality>,
    /// Pieces of this machine that take a rank each under Open MPI.
    slots: Option<Unit>,
    /// Processors by which Open MPI numbers ranks.
    rank_by: Option<String>,
    /// Defaults that other options override.
    weak: Vec<GivenOption>,
    /// Defaults of options with an effect of their own, which the others override, too.
    weakest: Vec<GivenOption>,
    /// GPUs of a step.
    gpus: StepGpus,
    /// Number of ranks for each GPU of a host.
    ranks_of_gpu: Option<u32>,
    /// True if a file names the programs.
    has_program_file: bool,
}

impl<'a> HydraReader<'a> {
    pub(super) fn new(context: &'a ReadContext<'a>, origin: Origin) -> Self {
        Self {
            context,
            origin,
            args: RunArgs::default(),
            config_file: None,
            launcher: None,
            slots: None,
            rank_by: None,
            weak: Vec::new(),
            weakest: Vec::new(),
            gpus: StepGpus::default(),
            ranks_of_gpu: None,
            has_program_file: false,
        }
    }

    fn options(&self) -> impl Iterator<Item = &'static HydraOption> + use<'a> {
        all(self.context.name)
    }

    fn is_slurm(&self) -> bool {
        self.context.name == SRUN
    }

    /// True if the options are those of one launcher alone.
    fn has_own_line(&self) -> bool {
        families(self.context.name).len() == 1
    }

    /// Dashes before the name of an option in messages.
    fn dashes(&self, name: &str) -> &'static str {
        if self.has_own_line() && name.len() > 1 { "--" } else { "-" }
    }

    /// Reads a whole command line.
    pub(super) fn read_words(&mut self, words: Vec<OsString>) -> Result<(), UsageError> {
        let mut words = words.into_iter().peekable();
        let mut is_behind_colon = false;
        while words.peek().is_some() || is_behind_colon {
            let mut part = PartArgs::default();
            let is_option = |word: &OsString| word.len() > 1 && word.as_bytes()[0] == b'-';
            while let Some(word) = words.next_if(is_option) {
                if word == "--" {
                    break;
                }
                self.read_option(&word, &mut words, &mut part)?;
            }
            while let Some(word) = words.next_if(|word| word != NEXT) {
                part.words.push(word);
            }
            let says_something = !part.words.is_empty() || !part.given.is_empty();
            let was_behind_colon = std::mem::replace(&mut is_behind_colon, words.next().is_some());
            if says_something || was_behind_colon || is_behind_colon {
                self.args.parts.push(part);
            }
        }
        Ok(())
    }

    fn read_option(
        &mut self,
        word: &OsStr,
        words: &mut impl Iterator<Item = OsString>,
        part: &mut PartArgs,
    ) -> Result<(), UsageError> {
        let bytes = word.as_bytes();
        if self.is_slurm() && !bytes.starts_with(b"--") {
            return self.read_letters(word, words, part);
        }
        let bare = bytes.strip_prefix(b"--").unwrap_or(&bytes[1..]);
        let end = bare.iter().position(|byte| *byte == b'=').unwrap_or(bare.len());
        let (mut name, mut attached) =
            (String::from_utf8_lossy(&bare[..end]).into_owned(), bare.get(end + 1..));
        if self.is_slurm() {
            // Old scripts write the names with underscores.
            name = name.replace('_', "-");
        } else if let Some(letters) = with_number(bare).filter(|_| !bytes.starts_with(b"--")) {
            (name, attached) = (letters.to_owned(), Some(&bare[letters.len()..]));
        }
        let found = self.options().find(|option| option.names.contains(&&*name));
        // With two dashes, an option of 'run' that takes a value is meant, as '--gdb 0'.
        let is_own = |option: &&HydraOption| {
            let takes_value = args::takes_value(&name) == Some(true);
            let is_bare = bytes.starts_with(b"--") && option.words == FollowingWords::Nothing;
            is_bare && takes_value && !self.has_own_line()
        };
        let Some(option) = found.filter(|option| !is_own(option)) else {
            return self.read_own_option(word, &name, attached, words, part);
        };
        let mut next = |value: &str| {
            words.next().ok_or_else(|| UsageError::MissingValue {
                option: format!("{}{name}", self.dashes(&name)),
                value: value.to_owned(),
            })
        };
        let mut value = match (option.words, attached) {
            (FollowingWords::Nothing, None) => OsString::new(),
            (FollowingWords::Nothing, Some(_)) => {
                let option = format!("{}{name}", self.dashes(&name));
                return Err(UsageError::NeedlessValue { option });
            }
            (_, Some(attached)) => OsString::from_vec(attached.to_vec()),
            (FollowingWords::Optional, None) => OsString::new(),
            (FollowingWords::Word, None) => next("a value")?,
            (FollowingWords::Pair, None) => next("a name and a value")?,
        };
        if option.words == FollowingWords::Pair && !value.as_bytes().contains(&b'=') {
            value.push("=");
            value.push(next("a name and a value")?);
        }
        self.apply_option(option, &name, &value, part)
    }

    /// Reads a word of letters, of which the last may have a value in the same word or in the next one.
    fn read_letters(
        &mut self,
        word: &OsStr,
        words: &mut impl Iterator<Item = OsString>,
        part: &mut PartArgs,
    ) -> Result<(), UsageError> {
        let mut rest = &word.as_bytes()[1..];
        while let Some((letter, behind)) = rest.split_first() {
            let name = char::from(*letter).to_string();
            let Some(option) = self.options().find(|option| option.names.contains(&&*name)) else {
                let name = &word.to_string_lossy()[1..];
                return self.read_own_option(word, name, None, words, part);
            };
            rest = if option.words == FollowingWords::Nothing { behind } else { &[] };
            let value = match option.words {
                FollowingWords::Nothing => OsString::new(),
                FollowingWords::Word | FollowingWords::Pair if behind.is_empty() => {
                    words.next().ok_or_else(|| UsageError::MissingValue {
                        option: format!("-{name}"),
                        value: "a value".to_owned(),
                    })?
                }
                _ => OsString::from_vec(behind.to_vec()),
            };
            self.apply_option(option, &name, &value, part)?;
        }
        Ok(())
    }

    /// Reads an option of `run`, which has two dashes.
    fn read_own_option(
        &mut self,
        word: &OsStr,
        name: &str,
        attached: Option<&[u8]>,
        words: &mut impl Iterator<Item = OsString>,
        part: &mut PartArgs,
    ) -> Result<(), UsageError> {
        let is_long = word.as_bytes().starts_with(b"--");
        let takes_value = args::takes_value(name).filter(|_| is_long);
        let Some(takes_value) = takes_value else {
            let ours = options::all().map(|option| format!("--{}", option.name));
            let known = self.options().flat_map(|option| option.names);
            let known = known.map(|name| format!("{}{name}", self.dashes(name))).chain(ours);
            let got = word.to_string_lossy().into_owned();
            let list = match self.has_own_line() {
                true => format!("{} --help", self.context.name),
                false => "pmi-host help mpiexec".to_owned(),
            };
            let foreign = if self.has_own_line() { None } else { foreign::answer(&got) };
            let remedy = foreign.unwrap_or_else(|| remedy(&got, known, &list));
            return Err(UsageError::UnknownOption { remedy, got });
        };
        let mut ours = vec![word.to_owned()];
        if takes_value && attached.is_none() {
            ours.extend(words.next());
        }
        let parsed = args::parse(ours)?;
        for given in parsed.given {
            self.add_option(given, part);
        }
        self.args.config = parsed.config.or(self.args.config.take());
        if parsed.task != Task::Start {
            self.args.task = parsed.task;
        }
        Ok(())
    }

    fn apply_option(
        &mut self,
        option: &HydraOption,
        name: &str,
        value: &OsStr,
        part: &mut PartArgs,
    ) -> Result<(), UsageError> {
        let shown = format!("{}{name} {}", self.dashes(name), value.display());
        let wrong = |why: String| UsageError::Value { given: shown.trim_end().to_owned(), why };
        match option.effect {
            HydraEffect::Whole(ours, reword) => {
                let given = self.given_option(ours, reword(value).map_err(wrong)?, &wrong)?;
                self.args.given.push(given);
            }
            HydraEffect::Own(ours, reword) => {
                let given = self.given_option(ours, reword(value).map_err(wrong)?, &wrong)?;
                let is_repeated =
                    |old: &&GivenOption| old.option.name == ours && old.value != given.value;
                // Only the user knows which of the two values is meant.
                if let Some(old) =
                    part.given.iter().find(is_repeated).filter(|_| ONCE.contains(&ours))
                {
                    let old = old.value.display();
                    return Err(wrong(format!(
                        "it was '{old}' before; specify it once for each \
                    program"
                    )));
                }
                part.given.push(given);
            }
            HydraEffect::OwnIfLater(ours, reword) => {
                let given = self.given_option(ours, reword(value).map_err(wrong)?, &wrong)?;
                self.place_option(given, part);
            }
            HydraEffect::HostFile => {
                let (ours, value) = match value == USE_LOCALHOST {
                    true => ("hosts", "localhost".into()),
                    false => ("hostfile", value.to_owned()),
                };
                let given = self.given_option(ours, value, &wrong)?;
                self.place_option(given, part);
            }
            HydraEffect::ConfigFile => self.config_file = Some(value.to_owned()),
            HydraEffect::Several(all) => {
                for (ours, reword) in all {
                    let given = self.given_option(ours, reword(value).map_err(wrong)?, &wrong)?;
                    self.args.given.push(given);
                }
            }
            HydraEffect::Options(_, expand) | HydraEffect::WithDefaults(_, expand, _) => {
                for (ours, value) in expand(value, self.context).map_err(wrong)? {
                    match ours {
                        policies::PARAMETER => self.apply_parameter(&value, part)?,
                        policies::WITHOUT_EFFECT => {
                            let what = format!("{} of '{shown}'", value.display());
                            self.args.without_effect.push(what);
                        }
                        policies::PER_GPU => {
                            self.ranks_of_gpu = value.to_str().and_then(|ranks| ranks.parse().ok());
                        }
                        _ => {
                            let given = self.given_option(ours, value, &wrong)?;
                            self.add_option(given, part);
                        }
                    }
                }
                if let HydraEffect::WithDefaults(_, _, defaults) = option.effect {
                    let defaults = self.defaults(defaults, value, &wrong)?;
                    self.weakest.extend(defaults);
                }
            }
            HydraEffect::OwnOptions(_, expand) => {
                let is_own = self.known_launcher() == Some(Personality::OpenMpi);
                for (ours, value) in expand(value, self.context).map_err(wrong)? {
                    let given = self.given_option(ours, value, &wrong)?;
                    match is_own {
                        true => part.given.push(given),
                        false => self.place_option(given, part),
                    }
                }
            }
            HydraEffect::Weak(_, expand) => {
                let defaults = self.defaults(expand, value, &wrong)?;
                self.weak.extend(defaults);
            }
            HydraEffect::StepGpus(_, take) => take(&mut self.gpus, value).map_err(wrong)?,
            HydraEffect::OfAllocation => {
                let is_allocated = ALLOCATIONS
                    .iter()
                    .any(|name| variable_of(self.context.variables, name).is_some());
                if !is_allocated {
                    self.args.without_effect.push(format!("'{}'", shown.trim_end()));
                }
            }
            HydraEffect::WithoutEffect(remedy) => {
                let remedy = if remedy.is_empty() { String::new() } else { format!(" ({remedy})") };
                self.args.without_effect.push(format!("'{}'{remedy}", shown.trim_end()));
            }
            HydraEffect::Tool => {
                let text = value.to_str().ok_or_else(|| wrong("that is not text".to_owned()))?;
                self.args.tools.extend(gtool::tools(text).map_err(wrong)?);
            }
            HydraEffect::Terminals => {
                let text = value.to_str().ok_or_else(|| wrong("that is not text".to_owned()))?;
                self.args.tools.push(gtool::terminals(text).map_err(wrong)?);
            }
            HydraEffect::ToolFile => {
                let text = self.read_named(value, &wrong)?;
                self.args.tools.extend(gtool::of_file(&text).map_err(wrong)?);
            }
            HydraEffect::RankFile => {
                let text = self.read_named(value, &wrong)?;
                for (ours, value) in rankfile::options(&text).map_err(wrong)? {
                    let given = self.given_option(ours, value, &wrong)?;
                    self.args.given.push(given);
                }
            }
            HydraEffect::MpiType if value == "list" => self.args.task = Task::MpiTypes,
            HydraEffect::MpiType => {
                for (ours, value) in slurm_values::mpi(value, self.context).map_err(wrong)? {
                    let given = self.given_option(ours, value, &wrong)?;
                    self.args.given.push(given);
                }
            }
            HydraEffect::MultiProgram => self.has_program_file = true,
            HydraEffect::Personality => {
                let known = PERSONALITIES.iter().find(|(name, _)| value == *name);
                let known = known.ok_or_else(|| {
                    wrong("there are 'hydra', 'intel', 'ompi' and 'pals'".to_owned())
                })?;
                self.launcher = Some(known.1);
            }
            HydraEffect::RankBy => {
                let text = value.to_str().unwrap_or_default().to_ascii_lowercase();
                if !["slot", "fill", "core", "hwthread"].contains(&&*text) {
                    return Err(wrong(RANKS_AS_PLACED.to_owned()));
                }
                self.rank_by = Some(text);
            }
            HydraEffect::HwThreads => self.slots = Some(Unit::HwThread),
            HydraEffect::Preview => self.args.task = Task::Preview,
            HydraEffect::Only(values, why) if !values.iter().any(|known| value == *known) => {
                return Err(wrong(why.to_owned()));
            }
            HydraEffect::Only(..) => {}
            HydraEffect::Info => self.args.task = Task::Info(self.shown_launcher()),
            HydraEffect::Help => self.args.task = Task::LauncherHelp(self.shown_launcher()),
            HydraEffect::Refused(why) => return Err(wrong(why.to_owned())),
        }
        Ok(())
    }

    /// Launcher whose meaning counts, as far as it has been named.
    fn known_launcher(&self) -> Option<Personality> {
        let of_variable = || {
            let name = variable_of(self.context.variables, PERSONALITY)?;
            PERSONALITIES.iter().find(|(known, _)| *known == name).map(|(_, launcher)| *launcher)
        };
        self.launcher.or_else(|| self.context.launcher()).or_else(of_variable)
    }

    /// Launcher whose version is shown. A name that launchers share is taken for the one that has it first.
    fn shown_launcher(&self) -> Personality {
        let of_name =
            if self.context.name == MPIRUN { Personality::OpenMpi } else { Personality::Hydra };
        self.launcher.or_else(|| self.context.launcher()).unwrap_or(of_name)
    }

    /// Options that others override.
    fn defaults(
        &self,
        expand: Expand,
        value: &OsStr,
        wrong: &dyn Fn(String) -> UsageError,
    ) -> Result<Vec<GivenOption>, UsageError> {
        let found = expand(value, self.context).map_err(wrong)?;
        found.into_iter().map(|(ours, value)| self.given_option(ours, value, wrong)).collect()
    }

    /// Adds the options for the GPUs of a step, of which its other options say the size.
    fn add_step_gpus(&mut self) -> Result<(), UsageError> {
        let wrong = |what: String| UsageError::Other { what };
        let number = |given: &[GivenOption], name| {
            let last = given.iter().rfind(|one| one.option.name == name)?;
            last.value.to_str()?.parse().ok()
        };
        let nodes = number(&self.args.given, "nodes")
            .or_else(|| variable_of(self.context.variables, "SLURM_JOB_NUM_NODES")?.parse().ok());
        let ranks = self.args.parts.iter().map(|part| number(&part.given, "ranks"));
        let ranks = ranks.collect::<Option<Vec<u32>>>().filter(|all| !all.is_empty());
        let size = StepSize {
            nodes: nodes.unwrap_or(1),
            ranks: ranks.map(|all| all.iter().fold(0_u32, |sum, one| sum.saturating_add(*one))),
        };
        let gpus = std::mem::take(&mut self.gpus);
        let found = gpus.options(size).map_err(wrong)?;
        self.args.without_effect.extend(gpus.without_effect);
        for (ours, value) in found.given {
            let given = self.given_option(ours, value, &wrong)?;
            match self.args.parts.first_mut() {
                Some(part) if ours == "ranks" => part.given.push(given),
                _ => self.args.given.push(given),
            }
        }
        for (ours, value) in found.weak {
            let given = self.given_option(ours, value, &wrong)?;
            self.weak.push(given);
        }
        Ok(())
    }

    /// Adds the options for a number of ranks near each GPU. This host, or its description, says how many
    /// GPUs there are.
    fn add_ranks_of_gpus(&mut self) -> Result<(), UsageError> {
        let wrong = |what: String| UsageError::Other { what };
        let Some(ranks) = self.ranks_of_gpu else { return Ok(()) };
        let named = self.args.given.iter().rfind(|one| one.option.name == "topology");
        let variable = |name: &str| self.variable_of_ranks(name);
        let gpus = match named {
            Some(file) => machine::of_file(Path::new(&file.value)).map(|mut hardware| {
                hardware.leave_out_by_variables(&variable);
                hardware
            }),
            None => {
                let wanted = Wanted { devices: true, ..Wanted::default() };
                machine::of_this_machine(wanted, &variable).map(|known| known.hardware)
            }
        };
        let gpus =
            gpus.map_err(|why| wrong(format!("GPUs of this host cannot be counted: {why}")))?;
        let gpus = u32::try_from(gpus.usable_gpus().len()).unwrap_or(u32::MAX);
        let all = match gpus {
            // Placement names the host that has none.
            0 => ranks,
            gpus => ranks.saturating_mul(gpus),
        };
        let [all, share] = [all, ranks].map(|number| OsString::from(number.to_string()));
        let found = [
            ("map-by", "gpu".into()),
            ("gpus-per-rank", "1".into()),
            ("gpu-share", share),
            ("ppn", all),
        ];
        for (ours, value) in found {
            let given = self.given_option(ours, value, &wrong)?;
            self.args.given.push(given);
        }
        Ok(())
    }

    /// Adds the options for the GPUs that variables of Intel MPI ask for.
    fn add_offload(&mut self) -> Result<(), UsageError> {
        let wrong = |what: String| UsageError::Other { what };
        match intel::offload(|name| self.variable_of_ranks(name)) {
            Ok(found) => {
                for (ours, value) in found {
                    let given = self.given_option(ours, value.into(), &wrong)?;
                    self.weakest.push(given);
                }
            }
            Err(variable) => {
                let what = format!("this value of {variable} ('--gpu-bind list:LIST' names GPUs)");
                self.args.without_effect.push(what);
            }
        }
        Ok(())
    }

    /// Drops an order of the processors of a host where ranks are not bound: it has no effect then, as under
    /// other launchers.
    fn drop_order_of_unbound(&mut self) {
        let last = |name| self.args.given.iter().rfind(|one| one.option.name == name);
        let is_unbound = last("bind-to").is_some_and(|one| one.value == "none");
        let orders = |one: &GivenOption| {
            let unit = policies::bound_by_map(&one.value, self.context);
            one.option.name == "map-by" && unit.is_ok_and(|unit| !unit.is_empty())
        };
        if is_unbound {
            let kept = { self.args.given.iter() }.filter(|one| !orders(one)).cloned().collect();
            self.args.given = kept;
        }
    }

    /// Applies a parameter of Open MPI's launcher, as `NAME=VALUE`, by the option that has its effect.
    fn apply_parameter(
        &mut self,
        parameter: &OsStr,
        part: &mut PartArgs,
    ) -> Result<(), UsageError> {
        let text = parameter.to_string_lossy();
        let (name, value) = text.split_once('=').unwrap_or((&text, ""));
        let wrong = |why: String| UsageError::Value { given: text.clone().into_owned(), why };
        let of_error = |error: UsageError| UsageError::Other { what: format!("'{text}': {error}") };
        let option = match parameters::effect(name, value) {
            ParameterEffect::Nothing => return Ok(()),
            ParameterEffect::Missing => {
                self.args.without_effect.push(format!("the parameter '{name}'"));
                return Ok(());
            }
            ParameterEffect::Option(option) => option,
        };
        if option == parameters::AGENT {
            for (ours, value) in policies::agent(value.as_ref()).map_err(&wrong)? {
                let given = self.given_option(ours, value, &wrong)?;
                self.args.given.push(given);
            }
            return Ok(());
        }
        if let Some(ours) = option.strip_prefix("--") {
            let given = self.given_option(ours, value.into(), &wrong)?;
            self.args.given.push(given);
            return Ok(());
        }
        let found = self.options().find(|known| known.names.contains(&option));
        let found = found.expect("the table of parameters names options");
        let value = if found.words == FollowingWords::Nothing { "" } else { value };
        self.apply_option(found, option, value.as_ref(), part).map_err(of_error)
    }

    fn read_named(
        &self,
        file: &OsStr,
        wrong: &dyn Fn(String) -> UsageError,
    ) -> Result<String, UsageError> {
        let text = (self.context.read)(Path::new(file));
        text.map_err(|error| wrong(format!("it cannot be read ({error})")))
    }

    /// Adds an option where it may stand: to the whole run, or to `part` if it is not the first.
    fn add_option(&mut self, given: GivenOption, part: &mut PartArgs) {
        match given.option.is_of_part {
            true => self.place_option(given, part),
            false => self.args.given.push(given),
        }
    }

    /// Adds an option to the whole run, or to `part` if it is not the first.
    fn place_option(&mut self, given: GivenOption, part: &mut PartArgs) {
        match self.args.parts.is_empty() {
            true => self.args.given.push(given),
            false => part.given.push(given),
        }
    }

    fn given_option(
        &self,
        ours: &str,
        value: OsString,
        wrong: &dyn Fn(String) -> UsageError,
    ) -> Result<GivenOption, UsageError> {
        let option = options::named(ours).expect("the table of Hydra's options names ours");
        option.set(&mut Settings::default(), &value).map_err(wrong)?;
        Ok(GivenOption { option, value, origin: self.origin.clone() })
    }

    /// Reads the variables of Hydra.
    pub(super) fn read_variables(&mut self) -> Result<(), UsageError> {
        self.read_parameters()?;
        let own = self.options().filter_map(|option| Some((option.variable?, option.names[0])));
        let others = if self.has_own_line() { &[][..] } else { table::VARIABLES };
        for (variable, name) in others.iter().copied().chain(own) {
            let Some(value) = variable_of(self.context.variables, variable) else { continue };
            self.origin = Origin::Variable(variable.to_owned());
            let option = self.options().find(|option| option.names[0] == name);
            let option = option.expect("the table names an option of its own");
            // The value of a flag's variable is on or off.
            let is_off = ["0", "no", "false", "off"].contains(&&*value);
            if option.words == FollowingWords::Nothing && is_off {
                continue;
            }
            let value = if option.words == FollowingWords::Nothing {
                OsString::new()
            } else {
                value.into()
            };
            let taken = self.apply_option(option, name, &value, &mut PartArgs::default());
            taken.map_err(|error| UsageError::Other { what: format!("{variable}: {error}") })?;
        }
        if let Some(value) =
            variable_of(self.context.variables, "HYDRA_ENV").filter(|_| !self.has_own_line())
        {
            self.origin = Origin::Variable("HYDRA_ENV".to_owned());
            let value = if value == "all" { "all" } else { "none" };
            let given =
                self.given_option("inherit", value.into(), &|what| UsageError::Other { what })?;
            self.args.given.push(given);
        }
        Ok(())
    }

    /// Reads variables that hold parameters of Open MPI's launchers.
    fn read_parameters(&mut self) -> Result<(), UsageError> {
        let is_hydra = matches!(
            self.known_launcher(),
            Some(Personality::Hydra | Personality::Intel | Personality::Pals)
        );
        if self.has_own_line() || is_hydra {
            return Ok(());
        }
        for (variable, value) in self.context.variables {
            let Some(variable) = variable.to_str() else { continue };
            let parameter =
                PARAMETER_FAMILIES.iter().find_map(|start| variable.strip_prefix(start));
            let Some(name) = parameter else { continue };
            let value = value.to_string_lossy();
            self.origin = Origin::Variable(variable.to_owned());
            let of_error =
                |error: String| UsageError::Other { what: format!("{variable}: {error}") };
            if name == "mca_base_env_list" {
                let found = policies::env_list(&value, self.context).map_err(of_error)?;
                for (ours, value) in found {
                    let given = self.given_option(ours, value, &of_error)?;
                    self.args.given.push(given);
                }
                continue;
            }
            match parameters::effect(name, &value) {
                // The starter reads these itself.
                ParameterEffect::Option(parameters::AGENT | "launcher-exec-args") => continue,
                ParameterEffect::Option(_) => {}
                // Most variables are for the libraries, and sites set others for all.
                ParameterEffect::Nothing | ParameterEffect::Missing => continue,
            }
            let taken =
                self.apply_parameter(format!("{name}={value}").as_ref(), &mut PartArgs::default());
            taken.map_err(|error| of_error(error.to_string()))?;
        }
        Ok(())
    }

    /// Reads a file of words, in which a line end stands for a colon.
    pub(super) fn read_file(&mut self, file: &OsStr, text: &str) -> Result<(), UsageError> {
        self.origin = Origin::File(file.into());
        let wrong =
            |what: String| UsageError::Other { what: format!("'{}': {what}", file.display()) };
        let mut words: Vec<OsString> = Vec::new();
        for line in words::lines(text) {
            if !words.is_empty() && words.last().is_none_or(|word| word != NEXT) {
                words.push(NEXT.into());
            }
            words.extend(words::split(&line).map_err(wrong)?.into_iter().map(OsString::from));
        }
        self.read_words(words).map_err(|error| wrong(error.to_string()))
    }

    /// Appends the words of the command line to those of variables and of a file.
    pub(super) fn join(&mut self, typed: Self) -> Result<(), UsageError> {
        let Self { args, launcher, slots, rank_by, weak, weakest, ranks_of_gpu, .. } = typed;
        self.has_program_file = typed.has_program_file;
        (self.weak, self.weakest) = (weak, weakest);
        self.ranks_of_gpu = ranks_of_gpu.or(self.ranks_of_gpu);
        self.gpus.override_by(typed.gpus);
        // A variable decides about names that launchers share, and between those that share Hydra.
        let named = self.context.launcher();
        let is_kept =
            named == Some(Personality::Hydra) && self.launcher == Some(Personality::Intel);
        let known = if is_kept { self.launcher } else { named.or(self.launcher) };
        self.launcher = launcher.or(known);
        self.slots = slots.or(self.slots);
        self.rank_by = rank_by.or(self.rank_by.take());
        let RunArgs { given, parts, config, task, tools, without_effect, .. } = args;
        self.args.tools.extend(tools);
        self.args.without_effect.extend(without_effect);
        let has_program = |parts: &[PartArgs]| parts.iter().any(|part| !part.words.is_empty());
        match (has_program(&parts), has_program(&self.args.parts)) {
            (true, true) => {
                let what = "there are programs in the -configfile and on the command line; name them in \
                            one place";
                return Err(UsageError::Other { what: what.to_owned() });
            }
            (false, true) => {
                // Local options without a program hold for those of the file.
                self.args.given.extend(parts.into_iter().flat_map(|part| part.given));
            }
            (_, false) => self.args.parts = parts,
        }
        self.args.given.extend(given);
        self.args.config = config;
        if task != Task::Start {
            self.args.task = task;
        }
        Ok(())
    }

    /// Adds the defaults of this command line.
    ///
    /// # Errors
    ///
    /// None; the values are valid.
    pub(super) fn finish(mut self) -> Result<RunArgs, UsageError> {
        let wrong = |what: String| UsageError::Other { what };
        self.origin = Origin::Default;
        let launcher = self.launcher.or_else(|| self.context.launcher());
        let weakest: &[(&str, &str)] = match launcher {
            Some(Personality::Slurm) => &[("stdin", "all"), ("env-for", "slurm")],
            Some(Personality::Hydra | Personality::Intel) => &[("universe", "endless")],
            Some(Personality::OpenMpi | Personality::Prrte | Personality::Jsm) => {
                &[("universe", "endless"), ("env-for", "ompi")]
            }
            Some(Personality::Pals | Personality::Aprun) => {
                &[("universe", "endless"), ("env-for", "pals")]
            }
            // Scripts that Open MPI's `mpirun` starts read the rank in its variables.
            None if self.context.name == MPIRUN => &[("universe", "endless"), ("env-for", "ompi")],
            None => &[("universe", "endless")],
        };
        let bound = self.default_binding(launcher);
        let mut of_all = vec![("allocation", "true"), ("forward-signals", FORWARDED)];
        of_all.extend(bound.as_deref().map(|word| ("bind-to", word)));
        let weakest = weakest.iter().chain(&of_all);
        let weakest = weakest.map(|(ours, value)| self.given_option(ours, value.into(), &wrong));
        self.args.weakest = weakest.collect::<Result<_, _>>()?;
        self.args.needs_program = true;
        // '--personality' may follow.
        match self.args.task {
            Task::Info(_) => self.args.task = Task::Info(self.shown_launcher()),
            Task::LauncherHelp(_) => self.args.task = Task::LauncherHelp(self.shown_launcher()),
            _ => {}
        }
        let has = |given: &[GivenOption], name| given.iter().any(|one| one.option.name == name);
        // The file of the output takes the errors, too, unless they have their own.
        if self.is_slurm()
            && has(&self.args.given, "stdout-to")
            && !has(&self.args.given, "stderr-to")
        {
            let merged = self.given_option("merge-stderr", "true".into(), &wrong)?;
            self.args.given.push(merged);
        }
        self.add_step_gpus()?;
        self.add_ranks_of_gpus()?;
        if launcher == Some(Personality::Intel) {
            self.add_offload()?;
        }
        let defaults = [std::mem::take(&mut self.weakest), std::mem::take(&mut self.weak)];
        self.args.given.splice(..0, defaults.concat());
        self.drop_order_of_unbound();
        // Ranks that are placed on cores in turn are numbered by cores.
        let mapped = self.args.given.iter().rfind(|one| one.option.name == "map-by");
        let unit = mapped.map_or("slot", |one| one.value.to_str().unwrap_or_default());
        if let Some(rank_by) = self.rank_by.take()
            && ["numa", "socket", "l3cache", "l2cache", "l1cache"].contains(&unit)
            && ["core", "hwthread"].contains(&&*rank_by)
        {
            let what = format!("'--rank-by {rank_by}' with '--map-by {unit}'");
            self.args.without_effect.push(what);
        }
        if self.has_program_file {
            self.read_program_file()?;
        }
        let slots = self.slots.unwrap_or(Unit::Core);
        self.args.default_ranks = match launcher {
            Some(Personality::OpenMpi | Personality::Prrte) => DefaultRanks::Slots(slots),
            Some(_) => DefaultRanks::One,
            None => DefaultRanks::OfLibrary(slots),
        };
        Ok(self.args)
    }
}

impl HydraReader<'_> {
    /// Value of `--bind-to` without an option, as the other launcher has it; `None` if it binds no ranks.
    fn default_binding(&mut self, launcher: Option<Personality>) -> Option<Cow<'static, str>> {
        if launcher == Some(Personality::Intel) {
            return match intel::pinning(|name| self.variable_of_ranks(name)) {
                Pinning::Default => Some("as:intel".into()),
                Pinning::To(bound) => Some(bound.into()),
                Pinning::Unknown(variable) => {
                    let what = format!("this value of {variable} ('-bind-to' binds ranks)");
                    self.args.without_effect.push(what);
                    None
                }
            };
        }
        let last = |name| self.args.given.iter().rfind(|one| one.option.name == name);
        let has_threads = self.slots == Some(Unit::HwThread);
        let word = match launcher {
            None if self.has_own_line() => None,
            None => Some("as:library"),
            // They may use all of these.
            Some(Personality::OpenMpi) if last("cpu-set").is_some() => None,
            Some(Personality::OpenMpi) if has_threads => Some("as:ompi-threads"),
            Some(Personality::OpenMpi) => Some("as:ompi"),
            Some(Personality::Prrte)
                if last("oversubscribe").is_some_and(|o| o.value == "true") =>
            {
                None
            }
            Some(Personality::Prrte) if has_threads => Some("as:ompi5-threads"),
            Some(Personality::Prrte) if last("map-by").is_some() || last("ppn").is_some() => {
                Some("as:ompi5-ordered")
            }
            Some(Personality::Prrte) => Some("as:ompi5"),
            Some(Personality::Slurm) => Some("as:slurm"),
            Some(
                Personality::Hydra
                | Personality::Intel
                | Personality::Pals
                | Personality::Aprun
                | Personality::Jsm,
            ) => None,
        };
        word.map(Cow::Borrowed)
    }

    /// Value that a variable has for the first program.
    fn variable_of_ranks(&self, name: &str) -> Option<String> {
        let own = self.args.parts.first().map(|part| &*part.given).unwrap_or_default();
        let given = own.iter().rev().chain(self.args.given.iter().rev());
        let mut set = given.filter(|one| one.option.name == "env");
        let assigned =
            set.find_map(|one| one.value.to_str()?.strip_prefix(name)?.strip_prefix('='));
        assigned.map(str::to_owned).or_else(|| variable_of(self.context.variables, name))
    }

    /// Replaces the program, which is a file, by the programs that it names.
    fn read_program_file(&mut self) -> Result<(), UsageError> {
        let [PartArgs { given, words }] = &self.args.parts[..] else {
            let what = "'--multi-prog' has one file in place of a program".to_owned();
            return Err(UsageError::Other { what });
        };
        let Some(file) = words.first() else { return Err(UsageError::NoProgram { place: 1 }) };
        let text = (self.context.read)(Path::new(file));
        let text = text.map_err(|error| unreadable("--multi-prog", file, &error))?;
        let ranks = given.iter().rfind(|one| one.option.name == "ranks");
        let ranks = ranks.and_then(|one| one.value.to_str()?.parse().ok());
        let wrong = |why: String| UsageError::Value {
            given: format!("--multi-prog {}", file.display()),
            why,
        };
        let programs = multi_prog::programs(&text, ranks).map_err(wrong)?;
        let parts = programs.into_iter().map(|(count, words)| {
            let ranks = self.given_option("ranks", count.to_string().into(), &wrong)?;
            let given = given.iter().cloned().chain([ranks]).collect();
            Ok(PartArgs { given, words: words.into_iter().map(OsString::from).collect() })
        });
        self.args.parts = parts.collect::<Result<_, UsageError>>()?;
        Ok(())
    }
}

/// Name of an option whose number follows in the same word, as in `-n4`.
fn with_number(word: &[u8]) -> Option<&'static str> {
    let mut names = ["np", "n", "N", "c", "ppn", "d", "a", "r", "g"].into_iter();
    names.find(|name| {
        let number = word.strip_prefix(name.as_bytes());
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    })
}

/// Error for a given file that cannot be read.
pub(super) fn unreadable(option: &str, file: &OsStr, error: &io::Error) -> UsageError {
    let why = format!("it cannot be read ({error})");
    UsageError::Value { given: format!("{option} {}", file.display()), why }
}

const RANKS_AS_PLACED: &str =
    "ranks are numbered as they are placed; '--map-by node' places them by turns";

/// Variables that tell of an allocation of a batch system.
const ALLOCATIONS: [&str; 4] = ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "COBALT_JOBID"];

/// Beginnings of the names of variables that hold parameters of Open MPI.
const PARAMETER_FAMILIES: [&str; 2] = ["OMPI_MCA_", "PRTE_MCA_"];

/// Signals besides those of `run` that the other launchers forward to their ranks.
pub(super) const FORWARDED: &str = "SIGUSR1,SIGALRM,SIGURG";

/// Names of launchers for `--personality`.
const PERSONALITIES: [(&str, Personality); 8] = [
    ("ompi", Personality::OpenMpi),
    ("ompi5", Personality::Prrte),
    ("prte", Personality::Prrte),
    ("prrte", Personality::Prrte),
    ("hydra", Personality::Hydra),
    ("mpich", Personality::Hydra),
    ("intel", Personality::Intel),
    ("pals", Personality::Pals),
];

/// Separator of programs.
const NEXT: &str = ":";

/// Options that a program can have only once.
const ONCE: [&str; 3] = ["ranks", "soft", "wdir"];

/// Hydra's name of this node in place of a file of hosts.
const USE_LOCALHOST: &str = "HYDRA_USE_LOCALHOST";
