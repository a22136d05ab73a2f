// The page, used as a person does.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import test from "node:test";
import { address, open, press, ready, step, stepUntil, tab } from "./browser.mjs";

const trace = (name) => new URL(`recorded/${name}`, import.meta.url).pathname;

test("a run is played to its end, and scrubbed back", () => open(async (page) => {
  const slider = page.getByRole("slider", { name: "Moment of the run" });
  const last = Number(await slider.getAttribute("aria-valuemax"));
  assert.ok(last > 100);
  assert.equal(await step(page), last, "a scenario is shown as a whole first");
  await press(page, "Play");
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
  assert.ok((await step(page)) < last);
  await page.getByLabel("Speed").selectOption("8");
  await page.getByRole("button", { name: "Play", exact: true }).waitFor();
  await page.waitForFunction((last) => document.querySelector("[role=slider]").getAttribute("aria-valuenow") === String(last), last);
  const box = await slider.boundingBox();
  await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
  const middle = await step(page);
  assert.ok(middle > 10 && middle < last - 10, `step ${middle} of ${last}`);
  await page.keyboard.press("ArrowLeft");
  assert.ok((await step(page)) < middle);
  await page.keyboard.press("Home");
  assert.equal(await step(page), 0);
}));

test("what happens next is jumped to by its kind", () => open(async (page) => {
  await page.keyboard.press("Home");
  await page.getByLabel("Kind of event to jump to").selectOption("fence");
  await press(page, "Jump to the next");
  await tab(page, "State");
  await page.getByText("Fence 2: 0 of 4 ranks inside").waitFor();
  await page.getByRole("slider").focus();
  await page.keyboard.press("ArrowLeft");
  await page.getByText(/Fence 1: 4 of 4|Fence 1: 3 of 4/).waitFor();
}));

test("a rank that is killed is reported by name, and the report can be read", () => open(async (page) => {
  await stepUntil(page, () => document.querySelectorAll(".lane[data-tone=fence]").length === 2);
  await tab(page, "Inspect");
  await page.getByLabel("Rank to act on").selectOption("2");
  await press(page, /^Kill:/);
  await page.keyboard.press("End");
  await tab(page, "Story");
  await press(page, /the server reports rank 2/);
  await page.getByRole("region", { name: "Message" }).getByText("the server reports rank 2: the connection ended before finalize").waitFor();
  await page.getByRole("button", { name: "rank 2: killed" }).waitFor();
  await tab(page, "Inspect");
  await press(page, "Undo the last");
  await page.getByRole("button", { name: /^rank 2: (?!killed)/ }).waitFor();
}));

test("the end of a run is in view if it is requested with the first frame", () => open(async (page) => {
  const [place, width] = await page.evaluate(async () => {
    const { app } = globalThis.playground;
    const frame = () => new Promise(requestAnimationFrame);
    const { run, title } = app.active;
    app.show([[run, title]]);
    await frame();
    app.seekIndex(Infinity);
    await frame();
    await frame();
    return [app.axis.place(app.now) * app.scale - app.scroll, app.width];
  });
  assert.ok(place > width / 2 && place <= width, `the moment is at ${place} of ${width}`);
}));

test("presses of human length work while time runs", () => open(async (page) => {
  await tab(page, "Inspect");
  const kill = page.getByRole("button", { name: /^Kill:/ });
  for (let count = 0; count < 8; count++) {
    await page.keyboard.press("Home");
    await page.keyboard.press("Space");
    await kill.click({ delay: 100 });
    assert.equal(await page.evaluate(() => playground.app.active.run.done.split("\n").filter(Boolean).length), 1, `press ${count}`);
    await page.evaluate(() => playground.session.undo());
    await page.evaluate(() => playground.app.pause());
  }
}, { fragment: "#scenario=many-fences&seed=1" }));

test("focus and typed text survive while time runs, and Space triggers no button", () => open(async (page) => {
  await page.keyboard.press("Home");
  await tab(page, "Inspect");
  await page.getByLabel("Rank to act on").selectOption("1");
  await page.getByRole("button", { name: "Be rank 1" }).click({ delay: 100 });
  await page.keyboard.press("Home");
  const bytes = page.getByLabel("Bytes to send");
  await bytes.fill("cmd=");
  const before = await step(page);
  await page.evaluate(() => playground.app.play());
  await page.waitForFunction((before) => Number(document.querySelector("[role=slider]").getAttribute("aria-valuenow")) > before + 3, before);
  await page.keyboard.type("finalize");
  assert.equal(await bytes.inputValue(), "cmd=finalize");
  assert.ok(await bytes.evaluate((field) => field === document.activeElement));
  await page.evaluate(() => playground.app.pause());
  const done = await page.evaluate(() => playground.app.active.run.done);
  await page.getByRole("button", { name: /^Kill:/ }).focus();
  await page.keyboard.press("Space");
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
  assert.equal(await page.evaluate(() => playground.app.active.run.done), done);
  assert.ok(await page.getByRole("button", { name: /^Kill:/ }).evaluate((kill) => kill === document.activeElement));
}, { fragment: "#scenario=many-fences&seed=1" }));

test("somebody can be a rank: the next legal message, and any bytes", () => open(async (page) => {
  await page.keyboard.press("Home");
  await tab(page, "Inspect");
  await page.getByLabel("Rank to act on").selectOption("1");
  await press(page, "Be rank 1");
  await page.keyboard.press("End");
  await press(page, "open");
  await page.keyboard.press("End");
  await page.getByLabel("put: key").fill("by-hand");
  await page.getByLabel("put: value").fill("100%$r");
  await press(page, "put");
  await page.keyboard.press("End");
  await tab(page, "State");
  await page.getByRole("listitem").filter({ hasText: "by-hand 100%$r rank 1, behind the fence" }).waitFor();
  await tab(page, "Inspect");
  await page.getByLabel("Bytes to send").fill("cmd=nonsense\\n");
  await press(page, "Send");
  await page.keyboard.press("End");
  await page.getByText("Nothing is legal now").waitFor();
  await tab(page, "Story");
  await page.getByText(/rank 1 → server: nonsense/).first().waitFor();
}, { fragment: "#scenario=many-fences&seed=1" }));

test("a changed run is not flagged for the expectations of its scenario", () => open(async (page) => {
  const flags = () => page.evaluate(() => {
    const { active } = globalThis.playground.app;
    return [...active.story.marks.map((mark) => mark.text), ...active.run.view(active.story.steps).broken.map(({ rule }) => rule)]
      .filter((text) => /check -|expected/.test(text));
  });
  assert.deepEqual(await flags(), []);
  await stepUntil(page, () => document.querySelectorAll(".lane[data-tone=fence]").length === 2);
  await tab(page, "Inspect");
  await page.getByLabel("Rank to act on").selectOption("2");
  await press(page, /^Kill:/);
  await page.keyboard.press("End");
  await page.getByRole("button", { name: "rank 2: killed" }).waitFor();
  assert.deepEqual(await flags(), []);
  await tab(page, "State");
  await page.getByText("Every rule holds so far.").waitFor();
}));

test("scenarios with another number of ranks are not judged by expectations of the original", () => open(async (page) => {
  const flagged = await page.evaluate(async () => {
    const { session, app } = globalThis.playground;
    const found = [];
    for (const { name } of await (await fetch("scenarios/index.json")).json()) {
      for (const ranks of [3, 9]) {
        try {
          await session.open(name);
          await session.vary({ ranks });
        } catch {
          // Several jobs, or ranks that the scenario names and that are no more: nothing is played.
          continue;
        }
        found.push(...app.active.story.marks.filter(({ text }) => text.startsWith("check - expected")).map(({ text }) => `${name}, ${ranks}: ${text}`));
      }
    }
    return found;
  });
  assert.deepEqual(flagged, []);
}));

test("a message picked in the list is scrolled into view", () => open(async (page) => {
  await page.keyboard.press("End");
  for (let count = 0; count < 4; count++) await page.keyboard.press("+");
  await step(page);
  await tab(page, "Story");
  const isSeen = () => page.evaluate(() => {
    const { app } = globalThis.playground;
    const pane = app.active;
    const [from, to] = [app.picked.sent[0], app.picked.parts.at(-1)?.at[0] ?? app.picked.sent[0]].map((ns) => app.axis.place(ns) * app.scale - app.scroll);
    const y = pane.geometry.ys[pane.rowOf[app.picked.lane]] - pane.body.scrollTop;
    return from >= 0 && to <= app.width && y >= 0 && y <= pane.body.clientHeight;
  });
  // Of the listed events, the last ones are the earliest: at this scale far to the left of what is shown.
  const events = page.locator(".event.up, .event.down");
  const label = await events.last().textContent();
  await events.last().click();
  await step(page);
  assert.ok(await isSeen(), `${label} is in view`);
  const moment = await page.getByRole("slider").getAttribute("aria-valuenow");
  assert.equal(moment, await page.getByRole("slider").getAttribute("aria-valuemax"), "the moment stays");
}, { fragment: "#scenario=many-fences&seed=1" }));

test("a message of a lane far below is scrolled into view", () => open(async (page) => {
  await page.keyboard.press("End");
  await tab(page, "Story");
  await page.evaluate(() => (globalThis.playground.app.active.body.scrollTop = 0));
  const event = page.locator(".event", { hasText: /rank 63 → server/ }).first();
  await event.click();
  await step(page);
  const [y, top, height] = await page.evaluate(() => {
    const { app } = globalThis.playground;
    const pane = app.active;
    return [pane.geometry.ys[pane.rowOf[app.picked.lane]], pane.body.scrollTop, pane.body.clientHeight];
  });
  assert.ok(y >= top && y <= top + height, `the lane at ${y} is in view, from ${top} on, ${height} high`);
}, { fragment: `#text=${encodeURIComponent("ranks 64\nscript 0..62\n exit 0\nend\nscript 63\n open\n finalize\nend\n")}&seed=0`, height: 500 }));

test("pointing at a field lights its bytes", () => open(async (page) => {
  await page.keyboard.press("End");
  await tab(page, "Story");
  await press(page, /rank 0 → server: put card-0/);
  await page.getByRole("row", { name: /^key/ }).hover();
  const lit = await page.locator(".hex .lit").allTextContents();
  assert.equal(lit.join(""), Buffer.from("key=card-0").toString("hex"));
  await page.locator(".letters b", { hasText: "▫" }).or(page.locator(".letters b").last()).first().hover();
  assert.ok((await page.locator("tr.lit").count()) <= 1);
}));

test("a run goes two ways, and both are seen", () => open(async (page) => {
  await stepUntil(page, () => document.querySelector(".lane[data-tone=fence]"));
  await tab(page, "Inspect");
  await press(page, "Fork here");
  await press(page, /^Stop:/);
  await page.keyboard.press("End");
  await page.getByRole("region", { name: "Run The run" }).waitFor();
  const branch = page.getByRole("region", { name: "Run Branch 1" });
  await branch.getByRole("button", { name: "rank 0: stopped" }).waitFor();
  await page.getByRole("region", { name: "Run The run" }).getByRole("button", { name: "rank 0: exited" }).waitFor();
}));

test("one scenario is seen in four dialects", () => open(async (page) => {
  await page.getByLabel("Dialect").selectOption("all");
  await page.keyboard.press("End");
  for (const dialect of ["PMI 1.1", "PMI 1.2", "PMI 2.0", "PMIx"]) {
    await page.getByRole("region", { name: `Run ${dialect}` }).getByRole("button", { name: "rank 3: exited" }).waitFor();
  }
  await page.getByRole("region", { name: "Run PMI 2.0" }).getByRole("button", { name: /^rank 0/ }).click();
  await tab(page, "Story");
  await press(page, /rank 0 → server: put card-0/);
  await page.getByRole("rowheader", { name: "length number of bytes that follow" }).waitFor();
}));

test("what was written for PMI is played by PMIx ranks, and lessons are", () => open(async (page) => {
  const dialect = page.getByLabel("Dialect");
  await dialect.selectOption("pmix");
  await page.getByRole("img", { name: /^Sequence of put-fence-get-as-pmix/ }).waitFor();
  assert.equal(await dialect.inputValue(), "pmix");
  await page.keyboard.press("End");
  await tab(page, "Story");
  await press(page, /rank 2 → server: COMMIT/);
  await page.getByText("PMIx: commits the puts").waitFor();
  await tab(page, "State");
  await page.getByRole("heading", { name: "Committed in PMIx" }).waitFor();
  await dialect.selectOption("2.0");
  await page.getByRole("img", { name: "Sequence of put-fence-get: 4 ranks", exact: false }).waitFor();
  await page.getByLabel("Scenario", { exact: true }).selectOption("lesson why-a-fence");
  await dialect.selectOption("all");
  await page.getByRole("region", { name: "Run PMIx" }).getByRole("button", { name: /^rank 1/ }).click();
  await tab(page, "Inspect");
  await page.keyboard.press("End");
  // What was committed is found before any fence.
  await page.getByLabel("get: key").fill("card-0");
  await press(page, "get");
  await tab(page, "Story");
  await page.keyboard.press("End");
  await page.getByRole("button", { name: /server → rank 1: = tcp:/ }).first().click();
  await page.getByRole("row", { name: /^card-0 .*tcp:\/\/10\.0\.0\.1/ }).waitFor();
}));

test("what has no words in PMIx is said in its place", () => open(async (page) => {
  const why = "This scenario requests a ring, which PMIx does not have.";
  const dialect = page.getByLabel("Dialect");
  await dialect.selectOption("all");
  await page.getByRole("region", { name: "Run PMIx" }).getByText(why).waitFor();
  await page.getByRole("region", { name: "Run PMI 2.0" }).waitFor();
  await dialect.selectOption("2.0");
  await page.getByRole("region", { name: "Run PMIx" }).waitFor({ state: "detached" });
  await dialect.selectOption("pmix");
  await page.getByRole("status").or(page.getByRole("alert")).getByText(why).waitFor();
  assert.equal(await dialect.inputValue(), "2.0");
}, { fragment: "#scenario=ring&seed=3" }));

test("ranks speak PMIx, which is loaded when one does, and a message of it has its fields", () => open(async (page) => {
  const loaded = [];
  page.on("request", (request) => loaded.push(new URL(request.url()).pathname));
  await page.getByLabel("Scenario").selectOption("pmix-dead");
  await page.getByRole("region", { name: "Run The run" }).getByRole("button", { name: /^rank 4/ }).waitFor();
  assert.ok(loaded.some((path) => path.endsWith("pmix/pmi_playground_bg.wasm")), loaded.join(" "));
  await page.keyboard.press("End");
  await tab(page, "Story");
  await press(page, /rank 2 → server: greeting/);
  await page.getByText("PMIx: the client sends its rank").waitFor();
  await tab(page, "Story");
  await page.getByRole("button", { name: /rank 2 → server: fence/ }).first().click();
  await page.getByRole("row", { name: "command the command FENCENB" }).waitFor();
  await page.getByLabel("Dialect").selectOption("all");
  await page.getByRole("region", { name: "Run PMIx" }).waitFor();
  await page.getByRole("region", { name: "Run PMI 2.0" }).getByRole("button", { name: /^rank 4/ }).click();
  await tab(page, "Story");
  await page.getByRole("button", { name: /rank \d → server: get card-/ }).first().waitFor();
}));

test("equal ranks are folded, and one is followed", () => open(async (page) => {
  await page.keyboard.press("End");
  await press(page, "Fold ranks that go through the same");
  await page.getByRole("button", { name: "ranks 0–63: exited" }).click();
  await tab(page, "Inspect");
  await page.getByRole("heading", { name: "Machines of rank 0" }).waitFor();
}, { fragment: `#text=${encodeURIComponent("ranks 64\nscript all\n open\n put k-$r v\n fence\n finalize\nend\n")}&seed=0` }));

test("a link shows the same view again", () => open(async (page) => {
  await stepUntil(page, () => document.querySelectorAll(".lane[data-tone=fence]").length === 3);
  await tab(page, "Inspect");
  await page.getByLabel("Rank to act on").selectOption("3");
  await press(page, /^Delay:/);
  await press(page, "Pause");
  await press(page, /^rank 3/);
  await tab(page, "State");
  await step(page);
  const seen = () => page.evaluate(() => [
    document.querySelector("[role=slider]").getAttribute("aria-valuetext"), document.querySelector(".gutter").innerHTML,
    document.querySelector(".debts")?.textContent, document.querySelector("canvas").toDataURL(),
  ]);
  const before = await seen();
  await page.waitForFunction(() => location.hash.includes("follow=3"));
  await page.waitForTimeout(400);
  const link = page.url();
  assert.match(link, /#scenario=dead-rank&seed=5&do=\d+\+stall\+3\+300..500&at=\d+&follow=3/);
  await page.goto("about:blank");
  await page.goto(link);
  await ready(page);
  await tab(page, "State");
  await step(page);
  const after = await seen();
  assert.deepEqual(after.slice(0, 3), before.slice(0, 3));
}, { fragment: "#scenario=dead-rank&seed=5" }));

test("a trace of a log of MPICH is opened, and its messages are read", () => open(async (page) => {
  await page.locator("input[type=file]").setInputFiles(trace("hydra-4.0.2-hello.trace"));
  await page.getByRole("button", { name: "rank 1: recorded" }).waitFor();
  await tab(page, "Story");
  await press(page, /rank 1 → server: put -allgather-shm-1-1/);
  await page.getByRole("rowheader", { name: "key the key" }).waitFor();
  await page.keyboard.press("Home");
  assert.equal(await step(page), 0);
}));

test("a trace that pmi-host recorded of a program of MPICH is opened, with its times", () => open(async (page) => {
  await page.locator("input[type=file]").setInputFiles(trace("mpich-allreduce.trace"));
  await page.getByRole("button", { name: "rank 3: recorded" }).waitFor();
  await page.getByText("./pmi-host run -n 4 --trace mpich-allreduce.trace ./allreduce").waitFor();
  await page.getByLabel("Kind of event to jump to").selectOption("fence");
  await page.keyboard.press("Home");
  await press(page, "Jump to the next");
  await step(page);
  assert.match(await page.getByRole("slider").getAttribute("aria-valuetext"), /^step \d+ of \d+, [\d.]+ ms$/);
  await page.keyboard.press("End");
  await tab(page, "Story");
  await press(page, /rank 2 → server: put -allgather-shm-1-2/);
  await page.getByRole("rowheader", { name: "value the value" }).waitFor();
  // Calls are bars on the lanes, from the request to its reply.
  const lanes = await page.evaluate(() => {
    const { calls, lanes, messages, names } = globalThis.playground.app.active.story;
    return lanes.map((_, lane) => {
      const own = messages.filter((message) => message.lane === lane);
      const [requests, replies] = [own.filter(({ up }) => up), own.filter(({ up }) => !up)].map((list) => list.map(({ name, sent: [ns] }) => [name, ns]));
      const all = Array.from(calls.from.slice(calls.starts[lane], calls.starts[lane + 1]), (from, at) => {
        const call = calls.starts[lane] + at;
        return [names[calls.names[call]], from, calls.to[call]];
      });
      return { requests, replies, all };
    });
  });
  for (const { requests, replies, all } of lanes) {
    assert.ok(all.length > 10);
    assert.deepEqual(all.map(([name, from]) => [name, from]), requests);
    // These ranks await each reply before the next request.
    assert.deepEqual(all.map(([name, , to]) => [name, to]), replies);
    assert.ok(all.filter(([name]) => name === "barrier_in").length > 1);
  }
  const drawn = await page.evaluate(async () => {
    const { past } = await import("./app/draw.js");
    const { app } = globalThis.playground;
    const bars = (more = {}) => {
      const shown = app.active.scene();
      // Of one colour with nothing else.
      const scene = { ...shown, colors: { ...shown.colors, wait: "of calls" }, ...more };
      const found = [];
      const boxes = (all, { color }) => color === scene.colors.wait && found.push(...all);
      const within = (left, top, width, height, draw) => draw();
      past({ line() {}, lines() {}, area() {}, box() {}, dot() {}, text() {}, boxes, within }, scene);
      return found;
    };
    app.fit(true);
    const { story, geometry, axis, scale, scroll } = app.active.scene();
    const place = (ns) => axis.place(ns) * scale - scroll;
    const { starts, from, to } = story.calls;
    const all = bars();
    // Each call is within a bar of its lane.
    const isDrawn = (lane, call) => all.some(([x, y, width, height]) => y + height / 2 === geometry.ys[lane]
      && x <= place(from[call]) + 0.01 && x + width >= place(to[call]) - 0.01);
    const missing = story.lanes.flatMap((_, lane) => Array.from({ length: starts[lane + 1] - starts[lane] }, (_, at) => starts[lane] + at).filter((call) => !isDrawn(lane, call)));
    app.seekIndex(app.active.story.moments.length >> 1);
    const now = place(app.now);
    return { count: all.length, calls: from.length, missing, late: bars().filter(([x, , width]) => x + width > now + 0.01).length, half: bars().length, strips: bars({ isHeat: true }).length };
  });
  assert.ok(drawn.count > 0 && drawn.count <= drawn.calls, `${drawn.count} bars of ${drawn.calls} calls`);
  assert.deepEqual(drawn.missing, []);
  assert.ok(drawn.half > 0 && drawn.half < drawn.count);
  assert.equal(drawn.late, 0);
  assert.equal(drawn.strips, 0);
}));

test("the first of several requests of a name is answered first, and one without a reply waits", () => open(async (page) => {
  const calls = await page.evaluate(async () => {
    const { paired } = await import("./later/calls.js");
    // Lane, flags (1: to the server, 2: made by no client), time and name; all else does not matter.
    const numbers = [[0, 1, 10, 5], [1, 1, 11, 5], [0, 1, 12, 5], [0, 1, 13, 6], [1, 3, 14, 5], [0, 0, 20, 5], [0, 0, 21, 5], [0, 0, 22, 5], [1, 0, 23, 5], [0, 1, 30, 5]];
    const { starts, from, to, names, until } = paired(Float64Array.from(numbers.flatMap(([lane, flags, ns, name]) => [lane, flags, ns, 0, 0, 0, name, 0])));
    return [starts, from, to, names, until].map((column) => [...column].map(String).join(" "));
  });
  assert.deepEqual(calls, ["0 4 5", "10 12 13 30 11", "20 21 Infinity Infinity 23", "5 5 6 5 5", "20 21 Infinity Infinity 23"]);
}));

test("a recording is read by a worker, and the page is used meanwhile", () => {
  let release;
  const isReleased = new Promise((done) => (release = done));
  // The worker has to wait for its script.
  const prepare = (page) => page.route(/\/later\/reader\.js$/, (route) => isReleased.then(() => route.continue()));
  return open(async (page) => {
    await page.keyboard.press("Home");
    await page.locator("input[type=file]").setInputFiles(trace("hydra-4.0.2-hello.trace"));
    await page.waitForFunction(() => document.body.classList.contains("busy"));
    await page.keyboard.press("ArrowRight");
    assert.equal(await step(page), 1);
    await page.getByRole("button", { name: /^rank 2/ }).click();
    assert.equal(await page.evaluate(() => globalThis.playground.app.followed(globalThis.playground.app.active)), 2);
    release();
    await page.getByRole("button", { name: "rank 1: recorded" }).waitFor();
    assert.equal(await page.evaluate(() => document.body.classList.contains("busy")), false);
    assert.deepEqual(page.workers().map((worker) => new URL(worker.url()).pathname), ["/later/reader.js"]);
    // The next one is read by the same worker.
    await page.locator("input[type=file]").setInputFiles(new URL("../www/lessons/two-nodes.trace", import.meta.url).pathname);
    await page.getByRole("button", { name: "rank 3: recorded" }).waitFor();
    assert.equal(page.workers().length, 1);
  }, { prepare });
});

test("a recording is not shared with a link that shows something else", () => open(async (page) => {
  await page.locator("input[type=file]").setInputFiles(trace("hydra-4.0.2-hello.trace"));
  await page.getByRole("button", { name: "rank 1: recorded" }).waitFor();
  await page.evaluate(() => navigator.clipboard.writeText("as before"));
  await press(page, "Share: copy the link to this view");
  await page.getByText("No link can hold a recording").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "as before");
  // A recording that comes with the page has a link, and that link shows it.
  await page.getByLabel("Scenario", { exact: true }).selectOption({ label: "Spawn" });
  await page.getByRole("heading", { name: "Spawn" }).waitFor();
  await press(page, "Share: copy the link to this view");
  await page.getByText("The link to this view is copied.").waitFor();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  await page.goto("about:blank");
  await page.goto(link);
  await ready(page);
  await page.getByRole("heading", { name: "Spawn" }).waitFor();
}, { permissions: ["clipboard-read", "clipboard-write"] }));

test("a job that runs is watched, and what comes later is added", () => open(async (page) => {
  const lines = [
    { pmi_trace: 1, started_unix_ns: 0, recorder: "a test", host: "n0", command: ["./hello"], jobs: [{ job: 0, name: "kvs", ranks: 2, spawner: null }] },
    { time_ns: 1000, job: 0, rank: 0, session: 0, message: { direction: "to_server", bytes: "cmd=init pmi_version=1 pmi_subversion=1\n" } },
    { time_ns: 9000, job: 0, rank: 0, session: 0, message: { direction: "to_client", bytes: "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n" } },
  ].map((line) => Buffer.from(`${JSON.stringify(line)}\n`));
  let launcher;
  await page.routeWebSocket("ws://127.0.0.1:9/", (socket) => {
    launcher = socket;
    socket.onMessage((proof) => {
      assert.match(String(proof), /^[0-9a-f]{64}$/);
      socket.send(lines[0]);
      socket.send(lines[1]);
    });
    setTimeout(() => socket.send("challenge 0123456789012345"), 50);
  });
  page.on("dialog", (dialog) => dialog.accept("a secret of sixteen bytes"));
  await press(page, "Open a trace, a log or a live job");
  await page.getByLabel("Address of the job").fill("ws://127.0.0.1:9/");
  await press(page, "Watch");
  await page.getByRole("img", { name: /1 of 1 messages/ }).waitFor();
  launcher.send(lines[2]);
  await page.getByRole("img", { name: /2 of 2 messages/ }).waitFor();
  launcher.close();
  await page.getByText("The job has ended").waitFor();
}));

/// The lines of a trace of many ranks, which start and end for many screens without a message.
function manyRanks(ranks) {
  const lines = [{ pmi_trace: 1, started_unix_ns: 0, recorder: "a test", host: "n0", command: ["./many"], jobs: [{ job: 0, name: "kvs", ranks, spawner: null }] }];
  let ns = 1e6;
  const each = (apart, of) => {
    for (let rank = 0; rank < ranks; rank++) lines.push({ time_ns: (ns += apart), job: 0, rank, ...of(rank) });
  };
  const say = (direction, bytes) => each(3000, (rank) => ({ session: rank, message: { direction, bytes: bytes(rank) } }));
  each(50_000, (rank) => ({ started: { pid: 1000 + rank, host: "n0" } }));
  ns += 5e7;
  say("to_server", () => "cmd=init pmi_version=1 pmi_subversion=1\n");
  say("to_client", () => "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n");
  say("to_server", () => "cmd=barrier_in\n");
  say("to_client", () => "cmd=barrier_out rc=0\n");
  say("to_server", () => "cmd=finalize\n");
  say("to_client", () => "cmd=finalize_ack rc=0\n");
  each(40_000, () => ({ exited: { code: 0 } }));
  return lines.map((line) => `${JSON.stringify(line)}\n`);
}

/// Number of messages between the edges of the diagram, and of places of it that are neither paper nor grid.
const drawn = (page) => page.evaluate(async () => {
  for (let count = 0; count < 3; count++) await new Promise((drawn) => requestAnimationFrame(drawn));
  const { app } = globalThis.playground;
  const [from, to] = [0, app.width].map((x) => app.axis.time((app.scroll + x) / app.scale));
  const canvas = app.active.past;
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const parsed = (color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  const [up, down] = [app.colors.up, app.colors.down].map(parsed);
  let places = 0;
  for (let at = 0; at < data.length; at += 4) {
    if ([up, down].some((color) => color.every((part, index) => Math.abs(part - data[at + index]) < 60))) places += 1;
  }
  return { messages: app.active.story.messages.filter(({ sent: [ns] }) => ns >= from && ns <= to).length, places };
});

test("a trace of a thousand ranks opens with its messages in view", () => open(async (page) => {
  await page.locator("input[type=file]").setInputFiles({ name: "many.trace", mimeType: "text/plain", buffer: Buffer.from(manyRanks(1000).join("")) });
  await page.getByRole("button", { name: "ranks 0–3: recorded" }).waitFor();
  const { messages, places } = await drawn(page);
  assert.equal(messages, 6000);
  assert.ok(places > 2000, `${places} places`);
}));

test("a live job that has ended opens with its messages in view, and shows no token", () => open(async (page) => {
  const token = "5ec2e7a0b1c2d3e4";
  const lines = manyRanks(1000);
  await page.routeWebSocket(/^ws:\/\/127\.0\.0\.1:9\//, (socket) => {
    setTimeout(() => {
      for (const half of [lines.slice(0, 4000), lines.slice(4000)]) socket.send(Buffer.from(half.join("")));
      socket.close();
    }, 50);
  });
  await press(page, "Open a trace, a log or a live job");
  await page.getByLabel("Address of the job").fill(`ws://127.0.0.1:9/?token=${token}`);
  await press(page, "Watch");
  await page.getByText("The job has ended").waitFor();
  await page.getByRole("img", { name: /of 6000 messages/ }).waitFor();
  const { messages, places } = await drawn(page);
  assert.ok(messages > 1000 && places > 2000, `${messages} messages, ${places} places`);
  assert.equal(await page.getByLabel("Scenario", { exact: true }).evaluate((list) => list.selectedOptions[0].textContent), "127.0.0.1:9");
  const shown = () => page.evaluate(() => document.documentElement.outerHTML + document.title + location.href);
  assert.ok(!(await shown()).includes(token));
  // Nor in what is said of a launcher that is not there.
  await page.routeWebSocket(/^ws:\/\/127\.0\.0\.1:10\//, (socket) => socket.close({ code: 4000, reason: "no" }));
  await press(page, "Open a trace, a log or a live job");
  await page.getByLabel("Address of the job").fill(`ws://127.0.0.1:10/?token=${token}`);
  await press(page, "Watch");
  await page.getByText("No launcher at 127.0.0.1:10 can be watched: no.").waitFor();
  assert.ok(!(await shown()).includes(token));
}));

test("a picked message shows its bytes and its fields without scrolling", async () => {
  for (const [width, height] of [[1440, 900], [1024, 700], [390, 844]]) {
    await open(async (page) => {
      for (const name of [/rank 0 → server: put card-0/, /server → rank 0: = addr-1/]) {
        await page.getByRole("region", { name: "Events" }).getByRole("button", { name }).first().click({ delay: 60 });
        await page.locator(".message .dump").waitFor();
        await step(page);
        const seen = await page.evaluate(() => {
          const message = document.querySelector(".message");
          const isSeen = (element) => {
            const { left, right, top, bottom } = element.getBoundingClientRect();
            return message.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
          };
          const bytes = [...message.querySelectorAll(".hex b")];
          return { bytes: bytes.length, hidden: bytes.filter((one) => !isSeen(one)).length, isInLines: new Set(bytes.slice(0, 8).map((one) => one.getBoundingClientRect().top)).size === 1, isField: isSeen(message.querySelector(".fields th")) };
        });
        assert.ok(seen.bytes > 20);
        assert.deepEqual({ ...seen, bytes: 0 }, { bytes: 0, hidden: 0, isInLines: true, isField: true }, `${name}, ${width} × ${height}`);
      }
    }, { width, height, hasTouch: width < 500 });
  }
});

test("a job of pmi-host is watched while it runs", () => open(async (page) => {
  // Two ranks say one line each, in the words of PMI-1, and stay.
  const rank = 'eval "printf \'cmd=init pmi_version=1 pmi_subversion=1\\n\' >&$PMI_FD"; sleep 600';
  const launcher = spawn(process.env.PMI_HOST, ["run", "-n", "2", "--websocket", "0", "sh", "-c", rank], { stdio: ["ignore", "ignore", "pipe"] });
  try {
    const line = await new Promise((found, lost) => {
      let said = "";
      launcher.stderr.on("data", (data) => {
        said += data;
        const match = /ws:\/\/\S+/.exec(said);
        if (match) found(match[0]);
      });
      launcher.on("exit", () => lost(new Error(`it ended: ${said}`)));
    });
    await press(page, "Open a trace, a log or a live job");
    await page.getByLabel("Address of the job").fill(line);
    await press(page, "Watch");
    await page.getByRole("button", { name: /rank 0 → server: init/ }).waitFor();
    await press(page, /rank 1 → server: init/);
    await page.getByRole("rowheader", { name: /^pmi_version/ }).waitFor();
  } finally {
    launcher.removeAllListeners("exit");
    launcher.kill("SIGTERM");
  }
  await page.getByText("The job has ended").waitFor();
}));

test("a trace of the simulator is saved and opened again", () => open(async (page) => {
  const saved = async (what) => {
    await press(page, "Save a trace or a picture");
    const [download] = await Promise.all([page.waitForEvent("download"), press(page, what)]);
    return download.path();
  };
  await page.keyboard.press("End");
  const end = await step(page);
  const picture = readFileSync(await saved(/^Picture/), "utf8");
  assert.match(picture, /^<svg [^>]*>.*<title>put-fence-get, seed 42<\/title>/s);
  // Which of the captions have room depends on the width of the pane.
  assert.ok(picture.includes(">rank 3</text>"), picture);
  assert.match(picture, />get card-\d<\/text>/);
  // It follows its reader in light and dark, and has the legend of the page.
  assert.match(picture, /\.stroke-up \{ stroke: #1f7a8c; \}[^]*prefers-color-scheme: dark[^]*\.stroke-up \{ stroke: #5cc0cf; \}/);
  assert.ok(!/(fill|stroke)="(?!none)/.test(picture), "no colour but by the style");
  for (const words of await page.locator(".work > .legend li").allTextContents()) assert.ok(picture.includes(`>${words}</text>`), words);
  const trace = await saved(/^Trace/);
  assert.match(readFileSync(trace, "utf8"), /^pmi-sim trace 1\nseed 42\n/);
  await page.getByLabel("Scenario", { exact: true }).selectOption("dead-rank");
  await page.locator("input[type=file]").setInputFiles(trace);
  await page.waitForFunction((end) => document.querySelector("[role=slider]").getAttribute("aria-valuemax") === String(end), end);
}));

test("three tabs hold all sections, and links open them by their names of now and before", () => open(async (page) => {
  assert.deepEqual(await page.getByRole("tab").allTextContents(), ["Story", "Inspect", "State"]);
  const sections = { Story: ["Message", "Events"], Inspect: ["Act", "Machines"], State: ["Keys", "Waits"] };
  const isOpen = (name) => page.getByRole("tab", { name, selected: true }).waitFor();
  await isOpen("Story");
  for (const [name, parts] of Object.entries(sections)) {
    await tab(page, name);
    await isOpen(name);
    await step(page);
    assert.deepEqual(await page.locator("#panel").getByRole("region").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label"))), parts);
  }
  await page.waitForFunction(() => location.hash.endsWith("&tab=State"));
  const link = page.url();
  await page.goto("about:blank");
  await page.goto(link);
  await ready(page);
  await isOpen("State");
  const follow = (name) => page.evaluate((hash) => (location.hash = hash), new URL(link).hash.replace("tab=State", `tab=${name}`));
  for (const [name, parts] of Object.entries(sections)) {
    for (const part of parts) {
      await tab(page, name === "Story" ? "State" : "Story");
      await follow(part);
      await isOpen(name);
    }
  }
  // The section that the link names is in view, and a name that never was changes nothing.
  await follow("machines");
  await page.waitForFunction(() => {
    const [panel, part] = ["#panel", "#panel [aria-label=Machines]"].map((one) => document.querySelector(one)?.getBoundingClientRect());
    return part && part.top >= panel.top - 1 && part.top < panel.bottom;
  });
  await follow("no-such");
  await page.waitForFunction(() => location.hash.endsWith("&tab=Inspect"));
  await isOpen("Inspect");
  await tab(page, "Story");
  // A picked message is shown above the events, which stay.
  await press(page, /rank 0 → server: put card-0/);
  await page.getByRole("region", { name: "Message" }).getByRole("rowheader", { name: "key the key" }).waitFor();
  await page.getByRole("region", { name: "Events" }).getByRole("button", { name: /rank 0 → server: put card-0/, pressed: true }).waitFor();
}, { height: 500 }));

/// Shows the keys before and after the first fence of the run, and returns the elements whose curtain has moved.
async function lift(page) {
  await tab(page, "State");
  const seek = (isThere) => page.evaluate((isThere) => {
    const { app } = globalThis.playground;
    const { run, story } = app.active;
    app.seekStep(story.moments.find(({ step }) => new Function("view", `return ${isThere}`)(run.view(step))).step);
  }, isThere);
  await seek("view.keys.filter((key) => !key.visible).length === 4");
  await step(page);
  const cards = page.getByRole("list", { name: "Keys at the server" }).getByRole("listitem");
  assert.equal(await cards.filter({ hasText: /card-\d .*rank \d, behind the fence/ }).count(), 4);
  await page.getByText("4 behind the fence").waitFor();
  await page.evaluate(() => {
    globalThis.moved = [];
    addEventListener("transitionrun", ({ target, pseudoElement }) => globalThis.moved.push([pseudoElement, target.querySelector("strong")?.textContent]));
    globalThis.before = [...document.querySelectorAll(".card.hidden")];
  });
  await seek("view.fences[0].generation === 1");
  await step(page);
  assert.equal(await cards.filter({ hasText: /card-\d .*rank \d, visible to all/ }).count(), 4);
  assert.ok(await page.evaluate(() => globalThis.before.every((card) => card.isConnected && !card.classList.contains("hidden"))), "the cards stay");
  return page.evaluate(() => globalThis.moved.filter(([part]) => part === "::after").map(([, key]) => key).sort());
}

test("a put is a card behind the curtain of the fence, which lifts it", () => open(async (page) => {
  assert.deepEqual(await lift(page), ["card-0", "card-1", "card-2", "card-3"]);
  await page.locator("input[type=file]").setInputFiles(trace("hydra-4.0.2-hello.trace"));
  await page.getByRole("button", { name: "rank 1: recorded" }).waitFor();
  await tab(page, "State");
  await page.getByText("A recording contains messages, but no keys of the server.").waitFor();
}));

test("no curtain moves where motion is unwanted", () => open(async (page) => assert.deepEqual(await lift(page), []), { reducedMotion: "reduce" }));

test("what cannot be read is said, and nothing is lost", () => open(async (page) => {
  await page.locator("input[type=file]").setInputFiles({ name: "x.bin", mimeType: "", buffer: Buffer.from([0, 1, 2, 3]) });
  await page.getByText(/there is no PMI in it/).waitFor();
  await press(page, "Close this message");
  await press(page, "Edit its text");
  await page.getByLabel("Text of the scenario").fill("ranks many\n");
  await press(page, "Play it");
  await page.getByText(/^line 1: /).waitFor();
  await press(page, "Close");
  await page.getByRole("button", { name: /^rank 3/ }).waitFor();
  await page.evaluate(() => (location.hash = "#scenario=no-such"));
  await page.getByText('there is no scenario "no-such" with this page').waitFor();
}, { expected: /404/ }));

test("everything has a name that can be read aloud", () => open(async (page) => {
  const nameless = await page.evaluate(() => [...document.querySelectorAll("button, select, input, textarea, [role=slider], canvas[role=img], a")]
    .filter((one) => !one.closest("[aria-hidden=true]"))
    .filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim() || one.labels?.length)).map((one) => one.outerHTML));
  assert.deepEqual(nameless, []);
  for (const [role, name] of [["slider", "Moment of the run"], ["img", /^Sequence of put-fence-get: 4 ranks/], ["tablist", "Inspector"], ["group", "Time"], ["button", /^rank 0: /]]) {
    assert.equal(await page.getByRole(role, { name }).count(), 1, `${role} ${name}`);
  }
  // By keys alone: the panel, the lanes, and time.
  await page.getByRole("tab", { name: "Story" }).focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.getByRole("tab", { name: "Inspect" }).getAttribute("aria-selected"), "true");
  await page.getByRole("slider").focus();
  await page.keyboard.press("ArrowDown");
  await page.getByRole("button", { name: /^rank 0/, pressed: true }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Help" }).waitFor();
}));

test("who wants no motion gets none", () => open(async (page) => {
  await press(page, "Play");
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
  const seen = await page.evaluate(() => {
    const { app } = globalThis.playground;
    app.seekIndex(0);
    app.rested = 0;
    app.isPlaying = true;
    // 60 frames of 20 ms, whatever the clock says.
    const seen = Array.from({ length: 60 }, () => (app.advance(20), app.index));
    app.pause();
    return seen;
  });
  // A moment at a time, and not one for every frame.
  assert.deepEqual([...new Set(seen)], [0, 1, 2]);
}, { reducedMotion: "reduce" }));

test("the page can be used on a phone", () => open(async (page) => {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `${wide} pixels wide`);
  await press(page, "To the end");
  await page.getByRole("button", { name: "rank 3: exited" }).waitFor();
  await tab(page, "State");
  await page.getByRole("list", { name: "Keys at the server" }).getByText("card-0", { exact: true }).waitFor();
}, { width: 390, height: 844 }));

test("a message leads to its section of the book, its codec and the command line of its run", () => open(async (page) => {
  const message = page.getByRole("region", { name: "Message" });
  await press(page, /rank 0 → server: put card-0/);
  await message.getByText("pmi-sim run put-fence-get --seed 42 --trace FILE").waitFor();
  assert.equal(await message.getByRole("link").count(), 0, "there is no book around this page");
  await page.evaluate(() => (document.documentElement.dataset.book = "../"));
  await press(page, /rank 1 → server: fence/);
  assert.equal(await message.getByRole("link", { name: "In the book" }).getAttribute("href"), "../docs/pmi1.html#barrier");
  assert.equal(await message.getByRole("link", { name: "Source of the codec" }).getAttribute("href"), "../rustdoc/src/pmi_core/wire/pmi1/line.rs.html");
  await page.getByRole("button", { name: /^rank 2/ }).click({ button: "right" });
  await page.getByRole("menuitem", { name: "Kill" }).click();
  await page.keyboard.press("End");
  await press(page, /rank 1 → server: fence/);
  await message.getByText("pmi-sim replay FILE, with the trace that Save makes").waitFor();
}));

test("the page asks nobody but its own server", () => open(async (page) => {
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  await page.reload();
  await ready(page);
  assert.ok(asked.length > 10);
  assert.deepEqual(asked.filter((url) => !url.startsWith(address)), []);
}));

test("on a phone a lesson is read before its run is seen, and its film shows the run", () => open(async (page) => {
  await page.getByLabel("Scenario", { exact: true }).selectOption({ label: "Put, fence, get" });
  const region = page.getByRole("region", { name: "Lesson" });
  await region.waitFor();
  const top = (locator) => locator.evaluate((element) => Math.round(element.getBoundingClientRect().top));
  assert.ok((await top(region)) < (await top(page.locator(".view"))));
  assert.ok((await top(page.locator(".view"))) < (await top(page.getByRole("tablist"))));
  await press(page, "Watch it first");
  await page.waitForFunction(() => {
    const { top, bottom } = document.querySelector(".view").getBoundingClientRect();
    return top >= 0 && bottom <= document.querySelector(".transport").getBoundingClientRect().top + 1;
  });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 390);
}, { width: 390, height: 844 }));

test("times of a long run are exact enough to tell its messages from each other", () => open(async (page) => {
  const lines = (count) => page.evaluate((count) => [...document.querySelectorAll(".event time")].slice(0, count).map(({ textContent }) => textContent), count);
  const head = { pmi_trace: 1, started_unix_ns: 0, recorder: "test", host: "n0", command: ["./long"], jobs: [{ job: 0, name: "kvs", ranks: 1, spawner: null }] };
  const said = (at) => ({ time_ns: 137_000_000 + at * 1000, job: 0, rank: 0, session: 0, message: { direction: at % 2 ? "to_client" : "to_server", bytes: at % 2 ? "cmd=put_result rc=0\n" : "cmd=put kvsname=kvs key=k value=v\n" } });
  const trace = [head, ...Array.from({ length: 40 }, (_, at) => said(at))].map((line) => `${JSON.stringify(line)}\n`).join("");
  await page.locator("input[type=file]").setInputFiles({ name: "long.trace", mimeType: "text/plain", buffer: Buffer.from(trace) });
  await page.getByRole("button", { name: "rank 0: recorded" }).waitFor();
  await page.locator(".event time", { hasText: "137.039 ms" }).waitFor();
  assert.equal(new Set(await lines(20)).size, 20);
}));
