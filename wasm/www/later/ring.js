// The ring: the server with its shelf of cards in the middle, the ranks around it, by node. Lanes show when, the ring shows what.

import { who } from "../app/names.js";
import { stateOf } from "../app/pane.js";
import { value } from "../app/play.js";
import { flying, rankColor, SpaceView } from "./space.js";

export class RingView extends SpaceView {
  get name() {
    return "Ring";
  }

  fits({ unit }) {
    return unit !== "node";
  }

  sceneOf(width, height) {
    return ringScene(this.app, width, height);
  }

  paint() {
    drawRing(this.pen, this.scene, this.hover, this.app.picked);
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

  /// What is pointed at, in words.
  words({ lane, message }) {
    return message ? message.label : `${who(this.app.active.story, lane)}: ${this.scene.states[lane].word}`;
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
  scene.flying = flying(scene, (message, part) => placeOf(scene, message, part));
  return scene;
}

function recordedState(span, now) {
  if (span.end && span.end.ns <= now) return { word: span.end.text, tone: span.end.text === "exit 0" ? "done" : "bad" };
  return { word: "recorded", tone: span.start != null && span.start <= now ? "work" : "calm" };
}

/// The place of a message between a rank and the server.
function placeOf({ places, center, serverRadius, rankRadius }, message, part) {
  const place = places[message.lane];
  const [dx, dy] = [Math.cos(place.angle), Math.sin(place.angle)];
  const [near, far] = [serverRadius + 4, Math.hypot(place.x - center.x, place.y - center.y) - rankRadius - 4];
  const [from, to] = message.up ? [far, near] : [near, far];
  const distance = from + (to - from) * part;
  return { x: center.x + dx * distance, y: center.y + dy * distance, from, dx, dy };
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
