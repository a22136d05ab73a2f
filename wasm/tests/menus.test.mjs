// Menus of messages and ranks, by mouse, finger and keys.
import assert from "node:assert/strict";
import test from "node:test";
import { open, press, step, tab, until } from "./browser.mjs";
import { PLACES } from "./rounds.mjs";

/// Where the line of a message is drawn, in the window, at the moment of its arrival.
const place = (page, find) => page.evaluate(async (find) => {
  const { app } = globalThis.playground;
  const message = app.active.story.messages.find(new Function("message", `return ${find}`));
  app.seekStep(message.arrived[1]);
  await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
  const { left, top } = app.active.canvas.getBoundingClientRect();
  const scene = app.active.scene();
  const at = (ns) => app.axis.place(ns) * app.scale - app.scroll;
  const [from, to] = [at(message.sent[0]), at(message.arrived[0])];
  const lane = scene.yOf(message.lane);
  const server = scene.geometry.server + scene.geometry.half;
  return { x: left + (from + to) / 2, y: top + (lane + server) / 2 };
}, find);

const put = 'message.name === "put" && message.up && message.lane === 1';
const injected = (page) => page.evaluate(() => globalThis.playground.app.active.run.done.trim());

test("a bit of this message is flipped, and of no other", () => open(async (page) => {
  await page.keyboard.press("End");
  const before = await page.evaluate((put) => globalThis.playground.app.active.story.messages.find(new Function("message", `return ${put}`)).bytes, put);
  const { x, y } = await place(page, put);
  await page.mouse.click(x, y, { button: "right", delay: 60 });
  await page.getByRole("menu", { name: /^put card-1, rank 1 to server/ }).waitFor();
  await page.getByRole("menuitem", { name: "Flip a bit of it" }).click({ delay: 60 });
  assert.match(await injected(page), /^\d+ flip 1 up$/);
  const [sent, arrived] = await page.evaluate((before) => {
    const { messages } = globalThis.playground.app.active.story;
    const flipped = globalThis.playground.app.active.story.events.find((event) => event.text === "link 1 flip up");
    const same = messages.find((message) => message.up && message.lane === 1 && message.bytes === before);
    return [same?.sent[1], flipped?.at[1]];
  }, before);
  assert.equal(sent, arrived, "it is flipped when it is sent");
}, { fragment: "#scenario=many-fences&seed=1" }));

test("this message is delayed, dropped, or split", () => open(async (page) => {
  // Only on the slow link of rank 4 do the pieces arrive at different times.
  const cases = [[/^Delay it/, /^\d+ stall 1 300\.\.500$/, put], [/^Drop it/, /^\d+ reset 1$/, put], [/^Split it/, /^\d+ shatter 4 up$/, put.replace("=== 1", "=== 4")]];
  for (const [item, pattern, put] of cases) {
    await page.keyboard.press("End");
    await step(page);
    const { x, y } = await place(page, put);
    const before = await page.evaluate((put) => {
      const { sent, arrived } = globalThis.playground.app.active.story.messages.find(new Function("message", `return ${put}`));
      return [sent, arrived];
    }, put);
    await page.mouse.click(x, y, { button: "right", delay: 60 });
    await page.getByRole("menuitem", { name: item }).click({ delay: 60 });
    assert.match(await injected(page), pattern);
    const after = await page.evaluate((put) => {
      const { sent, arrived, parts } = globalThis.playground.app.active.story.messages.find(new Function("message", `return ${put}`));
      return [sent, arrived, parts.length];
    }, put);
    assert.deepEqual(after[0], before[0], "it is sent as before");
    if (item.test("Delay it")) assert.ok(after[1][0] >= before[1][0] + 200_000, `it arrives at ${after[1]}, not at ${before[1]}`);
    if (item.test("Drop it")) assert.equal(after[1], null);
    if (item.test("Split it")) assert.ok(after[2] > 3, `${after[2]} parts`);
    await page.evaluate(() => {
      globalThis.playground.session.undo();
      globalThis.playground.app.pause();
    });
  }
}, { fragment: "#scenario=many-fences&seed=1" }));

test("the right button opens the menu of a message on its way, in lanes and on the ring", () => open(async (page) => {
  for (const [view, find] of Object.entries(PLACES)) {
    await page.getByRole("group", { name: "View" }).getByRole("button", { name: view }).click({ delay: 60 });
    await page.mouse.click(...(await until(page, find)), { button: "right", delay: 60 });
    await page.getByRole("menu", { name: /^put card-\d, rank \d to server/ }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("menu").waitFor({ state: "detached" });
  }
  // And that of a rank on the ring, which is killed there.
  const [x, y] = await page.evaluate(() => {
    const { canvas, scene } = globalThis.playground.views.ring;
    const { left, top } = canvas.getBoundingClientRect();
    return [left + scene.places[3].x, top + scene.places[3].y];
  });
  await page.mouse.click(x, y, { button: "right", delay: 60 });
  await page.getByRole("menu", { name: /^rank 3/ }).waitFor();
  await page.getByRole("menuitem", { name: "Kill" }).click({ delay: 60 });
  assert.match(await injected(page), /^\d+ kill 3$/);
}));

test("the menu of a rank is opened and used by keys", () => open(async (page) => {
  await page.getByRole("button", { name: /^rank 2/ }).focus();
  await page.keyboard.press("Shift+F10");
  const menu = page.getByRole("menu", { name: /^rank 2: / });
  await menu.waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Escape");
  await menu.waitFor({ state: "detached" });
  assert.ok(await page.getByRole("button", { name: /^rank 2/ }).evaluate((lane) => lane === document.activeElement), "the focus returns");
  await page.getByRole("slider").focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("m");
  await page.getByRole("menu", { name: /^rank 0: / }).waitFor();
  for (let count = 0; count < 3; count++) await page.keyboard.press("ArrowDown");
  await page.getByRole("menuitem", { name: "Kill" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Kill");
  await page.keyboard.press("Enter");
  assert.match(await injected(page), /^\d+ kill 0$/);
}));

test("a finger that stays on a message opens its menu", () => open(async (page) => {
  await press(page, "To the end");
  await step(page);
  const { x, y } = await place(page, put);
  const touch = await page.context().newCDPSession(page);
  await touch.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: [{ x, y }] });
  await page.getByRole("menu").waitFor();
  await touch.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
  await page.getByRole("menuitem", { name: "Go to its sending" }).tap();
  await page.getByRole("menu").waitFor({ state: "detached" });
  assert.equal(await step(page), await page.evaluate((put) => globalThis.playground.app.active.story.messages.find(new Function("message", `return ${put}`)).sent[1], put));
}, { fragment: "#scenario=many-fences&seed=1", hasTouch: true }));

test("a recording has menus without injections", () => open(async (page) => {
  await page.locator("input[type=file]").setInputFiles(new URL("recorded/hydra-4.0.2-hello.trace", import.meta.url).pathname);
  await page.getByRole("button", { name: "rank 1: recorded" }).click({ button: "right" });
  await page.getByRole("menu", { name: "rank 1" }).waitFor();
  assert.deepEqual(await page.getByRole("menuitem").allTextContents(), ["Follow it", "Inspect it"]);
}));

test("buttons carry the names on the wire and of the API", () => open(async (page) => {
  await page.keyboard.press("Home");
  await tab(page, "Inspect");
  await press(page, "Be rank 0");
  await page.keyboard.press("End");
  await press(page, "open");
  await page.keyboard.press("End");
  const fence = page.locator("form.order").getByRole("button", { name: "fence", exact: true });
  assert.equal(await fence.textContent(), "fencecmd=barrier_in · PMI_Barrier");
}, { fragment: "#scenario=many-fences&seed=1" }));
