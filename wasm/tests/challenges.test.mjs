// Challenges: find the seed that breaks this server.
import assert from "node:assert/strict";
import test from "node:test";
import { open, ready } from "./browser.mjs";

/// A press of human length.
const press = (page, name) => page.getByRole("button", { name, exact: typeof name === "string" }).first().click({ delay: 100 });

const RIGHT = {
  "The hasty server": ["it lets a rank go on before all are inside", "fence|waits"],
  "The server that says nothing": ["it does not report a rank that was killed", "named|waits"],
  "The wrong rank": ["it reports another rank than the one that was killed", "blamed|named|waits"],
};

test("each challenge is broken by some seeds and not by most, and never without its fault", () => open(async (page) => {
  const counts = await page.evaluate(async () => {
    const { CHALLENGES } = await import("./app/challenges.js");
    const { ready, Run } = await import("./app/play.js");
    const counts = [];
    for (const { title, text, mutant } of CHALLENGES) {
      await ready(text, mutant);
      const broken = (mutant) => Array.from({ length: 60 }, (_, seed) => new Run({ text, seed: BigInt(seed), mutant }).story.events.filter(({ kind }) => kind === "rule").length > 0).filter(Boolean).length;
      counts.push([title, broken(mutant), broken("")]);
    }
    return counts;
  });
  assert.deepEqual(counts.map(([title]) => title), Object.keys(RIGHT));
  for (const [title, broken, sound] of counts) {
    assert.ok(broken >= 1 && broken <= 20, `${title}: ${broken} of 60 seeds`);
    assert.equal(sound, 0, title);
  }
}));

for (const [title, [right, rule]] of Object.entries(RIGHT)) {
  test(`the challenge "${title}" is met seed by seed, and the link is the proof`, () => open(async (page) => {
    await page.getByLabel("Scenario", { exact: true }).selectOption({ label: title });
    await page.getByRole("region", { name: "Lesson" }).getByRole("heading", { name: title }).waitFor();
    assert.equal(await page.locator(".goals .reached").count(), 0);
    await page.getByRole("group", { name: "Your prediction" }).getByRole("button", { name: right, exact: true }).click({ delay: 100 });
    for (let count = 0; count < 60 && !(await page.locator(".goals .reached").count()); count++) {
      const seed = await page.getByLabel("Seed", { exact: true }).inputValue();
      await press(page, "Try the next seed");
      await page.waitForFunction((seed) => document.querySelector("[aria-label=Seed]").value !== seed, seed);
      await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    }
    await page.locator(".goals .reached").waitFor();
    await page.getByRole("tab", { name: "Story" }).click({ delay: 100 });
    await press(page, new RegExp(`a rule is broken: (${rule}) `));
    await page.getByText("Done. That was it. Your prediction was right.").waitFor();
    const seed = await page.getByLabel("Seed", { exact: true }).inputValue();
    await page.waitForFunction((seed) => location.hash.includes("lesson=challenge-") && location.hash.includes(`seed=${seed}&`), seed);
    const link = page.url();
    await page.goto("about:blank");
    await page.goto(link);
    await ready(page);
    await page.locator(".goals .reached").first().waitFor();
    // It cannot be a trace: that is replayed with the server as it is.
    await press(page, "Save a trace or a picture");
    await page.getByRole("dialog", { name: "Save" }).getByRole("button", { name: /^Picture/ }).waitFor();
    assert.equal(await page.getByRole("dialog", { name: "Save" }).getByRole("button", { name: /^Trace/ }).count(), 0);
  }));
}

test("another number of ranks ends a challenge", () => open(async (page) => {
  await page.getByLabel("Scenario", { exact: true }).selectOption({ label: "The hasty server" });
  await page.getByRole("region", { name: "Lesson" }).getByRole("heading", { name: "The hasty server" }).waitFor();
  await page.getByRole("spinbutton", { name: "Ranks" }).fill("5");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: /^rank 4/ }).waitFor();
  assert.equal(await page.getByRole("region", { name: "Lesson" }).isVisible(), false);
}));
