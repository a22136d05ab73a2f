// Runs of many ranks, which are too long for the tests that play every scenario of the simulator.

const job = (name, ranks, nodes, about, steps) => ({ name, about, text: `name ${name}
about "${about}"
ranks ${ranks}
nodes ${nodes}
all pace 0..40 latency 5..60

script all
${steps.map((step) => `  ${step}\n`).join("")}end
` });

const tree = (name, about, steps) => ({ name, about, view: "tree", text: `name ${name}\nabout "${about}"\n${steps.map((step) => `${step}\n`).join("")}` });

/// The runs, by name; trees of nodes at the end.
export const LARGE = [
  job("256-ranks", 256, 8, "256 ranks on 8 nodes put a card, meet in a fence, and read the cards of their neighbours.",
    ["open", "put card-$r addr-$r", "fence", "get card-$next", "get card-$prev", "finalize"]),
  job("4096-ranks", 4096, 64, "4,096 ranks on 64 nodes put a card, meet in a fence, and read the card of their neighbour.",
    ["open", "put card-$r addr-$r", "fence", "get card-$next", "finalize"]),
  tree("20-nodes", "20 nodes with 16 ranks each: two fences go up the tree of node servers, and their ends come down.",
    ["tree 20 radix 4", "ranks 16", "fences 2", "bytes 40..80", "pace 0..300", "latency 60..90"]),
  tree("4096-ranks-on-64-nodes", "4,096 ranks as a tree: 64 nodes with 64 ranks each, and one frame a fence on each edge.",
    ["tree 64 radix 4", "ranks 64", "fences 2", "bytes 100..200", "pace 0..300", "latency 60..90"]),
  tree("lost-node", "Node 1 is killed while a fence is on its way: the nodes below it attach themselves to the head, and it ends without node 1.",
    ["tree 20 radix 4", "ranks 16", "fences 2", "bytes 40..80", "pace 0..300", "latency 60..90", "fault at 5200 kill 1"]),
];
