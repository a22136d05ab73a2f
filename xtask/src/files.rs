//! Files and directories that the commands write, with errors that name the path.

use std::fs;
use std::path::{Path, PathBuf};

/// Copies a directory with all that is in it.
pub(crate) fn copy_directory(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| at(to, error))?;
    for file in list(from)? {
        let Some(name) = file.file_name() else { continue };
        if file.is_dir() {
            copy_directory(&file, &to.join(name))?;
        } else {
            fs::copy(&file, to.join(name)).map_err(|error| at(&file, error))?;
        }
    }
    Ok(())
}

/// Copies a file, and makes the directories above its copy.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let parent = to.parent().map_or(Ok(()), fs::create_dir_all);
    parent.and_then(|()| fs::copy(from, to)).map(drop).map_err(|error| at(from, error))
}

/// Files of a directory, in the order of their names.
pub(crate) fn list(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(directory).map_err(|error| at(directory, error))?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(|error: std::io::Error| at(directory, error))?;
    paths.sort();
    Ok(paths)
}

pub(crate) fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| at(file, error))
}

/// Writes a file, and makes the directories above it.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), String> {
    let parent = file.parent().map_or(Ok(()), fs::create_dir_all);
    parent.and_then(|()| fs::write(file, text)).map_err(|error| at(file, error))
}

/// The error with the path that it is about.
pub(crate) fn at(path: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}
