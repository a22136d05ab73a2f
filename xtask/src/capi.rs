//! `cargo xtask capi`: the C libraries of PMI, linked of one static archive.
//!
//! Cargo makes the archive, with a profile in which a panic unwinds; `cc -shared` makes a library of it, with
//! a soname and a list of exported symbols. The lists are compared with the headers, and the libraries with
//! the lists.

use crate::args;
use crate::{process, report};
use lexopt::prelude::*;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Directory of sources and of the product, and the profile of cargo.
struct Product {
    source: PathBuf,
    directory: PathBuf,
    profile: String,
    other: Option<OtherTarget>,
}

/// Tools for another target than that of this machine.
pub(crate) struct OtherTarget {
    /// Command that makes the static archive.
    pub(crate) cargo: Command,
    /// Path of that archive.
    pub(crate) archive: PathBuf,
    /// Words of the C compiler for the target.
    pub(crate) compiler: Vec<OsString>,
}

/// A shared library.
struct SharedLibrary {
    /// Name for the linker, of the header, of the export list and of the package for `pkg-config`.
    name: &'static str,
    description: &'static str,
}

const LIBRARIES: [SharedLibrary; 3] = [
    SharedLibrary { name: "pmi", description: "Process Management Interface, version 1" },
    SharedLibrary { name: "pmi2", description: "Process Management Interface, version 2" },
    SharedLibrary { name: "pmi_server", description: "Embeddable server of PMI-1 and PMI-2" },
];

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let usage = "cargo xtask capi [--profile PROFILE] [--directory DIRECTORY]";
    let (mut profile, mut directory) = (None, None);
    args::read(arguments, usage, |parser| {
        while let Some(arg) = parser.next()? {
            match arg {
                Long("profile") => profile = Some(parser.value()?.string()?),
                Long("directory") => directory = Some(parser.value()?.into()),
                other => return Err(other.unexpected()),
            }
        }
        Ok(())
    })?;
    let mut product = Product::new(profile, directory);
    let findings = product.make()?;
    println!("the libraries are in {}", product.directory.display());
    Ok(report("capi", &findings))
}

/// Makes the libraries as users get them, and returns what is wrong with them.
pub(crate) fn check() -> Result<Vec<String>, String> {
    Product::new(None, None).make()
}

/// Makes the libraries as users get them in `directory`, and returns what is wrong with them.
pub(crate) fn make(directory: &Path) -> Result<Vec<String>, String> {
    Product::new(None, Some(directory.to_owned())).make()
}

/// Makes the libraries for another target in `directory`, and returns what is wrong with them.
pub(crate) fn make_for(directory: &Path, other: OtherTarget) -> Result<Vec<String>, String> {
    Product { other: Some(other), ..Product::new(None, Some(directory.to_owned())) }.make()
}

impl Product {
    fn new(profile: Option<String>, directory: Option<PathBuf>) -> Self {
        let root = process::root();
        Self {
            source: root.join("host-std/capi"),
            directory: root.join(directory.unwrap_or_else(|| "target/capi".into())),
            profile: profile.unwrap_or_else(|| PROFILE.into()),
            other: None,
        }
    }

    /// Makes everything; returns findings about the symbols.
    fn make(&mut self) -> Result<Vec<String>, String> {
        let archive = self.archive()?;
        let (lib, include) = (self.directory.join("lib"), self.directory.join("include"));
        for directory in [lib.join("pkgconfig"), include.clone()] {
            create(&directory)?;
        }
        place(&lib.join("libpmi.a"), |fresh| copy(&archive, fresh))?;
        for other in ["libpmi2.a", "libpmi_server.a"] {
            place(&lib.join(other), |fresh| link("libpmi.a", fresh))?;
        }
        let mut findings = Vec::new();
        for library in &LIBRARIES {
            let header = format!("{}.h", library.name);
            place(&include.join(&header), |fresh| {
                copy(&self.source.join("include").join(&header), fresh)
            })?;
            let exports = self.source.join(format!("exports/{}.map", library.name));
            let expected = exported(&read(&exports)?);
            place(&lib.join(library.soname()), |fresh| {
                let mut linker = self.compiler();
                library.link(&mut linker, &exports, &expected);
                if self.is_stripped() {
                    linker.arg("-Wl,--strip-all");
                }
                linker.arg("-o").arg(fresh).arg(&archive).args(SYSTEM_LIBRARIES.split(' '));
                process::output(&mut linker).map(drop)
            })?;
            place(&lib.join(format!("lib{}.so", library.name)), |fresh| {
                link(&library.soname(), fresh)
            })?;
            place(&lib.join(format!("pkgconfig/{}.pc", library.name)), |fresh| {
                fs::write(fresh, library.package()).map_err(|error| error.to_string())
            })?;
            findings.extend(library.check(&lib, &read(&include.join(header))?, &expected)?);
        }
        Ok(findings)
    }

    /// Has cargo build the static archive; returns its path.
    fn archive(&mut self) -> Result<PathBuf, String> {
        if let Some(other) = &mut self.other {
            process::output(&mut other.cargo)?;
            return Ok(other.archive.clone());
        }
        let mut cargo = process::cargo();
        cargo.args(["rustc", "--quiet", "--package", "pmi-capi", "--lib", "--profile"]);
        cargo.args([&self.profile, "--crate-type", "staticlib"]);
        process::output(&mut cargo)?;
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or_else(|| process::root().join("target"), PathBuf::from);
        let directory = if self.profile == "dev" { "debug" } else { &self.profile };
        Ok(target.join(directory).join("libpmi_capi.a"))
    }

    /// The C compiler, which links the libraries.
    fn compiler(&self) -> Command {
        let words = self.other.iter().flat_map(|other| &other.compiler);
        let mut words = words.map(OsString::as_os_str);
        let mut compiler = process::command(words.next().unwrap_or("cc".as_ref()));
        compiler.args(words);
        compiler
    }

    const fn is_stripped(&self) -> bool {
        // The archive keeps its symbols, which its users strip.
        !matches!(self.profile.as_bytes(), b"dev")
    }
}

impl SharedLibrary {
    fn soname(&self) -> String {
        format!("lib{}.so.0", self.name)
    }

    /// Adds options for the library to the command that links it.
    fn link(&self, linker: &mut Command, exports: &Path, symbols: &BTreeSet<String>) {
        linker.arg("-shared");
        linker.arg(format!("-Wl,-soname,{}", self.soname()));
        linker.arg(format!("-Wl,--version-script={}", exports.display()));
        // Nothing but the exported functions is taken out of the archive, with what they need.
        linker.args(symbols.iter().map(|symbol| format!("-Wl,-u,{symbol}")));
        linker.args(["-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,-z,relro", "-Wl,-z,now"]);
        // The handler of forks, and the state of the process, outlive `dlclose`.
        linker.arg("-Wl,-z,nodelete");
    }

    /// The file for `pkg-config`, which finds everything beside itself.
    fn package(&self) -> String {
        let Self { name, description } = self;
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "prefix=${{pcfiledir}}/../..\nincludedir=${{prefix}}/include\nlibdir=${{prefix}}/lib\n\n\
             Name: {name}\nDescription: {description}\nVersion: {version}\n\
             Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -l{name}\nLibs.private: {SYSTEM_LIBRARIES}\n"
        )
    }

    /// Compares header, export list, shared library and archive.
    fn check(
        &self,
        lib: &Path,
        header: &str,
        expected: &BTreeSet<String>,
    ) -> Result<Vec<String>, String> {
        let soname = self.soname();
        let mut findings = Vec::new();
        let mut declared = declared(header);
        declared.insert(SENTINEL.into());
        findings.extend(differences(&format!("{}.h declares", self.name), &declared, expected));
        let nm = process::output(
            process::command("nm").args(["-D", "--defined-only"]).arg(lib.join(&soname)),
        );
        findings.extend(differences(&format!("{soname} exports"), &symbols(&nm?), expected));
        let nm = process::command("nm")
            .args(["-g", "--defined-only", "--quiet"])
            .arg(lib.join("libpmi.a"))
            .output();
        let archive =
            symbols(&String::from_utf8_lossy(&nm.map_err(|error| error.to_string())?.stdout));
        let missing = expected.difference(&archive);
        findings.extend(missing.map(|symbol| format!("libpmi.a lacks {symbol}")));
        let dynamic =
            process::output(process::command("readelf").args(["-d", "-W"]).arg(lib.join(&soname)))?;
        if !dynamic.contains(&format!("soname: [{soname}]")) {
            findings.push(format!("{soname} has another soname"));
        }
        Ok(findings)
    }
}

/// Symbols of one set only, as findings.
fn differences(
    subject: &str,
    found: &BTreeSet<String>,
    expected: &BTreeSet<String>,
) -> Vec<String> {
    let more =
        found.difference(expected).map(|symbol| format!("{subject} {symbol}, not in the list"));
    let less = expected.difference(found).map(|symbol| format!("{subject} no {symbol}"));
    more.chain(less).collect()
}

/// Symbols of an export list.
fn exported(map: &str) -> BTreeSet<String> {
    let lines = map.lines().filter_map(|line| line.trim().strip_suffix(';'));
    lines.filter(|name| is_symbol(name)).map(str::to_owned).collect()
}

/// Functions that a header declares.
fn declared(header: &str) -> BTreeSet<String> {
    let names = header.lines().filter_map(|line| line.strip_prefix("int ")?.split_once('('));
    names.map(|(name, _)| name.to_owned()).filter(|name| is_symbol(name)).collect()
}

/// Symbols of the output of `nm`.
fn symbols(nm: &str) -> BTreeSet<String> {
    let names = nm.lines().filter_map(|line| line.split_whitespace().nth(2));
    names.map(str::to_owned).collect()
}

fn is_symbol(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Makes a file beside its place and moves it there, since a process may be using the present one.
fn place(path: &Path, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
    let fresh = path.with_extension(format!("fresh{}", std::process::id()));
    make(&fresh)?;
    fs::rename(&fresh, path).map_err(|error| format!("{}: {error}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}

fn link(target: &str, link: &Path) -> Result<(), String> {
    symlink(target, link).map_err(|error| format!("{}: {error}", link.display()))
}

fn create(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Profile in which a panic unwinds, and becomes a code of the function.
pub(crate) const PROFILE: &str = "unwind";

/// Symbol by which `pmi-host doctor` recognises the libraries.
const SENTINEL: &str = "pmi_capi_version";

/// Libraries of the system that the archive needs.
const SYSTEM_LIBRARIES: &str = "-lgcc_s -lpthread -lm -ldl -lc";

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn symbols_are_read_of_lists_headers_and_nm() {
        assert_eq!(
            exported("{\n    global:\n        A_b;\n    local:\n        *;\n};\n"),
            set(&["A_b"])
        );
        assert_eq!(
            declared("int A_b(int x);\ntypedef int PMI_BOOL;\nint (*read)(void);\n"),
            set(&["A_b"])
        );
        assert_eq!(symbols("0000000000001234 T A_b\n                 U c\n"), set(&["A_b"]));
    }

    #[test]
    fn symbol_that_is_missing_or_too_many_is_a_finding() {
        let found = differences("lib exports", &set(&["a", "b"]), &set(&["b", "c"]));
        assert_eq!(found, ["lib exports a, not in the list", "lib exports no c"]);
    }
}
