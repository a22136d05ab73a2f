// Sections of the panel beside the diagrams: one message byte by byte, all events, machines, wait-for relations.

import { h } from "./dom.js";
import { ends, who } from "./names.js";
import { firstFrom, sentUpTo } from "./search.js";
import { linksOf } from "./sections.js";
import { CLIENT, FIELD, MEANING, MEMBER, RULE } from "./words.js";

/// What is shown of a message: its bytes beside its fields. Pointing at one lights the other.
export function messageView(app, command) {
  const picked = app.picked;
  if (!picked) {
    return h("p", { class: "empty" }, "Pick an arrow in the diagram, or a line below: its bytes stand here beside what they mean.");
  }
  const story = app.active.story;
  if (picked.text !== undefined) return eventView(story, picked);
  const [from, to] = ends(story, picked);
  const { spoken } = story;
  const latency = story.recorded ? "not recorded" : picked.arrived ? spoken(picked.arrived[0] - picked.sent[0]) : "never";
  const lit = (index, isLit) => ({ currentTarget }) => {
    for (const cell of currentTarget.closest(".message").querySelectorAll("[data-field]")) {
      cell.classList.toggle("lit", isLit && Number(cell.dataset.field) === index);
    }
  };
  const light = (index) => ({ onpointerenter: lit(index, true), onpointerleave: lit(index, false),
    onfocus: lit(index, true), onblur: lit(index, false) });
  const fieldAt = (at) => picked.fields.findIndex((field) => at >= field.start && at < field.end);
  const rows = picked.fields.map((field, index) => {
    return h("tr", { "data-field": index, tabindex: "0", ...light(index) },
      h("th", { scope: "row" }, field.name, FIELD[field.name] && h("small", {}, FIELD[field.name])),
      h("td", {}, value(picked, field)));
  });
  const shownBytes = picked.bytes.slice(0, BYTES_MAX);
  const dump = h("div", { class: "dump", role: "group", "aria-label": "Bytes of the message" });
  for (let start = 0; start < shownBytes.length; start += 8) {
    const hex = h("span", { class: "hex" });
    const letters = h("span", { class: "letters" });
    for (let at = start; at < Math.min(start + 8, shownBytes.length); at++) {
      const index = fieldAt(at);
      const code = shownBytes.charCodeAt(at);
      const one = h("b", { "data-field": index, ...light(index) }, code.toString(16).padStart(2, "0"));
      const letter = h("b", { "data-field": index, ...light(index) }, code > 32 && code < 127 ? shownBytes[at] : code === 32 ? "\u00b7" : code === 10 ? "↵" : "▫");
      hex.append(one, " ");
      letters.append(letter);
    }
    dump.append(h("span", { class: "at" }, start.toString(16).padStart(3, "0")), hex, letters);
  }
  return h("div", { class: "message", key: picked },
    h("h3", { class: picked.up ? "up" : "down" }, picked.name || (picked.raw ? "bytes by hand" : "a message"),
      h("span", {}, `${from} → ${to}`)),
    MEANING[picked.name] && h("p", { class: "meaning" }, MEANING[picked.name]),
    dump, picked.bytes.length > BYTES_MAX && h("p", { class: "aside" }, `and ${picked.bytes.length - BYTES_MAX} more`),
    rows.length ? h("table", { class: "fields" }, h("caption", { class: "unseen" }, "Fields"), rows)
      : h("p", { class: "warn" }, "These bytes are no message of PMI."),
    h("button", { type: "button", "aria-haspopup": "menu", onclick: ({ currentTarget }) => {
      const { left, bottom } = currentTarget.getBoundingClientRect();
      app.onMenu({ message: picked }, app.active, { x: left, y: bottom });
    } }, "Act on this message"),
    h("dl", { class: "facts" },
      pair("sent", spoken(picked.sent[0])), pair("in transit", latency), pair("bytes", String(picked.bytes.length)),
      pair("arrived in", picked.parts.length === 1 ? "one piece" : `${picked.parts.length} pieces`)),
    further(linksOf(picked), command));
}

/// Where more of a message is found, and the command line that makes its run.
function further(links, command) {
  return h("div", { class: "further" }, links.length > 0 && h("p", {}, links.map(([title, address]) => h("a", { href: address, target: "_blank", rel: "noopener" }, title))),
    command && h("p", { class: "aside" }, "On a command line: ", h("code", {}, command)));
}

/// What a field holds: in words, or in PMIx a number if it is short, else text.
function value(message, field) {
  const bytes = message.bytes.slice(field.value, field.end);
  if (field.text !== undefined || message.dialect !== "pmix" || bytes.length > 4) return shown(field.text ?? bytes);
  return String([...bytes].reduce((number, letter) => (number << 8) | letter.charCodeAt(0), 0));
}

function eventView(story, event) {
  const name = event.lane == null ? story.hub : who(story, event.lane);
  const rule = event.kind === "rule" && RULE[event.text.split(" ")[2]];
  return h("div", { class: "message", key: event },
    h("h3", { class: "bad" }, event.kind, h("span", {}, name)),
    h("p", { class: "meaning" }, said(event.text)), rule && h("p", {}, `The rule: ${rule}.`),
    h("dl", { class: "facts" }, pair("at", story.spoken(event.at[0])), pair("step", String(event.at[1]))));
}

function pair(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

/// Bytes as text; what cannot be seen is named.
export function shown(bytes) {
  return bytes.replace(/[^\x20-\x7e]/g, (letter) => (letter === "\n" ? "\\n" : `\\x${letter.charCodeAt(0).toString(16).padStart(2, "0")}`));
}

/// An event as a sentence.
export function said(text) {
  return text
    .replace(/^host (\d+) report /, "the server reports rank $1: ")
    .replace(/^host - report /, "the server reports: ")
    .replace(/^host - kill-all$/, "the process manager terminates the job")
    .replace(/^node (\d+) attached 0$/, "node $1 is attached to the head")
    .replace(/^node (\d+) attached (\d+)$/, "node $1 is attached to node $2")
    .replace(/^node (\d+) detached$/, "node $1 has lost its parent")
    .replace(/^head report (\d+)$/, "the head reports that node $1 is lost")
    .replace(/^node 0 /, "the head ")
    .replace(/^rank (\d+) ask \d+ /, "rank $1 requests ")
    .replace(/^rank (\d+) got \d+ 0(.*)$/, "rank $1 receives success$2")
    .replace(/^rank (\d+) got \d+ /, "rank $1 receives an error: ")
    .replace(/^host (\d+) leave$/, "the server closes the link of rank $1")
    .replace(/^host (\S+) closed$/, "the link of rank $1 is closed")
    .replace(/^host (\S+) connected/, "rank $1 is connected")
    .replace(/^host (\d+) joined$/, "rank $1 has joined")
    .replace(/^host (\d+) spawned (\S+)$/, "the server starts the job $2, spawned by rank $1")
    .replace(/^host - forgot (\S+)$/, "the job $1 is over, and the server removes it")
    .replace(/^rank (\d+) leave$/, "rank $1 closes its end of the link")
    .replace(/^(rank|node) (\S+) start( as .*)?$/, (_, unit, name, as) => `${unit} ${name} starts${as ?? ""}`)
    .replace(/^(rank|node) (\d+) exit /, "$1 $2 exits with ")
    .replace(/^rank (\d+) broke /, "rank $1 rejects the session: ")
    .replace(/^(rank|node) (\d+) (killed|stopped|hung|deaf)$/, "$1 $2 is $3")
    .replace(/^the head (killed|stopped)$/, "the head is $1")
    .replace(/^link (\d+) fault /, "fault, rank $1: ")
    .replace(/^node (\d+) fault /, "fault, node $1: ")
    .replace(/^the head fault /, "fault, the head: ")
    .replace(/^check - /, "a rule is broken: ")
    .replace(/^world - quiet$/, "quiet: no further event without an injection");
}

/// The machines of the chosen rank: their states by name, and the tables they move in.
export function machinesView(app) {
  const pane = app.active;
  if (!pane.run.canAct) return h("p", { class: "empty" }, "A recording contains messages, but no states of machines.");
  const own = pane.run.rank(app.stepOf(pane), app.chosen);
  if (pane.story.unit === "node") return nodeView(own);
  const facts = [
    ["process", own.life], ["dialect", pane.story.lanes[app.chosen].dialect], ["node", String(own.node)],
    ["asks", own.asks.join("; ") || "nothing"], ["next step", own.next || "nothing"],
    ["to the server", pipe(own.up, own.unsent, "not sent")], ["to the rank", pipe(own.down, own.owed, "not sent")],
  ];
  return h("div", {},
    h("h3", {}, `Machines of rank ${own.rank}`), h("dl", { class: "facts wide" }, facts.map(([name, value]) => pair(name, shown(value)))),
    table("Client", CLIENT, own.client), table("Member, as the server sees it", MEMBER, own.member));
}

/// A node server of a tree.
function nodeView(own) {
  const parent = own.parent == null ? "none" : own.parent === 0 ? "the head" : `node ${own.parent}`;
  const facts = [["process", own.life], ["parent", parent], ["fences entered", String(own.entered)], ["fences ended", String(own.ended)], ["waits for", own.asks.join("; ") || "nothing"]];
  return h("div", {}, h("h3", {}, `Machine of node ${own.rank}`), h("dl", { class: "facts wide" }, facts.map(([name, value]) => pair(name, value))));
}

function pipe({ flying, landed, over }, unsent, word) {
  const parts = [flying && `${flying} bytes flying`, landed && `${landed} not read`, unsent && `${unsent} ${word}`, over && "closed"];
  return parts.filter(Boolean).join(", ") || "empty";
}

function table(name, states, current) {
  return h("table", { class: "states" }, h("caption", {}, name),
    states.map(([state, about, leads]) => h("tr", { class: state === current ? "current" : "", "aria-current": state === current ? "true" : null },
      h("th", { scope: "row" }, state), h("td", {}, about, h("small", {}, leads)))));
}

/// Ranks by their numbers; many of them by their count. Of many, `ranks` are the first.
export function named(ranks, count = ranks.length, unit = "rank") {
  return count > 8 ? `${count} ${unit}s` : ranks.map((rank) => `${unit} ${rank}`).join(", ");
}

/// Wait-for relations.
export function debtsView(app) {
  const pane = app.active;
  const view = pane.run.view(app.stepOf(pane));
  if (!view.debts) return h("p", { class: "empty" }, "A recording contains messages, but no wait-for relations.");
  const { unit, hub } = pane.story;
  const list = view.debts.map(({ rank, what, debtors, debtors_count: count }) => h("li", {},
    h("span", { class: "who" }, count ? named(debtors, count, unit) : hub), h("span", { class: "owes" }, `is awaited by ${unit} ${rank}`), h("code", {}, shown(what))));
  const broken = view.broken.map(({ rule, what }) => h("li", { class: "bad" }, h("strong", {}, RULE[rule] ?? rule), h("p", {}, what)));
  return h("div", {},
    h("h3", {}, "Wait-for relations"), list.length ? [h("ul", { class: "debts" }, list), view.debt_count > list.length && h("p", { class: "aside" }, `and ${view.debt_count - list.length} more`)] : h("p", { class: "empty" }, `No ${unit} waits.`),
    h("h3", {}, "Rules"), broken.length ? h("ul", { class: "broken" }, broken) : h("p", { class: "empty" }, "Every rule holds so far."));
}

/// Messages and events so far, the last first.
export function eventsView(app) {
  const { story } = app.active;
  const step = app.stepOf(app.active);
  const followed = app.followed(app.active);
  const isShown = (one) => followed == null || one.lane === followed || one.lane == null;
  // While time runs the list moves, and its end is not read.
  const most = !app.isPlaying ? EVENTS_MAX : app.active.isDense ? EVENTS_DENSE_MAX : EVENTS_MOVING_MAX;
  const messages = lastOf(story.messages, sentUpTo(story.messages, step), isShown, most);
  const events = lastOf(story.told, firstFrom(story.told, step + 1, ({ at }) => at[1]), isShown, most);
  const all = [...messages.map((message) => [message.sent, message]), ...events.map((event) => [event.at, event])]
    .sort(([a], [b]) => b[1] - a[1]).slice(0, most);
  const line = ([at, one]) => {
    // While time runs most lines stay, and are the same elements.
    if (!lines.has(one)) lines.set(one, made(app, at, one));
    const item = lines.get(one);
    item.firstChild.setAttribute("aria-pressed", String(app.picked === one));
    return item;
  };
  return h("div", {}, h("p", { class: "aside" }, followed == null ? "Newest first." : `Newest first, of ${who(story, followed)} and the ${story.hub}.`),
    h("ol", { class: story.spoken(story.end).length > 8 ? "events exact" : "events" }, all.map(line)));
}

/// The line of a message or an event of the active run.
function made(app, at, one) {
  const { story } = app.active;
  const isMessage = one.text === undefined;
  const words = isMessage ? `${ends(story, one).join(" → ")}: ${shown(one.label)}` : said(one.text);
  const tone = isMessage ? (one.raw || one.isRefused ? "bad" : one.up ? "up" : "down") : ["process", "edge", "quiet"].includes(one.kind) ? "calm" : "bad";
  return h("li", { key: one }, h("button", { type: "button", class: `event ${tone}`, onclick: () => app.pick(one, app.active) },
    h("time", {}, story.spoken(at[0])), h("span", {}, words)));
}

/// Lines of messages and events.
const lines = new WeakMap();

/// The last of the first `count` items that are `is`, `most` of them.
function lastOf(list, count, is, most) {
  const found = [];
  for (let at = count - 1; at >= 0 && found.length < most; at--) if (is(list[at])) found.push(list[at]);
  return found;
}

const BYTES_MAX = 768;
const EVENTS_MAX = 120;
const EVENTS_MOVING_MAX = 24;
// Where all lines are new.
const EVENTS_DENSE_MAX = 12;
