"""A node dies and gets a successor, then a disk is replaced by a new one in its node, while files are read and written
all the time: no read or write fails, all bytes are right, the old node and disk can be removed."""

from load import Load
from stria_cluster import MIB, Cluster, main, say, wait_for

FILES = 10
FILE_BYTES = 8 * MIB + 7


def await_empty(c, kind, name):
    wait_for(f"{name} is empty",
             lambda: c.stria(kind, "remove", name, "--dry-run", check=False).returncode == 0, 180, 0.5)
    c.stria(kind, "remove", name)


def used(c, disk):
    return c.disk(disk).get("used_bytes", 0)


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:3+1") as c:
        for i in range(FILES):
            c.write(f"f/{i}", FILE_BYTES + i)
        with Load(c) as load:
            c.kill("n2")
            load.progress()
            c.stria("dev", "add", "n6", "--dir", c.cluster)
            would = c.stria("node", "replace", "n2", "n6", "--dry-run").stdout
            assert would.startswith("would: "), would
            c.stria("node", "replace", "n2", "n6")
            await_empty(c, "node", "n2")
            load.progress()
        c.wait_whole()
        assert any(used(c, f"n6:d{d}") for d in (1, 2)), "nothing went to n6"
        c.fresh_mount()
        c.verify()
        c.fsck()
        say("n6 has the place of n2: all bytes are right")

        arguments = c.arguments("n3")
        with Load(c) as load:
            c.kill("n3")
            (c.cluster / "n3/d3").mkdir()
            c.start_with("n3", [*arguments, "--disk", f"{c.cluster / 'n3' / 'd3'},label=d3"])
            wait_for("n3:d3 is there", lambda: c.disk("n3:d3").get("state") == "up", 60)
            load.progress()
            c.stria("disk", "replace", "n3:d1", "n3:d3")
            await_empty(c, "disk", "n3:d1")
            load.progress()
        c.wait_whole()
        assert used(c, "n3:d3"), "nothing went to n3:d3"
        c.fresh_mount()
        c.verify()
        c.fsck()
        say("n3:d3 has the place of n3:d1: all bytes are right")


main(scenario)
