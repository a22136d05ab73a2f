// What went wrong, where a person sees it. Nothing is swallowed.

import { button, h, icon } from "./dom.js";

/// Shows a message until it is closed; what is no error goes away by itself.
export function notice(what, action) {
  const isError = what instanceof Error;
  const words = isError ? what.message || String(what) : String(what);
  const box = h("div", { class: isError ? "notice bad" : "notice" }, h("p", {}, words),
    action && h("button", { type: "button", onclick: () => { box.remove(); action.act(); } }, action.name),
    button("Close this message", icon("close"), () => box.remove(), { class: "quiet" }));
  document.getElementById("notices").append(box);
  if (!isError) setTimeout(() => box.remove(), 6000);
}

addEventListener("error", (event) => notice(event.error ?? new Error(event.message)));
addEventListener("unhandledrejection", (event) => notice(event.reason instanceof Error ? event.reason : new Error(String(event.reason))));
