// Runs of many ranks, which are too long for the tests that play every scenario of the simulator.

const job = (name, ranks, nodes, about, steps) => ({ name, about, text: `name ${name}
about "${about}"
ranks ${ranks}
nodes ${nodes}
all pace 0..40 latency 5..60

script all
${steps.map((step) => `  ${step}\n`).join("")}end
` });

/// The runs, by name.
export const LARGE = [
  job("256-ranks", 256, 8, "256 ranks on 8 nodes put a card, meet in a fence, and read the cards of their neighbours.",
    ["open", "put card-$r addr-$r", "fence", "get card-$next", "get card-$prev", "finalize"]),
  job("4096-ranks", 4096, 64, "4,096 ranks on 64 nodes put a card, meet in a fence, and read the card of their neighbour.",
    ["open", "put card-$r addr-$r", "fence", "get card-$next", "finalize"]),
];
