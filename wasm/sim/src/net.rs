//! All links, and the faults of bytes in transit.

use crate::pipe::Pipe;
use crate::ranks::index;
use crate::rng::Rng;
use crate::scenario::{Direction, RankPlan, Scenario};
use pmi_link::{LinkError, Read, Wrote};

/// The links of all ranks.
#[derive(Clone, Debug)]
pub struct Net {
    links: Vec<SimLink>,
    /// Future arrivals: time, link and direction. The world takes them from here.
    arrivals: Vec<(u64, u32, Direction)>,
    /// Faults of links, to be recorded.
    faults: Vec<(u32, LinkFault)>,
}

/// The link of one rank.
#[derive(Clone, Debug)]
pub struct SimLink {
    up: Pipe,
    down: Pipe,
    plan: RankPlan,
    rng: Rng,
    /// The next bytes in this direction have a bit changed, or arrive one by one.
    flip_next: [bool; 2],
    shatter_next: [bool; 2],
    is_broken: bool,
}

/// The server's end of a link, borrowed for the driver loop.
#[derive(Debug)]
pub(crate) struct LinkEnd<'a> {
    net: &'a mut Net,
    rank: u32,
    now: u64,
}

/// A random fault of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkFault {
    /// A bit changed.
    Flipped(Direction),
    /// Nothing moves until this time.
    Stalled(u64),
    /// It broke.
    Reset,
}

impl Net {
    /// Links of the scenario, initially empty.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let link = |rank| {
            let plan = scenario.plan(rank);
            SimLink {
                up: Pipe::new(plan.room),
                down: Pipe::new(plan.room),
                plan,
                rng: Rng::new(seed, LINKS_STREAM + u64::from(rank)),
                flip_next: [false; 2],
                shatter_next: [false; 2],
                is_broken: false,
            }
        };
        Self {
            links: (0..scenario.ranks).map(link).collect(),
            arrivals: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Writes as many of `bytes` as there is room for, and returns their number.
    pub fn write(&mut self, rank: u32, direction: Direction, now: u64, bytes: &[u8]) -> usize {
        let Some(link) = self.links.get_mut(index(rank)) else { return bytes.len() };
        let len = bytes.len().min(link.pipe(direction).space());
        if len == 0 {
            return 0;
        }
        let mut sent = bytes[..len].to_vec();
        if link.rng.chance(link.plan.reset) {
            self.faults.push((rank, LinkFault::Reset));
            self.reset(rank, now);
            return len;
        }
        if std::mem::take(&mut link.flip_next[direction as usize])
            || link.rng.chance(link.plan.flip)
        {
            let at = link.rng.index(len);
            sent[at] ^= 1 << link.rng.below(8);
            self.faults.push((rank, LinkFault::Flipped(direction)));
        }
        let (chance, span) = link.plan.stall;
        if link.rng.chance(chance) {
            let until = now + link.rng.within(span);
            let arrival = link.pipe(direction).stall(until);
            self.arrivals.extend(arrival.map(|at| (at, rank, direction)));
            self.faults.push((rank, LinkFault::Stalled(until)));
        }
        let is_shattered = std::mem::take(&mut link.shatter_next[direction as usize]);
        let joins = link.rng.chance(link.plan.join);
        let mut rest = &sent[..];
        while !rest.is_empty() {
            let most = rest.len() as u64;
            let piece = match is_shattered {
                true => 1,
                false if link.rng.chance(link.plan.split) => 1 + link.rng.below(most),
                false => most,
            };
            let (piece, after) = rest.split_at(usize::try_from(piece).unwrap_or(1));
            let at = now + link.rng.within(link.plan.latency);
            let arrival = link.pipe(direction).put(at, piece, joins && rest.len() == len);
            self.arrivals.extend(arrival.map(|at| (at, rank, direction)));
            rest = after;
        }
        len
    }

    /// Ends one direction, after the bytes in transit.
    pub fn finish(&mut self, rank: u32, direction: Direction, now: u64) {
        let Some(link) = self.links.get_mut(index(rank)) else { return };
        let at = now + link.rng.within(link.plan.latency);
        let arrival = link.pipe(direction).finish(at);
        self.arrivals.extend(arrival.map(|at| (at, rank, direction)));
    }

    /// One end closes the link: nothing it sent is lost, and it reads no more.
    pub fn close(&mut self, rank: u32, by: Direction, now: u64) {
        self.finish(rank, by, now);
        if let Some(link) = self.links.get_mut(index(rank)) {
            link.pipe(by.other()).abandon();
        }
    }

    /// The link breaks: both ends detect it, and bytes in transit are lost.
    pub fn reset(&mut self, rank: u32, now: u64) {
        let Some(link) = self.links.get_mut(index(rank)) else { return };
        link.is_broken = true;
        for direction in [Direction::Up, Direction::Down] {
            let at = now + link.rng.within(link.plan.latency);
            let arrival = link.pipe(direction).break_off(at);
            self.arrivals.extend(arrival.map(|at| (at, rank, direction)));
        }
    }

    /// Nothing moves until `until`.
    pub fn stall(&mut self, rank: u32, until: u64) {
        let Some(link) = self.links.get_mut(index(rank)) else { return };
        for direction in [Direction::Up, Direction::Down] {
            let arrival = link.pipe(direction).stall(until);
            self.arrivals.extend(arrival.map(|at| (at, rank, direction)));
        }
    }

    /// A bit of the next bytes will change.
    pub fn flip_next(&mut self, rank: u32, direction: Direction) {
        if let Some(link) = self.links.get_mut(index(rank)) {
            link.flip_next[direction as usize] = true;
        }
    }

    /// The next bytes will arrive one by one.
    pub fn shatter_next(&mut self, rank: u32, direction: Direction) {
        if let Some(link) = self.links.get_mut(index(rank)) {
            link.shatter_next[direction as usize] = true;
        }
    }

    /// Marks the bytes that have arrived; true if there are any.
    pub fn land(&mut self, rank: u32, direction: Direction, now: u64) -> bool {
        self.links.get_mut(index(rank)).is_some_and(|link| link.pipe(direction).land(now))
    }

    /// Takes the bytes that have arrived.
    pub fn read(&mut self, rank: u32, direction: Direction, most: usize) -> Vec<u8> {
        self.links
            .get_mut(index(rank))
            .map(|link| link.pipe(direction).take(most))
            .unwrap_or_default()
    }

    /// The link of a rank, read-only.
    pub fn link(&self, rank: u32) -> Option<&SimLink> {
        self.links.get(index(rank))
    }

    /// The server's end of the link of a rank.
    pub(crate) const fn end(&mut self, rank: u32, now: u64) -> LinkEnd<'_> {
        LinkEnd { net: self, rank, now }
    }

    /// True if no more bytes will arrive in this direction.
    pub fn is_over(&self, rank: u32, direction: Direction) -> bool {
        self.link(rank).is_none_or(|link| link.get(direction).is_over())
    }

    /// Arrivals since the last call.
    pub(crate) fn take_arrivals(&mut self) -> Vec<(u64, u32, Direction)> {
        std::mem::take(&mut self.arrivals)
    }

    /// Faults since the last call.
    pub(crate) fn take_faults(&mut self) -> Vec<(u32, LinkFault)> {
        std::mem::take(&mut self.faults)
    }
}

impl pmi_link::Link for LinkEnd<'_> {
    fn try_read(&mut self, out: &mut [u8]) -> Result<Read, LinkError> {
        let bytes = self.net.read(self.rank, Direction::Up, out.len());
        if !bytes.is_empty() {
            out[..bytes.len()].copy_from_slice(&bytes);
            return Ok(Read::Bytes(bytes.len()));
        }
        match self.net.link(self.rank) {
            Some(link) if !link.up.is_over() => Ok(Read::NotNow),
            Some(link) if link.is_broken => Err(LinkError::Reset),
            _ => Ok(Read::End),
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Wrote, LinkError> {
        let Some(link) = self.net.links.get_mut(index(self.rank)) else {
            return Err(LinkError::Closed);
        };
        // A system may notice a closed receiver at once, or accept the bytes and notice later.
        if link.down.is_unread() && link.rng.below(2) == 0 {
            return Err(LinkError::Closed);
        }
        match self.net.write(self.rank, Direction::Down, self.now, bytes) {
            0 => Ok(Wrote::NotNow),
            len => Ok(Wrote::Bytes(len)),
        }
    }
}

impl SimLink {
    /// One direction, read-only.
    pub const fn get(&self, direction: Direction) -> &Pipe {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// True if the link broke.
    pub const fn is_broken(&self) -> bool {
        self.is_broken
    }

    const fn pipe(&mut self, direction: Direction) -> &mut Pipe {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}

impl Direction {
    /// The other direction.
    pub const fn other(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// Links draw from streams above this one; everything else is below.
const LINKS_STREAM: u64 = 1 << 40;
