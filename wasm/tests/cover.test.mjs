// The first screen, and the ways that begin there.
import assert from "node:assert/strict";
import test from "node:test";
import { address, open, press, ready, step } from "./browser.mjs";

const covered = { fragment: "" };

test("the cover says what this is about, and its run plays by itself with the handshake folded", () => open(async (page) => {
  await page.getByRole("heading", { name: "Before MPI_Init returns, your ranks must find each other. This is how." }).waitFor();
  for (const name of [/^Watch, 40 s/, /^Do it yourself/, /^Open your trace/]) await page.getByRole("button", { name }).waitFor();
  await page.getByRole("list", { name: "Legend" }).first().getByText("handshake, folded").waitFor();
  const steps = () => page.evaluate(() => globalThis.playground.cover.app.step);
  const before = await steps();
  await page.waitForFunction((before) => globalThis.playground.cover.app.step > before, before);
  // What is drawn as one bar is not drawn as arrows too.
  const [hidden, shown] = await page.evaluate(() => {
    const { active } = globalThis.playground.cover.app;
    return [active.story.messages.filter((message) => message.isHello).length, active.scene().window.filter((message) => message.isHello).length];
  });
  assert.ok(hidden >= 6, `${hidden} messages`);
  assert.equal(shown, 0);
  await page.getByRole("figure", { name: "Three ranks find each other" }).getByText(/^Rank \d puts its card card-\d\.$|^The server has the card of rank \d\.$/).waitFor();
}, covered));

test("the cover rests where motion is unwanted, at the end of its run", () => open(async (page) => {
  const state = () => page.evaluate(() => [globalThis.playground.cover.app.step, globalThis.playground.cover.app.isPlaying]);
  const before = await state();
  assert.equal(before[1], false);
  assert.ok(before[0] > 20);
  await page.getByRole("button", { name: "rank 2: exited" }).waitFor();
}, { ...covered, reducedMotion: "reduce" }));

test("a person does it alone, and Back returns to the cover", () => open(async (page) => {
  await page.getByRole("button", { name: /^Do it yourself/ }).click({ delay: 100 });
  await page.getByRole("heading", { name: "Put, fence, get" }).waitFor();
  await page.locator("form.order").getByRole("button", { name: "put", exact: true }).waitFor();
  // What has led there is seen.
  const [x, width] = await page.evaluate(() => {
    const { app } = globalThis.playground;
    return [app.axis.place(app.now) * app.scale - app.scroll, app.active.width];
  });
  assert.ok(x > width * 0.3 && x < width, `the moment is at ${x} of ${width}`);
  await page.waitForFunction(() => location.hash.includes("lesson=put-fence-get"));
  await page.getByLabel("Scenario", { exact: true }).selectOption("ring");
  await page.waitForFunction(() => location.hash.startsWith("#scenario=ring"));
  // Another moment of the same run is no step back.
  await page.keyboard.press("Home");
  await page.waitForFunction(() => location.hash.includes("at=0"));
  await page.goBack();
  await page.getByRole("heading", { name: "Put, fence, get" }).waitFor();
  await page.goBack();
  await page.getByRole("button", { name: /^Watch, 40 s/ }).waitFor();
  await page.goForward();
  await page.getByRole("heading", { name: "Put, fence, get" }).waitFor();
}, covered));

test("a trace is opened from the cover", () => open(async (page) => {
  await press(page, /^Open your trace/);
  await page.getByRole("dialog", { name: "Open" }).waitFor();
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), press(page, /^A file/)]);
  await chooser.setFiles(new URL("recorded/hydra-4.0.2-hello.trace", import.meta.url).pathname);
  await page.getByRole("button", { name: "rank 1: recorded" }).waitFor();
  assert.equal(await page.getByRole("button", { name: /^Watch/ }).count(), 0);
}, covered));

test("the film moves time and zoom by itself, has a caption for each shot, and ends with an offer", () => open(async (page) => {
  await press(page, /^Watch, 40 s/);
  const captions = page.locator(".caption-bar [role=status]");
  await captions.getByText("Three processes were started.").waitFor();
  const length = await page.evaluate(() => {
    const { film } = globalThis.playground.app;
    return film.shots.reduce((sum, { run, hold }) => sum + run + hold, 0);
  });
  assert.equal(length, 40_000);
  await page.keyboard.press("Space");
  const paused = await step(page);
  assert.equal(await page.evaluate(() => globalThis.playground.app.isPlaying), false);
  // The rest of it, in larger steps than a person has the patience for.
  const seen = await page.evaluate(() => {
    const { app } = globalThis.playground;
    const seen = [];
    while (app.film) {
      app.film.advance(400);
      seen.push([document.querySelector(".caption-bar [role=status]").textContent, app.step, app.scale.toFixed(6)]);
    }
    return seen;
  });
  assert.ok(seen.every(([, step], at) => at === 0 || step >= seen[at - 1][1]), "time runs forward");
  // The first caption was seen above, and may have gone before the pause.
  const first = "Three processes were started. Each of them knows the way to its server, and nothing of the others.";
  assert.equal(new Set([first, ...seen.map(([words]) => words)]).size, 8);
  assert.ok(new Set(seen.map(([, , scale]) => scale)).size > 5, "it zooms");
  assert.ok(seen.at(-1)[1] > paused);
  await page.getByRole("button", { name: "Now you: put, fence, get" }).click({ delay: 100 });
  await page.getByRole("heading", { name: "Put, fence, get" }).waitFor();
  await page.locator(".caption-bar").waitFor({ state: "hidden" });
}, covered));

test("the film says what happens while it happens", () => open(async (page) => {
  await press(page, /^Watch, 40 s/);
  await page.locator(".caption-bar").getByText("Three processes were started.").waitFor();
  const shots = await page.evaluate(() => {
    const { app } = globalThis.playground;
    const shots = [];
    app.pause();
    while (app.film) {
      app.film.advance(100);
      const words = document.querySelector(".caption-bar [role=status]").textContent;
      const sent = app.active.story.messages.filter((message) => message.sent[1] <= app.step);
      const count = (name, up) => sent.filter((message) => message.name === name && message.up === up).length;
      const one = { words, puts: count("put", true), fences: count("barrier_in", true), gets: count("get", false), goodbyes: count("finalize", true) };
      if (app.film && app.film.passed >= app.film.shot.run) shots.push(one);
    }
    return shots;
  });
  const at = (words) => shots.filter((shot) => shot.words.includes(words));
  for (const [words, is] of [
    ["shakes hands", ({ puts }) => puts === 0], ["put: each rank", ({ puts, gets }) => puts === 3 && gets === 0], ["get: each rank", ({ gets, goodbyes }) => gets === 6 && goodbyes === 0],
    ["MPI_Init returns", ({ gets, goodbyes }) => gets === 6 && goodbyes === 0], ["MPI_Finalize", ({ goodbyes }) => goodbyes === 3],
  ]) {
    assert.ok(at(words).length > 0, words);
    assert.deepEqual(at(words).filter((shot) => !is(shot)), [], words);
  }
}, covered));

test("a link to the film plays the film, and Escape ends it", () => open(async (page) => {
  await press(page, /^Watch, 40 s/);
  await page.waitForFunction(() => location.hash.includes("film=intro"));
  const link = page.url();
  await page.goto("about:blank");
  await page.goto(link);
  await ready(page);
  await page.locator(".caption-bar").getByText("Three processes were started.").waitFor();
  await page.keyboard.press("Escape");
  await page.locator(".caption-bar").waitFor({ state: "hidden" });
  assert.equal(await page.evaluate(() => globalThis.playground.app.film), null);
}, covered));

test("an embedded page is the diagram alone, with a link to the whole page", () => open(async (page) => {
  await page.goto(`${address}?embed=1#scenario=ring&seed=3`);
  await ready(page);
  await page.getByRole("img", { name: /^Sequence of ring/ }).waitFor();
  assert.equal(await page.getByRole("banner").isVisible(), false);
  assert.equal(await page.getByRole("tablist").isVisible(), false);
  const whole = page.getByRole("link", { name: "Open in the playground" });
  await whole.waitFor();
  const target = await whole.getAttribute("href");
  assert.match(target, /^[^?]*#scenario=ring&seed=3/);
  await page.goto(target);
  await ready(page);
  await page.getByRole("tablist").waitFor();
}, { width: 640, height: 420 }));

test("the stage shows large text and what happens in words", () => open(async (page) => {
  await page.keyboard.press("Home");
  const height = () => page.evaluate(() => globalThis.playground.app.active.geometry.height);
  const before = await height();
  await press(page, "Presenter: large text and captions");
  await page.keyboard.press("End");
  await page.locator(".caption-bar").getByText(/^The server lets rank \d go\.$/).waitFor();
  assert.ok((await height()) < before, "the same room holds less, and that is larger");
  // The spotlight is on the message that the caption is about.
  const lit = () => page.evaluate(() => {
    const { app } = globalThis.playground;
    return [app.spotlight?.name, app.spotlight?.up, app.active.scene().hover === app.spotlight];
  });
  assert.deepEqual(await lit(), ["finalize", false, true]);
  // What is pointed at is what is drawn there.
  const found = await page.evaluate(() => {
    const { app } = globalThis.playground;
    const scene = app.active.scene();
    const message = scene.window.at(-2);
    const x = (app.axis.place(message.sent[0]) * app.scale - app.scroll) * app.magnification;
    const y = scene.yOf(message.lane) * app.magnification;
    const { x: left, y: top } = app.active.canvas.getBoundingClientRect();
    return { at: [left + x, top + (message.up ? y - 3 : scene.geometry.server * app.magnification + 20)], lane: message.lane, ups: message.up };
  });
  assert.ok(found.at.every(Number.isFinite));
  await page.waitForFunction(() => location.hash.includes("present=1"));
  await page.keyboard.press("p");
  await page.locator(".caption-bar").waitFor({ state: "hidden" });
  assert.equal(await page.evaluate(() => globalThis.playground.app.spotlight), null);
}));
