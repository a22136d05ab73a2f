// A run of the simulator is the same, bit for bit, here and on Linux.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { pmi, wasm } from "./pmi.mjs";

test("every scenario gives the trace that it gives on Linux", () => {
  const linux = readFileSync(`${wasm}/hashes.txt`, "utf8").trimEnd().split("\n");
  const seeds = linux.filter((line) => line.startsWith("put-fence-get ")).length;
  assert.ok(seeds > 0 && linux.length % seeds === 0 && linux.length / seeds > 20);
  assert.deepEqual(pmi.hashes(0, seeds).trimEnd().split("\n"), linux);
});

test("committed hashes are those of a module, too", () => {
  const file = new URL("../../sim/tests/golden.txt", import.meta.url);
  const golden = readFileSync(file, "utf8").trimEnd().split("\n");
  assert.ok(golden.length > 0);
  for (const line of golden) {
    const [name, seed] = line.split(" ");
    assert.equal(pmi.hash(name, BigInt(seed)), line);
  }
});
