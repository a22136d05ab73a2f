//! Spawn request of a rank: programs, and hints on how to start them.
//!
//! | key | meaning here |
//! |---|---|
//! | `host`, `hosts` | target: this host by its name, or `localhost`, or any host of a run on several nodes; a list with commas. Another host is refused |
//! | `hostfile` | the same, from a file: on each line `name`, `name:4` or `name slots=4`; further text is ignored |
//! | `add-host`, `add-hostfile` | hosts of the run, or others, which are added to a run on several nodes; without `host` and `hostfile` the target |
//! | `wdir`, `cwd` | the working directory; a relative path of the program is resolved from there |
//! | `path` | directories to search for the program before those of `PATH`, with colons |
//! | `soft` | acceptable numbers of processes: a set as MPI writes it (`2,4:8:2`); the largest possible number is started |
//! | `env` | variables: `NAME=VALUE`, more of them after a line end, or after a comma if `NAME=` follows |
//! | `arch` | the processor of this host, as `x86_64`; any other is refused |
//! | `timeout` | time in ms, from 1, within which all processes must be started, else the job is undone |
//! | `threadsPerRank` | number of threads of a process, from 1: the value of `OMP_NUM_THREADS`, unless `env` sets it |
//! | `file`, `credential` | refused: no format of such a file is known, and processes belong to the user of the launcher |
//!
//! Other keys are ignored, as MPI demands. If a key is repeated the last one counts; `env` adds up.

use super::directives::{JobDirectives, RankChoice};
use super::hosts::{RunHosts, WantedHosts, names, with_count};
use super::job::App;
use super::spawn_outcome::{Command, Commands, SpawnError};
use pmi_core::command::{CodeRun, Spawn, Text};
use pmi_host_base::program::Program;
use serde::{Deserialize, Serialize};
use std::env::consts::ARCH;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

/// One spawn request. It owns its strings, so its message can be dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpawnRequest {
    /// The programs, in the order of their ranks.
    pub(crate) wanted: Vec<AppSpec>,
    /// Initial key-value pairs of the new job's space.
    pub(crate) preputs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Directives for the whole job.
    pub(crate) directives: JobDirectives,
    /// Daemons of a debugger for the new job, which are a job of their own.
    pub(crate) daemons: Option<Cospawn>,
}

/// Daemons of a debugger that are started with the job that they control.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cospawn {
    /// The programs.
    pub(crate) wanted: Vec<AppSpec>,
    /// Directives for them.
    pub(crate) directives: JobDirectives,
}

/// Ranks of a program, and the nodes that are requested for them; none for any.
pub(crate) type PartWithNodes = (App, Vec<u32>);

/// One program of an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AppSpec {
    pub(super) name: OsString,
    pub(super) args: Vec<OsString>,
    /// Maximum number of processes.
    pub(super) processes: u32,
    pub(super) soft: Option<String>,
    /// Hosts for the processes.
    pub(super) hosts: WantedHosts,
    /// Hosts that are added to the run.
    pub(super) added: WantedHosts,
    pub(super) directory: Option<OsString>,
    pub(super) search: Option<OsString>,
    /// A name without a slash may be that of a program in the working directory.
    pub(super) searches_directory: bool,
    pub(super) variables: Vec<(OsString, OsString)>,
    /// Longest time of the start, in ms.
    pub(super) timeout_ms: Option<u32>,
    /// Number of threads of each process.
    pub(super) threads: Option<u32>,
    /// Key and value of a hint that cannot be followed.
    pub(super) impossible: Option<(String, String)>,
}

impl SpawnRequest {
    /// Parses a spawn.
    pub(crate) fn read(spawn: Spawn<'_>) -> Self {
        let wanted = spawn.programs().map(|program| {
            let mut wanted = AppSpec {
                name: words(program.executable),
                args: program.arguments.iter().map(words).collect(),
                processes: program.processes,
                ..AppSpec::default()
            };
            program.info.iter().for_each(|hint| wanted.take_hint(&bytes(hint.key), hint.value));
            wanted
        });
        let pair = |pair: pmi_core::command::Pair<'_>| (bytes(pair.key), bytes(pair.value));
        let preputs = spawn.preputs().map(pair).collect();
        Self { wanted: wanted.collect(), preputs, ..Self::default() }
    }

    /// Takes the request for daemons of this job out.
    pub(crate) fn take_daemons_of(&mut self, nspace: &str) -> Option<Self> {
        let Cospawn { wanted, mut directives } = self.daemons.take()?;
        directives.target = Some((nspace.to_owned(), RankChoice::All));
        Some(Self { wanted, directives, ..Self::default() })
    }

    /// Sets the number of processes of each program.
    pub(super) fn set_processes(&mut self, processes: u32) {
        self.wanted.iter_mut().for_each(|wanted| wanted.processes = processes);
    }

    /// True if hosts are named for one of the programs.
    pub(super) fn names_hosts(&self) -> bool {
        let is_named = |hosts: &WantedHosts| !hosts.names.is_empty() || hosts.file.is_some();
        self.wanted.iter().any(|wanted| is_named(&wanted.hosts) || is_named(&wanted.added))
    }

    /// Hosts that are to be added and are none of the run, each once, with the numbers of ranks behind their
    /// names. Files of added hosts are read now.
    ///
    /// # Errors
    ///
    /// [`SpawnError::HostFile`].
    pub(crate) fn added_hosts(
        &mut self,
        known: RunHosts<'_>,
    ) -> Result<Vec<(String, u32)>, SpawnError> {
        let mut all: Vec<(String, u32)> = Vec::new();
        for AppSpec { name, added, .. } in &mut self.wanted {
            added.read_file(name)?;
            for wanted in added.names.iter().filter(|wanted| !known.has(wanted)) {
                let (host, slots) = with_count(wanted).unwrap_or((wanted, 1));
                match all.iter_mut().find(|(other, _)| other == host) {
                    Some((_, all)) => *all = all.saturating_add(slots.into()),
                    None => all.push((host.to_owned(), slots.into())),
                }
            }
        }
        Ok(all)
    }

    /// Longest time of the start of all programs; `None` without a limit.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let limits = self.wanted.iter().filter_map(|wanted| wanted.timeout_ms);
        limits.min().map(|limit| Duration::from_millis(limit.into()))
    }

    /// Finds the programs and determines the number of processes of each, and the nodes that are requested
    /// for it: `room` processes are possible on `hosts`. The second part of the result has the number for
    /// each command.
    ///
    /// # Errors
    ///
    /// The reason, and the codes of all commands.
    pub(crate) fn resolve_on(
        self,
        hosts: RunHosts<'_>,
        mut room: u32,
    ) -> Result<(Vec<PartWithNodes>, Commands), (SpawnError, Vec<CodeRun>)> {
        let asked = self.wanted.iter().map(|wanted| Command { asked: wanted.processes, taken: 0 });
        let mut commands: Vec<Command> = asked.collect();
        let mut parts = Vec::new();
        for (at, wanted) in self.wanted.into_iter().enumerate() {
            match wanted.resolve(hosts, room) {
                Ok((part, nodes)) => {
                    room -= part.ranks;
                    commands[at].taken = part.ranks;
                    parts.extend(Some((part, nodes)).filter(|(part, _)| part.ranks > 0));
                }
                Err(why) => {
                    let codes = Commands::new(commands).refused(at, why.code());
                    return Err((why, codes));
                }
            }
        }
        let commands = Commands::new(commands);
        if parts.is_empty() {
            return Err((SpawnError::Nothing, commands.done()));
        }
        Ok((parts, commands))
    }
}

impl AppSpec {
    fn take_hint(&mut self, key: &[u8], value: Text<'_>) {
        let text = || String::from_utf8_lossy(&bytes(value)).into_owned();
        let is_positive = || value.number().is_some_and(|number| number > 0);
        match key {
            b"host" | b"hosts" => self.hosts.names = names(&text()),
            b"hostfile" => self.hosts.file = Some(words(value)),
            b"add-host" => self.added.names = names(&text()),
            b"add-hostfile" => self.added.file = Some(words(value)),
            b"wdir" | b"cwd" => self.directory = Some(words(value)),
            b"path" => self.search = Some(words(value)),
            b"soft" => self.soft = Some(text()),
            b"env" => self.variables.extend(variables(&bytes(value))),
            b"arch" if text().trim().eq_ignore_ascii_case(ARCH) => {}
            b"timeout" if is_positive() => self.timeout_ms = value.number(),
            b"threadsPerRank" if is_positive() => self.threads = value.number(),
            b"arch" | b"timeout" | b"threadsPerRank" | b"file" => {
                self.impossible = Some((String::from_utf8_lossy(key).into_owned(), text()));
            }
            // A secret does not belong into a message.
            b"credential" => self.impossible = Some(("credential".to_owned(), "…".to_owned())),
            _ => {}
        }
    }

    fn resolve(self, known: RunHosts<'_>, room: u32) -> Result<PartWithNodes, SpawnError> {
        let Self {
            name,
            args,
            processes,
            soft,
            mut hosts,
            mut added,
            directory,
            search,
            searches_directory,
            mut variables,
            threads,
            impossible,
            timeout_ms: _,
        } = self;
        if let Some((key, value)) = impossible {
            let reason = match key.as_str() {
                "arch" => "and this host has another kind of processor",
                "timeout" | "threadsPerRank" => "which is no number from 1",
                "file" => "and this launcher reads no file with descriptions of programs",
                _ => "and this launcher starts programs as its own user only",
            };
            return Err(SpawnError::Hint { name, key, value, reason });
        }
        let directory = directory.map(PathBuf::from);
        hosts.read_file(&name)?;
        added.read_file(&name)?;
        // Added hosts have ranks only if no others are named.
        let has_others = !hosts.names.is_empty();
        let mut nodes = Vec::new();
        for wanted in hosts.names {
            match known.nodes_of(&wanted) {
                Some(of_host) => nodes.extend(of_host),
                None => return Err(known.refusal(name, wanted)),
            }
        }
        for wanted in added.names {
            match (known.nodes_of(&wanted), known) {
                (Some(of_host), _) => nodes.extend(of_host.filter(|_| !has_others)),
                (None, RunHosts::One(_)) => return Err(SpawnError::Alone { name, wanted }),
                (None, RunHosts::Several { .. }) => return Err(known.refusal(name, wanted)),
            }
        }
        let ranks = match soft {
            None if processes > room => {
                return Err(SpawnError::TooMany { name, processes, most: room });
            }
            None => processes,
            Some(soft) => {
                let most = processes.min(room);
                largest_in_set(&soft, most).ok_or(SpawnError::Soft {
                    name: name.clone(),
                    soft,
                    most,
                })?
            }
        };
        if let Some(threads) = threads
            && variables.iter().all(|(name, _)| name != THREADS)
        {
            variables.push((THREADS.into(), threads.to_string().into()));
        }
        let find = if searches_directory { Program::find_or_here } else { Program::find };
        let path = find(&name, search.map(with_path), directory.as_deref())?;
        let program = Program { directory, variables, ..Program::new(path, name, args) };
        Ok((App { program, ranks }, nodes))
    }
}

/// Largest number of `set` that is not above `most`; `None` if there is none, or the text is malformed.
///
/// A set is written as MPI writes it for `soft`: `a`, `a:b` or `a:b:c`, with commas between. `a:b:c` means a,
/// a+c, a+2c, … as far as b; c is 1 if it is left out, and may be negative.
/// Spec: MPI 4.1, section 11.8.4 (reserved keys).
pub(crate) fn largest_in_set(set: &str, most: u32) -> Option<u32> {
    let mut best = None;
    for triple in set.split(',') {
        best = best.max(largest_of_triple(triple, i64::from(most))?);
    }
    best.and_then(|best| u32::try_from(best).ok())
}

/// Largest number of one triple; the outer `None` is for malformed text.
fn largest_of_triple(triple: &str, most: i64) -> Option<Option<i64>> {
    // Larger numbers make no sense, and sums of 32-bit numbers fit 64 bits.
    let numbers = triple.split(':').map(|number| number.trim().parse::<i32>().map(i64::from));
    let numbers: Vec<i64> = numbers.collect::<Result<_, _>>().ok()?;
    let (first, last, step) = match numbers[..] {
        [only] => (only, only, 1),
        [first, last] => (first, last, 1),
        [first, last, step] if step != 0 => (first, last, step),
        _ => return None,
    };
    let largest = if step > 0 {
        let end = last.min(most);
        (first <= end).then(|| first + (end - first) / step * step)
    } else {
        // Descending: the first one that is not above.
        let steps = (first - most).max(0).unsigned_abs().div_ceil(step.unsigned_abs());
        let found = first + i64::try_from(steps).ok()? * step;
        (found >= last).then_some(found)
    };
    Some(largest.filter(|number| *number >= 0))
}

/// Directories of the order, then those of `PATH`.
fn with_path(mut search: OsString) -> OsString {
    if let Some(path) = std::env::var_os("PATH") {
        search.push(":");
        search.push(path);
    }
    search
}

/// Number of threads by OpenMP, which other libraries of threads read as well.
const THREADS: &str = "OMP_NUM_THREADS";

/// Splits assignments: at line ends, and at commas followed by `NAME=`.
fn variables(text: &[u8]) -> Vec<(OsString, OsString)> {
    let mut assignments: Vec<Vec<u8>> = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        for (at, piece) in line.split(|byte| *byte == b',').enumerate() {
            match assignments.last_mut() {
                Some(last) if at > 0 && assigned(piece).is_none() => {
                    last.push(b',');
                    last.extend_from_slice(piece);
                }
                _ => assignments.push(piece.to_vec()),
            }
        }
    }
    let owned = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let pairs = assignments.iter().filter_map(|assignment| assigned(assignment));
    pairs.map(|(name, value)| (owned(name), owned(value))).collect()
}

/// A name by the rules of shells, and the text after its `=`.
fn assigned(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (text.get(..end)?, text.get(end + 1..)?);
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let is_name = name.first().is_some_and(is_letter)
        && name.iter().all(|byte| is_letter(byte) || byte.is_ascii_digit());
    is_name.then_some((name, value))
}

fn bytes(text: Text<'_>) -> Vec<u8> {
    text.bytes().collect()
}

fn words(text: Text<'_>) -> OsString {
    OsString::from_vec(bytes(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_core::command::{Argument, InfoList, Pair, Program};
    use tempfile::NamedTempFile;

    fn request(name: &str, processes: u32, hints: &[(&str, &str)]) -> SpawnRequest {
        let hints: Vec<Pair<'_>> = hints
            .iter()
            .map(|(k, v)| Pair { key: Text::from(*k), value: Text::from(*v) })
            .collect();
        let arguments = [Text::from("a b"), Text::from("x=y")];
        let program = Program {
            executable: Text::from(name),
            processes,
            arguments: Argument::Given(&arguments),
            info: InfoList::Given(&hints),
        };
        SpawnRequest::read(Spawn::Given { programs: &[program], preputs: &[] })
    }

    fn taken(processes: u32, hints: &[(&str, &str)]) -> Result<App, String> {
        let resolved =
            request("sh", processes, hints).resolve_on(RunHosts::One("node1.cluster"), 8);
        resolved.map(|(mut parts, _)| parts.remove(0).0).map_err(|(refusal, _)| refusal.to_string())
    }

    #[test]
    fn hints_that_are_known_are_followed_and_others_ignored() {
        let hints = [("wdir", "/usr"), ("path", "/bin"), ("colour", "red"), ("env", "A=1,2,B=x=y")];
        let App { program, ranks } = taken(2, &hints).unwrap();
        assert_eq!((ranks, program.path), (2, PathBuf::from("/bin/sh")));
        assert_eq!(program.directory, Some(PathBuf::from("/usr")));
        assert_eq!(program.args, ["a b", "x=y"]);
        assert_eq!(program.variables, [("A".into(), "1,2".into()), ("B".into(), "x=y".into())]);
        assert_eq!(variables(b"A=1\nB=2\n").len(), 2);
        assert_eq!(variables(b"=1,2=3,nothing"), []);
    }

    // Coverage: W2-37, W2-57
    #[test]
    fn hints_of_the_specification_are_followed_or_refused_with_the_reason() {
        for (key, value) in [("arch", ARCH), ("timeout", "500"), ("threadsPerRank", "4")] {
            assert!(taken(1, &[(key, value)]).is_ok(), "{key}");
        }
        let threads = |hints: &[(&str, &str)]| taken(1, hints).unwrap().program.variables;
        assert_eq!(threads(&[("threadsPerRank", "4")]), [(THREADS.into(), "4".into())]);
        let own = [("threadsPerRank", "4"), ("env", "OMP_NUM_THREADS=2")];
        assert_eq!(threads(&own), [(THREADS.into(), "2".into())]);
        let timeout = |hints: &[(&str, &str)]| request("sh", 1, hints).timeout();
        assert_eq!(timeout(&[("timeout", "500")]), Some(Duration::from_millis(500)));
        assert_eq!(timeout(&[]), None);
        for (key, value, reason) in [
            ("arch", "vax", "another kind of processor"),
            ("timeout", "soon", "no number from 1"),
            ("threadsPerRank", "0", "no number from 1"),
            ("file", "programs.txt", "reads no file"),
            ("credential", "geheim", "as its own user only"),
        ] {
            let refused = taken(1, &[(key, value)]).unwrap_err();
            assert!(refused.contains(reason) && refused.contains(key), "{refused}");
            assert!(!refused.contains("geheim"), "{refused}");
        }
    }

    #[test]
    fn this_host_has_several_names_and_no_other_is_taken() {
        for host in ["node1", "NODE1.cluster", "localhost", "127.0.0.1", "node1, localhost"] {
            assert!(taken(1, &[("host", host)]).is_ok(), "{host}");
        }
        for other in ["node2", "node1.other", "node1.cluster.other", "me@node1"] {
            let refused = taken(1, &[("hosts", &format!("node1,{other}"))]).unwrap_err();
            let names = [format!("'{other}'"), "'node1.cluster'".to_owned()];
            assert!(names.iter().all(|name| refused.contains(name)), "{refused}");
        }
    }

    #[test]
    fn file_of_hosts_may_name_this_one() {
        let file = NamedTempFile::new().unwrap().into_temp_path();
        let name = file.to_str().unwrap();
        std::fs::write(&file, "# ours\nnode1:4  slots=4\n\nlocalhost # too\n").unwrap();
        assert!(taken(1, &[("hostfile", name)]).is_ok());
        std::fs::write(&file, "node1\nnode2:2\n").unwrap();
        assert!(taken(1, &[("hostfile", name)]).unwrap_err().contains("'node2'"));
        std::fs::remove_file(&file).unwrap();
        assert!(taken(1, &[("hostfile", name)]).unwrap_err().contains("cannot be read"));
        assert!(taken(1, &[("hostfile", "/dev/zero")]).unwrap_err().contains("not a regular file"));
    }

    #[test]
    fn added_hosts_take_ranks_if_no_others_are_named() {
        let file = NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&file, "n3 slots=2\nn1:1 # ours\n").unwrap();
        let hosts = ["n1", "n2", "n3"].map(str::to_owned);
        let nodes = |hints: &[(&str, &str)]| {
            let resolved = request("sh", 1, hints)
                .resolve_on(RunHosts::Several { hosts: &hosts, lost: &[], own: "n2" }, 8);
            resolved.map(|(mut parts, _)| parts.remove(0).1).map_err(|(refused, _)| refused)
        };
        let named = file.to_str().unwrap();
        assert_eq!(nodes(&[("add-host", "n3, localhost")]).unwrap(), [2, 1]);
        assert_eq!(nodes(&[("add-hostfile", named)]).unwrap(), [2, 2, 0]);
        assert_eq!(nodes(&[("hostfile", named), ("add-host", "n2")]).unwrap(), [2, 2, 0]);
        assert_eq!(nodes(&[("host", "n2:3"), ("add-hostfile", named)]).unwrap(), [1, 1, 1]);
        // Others are added before the request is resolved.
        let added = |hints: &[(&str, &str)]| {
            request("sh", 1, hints)
                .added_hosts(RunHosts::Several { hosts: &hosts, lost: &[], own: "n2" })
                .unwrap()
        };
        std::fs::write(&file, "n5 slots=2\nn1\nn5\n").unwrap();
        let expected = [("n4".to_owned(), 3), ("n5".to_owned(), 3)];
        assert_eq!(added(&[("add-host", "n1,n4:3"), ("add-hostfile", named)]), expected);
        assert_eq!(added(&[("host", "n4"), ("add-host", "localhost")]), []);
        let refused = taken(1, &[("add-host", "n4")]).unwrap_err();
        assert!(
            refused.contains("'n4' cannot be added") && refused.contains("'--all-hosts'"),
            "{refused}"
        );
    }

    #[test]
    fn largest_possible_number_is_taken_or_none() {
        assert_eq!(taken(6, &[("soft", "1,2:20:2")]).unwrap().ranks, 6);
        assert_eq!(taken(100, &[("soft", "1,2:20:2")]).unwrap().ranks, 8);
        assert!(taken(3, &[("soft", "4")]).unwrap_err().contains("soft=4"));
        assert!(taken(9, &[]).unwrap_err().contains("for 8 more"));
        assert!(taken(0, &[]).unwrap_err().contains("0 processes"));
        assert!(request("no-such-program", 1, &[]).resolve_on(RunHosts::One("node1"), 8).is_err());
    }

    #[test]
    fn largest_number_of_a_set_is_found() {
        for (set, most, found) in [
            ("4", 4, Some(4)),
            ("4", 3, None),
            ("1,2,7", 5, Some(2)),
            ("2:10", 5, Some(5)),
            ("2:10:3", 9, Some(8)),
            ("2:10:3", 1, None),
            ("10:2:-3", 9, Some(7)),
            ("10:2:-3", 3, None),
            ("10:2:-3", 4, Some(4)),
            ("0", 4, Some(0)),
            ("-2:-1", 4, None),
            (" 1 , 3:5:2 ", 4, Some(3)),
            ("2147483647", 4, None),
        ] {
            assert_eq!(largest_in_set(set, most), found, "{set} up to {most}");
        }
    }

    #[test]
    fn malformed_sets_have_no_largest_number() {
        for set in ["", "x", "1,", "1:2:0", "1:2:3:4", "1..3", "99999999999"] {
            assert_eq!(largest_in_set(set, 4), None, "{set}");
        }
    }
}
