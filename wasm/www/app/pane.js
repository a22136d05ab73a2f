// A run on the screen: the diagram, the names of its lanes, and what a hand does to them.

import { ends, fenceTitles, ON_LANE, past, present, slots, titles } from "./draw.js";
import { button, fill, h, icon } from "./dom.js";
import { ARROWS_MAX } from "./heat.js";
import { ends as endsOf, who } from "./names.js";
import { flightsOf } from "./messages.js";
import { CanvasPen } from "./pen.js";
import { geometry, rows } from "./rows.js";
import { firstFrom, sentFrom, sentUpTo } from "./search.js";

export class Pane {
  /// `app` holds what all panes share; `title` is what the run is called beside others.
  constructor(app, run, title) {
    this.app = app;
    this.title = title;
    // Sheets over each other: what has happened, of which only what is new is drawn, and the moment. While time runs, the moment is on a
    // narrow one that follows it: a sheet that has changed is copied as a whole.
    this.past = h("canvas", { "aria-hidden": "true" });
    this.front = h("canvas", { class: "front", "aria-hidden": "true" });
    this.canvas = h("canvas", { role: "img" });
    this.sheet = h("div", { class: "sheet" }, this.past, this.front, this.canvas);
    this.gutter = h("div", { class: "gutter", role: "group", "aria-label": "Lanes" });
    this.field = h("div", { class: "field" }, this.sheet);
    this.tip = h("div", { class: "tip", hidden: true });
    this.badge = h("span", { class: "badge" });
    this.heading = h("h2", { class: "pane-title" });
    this.closer = button("Close this run", icon("close"), () => app.close(this), { class: "quiet" });
    this.head = h("div", { class: "pane-head" }, this.heading, this.badge, this.closer);
    this.body = h("div", { class: "pane-body" }, this.gutter, this.field, this.tip);
    this.element = h("section", { class: "pane" }, this.head, this.body);
    this.element.addEventListener("pointerdown", () => app.activate(this), true);
    // Drawing changes the height of what is inside: that is for the next frame.
    const observer = new ResizeObserver(() => requestAnimationFrame(() => this.resize()));
    for (const box of [this.body, this.field]) observer.observe(box);
    this.body.addEventListener("scroll", () => app.changed(), { passive: true });
    this.listen();
    this.show(run);
  }

  /// Shows another run, or what became of this one.
  show(run) {
    this.run = run;
    this.story = run.story;
    this.slots = slots(this.story.fences);
    const flights = flightsOf(this.story.columns).sort();
    this.flight = Math.max(flights[flights.length >> 1] ?? 1, 1);
    this.longest = flights.at(-1) ?? 0;
    this.hover = null;
    this.fold();
  }

  /// Puts lanes into rows anew.
  fold() {
    this.rows = rows(this.story, this.app.isFolded);
    this.rowOf = [];
    this.rows.forEach((row, at) => row.lanes.forEach((lane) => (this.rowOf[lane] = at)));
    this.buttons = this.rows.map((row) => this.laneButton(row));
    // Of hundreds, only groups with a change are painted anew.
    const groups = this.buttons.flatMap((_, at) => (at % GROUP ? [] : [h("div", {}, this.buttons.slice(at, at + GROUP))]));
    fill(this.gutter, h("span", { class: "lane server-name" }, this.story.hub), groups);
    this.resize();
  }

  laneButton(row) {
    const lane = row.lanes[0];
    // A list of ranks needs the room.
    const word = row.lanes.length > 1 ? "" : `${this.story.unit} `;
    const label = h("span", { class: "lane-name" }, h("span", { class: "word" }, word), row.name);
    const count = row.lanes.length > 1 && h("span", { class: "count" }, `×${row.lanes.length}`);
    const menu = (event) => {
      event.preventDefault();
      this.app.onMenu?.({ lane }, this, placeOf(event));
    };
    return h("button", { type: "button", class: "lane", onclick: () => this.app.follow(this, lane), oncontextmenu: menu },
      h("span", { class: "state" }), label, count);
  }

  /// Scrolls to a lane, if it is outside of what is shown. Without a lane it is about the server, which is on top.
  revealLane(lane) {
    // With a link that picks a message, nothing is laid out yet; in another view there are no lanes.
    if (!this.geometry) this.resize();
    const { body, geometry } = this;
    if (!geometry) return;
    const y = lane == null ? 0 : geometry.ys[this.rowOf[lane]] * this.app.magnification;
    const isSeen = y >= body.scrollTop && y <= body.scrollTop + body.clientHeight;
    if (!isSeen) body.scrollTop = y - body.clientHeight / 2;
  }

  resize() {
    const { magnification } = this.app;
    const width = this.field.clientWidth / magnification;
    const height = this.body.clientHeight / magnification;
    if (!width || !height) return;
    this.width = width;
    // As high as what is seen, however many lanes there are.
    this.height = height;
    this.geometry = geometry(this.rows, height);
    this.ratio = (globalThis.devicePixelRatio || 1) * magnification;
    this.field.style.height = `${this.geometry.height * magnification}px`;
    this.sheet.style.height = `${height * magnification}px`;
    for (const canvas of [this.past, this.canvas]) {
      canvas.width = Math.round(width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
    }
    this.front.width = Math.round(FRONT_PX * this.ratio);
    this.front.height = this.canvas.height;
    this.front.style.width = `${FRONT_PX * magnification}px`;
    [this.pen, this.layer, this.moving] = [this.canvas, this.past, this.front].map((canvas) => new CanvasPen(canvas.getContext("2d")));
    this.drawn = null;
    this.titled = false;
    const { ys, server, spacing } = this.geometry;
    this.gutter.style.height = `${this.geometry.height * magnification}px`;
    this.gutter.classList.toggle("dense", spacing * magnification < 17);
    // Names stand below each other, and need no layers as placed ones do. The hub has no button, and the height of its line.
    const hub = this.gutter.firstChild;
    let below = server * magnification + hub.offsetHeight / 2;
    hub.style.marginTop = `${below - hub.offsetHeight}px`;
    this.buttons.forEach((button, at) => {
      const tall = Math.min(spacing * magnification, 30);
      button.style.marginTop = `${ys[at] * magnification - tall / 2 - below}px`;
      button.style.height = `${tall}px`;
      below = ys[at] * magnification + tall / 2;
      button.classList.toggle("sparse", spacing < 9.5 && at % 4 !== 0);
    });
    this.app.changed();
  }

  /// How far the lanes are scrolled.
  get top() {
    return this.body.scrollTop / this.app.magnification;
  }

  /// What is to be drawn.
  scene() {
    const { app, story, geometry } = this;
    const { now, axis, scale, scroll, colors } = app;
    const [from, to] = [axis.time(scroll / scale) - this.longest, axis.time((scroll + this.width) / scale)];
    const messages = story.messages;
    const first = sentFrom(messages, from);
    const last = sentFrom(messages, to + 1);
    const visible = this.inView(messages, first, last, app.isHandshakeFolded);
    const followed = app.followed(this);
    return {
      story, geometry, seen: [this.top, this.top + this.height], rows: this.rows, slots: this.slots, width: this.width, axis, scale, scroll, now, colors,
      step: app.stepOf(this), isStill: !app.isPlaying, window: visible, isHandshakeFolded: app.isHandshakeFolded, hover: this.hover ?? app.spotlight, picked: app.picked,
      follow: followed, longest: this.longest, rowOf: this.rowOf, isFirst: (lane) => this.rows[this.rowOf[lane]].lanes[0] === lane, isHeat: visible.length > ARROWS_MAX, yOf: (lane) => geometry.ys[this.rowOf[lane]],
      alpha: (lane, usual) => (followed == null || lane === followed || this.rowOf[lane] === this.rowOf[followed] ? usual : usual * 0.16),
    };
  }

  /// The messages of a range, of which most frames show the same.
  inView(...what) {
    if (!this.viewed?.what.every((one, at) => one === what[at])) {
      const [messages, first, last, isFolded] = what;
      const all = messages.slice(first, last);
      this.viewed = { what, all: isFolded ? all.filter((message) => !message.isHello) : all };
    }
    return this.viewed.all;
  }

  draw() {
    if (!this.pen) return;
    const scene = this.scene();
    const { width, height, ratio } = this;
    this.isDense = scene.isHeat;
    const strip = this.drawPast(scene);
    const [top] = scene.seen;
    const isMoving = this.app.isPlaying && width > FRONT_PX;
    // What a fence says changes more seldom than the moment.
    const said = isMoving && titles(scene);
    const words = said && (said.length ? JSON.stringify([said, scene.scroll, scene.scale, top]) : "");
    if (!isMoving || words !== this.titled) {
      const { context } = this.pen;
      context.setTransform(ratio, 0, 0, ratio, 0, -top * ratio);
      context.clearRect(0, top, width, height);
      fenceTitles(this.pen, scene);
      if (!isMoving) present(this.pen, scene);
    }
    this.titled = words;
    this.front.hidden = !isMoving;
    if (!isMoving) return;
    const { context } = this.moving;
    // It moves when the strip begins anew, not with each frame: places of elements cost more than what is drawn there.
    const left = Math.round((scene.axis.place(this.drawn.now) * scene.scale - scene.scroll - FRONT_LEFT_PX) * ratio) / ratio;
    const place = `translateX(${left * this.app.magnification}px)`;
    if (this.place !== place) this.front.style.transform = this.place = place;
    context.setTransform(ratio, 0, 0, ratio, -left * ratio, -top * ratio);
    context.clearRect(left, top, FRONT_PX, height);
    if (strip) this.drawStrip(this.moving, scene, strip, scene.colors.paper);
    present(this.moving, scene);
  }

  /// Draws what has happened into a layer of its own. While time runs, only what is new is drawn there, and not in every frame:
  /// until then it is a strip in front of the layer, whose left and right are returned.
  drawPast(scene) {
    const { story, app } = this;
    const { step, now, axis, scale, scroll, seen: [top] } = scene;
    const same = (one) => one;
    const ended = firstFrom(story.marks, step + 1, ({ at }) => at[1]) + firstFrom(story.endings, now + 0.5, same) + firstFrom(story.releases, step + 1, same);
    const drawn = [story, axis, scale, scroll, scene.colors, scene.hover, scene.picked, scene.follow, this.rows, ended, app.isPlaying, scene.isHeat, top];
    const isSame = app.isPlaying && this.drawn?.now <= now && this.drawn.step <= step && this.drawn.what.every((one, at) => one === drawn[at]);
    const place = (ns) => axis.place(ns) * scale - scroll;
    // From one point of the screen to another: between them the edge of a strip would be seen.
    const point = (x) => Math.round(x * this.ratio) / this.ratio;
    const strip = isSame ? [point(place(this.drawn.now) - 10), point(place(now) + 10)] : [0, this.width];
    if (isSame && this.width > FRONT_PX && strip[1] - strip[0] < STRIP_PX) return strip;
    this.layer.context.setTransform(this.ratio, 0, 0, this.ratio, 0, -top * this.ratio);
    this.drawStrip(this.layer, scene, strip);
    this.drawn = { what: drawn, now, step };
    return null;
  }

  /// Draws what has happened between two places; with `paper`, nothing shines through from below.
  drawStrip(pen, scene, [from, to], paper) {
    const [top] = scene.seen;
    pen.within(from, top, to - from, this.height, () => {
      pen.context.clearRect(from, top, to - from, this.height);
      if (paper) pen.box(from, top, to - from, this.height, { color: paper });
      past(pen, { ...scene, strip: [from, to] });
    });
  }

  /// The lanes of a row in words.
  named({ lanes, name }) {
    return `${this.story.unit}${lanes.length > 1 ? "s" : ""} ${name}`;
  }

  /// Shows the state of the run in words and colours.
  describe() {
    const { story } = this;
    const step = this.app.stepOf(this);
    const followed = this.app.followed(this);
    const { top, height, app: { isPlaying }, geometry } = this;
    this.rows.forEach((row, at) => {
      // While time runs, what is not seen is not described.
      if (isPlaying && geometry && (geometry.ys[at] < top - 30 || geometry.ys[at] > top + height + 30)) return;
      const lane = row.lanes[0];
      const rank = this.run.stateAt(step, lane);
      const element = this.buttons[at];
      const isFollowed = followed != null && row.lanes.includes(followed);
      // What has not changed is not written again: of very many lanes that takes long.
      if (element.rank === rank && element.isFollowed === isFollowed) return;
      Object.assign(element, { rank, isFollowed });
      const state = rank ? stateOf(rank) : { word: "recorded", tone: "calm" };
      element.dataset.tone = state.tone;
      const words = this.named(row);
      element.setAttribute("aria-label", `${words}: ${state.word}`);
      element.title = `${words}: ${state.word}. Click to follow.`;
      element.setAttribute("aria-pressed", String(isFollowed));
    });
    const said = sentUpTo(story.messages, step);
    this.canvas.setAttribute("aria-label",
      `Sequence of ${story.name}: ${story.lanes.length} ${story.unit}s, ${said} of ${story.messages.length} messages sent so far. ` +
      "The tab Story lists them.");
    this.element.setAttribute("aria-label", `Run ${this.title}`);
    this.heading.textContent = this.title;
    const reports = story.marks.filter((event) => event.kind === "report" && event.at[1] <= step).length;
    this.badge.textContent = reports ? `${reports} reported` : "";
    this.badge.hidden = !reports;
    const others = this.app.panes.length > 1;
    this.head.hidden = !others;
    this.element.classList.toggle("active", others && this.app.active === this);
  }

  listen() {
    const { canvas, app } = this;
    const pointers = new Map();
    let moved = 0;
    let scrubs = false;
    let held = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, event);
      moved = 0;
      scrubs = this.spot(event).y < this.geometry.ruler + 4;
      clearTimeout(held);
      // A finger that stays opens the menu, as the other button of a mouse does.
      if (event.pointerType === "touch" && !scrubs) held = setTimeout(() => {
        if (moved >= 5 || pointers.size !== 1) return;
        moved = Infinity;
        this.openMenu(event);
      }, HELD_MS);
      if (scrubs) app.seekPlace((app.scroll + this.spot(event).x) / app.scale);
    });
    canvas.addEventListener("pointermove", (event) => {
      const last = pointers.get(event.pointerId);
      if (!last) return this.pointAt(event);
      moved += Math.abs(event.clientX - last.clientX);
      if (scrubs) app.seekPlace((app.scroll + this.spot(event).x) / app.scale);
      else if (pointers.size === 2) {
        const [other] = [...pointers.values()].filter((one) => one.pointerId !== event.pointerId);
        const [before, after] = [last, event].map((one) => Math.max(Math.abs(one.clientX - other.clientX), 24));
        app.zoom(after / before, (this.spot(event).x + this.spot(other).x) / 2);
      } else app.pan((last.clientX - event.clientX) / app.magnification);
      pointers.set(event.pointerId, event);
    });
    const release = (event) => {
      clearTimeout(held);
      if (pointers.delete(event.pointerId) && moved < 5 && !scrubs && event.type === "pointerup") this.click(event);
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      this.openMenu(event);
    });
    canvas.addEventListener("dblclick", (event) => app.seekPlace((app.scroll + this.spot(event).x) / app.scale));
    canvas.addEventListener("wheel", (event) => {
      const isZoom = event.ctrlKey || event.metaKey;
      if (!isZoom && !event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
      event.preventDefault();
      if (isZoom) app.zoom(Math.exp(-event.deltaY / 240), this.spot(event).x);
      else app.pan(event.deltaX || event.deltaY);
    }, { passive: false });
  }

  click(event) {
    const { x, y } = this.spot(event);
    const found = this.at(x, y);
    this.app.pick(found, this);
  }

  /// Opens the menu of what is at a place: a message, else the rank of the lane.
  openMenu(event) {
    const { ys, spacing } = this.geometry;
    const place = this.spot(event);
    const found = this.at(place.x, place.y);
    if (found?.sent) return this.app.onMenu?.({ message: found }, this, placeOf(event));
    const row = ys.findIndex((y) => Math.abs(y - place.y) <= Math.max(spacing / 2, 6));
    if (row >= 0) this.app.onMenu?.({ lane: this.rows[row].lanes[0] }, this, placeOf(event));
  }

  /// Where in the diagram a pointer is.
  spot({ offsetX, offsetY }) {
    const { magnification } = this.app;
    return { x: offsetX / magnification, y: offsetY / magnification + this.top };
  }

  pointAt(event) {
    const { x, y } = this.spot(event);
    this.point(this.at(x, y), event);
  }

  point(found, event) {
    if (found !== this.hover) {
      this.hover = found;
      this.app.changed();
    }
    this.tip.hidden = !found;
    this.canvas.style.cursor = found ? "pointer" : "";
    if (!found || !event) return;
    const words = found.text ?? `to the ${found.peer == null && found.up ? this.story.hub : this.story.unit}: ${found.label}`;
    const lane = found.text ? "" : found.peer == null ? `${who(this.story, found.lane)} ` : `${endsOf(this.story, found).join(" → ")} `;
    fill(this.tip, h("strong", {}, lane), words);
    const x = Math.min(event.offsetX + 14, this.field.clientWidth - this.tip.offsetWidth - 8) + this.field.offsetLeft;
    this.tip.style.transform = `translate(${Math.max(x, 4)}px, ${event.offsetY + 16 + this.body.scrollTop}px)`;
  }

  /// The message or mark at a place, if there is one.
  at(x, y) {
    const s = this.scene();
    const place = (ns) => s.axis.place(ns) * s.scale - s.scroll;
    const marked = this.story.marks.find((event) => {
      if (event.at[1] > s.step) return false;
      const top = ON_LANE.has(event.kind) ? s.yOf(event.lane) : s.geometry.server - s.geometry.half - 10;
      const [left, right] = ON_LANE.has(event.kind) ? [-8, 8] : [-4, 48];
      const away = x - place(event.at[0]);
      return away > left && away < right && Math.abs(y - top) < 9;
    });
    if (marked) return marked;
    let best = null;
    for (const message of s.window) {
      if (message.sent[1] > s.step) break;
      const [y1, y2] = ends(s, message);
      if (y < Math.min(y1, y2) - 4 || y > Math.max(y1, y2) + 4) continue;
      const x1 = place(message.sent[0]);
      const arrivals = message.parts.length ? [message.parts[0], message.parts.at(-1)] : [];
      for (const x2 of arrivals.length ? arrivals.map((part) => place(part.at[0])) : [x1 + 20]) {
        const away = distance(x, y, x1, y1, x2, y2);
        if (away < (best?.away ?? 7)) best = { away, message };
      }
    }
    return best?.message ?? null;
  }
}

/// The place of a menu: that of the pointer, or below the element that a key was pressed on.
function placeOf({ clientX, clientY, currentTarget }) {
  if (clientX || clientY) return { x: clientX, y: clientY };
  const { left, bottom } = currentTarget.getBoundingClientRect();
  return { x: left, y: bottom };
}

const HELD_MS = 550;

/// Number of lanes whose names are painted together.
const GROUP = 16;

/// Width of the sheet that moves with time, what of it is before its strip, and the strip that it may show of what has happened.
const [FRONT_PX, FRONT_LEFT_PX, STRIP_PX] = [180, 60, 60];

/// In the place of a run that there cannot be: what is missing.
export function gap(why, title) {
  return h("section", { class: "pane gap", "aria-label": `Run ${title}` }, h("div", { class: "pane-head" }, h("h2", { class: "pane-title" }, title)), h("p", {}, why));
}

function distance(x, y, x1, y1, x2, y2) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const along = Math.min(Math.max(((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy || 1), 0), 1);
  return Math.hypot(x - x1 - along * dx, y - y1 - along * dy);
}

/// How a rank is, in a word, and whether that is calm, at work, waiting, done or bad.
export function stateOf(rank) {
  if (["killed", "failed"].includes(rank.life)) return { word: rank.life, tone: "bad" };
  if (["stopped", "hung", "deaf", "left"].includes(rank.life)) return { word: rank.life, tone: "odd" };
  if (rank.member === "lost" || rank.client === "failed") return { word: `lost, ${rank.life}`, tone: "bad" };
  if (rank.life === "unborn") return { word: "not started", tone: "calm" };
  if (rank.life === "exited") return { word: "exited", tone: "done" };
  if (rank.asks.some((ask) => ask.startsWith("fence"))) return { word: "in a fence", tone: "fence" };
  if (rank.asks.length) return { word: `waits for an answer to ${rank.asks[0]}`, tone: "wait" };
  if (rank.client === "ended") return { word: "finalized", tone: "done" };
  return { word: rank.client, tone: "work" };
}
