// Menus of what is drawn: a message, a rank. They act on the run at the moment that the item needs.

import { act, actAt } from "./act.js";
import { h } from "./dom.js";
import { ends, who } from "./names.js";
import { stateOf } from "./pane.js";

/// Opens a menu at a place of the window. `items` are pairs of a name and an action, or `null` for a line between them.
export function openMenu(title, items, { x, y }, opener = document.activeElement) {
  document.querySelector(".menu")?.remove();
  const close = () => {
    menu.remove();
    removeEventListener("pointerdown", outside, true);
    opener?.focus?.({ preventScroll: true });
  };
  const choose = (action) => () => {
    close();
    action();
  };
  const item = (entry) => (entry === null ? h("hr", { role: "separator" })
    : h("button", { type: "button", role: "menuitem", tabindex: "-1", onclick: choose(entry[1]) }, entry[0], entry[2] && h("small", {}, entry[2])));
  const menu = h("div", { class: "menu", role: "menu", "aria-label": title }, h("p", { role: "presentation" }, title), items.map(item));
  const outside = (event) => menu.contains(event.target) || close();
  menu.addEventListener("keydown", (event) => {
    const all = [...menu.querySelectorAll("[role=menuitem]")];
    const at = all.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (next !== undefined) all.at(next % all.length).focus();
    else if (event.key !== "Enter" && event.key !== " ") return;
    event.stopPropagation();
    if (event.key !== "Enter" && event.key !== " ") event.preventDefault();
    if (event.key === " ") {
      event.preventDefault();
      document.activeElement.click();
    }
  });
  document.getElementById("main").append(menu);
  const { offsetWidth: width, offsetHeight: height } = menu;
  menu.style.left = `${Math.max(Math.min(x, innerWidth - width - 8), 8)}px`;
  menu.style.top = `${Math.max(Math.min(y, innerHeight - height - 8), 8)}px`;
  addEventListener("pointerdown", outside, true);
  menu.querySelector("[role=menuitem]")?.focus();
  return menu;
}

/// The menu of one message. A stream loses no single message: it loses it with the link. What changes its bytes is
/// injected before it is sent, what changes its way after.
export function messageMenu(session, message, place) {
  const { app } = session;
  const { story, run } = app.active;
  const rank = story.lanes[message.lane].name;
  const isTree = story.unit === "node";
  const [before, after] = [Math.max(message.sent[1] - 1, 0), message.sent[1]];
  const side = message.up ? "up" : "down";
  const end = message.parts.at(-1)?.at[1] ?? after;
  const items = [
    ["Look into it", () => app.picked === message || app.pick(message, app.active)],
    ["Go to its sending", () => app.seekStep(after)],
    ["Go to its arrival", () => app.seekStep(end)],
  ];
  if (run.canAct && isTree) items.push(null, ["Drop it", () => actAt(session, after, `reset ${rank}`), "breaks the edge with it"]);
  else if (run.canAct) {
    items.push(null,
      ["Drop it", () => actAt(session, after, `reset ${rank}`), "breaks the link with it"],
      ["Delay it", () => actAt(session, after, `stall ${rank} 300..500`), "by 300 to 500 µs"],
      ["Flip a bit of it", () => actAt(session, before, `flip ${rank} ${side}`)],
      ["Split it", () => actAt(session, before, `shatter ${rank} ${side}`), "it arrives byte by byte"]);
  }
  return openMenu(`${message.label || "message"}, ${ends(story, message).join(" to ")}`, items, place);
}

/// The menu of one rank.
export function rankMenu(session, lane, place) {
  const { app } = session;
  const { story, run } = app.active;
  const state = run.stateAt(app.step, lane);
  const name = who(story, lane);
  const now = (what) => () => {
    app.choose(lane);
    act(session, what);
  };
  const items = [[app.followed(app.active) === lane ? `Follow no ${story.unit}` : "Follow it", () => app.follow(app.active, lane)],
    ["Inspect it", () => {
      app.choose(lane);
      session.tabs.open("Machines");
    }]];
  if (run.canAct && story.unit === "node") {
    const node = story.lanes[lane].name;
    items.push(null, ["Kill", now(`kill ${node}`)], ["Stop", now(`stop ${node}`)], ["Break its edge", now(`reset ${node}`)], null, ["Fork the run here", () => session.fork()]);
  } else if (run.canAct) {
    items.push(["Be this rank", () => {
      app.choose(lane);
      session.tabs.open("Act");
      act(session, `order ${lane} manual`);
    }], null, ["Kill", now(`kill ${lane}`)],
      state?.life === "stopped" ? ["Continue", now(`continue ${lane}`)] : ["Stop", now(`stop ${lane}`)],
      ["Delay its link", now(`stall ${lane} 300..500`)], ["Break its link", now(`reset ${lane}`)], null, ["Fork the run here", () => session.fork()]);
  }
  return openMenu(state ? `${name}: ${stateOf(state).word}` : name, items, place);
}

/// The menu of the head of a tree.
export function headMenu(session, place) {
  return openMenu("the head", [["Kill", () => act(session, "kill 0"), "ends every node"]], place);
}
