// Runs that the pages of the book play: each link leads to one.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";
import { open, ready } from "./browser.mjs";

const docs = new URL("../../docs/", import.meta.url);
const pages = readdirSync(docs, { recursive: true }).filter((name) => name.endsWith(".md")).sort();
const plays = pages.flatMap((name) => {
  const text = readFileSync(new URL(name, docs), "utf8");
  return [...text.matchAll(/^<!-- play (\S+): (.+) -->$/gm)].map(([, link, title]) => ({ name, link, title }));
});

test("chapters that teach, and pages about a wire, a failure or the inside, play a run", () => {
  const playing = new Set(plays.map(({ name }) => name));
  const expected = pages.filter((name) => name.startsWith("learn/") || ["pmi1.md", "pmi2.md", "pmix-wire.md", "nodes-wire.md", "nodes.md", "stalls.md", "ending.md", "pmix.md", "reliability.md", "architecture.md"].includes(name));
  assert.deepEqual(expected.filter((name) => !playing.has(name)), []);
  assert.ok(plays.length > 20);
});

test("every run that the book plays is played, in the view that its link names", () => open(async (page) => {
  for (const { name, link, title } of plays) {
    await page.goto("about:blank");
    await page.goto(`${process.env.PMI_PAGE}?embed=1#${link}`);
    await ready(page);
    const [count, view] = await page.evaluate(() => [globalThis.playground.app.active.story.messages.length, globalThis.playground.app.view]);
    assert.ok(count > 5, `${name}: ${title}`);
    assert.equal(view, new URLSearchParams(link).get("view") ?? "lanes", `${name}: ${title}`);
  }
}, { width: 800, height: 420 }));
