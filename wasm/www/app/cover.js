// The first screen: what this is about, three ways in, and a run that plays by itself.

import { App } from "./app.js";
import { caption } from "./captions.js";
import { fill, h } from "./dom.js";
import { INTRO, INTRO_SEED } from "./intro.js";
import { legend } from "./legend.js";
import { Run } from "./play.js";
import { theme } from "./theme.js";

export class CoverView {
  /// `watch`, `learn` and `open` are the three entries.
  constructor({ watch, learn, open, explore }) {
    const entry = (title, about, act, kind = "") => h("button", { type: "button", class: `entry ${kind}`, onclick: act },
      h("strong", {}, title), h("span", {}, about));
    this.stage = h("div", { class: "stage" });
    this.words = h("p", { class: "caption" });
    this.element = h("section", { class: "cover", "aria-label": "Start" },
      h("div", { class: "pitch" },
        h("h2", {}, "Before MPI_Init returns, your ranks must find each other. This is how."),
        h("div", { class: "entries" },
          entry("Watch, 40 s", "a film of the run beside this", watch, "primary"),
          entry("Do it yourself", "be rank 1: put, fence, get", learn),
          entry("Open your trace", "of pmi-host, or a job that runs now", open)),
        h("p", { class: "aside" }, "Or play any ", h("button", { type: "button", class: "link", onclick: explore }, "scenario"),
          " with the real server and the real clients, in this page: nothing is sent anywhere.")),
      h("figure", { class: "example", "aria-label": "Three ranks find each other" }, this.stage, this.words, legend()));
  }

  /// Plays its run, again and again.
  show() {
    if (this.app) return;
    const app = (this.app = new App(this.stage));
    app.colors = theme.colors();
    app.isHandshakeFolded = true;
    app.show([[new Run({ text: INTRO, seed: INTRO_SEED }), "Three ranks"]]);
    app.fit(true);
    const { story } = app.active;
    app.onChange(() => {
      app.active.describe();
      fill(this.words, caption(story, app.step) || "Three processes were started.");
    });
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return app.survey();
    app.speed = 0.55;
    app.play();
    let since = 0;
    app.onFrame = (time) => {
      if (app.isPlaying) since = time;
      else if (time - since > REST_MS) app.toggle();
    };
  }

  /// Ends it, and frees what it needed.
  hide() {
    this.app?.end();
    this.app = null;
    fill(this.stage);
  }

  recolor() {
    if (!this.app) return;
    this.app.colors = theme.colors();
    this.app.changed();
  }
}

/// How long the end is shown before the run starts again.
const REST_MS = 2500;
