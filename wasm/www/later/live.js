// A job that runs now, watched over a web socket: what is recorded of it arrives as it is recorded.

import { Recorded } from "./recorded.js";

/// Watches the job at `address`. `show` is given the run as far as it is known, again and again; `tell`
/// what a person should know; `ask` is asked for the secret, if there is one.
export function watch(address, { show, tell, ask }) {
  // The rest of the address is secret.
  const launcher = URL.canParse(address) ? new URL(address).host : address;
  const socket = new WebSocket(address, "pmi-trace");
  socket.binaryType = "arraybuffer";
  const parts = [];
  let timer = 0;
  const read = async () => {
    timer = 0;
    try {
      show(await Recorded.of(joined(parts)));
    } catch (error) {
      tell(error);
      socket.close();
    }
  };
  socket.onmessage = async ({ data }) => {
    if (typeof data !== "string") {
      parts.push(new Uint8Array(data));
      // A picture that changes more often than this cannot be read.
      timer ||= setTimeout(read, 250);
    } else if (data.startsWith("challenge ")) {
      try {
        const secret = ask();
        if (secret == null) return socket.close();
        socket.send(await Recorded.proof(secret, data.slice("challenge ".length)));
      } catch (error) {
        tell(error);
        socket.close();
      }
    } else tell(new Error(`the launcher at ${launcher} reports: ${data}`));
  };
  socket.onclose = ({ wasClean, reason }) => {
    if (parts.length) tell("The job has ended, or its launcher has closed the connection.");
    else tell(new Error(`No launcher at ${launcher} can be watched${reason ? `: ${reason}` : wasClean ? "" : ": there is no connection"}.`));
  };
  return { close: () => socket.close() };
}

function joined(parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
