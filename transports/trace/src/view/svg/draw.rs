//! Drawing of steps as shapes.

use super::steps::{Ask, Lane, Step, StepKind, StepReply, Steps};
use crate::describe::shown;
use crate::record::Trace;
use crate::view::{caller, has_times, ranges, shown_ns};
use pmi_core::command::Verb;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

/// A diagram under construction.
pub(super) struct Drawing<'a> {
    trace: &'a Trace,
    steps: &'a Steps,
    has_times: bool,
    /// The layers behind the arrows and in front of them.
    stripes: String,
    shapes: String,
    y: usize,
    width: usize,
    /// By lane and fence: the position at which its stripe begins.
    waiting: BTreeMap<(usize, usize), usize>,
    /// By lane: the position of a request without a reply.
    open: BTreeMap<usize, usize>,
    fence_count: usize,
    last_time: String,
}

impl<'a> Drawing<'a> {
    pub(super) fn new(trace: &'a Trace, steps: &'a Steps) -> Self {
        let mut drawing = Self {
            trace,
            steps,
            has_times: has_times(trace),
            stripes: String::new(),
            shapes: String::new(),
            y: TOP + 30,
            width: 0,
            waiting: BTreeMap::new(),
            open: BTreeMap::new(),
            fence_count: 0,
            last_time: String::new(),
        };
        drawing.width = (drawing.x(steps.lanes.len().saturating_sub(1)) + 64).max(WIDTH_MIN);
        steps.steps.iter().for_each(|step| drawing.step(step));
        drawing.leave_waiting();
        drawing
    }

    /// Position of a lane.
    fn x(&self, lane: usize) -> usize {
        FIRST + lane * self.spacing()
    }

    fn spacing(&self) -> usize {
        (LANES_WIDTH / self.steps.lanes.len().max(1)).clamp(26, 104)
    }

    fn step(&mut self, step: &Step) {
        self.time(step.time_ns);
        match &step.what {
            StepKind::Ask(asks) => self.ask(asks),
            StepKind::Enter { fence, asks } => self.enter(*fence, asks),
            StepKind::Leave { fence, lanes, waited_ns } => self.leave(*fence, lanes, *waited_ns),
            StepKind::Answer(ask) => self.answer(ask),
            StepKind::Event { lane, text, is_bad } => self.event(*lane, text, *is_bad),
        }
    }

    fn time(&mut self, time_ns: u64) {
        let text = shown_ns(time_ns);
        if self.has_times && text != self.last_time {
            let y = self.y + 4;
            self.text(TIME, y, "time", &text);
            self.last_time = text;
        }
    }

    fn ask(&mut self, asks: &[Ask]) {
        let Some(first) = asks.first() else { return };
        let y = self.y;
        let label = match asks {
            [one] => format!("{} {}", one.name, one.text),
            _ => format!("{} · ranks {}", first.name, self.ranks(asks.iter().map(|ask| ask.lane))),
        };
        self.group(tone(first), &titles(self.steps, asks));
        let far = self.far(asks.iter().map(|ask| ask.lane));
        self.arrow(far, SERVER_EDGE, y, "arrow ask");
        self.label(y - 5, "word", &label);
        for ask in asks {
            self.circle(ask.lane, y, 4);
            if ask.waits {
                self.open.insert(ask.lane, y);
            }
        }
        let told: Vec<_> =
            asks.iter().filter_map(|ask| ask.answer.as_ref().map(|told| (ask, told))).collect();
        if let Some((_, one)) = told.first() {
            let back = y + 17;
            let is_same = told.iter().all(|(_, other)| other.text == one.text);
            let text = if is_same { one.text.clone() } else { "…".into() };
            let latencies = told.iter().map(|(_, told)| told.latency_ns);
            let latency = self.latency(latencies.clone().min(), latencies.max());
            let tone = tone_of_replies(told.iter().map(|(_, told)| *told));
            let _ = write!(self.shapes, r#"<g class="{tone}">"#);
            self.arrow(SERVER_EDGE, far, back, "arrow tell");
            self.told(back - 4, &text, &latency);
            for (ask, _) in &told {
                self.stripe("wait", ask.lane, y..back, 3);
            }
            self.shapes.push_str("</g>");
            self.y += 17;
        }
        self.shapes.push_str("</g>\n");
        self.y += STEP;
    }

    /// A reply in a step of its own, with a stripe for the time since its request.
    fn answer(&mut self, ask: &Ask) {
        let (x, y) = (self.x(ask.lane), self.y);
        let since = self.open.remove(&ask.lane).unwrap_or(y);
        let Some(told) = &ask.answer else { return };
        self.stripe("wait", ask.lane, since..y, 3);
        let title = format!("{} ← {}", ask.name, told.text);
        self.group(tone_of_replies([told].into_iter()), &title);
        self.arrow(SERVER_EDGE, x, y, "arrow tell");
        let latency = self.latency(Some(told.latency_ns), None);
        self.told(y - 4, &format!("{} {}", ask.name, told.text), &latency);
        self.shapes.push_str("</g>\n");
        self.y += STEP;
    }

    fn enter(&mut self, fence: usize, asks: &[Ask]) {
        let y = self.y;
        let Some(first) = asks.first() else { return };
        let far = self.far(asks.iter().map(|ask| ask.lane));
        let ranks = self.ranks(asks.iter().map(|ask| ask.lane));
        self.group(tone(first), &format!("{}: ranks {ranks} {}", first.name, first.text));
        self.arrow(far, SERVER_EDGE, y, "arrow ask thin");
        let label = match asks {
            [_] => format!("{} {}", first.name, first.text),
            _ => format!("{} · ranks {ranks}", first.name),
        };
        self.label(y - 5, "word", &label);
        for ask in asks {
            self.circle(ask.lane, y, 4);
            self.waiting.insert((ask.lane, fence), y);
        }
        self.shapes.push_str("</g>\n");
        self.y += STEP - 4;
    }

    fn leave(&mut self, fence: usize, lanes: &[usize], waited_ns: u64) {
        self.fence_count += 1;
        let (top, bottom) = (self.y - 8, self.y + 12);
        for lane in lanes {
            if let Some(since) = self.waiting.remove(&(*lane, fence)) {
                self.stripe("fence stripe", *lane, since..top + 4, 5);
            }
        }
        let far = self.far(lanes.iter().copied());
        let waited =
            if self.has_times { format!(" · {}", shown_ns(waited_ns)) } else { String::new() };
        let ranks = self.ranks(lanes.iter().copied());
        let text = format!("fence {} · ranks {ranks}{waited}", self.fence_count);
        let (x, width, height) = (SERVER - 11, far + 22 - SERVER, bottom - top);
        self.group("fence", &text);
        let _ = write!(
            self.shapes,
            r#"<rect class="bar" x="{x}" y="{top}" width="{width}" height="{height}" rx="10"/>"#
        );
        for lane in lanes {
            self.circle(*lane, self.y + 2, 3);
        }
        let y = self.y + 6;
        self.label(y, "bartext", &text);
        self.shapes.push_str("</g>\n");
        self.y = bottom + STEP - 2;
    }

    fn event(&mut self, lane: Option<usize>, text: &str, is_bad: bool) {
        let class = if is_bad { "event fault" } else { "event" };
        let y = self.y;
        self.group(class, text);
        if let Some(lane) = lane {
            let who = self.name(lane);
            self.circle(lane, y - 1, if is_bad { 5 } else { 4 });
            self.label(y + 3, "said", &format!("{who} {text}"));
        } else {
            self.label(y + 3, "said", text);
        }
        self.shapes.push_str("</g>\n");
        self.y += STEP - 4;
    }

    /// Draws the ranks that still wait at the end.
    fn leave_waiting(&mut self) {
        let bottom = self.y;
        let fences =
            std::mem::take(&mut self.waiting).into_iter().map(|((lane, _), since)| (lane, since));
        let open = std::mem::take(&mut self.open);
        let mut lanes = Vec::new();
        for (lane, since) in fences.chain(open) {
            self.stripe("stuck stripe", lane, since..bottom + 8, 5);
            lanes.push(lane);
        }
        if !lanes.is_empty() {
            let text = format!("ranks {} were never answered", self.ranks(lanes));
            self.event(None, &text, true);
        }
    }

    /// Begins a group of shapes; the title is its tooltip.
    fn group(&mut self, class: &str, title: &str) {
        // Writing to a string does not fail.
        let _ = write!(self.shapes, r#"<g class="{class}"><title>{}</title>"#, xml(title));
    }

    fn circle(&mut self, lane: usize, y: usize, r: usize) {
        let x = self.x(lane);
        let _ = write!(self.shapes, r#"<circle cx="{x}" cy="{y}" r="{r}"/>"#);
    }

    /// A stripe down a lane, of twice the width `half`.
    fn stripe(&mut self, class: &str, lane: usize, y: Range<usize>, half: usize) {
        let (x, width) = (self.x(lane) - half, 2 * half);
        let (top, height) = (y.start, y.end.saturating_sub(y.start));
        let _ = write!(
            self.stripes,
            r#"<rect class="{class}" x="{x}" y="{top}" width="{width}" height="{height}" rx="{half}"/>"#
        );
    }

    /// The position of the last of some lanes.
    fn far(&self, lanes: impl Iterator<Item = usize>) -> usize {
        lanes.map(|lane| self.x(lane)).max().unwrap_or(FIRST)
    }

    fn arrow(&mut self, from: usize, to: usize, y: usize, class: &str) {
        let (tip, base) = if to < from { (to + 2, to + 9) } else { (to - 5, to - 12) };
        let (above, below) = (y - 4, y + 4);
        let _ = write!(self.shapes, r#"<path class="{class}" d="M{from} {y}H{base}"/>"#);
        let _ =
            write!(self.shapes, r#"<path class="tip" d="M{tip} {y}L{base} {above}V{below}z"/>"#);
    }

    /// Text in the space between the server and the first rank.
    fn label(&mut self, y: usize, class: &str, text: &str) {
        self.text(SERVER_EDGE + 11, y, class, &cut(text.trim_end(), LABEL_CHARS));
    }

    /// A reply, and its latency at the end of the line.
    fn told(&mut self, y: usize, text: &str, latency: &str) {
        let room = LABEL_CHARS.saturating_sub(latency.chars().count() + 2);
        self.label(y, "told", &cut(text, room));
        self.text(FIRST - 16, y, "told took", latency);
    }

    fn text(&mut self, x: usize, y: usize, class: &str, text: &str) {
        let text = xml(text);
        let _ = write!(self.shapes, r#"<text class="{class}" x="{x}" y="{y}">{text}</text>"#);
    }

    fn latency(&self, min: Option<u64>, max: Option<u64>) -> String {
        match (min, max) {
            _ if !self.has_times => String::new(),
            // Recorded in one pass of the launcher, which reads the clock once.
            (_, None | Some(0)) if min.unwrap_or(0) == 0 => String::new(),
            (Some(min), Some(max)) if min != max => {
                format!("{}–{}", shown_ns(min), shown_ns(max))
            }
            (Some(ns), _) => shown_ns(ns),
            (None, _) => String::new(),
        }
    }

    fn name(&self, lane: usize) -> String {
        self.steps.lanes.get(lane).map(|lane| lane_name(*lane, true)).unwrap_or_default()
    }

    /// Ranks of lanes as a short list. The job is left out: lanes of one list are of one job nearly always.
    fn ranks(&self, lanes: impl IntoIterator<Item = usize>) -> String {
        let lanes = lanes.into_iter().filter_map(|lane| self.steps.lanes.get(lane));
        ranges(lanes.map(|lane| match lane {
            Lane::Rank(_, rank) => *rank,
            Lane::Caller(number) => *number,
        }))
    }

    /// The whole picture.
    pub(super) fn finish(mut self) -> String {
        let bottom = self.y + 6;
        let mut frame = String::new();
        let many_jobs = self.trace.jobs().nth(1).is_some();
        let lanes = self.steps.lanes.iter().enumerate();
        let heads = std::iter::once((SERVER, "server".to_owned(), 62, "lane server")).chain(
            lanes.map(|(at, lane)| {
                let is_wide = self.spacing() >= 74;
                let text = lane_name(*lane, is_wide);
                let text = match lane {
                    Lane::Rank(job, rank) if many_jobs => format!("{job}:{rank}"),
                    _ => text,
                };
                (self.x(at), text, if is_wide { 62 } else { 22 }, "lane")
            }),
        );
        for (x, text, width, class) in heads.collect::<Vec<_>>() {
            let (left, top, base) = (x - width / 2, TOP - 22, TOP - 7);
            let _ = write!(frame, r#"<g class="{class}"><path d="M{x} {TOP}V{bottom}"/>"#);
            let _ = write!(
                frame,
                r#"<rect x="{left}" y="{top}" width="{width}" height="22" rx="11"/>"#
            );
            let _ = write!(frame, r#"<text x="{x}" y="{base}">{}</text></g>"#, xml(&text));
            frame.push('\n');
        }
        self.y = bottom + 24;
        self.foot();
        let (width, height) = (self.width, self.y + 12);
        let (title, about) = self.title();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n\
             <desc>{about}</desc>\n<style>{STYLE}</style>\n<rect class=\"paper\" width=\"{width}\" \
             height=\"{height}\"/>\n<text class=\"title\" x=\"24\" y=\"34\">{title}</text>\n<text \
             class=\"about\" x=\"24\" y=\"54\">{about}</text>\n{frame}{}\n{}</svg>\n",
            self.stripes, self.shapes
        )
    }

    fn title(&self) -> (String, String) {
        let head = &self.trace.head;
        let title = match head.command.is_empty() {
            true => shown(head.recorder.as_bytes()),
            false => shown(head.command.join(" ").as_bytes()),
        };
        let title = cut(&title, TITLE_CHARS);
        let ranks: u32 = self.trace.jobs().map(|facts| facts.ranks).fold(0, u32::saturating_add);
        let host = if head.host.is_empty() {
            String::new()
        } else {
            format!(" on {}", shown(head.host.as_bytes()))
        };
        let messages = self.trace.messages().count();
        let last = self.trace.records.last().map_or(0, |record| record.time_ns);
        let during = if self.has_times { format!(" · {}", shown_ns(last)) } else { String::new() };
        (xml(&title), xml(&format!("{ranks} ranks{host} · {messages} messages{during}")))
    }

    /// The legend, and the omissions.
    fn foot(&mut self) {
        let (y, mut x) = (self.y, 24);
        for (class, [width, height], name) in LEGEND {
            let top = y - 4 - height / 2;
            let _ = write!(
                self.shapes,
                r#"<rect class="sign {class}" x="{x}" y="{top}" width="{width}" height="{height}" rx="{}"/>"#,
                if width == height { width / 2 } else { 2 }
            );
            x += width + 8;
            self.text(x, y, "legend", name);
            x += 16 + name.chars().count() * 7;
        }
        let Steps { lanes_left_out, steps_left_out, .. } = self.steps;
        let mut left_out = Vec::new();
        if *steps_left_out > 0 {
            left_out.push(format!("{steps_left_out} more steps are not drawn"));
        }
        if *lanes_left_out > 0 {
            left_out.push(format!("{lanes_left_out} more ranks have no lane"));
        }
        if !left_out.is_empty() {
            self.y += 22;
            self.text(24, self.y, "legend", &left_out.join("; "));
        }
    }
}

/// The text, or as much of it as `chars_max` characters hold.
fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn lane_name(lane: Lane, is_wide: bool) -> String {
    match lane {
        Lane::Rank(_, rank) if is_wide => format!("rank {rank}"),
        Lane::Rank(_, rank) => rank.to_string(),
        Lane::Caller(number) => caller(number),
    }
}

/// The colour of a request: that of its direction, unless it is malformed or unknown.
fn tone(ask: &Ask) -> &'static str {
    if ask.is_good && ask.verb != Verb::Unknown { "up" } else { "fault" }
}

/// The colour of replies: that of their direction, unless one is a refusal.
fn tone_of_replies<'a>(mut replies: impl Iterator<Item = &'a StepReply>) -> &'static str {
    if replies.all(|reply| reply.is_good) { "down" } else { "fault" }
}

/// Full texts of the messages, as tooltips.
fn titles(steps: &Steps, asks: &[Ask]) -> String {
    let line = |ask: &Ask| {
        let who = steps.lanes.get(ask.lane).map(|lane| lane_name(*lane, true)).unwrap_or_default();
        let told =
            ask.answer.as_ref().map(|told| format!("\n  ← {}", told.text)).unwrap_or_default();
        format!("{who} → {} {}{told}", ask.name, ask.text)
    };
    asks.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Text that stays text in XML, which has no words at all for some characters.
fn xml(text: &str) -> String {
    let mut safe = String::new();
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' => safe.push('\n'),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            _ if character.is_control() => safe.push('\u{fffd}'),
            _ => safe.push(character),
        }
    }
    safe
}

/// Positions, in units of the picture.
const TIME: usize = 84;
const SERVER: usize = 128;
/// End of the arrows at the server, whose lane has a width.
const SERVER_EDGE: usize = SERVER + 11;
const FIRST: usize = 470;
const TOP: usize = 104;
const STEP: usize = 26;
const LANES_WIDTH: usize = 780;
const WIDTH_MIN: usize = 720;

/// Largest number of characters between the server and the first rank.
const LABEL_CHARS: usize = 46;
const TITLE_CHARS: usize = 90;

/// The signs and words of the playground's legend (`wasm/www/app/legend.js`): class, size, meaning.
const LEGEND: [(&str, [usize; 2], &str); 5] = [
    ("up", [24, 3], "to the server"),
    ("down", [24, 3], "to the rank"),
    ("wait", [24, 5], "waits for its answer"),
    ("fence", [24, 10], "in the fence"),
    ("fault", [10, 10], "fault or report"),
];

/// Colours, which are those of the playground, and shapes.
const STYLE: &str = concat!(include_str!("palette.css"), include_str!("style.css"));
