"""A node that was given up comes back before its rebuild is done: what it has counts again, the rebuild is
over, and what was made elsewhere meanwhile is not there twice."""

from stria_cluster import MIB, Cluster, main, say, wait_for

FILES = 6
FILE_BYTES = 24 * MIB + 321


def scenario():
    with Cluster(nodes=6, disks=2, layout="raid5:4+1") as c:
        for i in range(FILES):
            c.write(f"f/{i}", FILE_BYTES + i)
        c.stria("rebuild", "limit", "1M")
        c.give_up("n2")
        wait_for("something is rebuilt", lambda: sum(r["bytes_done"] for r in c.rebuilds()) > 0, 90)
        held = sum(r["bytes_total"] for r in c.rebuilds())
        c.start("n2")
        wait_for("no rebuild is left", lambda: not c.rebuilds() and c.status()["degraded_stripes"] == 0, 60)

        def kept():
            return sum(c.disk(f"n2:d{d}")["used_bytes"] for d in (1, 2))
        wait_for("what was made twice is removed, and the rest is not",
                 lambda: c.status()["garbage_shards"] == 0 and 0 < kept() < held, 60)
        say(f"n2 came back: {kept()} of its {held} bytes count again")
        c.fresh_mount()
        c.verify()
        c.fsck()


main(scenario)
