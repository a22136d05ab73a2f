// The legend of the diagrams.

import { h } from "./dom.js";

/// The signs, with their meanings. Pictures of traces have the same (`transports/trace/src/view/svg`).
export const SIGNS = [["up", "to the server"], ["down", "to the rank"], ["wait", "waits for its answer"], ["fence", "in the fence"],
  ["hello", "handshake, folded"], ["fault", "fault or report"]];

/// The signs beside their meanings.
export function legend() {
  return h("ul", { class: "legend", "aria-label": "Legend" }, SIGNS.map(([kind, words]) => h("li", {}, h("i", { class: `sign ${kind}`, "aria-hidden": "true" }), words)));
}
