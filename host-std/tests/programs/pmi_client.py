"""A small client of PMI with one fault, which is named in its first argument, for the checker of clients to
find. Every rank puts a value and prints the one of the next rank.

    sound      none
    searching  takes what stands behind the first "value=" of an answer
    trusting   never looks at rc
    careless   looks at no answer to a put or a fence
    patient    takes the end of the connection for silence
    brittle    is killed by a signal if a get fails
    threads    none: it speaks PMI-2, with two gets on their way at once
    ordered    the same, and takes answers in the order of its questions
"""

import os
import re
import signal
import socket
import sys
import time

fault = sys.argv[1]
if "PMI_FD" in os.environ:
    server = socket.socket(fileno=int(os.environ["PMI_FD"]))
elif "PMI_PORT" in os.environ:
    host, port = os.environ["PMI_PORT"].rsplit(":", 1)
    server = socket.create_connection((host, int(port)))
else:
    sys.exit("there is no server")
received = b""


def take(length):
    """The next bytes, or those to the end of the line."""
    global received
    while len(received) < length if length else b"\n" not in received:
        piece = server.recv(4096)
        while not piece and fault == "patient":
            time.sleep(1)
        if not piece:
            sys.exit("the server is gone")
        received += piece
    length = length or received.index(b"\n") + 1
    taken, received = received[:length], received[length:]
    return taken.decode()


def fields(answer, name, separator):
    """What an answer says."""
    pairs = [pair.partition("=") for pair in answer.split(separator) if "=" in pair]
    found = {key: value for key, _, value in reversed(pairs)}
    if found.get("cmd") != name:
        sys.exit(f"{found.get('cmd')} came in place of {name}")
    if fault == "searching" and "value" in found:
        found["value"] = re.search("value=([^ ;,]*)", answer).group(1)
    return found


def lines():
    def ask(request, name):
        server.sendall(f"cmd={request}\n".encode())
        found = fields(take(0).strip(), name, " ")
        blind = fault == "trusting" or fault == "careless" and name in ("put_result", "barrier_out")
        if found.get("rc", "0") != "0" and not blind:
            if fault == "brittle" and name == "get_result":
                os.kill(os.getpid(), signal.SIGSEGV)
            sys.exit(f"{name} says rc={found['rc']}")
        return found

    rank, size = os.environ.get("PMI_RANK"), os.environ.get("PMI_SIZE")
    if "PMI_FD" not in os.environ:
        found = ask(f"initack pmiid={os.environ['PMI_ID']}", "initack")
        rank, size = found["rank"], found["size"]
        for _ in range(3):
            take(0)
    ask("init pmi_version=1 pmi_subversion=1", "response_to_init")
    space = ask("get_my_kvsname", "my_kvsname")["kvsname"]
    ask(f"put kvsname={space} key=card-{rank} value=of-{rank}", "put_result")
    ask("barrier_in", "barrier_out")
    other = (int(rank) + 1) % int(size)
    print(ask(f"get kvsname={space} key=card-{other}", "get_result").get("value"))
    ask("finalize", "finalize_ack")


def frames():
    def say(*said):
        body = "".join(f"{pair};" for pair in said)
        server.sendall(f"{len(body):6}{body}".encode())

    def recv(name):
        found = fields(take(int(take(6))), name, ";")
        if found.get("rc", "0") != "0" or found.get("found") == "FALSE":
            sys.exit(f"{name} says no")
        return found

    server.sendall(b"cmd=init pmi_version=2 pmi_subversion=0\n")
    if fields(take(0).strip(), "response_to_init", " ").get("pmi_version") != "2":
        sys.exit("the server does not speak PMI-2")
    rank = os.environ.get("PMI_RANK") or os.environ["PMI_ID"]
    say("cmd=fullinit", f"pmirank={rank}", "threaded=TRUE")
    rank = int(recv("fullinit-response")["rank"])
    for name in ("a", "b"):
        say("cmd=kvs-put", "thrid=1", f"key={name}{rank}", f"value={name}")
        recv("kvs-put-response")
    say("cmd=kvs-fence", "thrid=1")
    recv("kvs-fence-response")
    for name in ("a", "b"):
        say("cmd=kvs-get", f"thrid={name}", f"key={name}{rank}")
    values = {}
    for name in ("a", "b"):
        found = recv("kvs-get-response")
        values[name if fault == "ordered" else found["thrid"]] = found["value"]
    print(values["a"], values["b"])
    say("cmd=finalize", "thrid=1")
    recv("finalize-response")


frames() if fault in ("threads", "ordered") else lines()
