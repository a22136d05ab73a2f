// What the page knows about PMI in words: what commands mean, and which states machines have.

/// What an exchange is for, by the name that people know it by.
export const MEANING = {
  init: "The first question: which version do we speak?",
  initack: "A caller says which process it is.",
  fullinit: "PMI-2: the client says which rank it is, and hears who is in the job.",
  get_maxes: "How long may names, keys and values be?",
  get_appnum: "Which program of the launch am I?",
  get_universe_size: "How many processes may there be in all?",
  get_my_kvsname: "What is the name of my job's space of keys?",
  put: "Stores a value under a key. Others see it after the next fence.",
  get: "Asks for the value under a key.",
  barrier_in: "Enters the fence. The answer comes when everybody is inside; then all puts are visible.",
  "info-putnodeattr": "Stores an attribute that the ranks of one node share, at once.",
  "info-getnodeattr": "Asks for an attribute of the node; it may wait until there is one.",
  "info-getjobattr": "Asks for an attribute of the job.",
  publish_name: "Publishes where a service can be reached.",
  lookup_name: "Asks where a service can be reached.",
  unpublish_name: "Takes a published name back.",
  spawn: "Asks the process manager to start more processes.",
  abort: "Asks for the end of the whole job.",
  greeting: "PMIx: the client says which rank it is, and how it writes values.",
  REQ: "PMIx: asks for the description of the job.",
  COMMIT: "PMIx: hands over what was put. Others find it when they ask.",
  notice: "PMIx: what the server tells without being asked.",
  finalize: "Says goodbye. Whoever ends without it is reported.",
};

/// What fields mean.
export const FIELD = {
  cmd: "the command", mcmd: "a command of several lines", length: "how many bytes follow", rc: "0: it worked",
  pmi_version: "version asked for or agreed on", pmi_subversion: "its second part", key: "the key", value: "the value",
  kvsname: "the space of keys", kvsname_max: "longest name of a space", keylen_max: "longest key",
  vallen_max: "longest value", msg: "why not", errmsg: "why not", found: "whether there is one", pmiid: "who the client is",
  pmirank: "which rank the client is", pmijobid: "its job", threaded: "whether threads of it ask", appnum: "number of the program",
  size: "how many", rank: "which rank", thrid: "names the exchange", group: "who takes part, and the tag", tag: "names the fence, in PMIx the exchange",
  connection: "which connection; servers send 0", greeting: "who asks, and how it writes values", command: "what is asked",
  body: "values, as the greeting says they are written", status: "0: it worked", index: "the number of the connection",
  service: "the service", port: "where it is reached", name: "the name", wait: "whether to wait until it is there",
};

/// The states of a client, and where each leads. As in `core/src/client/state.rs`.
export const CLIENT = [
  ["fresh", "nothing was agreed yet", "asks init → opening; a caller first says who it is → greeting"],
  ["greeting", "waits to hear who it is", "answer → fresh, or failed"],
  ["opening", "waits for the version", "answer → open; in PMI-2 → joining; or failed"],
  ["joining", "PMI-2: says who it is and waits", "answer → open, or failed"],
  ["open", "asks, and hears answers", "asks → open; finalize → finalizing; abort → aborting"],
  ["finalizing", "has said goodbye", "answer → ended"],
  ["aborting", "has asked for the end of the job", "sent → ended"],
  ["ended", "over, as it should be", "stays"],
  ["failed", "over by a fault of the peer", "stays; the first error is kept"],
];

/// How far a member of the job has come, as the server knows. As in `core/src/server/member.rs`.
export const MEMBER = [
  ["absent", "has not said anything", "a link → connected"],
  ["connected", "has a link, has not said init", "init → open; its end → lost"],
  ["open", "has said init", "finalize → finalized; leaves before → lost"],
  ["finalized", "has said finalize", "stays"],
  ["lost", "left early, or its process did", "stays, and is reported by name"],
];

/// What the rules say, which checkers outside of the server hold it to.
export const RULE = {
  fence: "nobody leaves a fence before all have entered it",
  value: "a get sees every put that lies before it",
  ring: "a ring tells everybody what its neighbours passed on",
  name: "a published name is found until it is taken back or its job is forgotten, and nothing else is",
  apart: "a job reads in another's space only while they are connected",
  spawn: "a job starts when it was spawned, and whoever spawned it is told the truth",
  reply: "no reply without a question",
  bound: "what the server holds for one rank is bounded",
  waits: "nobody waits for somebody who is done",
  named: "a rank that failed is reported by name",
  blamed: "nobody else is",
  harmed: "what one rank does wrong breaks no other conversation",
  wanted: "an answer is what the script wants",
  expected: "the end is what the scenario expects",
  "full-is-honest": "the room that is said to be enough is enough",
};
