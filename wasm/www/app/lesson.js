// The card of the lesson that is being learnt.

import { button, fill, h, icon } from "./dom.js";
import { Context, LESSONS } from "./lessons.js";

export class Teacher {
  /// `open` plays a lesson; `close` ends it.
  constructor(app, { open, close }) {
    this.app = app;
    this.open = open;
    this.lesson = null;
    this.element = h("section", { class: "lesson", hidden: true, "aria-label": "Lesson" });
    this.close = () => {
      this.start(null);
      close();
    };
  }

  /// Begins a lesson, or none.
  start(id) {
    this.lesson = LESSONS.find((lesson) => lesson.id === id) ?? null;
    this.kept = new Set();
    this.reached = new Set();
    this.element.hidden = !this.lesson;
    if (!this.lesson) return;
    const at = LESSONS.indexOf(this.lesson);
    const next = LESSONS[at + 1];
    this.goals = this.lesson.goals.map(([words]) => h("li", {}, words));
    this.verdict = h("p", { class: "verdict", role: "status" });
    this.onward = next && h("button", { type: "button", class: "primary", hidden: true, onclick: () => this.open(next.id) }, `Next: ${next.title}`);
    fill(this.element,
      h("div", { class: "row" }, h("h2", {}, h("small", {}, `Lesson ${at + 1} of ${LESSONS.length}`), this.lesson.title),
        button("End the lesson", icon("close"), this.close, { class: "quiet" })),
      this.lesson.about.map((words) => h("p", {}, words)), h("p", { class: "task" }, this.lesson.task),
      h("ol", { class: "goals" }, this.goals), this.verdict, this.onward);
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
    const words = left === 0 ? "Done. That was it." : `${this.reached.size} of ${this.lesson.goals.length}`;
    if (this.verdict.textContent !== words) this.verdict.textContent = words;
    this.verdict.classList.toggle("reached", left === 0);
    if (this.onward) this.onward.hidden = left > 0;
  }
}
