// Workers are the ranks of a job, and this thread is its process manager.
import assert from "node:assert/strict";
import test from "node:test";
import { Worker } from "node:worker_threads";
import { pmi } from "./pmi.mjs";

/// Starts a worker for each of `ranks`; gives the ends of the server, and what each will say.
function start(ranks) {
  const channels = ranks.map(() => new MessageChannel());
  const said = ranks.map((rank, at) => {
    const port = channels[at].port1;
    const workerData = { port, rank: at, size: ranks.length, ...rank };
    const file = new URL("./worker.mjs", import.meta.url);
    const worker = new Worker(file, { workerData, transferList: [port] });
    return new Promise((resolve, reject) => {
      worker.once("message", resolve).once("error", reject);
      // Whose port is closed before it has begun hears nothing, and ends.
      worker.once("exit", () => reject(new Error("ended without a word")));
    });
  });
  return { ports: channels.map(({ port2 }) => port2), said };
}

const cards = (size) => Array.from({ length: size }, (_, at) => `card-of-rank-${(at + 1) % size}`);

for (const major of [1, 2]) {
  test(`ranks put, fence and get in PMI-${major}`, async () => {
    const { ports, said } = start([{ major }, { major }, { major }, { major }]);
    assert.equal(await pmi.serve(ports), "");
    assert.deepEqual(await Promise.all(said), cards(4));
  });
}

test("both generations meet in one fence", async () => {
  const { ports, said } = start([{ major: 1 }, { major: 2 }, { major: 1 }]);
  assert.equal(await pmi.serve(ports), "");
  assert.deepEqual(await Promise.all(said), cards(3));
});

test("who goes without a word is named, and what waits for it is told", async () => {
  const { ports, said } = start([{ leaves: true }, { major: 1 }]);
  const served = pmi.serve(ports);
  const waits = assert.rejects(said[1]);
  assert.equal(await said[0], null);
  // The fence cannot end any more; whoever owns the workers ends them.
  ports[1].close();
  const lines = (await served).split("\n");
  assert.ok(lines.some((line) => line.startsWith("rank 0: ")), lines.join("; "));
  await waits;
});
