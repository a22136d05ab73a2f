//! Problems and their fixes, in one sentence each: rules without system calls.

use super::limits::ResourceLimits;
use super::rank_environment::{DescriptorState, RankEnvironment};
use super::session::{SessionFacts, SessionResult};
use pmi_host_base::library::{Family, Libraries, is_pmi};
use std::fmt;

/// Observations about the process and its launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Environment that the launcher has left.
    pub(crate) environment: RankEnvironment,
    /// Program in the arguments.
    pub(crate) program: Option<CheckedProgram>,
    /// Limits of the system.
    pub(crate) limits: ResourceLimits,
    /// Result of the PMI session.
    pub(crate) outcome: SessionResult,
}

/// Program that the user wants to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckedProgram {
    /// Name as given in the arguments.
    pub(crate) name: String,
    /// True if the file exists.
    pub(crate) exists: bool,
    /// Libraries that the program is linked with; `None` for a script.
    pub(crate) libraries: Option<Libraries>,
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    /// True for a problem, false for a note.
    pub(crate) is_problem: bool,
    /// Problem and remedy.
    pub(crate) text: String,
}

/// All advice, the most important first.
pub(crate) fn of(facts: &Facts) -> Vec<Advice> {
    let rules = [descriptor, two_families, no_server, conversation, library, place, room];
    rules.into_iter().filter_map(|rule| rule(facts)).collect()
}

/// Advice before the PMI session, while the answers of the launcher are unknown.
pub(crate) fn before_session(facts: &Facts) -> Vec<Advice> {
    [descriptor, library, room].into_iter().filter_map(|rule| rule(facts)).collect()
}

fn wrong(text: impl Into<String>) -> Option<Advice> {
    Some(Advice { is_problem: true, text: text.into() })
}

fn note(text: impl Into<String>) -> Option<Advice> {
    Some(Advice { is_problem: false, text: text.into() })
}

fn descriptor(facts: &Facts) -> Option<Advice> {
    let descriptor = facts.environment.descriptor.as_ref()?;
    match descriptor.is {
        DescriptorState::Socket => None,
        DescriptorState::Other(_) | DescriptorState::Closed => wrong(format!(
            "PMI_FD names descriptor {} as the connection to the launcher, but {descriptor}: a \
             program between the launcher and this one (a wrapper, sudo, a container, another \
             launcher) must leave it open, or unset PMI_FD if it is from an outer job",
            descriptor.fd
        )),
    }
}

fn two_families(facts: &Facts) -> Option<Advice> {
    // Only a server that answers counts. A launcher may offer both protocols, and then uses one name for
    // the job.
    let SessionResult::SessionFacts(SessionFacts { job, .. }) = &facts.outcome else { return None };
    let namespace = facts.environment.variables.get("PMIX_NAMESPACE");
    match facts.environment.offers_pmix() && namespace != Some(job) {
        true => wrong(
            "PMI_* and PMIX_* lead to two servers at once, and each library chooses one of them: \
             unset those of the outer launcher (as 'pmi-host run' does), or have one of them \
             offered ('srun --mpi=pmi2' or '--mpi=pmix')",
        ),
        false => None,
    }
}

fn no_server(facts: &Facts) -> Option<Advice> {
    if facts.environment.offers_pmi() || facts.environment.offers_pmix() {
        return None;
    }
    match facts.environment.place() {
        Some((rank, size @ 2.., "srun")) => wrong(format!(
            "Slurm has started {size} tasks and this is task {rank}, but it offers no PMI, so \
             each is rank 0 of 1 for itself: start them with 'srun --mpi=pmi2', or '--mpi=pmix' \
             for Open MPI"
        )),
        Some((rank, size @ 2.., launcher)) => wrong(format!(
            "{launcher} has started {size} processes and this is number {rank}, but nothing leads \
             to a server, so each is rank 0 of 1 for itself: a program in between has removed \
             PMI_FD or PMIX_NAMESPACE from the environment"
        )),
        _ => note(
            "no launcher has started this, so an MPI program here is rank 0 of 1; if that is not meant, \
             start it with 'pmi-host run -n N PROGRAM'",
        ),
    }
}

fn conversation(facts: &Facts) -> Option<Advice> {
    // The advice about the descriptor is more precise.
    if descriptor(facts).is_some() {
        return None;
    }
    match &facts.outcome {
        SessionResult::Failed { doing, why } => wrong(format!(
            "{doing} fails ({why}): the launcher that set these variables may have exited, or \
             speak another protocol; 'pmi-host conform --launcher' tries a launcher case by case"
        )),
        SessionResult::Stuck { doing } => wrong(format!(
            "{doing} is not answered: the launcher does not serve this process, or other ranks do \
             not participate because they run another program or cannot reach it"
        )),
        SessionResult::Singleton if facts.environment.offers_pmix() => {
            note("PMIx is offered, which only the program itself can try here")
        }
        SessionResult::Singleton | SessionResult::SessionFacts(_) => None,
    }
}

fn library(facts: &Facts) -> Option<Advice> {
    let CheckedProgram { name, exists, libraries } = facts.program.as_ref()?;
    if !exists {
        return wrong(format!("there is no program '{name}'; check the path"));
    }
    let Some(libraries) = libraries else {
        return note(format!(
            "{name} is a script, or not a program for this machine; specify the program that it \
             starts"
        ));
    };
    if let Some(missing) = libraries.missing.first() {
        return wrong(format!(
            "{name} needs {missing}, which is in no library directory: add its directory to \
             LD_LIBRARY_PATH, or load the module that it was built with"
        ));
    }
    let (pmi, pmix) = (facts.environment.offers_pmi(), facts.environment.offers_pmix());
    let has_pmix = libraries.found.iter().any(|library| library.name.starts_with("libpmix"));
    match libraries.family() {
        // It uses PMI by itself.
        None if libraries.found.iter().any(|library| is_pmi(&library.name)) => None,
        None => note(format!("{name} links no MPI library that its file names")),
        Some(Family::OpenMpi) if pmi && !pmix => wrong(format!(
            "{name} is linked with Open MPI, which finds its launcher through PMIx alone, and here is PMI: \
             each rank would be 0 of 1; start it with 'pmi-host run', with Open MPI's mpirun or with 'srun \
             --mpi=pmix'"
        )),
        Some(Family::Mpich) if pmix && !pmi && !has_pmix => wrong(format!(
            "{name} is linked with MPICH, which speaks PMI, and here is PMIx alone: each rank would be 0 of \
             1; start it with 'pmi-host run', or with 'srun --mpi=pmi2'"
        )),
        Some(_) => None,
    }
}

fn place(facts: &Facts) -> Option<Advice> {
    let SessionResult::SessionFacts(SessionFacts { rank, size, mapping, .. }) = &facts.outcome
    else {
        return None;
    };
    let (said_rank, said_size, _) = facts.environment.place()?;
    if (said_rank, said_size) != (*rank, *size) {
        return wrong(format!(
            "the variables mean rank {said_rank} of {said_size}, and the server answers rank \
             {rank} of {size}: the variables are from an outer job; unset them before the inner \
             launcher starts"
        ));
    }
    match mapping {
        None if *size > 1 => note(
            "the launcher does not report which ranks share a host, so libraries determine it \
             themselves, which takes longer",
        ),
        _ => None,
    }
}

fn room(facts: &Facts) -> Option<Advice> {
    let ResourceLimits { files, shared_bytes, .. } = facts.limits;
    if let Some(files) = files.filter(|files| *files < FILES_MIN) {
        return wrong(format!(
            "only {files} files may be open, which the connections of large jobs use up: 'ulimit \
             -n 1024'"
        ));
    }
    match shared_bytes {
        Some(bytes) if bytes < SHARED_MIN => wrong(format!(
            "/dev/shm has room for {bytes} bytes, and ranks of one host that communicate through \
             it are killed by SIGBUS: remove the files left there, or start the container with \
             '--shm-size=1g'"
        )),
        _ => None,
    }
}

impl fmt::Display for CheckedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(libraries) = &self.libraries else { return write!(f, "{}", self.name) };
        let family =
            libraries.family().map_or("no MPI library".to_owned(), |family| family.to_string());
        write!(f, "{}: {family}", self.name)?;
        for (library, is_own) in libraries.of_interest() {
            let mark = if is_own { " (of pmi-host)" } else { "" };
            write!(f, ", {}{mark}", library.path.display())?;
        }
        Ok(())
    }
}

/// Number of open files that every system allows an ordinary user.
const FILES_MIN: u64 = 256;

/// Shared memory below which MPI libraries may fail: MPICH alone takes some megabytes for each rank.
const SHARED_MIN: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::rank_environment::Descriptor;
    use pmi_host_base::library::Library;
    use std::path::PathBuf;

    fn facts(variables: &[(&str, &str)], names: &[&str], outcome: SessionResult) -> Facts {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let library =
            |name: &&str| Library { name: (*name).to_owned(), path: PathBuf::from(*name) };
        let libraries =
            Libraries { found: names.iter().map(library).collect(), missing: Vec::new() };
        let program =
            CheckedProgram { name: "./a".into(), exists: true, libraries: Some(libraries) };
        let program = Some(program).filter(|_| !names.is_empty());
        Facts {
            environment: RankEnvironment::from_variables(variables),
            program,
            limits: ResourceLimits::default(),
            outcome,
        }
    }

    #[track_caller]
    fn says(facts: &Facts, is_problem: bool, part: &str) {
        let all = of(facts);
        let found = all.iter().any(|one| one.is_problem == is_problem && one.text.contains(part));
        assert!(found && all.len() == 1, "no {part:?} alone in {all:?}");
    }

    const PMI: &[(&str, &str)] = &[("PMI_FD", "3"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")];
    const PMIX: &[(&str, &str)] = &[("PMIX_NAMESPACE", "a"), ("PMIX_SERVER_URI41", "b")];

    fn done(size: u32) -> SessionResult {
        SessionResult::SessionFacts(SessionFacts {
            size,
            mapping: Some(String::new()),
            ..SessionFacts::default()
        })
    }

    #[test]
    fn good_place_needs_no_advice() {
        assert_eq!(of(&facts(PMI, &["libmpich.so.12"], done(2))), []);
    }

    #[test]
    fn descriptor_that_was_closed_is_named() {
        let mut facts =
            facts(PMI, &[], SessionResult::Failed { doing: "init", why: String::new() });
        facts.environment.descriptor =
            Some(Descriptor { fd: "3".into(), is: DescriptorState::Closed });
        says(&facts, true, "but 3 is closed");
    }

    #[test]
    fn singletons_by_mistake_are_told_from_those_by_choice() {
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "4")];
        says(&facts(&slurm, &[], SessionResult::Singleton), true, "srun --mpi=pmi2");
        let stripped = [("PMI_RANK", "1"), ("PMI_SIZE", "4")];
        says(&facts(&stripped, &[], SessionResult::Singleton), true, "removed PMI_FD");
        says(&facts(&[], &[], SessionResult::Singleton), false, "pmi-host run -n N");
    }

    #[test]
    fn library_that_speaks_something_else_is_named() {
        says(&facts(PMI, &["libmpi.so.40"], done(2)), true, "through PMIx alone");
        let under_pmix = facts(PMIX, &["libmpich.so.12"], SessionResult::Singleton);
        assert!(of(&under_pmix).iter().any(|one| one.text.contains("is linked with MPICH")));
        says(&facts(PMI, &["libc.so.6"], done(2)), false, "no MPI library");
        assert_eq!(of(&facts(PMI, &["libpmi2.so.0"], done(2))), []);
    }

    #[test]
    fn two_families_and_two_jobs_are_told_apart() {
        let both = [PMI, PMIX].concat();
        says(&facts(&both, &[], done(2)), true, "two servers at once");
        let one = SessionFacts {
            job: "a".to_owned(),
            size: 2,
            mapping: Some(String::new()),
            ..SessionFacts::default()
        };
        assert_eq!(of(&facts(&both, &[], SessionResult::SessionFacts(one))), []);
        says(&facts(PMI, &[], done(3)), true, "rank 0 of 2, and the server answers rank 0 of 3");
    }

    #[test]
    fn silence_and_small_rooms_are_told() {
        says(
            &facts(PMI, &[], SessionResult::Stuck { doing: "the fence" }),
            true,
            "the fence is not answered",
        );
        let mut small = facts(PMI, &[], done(2));
        small.limits.files = Some(64);
        says(&small, true, "ulimit -n");
        small.limits = ResourceLimits { shared_bytes: Some(1 << 20), ..ResourceLimits::default() };
        says(&small, true, "/dev/shm");
    }
}
