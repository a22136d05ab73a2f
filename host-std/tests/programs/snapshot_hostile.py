"""Offers a segment to the server and misuses it as the word says; prints what the server answers."""

import fcntl, os, socket, struct, sys

LENGTH = 1 << 18
FIXED = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
word = sys.argv[1]
link = socket.socket(fileno=int(os.environ["PMI_FD"]))


def offer(length=LENGTH, seals=FIXED):
    file = os.memfd_create("segment", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, length)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    return file


def ask(message, files=()):
    socket.send_fds(link, [message], list(files))
    answer, received, _, _ = socket.recv_fds(link, 4096, 32)
    return answer, received


def batch(file, number, *messages, length=None):
    body = b"".join(struct.pack("<I", len(message)) + message for message in messages)
    header = struct.pack("<IIII", number, len(body) if length is None else length, 0, 0)
    os.pwrite(file, header + body, 0)


files = {
    "short": lambda: [offer(length=64)],
    "unsealed": lambda: [offer(seals=0)],
    "null": lambda: [os.open("/dev/null", os.O_RDWR)],
    "pipe": lambda: [os.pipe()[0]],
    "many": lambda: [offer(), offer()],
}.get(word, lambda: [offer()])()
answer, received = ask(b"cmd=init pmi_version=1 pmi_subversion=1\n", files)
print("generations", len(received), flush=True)
for generation in received:
    for attempt in (lambda: os.pwrite(generation, b"x", 0), lambda: os.ftruncate(generation, 0)):
        try:
            attempt()
            print("changed a generation")
        except PermissionError:
            pass
name = ask(b"cmd=get_my_kvsname\n")[0].split(b"kvsname=")[1].split()[0]
put = b"cmd=put kvsname=" + name + b" key=k value=v\n"
if word == "truncate":
    batch(files[0], 1, put)
    try:
        os.ftruncate(files[0], 0)
        print("truncated")
    except PermissionError:
        pass
elif word == "good" or word == "again":
    batch(files[0], 1, put)
elif word == "length":
    batch(files[0], 1, put, length=0xFFFFFFFF)
elif word == "garbage":
    batch(files[0], 1, b"\xff\xff\xff\xff no message")
elif word == "partial":
    batch(files[0], 1, put[:10])
elif word == "abort":
    batch(files[0], 1, b"cmd=abort exitcode=7\n")
elif word == "key":
    batch(files[0], 1, b"cmd=put kvsname=" + name + b" key=" + b"k" * 200 + b" value=v\n")
answer = ask(b"cmd=barrier_in\n")[0]
print(answer.decode().strip(), flush=True)
if word == "again":
    # The batch was read: its number has not changed.
    os.pwrite(files[0], put.replace(b"value=v", b"value=w"), 20)
    ask(b"cmd=barrier_in\n")
if word == "key":
    print("refused", struct.unpack("<i", os.pread(files[0], 4, 8))[0])
print(ask(b"cmd=get kvsname=" + name + b" key=k\n")[0].decode().strip(), flush=True)
ask(b"cmd=finalize\n")
