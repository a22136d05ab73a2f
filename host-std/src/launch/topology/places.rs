//! Places of the ranks of a node: processors, memory domains, GPUs, network cards and threads of each.
//!
//! A run with none of the options that need them reads no hardware: then ranks have the processors of their
//! [`Binding`] at most. Otherwise the hardware is read once, and ranks of spawned jobs get places on it as
//! those of the first job do: they share its devices.

use super::binding::{self, Binding, RankCounts};
use super::machine::{self, KnownHardware, VariableOf};
use super::memory_policy::{MemoryMode, MemoryPolicy};
use super::processors::Topology;
use crate::settings::placement::{
    BindTo, Display, GpuBind, GpuExpose, GpuUnit, LauncherGpus, MapBy, MapDevice, MemoryBinding,
    Placement, Unit, Units,
};
use pmi_host_base::ranges::ranges;
use pmi_host_hardware::device::{Device, DeviceKind, DevicePart, PartKind};
use pmi_host_hardware::linux::{Caches, Memories, Wanted};
use pmi_host_hardware::masks::{self, Expose};
use pmi_host_hardware::memory_first::{self, RankPlace, RanksToPlace};
use pmi_host_hardware::model::{GroupKind, MemoryKind, NodeHardware};
use pmi_host_hardware::processor_set::ProcessorSet;
use pmi_host_hardware::visible::Restriction;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Ranks of this node, and what they are placed by besides options.
#[derive(Clone, Copy)]
pub(crate) struct PlaceRequest<'a> {
    /// Name of this host.
    pub(crate) host: &'a str,
    /// Numbers of ranks.
    pub(crate) ranks: RankCounts,
    /// Value of a variable for the first program.
    pub(crate) variable: VariableOf<'a>,
}

/// Processors of the ranks of this node, and the rest of their places.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodePlaces {
    /// Processors; `None` if ranks are not bound.
    pub(crate) binding: Option<Arc<Binding>>,
    /// Memory, devices and threads; `None` if no option assigns any.
    pub(crate) places: Option<Arc<Places>>,
}

/// Memory, devices and threads of the ranks of this node.
#[derive(Debug)]
pub(crate) struct Places {
    node: Arc<PlacedNode>,
    /// By number on this node. The place of a rank that is not bound has no processors.
    ranks: Vec<RankPlace>,
    /// Memory of each; none for `None`.
    memory: Vec<Option<MemoryPolicy>>,
}

/// A node on which ranks are placed.
#[derive(Debug)]
struct PlacedNode {
    host: String,
    hardware: NodeHardware,
    /// True if a file describes the hardware, with processors that this machine lacks.
    is_foreign: bool,
    /// Variables that leave GPUs out.
    restrictions: Vec<Restriction>,
    placement: Placement,
}

impl NodePlaces {
    /// Checks options whose effect depends on the node.
    ///
    /// # Errors
    ///
    /// A message for the user about options that contradict each other.
    pub(crate) fn check(placement: &Placement) -> Result<(), String> {
        Binding::check(placement)?;
        let is_unbound = placement.bind_to == BindTo::Nothing && placement.map_by.is_none();
        match &placement.memory {
            Some(MemoryBinding::Local | MemoryBinding::Preferred) if is_unbound => {
                return Err("'--mem-bind' takes the memory of the processors of each rank, and ranks are not \
                     bound; add '--bind-to numa'"
                    .to_owned());
            }
            _ => {}
        }
        let gpus = &placement.gpus;
        match (gpus.per_rank, &gpus.bind) {
            (Some(count), GpuBind::List(sets))
                if sets.iter().any(|set| set.len() != index(count)) =>
            {
                Err(format!(
                    "'--gpus-per-rank {count}' contradicts '--gpu-bind list:…', which has another number \
                     of GPUs for a rank; leave '--gpus-per-rank' out"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Places the ranks of this node.
    ///
    /// # Errors
    ///
    /// A message for the user, with the host and the remedy.
    pub(crate) fn resolve(
        placement: &Placement,
        request: PlaceRequest<'_>,
    ) -> Result<Self, String> {
        Self::check(placement)?;
        if !needs_hardware(placement) {
            // A map of bound ranks shows where their processors are, if the system says that.
            let is_shown = placement.display.is_some() && is_bound(placement);
            let node = is_shown.then(|| PlacedNode::read(placement.clone(), request));
            if let Some(Ok(node)) = node {
                return Arc::new(node).place(request.ranks);
            }
            let binding = Binding::resolve(placement, request.ranks)?.map(Arc::new);
            return Ok(Self { binding, places: None });
        }
        let node = Arc::new(PlacedNode::read(placement.clone(), request)?);
        let placed = node.place(request.ranks)?;
        placed.places.iter().try_for_each(|places| places.check_variables(request.variable))?;
        Ok(placed)
    }

    /// Checks that this machine has the processors and the memory of the ranks.
    ///
    /// # Errors
    ///
    /// A message for the user, with the host and the remedy.
    pub(crate) fn check_here(&self) -> Result<(), String> {
        self.places.as_ref().map_or(Ok(()), |places| places.check_here())
    }

    /// Sentence for the user about a file that describes another host than this one.
    pub(crate) fn strange_file(&self) -> Option<String> {
        let PlacedNode { host, hardware, is_foreign, placement, .. } = &*self.places.as_ref()?.node;
        let file = placement.topology.as_ref().filter(|_| *is_foreign)?;
        Some(format!(
            "'--topology {}' describes processors {}, of which host {host} lacks some, so it is not this \
             host; ranks are placed by it all the same",
            file.display(),
            hardware.processors
        ))
    }
}

/// True if an option places ranks by more than the processors that the system lists.
fn needs_hardware(placement: &Placement) -> bool {
    matches!(placement.map_by, Some(MapBy::Device(_) | MapBy::Auto))
        || placement.threads.is_some()
        || placement.memory.is_some()
        || placement.nics > 0
        || assigns_gpus(placement)
        || placement.display == Some(Display::Picture)
        || placement.topology.is_some() && (is_bound(placement) || placement.display.is_some())
}

/// True if an option or the default of another launcher chooses processors.
fn is_bound(placement: &Placement) -> bool {
    placement.bind_to != BindTo::Nothing || placement.map_by.is_some()
}

/// True if an option assigns GPUs to ranks.
fn assigns_gpus(placement: &Placement) -> bool {
    use LauncherGpus::{Hydra, Intel, Slurm};
    match placement.gpus.bind {
        GpuBind::List(_) | GpuBind::Launcher(Intel | Slurm) => true,
        GpuBind::Closest | GpuBind::Packed | GpuBind::Launcher(Hydra) => {
            placement.gpus.per_rank.is_some()
        }
    }
}

impl Places {
    /// Places of ranks of another job on the same node.
    ///
    /// # Errors
    ///
    /// As of [`NodePlaces::resolve`].
    pub(crate) fn of_job(&self, ranks: RankCounts) -> Result<NodePlaces, String> {
        self.node.place(ranks)
    }

    /// Places of ranks of a job that has only these processors and GPUs of the node, by their
    /// [names](Self::gpus). GPUs that the user has listed are as listed.
    ///
    /// # Errors
    ///
    /// As of [`NodePlaces::resolve`].
    pub(crate) fn among(
        &self,
        processors: &ProcessorSet,
        gpus: &BTreeSet<String>,
        ranks: RankCounts,
    ) -> Result<NodePlaces, String> {
        let all = self.all_gpus();
        let is_listed = matches!(self.node.placement.gpus.bind, GpuBind::List(_));
        let is_left = |name: &String| is_listed || gpus.contains(name);
        let mut hardware = self.node.hardware.restricted(processors);
        if !all.iter().all(is_left) {
            leave_out_gpus(&mut hardware, is_left);
        }
        let left = PlacedNode {
            host: self.node.host.clone(),
            hardware,
            is_foreign: self.node.is_foreign,
            restrictions: self.node.restrictions.clone(),
            placement: self.node.placement.clone(),
        };
        let NodePlaces { binding, places } = Arc::new(left).place(ranks)?;
        // Libraries count GPUs that the ranks do not have, too.
        let numbers: Vec<usize> = (0..all.len()).filter(|at| is_left(&all[*at])).collect();
        let renumbered = |place: &RankPlace| {
            let gpus = place.gpus.iter().filter_map(|at| numbers.get(*at).copied()).collect();
            RankPlace { gpus, ..place.clone() }
        };
        let places = places.map(|places| {
            let ranks = places.ranks.iter().map(renumbered).collect();
            let (node, memory) = (Arc::clone(&self.node), places.memory.clone());
            Arc::new(Self { node, ranks, memory })
        });
        Ok(NodePlaces { binding, places })
    }

    /// Names of the GPUs that ranks have, which are the same in each run on the host: address, and number of
    /// the part.
    pub(crate) fn gpus(&self) -> BTreeSet<String> {
        let all = self.all_gpus();
        let of_ranks = self.ranks.iter().flat_map(|place| &place.gpus);
        of_ranks.filter_map(|at| all.get(*at).cloned()).collect()
    }

    /// Names of all GPUs that ranks can have, in order.
    pub(crate) fn all_gpus(&self) -> Vec<String> {
        let usable = self.node.hardware.usable_gpus();
        usable.iter().map(|gpu| gpu_name(gpu.device, gpu.part)).collect()
    }

    /// True if the user has asked for GPUs of each rank.
    pub(crate) fn must_have_gpus(&self) -> bool {
        self.node.gpus_of_rank().is_some()
    }

    /// Hardware on which ranks are placed.
    pub(crate) fn hardware(&self) -> &NodeHardware {
        &self.node.hardware
    }

    /// Place of the rank with this number on the node.
    pub(crate) fn of(&self, local_rank: u32) -> Option<&RankPlace> {
        self.ranks.get(index(local_rank))
    }

    /// Memory of the rank with this number on the node.
    pub(crate) fn memory(&self, local_rank: u32) -> Option<&MemoryPolicy> {
        self.memory.get(index(local_rank))?.as_ref()
    }

    /// Variables by which libraries of a rank know its devices and threads; `variable` tells its others.
    pub(crate) fn variables(
        &self,
        local_rank: u32,
        variable: VariableOf<'_>,
    ) -> Vec<(&'static str, String)> {
        let expose = match self.node.placement.gpus.expose {
            GpuExpose::Mask => Expose::Mask,
            GpuExpose::Order => Expose::Order,
            GpuExpose::Env => Expose::Env,
        };
        let place = self.of(local_rank);
        let of = |place| masks::variables(&self.node.hardware, place, expose, variable);
        place.map(of).unwrap_or_default()
    }

    /// Checks that variables of the user name GPUs that ranks see.
    fn check_variables(&self, variable: VariableOf<'_>) -> Result<(), String> {
        for rank in (0..).take(self.ranks.len()) {
            let of_rank = self.variables(rank, variable);
            if let Some(found) = masks::contradictions(&of_rank, variable).first() {
                let [users, ranks] =
                    [&found.users, &found.ranks].map(|one| format!("{}={}", one.0, one.1));
                return Err(format!(
                    "host {}: {users} names none of the GPUs that {ranks} shows to rank {rank} of the host; \
                     leave {} out",
                    self.node.host, found.users.0
                ));
            }
        }
        Ok(())
    }

    fn check_here(&self) -> Result<(), String> {
        let PlacedNode { host, placement, is_foreign, .. } = &*self.node;
        let bound =
            self.ranks.iter().fold(ProcessorSet::default(), |all, rank| all.or(&rank.processors));
        if let (true, Some(file)) = (*is_foreign, &placement.topology) {
            let allowed: ProcessorSet = binding::allowed()?.into_iter().collect();
            let strange = bound.without(&allowed);
            if !strange.is_empty() {
                return Err(format!(
                    "'--topology {}' gives ranks processors {strange}, and host {host} lets them use \
                     {allowed} only; name the description of this host, or leave it out",
                    file.display()
                ));
            }
        }
        let mut policies: Vec<&MemoryPolicy> = self.memory.iter().flatten().collect();
        policies.sort_unstable();
        policies.dedup();
        for policy in policies {
            policy.during(|| Ok(())).map_err(|error| format!("host {host}: {error}"))?;
        }
        Ok(())
    }
}

impl PlacedNode {
    fn read(placement: Placement, request: PlaceRequest<'_>) -> Result<Self, String> {
        let host = request.host.to_owned();
        if let Some(file) = &placement.topology {
            let hardware = machine::of_file(file);
            let mut hardware = hardware.map_err(|why| {
                format!("host {host}: '--topology {}': {why}; leave it out", file.display())
            })?;
            let restrictions = hardware.leave_out_by_variables(request.variable);
            let is_foreign = !machine::has_processors(&hardware.processors);
            if !is_foreign {
                hardware = hardware.restricted(&binding::allowed()?.into_iter().collect());
            }
            return Ok(Self { host, hardware, is_foreign, restrictions, placement });
        }
        let known = machine::of_this_machine(wanted(&placement), request.variable);
        let KnownHardware { hardware, restrictions, .. } = known.map_err(|why| {
            format!(
                "host {host} does not describe its hardware ({why}); name a description with '--topology \
                 FILE', or leave '--map-by', '--mem-bind' and options of devices out"
            )
        })?;
        Ok(Self { host, hardware, is_foreign: false, restrictions, placement })
    }

    /// Places the ranks of a job.
    fn place(self: &Arc<Self>, ranks: RankCounts) -> Result<NodePlaces, String> {
        let Self { hardware, placement, .. } = &**self;
        let local = index(ranks.local);
        if local == 0 {
            // Ranks of other jobs may follow.
            let places = Places { node: Arc::clone(self), ranks: Vec::new(), memory: Vec::new() };
            return Ok(NodePlaces { binding: None, places: Some(Arc::new(places)) });
        }
        let mut places = vec![RankPlace::default(); local];
        let binding = match placement.map_by {
            Some(MapBy::Auto) => {
                places = self.memory_first(ranks.local);
                of_places(&places)
            }
            Some(MapBy::Device(kind)) => {
                let sets = self.near_devices(kind, local)?;
                for (place, processors) in places.iter_mut().zip(sets) {
                    place.processors = processors;
                }
                of_places(&places)
            }
            Some(MapBy::Units(_)) | None => {
                let binding = self.bound(ranks)?;
                for (number, place) in (0..).zip(&mut places) {
                    let processors = binding.as_ref().map_or(&[][..], |all| all.of(number));
                    place.processors = processors.iter().copied().collect();
                }
                binding
            }
        };
        for place in &mut places {
            if place.memories.is_empty() {
                place.memories = near_memories(hardware, &place.processors, MemoryKind::Main);
            }
            if let Some(threads) = placement.threads {
                place.threads = threads;
            }
        }
        if let Some(gpus) = self.gpus(&places)? {
            for (place, gpus) in places.iter_mut().zip(gpus) {
                place.gpus = gpus;
            }
        }
        if placement.nics > 0 {
            let nics = self.nics(&places)?;
            for (place, nics) in places.iter_mut().zip(nics) {
                place.nics = nics;
            }
        }
        for place in &places {
            self.check_names(place)?;
        }
        let memory = (0..).zip(&places).map(|(rank, place)| self.memory(rank, place));
        let memory = memory.collect::<Result<_, String>>()?;
        let places = Places { node: Arc::clone(self), ranks: places, memory };
        Ok(NodePlaces { binding: binding.map(Arc::new), places: Some(Arc::new(places)) })
    }

    fn memory_first(&self, ranks: u32) -> Vec<RankPlace> {
        let wanted = RanksToPlace {
            ranks,
            threads: self.placement.threads,
            hardware_threads: None,
            is_near_gpus: true,
        };
        memory_first::place(&self.hardware, wanted)
    }

    /// Processors by `--bind-to`. One thread of a rank has one of the pieces.
    fn bound(&self, ranks: RankCounts) -> Result<Option<Binding>, String> {
        let processors = &self.hardware.processors;
        let allowed: Vec<u32> = processors.iter().copied().collect();
        let placement = widened(&self.placement);
        let topology = |_: &[Unit]| Topology::of(&self.hardware, processors);
        Binding::on(&placement, ranks, &allowed, topology)
    }

    /// Processors of each rank: those near its device, or the next piece of `--bind-to` among them. Devices
    /// take turns.
    fn near_devices(&self, kind: MapDevice, ranks: usize) -> Result<Vec<ProcessorSet>, String> {
        let (devices, of_rank) = match kind {
            MapDevice::Gpu => {
                let units = self.gpu_units().into_iter().map(|unit| unit.device).collect();
                (units, self.gpus_of_rank().unwrap_or(1))
            }
            MapDevice::Nic => (self.hardware.nics(), index(self.placement.nics)),
        };
        if devices.is_empty() {
            let (option, what) = match kind {
                MapDevice::Gpu => ("gpu", self.shown_count(0, GPU)),
                MapDevice::Nic => ("nic", self.shown_count(0, "network card")),
            };
            return Err(format!("{what}, and '--map-by {option}' needs one; leave it out"));
        }
        let first_ones: Vec<&Device> =
            devices.chunks(of_rank.max(1)).map(|chunk| chunk[0]).collect();
        let near = |rank: usize| {
            let near = &first_ones[rank % first_ones.len()].near;
            // Where a device is that the system does not locate, is unknown.
            if near.is_empty() { self.hardware.processors.clone() } else { near.clone() }
        };
        let Some(pieces) = self.pieces()? else { return Ok((0..ranks).map(near).collect()) };
        let mut used = vec![0_u32; pieces.len()];
        let next = |rank: usize| {
            let near = near(rank);
            let is_near = |at: &usize| pieces[*at].meets(&near);
            let at =
                { 0..pieces.len() }.filter(is_near).min_by_key(|at| used[*at]).unwrap_or_default();
            used[at] += 1;
            pieces[at].clone()
        };
        Ok((0..ranks).map(next).collect())
    }

    /// Pieces of the machine of the size that ranks are bound to; `None` if no option says it.
    fn pieces(&self) -> Result<Option<Vec<ProcessorSet>>, String> {
        let BindTo::Units(Units { unit, count }) = widened(&self.placement).bind_to else {
            return Ok(None);
        };
        let units = Topology::of(&self.hardware, &self.hardware.processors);
        let units = units.and_then(|topology| topology.units(unit)).map_err(|error| {
            format!(
                "host {} does not describe its processors ({error}); leave '--bind-to' out",
                self.host
            )
        })?;
        let pieces =
            units.chunks(index(count)).map(|chunk| chunk.iter().flatten().copied().collect());
        Ok(Some(pieces.collect()))
    }

    /// GPUs that count as one each, in the order of their addresses.
    fn gpu_units(&self) -> Vec<CountedGpu<'_>> {
        let mut units: Vec<CountedGpu<'_>> = Vec::new();
        for (number, gpu) in self.hardware.usable_gpus().into_iter().enumerate() {
            let is_tile = gpu.part.is_some_and(|part| part.kind == PartKind::Tile);
            let is_whole = is_tile && self.placement.gpus.unit == GpuUnit::Device;
            match units.last_mut() {
                Some(last) if is_whole && std::ptr::eq(last.device, gpu.device) => {
                    last.numbers.push(number);
                }
                _ => units.push(CountedGpu { device: gpu.device, numbers: vec![number] }),
            }
        }
        units
    }

    /// Number of GPUs that each rank is to have.
    fn gpus_of_rank(&self) -> Option<usize> {
        let gpus = &self.placement.gpus;
        match &gpus.bind {
            GpuBind::List(sets) => sets.iter().map(Vec::len).max(),
            GpuBind::Closest | GpuBind::Packed | GpuBind::Launcher(_) => gpus.per_rank.map(index),
        }
    }

    /// GPUs of each rank, by their numbers among the usable ones; `None` if no option assigns any.
    fn gpus(&self, places: &[RankPlace]) -> Result<Option<Vec<Vec<usize>>>, String> {
        if !assigns_gpus(&self.placement) {
            return Ok(None);
        }
        let units = self.gpu_units();
        let devices: Vec<&Device> = units.iter().map(|unit| unit.device).collect();
        let numbers =
            |own: &Vec<usize>| own.iter().flat_map(|at| units[*at].numbers.clone()).collect();
        let assigned = self.assigned_gpus(&devices, places)?;
        Ok(Some(assigned.iter().map(numbers).collect()))
    }

    /// GPUs of each rank, as places in `devices`.
    fn assigned_gpus(
        &self,
        devices: &[&Device],
        places: &[RankPlace],
    ) -> Result<Vec<Vec<usize>>, String> {
        let (settings, ranks) = (&self.placement.gpus, places.len());
        let count = self.gpus_of_rank();
        match (&settings.bind, count) {
            (GpuBind::List(sets), _) => return self.listed_gpus(sets, devices.len(), ranks),
            (GpuBind::Launcher(launcher), _) => {
                return self.gpus_as_by(*launcher, devices, places);
            }
            (GpuBind::Closest | GpuBind::Packed, _) => {}
        }
        let demand = Demand { ranks, count: count.unwrap_or(1) };
        let count = demand.count;
        // Sets of GPUs that are apart from each other.
        let sets = devices.len() / count;
        if ranks > sets.saturating_mul(index(settings.share)) {
            return Err(self.too_few_gpus(devices.len(), demand));
        }
        let by_number = || packed((0..devices.len()).collect(), demand);
        // No more ranks have a GPU than have to.
        let near = NearDemand { count, share: ranks.div_ceil(sets.max(1)) };
        Ok(match settings.bind {
            GpuBind::Closest if are_bound(places) => {
                self.nearest(devices, places, near).unwrap_or_else(by_number)
            }
            GpuBind::Closest => {
                let mut order: Vec<usize> = (0..devices.len()).collect();
                order.sort_by_key(|at| devices[*at].memory.unwrap_or(u32::MAX));
                packed(order, demand)
            }
            GpuBind::Packed | GpuBind::List(_) | GpuBind::Launcher(_) => by_number(),
        })
    }

    /// GPUs of each rank by the rules of another launcher.
    fn gpus_as_by(
        &self,
        launcher: LauncherGpus,
        devices: &[&Device],
        places: &[RankPlace],
    ) -> Result<Vec<Vec<usize>>, String> {
        let (ranks, count) = (places.len(), self.gpus_of_rank());
        match launcher {
            LauncherGpus::Hydra => {
                let count = count.unwrap_or_default();
                let end = |rank: usize| rank.saturating_mul(count).min(devices.len());
                Ok((0..ranks).map(|rank| (end(rank)..end(rank + 1)).collect()).collect())
            }
            LauncherGpus::Intel if devices.is_empty() => Ok(vec![Vec::new(); ranks]),
            LauncherGpus::Intel => match count {
                None => Ok(self.shares(devices, places)),
                Some(count) if count > devices.len() => {
                    Err(self.too_few_gpus(devices.len(), Demand { ranks: 1, count }))
                }
                Some(count) => {
                    let by_number =
                        || packed((0..devices.len()).collect(), Demand { ranks, count });
                    let share = ranks.div_ceil((devices.len() / count.max(1)).max(1));
                    let near = self.nearest(devices, places, NearDemand { count, share });
                    Ok(near.filter(|_| are_bound(places)).unwrap_or_else(by_number))
                }
            },
            LauncherGpus::Slurm if devices.is_empty() => {
                Err(self.too_few_gpus(0, Demand { ranks, count: count.unwrap_or(1) }))
            }
            LauncherGpus::Slurm => {
                let nearest = |place: &RankPlace| -> Vec<usize> {
                    let distances = devices.iter().map(|device| self.distance(place, device));
                    let distances: Vec<Distance> = distances.collect();
                    let least = distances.iter().min().copied();
                    { 0..devices.len() }.filter(|at| Some(distances[*at]) == least).collect()
                };
                let share = index(self.placement.gpus.share);
                let own = |rank: usize| {
                    let near = nearest(&places[rank]);
                    let Some(count) = count else { return near };
                    // Ranks in a row have the same ones.
                    let start = (rank / share).saturating_mul(count) % near.len();
                    near.iter().cycle().skip(start).take(count.min(near.len())).copied().collect()
                };
                Ok((0..ranks).map(own).collect())
            }
        }
    }

    /// For each rank an equal share of the GPUs near it; of all GPUs if some rank has none near it, or some
    /// GPU no rank.
    fn shares(&self, devices: &[&Device], places: &[RankPlace]) -> Vec<Vec<usize>> {
        let is_near =
            |place: &RankPlace, device: &Device| self.distance(place, device) <= Distance::Memory;
        // GPUs that the same ranks are near to, and these ranks.
        let mut groups: Vec<SharedGpus> = Vec::new();
        for (gpu, device) in devices.iter().enumerate() {
            let near = |rank: &usize| is_near(&places[*rank], device);
            let ranks: Vec<usize> = (0..places.len()).filter(near).collect();
            match groups.iter_mut().find(|group| group.ranks == ranks) {
                Some(group) => group.gpus.push(gpu),
                None => groups.push(SharedGpus { ranks, gpus: vec![gpu] }),
            }
        }
        let mut of_groups: Vec<usize> =
            groups.iter().flat_map(|group| group.ranks.clone()).collect();
        of_groups.sort_unstable();
        let is_parted = of_groups.iter().copied().eq(0..places.len());
        if !is_parted || groups.iter().any(|group| group.ranks.is_empty()) {
            let (ranks, gpus) = ((0..places.len()).collect(), (0..devices.len()).collect());
            groups = vec![SharedGpus { ranks, gpus }];
        }
        let mut all = vec![Vec::new(); places.len()];
        for SharedGpus { ranks, gpus } in groups {
            for (at, rank) in ranks.iter().enumerate() {
                let start = |at: usize| at * gpus.len() / ranks.len();
                let end = start(at + 1).max(start(at) + 1);
                all[*rank] = gpus[start(at)..end].to_vec();
            }
        }
        all
    }

    fn listed_gpus(
        &self,
        sets: &[Vec<u32>],
        gpus: usize,
        ranks: usize,
    ) -> Result<Vec<Vec<usize>>, String> {
        let given: Vec<String> = sets.iter().map(|set| ranges(set, "+")).collect();
        let given = format!("'--gpu-bind list:{}'", given.join(","));
        if let Some(strange) = sets.iter().flatten().find(|number| index(**number) >= gpus) {
            let found = self.shown_count(gpus, GPU);
            return Err(format!(
                "{found}, numbered from 0, and {given} names {strange}; name others"
            ));
        }
        let of = |rank: usize| sets[rank % sets.len()].iter().map(|one| index(*one)).collect();
        let all: Vec<Vec<usize>> = (0..ranks).map(of).collect();
        let mut users = vec![0_usize; gpus];
        for gpu in all.iter().flatten() {
            users[*gpu] += 1;
        }
        let most = users.iter().copied().max().unwrap_or_default();
        match most > index(self.placement.gpus.share) {
            true => Err(format!(
                "host {}: {given} gives {most} of {ranks} ranks the same GPU; list one for each rank, or \
                 allow it by '--gpu-share {most}'",
                self.host
            )),
            false => Ok(all),
        }
    }

    fn too_few_gpus(&self, gpus: usize, demand: Demand) -> String {
        let Demand { ranks, count } = demand;
        let found = self.shown_count(gpus, GPU);
        let asked = count.saturating_mul(ranks);
        let plural = if ranks == 1 { "" } else { "s" };
        let asked = format!(
            "{found}, and {ranks} rank{plural} with '--gpus-per-rank {count}' {} {asked}",
            if ranks == 1 { "asks for" } else { "ask for" }
        );
        match gpus / count {
            0 if gpus == 0 => format!("{asked}; leave the option out"),
            0 => format!("{asked}; ask for {gpus} at most"),
            sets => {
                let share = ranks.div_ceil(sets);
                format!("{asked}; '--gpu-share {share}' lets {share} ranks have the same one")
            }
        }
    }

    /// Beginning of a sentence: the host has so many of these devices, and why not more.
    fn shown_count(&self, count: usize, what: &str) -> String {
        let number = if count == 0 { "no".to_owned() } else { count.to_string() };
        let plural = if count == 1 { "" } else { "s" };
        let host = &self.host;
        let found = format!("host {host} has {number} {what}{plural} for ranks");
        if self.restrictions.is_empty() || what != GPU {
            return found;
        }
        let assignment = |one: &Restriction| format!("{}={}", one.name, one.value);
        let restrictions: Vec<String> = self.restrictions.iter().map(assignment).collect();
        let left_out: usize = self.restrictions.iter().map(|one| one.gpus).sum();
        format!("{found}, as {} leaves out {left_out}", restrictions.join(" with "))
    }

    /// Checks that libraries can be told of the GPUs of a rank.
    fn check_names(&self, place: &RankPlace) -> Result<(), String> {
        if self.placement.gpus.expose == GpuExpose::Env {
            return Ok(());
        }
        masks::check(&self.hardware, place).map_err(|why| {
            format!(
                "host {}: {why}; '--gpu-expose env' leaves the choice to the program",
                self.host
            )
        })
    }

    /// Network cards of each rank: the nearest to its processors, else to its GPUs.
    fn nics(&self, places: &[RankPlace]) -> Result<Vec<Vec<usize>>, String> {
        let (cards, count) = (self.hardware.nics(), index(self.placement.nics));
        if count > cards.len() {
            let found = self.shown_count(cards.len(), "network card");
            let most = cards.len();
            return Err(match most {
                0 => {
                    format!("{found}, and '--nics-per-rank {count}' asks for {count}; leave it out")
                }
                _ => format!(
                    "{found}, and '--nics-per-rank {count}' asks for more; ask for {most} at most"
                ),
            });
        }
        let gpus = self.hardware.usable_gpus();
        let near_gpus = |place: &RankPlace| {
            let near = place.gpus.iter().filter_map(|gpu| Some(&gpus.get(*gpu)?.device.near));
            let near = near.fold(ProcessorSet::default(), |all, near| all.or(near));
            RankPlace { processors: near, memories: Vec::new(), ..place.clone() }
        };
        let located = places.iter().map(|place| match place.processors.is_empty() {
            true => near_gpus(place),
            false => place.clone(),
        });
        let located: Vec<RankPlace> = located.collect();
        let demand = NearDemand { count, share: places.len() };
        Ok(self.nearest(&cards, &located, demand).unwrap_or_default())
    }

    /// For each rank the nearest devices, and of equally near ones those that fewer ranks have. No rank takes
    /// a device that is nearer to another one: all devices of one distance are assigned before farther ones.
    /// `None` if too few are left for a rank.
    fn nearest(
        &self,
        devices: &[&Device],
        places: &[RankPlace],
        NearDemand { count, share }: NearDemand,
    ) -> Option<Vec<Vec<usize>>> {
        let mut users = vec![0_usize; devices.len()];
        let mut all: Vec<Vec<usize>> = vec![Vec::new(); places.len()];
        for farthest in Distance::ALL {
            for (place, own) in places.iter().zip(&mut all) {
                let candidate = |at: usize| {
                    let distance = self.distance(place, devices[at]);
                    Candidate { distance, users: users[at], at }
                };
                let may_have = |one: &Candidate| {
                    one.distance <= farthest && one.users < share && !own.contains(&one.at)
                };
                let mut near: Vec<Candidate> =
                    (0..devices.len()).map(candidate).filter(may_have).collect();
                near.sort_unstable();
                for Candidate { at, .. } in near.into_iter().take(count - own.len()) {
                    users[at] += 1;
                    own.push(at);
                }
            }
        }
        all.iter_mut().for_each(|own| own.sort_unstable());
        all.iter().all(|own| own.len() == count).then_some(all)
    }

    fn distance(&self, place: &RankPlace, device: &Device) -> Distance {
        if device.near.meets(&place.processors) {
            return Distance::Processors;
        }
        if device.memory.is_some_and(|memory| place.memories.contains(&memory)) {
            return Distance::Memory;
        }
        let packages = self.hardware.sets(|kind| *kind == GroupKind::Package);
        let shares = |package: &&ProcessorSet| {
            package.meets(&device.near) && package.meets(&place.processors)
        };
        match packages.iter().any(shares) {
            true => Distance::Package,
            false => Distance::Unknown,
        }
    }

    fn memory(&self, rank: u32, place: &RankPlace) -> Result<Option<MemoryPolicy>, String> {
        let Self { hardware, host, placement, .. } = self;
        let Some(binding) = &placement.memory else { return Ok(None) };
        let all: Vec<u32> = hardware.memories.iter().map(|one| one.number).collect();
        let all = ranges(&all, ",");
        let (mode, domains) = match binding {
            MemoryBinding::Local => (MemoryMode::Bind, place.memories.clone()),
            MemoryBinding::Preferred => (MemoryMode::Preferred, place.memories.clone()),
            MemoryBinding::Interleave => (MemoryMode::Interleave, place.memories.clone()),
            MemoryBinding::HighBandwidth => {
                let near = near_memories(hardware, &place.processors, MemoryKind::HighBandwidth);
                (MemoryMode::Bind, near)
            }
            MemoryBinding::List(sets) => {
                let domains = sets[index(rank) % sets.len()].clone();
                let is_there = |one: &u32| hardware.memories.iter().any(|all| all.number == *one);
                if let Some(strange) = domains.iter().find(|domain| !is_there(domain)) {
                    return Err(format!(
                        "host {host} has memory domains {all} for ranks, and '--mem-bind list:…' names \
                         {strange}; name others"
                    ));
                }
                (MemoryMode::Bind, domains)
            }
        };
        match (domains.is_empty(), mode) {
            (false, _) => Ok(Some(MemoryPolicy { mode, domains })),
            (true, MemoryMode::Preferred) => Ok(None),
            (true, _) if *binding == MemoryBinding::HighBandwidth => Err(format!(
                "host {host} has no high bandwidth memory near rank {rank} of the host; leave \
                 '--mem-bind hbm' out"
            )),
            (true, _) if hardware.memories.is_empty() => {
                Err(format!("host {host} lists no memory domains; leave '--mem-bind' out"))
            }
            (true, _) => Err(format!(
                "host {host} has memory domains {all} for ranks, and none is near the processors of rank \
                 {rank} of the host; '--mem-bind preferred' does without"
            )),
        }
    }
}

const GPU: &str = "GPU";

/// A GPU that counts as one.
struct CountedGpu<'a> {
    device: &'a Device,
    /// Its numbers among the usable GPUs.
    numbers: Vec<usize>,
}

/// GPUs that ranks share.
struct SharedGpus {
    /// Numbers of the ranks on the node.
    ranks: Vec<usize>,
    /// Places of the GPUs.
    gpus: Vec<usize>,
}

fn are_bound(places: &[RankPlace]) -> bool {
    places.iter().any(|place| !place.processors.is_empty())
}

/// Devices that ranks are to have.
#[derive(Clone, Copy, Debug)]
struct Demand {
    /// Number of ranks.
    ranks: usize,
    /// Devices of each; one at least.
    count: usize,
}

/// Nearest devices that ranks are to have.
#[derive(Clone, Copy, Debug)]
struct NearDemand {
    /// Devices of each rank; one at least.
    count: usize,
    /// Maximum number of ranks of a device.
    share: usize,
}

/// A device that a rank may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    distance: Distance,
    /// Ranks that have it.
    users: usize,
    at: usize,
}

/// Distance of a device from a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    /// Near its processors.
    Processors,
    /// In one of its memory domains.
    Memory,
    /// In the same package.
    Package,
    /// Elsewhere, or not known.
    Unknown,
}

impl Distance {
    const ALL: [Self; 4] = [Self::Processors, Self::Memory, Self::Package, Self::Unknown];
}

/// For each rank consecutive things in this order. Where there are too few, consecutive ranks have the same
/// ones.
fn packed(order: Vec<usize>, Demand { ranks, count }: Demand) -> Vec<Vec<usize>> {
    let sets: Vec<&[usize]> = order.chunks_exact(count).collect();
    let of = |rank: usize| match ranks > sets.len() {
        true => sets[rank * sets.len() / ranks].to_vec(),
        false => sets[rank].to_vec(),
    };
    (0..ranks).map(of).collect()
}

/// Binding of ranks that all have processors of their own; `None` without ranks.
fn of_places(places: &[RankPlace]) -> Option<Binding> {
    let sets: Vec<Vec<u32>> =
        places.iter().map(|place| place.processors.iter().copied().collect()).collect();
    (!sets.is_empty()).then(|| Binding::of_sets(sets))
}

/// Name of a GPU, or of a part of one, which does not depend on the order of others.
fn gpu_name(gpu: &Device, part: Option<&DevicePart>) -> String {
    let address = gpu.pci.as_ref().map(|pci| pci.address.to_string());
    let address = address.unwrap_or_else(|| gpu.name());
    part.map_or_else(|| address.clone(), |part| format!("{address}/{}", part.number))
}

/// Leaves GPUs out, and parts of them, whose names are not `left`.
fn leave_out_gpus(hardware: &mut NodeHardware, is_left: impl Fn(&String) -> bool) {
    // They count devices.
    hardware.links.clear();
    hardware.devices.retain_mut(|device| {
        if !matches!(device.kind, DeviceKind::Gpu(_)) {
            return true;
        }
        if device.parts.is_empty() {
            return is_left(&gpu_name(device, None));
        }
        let mut parts = std::mem::take(&mut device.parts);
        parts.retain(|part| is_left(&gpu_name(device, Some(part))));
        device.parts = parts;
        !device.parts.is_empty()
    });
}

/// Numbers of the memory domains of a kind near processors; of all if there are no processors.
fn near_memories(hardware: &NodeHardware, near: &ProcessorSet, kind: MemoryKind) -> Vec<u32> {
    let is_near = |memory: &&pmi_host_hardware::model::Memory| {
        let processors = match kind {
            MemoryKind::Main => hardware.own_processors(memory),
            _ => memory.near.clone(),
        };
        memory.kind == kind && (near.is_empty() || processors.meets(near))
    };
    hardware.memories.iter().filter(is_near).map(|memory| memory.number).collect()
}

/// With threads, a rank that is bound to one core, or hardware thread, has one for each thread.
fn widened(placement: &Placement) -> Placement {
    let mut placement = placement.clone();
    if let (BindTo::Units(Units { unit: Unit::Core | Unit::HwThread, count }), Some(threads)) =
        (&mut placement.bind_to, placement.threads)
        && *count == 1
    {
        *count = threads;
    }
    placement
}

fn wanted(placement: &Placement) -> Wanted {
    let bind_to = match &placement.bind_to {
        BindTo::Units(units) => Some(units.unit),
        _ => None,
    };
    let map_by = match placement.map_by {
        Some(MapBy::Units(units)) => Some(units.unit),
        _ => None,
    };
    let is_cache = |unit: Option<Unit>| matches!(unit, Some(Unit::Cache(_)));
    let has_caches = is_cache(bind_to) || is_cache(map_by);
    let has_devices = matches!(placement.map_by, Some(MapBy::Device(_) | MapBy::Auto))
        || placement.nics > 0
        || assigns_gpus(placement)
        || placement.display == Some(Display::Picture);
    Wanted {
        caches: if has_caches { Caches::Data } else { Caches::None },
        memory: Memories::All,
        devices: has_devices,
        ..Wanted::default()
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::placement::GpuPlacement;
    use pmi_host_hardware::described::machines;

    fn node(machine: &str, placement: Placement) -> Arc<PlacedNode> {
        let (_, hardware) = machines().find(|(name, _)| *name == machine).unwrap();
        let (host, restrictions) = ("n1".to_owned(), Vec::new());
        Arc::new(PlacedNode { host, hardware, is_foreign: true, restrictions, placement })
    }

    fn placed(machine: &str, placement: &Placement, ranks: u32) -> Result<Arc<Places>, String> {
        NodePlaces::check(placement)?;
        let node = node(machine, placement.clone());
        let placed = node.place(RankCounts { all: ranks, local: ranks })?;
        let places = placed.places.expect("options assign devices");
        for (rank, place) in (0..).zip(&places.ranks) {
            let bound: ProcessorSet =
                placed.binding.iter().flat_map(|all| all.of(rank).iter().copied()).collect();
            assert_eq!(bound, place.processors, "{machine}");
        }
        Ok(places)
    }

    fn gpus(machine: &str, placement: &Placement, ranks: u32) -> Vec<Vec<usize>> {
        let places = placed(machine, placement, ranks).unwrap();
        places.ranks.iter().map(|place| place.gpus.clone()).collect()
    }

    fn with_gpus(per_rank: u32) -> Placement {
        let gpus = GpuPlacement { per_rank: Some(per_rank), ..GpuPlacement::default() };
        Placement { gpus, ..Placement::default() }
    }

    fn bound(unit: Unit, count: u32, placement: Placement) -> Placement {
        Placement { bind_to: BindTo::Units(Units { unit, count }), ..placement }
    }

    #[test]
    fn closest_gpus_are_near_the_processors_of_their_rank() {
        // Frontier: ranks on the 8 domains of level 3 have the GPU of each, which are numbered otherwise.
        let by_cache = bound(Unit::Cache(3), 1, with_gpus(1));
        assert_eq!(
            gpus("frontier", &by_cache, 8),
            [[4], [5], [2], [3], [6], [7], [0], [1]].map(Vec::from)
        );
        let by_domain = bound(Unit::Numa, 1, with_gpus(2));
        assert_eq!(
            gpus("frontier", &by_domain, 4),
            [[4, 5], [2, 3], [6, 7], [0, 1]].map(Vec::from)
        );
        // Perlmutter: GPU 3 is near the first cores.
        let by_domain = bound(Unit::Numa, 1, with_gpus(1));
        assert_eq!(gpus("perlmutter", &by_domain, 4), [[3], [2], [1], [0]].map(Vec::from));
        // Ranks of one package take its GPUs before those of the other one.
        let by_core = bound(Unit::Core, 1, with_gpus(1));
        let first = gpus("dgx-h100", &by_core, 6);
        assert_eq!(first, [[0], [1], [2], [3], [4], [5]].map(Vec::from));
    }

    #[test]
    fn rank_takes_no_gpu_that_is_near_another_one() {
        // The first two ranks are near GPU 4, and the third near GPU 5, which is in the same memory domain.
        let bind_to = BindTo::User(vec![vec![0], vec![1], vec![8]]);
        let placement = Placement { bind_to, ..with_gpus(1) };
        assert_eq!(gpus("frontier", &placement, 3), [[4], [0], [5]].map(Vec::from));
    }

    #[test]
    fn ranks_that_are_not_bound_have_gpus_by_domains_or_by_number() {
        let closest = with_gpus(1);
        assert_eq!(gpus("perlmutter", &closest, 2), [[3], [2]].map(Vec::from));
        let mut packed = with_gpus(2);
        packed.gpus.bind = GpuBind::Packed;
        assert_eq!(gpus("perlmutter", &packed, 2), [[0, 1], [2, 3]].map(Vec::from));
        let places = placed("perlmutter", &packed, 2).unwrap();
        assert!(places.of(0).is_some_and(|place| place.processors.is_empty()));
    }

    #[test]
    fn ranks_share_gpus_evenly_and_only_if_that_is_allowed() {
        let mut placement = bound(Unit::Core, 1, with_gpus(1));
        let error = placed("perlmutter", &placement, 8).unwrap_err();
        let expected = "host n1 has 4 GPUs for ranks, and 8 ranks with '--gpus-per-rank 1' ask for 8; \
                        '--gpu-share 2' lets 2 ranks have the same one";
        assert_eq!(error, expected);
        placement.gpus.share = 4;
        let mut users = [0; 4];
        for gpu in gpus("perlmutter", &placement, 8).concat() {
            users[gpu] += 1;
        }
        assert_eq!(users, [2; 4]);
        placement.gpus.bind = GpuBind::Packed;
        let packed = gpus("perlmutter", &placement, 8).concat();
        assert_eq!(packed, [0, 0, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn impossible_devices_are_told_with_host_and_remedy() {
        let list = |sets: &[&[u32]]| {
            let mut placement = Placement::default();
            placement.gpus.bind = GpuBind::List(sets.iter().map(|set| set.to_vec()).collect());
            placement
        };
        let nics = Placement { nics: 9, ..Placement::default() };
        let map_by =
            |device| Placement { map_by: Some(MapBy::Device(device)), ..Placement::default() };
        let both = {
            let mut both = list(&[&[0, 1]]);
            both.gpus.per_rank = Some(1);
            both
        };
        for (machine, placement, ranks, parts) in [
            ("raspberry-pi", with_gpus(1), 1, ["host n1 has no GPUs", "leave the option out"]),
            (
                "perlmutter",
                with_gpus(5),
                1,
                ["1 rank with '--gpus-per-rank 5' asks for 5", "4 at most"],
            ),
            ("perlmutter", list(&[&[0], &[7]]), 1, ["has 4 GPUs", "'--gpu-bind list:0,7' names 7"]),
            ("perlmutter", list(&[&[0]]), 2, ["2 of 2 ranks the same GPU", "'--gpu-share 2'"]),
            ("perlmutter", both, 1, ["'--gpus-per-rank 1' contradicts", "leave"]),
            ("frontier", nics, 1, ["has 4 network cards", "ask for 4 at most"]),
            ("raspberry-pi", map_by(MapDevice::Gpu), 1, ["no GPUs", "'--map-by gpu' needs one"]),
        ] {
            let error = placed(machine, &placement, ranks).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{machine}: {error}");
        }
        // More ranks than sets need not share: lists are taken in turn.
        assert_eq!(gpus("perlmutter", &list(&[&[3], &[1, 2]]), 2), [vec![3], vec![1, 2]]);
    }

    #[test]
    fn gpus_that_the_user_leaves_out_are_named_with_their_variable() {
        let mut node = Arc::into_inner(node("dgx-h100", with_gpus(2))).unwrap();
        let ours = |name: &str| (name == "CUDA_VISIBLE_DEVICES").then(|| "3".to_owned());
        node.restrictions = node.hardware.leave_out_by_variables(&ours);
        let error = Arc::new(node).place(RankCounts { all: 1, local: 1 }).unwrap_err();
        let expected = "host n1 has 1 GPU for ranks, as CUDA_VISIBLE_DEVICES=3 leaves out 7, and 1 rank with \
                        '--gpus-per-rank 2' asks for 2; ask for 1 at most";
        assert_eq!(error, expected);
    }

    #[test]
    fn selector_that_names_no_gpu_of_the_mask_is_named_with_it() {
        let places = placed("aurora", &with_gpus(2), 2).unwrap();
        let ours =
            |name: &str| (name == "ONEAPI_DEVICE_SELECTOR").then(|| "level_zero:4".to_owned());
        let error = places.check_variables(&ours).unwrap_err();
        assert!(error.contains("ONEAPI_DEVICE_SELECTOR=level_zero:4 names none"), "{error}");
        assert!(error.contains("ZE_AFFINITY_MASK=0,1 shows to rank 0"), "{error}");
        assert_eq!(places.check_variables(&|_| None), Ok(()));
    }

    #[test]
    fn ranks_mapped_by_devices_are_bound_near_them() {
        let map_by = |kind| Placement { map_by: Some(MapBy::Device(kind)), ..Placement::default() };
        let sets = |machine, placement: &Placement, ranks| -> Vec<String> {
            let places = placed(machine, placement, ranks).unwrap();
            places.ranks.iter().map(|place| place.processors.to_string()).collect()
        };
        let gpu = map_by(MapDevice::Gpu);
        assert_eq!(sets("frontier", &gpu, 9)[..2], ["48-55,112-119", "56-63,120-127"]);
        assert_eq!(sets("frontier", &gpu, 9)[8], "48-55,112-119");
        let nic = map_by(MapDevice::Nic);
        assert_eq!(sets("frontier", &nic, 2), ["48-63,112-127", "16-31,80-95"]);
        // Each rank has cores of its own near its device.
        let cores = bound(Unit::Core, 2, gpu);
        let found = sets("dgx-h100", &cores, 3);
        assert_eq!(found, ["0-1,112-113", "2-3,114-115", "4-5,116-117"]);
        // With GPUs, each rank is near the first of its own.
        let two = Placement { map_by: Some(MapBy::Device(MapDevice::Gpu)), ..with_gpus(2) };
        assert_eq!(gpus("frontier", &two, 4), [[0, 1], [2, 3], [4, 5], [6, 7]].map(Vec::from));
    }

    #[test]
    fn placement_by_memory_first_has_gpus_memory_and_threads() {
        let auto = Placement {
            map_by: Some(MapBy::Auto),
            memory: Some(MemoryBinding::Local),
            ..Placement::default()
        };
        let places = placed("perlmutter", &auto, 4).unwrap();
        let shown = |rank| {
            let place: &RankPlace = places.of(rank).unwrap();
            (place.gpus.clone(), place.memories.clone(), place.threads)
        };
        assert_eq!(shown(0), (vec![3], vec![0], 16));
        assert_eq!(shown(3), (vec![0], vec![3], 16));
        let policy = MemoryPolicy { mode: MemoryMode::Bind, domains: vec![3] };
        assert_eq!(places.memory(3), Some(&policy));
        let contradiction = bound(Unit::Core, 1, auto);
        assert!(NodePlaces::check(&contradiction).unwrap_err().contains("leave '--bind-to' out"));
    }

    #[test]
    fn network_cards_are_near_the_processors_or_the_gpus_of_a_rank() {
        let nics = |placement: Placement, ranks| -> Vec<Vec<usize>> {
            let placement = Placement { nics: 1, ..placement };
            let places = placed("frontier", &placement, ranks).unwrap();
            places.ranks.iter().map(|place| place.nics.clone()).collect()
        };
        let by_domain = bound(Unit::Numa, 1, Placement::default());
        assert_eq!(nics(by_domain, 4), [[2], [1], [3], [0]].map(Vec::from));
        // By the GPUs 4 and 5, 2 and 3.
        assert_eq!(nics(with_gpus(2), 2), [[2], [1]].map(Vec::from));
        // The nearest card, however many ranks have it, and else cards in turn.
        let by_core = bound(Unit::Core, 1, Placement::default());
        assert_eq!(nics(by_core, 3), [[2], [2], [2]].map(Vec::from));
        assert_eq!(nics(Placement::default(), 5), [[0], [1], [2], [3], [0]].map(Vec::from));
    }

    #[test]
    fn memory_is_that_of_the_processors() {
        let memory = |machine, binding: &MemoryBinding, ranks| {
            let placement = Placement { memory: Some(binding.clone()), ..Placement::default() };
            let placement = bound(Unit::Numa, 1, placement);
            let places = placed(machine, &placement, ranks)?;
            Ok::<_, String>((0..ranks).map(|rank| places.memory(rank).cloned()).collect::<Vec<_>>())
        };
        let policy = |mode, domains: &[u32]| Some(MemoryPolicy { mode, domains: domains.to_vec() });
        let local = memory("xeon-max", &MemoryBinding::Local, 2).unwrap();
        assert_eq!(local, [policy(MemoryMode::Bind, &[0]), policy(MemoryMode::Bind, &[1])]);
        let interleaved = memory("xeon-cxl", &MemoryBinding::Interleave, 1).unwrap();
        assert_eq!(interleaved, [policy(MemoryMode::Interleave, &[0])]);
        let fast = memory("xeon-max", &MemoryBinding::HighBandwidth, 1).unwrap().remove(0).unwrap();
        assert!(
            fast.mode == MemoryMode::Bind && fast.domains.iter().all(|one| *one >= 8),
            "{fast:?}"
        );
        let error = memory("perlmutter", &MemoryBinding::HighBandwidth, 1).unwrap_err();
        assert!(error.contains("host n1 has no high bandwidth memory"), "{error}");
        let list = MemoryBinding::List(vec![vec![0, 1], vec![3]]);
        let listed = memory("perlmutter", &list, 3).unwrap();
        assert_eq!(
            listed[1..],
            [policy(MemoryMode::Bind, &[3]), policy(MemoryMode::Bind, &[0, 1])]
        );
        let error = memory("perlmutter", &MemoryBinding::List(vec![vec![9]]), 1).unwrap_err();
        assert!(error.contains("memory domains 0-3") && error.contains("names 9"), "{error}");
        let local = Placement { memory: Some(MemoryBinding::Local), ..Placement::default() };
        let mut confined = node("xeon-cxl", bound(Unit::Socket, 1, local));
        let hardware = &mut Arc::get_mut(&mut confined).unwrap().hardware;
        hardware.memories.retain(|memory| memory.number == 1);
        let error = confined.place(RankCounts { all: 2, local: 2 }).map(drop).unwrap_err();
        let expected = "has memory domains 1 for ranks, and none is near the processors of rank 0";
        assert!(error.contains(expected), "{error}");
        // Ranks that are not bound have no memory that is near.
        let unbound = Placement { memory: Some(MemoryBinding::Local), ..Placement::default() };
        assert!(NodePlaces::check(&unbound).unwrap_err().contains("add '--bind-to numa'"));
    }

    #[test]
    fn threads_widen_the_binding_to_cores() {
        let threads = |unit, count| {
            let placement = Placement { threads: Some(4), ..Placement::default() };
            let places = placed("perlmutter", &bound(unit, count, placement), 2).unwrap();
            let place = places.of(1).unwrap();
            (place.threads, place.processors.to_string())
        };
        assert_eq!(threads(Unit::Core, 1), (4, "4-7,68-71".to_owned()));
        assert_eq!(threads(Unit::Core, 2), (4, "2-3,66-67".to_owned()));
        assert_eq!(threads(Unit::Numa, 1), (4, "16-31,80-95".to_owned()));
    }

    #[test]
    fn ranks_of_another_job_have_places_of_their_own() {
        let places = placed("perlmutter", &with_gpus(1), 1).unwrap();
        let other = places.of_job(RankCounts { all: 4, local: 4 }).unwrap().places.unwrap();
        assert_eq!(other.ranks.len(), 4);
        assert!(places.of_job(RankCounts { all: 5, local: 5 }).is_err());
        // A host without ranks needs no devices.
        let none = placed("raspberry-pi", &with_gpus(1), 0).unwrap();
        assert!(none.ranks.is_empty() && none.of_job(RankCounts { all: 1, local: 1 }).is_err());
    }

    #[test]
    fn run_without_options_of_devices_and_memory_reads_no_hardware() {
        let plain = bound(
            Unit::Core,
            1,
            Placement { display: Some(Display::Table), ..Placement::default() },
        );
        let described = Placement { topology: Some("x.xml".into()), ..Placement::default() };
        assert!(!needs_hardware(&plain) && !needs_hardware(&described));
        assert!(needs_hardware(&bound(Unit::Core, 1, described)));
        assert!(needs_hardware(&with_gpus(1)));
    }

    #[test]
    fn rules_of_other_launchers_choose_gpus() {
        use LauncherGpus::{Hydra, Intel, Slurm};
        let by = |launcher, per_rank: Option<u32>, unit, ranks| {
            let mut placement = Placement {
                bind_to: BindTo::Units(Units { unit: Unit::Socket, count: 1 }),
                ..Placement::default()
            };
            placement.gpus.bind = GpuBind::Launcher(launcher);
            (placement.gpus.per_rank, placement.gpus.unit) = (per_rank, unit);
            let places = placed("aurora", &placement, ranks).unwrap();
            let gpus = places.ranks.iter().map(|place| place.gpus.clone());
            gpus.collect::<Vec<_>>()
        };
        let (part, device) = (GpuUnit::Part, GpuUnit::Device);
        // Sockets take turns, and have six tiles each.
        let whole: Vec<usize> = (0..6).collect();
        let other: Vec<usize> = (6..12).collect();
        assert_eq!(by(Slurm, None, part, 3), [whole.clone(), other.clone(), whole.clone()]);
        assert_eq!(by(Slurm, Some(1), part, 3), [[0], [7], [2]]);
        assert_eq!(by(Intel, None, part, 2), [whole, other]);
        assert_eq!(by(Intel, None, part, 4), [[0, 1, 2], [6, 7, 8], [3, 4, 5], [9, 10, 11]]);
        assert_eq!(by(Intel, Some(1), device, 2), [[0, 1], [6, 7]]);
        let seven = by(Hydra, Some(1), device, 7);
        assert_eq!((&seven[0], &seven[5], seven[6].len()), (&vec![0, 1], &vec![10, 11], 0));
        assert_eq!(by(Hydra, Some(5), part, 3)[2], [10, 11]);
    }
}
