// The views of a run: lanes show when, the ring shows what, the table compares dialects, the tree has the nodes.

import { fill, h } from "./dom.js";
import { notice } from "./notice.js";
import { treeOf } from "./source.js";

/// Name, title and help of each view.
const VIEWS = [
  ["lanes", "Lanes", "Lanes show when: a lane for each rank, time from left to right"],
  ["ring", "Ring", "The ring shows what: the server and its cards in the middle, the ranks around it"],
  ["dialects", "Dialects", "The same job in PMI 1.1, 1.2, 2.0 and PMIx, operation by operation"],
  ["tree", "Tree", "The tree of node servers: a fence goes up to the head, and its end comes down"],
];

/// The views that are loaded when they are opened.
const LATER = {
  ring: async () => (await import("../later/ring.js")).RingView,
  dialects: async () => (await import("../later/dialects.js")).DialectTable,
  tree: async () => (await import("../later/tree.js")).TreeView,
};

export class ViewSwitch {
  constructor(app, session) {
    this.app = app;
    this.session = session;
    // What is not shown at first is loaded when it is opened.
    this.others = Object.fromEntries(Object.keys(LATER).map((name) => [name, h("div", { hidden: true })]));
    this.buttons = VIEWS.map(([name, title, about]) => h("button", { type: "button", title: `${about} (v)`, "aria-pressed": String(name === app.view), onclick: () => this.choose(name) }, title));
    this.element = h("div", { class: "switch", role: "group", "aria-label": "View" }, this.buttons);
    this.elements = Object.values(this.others);
    app.drawView = () => this[app.view]?.draw?.();
  }

  /// True if a view can show the active run: a tree has no cards and no dialects.
  fits(name) {
    const isTree = this.app.active?.story.unit === "node";
    return name === "lanes" || (name === "tree") === isTree;
  }

  /// Opens a view of the active run. A job on several nodes is shown as a tree by a run of its own.
  choose(name) {
    if (name !== "tree" || this.fits(name)) return this.open(name);
    const { story } = this.app.active;
    this.session.play({ name: null, text: treeOf(story), seed: this.session.source.seed }).then(() => this.open("tree")).catch(notice);
  }

  /// Opens a view by its name; one that is unknown, or does not fit the run, is that of the lanes.
  open(name) {
    const { app } = this;
    const isKnown = VIEWS.some(([known]) => known === name) && this.fits(name);
    app.view = isKnown ? name : "lanes";
    this.buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(VIEWS[at][0] === app.view)));
    app.stage.hidden = app.view !== "lanes";
    for (const [other, element] of Object.entries(this.others)) element.hidden = app.view !== other;
    document.body.classList.toggle("wide", app.view === "dialects");
    this[app.view]?.resize?.();
    this.load(app.view).catch(notice);
    app.changed();
  }

  /// Loads what a view needs, and shows it.
  async load(name) {
    const { app, others } = this;
    if (!LATER[name] || this[name]) return;
    const View = await LATER[name]();
    this[name] ??= new View(app, this.session);
    others[name].replaceChildren(this[name].element);
    app.changed();
  }

  /// Opens the next view that fits.
  next() {
    const names = VIEWS.map(([name]) => name).filter((name) => this.fits(name));
    this.open(names[(names.indexOf(this.app.view) + 1) % names.length]);
  }

  /// Updates the open view in words, and offers those that the run can be shown in.
  show() {
    const { app, session } = this;
    const { lanes, unit } = app.active.story;
    const hasNodes = unit === "rank" && session.source?.text && lanes.some(({ group }) => group !== lanes[0].group);
    this.buttons.forEach((button, at) => (button.hidden = !this.fits(VIEWS[at][0]) && !(VIEWS[at][0] === "tree" && hasNodes)));
    if (!this.fits(app.view)) this.open("lanes");
    this[app.view]?.describe?.();
    if (app.view === "dialects") {
      this.dialects?.show().catch((error) => {
        fill(this.dialects.element, h("p", { class: "warn" }, error.message));
        notice(error);
      });
    }
  }
}
