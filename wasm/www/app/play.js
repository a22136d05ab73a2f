// A run that the page shows: what the simulator or a recording tells about it, and a moment of it.

import { Play } from "../played/pmi_playground.js";
import { spoken } from "./axis.js";
import { markHandshakes } from "./handshake.js";
import { messagesOf } from "./messages.js";

export { value, valueOf } from "./messages.js";

/// The module with PMIx, loaded on demand.
let pmix = null;

async function loadPmix() {
  if (pmix) return;
  const module = await import("../pmix/pmi_playground.js");
  await module.default();
  pmix = module;
}

/// Loads what this scenario needs, if it is not there yet.
export async function ready(text) {
  if (speaksPmix(text)) await loadPmix();
}

/// The same scenario with all ranks in PMIx. What they cannot say of it is an error.
export async function withPmix(text) {
  await loadPmix();
  return pmix.in_pmix(text);
}

const speaksPmix = (text) => /\bdialect pmix\b/.test(text);
const player = (text) => (speaksPmix(text) ? pmix.Play : Play);

/// A run of the simulator.
export class Run {
  /// `what`: the scenario's text, the seed as a BigInt, and what was done, a line each.
  constructor({ text, seed, done = "" }) {
    this.#take(new (player(text))(text, seed, done));
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
    const [states, ...asks] = this.view(step).ranks[lane].split("\n");
    const [life, client, member] = states.split(" ");
    return { life, client, member, asks };
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
    this.#take(new (player(this.text))(this.text, this.seed, before));
  }

  /// The same run once more.
  fork() {
    return new Run({ text: this.text, seed: this.seed, done: this.done });
  }

  /// The run as a trace of the simulator.
  trace() {
    return this.#play.trace();
  }
}

/// A run that was recorded elsewhere. It can be watched only.
export class Recorded {
  canAct = false;
  text = null;
  done = "";

  /// Reads a trace of `pmi-host`, or a log of Hydra or Flux. What reads them is loaded for the first one.
  static async of(bytes) {
    const { Recording } = await reader();
    const recording = new Recording(bytes);
    return new Recorded(JSON.parse(recording.story()), recording);
  }

  /// The proof of the secret of a job, in answer to its challenge.
  static async proof(secret, nonce) {
    return (await reader()).prove(secret, nonce);
  }

  constructor(story, recording) {
    this.story = prepared({ name: "recording", seed: "0", recorded: true, cut: false, ...story }, recording);
  }

  /// A recording has no states of machines.
  view(step) {
    return { asked: step };
  }

  stateAt() {
    return null;
  }
}

async function reader() {
  const module = await import("../recorded/pmi_playground.js");
  await module.default();
  return module;
}

/// Adds to a story what drawing and searching need. `source` has its messages, as columns of numbers.
function prepared(story, source) {
  // Where a log has no times, there is an order.
  story.spoken = story.timeless ? (ns) => `#${Math.round(ns / 1000)}` : spoken;
  story.messages = messagesOf(story, source);
  story.moments = momentsOf(story);
  story.marks = story.events.filter((event) => MARKED.has(event.kind));
  // What is listed: requests and answers of clients are messages already.
  story.told = story.events.filter(({ kind }) => kind !== "ask" && kind !== "answer");
  story.spans = spans(story);
  // When each process has ended, in order.
  story.endings = Float64Array.from(story.spans.flatMap(({ end }) => (end ? [end.ns] : []))).sort();
  for (const fence of story.fences) markFence(fence);
  story.releases = Float64Array.from(story.fences.map(({ freed }) => freed?.[1] ?? Infinity)).sort();
  markHandshakes(story);
  return story;
}

/// Everything that has a moment, in order: what a cursor can stand on.
function momentsOf(story) {
  const times = new Map([[0, 0]]);
  const note = ([ns, step]) => times.set(step, ns);
  for (const { sent, parts } of story.messages) {
    note(sent);
    for (const { at } of parts) note(at);
  }
  for (const { at } of story.events) note(at);
  const steps = Float64Array.from(times.keys()).sort();
  const moments = Array.from(steps, (step) => ({ step, ns: times.get(step) }));
  if (moments.at(-1).step < story.steps) moments.push({ step: story.steps, ns: story.end });
  return moments;
}

/// Adds to a fence its first request, its release, and its end: that of the last rank that leaves it.
function markFence(fence) {
  const least = (moments) => moments.reduce((first, moment) => (moment && moment[1] < first[1] ? moment : first), [Infinity, Infinity]);
  fence.from = least(fence.inside.map(({ asked }) => asked));
  const freed = least(fence.inside.map(({ freed }) => freed));
  fence.freed = freed[1] === Infinity ? null : freed;
  fence.to = fence.inside.reduce((last, { left }) => Math.max(last, left ? left[0] : Infinity), 0);
}

/// Kinds of events that are drawn as marks.
export const MARKED = new Set(["fault", "report", "rule", "error"]);

/// For each lane, how its process is from when to when, and when it waits for an answer.
function spans(story) {
  const lanes = story.lanes.map(() => ({ life: [], waits: [], start: null, end: null }));
  const open = new Map();
  // Of who was recorded without its start, the first message is the first that is known.
  if (story.recorded) for (const { lane, sent: [ns] } of story.messages) lanes[lane].start ??= ns;
  for (const { at: [ns], lane, kind, text } of story.events) {
    if (lane == null) continue;
    const own = lanes[lane];
    const word = text.split(" ")[2];
    if (kind === "process" && text.startsWith("rank")) {
      if (word === "start") own.start = ns;
      if (word === "killed" || word === "exit") own.end ??= { ns, text: text.split(" ").slice(2).join(" ") };
      if (own.life.length && own.life.at(-1).to == null) own.life.at(-1).to = ns;
      if (["stopped", "hung", "deaf"].includes(word)) own.life.push({ from: ns, to: null, how: word });
    } else if (kind === "ask") {
      const wait = { from: ns, to: null };
      own.waits.push(wait);
      open.set(`${lane} ${text.split(" ")[3]}`, wait);
    } else if (kind === "answer") {
      const wait = open.get(`${lane} ${text.split(" ")[3]}`);
      if (wait) wait.to = ns;
    }
  }
  return lanes;
}
