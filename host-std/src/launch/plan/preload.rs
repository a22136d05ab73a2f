//! C libraries of PMI for ranks that would load those of another launcher: `--preload-pmi`.
//!
//! The loader of the system resolves a function in the first library that has it, and `LD_PRELOAD` precedes
//! all; a name of a library without a directory, also in `dlopen`, it searches in `LD_LIBRARY_PATH`. A path
//! in `DT_RPATH` would precede that, and is overruled by the preloaded library of the same name.

use super::program_environment::{Owner, ProgramEnvironment, Variable};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Directory of `libpmi.so.0` and `libpmi2.so.0`: the one that the user specifies, or else one beside this
/// program.
///
/// # Errors
///
/// A message for the user, with the remedy.
pub(crate) fn find(specified: Option<&Path>) -> Result<PathBuf, String> {
    let candidates = match specified {
        Some(directory) => vec![directory.to_owned()],
        None => beside_this_program(),
    };
    let has_both =
        |directory: &&PathBuf| LIBRARIES.iter().all(|name| directory.join(name).is_file());
    let Some(found) = candidates.iter().find(has_both) else {
        let searched: Vec<String> =
            candidates.iter().map(|one| one.display().to_string()).collect();
        return Err(format!(
            "'--preload-pmi' finds no libpmi.so.0 and libpmi2.so.0 in {}; specify their directory with \
             --pmi-libraries",
            searched.join(" or ")
        ));
    };
    let found = found.canonicalize().map_err(|error| format!("{}: {error}", found.display()))?;
    // The loader splits its lists at these, and replaces names behind `$`.
    if found.as_os_str().as_bytes().iter().any(|byte| b" \t:;$".contains(byte)) {
        return Err(format!(
            "'--preload-pmi' cannot name {}: the loader splits its path; copy the libraries to one without \
             spaces, colons, semicolons and dollar signs",
            found.display()
        ));
    }
    Ok(found)
}

fn beside_this_program() -> Vec<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let directory = program.parent().unwrap_or(Path::new("/"));
    BESIDE.iter().map(|place| directory.join(place)).collect()
}

/// Adds the libraries in `directory` to the environment of a program. Variables that the user sets for it are
/// extended, but never replaced.
pub(super) fn add(environment: &mut ProgramEnvironment, directory: &Path) {
    let [pmi1, pmi2] = LIBRARIES.map(|name| directory.join(name).into_os_string());
    prepend(environment, "LD_PRELOAD", &[&pmi1, &pmi2]);
    prepend(environment, "LD_LIBRARY_PATH", &[directory.as_os_str()]);
    let is_chosen = |found: &Variable| found.owner == Owner::User;
    if !environment.get(INTEL_LIBRARY.as_ref()).is_some_and(is_chosen) {
        environment.set(Variable::new(INTEL_LIBRARY, pmi2, Owner::Launcher));
    }
}

/// Puts `items` in front of a list, from which other occurrences are removed: ranks of a run within a run
/// inherit them.
fn prepend(environment: &mut ProgramEnvironment, name: &str, items: &[&OsStr]) {
    let mut list: Vec<Vec<u8>> = items.iter().map(|item| item.as_bytes().to_vec()).collect();
    let before = environment.take(name.as_ref()).unwrap_or_default();
    let rest = before.as_bytes().split(|byte| *byte == b':').filter(|item| !item.is_empty());
    list.extend(
        rest.filter(|item| !items.iter().any(|own| own.as_bytes() == *item)).map(<[u8]>::to_vec),
    );
    environment.set(Variable::new(name, OsString::from_vec(list.join(&b':')), Owner::Launcher));
}

/// Variable that selects the library with which Intel MPI contacts its process manager.
pub(crate) const INTEL_LIBRARY: &str = "I_MPI_PMI_LIBRARY";

const LIBRARIES: [&str; 2] = ["libpmi.so.0", "libpmi2.so.0"];

/// Places of the libraries from the directory of this program: where it is installed, and where it is built.
const BESIDE: [&str; 2] = ["../lib/pmi-host", "../capi/lib"];

#[cfg(test)]
mod tests {
    use super::*;

    fn added(variables: &[(&str, &str)], owner: Owner) -> Vec<(String, String)> {
        let of = |(name, value): &(&str, &str)| Variable::new(*name, *value, owner);
        let mut environment = ProgramEnvironment { variables: variables.iter().map(of).collect() };
        add(&mut environment, Path::new("/p"));
        let text = |text: OsString| text.into_string().unwrap();
        let all = environment.variables.into_iter();
        all.map(|variable| (text(variable.name), text(variable.value))).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.into(), value.into())
    }

    #[test]
    fn libraries_precede_those_of_the_user_and_stand_there_once() {
        let ours = [
            ("LD_PRELOAD", "/p/libpmi.so.0:/p/libpmi2.so.0"),
            ("LD_LIBRARY_PATH", "/p"),
            ("I_MPI_PMI_LIBRARY", "/p/libpmi2.so.0"),
        ];
        let expected = ours.map(|(name, value)| pair(name, value));
        assert_eq!(added(&[], Owner::Head), expected);
        assert_eq!(added(&ours, Owner::Head), expected);
        let users = [("LD_PRELOAD", "/a.so:/b.so"), ("LD_LIBRARY_PATH", "/a:/p:/b")];
        let both = added(&users, Owner::User);
        assert_eq!(both[0].1, "/p/libpmi.so.0:/p/libpmi2.so.0:/a.so:/b.so");
        assert_eq!(both[1].1, "/p:/a:/b");
    }

    #[test]
    fn library_of_intel_mpi_is_that_of_the_user_if_set_for_ranks() {
        let found = [(INTEL_LIBRARY, "/slurm/libpmi.so")];
        let last = |owner| added(&found, owner).pop();
        assert_eq!(last(Owner::Head), Some(pair(INTEL_LIBRARY, "/p/libpmi2.so.0")));
        let of_user = added(&found, Owner::User);
        assert!(of_user.contains(&pair(INTEL_LIBRARY, "/slurm/libpmi.so")), "{of_user:?}");
    }

    #[test]
    fn directory_without_both_libraries_is_refused_with_the_remedy() {
        let why = find(Some(Path::new("/nowhere"))).unwrap_err();
        assert!(why.contains("/nowhere") && why.contains("--pmi-libraries"), "{why}");
    }
}
