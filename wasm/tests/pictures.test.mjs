// Screens look as they did when they were reviewed. `PMI_PICTURES=write` puts new pictures in place of the old ones.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import test from "node:test";
import { address, open, press } from "./browser.mjs";

const view = (page, name) => page.getByRole("group", { name: "View" }).getByRole("button", { name }).click();

/// The screens: the link, the way from there, and the part of the page (by default all of it).
const SCREENS = {
  "fence-light": { fragment: "#scenario=put-fence-get&seed=42&at=150", part: ".view" },
  "ranks-dark": { fragment: "#scenario=leave-early&seed=7&at=90", colorScheme: "dark", part: ".view" },
  // Without motion the run of the cover stands at its end.
  cover: { fragment: "" },
  ring: { fragment: "#scenario=put-fence-get&seed=42&at=150&view=ring" },
  dialects: { fragment: "#scenario=put-fence-get&seed=42&at=150&view=dialects", use: (page) => page.getByRole("columnheader", { name: "PMIx" }).waitFor() },
  "4096-ranks": { use: async (page) => {
    await page.getByLabel("Scenario", { exact: true }).selectOption("large 4096-ranks");
    await page.getByRole("button", { name: /4095: exited/ }).waitFor();
    await press(page, "See all of it");
  } },
  tree: { use: async (page) => {
    await page.getByLabel("Scenario", { exact: true }).selectOption("large lost-node");
    await page.getByRole("img", { name: /^Tree of lost-node/ }).waitFor();
    await page.evaluate(() => {
      const { app } = globalThis.playground;
      const { story } = app.active;
      const up = story.messages.filter(({ name, arrived }) => name === "contribution" && arrived);
      app.seekStep(up[10].sent[1]);
    });
  } },
  phone: { fragment: "#scenario=put-fence-get&seed=42&at=150", width: 390, height: 844, hasTouch: true },
  stage: { fragment: "#scenario=put-fence-get&seed=42&at=150&present=1", width: 1280, height: 720 },
  lesson: { fragment: "#scenario=put-fence-get&seed=42", colorScheme: "dark", use: async (page) => {
    await page.getByLabel("Scenario", { exact: true }).selectOption({ label: "Put, fence, get" });
    await page.getByRole("heading", { name: "Put, fence, get" }).waitFor();
  } },
};

for (const [name, { use, part, ...how }] of Object.entries(SCREENS)) {
  test(`the screen "${name}" looks as it did`, () => open(async (page) => {
    await use?.(page);
    await page.mouse.move(640, 6);
    await drawnAnew(page);
    const now = await (part ? page.locator(part) : page).screenshot();
    const file = new URL(`pictures/${name}.png`, import.meta.url);
    if (process.env.PMI_PICTURES === "write") return writeFileSync(file, now);
    const share = await difference(page, readFileSync(file), now);
    assert.ok(share < SHARE_MAX, `${(share * 100).toFixed(1)} % of ${name} looks different`);
  }, { prepare: withFonts, reducedMotion: "reduce", ...how }));
}

/// The fonts of the pictures, the same on every machine: visitors have those of their systems.
const FONTS = [["sans", "inter", [400, 500, 600, 700]], ["mono", "jetbrains-mono", [400, 600]]];

/// Gives the page the fonts of the pictures, by its style sheet.
async function withFonts(page) {
  const { resolve } = createRequire(`${process.env.PMI_NPM}/`);
  const faces = FONTS.flatMap(([family, name, weights]) => weights.map((weight) =>
    `@font-face { font-family: "picture-${family}"; font-weight: ${weight}; src: url("${address}fonts/${name}-${weight}.woff2"); }`));
  await page.route(/\/fonts\/[^/]+\.woff2$/, (route) => {
    const [, name, weight] = /([a-z-]+)-(\d+)\.woff2$/.exec(route.request().url());
    return route.fulfill({ path: resolve(`@fontsource/${name}/files/${name}-latin-${weight}-normal.woff2`), contentType: "font/woff2" });
  });
  await page.route(/\/style\.css$/, async (route) => {
    const style = (await (await route.fetch()).text()).replace(/--(sans|mono): [^;]+;/g, '--$1: "picture-$1", sans-serif;');
    return route.fulfill({ body: `${faces.join("\n")}\n${style}`, contentType: "text/css" });
  });
}

/// Waits for the fonts, which text on a canvas does not ask for, and draws the page with them.
async function drawnAnew(page) {
  await page.evaluate(async (fonts) => {
    await Promise.all(fonts.flatMap(([family, , weights]) => weights.map((weight) => document.fonts.load(`${weight} 12px "picture-${family}"`))));
    const { app, cover } = globalThis.playground;
    for (const one of [app, cover.app].filter((one) => one?.axis)) {
      for (const pane of one.panes) pane.drawn = null;
      one.changed();
    }
    for (let count = 0; count < 3; count++) await new Promise((drawn) => requestAnimationFrame(drawn));
  }, FONTS);
}

/// The share of places whose colour differs visibly, in a picture of half the size: edges differ a little.
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

/// Other versions of a browser draw edges a little differently; what is not drawn, or drawn elsewhere, is more.
const SHARE_MAX = 0.005;
