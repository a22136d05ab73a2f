// A run that the page shows: what the simulator or a recording tells about it, and a moment of it.

import { Play } from "../played/pmi_playground.js";
import { spoken } from "./axis.js";
import { markHandshakes } from "./handshake.js";
import { eachMoment, messagesOf } from "./messages.js";

export { value, valueOf } from "./messages.js";

/// The module with PMIx, loaded on demand.
let pmix = null;

async function loadPmix() {
  if (pmix) return;
  const module = await import("../pmix/pmi_playground.js");
  await module.default();
  pmix = module;
}

/// The module with trees of nodes, loaded on demand.
let tree = null;

/// Loads what this scenario needs, if it is not there yet. A `mutant` is a known fault of the server.
export async function ready(text, mutant) {
  if (isTree(text)) {
    if (tree) return;
    const module = await import("../tree/pmi_playground.js");
    await module.default();
    tree = module;
  } else if (mutant || speaksPmix(text)) await loadPmix();
}

/// True if a scenario is a tree of nodes.
export const isTree = (text) => /^tree /m.test(text);

/// The same scenario with all ranks in PMIx. What they cannot say of it is an error.
export async function withPmix(text) {
  await loadPmix();
  return pmix.in_pmix(text);
}

const speaksPmix = (text) => /\bdialect pmix\b/.test(text);
const player = (text, mutant) => (isTree(text) ? tree.TreePlay : mutant || speaksPmix(text) ? pmix.Play : Play);

/// A run of the simulator.
export class Run {
  /// `what`: the scenario's text, the seed as a BigInt, what was done, a line each, and the fault of the server, if any.
  constructor({ text, seed, done = "", mutant = "" }) {
    this.mutant = mutant;
    this.#take(this.#made(text, seed, done));
  }

  #made(text, seed, done) {
    const Made = player(text, this.mutant);
    return this.mutant ? Made.of_mutant(text, seed, done, this.mutant) : new Made(text, seed, done);
  }

  /// The run that a trace of the simulator is of.
  static async ofTrace(trace) {
    await ready(trace);
    const play = player(trace).of_trace(trace);
    return new Run({ text: play.scenario(), seed: BigInt(JSON.parse(play.story()).seed), done: play.done() });
  }

  canAct = true;
  #play;
  #view = null;
  #rank = null;
  #states = null;
  #before = [];

  #take(play) {
    this.#play = play;
    this.read();
  }

  /// Reads anew what happened.
  read() {
    this.story = prepared(JSON.parse(this.#play.story()), this.#play);
    this.text = this.#play.scenario();
    this.seed = BigInt(this.story.seed);
    this.done = this.#play.done();
    this.#view = null;
    this.#rank = null;
    this.#states = this.#play.state_words && new States(JSON.parse(this.#play.state_words()).states, this.#play.state_changes(), this.story.lanes.length);
  }

  /// How everything stands after so many steps.
  view(step) {
    if (this.#view?.asked !== step) {
      this.#view = { asked: step, ...JSON.parse(this.#play.view(step)) };
    }
    return this.#view;
  }

  /// The state of one rank after so many steps: its process, its client, the server's of it, and its pending requests.
  stateAt(step, lane) {
    return this.#states?.at(step, lane) ?? read(this.view(step).ranks[lane]);
  }

  /// All that there is of one rank after so many steps.
  rank(step, lane) {
    const asked = `${step} ${lane}`;
    if (this.#rank?.asked !== asked) this.#rank = { asked, ...JSON.parse(this.#play.rank(step, lane)) };
    return this.#rank;
  }

  /// Injects after a number of steps, and returns the number of dropped later injections.
  act(step, what) {
    const { done } = this;
    this.#play.inject(step, what);
    this.#before.push(done);
    this.read();
    const kept = new Set(this.done.split("\n"));
    return done.split("\n").filter((line) => !kept.has(line)).length;
  }

  /// As it was before the last thing was done.
  undo() {
    const lines = this.done.trimEnd().split("\n");
    const last = lines.at(-1).split(" ")[0];
    // What came with a link is taken back step by step.
    const before = this.#before.pop() ?? lines.filter((line) => line.split(" ")[0] !== last).join("\n");
    this.#take(this.#made(this.text, this.seed, before));
  }

  /// The same run once more.
  fork() {
    return new Run({ text: this.text, seed: this.seed, done: this.done, mutant: this.mutant });
  }

  /// True if it can be a trace of the simulator: not with a fault of the server, and not of a tree.
  get hasTrace() {
    return !this.mutant && !isTree(this.text);
  }

  /// The run as a trace of the simulator.
  trace() {
    return this.#play.trace();
  }
}

/// A state in words: its process, its client, the server's of it, and its pending requests.
function read(words) {
  const [states, ...asks] = words.split("\n");
  const [life, client, member] = states.split(" ");
  return { life, client, member, asks };
}

/// The states of all ranks at every moment: for each rank its changes, as columns of numbers.
class States {
  constructor(words, changes, lanes) {
    this.words = words.map(read);
    this.starts = new Uint32Array(lanes + 1);
    for (let at = 1; at < changes.length; at += 3) this.starts[changes[at] + 1] += 1;
    for (let lane = 0; lane < lanes; lane++) this.starts[lane + 1] += this.starts[lane];
    const next = this.starts.slice();
    this.steps = new Uint32Array(changes.length / 3);
    this.states = new Uint32Array(changes.length / 3);
    for (let at = 0; at < changes.length; at += 3) {
      const place = next[changes[at + 1]]++;
      this.steps[place] = changes[at];
      this.states[place] = changes[at + 2];
    }
  }

  /// The state of a rank after so many steps: that of the last change until then.
  at(step, lane) {
    let [low, high] = [this.starts[lane], this.starts[lane + 1]];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.steps[middle] <= step) low = middle;
      else high = middle;
    }
    return this.words[this.states[low]];
  }
}

/// Adds to a story what drawing and searching need. `source` has its messages, as columns of numbers.
export function prepared(story, source) {
  // Where a log has no times, there is an order.
  story.unit ??= "rank";
  story.hub ??= "server";
  story.spoken = story.timeless ? (ns) => `#${Math.round(ns / 1000)}` : spoken;
  story.messages = messagesOf(story, source);
  story.moments = momentsOf(story);
  if (!story.timeless) story.spoken = exactly(story.moments);
  story.marks = story.events.filter((event) => MARKED.has(event.kind));
  // What is listed: requests and answers of clients are messages already.
  story.told = story.events.filter(({ kind }) => kind !== "ask" && kind !== "answer");
  story.spans = spans(story);
  // When each process has ended in trouble, in order.
  story.endings = Float64Array.from(story.spans.flatMap(({ end }) => (end && end.text !== "exit 0" ? [end.ns] : []))).sort();
  for (const fence of story.fences) markFence(fence);
  story.releases = Float64Array.from(story.fences.map(({ freed }) => freed?.[1] ?? Infinity)).sort();
  markHandshakes(story);
  return story;
}

/// Everything that has a moment, in order: what a cursor can stand on.
function momentsOf(story) {
  let last = story.steps;
  for (const { at } of story.events) last = Math.max(last, at[1]);
  eachMoment(story.columns, (_, step) => (last = Math.max(last, step)));
  // By step; what has no moment is no number.
  const times = new Float64Array(last + 1).fill(NaN);
  times[0] = 0;
  eachMoment(story.columns, (ns, step) => (times[step] = ns));
  for (const { at } of story.events) times[at[1]] = at[0];
  const moments = [];
  times.forEach((ns, step) => Number.isNaN(ns) || moments.push({ step, ns }));
  if (moments.at(-1).step < story.steps) moments.push({ step: story.steps, ns: story.end });
  return moments;
}

/// Times as people read them, exact enough to tell moments of a long run from each other.
function exactly(moments) {
  const gaps = Float64Array.from(moments.slice(1), ({ ns }, at) => ns - moments[at].ns).filter((gap) => gap > 0).sort();
  const usual = gaps[gaps.length >> 1] ?? Infinity;
  return (ns, apart = Math.min(ns / 100, usual * 2)) => spoken(ns, apart);
}

/// Adds to a fence its first request, its entries, its release, and its end: that of the last rank that leaves it.
function markFence(fence) {
  const least = (moments) => moments.reduce((first, moment) => (moment && moment[1] < first[1] ? moment : first), [Infinity, Infinity]);
  fence.from = least(fence.inside.map(({ asked }) => asked));
  // When each has entered, in the order of steps: several may have the same time.
  fence.came = fence.inside.flatMap(({ came }) => (came ? [came] : [])).sort(([, a], [, b]) => a - b);
  const freed = least(fence.inside.map(({ freed }) => freed));
  fence.freed = freed[1] === Infinity ? null : freed;
  fence.to = fence.inside.reduce((last, { left }) => Math.max(last, left ? left[0] : Infinity), 0);
}

/// Kinds of events that are drawn as marks.
export const MARKED = new Set(["fault", "report", "rule", "error"]);

/// For each lane, how its process is from when to when, and when it waits for an answer.
function spans(story) {
  const lanes = story.lanes.map(() => ({ life: [], waits: [], start: null, end: null }));
  // For each lane, its requests without an answer.
  const open = story.lanes.map(() => new Map());
  // Of who was recorded without its start, the first message is the first that is known.
  if (story.recorded) for (const message of story.messages) lanes[message.lane].start ??= message.sent[0];
  for (const { at: [ns], lane, kind, text } of story.events) {
    if (lane == null) continue;
    const own = lanes[lane];
    const [, , word, request] = text.split(" ", 4);
    if (kind === "process" && /^(rank|node) /.test(text)) {
      if (word === "start") own.start = ns;
      if (word === "killed" || word === "exit") own.end ??= { ns, text: text.split(" ").slice(2).join(" ") };
      if (own.life.length && own.life.at(-1).to == null) own.life.at(-1).to = ns;
      if (["stopped", "hung", "deaf"].includes(word)) own.life.push({ from: ns, to: null, how: word });
    } else if (kind === "ask") {
      const wait = { from: ns, to: null };
      own.waits.push(wait);
      open[lane].set(request, wait);
    } else if (kind === "answer") {
      const wait = open[lane].get(request);
      if (wait) wait.to = ns;
    }
  }
  return lanes;
}
