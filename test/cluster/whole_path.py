"""Files of all sizes read back bit for bit: healthy, with any one node of five killed, after the rebuild."""

import time

from stria_cluster import SIZES, Cluster, main, say


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:4+1") as c:
        for size in SIZES:
            c.write(f"sizes/{size}", size)
        c.fresh_mount()
        c.verify()
        say("healthy: all bytes are right")
        for node in c.nodes():
            c.kill(node)
            c.fresh_mount()
            c.verify()
            say(f"without {node}: all bytes are right")
            c.start(node)
        c.kill("n2")
        time.sleep(4)  # it counts as suspect now: what cannot be copied from it must be rebuilt
        c.stria("dev", "add", "n6", "--dir", c.cluster)
        c.stria("node", "replace", "n2", "n6")
        watched = c.stria("rebuild", "watch", "--limit", 300, timeout=330)
        assert "100 %" in watched.stdout, watched.stdout
        c.fresh_mount()
        c.verify()
        say("after the rebuild: all bytes are right")
        c.kill("n4")
        c.fresh_mount()
        c.verify()
        say("after the rebuild, without n4: all bytes are right, so the rebuild restored redundancy")
        c.start("n4")
        where = c.stria("where", c.mount / f"sizes/{SIZES[-1]}", "--by-host").stdout
        assert "n6" in where and "n2" not in where, where
        c.fsck()


main(scenario)
