// The page in Firefox, as people use it: presses of human length while time runs, keys, a finger.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { Firefox, KEYS } from "./firefox.mjs";

const address = process.env.PMI_PAGE;
const program = process.env.FIREFOX;

let page;
before(async () => {
  if (program) page = await Firefox.start(program);
});
after(() => page?.close());

/// A test that needs Firefox; without it, `cargo xtask test playground` has said so.
function inFirefox(name, fragment, use) {
  test(name, { skip: program ? false : "there is no Firefox: install firefox-esr" }, async () => {
    page.problems.length = 0;
    await page.open(`${address}${fragment}`);
    await use();
    assert.deepEqual(page.problems, []);
  });
}

inFirefox("no press of human length is lost while time runs, and each acts once", "#scenario=many-fences&seed=1", async () => {
  await page.evaluate(() => {
    globalThis.pressed = [];
    addEventListener("pointerdown", ({ target }) => globalThis.pressed.push({ down: target.closest("button") }), true);
    addEventListener("click", ({ target }) => (globalThis.pressed.at(-1).click = target.closest("button")), true);
  });
  const ROUNDS = 8;
  for (let round = 0; round < ROUNDS; round++) {
    await page.evaluate((index) => {
      const { app } = globalThis.playground;
      app.pause();
      app.picked = null;
      app.seekIndex(index);
      app.play();
    }, 40 + round * 16);
    await page.press("[role=tab]", "^Story$");
    await page.press(".event", "", { within: "#panel" });
    await page.press("button.lane", `^rank ${round % 4}:`);
    await page.press("[role=tab]", "^Inspect$");
    await page.press("button", "^Delay:", { within: "#panel" });
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
});

inFirefox("a lesson is learnt by mouse and keys", "#scenario=put-fence-get&seed=42", async () => {
  await page.evaluate(() => globalThis.playground.session.learn("put-fence-get"));
  await page.press("[role=group][aria-label='Your prediction'] button", "^when rank 1 is in the fence too$");
  const be = async (word, ...fields) => {
    for (const [at, text] of fields.entries()) {
      const place = await page.until((word, at) => {
        const form = [...document.querySelectorAll("form.order")].find((form) => form.querySelector("button span").textContent === word);
        const field = form?.querySelectorAll("input")[at];
        field?.scrollIntoView({ block: "nearest" });
        const box = field?.getBoundingClientRect();
        return box?.width ? [Math.round(box.left + 12), Math.round(box.top + box.height / 2)] : null;
      }, word, at);
      await page.pressAt(place);
      await page.type(...text);
    }
    await page.press("form.order button", `^${word}`);
    await page.press("button", "^To the end$");
  };
  await page.press("button", "^To the end$");
  await be("put", "card-1", "here");
  await be("fence");
  await be("get", "card-0");
  await be("finalize");
  await page.until(() => document.querySelector(".verdict").textContent === "Done. That was it. Your prediction was right.");
});

inFirefox("Space plays and pauses, and never presses the button that has the focus", "#scenario=put-fence-get&seed=42", async () => {
  await page.type(KEYS.Home);
  await page.press("[role=tab]", "^Inspect$");
  await page.place("button", "^Kill:", "#panel .grid");
  await page.evaluate(() => document.querySelector("#panel .grid button").focus());
  await page.type(" ");
  const state = () => page.evaluate(() => [globalThis.playground.app.isPlaying, globalThis.playground.app.active.run.done, document.activeElement.closest(".grid") !== null]);
  assert.deepEqual(await state(), [true, "", true]);
  await page.type(" ");
  assert.deepEqual(await state(), [false, "", true]);
});

inFirefox("a finger presses, and a finger that stays opens the menu of a lane", "#scenario=put-fence-get&seed=42&at=150", async () => {
  const touch = { by: "touch" };
  await page.press("[role=tab]", "^State$", touch);
  await page.until(() => document.querySelector("[role=tab][aria-selected=true]").textContent === "State");
  await page.press("button.lane", "^rank 2:", touch);
  await page.until(() => globalThis.playground.app.followed(globalThis.playground.app.active) === 2);
  const place = await page.evaluate(() => {
    const { active } = globalThis.playground.app;
    const { left, top } = active.canvas.getBoundingClientRect();
    // Where no message is.
    let x = 40;
    while (active.at(x, active.geometry.ys[1])) x += 10;
    return [Math.round(left + x), Math.round(top + active.geometry.ys[1])];
  });
  await page.pressAt(place, { by: "touch", hold: 900 });
  await page.press("[role=menuitem]", "^Kill$", touch);
  await page.until(() => /kill \d\n/.test(globalThis.playground.app.active.run.done));
});

inFirefox("the views are drawn, and the address is the link to them", "#scenario=put-fence-get&seed=42&at=150", async () => {
  const isDrawn = (selector) => page.until((selector) => {
    const canvas = document.querySelector(selector);
    if (!canvas?.offsetParent || !canvas.width) return false;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size > 5;
  }, selector);
  await isDrawn(".sheet canvas");
  await page.press(".switch button", "^Ring$");
  await isDrawn(".ring canvas");
  await page.press(".switch button", "^Dialects$");
  await page.until(() => document.querySelectorAll(".compared thead th").length === 5);
  await page.until(() => location.hash.includes("view=dialects"));
  await page.press(".switch button", "^Lanes$");
  await page.until(() => !location.hash.includes("view="));
});
