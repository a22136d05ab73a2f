// The tree of node servers.
import assert from "node:assert/strict";
import test from "node:test";
import { open, press, ready, step } from "./browser.mjs";

const view = (page, name) => page.getByRole("group", { name: "View" }).getByRole("button", { name });
const tree = (page, words) => page.getByRole("img", { name: words }).waitFor();
const scenario = (page, name) => page.getByLabel("Scenario", { exact: true }).selectOption(`large ${name}`);

/// A place of the drawn tree in the window: that of a node, or of the head.
const place = (page, node) => page.evaluate(async (node) => {
  const { views } = globalThis.playground;
  await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
  const { spots } = views.tree.scene;
  const { left, top } = views.tree.canvas.getBoundingClientRect();
  return [left + spots[node].x, top + spots[node].y];
}, node);

test("a fence goes up the tree of node servers, and its end comes down", () => open(async (page) => {
  await scenario(page, "20-nodes");
  await tree(page, "Tree of 20-nodes: 20 of 20 nodes attached.");
  await page.keyboard.press("Home");
  await tree(page, "Tree of 20-nodes: 0 of 20 nodes attached, 0 in fence 1.");
  // At each moment of the fence: no node knows more than is below it, and the head counts last.
  const seen = await page.evaluate(async () => {
    const { app } = globalThis.playground;
    const { treeScene } = await import("./later/tree.js");
    const [fence] = app.active.story.fences;
    const from = Math.min(...fence.inside.map(({ asked }) => asked[1]));
    const to = Math.max(...fence.inside.map(({ left }) => left[1]));
    const seen = [];
    for (let step = from; step < to; step++) {
      app.seekStep(step);
      const { collected, sizes, flying, number, view } = treeScene(app, 900, 600);
      seen.push({ head: collected[0], isOver: collected.some((count, node) => number === 1 && count > sizes[node]), up: flying.filter(({ message }) => message.name === "contribution").length,
        down: flying.filter(({ message }) => message.name === "ended").length, inside: view.fences[0].inside, number });
    }
    return seen;
  });
  const first = seen.filter(({ number }) => number === 1);
  assert.ok(first.every(({ isOver, head, inside }) => !isOver && head <= inside), "a node counts what is below it");
  assert.ok(first.some(({ up }) => up >= 4) && seen.some(({ down }) => down >= 4), "frames are seen on their way, in both directions");
  assert.ok(first.every(({ down }) => down === 0), "no end comes down before the head has all");
  assert.ok(first.every(({ head }, at) => at === 0 || head >= first[at - 1].head));
}));

test("a node is followed and killed by hand, and the nodes below it are drawn below its parent", () => open(async (page) => {
  await scenario(page, "20-nodes");
  await tree(page, /^Tree of 20-nodes: 20 of 20 nodes attached/);
  await page.evaluate(() => {
    const { app } = globalThis.playground;
    app.seekStep(app.active.story.messages.find(({ name }) => name === "contribution").sent[1]);
  });
  await page.mouse.click(...await place(page, 1), { delay: 80 });
  assert.equal(await page.evaluate(() => globalThis.playground.app.followed(globalThis.playground.app.active)), 0);
  await page.mouse.click(...await place(page, 1), { button: "right", delay: 80 });
  await page.getByRole("menu", { name: "node 1: in a fence" }).or(page.getByRole("menu", { name: "node 1: attached" })).waitFor();
  await page.getByRole("menuitem", { name: "Kill" }).click({ delay: 80 });
  await press(page, "To the end");
  await tree(page, "Tree of 20-nodes: 19 of 20 nodes attached, 1 lost.");
  const parents = await page.evaluate(() => globalThis.playground.views.tree.scene.parents);
  assert.deepEqual(parents.slice(1, 10), [null, 0, 0, 0, 0, 0, 0, 0, 2]);
  // All nodes are listed, if none is followed.
  await page.keyboard.press("Escape");
  await page.getByRole("tab", { name: "Story" }).click();
  await page.getByRole("button", { name: /the head reports that node 1 is lost/ }).waitFor();
  await page.getByRole("button", { name: /node 7 is attached to the head/ }).first().waitFor();
  // The link has the tree, the fault and the view.
  const last = await step(page);
  await page.waitForFunction((last) => ["view=tree", "kill+1", `at=${last}`].every((part) => location.hash.includes(part)), last);
  const link = page.url();
  await page.goto("about:blank");
  await page.goto(link);
  await ready(page);
  await tree(page, "Tree of 20-nodes: 19 of 20 nodes attached, 1 lost.");
  await page.getByRole("tab", { name: "Inspect" }).click();
  await press(page, "Undo the last");
  await press(page, "To the end");
  await tree(page, "Tree of 20-nodes: 20 of 20 nodes attached.");
}));

test("the head is killed by its menu, and every node ends", () => open(async (page) => {
  await scenario(page, "20-nodes");
  await tree(page, /^Tree of 20-nodes/);
  await page.evaluate(() => globalThis.playground.app.seekIndex(200));
  await page.mouse.click(...await place(page, 0), { button: "right", delay: 80 });
  await page.getByRole("menu", { name: "the head" }).getByRole("menuitem", { name: /^Kill/ }).click({ delay: 80 });
  await press(page, "To the end");
  await tree(page, "Tree of 20-nodes: 0 of 20 nodes attached, 20 lost, the head is lost.");
}));

test("lanes show the frames of a tree between the nodes, and each is read field by field", () => open(async (page) => {
  await scenario(page, "lost-node");
  await tree(page, /1 lost/);
  assert.deepEqual(await view(page, /./).allTextContents(), ["Lanes", "Tree"]);
  await view(page, "Lanes").click({ delay: 80 });
  await page.getByRole("img", { name: /^Sequence of lost-node: 20 nodes/ }).waitFor();
  await page.getByRole("button", { name: "node 1: killed" }).waitFor();
  const up = await page.evaluate(() => {
    const { app } = globalThis.playground;
    const message = app.active.story.messages.find(({ name, lane, peer }) => name === "contribution" && lane === 8 && peer === 1);
    app.seekStep(message.arrived[1]);
    app.pick(message, app.active);
    const scene = app.active.scene();
    return [message.label, scene.yOf(8) > scene.yOf(1)];
  });
  assert.deepEqual(up, ["fence 1: 1 node in", true]);
  const message = page.locator(".message");
  await message.getByText("node 9 → node 2").waitFor();
  await message.getByRole("row", { name: /^nodes.*1 with 16 ranks/ }).waitFor();
  await message.getByRole("row", { name: /^complete.*1/ }).waitFor();
  await page.getByRole("tab", { name: "State" }).click();
  await page.getByRole("meter", { name: "Nodes in the fence" }).waitFor();
}));

test("a job on several nodes is shown as a tree of as many node servers, and Back returns to it", () => open(async (page) => {
  await view(page, "Tree").click({ delay: 80 });
  await tree(page, /^Tree of put-fence-get-as-tree: 2 of 2 nodes attached/);
  assert.equal(await page.getByRole("spinbutton", { name: "Nodes" }).inputValue(), "2");
  // What is shown for a moment only is no step back.
  await page.waitForFunction(() => location.hash.includes("tree+2"));
  await page.getByRole("spinbutton", { name: "Nodes" }).fill("9");
  await page.keyboard.press("Enter");
  await view(page, "Tree").click({ delay: 80 });
  await tree(page, /9 of 9 nodes attached/);
  await page.waitForFunction(() => location.hash.includes("tree+9"));
  await page.goBack();
  await tree(page, /2 of 2 nodes attached/);
  await page.goBack();
  await page.getByRole("button", { name: /^rank 3/ }).waitFor();
  await page.getByRole("img", { name: /^Sequence of put-fence-get/ }).waitFor();
}));

test("4,096 ranks as a tree are shown, a step forth and back", () => open(async (page) => {
  await scenario(page, "4096-ranks-on-64-nodes");
  await tree(page, "Tree of 4096-ranks-on-64-nodes: 64 of 64 nodes attached.");
  const last = await step(page);
  await page.keyboard.press("ArrowLeft");
  assert.ok(await step(page) < last);
  await page.keyboard.press("ArrowRight");
  assert.equal(await step(page), last);
}));

test("a scenario that is no tree, and faults that nodes do not have, are refused with the reason", () => open(async (page) => {
  await scenario(page, "20-nodes");
  await press(page, "Edit its text");
  const dialog = page.getByRole("dialog", { name: "The scenario" });
  await dialog.getByRole("textbox").fill("tree 3\nfault at 5 melt 1\n");
  await dialog.getByRole("button", { name: "Play it" }).click();
  await dialog.getByText("a node can be hit by kill, stop, reset").waitFor();
  await dialog.getByRole("textbox").fill("tree 500\n");
  await dialog.getByRole("button", { name: "Play it" }).click();
  await dialog.getByText("`500` is not between 1 and 400").waitFor();
}));
