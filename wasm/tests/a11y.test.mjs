// Rules of accessibility, as axe-core checks them, and use of the page by keys alone.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import test from "node:test";
import { open, press, tab } from "./browser.mjs";

const axe = readFileSync(createRequire(`${process.env.PMI_NPM}/`).resolve("axe-core/axe.min.js"), "utf8");

/// Every violation of a rule: the rule, the element, and what is wrong with it.
async function findings(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id}: ${target.join(" ")}: ${failureSummary.replace(/\s+/g, " ")}`));
}

const view = (page, name) => page.getByRole("group", { name: "View" }).getByRole("button", { name }).click({ delay: 60 });

/// The screens that are checked: the link, and the way from there.
const SCREENS = {
  cover: { fragment: "" },
  lanes: { use: (page) => press(page, /rank 0 → server: put card-0/) },
  "lanes with a report": { fragment: "#scenario=leave-early&seed=7", use: async (page) => {
    await page.keyboard.press("End");
    await page.getByRole("button", { name: /the server reports rank/ }).first().click();
    await tab(page, "State");
  } },
  acting: { fragment: "#scenario=many-fences&seed=1", use: async (page) => {
    await page.keyboard.press("Home");
    await tab(page, "Inspect");
    await press(page, "Be rank 0");
    await page.keyboard.press("End");
  } },
  ring: { use: (page) => view(page, "Ring") },
  dialects: { use: async (page) => {
    await view(page, "Dialects");
    await page.getByRole("columnheader", { name: "PMIx" }).waitFor();
  } },
  tree: { use: async (page) => {
    await page.getByLabel("Scenario", { exact: true }).selectOption("large lost-node");
    await page.getByRole("img", { name: /^Tree of lost-node/ }).waitFor();
    await tab(page, "Inspect");
  } },
  challenge: { use: async (page) => {
    await page.getByLabel("Scenario", { exact: true }).selectOption({ label: "The hasty server" });
    await page.getByRole("group", { name: "Your prediction" }).waitFor();
  } },
  lesson: { use: async (page) => {
    await page.getByLabel("Scenario", { exact: true }).selectOption({ label: "Why a fence?" });
    await page.getByRole("group", { name: "Your prediction" }).getByRole("button").first().click({ delay: 60 });
  } },
  stage: { use: (page) => press(page, "Presenter: large text and captions") },
  menu: { use: async (page) => {
    await page.getByRole("button", { name: /^rank 2/ }).click({ button: "right" });
    await page.getByRole("menu").waitFor();
  } },
  help: { use: async (page) => {
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Help" }).waitFor();
  } },
  phone: { width: 390, height: 844, hasTouch: true },
  "cover of a phone": { fragment: "", width: 390, height: 844, hasTouch: true },
};

for (const [name, { use, ...how }] of Object.entries(SCREENS)) {
  for (const colorScheme of ["light", "dark"]) {
    test(`rules of accessibility hold on the screen "${name}", ${colorScheme}`, () => open(async (page) => {
      await use?.(page);
      assert.deepEqual(await findings(page), []);
      // A colour in the middle of a transition is no colour of the page.
    }, { colorScheme, reducedMotion: "reduce", ...how }));
  }
}

/// Goes on from element to element until the focused one has this name, as its words or its label have it.
async function reach(page, name) {
  const focused = () => page.evaluate(() => {
    const { activeElement: element } = document;
    return element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? element.textContent.trim();
  });
  for (let count = 0; count < 150; count++) {
    const found = await focused();
    if (typeof name === "string" ? found === name : name.test(found)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`no element named ${name} is reached by Tab`);
}

test("a lesson is begun on the cover and learnt by keys alone", () => open(async (page) => {
  const enter = async (name) => {
    await reach(page, name);
    await page.keyboard.press("Enter");
  };
  await enter(/^Do it yourself/);
  await page.getByRole("heading", { name: "Put, fence, get" }).waitFor();
  await enter("when rank 1 is in the fence too");
  await reach(page, "put: key");
  await page.keyboard.type("card-1");
  await page.keyboard.press("Tab");
  await page.keyboard.type("tcp://10.0.0.1");
  await page.keyboard.press("Enter");
  // The keys of time are those of the page, not of a field.
  const toTheEnd = async () => {
    await reach(page, "Moment of the run");
    await page.keyboard.press("End");
  };
  await toTheEnd();
  await enter(/^fence/);
  await toTheEnd();
  await reach(page, "get: key");
  await page.keyboard.type("card-0");
  await page.keyboard.press("Enter");
  await toTheEnd();
  await enter(/^finalize/);
  await toTheEnd();
  await page.getByText("Done. That was it. Your prediction was right.").waitFor();
}, { fragment: "" }));

test("messages are gone through and looked into by keys", () => open(async (page) => {
  const picked = () => page.evaluate(() => globalThis.playground.app.picked?.index ?? null);
  await page.keyboard.press("Home");
  await page.keyboard.press("]");
  assert.equal(await picked(), 0);
  await page.keyboard.press("]");
  assert.equal(await picked(), 1);
  await page.keyboard.press("[");
  assert.equal(await picked(), 0);
  // Of a rank that is followed, only its own.
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  for (let count = 0; count < 4; count++) await page.keyboard.press("]");
  const [lane, sent, now] = await page.evaluate(() => {
    const { app } = globalThis.playground;
    return [app.picked.lane, app.picked.sent[1], app.step];
  });
  assert.deepEqual([lane, sent], [1, now]);
  await page.getByRole("region", { name: "Message" }).getByRole("heading", { name: /rank 1/ }).waitFor();
  await page.keyboard.press("m");
  await page.getByRole("menu", { name: /rank 1/ }).waitFor();
  await page.keyboard.press("Escape");
}));

test("views, zoom and the width of the panel are in reach of keys", () => open(async (page) => {
  for (const name of ["Ring", "Dialects", "Lanes"]) {
    await page.keyboard.press("v");
    await page.getByRole("group", { name: "View" }).getByRole("button", { name, pressed: true }).waitFor();
  }
  const scale = () => page.evaluate(() => globalThis.playground.app.scale);
  const before = await scale();
  await page.keyboard.press("+");
  assert.ok((await scale()) > before);
  await reach(page, "Width of the panel");
  const splitter = page.getByRole("separator", { name: "Width of the panel" });
  const width = Number(await splitter.getAttribute("aria-valuenow"));
  await page.keyboard.press("ArrowLeft");
  assert.ok(Number(await splitter.getAttribute("aria-valuenow")) > width);
}));
