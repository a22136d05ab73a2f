// Injections into a run: steps of a rank, faults, forks.

import { button, h, icon } from "./dom.js";
import { notice } from "./notice.js";
import { stateOf } from "./pane.js";
import { otherNames } from "./names.js";
import { quoted, titled, typed } from "./source.js";

/// Faults: label, meaning, and injection.
const FAULTS = [
  ["Kill", "Its process is killed.", (rank) => `kill ${rank}`],
  ["Stop", "Its process is stopped.", (rank) => `stop ${rank}`],
  ["Continue", "A stopped process is continued.", (rank) => `continue ${rank}`],
  ["Delay", "Nothing moves on its link for 300 to 500 µs.", (rank) => `stall ${rank} 300..500`],
  ["Split frame", "The next bytes it sends arrive one by one.", (rank) => `shatter ${rank} up`],
  ["Flip a bit", "A bit of the next bytes it sends changes.", (rank) => `flip ${rank} up`],
  ["Break link", "The link breaks; bytes in transit are lost.", (rank) => `reset ${rank}`],
  ["Wrong version", "It requests PMI 9.0, which does not exist.", (rank) => `say ${rank} "cmd=init pmi_version=9 pmi_subversion=0\\n"`],
  ["Oversize value", "It puts a value of 5000 bytes.", (rank, dialect) => `say ${rank} ${quoted(oversize(dialect))}`],
  ["Leave early", "It closes its end without finalize, and lives on.", (rank) => `cut ${rank}`],
];

/// Faults of a node of a tree.
const NODE_FAULTS = [
  ["Kill", "Its process is killed.", (node) => `kill ${node}`],
  ["Stop", "It is silent from now on, and its edges stay.", (node) => `stop ${node}`],
  ["Break edge", "The edge to its parent breaks.", (node) => `reset ${node}`],
];

function oversize(dialect) {
  const value = "x".repeat(5000);
  if (!dialect.startsWith("2")) return `cmd=put kvsname=kvs_sim key=big value=${value}\n`;
  const body = `cmd=kvs-put;key=big;value=${value};`;
  return String(body.length).padStart(6) + body;
}

/// The view, for the run that is looked at.
export function actView(app, session) {
  const pane = app.active;
  if (!pane.run.canAct) return h("p", { class: "empty" }, "A recording can be watched only.");
  const lane = app.chosen;
  const rank = pane.run.rank(app.stepOf(pane), lane);
  const dialect = pane.story.lanes[lane].dialect;
  const { word } = stateOf(rank);
  const done = pane.run.done.split("\n").filter(Boolean);
  const isTree = pane.story.unit === "node";
  const choice = rankChoice(isTree ? "Node to act on" : "Rank to act on", pane.story, lane, (lane) => app.choose(lane));
  return h("div", { class: "act" },
    h("div", { class: "row" }, choice, h("span", { class: "aside" }, isTree ? word : `${word}, ${titled(dialect)}`)),
    // Where a rank is played by hand, its messages come first.
    isTree ? faults(session, rank.rank, dialect, NODE_FAULTS) : rank.next === "manual" ? [hand(session, rank, dialect), faults(session, lane, dialect)] : [faults(session, lane, dialect), hand(session, rank, dialect)],
    h("section", {}, h("h3", {}, "Fork the run"),
      h("p", { class: "aside" }, "A copy of this run beside it. Later injections apply to the copy."),
      h("button", { type: "button", onclick: () => session.fork() }, icon("fork"), "Fork here")),
    done.length ? h("section", {}, h("h3", {}, "Injections of this run", button("Undo the last", icon("undo"), () => session.undo(), { class: "quiet" })),
      h("ul", { class: "debts" }, done.map((line) => h("li", {}, doneView(line))))) : null);
}

/// A rank to be chosen: from a list, or by its number among very many.
export function rankChoice(name, { lanes, unit }, lane, choose) {
  const onchange = ({ currentTarget: { value } }) => choose(Math.min(Math.max(Math.trunc(Number(value)) || 0, 0), lanes.length - 1));
  if (lanes.length > LISTED_MAX) return h("input", { type: "number", class: "field-box ranks", min: 0, max: lanes.length - 1, value: lane, "aria-label": name, onchange });
  return h("select", { "aria-label": name, onchange }, lanes.map((other, at) => h("option", { value: at, selected: at === lane }, `${unit} ${other.name}`)));
}

/// A longer list is not read.
const LISTED_MAX = 512;

function faults(session, lane, dialect, all = FAULTS) {
  return h("section", { key: "faults" }, h("h3", {}, "Inject a fault"),
    h("div", { class: "grid" }, all.map(([name, about, what]) =>
      h("button", { type: "button", title: about, "aria-label": `${name}: ${about}`, onclick: () => act(session, what(lane, dialect)) }, name))));
}

function doneView(line) {
  const [step, ...words] = line.split(" ");
  const what = words.filter((word) => word !== "quiet").join(" ");
  return [h("span", { class: "aside" }, `step ${step}`), h("code", {}, what.length > 80 ? `${what.slice(0, 79)}…` : what)];
}

/// To be a rank: the next legal message, or any bytes at all.
function hand(session, rank, dialect) {
  const held = rank.next === "manual";
  const order = (step) => act(session, `order ${rank.rank} ${step}\norder ${rank.rank} manual`);
  const isGone = !["running", "unborn", "deaf", "stopped"].includes(rank.life);
  if (isGone) return h("section", {}, h("h3", {}, `Be rank ${rank.rank}`), h("p", { class: "aside" }, `It is ${rank.life}; go back in time to be it.`));
  if (!held) {
    return h("section", {}, h("h3", {}, `Be rank ${rank.rank}`),
      h("p", { class: "aside" }, rank.next ? `Its next step: ${rank.next}` : "Its script has ended."),
      h("button", { type: "button", class: "primary", onclick: () => act(session, `order ${rank.rank} manual`) }, `Be rank ${rank.rank}`));
  }
  const legal = rank.may.map((form) => orderForm(form, order, dialect));
  const pause = rank.life === "unborn" ? `Rank ${rank.rank} has not started yet: go on in time.`
    : rank.asks.length ? `You wait for the answer to: ${rank.asks.join(", ")}` : "Nothing is legal now: only bytes of your own.";
  const raw = h("input", { type: "text", class: "field-box mono", "aria-label": "Bytes to send", placeholder: "cmd=get_maxes\\n", spellcheck: "false" });
  const say = (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const { value } = form.querySelector("input");
    if (!value) return;
    form.reset();
    act(session, `say ${rank.rank} ${quoted(typed(value))}`);
  };
  return h("section", { class: "hand", key: `hand ${rank.rank}` }, h("h3", {}, `You are rank ${rank.rank}`),
    legal.length ? [h("h4", {}, "The next legal message"), h("div", { class: "orders" }, legal)]
      : h("p", { class: "aside" }, pause),
    h("h4", {}, "Or any bytes"), h("form", { class: "row", onsubmit: say }, raw, h("button", { type: "submit" }, "Send")),
    h("p", { class: "aside" }, "\\n ends a line. After bytes of your own, your client is no longer used."),
    h("div", { class: "row" },
      h("button", { type: "button", onclick: () => act(session, `order ${rank.rank} exit 0`) }, "Exit"),
      h("button", { type: "button", onclick: () => act(session, `order ${rank.rank} wait`) }, "Let go")));
}

/// `put KEY VALUE` as a button, with its names on the wire and in the API, and a field for each word in capitals.
function orderForm(form, order, dialect) {
  const [word, ...slots] = form.split(" ");
  const names = otherNames(word, dialect);
  const fields = slots.map((slot) => (/^[A-Z]+$/.test(slot)
    ? h("input", { type: "text", class: "field-box", "aria-label": `${word}: ${slot.toLowerCase()}`, placeholder: slot.toLowerCase(), spellcheck: "false", required: true })
    : slot));
  const send = (event) => {
    event.preventDefault();
    const values = [...event.currentTarget.querySelectorAll("input")].map((field) => quoted(field.value.replaceAll("$", "$$$$")));
    const words = fields.map((field) => (typeof field === "string" ? field : values.shift()));
    event.currentTarget.reset();
    order([word, ...words].join(" "));
  };
  return h("form", { class: "order", key: form, onsubmit: send }, h("button", { type: "submit", "aria-description": names, title: names }, h("span", {}, word), names && h("small", { "aria-hidden": "true" }, names)), fields.filter((field) => typeof field !== "string"));
}

/// Goes to a step, and injects there.
export function actAt(session, step, what) {
  session.app.seekStep(step);
  session.app.step = step;
  act(session, what);
}

/// Injects at this moment, reports dropped injections, and shows the continuation.
export function act(session, what) {
  const { app } = session;
  try {
    const dropped = session.act(what);
    const words = dropped === 1 ? "One later injection was removed with it." : `${dropped} later injections were removed with it.`;
    if (dropped) notice(words, { name: "Undo", act: () => session.undo() });
    app.play();
  } catch (error) {
    notice(error);
  }
}
