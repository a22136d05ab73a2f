//! The picture: a panel for each host, in it a box for each memory domain with its cores and the devices near
//! it.

use super::{PlacedRank, gpu_name};
use crate::device::{Device, DeviceKind};
use crate::memory_first::RankPlace;
use crate::model::{Memory, MemoryKind, NodeHardware};
use crate::processor_set::ProcessorSet;
use pmi_host_base::ranges::ranges;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A picture of ranks in SVG, for light and dark pages and without references to other files. Hosts with the
/// same hardware and the same places are drawn once, and of hosts that differ the first 8; of a host, the
/// first 1024 cores.
pub fn svg(ranks: &[PlacedRank<'_>]) -> String {
    let panels = panels(ranks);
    let columns = panels.iter().map(|panel| panel.domains().len().min(COLUMNS)).max().unwrap_or(1);
    let mut picture = Picture { body: String::new(), bottom: MARGIN, columns: columns.max(1) };
    for panel in panels.iter().take(PANELS_MAX) {
        picture.panel(panel);
    }
    if let Some(others) = panels.get(PANELS_MAX..).filter(|others| !others.is_empty()) {
        let hosts = others.iter().map(|panel| panel.hosts.len()).sum::<usize>();
        picture.line("about", &format!("{} more, with other places", counted(hosts, "host")));
    }
    picture.finished(ranks.len())
}

/// Hosts whose ranks have the same places.
struct Panel<'a> {
    hosts: Vec<&'a str>,
    hardware: &'a NodeHardware,
    /// Ranks of the first host.
    ranks: Vec<&'a PlacedRank<'a>>,
}

fn panels<'a>(ranks: &'a [PlacedRank<'a>]) -> Vec<Panel<'a>> {
    let mut by_host: Vec<Panel<'a>> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for rank in ranks {
        let at = *places.entry(rank.host).or_insert_with(|| {
            let hosts = vec![rank.host];
            by_host.push(Panel { hosts, hardware: rank.hardware, ranks: Vec::new() });
            by_host.len() - 1
        });
        by_host[at].ranks.push(rank);
    }
    let mut all: Vec<Panel<'a>> = Vec::new();
    for panel in by_host {
        match all.iter_mut().find(|other| other.is_like(&panel)) {
            Some(other) => other.hosts.extend(panel.hosts),
            None => all.push(panel),
        }
    }
    all
}

/// A memory domain with processors, and what is near it.
#[derive(Default)]
struct Domain<'a> {
    memories: Vec<&'a Memory>,
    processors: ProcessorSet,
    devices: Vec<&'a Device>,
}

impl<'a> Panel<'a> {
    fn is_like(&self, other: &Self) -> bool {
        let places = |panel: &Self| panel.ranks.len();
        let is_same =
            |(one, another): (&&PlacedRank<'_>, &&PlacedRank<'_>)| one.place == another.place;
        places(self) == places(other)
            && self.ranks.iter().zip(&other.ranks).all(is_same)
            && (std::ptr::eq(self.hardware, other.hardware) || self.hardware == other.hardware)
    }

    /// The domains in the order of their numbers, and last what is near none of them.
    fn domains(&self) -> Vec<Domain<'a>> {
        let hardware = self.hardware;
        let main = hardware.memories.iter().filter(|one| one.kind == MemoryKind::Main);
        let domains = main.map(|memory| {
            let processors = hardware.own_processors(memory).and(&hardware.processors);
            Domain { memories: vec![memory], processors, devices: Vec::new() }
        });
        let mut domains: Vec<Domain<'a>> =
            domains.filter(|domain| !domain.processors.is_empty()).collect();
        let mut rest = Domain { processors: hardware.processors.clone(), ..Domain::default() };
        for domain in &domains {
            rest.processors = rest.processors.without(&domain.processors);
        }
        let is_drawn = |memory: &Memory| {
            domains.iter().any(|domain| domain.memories[0].number == memory.number)
        };
        let others: Vec<&Memory> =
            hardware.memories.iter().filter(|memory| !is_drawn(memory)).collect();
        for memory in others {
            let mut near = domains.iter_mut().filter(|one| one.processors.meets(&memory.near));
            match (near.next(), near.next()) {
                (Some(domain), None) => domain.memories.push(memory),
                _ => rest.memories.push(memory),
            }
        }
        for device in hardware.devices.iter().filter(|one| one.kind != DeviceKind::Storage) {
            let is_near = |domain: &&mut Domain<'_>| {
                device.memory.is_some()
                    && device.memory == domain.memories.first().map(|one| one.number)
            };
            match domains.iter_mut().find(is_near) {
                Some(domain) => domain.devices.push(device),
                None => rest.devices.push(device),
            }
        }
        let is_empty =
            rest.processors.is_empty() && rest.memories.is_empty() && rest.devices.is_empty();
        if !is_empty {
            domains.push(rest);
        }
        domains
    }

    /// Ranks whose place has something, as `0-3`.
    fn ranks_with(&self, has: impl Fn(&RankPlace) -> bool) -> Vec<u32> {
        self.ranks.iter().filter(|rank| has(&rank.place)).map(|rank| rank.rank).collect()
    }

    /// Ranks by processors.
    fn users(&self) -> BTreeMap<u32, Users> {
        let mut all: BTreeMap<u32, Users> = BTreeMap::new();
        for (at, rank) in self.ranks.iter().enumerate() {
            for processor in rank.place.processors.iter() {
                let users = Users { rank: rank.rank, colour: at % COLOURS, others: 0 };
                all.entry(*processor).and_modify(|users| users.others += 1).or_insert(users);
            }
        }
        all
    }
}

/// What is drawn of a panel.
struct PanelView<'a> {
    panel: &'a Panel<'a>,
    cores: &'a [ProcessorSet],
    users: BTreeMap<u32, Users>,
}

/// Ranks of a processor.
struct Users {
    /// The first one.
    rank: u32,
    colour: usize,
    /// Number of the others.
    others: usize,
}

struct Picture {
    body: String,
    bottom: usize,
    columns: usize,
}

impl Picture {
    fn panel(&mut self, panel: &Panel<'_>) {
        let name = panel.hardware.name.as_deref();
        let more = panel.hosts.len() - 1;
        let host = panel.hosts.first().copied().unwrap_or_default();
        let host = match more {
            0 => host.to_owned(),
            _ => format!("{host}, and {} more with the same places", counted(more, "host")),
        };
        self.line("host", &name.map_or_else(|| host.clone(), |name| format!("{host} · {name}")));
        let unbound = panel.ranks_with(|place| place.processors.is_empty());
        if !unbound.is_empty() {
            self.line("about", &format!("not bound to processors: {}", named(&unbound)));
        }
        let cores = panel.hardware.cores();
        if cores.len() > CORES_MAX {
            self.line("about", &format!("the first {CORES_MAX} of {} cores", cores.len()));
        }
        let cores = &cores[..cores.len().min(CORES_MAX)];
        let view = PanelView { panel, cores, users: panel.users() };
        for domains in panel.domains().chunks(self.columns) {
            let top = self.bottom;
            for (column, domain) in domains.iter().enumerate() {
                let left = MARGIN + column * (BOX_WIDTH + GAP);
                let bottom = self.domain(&view, domain, Corner { left, top });
                self.bottom = self.bottom.max(bottom + GAP);
            }
        }
    }

    /// Draws a domain, and returns its lower end.
    fn domain(&mut self, view: &PanelView<'_>, domain: &Domain<'_>, corner: Corner) -> usize {
        let Corner { left, top } = corner;
        let frame = self.body.len();
        let mut y = top + PADDING;
        if domain.memories.is_empty() {
            y += LINE;
            self.text(
                "name",
                Corner { left: left + PADDING, top: y - BASE },
                "near no memory domain",
            );
        }
        for memory in &domain.memories {
            let ranks = view.panel.ranks_with(|place| place.memories.contains(&memory.number));
            let ranks =
                if ranks.is_empty() { String::new() } else { format!(" · {}", named(&ranks)) };
            let size = memory.bytes.map(|bytes| format!(" · {}", size(bytes))).unwrap_or_default();
            let text = format!("NUMA {}{}{size}{ranks}", memory.number, kind(memory.kind));
            y += LINE;
            self.text("name", Corner { left: left + PADDING, top: y - BASE }, &shortened(&text));
        }
        let corner = Corner { left: left + PADDING, top: y + 4 };
        let below_cores = self.cores(view, domain, corner);
        let below_devices =
            self.devices(view.panel, domain, Corner { left: left + DEVICES_LEFT, ..corner });
        let bottom = below_cores.max(below_devices) + PADDING;
        let size = Size { width: BOX_WIDTH, height: bottom - top };
        let rect = rectangle("box", Corner { left, top }, size) + "\n";
        self.body.insert_str(frame, &rect);
        bottom
    }

    fn cores(&mut self, view: &PanelView<'_>, domain: &Domain<'_>, corner: Corner) -> usize {
        let own = view.cores.iter().enumerate().filter(|(_, core)| core.meets(&domain.processors));
        let own: Vec<(usize, &ProcessorSet)> = own.collect();
        let threads = own.iter().map(|(_, core)| core.len()).max().unwrap_or(0);
        let row_height = threads * THREAD_HEIGHT + 6;
        for (place, (number, core)) in own.iter().enumerate() {
            let left = corner.left + place % CORES_IN_ROW * CORE_PITCH;
            let top = corner.top + place / CORES_IN_ROW * row_height;
            let _ = write!(self.body, "<g><title>core {number}, processors {core}</title>");
            for (thread, processor) in core.iter().enumerate() {
                self.thread(
                    view.users.get(processor),
                    Corner { left, top: top + thread * THREAD_HEIGHT },
                );
            }
            self.body.push_str("</g>\n");
        }
        corner.top + own.len().div_ceil(CORES_IN_ROW) * row_height
    }

    fn thread(&mut self, users: Option<&Users>, corner: Corner) {
        let Corner { left, top } = corner;
        let class = users.map_or_else(|| "idle".to_owned(), |users| format!("r{}", users.colour));
        let size = Size { width: CORE_PITCH - 2, height: THREAD_HEIGHT - 1 };
        self.body.push_str(&rectangle(&class, corner, size));
        if let Some(users) = users {
            let more = if users.others > 0 { "+" } else { "" };
            let (x, y) = (left + size.width / 2, top + size.height - 3);
            let _ = write!(
                self.body,
                "<text class=\"rank\" x=\"{x}\" y=\"{y}\">{}{more}</text>",
                users.rank
            );
        }
    }

    /// GPUs, or their parts, and network cards, each with its ranks.
    fn devices(&mut self, panel: &Panel<'_>, domain: &Domain<'_>, corner: Corner) -> usize {
        let is_near =
            |device: &Device| domain.devices.iter().any(|near| std::ptr::eq(*near, device));
        let gpus = panel.hardware.usable_gpus();
        let gpus =
            gpus.iter().enumerate().filter(|(_, gpu)| is_near(gpu.device)).map(|(at, gpu)| {
                let users = panel.ranks_with(|place| place.gpus.contains(&at));
                (format!("GPU {at} {}", gpu_name(gpu)), users)
            });
        let nics = panel.hardware.nics();
        let nics = nics
            .iter()
            .enumerate()
            .filter(|(_, nic)| is_near(nic))
            .map(|(at, nic)| (nic.name(), panel.ranks_with(|place| place.nics.contains(&at))));
        let all: Vec<(String, Vec<u32>)> = gpus.chain(nics).collect();
        let mut top = corner.top;
        for (name, users) in &all {
            let first = panel.ranks.iter().position(|rank| users.first() == Some(&rank.rank));
            let class = first.map_or_else(|| "idle".to_owned(), |at| format!("r{}", at % COLOURS));
            let size = Size { width: CHIP_WIDTH, height: CHIP_PITCH - 3 };
            self.body.push_str(&rectangle(&class, Corner { top, ..corner }, size));
            let ranks =
                if users.is_empty() { String::new() } else { format!(" · {}", named(users)) };
            let text = Corner { left: corner.left + 5, top: top + size.height - 4 };
            self.text("device", text, &shortened(&format!("{name}{ranks}")));
            top += CHIP_PITCH;
        }
        top
    }

    /// A line of text across the panels.
    fn line(&mut self, class: &str, text: &str) {
        self.bottom += LINE;
        self.text(class, Corner { left: MARGIN, top: self.bottom - BASE }, text);
        self.bottom += 4;
    }

    fn text(&mut self, class: &str, corner: Corner, text: &str) {
        let Corner { left, top } = corner;
        let text = escaped(text);
        let _ =
            writeln!(self.body, "<text class=\"{class}\" x=\"{left}\" y=\"{top}\">{text}</text>");
    }

    fn finished(mut self, ranks: usize) -> String {
        self.line(
            "about",
            "A cell is a hardware thread, and the number in it its rank; '+' stands for further ranks",
        );
        let width = 2 * MARGIN + self.columns * (BOX_WIDTH + GAP) - GAP;
        let height = self.bottom + MARGIN;
        let title = format!("Places of {}", counted(ranks, "rank"));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n{STYLE}\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n{}</svg>\n",
            self.body
        )
    }
}

/// Upper left corner, or the start of a text.
#[derive(Clone, Copy)]
struct Corner {
    left: usize,
    top: usize,
}

#[derive(Clone, Copy)]
struct Size {
    width: usize,
    height: usize,
}

fn rectangle(class: &str, corner: Corner, size: Size) -> String {
    let (Corner { left, top }, Size { width, height }) = (corner, size);
    let radius = if class == "box" { 6 } else { 2 };
    format!(
        "<rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" \
         rx=\"{radius}\"/>"
    )
}

fn named(numbers: &[u32]) -> String {
    let word = if numbers.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {}", ranges(numbers, ","))
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

const fn kind(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Main => "",
        MemoryKind::HighBandwidth => " · high bandwidth",
        MemoryKind::Far => " · far",
        MemoryKind::OfGpu => " · of a GPU",
    }
}

fn size(bytes: u64) -> String {
    match bytes >> 30 {
        0 => format!("{} MiB", bytes >> 20),
        gib => format!("{gib} GiB"),
    }
}

/// A text that fits into its box.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// A text as XML has it. Characters that XML forbids become others.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            sign if sign.is_control() || matches!(sign, '\u{fffe}' | '\u{ffff}') => {
                escaped.push(char::REPLACEMENT_CHARACTER);
            }
            sign => escaped.push(sign),
        }
    }
    escaped
}

const STYLE: &str = "\
<style>
:root { --paper: #fbfaf6; --ink: #22303c; --soft: #51606d; --rule: #cfc9ba; --box: #f4f1e8; --idle: #e4e0d6;
  --r0: #9fd0d6; --r1: #f2c48f; --r2: #c5b8ea; --r3: #b5d99a;
  --r4: #f0b3b9; --r5: #a9c4ec; --r6: #e6d67c; --r7: #d9bfa9; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14191f; --ink: #e6e9ec; --soft: #b3bdc6; --rule: #3a4550; --box: #1b222a; --idle: #2b343e;
    --r0: #1f6672; --r1: #8a5312; --r2: #5a479c; --r3: #41702a;
    --r4: #8d3440; --r5: #2f5796; --r6: #6f6212; --r7: #6e4f38; }
}
text { font: 10px ui-monospace, \"DejaVu Sans Mono\", Menlo, monospace; fill: var(--ink); }
.paper { fill: var(--paper); } .box { fill: var(--box); stroke: var(--rule); } .idle { fill: var(--idle); }
.host { font: 600 14px system-ui, \"DejaVu Sans\", sans-serif; }
.about { font: 11px system-ui, \"DejaVu Sans\", sans-serif; fill: var(--soft); }
.name { font-weight: 600; }
.rank { text-anchor: middle; font-size: 9px; }
.r0 { fill: var(--r0); } .r1 { fill: var(--r1); } .r2 { fill: var(--r2); } .r3 { fill: var(--r3); }
.r4 { fill: var(--r4); } .r5 { fill: var(--r5); } .r6 { fill: var(--r6); } .r7 { fill: var(--r7); }
</style>
";

/// Colours of ranks, as many as `STYLE` has.
const COLOURS: usize = 8;

/// Hosts with other places than those before them, which the picture shows at most.
const PANELS_MAX: usize = 8;
/// More than the cores of any machine today.
const CORES_MAX: usize = 1024;

const COLUMNS: usize = 2;
const MARGIN: usize = 16;
const GAP: usize = 12;
const PADDING: usize = 8;
const LINE: usize = 18;
/// From the lower end of a line to the foot of its letters.
const BASE: usize = 5;
const CORES_IN_ROW: usize = 8;
const CORE_PITCH: usize = 28;
const THREAD_HEIGHT: usize = 14;
const DEVICES_LEFT: usize = PADDING + CORES_IN_ROW * CORE_PITCH + GAP;
const CHIP_PITCH: usize = 18;
const CHIP_WIDTH: usize = 236;
const BOX_WIDTH: usize = DEVICES_LEFT + CHIP_WIDTH + PADDING;
/// Letters of a device with its ranks, at most.
const TEXT_CHARS: usize = 37;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::tests::{machine, placed};

    #[test]
    fn hosts_with_the_same_places_are_drawn_once() {
        let (one, other) = (machine("perlmutter"), machine("raspberry-pi"));
        let hosts: Vec<String> = (0..125).map(|number| format!("n<{number}>")).collect();
        let mut ranks = Vec::new();
        for (at, host) in hosts.iter().enumerate() {
            let hardware = if at == 60 { &other } else { &one };
            ranks.extend(placed(hardware, 8).into_iter().map(|rank| PlacedRank { host, ..rank }));
        }
        let picture = svg(&ranks);
        let titles =
            ["n&lt;0&gt;, and 123 hosts more with the same places", "n&lt;60&gt; · Raspberry"];
        assert_eq!(titles.map(|title| picture.matches(title).count()), [1, 1]);
        assert_eq!(picture.matches("class=\"host\"").count(), 2);
        // Of hosts with other places, a picture has some.
        for (at, rank) in ranks.iter_mut().enumerate() {
            rank.place.threads = u32::try_from(at / 8).unwrap();
        }
        let picture = svg(&ranks);
        assert_eq!(picture.matches("class=\"host\"").count(), PANELS_MAX);
        assert!(picture.contains(">117 hosts more, with other places<"), "{picture}");
    }

    #[test]
    fn pictures_of_many_ranks_and_processors_have_a_bounded_size() {
        let text = "packages 2\ncores 128 threads=2\nmemory 0-7 1GiB\n";
        let node = NodeHardware::of_description(text).unwrap();
        let picture = svg(&placed(&node, 1000));
        assert_eq!((node.processors.len(), picture.matches("<g>").count()), (512, 256));
        assert!(picture.len() < 100 << 10, "{} bytes", picture.len());
        let height = picture.split_once("height=\"").unwrap().1.split_once('"').unwrap().0;
        assert!(height.parse::<u32>().unwrap() < 1000, "{height}");
        let text = "packages 16\ncores 128 threads=2\n";
        let node = NodeHardware::of_description(text).unwrap();
        let picture = svg(&placed(&node, 1));
        assert_eq!(picture.matches("<g>").count(), CORES_MAX);
        assert!(picture.contains(">the first 1024 of 2048 cores<"));
    }

    #[test]
    fn texts_are_escaped() {
        assert_eq!(escaped("a<b>&\"c\u{1b}é"), "a&lt;b&gt;&amp;&quot;c\u{fffd}é");
        let node = NodeHardware { name: Some("<script>".into()), ..machine("raspberry-pi") };
        let mut ranks = placed(&node, 1);
        ranks[0].host = "</svg>\n";
        let picture = svg(&ranks);
        assert!(
            !picture.contains("<script>") && picture.matches("</svg>").count() == 1,
            "{picture}"
        );
    }

    #[test]
    fn ranks_without_processors_are_named() {
        let node = machine("xeon-cxl");
        let mut ranks = placed(&node, 3);
        for rank in &mut ranks[1..] {
            rank.place.processors = ProcessorSet::default();
        }
        let picture = svg(&ranks);
        assert!(picture.contains(">not bound to processors: ranks 1-2<"), "{picture}");
        // Memory behind CXL is near a package.
        assert!(picture.contains(">NUMA 2 · far · 128 GiB<"), "{picture}");
        let empty = svg(&[]);
        assert!(empty.contains("<title>Places of 0 ranks</title>") && empty.ends_with("</svg>\n"));
    }
}
