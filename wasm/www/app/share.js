// The whole page as a link, and back. The form of a link is known to the simulator alone.

import { read_link, write_link } from "../played/pmi_playground.js";

/// The contents of the address; nothing without a link.
export function read() {
  if (location.hash.length < 2) return null;
  const link = JSON.parse(read_link(location.hash));
  return { ...link, seed: BigInt(link.seed), done: link.runs };
}

/// The link to what is shown: `source` as it was loaded, and `view` as pairs of names and values.
export function fragment({ name, text, seed }, done, step, view) {
  const lines = Object.entries(view).filter(([, value]) => value != null && value !== false).map(([field, value]) => `${field}=${value}`);
  return write_link(Boolean(name), name ?? text, seed, done.map((run) => run.trimEnd()).join("\n\n"), step, lines.join("\n"));
}

/// Puts it into the address. Only another run is a step back.
export function write(link, isNew) {
  if (location.hash === link || (link === "#" && location.hash === "")) return;
  if (isNew) history.pushState(null, "", link);
  else history.replaceState(null, "", link);
}
