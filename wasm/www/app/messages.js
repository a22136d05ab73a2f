// Messages of a run. Their numbers are columns in memory; what is written in one is read when it is looked at.

const NUMBERS = 8;

/// One message: `lane`, `up` (to the server), `raw` (made by no client), `isRefused` (it reports an error), `sent` (time and
/// step), `parts` (each with `at` and the bytes that `had` arrived), `arrived` (the end of the last one; `null` if it never
/// arrived as a whole), `size` in bytes, `name` of its exchange, and the wire format `dialect`.
class Message {
  #columns;
  #start;

  constructor(columns, index, start) {
    this.#columns = columns;
    this.#start = start;
    this.index = index;
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

/// The messages of a story. `source` is what the module has of them; after it has changed, messages of before have no
/// fields any more that were not looked at.
export function messagesOf(story, source) {
  const [numbers, parts, bytes] = [source.numbers(), source.parts(), source.bytes()];
  story.fieldsOf = (index) => JSON.parse(source.fields(index)).fields;
  const columns = { bytes, fields: (index) => story.fieldsOf(index) };
  const messages = new Array(numbers.length / NUMBERS);
  let [start, part] = [0, 0];
  for (let index = 0, at = 0; index < messages.length; index++, at += NUMBERS) {
    const message = new Message(columns, index, start);
    const flags = numbers[at + 1];
    message.lane = numbers[at];
    message.up = (flags & 1) !== 0;
    message.raw = (flags & 2) !== 0;
    message.isRefused = (flags & 4) !== 0;
    message.sent = [numbers[at + 2], numbers[at + 3]];
    message.size = numbers[at + 4];
    message.parts = [];
    for (let count = numbers[at + 5]; count > 0; count--, part += 3) message.parts.push({ at: [parts[part], parts[part + 1]], had: parts[part + 2] });
    const last = message.parts.at(-1);
    message.arrived = last?.had === message.size ? last.at : null;
    message.name = story.names[numbers[at + 6]];
    message.dialect = story.dialects[numbers[at + 7]];
    message.isHello = false;
    messages[index] = message;
    start += message.size;
  }
  return messages;
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
