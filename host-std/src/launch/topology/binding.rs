//! Binding of ranks to processors.
//!
//! A rank is bound before it starts: the launcher takes on the processors of the rank, starts it, and
//! restores its own. So no instruction of a rank ever runs elsewhere, and the affinity that it reads is
//! true from the first instruction on. The launcher has one thread, so the change affects nothing else.
//!
//! Ranks are distributed round-robin over parts of the machine (`--map-by`); within a part, each gets
//! the next set of processors of the size it is bound to (`--bind-to`).

use super::processors::{ROOT, Topology};
use crate::settings::placement::{BindTo, LauncherBinding, Placement, Unit, Units};
use pmi_host_base::ranges;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// The processors of every rank of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// For each part of the machine with ranks, the sets of processors of its ranks.
    pieces: Vec<Vec<Vec<u32>>>,
}

/// Numbers of ranks on which the default binding of another launcher depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankCounts {
    /// Ranks of the job.
    pub(crate) all: u32,
    /// Ranks on this node.
    pub(crate) local: u32,
}

impl Binding {
    /// Checks settings whose processors are those of another machine.
    ///
    /// # Errors
    ///
    /// A message for the user about options that contradict each other.
    pub(crate) fn check(placement: &Placement) -> Result<(), String> {
        match (&placement.bind_to, placement.map_by) {
            (BindTo::Nothing, Some(_)) => {
                Err("'--map-by' orders processors, and ranks are not bound; add '--bind-to core'"
                    .to_owned())
            }
            (BindTo::User(_), Some(_)) => {
                Err("'--bind-to user:…' already assigns processors to ranks; leave '--map-by' out"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Distributes the processors that this process may use; `None` if ranks are not bound.
    ///
    /// # Errors
    ///
    /// A message for the user, with the remedy.
    pub(crate) fn resolve(
        placement: &Placement,
        ranks: RankCounts,
    ) -> Result<Option<Self>, String> {
        Self::check(placement)?;
        match (&placement.bind_to, placement.map_by) {
            (BindTo::Nothing, _) => Ok(None),
            (BindTo::User(sets), _) => Self::of_user(sets, &allowed()?).map(Some),
            (BindTo::Launcher(launcher), map_by) => {
                // Nobody has asked for it, so a machine that describes no processors binds no ranks.
                let units: Vec<Unit> = map_by.iter().map(|units| units.unit).collect();
                let bound = Topology::read(Path::new(ROOT), &allowed()?, &units)
                    .and_then(|topology| Self::of_launcher(*launcher, map_by, ranks, &topology));
                Ok(bound.unwrap_or_default())
            }
            (BindTo::Units(bind_to), map_by) => {
                let describe = |error: io::Error| {
                    format!(
                        "the topology of this machine cannot be read ({error}); specify \
                         processors by number, as in '--bind-to user:0,1'"
                    )
                };
                let map_by = map_by.unwrap_or(*bind_to);
                let units = [bind_to.unit, map_by.unit];
                let topology =
                    Topology::read(Path::new(ROOT), &allowed()?, &units).map_err(describe)?;
                Self::of_units(*bind_to, map_by, &topology).map(Some).map_err(describe)
            }
        }
    }

    fn of_user(sets: &[Vec<u32>], allowed: &[u32]) -> Result<Self, String> {
        let stranger = sets.iter().flatten().find(|processor| !allowed.contains(processor));
        if let Some(stranger) = stranger {
            return Err(format!(
                "processor {stranger} is not one of those that may be used here ({}); 'taskset' \
                 and the batch system restrict them",
                shown(allowed)
            ));
        }
        Ok(Self { pieces: sets.iter().map(|set| vec![set.clone()]).collect() })
    }

    /// The default of another launcher; `None` if it binds none of these ranks.
    fn of_launcher(
        launcher: LauncherBinding,
        map_by: Option<Units>,
        ranks: RankCounts,
        topology: &Topology,
    ) -> io::Result<Option<Self>> {
        use LauncherBinding::{
            Intel, OfLibrary, OpenMpi, OpenMpiThreads, Prrte, PrrteOrdered, PrrteThreads, Slurm,
        };
        let local = usize::try_from(ranks.local).unwrap_or(usize::MAX);
        let piece = match launcher {
            OpenMpiThreads | PrrteThreads => Unit::HwThread,
            _ => Unit::Core,
        };
        let (bind_to, order) = match launcher {
            OfLibrary => return Ok(None),
            Intel => return Self::shares(local, topology).map(Some),
            Slurm => {
                let units = [Unit::HwThread, Unit::Core, Unit::Socket];
                let counted = units.map(|unit| Ok((unit, topology.units(unit)?.len())));
                let counted = counted.into_iter().collect::<io::Result<Vec<_>>>()?;
                match counted.into_iter().find(|(_, count)| *count == local) {
                    Some((unit, _)) => (unit, unit),
                    None => return Ok(None),
                }
            }
            _ if local > topology.units(piece)?.len() => return Ok(None),
            Prrte | PrrteThreads => (piece, piece),
            OpenMpi | OpenMpiThreads | PrrteOrdered if ranks.all <= 2 => (piece, piece),
            OpenMpi | OpenMpiThreads => (Unit::Numa, Unit::Numa),
            PrrteOrdered => (Unit::Numa, piece),
        };
        let one = |unit| Units { unit, count: 1 };
        Self::of_units(one(bind_to), map_by.unwrap_or(one(order)), topology).map(Some)
    }

    /// An equal share of whole cores for each rank, of threads if there are more ranks than cores, in turn if
    /// there are more than threads. Ranks are spread over the sockets in their order.
    fn shares(ranks: usize, topology: &Topology) -> io::Result<Self> {
        let cores = topology.units(Unit::Core)?;
        let unit = if ranks > cores.len() { Unit::HwThread } else { Unit::Core };
        let cells = topology.units(unit)?;
        let sockets = topology.units(Unit::Socket)?;
        let size = (cells.len() / ranks.max(1)).max(1);
        let is_in = |cell: &[u32], socket: &[u32]| cell.iter().any(|one| socket.contains(one));
        let sets = (0..ranks).map(|rank| {
            if ranks > cells.len() {
                return cells[rank % cells.len()].clone();
            }
            let socket = rank * sockets.len() / ranks;
            // First rank whose socket this is.
            let first = (socket * ranks).div_ceil(sockets.len());
            let start = match ranks < sockets.len() {
                true => rank * cells.len() / ranks,
                false => {
                    let before = cells.iter().position(|cell| is_in(cell, &sockets[socket]));
                    before.unwrap_or_default() + (rank - first) * size
                }
            };
            let start = start.min(cells.len() - size);
            cells[start..start + size].concat()
        });
        Ok(Self { pieces: sets.map(|set| vec![set]).collect() })
    }

    fn of_units(bind_to: Units, map_by: Units, topology: &Topology) -> io::Result<Self> {
        let grouped = |units: Units| -> io::Result<Vec<Vec<u32>>> {
            let size = usize::try_from(units.count).unwrap_or(usize::MAX);
            let pieces = topology.units(units.unit)?;
            Ok(pieces.chunks(size).map(<[Vec<u32>]>::concat).collect())
        };
        let sets = grouped(bind_to)?;
        let shares = |set: &&Vec<u32>, piece: &[u32]| set.iter().any(|one| piece.contains(one));
        let pieces = grouped(map_by)?.into_iter().map(|piece| {
            sets.iter().filter(|set| shares(set, &piece)).cloned().collect::<Vec<_>>()
        });
        Ok(Self { pieces: pieces.collect() })
    }

    /// The processors of the rank with this number on this node, in ascending order.
    pub(crate) fn of(&self, local_rank: u32) -> &[u32] {
        let rank = usize::try_from(local_rank).unwrap_or(usize::MAX);
        let sets = &self.pieces[rank % self.pieces.len()];
        &sets[rank / self.pieces.len() % sets.len()]
    }

    /// Message for the user if ranks share processors, that is, if some set has more ranks than
    /// processors.
    pub(crate) fn shared(&self, ranks: u32) -> Option<String> {
        let mut sharing: BTreeMap<&[u32], usize> = BTreeMap::new();
        (0..ranks).for_each(|rank| *sharing.entry(self.of(rank)).or_default() += 1);
        let most = sharing.iter().map(|(set, ranks)| ranks.div_ceil(set.len().max(1))).max();
        let most = most.filter(|most| *most > 1)?;
        let all: BTreeSet<&u32> = sharing.keys().copied().flatten().collect();
        Some(format!(
            "{ranks} ranks are bound to {} processor{}, up to {most} to the same one: all ranks \
             run, but not at the same time",
            all.len(),
            if all.len() == 1 { "" } else { "s" }
        ))
    }

    /// Calls `start` while this process is bound to the processors of the rank with this number.
    ///
    /// # Errors
    ///
    /// Those of `start`, and those of the system; nothing was started then.
    pub(crate) fn during<T>(
        &self,
        local_rank: u32,
        start: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let ours = sched_getaffinity(None)?;
        let mut theirs = CpuSet::new();
        self.of(local_rank)
            .iter()
            .filter_map(|one| usize::try_from(*one).ok())
            .for_each(|one| theirs.set(one));
        sched_setaffinity(None, &theirs)?;
        let started = start();
        // Restoring may fail if the allowed processors were reduced meanwhile; the rank has started all
        // the same.
        let _ = sched_setaffinity(None, &ours);
        started
    }
}

/// The processors that this process may use.
///
/// # Errors
///
/// A message for the user.
pub(crate) fn allowed() -> Result<Vec<u32>, String> {
    let set = sched_getaffinity(None).map_err(|error| {
        format!("the system does not report which processors may be used ({error})")
    })?;
    let all = (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor));
    Ok(all.filter_map(|processor| u32::try_from(processor).ok()).collect())
}

/// Number of units of this machine with processors that this process may use.
///
/// # Errors
///
/// A message for the user, with the remedy.
pub(crate) fn count(unit: Unit) -> Result<usize, String> {
    pieces(unit).map(|pieces| pieces.len())
}

/// Units of this machine, each with those of its processors that this process may use.
///
/// # Errors
///
/// A message for the user, with the remedy.
pub(crate) fn pieces(unit: Unit) -> Result<Vec<Vec<u32>>, String> {
    let topology = Topology::read(Path::new(ROOT), &allowed()?, &[unit]);
    let units = topology.and_then(|all| all.units(unit));
    units.map_err(|error| {
        format!("the topology of this machine cannot be read ({error}); specify the number itself")
    })
}

/// Limits this process, and so its ranks, to these processors.
///
/// # Errors
///
/// A message for the user: some of them may not be used.
pub(crate) fn limit_to(processors: &[u32]) -> Result<(), String> {
    let allowed = allowed()?;
    if let Some(stranger) = processors.iter().find(|processor| !allowed.contains(processor)) {
        return Err(format!(
            "'--cpu-set': processor {stranger} is not one of those that may be used here ({}); 'taskset' \
             and the batch system restrict them",
            shown(&allowed)
        ));
    }
    let mut set = CpuSet::new();
    let numbers = processors.iter().filter_map(|one| usize::try_from(*one).ok());
    numbers.for_each(|one| set.set(one));
    let limited = sched_setaffinity(None, &set);
    limited.map_err(|error| format!("'--cpu-set' cannot be applied ({error}); leave it out"))
}

/// A set of processors in list notation.
pub(crate) fn shown(processors: &[u32]) -> String {
    ranges::ranges(processors, ",")
}

#[cfg(test)]
mod tests {
    use super::super::processors::tests::topology;
    use super::*;
    use crate::settings::placement::Unit;

    fn by_default(launcher: LauncherBinding, all: u32) -> Vec<Vec<u32>> {
        let topology = topology(&[0, 1, 2, 3, 4, 5, 6, 7]);
        let ranks = RankCounts { all, local: all };
        let binding = Binding::of_launcher(launcher, None, ranks, &topology).unwrap();
        let sets = |binding: Binding| (0..all).map(|rank| binding.of(rank).to_vec()).collect();
        binding.map_or_else(Vec::new, sets)
    }

    #[test]
    fn defaults_of_launchers_depend_on_the_number_of_ranks() {
        use LauncherBinding::*;
        let (first, second) = (vec![0, 1, 4, 5], vec![2, 3, 6, 7]);
        // As 'orterun' and 'prterun' show for 'HWLOC_SYNTHETIC="pack:2 [numa] core:2 pu:2"'.
        assert_eq!(by_default(OpenMpi, 2), [[0, 4], [1, 5]]);
        let domains = [first.clone(), second.clone(), first.clone()];
        assert_eq!(by_default(OpenMpi, 3), domains);
        assert!(by_default(OpenMpi, 5).is_empty());
        assert_eq!(by_default(OpenMpiThreads, 2), [[0], [4]]);
        assert_eq!(by_default(OpenMpiThreads, 3), domains);
        assert_eq!(by_default(Prrte, 3), [[0, 4], [1, 5], [2, 6]]);
        assert_eq!(by_default(PrrteThreads, 3), [[0], [4], [1]]);
        assert_eq!(by_default(PrrteOrdered, 2), [[0, 4], [1, 5]]);
        assert_eq!(by_default(PrrteOrdered, 3), [first.clone(), first.clone(), second.clone()]);
        // As Slurm's manual describes.
        for (ranks, bound) in [(2, true), (3, false), (4, true), (8, true), (9, false)] {
            assert_eq!(!by_default(Slurm, ranks).is_empty(), bound, "{ranks}");
        }
        assert_eq!(by_default(Slurm, 2), [first, second]);
        // As Intel's manual describes.
        assert_eq!(by_default(Intel, 1), [[0, 4, 1, 5, 2, 6, 3, 7]]);
        assert_eq!(by_default(Intel, 2), [[0, 4, 1, 5], [2, 6, 3, 7]]);
        assert_eq!(by_default(Intel, 3), [[0, 4], [1, 5], [2, 6]]);
        assert_eq!(by_default(Intel, 8)[..3], [[0], [4], [1]]);
        assert_eq!(by_default(Intel, 9)[8], [0]);
        assert!(by_default(OfLibrary, 2).is_empty());
    }

    fn dealt(bind_to: Units, map_by: Units, ranks: u32) -> Vec<Vec<u32>> {
        let topology = topology(&[0, 1, 2, 3, 4, 5, 6, 7]);
        let binding = Binding::of_units(bind_to, map_by, &topology).unwrap();
        (0..ranks).map(|rank| binding.of(rank).to_vec()).collect()
    }

    const fn one(unit: Unit) -> Units {
        Units { unit, count: 1 }
    }

    #[test]
    fn ranks_take_one_piece_after_the_other() {
        let core = one(Unit::Core);
        assert_eq!(dealt(core, core, 5), [[0, 4], [1, 5], [2, 6], [3, 7], [0, 4]]);
        let pair = Units { unit: Unit::Core, count: 2 };
        assert_eq!(dealt(pair, pair, 2), [[0, 4, 1, 5], [2, 6, 3, 7]]);
    }

    #[test]
    fn ranks_are_dealt_over_sockets_and_bound_to_cores() {
        let (core, socket) = (one(Unit::Core), one(Unit::Socket));
        let expected = [[0, 4], [2, 6], [1, 5], [3, 7], [0, 4]];
        assert_eq!(dealt(core, socket, 5), expected);
        // A part larger than the unit of the distribution is shared.
        assert_eq!(dealt(socket, core, 3), [[0, 1, 4, 5], [0, 1, 4, 5], [2, 3, 6, 7]]);
    }

    #[test]
    fn processors_by_number_must_be_ours() {
        let binding = Binding::of_user(&[vec![0, 2], vec![1]], &[0, 1, 2]).unwrap();
        assert_eq!([binding.of(0), binding.of(1), binding.of(2)], [&[0, 2][..], &[1], &[0, 2]]);
        let why = Binding::of_user(&[vec![3]], &[0, 1, 2]).unwrap_err();
        assert!(why.contains("processor 3") && why.contains("(0-2)"), "{why}");
    }

    #[test]
    fn shared_processors_are_reported() {
        let binding = Binding::of_user(&[vec![0], vec![1]], &[0, 1]).unwrap();
        assert_eq!(binding.shared(2), None);
        let describe = binding.shared(5).unwrap();
        assert!(describe.contains("5 ranks") && describe.contains("2 processors"), "{describe}");
        assert!(describe.contains("up to 3"), "{describe}");
        let binding = Binding::of_user(&[vec![0, 1]], &[0, 1]).unwrap();
        assert_eq!(binding.shared(2), None);
    }
}
