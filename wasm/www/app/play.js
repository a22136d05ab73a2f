// A run that the page shows: what the simulator or a recording tells about it, and a moment of it.

import { Play } from "../played/pmi_playground.js";
import { spoken } from "./axis.js";
import { markHandshakes } from "./handshake.js";

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
  #before = [];

  #take(play) {
    this.#play = play;
    this.read();
  }

  /// Reads anew what happened.
  read() {
    this.story = prepared(JSON.parse(this.#play.story()));
    this.text = this.#play.scenario();
    this.seed = BigInt(this.story.seed);
    this.done = this.#play.done();
    this.#view = null;
  }

  /// How everything stands after so many steps.
  view(step) {
    if (this.#view?.asked !== step) {
      this.#view = { asked: step, ...JSON.parse(this.#play.view(step)) };
    }
    return this.#view;
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
    const run = new Recorded(JSON.parse(recording.story()));
    recording.free();
    return run;
  }

  /// The proof of the secret of a job, in answer to its challenge.
  static async proof(secret, nonce) {
    return (await reader()).prove(secret, nonce);
  }

  constructor(story) {
    this.story = prepared({ name: "recording", seed: "0", recorded: true, cut: false, ...story });
  }

  /// A recording has no states of machines.
  view(step) {
    return { asked: step };
  }
}

async function reader() {
  const module = await import("../recorded/pmi_playground.js");
  await module.default();
  return module;
}

/// Adds to a story what drawing and searching need.
function prepared(story) {
  // Where a log has no times, there is an order.
  story.spoken = story.timeless ? (ns) => `#${Math.round(ns / 1000)}` : spoken;
  story.messages.forEach((message, index) => {
    message.index = index;
    message.code = value(message, "rc") ?? statusOf(message);
    const last = message.parts.at(-1);
    message.arrived = last?.had === message.bytes.length ? last.at : null;
    message.label = label(message);
  });
  // Everything that has a moment, in order: what a cursor can stand on.
  const moments = new Map([[0, 0]]);
  const note = ([ns, step]) => moments.set(step, ns);
  for (const message of story.messages) {
    note(message.sent);
    message.parts.forEach((part) => note(part.at));
  }
  story.events.forEach((event) => note(event.at));
  story.moments = [...moments].map(([step, ns]) => ({ step, ns })).sort((a, b) => a.step - b.step);
  if (story.moments.at(-1).step < story.steps) story.moments.push({ step: story.steps, ns: story.end });
  story.marks = story.events.filter((event) => MARKED.has(event.kind));
  story.spans = spans(story);
  markHandshakes(story);
  return story;
}

/// In PMIx a reply contains a status by name.
function statusOf(message) {
  const status = message.dialect === "pmix" && !message.up && value(message, "status");
  return status === "SUCCESS" ? "0" : status || undefined;
}

/// Kinds of events that are drawn as marks.
export const MARKED = new Set(["fault", "report", "rule", "error"]);

/// The value of a field of a message.
export function value(message, name) {
  const field = message.fields.find((field) => field.name === name);
  return field && valueOf(message, field);
}

/// The value of a field: in words, if its bytes are no text.
export function valueOf(message, field) {
  return field.text ?? message.bytes.slice(field.value, field.end);
}

/// The meaning of a message, in a word or two.
function label(message) {
  if (message.dialect === "pmix") return pmixLabel(message);
  const word = value(message, "cmd") ?? value(message, "mcmd");
  if (!word) return message.raw ? "bytes" : "?";
  if (message.up) {
    const what = value(message, "key") ?? value(message, "service") ?? value(message, "name");
    const name = SPOKEN[message.name] ?? message.name ?? word;
    return what ? `${name} ${what}` : name || word;
  }
  if (message.name === "barrier_in") return "go on";
  if (message.code && message.code !== "0") return `no: ${value(message, "errmsg") ?? value(message, "msg") ?? `code ${message.code}`}`;
  const said = value(message, "value") ?? value(message, "port") ?? value(message, "appnum");
  return said !== undefined ? `= ${said}` : "ok";
}

function pmixLabel(message) {
  const name = SPOKEN[message.name] ?? message.name;
  if (message.up) return [name || "?", value(message, "key")].filter(Boolean).join(" ");
  if (message.code && message.code !== "0") return `no: ${message.code}`;
  if (message.name === "barrier_in") return "go on";
  const data = message.fields.find(({ start, text }) => start > PMIX_HEADER_BYTES && text !== undefined);
  const said = message.name === "get" && message.fields.slice(message.fields.indexOf(data)).find(({ name }) => !["status", "process", "body"].includes(name));
  if (said) return `= ${said.text}`;
  return name === "notice" ? name : "ok";
}

/// Length of the header of every PMIx message but the greeting.
const PMIX_HEADER_BYTES = 16;

const SPOKEN = {
  barrier_in: "fence", get_maxes: "maxes", get_my_kvsname: "name", get_appnum: "appnum",
  get_universe_size: "universe", publish_name: "publish", lookup_name: "lookup", unpublish_name: "unpublish",
};

/// For each lane, how its process is from when to when, and when it waits for an answer.
function spans(story) {
  const lanes = story.lanes.map(() => ({ life: [], waits: [], start: null, end: null }));
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
      own.waits.push({ from: ns, to: null, number: text.split(" ")[3] });
    } else if (kind === "answer") {
      const wait = own.waits.find((wait) => wait.number === text.split(" ")[3]);
      if (wait) wait.to = ns;
    }
  }
  return lanes;
}
