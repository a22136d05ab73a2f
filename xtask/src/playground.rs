//! `cargo xtask playground`: the page on which jobs are played, built into one directory and served.
//!
//! The directory holds all that the page needs; any server of files can serve it.

mod serve;
mod suites;

use crate::args;
use crate::files::{self, at};
use crate::machine::{self, Machine, Need};
use crate::tally::Tally;
use crate::wasm::{self, Loader};
use crate::{process, toolchain};
use flate2::Compression;
use flate2::write::GzEncoder;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{fs, thread};

/// Requirements of a build of the page.
const NEEDS: &[Need] = &[Need::Target(wasm::TARGET)];

/// Additional requirements of its tests.
pub(crate) const BROWSER_NEEDS: &[Need] =
    &[Need::Target(wasm::TARGET), Need::Node, Need::Npm, Need::Chromium, Need::Firefox];

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let plan = plan(arguments)?;
    if plan.is_measured {
        let machine = Machine::prepare(BROWSER_NEEDS.iter().copied());
        return match BROWSER_NEEDS.iter().find_map(|need| machine.lack(*need)) {
            Some(why) => Err(why.into()),
            None => measure(&machine),
        };
    }
    let machine = Machine::prepare(NEEDS.iter().copied());
    let directory = build(&machine, plan.directory.as_deref())?;
    println!("the page is in {}", directory.display());
    if let Some(port) = plan.port {
        let (listener, address) = serve::listen(port)?;
        println!("open {address} in a browser; control-C ends it");
        serve::serve(&listener, &directory);
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the page, holds its modules to their budgets, and lets a browser use it as people do.
pub(crate) fn check(machine: &Machine) -> Result<Tally, String> {
    let mut browser = BrowserSetup::serve(machine)?;
    browser.variables.push(("PMI_HOST", toolchain::build_host()?.into()));
    let mut tally = weigh(&browser.directory)?;
    tally += suites::run(&browser)?;
    Ok(tally)
}

/// Measures how soon the page can be used, and how smoothly it moves.
fn measure(machine: &Machine) -> Result<ExitCode, String> {
    let browser = BrowserSetup::serve(machine)?;
    let is_done = process::succeeds(browser.node().arg("wasm/tests/bench.mjs"));
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The page as it is served, and what a Node needs to drive a browser to it.
struct BrowserSetup {
    directory: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

impl BrowserSetup {
    /// Builds and serves the page.
    fn serve(machine: &Machine) -> Result<Self, String> {
        let directory = build(machine, None)?;
        let (listener, address) = serve::listen(0)?;
        let served = directory.clone();
        thread::spawn(move || serve::serve(&listener, &served));
        let variables = vec![
            ("PMI_PAGE", address.into()),
            ("PMI_NPM", packages()?.into()),
            ("CHROMIUM", machine::chromium().unwrap_or_default().into()),
            ("FIREFOX", machine::firefox().unwrap_or_default().into()),
        ];
        Ok(Self { directory, variables })
    }

    fn node(&self) -> Command {
        let mut node = process::node();
        node.envs(self.variables.iter().map(|(name, value)| (name, value)));
        node
    }
}

/// Installs the packages of the page's tests, by the committed list, and returns their directory.
fn packages() -> Result<PathBuf, String> {
    let directory = toolchain::target_directory().join("playground-npm");
    fs::create_dir_all(&directory).map_err(|error| at(&directory, error))?;
    for name in ["package.json", "package-lock.json"] {
        let file = process::root().join("wasm").join(name);
        fs::copy(&file, directory.join(name)).map_err(|error| at(&file, error))?;
    }
    let mut npm = process::command("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&directory);
    match process::succeeds(&mut npm) {
        true => Ok(directory),
        false => Err("npm could not install what wasm/package-lock.json names".into()),
    }
}

/// Number of bytes each module has on its way to a browser, against its budget.
fn weigh(directory: &Path) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for (part, most) in PARTS {
        let module = directory.join(part).join("pmi_playground_bg.wasm");
        let bytes = fs::read(&module).map_err(|error| at(&module, error))?;
        let len = gzipped_len(&bytes)?;
        println!("{part}: {len} bytes of {most}, compressed");
        tally += Tally::of(len <= *most);
    }
    let len = first_load_len(directory)?;
    println!("first load: {len} bytes of {FIRST_LOAD_MAX}, compressed");
    tally += Tally::of(len <= FIRST_LOAD_MAX);
    Ok(tally)
}

/// Number of bytes that a browser loads before the page can be used, each file compressed.
fn first_load_len(directory: &Path) -> Result<usize, String> {
    let mut all = Vec::new();
    for name in ["index.html", "style.css", "icon.svg", "scenarios/index.json"] {
        all.push(directory.join(name));
    }
    let (first, _) = PARTS[0];
    for part in [SCRIPTS[0], first] {
        all.extend(files::list(&directory.join(part))?);
    }
    let mut sum = 0;
    for file in all {
        sum += gzipped_len(&fs::read(&file).map_err(|error| at(&file, error))?)?;
    }
    Ok(sum)
}

/// Gives a page within the book the way to it: messages link to their sections then.
pub(crate) fn tell_book(directory: &Path) -> Result<(), String> {
    let file = directory.join("index.html");
    let page = files::read(&file)?;
    files::write(
        &file,
        &page.replacen("<html lang=\"en\">", "<html lang=\"en\" data-book=\"../\">", 1),
    )
}

/// Removes the comments of the scripts in a directory: a third of what a browser would load of them.
fn strip_comments(directory: &Path) -> Result<(), String> {
    for file in files::list(directory)? {
        files::write(&file, &without_comments(&files::read(&file)?))?;
    }
    Ok(())
}

/// A script without the lines that are comments. No script of the page has such a line within a text.
fn without_comments(script: &str) -> String {
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    script.lines().filter(|line| !is_comment(line)).flat_map(|line| [line, "\n"]).collect()
}

/// A style sheet without indentation and the lines that are comments.
fn without_style_comments(style: &str) -> String {
    let is_comment = |line: &&str| line.starts_with("/*") && line.ends_with("*/");
    style
        .lines()
        .map(str::trim)
        .filter(|line| !is_comment(line))
        .flat_map(|line| [line, "\n"])
        .collect()
}

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
struct PlaygroundArgs {
    /// Directory of the page; by default one in cargo's target directory.
    directory: Option<PathBuf>,
    /// Port of the server; `None` if the page is only built.
    port: Option<u16>,
    /// True if to measure it instead.
    is_measured: bool,
}

fn plan(arguments: &[String]) -> Result<PlaygroundArgs, String> {
    let mut plan = PlaygroundArgs { directory: None, port: None, is_measured: false };
    args::read(arguments, USAGE, |parser| {
        while let Some(arg) = parser.next()? {
            match arg {
                Long("build-only") => plan.directory = Some(parser.value()?.into()),
                Long("port") => plan.port = Some(parser.value()?.parse()?),
                Long("bench") => plan.is_measured = true,
                other => return Err(other.unexpected()),
            }
        }
        Ok(())
    })?;
    if plan.directory.is_none() {
        plan.port.get_or_insert(PORT);
    }
    Ok(plan)
}

/// Builds the page and returns its directory.
pub(crate) fn build(machine: &Machine, directory: Option<&Path>) -> Result<PathBuf, String> {
    let default = toolchain::target_directory().join("playground");
    let directory = directory.map_or(default, |directory| process::root().join(directory));
    let root = process::root();
    // Of an earlier build, whose scripts may have been elsewhere.
    for scripts in SCRIPTS {
        match fs::remove_dir_all(directory.join(scripts)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(at(&directory, error));
            }
            _ => {}
        }
    }
    files::copy_directory(&root.join("wasm/www"), &directory)?;
    for scripts in SCRIPTS {
        strip_comments(&directory.join(scripts))?;
    }
    let style = directory.join("style.css");
    files::write(&style, &without_style_comments(&files::read(&style)?))?;
    for (part, _) in PARTS {
        let built = wasm::module(machine, PACKAGE, Some(part), Loader::Page)?;
        files::copy_directory(&built, &directory.join(part))?;
    }
    let scenarios = root.join("wasm/sim/scenarios");
    files::copy_directory(&scenarios, &directory.join("scenarios"))?;
    files::write(&directory.join("scenarios/index.json"), &list(&scenarios)?)?;
    Ok(directory)
}

/// The scenarios as the page lists them: the name, and the first line of what it shows.
fn list(directory: &Path) -> Result<String, String> {
    let mut all = Vec::new();
    for file in files::list(directory)? {
        let text = files::read(&file)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let about = text.lines().find_map(|line| line.strip_prefix("about "));
        all.push(serde_json::json!({
            "name": name,
            "about": about.unwrap_or_default().trim_matches('"'),
        }));
    }
    Ok(serde_json::Value::from(all).to_string())
}

/// Length of `bytes` after compression by a server.
fn gzipped_len(bytes: &[u8]) -> Result<usize, String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let done = encoder.write_all(bytes).and_then(|()| encoder.finish());
    done.map(|all| all.len()).map_err(|error| error.to_string())
}

/// The package of the modules.
const PACKAGE: &str = "pmi-playground";

/// Directories of scripts: those that the page begins with, and those that it loads when they are needed.
const SCRIPTS: [&str; 2] = ["app", "later"];

/// The modules of the page, which are features of the package, and the bound of their compressed
/// size. The page begins with the first; the second is loaded with the first opened file, the third
/// with the first rank of PMIx or the first challenge, the fourth with the first tree of nodes.
const PARTS: &[(&str, usize)] =
    // 150 and 225 KiB until the challenge was keyed by HMAC, 152 and 228 KiB until jobs had ranks on several
    // nodes, 154 and 231 KiB until these had names, groups and events; 157, 110 and 237 KiB until the values
    // of PMIx had names; 158, 113 and 248 KiB until all its states and codes had, and tools had output; 160,
    // 115 and 255 KiB until messages were columns, and a trace was shown in two thirds of the time; 257 KiB
    // for PMIx until fences left data to be fetched, 259 KiB until its client had queries, job control and
    // groups; 163, 118 and 261 KiB until the states of all ranks were known at every moment, so that a step
    // back plays nothing again, lines of a trace were read without a detour, and challenges had servers with
    // a fault; 268 KiB for PMIx until its ranks had events and groups; 166 KiB for the first until jobs that
    // have ended made room for further connections; 120 KiB for recordings until a worker read them and the
    // page got their columns; 104 KiB for trees until they grew; 272 KiB for PMIx until collectives had
    // participants of other runs.
    &[
        ("played", 167 * 1024),
        ("recorded", 121 * 1024),
        ("pmix", 279 * 1024),
        ("tree", 108 * 1024),
    ];

/// Bound of what is loaded before the page can be used, compressed.
const FIRST_LOAD_MAX: usize = 250 * 1024;

const USAGE: &str = "cargo xtask playground [--port N] [--build-only DIR] [--bench]";

/// Default port of the page; the simulator prints links that begin with it.
const PORT: u16 = 7641;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn style_sheet_loses_only_what_is_for_its_readers() {
        let style = "a {\n  /* why */\n  color: red; /* kept */\n}\n";
        assert_eq!(without_style_comments(style), "a {\ncolor: red; /* kept */\n}\n");
    }

    fn planned(words: &[&str]) -> Result<PlaygroundArgs, String> {
        plan(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn page_is_served_unless_it_is_only_built() {
        assert_eq!(
            planned(&[]),
            Ok(PlaygroundArgs { directory: None, port: Some(PORT), is_measured: false })
        );
        let only = PlaygroundArgs { directory: Some("out".into()), port: None, is_measured: false };
        assert_eq!(planned(&["--build-only", "out"]), Ok(only));
        assert_eq!(
            planned(&["--port", "0"]),
            Ok(PlaygroundArgs { directory: None, port: Some(0), is_measured: false })
        );
        for bad in [&["--port"][..], &["--port", "x"], &["--open", "it"]] {
            assert!(planned(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn scripts_lose_comments_and_nothing_else() {
        let script = "// A file.\n\nconst a = \"http://x\"; // kept\n  /// A sum.\n  f();\n";
        assert_eq!(without_comments(script), "\nconst a = \"http://x\"; // kept\n  f();\n");
        let www = process::root().join("wasm/www");
        for file in SCRIPTS.iter().flat_map(|name| files::list(&www.join(name)).unwrap()) {
            let text = files::read(&file).unwrap();
            let is_in_text = |(at, _): &(usize, &str)| text[..*at].matches('`').count() % 2 == 1;
            let starts = text.match_indices('\n').map(|(at, _)| (at, &text[at + 1..]));
            let comments =
                starts.filter(|(_, rest)| rest.trim_start_matches(' ').starts_with("//"));
            assert_eq!(comments.filter(is_in_text).count(), 0, "{}", file.display());
        }
    }

    #[test]
    fn sections_that_messages_link_to_exist() {
        let root = process::root();
        let script = files::read(&root.join("wasm/www/app/sections.js")).unwrap();
        let quoted = |text: &str, mark: &str| -> Vec<String> {
            let found =
                text.split(mark).skip(1).map(|rest| rest.split('"').next().unwrap_or_default());
            found.map(str::to_string).collect()
        };
        let formats: Vec<&str> = script.split("page: \"").skip(1).collect();
        assert_eq!(formats.len(), 4);
        for format in formats {
            let page = format.split('"').next().unwrap().replace(".html", ".md");
            let text = files::read(&root.join(&page)).unwrap();
            let titles = text.lines().filter(|line| line.starts_with('#'));
            let slug = |title: &str| -> String {
                let title = title.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
                title.chars().filter(|letter| letter.is_alphanumeric() || *letter == '-').collect()
            };
            let anchors: Vec<String> = titles.map(slug).collect();
            let sections = format.split_once("sections: {").unwrap().1;
            let sections = sections.split('}').next().unwrap();
            let keys = sections.split(": [").map(|before| {
                before.rsplit([',', ' ', '{', '\n']).next().unwrap_or_default().trim_matches('"')
            });
            let keys: Vec<&str> = keys.filter(|key| !key.is_empty() && *key != "]").collect();
            assert!(keys.len() >= 2, "{keys:?}");
            for key in keys {
                assert!(anchors.iter().any(|anchor| anchor == key), "{page} has no section {key}");
            }
            for codec in quoted(format, "codec: \"pmi_core/") {
                assert!(root.join("core/src").join(&codec).exists(), "{codec}");
            }
        }
        let page = files::read(&root.join("wasm/www/index.html")).unwrap();
        assert!(page.contains("<html lang=\"en\">"), "the book finds where to mark it");
    }

    /// The colours of a block of a style sheet, in its order: `--name: value`.
    fn colors(block: &str) -> Vec<&str> {
        let found = block.split(['{', ';', '}']).map(str::trim);
        found.filter(|rule| rule.starts_with("--") && rule.contains(": #")).collect()
    }

    #[test]
    fn pictures_of_traces_have_the_colors_and_the_legend_of_the_page() {
        let read = |path: &str| files::read(&process::root().join(path)).unwrap();
        let palette = read("transports/trace/src/view/svg/palette.css");
        let style = read("wasm/www/style.css");
        let (light, dark) = palette.split_once("@media (prefers-color-scheme: dark)").unwrap();
        let (page_light, rest) = style.split_once(":root[data-theme=\"dark\"]").unwrap();
        let (page_dark, _) = rest.split_once('}').unwrap();
        for (picture, page) in [(light, page_light), (dark, page_dark)] {
            let page = colors(page);
            assert!(colors(picture).len() > 10);
            for color in colors(picture) {
                assert!(page.contains(&color), "{color} is no colour of wasm/www/style.css");
            }
        }
        let drawing = read("transports/trace/src/view/svg/draw.rs");
        let legend = read("wasm/www/app/legend.js");
        let signs = drawing.split_once("const LEGEND").unwrap().1.split_once("];").unwrap().0;
        let words: Vec<&str> = signs.split('"').skip(1).step_by(2).collect();
        assert_eq!(words.len(), 10);
        for sign in words.chunks(2) {
            let [kind, meaning] = sign else { unreachable!("there are pairs") };
            assert!(legend.contains(&format!("[\"{kind}\", \"{meaning}\"]")), "{kind}: {meaning}");
        }
        // Pictures that are committed have been drawn with these colours.
        for picture in ["docs/sequence.svg", "docs/learn/mpi-init.svg"] {
            assert!(read(picture).contains(palette.trim()), "{picture} is drawn in other colours");
        }
    }

    #[test]
    fn links_of_the_simulator_lead_to_where_the_page_is_served() {
        let source = fs::read_to_string(process::root().join("wasm/sim/src/link.rs")).unwrap();
        assert!(source.contains(&format!("\"http://127.0.0.1:{PORT}/\"")));
    }

    #[test]
    fn scenarios_are_listed_with_their_subjects() {
        let list = list(&process::root().join("wasm/sim/scenarios")).unwrap();
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        let all = list.as_array().unwrap();
        assert!(all.len() > 20);
        assert!(all.iter().all(|one| one["about"].as_str().is_some_and(|text| !text.is_empty())));
        assert!(all.iter().any(|one| one["name"] == "put-fence-get"));
    }
}
