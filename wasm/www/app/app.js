// State that all parts of the page share: the runs, the moment, the selection. Parts are notified of changes.

import { Axis } from "./axis.js";
import { gap, Pane } from "./pane.js";
import { firstFrom, sentFrom, sentUpTo } from "./search.js";
import { KINDS } from "./transport.js";

export class App {
  panes = [];
  gaps = [];
  active = null;
  now = 0;
  step = 0;
  isPlaying = false;
  /// What moves time and zoom, if it is not a person.
  film = null;
  speed = 1;
  scale = 1;
  scroll = 0;
  width = 1;
  /// How much larger the diagrams are drawn.
  magnification = 1;
  isFolded = false;
  /// What is shown of the runs: `lanes`, `ring` or `dialects`.
  view = "lanes";
  /// True if the handshake of each rank is drawn as one bar.
  isHandshakeFolded = false;
  picked = null;
  /// The message or mark that a caption is about, on a stage.
  spotlight = null;
  colors = {};
  #followed = null;
  #chosen = 0;
  #isDirty = false;
  #last = 0;
  #views = [];
  #due = [];
  #frames = [];
  #notified = 0;

  /// `stage` is where the diagrams stand.
  constructor(stage) {
    this.stage = stage;
    const frame = (time) => {
      if (this.isClosed) return;
      requestAnimationFrame(frame);
      this.onFrame?.(time);
      this.tick(time);
    };
    requestAnimationFrame(frame);
  }

  /// Ends all motion, for good.
  end() {
    this.isClosed = true;
  }

  /// Calls `view` whenever something has changed, at most once a frame, and less often while time runs.
  onChange(view) {
    this.#views.push(view);
  }

  /// Something has changed and is drawn with the next frame.
  changed() {
    this.#isDirty = true;
  }

  /// Shows these runs, each `[run, title]`, and nothing else. In the place of a run may stand what is missing
  /// for it.
  show(runs, at = {}) {
    this.film?.end();
    this.isPlaying = false;
    this.picked = null;
    this.#followed = null;
    this.#chosen = 0;
    this.panes = runs.filter(([run]) => !run.lacks).map(([run, title]) => new Pane(this, run, title));
    this.gaps = runs.filter(([run]) => run.lacks).map(([run, title]) => gap(run.lacks, title));
    this.active = this.panes[0];
    this.lay();
    this.measure();
    this.fit();
    if (at.step == null) this.seekIndex(0);
    else this.seekStep(at.step);
  }

  /// All that happens, with the start of it in view.
  survey() {
    this.seekIndex(Infinity);
    this.scroll = 0;
    this.pan(0);
    this.seeMessages();
  }

  /// The last moment, and what led there.
  followEnd() {
    this.seekIndex(Infinity);
    this.seeMessages();
  }

  /// Shows all of it where hardly a message is in view: a thousand processes start, and end, for many screens without one.
  seeMessages() {
    const [from, to] = [0, this.width].map((x) => this.axis.time((this.scroll + x) / this.scale));
    const isSeen = ({ story: { messages } }) => sentFrom(messages, to) - sentFrom(messages, from) >= Math.min(messages.length, FEW);
    if (!this.panes.some(isSeen)) this.fit(true);
  }

  /// Puts another run beside the others.
  add(run, title) {
    this.panes.push(new Pane(this, run, title));
    this.lay();
    this.measure();
  }

  close(pane) {
    if (this.panes.length === 1) return;
    this.panes = this.panes.filter((other) => other !== pane);
    if (this.active === pane) {
      this.activate(this.panes[0]);
      this.picked = null;
    }
    this.lay();
    this.measure();
  }

  activate(pane) {
    if (this.active === pane || !this.panes.includes(pane)) return;
    this.active = pane;
    this.picked = null;
    this.step = this.stepAt(pane, this.now);
    this.changed();
  }

  lay() {
    this.stage.replaceChildren(...this.panes.map((pane) => pane.element), ...this.gaps);
    this.stage.classList.toggle("many", this.panes.length > 1);
    this.changed();
  }

  /// Reads anew what happened in the active run, after something was done to it.
  reread() {
    this.film?.end();
    const { step } = this;
    this.active.show(this.active.run);
    this.picked = null;
    this.measure();
    this.seekStep(step);
  }

  measure() {
    this.axis = new Axis(this.panes.map((pane) => pane.story), this.isHandshakeFolded);
    this.changed();
  }

  // Time.

  /// The step that a run has reached at this moment.
  stepOf(pane) {
    return pane === this.active ? this.step : this.stepAt(pane, this.now);
  }

  stepAt(pane, ns) {
    const { moments } = pane.story;
    let [low, high] = [0, moments.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (moments[middle].ns <= ns) low = middle + 1;
      else high = middle;
    }
    return moments[Math.max(low - 1, 0)].step;
  }

  /// The place among the moments of the active run.
  get index() {
    return firstFrom(this.active.story.moments, this.step + 1, ({ step }) => step) - 1;
  }

  /// The time, if it is between two moments.
  get between() {
    const now = Math.round(this.now);
    return now === this.active.story.moments[this.index].ns ? null : now;
  }

  seekIndex(index) {
    const { moments } = this.active.story;
    const moment = moments[Math.min(Math.max(index, 0), moments.length - 1)];
    // Beside a run that ends earlier, another may go on.
    this.seek(index === Infinity ? this.axis.times.at(-1) : moment.ns, moment.step);
  }

  seekStep(step) {
    const { moments } = this.active.story;
    const last = moments[Math.max(firstFrom(moments, step + 1, (moment) => moment.step) - 1, 0)];
    this.seek(last.ns, Math.max(step, last.step));
  }

  seekPlace(place) {
    const ns = this.axis.time(Math.min(Math.max(place, 0), this.axis.length));
    this.isPlaying = false;
    this.seek(ns, this.stepAt(this.active, ns));
  }

  seek(ns, step) {
    this.now = ns;
    this.step = step;
    this.reveal();
    this.changed();
  }

  stepBy(count) {
    this.isPlaying = false;
    this.seekIndex(this.index + count);
  }

  /// Goes to the next moment of a kind, or the one before.
  jump(kind, way) {
    const [, , find] = KINDS.find(([word]) => word === kind);
    const steps = find(this.active.story).map(([, step]) => step).sort((a, b) => a - b);
    const next = way > 0 ? steps.find((step) => step > this.step) : steps.findLast((step) => step < this.step);
    this.isPlaying = false;
    if (next === undefined) return false;
    this.seekStep(next);
    return true;
  }

  toggle() {
    if (this.isPlaying) return this.pause();
    if (!this.film && this.axis.place(this.now) >= this.axis.length) this.seekIndex(0);
    this.play();
  }

  play() {
    this.#frames = [];
    this.isPlaying = true;
    this.changed();
  }

  /// Frames a second since time began to run, and the longest frame in milliseconds.
  pace() {
    const frames = this.#frames.slice(1);
    const all = frames.reduce((sum, frame) => sum + frame, 0);
    return { rate: (frames.length / all) * 1000, worst: Math.max(...frames) };
  }

  pause() {
    this.isPlaying = false;
    this.changed();
  }

  tick(time) {
    if (this.isPlaying) this.#frames.push(time - this.#last);
    const passed = Math.min(time - this.#last, 100);
    this.#last = time;
    if (this.isPlaying && this.film) {
      this.film.advance(passed * this.speed);
      this.changed();
    } else if (this.isPlaying) this.advance(passed);
    if (!this.#isDirty || !this.axis) return;
    this.#isDirty = false;
    // A pane that is new has no width before its first layout.
    this.width = this.panes[0]?.width ?? this.width;
    if (this.view === "lanes") for (const pane of this.panes) pane.draw();
    this.drawView?.();
    if (this.isPlaying) return this.notify(time);
    this.#due = [];
    for (const view of this.#views) view();
  }

  /// While time runs, texts are not updated with every frame, and a frame updates one part of the page.
  notify(time) {
    if (!this.#due.length && time - this.#notified >= UPDATE_MS) {
      this.#due = [...this.#views];
      this.#notified = time;
    }
    this.#due.shift()?.();
    this.changed();
  }

  advance(passed) {
    const place = this.axis.place(this.now) + (passed / 1000) * this.speed * (PACE_PX / this.scale);
    if (place >= this.axis.length) {
      this.isPlaying = false;
      this.seekIndex(Infinity);
      return;
    }
    // Who wants no motion is shown one moment after the other instead.
    this.rested = still.matches ? (this.rested ?? 0) + passed * this.speed : REST_MS;
    if (this.rested < REST_MS) return;
    this.rested = 0;
    if (still.matches) return this.seekIndex(this.index + 1);
    const ns = this.axis.time(place);
    this.seek(ns, this.stepAt(this.active, ns));
  }

  // Space.

  zoom(factor, x = this.axis.place(this.now) * this.scale - this.scroll) {
    const place = (this.scroll + x) / this.scale;
    const least = (this.width - MARGIN_PX) / this.axis.length;
    this.scale = Math.min(Math.max(this.scale * factor, Math.min(least, this.scale)), 60 / this.axis.usual);
    this.scroll = place * this.scale - x;
    this.pan(0);
  }

  pan(by) {
    const most = Math.max(this.axis.length * this.scale - this.width + MARGIN_PX, 0);
    this.scroll = Math.min(Math.max(this.scroll + by, 0), most);
    this.changed();
  }

  /// As much as is legible; all of it if that is little.
  fit(isAll = false) {
    this.width = this.panes[0].field.clientWidth / this.magnification || this.width;
    const whole = (this.width - MARGIN_PX) / this.axis.length;
    // An arrow has a slope that can be seen, and steps stand apart.
    const flight = Math.max(...this.panes.map((pane) => pane.flight));
    this.usualScale = Math.max(whole, Math.min(9 / this.axis.usual, 48 / this.axis.place(flight)));
    this.scale = isAll ? whole : this.usualScale;
    this.scroll = 0;
    this.pan(0);
    this.reveal();
  }

  /// How far it is zoomed, against all that is legible at once; nothing if that is what is shown.
  get zoomed() {
    const zoom = this.scale / this.usualScale;
    return Math.abs(zoom - 1) < 0.01 ? null : zoom.toFixed(3);
  }

  zoomTo(zoom) {
    if (zoom > 0) this.zoom((this.usualScale * zoom) / this.scale);
  }

  /// Lets the moment be seen.
  reveal() {
    const x = this.axis.place(this.now) * this.scale - this.scroll;
    // Where very much is drawn, pages are turned; elsewhere the paper moves.
    if (x > this.width * 0.85 && this.isPlaying && this.active.isDense) this.scroll += x - this.width * 0.15;
    else if (x > this.width * 0.8 && !(this.isPlaying && this.active.isDense)) this.scroll += x - this.width * 0.8;
    else if (x < 0) this.scroll += x - this.width * 0.2;
    this.pan(0);
  }

  /// Draws everything larger, for a stage.
  magnify(magnification) {
    if (this.magnification === magnification) return;
    this.magnification = magnification;
    if (!this.axis) return;
    for (const pane of this.panes) pane.resize();
    this.fit();
  }

  fold(isFolded) {
    this.isFolded = isFolded;
    for (const pane of this.panes) pane.fold();
    this.changed();
  }

  foldHandshake(isFolded) {
    this.isHandshakeFolded = isFolded;
    this.measure();
    this.fit();
  }

  // What is looked at.

  followed(pane) {
    const lane = this.#followed;
    return lane != null && lane < pane.story.lanes.length ? lane : null;
  }

  /// Follows a rank; lets go of it if it was followed already.
  follow(pane, lane, keeps = false) {
    this.activate(pane);
    this.#followed = !keeps && this.#followed === lane ? null : lane;
    if (lane != null) this.#chosen = lane;
    this.changed();
  }

  /// The rank that the panel is about.
  get chosen() {
    return Math.min(this.#chosen, this.active.story.lanes.length - 1);
  }

  choose(lane) {
    this.#chosen = lane;
    this.changed();
  }

  pick(one, pane) {
    this.activate(pane);
    this.picked = one === this.picked ? null : one;
    if (this.picked) {
      this.onPick?.();
      this.revealPicked();
    }
    this.changed();
  }

  /// Goes to the sending of the message after the picked one, or before it, and picks that: of the rank that is
  /// followed, if one is. Without a picked one it begins at the moment.
  pickNext(way) {
    const { story } = this.active;
    const followed = this.followed(this.active);
    let at = this.picked?.sent ? this.picked.index + way : sentUpTo(story.messages, this.step) - (way > 0 ? 0 : 1);
    while (story.messages[at] && followed != null && story.messages[at].lane !== followed) at += way;
    const next = story.messages[at];
    if (!next) return;
    this.isPlaying = false;
    this.seekStep(next.sent[1]);
    if (this.picked !== next) this.pick(next, this.active);
  }

  /// Scrolls the diagram to what is picked, if it is outside of what is shown. The moment stays.
  revealPicked() {
    const { sent, parts, at, lane } = this.picked;
    const start = sent ?? at;
    const [from, to] = [start, parts?.at(-1)?.at ?? start].map(([ns]) => this.axis.place(ns) * this.scale - this.scroll);
    if (from < 0 || to > this.width) this.pan((from + to - this.width) / 2);
    this.active.revealLane(lane);
  }
}

const still = matchMedia("(prefers-reduced-motion: reduce)");
/// How often texts are updated while time runs.
const UPDATE_MS = 90;
/// How long a moment is shown where nothing moves.
const REST_MS = 450;
/// How fast the moment moves at usual speed.
const PACE_PX = 110;
/// Fewer messages say nothing about a run.
const FEW = 8;
/// Room behind the end.
const MARGIN_PX = 40;
