// The exchanges of one rank by operation: what a request and its reply say, and what they cost.

import { HELLO } from "../app/handshake.js";

/// The operations that are compared, in their order, with the names of their requests.
export const OPERATIONS = [
  ["hello", (name) => HELLO.has(name)], ["put", (name) => name === "put"], ["commit", (name) => name === "COMMIT"],
  ["fence", (name) => name === "barrier_in"], ["get", (name) => name === "get"], ["finalize", (name) => name === "finalize"],
];

/// For each operation: the number of messages, bytes and round trips of a lane, and its first exchange of each name.
export function exchanges(story, lane) {
  const own = story.messages.filter((message) => message.lane === lane && !message.raw);
  const pairs = paired(own);
  return new Map(OPERATIONS.map(([word, is]) => {
    const all = pairs.filter(({ request }) => is(request.name));
    const messages = all.flatMap(({ request, reply }) => (reply ? [request, reply] : [request]));
    const firsts = all.filter(({ request }, at) => all.findIndex((other) => other.request.name === request.name) === at);
    return [word, {
      firsts, count: all.length, messages: messages.length, bytes: messages.reduce((sum, { bytes }) => sum + bytes.length, 0),
      trips: all.filter(({ reply }) => reply).length,
    }];
  }));
}

/// Requests with their replies: of several that are pending, the first one is answered first unless a tag tells.
function paired(messages) {
  const pairs = [];
  const pending = [];
  for (const message of messages) {
    if (message.up) {
      const pair = { request: message, reply: null };
      pairs.push(pair);
      pending.push(pair);
      continue;
    }
    const tag = tagOf(message);
    const at = tag === undefined ? 0 : Math.max(pending.findIndex(({ request }) => tagOf(request) === tag), 0);
    const [pair] = pending.splice(at, 1);
    if (pair) pair.reply = message;
  }
  return pairs;
}

function tagOf(message) {
  const field = message.dialect === "pmix" && message.fields.find(({ name }) => name === "tag");
  return field ? message.bytes.slice(field.value, field.end) : undefined;
}
