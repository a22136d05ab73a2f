// A view in space: places of ranks or nodes on a canvas, and messages on their way between them.

import { h } from "../app/dom.js";
import { CanvasPen } from "../app/pen.js";
import { sentUpTo } from "../app/search.js";

/// A view of the displayed moment. Those that extend it have `name`, `scene` (what is drawn, by size), `paint` (with a pen) and
/// `words` (of what is pointed at).
export class SpaceView {
  constructor(app) {
    this.app = app;
    this.canvas = h("canvas", { role: "img", "aria-label": this.name });
    this.tip = h("div", { class: "tip", hidden: true });
    this.element = h("div", { class: "ring" }, this.canvas, this.tip);
    new ResizeObserver(() => requestAnimationFrame(() => this.resize())).observe(this.element);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.setHover(null));
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      const found = this.at(event.offsetX, event.offsetY);
      if (found) this.menu(found, { x: event.clientX, y: event.clientY });
    });
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    const ratio = globalThis.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen = new CanvasPen(context);
    Object.assign(this, { width, height });
    this.app.changed();
  }

  /// Draws the displayed moment of the active run.
  draw() {
    if (!this.pen || !this.element.clientWidth || !this.fits(this.app.active.story)) return;
    this.pen.context.clearRect(0, 0, this.width, this.height);
    this.scene = this.sceneOf(this.width, this.height);
    this.paint();
  }

  /// The message or the lane at a place.
  at(x, y) {
    const { scene } = this;
    if (!scene) return null;
    const lane = scene.places.findIndex((place) => Math.hypot(place.x - x, place.y - y) <= Math.max(scene.rankRadius, 8) + 2);
    if (lane >= 0) return { lane };
    const flying = scene.flying.find((one) => Math.hypot(one.x - x, one.y - y) < 14);
    return flying ? { message: flying.message } : null;
  }

  point(event) {
    const found = this.at(event.offsetX, event.offsetY);
    this.setHover(found);
    if (!found) return;
    this.tip.textContent = this.words(found);
    this.tip.style.transform = `translate(${Math.min(event.offsetX + 14, this.width - 200)}px, ${event.offsetY + 16}px)`;
  }

  /// Opens the menu of what is at a place.
  menu(found, place) {
    this.app.onMenu?.(found, this.app.active, place);
  }

  setHover(found) {
    this.hover = found;
    this.tip.hidden = !found;
    this.canvas.style.cursor = found ? "pointer" : "";
    this.app.changed();
  }

  click(event) {
    const { app } = this;
    const found = this.at(event.offsetX, event.offsetY);
    if (found?.message) app.pick(found.message, app.active);
    else if (found?.lane !== undefined) app.follow(app.active, found.lane);
    else app.follow(app.active, null);
  }
}

/// Messages on their way, the last first, each with its place: `place` is given a message and the part of its way behind it.
export function flying({ story, longest, step, now }, place) {
  const found = [];
  for (let at = sentUpTo(story.messages, step) - 1; at >= 0 && found.length < FLYING_MAX; at--) {
    const message = story.messages[at];
    if (now - message.sent[0] > longest * 3) break;
    const end = message.parts.at(-1)?.at ?? message.sent;
    if (end[1] <= step) continue;
    const part = Math.min((now - message.sent[0]) / Math.max(end[0] - message.sent[0], 1), 1);
    found.push({ message, ...place(message, part) });
  }
  return found;
}

/// The colour of a rank or a node, by how it is.
export function rankColor(tone, colors) {
  return { work: colors.up, wait: colors.up, fence: colors.fence, done: colors.faint, odd: colors.fault, bad: colors.fault, calm: colors.lane }[tone];
}

const FLYING_MAX = 600;
