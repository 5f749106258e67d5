"""A node is lost when there are no more than the layout needs: what is written then is narrow, and its shards are crowded
onto the others. When a new node comes both heal by themselves, while files are read; then the disks are rebalanced, and a
node under load is drained and removed. raid5:4+1 on five nodes with two disks each."""

import json
import multiprocessing

from load import Load
from stria_cluster import MIB, Cluster, main, say, wait_for, write_file

FILES = 12
FILE_BYTES = 32 * MIB + 99


def rebalancing(c):
    return json.loads(c.stria("rebalance", "status", "--json").stdout)["rebalance"]


def used(c, node):
    return sum(c.disk(f"{node}:d{d}")["used_bytes"] for d in (1, 2))


def write_all(mount, first, written):
    for i in range(first, first + 8):
        name = f"during/{i}"
        written.put((name, *write_file(mount, name, 8 * MIB + i)))


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:4+1") as c:
        for i in range(FILES):
            c.write(f"f/{i}", FILE_BYTES + i)
        c.kill("n5")
        wait_for("n5 is missed", lambda: c.node("n5")["state"] in ("suspect", "down"), 30)
        for i in range(4):
            c.write(f"narrow/{i}", FILE_BYTES + 1000 * i)
        narrow = c.status()["narrow_stripes"]
        assert narrow > 0, "nothing is narrow although a node is missing"
        c.stria("node", "out", "n5")
        c.wait_whole()
        crowded = c.status()["crowded_stripes"]
        assert crowded > 0, "nothing is crowded although a node is missing"
        c.fresh_mount()
        c.verify()
        would = c.stria("disk", "can-remove", "n1", "--json", check=False)
        assert would.returncode == 2 and any(f["lost"] for f in json.loads(would.stdout)["files"]), would.stdout
        say(f"{crowded} stripes are crowded, {narrow} narrow, all bytes are right; can-remove says that n1 must not go")
        with Load(c, readers=2, writers=0):
            c.stria("dev", "add", "n6", "--dir", c.cluster)
            wait_for("nothing is crowded any more", lambda: c.status()["crowded_stripes"] == 0, 120)
            wait_for("nothing is narrow any more", lambda: c.status()["narrow_stripes"] == 0, 120)
        would = c.stria("disk", "can-remove", "n1", check=False)
        assert would.returncode == 1, would.stdout
        c.fresh_mount()
        c.verify()
        say("n6 came, nothing is crowded or narrow, all bytes are right")

        c.stria("node", "remove", "n5")
        c.stria("dev", "add", "n7", "--dir", c.cluster)
        before = used(c, "n7")
        c.stria("rebalance", "start")
        wait_for("rebalancing ends", lambda: not rebalancing(c)["running"], 180)
        wait_for("n7 has its part", lambda: used(c, "n7") > before, 10)
        c.wait_whole()
        c.fresh_mount()
        c.verify()
        c.fsck()
        say(f"rebalanced: {used(c, 'n7')} bytes are on n7")

        written = multiprocessing.Queue()
        writers = [multiprocessing.Process(target=write_all, args=(c.mount, 100 * w, written), daemon=True) for w in (1, 2)]
        for w in writers:
            w.start()
        c.stria("node", "drain", "n2")
        for _ in range(8 * len(writers)):
            name, size, digest = written.get(timeout=180)
            c.files[name] = (size, digest)
        for w in writers:
            w.join(60)
            assert w.exitcode == 0, "a write failed during the drain"
        wait_for("n2 is empty", lambda: c.stria("node", "remove", "n2", "--dry-run", check=False).returncode == 0, 180, 1)
        assert c.stria("disk", "can-remove", "n2", check=False).returncode == 0
        c.stria("node", "remove", "n2")
        c.kill("n2")
        c.fresh_mount()
        c.verify()
        c.fsck()


main(scenario)
