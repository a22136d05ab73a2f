// How soon the page can be used, how smoothly ranks move, and how long large runs take: measured, not asserted.
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { open } from "./browser.mjs";
import { firstFrom } from "../www/app/search.js";

const line = (what, number, unit) => console.log(`${what.padEnd(56)} ${String(number).padStart(8)} ${unit}`);
const drawn = (page) => page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));

await open(async (page) => {
  const ready = [];
  for (let count = 0; count < 5; count++) {
    await page.reload();
    await page.waitForFunction(() => document.documentElement.dataset.ready);
    ready.push(await page.evaluate(() => Number(document.documentElement.dataset.ready)));
  }
  line("from navigation until the page can be used, median", ready.sort((a, b) => a - b)[2], "ms");
});

/// Processor time of the main thread in each frame while time runs: scripts, layout, painting and all else. Other processes take none of it.
async function frames(page, name) {
  const browser = page.context().browser();
  await page.evaluate(() => {
    const { app } = globalThis.playground;
    app.speed = 2;
    app.seekIndex(0);
    app.play();
  });
  await browser.startTracing(page, { categories: ["devtools.timeline", "disabled-by-default-devtools.timeline", "toplevel"] });
  await page.waitForTimeout(6000);
  const { rate } = await page.evaluate(() => globalThis.playground.app.pace());
  const { traceEvents } = JSON.parse(String(await browser.stopTracing()));
  const [{ pid, tid }] = traceEvents.filter((event) => event.name === "FireAnimationFrame");
  const own = traceEvents.filter((event) => event.pid === pid && event.tid === tid);
  const starts = own.filter(({ name }) => name === "FireAnimationFrame").map(({ ts }) => ts).sort((a, b) => a - b);
  const sums = new Float64Array(starts.length);
  for (const { ts, dur, tdur } of own.filter((event) => event.name === "RunTask" && event.tdur !== undefined)) {
    // A task belongs to the last frame that has begun before its end.
    const at = firstFrom(starts, ts + dur, (start) => start) - 1;
    if (at >= 0) sums[at] += tdur / 1000;
  }
  const work = sums.slice(2).sort();
  const at = (share) => work[Math.min(Math.floor(work.length * share), work.length - 1)].toFixed(1);
  line(`${name}: processor time of the main thread in a frame, median`, at(0.5), "ms");
  line(`${name}: of 95 frames of 100 at most`, at(0.95), "ms");
  line(`${name}: of the longest frame`, at(1), "ms");
  line(`${name}: frames a second`, rate.toFixed(1), "");
}

await open(async (page) => {
  await page.getByRole("spinbutton", { name: "Ranks" }).fill("64");
  const start = performance.now();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: /^rank 63/ }).waitFor();
  line("64 ranks played to the end and drawn", Math.round(performance.now() - start), "ms");
  await frames(page, "64 ranks");
}, { width: 1440, height: 900 });

for (const [name, last] of [["256-ranks", /^rank 255/], ["4096-ranks", /4095: /]]) {
  await open(async (page) => {
    const start = performance.now();
    await page.getByLabel("Scenario", { exact: true }).selectOption(`large ${name}`);
    await page.getByRole("button", { name: last }).waitFor();
    await drawn(page);
    line(`${name}: until it is shown`, Math.round(performance.now() - start), "ms");
    await steps(page, name);
    await frames(page, name);
  }, { width: 1440, height: 900 });
}

/// Time from a key to the picture, a step back and forth.
async function steps(page, name) {
  const times = [];
  for (let count = 0; count < 6; count++) {
    times.push(await page.evaluate(async (way) => {
      const start = performance.now();
      globalThis.playground.app.stepBy(way);
      await new Promise((drawn) => requestAnimationFrame(drawn));
      globalThis.playground.app.tick(performance.now());
      return performance.now() - start;
    }, count % 2 ? 1 : -1));
  }
  line(`${name}: a step back, a step forward, the longest of each`, [0, 1].map((way) => Math.round(Math.max(...times.filter((_, at) => at % 2 === way)))).join(", "), "ms");
}

// A trace as pmi-host records it, of 64 ranks that put and read in 25 rounds with a fence each.
const RANKS = 64;
const trace = [{ pmi_trace: 1, started_unix_ns: 0, recorder: "bench", host: "n0", command: ["./many"], jobs: [{ job: 0, name: "kvs", ranks: RANKS, spawner: null }] }];
let ns = 0;
const say = (rank, direction, bytes) => trace.push({ time_ns: (ns += 1000), job: 0, rank, session: rank, message: { direction, bytes: `${bytes}\n` } });
for (let round = 0; trace.length < 136_000; round++) {
  for (let rank = 0; rank < RANKS; rank++) {
    for (let count = 0; count < 21; count++) {
      say(rank, "to_server", `cmd=put kvsname=kvs key=card-${rank}-${round}-${count} value=tcp://10.0.0.${rank}:5000`);
      say(rank, "to_client", "cmd=put_result rc=0 msg=success");
      say(rank, "to_server", `cmd=get kvsname=kvs key=card-${rank}-${round}-${count}`);
      say(rank, "to_client", `cmd=get_result rc=0 msg=success value=tcp://10.0.0.${rank}:5000`);
    }
  }
  for (let rank = 0; rank < RANKS; rank++) say(rank, "to_server", "cmd=barrier_in");
  for (let rank = 0; rank < RANKS; rank++) say(rank, "to_client", "cmd=barrier_out rc=0");
}
const file = `${tmpdir()}/pmi-bench-${process.pid}.trace`;
writeFileSync(file, trace.map((line) => JSON.stringify(line)).join("\n") + "\n");

await open(async (page) => {
  const count = trace.length - 1;
  await page.evaluate(() => {
    globalThis.begun = 0;
    document.querySelector("input[type=file]").addEventListener("change", () => (globalThis.begun = performance.now()), true);
    const { app } = globalThis.playground;
    const show = app.show.bind(app);
    app.show = (...args) => {
      show(...args);
      requestAnimationFrame(() => requestAnimationFrame(() => (globalThis.shown = performance.now() - globalThis.begun)));
    };
  });
  await page.locator("input[type=file]").setInputFiles(file);
  await page.waitForFunction(() => globalThis.shown);
  line(`a trace of ${count} messages: until it is shown`, Math.round(await page.evaluate(() => globalThis.shown)), "ms");
  for (const [name, isAll] of [["the trace", false], ["the trace as a whole", true]]) {
    await page.evaluate((isAll) => globalThis.playground.app.fit(isAll), isAll);
    await steps(page, name);
    await frames(page, name);
  }
}, { width: 1440, height: 900 });
process.exit(0);
