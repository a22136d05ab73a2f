"""Rank 0 connects at once, and identifies itself only after rank 1 has flooded the same port with connections
that say nothing. `pmix` is the port of PMIx clients, `port` that of `--pmi-port`. The argument behind it is a
directory for the signs that the two give each other."""
import os
import pathlib
import socket
import struct
import sys
import time

protocol, signs = sys.argv[1], pathlib.Path(sys.argv[2])
rank = int(os.environ["PMIX_RANK" if protocol == "pmix" else "PMI_ID"])


def call():
    if protocol == "pmix":
        _, _, address = os.environ["PMIX_SERVER_URI41"].partition(";tcp4://")
    else:
        address = os.environ["PMI_PORT"]
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


def wait_for(sign):
    while not (signs / sign).exists():
        time.sleep(0.01)


def identify(client):
    client.settimeout(30)
    if protocol == "port":
        client.sendall(f"cmd=initack pmiid={rank}\n".encode())
        answer = client.recv(100)
        client.sendall(b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n")
        while b"cmd=finalize_ack" not in answer:
            more = client.recv(1000)
            assert more, f"closed after {answer}"
            answer += more
        return
    identity = os.environ["PMIX_NAMESPACE"].encode() + b"\0" + struct.pack(">I", rank)
    credential = struct.pack("=II", os.geteuid(), os.getegid())
    body = b"native\0" + struct.pack(">I", len(credential)) + credential + b"\0" + identity
    body += b"4.2.2\0v41\0\x01hash\0"
    client.sendall(struct.pack("=iIII", -1, 0xFFFFFFFF, len(body), 0) + body)
    assert client.recv(8)[:4] == bytes(4), "the rank was not admitted"
    # Goodbye: COMMAND 5.
    client.sendall(struct.pack(">IIII", 0, 102, 2, 0) + bytes([2, 5]))
    assert client.recv(16), "no answer to the goodbye"


if rank == 0:
    client = call()
    (signs / "connected").touch()
    wait_for("flooded")
    identify(client)
    print("rank 0 was admitted", flush=True)
    (signs / "admitted").touch()
else:
    wait_for("connected")
    silent = [call() for _ in range(400)]
    # The last one was accepted when the first one was closed to make room.
    silent[0].settimeout(30)
    try:
        silent[0].recv(1)
    except ConnectionResetError:
        pass
    (signs / "flooded").touch()
    wait_for("admitted")
    identify(call())
