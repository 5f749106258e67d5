"""Fewer nodes or disks are left than the layout has columns: writing goes on as well as it can, and it is said what that is.
Two nodes with two disks and raid1:2, one of them killed: both copies on the other. Five nodes and raid5:4+1, one after the
other given up: narrower, and told beforehand. Two nodes with one disk: nothing can be written, which the program hears within
the mount's timeout, and the log why; with min=1 it goes on, named as at risk. All of it heals by itself.

These are three clusters, side by side: mostly they wait."""

import contextlib
import errno
import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time

from stria_cluster import MIB, Cluster, main, say, wait_for, write_file

TIMEOUT_S = 5
SETTINGS = """
[cluster]
suspect = "2s"
down = "5s"
settle = "3s"
"""
LONG_S = 90  # of cp where nodes are emptied beside it, in three clusters at once
CP_S = 20


def lacking(c):
    return {x["layout"]: x for x in c.status()["lacking_layouts"]}


def findings(c):
    return " ".join(f["what"] for f in c.status()["findings"])


def copy(c, name, size=8 * MIB):
    """cp, as a user would; gives the seconds that it took."""
    source = c.dir / "source"
    write_file(c.dir, "source", size)
    begin = time.monotonic()
    subprocess.run(["cp", source, c.mount / name], check=True, timeout=LONG_S)
    took = time.monotonic() - begin
    assert (c.mount / name).read_bytes() == source.read_bytes()
    c.files[name] = (size, hashlib.sha256(source.read_bytes()).hexdigest())
    return took


def smallest_room():
    with Cluster(nodes=2, disks=2, layout="raid1:2", settings=SETTINGS) as c:
        c.write("before", 8 * MIB)
        c.kill("n2")
        took = copy(c, "after")
        assert took < CP_S, f"n2 was killed just before, and cp took {took:.1f} s"
        say(f"cp took {took:.1f} s, n2 killed just before")
        wait_for("n2 is down", lambda: c.node("n2")["state"] == "down", 30)
        copy(c, "later")
        assert c.status()["crowded_stripes"] > 0
        assert lacking(c)["raid1:2"]["crowded"], lacking(c)
        assert "New stripes of layout raid1:2 are 2 copies, crowded" in findings(c), findings(c)
        c.stria("node", "out", "n2")
        copy(c, "out")
        c.fresh_mount()
        c.verify()
        c.start("n2")
        wait_for("all copies are apart", lambda: c.status()["crowded_stripes"] == 0, 120)
        wait_for("n2 is as before", lambda: not lacking(c), 30)
        c.wait_whole()
        c.kill("n1")
        c.fresh_mount()
        c.verify()
        c.start("n1")
        c.fsck()


def five_and_fewer():
    with Cluster(nodes=5, disks=5, layout="raid5:4+1", settings=SETTINGS) as c:  # a whole stripe fits onto the disks of the last node
        c.write("wide", 8 * MIB)
        c.kill("n5")
        wait_for("n5 is missed", lambda: c.node("n5")["state"] in ("suspect", "down"), 30)
        told = "new stripes of layout raid5:4+1 will be 3+1 until another node joins"
        for words in (["node", "out", "n5", "--dry-run"], ["node", "out", "n5"]):
            said = c.stria(*words).stdout
            assert told in said, said
        copy(c, "four")
        c.wait_whole()
        said = c.stria("node", "remove", "n5").stdout
        assert told in said, said
        said = c.stria("node", "drain", "n4", "--dry-run").stdout
        assert "will be 2+1 until 2 more nodes join" in said, said
        copy(c, "removed")
        assert lacking(c)["raid5:4+1"]["stripes"] == "3+1", lacking(c)
        assert "New stripes of layout raid5:4+1 are 3+1 (fully protected) until another node joins." in findings(c)
        for node in ("n4", "n3", "n2"):
            c.stria("node", "drain", node)
            copy(c, f"without-{node}")
            wait_for(f"{node} is empty",
                     lambda: c.stria("node", "remove", node, "--dry-run", check=False).returncode == 0, 120, 1)
            c.stria("node", "remove", node)
            c.kill(node)
        assert lacking(c)["raid5:4+1"]["crowded"], lacking(c)
        copy(c, "alone")
        c.fresh_mount()
        c.verify()
        for node in ("n6", "n7", "n8", "n9"):
            c.stria("dev", "add", node, "--dir", c.cluster)
        wait_for("all is wide again", lambda: c.status()["narrow_stripes"] + c.status()["crowded_stripes"] == 0, 240)
        c.wait_whole()
        assert not lacking(c), lacking(c)
        c.fresh_mount()
        c.verify()
        c.fsck()


def one_disk_left():
    with Cluster(nodes=2, disks=1, layout="raid1:2", settings=SETTINGS) as c:
        short = c.dir / "short"
        c.stria("dev", "mount", "--dir", c.cluster, "--at", short, "-o", f"timeout={TIMEOUT_S}s")
        c.kill("n2")
        wait_for("n2 is down", lambda: c.node("n2")["state"] == "down", 30)
        assert "Nothing can be written with layout raid1:2" in findings(c), findings(c)
        assert c.stria("status", check=False).returncode == 2, "at risk"
        begin = time.monotonic()
        try:
            write_file(short, "refused", 2 * MIB)
            raise AssertionError("it was written on one disk")
        except OSError as e:
            assert e.errno == errno.EIO, e
        took = time.monotonic() - begin
        assert took < 6 * TIMEOUT_S, f"the timeout is {TIMEOUT_S} s, and writing, fsync and close took {took} s"
        with contextlib.suppress(OSError):
            os.unlink(short / "refused")
        logs = " ".join(p.read_text(errors="replace") for p in c.cluster.glob("log/mount*.log"))
        assert "layout raid1:2 needs 2 disks at least, and 1 can be written" in logs, logs
        say(f"refused within {took:.1f} s, and the log says why")
        c.stria("node", "out", "n2")
        said = c.stria("layout", "set", c.mount, "raid1:2", check=False)
        assert said.returncode != 0 and "add 1 node" in said.stdout + said.stderr, said
        c.stria("layout", "set", c.mount, "raid1:2,min=1")
        copy(c, "on-one-disk")
        status = c.status()
        assert status["state"] == "AT RISK" and status["stripes_with_fewer_copies"] > 0, status
        assert "/on-one-disk" in [f["path"] for f in status["files_with_fewer_copies"]], status
        c.start("n2")
        wait_for("it has its copies", lambda: c.status()["stripes_with_fewer_copies"] == 0, 120)
        c.wait_well()
        c.kill("n1")
        c.fresh_mount()
        c.verify(["on-one-disk"])
        c.start("n1")


def scenario():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop (timeout?)"))  # which ends the others: they are daemons of this one
    parts = [multiprocessing.Process(target=part, name=part.__name__, daemon=True) for part in (five_and_fewer, smallest_room, one_disk_left)]
    for p in parts:
        p.start()
    for p in parts:
        p.join()
    failed = [p.name for p in parts if p.exitcode != 0]
    assert not failed, f"failed: {failed}"


main(scenario)
