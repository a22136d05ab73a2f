// Many messages at once: instead of an arrow each, how many begin in each row and stretch of time, by direction.

import { firstFrom, sentFrom } from "./search.js";

/// More visible messages than this are not legible as arrows.
export const ARROWS_MAX = 400;

/// Draws the messages of `s.window` as strips above (to the server) and below (to the rank) each lane. Only
/// stretches between the pixels of `s.strip` are drawn.
export function heat(pen, s) {
  const [left, right] = s.strip ?? [0, s.width];
  const first = Math.floor(Math.max(left, 0) / WIDE) - 1;
  const columns = Math.ceil((Math.min(right, s.width) - first * WIDE) / WIDE) + 1;
  if (columns <= 0) return;
  const { window, step, seen: [top, bottom], geometry: { ys } } = s;
  const [low, high] = [top - 30, bottom + 30].map((y) => firstFrom(ys, y, (y) => y));
  const counts = [new Uint32Array(columns * (high - low)), new Uint32Array(columns * (high - low))];
  const bad = new Set();
  const places = s.axis.sentPlaces(s.story);
  for (let at = sentFrom(window, s.axis.time((s.scroll + first * WIDE) / s.scale)); at < window.length; at++) {
    const message = window[at];
    if (message.sent[1] > step) break;
    const column = Math.floor((places[message.index] * s.scale - s.scroll) / WIDE) - first;
    if (column < 0) continue;
    if (column >= columns) break;
    const row = s.rowOf[message.lane];
    if (row < low || row >= high) continue;
    const place = (row - low) * columns + column;
    counts[Number(message.up)][place] += 1;
    if (message.raw || message.isRefused) bad.add(place);
  }
  // The scale does not change while time runs: it follows the number of ranks in a row.
  const full = Math.max(s.rows[0].lanes.length, 2);
  const tall = Math.min(s.geometry.spacing * 0.46, 16);
  const batches = new Map();
  counts.forEach((list, up) => {
    const usual = up ? s.colors.up : s.colors.down;
    for (let place = 0; place < list.length; place++) {
      if (!list[place]) continue;
      const row = low + Math.floor(place / columns);
      const x = (first + (place % columns)) * WIDE;
      const y = ys[row];
      const share = Math.min(Math.log1p(list[place]) / Math.log1p(full * 2), 1);
      const alpha = s.alpha(s.rows[row].lanes[0], 0.25 + 0.65 * share);
      const color = bad.has(place) ? s.colors.fault : usual;
      const key = `${color} ${alpha}`;
      if (!batches.has(key)) batches.set(key, { color, alpha, boxes: [] });
      batches.get(key).boxes.push([x, up ? y - tall : y, WIDE, tall]);
    }
  });
  for (const { boxes, ...style } of batches.values()) pen.boxes(boxes, style);
}

/// Width of a stretch, in pixels.
const WIDE = 3;
