// The page: loads the simulator, puts its parts together, and ties them to keys.

import init from "../played/pmi_playground.js";
import { actView } from "./act.js";
import { App } from "./app.js";
import { CoverView } from "./cover.js";
import { button, fill, h, icon } from "./dom.js";
import { Header } from "./header.js";
import * as inspector from "./inspector.js";
import { INTRO, INTRO_SEED, introShots } from "./intro.js";
import { kvsView } from "./kvs.js";
import { legend } from "./legend.js";
import { Teacher } from "./lesson.js";
import { messageMenu, rankMenu } from "./menu.js";
import { notice } from "./notice.js";
import { PresenterMode } from "./presenter.js";
import { Session, usualTab } from "./session.js";
import * as share from "./share.js";
import { splitter } from "./splitter.js";
import { Tabs } from "./tabs.js";
import { theme } from "./theme.js";
import { Transport } from "./transport.js";
import { ViewSwitch } from "./views.js";

/// Opens a dialog by its name; they are loaded with the first one.
const dialog = (name, ...what) => import("../later/dialogs.js").then((dialogs) => dialogs[name](...what)).catch(notice);

async function start() {
  const [scenarios] = await Promise.all([fetch("scenarios/index.json").then((answer) => answer.json()), init()]);
  const isEmbedded = new URLSearchParams(location.search).get("embed") === "1";
  document.body.classList.toggle("embed", isEmbedded);
  const stage = h("div", { class: "stage" });
  const app = new App(stage);
  const session = new Session(app);
  const transport = new Transport(app);
  const teacher = new Teacher(app, { open: (id) => session.learn(id).catch(notice), close: () => (session.source.lesson = null), next: () => session.vary({ seed: session.source.seed + 1n }).catch(notice),
    film: (shots) => presenter.play(shots, ["Now you", () => session.learn(session.source.lesson).catch(notice)]) });
  const tabs = new Tabs(app, [
    ["Story", [["Message", (app) => inspector.messageView(app, session.command())], ["Events", inspector.eventsView]]],
    ["Inspect", [["Act", (app) => actView(app, session)], ["Machines", inspector.machinesView]]],
    ["State", [["Keys", kvsView], ["Waits", inspector.debtsView]]],
  ]);
  session.tabs = tabs;
  const presenter = new PresenterMode(app, tabs);
  const views = new ViewSwitch(app, session);
  session.shown = views;
  session.presenter = presenter;
  const header = new Header(session, scenarios);
  header.onEdit = () => dialog("edit", session);
  header.onSave = () => dialog("save", session);
  header.onOpen = (choose) => dialog("open", session, choose);
  header.onHelp = () => dialog("help");
  header.onPresent = () => presenter.toggle();
  const cover = new CoverView({
    watch: () => watchIntro(session, presenter).catch(notice), learn: () => session.learn("put-fence-get").catch(notice),
    open: () => dialog("open", session, () => header.file.click()), explore: () => session.open("put-fence-get", { seed: 42n }).catch(notice),
  });
  const folding = button("Fold ranks that go through the same", icon("fold"), () => app.fold(!app.isFolded), { key: "c" });
  const greeting = button("Fold handshakes", icon("hello"), () => app.foldHandshake(!app.isHandshakeFolded), { key: "h" });
  const lens = h("div", { class: "lens", role: "group", "aria-label": "Zoom" }, greeting, folding,
    button("Zoom out", icon("minus"), () => app.zoom(1 / 1.5), { key: "−" }), button("Zoom in", icon("plus"), () => app.zoom(1.5), { key: "+" }),
    button("See all of it", icon("fit"), () => app.fit(true), { key: "0" }));
  tabs.element.prepend(teacher.element);
  const main = document.getElementById("main");
  fill(document.getElementById("head"), header.element);
  const above = h("div", { class: "above" }, header.about, views.element);
  const origin = isEmbedded && h("a", { class: "origin", target: "_blank", rel: "noopener" }, "Open in the playground");
  fill(main, h("div", { class: "work" }, above, h("div", { class: "view" }, stage, views.elements, lens, presenter.element),
    legend(), transport.element, origin), splitter(main), tabs.element, cover.element);

  app.colors = theme.colors();
  theme.onChange(() => {
    app.colors = theme.colors();
    app.changed();
    cover.recolor();
  });
  app.onPick = () => tabs.open("Message");
  app.onMenu = ({ message, lane }, pane, place) => {
    app.activate(pane);
    if (message) messageMenu(session, message, place);
    else rankMenu(session, lane, place);
  };
  const setCovered = (isCovered) => {
    document.body.classList.toggle("covered", isCovered);
    if (isCovered) {
      presenter.close();
      app.pause();
      cover.show();
    } else cover.hide();
  };
  session.uncover = () => setCovered(false);
  session.views.push(() => {
    header.show();
    const { lesson: learnt, mutant } = session.source;
    if (teacher.lesson?.id !== learnt || (learnt && !mutant)) teacher.start(learnt);
    tabs.state = null;
    const { text, lesson } = session.source;
    if (!text || (lesson && !mutant)) tabs.open(usualTab(session.source));
  });
  app.onChange(() => {
    for (const pane of app.panes) pane.describe();
    views.show();
  });
  app.onChange(() => {
    transport.draw();
    transport.describe();
    presenter.show();
  });
  app.onChange(() => tabs.show());
  app.onChange(() => {
    folding.setAttribute("aria-pressed", String(app.isFolded));
    greeting.setAttribute("aria-pressed", String(app.isHandshakeFolded));
    lens.hidden = app.view !== "lanes";
    teacher.judge();
    remember(app, session);
    if (origin) origin.href = new URL(session.link() || "#", location.href.split("?")[0]).href;
  });
  addEventListener("keydown", (event) => key(event, { app, session, transport, views, presenter }));
  // Space plays and pauses wherever the focus is; Enter presses the focused button. Firefox presses on release.
  addEventListener("keyup", (event) => {
    if (event.key === " " && event.target.closest("button") && !event.target.closest("dialog, .menu") && !isCovered()) event.preventDefault();
  });
  // Back and forward, and links that are typed.
  const restore = async () => {
    const isShown = await session.restore().catch((error) => notice(error) ?? session.source);
    if (isShown && session.film) await watchIntro(session, presenter);
    else if (!isShown && isEmbedded) await watchIntro(session, presenter);
    else if (!isShown) setCovered(true);
    session.isNew = false;
  };
  addEventListener("hashchange", () => restore().catch(notice));
  dropping(session);
  await restore();
  // For the console, and for measurements.
  globalThis.playground = { app, session, cover, views };
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

const isCovered = () => document.body.classList.contains("covered");

/// The film of forty seconds.
async function watchIntro(session, presenter) {
  const { app } = session;
  await session.play({ name: null, text: INTRO, seed: INTRO_SEED }, { step: 0 });
  session.film = "intro";
  app.foldHandshake(true);
  presenter.play(introShots(app.active.story), ["Now you: put, fence, get", () => session.learn("put-fence-get").catch(notice)]);
}

/// Writes what is shown into the address when it has come to rest, and another run at once.
let timer = 0;
function remember(app, session) {
  if (app.isPlaying && (timer || !session.isNew)) return;
  clearTimeout(timer);
  timer = setTimeout(() => {
    timer = 0;
    if (!session.source || isCovered()) return;
    share.write(session.link() || "#", session.isNew);
    session.isNew = false;
  }, 250);
}

function key(event, { app, session, transport, views, presenter }) {
  if (!app.active || isCovered()) return;
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
    n: () => jump(1), N: () => jump(-1), "]": () => app.pickNext(1), "[": () => app.pickNext(-1), "+": () => app.zoom(1.5), "=": () => app.zoom(1.5), "-": () => app.zoom(1 / 1.5), 0: () => app.fit(true),
    h: () => app.foldHandshake(!app.isHandshakeFolded), v: () => views.next(), p: () => presenter.toggle(), m: () => menu(app),
    ArrowUp: () => follow(-1), ArrowDown: () => follow(1), c: () => app.fold(!app.isFolded), f: () => session.fork(), "?": () => dialog("help"),
    Escape: () => {
      presenter.film.end();
      app.picked = null;
      app.follow(active, null);
    },
  };
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

/// The menu of the picked message, or of the rank that is followed or acted on.
function menu(app) {
  const pane = app.active;
  const { left, top } = pane.element.getBoundingClientRect();
  const place = { x: left + 120, y: top + 60 };
  if (app.picked?.sent) app.onMenu({ message: app.picked }, pane, place);
  else app.onMenu({ lane: app.followed(pane) ?? app.chosen }, pane, place);
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
