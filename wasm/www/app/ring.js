// The ring: the server with its shelf of cards in the middle, the ranks around it, by node. Lanes show when, the ring shows what.

import { h } from "./dom.js";
import { who } from "./names.js";
import { stateOf } from "./pane.js";
import { CanvasPen } from "./pen.js";
import { value } from "./play.js";
import { sentUpTo } from "./search.js";

export class RingView {
  constructor(app) {
    this.app = app;
    this.canvas = h("canvas", { role: "img", "aria-label": "Ring" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.element = h("div", { class: "ring", hidden: true }, this.canvas, this.tip);
    new ResizeObserver(() => requestAnimationFrame(() => this.resize())).observe(this.element);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.setHover(null));
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      const found = this.at(event.offsetX, event.offsetY);
      if (found) this.menu(found, { x: event.clientX, y: event.clientY });
    });
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    const ratio = globalThis.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen = new CanvasPen(context);
    Object.assign(this, { width, height });
    this.app.changed();
  }

  /// Draws the displayed moment of the active run.
  draw() {
    if (!this.pen || this.element.hidden) return;
    const { app, width, height } = this;
    this.pen.context.clearRect(0, 0, width, height);
    this.scene = ringScene(app, width, height);
    drawRing(this.pen, this.scene, this.hover, app.picked);
  }

  /// The moment in words.
  describe() {
    const { app } = this;
    const { story, run } = app.active;
    const view = run.view(app.step);
    const inside = view.fences?.reduce((sum, fence) => sum + fence.inside, 0);
    const words = view.keys ? `: ${view.key_count} keys at the server, ${view.hidden_count} behind the fence; ${inside} ranks in a fence` : "";
    this.canvas.setAttribute("aria-label", `Ring of ${story.name}: ${story.lanes.length} ranks around the server${words}.`);
  }

  /// The message or the lane at a place.
  at(x, y) {
    const { scene } = this;
    if (!scene) return null;
    const lane = scene.places.findIndex((place) => Math.hypot(place.x - x, place.y - y) <= Math.max(scene.rankRadius, 8) + 2);
    if (lane >= 0) return { lane };
    const flying = scene.flying.find((one) => Math.hypot(one.x - x, one.y - y) < 14);
    return flying ? { message: flying.message } : null;
  }

  point(event) {
    const found = this.at(event.offsetX, event.offsetY);
    this.setHover(found);
    if (!found) return;
    this.tip.textContent = this.words(found);
    this.tip.style.transform = `translate(${Math.min(event.offsetX + 14, this.width - 200)}px, ${event.offsetY + 16}px)`;
  }

  /// What is pointed at, in words.
  words({ lane, message }) {
    return message ? message.label : `${who(this.app.active.story, lane)}: ${this.scene.states[lane].word}`;
  }

  /// Opens the menu of what is at a place.
  menu(found, place) {
    this.app.onMenu?.(found, this.app.active, place);
  }

  setHover(found) {
    this.hover = found;
    this.tip.hidden = !found;
    this.canvas.style.cursor = found ? "pointer" : "";
    this.app.changed();
  }

  click(event) {
    const { app } = this;
    const found = this.at(event.offsetX, event.offsetY);
    if (found?.message) app.pick(found.message, app.active);
    else if (found?.lane !== undefined) app.follow(app.active, found.lane);
    else app.follow(app.active, null);
  }
}

/// What is to be drawn.
export function ringScene(app, width, height) {
  const pane = app.active;
  const { story } = pane;
  const view = pane.run.view(app.step);
  const center = { x: width / 2, y: height / 2 + 4 };
  const radius = Math.max(Math.min(width, height) / 2 - 46, 60);
  const groups = Map.groupBy(story.lanes.keys(), (lane) => story.lanes[lane].group);
  const gap = groups.size > 1 ? Math.max(story.lanes.length * 0.02, 0.7) : 0;
  const turn = (2 * Math.PI) / (story.lanes.length + groups.size * gap);
  const places = [];
  const nodes = [];
  let at = -Math.PI / 2 + (gap * turn) / 2;
  for (const [group, lanes] of groups) {
    nodes.push({ group, from: at, to: at + (lanes.length - 1) * turn });
    for (const lane of lanes) {
      places[lane] = { angle: at, x: center.x + radius * Math.cos(at), y: center.y + radius * Math.sin(at) };
      at += turn;
    }
    at += gap * turn;
  }
  const rankRadius = Math.min(Math.max((radius * turn) / 2.6, 2), 20);
  const serverRadius = radius * 0.42;
  const states = story.lanes.map((_, lane) => {
    const rank = pane.run.stateAt(app.step, lane);
    return rank ? stateOf(rank) : recordedState(story.spans[lane], app.now);
  });
  const scene = { app, story, view, width, height, center, radius, places, nodes, turn, rankRadius, serverRadius, states, step: app.step, now: app.now, colors: app.colors, followed: app.followed(pane), longest: pane.longest };
  scene.flying = flying(scene);
  return scene;
}

function recordedState(span, now) {
  if (span.end && span.end.ns <= now) return { word: span.end.text, tone: span.end.text === "exit 0" ? "done" : "bad" };
  return { word: "recorded", tone: span.start != null && span.start <= now ? "work" : "calm" };
}

/// Messages between a rank and the server, each with its place; and how long ago it arrived, if it has just done so.
function flying({ story, longest, step, now, places, center, serverRadius, rankRadius }) {
  const found = [];
  for (let at = sentUpTo(story.messages, step) - 1; at >= 0 && found.length < FLYING_MAX; at--) {
    const message = story.messages[at];
    if (now - message.sent[0] > longest * 3) break;
    const end = message.parts.at(-1)?.at ?? message.sent;
    if (end[1] <= step) continue;
    const way = Math.min((now - message.sent[0]) / Math.max(end[0] - message.sent[0], 1), 1);
    const place = places[message.lane];
    const [dx, dy] = [Math.cos(place.angle), Math.sin(place.angle)];
    const [near, far] = [serverRadius + 4, Math.hypot(place.x - center.x, place.y - center.y) - rankRadius - 4];
    const distance = message.up ? far + (near - far) * way : near + (far - near) * way;
    found.push({ message, x: center.x + dx * distance, y: center.y + dy * distance, from: message.up ? far : near, distance, dx, dy });
  }
  return found;
}

/// Draws it with a pen.
export function drawRing(pen, scene, hover, picked) {
  const { colors, center, radius, serverRadius } = scene;
  if (scene.nodes.length > 1) scene.nodes.forEach((node) => nodeArc(pen, scene, node));
  for (const place of scene.places) {
    const [dx, dy] = [Math.cos(place.angle), Math.sin(place.angle)];
    pen.line([[center.x + dx * serverRadius, center.y + dy * serverRadius], [center.x + dx * radius, center.y + dy * radius]], { color: colors.lane, width: 1, alpha: scene.places.length > 80 ? 0.35 : 0.8 });
  }
  pen.dot(center.x, center.y, serverRadius, { color: colors.server });
  fenceArc(pen, scene);
  shelf(pen, scene);
  ranks(pen, scene, hover);
  for (const one of scene.flying) fly(pen, scene, one, one.message === hover?.message || one.message === picked);
}

function arc(center, radius, from, to) {
  const parts = Math.max(Math.ceil(Math.abs(to - from) / 0.05), 1);
  return Array.from({ length: parts + 1 }, (_, at) => from + ((to - from) * at) / parts).map((angle) => [center.x + radius * Math.cos(angle), center.y + radius * Math.sin(angle)]);
}

function nodeArc(pen, { center, radius, colors, rankRadius, story, turn }, { group, from, to }) {
  const width = Math.max(rankRadius * 2 + 14, 16);
  const pad = Math.min((rankRadius + 12) / radius, turn * 0.5 + 0.02);
  pen.line(arc(center, radius, from - pad, to + pad), { color: colors.band, width, cap: "butt" });
  const middle = (from + to) / 2;
  const label = `${story.recorded ? "job" : "node"} ${group}`;
  const away = radius + width / 2 + 12;
  const align = Math.abs(Math.cos(middle)) < 0.3 ? "center" : Math.cos(middle) > 0 ? "left" : "right";
  pen.text(label, center.x + away * Math.cos(middle), center.y + away * Math.sin(middle), { color: colors.soft, size: 11, align });
}

/// Around the server: the share of ranks that are in the fence.
function fenceArc(pen, { view, center, serverRadius, colors }) {
  const fence = view.fences?.find(({ inside }) => inside > 0) ?? view.fences?.[0];
  pen.text("server", center.x, center.y - serverRadius + 20, { color: colors.ink, size: 12, align: "center", weight: 650 });
  if (!fence) return;
  const part = fence.inside / Math.max(fence.ranks, 1);
  if (part > 0) pen.line(arc(center, serverRadius, -Math.PI / 2, -Math.PI / 2 + part * 2 * Math.PI), { color: colors.fence, width: 7 });
  pen.text(`fence ${fence.generation + 1}: ${fence.inside} of ${fence.ranks}`, center.x, center.y + serverRadius - 18, { color: colors.soft, size: 11, align: "center" });
}

/// The cards at the server: those behind the fence have a curtain.
function shelf(pen, { view, center, serverRadius, colors }) {
  const keys = (view.keys ?? []).filter((key) => key.by != null).toSorted((a, b) => a.by - b.by);
  if (!keys.length) return;
  const [wide, tall] = [serverRadius * 1.36, serverRadius * 1.02];
  const columns = Math.max(Math.ceil(Math.sqrt((keys.length * wide) / tall / CARD_RATIO)), 1);
  const lines = Math.ceil(keys.length / columns);
  const width = Math.min(wide / columns, 84);
  const height = Math.min(tall / lines, width / CARD_RATIO + 6, 34);
  const [left, top] = [center.x - (columns * width) / 2, center.y - (lines * height) / 2];
  keys.forEach((key, at) => {
    const [x, y] = [left + (at % columns) * width, top + Math.floor(at / columns) * height];
    card(pen, x + width * 0.05, y + height * 0.08, width * 0.9, height * 0.84, key.key, key.visible, colors);
  });
}

function card(pen, x, y, width, height, words, isVisible, colors) {
  pen.box(x, y, width, height, { color: colors.sheet, radius: Math.min(4, height / 4) });
  pen.box(x, y + height - Math.min(3, height / 4), width, Math.min(3, height / 4), { color: isVisible ? colors.life : colors.fence });
  if (!isVisible) pen.box(x, y, width, height, { color: colors.fence, alpha: 0.26, radius: Math.min(4, height / 4) });
  const fits = Math.floor((width - 6) / 5.8);
  if (height >= 13 && fits >= 3) pen.text(words.length > fits ? `${words.slice(0, fits - 1)}…` : words, x + width / 2, y + height / 2 - 0.5, { color: colors.ink, size: Math.min(10.5, height * 0.55), align: "center" });
}

/// The colour of a rank or a node, by how it is.
export function rankColor(tone, colors) {
  return { work: colors.up, wait: colors.up, fence: colors.fence, done: colors.faint, odd: colors.fault, bad: colors.fault, calm: colors.lane }[tone];
}

function ranks(pen, scene, hover) {
  const { colors, places, states, rankRadius, story, followed } = scene;
  places.forEach((place, lane) => {
    const { tone } = states[lane];
    const color = rankColor(tone, colors);
    const isLit = hover?.lane === lane || followed === lane;
    if (isLit) pen.dot(place.x, place.y, rankRadius + 5, { color, alpha: 0.3 });
    pen.dot(place.x, place.y, rankRadius, { color });
    if (["wait", "odd", "calm"].includes(tone) && rankRadius > 5) pen.dot(place.x, place.y, rankRadius - 3, { color: colors.paper });
    const isHollow = ["wait", "odd", "calm"].includes(tone);
    if (rankRadius >= 9) pen.text(story.lanes[lane].name, place.x, place.y + 0.5, { color: isHollow ? colors.ink : colors.onNow, size: Math.min(12, rankRadius), align: "center", weight: 650 });
  });
}

/// A message on its way. A put brings a card, a get takes a copy of one.
function fly(pen, { center, colors }, { message, x, y, from, dx, dy }, isPicked) {
  const color = message.raw || message.isRefused ? colors.fault : message.up ? colors.up : colors.down;
  pen.line([[center.x + dx * from, center.y + dy * from], [x, y]], { color, width: isPicked ? 3.5 : 2, alpha: 0.8 });
  const words = message.up ? message.name === "put" && value(message, "key") : message.name === "get" && !message.isRefused && message.label.startsWith("=") && message.label.slice(2);
  if (words) {
    const width = Math.min(words.length * 5.8 + 12, 92);
    card(pen, x - width / 2, y - 9, width, 18, words, true, { ...colors, life: color });
    return;
  }
  pen.dot(x, y, isPicked ? 6 : 4.5, { color, ring: colors.paper });
  if (isPicked) pen.text(message.label, x + 9, y - 9, { color, size: 11, weight: 600, halo: colors.paper });
}

/// Width of a card, in heights.
const CARD_RATIO = 2.4;
const FLYING_MAX = 600;
