// The card of the lesson that is being learnt.

import { button, fill, h, icon } from "./dom.js";
import { CHALLENGES } from "./challenges.js";
import { Context, LESSONS } from "./lessons.js";

/// The lesson or challenge of an id.
export const lessonOf = (id) => [...LESSONS, ...CHALLENGES].find((lesson) => lesson.id === id) ?? null;

export class Teacher {
  /// `open` plays a lesson; `close` ends it; `film` plays shots; `next` plays it with the next seed.
  constructor(app, { open, close, film, next }) {
    this.app = app;
    this.next = next;
    this.open = open;
    this.film = film;
    this.lesson = null;
    this.element = h("section", { class: "lesson", hidden: true, "aria-label": "Lesson" });
    this.close = () => {
      this.start(null);
      close();
    };
  }

  /// Begins a lesson, or none.
  start(id) {
    this.lesson = lessonOf(id);
    this.kept = new Set();
    this.reached = new Set();
    this.predicted = this.watched?.id === id ? this.watched.predicted : null;
    this.watched = null;
    this.element.hidden = !this.lesson;
    document.body.classList.toggle("learning", this.lesson !== null);
    if (!this.lesson) return;
    const [kind, all] = this.lesson.mutant ? ["Challenge", CHALLENGES] : ["Lesson", LESSONS];
    const at = all.indexOf(this.lesson);
    const next = all[at + 1];
    this.goals = this.lesson.goals.map(([words]) => h("li", {}, words));
    this.verdict = h("p", { class: "verdict", role: "status" });
    this.because = h("div", { class: "because", hidden: true }, (this.lesson.because ?? []).map((words) => h("p", {}, words)));
    this.onward = next && h("button", { type: "button", class: "primary", hidden: true, onclick: () => this.open(next.id) }, `Next: ${next.title}`);
    fill(this.element,
      h("div", { class: "row" }, h("h2", {}, h("small", {}, `${kind} ${at + 1} of ${all.length}`), this.lesson.title),
        button(`End the ${kind.toLowerCase()}`, icon("close"), this.close, { class: "quiet" })),
      this.lesson.about.map((words) => h("p", {}, words)), this.prediction(),
      this.lesson.film ? h("button", { type: "button", class: "watch", onclick: () => this.watch() }, icon("play"), "Watch it first")
        : h("button", { type: "button", class: "watch", onclick: () => this.next() }, icon("dice"), "Try the next seed"),
      h("p", { class: "task" }, this.lesson.task),
      h("ol", { class: "goals" }, this.goals), this.because, h("div", { class: "foot" }, this.verdict, this.onward));
  }

  /// The question that is answered before the run is played.
  prediction() {
    const [question, right, ...others] = this.lesson.predict;
    // In an order that does not give the answer away, and the same each time.
    const answers = [right, ...others].sort((a, b) => a.length - b.length || a.localeCompare(b));
    const choose = (answer, { currentTarget }) => {
      this.predicted = answer;
      if (this.watched) this.watched.predicted = answer;
      for (const button of currentTarget.parentElement.children) button.setAttribute("aria-pressed", String(button === currentTarget));
      this.judge();
    };
    return h("div", { class: "predict", role: "group", "aria-label": "Your prediction" }, h("p", {}, h("strong", {}, "Predict: "), question),
      h("div", { class: "orders" }, answers.map((answer) => h("button", { type: "button", "aria-pressed": String(answer === this.predicted), onclick: (event) => choose(answer, event) }, answer))));
  }

  /// Plays the film of the lesson, from the start.
  watch() {
    const { app } = this;
    // What was predicted before the film is compared after it.
    this.watched = { id: this.lesson.id, predicted: this.predicted };
    app.seekIndex(0);
    const { story, run } = app.active;
    const held = story.moments.find(({ step }) => {
      const rank = run.canAct && run.rank(step, this.lesson.rank);
      return rank && rank.next === "manual" && rank.may.length > 0;
    });
    const stepOf = (until) => ({ start: 0, held: held?.step ?? 0, end: story.moments.at(-1).step })[until] ?? until(story);
    this.film(this.lesson.film.map(([words, until, seconds]) => ({ words, until: stepOf(until), run: seconds * 650, hold: seconds * 350 })));
  }

  /// Looks at what has been done. A goal that was reached stays so.
  judge() {
    if (!this.lesson) return;
    const context = new Context(this.app, this.kept);
    this.lesson.goals.forEach(([, is], at) => {
      if (is(context)) this.reached.add(at);
      this.goals[at].classList.toggle("reached", this.reached.has(at));
    });
    const left = this.lesson.goals.length - this.reached.size;
    const guess = this.predicted && left === 0 ? (this.predicted === this.lesson.predict[1] ? " Your prediction was right." : ` You predicted otherwise: it is ${this.lesson.predict[1]}.`) : "";
    const words = left === 0 ? `Done. That was it.${guess}` : `${this.reached.size} of ${this.lesson.goals.length}`;
    if (this.verdict.textContent !== words) this.verdict.textContent = words;
    this.verdict.classList.toggle("reached", left === 0);
    if (this.onward) this.onward.hidden = left > 0;
    if (this.because.hidden && left === 0) {
      this.because.hidden = false;
      // Where the card is higher than its place, what is new in it is seen.
      this.element.scrollTop = this.element.scrollHeight;
    }
  }
}
