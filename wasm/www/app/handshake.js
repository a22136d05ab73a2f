// The handshake of a rank: what it and the server exchange before its first put, fence or get. It can be folded.

/// Names of its exchanges, in all dialects.
export const HELLO = new Set(["init", "initack", "fullinit", "get_maxes", "get_appnum", "get_universe_size", "get_my_kvsname",
  "info-getjobattr", "greeting", "REQ", "attach", "welcome"]);

/// Marks the messages of handshakes, and adds to a story one `handshake` a lane: its start, its end and its messages. `main` is the
/// time of the first message behind one.
export function markHandshakes(story) {
  story.handshakes = story.lanes.map(() => null);
  const isOver = story.lanes.map(() => false);
  story.main = Infinity;
  for (const message of story.messages) {
    const { lane } = message;
    if (message.up && !(HELLO.has(message.name) && !message.raw)) isOver[lane] = true;
    message.isHello = !isOver[lane];
    if (!message.isHello) {
      // Messages are in the order of time.
      if (story.main === Infinity) story.main = message.sent[0];
      continue;
    }
    const own = (story.handshakes[lane] ??= { from: message.sent, to: message.sent, messages: 0 });
    const end = message.arrived ?? message.sent;
    if (end[0] > own.to[0]) own.to = end;
    own.messages += 1;
  }
}

/// Draws each handshake as one bar on its lane.
export function handshakes(pen, s) {
  const { colors, geometry } = s;
  s.story.handshakes.forEach((own, lane) => {
    if (!own || own.from[1] > s.step) return;
    const y = s.yOf(lane);
    if (y < s.seen[0] - 30 || y > s.seen[1] + 30) return;
    const alpha = s.alpha(lane, 1);
    const from = s.x(own.from[0]);
    const to = s.x(Math.min(own.to[0], s.now));
    const tall = Math.min(geometry.spacing * 0.6, 18);
    pen.box(from, y - tall / 2, Math.max(to - from, tall), tall, { color: colors.server, radius: tall / 2, alpha });
    pen.line([[from + tall / 2, y], [Math.max(to - tall / 2, from + tall / 2), y]], { color: colors.faint, width: 1.5, dash: [2, 3], alpha });
    if (geometry.spacing >= 26) pen.text("handshake", from + 2, y - tall / 2 - 8, { color: colors.soft, size: 10.5, alpha, halo: colors.paper });
  });
}
