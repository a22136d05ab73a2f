// The tree of node servers under their head: contributions to a fence go up it, and its end comes down.

import { headMenu } from "../app/menu.js";
import { nodesOf } from "../app/messages.js";
import { ends, who } from "../app/names.js";
import { value } from "../app/play.js";
import { sentUpTo } from "../app/search.js";
import { stateOf } from "../app/pane.js";
import { flying, rankColor, SpaceView } from "./space.js";

export class TreeView extends SpaceView {
  constructor(app, session) {
    super(app);
    this.session = session;
  }

  get name() {
    return "Tree";
  }

  fits({ unit }) {
    return unit === "node";
  }

  sceneOf(width, height) {
    return treeScene(this.app, width, height);
  }

  paint() {
    drawTree(this.pen, this.scene, this.hover, this.app.picked);
  }

  /// The moment in words.
  describe() {
    const { story, run } = this.app.active;
    const { fences: [fence], ranks, parents, head } = run.view(this.app.step);
    const lost = ranks.filter((state) => !state.startsWith("running")).length;
    const attached = parents.filter((parent) => parent != null).length;
    const words = [`${attached} of ${parents.length} nodes attached`, fence && `${fence.inside} in fence ${fence.generation + 1}`, lost && `${lost} lost`, head !== "running" && "the head is lost"];
    this.canvas.setAttribute("aria-label", `Tree of ${story.name}: ${words.filter(Boolean).join(", ")}.`);
  }

  at(x, y) {
    const { scene } = this;
    if (!scene) return null;
    if (Math.hypot(scene.head.x - x, scene.head.y - y) <= scene.headRadius) return { isHead: true };
    return super.at(x, y);
  }

  words({ lane, message, isHead }) {
    const { story } = this.app.active;
    const { scene } = this;
    if (message) return `${ends(story, message).join(" → ")}: ${message.label}`;
    if (isHead) return `head: ${scene.collected[0]} of ${story.lanes.length} nodes in the fence`;
    return `${who(story, lane)}, ${story.ranks} ${story.ranks === 1 ? "rank" : "ranks"}: ${scene.states[lane].word}`;
  }

  menu(found, place) {
    if (found.isHead) headMenu(this.session, place);
    else super.menu(found, place);
  }
}

/// What is to be drawn. Nodes stay where they were first, and edges lead to the parents that they have now.
export function treeScene(app, width, height) {
  const { story, run, longest } = app.active;
  const view = run.view(app.step);
  const { radix, lanes } = story;
  const children = Array.from({ length: lanes.length + 1 }, () => []);
  for (let node = 1; node <= lanes.length; node++) children[Math.floor((node - 1) / radix)].push(node);
  // Leaves stand side by side; each other node above the middle of its children.
  const spots = [];
  let [leaves, depth] = [0, 0];
  const place = (node, level) => {
    depth = Math.max(depth, level);
    const below = children[node].map((child) => place(child, level + 1));
    const x = below.length ? (below[0] + below.at(-1)) / 2 : leaves++;
    spots[node] = { x, level };
    return x;
  };
  place(0, 0);
  const [left, top] = [40, 46];
  const [wide, tall] = [(width - 2 * left) / Math.max(leaves - 1, 1), (height - top - 56) / Math.max(depth, 1)];
  const all = spots.map(({ x, level }) => ({ x: leaves === 1 ? width / 2 : left + x * wide, y: top + level * tall }));
  const rankRadius = Math.min(Math.max(wide / 2.6, 2), 19, tall / 4);
  const parents = [null, ...view.parents];
  const states = lanes.map((_, lane) => stateOf(run.stateAt(app.step, lane)));
  const number = (view.fences[0]?.generation ?? 0) + 1;
  const scene = {
    story, view, width, height, spots: all, head: all[0], places: all.slice(1), headRadius: Math.max(rankRadius + 6, 18), rankRadius, parents, states, number,
    colors: app.colors, followed: app.followed(app.active), step: app.step, now: app.now, longest, isOpen: view.fences.length > 0,
  };
  scene.sizes = sizesOf(parents);
  scene.collected = collected(scene);
  scene.flying = flying(scene, (message, part) => placeOf(scene, message, part));
  return scene;
}

/// For each node, how many are attached below it, and itself; for the head, all.
function sizesOf(parents) {
  const sizes = parents.map((_, node) => (node === 0 ? 0 : 1));
  // A parent has a smaller number than its children, now as at first.
  for (let node = parents.length - 1; node > 0; node--) if (parents[node] != null) sizes[parents[node]] += sizes[node];
  return sizes;
}

/// For each node, the number of nodes that it knows to be in the open fence: itself, and those in contributions that it received.
function collected({ story, step, parents, number, view }) {
  const found = parents.map(() => 0);
  view.ranks.forEach((state, lane) => (found[lane + 1] = state.includes(`fence ${number}`) ? 1 : 0));
  const count = sentUpTo(story.messages, step);
  for (let at = 0; at < count; at++) {
    const message = story.messages[at];
    if (message.name !== "contribution" || !message.arrived || message.arrived[1] > step) continue;
    if (Number(value(message, "operation")) === number) found[message.peer == null ? 0 : message.peer + 1] += parseInt(value(message, "nodes"), 10);
  }
  return found;
}

/// The place of a frame between two nodes.
function placeOf({ spots, rankRadius, headRadius }, message, part) {
  const [low, high] = [spots[message.lane + 1], spots[message.peer == null ? 0 : message.peer + 1]];
  const [from, to] = message.up ? [low, high] : [high, low];
  const radius = (spot) => (spot === spots[0] ? headRadius : rankRadius);
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const along = (radius(from) + (length - radius(from) - radius(to)) * part) / length;
  return { x: from.x + (to.x - from.x) * along, y: from.y + (to.y - from.y) * along, from };
}

/// Draws it with a pen.
export function drawTree(pen, scene, hover, picked) {
  const { colors, spots, parents } = scene;
  for (let node = 1; node < spots.length; node++) {
    const parent = parents[node];
    const isLit = scene.followed === node - 1;
    if (parent != null) pen.line([[spots[node].x, spots[node].y], [spots[parent].x, spots[parent].y]], { color: isLit ? colors.life : colors.lane, width: isLit ? 2.5 : 1.4, alpha: 0.9 });
  }
  for (let node = 1; node < spots.length; node++) drawNode(pen, scene, node, hover);
  drawHead(pen, scene, hover);
  for (const one of scene.flying) drawFrame(pen, scene, one, one.message === hover?.message || one.message === picked);
}

/// A node: how it is, and how many of those below it are known to it to be in the fence.
function drawNode(pen, scene, node, hover) {
  const { colors, rankRadius: radius, spots, states, sizes, collected, story, isOpen } = scene;
  const { x, y } = spots[node];
  const { tone } = states[node - 1];
  const color = rankColor(tone, colors);
  if (hover?.lane === node - 1 || scene.followed === node - 1) pen.dot(x, y, radius + 5, { color, alpha: 0.3 });
  pen.dot(x, y, radius, { color, ring: colors.paper });
  const isHollow = ["wait", "odd", "calm"].includes(tone);
  if (isHollow && radius > 5) pen.dot(x, y, radius - 3, { color: colors.paper });
  if (isOpen && sizes[node] > 1 && tone !== "bad") share(pen, x, y, radius + 4, collected[node] / sizes[node], colors);
  if (radius >= 8) pen.text(story.lanes[node - 1].name, x, y + 0.5, { color: isHollow ? colors.ink : colors.onNow, size: Math.min(12, radius), align: "center", weight: 650 });
  if (sizes[node] > 1 && radius >= 8 && isOpen && collected[node] > 0) pen.text(`${collected[node]} of ${sizes[node]}`, x + radius + 9, y - radius, { color: colors.soft, size: 10.5, halo: colors.paper });
}

function drawHead(pen, scene, hover) {
  const { colors, head, headRadius: radius, collected, sizes, number, isOpen, view, story } = scene;
  if (hover?.isHead) pen.dot(head.x, head.y, radius + 8, { color: colors.up, alpha: 0.3 });
  pen.dot(head.x, head.y, radius, { color: view.head === "running" ? colors.server : colors.fault, ring: colors.lane });
  pen.text("head", head.x, head.y + 0.5, { color: view.head === "running" ? colors.ink : colors.onFault, size: 11, align: "center", weight: 650 });
  if (isOpen) share(pen, head.x, head.y, radius + 5, collected[0] / Math.max(sizes[0], 1), colors);
  const fence = isOpen ? `fence ${number}: ${collected[0]} of ${sizes[0]} nodes at the head` : "all fences have ended";
  pen.text(fence, head.x + radius + 14, head.y - 8, { color: colors.ink, size: 12, weight: 600, halo: colors.paper });
  pen.text(`${story.lanes.length} nodes with ${story.ranks} ${story.ranks === 1 ? "rank" : "ranks"} each`, head.x + radius + 14, head.y + 9, { color: colors.soft, size: 11, halo: colors.paper });
}

/// The share of a whole, as an arc around a place.
function share(pen, x, y, radius, part, colors) {
  const parts = Math.max(Math.ceil(part * 40), 1);
  const points = Array.from({ length: parts + 1 }, (_, at) => -Math.PI / 2 + (Math.min(part, 1) * 2 * Math.PI * at) / parts);
  if (part > 0) pen.line(points.map((angle) => [x + radius * Math.cos(angle), y + radius * Math.sin(angle)]), { color: colors.fence, width: 4 });
}

/// A frame: the larger the part of the job that a contribution brings, the larger it is.
function drawFrame(pen, { colors, rankRadius, sizes }, { message, x, y, from }, isPicked) {
  const color = message.name === "contribution" || message.name === "ended" ? colors.fence : message.isRefused ? colors.fault : message.up ? colors.up : colors.down;
  pen.line([[from.x, from.y], [x, y]], { color, width: isPicked ? 4 : 2.4, alpha: 0.75 });
  const count = message.name === "contribution" ? parseInt(value(message, "nodes"), 10) : 1;
  const radius = Math.min(4 + 5 * Math.sqrt(count / Math.max(sizes[0], 1)), Math.max(rankRadius, 4)) + (isPicked ? 2 : 0);
  pen.dot(x, y, radius, { color, ring: colors.paper });
  if (isPicked || rankRadius >= 12) pen.text(message.name === "contribution" ? nodesOf(message) : message.label, x + radius + 4, y - 6, { color: colors.ink, size: 10.5, weight: isPicked ? 700 : 500, halo: colors.paper });
}
