// The views of a run: lanes show when, the ring shows what, the table compares dialects.

import { fill, h } from "./dom.js";
import { DialectTable } from "./dialects.js";
import { notice } from "./notice.js";
import { RingView } from "./ring.js";

/// Name, title and help of each view.
const VIEWS = [
  ["lanes", "Lanes", "Lanes show when: a lane for each rank, time from left to right"],
  ["ring", "Ring", "The ring shows what: the server and its cards in the middle, the ranks around it"],
  ["dialects", "Dialects", "The same job in PMI 1.1, 1.2, 2.0 and PMIx, operation by operation"],
];

export class ViewSwitch {
  constructor(app, session) {
    this.app = app;
    this.ring = new RingView(app);
    this.table = new DialectTable(app, session);
    this.table.element.hidden = true;
    this.buttons = VIEWS.map(([name, title, about]) => h("button", { type: "button", title: `${about} (v)`, "aria-pressed": String(name === app.view), onclick: () => this.open(name) }, title));
    this.element = h("div", { class: "switch", role: "group", "aria-label": "View" }, this.buttons);
    app.ring = this.ring;
    app.drawView = () => app.view === "ring" && this.ring.draw();
  }

  /// Opens a view by its name; an unknown one is that of the lanes.
  open(name) {
    const { app } = this;
    app.view = VIEWS.some(([known]) => known === name) ? name : "lanes";
    this.buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(VIEWS[at][0] === app.view)));
    app.stage.hidden = app.view !== "lanes";
    this.ring.element.hidden = app.view !== "ring";
    this.table.element.hidden = app.view !== "dialects";
    document.body.classList.toggle("wide", app.view === "dialects");
    this.ring.resize();
    app.changed();
  }

  /// Opens the next view.
  next() {
    const at = VIEWS.findIndex(([name]) => name === this.app.view);
    this.open(VIEWS[(at + 1) % VIEWS.length][0]);
  }

  /// Updates the open view in words.
  show() {
    if (this.app.view === "ring") this.ring.describe();
    if (this.app.view === "dialects") {
      this.table.show().catch((error) => {
        fill(this.table.element, h("p", { class: "warn" }, error.message));
        notice(error);
      });
    }
  }
}
