"""Two metadata servers that agree through etcd: the primary is killed with -9 again and again while three mounts write and sync. The other
one serves soon, the mounts go on by themselves, the killed one comes back and is in sync, and nothing that was acknowledged is lost."""

import json
import multiprocessing
import os
import random
import shutil
import sys
import time

from ha_pair import NAMES, serves, settled
from stria_cluster import MIB, Cluster, main, say, wait_for, write_file

KILLS = int(os.environ.get("STRIA_HA_KILLS", 2))  # more: a longer run by hand
BETWEEN_S = 1.0
WRITE_PAUSE_S = 0.05  # else most of the time is spent on comparing what was written
SERVES_S = 20
GOES_ON_S = 90
TOLD_S = 60


def write_until(mount, writer, stop, acknowledged, count):
    rng = random.Random(writer)
    number = 0
    while not stop.is_set():
        size = rng.choice([0, 1, 4096, 4097, rng.randrange(64 * 1024), rng.randrange(2 * MIB)])
        name = f"writer{writer}/{number}"
        written = write_file(mount, name + ".part", size)
        os.rename(mount / (name + ".part"), mount / name)
        directory = os.open((mount / name).parent, os.O_RDONLY)
        os.fsync(directory)  # now the new name is durable too
        os.close(directory)
        acknowledged.append((name, *written))
        number += 1
        count.value = number
        stop.wait(WRITE_PAUSE_S)


def all_go_on(writers, counts):
    before = [c.value for c in counts]

    def on():
        assert all(w.is_alive() for w in writers), "a writer failed"
        return all(c.value > b for c, b in zip(counts, before))
    # What is under way may have been acknowledged before; the next one was begun afterwards.
    for _ in range(2):
        wait_for("every mount goes on", on, GOES_ON_S)
        before = [c.value for c in counts]


def kill_the_primary(cluster):
    status = settled(cluster)
    killed = status["primary"]
    other = next(n for n in NAMES if n != killed)
    cluster.kill(killed)
    began = time.monotonic()
    now = wait_for(f"{other} serves", lambda: serves(cluster, other), SERVES_S)
    say(f"{killed} was killed; {other} serves after {time.monotonic() - began:.1f} s, in term {now['term']}")
    assert now["term"] > status["term"], (status, now)
    return killed


def hand_over(cluster):
    status = settled(cluster)
    cluster.stria("meta", "promote", "--yes")
    now = settled(cluster)
    assert now["primary"] != status["primary"] and now["term"] > status["term"], (status, now)
    say(f"{status['primary']} handed over to {now['primary']}")


def says_what_happened(cluster, killed):
    """Events and status name who is lost, and that one copy is left."""
    def told():
        events = json.loads(cluster.stria("events", "--json").stdout)["events"]
        return {(e["kind"], e["subject"]): e for e in events}
    other = next(n for n in NAMES if n != killed)
    wanted = {("meta-failover", other), ("meta-copy-lost", killed)}
    events = wait_for("the failover and the lost copy are told", lambda: wanted <= set(told()) and told(), TOLD_S)
    assert events["meta-copy-lost", killed]["severity"] == "critical" and events["meta-failover", other]["action"], events
    done = cluster.stria("status", "--json", check=False)
    status = json.loads(done.stdout)
    assert done.returncode == 1 and status["metadata_servers"]["in_sync"] == [other], status["metadata_servers"]
    assert any("only one copy is left" in f["what"] for f in status["findings"]), status["findings"]
    assert "\n  metas: " in cluster.stria("status", check=False).stdout
    say("events and status say who is lost, and that one copy is left")


def scenario():
    with Cluster(nodes=4, disks=1, layout="raid5:3+1", metas=2) as c, multiprocessing.Manager() as manager:
        names = [p["name"] for p in c.processes()]
        assert set(NAMES) | {"etcd1", "etcd2", "etcd3"} <= set(names), names
        status = settled(c)
        assert status["min_in_sync"] == 1, status
        mounts = [c.mount]
        for i in (2, 3):
            mounts.append(c.dir / f"mnt{i}")
            c.stria("dev", "mount", "--dir", c.cluster, "--at", mounts[-1], "--node", f"n{i}")
        stop = multiprocessing.Event()
        acknowledged = manager.list()
        counts = [multiprocessing.Value("q", 0) for _ in mounts]
        writers = [multiprocessing.Process(target=write_until, args=(m, i, stop, acknowledged, counts[i]), daemon=True)
                   for i, m in enumerate(mounts)]
        for w in writers:
            w.start()
        for _ in range(KILLS):
            time.sleep(BETWEEN_S)
            killed = kill_the_primary(c)
            all_go_on(writers, counts)
            c.start(killed)  # returns when it is in sync
            assert settled(c)["primary"] != killed, "who comes back does not take the place again"
        hand_over(c)
        all_go_on(writers, counts)
        stop.set()
        for w in writers:
            w.join(120)
            assert w.exitcode == 0, "a writer failed or hangs"
        c.files = {name: (size, digest) for name, size, digest in acknowledged}
        say(f"{len(c.files)} files were acknowledged; the mounts went on by themselves")
        c.verify()
        c.fresh_mount()
        c.verify()
        say("all of them are there, all bytes are right")
        c.fsck()
        # Each has all of it.
        killed = kill_the_primary(c)
        c.verify()
        says_what_happened(c, killed)
        c.fsck()


if shutil.which("etcd") is None:
    sys.exit("etcd is not installed: install the package etcd-server")
main(scenario)
