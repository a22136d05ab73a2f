// Firefox with the page in it, by WebDriver BiDi, which it speaks itself: no driver stands between.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { placeOf } from "./rounds.mjs";

const WebSocket = globalThis.WebSocket ?? createRequire(import.meta.url)("ws");

/// Settings of a fresh profile: no start page, no request to anywhere.
const PREFERENCES = {
  "app.normandy.enabled": false, "app.update.enabled": false, "browser.shell.checkDefaultBrowser": false, "browser.startup.homepage_override.mstone": "ignore",
  "browser.startup.page": 0, "datareporting.policy.dataSubmissionEnabled": false, "dom.w3c_touch_events.enabled": 1, "extensions.update.enabled": false,
  "network.captive-portal-service.enabled": false, "network.connectivity-service.enabled": false, "services.settings.server": "data:,#remote-settings-dummy/v1",
  "signon.autofillForms": false, "toolkit.telemetry.enabled": false, "browser.safebrowsing.malware.enabled": false, "browser.safebrowsing.phishing.enabled": false,
};

export class Firefox {
  #next = 1;
  #pending = new Map();
  /// Errors and warnings that the page has logged.
  problems = [];

  /// Starts a browser with a page of this size.
  static async start(program, { width = 1280, height = 800 } = {}) {
    const browser = new Firefox();
    browser.profile = mkdtempSync(join(tmpdir(), "pmi-firefox-"));
    const lines = Object.entries(PREFERENCES).map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`);
    writeFileSync(join(browser.profile, "user.js"), lines.join(""));
    const args = ["--headless", "--no-remote", "--profile", browser.profile, "--remote-debugging-port", "0", "about:blank"];
    browser.process = spawn(program, args, { env: { ...process.env, HOME: browser.profile }, stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    const address = await new Promise((found, failed) => {
      browser.process.stderr.on("data", (bytes) => {
        said += bytes;
        const address = /WebDriver BiDi listening on (ws:\/\/\S+)/.exec(said);
        if (address) found(address[1]);
      });
      browser.process.on("error", failed);
      browser.process.on("exit", (code) => failed(new Error(`${program} exited with ${code}: ${said}`)));
    });
    browser.socket = new WebSocket(`${address}/session`);
    await new Promise((opened, failed) => {
      browser.socket.addEventListener("open", opened);
      browser.socket.addEventListener("error", () => failed(new Error(`${program} takes no connection at ${address}`)));
    });
    browser.socket.addEventListener("message", ({ data }) => browser.#receive(JSON.parse(data)));
    await browser.send("session.new", { capabilities: {} });
    await browser.send("session.subscribe", { events: ["log.entryAdded"] });
    const { contexts } = await browser.send("browsingContext.getTree", {});
    browser.context = contexts[0].context;
    await browser.send("browsingContext.activate", { context: browser.context });
    await browser.send("browsingContext.setViewport", { context: browser.context, viewport: { width, height } });
    return browser;
  }

  /// Ends it, and removes its profile.
  async close() {
    const ended = new Promise((end) => this.process.on("exit", end));
    this.socket.close();
    this.process.kill();
    await ended;
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }

  #receive(message) {
    if (message.method === "log.entryAdded") {
      const { level, text } = message.params;
      if (level === "error" || level === "warn") this.problems.push(text);
      return;
    }
    const pending = this.#pending.get(message.id);
    if (!pending) return;
    this.#pending.delete(message.id);
    if (message.type === "error") pending.failed(new Error(`${pending.method}: ${message.error}: ${message.message}`));
    else pending.done(message.result);
  }

  /// Sends a command, and returns its result.
  send(method, params) {
    const id = this.#next++;
    return new Promise((done, failed) => {
      this.#pending.set(id, { method, done, failed });
      this.socket.send(JSON.stringify({ id, method, params }));
    });
  }

  /// Opens an address, and waits until the page can be used.
  async open(address) {
    // Another link of the same page is no other page.
    await this.send("browsingContext.navigate", { context: this.context, url: "about:blank", wait: "complete" });
    await this.send("browsingContext.navigate", { context: this.context, url: address, wait: "complete" });
    await this.until(() => document.documentElement.dataset.ready || document.querySelector(".notice.bad"));
    assert.deepEqual(await this.evaluate(() => [...document.querySelectorAll(".notice.bad")].map(({ textContent }) => textContent)), []);
  }

  /// Calls a function in the page; arguments and result are JSON.
  async evaluate(what, ...args) {
    const expression = `Promise.resolve((${what})(...${JSON.stringify(args)})).then((value) => JSON.stringify(value ?? null))`;
    const { result, exceptionDetails } = await this.send("script.evaluate", { expression, target: { context: this.context }, awaitPromise: true, resultOwnership: "none" });
    if (exceptionDetails) throw new Error(`${exceptionDetails.text}, in ${what}`);
    return JSON.parse(result.value);
  }

  /// Waits until a function in the page returns something true, and returns that.
  async until(what, ...args) {
    const value = await this.soon(60_000, what, ...args);
    if (!value) throw new Error(`it never came: ${what} of ${JSON.stringify(args)}`);
    return value;
  }

  /// The same, for this number of milliseconds.
  async soon(milliseconds, what, ...args) {
    for (let left = milliseconds; left > 0; left -= 50) {
      const value = await this.evaluate(what, ...args);
      if (value) return value;
      await new Promise((passed) => setTimeout(passed, 50));
    }
  }

  /// Waits for an element whose name or text matches, scrolls to it, and returns its middle. `within` is a selector.
  place(selector, name = "", within = "body", nth = 0) {
    return this.until(placeOf, selector, name, within, nth);
  }

  /// A press of human length, by a mouse (button 2 is the right one) or a finger, at a place.
  async pressAt([x, y], { by = "mouse", hold = 100, button = 0 } = {}) {
    const actions = [{ type: "pointerMove", x, y }, { type: "pointerDown", button }, { type: "pause", duration: hold }, { type: "pointerUp", button }];
    await this.send("input.performActions", { context: this.context, actions: [{ type: "pointer", id: by, parameters: { pointerType: by }, actions }] });
  }

  /// Presses an element.
  async press(selector, name, { within, ...how } = {}) {
    await this.pressAt(await this.place(selector, name, within), how);
  }

  /// Presses an element until a function in the page returns something true. A busy machine may keep a finger
  /// down for so long that it opens a menu, and a person closes that and presses again.
  async pressUntil(what, selector, name, how) {
    for (let count = 0; count < 5; count++) {
      await this.press(selector, name, how);
      if (await this.soon(5_000, what)) return;
      await this.type(KEYS.Escape);
    }
    throw new Error(`presses of ${selector} ${name} do not lead to: ${what}`);
  }

  /// Presses keys, one after the other. Letters are themselves, others have the numbers of WebDriver.
  async type(...keys) {
    const actions = keys.flatMap((key) => [{ type: "keyDown", value: key }, { type: "pause", duration: 40 }, { type: "keyUp", value: key }]);
    await this.send("input.performActions", { context: this.context, actions: [{ type: "key", id: "keys", actions }] });
  }
}

/// Keys that are no letters.
export const KEYS = { Enter: "\uE006", Escape: "\uE00C", End: "\uE010", Home: "\uE011", Tab: "\uE004", Left: "\uE012", Right: "\uE014" };
