"""A node stops (SIGSTOP) and goes on later; then one disk answers, but takes seconds for every read (strace delays them):
everything is read right from the others meanwhile, writing goes on, and `stria status` says which it is."""

import json
import os
import shutil
import signal
import subprocess

from stria_cluster import MIB, Cluster, main, say, wait_for

FILES = 24
FILE_BYTES = 3 * MIB + 11
DELAY_US = 3_000_000


def pid_of(c, name):
    return next(p["pid"] for p in c.processes() if p["name"] == name)


def says(c, text):
    return any(text in f["what"] for f in c.status().get("findings", []))


def reconstructed(c):
    return json.loads(c.stria("stats", c.mount, "--json").stdout)["reconstructed_bytes"]


def stopped_node(c):
    os.kill(pid_of(c, "n2"), signal.SIGSTOP)
    try:
        c.fresh_mount()
        c.verify()
        assert reconstructed(c) > 0, "nothing was reconstructed although a node does not answer"
        c.write("while-n2-stops", 9 * MIB)
        wait_for("status says so", lambda: says(c, "Node n2 "), 60)
    finally:
        os.kill(pid_of(c, "n2"), signal.SIGCONT)
    wait_for("n2 is up", lambda: c.node("n2")["state"] == "up", 60)
    c.wait_whole()
    c.fresh_mount()
    c.verify()
    say("a node stood still and went on: all bytes are right")


def slow_disk(c):
    if not shutil.which("strace"):
        return say("SKIPPED: strace, which makes a disk slow, is not installed (package strace)")
    shards = [p for p in c.shard_files("n3") if p.parts[-4] == "d1"]
    assert shards, "nothing is on n3:d1"
    paths = [word for p in shards for word in ("-P", str(p))]
    calls = "read,readv,pread64,preadv"  # preadv2 never waits for a disk (common/io/cached_read.h)
    delays = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(pid_of(c, "n3")), "-e",
                               f"trace={calls}", "-e", f"inject={calls}:delay_enter={DELAY_US}", *paths],
                              stdin=subprocess.DEVNULL)
    try:
        around = []

        def named():
            c.fresh_mount()
            c.verify()
            around.append(reconstructed(c))
            return says(c, "Disk n3:d1 is slow")
        wait_for("status names the slow disk", named, 150, 1)
        assert sum(around) > 0, "the slow disk was waited for"
        assert c.node("n3")["state"] == "up" and c.disk("n3:d1")["state"] == "up", "it answers"
        say(f"n3:d1 takes {c.disk('n3:d1')['read_us']} us: all bytes are right")
        found = next(f for f in c.status()["findings"] if "Disk n3:d1 is slow" in f["what"])
        say(f"status: {found['what']}\naction: {found['action']}")
    finally:
        delays.terminate()
        delays.wait(30)

    def forgotten():
        c.fresh_mount()
        c.verify()
        return not says(c, "Disk n3:d1 is slow")
    wait_for("it is as fast as the others again", forgotten, 180, 1)
    c.wait_whole()
    c.fsck()


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:3+1") as c:
        for i in range(FILES):
            c.write(f"f/{i}", FILE_BYTES + i)
        stopped_node(c)
        slow_disk(c)


main(scenario)
