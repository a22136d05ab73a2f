//! `cargo xtask layout`: functions that runs of `pmi-host` call, which the linker places next to each other.
//!
//! The system maps a program in pieces of 64 KiB around each page that is used. Where the functions of a run
//! lie all over the program, most of it is mapped, page by page, by each launcher and each guard. So
//! [`SCRIPT`] names these functions, and the build passes it to the linker.
//!
//! The functions are found by breakpoints: one at the first instruction of each function of the program
//! before it starts. The process that reaches one stops, the function is noted, and the breakpoint is
//! removed. Names have a hash of the compiler, which is replaced by `*`. A name that no function has any
//! more has no effect, and a function without a name here costs its page, so the script may be older than
//! the program. Functions of the libraries of C, which are linked from archives, have no sections of their
//! own: the members of the archives that define them are placed, behind the calls of functions of which there
//! are several for different processors (`.iplt`).
//!
//! A launcher of many ranks unmaps its pages when it has read its settings, prepared the job and started all
//! ranks ([`MARKER`]). Functions that it calls afterwards, and those that are being executed, come first, so
//! all breakpoints are set again there.

use crate::args::Arguments;
use crate::{process, toolchain};
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let mut arguments = Arguments::new(arguments, "cargo xtask layout [--program FILE] [--write]");
    let write = arguments.flag("--write");
    let built: Option<PathBuf> = arguments.value("--program")?;
    arguments.end()?;
    let called = CalledFunctions::find(&built.map_or_else(toolchain::build_host, Ok)?)?;
    println!(
        "{} of {} functions are called, {} are placed",
        called.count,
        called.all.len(),
        called.placed_count
    );
    if write {
        let path = process::root().join(SCRIPT);
        fs::write(&path, script(&called.all, &called.groups, &c_members()?))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A finding if the script names too few of the functions that runs call.
///
/// # Errors
///
/// The program cannot be built or traced.
pub(crate) fn check() -> Result<Vec<String>, String> {
    let CalledFunctions { count, placed_count, .. } =
        CalledFunctions::find(&toolchain::build_host()?)?;
    let is_current = placed_count * 100 >= count * PLACED_PERCENT;
    let stale = format!(
        "{SCRIPT} places {placed_count} of {count} functions that runs call, so that each launcher maps more \
         of the program; 'cargo xtask layout --write' places all of them"
    );
    Ok(if is_current { Vec::new() } else { vec![stale] })
}

/// Functions that runs of a program call.
struct CalledFunctions {
    all: Functions,
    /// Addresses of those that are called, in the order in which they are to be placed.
    groups: Vec<Vec<u64>>,
    count: usize,
    /// Number of those among them that the script has placed.
    placed_count: usize,
}

impl CalledFunctions {
    /// Executes all runs of a program.
    fn find(program: &Path) -> Result<Self, String> {
        let client = ["build", "--release", "-p", "put-fence-get", "--bin", "put-fence-get"];
        process::output(process::cargo().args(client))?;
        let client = toolchain::target_directory().join("release/put-fence-get");
        let program = fs::canonicalize(program).map_err(|error| error.to_string())?;
        let all = functions(&program)?;
        // The guard has few functions, and is a process of its own in each run. Then come phases of a
        // launcher, the last one first, and what each run adds.
        let mut groups = vec![Vec::new(); 1 + PHASES + RUNS.len()];
        for (number, words) in (1 + PHASES..).zip(RUNS) {
            let words = words.iter().map(|word| word.replace(CLIENT, &client.to_string_lossy()));
            let mut run = process::command("/bin/sh");
            // The shell stops until it is traced.
            run.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).arg(&program).args(words);
            trace(&mut run, &program, &all, |name, phase, at| {
                let group = match phase {
                    _ if name.starts_with(GUARD) => 0,
                    0 => number,
                    _ => 1 + PHASES.saturating_sub(phase),
                };
                if !groups[group].contains(&at) {
                    groups[group].push(at);
                }
            })?;
        }
        let called: BTreeSet<u64> = groups.iter().flatten().copied().collect();
        let placed_count = section(&program)?.map_or(0, |placed| called.range(placed).count());
        Ok(Self { all, count: called.len(), groups, placed_count })
    }
}

/// The least part of the called functions that the script names, in percent.
const PLACED_PERCENT: usize = 90;

/// Functions of a program by their addresses. Equal functions are one, with several names.
type Functions = BTreeMap<u64, Vec<String>>;

/// All functions of a program.
fn functions(program: &Path) -> Result<Functions, String> {
    let table = process::output(Command::new("readelf").arg("-sW").arg(program))?;
    let mut functions = Functions::new();
    for (address, name) in table.lines().filter_map(function) {
        functions.entry(address).or_default().push(name);
    }
    match functions.is_empty() {
        true => Err(format!("{} has no symbols of functions", program.display())),
        false => Ok(functions),
    }
}

/// Members of archives by the names of functions that they define. A local name of several members is not
/// among them.
type Members = BTreeMap<String, String>;

/// Members of the archives of the C library and of the unwinder.
fn c_members() -> Result<Members, String> {
    let mut nm = Command::new("nm");
    nm.args(["-A", "--defined-only"]);
    for name in ["libc.a", "libgcc_eh.a"] {
        let path = process::output(Command::new("cc").arg(format!("-print-file-name={name}")))?;
        nm.arg(path.trim());
    }
    Ok(members(&process::output(&mut nm)?))
}

/// Members in lines `ARCHIVE:MEMBER:ADDRESS TYPE NAME`; small types are those of local symbols.
fn members(table: &str) -> Members {
    let (mut global, mut local) = (Members::new(), BTreeMap::<String, Option<String>>::new());
    for line in table.lines() {
        let [place, kind, name] = line.split_whitespace().collect::<Vec<_>>()[..] else { continue };
        let Some(member) = place.rsplit(':').nth(1).map(str::to_owned) else { continue };
        match kind {
            "T" | "W" | "i" => _ = global.insert(name.to_owned(), member),
            "t" => {
                let entry = local.entry(name.to_owned()).or_insert_with(|| Some(member.clone()));
                entry.take_if(|known| *known != member);
            }
            _ => {}
        }
    }
    local.into_iter().filter_map(|(name, member)| Some((name, member?))).chain(global).collect()
}

/// Addresses of the section with the functions that were placed, if the program has it.
fn section(program: &Path) -> Result<Option<Range<u64>>, String> {
    let table = process::output(Command::new("readelf").arg("-SW").arg(program))?;
    Ok(table.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != SECTION).skip(2);
        let mut number = || u64::from_str_radix(words.next()?, 16).ok();
        let [start, _, len] = [number()?, number()?, number()?];
        Some(start..start + len)
    }))
}

/// Address and name of a function in a line `NUMBER: VALUE SIZE TYPE BIND VISIBILITY SECTION NAME`.
fn function(line: &str) -> Option<(u64, String)> {
    let [_, value, _, "FUNC", _, _, section, name] =
        line.split_whitespace().collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let is_defined = section != "UND" && !name.contains('@');
    is_defined.then(|| Some((u64::from_str_radix(value, 16).ok()?, name.to_owned())))?
}

/// Runs a command, whose shell has stopped itself, and calls `note` with the name of a process of `program`,
/// its phase, and the address of a function that it calls.
fn trace(
    command: &mut Command,
    program: &Path,
    functions: &Functions,
    mut note: impl FnMut(&str, usize, u64),
) -> Result<(), String> {
    let cannot = |error: nix::Error| format!("the run cannot be traced: {error}");
    let mut child = command
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("the shell does not start: {error}"))?;
    let root = Pid::from_raw(i32::try_from(child.id()).map_err(|error| error.to_string())?);
    waitpid(root, Some(WaitPidFlag::WUNTRACED)).map_err(cannot)?;
    let options = Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(root, options).map_err(cannot)?;
    kill(root, Signal::SIGCONT).map_err(cannot)?;
    let is_marker = |name: &String| name.contains(MARKER);
    let marker = functions.iter().find(|(_, names)| names.iter().any(is_marker));
    let marker = marker.map(|(at, _)| *at).ok_or(format!("there is no function {MARKER}"))?;
    let mut phases = BTreeMap::<String, TracedPhase>::new();
    loop {
        let status = match waitpid(None, Some(WaitPidFlag::__WALL)) {
            Ok(status) => status,
            Err(nix::Error::ECHILD) => break,
            Err(error) => return Err(cannot(error)),
        };
        // A process may be killed at any moment, so calls for one may fail.
        let _ = match status {
            WaitStatus::PtraceEvent(pid, _, event) if event == Event::PTRACE_EVENT_EXEC as i32 => {
                match fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program) {
                    true => {
                        Memory::of(pid)?.set_breakpoints(functions, |_| true)?;
                        ptrace::cont(pid, None)
                    }
                    false => ptrace::detach(pid, None),
                }
            }
            WaitStatus::PtraceEvent(pid, _, _) => ptrace::cont(pid, None),
            WaitStatus::Stopped(pid, Signal::SIGTRAP) => {
                let Ok(mut registers) = ptrace::getregs(pid) else { continue };
                let memory = Memory::of(pid)?;
                let at = registers.rip.wrapping_sub(1).wrapping_sub(memory.start(functions)?);
                match functions.contains_key(&at) {
                    true => {
                        memory.remove_breakpoint(functions, at)?;
                        registers.rip -= 1;
                        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
                        let name = name.unwrap_or_default();
                        let phase = phases.entry(memory.process()?).or_default();
                        note(&name, phase.number, at);
                        if at == marker && !name.starts_with(GUARD) {
                            // This thread is at the marker, whose breakpoint waits for the next function.
                            memory.set_breakpoints(functions, |one| one != marker)?;
                            *phase = TracedPhase { number: phase.number + 1, lacks_marker: true };
                            let callers = memory.callers(functions, registers.rsp)?;
                            callers.into_iter().for_each(|at| note(&name, phase.number, at));
                        } else if phase.lacks_marker {
                            memory.set_breakpoints(functions, |one| one == marker)?;
                            phase.lacks_marker = false;
                        }
                        ptrace::setregs(pid, registers).and_then(|()| ptrace::cont(pid, None))
                    }
                    false => ptrace::cont(pid, None),
                }
            }
            WaitStatus::Stopped(pid, Signal::SIGSTOP) => ptrace::cont(pid, None),
            WaitStatus::Stopped(pid, signal) => ptrace::cont(pid, signal),
            WaitStatus::Exited(pid, code) if pid == root && code != 0 => {
                return Err(format!("the run {command:?} ends with code {code}"));
            }
            _ => Ok(()),
        };
    }
    // It is reaped.
    let _ = child.try_wait();
    Ok(())
}

/// TracedPhase of a traced process.
#[derive(Default)]
struct TracedPhase {
    /// Number of calls of the marker so far.
    number: usize,
    /// True until the breakpoint of the marker is set again.
    lacks_marker: bool,
}

/// Memory of a traced process.
struct Memory {
    file: File,
    pid: Pid,
}

impl Memory {
    fn of(pid: Pid) -> Result<Self, String> {
        let file = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
        Ok(Self { file: file.map_err(|error| format!("the memory of {pid}: {error}"))?, pid })
    }

    /// Sets a breakpoint at each function that `is_chosen`.
    fn set_breakpoints(
        &self,
        functions: &Functions,
        is_chosen: impl Fn(u64) -> bool,
    ) -> Result<(), String> {
        let start = self.start(functions)?;
        let mut chosen = functions.keys().filter(|address| is_chosen(**address));
        chosen.try_for_each(|address| self.write(start + address, BREAKPOINT))
    }

    /// Functions of the event loop to which addresses on the stack belong: they continue when their calls
    /// return. Its callers continue at the end of the run.
    fn callers(&self, functions: &Functions, stack: u64) -> Result<Vec<u64>, String> {
        let mut bytes = vec![0; STACK_BYTES];
        // It ends earlier where the stack does.
        let len = self.file.read_at(&mut bytes, stack).map_err(|error| error.to_string())?;
        let start = self.start(functions)?;
        let last = functions.keys().next_back().copied().unwrap_or_default();
        let words = bytes[..len].chunks_exact(8).filter_map(|word| word.try_into().ok());
        let addresses = words.map(|word| u64::from_le_bytes(word).wrapping_sub(start));
        let inside = addresses.filter(|address| *address <= last);
        let found = inside.filter_map(|one| functions.range(..=one).next_back());
        let is_of_loop = |names: &[String]| names.iter().any(|name| name.contains(LOOP));
        Ok(found.filter(|(_, names)| is_of_loop(names)).map(|(at, _)| *at).collect())
    }

    /// The process of this thread.
    fn process(&self) -> Result<String, String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid));
        let status = status.map_err(|error| format!("the process of {}: {error}", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        Ok(line.unwrap_or_default().trim().to_owned())
    }

    /// Puts back the first byte of a function.
    fn remove_breakpoint(&self, functions: &Functions, address: u64) -> Result<(), String> {
        let program = File::open(format!("/proc/{}/exe", self.pid));
        let program = program.map_err(|error| error.to_string())?;
        let mut byte = [0];
        let offset = file_offset(&program, address).ok_or("a function is in no segment")?;
        program.read_exact_at(&mut byte, offset).map_err(|error| error.to_string())?;
        self.write(self.start(functions)? + address, byte[0])
    }

    /// The distance between addresses of the process and of the program; 0 if it was loaded where it was
    /// linked.
    fn start(&self, functions: &Functions) -> Result<u64, String> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid));
        let maps = maps.map_err(|error| error.to_string())?;
        let start = maps.split('-').next().and_then(|word| u64::from_str_radix(word, 16).ok());
        let start = start.ok_or("the program is not mapped")?;
        Ok(if functions.keys().next().is_some_and(|first| *first >= start) { 0 } else { start })
    }

    fn write(&self, address: u64, byte: u8) -> Result<(), String> {
        self.file.write_all_at(&[byte], address).map_err(|error| {
            format!("the memory of {} at {address:#x} cannot be written: {error}", self.pid)
        })
    }
}

/// Place in an ELF file of 64 bits of what is loaded at `address`.
fn file_offset(program: &File, address: u64) -> Option<u64> {
    let number = |at: u64, len: usize| {
        let mut bytes = [0; 8];
        program.read_exact_at(&mut bytes[..len], at).ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    let [table, size, count] = [number(32, 8)?, number(54, 2)?, number(56, 2)?];
    (0..count).map(|place| table + place * size).find_map(|header| {
        let [offset, start, len] =
            [number(header + 8, 8)?, number(header + 16, 8)?, number(header + 32, 8)?];
        let is_loaded = number(header, 4)? == 1 && (start..start + len).contains(&address);
        is_loaded.then(|| address - start + offset)
    })
}

/// The script of the linker that places the functions of each group next to each other, in the order of the
/// groups, and in that of their first calls. A function of several groups is in the first. Their tables, as
/// those of jumps, are placed likewise behind the constants that are no text.
///
/// A name without its hash that other functions have as well, as instances of a generic function do, would
/// place all of them. Such a function is named with its hash, which another compiler makes otherwise.
fn script(functions: &Functions, groups: &[Vec<u64>], members: &Members) -> String {
    let is_called = |address: &u64| groups.iter().any(|group| group.contains(address));
    let others = functions.iter().filter(|(address, _)| !is_called(address));
    let others: BTreeSet<String> =
        others.flat_map(|(_, names)| names).map(|name| pattern(name)).collect();
    let (mut code, mut constants, mut known) = (String::new(), String::new(), BTreeSet::new());
    for name in groups.iter().flatten().filter_map(|address| functions.get(address)).flatten() {
        if let Some(member) = members.get(name) {
            if known.insert(member.clone()) {
                code.push_str(&format!("    *.a:{member}(.text .text.*)\n"));
            }
            continue;
        }
        let mut pattern = pattern(name);
        if others.contains(&pattern) {
            pattern = format!("{}*", plain(name));
        }
        if known.insert(pattern.clone()) {
            code.push_str(&format!("    *(.text.{pattern} .text.unlikely.{pattern})\n"));
            let tables = format!("    *(.rodata.{pattern} .rodata..Lswitch.table.{pattern})\n");
            constants.push_str(&tables);
        }
    }
    format!(
        "{HEAD}SECTIONS\n{{\n  {SECTION} :\n  {{\n    *(.iplt)\n{code}  }}\n}}\nINSERT BEFORE .text;\n\
         SECTIONS\n{{\n  {CONSTANTS} :\n  {{\n    *(.rodata.cst*)\n{constants}  }}\n}}\n\
         INSERT BEFORE .rodata;\n"
    )
}

/// The name of a function without what an optimization has appended.
fn plain(name: &str) -> &str {
    name.split(".llvm.").next().unwrap_or(name)
}

/// The name of a function without what another compiler would make otherwise: hashes of crates and of generic
/// arguments, and what an optimization appends.
fn pattern(name: &str) -> String {
    let mut name = plain(name).to_owned();
    if let Some(hash) = name.rfind("17h").filter(|_| name.starts_with("_ZN")) {
        name.truncate(hash + 3);
        name.push('*');
        return name;
    }
    // `Cs`, the digits of a crate's hash, `_`.
    let mut parts = name.split("Cs");
    let mut pattern = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('_') {
            Some((hash, rest)) if hash.chars().all(|digit| digit.is_ascii_alphanumeric()) => {
                pattern.push_str("Cs*_");
                pattern.push_str(rest);
            }
            _ => {
                pattern.push_str("Cs");
                pattern.push_str(part);
            }
        }
    }
    pattern.push('*');
    pattern
}

const SCRIPT: &str = "host-std/layout.ld";
const SECTION: &str = ".text.run";
const CONSTANTS: &str = ".rodata.run";
const HEAD: &str = "/* Functions that runs call: written by `cargo xtask layout --write`. */\n";

/// Word of a run that stands for the client.
const CLIENT: &str = "CLIENT";

/// Upper bound of what is read of a stack.
const STACK_BYTES: usize = 128 << 10;

/// Part of the symbol of the function that a launcher of many ranks calls between two phases.
const MARKER: &str = "working_set4trim";

/// Part of the symbols of functions of the event loop.
const LOOP: &str = "10event_loop";

/// Number of phases after the first.
const PHASES: usize = 3;

/// Name of the process of a guard.
const GUARD: &str = "pmi-guard";

/// Runs whose functions are placed, the most frequent first. On a busy machine the launcher looks for ranks
/// that have sent no message, as it does where ranks begin with a `sleep`.
const RUNS: &[&[&str]] = &[
    &["run", "-n", "1", "/bin/true"],
    &["run", "-n", "8", "/bin/true"],
    &["run", "-n", "256", "CLIENT", "memory", "pmi1", "1023"],
    &["run", "-n", "128", "/bin/sh", "-c", "sleep 1; CLIENT memory pmi1 1023; sleep 0.3"],
    &["run", "-n", "4", "CLIENT", "work", "pmi1", "64", "32", "32", "25"],
    &["run", "-n", "4", "CLIENT", "work", "pmi2", "64", "32", "32", "25"],
    &["run", "-n", "8", "--starter", "local:2", "CLIENT", "memory", "pmi1", "1023"],
];

/// `int3`.
const BREAKPOINT: u8 = 0xcc;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_depends_on_the_compiler() {
        let cases = [
            ("_ZN8pmi_host4main17h0123456789abcdefE.llvm.77", "_ZN8pmi_host4main17h*"),
            ("_RNvNtCsjrHSEGnQ3l9_3std2rt4init", "_RNvNtCs*_3std2rt4init*"),
            ("main", "main*"),
        ];
        for (name, expected) in cases {
            assert_eq!(pattern(name), expected);
        }
    }

    #[test]
    fn functions_of_the_c_library_belong_to_members_of_its_archive() {
        let table = "\n/usr/lib/libc.a:malloc.o:0000000000001230 T malloc\n\
            libc.a:malloc.o:0000000000000010 t _int_malloc\n\
            libc.a:wait.o:0000000000000000 t cancel\nlibc.a:poll.o:0000000000000000 t cancel\n\
            libc.a:memmove.o:0000000000000000 i memmove\nlibc.a:errno.o:0000000000000000 B errno\n";
        let members = members(table);
        let found: Vec<_> =
            members.iter().map(|(name, member)| format!("{name} {member}")).collect();
        assert_eq!(found, ["_int_malloc malloc.o", "malloc malloc.o", "memmove memmove.o"]);
        let functions = Functions::from([
            (1, vec!["malloc".to_owned()]),
            (2, vec!["_int_malloc".to_owned()]),
            (3, vec!["_RNvCsAbc_4main5start".to_owned()]),
        ]);
        let text = script(&functions, &[vec![3, 2], vec![1]], &members);
        let placed: Vec<&str> = text.lines().filter(|line| line.contains('(')).collect();
        let expected = [
            "    *(.iplt)",
            "    *(.text._RNvCs*_4main5start* .text.unlikely._RNvCs*_4main5start*)",
            "    *.a:malloc.o(.text .text.*)",
            "    *(.rodata.cst*)",
            "    *(.rodata._RNvCs*_4main5start* .rodata..Lswitch.table._RNvCs*_4main5start*)",
        ];
        assert_eq!(placed, expected);
    }

    #[test]
    fn functions_are_read_from_the_table_of_symbols() {
        let line = "    12: 00000000000012a0    19 FUNC    LOCAL  DEFAULT   15 main";
        assert_eq!(function(line), Some((0x12a0, "main".to_owned())));
        let line =
            "    13: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND malloc@GLIBC_2.2.5 (3)";
        assert_eq!(function(line), None);
        assert_eq!(function("    14: 0000000000001000    19 OBJECT  LOCAL  DEFAULT   15 x"), None);
    }
}
