// The ring, and the table of dialects.
import assert from "node:assert/strict";
import test from "node:test";
import { open, press, ready, step } from "./browser.mjs";

const view = (page, name) => page.getByRole("group", { name: "View" }).getByRole("button", { name }).click({ delay: 60 });

test("the ring shows the cards at the server, and the ranks by node", () => open(async (page) => {
  await view(page, "Ring");
  const ring = (words) => page.getByRole("img", { name: words }).waitFor();
  await page.evaluate(() => {
    const { app } = globalThis.playground;
    app.seekStep(app.active.story.moments.find(({ step }) => app.active.run.view(step).keys.filter((key) => key.by != null && !key.visible).length === 4).step);
  });
  await ring(/^Ring of put-fence-get: 4 ranks around the server: \d+ keys at the server, 4 behind the fence/);
  // It is described before it has its size and is drawn.
  await page.waitForFunction(() => globalThis.playground.views.ring.scene);
  const scene = await page.evaluate(() => {
    const { scene } = globalThis.playground.views.ring;
    return { nodes: scene.nodes.length, angles: scene.places.map(({ angle }) => angle) };
  });
  assert.equal(scene.nodes, 2);
  const gaps = scene.angles.slice(1).map((angle, at) => angle - scene.angles[at]);
  assert.ok(gaps[1] > gaps[0] * 1.1, "nodes stand apart");
  // The fence lifts the curtain.
  await page.keyboard.press("End");
  await ring(/, 0 behind the fence/);
  // A rank on the ring is followed by a press on it.
  const place = await page.evaluate(() => {
    const { scene } = globalThis.playground.views.ring;
    const { left, top } = document.querySelector(".ring canvas").getBoundingClientRect();
    return [left + scene.places[3].x, top + scene.places[3].y];
  });
  await page.mouse.click(...place, { delay: 80 });
  assert.equal(await page.evaluate(() => globalThis.playground.app.followed(globalThis.playground.app.active)), 3);
  await page.waitForFunction(() => location.hash.includes("view=ring"));
  const link = page.url();
  await page.goto("about:blank");
  await page.goto(link);
  await ready(page);
  await ring(/^Ring of put-fence-get/);
}));

test("a message on its way is seen on the ring, and is picked there", () => open(async (page) => {
  await view(page, "Ring");
  await page.getByRole("img", { name: /^Ring of / }).waitFor();
  const place = await page.evaluate(async () => {
    const { app, views } = globalThis.playground;
    const put = app.active.story.messages.find((message) => message.name === "put" && message.up);
    app.seekStep(put.sent[1]);
    app.now = (put.sent[0] + put.parts[0].at[0]) / 2;
    app.changed();
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    const one = views.ring.scene.flying.find(({ message }) => message === put);
    const { left, top } = document.querySelector(".ring canvas").getBoundingClientRect();
    return [left + one.x, top + one.y];
  });
  await page.mouse.click(...place, { delay: 80 });
  assert.equal(await page.evaluate(() => globalThis.playground.app.picked.name), "put");
}));

test("the table has the same job in every dialect, with counts and PMIx in names and values", () => open(async (page) => {
  await view(page, "Dialects");
  const table = page.getByRole("region", { name: "Comparison" }).getByRole("table");
  await table.waitFor();
  assert.deepEqual(await table.getByRole("columnheader").allTextContents(), ["operation", "PMI 1.1", "PMI 1.2", "PMI 2.0", "PMIx"]);
  assert.deepEqual(await table.getByRole("rowheader").allTextContents(), ["hello", "put", "commit", "fence", "get", "finalize", "in all"]);
  const cell = (row, column) => table.getByRole("row", { name: new RegExp(`^${row}`) }).getByRole("cell").nth(column);
  const text = async (row, column) => (await cell(row, column).textContent()).replace(/\s+/g, " ");
  assert.match(await text("put", 0), /cmd=put · PMI_KVS_Put2 messages · \d+ bytes · 1 round trip.*cmd put.*key card-0.*value addr-0/);
  assert.match(await text("put", 2), /PMI2_KVS_Put.*length.*cmd kvs-put/);
  assert.match(await text("put", 3), /no message · PMIx_PutNone: the client keeps it/);
  assert.match(await text("commit", 3), /PMIx_Commit.*command COMMIT.*scope LOCAL.*card-0 addr-0.*scope REMOTE.*card-0 addr-0.*status SUCCESS/);
  assert.match(await text("fence", 3), /command FENCENB.*process \S+ WILDCARD.*status SUCCESS/);
  assert.match(await text("get", 3), /command GETNB.*nspace \S+.*rank UNDEF.*key card-0.*status SUCCESS.*card-0 addr-0/);
  // The sum of the rows is the sum of what the ranks have sent.
  const [sum, counted] = await page.evaluate(async () => {
    const { exchanges } = await import("./later/exchanges.js");
    const { story } = globalThis.playground.app.active;
    const own = story.messages.filter((message) => message.lane === 0);
    const all = [...exchanges(story, 0).values()];
    return [all.reduce((sum, { bytes }) => sum + bytes, 0), own.reduce((sum, { bytes }) => sum + bytes.length, 0)];
  });
  assert.equal(sum, counted);
  assert.match(await text("in all", 0), new RegExp(`${counted} bytes`));
}));

test("fields with one meaning light up in all dialects", () => open(async (page) => {
  await view(page, "Dialects");
  const lit = () => page.locator(".compared .chip.lit").evaluateAll((all) => [...new Set(all.map((chip) => `${chip.closest("td").cellIndex} ${chip.dataset.concept}`))].sort());
  await page.locator(".compared td").first().locator("[data-concept=key]").or(page.locator(".compared [data-concept=key]").first()).first().hover();
  assert.deepEqual(await lit(), ["1 key", "2 key", "3 key", "4 key"]);
  await page.mouse.move(5, 5);
  // By keys: the meanings are buttons.
  await page.getByRole("button", { name: "result", exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "result", exact: true, pressed: true }).waitFor();
  assert.deepEqual(await lit(), ["1 result", "2 result", "3 result", "4 result"]);
}));

test("the table of what PMIx cannot do says so, and a recording has a column of its own", () => open(async (page) => {
  await view(page, "Dialects");
  await page.getByRole("region", { name: "Comparison" }).getByText("This scenario requests a ring, which PMIx does not have.").waitFor();
  await page.locator("input[type=file]").setInputFiles(new URL("recorded/hydra-4.0.2-hello.trace", import.meta.url).pathname);
  await page.getByRole("columnheader", { name: "This recording" }).waitFor();
  await page.keyboard.press("v");
  await page.getByRole("button", { name: "rank 1: recorded" }).waitFor();
}, { fragment: "#scenario=ring&seed=3" }));

test("more messages than are legible are drawn as strips, and a picked one still as an arrow", () => open(async (page) => {
  await page.keyboard.press("End");
  await press(page, "See all of it");
  await step(page);
  const state = () => page.evaluate(() => {
    const { app } = globalThis.playground;
    const scene = app.active.scene();
    return [scene.isHeat, scene.window.length];
  });
  const [isHeat, count] = await state();
  assert.ok(isHeat && count > 400, `${count} messages`);
  for (let times = 0; times < 12; times++) await page.keyboard.press("+");
  await step(page);
  assert.equal((await state())[0], false, "near enough, there are arrows");
}, { fragment: `#text=${encodeURIComponent("ranks 64\nall pace 0..40 latency 5..60\nscript all\n open\n put k-$r v\n fence\n finalize\nend\n")}&seed=0` }));

test("more ranks than rows are legible share rows", () => open(async (page) => {
  await page.getByRole("button", { name: /^ranks 0–1: / }).waitFor();
  const rows = await page.evaluate(() => globalThis.playground.app.active.rows.map((row) => row.lanes.length));
  assert.deepEqual([rows.length, rows.reduce((sum, lanes) => sum + lanes, 0)], [150, 300]);
}, { fragment: `#text=${encodeURIComponent("ranks 300\nscript all\n open\n finalize\nend\n")}&seed=0` }));
