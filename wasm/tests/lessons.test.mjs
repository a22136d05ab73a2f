// Every lesson is learnt as a person does it: a prediction, the film, the task, and a verdict that comes by itself.
import assert from "node:assert/strict";
import test from "node:test";
import { open, stepUntil } from "./browser.mjs";

/// A press of human length.
const press = (page, name) => page.getByRole("button", { name, exact: typeof name === "string" }).first().click({ delay: 100 });
const tab = (page, name) => page.getByRole("tab", { name }).click({ delay: 100 });
const toTheEnd = (page) => press(page, "To the end");

async function lesson(page, title) {
  await page.getByLabel("Scenario", { exact: true }).selectOption({ label: title });
  await page.getByRole("region", { name: "Lesson" }).getByRole("heading", { name: title }).waitFor();
  assert.equal(await page.locator(".goals .reached").count(), 0);
}

/// A step as the rank of the lesson, and time goes on until it has to decide again.
async function be(page, word, ...fields) {
  const form = page.locator("form.order", { has: page.getByRole("button", { name: word, exact: true }) });
  for (const [at, text] of fields.entries()) await form.locator("input").nth(at).fill(text);
  await form.getByRole("button").click({ delay: 100 });
  await toTheEnd(page);
}

/// Picks a line of the list of messages and events.
async function pick(page, name, which = (all) => all.first()) {
  await tab(page, "Story");
  await which(page.getByRole("region", { name: "Events" }).getByRole("button", { name })).click({ delay: 100 });
}

test("a lesson about being a rank opens where the rank can say something", () => open(async (page) => {
  for (const [title, word] of [["Who am I?", "open"], ["Put, fence, get", "put"], ["Why a fence?", "get"], ["Version mismatch", "open"]]) {
    await lesson(page, title);
    await page.locator("form.order").getByRole("button", { name: word, exact: true }).waitFor();
    assert.equal(await page.getByText("Nothing is legal now").count(), 0, title);
  }
  // Before its start a rank cannot say anything, and the page says why.
  await page.keyboard.press("Home");
  await page.getByText("Rank 1 has not started yet: go on in time.").waitFor();
}));

/// Each lesson: the title, the right prediction, the captions of its film, and the task.
const LESSONS = [
  ["Who am I?", "the rank", 2, async (page) => {
    for (const word of ["open", "appnum", "universe"]) await be(page, word);
  }],
  ["Put, fence, get", "when rank 1 is in the fence too", 2, async (page) => {
    await toTheEnd(page);
    await be(page, "put", "card-1", "tcp://10.0.0.1");
    await be(page, "fence");
    await be(page, "get", "card-0");
    await be(page, "finalize");
  }],
  ["Why a fence?", "nothing: the server says that there is no such key", 1, async (page) => {
    await toTheEnd(page);
    await be(page, "get", "card-0");
    await be(page, "fence");
    await be(page, "get", "card-0");
  }],
  ["A rank dies", "the server reports the dead rank by its number", 2, async (page) => {
    await stepUntil(page, () => document.querySelectorAll(".lane[data-tone=fence]").length === 3);
    for (let count = 0; count < 6; count++) await press(page, "Step forward");
    await tab(page, "Inspect");
    await press(page, /^Kill:/);
    await toTheEnd(page);
    await pick(page, /the server reports rank 2/, (all) => all.last());
  }],
  ["Version mismatch", "rank 1 alone", 1, async (page) => {
    await tab(page, "Inspect");
    await press(page, /^Wrong version:/);
    await toTheEnd(page);
    await pick(page, /server → rank 1: no/);
  }],
  ["Spawn", "0, in a job of its own", 2, async (page) => {
    for (const name of [/rank 0:0 → server: spawn/, /rank 1:0 → server: init/, /server → rank 1:0: = tag#0/]) await pick(page, name);
  }],
  ["Reading a real trace", "one or more: the cards of each node, then those of all", 2, async (page) => {
    await page.getByRole("button", { name: "rank 3: recorded" }).waitFor();
    await pick(page, /rank 1 → server: get PMI_process_mapping/);
    await pick(page, /rank 3 → server: fence/, (all) => all.last());
    await pick(page, /server → rank 0: = 20/);
  }],
  ["N copies of rank 0 of 1", "none", 2, async (page) => {
    await toTheEnd(page);
    await press(page, /^rank 2: /);
  }],
  ["Two fences that deadlock", "none", 2, async (page) => {
    await toTheEnd(page);
    await tab(page, "State");
    await page.getByText("is awaited by rank 0").waitFor();
    await tab(page, "Inspect");
    await press(page, /^Kill:/);
    await toTheEnd(page);
  }],
  ["All-gather costs n²", "64", 2, async (page) => {
    await toTheEnd(page);
    await press(page, "Fold ranks that go through the same");
  }],
  ["Reading a stall report", "rank 2, which is stopped", 2, async (page) => {
    await toTheEnd(page);
    await page.getByText("1 of 3").waitFor();
    await tab(page, "State");
    await page.getByText("is awaited by rank 0").waitFor();
    await tab(page, "Inspect");
    await press(page, /^Continue:/);
    await toTheEnd(page);
  }],
  ["Losing a node", "they attach themselves to the head", 3, async (page) => {
    // Contributions go up: as a person sees it in the tree.
    await stepUntil(page, () => globalThis.playground.views.tree?.scene?.flying.some(({ message }) => message.name === "contribution"));
    const place = await page.evaluate(() => {
      const { scene, canvas } = globalThis.playground.views.tree;
      const { left, top } = canvas.getBoundingClientRect();
      return [left + scene.spots[1].x, top + scene.spots[1].y];
    });
    await page.mouse.click(...place, { delay: 100 });
    await tab(page, "Inspect");
    await press(page, /^Kill:/);
    await toTheEnd(page);
  }],
  ["PMIx and its price", "the description of the job, when a rank connects", 2, async (page) => {
    await press(page, /^rank 0: /);
    // The greeting, the request for the job-level information, and their replies.
    await page.keyboard.press("Home");
    for (let count = 0; count < 4; count++) await page.keyboard.press("]");
    await page.getByText("1 of 3").waitFor();
    await toTheEnd(page);
    await pick(page, /rank 0 → server: COMMIT/);
    await page.getByRole("group", { name: "View" }).getByRole("button", { name: "Dialects" }).click({ delay: 100 });
  }],
];

for (const [title, prediction, shots, task] of LESSONS) {
  test(`lesson "${title}" is predicted, watched and learnt`, () => open(async (page) => {
    await lesson(page, title);
    await page.getByLabel("Speed").selectOption("8");
    await page.getByRole("group", { name: "Your prediction" }).getByRole("button", { name: prediction, exact: true }).click({ delay: 100 });
    await page.evaluate(() => {
      globalThis.captions = new Set();
      const words = document.querySelector(".caption-bar [role=status]");
      new MutationObserver(() => globalThis.captions.add(words.textContent)).observe(words, { childList: true, characterData: true, subtree: true });
    });
    await press(page, "Watch it first");
    await press(page, "Now you");
    await page.locator(".caption-bar").waitFor({ state: "hidden" });
    assert.equal(await page.evaluate(() => globalThis.captions.size), shots, "each shot has its caption");
    await task(page);
    await page.getByText("Done. That was it. Your prediction was right.").waitFor();
  }));
}

test("a prediction that was wrong is corrected at the end, and the next lesson is offered", () => open(async (page) => {
  await lesson(page, "All-gather costs n²");
  await page.getByRole("group", { name: "Your prediction" }).getByRole("button", { name: "8", exact: true }).click({ delay: 100 });
  await toTheEnd(page);
  await press(page, "Fold ranks that go through the same");
  await page.getByText("Done. That was it. You predicted otherwise: it is 64.").waitFor();
  await press(page, "Next: Reading a stall report");
  await page.getByRole("heading", { name: "Reading a stall report" }).waitFor();
}));
