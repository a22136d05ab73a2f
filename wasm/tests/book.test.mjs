// Runs that the pages of the book play: each link leads to one, and a run below an example has the messages of the example.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";
import { open, ready } from "./browser.mjs";

const root = new URL("../../", import.meta.url);
const docs = new URL("docs/", root);
const pages = readdirSync(docs, { recursive: true }).filter((name) => name.endsWith(".md")).sort();
const chapters = [...readFileSync(new URL("SUMMARY.md", docs), "utf8").matchAll(/\]\(([^)]+\.md)\)/g)].map(([, path]) => new URL(path, docs));

/// A comment with a run, and the example that it follows; as in `xtask/src/book/played_run.rs`.
const RUN = /(?:^```[^\n]*\n((?:(?!```)[^\n]*\n)*)```\n+)?^<!-- play( it)?([^\n]*?): ([^\n]+?)(?: -->|\n([^]*?)-->)$/gm;

const plays = chapters.flatMap((chapter) => {
  const name = chapter.pathname.slice(root.pathname.length);
  return [...readFileSync(chapter, "utf8").matchAll(RUN)].map(([, example = "", it, settings, title, scenario]) => {
    const text = scenario && new URLSearchParams({ text: `about "${title}"\n${scenario}` }).toString();
    return { name, title, isFramed: !it, example, link: [text, settings.trim()].filter(Boolean).join("&") };
  });
});

test("chapters that teach, and pages about a wire, a failure or the inside, play a run", () => {
  const playing = new Set(plays.filter(({ isFramed }) => isFramed).map(({ name }) => name.replace(/^docs\//, "")));
  const expected = pages.filter((name) => name.startsWith("learn/") || ["pmi1.md", "pmi2.md", "pmix-wire.md", "nodes-wire.md", "nodes.md", "stalls.md", "ending.md", "pmix.md", "reliability.md", "architecture.md"].includes(name));
  assert.deepEqual(expected.filter((name) => !playing.has(name)), []);
  assert.ok(plays.filter(({ isFramed }) => isFramed).length > 20);
  assert.ok(plays.filter(({ isFramed }) => !isFramed).length > 60);
  const comments = chapters.map((chapter) => readFileSync(chapter, "utf8").match(/^<!-- play/gm)?.length ?? 0);
  assert.equal(plays.length, comments.reduce((sum, count) => sum + count, 0));
});

test("every run that the book plays is played, in the view that its link names, and has the messages of its example", () => open(async (page) => {
  const problems = [];
  const check = (is, what) => is || problems.push(what);
  for (const { name, link, title, example, isFramed } of plays) {
    const at = `${name}: ${title}`;
    await page.goto("about:blank");
    await page.goto(`${process.env.PMI_PAGE}${isFramed ? "?embed=1" : ""}#${link}`);
    const error = await ready(page).then(() => null, ({ message }) => message.replaceAll("\n", " "));
    if (error) {
      problems.push(`${at}: ${error}`);
      continue;
    }
    const run = await page.evaluate(() => {
      const { app } = globalThis.playground;
      const { story } = app.active;
      return {
        view: app.view, picked: app.picked?.name, isReported: story.marks.some(({ kind }) => kind === "report"),
        isWaited: (app.active.run.view(story.steps).debts?.length ?? 0) > 0,
        messages: story.messages.map(({ up, bytes }) => [up, bytes]),
      };
    });
    const settings = new URLSearchParams(link);
    check(run.view === (settings.get("view") ?? "lanes"), `${at}: the view ${run.view}`);
    check(run.picked === (settings.get("message") ?? undefined), `${at}: the message ${run.picked}`);
    // Only a run of processes that never connect has none.
    check(run.messages.length > (example ? 0 : 5) || /without a message/.test(title), `${at}: ${run.messages.length} messages`);
    for (const [, way, word] of example.matchAll(/^(C>S|S>C)\* .*?cmd=([\w-]+)/gm)) {
      const has = new RegExp(`cmd=${word}[ ;\\n]`);
      check(run.messages.some(([up, bytes]) => up === (way === "C>S") && has.test(bytes)), `${at}: no ${way} ${word}`);
    }
    check(run.isReported || !/^pmi-host: rank \d+ of/m.test(example), `${at}: no report`);
    check(run.isWaited || !/no progress for/.test(example), `${at}: no rank waits`);
  }
  assert.deepEqual(problems, []);
}, { width: 1000, height: 620 }));
