"""A rebuild that is limited, paused, hit by a restart of stria-meta and by a second failure, and the node that
comes back when all is over: raid6:4+2 on eight nodes, every byte compared at each stage."""

from stria_cluster import MIB, Cluster, main, say, wait_for

FILES = 12
FILE_BYTES = 8 * MIB + 777
SLOW = "1M"


def scenario():
    with Cluster(nodes=8, disks=1, layout="raid6:4+2") as c:
        for i in range(FILES):
            c.write(f"f/{i}", FILE_BYTES + i)
        c.stria("rebuild", "limit", SLOW)
        c.give_up("n3")
        wait_for("some stripes are rebuilt", lambda: c.rebuild("n3:d1").get("stripes_done", 0) >= 2, 90)
        c.stria("rebuild", "pause")
        before = c.wait_rebuild_rests("n3:d1")
        assert before["paused"] and before["stripes_done"] < before["stripes_total"], before
        say(f"paused after {before['stripes_done']} of {before['stripes_total']} stripes")

        c.kill("meta")
        c.start("meta")
        wait_for("the rebuild is listed again", lambda: c.rebuild("n3:d1").get("stripes_total", 0) > 0, 60)
        after = c.wait_rebuild_rests("n3:d1")
        assert after["paused"], "the pause was forgotten"
        assert after["stripes_done"] >= before["stripes_done"], f"progress was lost: {before} {after}"
        assert after["stripes_total"] == before["stripes_total"], f"{before} {after}"
        assert c.status()["repair_limit_bytes_per_s"] == 1 * MIB, "the limit was forgotten"
        say("after a restart of stria-meta: still paused and limited, nothing of the progress is lost")

        c.stria("rebuild", "resume")
        wait_for("it goes on", lambda: c.rebuild("n3:d1").get("stripes_done", 0) > after["stripes_done"], 60)
        c.give_up("n5")
        c.fresh_mount()
        c.verify()
        say("a second node is gone during the rebuild: all bytes are right")
        c.stria("rebuild", "limit", "none")
        c.wait_whole()
        c.fresh_mount()
        c.verify()
        c.fsck()
        say("both are rebuilt: all bytes are right")

        c.start("n3")
        wait_for("the stale node is up and its garbage is gone",
                 lambda: c.node("n3")["state"] == "up" and c.disk("n3:d1")["used_bytes"] == 0 and not c.shard_files("n3"),
                 90)
        c.stria("node", "remove", "n5")
        assert "n5" not in [n["name"] for n in c.status()["nodes"]]
        c.write("after", FILE_BYTES)
        c.fresh_mount()
        c.verify()
        c.fsck()


main(scenario)
