// The diagram: the server's lane on top, a lane for each rank below, time from left to right.

import { handshakes } from "./handshake.js";
import { heat } from "./heat.js";
import { who } from "./names.js";
import { firstFrom, sentFrom } from "./search.js";

/// Draws what has happened with a pen. `scene` says what, where, and how far time has come. What is left of
/// the moment stays as it is while time goes on.
export function past(pen, scene) {
  const { geometry } = scene;
  const s = placed(scene);
  ground(pen, s);
  ruler(pen, s);
  pen.within(0, geometry.ruler, Math.max(s.endX + 7, 0), geometry.height - geometry.ruler, () => {
    fences(pen, s);
    lanes(pen, s);
    s.story.calls?.draw(pen, s);
    if (s.isHandshakeFolded) handshakes(pen, s);
    messages(pen, s);
    marks(pen, s);
  });
}

/// Draws the moment over it: what is on its way, and the time.
export function present(pen, scene) {
  const { geometry, colors, width } = scene;
  const s = placed(scene);
  if (s.nowX < -8 || s.nowX > width + 8) return;
  pen.within(s.nowX - 9, geometry.ruler, 18, geometry.height - geometry.ruler, () => {
    // Of very many, each is a square.
    const many = new Map();
    for (let at = sentFrom(s.window, s.now - s.longest); at < s.window.length; at++) {
      const message = s.window[at];
      if (message.sent[1] > s.step) break;
      const flying = flight(s, message);
      if (!flying) continue;
      const isPicked = message === s.hover || message === s.picked;
      const style = { color: tone(message, colors), alpha: Math.max(s.alpha(message.lane, 1), 0.3) };
      if (!s.isHeat || isPicked) {
        pen.dot(...flying, isPicked ? 4.5 : 3.4, { ...style, ring: colors.paper });
        continue;
      }
      const key = `${style.color} ${style.alpha}`;
      if (!many.has(key)) many.set(key, { ...style, boxes: [] });
      many.get(key).boxes.push([flying[0] - 2, flying[1] - 2, 4, 4]);
    }
    for (const { boxes, ...style } of many.values()) pen.boxes(boxes, style);
  });
  pen.line([[s.nowX, geometry.ruler - 6], [s.nowX, geometry.height]], { color: colors.now, width: 1.5, alpha: 0.9 });
  flag(pen, s.nowX, geometry.ruler - 13, s.story.spoken(Math.round(s.now)), s);
}

/// The scene with the places of times.
function placed(scene) {
  const s = { ...scene, x: (ns) => scene.axis.place(ns) * scene.scale - scene.scroll };
  s.nowX = s.x(s.now);
  s.endX = Math.min(s.nowX, scene.width);
  // Times that are seen; whatever ends before or begins after need not be placed.
  [s.from, s.to] = [scene.axis.time((scene.scroll - 60) / scene.scale), scene.axis.time((scene.scroll + scene.width + 60) / scene.scale)];
  return s;
}

/// Where the end of what is on its way is; nothing if it is not.
function flight(s, message) {
  const next = message.parts.at(-1)?.at[1] > s.step && message.parts.find((part) => part.at[1] > s.step);
  if (!next) return null;
  const [y1, y2] = ends(s, message);
  // Straight on paper, where silences are shortened.
  const start = s.x(message.sent[0]);
  const way = Math.min((s.nowX - start) / Math.max(s.x(next.at[0]) - start, 0.1), 1);
  return [s.nowX, y1 + (y2 - y1) * way];
}

function flag(pen, x, y, words, { colors, width }) {
  if (x < 0 || x > width) return;
  const half = 5 + words.length * 3.3;
  const middle = Math.min(Math.max(x, half), Math.max(width - half, half));
  pen.box(middle - half, y - 9, half * 2, 18, { color: colors.now, radius: 9 });
  pen.text(words, middle, y + 0.5, { color: colors.onNow, size: 11, align: "center", weight: 600 });
}

/// True if a lane is in view, or near.
const isSeen = ([top, bottom], y) => y > top - 30 && y < bottom + 30;

function ground(pen, { rows, geometry, width, colors, seen }) {
  const { ys, spacing, server, half } = geometry;
  const isBand = rows.some((other) => other.group !== rows[0].group);
  let start = 0;
  rows.forEach((row, at) => {
    if (at + 1 < rows.length && rows[at + 1].group === row.group) return;
    if (isBand) {
      const pad = Math.min(spacing * 0.5, 30);
      pen.box(0, ys[start] - pad, width, ys[at] - ys[start] + 2 * pad, { color: colors.band });
    }
    start = at + 1;
  });
  pen.box(0, server - half, width, 2 * half, { color: colors.server });
  pen.lines(ys.filter((y) => isSeen(seen, y)).map((y) => [0, y, width, y]), { color: colors.lane, width: 1, alpha: 0.55 });
}

/// Times along the top, as round as they can be, and marks where silence is shortened.
function ruler(pen, s) {
  const { axis, scale, scroll, width, colors, geometry } = s;
  const [left, right] = s.strip ?? [0, width];
  // Beside the flag of the moment no words are cut. While time runs, it moves over them.
  const flagged = s.isStill ? 8 + s.story.spoken(Math.round(s.now)).length * 3.3 : -Infinity;
  for (const [ns, step] of ticksOf(axis, scale, scroll, width)) {
    const at = s.x(ns);
    if (at < left - TICK_PX || at > right + TICK_PX) continue;
    pen.line([[at, geometry.ruler - 4], [at, geometry.height]], { color: colors.grid, width: 1, alpha: 0.8 });
    const words = s.story.spoken(ns, step);
    if (Math.abs(at - s.nowX) < flagged + words.length * 3) continue;
    pen.text(words, Math.max(at, words.length * 3 + 3), geometry.ruler - 13, { color: colors.faint, size: 10.5, align: "center" });
  }
  for (const gap of axis.breaks) {
    const [x1, x2] = [s.x(gap.from), s.x(gap.to)];
    if (x2 < 0 || x1 > width || x2 - x1 < 8) continue;
    const x = (x1 + x2) / 2;
    const y = geometry.ruler + 8;
    pen.line([[x - 5, y + 4], [x - 2, y - 4], [x + 2, y + 4], [x + 5, y - 4]], { color: colors.faint, width: 1.2, alpha: 0.8 });
  }
}

/// The times of the ruler, each with how far the next is away. Those of the last view are kept: most frames show the same.
function ticksOf(axis, scale, scroll, width) {
  const kept = axis.ticks;
  if (kept?.scale === scale && kept.scroll === scroll && kept.width === width) return kept.list;
  const list = [];
  const x = (ns) => axis.place(ns) * scale - scroll;
  const from = axis.time(scroll / scale);
  let last = -Infinity;
  for (let place = 0; place <= width; ) {
    const here = axis.time((scroll + place) / scale);
    const step = nice(axis.time((scroll + place + 90) / scale) - here);
    const ns = Math.ceil((here + (place === 0 ? 0 : step * 0.01)) / step) * step;
    const at = x(ns);
    if (at > width) break;
    if (at - last > 48 && ns >= from) {
      list.push([ns, step]);
      last = at;
    }
    place = Math.max(at + 2, place + 24);
  }
  axis.ticks = { scale, scroll, width, list };
  return list;
}

/// Room of the words at a time, to one side.
const TICK_PX = 50;

function nice(ns) {
  const power = 10 ** Math.floor(Math.log10(Math.max(ns, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= ns) ?? ns;
}

function fences(pen, s) {
  const { story, geometry, colors, step, slots } = s;
  story.fences.forEach((fence, index) => {
    if (fence.from[1] > step || fence.from[0] > s.to || fence.to < s.from) return;
    const inside = fence.inside.filter((visit) => visit.asked[1] <= step);
    const ends = fence.inside.map((visit) => (visit.left && visit.left[1] <= step ? visit.left[0] : s.now));
    const x2 = s.x(Math.max(...ends, inside[0].asked[0]));
    if (x2 < 0 || s.x(inside[0].asked[0]) > s.width) return;
    const freed = fence.freed && fence.freed[1] <= step ? fence.freed[0] : undefined;
    // On each lane: from the question to the answer.
    for (const visit of inside) {
      if (!s.isFirst(visit.lane)) continue;
      const y = s.yOf(visit.lane);
      if (!isSeen(s.seen, y)) continue;
      const tall = Math.min(geometry.spacing * 0.66, 22);
      if (visit.asked[0] > s.to || (visit.left && visit.left[0] < s.from)) continue;
      const from = s.x(visit.asked[0]);
      // Who is gone is not in a fence any more.
      const gone = story.spans[visit.lane].end?.ns ?? Infinity;
      const to = s.x(visit.left && visit.left[1] <= step ? visit.left[0] : Math.min(s.now, gone));
      pen.box(from, y - tall / 2, Math.max(to - from, 3), tall, {
        color: colors.fence, alpha: s.alpha(visit.lane, 0.22), radius: tall / 2,
      });
    }
    if (freed !== undefined) {
      const x = s.x(freed);
      const low = Math.max(...inside.map((visit) => s.yOf(visit.lane)));
      pen.line([[x, geometry.server + geometry.half], [x, low]], { color: colors.fence, width: 1.5, alpha: 0.55, dash: [2, 4] });
    }
    filling(pen, s, fence, slots[index], freed);
  });
}

/// The bar on the server's lane, which is full when all ranks have entered.
function filling(pen, s, fence, { slot, of }, freed) {
  const { geometry, colors } = s;
  const came = entered(fence, s.step);
  if (!came.length) return;
  const tall = (2 * geometry.half) / of;
  const low = geometry.server - geometry.half + tall * (slot + 1);
  const members = fence.members || fence.inside.length;
  const end = s.x(freed ?? s.now);
  const start = s.x(came[0][0]);
  pen.box(start, low - tall, Math.max(end - start, 4), tall, { color: colors.fence, alpha: 0.22, radius: 3 });
  const points = [[start, low]];
  came.forEach(([ns], at) => {
    const x = s.x(ns);
    points.push([x, low - (tall * at) / members], [x, low - (tall * (at + 1)) / members]);
  });
  points.push([Math.max(end, points.at(-1)[0] + 4), points.at(-1)[1]], [Math.max(end, points.at(-1)[0] + 4), low]);
  pen.area(points, { color: colors.fence, alpha: 0.85 });
  if (freed !== undefined && of === 1) title(pen, s, start, end, named(fence));
}

/// The entries into a fence up to a step, in order.
const entered = ({ came }, step) => came.slice(0, firstFrom(came, step + 1, ([, step]) => step));

function named(fence) {
  return fence.group === "job" ? "fence" : `fence ${fence.group}`;
}

function title(pen, { geometry, colors }, start, end, words) {
  if (end - Math.max(start, 0) < 8 + words.length * 6) return;
  pen.text(words, Math.max(start, 4) + 6, geometry.server + 0.5, { color: colors.ink, size: 10.5, weight: 600, halo: colors.fenceHalo });
}

/// What is said of fences that are still closed: where they begin, how many have come, and the title with that.
export function titles({ story, slots, step }) {
  const found = [];
  story.fences.forEach((fence, index) => {
    if (slots[index].of > 1 || fence.from[1] > step || (fence.freed && fence.freed[1] <= step)) return;
    const came = entered(fence, step);
    if (came.length) found.push([came[0][0], `${named(fence)} ${came.length} of ${fence.members || fence.inside.length}`]);
  });
  return found;
}

/// Draws these titles, as far as there is room.
export function fenceTitles(pen, scene) {
  const s = placed(scene);
  for (const [from, words] of titles(scene)) title(pen, s, s.x(from), s.endX, words);
}

function lanes(pen, s) {
  const { story, geometry, colors } = s;
  const thin = geometry.spacing < 14;
  const [lives, waits] = [new Map(), new Map()];
  const add = (batches, alpha, segment) => batches.get(alpha)?.push(segment) ?? batches.set(alpha, [segment]);
  eachLane(s, (span, y, alpha, from, to) => {
    add(lives, alpha, [from, y, Math.max(to, from), y]);
    for (const wait of span.waits) {
      if (wait.from > s.to || wait.from > s.now) break;
      if ((wait.to ?? s.now) < s.from) continue;
      const [x1, x2] = [s.x(wait.from), s.x(Math.min(wait.to ?? s.now, span.end?.ns ?? s.now, s.now))];
      if (x2 > 0 && x1 < s.width && x2 > x1) add(waits, alpha * 0.5, [x1, y, x2, y]);
    }
  });
  for (const [alpha, segments] of lives) pen.lines(segments, { color: colors.life, width: thin ? 1 : 1.6, alpha });
  for (const [alpha, segments] of waits) pen.lines(segments, { color: colors.wait, width: thin ? 2.5 : 5, alpha });
  eachLane(s, (span, y, alpha, _, to) => {
    for (const { from, to: until, how } of span.life) {
      const [x1, x2] = [s.x(from), s.x(Math.min(until ?? s.now, span.end?.ns ?? s.now, s.now))];
      if (x2 < 0 || x1 > s.width || from > s.now) continue;
      pen.line([[x1, y], [x2, y]], { color: colors.paper, width: 4, cap: "butt" });
      pen.line([[x1, y], [x2, y]], { color: colors.fault, width: 2, dash: [1, 5], alpha });
      if (!thin) pen.text(how, x1 + 5, y - 11, { color: colors.fault, size: 10.5, halo: colors.paper });
    }
    const end = span.end && span.end.ns <= s.now && span.end;
    if (end && end.text === "exit 0") pen.line([[to, y - 4], [to, y + 4]], { color: colors.life, width: 2, alpha });
    else if (end) cross(pen, to, y, thin ? 3 : 5, { color: colors.fault, width: 2, alpha });
  });
}

/// Calls `draw` for each lane in view: its span, its place, how visible it is, its start, and its end or the moment.
function eachLane(s, draw) {
  const { story } = s;
  story.spans.forEach((span, lane) => {
    // Of ranks that share a row, the first stands for all but those that end in trouble.
    if (!s.isFirst(lane) && (!span.end || span.end.text === "exit 0")) return;
    const y = s.yOf(lane);
    if (!isSeen(s.seen, y)) return;
    const alpha = s.alpha(lane, 1);
    const from = s.x(span.start ?? 0);
    const to = s.x(Math.min(span.end?.ns ?? s.now, s.now));
    if (span.start != null || story.recorded) draw(span, y, alpha, from, to);
  });
}

function cross(pen, x, y, r, style) {
  pen.line([[x - r, y - r], [x + r, y + r]], style);
  pen.line([[x - r, y + r], [x + r, y - r]], style);
}

/// The ends of the line of a message.
export function ends(s, message) {
  const lane = s.yOf(message.lane);
  // In a tree, the upper end may be another lane.
  const server = message.peer == null ? s.geometry.server + s.geometry.half : s.yOf(message.peer);
  return message.up ? [lane, server] : [server, lane];
}

function messages(pen, all) {
  const lit = [all.hover, all.picked];
  // Of too many to tell apart, only those that are pointed at or picked are arrows.
  const s = all.isHeat ? { ...all, window: [...new Set(lit)].filter((one) => one?.sent && all.window.includes(one)) } : all;
  if (all.isHeat) heat(pen, all);
  const { colors, step, geometry } = s;
  const isDense = s.window.length > 260 || geometry.spacing < 20;
  const width = isDense ? 1 : 1.5;
  // The more there are, the lighter each.
  const dense = Math.min(Math.max(260 / s.window.length, 0.26), 0.55);
  const batches = new Map();
  const special = [];
  const labels = [];
  for (const message of s.window) {
    if (message.sent[1] > step) break;
    const [y1, y2] = ends(s, message);
    const x1 = s.x(message.sent[0]);
    const color = tone(message, colors);
    const alpha = s.alpha(message.lane, isDense ? dense : 0.85);
    const isPicked = message === s.hover || message === s.picked;
    const landed = message.arrived && message.arrived[1] <= step;
    if (!isPicked && landed && message.parts.length === 1 && !message.raw) {
      const x2 = s.x(message.arrived[0]);
      const key = `${color} ${alpha}`;
      if (!batches.has(key)) batches.set(key, { color, alpha, width, segments: [] });
      batches.get(key).segments.push([x1, y1, x2, y2]);
      if (!isDense) head(pen, x1, y1, x2, y2, { color, alpha });
    } else special.push({ message, x1, y1, y2, color, alpha, isPicked });
    if (!isDense || isPicked) labels.push({ message, x1, y1, color, alpha, isPicked });
  }
  for (const { segments, ...style } of batches.values()) pen.lines(segments, style);
  special.forEach((one) => torn(pen, s, one, width));
  if (geometry.spacing >= 30 || labels.some((label) => label.isPicked)) captions(pen, s, labels);
}

/// The colour of a message: by its direction, unless it is a refusal.
export function tone(message, colors) {
  if (message.raw || message.isRefused) return colors.fault;
  return message.up ? colors.up : colors.down;
}

/// A message that arrives in pieces, is on its way, is picked, or was made by no client.
function torn(pen, s, { message, x1, y1, y2, color, alpha, isPicked }, width) {
  const style = { color, alpha: isPicked ? 1 : alpha, width: isPicked ? 2.6 : width, dash: message.raw ? [5, 4] : undefined };
  const landed = message.parts.filter((part) => part.at[1] <= s.step);
  if (isPicked) {
    const last = landed.at(-1);
    if (last) pen.line([[x1, y1], [s.x(last.at[0]), y2]], { color, width: 9, alpha: 0.16 });
  }
  if (landed.length > 2) {
    const [first, last] = [s.x(landed[0].at[0]), s.x(landed.at(-1).at[0])];
    pen.area([[x1, y1], [first, y2], [last, y2]], { color, alpha: alpha * 0.18 });
    pen.line([[first, y2], [last, y2]], { ...style, width: 2.5 });
  }
  for (const part of [landed[0], landed.length > 1 && landed.at(-1)]) {
    if (!part) continue;
    const x2 = s.x(part.at[0]);
    pen.line([[x1, y1], [x2, y2]], style);
    head(pen, x1, y1, x2, y2, style);
  }
  const flying = flight(s, message);
  if (flying) pen.line([[x1, y1], flying], style);
  else if (!message.arrived && !landed.length) {
    // It never arrives: as far as half of the way, and there it is lost.
    const x2 = x1 + Math.min(Math.abs(y2 - y1) * 0.3, 26);
    pen.line([[x1, y1], [x2, (y1 + y2) / 2]], { ...style, dash: [3, 4] });
    cross(pen, x2, (y1 + y2) / 2, 3.5, { color: s.colors.fault, width: 1.8 });
  }
}

function head(pen, x1, y1, x2, y2, { color, alpha }) {
  const angle = Math.atan2(y2 - y1, x2 - x1);
  const point = (turn) => [x2 - 6.5 * Math.cos(angle + turn), y2 - 6.5 * Math.sin(angle + turn)];
  pen.area([[x2, y2], point(0.36), point(-0.36)], { color, alpha });
}

/// What messages say, where there is room for it.
function captions(pen, s, labels) {
  const taken = new Map();
  for (const { message, x1, y1, color, alpha, isPicked } of [...labels].sort((a, b) => b.isPicked - a.isPicked)) {
    const words = message.label.length > 26 ? `${message.label.slice(0, 25)}…` : message.label;
    // A line that leaves downward would cross what stands below it.
    const place = message.up ? [x1 + 4, y1 + 12] : [x1 + 4, y1 + 10];
    if (!message.up && !isPicked) continue;
    const length = words.length * 5.6 + 10;
    const row = `${message.up} ${place[1]}`;
    const others = taken.get(row) ?? [];
    if (!isPicked && overlaps(others, x1, x1 + length)) continue;
    taken.set(row, [...others, [x1, x1 + length]]);
    pen.text(words, ...place, { color, size: 10.5, alpha: Math.min(alpha + 0.1, 1), weight: isPicked ? 700 : 500, halo: s.colors.paper });
  }
}

/// True if one of these stretches of a row is between the two places.
const overlaps = (others, left, right) => others.some(([from, to]) => left < to && right > from);

/// Faults, reports and broken rules.
function marks(pen, s) {
  const { story, geometry, colors, step } = s;
  let free = -Infinity;
  // On each row, where words stand already.
  const taken = new Map();
  for (const event of story.marks) {
    if (event.at[1] > step) break;
    const x = s.x(event.at[0]);
    if (x < -40 || x > s.width + 40) continue;
    const isPicked = event === s.hover || event === s.picked;
    if (ON_LANE.has(event.kind)) {
      const y = s.yOf(event.lane);
      pen.dot(x, y, isPicked ? 7 : 5, { color: colors.fault, ring: colors.paper });
      const all = event.text.split(" ").slice(2).join(" ").replace(/^fault /, "");
      const words = all.length > 44 && !isPicked ? `${all.slice(0, 43)}…` : all;
      const row = s.rowOf[event.lane];
      if (!taken.has(row)) taken.set(row, story.spans[event.lane].life.map(({ from, how }) => [s.x(from), s.x(from) + how.length * 6]));
      const others = taken.get(row);
      const end = x + 9 + words.length * 5.8;
      if (!isPicked && overlaps(others, x + 9, end)) continue;
      others.push([x + 9, end]);
      if (geometry.spacing >= 18) pen.text(words, x + 9, y - 10, { color: colors.fault, size: 10.5, weight: 600, halo: colors.paper });
    } else {
      const y = geometry.server - geometry.half - 10;
      const words = event.kind === "rule" ? "rule" : event.lane == null ? "report" : who(story, event.lane);
      const width = words.length * 6 + 12;
      pen.line([[x, y], [x, geometry.server]], { color: colors.fault, width: 1.6 });
      if (x >= free || isPicked) {
        pen.box(x, y - 8, width, 16, { color: colors.fault, radius: 4, alpha: isPicked ? 1 : 0.94 });
        pen.text(words, x + 6, y + 0.5, { color: colors.onFault, size: 10.5, weight: 600 });
        free = x + width + 3;
      }
    }
  }
}

/// Those that are drawn on the lane of their rank; the others on the server's.
export const ON_LANE = new Set(["fault", "error"]);

/// For each fence, which part of the server's lane is its own: those that overlap share it.
export function slots(fences) {
  const times = fences.map(({ inside }) => {
    const came = inside.flatMap((visit) => [visit.came?.[0], visit.freed?.[0]]).filter((ns) => ns !== undefined);
    const open = inside.some((visit) => !visit.freed);
    return came.length ? [Math.min(...came), open ? Infinity : Math.max(...came)] : [Infinity, Infinity];
  });
  const slots = fences.map(() => 0);
  times.forEach(([from], at) => {
    const taken = times.slice(0, at).map(([a, b], other) => (a <= from && b > from ? slots[other] : -1));
    while (taken.includes(slots[at])) slots[at] += 1;
  });
  return fences.map((_, at) => {
    const [from, to] = times[at];
    const beside = slots.filter((_, other) => times[other][0] < to && times[other][1] > from);
    return { slot: slots[at], of: Math.min(Math.max(...beside, slots[at]) + 1, 6) };
  });
}
