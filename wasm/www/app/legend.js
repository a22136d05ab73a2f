// The legend of the diagrams.

import { h } from "./dom.js";

/// The signs, with their meanings.
export function legend() {
  const sign = (kind, words) => h("li", {}, h("i", { class: `sign ${kind}`, "aria-hidden": "true" }), words);
  return h("ul", { class: "legend", "aria-label": "Legend" }, sign("up", "to the server"), sign("down", "to the rank"), sign("wait", "waits for its answer"),
    sign("fence", "in the fence"), sign("hello", "handshake, folded"), sign("fault", "fault or report"));
}
