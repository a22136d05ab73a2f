//! Files of an installation, by their paths below its prefix.

use super::CommandPages;
use super::file::{FileContent, InstallFile};
use clap_complete::Shell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// All files of an installation.
///
/// Shape: `bin` with the program and `links` to it, `share/man`, completions where the shells look for
/// them, a modulefile that names `prefix`, and what accompanies the program in `release`: the C libraries,
/// their headers and the documentation.
pub(super) fn files(
    pages: &CommandPages,
    (program, release): (&Path, Option<&Path>),
    prefix: &Path,
    links: &[String],
) -> io::Result<Vec<InstallFile>> {
    let mut files = vec![InstallFile {
        path: PathBuf::from("bin").join(OWN),
        content: FileContent::Copy(program.to_owned()),
    }];
    files.extend(links.iter().map(|name| InstallFile::link(Path::new("bin").join(name), OWN)));
    for (name, text) in (pages.manuals)() {
        let is_of_link = !name.starts_with(OWN);
        if !is_of_link || links.contains(&name) {
            files.push(InstallFile::text(format!("share/man/man1/{name}.1"), text));
        }
    }
    for name in std::iter::once(OWN).chain(links.iter().map(String::as_str)) {
        for (shell, path) in [
            (Shell::Bash, format!("share/bash-completion/completions/{name}")),
            (Shell::Zsh, format!("share/zsh/site-functions/_{name}")),
            (Shell::Fish, format!("share/fish/vendor_completions.d/{name}.fish")),
        ] {
            files.extend((pages.completion)(shell, name).map(|text| InstallFile::text(path, text)));
        }
    }
    let module = format!("share/modulefiles/{OWN}/{VERSION}");
    files.push(InstallFile::text(module, modulefile(prefix)));
    for directory in ACCOMPANYING {
        if let Some(release) = release {
            collect(release, Path::new(directory), &mut files)?;
        }
    }
    Ok(files)
}

/// Directory of the release that contains this program: its `bin` is beside files that accompany it.
pub(super) fn release_of(program: &Path) -> Option<PathBuf> {
    let release = program.parent()?.parent()?;
    let has = |directory: &&&str| release.join(directory).is_dir();
    ACCOMPANYING.iter().find(has).map(|_| release.to_owned())
}

/// Adds all files below a directory of the release, in the order of their names.
fn collect(release: &Path, directory: &Path, files: &mut Vec<InstallFile>) -> io::Result<()> {
    let entries = match fs::read_dir(release.join(directory)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name());
    }
    names.sort();
    for name in names {
        let path = directory.join(name);
        let from = release.join(&path);
        let kind = fs::symlink_metadata(&from)?.file_type();
        if kind.is_dir() {
            collect(release, &path, files)?;
        } else if kind.is_symlink() {
            files.push(InstallFile::link(path, fs::read_link(&from)?));
        } else {
            files.push(InstallFile { path, content: FileContent::Copy(from) });
        }
    }
    Ok(())
}

/// For Environment Modules and Lmod.
fn modulefile(prefix: &Path) -> String {
    let prefix = prefix.display();
    format!(
        "#%Module1.0\n\
         module-whatis \"pmi-host {VERSION}: starts MPI programs and serves them PMI and PMIx\"\n\
         set root {{{prefix}}}\n\
         prepend-path PATH $root/bin\n\
         prepend-path MANPATH $root/share/man\n\
         prepend-path PKG_CONFIG_PATH $root/lib/pmi-host/pkgconfig\n"
    )
}

/// Directories of a release that are installed as they are.
const ACCOMPANYING: &[&str] = &["lib/pmi-host", "include/pmi-host", "share/doc/pmi-host"];

const OWN: &str = "pmi-host";
const VERSION: &str = env!("CARGO_PKG_VERSION");
