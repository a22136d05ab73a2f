// One rank, in a thread with a module of its own.
import { parentPort, workerData } from "node:worker_threads";
import { pmi } from "./pmi.mjs";

const { port, rank, size, major, leaves } = workerData;
const said = leaves ? await pmi.leaver(port) : await pmi.worker(port, rank, size, major);
parentPort.postMessage(said ?? null);
