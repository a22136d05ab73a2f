// The run of the cover, and the film of forty seconds about it.

/// Three ranks that find each other: put, fence, get.
export const INTRO = `name three-ranks
about "Three ranks find each other: each puts a card with its address, all enter a fence, each reads the cards of the others."
ranks 3
all pace 10..30 latency 60..90

script all
  open
  put card-$r host-$r:500$r
  fence
  get card-$next
  get card-$prev
  sleep 500
  finalize
end
`;

export const INTRO_SEED = 5n;

/// The shots of the film, for the run that is shown. Their times add up to forty seconds.
export function introShots(story) {
  const sent = (name, up, pick) => pick(story.messages.filter((one) => one.name === name && one.up === up));
  const last = (list) => Math.max(...list.map((one) => (one.arrived ?? one.sent)[1]));
  const first = (list) => Math.min(...list.map((one) => one.sent[1]));
  const [fence] = story.fences;
  const came = Math.max(...fence.inside.map((visit) => visit.came[1]));
  const left = Math.max(...fence.inside.map((visit) => visit.left[1]));
  const hello = sent("put", true, first) - 1;
  const goodbye = story.messages.find((one) => one.name === "finalize").sent;
  return [
    { words: "Three processes were started. Each of them knows the way to its server, and nothing of the others.", until: 0, run: 0, hold: 4500, tab: "Keys" },
    { words: "Inside MPI_Init each shakes hands with the server: the protocol version, some limits, the name of the job.", until: hello, run: 2500, hold: 2000 },
    { words: "put: each rank leaves a card with its address. The server keeps it behind a curtain.", until: sent("put", false, last), run: 5000, hold: 2500, tab: "Keys" },
    { words: "fence: no rank goes on before all have come.", until: came - 1, run: 4000, hold: 1500 },
    { words: "The last rank is in. The fence lifts the curtain: every card is visible to all.", until: left, run: 3500, hold: 2500, tab: "Keys" },
    { words: "get: each rank takes a copy of the cards of the others.", until: sent("get", false, last), run: 5000, hold: 1000 },
    { words: "Now each rank has the address of every other: MPI_Init returns, and the program begins.", until: goodbye[1] - 1, ns: goodbye[0] - 1, run: 2500, hold: 1000 },
    { words: "At its end, inside MPI_Finalize, each rank says goodbye to the server.", until: story.steps, run: 1500, hold: 1000 },
  ];
}
