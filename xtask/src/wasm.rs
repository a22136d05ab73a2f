//! Modules of wasm: compiled, and given the JavaScript that loads them.

use crate::machine::Machine;
use crate::process;
use crate::toolchain::{self, Toolchain};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment that loads a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loader {
    /// A program that Node runs.
    Node,
    /// A page.
    Page,
}

/// The target of all modules.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// Builds the module of `package` into a directory of its own, and returns that; with one feature of the
/// package and no other, if one is named.
pub(crate) fn module(
    machine: &Machine,
    package: &str,
    feature: Option<&str>,
    loader: Loader,
) -> Result<PathBuf, String> {
    let choice = choose(machine)?;
    println!("compiler: {choice}");
    if !process::succeeds(&mut command(&choice, package, feature)) {
        return Err(format!("{package} cannot be built for {TARGET}"));
    }
    let built = toolchain::directory(&choice).join(TARGET).join(PROFILE);
    let module = built.join(package.replace('-', "_")).with_extension("wasm");
    let directory = toolchain::target_directory().join("wasm").join(package);
    let directory = feature.map_or(directory.clone(), |feature| directory.join(feature));
    write(&module, loader, &directory)?;
    Ok(directory)
}

/// The compiler of modules.
pub(crate) fn choose(machine: &Machine) -> Result<Toolchain, String> {
    toolchain::choose(TARGET, &machine.facts)
}

/// The build of a module before it is given its JavaScript; see [`module`].
pub(crate) fn command(choice: &Toolchain, package: &str, feature: Option<&str>) -> Command {
    let mut cargo = toolchain::build(choice, TARGET, "std,panic_abort", PROFILE);
    if let Some(feature) = feature {
        cargo.args(["--no-default-features", "--features", feature]);
    }
    cargo.args(["--package", package]);
    cargo
}

fn write(module: &Path, loader: Loader, directory: &Path) -> Result<(), String> {
    let cannot = |error| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(cannot)?;
    let kind = match loader {
        Loader::Node => {
            // Modules for Node are CommonJS, whatever the directories above specify.
            fs::write(directory.join("package.json"), "{\"type\":\"commonjs\"}\n")
                .map_err(cannot)?;
            "node"
        }
        Loader::Page => "web",
    };
    let mut cargo = process::cargo();
    cargo.args(["run", "--quiet", "--package", "xtask-bindgen", "--", kind]).arg(module);
    match process::succeeds(cargo.arg(directory)) {
        true => Ok(()),
        false => Err(format!("there is no JavaScript for {}", module.display())),
    }
}

/// Small first, and with the symbols that the JavaScript is made of.
pub(crate) const PROFILE: &str = "web";
