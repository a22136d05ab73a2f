// The worker that reads recordings: the page stays usable meanwhile, and gets columns of numbers without a copy.

import { paired } from "./calls.js";
import init, { Recording } from "../recorded/pmi_playground.js";

addEventListener("message", async ({ data: { module, bytes } }) => {
  try {
    await init({ module_or_path: module });
    const recording = new Recording(bytes);
    const columns = { story: recording.story(), numbers: recording.numbers(), parts: recording.parts(), bytes: recording.bytes() };
    recording.free();
    const calls = paired(columns.numbers);
    postMessage({ ...columns, calls }, [columns.numbers, columns.parts, columns.bytes, ...Object.values(calls)].map(({ buffer }) => buffer));
  } catch (error) {
    postMessage({ error: error.message });
  }
});
