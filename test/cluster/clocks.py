"""Clocks that are wrong by days and jump while everything runs: nothing depends on wall clocks that agree,
neither tokens nor leases nor the mapping that a client keeps. raid5:4+1 on five nodes."""

import pathlib
import struct

from stria_cluster import MIB, Cluster, main, say, wait_for

HERE = pathlib.Path(__file__).absolute().parent
PRELOADED = [HERE / "libwrong_clock.so", HERE.parents[1] / "bazel-bin/test/cluster/libwrong_clock.so"]
# hours
WRONG = {"meta": 0, "n1": 26, "n2": -26, "n3": 2, "mount": -70}
JUMPED = {"meta": 50, "n1": -26, "n2": 10_000, "n3": -2, "mount": 70}
FILES = [4097, 3 * MIB + 5, 20 * MIB + 1]


class Clocks:
    def __init__(self, c):
        self.c = c

    def file(self, name):
        return self.c.dir / f"clock-{name}"

    def set(self, name, hours):
        """At once, for a process that runs; else when it is started."""
        with open(self.file(name), "r+b" if self.file(name).exists() else "w+b", buffering=0) as f:
            f.write(struct.pack("=q", hours * 3_600_000_000_000))

    def start_again(self, name):
        self.c.kill(name)
        self.c.start(name, LD_PRELOAD=next(p for p in PRELOADED if p.exists()), WRONG_CLOCK=self.file(name))


def use(c, round_name):
    """Everything is there, and more can be written and read, healthy and degraded."""
    c.verify()
    for size in FILES:
        c.write(f"{round_name}/{size}", size)
    c.fresh_mount()  # with the right time
    c.verify()


def scenario():
    with Cluster(nodes=5, disks=1, layout="raid5:4+1") as c:
        clocks = Clocks(c)
        use(c, "right")
        for name, hours in WRONG.items():
            clocks.set(name, hours)
            clocks.start_again(name)
        wait_for("all nodes are up", lambda: all(c.node(n)["state"] == "up" for n in c.nodes()), 60)
        use(c, "wrong")
        # All wrong, and every column is read where it lies: nothing is made up for by parity.
        assert c.status()["degraded_stripes"] == 0, c.status()
        clocks.start_again("mount")
        c.verify()
        say("five wrong clocks: every byte is right")

        with open(c.mount / "open", "w+b", buffering=0) as f:
            f.write(b"before" * 100_000)
            for name, hours in JUMPED.items():
                clocks.set(name, hours)
            for k in range(4):  # some before and some after the jumps are noticed
                f.write(b"during" * 100_000)
                f.seek(0)
                assert f.read(600_000) == b"before" * 100_000
                f.seek(0, 2)
                c.write(f"jump/{k}", FILES[k % len(FILES)])
                c.verify()
        use(c, "jumped")
        clocks.set("meta", -30)
        clocks.start_again("meta")
        use(c, "meta")
        say("they jumped, and the metadata server came back days earlier: every byte is right")
        c.kill("n2")
        use(c, "degraded")
        c.start("n2")
        c.wait_whole()
        c.fsck()


main(scenario)
