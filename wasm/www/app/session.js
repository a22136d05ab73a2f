// The displayed runs, their sources, and the address of the page.

import { LARGE } from "./large.js";
import { lessonOf } from "./lesson.js";
import { notice } from "./notice.js";
import { Run } from "./play.js";
import * as share from "./share.js";
import { DIALECTS, ranksOf, runs, shipped, withDialect, withRanks } from "./source.js";

export class Session {
  /// `tabs` are the panel's, whose open one is part of a link; `views` are notified of the displayed runs.
  tabs = null;
  /// True if the runs are others than those of the address.
  isNew = false;
  /// The film that is about the run, by name.
  film = null;

  constructor(app) {
    this.app = app;
    this.source = null;
    this.views = [];
  }

  /// Plays a scenario that comes with the page.
  async open(name, more = {}) {
    const text = await shipped(name);
    await this.play({ name, text, seed: 0n, ...more });
  }

  /// Plays a scenario: `name` if it comes with the page, its `text`, the `seed`; `dialects` for all there are.
  async play(source, at = {}) {
    const all = await runs(source);
    this.watched?.close();
    this.watched = null;
    this.source = { dialects: false, lesson: null, ...source };
    this.isNew = true;
    this.film = null;
    // Behind the cover nothing has a width.
    this.uncover?.();
    this.app.show(all, at);
    // A scenario is shown as a whole, and can be played from its start; a lesson begins.
    if (at.step == null && (!source.lesson || source.mutant)) this.app.survey();
    this.views.forEach((view) => view());
  }

  /// Plays a change of what is played: another seed, another number of ranks, another dialect.
  async vary({ seed, ranks, dialect }) {
    // A challenge is the same with any seed.
    const isChallenge = this.source.mutant && ranks === undefined && dialect === undefined;
    const source = { ...this.source, ...(!isChallenge && { lesson: null, mutant: null }), large: null, done: undefined };
    if (!source.text) throw new Error("a recording cannot be played another way");
    if (seed !== undefined) source.seed = seed;
    if (ranks !== undefined && ranks !== ranksOf(source.text)) {
      Object.assign(source, { text: withRanks(source.text, ranks), name: null });
    }
    if (dialect !== undefined) {
      source.dialects = dialect === "all";
      if (DIALECTS.includes(dialect)) Object.assign(source, { text: await withDialect(source.text, dialect), name: null });
    }
    await this.play(source);
  }

  /// Plays a run of many ranks.
  async large(name) {
    const { text, view } = LARGE.find((one) => one.name === name);
    await this.play({ name: null, text, seed: 1n, large: name });
    if (view) this.shown.open(view);
  }

  /// Begins a lesson.
  async learn(id) {
    const lesson = lessonOf(id);
    if (!lesson) throw new Error(`there is no lesson "${id}"`);
    // Nothing that was folded or opened before: a goal may be to do just that.
    Object.assign(this.app, { isFolded: false, isHandshakeFolded: false });
    this.shown.open("lanes");
    if (lesson.file) {
      const answer = await fetch(lesson.file);
      await this.load(lesson.title, new Uint8Array(await answer.arrayBuffer()), id);
      return;
    }
    await this.play({ name: null, text: lesson.text, seed: 1n, lesson: id, mutant: lesson.mutant });
    if (lesson.mutant) return;
    this.app.choose(lesson.rank);
    if (lesson.view) this.shown.open(lesson.view);
    // Who is to be a rank begins where the rank can say something; before its start it cannot.
    const { run, story } = this.app.active;
    const isHeld = ({ next, may }) => next === "manual" && may.length > 0;
    const first = story.moments.find(({ step }) => isHeld(run.rank(step, lesson.rank)));
    if (first) this.app.seekStep(first.step);
  }

  /// Shows the runs of the address; false without a link.
  async restore() {
    const link = share.read();
    if (!link) return false;
    const lesson = lessonOf(link.view.lesson);
    if (lesson?.file) {
      await this.learn(link.view.lesson);
      return true;
    }
    const text = link.text ?? (await shipped(link.scenario));
    const { view } = link;
    const dialects = view.dialects === "all";
    await this.play({ name: link.scenario, text, seed: link.seed, dialects, done: link.done, lesson: view.lesson, mutant: lesson?.mutant, large: LARGE.find((one) => one.text === text)?.name }, { step: link.at });
    const { app } = this;
    if (view.film) {
      this.film = view.film;
      return true;
    }
    if (view.fold) app.fold(true);
    if (view.hello) app.foldHandshake(true);
    this.shown.open(view.view ?? "lanes");
    if (view.present) this.presenter.toggle(true);
    if (view.pane) app.activate(app.panes[Number(view.pane)] ?? app.active);
    if (link.at != null) app.seekStep(link.at);
    if (view.now) app.seek(Number(view.now), link.at);
    if (view.follow) app.follow(app.active, Number(view.follow), true);
    if (view.zoom) app.zoomTo(Number(view.zoom));
    if (view.message) app.pick(messageOf(app.active.story, view.message), app.active);
    this.views.forEach((view) => view());
    this.tabs.open(view.tab ?? (app.picked ? "Message" : usualTab(this.source)));
    return true;
  }

  /// The link to what is shown now; empty for a recording that does not come with the page.
  link() {
    const { app, source } = this;
    if (source?.lesson && !source.text) return share.fragment({ ...source, name: source.lesson }, [""], app.step, { lesson: source.lesson });
    if (!source?.text) return "";
    const picked = app.picked?.index;
    return share.fragment(source, source.dialects ? [""] : app.panes.map((pane) => pane.run.done), app.step, {
      dialects: source.dialects && "all", lesson: source.lesson, follow: app.followed(app.active), fold: app.isFolded && 1,
      hello: !this.film && app.isHandshakeFolded && 1, film: this.film, view: app.view !== "lanes" && app.view, present: this.presenter.isOn && 1,
      pane: app.panes.indexOf(app.active) || null, zoom: app.zoomed, message: picked, now: app.between,
      tab: this.tabs.name !== (picked == null ? usualTab(source) : "Story") && this.tabs.name,
    });
  }

  /// The command line that makes the run and its trace, or goes on with a file of it.
  command() {
    const { source, app } = this;
    if (!source?.text) return "pmi-host trace show FILE";
    if (!source.name || source.dialects || app.active.run.done) return "pmi-sim replay FILE, with the trace that Save makes";
    return `pmi-sim run ${source.name} --seed ${source.seed} --trace FILE`;
  }

  /// Does something to the run that is looked at, at this moment.
  act(what) {
    const { app } = this;
    if (!app.active.run.canAct) throw new Error("a recording can be watched only");
    const dropped = app.active.run.act(app.step, what);
    app.reread();
    return dropped;
  }

  /// As it was before the last thing was done to the run that is looked at.
  undo() {
    this.app.active.run.undo();
    this.app.reread();
  }

  /// A copy of the run beside it; what is done next is done to the copy.
  fork() {
    const { app } = this;
    if (this.source.dialects || !app.active.run.canAct) return notice("Only a run of one dialect can go another way.");
    if (app.panes.length >= PANES_MAX) return notice(`More than ${PANES_MAX} runs beside each other are not legible.`);
    const { step, now } = app;
    app.add(app.active.run.fork(), `Branch ${app.panes.length}`);
    app.activate(app.panes.at(-1));
    app.seek(now, step);
  }

  /// Shows a run that was recorded elsewhere.
  watch(run, title, lesson = null) {
    this.isNew = true;
    this.film = null;
    this.source = { name: null, text: run.canAct ? run.text : null, seed: run.canAct ? run.seed : 0n, dialects: false, lesson, title };
    this.uncover?.();
    this.app.show([[run, title]]);
    this.views.forEach((view) => view());
  }

  /// Watches a job that runs now, at the address of its launcher.
  async live(address) {
    const { watch } = await import("../later/live.js");
    this.watched?.close();
    // Without the token behind it, which lets in whoever has it.
    const title = URL.canParse(address) ? new URL(address).host : address;
    let source = null;
    this.watched = watch(address, {
      tell: notice,
      ask: () => prompt("The secret of this job, as its launcher was given it:"),
      show: (run) => {
        const { app } = this;
        // That it has no end yet is no news of a job that runs.
        run.story.about = [run.story.about[0].replace(/^A trace(: )?/, "Live$1")];
        if (!source) {
          this.watch(run, title);
          source = this.source;
          app.followEnd();
        } else if (this.source === source) {
          const isAtEnd = app.index >= app.active.story.moments.length - 1;
          app.active.show(run);
          app.measure();
          if (isAtEnd) app.followEnd();
        }
      },
    });
  }

  /// Shows what a file holds: a trace of the simulator, or a recording.
  async load(name, bytes, lesson = null) {
    const isOurs = new TextDecoder().decode(bytes.slice(0, 16)).startsWith("pmi-sim trace");
    const recorded = async () => (await import("../later/recorded.js")).Recorded.of(bytes);
    document.body.classList.add("busy");
    const run = await (isOurs ? Run.ofTrace(new TextDecoder().decode(bytes)) : recorded()).finally(() => document.body.classList.remove("busy"));
    this.watch(run, name, lesson);
    if (!isOurs) this.app.survey();
  }
}

/// The message of a link: by its number, or the first of a name.
function messageOf({ messages }, what) {
  return messages.find(({ index, name }) => String(index) === what || name === what) ?? null;
}

/// The tab that is open first: in a lesson that is played, the one in which a rank acts.
export function usualTab({ text, lesson, mutant }) {
  return text && lesson && !mutant ? "Inspect" : "Story";
}

/// More runs beside each other are not legible.
const PANES_MAX = 3;
