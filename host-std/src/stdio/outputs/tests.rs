//! Text of several ranks at one place, in random order and at random times of a clock that stands still in
//! between.

use super::*;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Ranks that write to one file, by what they have written and what is there.
struct Scene {
    outputs: Outputs,
    poller: Poller,
    file: File,
    ranks: Vec<Written>,
    /// The rank that has written alone since its unfinished line was passed on.
    speaker: Option<usize>,
    /// The rank that has written last.
    last_writer: usize,
    /// Time of the last text or end of a rank.
    changed_at: Instant,
    random: u64,
}

/// What a rank has written.
#[derive(Default)]
struct Written {
    text: Vec<u8>,
    /// Time of each byte.
    times: Vec<Instant>,
    letters: usize,
    has_ended: bool,
}

impl Written {
    fn is_unfinished(&self) -> bool {
        !self.has_ended && self.text.last().is_some_and(|last| *last != b'\n')
    }

    /// True if all of the line around `at`, with its end, was written within the time for which lines of
    /// others wait.
    fn is_brief(&self, at: usize) -> bool {
        let begin =
            self.text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let end = self.text[at..].iter().position(|byte| *byte == b'\n').map(|end| at + end);
        end.is_some_and(|end| self.times[end] - self.times[begin] < PATIENCE)
    }
}

impl Scene {
    fn new(ranks: usize, seed: u64) -> Self {
        let file = File::from(memfd_create("out", MemfdFlags::CLOEXEC).unwrap());
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let settings = Output { out_files: Some(name), ..Output::default() };
        let mut outputs = Outputs::new(&settings, RankNodes::One("here".into())).unwrap();
        outputs.prepare(0, number(ranks)).unwrap();
        for rank in 0..number(ranks) {
            outputs.add_remote((rank, StreamOwner { group: 0, rank }));
        }
        clock::stop();
        Self {
            outputs,
            poller: Poller::new().unwrap(),
            file,
            ranks: (0..ranks).map(|_| Written::default()).collect(),
            speaker: None,
            last_writer: 0,
            changed_at: clock::now(),
            random: seed,
        }
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) as usize % end
    }

    /// Has a rank write letters, and with `ends` the end of the line.
    fn write(&mut self, rank: usize, letters: usize, ends: bool) {
        let writes_alone = self.others_have_ended(rank);
        let written = &mut self.ranks[rank];
        let first = written.letters;
        written.letters += letters;
        let mut text: Vec<u8> =
            (first..written.letters).map(|number| letter(rank, number)).collect();
        text.extend_from_slice(if ends { b"\n" } else { b"" });
        written.text.extend_from_slice(&text);
        written.times.resize(written.text.len(), clock::now());
        (self.last_writer, self.changed_at) = (rank, clock::now());
        self.outputs.receive((Stream::Out, number(rank)), &text);
        self.outputs.flush(&mut self.poller).unwrap();
        self.speaker = self.speaker.filter(|speaker| *speaker == rank);
        let shown = self.check();
        if writes_alone || (self.speaker.is_some() && text.len() != BLOCK) {
            assert_eq!(shown[rank], self.ranks[rank].text.len(), "text is there at once");
        }
    }

    fn others_have_ended(&self, rank: usize) -> bool {
        self.ranks.iter().enumerate().all(|(other, written)| other == rank || written.has_ended)
    }

    fn end(&mut self, rank: usize) {
        self.ranks[rank].has_ended = true;
        self.changed_at = clock::now();
        self.outputs.end_remote(Stream::Out, number(rank));
        self.outputs.flush(&mut self.poller).unwrap();
        self.check();
    }

    /// Lets time pass, with everything that is due.
    fn wait(&mut self, time: Duration) {
        let until = clock::now() + time;
        while clock::now() < until {
            let next = self.outputs.deadline().unwrap_or(until).clamp(clock::now(), until);
            clock::go_on(next - clock::now());
            self.outputs.tick(next);
            // The nodes have nothing more than what has arrived.
            for (process, stream) in self.outputs.take_wanted() {
                self.outputs.end_wanted(stream, process);
            }
            self.outputs.flush(&mut self.poller).unwrap();
            let shown = self.check();
            self.check_times(&shown);
        }
    }

    /// Checks that nothing is kept back for longer than it may.
    fn check_times(&mut self, shown: &[usize]) {
        let now = clock::now();
        let unfinished: Vec<usize> =
            (0..self.ranks.len()).filter(|rank| self.ranks[*rank].is_unfinished()).collect();
        if let [only] = unfinished[..]
            && now - self.changed_at >= QUIET
        {
            assert_eq!(shown[only], self.ranks[only].text.len(), "a question is there");
            self.speaker = Some(only).filter(|only| *only == self.last_writer);
        }
        let most = PATIENCE * number(self.ranks.len()) + QUIET;
        for (written, shown) in self.ranks.iter().zip(shown) {
            let end = written.text[*shown..].iter().position(|byte| *byte == b'\n');
            let kept = end.map(|end| written.times[shown + end]);
            assert!(kept.is_none_or(|since| now - since <= most), "whole lines come in time");
        }
    }

    /// Checks what is in the file, and returns the number of bytes of each rank there.
    fn check(&self) -> Vec<usize> {
        let mut text = vec![0; usize::try_from(self.file.metadata().unwrap().len()).unwrap()];
        self.file.read_exact_at(&mut text, 0).unwrap();
        let mut shown = vec![0; self.ranks.len()];
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let rank = usize::from((line[0] - b'a') / LETTERS);
            let (written, at) = (&self.ranks[rank], &mut shown[rank]);
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            let rest = written.text[*at..].strip_prefix(text);
            let rest = rest.unwrap_or_else(|| panic!("{:?}", String::from_utf8_lossy(line)));
            *at += text.len();
            if line.len() > text.len() {
                match rest.first() {
                    Some(b'\n') => *at += 1,
                    Some(_) => assert!(!written.is_brief(*at), "a line is divided"),
                    None => {}
                }
            }
        }
        shown
    }
}

/// Letter of a rank. It shows the rank and, in the text of the rank, its place.
fn letter(rank: usize, number: usize) -> u8 {
    b'a' + LETTERS * u8::try_from(rank).unwrap()
        + u8::try_from(number % usize::from(LETTERS)).unwrap()
}

#[test]
fn text_of_ranks_is_whole_and_unchanged_and_comes_in_time() {
    for seed in 0..400 {
        let ranks = 1 + usize::try_from(seed % 4).unwrap();
        let mut scene = Scene::new(ranks, seed);
        for _ in 0..60 {
            match scene.below(8) {
                0..4 => {
                    // Often the same rank, as in a conversation.
                    let rank = scene.below(ranks + 2).min(ranks - 1);
                    let letters = [1, 2, 3, BLOCK][scene.below(4)];
                    let ends = scene.below(3) == 0;
                    if !scene.ranks[rank].has_ended {
                        scene.write(rank, letters, ends);
                    }
                }
                4..7 => {
                    let time = [1, 40, 99, 100, 101, 300, 950, 1000, 2100][scene.below(9)];
                    scene.wait(Duration::from_millis(time));
                }
                _ => {
                    let rank = scene.below(ranks);
                    if scene.below(6) == 0 && !scene.ranks[rank].has_ended {
                        scene.end(rank);
                    }
                }
            }
        }
        for rank in 0..ranks {
            if !scene.ranks[rank].has_ended {
                scene.end(rank);
            }
        }
        let whole: Vec<usize> = scene.ranks.iter().map(|written| written.text.len()).collect();
        assert_eq!(scene.check(), whole, "nothing is lost");
    }
}

#[test]
fn lines_that_full_buffers_divide_stay_whole() {
    // A buffer is written when it is full, and the rest of its last line with the next one, much later.
    let mut scene = Scene::new(2, 0);
    scene.write(0, 3, false);
    scene.wait(QUIET);
    scene.write(0, 1, true);
    for (letters, ends) in [(BLOCK, false), (BLOCK, true), (5000, false), (10, true)] {
        scene.write(0, letters, ends);
        if !ends {
            scene.write(1, 1, true);
        }
        scene.write(1, letters, ends);
        scene.wait(5 * PATIENCE);
    }
    let mut text = String::new();
    scene.file.read_to_string(&mut text).unwrap();
    let lines: Vec<usize> = text.lines().map(str::len).collect();
    assert_eq!(lines, [4, 1, 2 * BLOCK, 2 * BLOCK, 1, 5010, 5010]);
}

/// Letters of each rank.
const LETTERS: u8 = 6;

/// Size in which libraries write full buffers.
const BLOCK: usize = 4096;

/// Time for which lines of others wait for an unfinished one.
const PATIENCE: Duration = Duration::from_secs(1);
