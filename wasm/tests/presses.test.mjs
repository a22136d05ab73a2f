// Presses of human length: the button that goes down is the one that is pressed, whatever moves meanwhile.
import assert from "node:assert/strict";
import test from "node:test";
import { open } from "./browser.mjs";

const ROUNDS = 40;

test("of 200 presses while time runs none is lost", () => open(async (page) => {
  await page.getByLabel("Speed").selectOption("0.5");
  // What goes down, and what is clicked.
  await page.evaluate(() => {
    const button = ({ target }) => target.closest?.("button");
    globalThis.pressed = [];
    addEventListener("pointerdown", (event) => globalThis.pressed.push({ down: button(event), click: null }), true);
    addEventListener("click", (event) => event.detail && (globalThis.pressed.at(-1).click = button(event)), true);
  });
  const press = async (locator) => {
    // Without waiting until it stands still: a person does not.
    const place = await locator.evaluate((element) => {
      const { left, top, width, height } = element.getBoundingClientRect();
      return [left + width / 2, top + height / 2];
    });
    await page.mouse.move(...place);
    await page.mouse.down();
    await page.waitForTimeout(100);
    await page.mouse.up();
  };
  for (let round = 0; round < ROUNDS; round++) {
    await page.evaluate((count) => {
      const { app } = globalThis.playground;
      app.pause();
      app.picked = null;
      app.seekIndex(count);
      app.play();
    }, 40 + (round % 20) * 8);
    await press(page.getByRole("tab", { name: "Story" }));
    await press(page.locator(".event").nth(2 + (round % 5)));
    await press(page.getByRole("button", { name: /^rank [0-3]:/ }).nth(round % 4));
    await press(page.getByRole("tab", { name: "Inspect" }));
    await press(page.getByRole("button", { name: /^Delay:/ }));
    const done = await page.evaluate(() => {
      const { app, session } = globalThis.playground;
      const found = app.active.run.done.split("\n").filter(Boolean).length;
      session.undo();
      return found;
    });
    assert.equal(done, 1, `round ${round}: the fault was injected once`);
  }
  const lost = await page.evaluate(() => globalThis.pressed.filter(({ down, click }) => !down || down !== click).map(({ down, click }) => `${down?.textContent} → ${click?.textContent}`));
  assert.equal(await page.evaluate(() => globalThis.pressed.length), ROUNDS * 5);
  assert.deepEqual(lost, []);
}, { fragment: "#scenario=many-fences&seed=1" }));
