"""What an admin does in a room of PCs, and what happens to disks there: a node that was removed is refused until it is let in;
a disk is unmounted under its running node, and a new one put in its place; a copy of a disk is kept out; draining everything is
refused. Nodes are never started again for that."""

import errno
import os
import shutil
import time

from stria_cluster import MIB, Cluster, main, say, wait_for

FILES = 12


def in_use(c, name):
    d = c.disk(name)
    return d.get("state") == "up" and d.get("health") == "ok" and not d.get("problem")


def findings(c):
    return " ".join(f["what"] for f in c.status().get("findings", []))


def one_filesystem(c):
    """All disks of a cluster on one machine are directories of one filesystem."""
    wait_for("status says so", lambda: "directories of one filesystem" in findings(c), 30)
    space = os.statvfs(c.cluster)
    told = sum(d["capacity_bytes"] for d in c.status()["disks"])
    assert 0 < told <= space.f_blocks * space.f_frsize * 1.01, f"the disks have {told} bytes, and their filesystem {space.f_blocks * space.f_frsize}"
    say("the space of a filesystem that all disks are in is counted once")


def check(c):
    c.wait_whole()
    c.fresh_mount()
    c.verify()


def unmounted_under_its_server(c):
    """A directory that is renamed looks like a disk that is unmounted; its open files go on, as after umount -l."""
    d2 = c.cluster / "n2" / "d2"
    uuid = c.disk("n2:d2")["uuid"]
    away = d2.with_name("away")
    d2.rename(away)
    d2.mkdir()
    wait_for("n2:d2 is missed", lambda: c.disk("n2:d2").get("problem"), 10)
    assert in_use(c, "n2:d1"), "the other disk went with it"
    for i in range(FILES):
        c.write(f"meanwhile/{i}", 2 * MIB + i)
    assert not list(d2.iterdir()), f"it was written into the void: {list(d2.iterdir())}"
    d2.rmdir()
    away.rename(d2)
    wait_for("n2:d2 is used again", lambda: in_use(c, "n2:d2"), 60)
    assert c.disk("n2:d2")["uuid"] == uuid, c.disk("n2:d2")
    check(c)
    say("a disk was unmounted under its server, and came back")


def new_disk_in_its_place(c):
    d2 = c.cluster / "n2" / "d2"
    d2.rename(d2.with_name("dead"))
    d2.mkdir()
    wait_for("status says what to do", lambda: "`stria disk out n2:d2`" in c.disk("n2:d2").get("problem", ""), 60)
    c.stria("disk", "out", "n2:d2")
    wait_for("the new disk is in use", lambda: in_use(c, "n2:d2-2"), 60)
    check(c)
    wait_for("n2:d2 is empty", lambda: c.stria("disk", "remove", "n2:d2", "--dry-run", check=False).returncode == 0, 180, 0.5)
    c.stria("disk", "remove", "n2:d2")
    say("a new disk is used in the place of the old one, without a restart")


def copy_is_kept_out(c):
    arguments = c.arguments("n3")
    c.kill("n3")
    shutil.copytree(c.cluster / "n3" / "d1", c.cluster / "n3" / "copy")
    c.start_with("n3", [*arguments, "--disk", f"{c.cluster / 'n3' / 'copy'},label=copy"])
    wait_for("the node's other disks serve", lambda: in_use(c, "n3:d1") and in_use(c, "n3:d2"), 60)
    wait_for("the copy is told", lambda: "n3:copy" in findings(c) and "is a copy of the other" in findings(c), 30)
    # The same in another node, while the original serves.
    arguments = c.arguments("n4")
    c.kill("n4")
    (c.cluster / "n3" / "copy").rename(c.cluster / "n4" / "copy")
    wait_for("n3 has let it go", lambda: "n3/copy: No such file" in findings(c), 30)
    c.start_with("n4", [*arguments, "--disk", f"{c.cluster / 'n4' / 'copy'},label=copy"])
    wait_for("the copy is told", lambda: "Disk n4:copy is not used: it says that it is n3:d1" in findings(c), 30)
    wait_for("the original serves", lambda: in_use(c, "n3:d1") and in_use(c, "n4:d1"), 60)
    check(c)
    say("a copy of a disk is kept out, in its node and in another")


def removed_is_refused(c):
    c.stria("node", "drain", "n5")
    wait_for("n5 is empty", lambda: c.stria("node", "remove", "n5", "--dry-run", check=False).returncode == 0, 180, 0.5)
    c.stria("node", "remove", "n5")
    end = time.monotonic() + 6
    while time.monotonic() < end:  # it asked again every second, and was taken
        assert c.node("n5")["state"] == "", c.node("n5")
        time.sleep(0.5)
    assert "Node n5 was removed, and its stria-data still runs" in findings(c), findings(c)
    c.stria("node", "add", "n5", "--wait", "60")
    assert c.node("n5")["state"] in ("up", "suspect"), c.node("n5")
    check(c)
    say("a removed node is refused until it is let in")


def draining_everything(c):
    for node in ("n1", "n2", "n3"):
        c.stria("node", "drain", node)
    refused = c.stria("node", "drain", "n4", check=False)
    assert refused.returncode != 0 and "would never be empty" in refused.stderr, refused
    c.stria("node", "drain", "n4", "--force")
    refused = c.stria("node", "drain", "n5", check=False)
    assert refused.returncode != 0 and "every disk would be being emptied" in refused.stderr, refused
    c.stria("node", "drain", "n5", "--force")
    began = time.monotonic()
    try:
        fd = os.open(c.mount / "late", os.O_WRONLY | os.O_CREAT)
        try:
            os.write(fd, bytes(4 * MIB))
            os.fsync(fd)
        finally:
            os.close(fd)
        raise AssertionError("a write went on without a disk that takes it")
    except OSError as e:
        assert e.errno == errno.EIO, e  # deleting files would not help
    took = time.monotonic() - began
    assert took < 5, f"the error took {took:.1f} s"
    for node in ("n1", "n2", "n3", "n4", "n5"):
        c.stria("node", "undrain", node)
    os.unlink(c.mount / "late")
    say(f"draining everything is refused; forced, a write fails after {took:.1f} s")


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:2+1") as c:
        for i in range(FILES):
            c.write(f"f/{i}", 3 * MIB + 13 * i)
        one_filesystem(c)
        unmounted_under_its_server(c)
        new_disk_in_its_place(c)
        removed_is_refused(c)
        draining_everything(c)
        copy_is_kept_out(c)
        c.fsck()


main(scenario)
