//! `cargo xtask playground`: the page on which jobs are played, built into one folder and served.
//!
//! The folder holds all that the page needs; any server of files can serve it.

mod serve;

use crate::machine::{Machine, Need};
use crate::process;
use crate::wasm::{self, Loader};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the page is built with.
pub(crate) const NEEDS: &[Need] = &[Need::Target(wasm::TARGET)];

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let plan = plan(arguments)?;
    let machine = Machine::prepare(NEEDS.iter().copied());
    let folder = build(&machine, plan.folder.as_deref())?;
    println!("the page is in {}", folder.display());
    match plan.port {
        Some(port) => serve::serve(&folder, port),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// Where to build; a folder among what cargo builds unless it is said.
    folder: Option<PathBuf>,
    /// Where to serve; nowhere if the page is only built.
    port: Option<u16>,
}

fn plan(arguments: &[String]) -> Result<Plan, String> {
    let mut plan = Plan { folder: None, port: Some(PORT) };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} lacks a value; {USAGE}"))?;
        match word.as_str() {
            "--build-only" => (plan.folder, plan.port) = (Some(value.into()), None),
            "--port" => {
                let number = value.parse().map_err(|_| format!("`{value}` is no port"))?;
                plan.port = Some(number);
            }
            _ => return Err(format!("no option {word:?}; {USAGE}")),
        }
    }
    Ok(plan)
}

/// Builds the page, and says where it is.
pub(crate) fn build(machine: &Machine, folder: Option<&Path>) -> Result<PathBuf, String> {
    let built = wasm::module(machine, "pmi-playground", Loader::Page)?;
    let folder = folder.map_or_else(|| built.with_file_name("playground"), Path::to_path_buf);
    let root = process::root();
    copy(&root.join("wasm/www"), &folder)?;
    copy(&built, &folder)?;
    let scenarios = root.join("wasm/sim/scenarios");
    copy(&scenarios, &folder.join("scenarios"))?;
    write(&folder.join("scenarios/index.json"), &list(&scenarios)?)?;
    Ok(folder)
}

/// The scenarios as the page lists them: the name, and the first line of what it shows.
fn list(folder: &Path) -> Result<String, String> {
    let mut all = Vec::new();
    for file in files(folder)? {
        let text = fs::read_to_string(&file).map_err(|error| at(&file, error))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let about = text.lines().find_map(|line| line.strip_prefix("about "));
        all.push(serde_json::json!({
            "name": name,
            "about": about.unwrap_or_default().trim_matches('"'),
        }));
    }
    Ok(serde_json::Value::from(all).to_string())
}

/// Copies a folder with all that is in it, and removes what was there and is not any more.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| at(to, error))?;
    for file in files(from)? {
        let Some(name) = file.file_name() else { continue };
        if file.is_dir() {
            copy(&file, &to.join(name))?;
        } else {
            fs::copy(&file, to.join(name)).map_err(|error| at(&file, error))?;
        }
    }
    Ok(())
}

/// What is in a folder, in the order of its names.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| at(folder, error))?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(|error: std::io::Error| at(folder, error))?;
    paths.sort();
    Ok(paths)
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| at(file, error))
}

fn at(path: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

const USAGE: &str = "usage: cargo xtask playground [--port N] [--build-only FOLDER]";

/// Where the page is served unless it is said; the simulator prints links that begin with it.
const PORT: u16 = 7641;

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(words: &[&str]) -> Result<Plan, String> {
        plan(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn the_page_is_served_unless_it_is_only_built() {
        assert_eq!(planned(&[]), Ok(Plan { folder: None, port: Some(PORT) }));
        let only = Plan { folder: Some("out".into()), port: None };
        assert_eq!(planned(&["--build-only", "out"]), Ok(only));
        assert_eq!(planned(&["--port", "0"]), Ok(Plan { folder: None, port: Some(0) }));
        for bad in [&["--port"][..], &["--port", "x"], &["--open", "it"]] {
            assert!(planned(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn links_of_the_simulator_lead_to_where_the_page_is_served() {
        let source = fs::read_to_string(process::root().join("wasm/sim/src/link.rs")).unwrap();
        assert!(source.contains(&format!("\"http://127.0.0.1:{PORT}/\"")));
    }

    #[test]
    fn every_scenario_is_listed_with_what_it_shows() {
        let list = list(&process::root().join("wasm/sim/scenarios")).unwrap();
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        let all = list.as_array().unwrap();
        assert!(all.len() > 20);
        assert!(all.iter().all(|one| one["about"].as_str().is_some_and(|text| !text.is_empty())));
        assert!(all.iter().any(|one| one["name"] == "put-fence-get"));
    }
}
