// Calls of recordings: from each request to its reply, as bars on the lanes.

import { SPOKEN } from "../app/messages.js";

/// For each request when it was sent and answered (`Infinity`: never) and the number of its name, as columns: lane after lane, those
/// of each in the order of time. `starts` has the first of each lane, `until` the latest reply to a request and those before it.
/// `numbers` are those of all messages. Of the requests of a lane with one name, the first is answered first.
export function paired(numbers) {
  let lanes = 0;
  for (let at = 0; at < numbers.length; at += NUMBERS) lanes = Math.max(lanes, numbers[at] + 1);
  const starts = new Uint32Array(lanes + 1);
  for (let at = 0; at < numbers.length; at += NUMBERS) if ((numbers[at + 1] & (UP | RAW)) === UP) starts[numbers[at] + 1] += 1;
  for (let lane = 0; lane < lanes; lane++) starts[lane + 1] += starts[lane];
  const next = starts.slice();
  const count = starts[lanes];
  const [from, to, until] = [new Float64Array(count), new Float64Array(count).fill(Infinity), new Float64Array(count)];
  const [names, followers] = [new Uint32Array(count), new Uint32Array(count)];
  // Of each lane and name, the first and the last request without a reply. In between, each knows the one after it.
  const open = new Map();
  for (let at = 0; at < numbers.length; at += NUMBERS) {
    const [lane, flags, ns, name] = [numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 6]];
    if (flags & RAW) continue;
    const key = name * lanes + lane;
    const pending = open.get(key);
    if (flags & UP) {
      const call = next[lane]++;
      from[call] = ns;
      names[call] = name;
      if (pending) pending.last = followers[pending.last] = call;
      else open.set(key, { first: call, last: call });
    } else if (pending) {
      to[pending.first] = ns;
      if (pending.first === pending.last) open.delete(key);
      else pending.first = followers[pending.first];
    }
  }
  for (let lane = 0; lane < lanes; lane++) {
    for (let call = starts[lane], last = 0; call < starts[lane + 1]; call++) until[call] = last = Math.max(last, to[call]);
  }
  return { starts, from, to, until, names };
}

/// The calls of a story. Those without a known name are not drawn.
export class Calls {
  #drawn = null;

  constructor({ starts, from, to, until, names }, story) {
    Object.assign(this, { starts, from, to, until, names });
    this.words = story.names.map((name) => SPOKEN[name] ?? name);
    this.ends = story.spans.map(({ end }) => end?.ns ?? Infinity);
  }

  /// Draws them up to the moment. Where strips stand for messages, they would fill the lanes.
  draw(pen, s) {
    if (s.isHeat) return;
    const { geometry: { ys, spacing }, seen: [top, bottom] } = s;
    const [left, right] = s.strip ?? [0, s.width];
    const last = Math.min(right, s.nowX);
    const tall = spacing < 14 ? 2.5 : 5;
    const { bars, names } = this.#inWindow(s);
    const isSeen = ({ row, x1, x2 }) => x1 < last && x2 > left && ys[row] > top - 30 && ys[row] < bottom + 30;
    const batches = new Map();
    for (const bar of bars) {
      if (!isSeen(bar)) continue;
      const alpha = s.alpha(s.rows[bar.row].lanes[0], 0.5);
      if (!batches.has(alpha)) batches.set(alpha, []);
      batches.get(alpha).push([bar.x1, ys[bar.row] - tall / 2, Math.min(bar.x2, s.nowX) - bar.x1, tall]);
    }
    for (const [alpha, boxes] of batches) pen.boxes(boxes, { color: s.colors.wait, alpha });
    if (spacing < 30) return;
    for (const name of names) {
      if (!isSeen(name)) continue;
      const alpha = s.alpha(s.rows[name.row].lanes[0], 1);
      pen.text(name.words, 6, ys[name.row] - 9, { color: s.colors.up, size: 10.5, alpha, weight: 500, halo: s.colors.paper });
    }
  }

  /// The bars of what is seen, and the names of calls whose requests, with their captions, are left of it: all kept until something
  /// else is seen.
  #inWindow(s) {
    const window = [s.axis, s.scale, s.scroll, s.width, s.rows];
    if (this.#drawn?.window.every((one, at) => one === window[at])) return this.#drawn;
    const [bars, names] = [[], []];
    s.rows.forEach(({ lanes: [lane] }, row) => this.#inRow(s, lane, row, bars, names));
    return (this.#drawn = { window, bars, names });
  }

  /// Adds those of a lane. Bars between which nothing would be seen are one, and of several names the latest is written.
  #inRow(s, lane, row, bars, names) {
    const end = this.starts[lane + 1] ?? 0;
    let [last, name] = [null, null];
    for (let call = this.#firstUntil(s.from, this.starts[lane], end); call < end && this.from[call] <= s.to; call++) {
      const words = this.words[this.names[call]];
      if (!words || this.to[call] < s.from) continue;
      const to = Math.min(this.to[call], this.ends[lane]);
      const x1 = this.from[call] < s.from ? -EDGE_PX : s.x(this.from[call]);
      const x2 = to < s.to ? s.x(to) : s.width + EDGE_PX;
      if (x2 <= x1) continue;
      if (last && x1 < last.x2 + 1) last.x2 = Math.max(last.x2, x2);
      else bars.push((last = { row, x1, x2 }));
      if (x1 < 0 && x2 > words.length * 6 + 12) name = { row, words, x1, x2 };
    }
    if (name) names.push(name);
  }

  /// The first call of a range that may reach a time.
  #firstUntil(ns, low, high) {
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.until[middle] < ns) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/// Numbers of a message, and flags among them.
const [NUMBERS, UP, RAW] = [8, 1, 2];

/// So far a bar goes on outside of what is seen.
const EDGE_PX = 60;
