// For a stage: large text, captions, and films with a caption for each shot.

import { button, fill, h, icon } from "./dom.js";
import { caption, lastThing } from "./captions.js";
import { Film } from "./film.js";

export class PresenterMode {
  /// `panel` opens tabs.
  constructor(app, panel) {
    this.app = app;
    this.words = h("p", { role: "status" });
    this.offer = h("span", { class: "offer-next" });
    this.element = h("div", { class: "caption-bar", hidden: true }, this.words, this.offer,
      button("Close the captions", icon("close"), () => this.close(), { class: "quiet" }));
    this.isOn = false;
    this.film = new Film(app, { panel, onShot: (shot) => this.onShot(shot), onEnd: (isWhole) => isWhole && this.onWhole() });
  }

  /// Turns large text and captions on or off.
  toggle(isOn = !this.isOn) {
    this.isOn = isOn;
    document.body.classList.toggle("presenter", isOn);
    this.app.magnify(isOn ? MAGNIFICATION : 1);
    this.show();
  }

  /// Plays a film; `next` is a pair of a title and an action that is offered at its end.
  play(shots, next) {
    this.next = next;
    this.last = null;
    fill(this.offer);
    this.film.start(shots);
    // On a phone the diagram may be outside of what is shown.
    this.element.parentElement.scrollIntoView({ block: "nearest" });
  }

  onShot(shot) {
    this.shot = shot?.words ?? null;
    if (shot) this.last = shot.words;
    this.show();
  }

  onWhole() {
    const [title, act] = this.next;
    fill(this.offer, h("button", { type: "button", class: "primary", onclick: () => {
      this.close();
      act();
    } }, title));
    this.isOver = true;
    this.show();
  }

  /// Ends a film, and captions with it.
  close() {
    this.film.end();
    this.last = null;
    this.isOver = false;
    fill(this.offer);
    this.toggle(false);
  }

  /// Shows the caption of the moment.
  show() {
    const { app } = this;
    const isShown = this.isOn || this.shot != null || this.isOver;
    // The spotlight is on what the caption says.
    const lit = this.isOn && this.shot == null && app.active ? lastThing(app.active.story, app.step) : null;
    if (app.spotlight !== lit) {
      app.spotlight = lit;
      app.changed();
    }
    this.element.hidden = !isShown || !app.active;
    if (this.element.hidden) return;
    const words = this.shot ?? (this.isOver ? this.last : caption(app.active.story, app.step));
    if (this.words.textContent !== words) this.words.textContent = words;
  }
}

/// How much larger the diagrams are on a stage.
const MAGNIFICATION = 1.35;
