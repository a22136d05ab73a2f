// Time on paper: even where much happens, and long silences shortened, with a mark where they are.

import { sentAt } from "./messages.js";

/// From nanoseconds to units of length and back. All runs that are compared share one.
export class Axis {
  #sent = new WeakMap();

  /// With `isHandshakeFolded`, moments before the end of handshakes need no room.
  constructor(stories, isHandshakeFolded = false) {
    const all = new Set([0]);
    const from = isHandshakeFolded ? Math.min(...stories.map((story) => story.main)) : 0;
    const isKept = ({ ns }) => ns >= from || from === Infinity;
    for (const story of stories) for (const moment of story.moments) if (isKept(moment)) all.add(moment.ns);
    const times = Float64Array.from(all).sort();
    const gaps = times.slice(1).map((time, at) => time - times[at]).sort();
    const usual = gaps[gaps.length >> 1] ?? 1;
    const most = Math.max(usual * 8, 1);
    this.times = times;
    this.places = new Float64Array(times.length);
    this.breaks = [];
    for (let at = 1; at < times.length; at++) {
      const gap = times[at] - times[at - 1];
      const width = gap <= most ? gap : most * (1 + 0.15 * Math.log2(gap / most));
      if (gap > most * 1.5) this.breaks.push({ from: times[at - 1], to: times[at] });
      this.places[at] = this.places[at - 1] + width;
    }
    this.length = Math.max(this.places.at(-1), 1);
    // A step of the simulator is drawn about this long.
    this.usual = Math.max(this.length / Math.max(times.length, 12), 1);
  }

  /// Where a time is.
  place(ns) {
    return between(this.times, this.places, ns);
  }

  /// Where the messages of a story are sent.
  sentPlaces(story) {
    let places = this.#sent.get(story);
    if (!places) {
      places = new Float64Array(story.columns.count);
      for (let index = 0; index < places.length; index++) places[index] = this.place(sentAt(story.columns, index));
      this.#sent.set(story, places);
    }
    return places;
  }

  /// Which time is at a place.
  time(place) {
    return between(this.places, this.times, place);
  }
}

function between(from, to, value) {
  if (value <= 0) return 0;
  let [low, high] = [0, from.length - 1];
  if (value >= from[high]) return to[high] + (value - from[high]);
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (from[middle] <= value) low = middle;
    else high = middle;
  }
  return to[low] + ((value - from[low]) / (from[high] - from[low])) * (to[high] - to[low]);
}

/// A time as people read it; exact enough to tell it from one that is `apart` away.
export function spoken(ns, apart = ns / 100) {
  if (ns === 0) return "0";
  const [unit, word] = UNITS.find(([unit]) => ns >= unit);
  const digits = Math.min(Math.max(Math.ceil(-Math.log10(Math.max(apart, 1) / unit) - 0.001), 0), 9);
  return `${Number((ns / unit).toFixed(digits))} ${word}`;
}

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
