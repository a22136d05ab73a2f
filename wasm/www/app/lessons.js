// Thirteen lessons: each a scenario, a few sentences, a prediction, a film, a task, a verdict that the page finds by itself, and the reason.

import { value } from "./play.js";

import { LARGE } from "./large.js";

const TREE = LARGE.find(({ name }) => name === "20-nodes").text.replace(/^name .*/, "name lesson-losing-a-node").replace(/^about .*\n/m, "");

/// `about` stands above the question and answers nothing of it; `because` is the answer in whole sentences, which the end of the
/// lesson shows. `goals` are pairs of an action and its check; `predict` is a question with its answers, the right one first; `film` has
/// shots: a caption, the moment up to which it runs (`start`, `held`, `end`, or a step of the story), and its seconds.
export const LESSONS = [
  {
    id: "who-am-i",
    title: "Who am I?",
    about: [
      "A process of a parallel program starts with little information. It lacks the protocol version, the limits of lengths, the number of its program, the number of processes. Its process manager has them.",
      "You are rank 1. Its two neighbours act by themselves.",
    ],
    because: ["The rank begins, and requests one thing after the other. The server of the process manager only answers."],
    task: "In the tab Inspect, as rank 1, press open, then request appnum and universe.",
    rank: 1,
    text: script("who-am-i", 3, ["0,2", "open", "appnum", "universe", "finalize"], ["1", "manual"]),
    predict: ["Who opens the conversation?", "the rank", "the server"],
    film: [["Three processes have been started. Not one of them knows how many there are.", "start", 4],
      ["Ranks 0 and 2 ask their server: a request up, a reply down. Rank 1 says nothing: it waits for you.", "end", 7]],
    goals: [
      ["Send the first message: open", (c) => c.answered(1, "init ")],
      ["Get the number of your program: appnum", (c) => c.answered(1, "appnum")],
      ["Get the largest number of processes: universe", (c) => c.answered(1, "universe")],
    ],
  },
  {
    id: "put-fence-get",
    title: "Put, fence, get",
    about: [
      "Ranks find each other through a key-value space: each rank puts a card with its address, and reads the cards of the others. Between the two there is a fence.",
      "Rank 0 and rank 2 do it by themselves. You are rank 1.",
    ],
    because: ["A fence opens when the last rank of the job is inside. Only behind it each rank reads the cards of the others: rank 0 and rank 2 have waited there for you."],
    task: "As rank 1, put your address under card-1, enter the fence, and get card-0.",
    rank: 1,
    text: script("put-fence-get", 3, ["0,2", "open", "put card-$r tcp://10.0.0.$r", "fence", "get card-1", "finalize"], ["1", "open", "manual"]),
    predict: ["When may rank 0 read the card of rank 1?", "when rank 1 is in the fence too", "as soon as rank 1 has put it", "at any time"],
    film: [["Ranks 0 and 2 shake hands with the server and put their cards.", (story) => story.messages.findLast((one) => one.name === "put")?.arrived?.[1] ?? 0, 6],
      ["Then they enter the fence. There they wait: for rank 1, which is you.", "end", 5]],
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
      "Rank 0 puts card-0, and the server has it. You are rank 1 and want to read it. The tab State shows the keys at the server.",
    ],
    because: [
      "Before the fence the server answers that there is no such key, although it has the card, and on one node as on many. Behind the fence every card is visible to all.",
      "PMI allows a launcher to show the value earlier to ranks of the same node. A program that relies on it works on one node and fails on two.",
    ],
    task: "As rank 1, get card-0 before any fence. Then enter the fence and get it again.",
    rank: 1,
    text: script("why-a-fence", 2, ["0", "open", "put card-0 tcp://10.0.0.1", "fence", "finalize"], ["1", "open", "manual"]),
    predict: ["What does a get before the fence bring?", "nothing: the server says that there is no such key", "the value", "an answer that waits for the fence"],
    film: [["Rank 0 puts card-0 and enters the fence. Its card is at the server, behind a curtain.", "end", 7]],
    goals: [
      ["Get card-0 before the fence", (c) => c.refused(1, "get")],
      ["Enter the fence", (c) => c.answered(1, "fence")],
      ["Get card-0 again, behind the fence", (c) => c.answered(1, "get card-0")],
    ],
  },
  {
    id: "a-rank-dies",
    title: "A rank dies",
    about: [
      "Four ranks enter a fence, and rank 2 is late: it computes first. A fence waits for all ranks of the job.",
    ],
    because: ["Without rank 2 the fence cannot complete. A good process manager notices it, and reports the missing rank at once, by its number."],
    task: "Play until some ranks wait in the fence. Then kill rank 2 (tab Inspect), play on, and pick the red mark at the server to read it.",
    rank: 2,
    text: script("a-rank-dies", 4, ["all", "open", "put card-$r a$r", "fence", "get card-2", "finalize"],
      ["2", "open", "sleep 700", "put card-2 a2", "fence", "get card-0", "finalize"]),
    predict: ["Rank 2 is killed while others wait in the fence. What happens?", "the server reports the dead rank by its number", "they wait without end", "the fence opens without it"],
    film: [["Three ranks put their cards and enter the fence, one after the other.", (story) => story.fences[0]?.inside[2]?.came?.[1] ?? 0, 7],
      ["Rank 2 computes. The fence is incomplete, so no rank leaves it.", (story) => (story.fences[0]?.inside[2]?.came?.[1] ?? 0) + 1, 4]],
    goals: [
      ["Kill rank 2 while others wait in the fence", (c) => c.story.events.some((event) => event.text === "link 2 fault kill" && c.waiting(event.at[1]) > 0 && event.at[1] <= c.step)],
      ["See a red mark on the server's lane", (c) => c.story.events.some((event) => event.kind === "report" && event.lane === 2 && event.at[1] <= c.step)],
      ["Pick it and read it", (c) => c.picked?.kind === "report" && c.picked.lane === 2],
    ],
  },
  {
    id: "version-mismatch",
    title: "Version mismatch",
    about: [
      "The most common problem in practice: a program was built against one PMI, and started by another. The first line of a session decides. Rank 1 has sent nothing yet.",
    ],
    because: [
      "The server refuses the version of rank 1, which may request another one. Rank 1 leaves instead, so the server reports this rank, no other. Rank 0 goes on, and finishes.",
      "A launcher that does not notice starts N copies of rank 0 of 1.",
    ],
    task: "Let rank 1 request an unsupported version: tab Inspect, Wrong version. Play on, let it leave by Leave early, and play to the end. Pick the server's answer.",
    rank: 1,
    text: script("version-mismatch", 2, ["0", "open", "finalize"], ["1", "manual"]),
    predict: ["Who is harmed by the wrong version of rank 1?", "rank 1 alone", "both ranks"],
    film: [["Rank 0 requests version 1.1 and gets it. It does its work, and says goodbye.", "end", 7]],
    goals: [
      ["Request an unsupported version", (c) => c.said(1, (message) => message.raw && message.name === "init" && value(message, "pmi_version") === "9")],
      ["Pick the answer of the server", (c) => c.keep("answer", c.picked?.up === false && c.picked.lane === 1)],
      ["See who is reported", (c) => c.reported().length > 0 && c.reported().every((lane) => lane === 1)],
      ["See what becomes of rank 0", (c) => c.answered(0, "finalize")],
    ],
  },
  {
    id: "spawn",
    title: "Spawn",
    about: [
      "A rank can ask its process manager to start more processes. They receive the address of the rank that spawned them.",
      "This was recorded under the launcher of MPICH: one process, on the upper lane, spawns another, on the lower one.",
    ],
    because: ["Spawned processes are a job of their own, with ranks from 0 and a key-value space of their own: rank 0:0 is the parent, rank 1:0 its child."],
    task: "Pick three messages, in the diagram or in the tab Story.",
    file: "lessons/spawn.trace",
    predict: ["Which rank does a spawned process have?", "0, in a job of its own", "the next one of the job"],
    film: [["One process runs, and asks its server for another one.", (story) => story.messages.find((one) => one.name === "spawn")?.sent[1] ?? 0, 6],
      ["The child begins as every rank does: with init. It asks for the port of its parent.", "end", 7]],
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
      "You can open traces of your own: drop a file on the page.",
    ],
    because: ["The first fences bring the cards of one node to its ranks; where nodes meet, another one brings the cards of all."],
    task: "Pick the requested messages. The tab Story lists all of them; the keys ← and → go through time.",
    file: "lessons/two-nodes.trace",
    predict: ["How many fences does MPI_Init of MPICH need here?", "one or more: the cards of each node, then those of all", "none"],
    film: [["Four ranks on two nodes ask for their job, and put cards with their addresses.", (story) => story.fences[0]?.inside.at(-1)?.came?.[1] ?? 0, 7],
      ["The fence opens, and each reads what the others have put.", "end", 7]],
    goals: [
      ["Pick a request for PMI_process_mapping, which lists the ranks of each node", (c) => c.keep("mapping", c.picked?.up && value(c.picked, "key") === "PMI_process_mapping")],
      ["Pick the message that completes the first fence: the last rank enters", (c) => c.keep("last", c.picked != null && c.picked === c.completing(0))],
      ["Pick an answer that brings a rank the card of another", (c) => c.keep("card", c.picked?.up === false && c.picked.name === "get" && c.putBy(c.asked(c.picked)).some((lane) => lane !== c.picked.lane))],
    ],
  },
  {
    id: "copies",
    title: "N copies of rank 0 of 1",
    about: [
      "A program was built without the PMI of its launcher, which starts it four times. Each process prints: rank 0 of 1.",
    ],
    because: [
      "No process finds a server, so each believes that it is alone, and sends nothing.",
      "Every one of them computes the whole problem and exits with success. That is what makes it hard to see.",
    ],
    task: "Predict, play to the end, and press the name of a process.",
    rank: 0,
    text: script("copies", 4, ["all", "sleep 100..400", "exit 0"]),
    predict: ["How many messages will you see?", "none", "four, one for each process", "eight"],
    film: [["Four processes are started. They compute.", "start", 3], ["And they exit with success. Not one of them has sent a message.", "end", 6]],
    goals: [
      ["Play to the end", (c) => c.isAtEnd()],
      ["Count the messages", (c) => c.isAtEnd() && c.story.messages.length === 0],
      ["Follow one of them: press its name", (c) => c.keep("followed", c.followed != null)],
    ],
  },
  {
    id: "deadlock",
    title: "Fences of pairs",
    about: [
      "Groups of ranks may have fences of their own. Rank 0 begins with the fence of ranks 0 and 1, rank 1 with that of 1 and 2, rank 2 with that of 0 and 2.",
      "The tab State shows who waits for whom, under Wait-for relations.",
    ],
    because: ["Each waits for a rank that waits for another: a circle, in which no fence is ever complete. Fences deadlock like locks, if ranks enter them in different orders."],
    task: "Play to the end, read the relations, and kill one of the ranks to see who is reported.",
    rank: 1,
    text: script("deadlock", 3, ["0", "open", "fence 0,1 tag 1", "fence 0,2 tag 2", "finalize"], ["1", "open", "fence 1,2 tag 3", "fence 0,1 tag 1", "finalize"],
      ["2", "open", "fence 0,2 tag 2", "fence 1,2 tag 3", "finalize"]).replace("all pace", "all dialect 1.2 pace"),
    predict: ["How many ranks get through?", "none", "one", "all three"],
    film: [["Each rank enters the first of its two fences.", (story) => Math.max(...story.fences.map((fence) => fence.inside[0].came?.[1] ?? 0)), 6],
      ["0 waits for 1, 1 for 2, and 2 for 0: a circle. Nothing moves any more.", "end", 5]],
    goals: [
      ["See who waits at the end", (c) => c.waiting(c.step) === 3],
      ["Kill one of them", (c) => c.story.events.some((event) => / fault kill$/.test(event.text) && event.at[1] <= c.step)],
      ["See it reported by its number", (c) => c.reported().length > 0],
    ],
  },
  {
    id: "all-gather",
    title: "The price of an all-gather",
    about: [
      "Eight ranks put a card each, meet in a fence, and then every rank reads the cards of all, its own among them, through one server.",
    ],
    because: [
      "With n ranks these are n gets for each of them: n² requests, and as many replies. Eight ranks make 64 gets.",
      "A thousand would make a million: that is why libraries put one card a node, and why PMIx fences carry the data along.",
    ],
    task: "Predict, play to the end, and fold the equal ranks into one row with the key c.",
    rank: 0,
    text: script("all-gather", 8, ["all", "open", "put card-$r a$r", "fence", "each p", "  get card-$p", "end", "finalize"]),
    predict: ["How many gets do eight ranks send?", "64", "8", "16"],
    film: [["Eight ranks shake hands, put one card each, and meet in the fence.", (story) => Math.max(...story.fences[0].inside.map((visit) => visit.left?.[1] ?? 0)), 6],
      ["Now each reads eight cards: sixty-four requests, sixty-four replies.", "end", 7]],
    goals: [
      ["See all gets", (c) => c.story.messages.filter((one) => one.up && one.name === "get" && one.sent[1] <= c.step).length === 64],
      ["Fold the equal ranks", (c) => c.keep("folded", c.isFolded)],
    ],
  },
  {
    id: "stall",
    title: "Reading a stall report",
    about: [
      "A job stands still. Which rank is to blame? Not the ones that wait: the one that all of them wait for. A launcher that knows the protocol can tell, for it knows who is in the fence.",
      "The tab State lists who is awaited, and by whom.",
    ],
    because: ["Rank 2 was stopped, as a debugger or a full disk would do it, so it never came into the fence."],
    task: "Play to the end, open the tab State, then continue the rank that is awaited (tab Inspect) and play on.",
    rank: 2,
    text: `${script("stall", 4, ["all", "open", "put card-$r a$r", "fence", "finalize"])}fault at 400 stop 2\n`,
    predict: ["Which rank do the others wait for?", "rank 2, which is stopped", "rank 0, as always", "the server"],
    film: [["Four ranks begin. Rank 2 is stopped on its way.", (story) => story.events.find((event) => event.text.includes("stop"))?.at[1] ?? 0, 6],
      ["The others enter the fence and wait. The server knows for whom.", "end", 6]],
    goals: [
      ["See three ranks wait in the fence", (c) => c.waiting(c.step) === 3],
      ["Continue the rank that is awaited", (c) => c.story.events.some((event) => event.text === "link 2 fault continue" && event.at[1] <= c.step)],
      ["See all four finish", (c) => [0, 1, 2, 3].every((lane) => c.answered(lane, "finalize"))],
    ],
  },
  {
    id: "losing-a-node",
    title: "Losing a node",
    about: [
      "On many hosts a launcher starts a server on each. These node servers form a tree: a fence goes up it to the head, each node adds its ranks, and its end comes down. No node has more than four others below it.",
      "The ranks are a number here, 16 on each node. The node servers and the frames between them are real.",
    ],
    because: ["The nodes that were below node 1 attach themselves to the head, which reports the lost node by its number. Both fences end without its ranks."],
    task: "Play until contributions go up, press node 1 and kill it (tab Inspect, or its menu), and play to the end.",
    rank: 0,
    view: "tree",
    text: TREE,
    predict: ["Nodes 5 to 8 are below node 1, which is killed. What becomes of them?", "they attach themselves to the head", "they are lost with it", "they wait until node 1 is back"],
    film: [["Twenty node servers start. Each attaches itself to its parent.", (story) => story.messages.findLast((one) => one.name === "welcome")?.arrived?.[1] ?? 0, 5],
      ["The ranks of a node enter the fence. It waits for the nodes below it, and sends one frame up for all of them.", (story) => Math.max(...story.fences[0].inside.map(({ came }) => came?.[1] ?? 0)), 8],
      ["The head has all twenty. The end goes down, and each node lets its ranks go on.", (story) => Math.max(...story.fences[0].inside.map(({ left }) => left?.[1] ?? 0)), 6]],
    goals: [
      ["Kill a node that has others below it", (c) => c.happened(/^node [1-4] fault kill$/)],
      ["See where those below it attach themselves", (c) => c.happened(/^node ([5-9]|1\d|20) attached 0$/)],
      ["See a red mark at the head", (c) => c.reported().length > 0],
      ["Play to the end of both fences", (c) => c.isAtEnd() && c.reported().length > 0 && c.story.fences.length === 2 && c.story.fences[1].inside.filter(({ left }) => left).length >= 16],
    ],
  },
  {
    id: "pmix-price",
    title: "PMIx and its price",
    about: [
      "The same job in PMIx. A put is no message any more: the client keeps it, and one commit sends all. In return every message has a header of sixteen bytes.",
      "The view Dialects counts messages, bytes and round trips.",
    ],
    because: ["When a rank connects, the server describes the whole job to it: nodes, ranks, limits. That is the longest message, and it grows with the job."],
    task: "Pick a commit, pick the description of the job, and open the view Dialects (key v).",
    rank: 0,
    text: script("pmix-price", 3, ["all", "open", "put card-$r tcp://10.0.0.$r", "commit", "fence", "get-of $next card-$next", "finalize"]).replace("all pace", "all dialect pmix pace"),
    predict: ["Which message is the longest?", "the description of the job, when a rank connects", "the commit", "the fence"],
    film: [["A greeting, and the server describes the job: its nodes, its ranks, its limits.", (story) => story.messages.find((one) => one.name === "COMMIT")?.sent[1] ?? 0, 6],
      ["One commit, one fence, one get: fewer messages, and longer ones.", "end", 7]],
    goals: [
      ["Pick a commit", (c) => c.keep("commit", c.picked?.up && c.picked.name === "COMMIT")],
      ["Pick the description of the job, the reply to REQ", (c) => c.keep("job", c.picked?.up === false && c.picked.name === "REQ")],
      ["Open the view Dialects", (c) => c.keep("dialects", c.view === "dialects")],
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
    Object.assign(this, { story, step: app.stepOf(app.active), picked: app.picked, kept, followed: app.followed(app.active), isFolded: app.isFolded, view: app.view });
  }

  /// True if the displayed moment is the last one.
  isAtEnd() {
    return this.step >= this.story.moments.at(-1).step;
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

  /// True if an event with such a text has happened.
  happened(pattern) {
    return this.story.events.some((event) => pattern.test(event.text) && event.at[1] <= this.step);
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
