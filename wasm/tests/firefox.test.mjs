// The page in Firefox, as people use it: presses of human length while time runs, keys, a finger.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { Firefox, KEYS } from "./firefox.mjs";
import { PLACES, pressWhileTimeRuns } from "./rounds.mjs";

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
  const press = (selector, name, within, nth) => page.place(selector, name, within, nth).then((place) => page.pressAt(place));
  await pressWhileTimeRuns({ evaluate: (...what) => page.evaluate(...what), press }, 8);
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
    // In a field, Enter sends the form.
    if (fields.length) await page.type(KEYS.Enter);
    else await page.press("form.order button", `^${word}`);
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

inFirefox("Enter is left to the button that has the focus, and a field takes it", "#scenario=put-fence-get&seed=42", async () => {
  // Keys that a driver sends to Firefox press no button, on an empty page neither: what can be seen is that nothing takes the key away.
  await page.press("[role=tab]", "^Inspect$");
  await page.place("button", "^Stop:", "#panel .grid");
  await page.evaluate(() => {
    globalThis.keys = [];
    for (const type of ["keydown", "keypress", "keyup"]) addEventListener(type, ({ key, target, defaultPrevented }) => globalThis.keys.push([type, key, target.textContent, defaultPrevented]));
    [...document.querySelectorAll("#panel .grid button")].find((button) => button.textContent === "Stop").focus();
  });
  await page.type(KEYS.Enter);
  assert.deepEqual(await page.evaluate(() => globalThis.keys), ["keydown", "keypress", "keyup"].map((type) => [type, "Enter", "Stop", false]));
  assert.equal(await page.evaluate(() => globalThis.playground.app.isPlaying), false);
  // A field: the run is played with another seed.
  await page.pressAt(await page.place(".seed"));
  await page.type(KEYS.End, "7", KEYS.Enter);
  await page.until(() => globalThis.playground.app.active.story.seed === "427" && location.hash.includes("seed=427"));
});

inFirefox("the right button opens the menu of a message on its way, in lanes and on the ring", "#scenario=put-fence-get&seed=42", async () => {
  const right = { button: 2 };
  for (const [view, find] of Object.entries(PLACES)) {
    await page.press(".switch button", `^${view}$`);
    const place = await page.until(find);
    await page.pressAt(place, right);
    await page.until(() => /^put card-\d, rank \d to server/.test(document.querySelector("[role=menu]")?.getAttribute("aria-label")));
    await page.type(KEYS.Escape);
    await page.until(() => !document.querySelector("[role=menu]"));
  }
});

inFirefox("a finger presses, and a finger that stays opens the menu of a lane", "#scenario=put-fence-get&seed=42&at=150", async () => {
  const touch = { by: "touch" };
  await page.pressUntil(() => document.querySelector("[role=tab][aria-selected=true]").textContent === "State", "[role=tab]", "^State$", touch);
  await page.pressUntil(() => globalThis.playground.app.followed(globalThis.playground.app.active) === 2, "button.lane", "^rank 2:", touch);
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
