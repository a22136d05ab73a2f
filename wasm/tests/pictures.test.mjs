// Screens look as they did when they were reviewed, with any fonts of the system. `PMI_PICTURES=write` puts new pictures in place of the old ones.
import assert from "node:assert/strict";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import test from "node:test";
import { address, launch, open, press } from "./browser.mjs";

const view = (page, name) => page.getByRole("group", { name: "View" }).getByRole("button", { name }).click();

/// The screens: the link, the way from there, the part of the page (by default all of it), and the file (by default that of its name).
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
  // The picture of the README.
  readme: { fragment: "#scenario=dead-rank&seed=3&at=136&message=put", width: 1400, height: 800, file: "../../docs/playground.png", use: (page) => page.getByRole("rowheader", { name: /^value/ }).hover() },
};

for (const [name, { use, part, file = `pictures/${name}.png`, ...how }] of Object.entries(SCREENS)) {
  test(`the screen "${name}" looks as it did, with any fonts of the system`, async () => {
    const taken = {};
    for (const [fonts, browser] of Object.entries(BROWSERS)) {
      await open(async (page) => {
        await page.mouse.move(640, 6);
        await use?.(page);
        await drawnAnew(page);
        taken[fonts] = await settled(page, part);
        if (fonts === "usual") return;
        const apart = await difference(page, taken.usual, taken[fonts]);
        assert.ok(apart < FONTS_MAX, `${(apart * 100).toFixed(2)} % of ${name} is drawn with fonts of the system`);
        const reviewed = new URL(file, import.meta.url);
        if (process.env.PMI_PICTURES === "write") return writeFileSync(reviewed, taken.usual);
        const share = await difference(page, readFileSync(reviewed), taken.usual);
        assert.ok(share < SHARE_MAX, `${(share * 100).toFixed(1)} % of ${name} looks different`);
      }, { prepare: withFonts, reducedMotion: "reduce", browser: await browser, ...how });
    }
  });
}

const { resolve } = createRequire(`${process.env.PMI_NPM}/`);

/// Browsers with all fonts of this system, and with one of them, which is not its usual one.
const BROWSERS = { usual: undefined, one: launch(oneFont()) };

function oneFont() {
  const root = "/usr/share/fonts";
  const all = readdirSync(root, { recursive: true }).filter((name) => /\.(ttf|otf)$/.test(name)).sort();
  return join(root, all.find((name) => /mono/i.test(name)) ?? all.at(-1));
}

/// The fonts of the pictures, the same on every machine: visitors have those of their systems. What one lacks, the other has.
const FONTS = [
  ["sans", { 400: "inter-ui/web/Inter-Regular.woff2", 500: "inter-ui/web/Inter-Medium.woff2", 600: "inter-ui/web/Inter-SemiBold.woff2", 700: "inter-ui/web/Inter-Bold.woff2" }],
  ["mono", { 400: "jetbrains-mono/fonts/webfonts/JetBrainsMono-Regular.woff2", 600: "jetbrains-mono/fonts/webfonts/JetBrainsMono-SemiBold.woff2" }],
];
const FACES = FONTS.flatMap(([family, weights]) => Object.entries(weights).map(([weight, file]) => ({ family: `picture-${family}`, weight, file, name: `${family}-${weight}` })));

/// Gives the page the fonts of the pictures, by its style sheet.
async function withFonts(page) {
  const faces = FACES.map(({ family, weight, name }) => `@font-face { font-family: "${family}"; font-weight: ${weight}; src: url("${address}fonts/${name}.woff2"); }`);
  await page.route(/\/fonts\/[^/]+\.woff2$/, (route) => {
    const face = FACES.find(({ name }) => route.request().url().endsWith(`/${name}.woff2`));
    return route.fulfill({ path: resolve(face.file), contentType: "font/woff2" });
  });
  await page.route(/\/style\.css$/, async (route) => {
    const style = (await (await route.fetch()).text()).replace(/--(sans|mono): [^;]+;/g, '--$1: "picture-$1", "picture-sans", "picture-mono";');
    return route.fulfill({ body: `${faces.join("\n")}\n${style}`, contentType: "text/css" });
  });
}

/// Waits for the fonts, which text on a canvas does not ask for, and draws the page with them.
async function drawnAnew(page) {
  await page.evaluate(async (faces) => {
    await Promise.all(faces.map(({ family, weight }) => document.fonts.load(`${weight} 12px "${family}"`)));
    // A list that was laid out in another font keeps the height of its letters until it is laid out anew.
    const lists = [...document.querySelectorAll("select:not([hidden])")];
    for (const list of lists) list.style.display = "none";
    document.body.getBoundingClientRect();
    for (const list of lists) list.style.display = "";
    const { app, cover } = globalThis.playground;
    for (const one of [app, cover.app].filter((one) => one?.axis)) {
      for (const pane of one.panes) pane.drawn = null;
      one.changed();
    }
  }, FACES);
}

/// A picture of the page, or of a part of it, when it has come to rest: whatever is loaded or laid out later has come.
async function settled(page, part) {
  let [last, same] = [null, 0];
  for (let count = 0; count < 100; count++) {
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    const now = await (part ? page.locator(part) : page).screenshot();
    same = last?.equals(now) ? same + 1 : 0;
    if (same === STILL) return now;
    last = now;
    await page.waitForTimeout(100);
  }
  throw new Error("the page never comes to rest");
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

/// On one machine, only the edge of a letter may differ: a letter of another font is wider or narrower, and moves what follows.
const FONTS_MAX = 0.0002;

/// How often the same picture comes in a row before the page is at rest.
const STILL = 3;
