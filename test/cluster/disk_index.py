"""The index of a disk is lost, one is damaged, one was set aside by the admin, and a disk's directory is not there: the
node starts, serves its other disks, says what is wrong; the indexes are made again by themselves, what is not on the disk
any more is rebuilt, and every byte is right all the time."""

import shutil

from stria_cluster import MIB, Cluster, main, say, wait_for

FILES = 40


def in_use(c, name):
    d = c.disk(name)
    return d.get("state") == "up" and d.get("health") == "ok" and not d.get("problem")


def scenario():
    with Cluster(nodes=5, disks=3, layout="raid5:3+1") as c:
        for i in range(FILES):
            c.write(f"large/{i}", 3 * MIB + 13 * i)
            c.write(f"small/{i}", 70_000 + 977 * i)  # packed in segments
        n3 = c.cluster / "n3"
        refused = c.stria("disk", "reindex", n3 / "d1", check=False)
        assert refused.returncode == 1 and "stop it first" in refused.stderr, refused

        # Lost, damaged, and with some of its shards gone too.
        c.kill("n3")
        shutil.rmtree(n3 / "d1" / "index")
        for manifest in (n3 / "d2" / "index").glob("MANIFEST*"):
            manifest.write_bytes(b"no manifest")
        c.stria("disk", "reindex", n3 / "d3")
        assert (n3 / "d3" / "index.old").exists() and not (n3 / "d3" / "index").exists()
        gone = [p for p in c.shard_files("n3") if p.parts[-4] == "d1"][::3]
        assert gone, "no large shards are on n3:d1"
        for p in gone:
            p.unlink()
        c.start("n3")
        # First of all the node's word: the cluster may not have missed it.
        wait_for("three indexes are made again",
                 lambda: (c.cluster / "log" / "n3.log").read_text().count("the disk serves again") == 3, 60)
        wait_for("all disks of n3 are in use", lambda: all(in_use(c, f"n3:d{i}") for i in (1, 2, 3)), 60)
        say(f"three indexes were made again; {len(gone)} shards are missing")
        log = (c.cluster / "log" / "n3.log").read_text()
        assert log.count("making its index again") == 3 and log.count("has no usable index") >= 3, log[-4000:]
        c.fresh_mount()
        c.verify()
        # What a reader met first is healed by then.
        wait_for("the disk was compared with the metadata",
                 lambda: f"{n3 / 'd1'} was compared" in (c.cluster / "log" / "n3.log").read_text(), 60)
        c.wait_whole()
        c.fsck()

        # Now n3 is needed: another node is gone.
        c.kill("n1")
        c.fresh_mount()
        c.verify()
        c.start("n1")
        wait_for("n1 is up", lambda: c.node("n1")["state"] == "up", 60)
        say("every byte is right without n1, too")

        # A disk that is not there.
        c.kill("n4")
        (n4 := c.cluster / "n4").joinpath("d2").rename(n4 / "unmounted")
        c.start("n4")
        wait_for("n4 serves", lambda: c.node("n4")["state"] == "up" and in_use(c, "n4:d1"), 60)
        wait_for("n4:d2 is absent", lambda: c.disk("n4:d2").get("health") == "absent", 30)
        assert "d2" in c.disk("n4:d2")["problem"], c.disk("n4:d2")
        status = c.stria("status", check=False)
        assert status.returncode == 1 and "n4:d2 is absent" in status.stdout, status.stdout
        c.fresh_mount()
        c.verify()
        c.kill("n4")
        (n4 / "unmounted").rename(n4 / "d2")
        c.start("n4")
        wait_for("n4:d2 is back", lambda: in_use(c, "n4:d2"), 60)

        # And one whose superblock is damaged: it is given up, with the reason.
        c.kill("n4")
        with open(n4 / "d3" / "superblock", "r+b") as f:
            f.seek(100)
            f.write(b"\xff" * 16)
        c.start("n4")
        wait_for("n4:d3 has failed", lambda: c.disk("n4:d3").get("state") == "failed", 60)
        assert "superblock" in c.disk("n4:d3")["problem"], c.disk("n4:d3")
        assert c.node("n4")["state"] == "up" and in_use(c, "n4:d1"), "the node went with its disk"
        wait_for("its shards are elsewhere",
                 lambda: c.stria("disk", "remove", "n4:d3", "--dry-run", check=False).returncode == 0, 120, 1)
        c.stria("disk", "remove", "n4:d3")
        c.wait_whole()
        c.fresh_mount()
        c.verify()
        c.fsck()


main(scenario)
