// Searching in lists that are in the order of time.

/// The index of the first item whose number is `least` or more.
export function firstFrom(list, least, of) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(list[middle]) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

/// The index of the first message that was sent at `ns` or later.
export const sentFrom = (messages, ns) => firstFrom(messages, ns, (message) => message.sent[0]);

/// How many messages were sent up to a step.
export const sentUpTo = (messages, step) => firstFrom(messages, step + 1, (message) => message.sent[1]);
