// The panel's tabs.

import { h, update } from "./dom.js";

export class Tabs {
  /// `views` are pairs of a name and what is shown under it.
  constructor(app, views) {
    this.app = app;
    this.views = views;
    this.tabs = views.map(([name], at) => h("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", onclick: () => this.choose(at),
    }, name));
    this.panel = h("div", { id: "panel", role: "tabpanel", tabindex: "0" });
    const list = h("div", { class: "tabs", role: "tablist", "aria-label": "Inspector" }, this.tabs);
    list.addEventListener("keydown", (event) => {
      const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!way) return;
      event.stopPropagation();
      event.preventDefault();
      this.choose((this.at + way + views.length) % views.length);
      this.tabs[this.at].focus();
    });
    this.element = h("aside", { class: "panel", "aria-label": "Inspector" }, list, this.panel);
    this.choose(0);
  }

  choose(at) {
    this.at = at;
    this.tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === at));
      tab.tabIndex = index === at ? 0 : -1;
    });
    this.panel.setAttribute("aria-labelledby", this.tabs[at].id);
    this.panel.scrollTop = 0;
    this.app.changed();
  }

  /// Opens the tab of this name.
  open(name) {
    this.choose(this.views.findIndex(([other]) => other === name));
  }

  get name() {
    return this.views[this.at][0];
  }

  /// Shows the chosen view anew, if anything that it depends on has changed.
  show() {
    const { app } = this;
    const state = [this.at, app.active, app.active.story, app.step, app.picked, app.chosen, app.followed(app.active)];
    if (this.state?.every((one, index) => one === state[index])) return;
    // While time runs, a panel that changes with every frame cannot be read.
    const now = performance.now();
    if (app.isPlaying && now - this.shownAt < 120) return app.changed();
    this.shownAt = now;
    this.state = state;
    update(this.panel, h("div", { key: this.name }, this.views[this.at][1](app)));
  }
}
