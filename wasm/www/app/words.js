// PMI in words: meanings of commands and fields, and states of machines.

/// Purposes of exchanges, by their common names.
export const MEANING = {
  init: "The first request: negotiates the version.",
  initack: "A process that connects by TCP sends its process id.",
  fullinit: "PMI-2: the client sends its rank, and receives the size of the job.",
  get_maxes: "Requests the limits of names, keys and values.",
  get_appnum: "Requests the number of the program in the launch.",
  get_universe_size: "Requests the largest number of processes.",
  get_my_kvsname: "Requests the name of the job's key-value space.",
  put: "Stores a value under a key. Others see it after the next fence.",
  get: "Requests the value under a key.",
  barrier_in: "Enters the fence. The answer comes when all ranks are inside; then all puts are visible.",
  "info-putnodeattr": "Stores an attribute that the ranks of one node share, at once.",
  "info-getnodeattr": "Requests an attribute of the node; it may wait until there is one.",
  "info-getjobattr": "Requests an attribute of the job.",
  publish_name: "Publishes the address of a service.",
  lookup_name: "Requests the address of a service.",
  unpublish_name: "Removes a published name.",
  spawn: "Asks the process manager to start more processes.",
  abort: "Terminates the whole job.",
  greeting: "PMIx: the client sends its rank and its encoding of values.",
  REQ: "PMIx: requests the job-level information.",
  COMMIT: "PMIx: commits the puts. Others get them on request.",
  notice: "PMIx: a message of the server without a request.",
  finalize: "Ends the session. A rank that exits without it is reported.",
};

/// Meanings of fields.
export const FIELD = {
  cmd: "the command", mcmd: "a command of several lines", length: "number of bytes that follow", rc: "0: success",
  pmi_version: "requested or negotiated version", pmi_subversion: "its second part", key: "the key", value: "the value",
  kvsname: "the key-value space", kvsname_max: "longest name of a space", keylen_max: "longest key",
  vallen_max: "longest value", msg: "reason of the error", errmsg: "reason of the error", found: "TRUE if there is one", pmiid: "process id of the client",
  pmirank: "rank of the client", pmijobid: "its job", threaded: "TRUE if several threads send requests", appnum: "number of the program",
  size: "number of ranks", rank: "number of the rank", thrid: "identifies the exchange", group: "participants, and the tag", tag: "identifies the fence, in PMIx the exchange",
  connection: "number of the connection; servers send 0", greeting: "process, and encoding of values", command: "the command",
  body: "values, in the encoding of the greeting", status: "0: success", index: "the number of the connection",
  service: "the service", port: "its address", name: "the name", wait: "TRUE to wait until it exists",
};

/// The states of a client, and their transitions. As in `core/src/client/state.rs`.
export const CLIENT = [
  ["fresh", "nothing is negotiated yet", "init → opening; by TCP first initack → greeting"],
  ["greeting", "waits for its identity", "answer → fresh, or failed"],
  ["opening", "waits for the version", "answer → open; in PMI-2 → joining; or failed"],
  ["joining", "PMI-2: has sent its identity", "answer → open, or failed"],
  ["open", "sends requests, receives answers", "request → open; finalize → finalizing; abort → aborting"],
  ["finalizing", "has sent finalize", "answer → ended"],
  ["aborting", "has sent abort", "sent → ended"],
  ["ended", "over after finalize or abort", "stays"],
  ["failed", "over by an error of the peer", "stays; the first error is kept"],
];

/// The states of a member of the job, as the server knows them. As in `core/src/server/member.rs`.
export const MEMBER = [
  ["absent", "no connection yet", "a link → connected"],
  ["connected", "has a link, has not sent init", "init → open; its end → lost"],
  ["open", "has sent init", "finalize → finalized; leaves before → lost"],
  ["finalized", "has sent finalize", "stays"],
  ["lost", "left early, or its process did", "stays, and is reported by its rank"],
];

/// Rules of the independent checkers.
export const RULE = {
  fence: "no rank leaves a fence before all have entered it",
  value: "a get sees every put that lies before it",
  ring: "a ring gives each rank the values of its neighbours",
  name: "a published name is found until it is unpublished or its job is removed, and no other name is",
  apart: "a job reads in another's key-value space only while they are connected",
  spawn: "a job starts when it was spawned, and the spawning rank receives the true result",
  reply: "no reply without a request",
  bound: "the server's memory for one rank is bounded",
  waits: "no rank waits for one that is done",
  named: "a failed rank is reported by its number",
  blamed: "no other rank is reported",
  harmed: "an error of one rank breaks no other session",
  wanted: "an answer is the one that the script requires",
  expected: "the end is the one that the scenario expects",
  "full-is-honest": "the reported size of a buffer is enough",
};
