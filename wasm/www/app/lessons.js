// Seven lessons: each a scenario, a few sentences, a task, and a verdict that the page finds by itself.

import { value } from "./play.js";

/// `goals` are pairs of an action and its check.
export const LESSONS = [
  {
    id: "who-am-i",
    title: "Who am I?",
    about: [
      "A process of a parallel program starts with little information. It requests the rest from its process manager: the protocol version, the limits of lengths, the number of its program, the number of processes.",
      "You are rank 1. Its two neighbours act by themselves.",
    ],
    task: "Open the tab Act. As rank 1, press open, then request appnum and universe.",
    rank: 1,
    text: script("who-am-i", 3, ["0,2", "open", "appnum", "universe", "finalize"], ["1", "manual"]),
    goals: [
      ["Negotiate a version: open", (c) => c.answered(1, "init ")],
      ["Get the number of your program: appnum", (c) => c.answered(1, "appnum")],
      ["Get the largest number of processes: universe", (c) => c.answered(1, "universe")],
    ],
  },
  {
    id: "put-fence-get",
    title: "Put, fence, get",
    about: [
      "Ranks find each other through a key-value space. Each rank puts a card with its address, all enter a fence, and then each rank reads the cards of the others.",
      "Rank 0 and rank 2 do it by themselves, and wait for you in the fence.",
    ],
    task: "As rank 1, put your address under card-1, enter the fence, and get card-0.",
    rank: 1,
    text: script("put-fence-get", 3, ["0,2", "open", "put card-$r tcp://10.0.0.$r", "fence", "get card-1", "finalize"], ["1", "open", "manual"]),
    goals: [
      ["Put card-1", (c) => c.answered(1, "put card-1")],
      ["Enter the fence, and leave it", (c) => c.answered(1, "fence")],
      ["Get card-0", (c) => c.answered(1, "get card-0")],
      ["Finalize", (c) => c.answered(1, "finalize")],
    ],
  },
  {
    id: "why-a-fence",
    title: "Why a fence?",
    about: [
      "Other ranks do not see a put at once: it may still be in transit, or on another node. After the fence it is visible to all. The tab Keys shows the values that wait for the fence, and the visible ones.",
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
      "Four ranks enter a fence, and rank 2 is late: it computes first. A fence waits for all ranks of the job. Without rank 2 it cannot complete.",
      "A good process manager reports the missing rank at once, by its number.",
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
      "The most common problem in practice: a program was built against one PMI, and started by another. The first line of a session decides. Rank 1 has sent nothing yet.",
      "A launcher that does not notice starts N copies of rank 0 of 1. This one reports it.",
    ],
    task: "Let rank 1 request an unsupported version: tab Act, Wrong version. Pick the server's answer, and find the report.",
    rank: 1,
    text: script("version-mismatch", 2, ["0", "open", "finalize"], ["1", "manual"]),
    goals: [
      ["Request an unsupported version", (c) => c.said(1, (message) => message.raw && message.name === "init" && value(message, "pmi_version") === "9")],
      ["Pick the answer of the server", (c) => c.keep("answer", c.picked?.up === false && c.picked.lane === 1)],
      ["See that rank 1 alone is reported", (c) => c.reported().length > 0 && c.reported().every((lane) => lane === 1)],
      ["See that rank 0 finishes all the same", (c) => c.answered(0, "finalize")],
    ],
  },
  {
    id: "spawn",
    title: "Spawn",
    about: [
      "A rank can ask its process manager to start more processes. They are a job of their own, with ranks from 0 and a key-value space of their own, and receive the address of the rank that spawned them.",
      "This was recorded under the launcher of MPICH: one process spawns another. Rank 0:0 is the parent, rank 1:0 its child.",
    ],
    task: "Pick three messages, in the diagram or in the tab Events.",
    file: "lessons/spawn.log",
    goals: [
      ["The request for a new process", (c) => c.keep("spawn", c.picked?.up && c.picked.name === "spawn")],
      ["The first message of the child", (c) => c.keep("child", c.picked != null && c.picked.lane === 1 && c.picked.name === "init" && c.picked.up)],
      ["The answer with the address of the parent", (c) => c.keep("parent", c.picked?.up === false && c.asked(c.picked) === "PARENT_ROOT_PORT_NAME")],
    ],
  },
  {
    id: "a-real-trace",
    title: "Reading a real trace",
    about: [
      "This was recorded: MPICH started four ranks on two nodes, with the option -verbose. It contains all of the above, in the messages of a widely used library.",
      "You can open traces and logs of your own: drop a file on the page.",
    ],
    task: "Pick the requested messages. The tab Events lists all of them; the keys ← and → go through time.",
    file: "lessons/two-nodes.log",
    goals: [
      ["Pick a request for PMI_process_mapping, which lists the ranks of each node", (c) => c.keep("mapping", c.picked?.up && value(c.picked, "key") === "PMI_process_mapping")],
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

/// The state that goals check: messages and events up to the displayed moment.
export class Context {
  constructor(app, kept) {
    const { story } = app.active;
    Object.assign(this, { story, step: app.stepOf(app.active), picked: app.picked, kept });
  }

  /// True if a rank has received a success for a request that begins so.
  answered(lane, question) {
    return this.#answers(lane).some(({ asked, text }) => asked.startsWith(question) && / got \d+ 0( |$)/.test(text) && !text.endsWith(" missing"));
  }

  /// True if a rank has received a refusal.
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

  /// True if a rank has sent such a message.
  said(lane, is) {
    return this.story.messages.some((message) => message.up && message.lane === lane && message.sent[1] <= this.step && is(message));
  }

  /// The ranks that were reported.
  reported() {
    return this.story.events.filter((event) => event.kind === "report" && event.at[1] <= this.step).map((event) => event.lane);
  }

  /// Number of ranks in a fence after a step.
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

  /// Ranks that have put a key.
  putBy(key) {
    return this.story.messages.filter((message) => message.up && message.name === "put" && value(message, "key") === key).map((put) => put.lane);
  }

  /// A goal that was reached once stays reached.
  keep(name, is) {
    if (is) this.kept.add(name);
    return this.kept.has(name);
  }
}
