// The scenario that is played: its text, where it is from, and small changes to it.

import { isTree, Run, ready, withPmix } from "./play.js";

/// Reads the text of a scenario that comes with the page.
export async function shipped(name) {
  const answer = await fetch(`scenarios/${encodeURIComponent(name)}.txt`);
  if (!answer.ok) throw new Error(`there is no scenario "${name}" with this page`);
  return answer.text();
}

/// The same scenario with another number of ranks, if they are one job. Its expectations are left out: they hold for
/// the number of ranks that it was written for.
export function withRanks(text, count) {
  if (isTree(text)) return text.replace(/^tree \d+/m, `tree ${count}`);
  if (/^job /m.test(text)) throw new Error("this scenario has several jobs, which share its ranks among them");
  const open = text.replace(/^expect .*\n?/gm, "");
  return /^ranks /m.test(open) ? open.replace(/^ranks .*$/m, `ranks ${count}`) : `ranks ${count}\n${open}`;
}

/// The same scenario with all ranks in one dialect. Steps of PMIx are translated to PMI: there a put needs no
/// commit and is for all ranks, and a get names no owner.
export async function withDialect(text, dialect) {
  if (dialect === "pmix") return withPmix(text);
  const plain = text.replace(/^\s*commit\s*\n/gm, "").replace(/^(\s*)get-of \S+ (\S+)(?: now)?(?: missing)?/gm, "$1get $2").replace(/^(\s*)put-(?:local|remote) /gm, "$1put ");
  const bare = plain.replace(/^(all|rank [^\s]+)((?: .*)?) dialect \S+(.*)$/gm, "$1$2$3").replace(/^(all|rank \S+)\s*$/gm, "");
  return `${bare.trimEnd().replace(/^(name \S+)-as-pmix$/m, "$1")}\nall dialect ${dialect}\n`;
}

/// The job of a story as a tree: a node server on each of its nodes.
export function treeOf({ name, lanes }) {
  const nodes = new Set(lanes.map(({ group }) => group)).size;
  return `name ${name || "job"}-as-tree\nabout "The nodes of ${name || "a job"}, each with a server of its own: its ranks as a number, the frames between the nodes as they are."\n` +
    `tree ${nodes} radix 4\nranks ${Math.ceil(lanes.length / nodes)}\nfences 2\nbytes 20..60\npace 0..200\nlatency 60..90\n`;
}

/// How many ranks a scenario has; of a tree, how many nodes.
export function ranksOf(text) {
  if (isTree(text)) return Number(/^tree (\d+)/m.exec(text)[1]);
  return Number(/^ranks (\d+)/m.exec(text)?.[1] ?? 1);
}

/// The dialects, the older first.
export const DIALECTS = ["1.1", "1.2", "2.0", "pmix"];

/// What people call a dialect.
export const titled = (dialect) => (dialect === "pmix" ? "PMIx" : `PMI ${dialect}`);

/// Runs of a scenario, and what each is called: one, or one in each dialect. In the place of a run that there
/// cannot be stands what is missing.
export async function runs({ text, seed, dialects, mutant, done = [""] }) {
  await ready(text, mutant);
  if (dialects) return Promise.all(DIALECTS.map(async (dialect) => [await inDialect(text, seed, dialect), titled(dialect)]));
  return done.map((done, at) => [new Run({ text, seed, done, mutant }), at === 0 ? "The run" : `Branch ${at}`]);
}

async function inDialect(text, seed, dialect) {
  if (dialect !== "pmix") return new Run({ text: await withDialect(text, dialect), seed });
  try {
    return new Run({ text: await withPmix(text), seed });
  } catch (error) {
    return { lacks: error.message };
  }
}

/// Words as a scenario takes them: quoted, with everything escaped that has a meaning there.
export function quoted(bytes) {
  const plain = bytes.replace(/[^]/g, (letter) => {
    const code = letter.charCodeAt(0);
    if (letter === '"' || letter === "\\") return `\\${letter}`;
    return code >= 32 && code < 127 ? letter : `\\x${code.toString(16).padStart(2, "0")}`;
  });
  return `"${plain}"`;
}

/// Typed bytes, with the usual escapes `\n`, `\r`, `\t`, `\0`, `\\` and `\xHH`.
export function typed(words) {
  return words.replace(/\\(x[0-9a-fA-F]{2}|[nrt0\\])/g, (_, what) =>
    ({ n: "\n", r: "\r", t: "\t", 0: "\0", "\\": "\\" })[what] ?? String.fromCharCode(parseInt(what.slice(1), 16)));
}
