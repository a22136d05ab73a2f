// Which lanes are drawn in which row, and where the rows are.

/// A row for each lane; or one for all lanes that go through the same, if they are folded. More lanes than rows are
/// legible share rows with their neighbours of the same group.
export function rows(story, isFolded) {
  if (!isFolded && story.lanes.length > ROWS_MAX) return banded(story);
  const each = story.lanes.map((lane, index) => ({ lanes: [index], group: lane.group, name: lane.name }));
  if (!isFolded) return each;
  const same = new Map();
  const [messages, events] = [story.messages, story.events].map((list) => Map.groupBy(list, (one) => one.lane));
  for (const row of each) {
    const lane = row.lanes[0];
    const key = signature(story.lanes[lane].dialect, messages.get(lane) ?? [], events.get(lane) ?? []);
    if (same.has(key)) same.get(key).lanes.push(row.lanes[0]);
    else same.set(key, row);
  }
  const folded = [...same.values()];
  for (const row of folded) {
    row.name = listed(row.lanes.map((lane) => story.lanes[lane].name));
  }
  return folded;
}

function banded(story) {
  const size = Math.ceil(story.lanes.length / ROWS_MAX);
  const bands = [];
  story.lanes.forEach((lane, index) => {
    const last = bands.at(-1);
    if (last && last.lanes.length < size && last.group === lane.group) last.lanes.push(index);
    else bands.push({ lanes: [index], group: lane.group });
  });
  return bands.map((band) => ({ ...band, name: listed(band.lanes.map((lane) => story.lanes[lane].name)) }));
}

/// More rows are no longer told apart.
const ROWS_MAX = 256;

/// What a rank goes through, without times and values: ranks with the same are equal.
function signature(dialect, said, all) {
  const events = all.filter((event) => event.kind !== "ask" && event.kind !== "answer");
  // Where bytes are torn, and in which order both sides speak, is chance.
  const words = (up) => said.filter((message) => message.up === up).map((message) => `${message.name}${message.isRefused ? message.code : ""}`);
  const kinds = events.map((event) => `${event.kind} ${event.text.split(" ").slice(2, 4).join(" ")}`);
  return JSON.stringify([dialect, words(true), words(false), kinds]);
}

/// `0–3, 7` for names that are numbers.
export function listed(names) {
  const parts = [];
  for (const name of names) {
    const last = parts.at(-1);
    if (last && Number(name) === Number(last[1]) + 1) last[1] = name;
    else parts.push([name, name]);
  }
  return parts.map(([from, to]) => (from === to ? from : `${from}–${to}`)).join(", ");
}

/// Where everything is, from top to bottom, in a field of so many pixels.
export function geometry(rows, height) {
  const ruler = 26;
  const isLow = height < 320;
  // Of four runs above each other on a laptop, every lane still has its name.
  const isFlat = height < 160;
  const server = ruler + (isLow ? 28 : 40);
  const breaks = rows.filter((row, at) => at > 0 && row.group !== rows[at - 1].group).length;
  const below = isFlat ? 8 : isLow ? 18 : 34;
  const room = height - server - below;
  const spacing = Math.min(Math.max((room - (isFlat ? 18 : isLow ? 26 : 46)) / (rows.length + breaks * 0.35), 9), 132);
  const first = server + Math.max(Math.min(spacing, 110), isFlat ? 26 : isLow ? 34 : 52);
  let y = first;
  const ys = rows.map((row, at) => {
    if (at > 0) y += spacing * (row.group === rows[at - 1].group ? 1 : 1.35);
    return y;
  });
  return { ruler, server, half: 11, spacing, ys, height: Math.max(height, (ys.at(-1) ?? first) + below) };
}
