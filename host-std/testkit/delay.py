"""Passes frames between two TAP interfaces, each after a delay that a seed decides, in their order.

Arguments: the interfaces, the seed, and the longest delay in milliseconds. It prints a line when it passes frames."""
import collections
import fcntl
import os
import random
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 2, 0x1000


def opened(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return fd


one, other = (opened(name) for name in sys.argv[1:3])
delays = random.Random(int(sys.argv[3]))
longest = int(sys.argv[4]) / 1000
# By the interface that receives: time and frame.
under_way = {one: collections.deque(), other: collections.deque()}
print("ready", flush=True)
while True:
    due = [frames[0][0] for frames in under_way.values() if frames]
    wait = max(0, min(due) - time.monotonic()) if due else None
    for source in select.select([one, other], [], [], wait)[0]:
        frames = under_way[other if source == one else one]
        at = time.monotonic() + delays.uniform(0, longest)
        frames.append((max(at, frames[-1][0]) if frames else at, os.read(source, 65536)))
    now = time.monotonic()
    for target, frames in under_way.items():
        while frames and frames[0][0] <= now:
            os.write(target, frames.popleft()[1])
