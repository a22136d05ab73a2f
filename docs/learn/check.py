"""Runs the programs of the book: check.py PMI_HOST. The client runs under `pmi-host` and under the server of the book,
and MPICH's library under that server."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = [sys.executable, os.path.join(HERE, "client.py")]
SERVER = [sys.executable, os.path.join(HERE, "server.py")]
HELLO = os.path.join(HERE, "../../host-std/tests/programs/hello.c")

# With it, a line and its end are two writes, and the ranks of the server of the book share one pipe.
os.environ.pop("PYTHONUNBUFFERED", None)


def run(*words):
    """Sorted lines of the output of a command, which has to succeed."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return sorted(done.stdout.splitlines())


def expect(what, lines, starts):
    """Ends with a message if the lines do not begin like this."""
    if len(lines) != len(starts) or not all(map(str.startswith, lines, starts)):
        sys.exit(f"{what}: unexpected output\n" + "\n".join(lines))
    print(f"{what}: ok")


CARDS = [f"rank {rank} of 3: card-{peer} = process-" for rank in range(3) for peer in range(3)]
expect("client under pmi-host", run(sys.argv[1], "run", "-n", "3", *CLIENT), CARDS)
expect("client under the server of the book", run(*SERVER, "3", *CLIENT), CARDS)

with tempfile.TemporaryDirectory() as directory:
    hello = os.path.join(directory, "hello")
    run("mpicc.mpich", "-o", hello, HELLO)
    expect("MPICH under the server of the book", run(*SERVER, "4", hello), [f"rank {n} of 4 on " for n in range(4)])

failed = subprocess.run([*SERVER, "2", "sh", "-c", "printf 'cmd=nonsense\\n' >&$PMI_FD; exec sleep 60"], capture_output=True,
                        text=True, timeout=60, check=False)
if failed.returncode != 1 or "sent the unknown command 'nonsense'" not in failed.stderr:
    sys.exit(f"a command that no server knows: exit code {failed.returncode}\n{failed.stderr}")
print("unknown command: reported, and no rank is left")
