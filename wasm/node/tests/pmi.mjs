// The module under test, where `cargo xtask test node` has put it.
import { createRequire } from "node:module";

export const wasm = process.env.PMI_WASM;
export const pmi = createRequire(import.meta.url)(`${wasm}/pmi_wasm_node.js`);
