"""The disk of the metadata gets full: status warns from 80 % on, creating gives ENOSPC in time, reading and deleting go on, also
after a restart on the full disk, and all goes on by itself when there is room."""

import contextlib
import errno
import os
import pathlib
import tempfile
import time

from loop_disk import LoopDisk, Skip, put_nodes_on
from stria_cluster import MIB, Cluster, main, say, wait_for

DISK_BYTES = 256 * MIB


def findings(c):
    return " ".join(f["what"] for f in c.status().get("findings", []))


def occupy(path, bytes_left):
    """Somebody else's file, so large that this is left."""
    s = os.statvfs(path.parent)
    size = s.f_bavail * s.f_frsize - bytes_left
    if size > 0:
        with open(path, "ab") as f:
            os.posix_fallocate(f.fileno(), f.tell(), size)


def create(c, name):
    """The errno; 0: it was made."""
    began = time.monotonic()
    try:
        with open(c.mount / name, "xb") as f:
            f.write(b"few bytes")
            os.fsync(f.fileno())
        return 0
    except OSError as e:
        with contextlib.suppress(OSError):
            os.unlink(c.mount / name)
        return e.errno
    finally:
        assert time.monotonic() - began < 20, f"creating a file took {time.monotonic() - began:.1f} s"


def scenario():
    with tempfile.TemporaryDirectory(dir=os.environ.get("STRIA_TEST_DIR", "/var/tmp")) as d:
        with LoopDisk(pathlib.Path(d), "meta", DISK_BYTES) as disk:
            full(disk)


def full(disk):
    c = Cluster(nodes=3, disks=1, layout="raid5:2+1")
    put_nodes_on(c.cluster, {"meta": disk})
    filler = disk.path / "filler"
    with c:
        c.write("before", 3 * MIB)
        (c.mount / "small").write_bytes(b"small")
        (c.mount / "dir").mkdir()
        assert "metadata's disk" not in findings(c), findings(c)
        occupy(filler, 30 * MIB)
        wait_for("status warns", lambda: "The metadata's disk" in findings(c) and "% full" in findings(c), 30)
        assert create(c, "dir/scarce") == 0
        occupy(filler, 1 * MIB)
        wait_for("nothing can be created", lambda: create(c, f"dir/{time.monotonic()}") == errno.ENOSPC, 60)
        wait_for("status says so", lambda: "is full: nothing can be created" in findings(c), 30)
        c.verify()
        os.unlink(c.mount / "small")
        say("full: ENOSPC, reading and deleting go on, status tells")

        c.kill("meta")
        c.start("meta")
        wait_for("it serves", lambda: "error" not in c.status(), 60)
        c.fresh_mount()
        c.verify()
        assert not (c.mount / "small").exists()
        assert create(c, "dir/after") == errno.ENOSPC
        os.unlink(c.mount / "dir/scarce")
        say("started again on the full disk: the same")

        filler.unlink()
        wait_for("it goes on by itself", lambda: create(c, f"dir/{time.monotonic()}") == 0, 60)
        wait_for("status is silent about it", lambda: "metadata's disk" not in findings(c), 30)
        c.write("afterwards", 3 * MIB)
        c.verify()
        c.fsck()


try:
    main(scenario)
except Skip as e:
    print(f"skipped: {e}")
