//! Table of all options: their names, their effects on the settings, and the way back from settings to
//! text.
//!
//! An option has the same name everywhere: `--exit-timeout 5` on the command line,
//! `PMI_HOST_EXIT_TIMEOUT=5` in the environment, `exit-timeout = 5` in a file. Flags, help, completions,
//! the man page and the parser of files are all derived from these rows, so a new option is one row.

mod ending;
mod environment;
pub(in crate::cli) mod hints;
mod hosts;
mod job;
mod nodes;
mod output;
mod placement;
mod tracing;
mod value;
mod watching;

pub(super) use value::{RANKS_MAX, numbers};

use crate::settings::Settings;
use std::ffi::OsStr;
use std::fmt;

/// One option of `run`.
#[derive(Debug)]
pub(crate) struct OptionSpec {
    /// Name without dashes.
    pub(crate) name: &'static str,
    /// Letter of the short form, if there is one.
    pub(crate) short: Option<char>,
    /// Topic of the option.
    pub(crate) topic: Topic,
    /// One line of help.
    pub(crate) help: &'static str,
    /// True if the first screen of help shows it.
    pub(crate) is_common: bool,
    /// True if it may precede one program among several, and holds for that one then.
    pub(crate) is_of_part: bool,
    /// Effect of the option.
    pub(crate) effect: OptionEffect,
}

/// Effect of an option on the settings, and the way to read it back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OptionEffect {
    /// Switches something on; `--no-NAME` switches it off.
    Switch {
        /// Sets the switch.
        set: fn(&mut Settings, bool),
        /// Reads the switch.
        get: fn(&Settings) -> bool,
    },
    /// Takes a value.
    Value {
        /// Placeholder of the value in help.
        name: &'static str,
        /// True if several values add up; else the last one counts.
        adds_up: bool,
        /// Sets the value, or fails with the error and a valid example.
        set: fn(&mut Settings, &OsStr) -> Result<(), String>,
        /// Value as it would be typed; `None` if it is not set.
        get: fn(&Settings) -> Option<String>,
    },
}

/// Topics of options: the headings of the help text, and the arguments of `pmi-host help TOPIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Ranks, programs, and the listeners for further ranks.
    Job,
    /// Hosts.
    Hosts,
    /// Processors, memory and devices.
    Placement,
    /// Node servers.
    Nodes,
    /// Variables.
    Environment,
    /// Standard streams.
    Output,
    /// The end of a run.
    Ending,
    /// Signs of life.
    Watching,
    /// Records of messages.
    Tracing,
}

impl Topic {
    /// All topics, in the order of the help text.
    pub(crate) const ALL: [Self; 9] = [
        Self::Job,
        Self::Hosts,
        Self::Placement,
        Self::Nodes,
        Self::Environment,
        Self::Output,
        Self::Ending,
        Self::Watching,
        Self::Tracing,
    ];

    /// Name, as it is typed.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Hosts => "hosts",
            Self::Placement => "placement",
            Self::Nodes => "nodes",
            Self::Environment => "environment",
            Self::Output => "output",
            Self::Ending => "ending",
            Self::Watching => "watching",
            Self::Tracing => "tracing",
        }
    }

    /// Heading of the topic.
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::Job => "ranks, programs, and ranks that connect over TCP",
            Self::Hosts => "hosts, and the ranks on each",
            Self::Placement => "processors, memory and devices of each rank",
            Self::Nodes => "start of node servers on hosts, and their connections",
            Self::Environment => "environment of the ranks",
            Self::Output => "standard input and output of the ranks",
            Self::Ending => "end of a run, and its reports",
            Self::Watching => "progress reports",
            Self::Tracing => "records of messages",
        }
    }

    const fn rows(self) -> &'static [OptionSpec] {
        match self {
            Self::Job => job::ROWS,
            Self::Hosts => hosts::ROWS,
            Self::Placement => placement::ROWS,
            Self::Nodes => nodes::ROWS,
            Self::Environment => environment::ROWS,
            Self::Output => output::ROWS,
            Self::Ending => ending::ROWS,
            Self::Watching => watching::ROWS,
            Self::Tracing => tracing::ROWS,
        }
    }

    const fn value(
        self,
        name: &'static str,
        value: &'static str,
        help: &'static str,
        set: fn(&mut Settings, &OsStr) -> Result<(), String>,
        get: fn(&Settings) -> Option<String>,
    ) -> OptionSpec {
        let effect = OptionEffect::Value { name: value, adds_up: false, set, get };
        self.option(name, help, effect)
    }

    const fn switch(
        self,
        name: &'static str,
        help: &'static str,
        set: fn(&mut Settings, bool),
        get: fn(&Settings) -> bool,
    ) -> OptionSpec {
        let effect = OptionEffect::Switch { set, get };
        self.option(name, help, effect)
    }

    const fn option(
        self,
        name: &'static str,
        help: &'static str,
        effect: OptionEffect,
    ) -> OptionSpec {
        let (is_common, is_of_part) = (false, false);
        OptionSpec { name, short: None, topic: self, help, is_common, is_of_part, effect }
    }
}

/// All options, by topic.
pub(crate) fn all() -> impl Iterator<Item = &'static OptionSpec> {
    Topic::ALL.into_iter().flat_map(Topic::rows)
}

/// The option of this name.
pub(crate) fn named(name: &str) -> Option<&'static OptionSpec> {
    all().find(|option| option.name == name)
}

impl OptionSpec {
    /// True if a value follows the option.
    pub(crate) const fn takes_value(&self) -> bool {
        matches!(self.effect, OptionEffect::Value { .. })
    }

    /// True if several of its values add up.
    pub(crate) const fn adds_up(&self) -> bool {
        matches!(self.effect, OptionEffect::Value { adds_up: true, .. })
    }

    /// True if the switch is on by default.
    pub(crate) fn is_on(&self) -> bool {
        matches!(self.effect, OptionEffect::Switch { get, .. } if get(&Settings::default()))
    }

    /// Sets `value`; a switch takes `true` and `false`, and their common synonyms.
    ///
    /// # Errors
    ///
    /// A message with the error in the value and a valid example.
    pub(crate) fn set(&self, settings: &mut Settings, value: &OsStr) -> Result<(), String> {
        match self.effect {
            OptionEffect::Switch { set, .. } => set(settings, value::switch(value)?),
            OptionEffect::Value { set, .. } => set(settings, value)?,
        }
        Ok(())
    }

    /// Value as it would be typed; `None` if it is not set.
    pub(crate) fn get(&self, settings: &Settings) -> Option<String> {
        match self.effect {
            OptionEffect::Switch { get, .. } => Some(get(settings).to_string()),
            OptionEffect::Value { get, .. } => get(settings),
        }
    }

    /// Name of the variable that sets the option.
    pub(crate) fn variable(&self) -> String {
        format!("{VARIABLES}{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }

    /// Name of the option in messages: its most usual form.
    pub(crate) fn shown(&self) -> String {
        match self.short {
            Some(letter) => format!("-{letter}"),
            None => format!("--{}", self.name),
        }
    }

    const fn with_letter(mut self, letter: char) -> Self {
        self.short = Some(letter);
        self
    }

    const fn common(mut self) -> Self {
        self.is_common = true;
        self
    }

    const fn of_part(mut self) -> Self {
        self.is_of_part = true;
        self
    }

    const fn adding_up(mut self) -> Self {
        if let OptionEffect::Value { name, set, get, .. } = self.effect {
            self.effect = OptionEffect::Value { name, adds_up: true, set, get };
        }
        self
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Prefix of this program's variables.
pub(crate) const VARIABLES: &str = "PMI_HOST_";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::ffi::OsString;

    #[test]
    fn names_and_letters_are_given_once() {
        let names: BTreeSet<&str> = all().map(|option| option.name).collect();
        assert_eq!(names.len(), all().count());
        let letters: Vec<char> = all().filter_map(|option| option.short).collect();
        assert_eq!(letters.iter().collect::<BTreeSet<_>>().len(), letters.len());
        for topic in Topic::ALL {
            assert!(topic.rows().iter().all(|option| option.topic == topic), "{topic}");
        }
    }

    #[test]
    fn settings_are_shown_as_they_were_typed() {
        for (name, typed) in [
            ("ranks", "4"),
            ("wdir", "/tmp"),
            ("soft", "2,4:8:2"),
            ("umask", "027"),
            ("universe", "9"),
            ("universe", "hosts"),
            ("attribute", "cartDims=4,4"),
            ("listen", "127.0.0.1:0"),
            ("websocket", "0"),
            ("origin", "https://lab.example"),
            ("expect", "2"),
            ("expect", "2x4,1,1x3"),
            ("secret-file", "s"),
            ("kvs-pairs", "9"),
            ("kvs-bytes", "99"),
            ("hosts", "node1,[::1]:4"),
            ("hostfile", "f"),
            ("allocation", "true"),
            ("ppn", "2"),
            ("rankmap", "(0,2,4)"),
            ("oversubscribe", "false"),
            ("all-hosts", "true"),
            ("map-by", "node"),
            ("map-by", "ppr:2:node"),
            ("bind-to", "core"),
            ("bind-to", "l3cache:2"),
            ("bind-to", "user:0-1,2+4"),
            ("bind-to", "as:ompi5"),
            ("map-by", "socket"),
            ("map-by", "gpu"),
            ("map-by", "nic"),
            ("map-by", "auto"),
            ("threads-per-rank", "4"),
            ("mem-bind", "local"),
            ("mem-bind", "preferred"),
            ("mem-bind", "interleave"),
            ("mem-bind", "hbm"),
            ("mem-bind", "list:0,1+3"),
            ("gpus-per-rank", "2"),
            ("gpu-bind", "packed"),
            ("gpu-bind", "list:0-1,2+4"),
            ("gpu-expose", "order"),
            ("gpu-expose", "env"),
            ("gpu-share", "4"),
            ("nics-per-rank", "1"),
            ("topology", "node.xml"),
            ("display", "map"),
            ("display", "map=svg"),
            ("starter", "ssh"),
            ("starter", "local:4"),
            ("starter", "manual"),
            ("starter-cmd", "kubectl exec -i {host} -- {cmd}"),
            ("node-timeout", "2.5"),
            ("pause-timeout", "60"),
            ("node-interface", "eth0"),
            ("node-ports", "5000-5100"),
            ("inherit", "none"),
            ("inherit", "PATH,HOME"),
            ("env", "A=b=c"),
            ("env-for", "torch"),
            ("env-report", "true"),
            ("label", "true"),
            ("label-format", "%h:%r "),
            ("timestamps", "true"),
            ("collapse", "true"),
            ("stdout-to", "out.%r"),
            ("stderr-to", "err.%r"),
            ("stdin", "all"),
            ("stdin", "none"),
            ("stdin", "0-2,5"),
            ("pty", "0"),
            ("on-exit-error", "ignore"),
            ("on-singletons", "ignore"),
            ("exit-timeout", "1.5"),
            ("timeout", "60"),
            ("print-all-exitcodes", "true"),
            ("summary", "true"),
            ("result", "r.json"),
            ("forward-signals", "SIGUSR1,SIGUSR2"),
            ("stall-report", "0"),
            ("stall-abort", "30"),
            ("progress", "false"),
            ("control", "false"),
            ("trace", "t"),
            ("trace-ring", "16"),
        ] {
            let option = named(name).expect("it is in the table");
            let mut settings = Settings::default();
            option.set(&mut settings, &OsString::from(typed)).expect(name);
            assert_eq!(option.get(&settings).as_deref(), Some(typed), "{name}");
            assert_ne!(settings, Settings::default(), "{name} does nothing");
        }
    }

    #[test]
    fn contradictory_options_are_refused_with_a_remedy() {
        for (name, typed, part) in [
            ("ranks", "0", "at least one rank"),
            ("ranks", "many", "not a number of ranks"),
            ("soft", "2:x", "try '2,4:8:2'"),
            ("soft", "-3:0", "try '2,4:8:2'"),
            ("attribute", "=b", "KEY=VALUE"),
            ("expect", "2x", "2x4"),
            ("hosts", "a:x", "try 'a:4'"),
            ("hosts", "n[0-4000000000]", "131072 hosts"),
            ("ppn", "0", "not a number of ranks"),
            ("rankmap", "x", "0,1,1,0"),
            ("map-by", "ppr:0:node", "ppr:2:node"),
            ("map-by", "ppr:2:socket", "ppr:2:node"),
            ("bind-to", "cores", "'core'"),
            ("bind-to", "as:mpich", "'intel'"),
            ("umask", "888", "try '022'"),
            ("bind-to", "core:0", "core:2"),
            ("bind-to", "user:", "user:0-1,2-3"),
            ("bind-to", "user:3-1", "user:0-1,2-3"),
            ("map-by", "x", "socket"),
            ("map-by", "gpus", "'gpu'"),
            ("threads-per-rank", "0", "try '2'"),
            ("mem-bind", "list:", "list:0,1"),
            ("mem-bind", "near", "'local'"),
            ("gpus-per-rank", "0", "not a number of GPUs"),
            ("gpu-bind", "list:0,", "list:0+1,2+3"),
            ("gpu-bind", "near", "'closest'"),
            ("gpu-expose", "x", "'mask'"),
            ("gpu-share", "0", "not a number of ranks"),
            ("nics-per-rank", "-1", "network cards"),
            ("topology", "", "not a path"),
            ("display", "map,", "'map'"),
            ("starter", "shh", "ssh, rsh"),
            ("starter", "local:0", "'local:4'"),
            ("node-timeout", "0", "1 to 3600 seconds"),
            ("node-ports", "9-8", "'5000-5100'"),
            ("node-ports", "0-8", "'5000-5100'"),
            ("env", "PMI_HOST_UNSET", "NAME=VALUE"),
            ("env", "=x", "NAME=VALUE"),
            ("env-for", "tf", "'torch'"),
            ("env", "PMI_RANK=7", "the launcher itself"),
            ("stdin", "first", "0-3"),
            ("stdin", "5-", "0-3"),
            ("pty", "x", "rank"),
            ("on-exit-error", "kil", "'kill'"),
            ("on-singletons", "kill", "'fail'"),
            ("timeout", "soon", "seconds"),
            ("timeout", "-1", "seconds"),
            ("timeout", "1e40", "seconds"),
            ("forward-signals", "USR9", "SIGUSR1"),
            ("collapse", "maybe", "'true'"),
            ("trace-ring", "-1", "number"),
            ("kvs-pairs", "many", "not a number"),
            ("kvs-bytes", "-1", "not a number"),
        ] {
            let option = named(name).expect("it is in the table");
            let why = option.set(&mut Settings::default(), &OsString::from(typed)).expect_err(name);
            assert!(why.contains(part), "{name}: {why}");
        }
    }
}
