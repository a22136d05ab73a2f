// The key-value space at the server: a card for each value, behind a curtain until the fence lifts it.

import { h } from "./dom.js";
import { named, shown } from "./inspector.js";

/// The cards of every job.
export function kvsView(app) {
  const pane = app.active;
  const view = pane.run.view(app.stepOf(pane));
  if (!view.keys) return h("p", { class: "empty" }, "A recording contains messages, but no keys of the server.");
  const isPmix = pane.story.lanes.some((lane) => lane.dialect === "pmix");
  return h("div", {},
    view.fences.map((fence) => keyspaceView(fence, view.keys.filter((key) => key.job === fence.job), view.fences.length > 1, pane.story.unit)),
    isPmix && h("section", {}, h("h3", {}, "Committed in PMIx"),
      h("p", { class: "aside" }, "The server keeps it rank by rank, and not among these keys: pick the answer to a get to see what a rank has committed.")));
}

/// The keys of one job, and the fence that makes them visible.
function keyspaceView({ job, generation, inside, ranks, missing, missing_count: missed, key_count: all, hidden_count: hidden }, keys, isNamed, unit) {
  const name = isNamed ? `Keys of ${job}` : "Keys at the server";
  // By writer: neither a put nor a fence moves the cards of other ranks.
  const cards = keys.toSorted((a, b) => (a.by ?? -1) - (b.by ?? -1)).slice(0, CARDS_MAX);
  const awaited = !inside ? `No ${unit} has entered it.` : missed ? `Awaited: ${named(missing, missed, unit)}.` : `All ${unit}s are inside.`;
  return h("section", { class: "keyspace", key: job },
    h("h3", {}, name, h("span", {}, hidden ? `${all}, ${hidden} behind the fence` : String(all))),
    h("p", {}, `${isNamed ? `${job}, fence` : "Fence"} ${generation + 1}: ${inside} of ${ranks} ${unit}s inside`),
    h("div", { class: "meter", role: "meter", "aria-label": isNamed ? `Ranks of ${job} in the fence` : unit === "node" ? "Nodes in the fence" : "Ranks in the fence", "aria-valuemin": 0, "aria-valuemax": ranks, "aria-valuenow": inside },
      h("i", { style: `width:${(inside / ranks) * 100}%` })),
    h("p", { class: "aside" }, awaited),
    all ? h("ul", { class: "cards", "aria-label": name }, cards.map(cardView)) : h("p", { class: "empty" }, "Nothing has been put."),
    all > CARDS_MAX && h("p", { class: "aside" }, `and ${all - CARDS_MAX} more`));
}

/// One value. Its node stays while it is at the server, so that the style sheet can move the curtain. The value is
/// part of the identity: until the fence, a value that was put again is a card beside the one that it replaces.
function cardView({ job, key, value, by, node, visible }) {
  const writer = by == null ? "process manager" : `rank ${by}`;
  const reach = !visible ? "behind the fence" : node == null ? "visible to all" : `visible on node ${node}`;
  return h("li", { class: `card${visible ? "" : " hidden"}${by == null ? " wide" : ""}`, key: JSON.stringify([job, by, node, key, value]) },
    h("strong", {}, shown(key)), " ", h("code", {}, shown(value.length > VALUE_MAX ? `${value.slice(0, VALUE_MAX)}…` : value)), " ",
    h("small", {}, `${writer}, ${reach}`));
}

const CARDS_MAX = 100;
const VALUE_MAX = 120;
