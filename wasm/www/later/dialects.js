// The table of dialects: an operation a row, a dialect a column, and fields of the same meaning in one colour.

import { rankChoice } from "../app/act.js";
import { fill, h } from "../app/dom.js";
import { exchanges, OPERATIONS } from "./exchanges.js";
import { shown } from "../app/inspector.js";
import { otherNames } from "../app/names.js";
import { valueOf } from "../app/play.js";
import { DIALECTS, runs, titled } from "../app/source.js";

/// Meanings of fields, each with the names it has in the dialects.
const CONCEPTS = [
  ["command", "the request or reply", ["cmd", "mcmd", "command"]],
  ["key", "the key", ["key"]],
  ["value", "the value", ["value"]],
  ["space", "the job or its key-value space", ["kvsname", "nspace", "pmijobid", "process"]],
  ["rank", "the process", ["rank", "pmirank", "pmiid", "size", "appnum"]],
  ["result", "success or error", ["rc", "status", "found", "msg", "errmsg"]],
  ["version", "version and encoding", ["pmi_version", "pmi_subversion", "version", "encoding"]],
  ["framing", "start and end of the message", ["length", "tag", "connection", "index", "greeting", "thrid"]],
];

/// Meaning of a field of a message. PMIx has keys of the program itself as names.
function conceptOf(message, field) {
  const found = CONCEPTS.find(([, , names]) => names.includes(field.name));
  if (found) return found[0];
  return message.dialect === "pmix" && ["get", "COMMIT"].includes(message.name) && !field.name.startsWith("pmix.") ? "pair" : "other";
}

export class DialectTable {
  constructor(app, session) {
    this.app = app;
    this.session = session;
    this.element = h("div", { class: "dialects", role: "region", "aria-label": "Comparison", tabindex: "0" });
    this.element.addEventListener("pointerover", (event) => this.light(event.target.closest("[data-concept]")?.dataset.concept));
    this.element.addEventListener("pointerleave", () => this.light(this.pinned));
  }

  /// Shows what is played, if that has changed. The runs are played when the table is looked at first.
  async show() {
    const { source } = this.session;
    const key = JSON.stringify([source.text, String(source.seed), this.app.chosen, source.title]);
    if (key === this.key) return;
    this.key = key;
    const all = source.text ? await runs({ text: source.text, seed: source.seed, dialects: true }) : [[this.app.active.run, "This recording"]];
    if (key !== this.key) return;
    const lane = Math.min(this.app.chosen, this.app.active.story.lanes.length - 1);
    fill(this.element, this.heading(lane), this.table(all, lane));
  }

  heading(lane) {
    const concepts = CONCEPTS.map(([concept, about]) => h("button", {
      type: "button", class: "chip", "data-concept": concept, title: about, "aria-pressed": "false", onclick: ({ currentTarget }) => this.pin(concept, currentTarget),
    }, concept));
    const choice = rankChoice("Rank whose messages are compared", this.app.active.story, lane, (lane) => this.app.choose(lane));
    return h("div", { class: "row concepts" }, h("h2", {}, "The same job in every dialect"), choice, h("span", { class: "aside" }, "Fields with one meaning have one colour:"), concepts);
  }

  table(all, lane) {
    const columns = all.map(([run, title], at) => ({ title, lacks: run.lacks, dialect: run.lacks ? "" : dialectOf(run.story, lane, DIALECTS[at]), of: run.lacks ? null : exchanges(run.story, lane) }));
    const total = (of, what) => [...of.values()].reduce((sum, one) => sum + one[what], 0);
    const row = ([word]) => h("tr", {}, h("th", { scope: "row" }, word), columns.map(({ of, lacks, dialect }) => (lacks ? h("td", { class: "aside" }, "—") : h("td", {}, cell(word, of.get(word), dialect)))));
    return h("table", { class: "compared" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "operation"), columns.map(({ title }) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, OPERATIONS.map(row)),
      h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, "in all"), columns.map(({ of, lacks }) => h("td", {}, lacks ? h("p", { class: "aside" }, lacks) : counts({ messages: total(of, "messages"), bytes: total(of, "bytes"), trips: total(of, "trips") }))))));
  }

  pin(concept, button) {
    const isPinned = this.pinned === concept;
    this.pinned = isPinned ? undefined : concept;
    for (const other of this.element.querySelectorAll(".concepts button")) other.setAttribute("aria-pressed", String(other === button && !isPinned));
    this.light(this.pinned);
  }

  /// Lights all fields of one meaning; none without one.
  light(concept = this.pinned) {
    this.element.classList.toggle("lighting", Boolean(concept));
    for (const chip of this.element.querySelectorAll("[data-concept]")) chip.classList.toggle("lit", chip.dataset.concept === concept);
  }
}

/// The dialect of a lane: as announced, else as its column is titled.
const dialectOf = (story, lane, fallback) => story.lanes[lane]?.dialect || fallback;

function counts({ messages, bytes, trips }) {
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  return h("p", { class: "counts" }, [plural(messages, "message"), `${bytes} bytes`, plural(trips, "round trip")].join(" · "));
}

/// One operation in one dialect.
function cell(word, { firsts, count, ...sum }, dialect) {
  const names = otherNames(word === "hello" ? "open" : word, dialect || "1.1");
  const title = names && h("p", { class: "names" }, names);
  if (!count) return [title, h("p", { class: "aside" }, ABSENT[word]?.[dialect === "pmix" ? 1 : 0] ?? "This run has none.")];
  const repeated = count > firsts.length && h("p", { class: "aside" }, `${count} in all; the first is shown`);
  return [title, counts(sum), firsts.map(({ request, reply }) => [wire(request, "→"), reply && wire(reply, "←")]), repeated];
}

/// Why an operation may need no message: in PMI, and in PMIx.
const ABSENT = {
  put: [undefined, "None: the client keeps it until the commit."],
  commit: ["None: a put is at the server already, and the fence makes it visible.", undefined],
};

/// A message as its fields.
function wire(message, arrow) {
  const fields = message.fields.filter((field) => !(message.dialect === "pmix" && ["connection", "length"].includes(field.name)));
  const chip = (field) => {
    const text = shown(valueOf(message, field)).trim();
    const brief = text.length > VALUE_MAX ? `${text.slice(0, VALUE_MAX)}…` : text;
    return h("span", { class: "chip", "data-concept": conceptOf(message, field), title: text }, h("b", {}, field.name), brief && ` ${isBinary(message, field) ? `${field.end - field.value} bytes` : brief}`);
  };
  return h("p", { class: message.up ? "wire up" : "wire down" }, h("span", { class: "arrow", "aria-label": message.up ? "to the server" : "to the rank" }, arrow), fields.slice(0, FIELDS_MAX).map(chip),
    fields.length > FIELDS_MAX && h("span", { class: "aside" }, `and ${fields.length - FIELDS_MAX} more`));
}

const isBinary = (message, { text, value, end }) => text === undefined && /[^\x20-\x7e\n]/.test(message.bytes.slice(value, end));

const VALUE_MAX = 28;
const FIELDS_MAX = 9;
