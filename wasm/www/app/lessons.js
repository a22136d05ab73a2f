// Seven lessons: each a scenario, a few sentences, a task, and a verdict that the page finds by itself.

import { value } from "./play.js";

/// `goals` are pairs of what to do, and how the page sees that it was done.
export const LESSONS = [
  {
    id: "who-am-i",
    title: "Who am I?",
    about: [
      "A process of a parallel program starts without knowing much. It asks its process manager: which version do we speak, how long may my words be, which program am I, how many are we?",
      "You are rank 1. Its two neighbours ask by themselves.",
    ],
    task: "Open the tab Act. As rank 1, press open, then ask for appnum and universe.",
    rank: 1,
    text: script("who-am-i", 3, ["0,2", "open", "appnum", "universe", "finalize"], ["1", "manual"]),
    goals: [
      ["Agree on a version: open", (c) => c.answered(1, "init ")],
      ["Learn which program you are: appnum", (c) => c.answered(1, "appnum")],
      ["Learn how many there may be: universe", (c) => c.answered(1, "universe")],
    ],
  },
  {
    id: "put-fence-get",
    title: "Put, fence, get",
    about: [
      "Ranks find each other through a space of keys. Everybody puts a card with its address, all meet in a fence, and then everybody reads the cards of the others.",
      "Rank 0 and rank 2 do it by themselves, and wait for you in the fence.",
    ],
    task: "As rank 1, put your address under card-1, enter the fence, and get card-0.",
    rank: 1,
    text: script("put-fence-get", 3, ["0,2", "open", "put card-$r tcp://10.0.0.$r", "fence", "get card-1", "finalize"], ["1", "open", "manual"]),
    goals: [
      ["Put card-1", (c) => c.answered(1, "put card-1")],
      ["Enter the fence, and leave it", (c) => c.answered(1, "fence")],
      ["Get card-0", (c) => c.answered(1, "get card-0")],
      ["Say goodbye: finalize", (c) => c.answered(1, "finalize")],
    ],
  },
  {
    id: "why-a-fence",
    title: "Why a fence?",
    about: [
      "A put is not seen by others at once: it may still be on its way, or on another node. The fence is the promise that it is there. Look at the tab Keys: it shows what waits before the fence, and what everybody sees.",
    ],
    task: "As rank 1, get card-0 before any fence and see that it is missing. Then enter the fence and get it again.",
    rank: 1,
    text: script("why-a-fence", 2, ["0", "open", "put card-0 tcp://10.0.0.1", "fence", "finalize"], ["1", "open", "manual"]),
    goals: [
      ["Get card-0 too early: there is none", (c) => c.refused(1, "get")],
      ["Enter the fence", (c) => c.answered(1, "fence")],
      ["Get card-0 again: there it is", (c) => c.answered(1, "get card-0")],
    ],
  },
  {
    id: "a-rank-dies",
    title: "A rank dies",
    about: [
      "Four ranks meet in a fence, and rank 2 is late: it computes before it comes. A fence waits for everybody, so what if somebody will never come?",
      "A good process manager says who: by rank, at once, to a person.",
    ],
    task: "Play until some ranks wait in the fence. Then kill rank 2 (tab Act), play on, and pick the red report to read it.",
    rank: 2,
    text: script("a-rank-dies", 4, ["all", "open", "put card-$r a$r", "fence", "get card-2", "finalize"],
      ["2", "open", "sleep 700", "put card-2 a2", "fence", "get card-0", "finalize"]),
    goals: [
      ["Kill rank 2 while others wait in the fence", (c) => c.story.events.some((event) => event.text === "link 2 fault kill" && c.waiting(event.at[1]) > 0 && event.at[1] <= c.step)],
      ["See the report on the server's lane", (c) => c.story.events.some((event) => event.kind === "report" && event.lane === 2 && event.at[1] <= c.step)],
      ["Pick it and read it", (c) => c.picked?.kind === "report" && c.picked.lane === 2],
    ],
  },
  {
    id: "version-mismatch",
    title: "Version mismatch",
    about: [
      "The most common trouble in the field: a program was built against one PMI, and started by another. The first line of a conversation decides. Rank 1 has said nothing yet.",
      "A launcher that does not notice starts N copies of rank 0 of 1. This one says so.",
    ],
    task: "Let rank 1 ask for a version that nobody speaks: tab Act, Wrong version. Pick the server's answer, and find the report.",
    rank: 1,
    text: script("version-mismatch", 2, ["0", "open", "finalize"], ["1", "manual"]),
    goals: [
      ["Ask for a version that nobody speaks", (c) => c.said(1, (message) => message.raw && message.name === "init" && value(message, "pmi_version") === "9")],
      ["Pick the answer of the server", (c) => c.keep("answer", c.picked?.up === false && c.picked.lane === 1)],
      ["See that rank 1, and nobody else, is reported", (c) => c.reported().length > 0 && c.reported().every((lane) => lane === 1)],
      ["See that rank 0 finishes all the same", (c) => c.answered(0, "finalize")],
    ],
  },
  {
    id: "spawn",
    title: "Spawn",
    about: [
      "A job may grow: a rank asks its process manager to start more processes. They are a job of their own, with ranks from 0 and a space of keys of their own, and are told how to reach whoever asked for them.",
      "This was recorded under the launcher of MPICH: one process asks for another. Rank 0:0 is the parent, rank 1:0 its child.",
    ],
    task: "Pick three messages, in the diagram or in the tab Events.",
    file: "lessons/spawn.log",
    goals: [
      ["The question for a new process", (c) => c.keep("spawn", c.picked?.up && c.picked.name === "spawn")],
      ["The first message of the child", (c) => c.keep("child", c.picked != null && c.picked.lane === 1 && c.picked.name === "init" && c.picked.up)],
      ["The answer that tells the child how to reach its parent", (c) => c.keep("parent", c.picked?.up === false && c.asked(c.picked) === "PARENT_ROOT_PORT_NAME")],
    ],
  },
  {
    id: "a-real-trace",
    title: "Reading a real trace",
    about: [
      "This was recorded: MPICH started four ranks on two nodes, with the option -verbose. What you have learnt is all there, in the words of a library that many programs use.",
      "You can open traces and logs of your own: drop a file on the page.",
    ],
    task: "Pick the messages that are asked for. The tab Events lists all of them; the keys ← and → go through time.",
    file: "lessons/two-nodes.log",
    goals: [
      ["Pick a question for PMI_process_mapping, which says who shares a node", (c) => c.keep("mapping", c.picked?.up && value(c.picked, "key") === "PMI_process_mapping")],
      ["Pick the message that completes the first fence: the last rank enters", (c) => c.keep("last", c.picked != null && c.picked === c.completing(0))],
      ["Pick an answer that brings a rank the card of another", (c) => c.keep("card", c.picked?.up === false && c.picked.name === "get" && c.putBy(c.asked(c.picked)).some((lane) => lane !== c.picked.lane))],
    ],
  },
];

/// A scenario for a lesson: links of one speed, and scripts, each with its ranks in front.
function script(name, ranks, ...scripts) {
  const parts = scripts.map(([who, ...steps]) => `script ${who}\n${steps.map((step) => `  ${step}\n`).join("")}end\n`);
  return `name lesson-${name}\nranks ${ranks}\nall pace 10..30 latency 60..90\n\n${parts.join("\n")}`;
}

/// What goals may look at: what has happened up to the moment that is looked at.
export class Context {
  constructor(app, kept) {
    const { story } = app.active;
    Object.assign(this, { story, step: app.stepOf(app.active), picked: app.picked, kept });
  }

  /// Whether a rank has heard a yes to a question that begins so.
  answered(lane, question) {
    return this.#answers(lane).some(({ asked, text }) => asked.startsWith(question) && / got \d+ 0( |$)/.test(text) && !text.endsWith(" missing"));
  }

  /// Whether a rank has heard a no.
  refused(lane, question) {
    return this.#answers(lane).some(({ asked, text }) => asked.startsWith(question) && (!/ got \d+ 0( |$)/.test(text) || text.endsWith(" missing")));
  }

  #answers(lane) {
    const own = this.story.events.filter((event) => event.lane === lane && event.at[1] <= this.step);
    const asks = new Map(own.filter((event) => event.kind === "ask").map((event) => {
      const [, , , number, ...words] = event.text.split(" ");
      return [number, words.join(" ")];
    }));
    return own.filter((event) => event.kind === "answer").map(({ text }) => ({ text, asked: asks.get(text.split(" ")[3]) ?? "" }));
  }

  /// Whether a rank has said such a message.
  said(lane, is) {
    return this.story.messages.some((message) => message.up && message.lane === lane && message.sent[1] <= this.step && is(message));
  }

  /// The ranks that were reported.
  reported() {
    return this.story.events.filter((event) => event.kind === "report" && event.at[1] <= this.step).map((event) => event.lane);
  }

  /// How many ranks were in a fence after a step.
  waiting(step) {
    return this.story.fences.flatMap((fence) => fence.inside)
      .filter((visit) => visit.came && visit.came[1] <= step && (!visit.freed || visit.freed[1] > step)).length;
  }

  /// The message with which the last rank enters a fence.
  completing(index) {
    const last = this.story.fences[index]?.inside.toSorted((a, b) => b.came[1] - a.came[1])[0];
    return this.story.messages.find((message) => message.lane === last?.lane && message.up && message.sent[1] === last.asked[1]);
  }

  /// The key that an answer answers.
  asked(answer) {
    const get = this.story.messages.findLast((message) => message.up && message.lane === answer.lane && message.sent[1] < answer.sent[1]);
    return get && value(get, "key");
  }

  /// Who has put a key.
  putBy(key) {
    return this.story.messages.filter((message) => message.up && message.name === "put" && value(message, "key") === key).map((put) => put.lane);
  }

  /// What was seen once stays seen.
  keep(name, is) {
    if (is) this.kept.add(name);
    return this.kept.has(name);
  }
}
