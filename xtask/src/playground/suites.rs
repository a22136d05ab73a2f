//! The files of the page's tests, two at a time: browsers mostly wait for frames and for time to pass.

use super::BrowserSetup;
use crate::files;
use crate::process;
use crate::tally::Tally;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Runs all files.
pub(super) fn run(browser: &BrowserSetup) -> Result<Tally, String> {
    let queue = Mutex::new(suites()?.into_iter());
    let total = Mutex::new(Tally::default());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    // A statement of its own: the queue is free while the file runs.
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(file) = next else { return };
                    let tally = run_one(browser, &file);
                    *total.lock().unwrap_or_else(PoisonError::into_inner) += tally;
                }
            });
        }
    });
    Ok(total.into_inner().unwrap_or(Tally::FAILED))
}

/// Prints what a file says when it has ended, so that those of two do not mix.
fn run_one(browser: &BrowserSetup, file: &Path) -> Tally {
    let begin = Instant::now();
    let mut node = browser.node();
    node.args(["--test", "--test-reporter=tap"]).arg(file);
    let (tally, said) = process::count_apart(&mut node);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let seconds = begin.elapsed().as_secs_f64();
    let mut out = io::stdout().lock();
    // A reader that is gone changes no result.
    let _ = writeln!(out, "-- {name}").and_then(|()| out.write_all(&said));
    let _ = writeln!(out, "-- {name}: {tally} ({seconds:.1} s)");
    tally
}

/// The files of tests, those that take longest first.
fn suites() -> Result<Vec<PathBuf>, String> {
    let all = files::list(&process::root().join("wasm/tests"))?;
    let is_suite = |file: &PathBuf| file.to_string_lossy().ends_with(".test.mjs");
    let mut suites: Vec<PathBuf> = all.into_iter().filter(is_suite).collect();
    suites.sort_by_key(|file| {
        LONGEST.iter().position(|name| is_named(file, name)).unwrap_or(LONGEST.len())
    });
    Ok(suites)
}

fn is_named(file: &Path, name: &str) -> bool {
    file.file_name() == Some(OsStr::new(name))
}

/// Number of files at a time; each has a browser of its own.
const AT_ONCE: usize = 2;

/// Files that take longer than the others, the longest first.
const LONGEST: [&str; 4] =
    ["page.test.mjs", "lessons.test.mjs", "a11y.test.mjs", "challenges.test.mjs"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_all_files_of_tests_and_the_longest_begin() {
        let suites = suites().unwrap();
        for (file, name) in suites.iter().zip(LONGEST) {
            assert!(is_named(file, name), "{name}");
        }
        assert!(suites.iter().any(|file| is_named(file, "firefox.test.mjs")));
        assert!(!suites.iter().any(|file| is_named(file, "browser.mjs")));
    }
}
