//! Merging of equal lines of several sources: the ranks of a node, or the nodes below it and the node itself.
//!
//! Every level of a tree merges in the same way, with the wait of its level; a run on one host has the ranks
//! alone. Who the sources are, and where their lines go, is known to [`Gather`](super::gather::Gather) for
//! ranks, and to [`LineMerge`](super::merge::LineMerge) for nodes.

use pmi_host_os::clock;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Lines of the sources of one job on the way to one place. A line has data of its kind `L`, and may be
/// followed by parts of its source that are no lines, `F`.
///
/// Each source has a queue. Equal lines at the heads of several queues go out together; a line goes out
/// when no source can join it any more, or when it has waited long enough for those that could. So lines
/// of one source never change places.
#[derive(Debug)]
pub(crate) struct Collapse<L = (), F = ()> {
    wait: Option<Duration>,
    queues: BTreeMap<u32, Queue<L, F>>,
    /// Every text in a queue.
    texts: BTreeMap<Rc<[u8]>, Holders>,
    /// Number of open sources with an empty queue, including those not yet opened.
    silent_count: u32,
    pending_count: u32,
    /// Start of the last source: earlier lines wait from then on, since starting many ranks takes time.
    all_there_at: Option<Instant>,
    held_bytes: usize,
    /// Number of lines pushed so far.
    line_count: u64,
    overdue_at: Option<Instant>,
}

/// Sources with an equal line.
#[derive(Debug)]
pub(crate) struct Group<L, F> {
    /// The sources, in ascending order; at least one.
    pub(crate) sources: Vec<u32>,
    /// The line, including its end if it had one.
    pub(crate) line: Rc<[u8]>,
    /// Time at which the first of the sources has written it.
    pub(crate) since: Instant,
    /// Data of the line, of each source.
    pub(crate) data: Vec<L>,
    /// What follows the line, with its source.
    pub(crate) followers: Vec<(u32, F)>,
}

#[derive(Debug)]
struct Queue<L, F> {
    lines: VecDeque<QueuedLine<L>>,
    /// What follows lines, with their numbers. Few lines have any, so it takes no room in the others.
    followers: VecDeque<(u64, F)>,
    is_closed: bool,
}

#[derive(Debug)]
struct QueuedLine<L> {
    head: LineHead,
    data: L,
}

/// A line at the head of a queue.
#[derive(Clone, Debug)]
struct LineHead {
    text: Rc<[u8]>,
    number: u64,
    since: Instant,
}

/// Sources with a text in the queue.
#[derive(Debug, Default)]
struct Holders {
    /// Number of copies in the queue of each source.
    sources: BTreeMap<u32, usize>,
    /// Sources with the text at the head.
    heads: BTreeSet<u32>,
}

impl<L, F> Collapse<L, F> {
    /// Room of each line in a queue, which may have twice as much as it uses.
    const LINE_COST: usize = 2 * size_of::<QueuedLine<L>>();

    /// For a job of `count` sources, none of which is opened yet. A line waits for equal ones up to `wait`,
    /// or indefinitely.
    pub(crate) const fn new(count: u32, wait: Option<Duration>) -> Self {
        Self {
            wait,
            queues: BTreeMap::new(),
            texts: BTreeMap::new(),
            silent_count: count,
            pending_count: count,
            all_there_at: None,
            held_bytes: 0,
            line_count: 0,
            overdue_at: None,
        }
    }

    /// A source begins.
    pub(crate) fn open(&mut self, source: u32) {
        self.queues.insert(source, Queue::default());
        match self.pending_count.checked_sub(1) {
            Some(left) => self.pending_count = left,
            // It was on its way when no more were expected.
            None => self.silent_count += 1,
        }
        if self.pending_count == 0 {
            self.all_there_at.get_or_insert_with(clock::now);
            self.overdue_at = self.oldest().and_then(|line| self.due_at(&line));
        }
    }

    /// No further sources will be opened.
    pub(crate) fn expect_no_more(&mut self) {
        self.silent_count -= std::mem::take(&mut self.pending_count);
        self.all_there_at.get_or_insert_with(clock::now);
        // Due at once, so that `release` is called.
        self.overdue_at = (!self.is_empty()).then(clock::now);
    }

    /// Queues a line that a source has written at this time.
    pub(crate) fn push(&mut self, source: u32, (line, data): (&[u8], L), since: Instant) {
        let Some(queue) = self.queues.get_mut(&source) else { return };
        let text = match self.texts.get_key_value(line) {
            Some((text, _)) => Rc::clone(text),
            None => {
                self.held_bytes += line.len() + TEXT_COST;
                line.into()
            }
        };
        let holders = self.texts.entry(Rc::clone(&text)).or_default();
        *holders.sources.entry(source).or_default() += 1;
        if queue.lines.is_empty() {
            holders.heads.insert(source);
            self.silent_count -= 1;
        }
        self.held_bytes += Self::LINE_COST;
        self.line_count += 1;
        let head = LineHead { text, number: self.line_count, since };
        queue.lines.push_back(QueuedLine { head, data });
    }

    /// Queues what follows the last line of a source. Returns false if none waits.
    pub(crate) fn follow(&mut self, source: u32, follower: impl FnOnce() -> F) -> bool {
        let Some(queue) = self.queues.get_mut(&source) else { return false };
        let last = queue.lines.back().map(|line| line.head.number);
        queue.followers.extend(last.map(|number| (number, follower())));
        last.is_some()
    }

    /// A source writes no further lines.
    pub(crate) fn close(&mut self, source: u32) {
        let Some(queue) = self.queues.get_mut(&source) else { return };
        queue.is_closed = true;
        if queue.lines.is_empty() {
            self.queues.remove(&source);
            self.silent_count -= 1;
        }
    }

    /// Hands out lines that need not wait any longer: all, once there are too many, so that equal ones of
    /// what follows can be found.
    pub(crate) fn release(&mut self, now: Instant, mut out: impl FnMut(Group<L, F>)) {
        let mut is_full = false;
        loop {
            let groups = match self.silent_count {
                0 => self.complete(),
                _ if is_full => self.complete(),
                _ => self.oldest().filter(|line| self.is_due(line, now)).into_iter().collect(),
            };
            if groups.is_empty() {
                if is_full || self.held_bytes <= self.held_max() {
                    break;
                }
                is_full = true;
            }
            for LineHead { text, .. } in groups {
                let group = self.pop_group(text);
                let sources = if is_full { group.sources.clone() } else { Vec::new() };
                out(group);
                // A search through all queues for each line of a source that writes much takes long.
                for source in sources {
                    while let Some(text) = self.unshared_head(source) {
                        out(self.pop_group(text));
                    }
                }
            }
        }
        self.overdue_at = self.oldest().and_then(|line| self.due_at(&line));
    }

    /// Hands out all lines in the queue of a source.
    pub(crate) fn release_source(&mut self, source: u32, mut out: impl FnMut(Group<L, F>)) {
        while let Some(line) = self.queues.get(&source).and_then(|queue| queue.lines.front()) {
            let text = Rc::clone(&line.head.text);
            out(self.pop_group(text));
        }
    }

    /// Hands out all lines.
    pub(crate) fn release_all(&mut self, mut out: impl FnMut(Group<L, F>)) {
        let sources: Vec<u32> = self.queues.keys().copied().collect();
        sources.into_iter().for_each(|source| self.release_source(source, &mut out));
    }

    /// Time of the next [`release`](Self::release) without new lines.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.overdue_at
    }

    /// True if no line waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// True if a source may write lines, or has some in its queue.
    pub(crate) fn has(&self, source: u32) -> bool {
        self.queues.contains_key(&source)
    }

    /// True if all sources are closed and every line is handed out.
    pub(crate) fn is_over(&self) -> bool {
        self.queues.is_empty() && self.pending_count == 0
    }

    /// Lines that no further source can join unless it is silent, since none has them further behind in its
    /// queue. The oldest first.
    fn complete(&self) -> Vec<LineHead> {
        let is_complete = |holders: &&Holders| holders.heads.len() == holders.sources.len();
        let complete = self.heads().filter(is_complete);
        let mut lines: Vec<LineHead> =
            complete.filter_map(|holders| self.first_of(holders)).collect();
        lines.sort_by_key(|line| line.number);
        // All may wait for each other, as 'a, b' and 'b, a' do: then the oldest goes out.
        if lines.is_empty() { self.oldest().into_iter().collect() } else { lines }
    }

    /// The line at the head of the queue of a source, if no other source has it.
    fn unshared_head(&self, source: u32) -> Option<Rc<[u8]>> {
        let text = &self.queues.get(&source)?.lines.front()?.head.text;
        let holders = self.texts.get(text).filter(|holders| holders.sources.len() == 1);
        holders.map(|_| Rc::clone(text))
    }

    fn oldest(&self) -> Option<LineHead> {
        self.heads().filter_map(|holders| self.first_of(holders)).min_by_key(|line| line.number)
    }

    /// Holders of every text at the head of a queue, once.
    fn heads(&self) -> impl Iterator<Item = &Holders> {
        self.queues.iter().filter_map(|(source, queue)| {
            let holders = self.texts.get(&queue.lines.front()?.head.text)?;
            (holders.heads.first() == Some(source)).then_some(holders)
        })
    }

    /// The oldest line among the queues with the text at the head.
    fn first_of(&self, holders: &Holders) -> Option<LineHead> {
        let lines =
            holders.heads.iter().filter_map(|source| self.queues.get(source)?.lines.front());
        lines.map(|line| &line.head).min_by_key(|head| head.number).cloned()
    }

    fn due_at(&self, line: &LineHead) -> Option<Instant> {
        Some(line.since.max(self.all_there_at?) + self.wait?)
    }

    fn is_due(&self, line: &LineHead, now: Instant) -> bool {
        self.due_at(line).is_some_and(|at| at <= now)
    }

    /// Most bytes that may wait. Sources that write as much as others may do so one after the other.
    fn held_max(&self) -> usize {
        HELD_MAX + (self.queues.len() * HELD_EACH).min(HELD_EACH_MAX)
    }

    /// Removes a line from all queues with it at the head.
    fn pop_group(&mut self, text: Rc<[u8]>) -> Group<L, F> {
        let holders = self.texts.get_mut(&text);
        let heads = holders.map(|holders| std::mem::take(&mut holders.heads)).unwrap_or_default();
        let (mut since, mut data, mut followers) = (None::<Instant>, Vec::new(), Vec::new());
        for source in &heads {
            let Some(line) = self.pop(*source, &text, &mut followers) else { continue };
            since = Some(since.map_or(line.head.since, |since| since.min(line.head.since)));
            data.push(line.data);
        }
        let since = since.unwrap_or_else(clock::now);
        Group { sources: heads.into_iter().collect(), line: text, since, data, followers }
    }

    /// Removes a line from the queue of a source, and adds what follows it to `followers`.
    fn pop(
        &mut self,
        source: u32,
        text: &Rc<[u8]>,
        followers: &mut Vec<(u32, F)>,
    ) -> Option<QueuedLine<L>> {
        let queue = self.queues.get_mut(&source)?;
        let line = queue.lines.pop_front()?;
        let count = queue.followers.iter().take_while(|(number, _)| *number == line.head.number);
        let count = count.count();
        followers.extend(queue.followers.drain(..count).map(|(_, follower)| (source, follower)));
        self.held_bytes -= Self::LINE_COST;
        let next = queue.lines.front().map(|line| Rc::clone(&line.head.text));
        if next.is_none() {
            match queue.is_closed {
                true => drop(self.queues.remove(&source)),
                false => self.silent_count += 1,
            }
        }
        if let Some(holders) = self.texts.get_mut(text) {
            if let Some(count) = holders.sources.get_mut(&source) {
                *count -= 1;
                if *count == 0 {
                    holders.sources.remove(&source);
                }
            }
            if holders.sources.is_empty() {
                self.texts.remove(text);
                self.held_bytes -= text.len() + TEXT_COST;
            }
        }
        if let Some(holders) = next.and_then(|next| self.texts.get_mut(&next)) {
            holders.heads.insert(source);
        }
        Some(line)
    }
}

impl<L, F> Default for Queue<L, F> {
    fn default() -> Self {
        Self { lines: VecDeque::new(), followers: VecDeque::new(), is_closed: false }
    }
}

/// With this much waiting, and as much more for each source, all lines go out without waiting for equal ones.
const HELD_MAX: usize = 8 << 20;

/// For each source, what a rank may write while others are not running: lines of 16 bytes that fill a pipe.
const HELD_EACH: usize = 256 * 1024;

/// Most of the latter for all sources together.
const HELD_EACH_MAX: usize = 16 << 20;

/// Approximate overhead of a text besides its bytes.
const TEXT_COST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_host_base::ranges::ranges;

    const WAIT: Duration = Duration::from_secs(1);

    /// Ranks 0 to 2, after they wrote these lines, one letter each.
    fn written(lines: &[(u32, &str)]) -> (Collapse, Instant) {
        let mut collapse = Collapse::new(3, Some(WAIT));
        (0..3).for_each(|rank| collapse.open(rank));
        let now = clock::now();
        for (rank, text) in lines {
            text.bytes().for_each(|letter| collapse.push(*rank, (&[letter], ()), now));
        }
        (collapse, now)
    }

    fn released(collapse: &mut Collapse, now: Instant) -> String {
        let mut text = Vec::new();
        collapse.release(now, |group| {
            text.push(format!(
                "{}:{}",
                ranges(&group.sources, ","),
                String::from_utf8_lossy(&group.line)
            ));
        });
        text.join(" ")
    }

    #[test]
    fn lines_that_all_have_written_go_out_at_once() {
        let (mut collapse, now) = written(&[(0, "aab"), (1, "aab"), (2, "aab")]);
        assert_eq!(released(&mut collapse, now), "0-2:a 0-2:a 0-2:b");
        assert_eq!((collapse.deadline(), collapse.held_bytes), (None, 0));
    }

    #[test]
    fn rank_that_differs_is_told_apart() {
        let (mut collapse, now) = written(&[(0, "ac"), (1, "bc"), (2, "ac")]);
        assert_eq!(released(&mut collapse, now), "0,2:a 1:b 0-2:c");
    }

    #[test]
    fn line_more_in_one_rank_does_not_part_the_others() {
        let (mut collapse, now) = written(&[(0, "ab"), (2, "ab"), (1, "xab")]);
        assert_eq!(released(&mut collapse, now), "1:x 0-2:a 0-2:b");
    }

    #[test]
    fn ranks_that_wait_for_each_other_go_on() {
        let (mut collapse, now) = written(&[(0, "ab"), (1, "ba"), (2, "c")]);
        collapse.close(2);
        assert_eq!(released(&mut collapse, now), "2:c 0:a 0-1:b");
        collapse.close(0);
        assert_eq!(released(&mut collapse, now), "1:a");
    }

    #[test]
    fn silent_rank_is_waited_for_until_it_ends_or_time_is_over() {
        let (mut collapse, now) = written(&[(0, "ab"), (1, "a")]);
        assert_eq!(released(&mut collapse, now), "");
        assert_eq!(collapse.deadline(), Some(now + WAIT));
        assert_eq!(released(&mut collapse, now + WAIT), "0-1:a 0:b");
        collapse.push(1, (b"c", ()), now);
        [0, 2].iter().for_each(|rank| collapse.close(*rank));
        assert_eq!(released(&mut collapse, now), "1:c");
    }

    #[test]
    fn ranks_are_not_given_up_while_others_are_being_started() {
        let (mut collapse, now) = (Collapse::new(2, Some(WAIT)), clock::now());
        collapse.open(0);
        collapse.push(0, (b"a", ()), now);
        assert_eq!(released(&mut collapse, now + 9 * WAIT), "");
        assert_eq!(collapse.deadline(), None);
        collapse.open(1);
        assert!(collapse.deadline().is_some_and(|at| at >= now + WAIT));
        assert_eq!(released(&mut collapse, now + 9 * WAIT), "0:a");
    }

    #[test]
    fn rank_that_starts_although_no_more_were_expected_is_waited_for() {
        let (mut collapse, now) = (Collapse::new(2, Some(WAIT)), clock::now());
        collapse.open(0);
        collapse.expect_no_more();
        collapse.open(1);
        collapse.push(0, (b"a", ()), now);
        assert_eq!(released(&mut collapse, now), "");
        collapse.push(1, (b"a", ()), now);
        assert_eq!(released(&mut collapse, now), "0-1:a");
        [0, 1].iter().for_each(|rank| collapse.close(*rank));
        assert!(collapse.is_over() && collapse.silent_count == 0);
    }

    #[test]
    fn too_much_is_not_held() {
        let (mut collapse, now) = written(&[(1, "a")]);
        let line = vec![b'x'; HELD_MAX / 4];
        collapse.push(0, (b"a", ()), now);
        for letter in 0..3 {
            collapse.push(0, (&[&line[..], &[letter]].concat(), ()), now);
        }
        assert_eq!(released(&mut collapse, now), "");
        (3..5).for_each(|letter| collapse.push(0, (&[&line[..], &[letter]].concat(), ()), now));
        let mut groups = Vec::new();
        collapse.release(now, |group| groups.push(group.sources));
        assert_eq!((groups.len(), collapse.held_bytes, collapse.deadline()), (6, 0, None));
        assert_eq!(groups[..2], [vec![0, 1], vec![0]], "equal ones together");
        // Then lines wait again.
        collapse.push(0, (b"b", ()), now);
        assert_eq!(released(&mut collapse, now), "");
        [1, 2].iter().for_each(|rank| collapse.push(*rank, (b"b", ()), now));
        assert_eq!(released(&mut collapse, now), "0-2:b");
    }

    #[test]
    fn data_that_follows_a_line_goes_out_behind_it() {
        let (mut collapse, now) = (Collapse::new(2, Some(WAIT)), clock::now());
        (0..2).for_each(|source| collapse.open(source));
        assert!(!collapse.follow(1, || "no line waits"));
        collapse.push(0, (b"a", 'x'), now);
        collapse.push(1, (b"a", 'y'), now);
        assert!(collapse.follow(1, || "end") && collapse.follow(1, || "more"));
        collapse.push(0, (b"b", 'z'), now);
        let mut groups = Vec::new();
        collapse.release(now, |group| groups.push((group.data, group.followers)));
        assert_eq!(groups, [(vec!['x', 'y'], vec![(1, "end"), (1, "more")])]);
        collapse.release_all(|group| groups.push((group.data, group.followers)));
        assert_eq!((groups.len(), &groups[1]), (2, &(vec!['z'], vec![])));
    }
}
