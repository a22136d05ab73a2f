// How soon the page can be used, and how smoothly 64 ranks move: measured, not asserted.
import { open } from "./browser.mjs";

const line = (what, number, unit) => console.log(`${what.padEnd(52)} ${String(number).padStart(8)} ${unit}`);

await open(async (page) => {
  const ready = [];
  for (let count = 0; count < 5; count++) {
    await page.reload();
    await page.waitForFunction(() => document.documentElement.dataset.ready);
    ready.push(await page.evaluate(() => Number(document.documentElement.dataset.ready)));
  }
  line("from navigation until the page can be used, median", ready.sort((a, b) => a - b)[2], "ms");
});

await open(async (page) => {
  await page.getByRole("spinbutton", { name: "Ranks" }).fill("64");
  const start = performance.now();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: /^rank 63/ }).waitFor();
  line("64 ranks played to the end and drawn", Math.round(performance.now() - start), "ms");
  await page.getByLabel("Speed").selectOption("2");
  await page.getByRole("button", { name: "Play", exact: true }).click();
  await page.waitForTimeout(8000);
  const { rate, worst } = await page.evaluate(() => globalThis.playground.app.pace());
  line("frames a second while 64 ranks move", rate.toFixed(1), "");
  line("longest frame of that", Math.round(worst), "ms");
}, { width: 1440, height: 900 });
process.exit(0);
