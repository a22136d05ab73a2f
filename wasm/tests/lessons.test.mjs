// Every lesson is learnt, and its verdict comes by itself.
import assert from "node:assert/strict";
import test from "node:test";
import { open, press, stepUntil, tab } from "./browser.mjs";

async function lesson(page, title) {
  await page.getByLabel("Scenario", { exact: true }).selectOption({ label: title });
  await page.getByRole("region", { name: "Lesson" }).getByRole("heading", { name: title }).waitFor();
  assert.equal(await page.locator(".goals .reached").count(), 0);
}

/// A step as the rank of the lesson, and time goes on until it has to decide again.
async function be(page, word, ...fields) {
  await tab(page, "Inspect");
  for (const [at, text] of fields.entries()) await page.locator("form.order", { has: page.getByRole("button", { name: word, exact: true }) }).locator("input").nth(at).fill(text);
  await press(page, word);
  await page.keyboard.press("End");
}

const learnt = (page) => page.getByText("Done. That was it.").waitFor();

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

test("who am I", () => open(async (page) => {
  await lesson(page, "Who am I?");
  await page.keyboard.press("End");
  await be(page, "open");
  await be(page, "appnum");
  await page.getByText("2 of 3").waitFor();
  await be(page, "universe");
  await learnt(page);
  await press(page, "Next: Put, fence, get");
  await page.getByRole("heading", { name: "Put, fence, get" }).waitFor();
}));

test("put, fence, get", () => open(async (page) => {
  await lesson(page, "Put, fence, get");
  await page.keyboard.press("End");
  await be(page, "put", "card-1", "tcp://10.0.0.1");
  await be(page, "fence");
  await be(page, "get", "card-0");
  await be(page, "finalize");
  await learnt(page);
}));

test("why a fence", () => open(async (page) => {
  await lesson(page, "Why a fence?");
  await page.keyboard.press("End");
  await be(page, "get", "card-0");
  await be(page, "fence");
  await be(page, "get", "card-0");
  await learnt(page);
}));

test("a rank dies", () => open(async (page) => {
  await lesson(page, "A rank dies");
  await stepUntil(page, () => document.querySelectorAll(".lane[data-tone=fence]").length === 3);
  for (let count = 0; count < 6; count++) await page.keyboard.press("ArrowRight");
  await tab(page, "Inspect");
  await press(page, /^Kill:/);
  await page.keyboard.press("End");
  await tab(page, "Story");
  await page.getByRole("button", { name: /the server reports rank 2/ }).last().click();
  await learnt(page);
}));

test("version mismatch", () => open(async (page) => {
  await lesson(page, "Version mismatch");
  await tab(page, "Inspect");
  await press(page, /^Wrong version:/);
  await page.keyboard.press("End");
  await tab(page, "Story");
  await press(page, /server → rank 1: no/);
  await learnt(page);
}));

test("spawn", () => open(async (page) => {
  await lesson(page, "Spawn");
  for (const name of [/rank 0:0 → server: spawn/, /rank 1:0 → server: init/, /server → rank 1:0: = tag#0/]) {
    await tab(page, "Story");
    await press(page, name);
  }
  await learnt(page);
}));

test("reading a real trace", () => open(async (page) => {
  await lesson(page, "Reading a real trace");
  await page.getByRole("button", { name: "rank 3: recorded" }).waitFor();
  await tab(page, "Story");
  await press(page, /rank 1 → server: get PMI_process_mapping/);
  await tab(page, "Story");
  await page.getByRole("button", { name: /rank 3 → server: fence/ }).last().click();
  await tab(page, "Story");
  await page.getByRole("button", { name: /server → rank 0: = 20/ }).first().click();
  await learnt(page);
}));
