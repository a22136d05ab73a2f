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
    // The rank could request another version; only its end is a failure.
    await press(page, /^Leave early:/);
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
  ["Fences of pairs", "none", 2, async (page) => {
    await toTheEnd(page);
    await tab(page, "State");
    await page.getByText("is awaited by rank 0").waitFor();
    await tab(page, "Inspect");
    await press(page, /^Kill:/);
    await toTheEnd(page);
  }],
  ["The price of an all-gather", "64", 2, async (page) => {
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
  await lesson(page, "The price of an all-gather");
  await page.getByRole("group", { name: "Your prediction" }).getByRole("button", { name: "8", exact: true }).click({ delay: 100 });
  await toTheEnd(page);
  await press(page, "Fold ranks that go through the same");
  await page.getByText("Done. That was it. You predicted otherwise: it is 64.").waitFor();
  await press(page, "Next: Reading a stall report");
  await page.getByRole("heading", { name: "Reading a stall report" }).waitFor();
}));

/// What gives the answer of each question away.
const ANSWERS = {
  "Who am I?": /\brank (asks|requests|begins)|[Ii]t requests|negotiate/,
  "Put, fence, get": /all enter a fence, and then|when rank 1|in the fence\.|behind it/,
  "Why a fence?": /do not see|missing|too early|there is none|no such key/,
  "A rank dies": /report/,
  "Version mismatch": /alone|all the same|This one reports/,
  Spawn: /ranks from 0|job of their own|0:0/,
  "Reading a real trace": /one or more|cards of each node/,
  "N copies of rank 0 of 1": /no message|no server|no process|[Nn]othing|is missing/,
  "Fences of pairs": /deadlock|waits for a rank that waits|nothing moves|all three|circle/i,
  "The price of an all-gather": /64|n²|n gets/,
  "Reading a stall report": /[Rr]ank 2/,
  "Losing a node": /to the head$|attach itself to the head/,
  "PMIx and its price": /server describes|longest/,
};

test("what a lesson asks is answered at its end, and nowhere on its card before", () => open(async (page) => {
  for (const [title] of LESSONS) {
    await lesson(page, title);
    const { before, because } = await page.evaluate(() => {
      const card = document.querySelector(".lesson").cloneNode(true);
      // The possible answers themselves.
      card.querySelector(".predict .orders").remove();
      const because = card.querySelector(".because");
      because.remove();
      card.querySelector(".foot .primary")?.remove();
      card.querySelector(".predict p").remove();
      return { before: [...card.querySelectorAll("h2, p, li")].map(({ textContent }) => textContent.replace(/^Lesson \d+ of 13/, "")), because: [because.hidden, because.textContent.length > 40] };
    });
    const given = before.filter((words) => ANSWERS[title].test(words));
    assert.deepEqual(given, [], title);
    assert.deepEqual(because, [true, true], title);
  }
}));

test("the end of a lesson explains itself, and its way on lies under nothing", async () => {
  for (const [width, height] of [[1440, 900], [1024, 700], [390, 844]]) {
    await open(async (page) => {
      for (const title of ["Put, fence, get", "The price of an all-gather", "A rank dies"]) {
        await lesson(page, title);
        await LESSONS.find(([name]) => name === title)[3](page);
        await page.getByText("Done. That was it.").waitFor();
        const next = page.getByRole("button", { name: /^Next: / });
        // Within the card nothing has to be scrolled; a phone shows the whole card.
        if (width < 500) await next.scrollIntoViewIfNeeded();
        const seen = await next.evaluate((button) => {
          const { left, top, right, bottom } = button.getBoundingClientRect();
          const points = [[left + 4, top + 4], [right - 4, top + 4], [(left + right) / 2, (top + bottom) / 2], [left + 4, bottom - 4], [right - 4, bottom - 4]];
          return points.map(([x, y]) => document.elementFromPoint(x, y)?.closest("button")?.textContent ?? null);
        });
        assert.ok(seen.every((words) => words?.startsWith("Next: ")), `${title}, ${width} × ${height}: ${seen}`);
        assert.ok(await page.locator(".because").isVisible(), title);
      }
    }, { width, height });
  }
});

test("each lesson begins unfolded and in its own view", () => open(async (page) => {
  await lesson(page, "The price of an all-gather");
  await toTheEnd(page);
  await press(page, "Fold ranks that go through the same");
  await press(page, "Fold handshakes");
  await press(page, "Next: Reading a stall report");
  await page.getByRole("heading", { name: "Reading a stall report" }).waitFor();
  const state = () => page.evaluate(() => {
    const { app } = globalThis.playground;
    return [app.isFolded, app.isHandshakeFolded, app.view, app.active.rows.length];
  });
  assert.deepEqual(await state(), [false, false, "lanes", 4]);
  await press(page, "Fold ranks that go through the same");
  await page.getByRole("group", { name: "View" }).getByRole("button", { name: "Dialects" }).click();
  for (const [title, lanes] of [["Spawn", 2], ["PMIx and its price", 3]]) {
    await lesson(page, title);
    await page.getByRole("img", { name: /^Sequence of / }).waitFor();
    assert.deepEqual(await state(), [false, false, "lanes", lanes], title);
    assert.equal(await page.locator(".goals .reached").count(), 0, "no goal is met by what was opened before");
  }
}));
