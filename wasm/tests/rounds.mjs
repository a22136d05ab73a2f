// What a person presses while time runs, the same in every browser, and what becomes of each press.
import assert from "node:assert/strict";

/// The middle of an element that is shown and whose name or text matches, the first or the `nth`; nothing without one. It runs in the page.
export const placeOf = (selector, name = "", within = "body", nth = 0) => {
  const is = new RegExp(name);
  const all = [...document.querySelectorAll(within)].flatMap((one) => [...one.querySelectorAll(selector)]);
  const found = all.filter((one) => one.offsetParent !== null && is.test((one.getAttribute("aria-label") ?? one.textContent).trim()))[nth];
  if (!found) return null;
  found.scrollIntoView({ block: "nearest" });
  const { left, top, width, height } = found.getBoundingClientRect();
  return width && height ? [Math.round(left + width / 2), Math.round(top + height / 2)] : null;
};

/// Presses five buttons in each round while time runs: none is lost, and each acts once. `evaluate` calls a function in the page with
/// arguments; `press` is a press of human length on what `placeOf` finds.
export async function pressWhileTimeRuns({ evaluate, press }, rounds) {
  // What goes down, and what is clicked.
  await evaluate(() => {
    const button = ({ target }) => target.closest?.("button");
    globalThis.pressed = [];
    addEventListener("pointerdown", (event) => globalThis.pressed.push({ down: button(event), click: null }), true);
    addEventListener("click", (event) => event.detail && (globalThis.pressed.at(-1).click = button(event)), true);
    globalThis.playground.app.speed = 0.5;
  });
  // On a busy machine what was found may have moved before the press: one beside every button is aimed again.
  const aim = async (...what) => {
    for (let tries = 0; tries < 3; tries++) {
      await press(...what);
      const hasHit = await evaluate(() => {
        const isButton = Boolean(globalThis.pressed.at(-1)?.down);
        if (!isButton) globalThis.pressed.pop();
        return isButton;
      });
      if (hasHit) return;
    }
    assert.fail(`no press hits ${what.join(" ")}`);
  };
  for (let round = 0; round < rounds; round++) {
    await evaluate((index) => {
      const { app } = globalThis.playground;
      app.pause();
      app.picked = null;
      app.seekIndex(index);
      app.play();
    }, 40 + (round % 20) * 8);
    await aim("[role=tab]", "^Story$");
    await aim(".event", "", "#panel", 2 + (round % 5));
    await aim("button.lane", `^rank ${round % 4}:`);
    await aim("[role=tab]", "^Inspect$");
    await aim("button", "^Delay:", "#panel");
    const done = await evaluate(() => {
      const { app, session } = globalThis.playground;
      const found = app.active.run.done.split("\n").filter(Boolean).length;
      session.undo();
      return found;
    });
    assert.equal(done, 1, `round ${round}: the fault was injected once`);
  }
  const lost = await evaluate(() => globalThis.pressed.filter(({ down, click }) => down !== click).map(({ down, click }) => `${down?.textContent} → ${click?.textContent}`));
  assert.equal(await evaluate(() => globalThis.pressed.length), rounds * 5);
  assert.deepEqual(lost, []);
}

/// In each view, the place of a put while it is on its way, when it is drawn there. They run in the page.
export const PLACES = {
  Lanes: async () => {
    const { app } = globalThis.playground;
    const put = app.active.story.messages.find((message) => message.name === "put" && message.up);
    app.seekStep(put.sent[1]);
    app.now = put.sent[0] + (put.parts[0].at[0] - put.sent[0]) * 0.6;
    app.changed();
    for (let count = 0; count < 3; count++) await new Promise((drawn) => requestAnimationFrame(drawn));
    const { canvas, geometry } = app.active;
    const { left, top } = canvas.getBoundingClientRect();
    const [lane, server] = [app.active.scene().yOf(put.lane), geometry.server + geometry.half];
    return [Math.round(left + app.axis.place(app.now) * app.scale - app.scroll), Math.round(top + lane + (server - lane) * 0.6)];
  },
  Ring: async () => {
    const { app, views } = globalThis.playground;
    const put = app.active.story.messages.find((message) => message.name === "put" && message.up);
    app.seekStep(put.sent[1]);
    app.now = (put.sent[0] + put.parts[0].at[0]) / 2;
    app.changed();
    for (let count = 0; count < 3; count++) await new Promise((drawn) => requestAnimationFrame(drawn));
    const one = views.ring?.scene?.flying.find(({ message }) => message === put);
    if (!one) return null;
    const { left, top } = views.ring.canvas.getBoundingClientRect();
    return [Math.round(left + one.x), Math.round(top + one.y)];
  },
};
