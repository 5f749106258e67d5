"""Every disk gets full. Writers hear ENOSPC before the disks' filesystems are full, nothing that was acknowledged is
lost, what rots meanwhile is healed with the space that is kept for repair, files can be cut down and deleted, and the
space comes back. raid5:3+1 on five nodes with a small disk each."""

import contextlib
import errno
import hashlib
import os
import pathlib
import random
import tempfile

from loop_disk import LoopDisk, Skip, put_nodes_on
from stria_cluster import MIB, Cluster, chunks_of, main, say, wait_for, write_file

NODES = 5
DISK_BYTES = 160 * MIB
FILE_BYTES = 6 * MIB + 7
KEPT = 10


def fill(c, prefix):
    """Writes files until there is no space; how many were acknowledged. What a failed write has left on the disks is
    deleted soon, and each time that is awaited: full is what is full three times."""
    number, refused = 0, 0
    while refused < 3:
        assert number < 10_000, "the disks do not get full"
        name = f"{prefix}/{number}"
        try:
            c.files[name] = write_file(c.mount, name, FILE_BYTES)
            number, refused = number + 1, 0
        except OSError as e:
            assert e.errno == errno.ENOSPC, f"a write to full disks gave {e}"
            with contextlib.suppress(OSError):  # close tells it again
                os.unlink(c.mount / name)
            refused += 1
            wait_for("what was not written is gone", lambda: c.status()["garbage_shards"] == 0, 60)
    return number


def many_refused(c):
    """A program that goes on writing to a full filesystem fills no log: the same line again is counted."""
    log = c.cluster / "log/mount.log"
    refused, before = 0, len(log.read_text().splitlines())
    for number in range(40):
        try:
            write_file(c.mount, f"refused/{number}", MIB)
        except OSError as e:
            assert e.errno == errno.ENOSPC, f"a write to full disks gave {e}"
            refused += 1
        with contextlib.suppress(OSError):
            os.unlink(c.mount / f"refused/{number}")
    lines = log.read_text().splitlines()
    say(f"{refused} more writes found no space, {len(lines) - before} lines of the log tell of them, and {before} of all before")
    assert refused > 20 and len(lines) - before <= 6, lines
    no_space = [line for line in lines if "NoSpace" in line or "no space" in line]
    assert len(no_space) <= 6, no_space


def available(c):
    s = os.statvfs(c.mount)
    return s.f_bavail * s.f_frsize


def overwrite_without_space(c):
    """An overwrite that finds no space: the file, its descriptor, and what it is to hold."""
    for number in range(KEPT):
        name = f"kept/{number}"
        size, _ = c.files[name]
        if size < FILE_BYTES:
            continue
        new = b"".join(chunks_of(size, "overwritten"))
        fd = os.open(c.mount / name, os.O_RDWR)
        try:
            os.pwrite(fd, new, 0)
            os.fsync(fd)
        except OSError as e:
            assert e.errno == errno.ENOSPC, f"an overwrite on full disks gave {e}"
            return name, fd, new
        os.close(fd)  # there was a little left: what it replaced is deleted before the next one
        c.files[name] = size, hashlib.sha256(new).hexdigest()
    raise AssertionError("overwrites of whole stripes find space on full disks")


def scenario():
    with tempfile.TemporaryDirectory(prefix="stria-full-", dir=os.environ.get("STRIA_TEST_DIR", "/var/tmp")) as d, \
            contextlib.ExitStack() as stack:
        try:
            disks = {f"n{i + 1}": stack.enter_context(LoopDisk(pathlib.Path(d), f"n{i + 1}", DISK_BYTES))
                     for i in range(NODES)}
        except Skip as e:
            say(f"SKIPPED: {e}")
            return
        c = Cluster(nodes=NODES, disks=1, layout="raid5:3+1")
        put_nodes_on(c.cluster, disks)
        with c:
            total = available(c)
            for i in range(KEPT):
                c.write(f"kept/{i}", FILE_BYTES + i)
                c.write(f"small/{i}", 30_000 + i)
            written = fill(c, "fill")
            many_refused(c)
            held = (KEPT + written) * FILE_BYTES
            say(f"no space after {held // MIB} MiB of {total // MIB}")
            assert held > 0.6 * total, "far too early"
            free = {name: os.statvfs(disk.path).f_bavail * os.statvfs(disk.path).f_frsize for name, disk in disks.items()}
            assert min(free.values()) > DISK_BYTES // 50, f"the filesystems themselves are full: {free}"
            wait_for("df says that it is full", lambda: available(c) < 0.1 * total, 30)
            c.fresh_mount()
            c.verify()

            # Healed with what is kept for repair.
            victim = max(c.shard_files("n3"), key=lambda p: p.stat().st_size)
            with open(victim, "r+b") as f:
                f.seek(random.Random(1).randrange(victim.stat().st_size))
                byte = f.read(1)[0]
                f.seek(-1, os.SEEK_CUR)
                f.write(bytes([byte ^ 1]))
            c.fresh_mount()
            c.verify()
            c.stria("scrub", "start", "--rate", "200M")  # it may be parity, which nobody reads
            wait_for("the damaged shard is replaced", lambda: not victim.exists(), 120)
            c.wait_whole()
            say("a damaged shard was made again although the disks are full")

            replaced, unwritten, _ = overwrite_without_space(c)
            short = os.open(c.mount / replaced, os.O_WRONLY | os.O_TRUNC)  # although what it held cannot be written
            os.write(short, b"short")
            os.close(short)
            assert (c.mount / replaced).read_bytes() == b"short"
            os.close(unwritten)
            c.files[replaced] = 5, hashlib.sha256(b"short").hexdigest()
            overwritten, fd, new = overwrite_without_space(c)
            os.truncate(c.mount / "fill/0", 1000)
            assert (c.mount / "fill/0").stat().st_size == 1000
            del c.files["fill/0"]
            for number in range(1, written, 2):
                os.unlink(c.mount / f"fill/{number}")
                del c.files[f"fill/{number}"]
            freed = written // 2 * FILE_BYTES
            wait_for("what was deleted is gone", lambda: c.status()["garbage_shards"] == 0, 60)
            wait_for("the space comes back", lambda: available(c) > 0.8 * freed, 60)
            os.fsync(fd)  # what was written is still there to be written
            os.close(fd)
            assert (c.mount / overwritten).read_bytes() == new, "the overwritten file holds something else"
            del c.files[overwritten]
            again = fill(c, "again")
            assert again * FILE_BYTES > 0.6 * freed, f"{again} of {written // 2} files find space again"
            c.fresh_mount()
            assert (c.mount / overwritten).read_bytes() == new, "the overwritten file holds something else"
            c.verify()
            c.fsck()
            say(f"{again} files were written into what {written // 2} had left; all bytes are right")


main(scenario)
