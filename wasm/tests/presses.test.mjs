// Presses of human length: the button that goes down is the one that is pressed, whatever moves meanwhile.
import test from "node:test";
import { call, open, until } from "./browser.mjs";
import { placeOf, pressWhileTimeRuns } from "./rounds.mjs";

// After 20 rounds the moments and the buttons are those of the first.
test("of 100 presses while time runs none is lost", () => open(async (page) => {
  const press = async (...what) => {
    // Without waiting until it stands still: a person does not.
    await page.mouse.move(...(await until(page, placeOf, ...what)));
    await page.mouse.down();
    await page.waitForTimeout(100);
    await page.mouse.up();
  };
  await pressWhileTimeRuns({ evaluate: (...what) => call(page, ...what), press }, 20);
}, { fragment: "#scenario=many-fences&seed=1" }));
