// Runs that were recorded elsewhere: read by a worker, which leaves their messages as columns of numbers.

import { prepared } from "../app/play.js";
import { Calls } from "./calls.js";
import init, { fields_of_last, prove } from "../recorded/pmi_playground.js";

/// The module that reads recordings, for the page and its worker: compiled once.
const compiled = fetch(new URL("../recorded/pmi_playground_bg.wasm", import.meta.url)).then((answer) => answer.arrayBuffer()).then((bytes) => WebAssembly.compile(bytes));
const ready = compiled.then((module) => init({ module_or_path: module }));

/// A run that was recorded elsewhere. It can be watched only.
export class Recorded {
  canAct = false;
  hasTrace = false;
  text = null;
  done = "";

  /// Reads a trace. The bytes are given away.
  static async of(bytes) {
    const [columns] = await Promise.all([read(bytes), ready]);
    return new Recorded(columns);
  }

  /// The proof of the secret of a job, in answer to its challenge.
  static async proof(secret, nonce) {
    await ready;
    return prove(secret, nonce);
  }

  constructor({ story, ...columns }) {
    const read = JSON.parse(story);
    const source = new Columns(columns, read.dialects.indexOf("pmix"));
    this.story = prepared({ name: "recording", seed: "0", recorded: true, cut: false, ...read }, source);
    this.story.calls = new Calls(columns.calls, this.story);
  }

  /// A recording has no states of machines.
  view(step) {
    return { asked: step };
  }

  stateAt() {
    return null;
  }
}

/// The columns of a recording, as a run of the simulator has them. `pmix` is the number of that wire format.
class Columns {
  constructor({ numbers, parts, bytes }, pmix) {
    this.numbers = () => numbers;
    this.parts = () => parts;
    this.bytes = () => bytes;
    const count = numbers.length / 8;
    // Where the bytes of each message are.
    const starts = new Float64Array(count + 1);
    for (let index = 0; index < count; index++) starts[index + 1] = starts[index] + numbers[index * 8 + 4];
    this.fields = (index) => {
      const own = numbers[index * 8 + 7] === pmix ? connectionUpTo(numbers, index) : [index];
      const all = own.map((index) => bytes.subarray(starts[index], starts[index + 1]));
      const joined = new Uint8Array(all.reduce((sum, one) => sum + one.length, 0));
      all.reduce((at, one) => (joined.set(one, at), at + one.length), 0);
      return fields_of_last(joined, Uint32Array.from(all, (one) => one.length), Uint8Array.from(own, (index) => numbers[index * 8 + 1] & 1));
    };
  }
}

/// A message, and the earlier ones of its lane: fields of PMIx depend on them.
function connectionUpTo(numbers, last) {
  const own = [];
  for (let index = 0; index <= last; index++) if (numbers[index * 8] === numbers[last * 8]) own.push(index);
  return own;
}

/// The worker, and the recordings that it reads, in order.
let worker = null;
const waiting = [];

async function read(bytes) {
  const module = await compiled;
  worker ??= started();
  return new Promise((done, failed) => {
    waiting.push({ done, failed });
    worker.postMessage({ module, bytes }, [bytes.buffer]);
  });
}

function started() {
  const worker = new Worker(new URL("reader.js", import.meta.url), { type: "module" });
  worker.onmessage = ({ data }) => {
    const { done, failed } = waiting.shift();
    if (data.error) failed(new Error(data.error));
    else done(data);
  };
  worker.onerror = () => {
    const cannot = new Error("the browser cannot start what reads recordings: load the page again, or use a newer browser");
    for (const { failed } of waiting.splice(0)) failed(cannot);
  };
  return worker;
}
