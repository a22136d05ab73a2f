// Challenges: a server with a known fault that shows under some seeds only. The checkers know the rules, not the fault.

/// As lessons, with the `mutant` that the server is. The right answer stands first.
export const CHALLENGES = [
  challenge("hasty", "The hasty server", "early-fence",
    "This server lets ranks out of a fence. Most of the time nothing is wrong with it: the ranks come at almost the same moment.",
    "ranks 3\nall pace 0..80 latency 60..90\n\nscript all\n  open\n  put card-$r a$r\n  fence\n  get card-$next\n  finalize\nend\n",
    ["it lets a rank go on before all are inside", "it forgets a card", "it answers another rank"]),
  challenge("silent", "The server that says nothing", "forget-report",
    "In one run of ten a rank is killed at some moment. Then the launcher must name it. This one runs thousands of jobs a day, and its users complain about jobs that end without a word.",
    "ranks 3\nall pace 10..30 latency 60..90\n\nscript all\n  open\n  put card-$r a$r\n  fence\n  get card-$next\n  finalize\nend\n\nfault 10% at 100..700 kill any\n",
    ["it does not report a rank that was killed", "it reports another rank than the one that was killed", "it kills the others without need"]),
  challenge("slanderer", "The wrong rank", "blame-another",
    "The same job, and another server. It does report, and still its users search on the wrong host.",
    "ranks 3\nall pace 10..30 latency 60..90\n\nscript all\n  open\n  put card-$r a$r\n  fence\n  get card-$next\n  finalize\nend\n\nfault 10% at 100..700 kill any\n",
    ["it reports another rank than the one that was killed", "it does not report a rank that was killed", "it reports every rank"]),
];

function challenge(id, title, mutant, about, text, answers) {
  return {
    id: `challenge-${id}`, title, mutant, rank: 0, text: `name challenge-${id}\n${text}`,
    about: [about, "Independent checkers watch the run and know the rules, not the fault. A red mark is a broken rule; the link to it is the proof."],
    task: "Try seeds until a rule is broken. Then pick the red mark, and say what is wrong with this server.",
    predict: ["What is wrong with this server?", ...answers],
    goals: [
      ["Find a seed that breaks a rule", (c) => c.keep("broken", c.story.events.some(({ kind }) => kind === "rule"))],
      ["Pick the broken rule and read it", (c) => c.keep("read", c.picked?.kind === "rule")],
    ],
  };
}
