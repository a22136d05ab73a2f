// The links of the browser do what every link does.
import { createRequire } from "node:module";
import test from "node:test";
import { setImmediate } from "node:timers/promises";
import { pmi } from "./pmi.mjs";

const { WebSocket, WebSocketServer } = createRequire(import.meta.url)("ws");

test("a message port conforms", async () => {
  const connect = async () => {
    const { port1, port2 } = new MessageChannel();
    return [port1, port2];
  };
  await pmi.conform_ports(connect, () => setImmediate());
});

test("a web socket conforms from both ends", async () => {
  const server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
  await new Promise((listening) => server.once("listening", listening));
  const connect = async () => {
    const far = new Promise((connected) => server.once("connection", connected));
    const near = new WebSocket(`ws://127.0.0.1:${server.address().port}`);
    // Whoever is given up before it is open is reset.
    await new Promise((opened) => near.addEventListener("open", opened));
    return [near, await far];
  };
  const swapped = () => connect().then(([near, far]) => [far, near]);
  await pmi.conform_sockets(connect, () => setImmediate());
  await pmi.conform_sockets(swapped, () => setImmediate());
  await new Promise((closed) => server.close(closed));
});
