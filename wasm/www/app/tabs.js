// The panel's tabs, each with a few sections.

import { h, update } from "./dom.js";

export class Tabs {
  /// `tabs` are pairs of a name and sections; sections are pairs of a name and the view shown under it.
  constructor(app, tabs) {
    this.app = app;
    this.sections = new Map(tabs);
    this.names = [...this.sections.keys()];
    this.buttons = this.names.map((name, at) => h("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", onclick: () => this.choose(at),
    }, name));
    this.panel = h("div", { id: "panel", role: "tabpanel", tabindex: "0" });
    const list = h("div", { class: "tabs", role: "tablist", "aria-label": "Inspector" }, this.buttons);
    list.addEventListener("keydown", (event) => {
      const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!way) return;
      event.stopPropagation();
      event.preventDefault();
      this.choose((this.at + way + this.names.length) % this.names.length);
      this.buttons[this.at].focus();
    });
    this.panel.addEventListener("pointerdown", ({ target }) => (this.isPressed = target.closest("button") !== null));
    const release = () => {
      if (!this.isPressed) return;
      this.isPressed = false;
      app.changed();
    };
    for (const type of ["pointerup", "pointercancel"]) addEventListener(type, release, { capture: true });
    addEventListener("blur", release);
    addEventListener("pointermove", ({ buttons }) => buttons || release(), { capture: true });
    this.element = h("aside", { class: "panel", "aria-label": "Inspector" }, list, this.panel);
    this.choose(0);
  }

  choose(at) {
    if (this.at !== at) this.panel.scrollTop = 0;
    this.at = at;
    this.buttons.forEach((button, index) => {
      button.setAttribute("aria-selected", String(index === at));
      button.tabIndex = index === at ? 0 : -1;
    });
    this.panel.setAttribute("aria-labelledby", this.buttons[at].id);
    this.app.changed();
  }

  /// Opens the tab of this name, or the one with the section of this name, which is scrolled into view. Links may
  /// contain either, and names that do not exist: nothing changes then.
  open(name) {
    const is = (other) => other.toLowerCase() === name.toLowerCase();
    const at = this.names.findIndex((tab) => is(tab) || this.sections.get(tab).some(([section]) => is(section)));
    if (at < 0) return;
    this.choose(at);
    this.sought = this.sections.get(this.name).find(([section]) => is(section))?.[0];
  }

  get name() {
    return this.names[this.at];
  }

  /// Shows the chosen tab anew, if anything that it depends on has changed.
  show() {
    const { app } = this;
    const state = [this.at, app.active, app.active.story, app.step, app.picked, app.chosen, app.followed(app.active), app.isPlaying];
    if (this.state?.every((one, index) => one === state[index])) return this.reveal();
    // Under a press nothing moves: it would end on another button than it began.
    if (this.isPressed) return;
    // While time runs, a panel that changes with every frame cannot be read; still less one in which all lines are new.
    const now = performance.now();
    if (app.isPlaying && now - this.shownAt < (app.active.isDense ? 300 : 120)) return app.changed();
    this.shownAt = now;
    this.state = state;
    const sections = this.sections.get(this.name).map(([name, view]) => h("section", { key: name, class: "part", "aria-label": name }, view(app)));
    update(this.panel, h("h2", { key: "name", class: "unseen" }, this.name), h("div", { key: this.name, id: `view-${this.name}` }, sections));
    this.reveal();
  }

  /// Scrolls to the section that was sought, if its start is outside of what is shown.
  reveal() {
    if (!this.sought) return;
    const section = this.panel.querySelector(`[aria-label="${this.sought}"]`);
    this.sought = null;
    const { top } = section.getBoundingClientRect();
    const shown = this.panel.getBoundingClientRect();
    if (top < Math.max(shown.top, 0) || top > shown.bottom) section.scrollIntoView({ block: "start" });
  }
}
