"""Signals that do not kill change nothing: no EINTR, no EEXIST of a program's own file, no short read, whoever is away
meanwhile. Signals that kill do so at once, although nobody answers, and what the killed had written is committed."""

import os
import pathlib
import resource
import signal
import subprocess
import time

from stria_cluster import Cluster, main, say, wait_for

HERE = pathlib.Path(__file__).absolute().parent
PROGRAM = next(p for p in [HERE / "signalled", HERE.parents[1] / "bazel-bin/test/cluster/signalled"] if p.exists())
AWAY_S = 5      # longer than any grace; much less than the mount's timeout of a minute
ENDS_S = 20     # generous: it is about a second
LOOPS = 3
BYTES = 300_000
WRITTEN = (bytes(range(ord("a"), ord("a") + 23)) * (BYTES // 23 + 1))[:BYTES]

CALLS = ["open", "mkdir", "rename", "unlink", "rmdir", "link", "symlink", "chmod", "setxattr", "truncate", "ftruncate",
         "fallocate", "pread", "fault", "copy", "lock", "fsync", "close", "exit"]
# Some may be answered from what the mount knows. These may not.
MUST_WAIT = {"open", "mkdir", "rename", "unlink", "chmod", "setxattr", "ftruncate", "pread", "fault", "fsync", "close", "exit"}
WRITERS = ["fsync", "close", "exit"]
KILLERS = [signal.SIGKILL, signal.SIGTERM, signal.SIGQUIT]


def under_signals(c):
    """The servers go and come under programs that make every call."""
    loops = []
    for i in range(LOOPS):
        directory = c.mount / f"loop{i}"
        directory.mkdir()
        loops.append(subprocess.Popen([PROGRAM, "loop", directory, str(LOOPS * (AWAY_S + 4))], stdout=subprocess.PIPE, text=True))
    for name in ["n3", "meta", "n1"]:
        time.sleep(2)
        c.kill(name)
        time.sleep(AWAY_S)
        c.start(name)
    for p in loops:
        said = p.communicate(timeout=120)[0]
        assert p.returncode == 0, f"with signals, and servers away, gave {p.returncode}:\n{said}"
        assert int(said.split()[-2]) > 1, said
    say(f"{LOOPS} programs did all calls, as without signals")


class One:
    """A program that makes one call when it is told to."""

    def __init__(self, c, call, how):
        self.call, self.how = call, how
        self.name = f"{call}-{how.name if how else 'nothing'}"
        self.dir = c.mount / self.name
        self.process = None

    def prepare(self):
        self.dir.mkdir()
        (self.dir / "sub").mkdir()
        for name in ["file", "cold", "gone"]:
            (self.dir / name).write_bytes(b"0" * (2 * BYTES))

    def start(self):
        self.process = subprocess.Popen([PROGRAM, "one", self.call, self.dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        assert self.process.stdout.readline() == "ready\n", self.name

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def written(self):
        return (self.dir / "file").read_bytes()[:BYTES] == WRITTEN


def state_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"


def killed(c):
    """Nobody answers, and each call is under way when its program is killed."""
    ones = [One(c, call, how) for how in KILLERS for call in CALLS if call != "exit" or how is signal.SIGKILL]
    ends = One(c, "exit", None)  # it is not killed: it ends when its bytes are there
    for one in [*ones, ends]:
        one.prepare()
    c.fresh_mount()  # nothing is read from a cache
    for one in [*ones, ends]:
        one.start()
    servers = ["meta", *c.nodes()]
    for name in servers:
        c.kill(name)
    for one in [*ones, ends]:
        one.go()
    time.sleep(AWAY_S)
    waiting = [one for one in ones if one.process.poll() is None]
    for how in KILLERS:
        done = MUST_WAIT - {one.call for one in waiting if one.how is how} - ({"exit"} if how is not signal.SIGKILL else set())
        assert not done, f"{done} did not wait for the servers: {[o.process.communicate() for o in ones if o.call in done]}"
    assert ends.process.poll() is None, "a program ended before its bytes were written"
    began = time.monotonic()
    for one in waiting:
        if one.call != "exit":  # it has ended but for its bytes, and hears of no signal
            one.process.send_signal(one.how)
    waiting = [one for one in waiting if one.call != "exit"]
    while (left := [one for one in waiting if one.process.poll() is None]) and time.monotonic() < began + ENDS_S:
        time.sleep(0.05)
    assert not left, f"killed, and still there: {[(o.name, state_of(o.process.pid)) for o in left]}"
    for one in waiting:
        assert one.process.returncode == -one.how, f"{one.name} ended with {one.process.returncode}: {one.process.communicate()[0]}"
    say(f"{len(waiting)} killed programs ended within {time.monotonic() - began:.1f} s although no server answered")

    for name in servers:
        c.start(name)
    assert ends.process.wait(120) == 0
    assert ends.written(), "a program ended, and what it wrote is not there"
    for one in ones:
        if one.call in WRITERS:
            one.process.wait(120)
            wait_for(f"{one.name}: what the killed program wrote is there", one.written, 120, 0.5)
    c.fresh_mount()
    for one in [*ones, ends]:
        assert one.call not in WRITERS or one.written(), f"{one.name}: what it wrote is gone after a new mount"
    say("what they had written was committed")


def scenario():
    with Cluster(nodes=5, disks=1, layout="raid5:4+1") as c:
        under_signals(c)
        killed(c)
        c.fsck()


main(scenario)
