// What lies over the page for a moment: the text of the scenario, what can be saved, the keys.

import { button, h, icon } from "../app/dom.js";
import { legend } from "../app/legend.js";
import { notice } from "../app/notice.js";
import { svgOf } from "./svg.js";

function dialog(title, ...parts) {
  const box = h("dialog", { "aria-label": title, onclose: () => box.remove() },
    h("div", { class: "row" }, h("h2", {}, title), button("Close", icon("close"), () => box.close(), { class: "quiet" })), parts);
  box.addEventListener("click", (event) => event.target === box && box.close());
  document.body.append(box);
  box.showModal();
  return box;
}

/// The scenario as text, to be changed and played.
export function edit(session) {
  const { source } = session;
  if (!source.text) return notice("A recording has no scenario.");
  const area = h("textarea", { class: "field-box mono", rows: 22, spellcheck: "false", "aria-label": "Text of the scenario" });
  area.value = source.text;
  const wrong = h("p", { class: "warn", role: "status" });
  const box = dialog("The scenario", h("p", { class: "aside" }, "One sentence to a line. The grammar is on the page of pmi-sim."), area, wrong,
    h("button", { type: "button", class: "primary", onclick: async () => {
      try {
        await session.play({ name: null, text: area.value, seed: source.seed });
        box.close();
      } catch (error) {
        wrong.textContent = error.message;
      }
    } }, "Play it"));
}

/// A file, or a job that runs now.
export function open(session, choose) {
  const address = h("input", { type: "text", class: "field-box mono", "aria-label": "Address of the job", value: "ws://127.0.0.1:", spellcheck: "false" });
  const live = (event) => {
    event.preventDefault();
    session.live(address.value.trim()).then(() => box.close()).catch(notice);
  };
  const box = dialog("Open",
    h("button", { type: "button", class: "offer", onclick: () => { box.close(); choose(); } }, h("strong", {}, "A file"),
      h("span", {}, "a trace of pmi-host or of this page (of a log of another launcher: pmi-host trace export); or drop it anywhere")),
    h("form", { class: "offer live", onsubmit: live }, h("strong", {}, "A job that runs now"),
      h("span", {}, "of a launcher that was started with --websocket"),
      h("div", { class: "row" }, address, h("button", { type: "submit" }, "Watch"))));
}

/// What is shown, as a file.
export function save(session) {
  const { app } = session;
  const name = (app.active.story.name || "run").replace(/[^\w.-]/g, "-");
  const offer = (title, about, ending, kind, make) => h("button", { type: "button", class: "offer", onclick: () => {
    try {
      const url = URL.createObjectURL(new Blob([make()], { type: kind }));
      h("a", { href: url, download: `${name}${ending}` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
      box.close();
    } catch (error) {
      notice(error);
    }
  } }, h("strong", {}, title), h("span", {}, about));
  const box = dialog("Save",
    offer("Picture", "the current diagram, as SVG", ".svg", "image/svg+xml", () => svgOf(app.active)),
    app.active.run.hasTrace && offer("Trace", "the whole run, for this page and for pmi-sim replay", ".trace", "text/plain", () => app.active.run.trace()));
}

/// Keys, and the legend of the diagram.
export function help() {
  const rows = (pairs) => h("table", { class: "states" }, pairs.map(([key, what]) => h("tr", {}, h("th", { scope: "row" }, key), h("td", {}, what))));
  dialog("Help",
    h("p", {}, "The real server and the real clients of this project run in a deterministic simulation: the same scenario and seed always give the same run. Time goes from left to right."),
    legend(),
    rows([["Space", "play and pause"], ["← →", "a step back, a step forward"], ["n, N", "jump to the next of the chosen kind, or back"], ["Home, End", "to the start, to the end"],
      ["[ ]", "pick the message before, or the next one"], ["+ − 0", "zoom in, zoom out, see all"], ["↑ ↓", "follow another rank"], ["Esc", "clear the selection"], ["c", "fold ranks with the same messages"], ["h", "fold handshakes"], ["v", "next view: lanes, ring, dialects or tree"], ["m", "menu of the picked message, or of the rank"], ["p", "presenter: large text, captions"], ["f", "fork here"], ["?", "this page"]]),
    h("p", { class: "aside" }, "On the diagram: drag to move, hold control and turn the wheel to zoom, click an arrow to look into it, click the name of a rank to follow it, drag along the times to scrub."));
}
