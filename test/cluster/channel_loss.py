"""A controller dies and takes both of its disks: raid5:4+1 over channels, on three nodes with two channels of two
disks each. All bytes are right; the disks are given up, rebuilt on the other channels, and removed."""

import shutil

from stria_cluster import MIB, Cluster, main, say

FILES = 8
FILE_BYTES = 16 * MIB + 3


def with_channels(arguments):
    out = []
    for word in arguments:
        for disk, channel in (("d1", "sata0"), ("d2", "sata0"), ("d3", "sata1"), ("d4", "sata1")):
            if word.endswith(f",label={disk}"):
                word += f",channel={channel}"
        out.append(word)
    return out


def scenario():
    with Cluster(nodes=3, disks=4, layout="raid5:2+1") as c:
        arguments = {}
        for node in c.nodes():
            arguments[node] = with_channels(c.arguments(node))
            c.kill(node)
            c.start_with(node, arguments[node])
        c.stria("layout", "set", c.mount, "raid5:4+1,domain=channel")
        for i in range(FILES):
            c.write(f"f/{i}", FILE_BYTES + i)
        worst = max(n["stripes"] for n in c.status()["node_loss"]["nodes"])
        assert 0 < worst <= c.status()["stripes"], "five columns on three nodes"
        said = c.stria("status", check=False).stdout
        assert "would lose data: it holds more columns of" in said and "domain=node" in said, said
        assert c.disk("n1:d1")["channel"] == "sata0" and c.disk("n3:d4")["channel"] == "sata1"
        c.end_own("n1")
        for disk in ("d1", "d2"):
            shutil.move(c.cluster / "n1" / disk, c.dir / f"broken-{disk}")
        c.start_with("n1", arguments["n1"])
        c.fresh_mount()
        c.verify()
        say("a channel is gone: all bytes are right")
        for disk in ("n1:d1", "n1:d2"):
            c.stria("disk", "out", disk)
        c.wait_whole()
        c.fresh_mount()
        c.verify()
        c.fsck()
        assert c.status()["crowded_stripes"] == 0, "there were five other channels"
        for disk in ("n1:d1", "n1:d2"):
            c.stria("disk", "remove", disk)
        say("its shards are on the other channels: all bytes are right")


main(scenario)
