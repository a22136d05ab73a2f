// Two views of the diagram look as they did. `PMI_PICTURES=write` puts new pictures in place of the old ones.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import test from "node:test";
import { open } from "./browser.mjs";

const VIEWS = {
  "fence-light": { fragment: "#scenario=put-fence-get&seed=42&at=150" },
  "ranks-dark": { fragment: "#scenario=leave-early&seed=7&at=90", colorScheme: "dark" },
};

for (const [name, view] of Object.entries(VIEWS)) {
  test(`the view ${name} looks as it did`, () => open(async (page) => {
    await page.mouse.move(640, 6);
    await page.waitForTimeout(300);
    const now = await page.locator(".view").screenshot();
    const file = new URL(`pictures/${name}.png`, import.meta.url);
    if (process.env.PMI_PICTURES === "write") return writeFileSync(file, now);
    const share = await difference(page, readFileSync(file), now);
    assert.ok(share < SHARE_MAX, `${(share * 100).toFixed(1)} % of ${name} looks different`);
  }, view));
}

/// The share of places whose colour differs visibly, in a picture of half the size: fonts differ a little.
function difference(page, ...pictures) {
  return page.evaluate(async (sources) => {
    const [a, b] = await Promise.all(sources.map(async (source) => {
      const image = new Image();
      image.src = `data:image/png;base64,${source}`;
      await image.decode();
      const canvas = new OffscreenCanvas(image.width / 2, image.height / 2);
      const context = canvas.getContext("2d");
      context.drawImage(image, 0, 0, canvas.width, canvas.height);
      return context.getImageData(0, 0, canvas.width, canvas.height);
    }));
    if (a.width !== b.width || a.height !== b.height) return 1;
    let count = 0;
    for (let at = 0; at < a.data.length; at += 4) {
      const apart = Math.max(...[0, 1, 2].map((part) => Math.abs(a.data[at + part] - b.data[at + part])));
      if (apart > 48) count += 1;
    }
    return count / (a.data.length / 4);
  }, pictures.map((picture) => picture.toString("base64")));
}

/// Other fonts change the words a little; what is not drawn, or drawn elsewhere, is more.
const SHARE_MAX = 0.015;
