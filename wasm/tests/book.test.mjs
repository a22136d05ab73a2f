// Runs that the pages of the book play: each link leads to one, and a run below an example has the messages of the example.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";
import { open, ready } from "./browser.mjs";

const root = new URL("../../", import.meta.url);
const docs = new URL("docs/", root);
const pages = readdirSync(docs, { recursive: true }).filter((name) => name.endsWith(".md")).sort();
const chapters = [...readFileSync(new URL("SUMMARY.md", docs), "utf8").matchAll(/\]\(([^)]+\.md)\)/g)].map(([, path]) => new URL(path, docs));

/// A comment with a run, and the example that it follows; as in `xtask/src/book/played_run.rs`.
const RUN = /(?:^```[^\n]*\n((?:(?!```)[^\n]*\n)*)```\n+)?^<!-- play( it)?([^\n]*?): ([^\n]+?)(?: -->|\n([^]*?)-->)$/gm;

const plays = chapters.flatMap((chapter) => {
  const name = chapter.pathname.slice(root.pathname.length);
  return [...readFileSync(chapter, "utf8").matchAll(RUN)].map(([, example = "", it, settings, title, scenario]) => {
    const text = scenario && new URLSearchParams({ text: `about "${title}"\n${scenario}` }).toString();
    return { name, title, isFramed: !it, example, link: [text, settings.trim()].filter(Boolean).join("&") };
  });
});

test("chapters that teach, and pages about a wire, a failure or the inside, play a run", () => {
  const playing = new Set(plays.filter(({ isFramed }) => isFramed).map(({ name }) => name.replace(/^docs\//, "")));
  const expected = pages.filter((name) => name.startsWith("learn/") || ["pmi1.md", "pmi2.md", "pmix-wire.md", "nodes-wire.md", "nodes.md", "stalls.md", "ending.md", "pmix.md", "reliability.md", "architecture.md"].includes(name));
  assert.deepEqual(expected.filter((name) => !playing.has(name)), []);
  assert.ok(plays.filter(({ isFramed }) => isFramed).length > 20);
  assert.ok(plays.filter(({ isFramed }) => !isFramed).length > 60);
  const comments = chapters.map((chapter) => readFileSync(chapter, "utf8").match(/^<!-- play/gm)?.length ?? 0);
  assert.equal(plays.length, comments.reduce((sum, count) => sum + count, 0));
});

test("every run that the book plays is played, in the view that its link names, and has the messages of its example", () => open(async (page) => {
  const problems = [];
  const check = (is, what) => is || problems.push(what);
  for (const { name, link, title, example, isFramed } of plays) {
    const at = `${name}: ${title}`;
    await page.goto("about:blank");
    await page.goto(`${process.env.PMI_PAGE}${isFramed ? "?embed=1" : ""}#${link}`);
    const error = await ready(page).then(() => null, ({ message }) => message.replaceAll("\n", " "));
    if (error) {
      problems.push(`${at}: ${error}`);
      continue;
    }
    const run = await page.evaluate(() => {
      const { app } = globalThis.playground;
      const { story } = app.active;
      return {
        view: app.view, picked: app.picked?.name, isReported: story.marks.some(({ kind }) => kind === "report"),
        isWaited: (app.active.run.view(story.steps).debts?.length ?? 0) > 0,
        messages: story.messages.map(({ up, bytes }) => [up, bytes]),
      };
    });
    const settings = new URLSearchParams(link);
    check(run.view === (settings.get("view") ?? "lanes"), `${at}: the view ${run.view}`);
    check(run.picked === (settings.get("message") ?? undefined), `${at}: the message ${run.picked}`);
    // Only a run of processes that never connect has none.
    check(run.messages.length > (example ? 0 : 5) || /without a message/.test(title), `${at}: ${run.messages.length} messages`);
    for (const [, way, word] of example.matchAll(/^(C>S|S>C)\* .*?cmd=([\w-]+)/gm)) {
      const has = new RegExp(`cmd=${word}[ ;\\n]`);
      check(run.messages.some(([up, bytes]) => up === (way === "C>S") && has.test(bytes)), `${at}: no ${way} ${word}`);
    }
    check(run.isReported || !/^pmi-host: rank \d+ of/m.test(example), `${at}: no report`);
    check(run.isWaited || !/no progress for/.test(example), `${at}: no rank waits`);
  }
  assert.deepEqual(problems, []);
}, { width: 1000, height: 620 }));

/// The requests of each rank of a run, by name and key: what is shown of `MPI_Init`.
const requests = (page, lanes) => page.evaluate((lanes) => {
  const { messages } = globalThis.playground.app.active.story;
  const key = ({ bytes }) => /key=([^ \n]+)/.exec(bytes)?.[1];
  return lanes.map((lane) => messages.filter((message) => message.up && message.lane === lane).map((message) => [message.name, key(message)].filter(Boolean).join(" ")));
}, lanes);

test("a run of the chapter about MPI_Init has the requests of two recorded ranks of MPICH", () => open(async (page) => {
  await page.locator("input[type=file]").setInputFiles(new URL("recorded/mpich-allreduce.trace", import.meta.url).pathname);
  await page.getByRole("button", { name: "rank 3: recorded" }).waitFor();
  const recorded = await requests(page, [0, 1]);
  assert.ok(recorded.every((list) => list.length >= 12 && list.includes("get PMI_process_mapping")), JSON.stringify(recorded));
  const own = plays.filter(({ name }) => name === "docs/learn/mpi-init.md");
  assert.ok(own.length >= 2 && own.some(({ isFramed }) => isFramed));
  for (const { link, title } of own) {
    await page.goto("about:blank");
    await page.goto(`${process.env.PMI_PAGE}#${link}`);
    await ready(page);
    assert.equal(await page.evaluate(() => globalThis.playground.app.active.story.lanes.length), 2, title);
    assert.deepEqual(await requests(page, [0, 1]), recorded, title);
  }
}));

test("a get before the fence is told one way, and the server answers so, on one node and on two", () => open(async (page) => {
  for (const nodes of [1, 2]) {
    const text = `ranks 2\nnodes ${nodes}\nscript 0\n open\n put k v\n get k is v\n sleep 600\n fence\n finalize\nend\nscript 1\n open\n sleep 400\n get k missing\n fence\n get k is v\n finalize\nend\n`;
    await page.goto("about:blank");
    await page.goto(`${process.env.PMI_PAGE}#${new URLSearchParams({ text })}`);
    await ready(page);
    const gets = await page.evaluate(() => globalThis.playground.app.active.story.messages.filter(({ name, up }) => name === "get" && !up).map(({ lane, bytes }) => [lane, bytes]));
    const found = "cmd=get_result rc=0 value=v\n";
    assert.deepEqual(gets, [[0, found], [1, "cmd=get_result rc=4\n"], [1, found]], `${nodes} nodes`);
  }
  const chapter = readFileSync(new URL("learn/put-fence-get.md", docs), "utf8").replace(/\s+/g, " ");
  assert.match(chapter, /Until the next fence it is visible to the rank that has put it and to no other: .*? \(`rc=4`\), on one node as on many/);
  assert.doesNotMatch(chapter, /missing, sometimes|may not see it yet|rc=-1/);
  assert.match(readFileSync(new URL("pmi1.md", docs), "utf8").replace(/\s+/g, " "), /before the fence a put is visible to its rank alone/);
  const lesson = await page.evaluate(async () => {
    const { LESSONS } = await import("./app/lessons.js");
    const { predict, because } = LESSONS.find(({ id }) => id === "why-a-fence");
    return [predict[1], ...because].join(" ");
  });
  assert.match(lesson, /there is no such key.*on one node as on many/);
}));

test("a run in a frame of the book is high enough to be seen as a whole, and asks for nothing that a frame lacks", () => open(async (page) => {
  // As mdBook has it: a rem of ten pixels.
  const html = `<!doctype html><style>html { font-size: 62.5%; } body { margin: 15px; }</style><style>${readFileSync(new URL("book.css", docs), "utf8")}</style><iframe class="play" src="index.html?embed=1#scenario=put-fence-get&seed=0"></iframe>`;
  await page.route(/\/chapter\.html$/, (route) => route.fulfill({ body: html, contentType: "text/html" }));
  for (const [width, height] of [[1440, 900], [1024, 700], [390, 844]]) {
    await page.setViewportSize({ width, height });
    await page.goto("about:blank");
    await page.goto(`${process.env.PMI_PAGE}chapter.html`);
    const frame = page.frames()[1] ?? await page.waitForEvent("frameattached");
    await frame.waitForFunction(() => document.documentElement.dataset.ready);
    const own = await page.locator("iframe").boundingBox();
    assert.ok(own.height > 500, `${width} × ${height}: ${own.height} pixels high`);
    const { stage, lanes, bottom } = await frame.evaluate(() => ({
      stage: document.querySelector(".stage").clientHeight, bottom: document.querySelector(".origin").getBoundingClientRect().bottom,
      lanes: [...document.querySelectorAll(".stage .lane")].map((one) => one.getBoundingClientRect().bottom),
    }));
    assert.ok(stage > 280, `${width} × ${height}: the diagram is ${stage} pixels high`);
    assert.ok(lanes.length === 5 && lanes.every((lane) => lane < own.height - 100) && bottom <= own.height, `${width} × ${height}: lanes end at ${lanes}, the page at ${bottom}`);
  }
  // A frame has no panel, so no tab of it.
  assert.deepEqual(plays.filter(({ isFramed, link }) => isFramed && new URLSearchParams(link).has("tab")).map(({ name, title }) => `${name}: ${title}`), []);
}));
