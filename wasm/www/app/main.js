// The page: loads the simulator, puts its parts together, and ties them to keys.

import init from "../played/pmi_playground.js";
import { actView } from "./act.js";
import { App } from "./app.js";
import * as dialogs from "./dialogs.js";
import { button, fill, h, icon } from "./dom.js";
import { Header } from "./header.js";
import * as inspector from "./inspector.js";
import { Teacher } from "./lesson.js";
import { notice } from "./notice.js";
import { Session } from "./session.js";
import * as share from "./share.js";
import { Tabs } from "./tabs.js";
import { theme } from "./theme.js";
import { Transport } from "./transport.js";

async function start() {
  const [scenarios] = await Promise.all([fetch("scenarios/index.json").then((answer) => answer.json()), init()]);
  const stage = h("div", { class: "stage" });
  const app = new App(stage);
  const session = new Session(app);
  const transport = new Transport(app);
  const teacher = new Teacher(app, { open: (id) => session.learn(id).catch(notice), close: () => (session.source.lesson = null) });
  const tabs = new Tabs(app, [
    ["Act", (app) => actView(app, session)], ["Message", inspector.messageView], ["Machines", inspector.machinesView],
    ["Keys", inspector.keysView], ["Waits", inspector.debtsView], ["Events", inspector.eventsView],
  ]);
  const header = new Header(session, scenarios);
  header.onEdit = () => dialogs.edit(session);
  header.onSave = () => dialogs.save(session);
  header.onOpen = (choose) => dialogs.open(session, choose);
  header.onHelp = dialogs.help;
  const folding = button("Fold ranks that go through the same", icon("fold"), () => app.fold(!app.isFolded), { key: "c" });
  const lens = h("div", { class: "lens", role: "group", "aria-label": "Zoom" }, folding,
    button("Zoom out", icon("minus"), () => app.zoom(1 / 1.5), { key: "−" }), button("Zoom in", icon("plus"), () => app.zoom(1.5), { key: "+" }),
    button("See all of it", icon("fit"), () => app.fit(true), { key: "0" }));
  tabs.element.prepend(teacher.element);
  fill(document.getElementById("head"), header.element);
  fill(document.getElementById("main"), h("div", { class: "work" }, header.about, h("div", { class: "view" }, stage, lens), transport.element), tabs.element);

  app.colors = theme.colors();
  theme.onChange(() => {
    app.colors = theme.colors();
    app.changed();
  });
  app.onPick = () => tabs.open("Message");
  session.views.push(() => {
    header.show();
    if (teacher.lesson?.id !== session.source.lesson || session.source.lesson) teacher.start(session.source.lesson);
    tabs.state = null;
    if (!session.source.text) tabs.open("Events");
  });
  app.onChange(() => {
    for (const pane of app.panes) pane.describe();
    transport.draw();
    transport.describe();
    folding.setAttribute("aria-pressed", String(app.isFolded));
    tabs.show();
    teacher.judge();
    remember(app, session);
  });
  addEventListener("keydown", (event) => key(event, { app, session, transport }));
  // Space plays and pauses wherever the focus is; Enter presses the focused button. Firefox presses on release.
  addEventListener("keyup", (event) => {
    if (event.key === " " && event.target.closest("button") && !event.target.closest("dialog")) event.preventDefault();
  });
  addEventListener("hashchange", () => session.restore().catch(notice));
  dropping(session);
  if (!(await session.restore().catch((error) => notice(error) ?? false))) await session.open("put-fence-get", { seed: 42n });
  // For the console, and for measurements.
  globalThis.playground = { app, session };
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

/// Writes what is shown into the address, when it has come to rest.
let timer = 0;
function remember(app, session) {
  clearTimeout(timer);
  if (!app.isPlaying) timer = setTimeout(() => session.source && share.write(session.link() || "#"), 250);
}

function key(event, { app, session, transport }) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, dialog")) return;
  const { active } = app;
  const lanes = active.rows.map((row) => row.lanes[0]);
  const follow = (way) => {
    const at = lanes.indexOf(app.followed(active));
    app.follow(active, lanes[at < 0 ? (way > 0 ? 0 : lanes.length - 1) : (at + way + lanes.length) % lanes.length], true);
  };
  const jump = (way) => app.jump(transport.kinds.value, way) || notice(`There is no ${way > 0 ? "later" : "earlier"} one.`);
  const keys = {
    " ": () => app.toggle(), ArrowLeft: () => app.stepBy(-1), ArrowRight: () => app.stepBy(1), Home: () => app.seekIndex(0), End: () => app.seekIndex(Infinity),
    n: () => jump(1), N: () => jump(-1), "+": () => app.zoom(1.5), "=": () => app.zoom(1.5), "-": () => app.zoom(1 / 1.5), 0: () => app.fit(true),
    ArrowUp: () => follow(-1), ArrowDown: () => follow(1), c: () => app.fold(!app.isFolded), f: () => session.fork(), "?": () => dialogs.help(),
    Escape: () => {
      app.picked = null;
      app.follow(active, null);
    },
  };
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

/// A file that is dropped anywhere is opened.
function dropping(session) {
  addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", (event) => event.relatedTarget ?? document.body.classList.remove("dropping"));
  addEventListener("drop", async (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    const [file] = event.dataTransfer.files;
    if (!file) return;
    try {
      await session.load(file.name, new Uint8Array(await file.arrayBuffer()));
    } catch (error) {
      notice(error);
    }
  });
}

start().catch(notice);
