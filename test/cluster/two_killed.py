"""raid6:4+2 on six nodes: with any two killed, all bytes are right."""

import itertools

from stria_cluster import SIZES, Cluster, main, say


def scenario():
    with Cluster(nodes=6, disks=1, layout="raid6:4+2") as c:
        for size in SIZES:
            c.write(f"sizes/{size}", size)
        for pair in itertools.combinations(c.nodes(), 2):
            for node in pair:
                c.kill(node)
            c.fresh_mount()
            c.verify()
            for node in pair:
                c.start(node)
            say(f"without {' and '.join(pair)}: all bytes are right")
        c.fsck()


main(scenario)
