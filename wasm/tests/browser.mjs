// A browser with the page in it, as `cargo xtask test playground` has built and served it.
import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after } from "node:test";

const { chromium } = createRequire(`${process.env.PMI_NPM}/`)("playwright-core");

/// Where the page is.
export const address = process.env.PMI_PAGE;

const args = ["--no-sandbox", "--font-render-hinting=none", "--disable-lcd-text"];

/// A browser, ended with the tests. With a font, the only one of its system is this file.
export async function launch(font) {
  const env = { ...process.env, FONTCONFIG_FILE: systemOf(font) };
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args, env });
  after(() => browser.close());
  return browser;
}

/// The path of a configuration of fontconfig that knows all fonts of this machine, or one, and draws letters the same way
/// everywhere: how they are hinted and smoothed is a setting of each system, and moves them.
function systemOf(font) {
  const directory = mkdtempSync(join(tmpdir(), "pmi-fonts-"));
  after(() => rmSync(directory, { recursive: true, force: true }));
  if (font) copyFileSync(font, join(directory, basename(font)));
  const directories = font ? [directory] : ["/usr/share/fonts", "/usr/local/share/fonts"];
  const settings = { antialias: "<bool>true</bool>", autohint: "<bool>false</bool>", hinting: "<bool>false</bool>", hintstyle: "<const>hintnone</const>", rgba: "<const>none</const>" };
  const lines = [
    ...directories.map((one) => `<dir>${one}</dir>`), `<cachedir>${directory}</cachedir>`,
    ...Object.entries(settings).flatMap(([name, value]) => ["pattern", "font"].map((target) => `<match target="${target}"><edit name="${name}" mode="assign">${value}</edit></match>`)),
  ];
  const file = join(directory, "fonts.conf");
  writeFileSync(file, `<?xml version="1.0"?>\n<!DOCTYPE fontconfig SYSTEM "fonts.dtd">\n<fontconfig>${lines.join("")}</fontconfig>\n`);
  return file;
}

const usual = await launch();

/// Opens the page for a new visitor, with the run of `fragment` (empty: the cover), gives it to `use`, and fails on any
/// error it shows or logs but those that are `expected`. `prepare` is given the empty page before.
export async function open(use, { fragment = "#scenario=put-fence-get&seed=42", width = 1280, height = 800, expected, prepare, browser = usual, ...more } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: "light", ...more });
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    await prepare?.(page);
    const problems = [];
    page.on("pageerror", (error) => problems.push(error.stack ?? String(error)));
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
    // A request that the browser aborts because the page is left is no problem: the icon may still be on its way.
    const isAborted = (request) => request.failure()?.errorText === "net::ERR_ABORTED";
    page.on("requestfailed", (request) => isAborted(request) || problems.push(`not loaded: ${request.url()}`));
    await page.goto(`${address}${fragment}`);
    await ready(page);
    await use(page);
    assert.deepEqual(problems.filter((problem) => !expected?.test(problem)), []);
  } finally {
    await context.close();
  }
}

/// Waits until the page can be used; if it shows an error instead, fails with its words.
export async function ready(page) {
  await page.waitForFunction(() => document.documentElement.dataset.ready || document.querySelector(".notice.bad"));
  assert.deepEqual(await page.locator(".notice.bad").allTextContents(), []);
}

/// Calls a function in the page; arguments and result are JSON.
export const call = (page, what, ...args) => page.evaluate(`(${what})(...${JSON.stringify(args)})`);

/// Calls a function in the page until its result is true, and returns that.
export async function until(page, what, ...args) {
  for (let count = 0; count < 1200; count++) {
    const value = await call(page, what, ...args);
    if (value) return value;
    await page.waitForTimeout(50);
  }
  throw new Error(`it never came: ${what} of ${JSON.stringify(args)}`);
}

/// The buttons by their names.
export function press(page, name) {
  return page.getByRole("button", { name, exact: typeof name === "string" }).click();
}

export function tab(page, name) {
  return page.getByRole("tab", { name }).click();
}

/// The step that is looked at, as the page says it when it has drawn.
export async function step(page) {
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  return Number(await page.getByRole("slider").getAttribute("aria-valuenow"));
}

/// Goes on from the start until the page says so: `is` runs in the page.
export async function stepUntil(page, is) {
  await page.keyboard.press("Home");
  for (let count = 0; count < 600; count++) {
    await step(page);
    if (await page.evaluate(is)) return;
    await page.keyboard.press("ArrowRight");
  }
  throw new Error("it never came");
}
