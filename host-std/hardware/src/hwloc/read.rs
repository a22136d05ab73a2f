//! Reader of the XML.

use super::links::MatrixKind;
use super::{HwlocError, HwlocReason, ObjectLabel, limits};
use crate::device::{
    Device, DeviceKind, DeviceLink, DevicePart, Fabric, GpuMaker, NamedAddress, NetworkAddress,
    OsKind, PartKind, PciAddress, PciFacts,
};
use crate::model::{
    CacheContent, CacheFacts, CoreFacts, Group, GroupKind, Memory, MemoryKind, NodeHardware,
};
use crate::processor_set::ProcessorSet;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

impl NodeHardware {
    /// Reads XML of hwloc 1 or 2, as `lstopo` writes it. Processors that may not be used, as the file says,
    /// are left out.
    ///
    /// # Errors
    ///
    /// [`HwlocError`], with the line and the object, for other text, for more than the [`limits`] allow, and
    /// for objects that contradict each other.
    pub fn of_hwloc(text: &str) -> Result<Self, HwlocError> {
        if text.len() > limits::BYTES_MAX {
            let reason = HwlocReason::TooMany { what: "bytes", most: limits::BYTES_MAX };
            return Err(HwlocError { line: 1, object: ObjectLabel::default(), reason });
        }
        let mut document = Document::default();
        document.read(text).map_err(|fault| {
            let before = text.as_bytes().get(..fault.at).unwrap_or_default();
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            HwlocError { line, object: ObjectLabel(fault.object), reason: fault.reason }
        })
    }
}

/// An error, with the offset of the element in the text.
#[derive(Debug)]
pub(super) struct Fault {
    at: usize,
    object: Option<String>,
    pub(super) reason: HwlocReason,
}

/// What has been read.
#[derive(Default)]
pub(super) struct Document {
    is_version_1: bool,
    is_topology_seen: bool,
    /// Elements that are open, the outermost first.
    open: Vec<Element>,
    pub(super) objects: usize,
    set_members: usize,
    names: usize,
    global_indexes: HashSet<u64>,
    machine: Option<Machine>,
    processors: BTreeSet<u32>,
    memory_numbers: BTreeSet<u32>,
    hardware: NodeHardware,
    /// Kinds of cores, in the order of the file.
    kinds: Vec<CoreKind>,
    /// Addresses of devices on the PCI bus, by the numbers of their objects.
    on_bus: HashMap<u64, PciAddress>,
    matrices: Vec<Matrix>,
}

/// What the machine says of itself.
#[derive(Default)]
struct Machine {
    /// Processors that may be used.
    allowed: Option<ProcessorSet>,
    /// Memory domains that may be used.
    allowed_memories: Option<ProcessorSet>,
    /// Size of its memory, if it lists no domains.
    bytes: Option<u64>,
}

/// A kind of cores.
#[derive(Default)]
struct CoreKind {
    processors: ProcessorSet,
    speed: CoreSpeed,
}

/// What orders kinds of cores, the most certain fact first.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct CoreSpeed {
    efficiency: Option<u64>,
    is_large: bool,
    capacity: Option<u64>,
}

/// Values between devices, with a row and a column for each.
struct Matrix {
    kind: MatrixKind,
    /// Objects by number.
    objects: Vec<u64>,
    values: Vec<u64>,
}

/// An open element.
enum Element {
    Topology,
    Matrix(Matrix),
    /// Numbers of the objects of a matrix, or its values.
    Numbers {
        are_values: bool,
    },
    Object(Box<Object>),
    Kind(CoreKind),
    Other,
}

/// An object that is open.
struct Object {
    at: usize,
    label: String,
    kind: ObjectKind,
    /// Its processors; `None` for devices, and for memory that names none.
    processors: Option<ProcessorSet>,
    /// Processors of the objects inside it that have been read.
    taken: ProcessorSet,
    number: Option<u32>,
    /// Number of the object in the file.
    global_index: Option<u64>,
    bytes: Option<u64>,
    infos: BTreeMap<&'static str, String>,
    /// Devices of the system inside it.
    devices: Vec<OsDevice>,
}

/// What an object is.
enum ObjectKind {
    Machine,
    /// Processors that belong together for no reason of the model.
    Region,
    Group(GroupKind),
    Processor,
    Memory(MemoryKind),
    /// A cache between memory and what it is near.
    MemoryCache,
    Bridge(Option<PciAddress>),
    Pci(PciFacts),
    OsDevice(OsDevice),
    Other,
}

/// A device by the name that the system, or a library, has for it.
#[derive(Clone, Default)]
struct OsDevice {
    kind: Option<OsKind>,
    /// Number of the object in the file.
    global_index: Option<u64>,
    name: String,
    subtype: String,
    uuid: Option<String>,
    address: Option<NetworkAddress>,
    /// The part of a device that it is.
    part: Option<DevicePart>,
    /// Parts inside it.
    parts: Vec<DevicePart>,
}

impl Document {
    pub(super) fn read(&mut self, text: &str) -> Result<NodeHardware, Fault> {
        let mut reader = quick_xml::Reader::from_str(text);
        loop {
            let at = usize::try_from(reader.buffer_position()).unwrap_or(text.len());
            let event = reader.read_event().map_err(|error| syntax(at, &error))?;
            match event {
                Event::Start(tag) => self.open(at, &tag)?,
                Event::Empty(tag) => {
                    self.open(at, &tag)?;
                    self.close()?;
                }
                Event::End(_) => self.close()?,
                Event::GeneralRef(_) => return Err(syntax(at, &"an entity between elements")),
                Event::Eof if !self.open.is_empty() => return Err(syntax(at, &"it ends early")),
                Event::Eof => return self.finish(at),
                Event::Text(text) => self.text(at, &text)?,
                Event::CData(_) | Event::Comment(_) => (),
                Event::Decl(_) | Event::PI(_) | Event::DocType(_) => (),
            }
        }
    }

    fn open(&mut self, at: usize, tag: &BytesStart<'_>) -> Result<(), Fault> {
        if self.open.len() >= limits::DEPTH_MAX {
            let what = "elements inside each other";
            return Err(fault(at, None, too_many(what, limits::DEPTH_MAX)));
        }
        let attributes = Attributes::of(at, tag)?;
        let element = match (tag.name().as_ref(), self.open.last()) {
            ("topology", None) if !self.is_topology_seen => {
                self.is_topology_seen = true;
                self.is_version_1 = match attributes.text("version") {
                    None => true,
                    Some(version) if version.split('.').next() == Some("2") => false,
                    Some(version) => {
                        return Err(fault(at, None, HwlocReason::Version(shown(version))));
                    }
                };
                Element::Topology
            }
            (_, None) => return Err(fault(at, None, HwlocReason::NoTopology)),
            ("object", Some(_)) => Element::Object(Box::new(self.object(at, &attributes)?)),
            ("info", Some(_)) => {
                self.info(&attributes);
                Element::Other
            }
            ("cpukind", Some(Element::Topology)) => {
                if self.kinds.len() >= limits::KINDS_MAX {
                    return Err(fault(at, None, too_many("kinds of cores", limits::KINDS_MAX)));
                }
                let processors = self.set(&attributes, "cpuset")?.unwrap_or_default();
                let efficiency = attributes.number("forced_efficiency");
                let speed = CoreSpeed { efficiency, ..CoreSpeed::default() };
                Element::Kind(CoreKind { processors, speed })
            }
            ("distances2", Some(Element::Topology)) => {
                let kind = attributes.text("name").and_then(MatrixKind::of_name);
                match kind.filter(|_| attributes.text("indexing") == Some("gp")) {
                    Some(kind) => {
                        Element::Matrix(Matrix { kind, objects: Vec::new(), values: Vec::new() })
                    }
                    None => Element::Other,
                }
            }
            ("indexes", Some(Element::Matrix(_))) => Element::Numbers { are_values: false },
            ("u64values", Some(Element::Matrix(_))) => Element::Numbers { are_values: true },
            _ => Element::Other,
        };
        self.open.push(element);
        Ok(())
    }

    /// Reads numbers of a matrix; there is no other text.
    fn text(&mut self, at: usize, text: &str) -> Result<(), Fault> {
        let [.., Element::Matrix(matrix), Element::Numbers { are_values }] = &mut self.open[..]
        else {
            return Ok(());
        };
        let (numbers, most) = match are_values {
            true => (&mut matrix.values, limits::LINKED_MAX * limits::LINKED_MAX),
            false => (&mut matrix.objects, limits::LINKED_MAX),
        };
        for word in text.split_ascii_whitespace() {
            if numbers.len() >= most {
                let what = "devices in a matrix of links";
                return Err(fault(at, None, too_many(what, limits::LINKED_MAX)));
            }
            let number = word.parse().map_err(|_| syntax(at, &"a matrix has another text"))?;
            numbers.push(number);
        }
        Ok(())
    }

    /// Reads the attributes of an object, and checks it against the objects around it.
    fn object(&mut self, at: usize, attributes: &Attributes<'_>) -> Result<Object, Fault> {
        self.objects += 1;
        if self.objects > limits::OBJECTS_MAX {
            return Err(fault(at, None, too_many("objects", limits::OBJECTS_MAX)));
        }
        let label = attributes.label();
        let wrong = |reason| fault(at, Some(&label), reason);
        let kind = attributes.kind(&label)?;
        if let Some(index) = attributes.number("gp_index")
            && !self.global_indexes.insert(index)
        {
            return Err(wrong(HwlocReason::Twice("gp_index")));
        }
        let is_processors = matches!(
            kind,
            ObjectKind::Machine | ObjectKind::Region | ObjectKind::Group(_) | ObjectKind::Processor
        );
        let is_memory = matches!(kind, ObjectKind::Memory(_));
        let processors = match is_processors || is_memory {
            true => self.set(attributes, "cpuset")?,
            false => None,
        };
        if matches!(kind, ObjectKind::Machine) {
            self.machine(attributes)?;
        }
        let number = attributes.number("os_index").and_then(|number| u32::try_from(number).ok());
        let is_in_tree = is_processors || is_memory && self.is_version_1;
        self.check_place(&kind, &label, is_in_tree).map_err(wrong)?;
        if is_in_tree && processors.is_none() && !label.starts_with("System") {
            return Err(wrong(HwlocReason::Attribute("cpuset")));
        }
        if let Some(processors) = &processors {
            self.check_processors(processors, is_in_tree).map_err(wrong)?;
        }
        if let ObjectKind::Processor = kind {
            let own = number.filter(|number| {
                let one = processors.as_ref().filter(|set| set.len() == 1);
                one.is_some_and(|set| set.contains(number))
            });
            let own = own.ok_or_else(|| wrong(HwlocReason::Attribute("os_index")))?;
            if !self.processors.insert(own) {
                return Err(wrong(HwlocReason::Twice("number")));
            }
        }
        Ok(Object {
            at,
            kind,
            processors,
            taken: ProcessorSet::default(),
            number,
            global_index: attributes.number("gp_index"),
            bytes: attributes.number("local_memory"),
            infos: BTreeMap::new(),
            devices: Vec::new(),
            label,
        })
    }

    fn machine(&mut self, attributes: &Attributes<'_>) -> Result<(), Fault> {
        if self.machine.is_some() {
            let label = attributes.label();
            return Err(fault(attributes.at, Some(&label), HwlocReason::Twice("type")));
        }
        let mut allowed = self.set(attributes, "allowed_cpuset")?;
        if let Some(online) = self.set(attributes, "online_cpuset")? {
            allowed = Some(allowed.map_or(online.clone(), |allowed| allowed.and(&online)));
        }
        let allowed_memories = self.set(attributes, "allowed_nodeset")?;
        let bytes = attributes.number("local_memory");
        self.machine = Some(Machine { allowed, allowed_memories, bytes });
        Ok(())
    }

    fn check_place(
        &self,
        kind: &ObjectKind,
        label: &str,
        is_in_tree: bool,
    ) -> Result<(), HwlocReason> {
        let misplaced = |place: &str| Err(HwlocReason::Place(place.into()));
        let outer = match self.open.last() {
            Some(Element::Object(outer)) => outer,
            Some(Element::Topology) if matches!(kind, ObjectKind::Machine) => return Ok(()),
            // hwloc 1 has a root above several machines, of which one can be read.
            Some(Element::Topology) if label.starts_with("System") => return Ok(()),
            Some(Element::Topology) => return misplaced("the topology itself"),
            _ => return misplaced("another element"),
        };
        let is_fitting = match (kind, &outer.kind) {
            (ObjectKind::Memory(_) | ObjectKind::MemoryCache, ObjectKind::MemoryCache) => true,
            (ObjectKind::Machine, _) => outer.label.starts_with("System"),
            (ObjectKind::Other, _) => true,
            (_, ObjectKind::Machine | ObjectKind::Region | ObjectKind::Group(_)) => true,
            (_, ObjectKind::Processor) => !is_in_tree && !matches!(kind, ObjectKind::Memory(_)),
            (_, ObjectKind::Memory(_)) => !is_in_tree || self.is_version_1,
            (ObjectKind::Bridge(_) | ObjectKind::Pci(_), ObjectKind::Bridge(_)) => true,
            (ObjectKind::OsDevice(_), ObjectKind::Bridge(_) | ObjectKind::Pci(_)) => true,
            (ObjectKind::OsDevice(_), ObjectKind::OsDevice(_)) => true,
            _ => false,
        };
        if is_fitting { Ok(()) } else { misplaced(&outer.label) }
    }

    /// Checks processors of an object against those of the object around it and of its siblings.
    fn check_processors(
        &mut self,
        processors: &ProcessorSet,
        is_in_tree: bool,
    ) -> Result<(), HwlocReason> {
        let mut outer = self.open.iter_mut().rev().filter_map(Element::as_object);
        let Some(outer) = outer.find(|outer| outer.processors.is_some()) else {
            return Ok(());
        };
        if let Some(around) = &outer.processors {
            let beyond = processors.without(around);
            if !beyond.is_empty() {
                return Err(HwlocReason::Beyond(shown(&beyond.to_string())));
            }
        }
        if is_in_tree {
            let shared = processors.and(&outer.taken);
            if !shared.is_empty() {
                return Err(HwlocReason::Shared(shown(&shared.to_string())));
            }
            outer.taken.extend(processors);
        }
        Ok(())
    }

    /// Reads a set of processors within the bound of all sets together.
    fn set(
        &mut self,
        attributes: &Attributes<'_>,
        name: &'static str,
    ) -> Result<Option<ProcessorSet>, Fault> {
        let Some(text) = attributes.text(name) else { return Ok(None) };
        let unreadable =
            |_| fault(attributes.at, Some(&attributes.label()), HwlocReason::Attribute(name));
        let set = ProcessorSet::of_mask(text).map_err(unreadable)?;
        self.charge(&set, attributes.at)?;
        Ok(Some(set))
    }

    /// Counts the members of a set that is kept.
    fn charge(&mut self, set: &ProcessorSet, at: usize) -> Result<(), Fault> {
        self.set_members += set.len();
        match self.set_members > limits::SET_MEMBERS_MAX {
            true => {
                let what = "processors in all sets together";
                Err(fault(at, None, too_many(what, limits::SET_MEMBERS_MAX)))
            }
            false => Ok(()),
        }
    }

    fn info(&mut self, attributes: &Attributes<'_>) {
        let (Some(name), Some(value)) = (attributes.text("name"), attributes.text("value")) else {
            return;
        };
        match self.open.last_mut() {
            Some(Element::Object(object)) => {
                if let Some(name) = INFOS.iter().find(|known| **known == name) {
                    object.infos.entry(name).or_insert_with(|| value.to_owned());
                }
            }
            Some(Element::Kind(kind)) => match name {
                "CoreType" => kind.speed.is_large = value == "IntelCore",
                "LinuxCapacity" => kind.speed.capacity = value.parse().ok(),
                _ => (),
            },
            _ => (),
        }
    }

    fn close(&mut self) -> Result<(), Fault> {
        match self.open.pop() {
            Some(Element::Object(object)) => self.close_object(*object),
            Some(Element::Kind(kind)) => {
                self.kinds.push(kind);
                Ok(())
            }
            Some(Element::Matrix(matrix)) => {
                // Each kind has one.
                if !self.matrices.iter().any(|other| other.kind == matrix.kind) {
                    self.matrices.push(matrix);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn close_object(&mut self, object: Object) -> Result<(), Fault> {
        let (uuid, address) = (object.uuid(), object.address());
        match object.kind {
            ObjectKind::Machine => {
                let mut names = MACHINE_NAMES.iter().filter_map(|name| object.infos.get(name));
                self.hardware.name = names.next().map(|name| plain(name));
            }
            ObjectKind::Group(mut kind) => {
                if let (GroupKind::Core(facts), Some(own)) =
                    (&mut kind, object.infos.get("Efficiency"))
                {
                    facts.efficiency = own.parse().unwrap_or_default();
                }
                if let Some(processors) = object.processors.filter(|set| !set.is_empty()) {
                    self.hardware.groups.push(Group { kind, number: object.number, processors });
                }
            }
            ObjectKind::Region => {
                let die = object.infos.get("Die").and_then(|number| number.parse().ok());
                if let (Some(number), Some(processors)) = (die, object.processors) {
                    let (kind, number) = (GroupKind::Die, Some(number));
                    self.hardware.groups.push(Group { kind, number, processors });
                }
            }
            ObjectKind::Memory(kind) => {
                let wrong = |reason| fault(object.at, Some(&object.label), reason);
                let number = object.number.filter(|number| *number < ProcessorSet::NUMBER_MAX);
                let number = number.ok_or_else(|| wrong(HwlocReason::Attribute("os_index")))?;
                if self.memory_numbers.len() >= limits::MEMORIES_MAX {
                    return Err(wrong(too_many("memory domains", limits::MEMORIES_MAX)));
                }
                if !self.memory_numbers.insert(number) {
                    return Err(wrong(HwlocReason::Twice("number")));
                }
                let kind = match object.infos.get("Type") {
                    Some(of_version_1) => memory_kind(of_version_1),
                    None => kind,
                };
                let near = match object.processors.filter(|set| !set.is_empty()) {
                    Some(near) => near,
                    None => self.processors_around(object.at)?,
                };
                let memory = Memory { number, near, bytes: object.bytes, kind };
                self.hardware.memories.push(memory);
            }
            ObjectKind::OsDevice(mut device) => {
                self.names += 1;
                if self.names > limits::NAMES_MAX {
                    let reason = too_many("names of devices", limits::NAMES_MAX);
                    return Err(fault(object.at, Some(&object.label), reason));
                }
                device.uuid = uuid;
                device.address = address;
                device.global_index = object.global_index;
                if let Some(of_version_1) = object.infos.get("Type") {
                    device.subtype.clone_from(of_version_1);
                }
                let tile = object.infos.get("LevelZeroSubdeviceID").and_then(|id| id.parse().ok());
                device.part = device.part_of_subtype().or_else(|| {
                    tile.map(|number| DevicePart { number, kind: PartKind::Tile, uuid: None })
                });
                for inner in object.devices {
                    device.parts.extend(inner.part);
                }
                let is_printable = |text: &str| {
                    text.len() <= limits::NAME_BYTES_MAX
                        && text.bytes().all(|b| b.is_ascii_graphic())
                };
                if !is_printable(&device.name) || !device.numbers().all(is_printable) {
                    let reason = HwlocReason::Attribute("name");
                    return Err(fault(object.at, Some(&object.label), reason));
                }
                let mut around = self.open.iter_mut().rev().filter_map(Element::as_object);
                let is_owner = |outer: &&mut Object| {
                    matches!(outer.kind, ObjectKind::Pci(_) | ObjectKind::OsDevice(_))
                };
                match around.find(is_owner) {
                    Some(owner) => owner.devices.push(device),
                    None => self.device(object.at, None, None, vec![device])?,
                }
            }
            ObjectKind::Pci(facts) => {
                let names = object.devices.iter().map(|device| device.global_index);
                let objects = names.chain([object.global_index]).flatten();
                self.on_bus.extend(objects.map(|number| (number, facts.address)));
                self.device(object.at, Some(facts), uuid, object.devices)?;
            }
            ObjectKind::Processor => (),
            ObjectKind::MemoryCache | ObjectKind::Bridge(_) | ObjectKind::Other => (),
        }
        Ok(())
    }

    /// Adds a device, if it is of a kind that matters.
    fn device(
        &mut self,
        at: usize,
        pci: Option<PciFacts>,
        uuid: Option<String>,
        mut devices: Vec<OsDevice>,
    ) -> Result<(), Fault> {
        devices.sort_by_key(OsDevice::rank);
        let whole = || devices.iter().filter(|device| device.part.is_none());
        let uuid = uuid.or_else(|| whole().find_map(|device| device.uuid.clone()));
        let parts: Vec<DevicePart> = devices
            .iter()
            .flat_map(|device| device.part.iter().chain(&device.parts))
            .cloned()
            .collect();
        let names: Vec<String> = whole().map(|device| device.name.clone()).collect();
        let addresses = whole().filter_map(|device| {
            let address = device.address.clone()?;
            Some(NamedAddress { name: device.name.clone(), address })
        });
        let addresses = addresses.collect();
        let kind = match &pci {
            Some(facts) => DeviceKind::of_pci(facts, &names),
            None => devices.first().and_then(OsDevice::kind_alone),
        };
        let Some(kind) = kind else { return Ok(()) };
        if self.hardware.devices.len() >= limits::DEVICES_MAX {
            return Err(fault(at, None, too_many("devices", limits::DEVICES_MAX)));
        }
        let bridges = self.open.iter().filter_map(|element| match element {
            Element::Object(outer) => match outer.kind {
                ObjectKind::Bridge(address) => address,
                _ => None,
            },
            _ => None,
        });
        let bridges = bridges.collect();
        let near = self.processors_around(at)?;
        self.hardware.devices.push(Device {
            kind,
            names,
            uuid,
            pci: pci.map(|facts| PciFacts { bridges, ..facts }),
            near,
            memory: None,
            addresses,
            parts,
        });
        Ok(())
    }

    /// Processors of the innermost open object that has any.
    fn processors_around(&mut self, at: usize) -> Result<ProcessorSet, Fault> {
        let mut around = self.open.iter().rev().filter_map(|element| match element {
            Element::Object(object) => object.processors.as_ref().filter(|set| !set.is_empty()),
            _ => None,
        });
        let near = around.next().cloned().unwrap_or_default();
        self.charge(&near, at)?;
        Ok(near)
    }

    fn finish(&mut self, at: usize) -> Result<NodeHardware, Fault> {
        if !self.is_topology_seen {
            return Err(fault(at, None, HwlocReason::NoTopology));
        }
        let machine = self.machine.take().unwrap_or_default();
        let mut hardware = std::mem::take(&mut self.hardware);
        hardware.processors = std::mem::take(&mut self.processors).into_iter().collect();
        let near = hardware.processors.clone();
        if hardware.memories.is_empty() {
            let kind = MemoryKind::Main;
            hardware.memories.push(Memory { number: 0, near, bytes: machine.bytes, kind });
        }
        if let Some(allowed) = machine.allowed_memories.filter(|set| !set.is_empty()) {
            hardware.memories.retain(|memory| allowed.contains(&memory.number));
        }
        self.set_efficiencies(&mut hardware);
        hardware.links = self.links();
        let processors = hardware.processors.clone();
        let allowed = machine.allowed.map_or(processors.clone(), |set| set.and(&processors));
        let hardware = hardware.restricted(&allowed).in_order();
        match hardware.processors.is_empty() {
            true => Err(fault(at, None, HwlocReason::NoProcessors)),
            false => Ok(hardware),
        }
    }

    /// Links by the matrices.
    fn links(&self) -> Vec<DeviceLink> {
        let mut links = Vec::new();
        for Matrix { kind, objects, values } in &self.matrices {
            for (row, one) in values.chunks(objects.len().max(1)).zip(objects) {
                for (value, other) in row.iter().zip(objects) {
                    let ends = [one, other].map(|object| self.on_bus.get(object).copied());
                    let [Some(one), Some(other)] = ends else { continue };
                    let link = kind.link(*value).filter(|_| one < other);
                    links.extend(link.map(|kind| DeviceLink::new(one, other, kind)));
                }
            }
        }
        links
    }

    fn set_efficiencies(&self, hardware: &mut NodeHardware) {
        let speeds: BTreeSet<CoreSpeed> = self.kinds.iter().map(|kind| kind.speed).collect();
        for group in &mut hardware.groups {
            let GroupKind::Core(facts) = &mut group.kind else { continue };
            let first = group.processors.first();
            let kind = first
                .and_then(|first| self.kinds.iter().find(|kind| kind.processors.contains(first)));
            if let Some(kind) = kind {
                let slower = speeds.range(..kind.speed).count();
                *facts = CoreFacts { efficiency: u8::try_from(slower).unwrap_or(u8::MAX) };
            }
        }
    }
}

impl Element {
    fn as_object(&mut self) -> Option<&mut Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }
}

impl Object {
    /// UUID of a device. hwloc has the number alone of a GPU of AMD, whose libraries expect a prefix.
    fn uuid(&self) -> Option<String> {
        let uuid = UUIDS.iter().find_map(|name| self.infos.get(name))?;
        let is_number = uuid.len() == 16 && uuid.bytes().all(|digit| digit.is_ascii_hexdigit());
        Some(if is_number { format!("GPU-{uuid}") } else { uuid.clone() })
    }

    /// Address of a network card.
    fn address(&self) -> Option<NetworkAddress> {
        let info = |name| self.infos.get(name).cloned();
        let guids = || {
            let (node, system) = info("NodeGUID").zip(info("SysImageGUID"))?;
            Some(NetworkAddress::Guids { node, system })
        };
        info("Address").map(NetworkAddress::Link).or_else(guids)
    }
}

impl OsDevice {
    /// Place among the names of a device: the one by which verbs know a card is the most telling.
    fn rank(&self) -> bool {
        self.kind != Some(OsKind::Verbs)
    }

    /// Kind of a device without a place on the PCI bus.
    fn kind_alone(&self) -> Option<DeviceKind> {
        match self.kind? {
            OsKind::Block => Some(DeviceKind::Storage),
            OsKind::Link | OsKind::Verbs => {
                Some(DeviceKind::Network(Fabric::of_names([self.name.as_str()])))
            }
            OsKind::Gpu | OsKind::Coprocessor => {
                let maker = match self.subtype.as_str() {
                    "CUDA" | "NVML" => GpuMaker::Nvidia,
                    "RSMI" => GpuMaker::Amd,
                    "LevelZero" => GpuMaker::Intel,
                    _ => GpuMaker::Other,
                };
                Some(DeviceKind::Gpu(maker))
            }
        }
    }

    fn part_of_subtype(&self) -> Option<DevicePart> {
        let (_, kind) = *PARTS.iter().find(|(subtype, _)| *subtype == self.subtype)?;
        let (_, number) = self.name.rsplit_once('.')?;
        Some(DevicePart { number: number.parse().ok()?, kind, uuid: self.uuid.clone() })
    }

    /// UUID and addresses.
    fn numbers(&self) -> impl Iterator<Item = &str> {
        let addresses = self.address.iter().flat_map(NetworkAddress::texts);
        self.uuid.iter().map(String::as_str).chain(addresses)
    }
}

/// Attributes of an element.
struct Attributes<'a> {
    at: usize,
    list: Vec<(String, Cow<'a, str>)>,
}

impl<'a> Attributes<'a> {
    fn of(at: usize, tag: &'a BytesStart<'_>) -> Result<Self, Fault> {
        let mut list = Vec::new();
        let mut attributes = tag.attributes();
        // The parser's own check compares each one with all before it.
        for attribute in attributes.with_checks(false) {
            let attribute = attribute.map_err(|error| syntax(at, &error))?;
            if list.len() >= limits::ATTRIBUTES_MAX {
                let what = "attributes of an element";
                return Err(fault(at, None, too_many(what, limits::ATTRIBUTES_MAX)));
            }
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|error| syntax(at, &error))?;
            list.push((attribute.key.as_ref().to_owned(), value));
        }
        Ok(Self { at, list })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.list.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_ref())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    fn label(&self) -> String {
        let names = ["os_index", "pci_busid", "name", "gp_index"];
        let name = names.iter().find_map(|name| self.text(name)).unwrap_or_default();
        let class = self.text("type").unwrap_or("object");
        shown(format!("{class} {name}").trim())
    }

    fn kind(&self, label: &str) -> Result<ObjectKind, Fault> {
        let missing = |name| fault(self.at, Some(label), HwlocReason::Attribute(name));
        let kind = match self.text("type").ok_or_else(|| missing("type"))? {
            "Machine" => ObjectKind::Machine,
            "Package" | "Socket" => ObjectKind::Group(GroupKind::Package),
            "Die" => ObjectKind::Group(GroupKind::Die),
            "Core" => ObjectKind::Group(GroupKind::Core(CoreFacts::default())),
            "Cache" | "L1Cache" | "L2Cache" | "L3Cache" | "L4Cache" | "L5Cache" | "L1iCache"
            | "L2iCache" | "L3iCache" => {
                let cache = self.cache().ok_or_else(|| missing("depth"))?;
                ObjectKind::Group(GroupKind::Cache(cache))
            }
            "PU" => ObjectKind::Processor,
            "NUMANode" | "Node" => {
                let subtype = self.text("subtype").unwrap_or_default();
                ObjectKind::Memory(memory_kind(subtype))
            }
            "Group" | "System" => ObjectKind::Region,
            "MemCache" => ObjectKind::MemoryCache,
            "Bridge" => {
                let address = self.text("pci_busid").map(str::parse::<PciAddress>).transpose();
                ObjectKind::Bridge(address.map_err(|_| missing("pci_busid"))?)
            }
            "PCIDev" => ObjectKind::Pci(self.pci().map_err(missing)?),
            "OSDev" => ObjectKind::OsDevice(OsDevice {
                kind: OsKind::of_number(
                    self.number("osdev_type").ok_or_else(|| missing("osdev_type"))?,
                ),
                name: self.text("name").unwrap_or_default().to_owned(),
                subtype: self.text("subtype").unwrap_or_default().to_owned(),
                ..OsDevice::default()
            }),
            _ => ObjectKind::Other,
        };
        Ok(kind)
    }

    fn cache(&self) -> Option<CacheFacts> {
        let level = self.number("depth").and_then(|depth| u8::try_from(depth).ok());
        let content = match self.number("cache_type")? {
            0 => CacheContent::Unified,
            1 => CacheContent::Data,
            2 => CacheContent::Instructions,
            _ => return None,
        };
        // hwloc writes -1 for a cache whose every line may hold anything.
        let count = |name| self.number(name).and_then(|count| u32::try_from(count).ok());
        Some(CacheFacts {
            level: level.filter(|level| (1..=5).contains(level))?,
            content,
            bytes: self.number("cache_size").unwrap_or_default(),
            line_bytes: count("cache_linesize").unwrap_or_default(),
            ways: count("cache_associativity").unwrap_or_default(),
        })
    }

    fn pci(&self) -> Result<PciFacts, &'static str> {
        let address = self.text("pci_busid").and_then(|text| text.parse().ok());
        let of_type = || {
            // As `0302 [10de:1eb8] [10de:12a2] a1`.
            let mut words = self.text("pci_type")?.split_whitespace();
            let class = words.next()?;
            let (vendor, device) =
                words.next()?.strip_prefix('[')?.strip_suffix(']')?.split_once(':')?;
            let [class, vendor, device] =
                [class, vendor, device].map(|digits| u16::from_str_radix(digits, 16).ok());
            Some((class?, vendor?, device?))
        };
        let address = address.ok_or("pci_busid")?;
        let (class, vendor, device) = of_type().ok_or("pci_type")?;
        Ok(PciFacts { address, class, vendor, device, bridges: Vec::new() })
    }
}

fn memory_kind(subtype: &str) -> MemoryKind {
    match subtype {
        "HBM" | "MCDRAM" => MemoryKind::HighBandwidth,
        "GPUMemory" => MemoryKind::OfGpu,
        "NVM" => MemoryKind::Far,
        cxl if cxl.starts_with("CXL") => MemoryKind::Far,
        _ => MemoryKind::Main,
    }
}

fn fault(at: usize, object: Option<&str>, reason: HwlocReason) -> Fault {
    Fault { at, object: object.map(str::to_owned), reason }
}

fn syntax(at: usize, error: &dyn std::fmt::Display) -> Fault {
    fault(at, None, HwlocReason::Syntax(shown(&error.to_string())))
}

const fn too_many(what: &'static str, most: usize) -> HwlocReason {
    HwlocReason::TooMany { what, most }
}

/// Text of the file for a message: printable and short.
fn shown(text: &str) -> String {
    let mut shown = plain(text);
    if let Some((at, _)) = shown.char_indices().nth(SHOWN_CHARS) {
        shown.truncate(at);
        shown.push('…');
    }
    shown
}

/// Text of the file without characters that move the cursor of a terminal.
fn plain(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(NAME_CHARS).collect()
}

/// Parts of devices, which hwloc does not list but for tiles: they are devices inside the device, named
/// `PART.NUMBER`, of these subtypes.
pub(super) const PARTS: [(&str, PartKind); 3] =
    [("MIG", PartKind::Mig), ("Tile", PartKind::Tile), ("Partition", PartKind::Partition)];

const MACHINE_NAMES: [&str; 3] = ["DMIProductName", "PlatformModel", "HostName"];
const UUIDS: [&str; 4] = ["NVIDIAUUID", "AMDUUID", "LevelZeroUUID", "UUID"];
const INFOS: [&str; 14] = [
    "DMIProductName",
    "PlatformModel",
    "HostName",
    "NVIDIAUUID",
    "AMDUUID",
    "LevelZeroUUID",
    "UUID",
    "LevelZeroSubdeviceID",
    "Type",
    "Efficiency",
    "Die",
    "Address",
    "NodeGUID",
    "SysImageGUID",
];
const SHOWN_CHARS: usize = 80;
const NAME_CHARS: usize = 256;
