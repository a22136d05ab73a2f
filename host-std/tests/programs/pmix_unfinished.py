"""Opens many connections as its own rank, which clients may, and begins a long request on each. Says how large
the launcher has become when that closes one of them."""
import os
import signal
import socket
import struct

# The launcher terminates a rank that it cannot serve; what this one has to say comes first.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
name, _, address = os.environ["PMIX_SERVER_URI41"].partition(";tcp4://")
host, _, port = address.partition(":")
launcher = name.removeprefix("pmi-host-").removesuffix(".0")


def greeting():
    identity = os.environ["PMIX_NAMESPACE"].encode() + b"\0"
    identity += struct.pack(">I", int(os.environ["PMIX_RANK"]))
    credential = struct.pack("=II", os.geteuid(), os.getegid())
    body = b"native\0" + struct.pack(">I", len(credential)) + credential + b"\0" + identity
    body += b"4.2.2\0v41\0\x01hash\0"
    return struct.pack("=iIII", -1, 0xFFFFFFFF, len(body), 0) + body


def peak():
    with open(f"/proc/{launcher}/status") as status:
        return next(line for line in status if line.startswith("VmHWM")).split()[1]


begun = struct.pack(">IIII", 0, 101, 62 << 20, 0) + bytes(6 << 20)
connections = []
try:
    for _ in range(40):
        client = socket.create_connection((host, int(port)))
        client.sendall(greeting())
        reply = client.recv(8)
        if not reply:
            # The run ends, and the launcher admits no further connection.
            break
        assert reply[:4] == bytes(4), "a child speaks for its rank"
        connections.append(client)
        client.sendall(begun)
except OSError:
    pass
print("launcher", peak(), "after", len(connections), flush=True)
