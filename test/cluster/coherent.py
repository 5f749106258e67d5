"""Two mounts of one cluster and a directory of the local filesystem: the same random changes of a few names, each through one of the
mounts; after each step either mount shows what the local filesystem shows, by name and by files held open."""

import contextlib
import os
import random
import stat
import tempfile
import time

from stria_cluster import Cluster, main, say

SECONDS = float(os.environ.get("STRIA_TEST_SECONDS", 8))
SEED = int(os.environ.get("STRIA_TEST_SEED", 1))
NAMES = [f"n{i}" for i in range(5)]
MAX_HELD = 6


def attempt(f, *args):
    """What f gives, or the errno."""
    try:
        return f(*args)
    except OSError as e:
        return f"errno {e.errno}"


def shown(st):
    return st.st_mode, st.st_nlink, st.st_size if stat.S_ISREG(st.st_mode) else 0


def write(path, data, flags):
    fd = os.open(path, flags | os.O_WRONLY, 0o644)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def replace(root, name, data):
    write(root + "/new", data, os.O_CREAT | os.O_EXCL)
    os.rename(root + "/new", f"{root}/{name}")


class Walk:
    def __init__(self, mounts, local, seed):
        self.mounts, self.local = mounts, local
        self.rng = random.Random(seed)
        self.held = []  # (fd on a mount, fd of the local file)
        self.steps = 0

    def change(self):
        """One, as a function of the directory that it is made in."""
        rng = self.rng
        a, b = rng.choice(NAMES), rng.choice(NAMES)
        data = rng.randbytes(rng.randrange(1, 3000))
        mode, size = rng.choice([0o600, 0o644, 0o755]), rng.randrange(5000)
        return rng.choice([
            lambda d: write(f"{d}/{a}", data, os.O_CREAT | os.O_TRUNC),
            lambda d: os.rename(f"{d}/{a}", f"{d}/{b}"),
            lambda d: os.unlink(f"{d}/{a}"),
            lambda d: os.link(f"{d}/{a}", f"{d}/{b}"),
            lambda d: os.chmod(f"{d}/{a}", mode),
            lambda d: os.truncate(f"{d}/{a}", size),
            lambda d: replace(d, a, data),
        ])

    def hold(self, mount):
        path = "/" + self.rng.choice(NAMES)
        fds = [attempt(os.open, d + path, os.O_RDONLY) for d in (mount, self.local)]
        if isinstance(fds[0], str) or isinstance(fds[1], str):
            assert fds[0] == fds[1], (self.steps, path, fds)
            return
        self.held.append(fds)
        if len(self.held) > MAX_HELD:
            self.let_go(self.rng.randrange(len(self.held)))

    def let_go(self, i):
        for fd in self.held.pop(i):
            os.close(fd)

    def step(self):
        self.steps += 1
        mount = self.rng.choice(self.mounts)
        if self.rng.random() < 0.15:
            self.hold(mount)
        else:
            change = self.change()
            told, expected = attempt(change, mount), attempt(change, self.local)
            assert told == expected, (self.steps, told, expected)
        for d in self.rng.sample(self.mounts, len(self.mounts)):
            name = "/" + self.rng.choice(NAMES)
            got, expected = (attempt(lambda p: shown(os.stat(p)), x + name) for x in (d, self.local))
            assert got == expected, (self.steps, d + name, got, expected)
        if self.held:
            got, expected = ((shown(os.fstat(fd)), os.pread(fd, 5000, 0)) for fd in self.rng.choice(self.held))
            assert got == expected, (self.steps, "held open", got[0], expected[0], got[1] == expected[1])


def scenario():
    with contextlib.ExitStack() as stack:
        c = stack.enter_context(Cluster(nodes=5, disks=1, layout="raid5:4+1"))
        local = stack.enter_context(tempfile.TemporaryDirectory())
        other = c.dir / "other"
        other.mkdir()
        c.stria("dev", "mount", "--dir", c.cluster, "--at", other)
        (c.mount / "d").mkdir()
        walk = Walk([str(c.mount / "d"), str(other / "d")], local, SEED)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            walk.step()
        while walk.held:
            walk.let_go(0)
        assert walk.steps > 50, walk.steps
        say(f"{walk.steps} steps")
        c.fsck()


main(scenario)
