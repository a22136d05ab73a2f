// The page: loads the simulator, puts its parts together, and ties them to keys.

import init from "../pmi_playground.js";
import { App } from "./app.js";
import { button, fill, h, icon } from "./dom.js";
import * as inspector from "./inspector.js";
import { notice } from "./notice.js";
import { Run } from "./play.js";
import { Tabs } from "./tabs.js";
import { theme } from "./theme.js";
import { Transport } from "./transport.js";

async function start() {
  const [scenarios] = await Promise.all([
    fetch("scenarios/index.json").then((answer) => answer.json()),
    init(),
  ]);
  const stage = h("div", { class: "stage" });
  const app = new App(stage);
  const transport = new Transport(app);
  const tabs = new Tabs(app, [
    ["Message", inspector.messageView], ["Machines", inspector.machinesView], ["Keys", inspector.keysView],
    ["Debts", inspector.debtsView], ["Events", inspector.eventsView],
  ]);
  const choice = h("select", { "aria-label": "Scenario", onchange: () => load(choice.value) },
    scenarios.map(({ name, about }) => h("option", { value: name, title: about }, name)));
  fill(document.getElementById("head"), h("h1", {}, "PMI playground"), choice, button("Dark or light", icon("theme"), theme.toggle));
  fill(document.getElementById("main"), h("div", { class: "work" }, stage, transport.element), tabs.element);

  async function load(name) {
    try {
      const answer = await fetch(`scenarios/${name}.txt`);
      const text = await answer.text();
      app.show([[new Run({ text, seed: 0n }), name]]);
      choice.value = name;
    } catch (error) {
      notice(error);
    }
  }

  theme.onChange(() => {
    app.colors = theme.colors();
    app.changed();
  });
  app.colors = theme.colors();
  await load("put-fence-get");
  app.onChange(() => {
    for (const pane of app.panes) pane.describe();
    transport.draw();
    transport.describe();
    tabs.show();
  });
}

start().catch(notice);
