"""A disk of one node is put into a slot of another: its shards are served from there at once, nothing is rebuilt but what
the move crowded. Then a disk that was away for longer than the grace period comes back, and is used again."""

import collections
import json

from stria_cluster import MIB, Cluster, main, say, wait_for

FILES = 30


def sharing_node(c, node, disk):
    """The node that most files of one stripe share with this disk."""
    shared = collections.Counter()
    for name in (f for f in c.files if f.startswith("small/")):
        columns = {(r["node"], r["disk"]) for r in json.loads(c.stria("where", c.mount / name, "--json").stdout)["ranges"]}
        if (node, disk) in columns:
            shared.update({n for n, _ in columns} - {node})
    return shared.most_common(1)[0][0]


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:2+1") as c:
        for i in range(FILES):
            c.write(f"f/{i}", 3 * MIB + 11 * i)
            c.write(f"small/{i}", 80_000 + 977 * i)
        to = sharing_node(c, "n3", "d1")
        old, new = c.cluster / "n3" / "d1", c.cluster / to / "d3"
        uuid = c.disk("n3:d1")["uuid"]
        used = wait_for("n3:d1 tells what is on it", lambda: c.disk("n3:d1")["used_bytes"], 30)
        arguments = {n: c.arguments(n) for n in ("n3", to)}
        c.stria("rebuild", "pause")
        c.kill("n3")
        c.kill(to)
        old.rename(new)
        slot = [a for a in arguments["n3"] if str(old) in a]
        assert len(slot) == 1 and arguments["n3"][arguments["n3"].index(slot[0]) - 1] == "--disk", arguments["n3"]
        c.start_with("n3", [a for i, a in enumerate(arguments["n3"])
                            if a != slot[0] and (arguments["n3"] + [""])[i + 1] != slot[0]])
        c.start_with(to, arguments[to] + ["--disk", f"{new},label=d3"])

        def moved():
            d = c.disk(f"{to}:d3")
            return d.get("uuid") == uuid and d["state"] == "up" and d
        d = wait_for(f"the disk is {to}:d3", moved, 60)
        assert d["used_bytes"] >= used // 2, d
        assert not c.disk("n3:d1"), c.disk("n3:d1")
        wait_for("crowded stripes are seen", lambda: c.status()["crowded_stripes"] > 0, 30)
        crowded = c.status()["crowded_stripes"]
        assert c.status()["degraded_stripes"] == 0, c.status()
        c.fresh_mount()
        c.verify()
        say(f"n3:d1 is {to}:d3 now; {crowded} stripes are crowded by that, no byte is missing")
        c.stria("rebuild", "resume")
        wait_for("they are spread", lambda: c.status()["crowded_stripes"] == 0, 120)
        c.wait_whole()
        c.fresh_mount()
        c.verify()
        # It bears the loss of the node that it came to.
        c.end_own(to)
        c.fresh_mount()
        c.verify()
        c.start_with(to, arguments[to] + ["--disk", f"{new},label=d3"])
        c.wait_whole()
        c.fsck()


main(scenario)
