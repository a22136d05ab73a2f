"""Passes frames between two TAP interfaces, each after a delay that a seed decides, in their order.

Arguments: the interfaces, the seed, and the longest delay in milliseconds. It prints a line when it passes frames.
At SIGTERM the delays end: frames on their way arrive, and others pass at once."""
import collections
import fcntl
import os
import random
import select
import signal
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 2, 0x1000
ARP = b"\x08\x06"


def opened(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return fd


one, other = (opened(name) for name in sys.argv[1:3])
delays = random.Random(int(sys.argv[3]))
longest = int(sys.argv[4]) / 1000


def end_delays(*_):
    global longest
    longest = 0
    for target, frames in under_way.items():
        under_way[target] = collections.deque((0, frame) for _, frame in frames)


# By the interface that receives: time and frame.
under_way = {one: collections.deque(), other: collections.deque()}
signal.signal(signal.SIGTERM, end_delays)
print("ready", flush=True)
while True:
    due = [frames[0][0] for frames in under_way.values() if frames]
    # A signal does not end the wait.
    wait = min(max(0, min(due) - time.monotonic()), 0.1) if due else None
    for source in select.select([one, other], [], [], wait)[0]:
        target = other if source == one else one
        frames, frame = under_way[target], os.read(source, 65536)
        # Neighbours find each other at once, as where a delay is farther away.
        if frame[12:14] == ARP:
            os.write(target, frame)
            continue
        at = time.monotonic() + delays.uniform(0, longest)
        frames.append((max(at, frames[-1][0]) if frames else at, frame))
    now = time.monotonic()
    for target, frames in under_way.items():
        while frames and frames[0][0] <= now:
            os.write(target, frames.popleft()[1])
