"""Bits rot on disks: in a data shard, in a parity shard that nobody reads, in a segment of small shards; a shard
file goes missing; an index is lost. Reads are right all the time, a scrub finds the rest, everything is healed:
afterwards any one node may be away. raid5:4+1 on five nodes with two disks each."""

import json
import random

from stria_cluster import MIB, Cluster, main, say, wait_for

LARGE = 12 * MIB + 5
SMALL = 200 * 1024


def flip(path, rng):
    with open(path, "r+b") as f:
        at = rng.randrange(path.stat().st_size // 4, path.stat().st_size // 2)
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 0x10]))


def write_seeing_shards(c, name):
    """Writes a file of one stripe; gives its shard files by role."""
    before = {p for n in c.nodes() for p in c.shard_files(n)}
    c.write(name, LARGE)
    new = {p for n in c.nodes() for p in c.shard_files(n)} - before
    rows = json.loads(c.stria("where", c.mount / name, "--json").stdout)["ranges"]
    roles = {(r["node"], r["disk"]): r["role"] for r in rows}
    by_role = {}
    for p in new:
        node, disk = p.relative_to(c.cluster).parts[:2]
        by_role.setdefault("data" if roles.get((node, disk), "").startswith("data") else "parity", []).append(p)
    assert len(by_role.get("data", [])) >= 4 and by_role.get("parity"), (rows, new)
    return by_role


def scrub(c):
    c.stria("scrub", "start", "--rate", "200M")
    done = wait_for("every disk was read", lambda: all_read(c), 120, 0.5)
    return sum(d["damaged"] for d in done)


def all_read(c):
    disks = json.loads(c.stria("scrub", "status", "--json").stdout)["scrub"]["disks"]
    return len(disks) == 10 and all(d["finished_s"] and not d["running"] for d in disks) and disks


def lose_index(c, node):
    c.kill(node)
    victim = c.shard_files(node)[0]
    disk = victim.relative_to(c.cluster).parts[1]
    flip(victim, random.Random(8))  # gets no record
    for table in list((c.cluster / node / disk / "index").glob("MANIFEST*")):
        table.write_bytes(b"\0" * table.stat().st_size)
    c.start(node)
    wait_for("the node is back", lambda: c.node(node)["state"] == "up", 60)
    c.fresh_mount()
    c.verify()
    # First of all the node's word: until then the cluster takes all of the disk for right.
    wait_for("the disk was compared with the metadata",
             lambda: f"{c.cluster / node / disk} was compared" in (c.cluster / "log" / f"{node}.log").read_text(), 60)
    wait_for(f"{node}:{disk} serves again", lambda: c.disk(f"{node}:{disk}").get("health") == "ok", 60)
    say(f"{node} made the index of {disk} again from the files; all bytes are right")


def scenario():
    rng = random.Random(7)
    with Cluster(nodes=5, disks=2, layout="raid5:4+1") as c:
        flip(rng.choice(write_seeing_shards(c, "rot-in-data")["data"]), rng)
        flip(write_seeing_shards(c, "rot-in-parity")["parity"][0], rng)
        rng.choice(write_seeing_shards(c, "missing")["data"]).unlink()
        for i in range(20):
            c.write(f"small/{i}", SMALL + i)
        c.kill("n2")  # so that nothing of the segments is only in memory
        c.start("n2")
        segments = sorted(p for p in c.cluster.glob("n2/d*/segments/*") if p.stat().st_size > SMALL)
        flip(segments[0], rng)
        c.fresh_mount()
        c.verify()
        say("all bytes are right although some on disk are not")
        damaged = scrub(c)
        c.wait_whole()
        wait_for("what was damaged is deleted", lambda: c.status()["garbage_shards"] == 0, 60)
        errors = sum(d["checksum_errors"] for d in c.status()["disks"])
        assert errors >= 3, f"{errors} checksum errors are shown"
        assert c.stria("status", check=False).returncode == 1, "errors of disks go unnoticed"
        say(f"the scrub found {damaged} damaged shards, {errors} errors are shown; all was healed")
        again = scrub(c)
        assert again == 0, f"{again} shards are still damaged"
        lose_index(c, "n4")
        c.wait_whole()
        wait_for("what was damaged is deleted", lambda: c.status()["garbage_shards"] == 0, 60)
        again = scrub(c)
        assert again == 0, f"{again} shards are still damaged"
        say("the shard that the index lacks, being damaged, was missed and rebuilt")
        for node in c.nodes():
            c.kill(node)
            c.fresh_mount()
            c.verify()
            c.start(node)
        say("with any one node away all bytes are right")
        c.fsck()


main(scenario)
