"""A node is lost when there are no more than the layout needs: its shards are crowded onto the others. When a new
node comes they spread again by themselves; then a node is drained under load and removed. raid5:4+1 on five nodes
with two disks each."""

import multiprocessing

from stria_cluster import MIB, Cluster, main, say, wait_for, write_file

FILES = 12
FILE_BYTES = 32 * MIB + 99


def write_all(mount, first, written):
    for i in range(first, first + 8):
        name = f"during/{i}"
        written.put((name, *write_file(mount, name, 8 * MIB + i)))


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:4+1") as c:
        for i in range(FILES):
            c.write(f"f/{i}", FILE_BYTES + i)
        c.give_up("n5")
        c.wait_whole()
        crowded = c.status()["crowded_stripes"]
        assert crowded > 0, "nothing is crowded although a node is missing"
        c.fresh_mount()
        c.verify()
        say(f"{crowded} stripes are crowded, all bytes are right")
        c.stria("dev", "add", "n6", "--dir", c.cluster)
        wait_for("nothing is crowded any more", lambda: c.status()["crowded_stripes"] == 0, 120)
        c.fresh_mount()
        c.verify()
        say("n6 came, nothing is crowded, all bytes are right")

        c.stria("node", "remove", "n5")
        c.stria("dev", "add", "n7", "--dir", c.cluster)
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
        c.stria("node", "remove", "n2")
        c.kill("n2")
        c.fresh_mount()
        c.verify()
        c.fsck()


main(scenario)
