"""A launcher: server.py N PROGRAM ARGUMENTS... starts N ranks and serves PMI-1.1 to them."""
import os
import selectors
import socket
import subprocess
import sys

KVS = "kvs_0"


class Rank:
    """A process, the server's end of its connection, and the unread part of its next line."""

    def __init__(self, number, size, words):
        self.number, self.unread, self.is_in_fence = number, b"", False
        self.wire, theirs = socket.socketpair()
        names = {"PMI_FD": theirs.fileno(), "PMI_RANK": number, "PMI_SIZE": size, "PMI_SPAWNED": 0}
        environment = os.environ | {name: str(value) for name, value in names.items()}
        with theirs:
            self.process = subprocess.Popen(words, env=environment, pass_fds=[theirs.fileno()])

    def send(self, command, **fields):
        words = [f"cmd={command}", *(f"{name}={value}" for name, value in fields.items())]
        self.wire.sendall((" ".join(words) + "\n").encode())


class Server:
    """The key-value space of one job, and the fence of its ranks."""

    def __init__(self, size, words):
        # One block of ranks: from node 0 on, one node, `size` ranks on it.
        self.values = {"PMI_process_mapping": f"(vector,(0,1,{size}))"}
        self.ranks = [Rank(number, size, words) for number in range(size)]

    def answer(self, rank, line):
        """Answers one request."""
        # A value stands at the end of its line and may contain blanks.
        head, _, value = line.partition(" value=")
        fields = dict(word.split("=", 1) for word in head.split() if "=" in word)
        match fields.get("cmd"):
            case "init":
                is_known = fields.get("pmi_version") == "1"
                rank.send("response_to_init", pmi_version=1, pmi_subversion=1, rc=0 if is_known else -1)
            case "get_maxes":
                rank.send("maxes", kvsname_max=256, keylen_max=64, vallen_max=1024)
            case "get_appnum":
                rank.send("appnum", appnum=0)
            case "get_universe_size":
                rank.send("universe_size", size=len(self.ranks))
            case "get_my_kvsname":
                rank.send("my_kvsname", kvsname=KVS)
            case "put":
                self.values[fields["key"]] = value
                rank.send("put_result", rc=0, msg="success")
            case "get" if fields["key"] in self.values:
                rank.send("get_result", rc=0, msg="success", value=self.values[fields["key"]])
            case "get":
                rank.send("get_result", rc=-1, msg="no_such_key", value="unknown")
            case "barrier_in":
                self.enter(rank)
            case "finalize":
                rank.send("finalize_ack")
            case "abort":
                self.end(int(fields.get("exitcode", 1)), f"rank {rank.number} called abort")
            case other:
                self.end(1, f"rank {rank.number} sent the unknown command {other!r}")

    def enter(self, rank):
        """Releases all ranks when the last one has entered."""
        rank.is_in_fence = True
        if all(one.is_in_fence for one in self.ranks):
            for one in self.ranks:
                one.is_in_fence = False
                one.send("barrier_out")

    def end(self, code, why):
        """Terminates the job."""
        for rank in self.ranks:
            rank.process.kill()
        print(f"server: {why}", file=sys.stderr)
        sys.exit(code)

    def serve(self):
        """Answers requests until all ranks have closed their connections."""
        selector = selectors.DefaultSelector()
        for rank in self.ranks:
            selector.register(rank.wire, selectors.EVENT_READ, rank)
        while selector.get_map():
            for key, _ in selector.select():
                rank, received = key.data, key.fileobj.recv(4096)
                if not received:
                    selector.unregister(key.fileobj)
                *lines, rank.unread = (rank.unread + received).split(b"\n")
                for line in lines:
                    self.answer(rank, line.decode())
        codes = [rank.process.wait() for rank in self.ranks]
        return max(code if code >= 0 else 128 - code for code in codes)


if __name__ == "__main__":
    sys.exit(Server(int(sys.argv[1]), sys.argv[2:]).serve())
