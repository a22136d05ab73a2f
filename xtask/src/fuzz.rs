//! `cargo xtask fuzz`: builds the fuzzers of core and runs each for a while, two at a time.
//!
//! Does the work of `cargo fuzz` without its installation, with the stable compiler, which is
//! allowed to use the options of its own sanitizers. Findings are in the target directory, with the
//! generated inputs; a later run begins with both those and the committed ones.

use crate::args;
use crate::machine::{in_ci, verdict_on_lack};
use crate::process;
use crate::tally::Tally;
use crate::toolchain::{self, Facts};
use lexopt::prelude::*;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;

/// A fuzz target, and the longest input worth trying.
struct FuzzTarget {
    name: &'static str,
    max_len: u32,
}

const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "session_bytes", max_len: 4096 },
    FuzzTarget { name: "decode_pmi2", max_len: 2048 },
    FuzzTarget { name: "client_bytes", max_len: 4096 },
    FuzzTarget { name: "decode_pmi1", max_len: 2048 },
    FuzzTarget { name: "session_pmix", max_len: 4096 },
    FuzzTarget { name: "decode_pmix", max_len: 2048 },
    FuzzTarget { name: "decode_binary", max_len: 2048 },
    FuzzTarget { name: "decode_nodes", max_len: 2048 },
    FuzzTarget { name: "decode_snapshot", max_len: 2048 },
];

/// Number of fuzzers run at once; each takes one processor.
const AT_ONCE: usize = 2;

const MANIFEST: &str = "core/fuzz/Cargo.toml";

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let (seconds, names) = parse(arguments)?;
    let tally = fuzz(seconds, |target| names.is_empty() || names.contains(&target.name));
    Ok(if tally.failed == 0 && tally.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(arguments: &[String]) -> Result<(u32, Vec<&'static str>), String> {
    let (mut seconds, mut names) = (60, Vec::new());
    args::read(arguments, "cargo xtask fuzz [--seconds N] [TARGET...]", |parser| {
        while let Some(arg) = parser.next()? {
            match arg {
                Long("seconds") => seconds = parser.value()?.parse()?,
                Value(name) => names.push(name.parse_with(named)?),
                other => return Err(other.unexpected()),
            }
        }
        match seconds {
            // libFuzzer takes it for "for ever".
            0 => Err("--seconds needs a number above 0".into()),
            _ => Ok((seconds, names)),
        }
    })
}

/// The name of a target.
fn named(name: &str) -> Result<&'static str, String> {
    let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let found = known.iter().find(|known| **known == name);
    found.copied().ok_or_else(|| format!("there are {}", known.join(", ")))
}

fn fuzz(seconds: u32, is_meant: impl Fn(&FuzzTarget) -> bool) -> Tally {
    // libFuzzer itself is written in C++.
    let cxx = env::var_os("CXX").unwrap_or_else(|| "c++".into());
    if let Err(why) = process::output(process::command(cxx).arg("--version")) {
        println!("not run: {why}; on Debian: apt-get install g++");
        return verdict_on_lack(in_ci());
    }
    let directory = directory();
    let built = match host() {
        Ok(host) => build(&host, &directory).then(|| directory.join(&host).join("release")),
        Err(why) => {
            println!("{why}");
            None
        }
    };
    let Some(built) = built else { return Tally::FAILED };
    let queue = Mutex::new(TARGETS.iter().filter(|target| is_meant(target)).collect::<Vec<_>>());
    let total = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(target) = take(&queue) {
                    let passed = run(target, &built, &directory, seconds);
                    *total.lock().unwrap_or_else(|broken| broken.into_inner()) += Tally::of(passed);
                }
            });
        }
    });
    total.into_inner().unwrap_or(Tally::FAILED)
}

fn take<'a>(queue: &Mutex<Vec<&'a FuzzTarget>>) -> Option<&'a FuzzTarget> {
    let mut queue = queue.lock().unwrap_or_else(|broken| broken.into_inner());
    if queue.is_empty() { None } else { Some(queue.remove(0)) }
}

/// The target must be named, or what runs while building would be watched as well.
fn host() -> Result<String, String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let says = process::output(process::command(rustc).arg("-vV"))?;
    let host = says.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not name its host".into())
}

fn directory() -> PathBuf {
    toolchain::target_directory().join("fuzz")
}

fn command_for(host: &str, directory: &Path) -> Command {
    let mut flags = FLAGS.join(" ");
    if has_sanitizer(host) {
        flags += " -Zsanitizer=address";
    }
    let mut cargo = process::cargo();
    cargo.args(["build", "--quiet", "--locked", "--release", "--target", host]);
    cargo.args(["--manifest-path", MANIFEST]);
    cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", directory);
    cargo
}

fn build(host: &str, directory: &Path) -> bool {
    if !has_sanitizer(host) {
        // There is no unsafe code in core, so all but nothing is lost.
        println!("without the address sanitizer: this compiler comes without its library");
    }
    process::succeeds(&mut command_for(host, directory))
}

/// The settings of `cargo fuzz`: edge counters, and comparisons that guide the fuzzer.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg fuzzing",
    "-Ccodegen-units=1",
];

fn has_sanitizer(host: &str) -> bool {
    let sysroot = Facts::probe().sysroot.unwrap_or_default();
    let libraries = sysroot.join("lib/rustlib").join(host).join("lib");
    let Ok(entries) = fs::read_dir(libraries) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().ends_with("_rt.asan.a"))
}

/// Runs one fuzzer; its many lines are shown only if it finds something.
fn run(target: &FuzzTarget, built: &Path, directory: &Path, seconds: u32) -> bool {
    let grown = directory.join("grown").join(target.name);
    let found = directory.join("found");
    if let Err(error) = fs::create_dir_all(&grown).and_then(|()| fs::create_dir_all(&found)) {
        println!("{}: {error}", grown.display());
        return false;
    }
    match arguments(target, built, &grown, &found, seconds).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            println!("{}", verdict(target.name, output.status.success(), &said));
            output.status.success()
        }
        Err(error) => {
            println!("{}: {error}", target.name);
            false
        }
    }
}

fn arguments(
    target: &FuzzTarget,
    built: &Path,
    grown: &Path,
    found: &Path,
    seconds: u32,
) -> Command {
    let corpus = PathBuf::from("core/fuzz/corpus").join(target.name);
    let mut fuzzer = process::command(built.join(target.name));
    fuzzer
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={}", target.max_len))
        // Nothing here takes long or much; what does is found as well.
        .args(["-timeout=10", "-rss_limit_mb=2048"])
        .arg(format!("-artifact_prefix={}/{}-", found.display(), target.name))
        .args([grown, &corpus]);
    fuzzer
}

/// One line if all is well; else what is wrong, and what to do about it.
fn verdict(name: &str, passed: bool, said: &str) -> String {
    if passed {
        let last = said.lines().rev();
        let done = last.clone().find(|line| line.starts_with("Done ")).unwrap_or("Done");
        let covered = last.clone().find_map(|line| {
            let (_, covered) = line.split_once(" cov: ")?;
            covered.split(' ').next()
        });
        return format!("{name}: {done}, {} edges covered", covered.unwrap_or("no"));
    }
    let lines: Vec<&str> = said.lines().collect();
    let first =
        lines.iter().position(|line| line.contains("panicked at") || line.contains("ERROR:"));
    let shown = lines.get(first.unwrap_or(0)..).unwrap_or(&[]);
    format!(
        "{name}: a check failed\n{}\ncorrect it, and add the file named above to \
         core/fuzz/corpus/{name}",
        shown.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn targets_and_seconds_are_read_in_any_order() {
        assert_eq!(parse(&[]), Ok((60, Vec::new())));
        let both = words(&["decode_pmi1", "--seconds", "7", "decode_pmi2"]);
        assert_eq!(parse(&both), Ok((7, vec!["decode_pmi1", "decode_pmi2"])));
        for bad in [&["--seconds"][..], &["--seconds", "0"], &["--seconds", "x"], &["decode_pmi3"]]
        {
            assert!(parse(&words(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn targets_are_binaries_with_a_corpus() {
        let root = process::root();
        let manifest = fs::read_to_string(root.join(MANIFEST)).unwrap();
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
        for FuzzTarget { name, .. } in TARGETS {
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
            assert!(root.join("core/fuzz/corpus").join(name).is_dir(), "{name}");
        }
    }

    #[test]
    fn output_of_a_fuzzer_is_shown_only_if_it_matters() {
        let said = "INFO: x\n#4\tINITED cov: 11 ft: 12\n#8\tDONE   cov: 21 ft: 30 corp: 1\n\
                    Done 8 runs in 6 second(s)\n";
        let line = verdict("a", true, said);
        assert_eq!(line, "a: Done 8 runs in 6 second(s), 21 edges covered");
        let said = "INFO: x\nthread 'main' panicked at a.rs:1:1:\nwrong\nTest unit written to f\n";
        let text = verdict("a", false, said);
        assert!(text.contains("wrong") && text.contains("written to f") && !text.contains("INFO"));
    }
}
