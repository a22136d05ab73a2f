// Messages of a run. Their numbers are columns in memory; what is written in one is read when it is looked at.

const NUMBERS = 8;

/// One message: `lane`, `up` (to the server), `raw` (made by no client), `isRefused` (it reports an error), `size` in bytes, `name`
/// of its exchange, and the wire format `dialect`. All else is made of the columns when it is looked at.
class Message {
  #columns;
  #start;
  #sent;
  #parts;

  constructor(columns, index, start) {
    this.#columns = columns;
    this.#start = start;
    this.index = index;
  }

  /// Time and step of its sending.
  get sent() {
    const at = this.index * NUMBERS;
    return (this.#sent ??= [this.#columns.numbers[at + 2], this.#columns.numbers[at + 3]]);
  }

  /// Its parts, each with `at`, the time and step of its arrival, and the bytes that `had` arrived then.
  get parts() {
    if (this.#parts) return this.#parts;
    const { parts, firsts } = this.#columns;
    this.#parts = [];
    for (let part = firsts[this.index] * 3; part < firsts[this.index + 1] * 3; part += 3) this.#parts.push({ at: [parts[part], parts[part + 1]], had: parts[part + 2] });
    return this.#parts;
  }

  /// Its arrival as a whole; `null` if it never arrived so.
  get arrived() {
    const last = this.parts.at(-1);
    return last?.had === this.size ? last.at : null;
  }

  /// Its bytes, each as the character of the same number.
  get bytes() {
    return this.#kept("bytes", text(this.#columns.bytes, this.#start, this.#start + this.size));
  }

  /// Its fields: name, positions, and the value in words if its bytes are no text.
  get fields() {
    return this.#kept("fields", this.#columns.fields(this.index));
  }

  /// Its result code, if it has one.
  get code() {
    return this.#kept("code", value(this, "rc") ?? statusOf(this));
  }

  /// Its meaning, in a word or two.
  get label() {
    return this.#kept("label", label(this));
  }

  #kept(name, value) {
    Object.defineProperty(this, name, { value });
    return value;
  }
}

/// The messages of a story, which gets their `columns`. `source` is what the module has of them; after it has changed, messages of
/// before have no fields any more that were not looked at.
export function messagesOf(story, source) {
  const [numbers, parts, bytes] = [source.numbers(), source.parts(), source.bytes()];
  story.fieldsOf = (index) => JSON.parse(source.fields(index)).fields;
  const count = numbers.length / NUMBERS;
  // Of the parts of all messages, the first of each.
  const firsts = new Uint32Array(count + 1);
  for (let index = 0; index < count; index++) firsts[index + 1] = firsts[index] + numbers[index * NUMBERS + 5];
  const columns = { numbers, parts, bytes, firsts, count, fields: (index) => story.fieldsOf(index) };
  story.columns = columns;
  // Of a tree, the lane at the upper end of each edge.
  const peers = source.peers?.();
  const messages = new Array(count);
  let start = 0;
  for (let index = 0, at = 0; index < count; index++, at += NUMBERS) {
    const message = new Message(columns, index, start);
    const flags = numbers[at + 1];
    message.lane = numbers[at];
    message.up = (flags & 1) !== 0;
    message.raw = (flags & 2) !== 0;
    message.isRefused = (flags & 4) !== 0;
    message.size = numbers[at + 4];
    message.name = story.names[numbers[at + 6]];
    message.dialect = story.dialects[numbers[at + 7]];
    message.isHello = false;
    message.peer = peers && peers[index] >= 0 ? peers[index] : null;
    messages[index] = message;
    start += message.size;
  }
  return messages;
}

/// The time at which each message was sent.
export const sentAt = ({ numbers }, index) => numbers[index * NUMBERS + 2];

/// How long each message was on its way, as far as it has arrived.
export function flightsOf({ numbers, parts, firsts, count }) {
  const flights = new Float64Array(count);
  for (let index = 0; index < count; index++) {
    if (firsts[index + 1] > firsts[index]) flights[index] = parts[(firsts[index + 1] - 1) * 3] - numbers[index * NUMBERS + 2];
  }
  return flights;
}

/// Calls `note` with the time and step of each sending and each arrival.
export function eachMoment({ numbers, parts, count }, note) {
  for (let index = 0, at = 2; index < count; index++, at += NUMBERS) note(numbers[at], numbers[at + 1]);
  for (let at = 0; at < parts.length; at += 3) note(parts[at], parts[at + 1]);
}

/// Bytes as characters of the same numbers.
function text(bytes, from, to) {
  let all = "";
  for (let at = from; at < to; at += CHUNK) all += String.fromCharCode(...bytes.subarray(at, Math.min(at + CHUNK, to)));
  return all;
}

/// A call takes no more arguments than this in any browser.
const CHUNK = 4096;

/// In PMIx a reply contains a status by name.
function statusOf(message) {
  const status = message.dialect === "pmix" && !message.up && value(message, "status");
  return status === "SUCCESS" ? "0" : status || undefined;
}

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
  if (message.dialect === "nodes") return nodesLabel(message);
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

/// The meaning of a frame between nodes.
function nodesLabel(message) {
  const fence = () => `fence ${value(message, "operation")}`;
  return { contribution: () => `${fence()}: ${nodesOf(message)} in`, ended: () => `${fence()} ends`, refuse: () => `no: ${value(message, "reason")}` }[message.name]?.() ?? message.name;
}

/// How many nodes a frame brings to a fence, in words.
export function nodesOf(message) {
  const count = parseInt(value(message, "nodes"), 10);
  return count === 1 ? "1 node" : `${count} nodes`;
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

/// Names of exchanges as people say them, where these differ.
export const SPOKEN = {
  barrier_in: "fence", get_maxes: "maxes", get_my_kvsname: "name", get_appnum: "appnum",
  get_universe_size: "universe", publish_name: "publish", lookup_name: "lookup", unpublish_name: "unpublish",
};
