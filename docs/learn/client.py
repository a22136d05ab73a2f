"""A rank that speaks PMI-1: puts its card, fences, and reads the cards of all ranks."""
import os
import socket

wire = socket.socket(fileno=int(os.environ["PMI_FD"])).makefile("rw", newline="\n")


def call(command, **fields):
    """Sends one request, and returns the fields of its response."""
    words = [f"cmd={command}", *(f"{name}={value}" for name, value in fields.items())]
    print(*words, file=wire, flush=True)
    reply = dict(word.split("=", 1) for word in wire.readline().split())
    if reply.get("rc", "0") != "0":
        raise RuntimeError(f"{command} was refused: {reply}")
    return reply


rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
call("init", pmi_version=1, pmi_subversion=1)
kvs = call("get_my_kvsname")["kvsname"]
call("put", kvsname=kvs, key=f"card-{rank}", value=f"process-{os.getpid()}")
call("barrier_in")
for peer in range(size):
    card = call("get", kvsname=kvs, key=f"card-{peer}")["value"]
    print(f"rank {rank} of {size}: card-{peer} = {card}")
call("finalize")
