// This program is a rank of a job that a launcher runs, and watches it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import test from "node:test";
import { pmi } from "./pmi.mjs";

const { WebSocket } = createRequire(import.meta.url)("ws");

/// Starts a run with pages; gives where they dial in, and what comes of it.
async function start(words) {
  const child = spawn(process.env.PMI_HOST, ["run", "--websocket", "0", ...words]);
  let said = "";
  let out = "";
  child.stdout.on("data", (text) => (out += text));
  const url = await new Promise((found, failed) => {
    child.stderr.on("data", (text) => {
      said += text;
      const match = said.match(/ws:[^ ;]*/);
      if (match) found(match[0]);
    });
    child.on("error", failed);
  });
  const end = new Promise((ended) => child.on("close", (code) => ended({ code, out, said })));
  return { url, end };
}

/// A rank as a shell has it: leaves its card, and reads the one of its neighbour.
const LOCAL = `
  ask() { echo "$1" >&$PMI_FD; read answer <&$PMI_FD; }
  ask "cmd=init pmi_version=1 pmi_subversion=1"
  ask "cmd=get_my_kvsname"; name=\${answer#*kvsname=}
  ask "cmd=put kvsname=$name key=card-$PMI_RANK value=card-of-rank-$PMI_RANK"
  ask "cmd=barrier_in"
  ask "cmd=get kvsname=$name key=card-$(((PMI_RANK + 1) % PMI_SIZE))"; echo \${answer##*=}
  ask "cmd=finalize"`;

test("a rank in wasm and two of Linux are one job", async () => {
  const { url, end } = await start(["--expect", "1", "-n", "2", "sh", "-c", LOCAL]);
  assert.equal(await pmi.caller(new WebSocket(url, "pmi"), 2n, 2, 3), "card-of-rank-0");
  const { code, out, said } = await end;
  assert.deepEqual([code, out.trim().split("\n").sort()], [0, ["card-of-rank-1", "card-of-rank-2"]], said);
});

test("a run is watched live, as a trace", async () => {
  const { url, end } = await start(["--expect", "1", "-n", "1", "sh", "-c", LOCAL]);
  const watcher = new WebSocket(url, "pmi-trace");
  watcher.binaryType = "nodebuffer";
  const pieces = [];
  watcher.on("message", (data) => pieces.push(data));
  const closed = new Promise((resolve) => watcher.on("close", resolve));
  await new Promise((resolve) => watcher.once("message", resolve));
  await pmi.caller(new WebSocket(url, "pmi"), 1n, 1, 2);
  assert.equal(await closed, 1000);
  const text = Buffer.concat(pieces).toString("latin1");
  assert.equal(text.split("cmd=barrier_in\n").length - 1, 2);
  assert.equal((await end).code, 0);
});
