// What happens now, in one sentence: for captions of the page.

import { said } from "./inspector.js";
import { nodesOf } from "./messages.js";
import { ends } from "./names.js";
import { value } from "./play.js";
import { firstFrom, sentUpTo } from "./search.js";

/// The last thing that has happened at a step, as a sentence; empty before the first.
export function caption(story, step) {
  const one = lastThing(story, step);
  if (!one) return "";
  return sentence(one.text === undefined ? spoken(story, one) : said(one.text));
}

/// The last message or mark at a step; nothing before the first.
export function lastThing(story, step) {
  const message = story.messages[sentUpTo(story.messages, step) - 1];
  const event = story.marks[firstFrom(story.marks, step + 1, ({ at }) => at[1]) - 1];
  return event && (!message || event.at[1] >= message.sent[1]) ? event : message;
}

const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1).replace(/\.$/, "")}.`;

/// A message as a sentence.
export function spoken(story, message) {
  if (message.dialect === "nodes") return betweenNodes(story, message);
  const rank = `rank ${story.lanes[message.lane].name}`;
  const key = value(message, "key");
  if (message.raw) return `${rank} sends bytes of its own`;
  if (message.isHello) return message.up ? `${rank} introduces itself to the server` : `the server answers the handshake of ${rank}`;
  if (message.up) {
    return {
      put: `${rank} puts its card ${key}`, COMMIT: `${rank} commits its cards`, get: `${rank} asks for ${key}`,
      barrier_in: `${rank} enters the fence`, finalize: `${rank} says goodbye`, abort: `${rank} aborts the job`, spawn: `${rank} asks for more processes`,
    }[message.name] ?? `${rank} sends ${message.label}`;
  }
  if (message.isRefused) return `the server refuses a request of ${rank}`;
  return {
    put: `the server has the card of ${rank}`, COMMIT: `the server has the cards of ${rank}`, get: `the server sends ${rank} a copy of the card`,
    barrier_in: `all are inside: the server lets ${rank} go on`, finalize: `the server lets ${rank} go`,
  }[message.name] ?? `the server answers ${rank}`;
}

/// A frame between nodes as a sentence.
function betweenNodes(story, message) {
  const [from, to] = ends(story, message).map((end) => (end === story.hub ? `the ${end}` : end));
  return {
    attach: `${from} asks ${to} to be its parent`, welcome: `${from} takes ${to} as a child`, contribution: `${from} brings ${nodesOf(message)} up to ${to}`,
    ended: `${from} tells ${to} that all are inside: its ranks go on`,
  }[message.name] ?? `${from} sends ${to} ${message.label}`;
}
