// The line on top: what is played, and what can be done with it as a whole.

import { button, h, icon } from "./dom.js";
import { LARGE } from "./large.js";
import { CHALLENGES } from "./challenges.js";
import { LESSONS } from "./lessons.js";
import { notice } from "./notice.js";
import { DIALECTS, ranksOf, titled } from "./source.js";
import { theme } from "./theme.js";

export class Header {
  /// `scenarios` are those that come with the page.
  constructor(session, scenarios) {
    this.session = session;
    const tried = (what) => async () => {
      try {
        await what();
      } catch (error) {
        notice(error);
        this.show();
      }
    };
    this.choice = h("select", { "aria-label": "Scenario", class: "scenario", onchange: tried(() => this.chosen()) },
      [["Lessons", LESSONS], ["Challenges", CHALLENGES]].map(([label, all]) => h("optgroup", { label }, all.map(({ id, title }) => h("option", { value: `lesson ${id}` }, title)))),
      h("optgroup", { label: "Scenarios" }, scenarios.map(({ name, about }) => h("option", { value: name, title: about }, name))),
      ["Many ranks", "Trees of nodes"].map((label, at) => h("optgroup", { label }, LARGE.filter(({ view }) => Boolean(view) === Boolean(at)).map(({ name, about }) => h("option", { value: `large ${name}`, title: about }, name)))),
      this.other = h("option", { value: "", hidden: true }));
    this.seed = h("input", { class: "field-box seed", inputmode: "numeric", "aria-label": "Seed", onchange: tried(() => session.vary({ seed: BigInt(this.seed.value.trim()) })) });
    this.ranks = h("input", { class: "field-box ranks", type: "number", min: 1, max: RANKS_MAX, "aria-label": "Ranks",
      onchange: tried(() => session.vary({ ranks: Math.min(Math.max(Math.trunc(Number(this.ranks.value)) || 1, 1), RANKS_MAX) })) });
    this.dialect = h("select", { "aria-label": "Dialect", onchange: tried(() => session.vary({ dialect: this.dialect.value })) },
      h("option", { value: "", hidden: true }, "as written"),
      DIALECTS.map((dialect) => h("option", { value: dialect }, titled(dialect))),
      h("option", { value: "all" }, "all, side by side"));
    this.file = h("input", { type: "file", hidden: true, "aria-label": "File to open", onchange: tried(async () => {
      const [file] = this.file.files;
      if (file) await session.load(file.name, new Uint8Array(await file.arrayBuffer()));
      this.file.value = "";
    }) });
    this.about = h("p", { class: "about" });
    this.element = [
      h("h1", {}, "PMI ", h("span", {}, "playground")),
      h("div", { class: "row what" }, this.choice,
        h("label", {}, "seed", this.seed), button("Another seed", icon("dice"), tried(() => session.vary({ seed: BigInt(Math.floor(Math.random() * 10000)) }))),
        h("label", {}, this.unit = h("span", {}, "ranks"), this.ranks), this.dialect),
      h("div", { class: "row tools" },
        button("Edit its text", "Edit", () => this.onEdit()),
        button("Open a trace, a log or a live job", [icon("open"), h("span", { class: "wide" }, "Open")], () => this.onOpen(() => this.file.click()), { class: "always" }),
        button("Save a trace or a picture", [icon("save"), h("span", { class: "wide" }, "Save")], () => this.onSave()),
        button("Share: copy the link to this view", [icon("share"), h("span", { class: "wide" }, "Share")], tried(() => this.share())),
        button("Presenter: large text and captions", icon("present"), () => this.onPresent(), { key: "p" }),
        button("Dark or light", icon("theme"), theme.toggle, { class: "always" }), button("Help", icon("help"), () => this.onHelp(), { class: "always", key: "?" }), this.file),
    ];
  }

  async chosen() {
    const { value } = this.choice;
    if (value.startsWith("lesson ")) await this.session.learn(value.slice(7));
    else if (value.startsWith("large ")) await this.session.large(value.slice(6));
    else await this.session.open(value);
  }

  async share() {
    const fragment = this.session.link();
    if (!fragment) throw new Error("No link can hold a recording or a live job: pass on its file or its address.");
    const link = new URL(fragment, location.href).href;
    try {
      await navigator.clipboard.writeText(link);
      notice("The link to this view is copied.");
    } catch {
      // Where a page may not write there, the address has it too.
      notice("The address of this page is the link to this view: copy it from there.");
    }
  }

  /// Shows what is played now.
  show() {
    const { source, app } = this.session;
    const { story } = app.active;
    this.choice.value = source.large ? `large ${source.large}` : source.lesson ? `lesson ${source.lesson}` : source.name ?? "";
    this.other.textContent = source.title ?? "your own";
    this.seed.value = source.text ? String(source.seed) : "";
    this.ranks.value = source.text ? ranksOf(source.text) : story.lanes.length;
    const dialects = new Set(story.lanes.map((lane) => lane.dialect));
    this.dialect.value = source.dialects ? "all" : dialects.size === 1 ? [...dialects][0] : "";
    for (const field of [this.seed, this.ranks, this.dialect]) field.disabled = !source.text;
    this.unit.textContent = `${story.unit}s`;
    this.ranks.setAttribute("aria-label", story.unit === "node" ? "Nodes" : "Ranks");
    // Frames between nodes have one format.
    this.dialect.hidden = story.unit === "node";
    this.about.textContent = source.lesson ? "" : story.about.map((line) => (story.recorded ? `${line[0].toUpperCase()}${line.slice(1).replace(/\.$/, "")}.` : line)).join(" ");
    this.about.hidden = !this.about.textContent;
  }
}

/// A scenario in which each rank reads the cards of all takes long with more.
const RANKS_MAX = 256;
