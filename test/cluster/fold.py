"""Mirrored files of many lengths, written from all nodes, are folded: they end as parity asks for, no data shard has moved,
and every file is right with any one node dead; the same when half of them were deleted and written again.

`fold.py 1000 50` is the long form: so many files, of 1 to so many MB. It needs twice their size on the disk."""

import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor

from stria_cluster import Cluster, digest_of_file, main, say, wait_for, write_file

NODES = 5
FILES, MIN_BYTES, MAX_BYTES = 120, 1_000_000, 1_600_000
COMMANDS = 4  # at a time
SETTINGS = """
[fold]
age = "2s"
rest = "1s"
"""


def data_shards(c):
    """Where the bytes of each file are: range, node and disk."""
    def places(name):
        rows = json.loads(c.stria("where", c.mount / name, "--json").stdout)["ranges"]
        return [(r["offset"], r["length"], r["node"], r["disk"]) for r in rows if r["role"].startswith("data")]
    names = sorted(c.files)
    with ThreadPoolExecutor(COMMANDS) as pool:
        return dict(zip(names, pool.map(places, names)))


def stored(c):
    """Bytes of all shard files and segments on the disks."""
    return sum(p.stat().st_size for n in range(1, NODES + 1) for p in c.shard_files(f"n{n}"))


def wait_folded(c):
    last = []

    def rests():
        status = c.status()
        folding = status["upkeep"]["folding"]
        last.append((folding["folded"], folding["waiting"], folding["under_way"], status.get("garbage_shards", 0)))
        # What has no company of like length waits five times its age for it: 10 s.
        return folding["under_way"] == 0 and len(last) > 15 and all(r == last[-1] for r in last[-15:]) and last[-1]

    return wait_for("folding rests", rests, 240 + len(c.files), 1)


def expect_within_bound(c):
    live = sum(size for size, _ in c.files.values())

    def within():
        overhead = stored(c) / live
        return overhead <= 1.25 + 0.05 and overhead

    overhead = wait_for("what is stored is within the bound", within, 60, 1)
    say(f"{len(c.files)} files: {overhead:.3f} of their length is stored")


ARGUMENTS = {}  # that nodes were first started with


def expect_right_without_any(c):
    # Not by `stria dev start`: a node that was killed counts as up for a while, and the next one is killed only when this one is back.
    for name in [f"n{n}" for n in range(1, NODES + 1)]:
        if name in c.own:
            c.end_own(name)
        else:
            ARGUMENTS[name] = c.arguments(name)
            c.kill(name)
        c.fresh_mount()
        c.verify()
        c.start_with(name, ARGUMENTS[name])
    say("every file is right with any one node dead")


def scenario():
    count, smallest, largest = FILES, MIN_BYTES, MAX_BYTES
    if len(sys.argv) > 2:
        count, smallest, largest = int(sys.argv[1]), 1_000_000, int(sys.argv[2]) * 1_000_000
    rng = random.Random(42)
    with Cluster(nodes=NODES, disks=1, layout="raid5:4+1", settings=SETTINGS) as c:
        wait_for("folding is on", lambda: c.status().get("upkeep", {}).get("folding", {}).get("on"), 60)
        mounts = [c.mount]
        for n in range(2, NODES + 1):
            at = c.dir / f"mnt-n{n}"
            at.mkdir()
            c.stria("dev", "mount", "--dir", c.cluster, "--at", at, "--node", f"n{n}")
            mounts.append(at)
        (c.mount / "data").mkdir()
        c.stria("layout", "set", c.mount / "data", "raid5:4+1,arrange=gathered,unit=64M", "--place", "local")

        def write(i):
            name = f"data/f{i}"
            c.files[name] = write_file(mounts[i % NODES], name, rng.randrange(smallest, largest), sync=True)

        for i in range(count):
            write(i)
        before = data_shards(c)
        wait_folded(c)
        expect_within_bound(c)
        after = data_shards(c)
        for name, rows in before.items():
            assert after[name] == rows, f"{name} has moved: {rows} {after[name]}"
        say("no data column has moved")
        expect_right_without_any(c)

        again = rng.sample(range(count), count // 2)
        for i in again:
            (c.mount / f"data/f{i}").unlink()
            del c.files[f"data/f{i}"]
        c.verify()
        for i in again:
            write(i)
        wait_folded(c)
        expect_within_bound(c)
        expect_right_without_any(c)
        c.fsck()
        for name in [f"n{n}" for n in range(1, NODES + 1)]:
            c.end_own(name)
        c.start_all()  # it is what ends with the cluster


main(scenario)
