//! `cargo xtask dist`: archives and packages of a release, each tried in an empty root directory.
//!
//! ```text
//! pmi-host-VERSION-x86_64-linux-gnu.tar.gz     with TLS and the C libraries
//! pmi-host-VERSION-x86_64-linux-static.tar.gz  one static program (--static): musl, without TLS
//! pmi-host-VERSION-PROCESSOR-linux-gnu2.28.tar.gz  the first one for glibc 2.28, two processors (--portable)
//! pmi-host_VERSION_amd64.deb                   the first one as a package; the .rpm where rpmbuild is
//! installed SHA256SUMS
//! ```
//!
//! `--untried` makes the directory and the archive only, for recipes of other package managers.

mod portable;

use crate::args;
use crate::toolchain::{self, Facts};
use crate::{capi, process};
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub(crate) fn command(arguments: &[String]) -> Result<ExitCode, String> {
    let usage = "cargo xtask dist [--static] [--portable] [--untried]";
    let names = ["static", "portable", "untried"];
    let [has_static, is_portable, is_untried] = args::flags(arguments, usage, names)?;
    let release = Release::new(PROFILE)?;
    let mut archives = vec![release.with_libraries()?];
    if has_static {
        archives.push(release.static_program()?);
    }
    if is_untried {
        return Ok(ExitCode::SUCCESS);
    }
    for archive in &archives {
        release.try_archive(archive)?;
    }
    if is_portable {
        archives.extend(portable::archives(&release)?);
    }
    archives.push(release.debian_package(&archives[0])?);
    archives.extend(release.rpm_package(&archives[0])?);
    let names = archives.iter().filter_map(|path| path.file_name());
    let mut sums = Command::new("sha256sum");
    let sums = process::output(sums.current_dir(&release.directory).args(names))?;
    fs::write(release.directory.join("SHA256SUMS"), &sums).map_err(|error| error.to_string())?;
    print!("{sums}");
    println!("the archives are in {}", release.directory.display());
    Ok(ExitCode::SUCCESS)
}

/// The step of the tests: the archive with the libraries and the package, each tried. Its program is the one
/// that other steps have built.
///
/// # Errors
///
/// The first that does not work, with the reason.
pub(crate) fn check() -> Result<Vec<String>, String> {
    let release = Release::new("release")?;
    let archive = release.with_libraries()?;
    release.try_archive(&archive)?;
    let package = release.debian_package(&archive)?;
    release.try_package(&package)?;
    release.try_cmake(&archive)?;
    Ok(Vec::new())
}

/// Products of a release.
struct Release {
    directory: PathBuf,
    /// Profile of cargo for programs.
    profile: &'static str,
}

impl Release {
    fn new(profile: &'static str) -> Result<Self, String> {
        let directory = toolchain::target_directory().join("dist");
        let _ = fs::remove_dir_all(&directory);
        create(&directory)?;
        Ok(Self { directory, profile })
    }

    /// The archive with TLS and the C libraries, which need the C library of this machine or a newer one.
    fn with_libraries(&self) -> Result<PathBuf, String> {
        let program = toolchain::build_host_as(self.profile)?;
        let tree = self.tree("x86_64", "gnu", &program)?;
        let libraries = self.directory.join("capi");
        let findings = capi::make(&libraries)?;
        if let Some(finding) = findings.first() {
            return Err(finding.clone());
        }
        add_libraries(&tree, &libraries)?;
        self.pack(&tree)
    }

    /// The archive with one static program, which needs nothing of the system but its kernel.
    fn static_program(&self) -> Result<PathBuf, String> {
        let program = static_program(self.profile, &self.directory)?;
        self.pack(&self.tree("x86_64", "static", &program)?)
    }

    /// Directory of an archive, with the program and the documents.
    fn tree(&self, processor: &str, kind: &str, program: &Path) -> Result<PathBuf, String> {
        let tree = self.directory.join(format!("pmi-host-{VERSION}-{processor}-linux-{kind}"));
        let documents = tree.join("share/doc/pmi-host");
        create(&tree.join("bin"))?;
        create(&documents)?;
        let installed = tree.join("bin/pmi-host");
        copy(program, &installed)?;
        // Its symbols are as large as its instructions; those that debuggers look up are needed.
        if processor == env::consts::ARCH {
            let mut strip = Command::new("strip");
            process::output(strip.args(["--wildcard", "--keep-symbol=MPIR_*"]).arg(&installed))?;
        }
        let symbols = process::output(Command::new("readelf").arg("-sW").arg(&installed))?;
        if !symbols.contains(" MPIR_proctable") {
            return Err(format!("debuggers find no table of ranks in {}", installed.display()));
        }
        for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            copy(&process::root().join(name), &documents.join(name))?;
        }
        Ok(tree)
    }

    /// Packs a directory; the same contents give the same bytes.
    fn pack(&self, tree: &Path) -> Result<PathBuf, String> {
        let name = tree.file_name().unwrap_or_default().to_string_lossy();
        let archive = self.directory.join(format!("{name}.tar.gz"));
        let mut tar = Command::new("tar");
        tar.current_dir(&self.directory).args(["--sort=name", "--owner=0", "--group=0"]);
        tar.args(["--numeric-owner", "--mtime=@0", "--use-compress-program=gzip -n9", "-cf"]);
        process::output(tar.arg(&archive).arg(&*name))?;
        Ok(archive)
    }

    /// Unpacks an archive in a root directory with nothing but the libraries that the program needs,
    /// installs it from there, runs a job under a link, and removes it.
    fn try_archive(&self, archive: &Path) -> Result<(), String> {
        let root = self.empty_root("root")?;
        process::output(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&root))?;
        let name = archive.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_end_matches(".tar.gz");
        copy_libraries(&root.join(name).join("bin/pmi-host"), &root)?;
        let program = format!("/{name}/bin/pmi-host");
        in_root(&root, &[&program, "install", "--prefix", "/opt/pmi"])?;
        let printed = in_root(
            &root,
            &["/opt/pmi/bin/mpiexec", "-n", "2", "/opt/pmi/bin/pmi-host", "version"],
        )?;
        if printed.lines().count() != 2 {
            return Err(format!("two ranks of the installed program print {printed:?}"));
        }
        let demo = in_root(&root, &["/opt/pmi/bin/pmi-host", "run", "-n", "3"])?;
        if !demo.contains("median") {
            return Err(format!("the demo of the installed program prints {demo:?}"));
        }
        in_root(&root, &["/opt/pmi/bin/pmi-host", "uninstall", "--prefix", "/opt/pmi"])?;
        match root.join("opt/pmi").read_dir().is_ok_and(|mut rest| rest.next().is_some()) {
            true => Err("the removed installation has left files".into()),
            false => fs::remove_dir_all(&root).map_err(|error| error.to_string()),
        }
    }

    /// A package for Debian and its derivatives. It brings no `mpiexec`, which the packages of MPI
    /// libraries have; `update-alternatives` selects one among them.
    fn debian_package(&self, archive: &Path) -> Result<PathBuf, String> {
        let tree = self.directory.join("deb");
        let release = self.unpacked(archive);
        let mut install = Command::new(release.join("bin/pmi-host"));
        install.args(["install", "--prefix", "/usr", "--links", "none", "--destdir"]);
        process::output(install.arg(&tree).arg("--from").arg(&release))?;
        // The package manager has a list of its own.
        fs::remove_dir_all(tree.join("usr/share/pmi-host")).map_err(|error| error.to_string())?;
        let control = tree.join("DEBIAN");
        create(&control)?;
        let write = |name: &str, text: &str| {
            fs::write(control.join(name), text).map_err(|error| error.to_string())
        };
        write("control", &control_file(&glibc_of(&release)?))?;
        for (name, script) in [("postinst", POSTINST), ("prerm", PRERM)] {
            write(name, script)?;
            process::output(Command::new("chmod").arg("755").arg(control.join(name)))?;
        }
        let package = self.directory.join(format!("pmi-host_{VERSION}_amd64.deb"));
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "--build"]).env("SOURCE_DATE_EPOCH", "0");
        process::output(build.arg(&tree).arg(&package))?;
        Ok(package)
    }

    /// Unpacks the package and runs its program.
    fn try_package(&self, package: &Path) -> Result<(), String> {
        let root = self.empty_root("package-root")?;
        process::output(Command::new("dpkg-deb").arg("-x").arg(package).arg(&root))?;
        copy_libraries(&root.join("usr/bin/pmi-host"), &root)?;
        let demo = in_root(&root, &["/usr/bin/pmi-host", "run", "-n", "2"])?;
        match demo.contains("median") && root.join("usr/lib/pmi-host/libpmi.so.0").exists() {
            true => fs::remove_dir_all(&root).map_err(|error| error.to_string()),
            false => Err(format!("the package lacks a library, or its demo prints {demo:?}")),
        }
    }

    /// Runs the example for CMake with the program of an archive.
    fn try_cmake(&self, archive: &Path) -> Result<(), String> {
        let build = self.directory.join("cmake");
        let program = self.unpacked(archive).join("bin/pmi-host");
        let mut configure = process::command("cmake");
        configure.args(["-S", "host-std/dist/cmake", "-B"]).arg(&build);
        configure.arg(format!("-DPMI_HOST={}", program.display()));
        process::output(configure.arg("-DMPI_C_COMPILER=mpicc.mpich"))?;
        process::output(process::command("cmake").arg("--build").arg(&build))?;
        let mut test = process::command("ctest");
        process::output(test.arg("--output-on-failure").arg("--test-dir").arg(&build)).map(drop)
    }

    /// A package for distributions with rpm, if this machine can build one.
    fn rpm_package(&self, archive: &Path) -> Result<Option<PathBuf>, String> {
        if Command::new("rpmbuild").arg("--version").output().is_err() {
            println!("no rpmbuild, so no .rpm; on Debian: apt-get install rpm");
            return Ok(None);
        }
        let (top, tree) = (self.directory.join("rpm"), self.directory.join("deb/usr"));
        create(&top)?;
        let spec = top.join("pmi-host.spec");
        fs::write(&spec, spec_file(&tree, &glibc_of(&self.unpacked(archive))?))
            .map_err(|error| error.to_string())?;
        let mut build = Command::new("rpmbuild");
        build.args(["-bb", "--quiet", "--target", "x86_64", "--define"]);
        process::output(build.arg(format!("_topdir {}", top.display())).arg(&spec))?;
        let name = format!("pmi-host-{VERSION}-1.x86_64.rpm");
        let package = archive.with_file_name(&name);
        copy(&top.join("RPMS/x86_64").join(&name), &package)?;
        Ok(Some(package))
    }

    fn unpacked(&self, archive: &Path) -> PathBuf {
        let name = archive.file_name().unwrap_or_default().to_string_lossy();
        self.directory.join(name.trim_end_matches(".tar.gz"))
    }

    /// A root directory with an empty `/tmp`, `/dev/null` and nothing else.
    fn empty_root(&self, name: &str) -> Result<PathBuf, String> {
        let root = self.directory.join(name);
        for directory in ["tmp", "dev", "proc"] {
            create(&root.join(directory))?;
        }
        Ok(root)
    }
}

/// Builds the static program with a profile of cargo, and returns its path; `directory` gets what is
/// linked to it.
///
/// # Errors
///
/// It cannot be built, with the remedy.
pub(crate) fn static_program(profile: &str, directory: &Path) -> Result<PathBuf, String> {
    let toolchain = toolchain::choose(MUSL, &Facts::probe())?;
    let mut cargo = toolchain::build(&toolchain, MUSL, "std,panic_abort", profile);
    cargo.args(["--package", "pmi-host", "--no-default-features"]);
    if matches!(toolchain, toolchain::Toolchain::BuildStd { .. }) {
        let libraries = unwinder(directory)?;
        let flags = format!(
            "-Ctarget-feature=+crt-static -Crelocation-model=static -Clink-self-contained=no \
             -Clinker=musl-gcc -L{}",
            libraries.display()
        );
        cargo.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS", flags);
    }
    if !process::succeeds(&mut cargo) {
        return Err("the static program does not build; it needs Debian's musl-tools".into());
    }
    let built = toolchain::directory(&toolchain).join(MUSL);
    Ok(built.join(toolchain::profile_directory(profile)).join("pmi-host"))
}

/// Directory with the unwinder of gcc for programs with musl, by the name under which the standard
/// library links it. It looks functions up in glibc, where that is new enough; in its place it finds
/// none, and then no backtrace, which this program never prints.
fn unwinder(directory: &Path) -> Result<PathBuf, String> {
    let directory = directory.join("unwinder");
    create(&directory)?;
    let source = directory.join("find.c");
    let text = "int _dl_find_object(void *a, void *b) { (void)a; (void)b; return -1; }\n";
    fs::write(&source, text).map_err(|error| error.to_string())?;
    let object = directory.join("find.o");
    let mut compiler = Command::new("musl-gcc");
    process::output(compiler.args(["-O2", "-c", "-o"]).arg(&object).arg(&source))?;
    let print = "-print-file-name=libgcc_eh.a";
    let archive = process::output(Command::new("gcc").arg(print))?;
    let library = directory.join("libunwind.a");
    fs::copy(archive.trim(), &library).map_err(|error| format!("libgcc_eh.a: {error}"))?;
    process::output(Command::new("ar").arg("r").arg(&library).arg(&object))?;
    Ok(directory)
}

/// Adds the C libraries of a directory of [`capi::make`] to that of an archive.
fn add_libraries(tree: &Path, libraries: &Path) -> Result<(), String> {
    let (lib, include) = (tree.join("lib/pmi-host"), tree.join("include/pmi-host"));
    copy_tree(&libraries.join("lib"), &lib)?;
    copy_tree(&libraries.join("include"), &include)?;
    for entry in entries(&lib.join("pkgconfig"))? {
        let text = fs::read_to_string(&entry).map_err(|error| error.to_string())?;
        let text = text
            .replace("prefix=${pcfiledir}/../..", "prefix=${pcfiledir}/../../..")
            .replace("${prefix}/include", "${prefix}/include/pmi-host")
            .replace("${prefix}/lib", "${prefix}/lib/pmi-host");
        fs::write(&entry, text).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Runs a program with `root` as its root directory, and without a variable.
fn in_root(root: &Path, words: &[&str]) -> Result<String, String> {
    // It needs no root where users may have namespaces of their own; a program without `/proc` is lost.
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--map-root-user", "--pid", "--fork", "--mount-proc", "--root"])
        .arg(root)
        .args(["--wd", "/"])
        .args(words);
    process::output(unshare.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
}

/// Copies the dynamic loader and the libraries of a program, if it has any.
fn copy_libraries(program: &Path, root: &Path) -> Result<(), String> {
    for path in libraries(program) {
        let at = root.join(path.trim_start_matches('/'));
        create(at.parent().unwrap_or(root))?;
        copy(Path::new(&path), &at)?;
    }
    Ok(())
}

/// Paths of the shared libraries that a program needs, its loader included.
pub(crate) fn libraries(program: &Path) -> Vec<String> {
    // A static program has none, and the command says so by its exit code.
    let list = process::output(Command::new("ldd").arg(program)).unwrap_or_default();
    let paths = list.split_whitespace().filter(|word| word.starts_with('/'));
    paths.map(|path| path.trim_end_matches(':').to_owned()).collect()
}

/// True if a program needs the loader of the system.
pub(crate) fn has_loader(program: &Path) -> Result<bool, String> {
    let headers = process::output(Command::new("readelf").arg("-lW").arg(program))?;
    Ok(headers.contains("INTERP"))
}

/// The newest version of glibc that a program or a library requires a symbol of.
fn needed_glibc(program: &Path) -> Result<String, String> {
    let mut readelf = Command::new("readelf");
    let symbols = process::output(readelf.args(["--dyn-syms", "-W"]).arg(program))?;
    let versions = symbols
        .split("GLIBC_")
        .skip(1)
        .filter_map(|rest| rest.split(|c: char| !(c.is_ascii_digit() || c == '.')).next());
    let newest = versions.max_by_key(|version| version_numbers(version));
    newest.map(str::to_owned).ok_or_else(|| "no symbol of glibc".into())
}

/// The newest version of glibc that the program or a library of an unpacked release requires.
fn glibc_of(release: &Path) -> Result<String, String> {
    let program = needed_glibc(&release.join("bin/pmi-host"))?;
    let libraries = newest_glibc(&release.join("lib/pmi-host"))?;
    let is_newer = version_numbers(&program) > version_numbers(&libraries);
    Ok(if is_newer { program } else { libraries })
}

/// The newest version of glibc that a shared library of a directory requires.
fn newest_glibc(directory: &Path) -> Result<String, String> {
    let is_shared = |path: &PathBuf| path.extension().is_some_and(|end| end == "0");
    let libraries = entries(directory)?.into_iter().filter(is_shared);
    let needed: Vec<String> =
        libraries.map(|path| needed_glibc(&path)).collect::<Result<_, String>>()?;
    let newest = needed.into_iter().max_by_key(|version| version_numbers(version));
    newest.ok_or_else(|| format!("{} has no library", directory.display()))
}

/// The numbers of a version, to be compared.
fn version_numbers(text: &str) -> Vec<u32> {
    text.split('.').filter_map(|part| part.parse().ok()).collect()
}

fn control_file(glibc: &str) -> String {
    format!(
        "Package: pmi-host\nVersion: {VERSION}\nArchitecture: amd64\nSection: net\nPriority: optional\n\
         Maintainer: the maintainers of pmi-host <pmi-host@localhost>\n\
         Depends: libc6 (>= {glibc}), libgcc-s1\nSuggests: openssh-client, gdb\n\
         Description: launcher and PMI server for MPI programs\n \
         Starts programs of MPICH, Intel MPI and Open MPI on one machine or many,\n \
         serves them PMI-1, PMI-2 and PMIx, and reports the cause of a failure.\n"
    )
}

/// The files of the tree `from`, as a package.
fn spec_file(from: &Path, glibc: &str) -> String {
    let from = from.display();
    format!(
        "Name: pmi-host\nVersion: {VERSION}\nRelease: 1\nLicense: MIT OR Apache-2.0\n\
         Summary: Launcher and PMI server for MPI programs\nAutoReqProv: no\n\
         Requires: glibc >= {glibc}\n\
         %global debug_package %{{nil}}\n%global __os_install_post %{{nil}}\n%description\n\
         Starts programs of MPICH, Intel MPI and Open MPI on one machine or many.\n%install\n\
         mkdir -p %{{buildroot}}/usr\ncp -a {from}/. %{{buildroot}}/usr\n%files\n\
         /usr/bin/pmi-host\n/usr/lib/pmi-host\n/usr/include/pmi-host\n/usr/share\n"
    )
}

fn create(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}

/// Paths in a directory, in order.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let read = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = read?.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    create(to)?;
    for path in entries(from)? {
        let at = to.join(path.file_name().unwrap_or_default());
        if path.is_symlink() {
            let target = fs::read_link(&path).map_err(|error| error.to_string())?;
            symlink(target, &at).map_err(|error| format!("{}: {error}", at.display()))?;
        } else if path.is_dir() {
            copy_tree(&path, &at)?;
        } else {
            copy(&path, &at)?;
        }
    }
    Ok(())
}

/// Below the packages of MPI libraries, whose links are at 40 and 50: an installation changes no default.
const POSTINST: &str = "#!/bin/sh
set -e
if [ \"$1\" = configure ]; then
    update-alternatives --install /usr/bin/mpirun mpirun /usr/bin/pmi-host 30 \\
        --slave /usr/bin/mpiexec mpiexec /usr/bin/pmi-host
fi
";
const PRERM: &str = "#!/bin/sh
set -e
if [ \"$1\" = remove ]; then
    update-alternatives --remove mpirun /usr/bin/pmi-host
fi
";

/// Profile of cargo for programs that are handed out.
const PROFILE: &str = "dist";

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Target of the static program.
pub(crate) const MUSL: &str = "x86_64-unknown-linux-musl";
