// Time in the hand: play, step, jump, scrub.

import { button, fill, h, icon } from "./dom.js";

/// What one can jump to: the word, and which moments it means.
export const KINDS = [
  ["message", "message", (story) => story.messages.map((message) => message.sent)],
  ["fence", "fence that ends", (story) => story.fences.flatMap(({ freed }) => (freed ? [freed] : []))],
  ["put", "put", (story) => story.messages.filter((message) => message.up && message.name === "put").map((message) => message.sent)],
  ["get", "get", (story) => story.messages.filter((message) => message.up && message.name === "get").map((message) => message.sent)],
  ["fault", "fault", (story) => moments(story, "fault")],
  ["report", "report", (story) => moments(story, "report")],
  ["refusal", "refusal", (story) => story.messages.filter((message) => !message.up && message.isRefused).map((message) => message.sent)],
  ["process", "start or end of a process", (story) => moments(story, "process")],
  ["rule", "broken rule", (story) => moments(story, "rule")],
];

function moments(story, kind) {
  return story.events.filter((event) => event.kind === kind).map((event) => event.at);
}

export class Transport {
  constructor(app) {
    this.app = app;
    const key = (key) => ({ key });
    this.play = button("Play", icon("play"), () => app.toggle(), { class: "primary", ...key("Space") });
    this.kinds = h("select", { "aria-label": "Kind of event to jump to" },
      KINDS.map(([word, words]) => h("option", { value: word }, words)));
    this.speed = h("select", { "aria-label": "Speed", onchange: () => (app.speed = Number(this.speed.value)) },
      [0.25, 0.5, 1, 2, 4, 8].map((speed) => h("option", { value: speed, selected: speed === 1 }, `${speed}×`)));
    this.strip = h("canvas", { "aria-hidden": "true" });
    this.slider = h("div", {
      class: "slider", role: "slider", tabindex: "0", "aria-label": "Moment of the run", "aria-valuemin": 0,
    }, this.strip);
    this.clock = h("output", { class: "clock", "aria-live": "off" });
    this.element = h("div", { class: "transport", role: "group", "aria-label": "Time" },
      h("div", { class: "keys" },
        button("To the start", icon("start"), () => app.seekIndex(0), key("Home")),
        button("Step back", icon("back"), () => app.stepBy(-1), key("←")),
        this.play,
        button("Step forward", icon("forth"), () => app.stepBy(1), key("→")),
        button("To the end", icon("end"), () => app.seekIndex(Infinity), key("End"))),
      this.slider,
      h("div", { class: "more" },
        this.clock, this.speed,
        h("span", { class: "joined" }, this.kinds,
          button("Jump to the next", icon("jump"), () => app.jump(this.kinds.value, 1), key("n")))));
    this.listen();
    new ResizeObserver(() => app.changed()).observe(this.slider);
  }

  listen() {
    const { slider, app } = this;
    const seek = (event) => {
      const { left, width } = slider.getBoundingClientRect();
      app.seekPlace(((event.clientX - left) / width) * app.axis.length);
    };
    slider.addEventListener("pointerdown", (event) => {
      slider.setPointerCapture(event.pointerId);
      seek(event);
    });
    slider.addEventListener("pointermove", (event) => slider.hasPointerCapture(event.pointerId) && seek(event));
  }

  draw() {
    const { app, strip, slider } = this;
    const [width, height] = [slider.clientWidth, slider.clientHeight];
    if (!width) return;
    const ratio = globalThis.devicePixelRatio || 1;
    if (strip.width !== Math.round(width * ratio)) {
      strip.width = Math.round(width * ratio);
      strip.height = Math.round(height * ratio);
    }
    const c = strip.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    const { colors, axis } = app;
    const x = (ns) => (axis.place(ns) / axis.length) * (width - 8) + 4;
    const now = x(app.now);
    const story = app.active.story;
    const middle = height / 2;
    c.fillStyle = colors.strip;
    c.beginPath();
    c.roundRect(0, middle - 13, width, 26, 8);
    c.fill();
    this.bars(c, story, x, middle, width, now);
    for (const fence of story.fences) {
      if (!fence.freed) continue;
      const [freed] = fence.freed;
      c.globalAlpha = freed <= app.now ? 1 : 0.4;
      c.fillStyle = colors.fence;
      c.fillRect(x(freed) - 1, middle - 13, 2, 26);
    }
    c.fillStyle = colors.fault;
    for (const event of story.marks) {
      if (event.kind === "error") continue;
      c.globalAlpha = event.at[0] <= app.now ? 1 : 0.45;
      c.beginPath();
      c.arc(x(event.at[0]), middle - 15, 2.6, 0, 7);
      c.fill();
    }
    c.globalAlpha = 1;
    // The part that the diagrams show.
    const [from, to] = [app.scroll / app.scale, (app.scroll + app.width) / app.scale].map((place) => (Math.min(place, axis.length) / axis.length) * (width - 8) + 4);
    c.strokeStyle = colors.faint;
    c.globalAlpha = 0.5;
    c.strokeRect(from, middle - 12.5, to - from, 25);
    c.globalAlpha = 1;
    c.fillStyle = colors.now;
    c.fillRect(now - 1, middle - 17, 2, 34);
    c.beginPath();
    c.arc(now, middle - 17, 4.5, 0, 7);
    c.fill();
  }

  /// Number of messages over time: up those to the server, down those from it.
  bars(c, story, x, middle, width, now) {
    if (this.counted?.story !== story || this.counted.width !== width || this.counted.axis !== this.app.axis) {
      const counts = [[], []];
      const places = this.app.axis.sentPlaces(story);
      for (const message of story.messages) {
        const at = Math.floor(((places[message.index] / this.app.axis.length) * (width - 8) + 4) / 4);
        counts[Number(message.up)][at] = (counts[Number(message.up)][at] ?? 0) + 1;
      }
      const most = counts.flat().reduce((most, count) => Math.max(most, count ?? 0), 1);
      this.counted = { story, width, axis: this.app.axis, counts, most };
    }
    const { counts, most } = this.counted;
    const { colors } = this.app;
    counts.forEach((list, up) => {
      c.fillStyle = up ? colors.up : colors.down;
      for (const isPast of [true, false]) {
        c.globalAlpha = isPast ? 0.85 : 0.28;
        c.beginPath();
        list.forEach((count, at) => {
          const tall = 1 + (10 * Math.log1p(count)) / Math.log1p(most);
          if (at * 4 <= now === isPast) c.rect(at * 4, up ? middle + 1 : middle - tall, 3, tall);
        });
        c.fill();
      }
    });
    c.globalAlpha = 1;
  }

  describe() {
    const { app } = this;
    const { story } = app.active;
    const step = app.stepOf(app.active);
    this.clock.textContent = `${story.spoken(Math.round(app.now))} · step ${step}`;
    if (this.timed !== story) {
      // As wide as at the end: a slider that changes its width with each text is laid out and painted anew.
      this.clock.style.setProperty("--clock", `${`${story.spoken(story.end)} step ${story.steps}`.length}ch`);
      this.timed = story;
    }
    this.slider.setAttribute("aria-valuemax", story.steps);
    this.slider.setAttribute("aria-valuenow", step);
    this.slider.setAttribute("aria-valuetext", `step ${step} of ${story.steps}, ${story.spoken(Math.round(app.now))}`);
    const name = app.isPlaying ? "Pause" : "Play";
    if (this.play.getAttribute("aria-label") !== name) {
      this.play.setAttribute("aria-label", name);
      this.play.title = `${name} (Space)`;
      fill(this.play, icon(app.isPlaying ? "pause" : "play"));
    }
  }
}
