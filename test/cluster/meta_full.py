"""The disk of the metadata gets full: status warns from 80 % on, creating gives ENOSPC in time, reading and deleting go on, also
after a restart on the full disk, and all goes on by itself when there is room. Something else takes the last byte, too: reading goes
on, also after restarts. The same when inodes are used up, and when the filesystem can only be read any more."""

import contextlib
import errno
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from loop_disk import LoopDisk, Skip, put_nodes_on
from stria_cluster import MIB, Cluster, main, say, wait_for

DISK_BYTES = 256 * MIB
READS_ALONE = "nothing can be changed; reading goes on"


def findings(c):
    return " ".join(f["what"] for f in c.status().get("findings", []))


def occupy(path, bytes_left):
    """Somebody else's file, so large that this is left."""
    s = os.statvfs(path.parent)
    size = s.f_bavail * s.f_frsize - bytes_left
    if size > 0:
        with open(path, "ab") as f:
            os.posix_fallocate(f.fileno(), f.tell(), size)


def occupy_all(path):
    """The same until nothing is left, blocks that only root may use among it."""
    with open(path, "ab") as f:
        step = MIB
        while step >= 4096:
            try:
                os.posix_fallocate(f.fileno(), os.fstat(f.fileno()).st_size, step)
            except OSError as e:
                assert e.errno == errno.ENOSPC, e
                step //= 2


def unlink(c, name):
    """The errno; 0: it is gone."""
    try:
        os.unlink(c.mount / name)
        return 0
    except OSError as e:
        return e.errno


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


def eat_inodes(directory, left):
    """Makes empty files there until so many inodes are left."""
    directory.mkdir(exist_ok=True)
    made = len(os.listdir(directory))
    with contextlib.suppress(OSError):
        while os.statvfs(directory).f_favail > left:
            (directory / str(made)).touch()
            made += 1


def inodes(disk):
    c = Cluster(nodes=3, disks=1, layout="raid5:2+1")
    put_nodes_on(c.cluster, {"meta": disk})
    eaten = disk.path / "eaten"
    with c:
        c.write("before", 3 * MIB)
        for name in ("small", "another"):
            (c.mount / name).write_bytes(b"small")
        assert "metadata's disk" not in findings(c), findings(c)
        eat_inodes(eaten, 80)
        wait_for("status warns", lambda: "% full" in findings(c) and "inodes are left" in findings(c), 30)
        assert create(c, "scarce") == 0
        eat_inodes(eaten, 0)
        wait_for("nothing can be created", lambda: create(c, f"{time.monotonic()}") == errno.ENOSPC, 60)
        wait_for("status says so", lambda: "is full: nothing can be created" in findings(c), 30)
        c.verify()
        assert unlink(c, "small") == 0
        c.kill("meta")
        c.start("meta")
        wait_for("it serves", lambda: "error" not in c.status(), 60)
        c.verify()
        assert unlink(c, "another") == 0
        eat_inodes(eaten, 0)
        wait_for("status says so", lambda: READS_ALONE in findings(c), 30)
        assert unlink(c, "scarce") == errno.ENOSPC
        for _ in range(2):
            c.kill("meta")
            eat_inodes(eaten, 0)
            c.start("meta")
            wait_for("it serves", lambda: "error" not in c.status(), 60)
            c.fresh_mount()
            c.verify()
        shutil.rmtree(eaten)
        wait_for("it goes on by itself", lambda: create(c, f"{time.monotonic()}") == 0, 60)
        wait_for("status is silent about it", lambda: "metadata's disk" not in findings(c), 30)
        c.write("afterwards", 3 * MIB)
        c.verify()
        c.fsck()
        say("the same without inodes")


def device_of(disk):
    return pathlib.Path(next(line.split()[0] for line in pathlib.Path("/proc/mounts").read_text().splitlines() if line.split()[1] == str(disk.path)))


def loop_devices(image):
    return subprocess.run(["losetup", "-j", image], capture_output=True, text=True, timeout=60).stdout


def read_only(disk):
    fault = pathlib.Path("/sys/fs/ext4") / device_of(disk).name / "trigger_fs_error"
    if not os.access(fault, os.W_OK) or os.statvfs("/sys").f_flag & os.ST_RDONLY:
        say("a filesystem cannot be made to fail here")
        return
    c = Cluster(nodes=3, disks=1, layout="raid5:2+1")
    put_nodes_on(c.cluster, {"meta": disk})
    with c:
        c.write("before", 3 * MIB)
        (c.mount / "kept").write_bytes(b"kept")
        arguments = c.arguments("meta")
        c.kill("meta")
        c.start_with("meta", arguments, await_up=False)
        wait_for("it serves", lambda: "error" not in c.status(), 60)
        wait_for("it has nothing to do", lambda: create(c, "now") == 0 and c.wait_whole() is None, 60)
        time.sleep(3)
        fault.write_text("1")
        # What it was writing at that moment is lost with its store.
        code = wait_for("it has noticed", lambda: c.own["meta"].poll() or ("can only be read: nothing can be changed" in findings(c) and "reads"), 60)
        if code == "reads":
            c.verify()
            assert create(c, "none") != 0 and unlink(c, "kept") != 0
        else:
            assert code == 1, code
        c.end_own("meta")
        refused(c, arguments, "is on a file system that can only be read: mount it for writing")
        disk.off()
        # As long as a mount namespace of somebody else has a copy of the mount, the filesystem stays as it is.
        wait_for("nobody has it mounted", lambda: not loop_devices(disk.image), 60)
        subprocess.run(["e2fsck", "-fy", disk.image], check=False, capture_output=True, timeout=60)
        disk.on()
        c.start("meta")
        wait_for("it goes on", lambda: create(c, f"{time.monotonic()}") == 0, 60)
        c.verify()
        c.fsck()
        say(f"a filesystem that is read-only after an error: {code}, and all is there when it can be written again")


def scenario():
    with tempfile.TemporaryDirectory(dir=os.environ.get("STRIA_TEST_DIR", "/var/tmp")) as d:
        d = pathlib.Path(d)
        with LoopDisk(d, "ro", DISK_BYTES, options="loop,errors=remount-ro") as disk:
            read_only(disk)
        with LoopDisk(d, "few", DISK_BYTES, inodes=600) as disk:
            inodes(disk)
        with LoopDisk(d, "meta", DISK_BYTES) as disk:
            full(disk)


def refused(c, arguments, sentence):
    """stria-meta ends at its start, and says why."""
    log = c.cluster / "log/meta.log"
    before = log.stat().st_size
    c.start_with("meta", arguments, await_up=False)
    code = c.own["meta"].wait(60)
    text = log.read_bytes()[before:].decode()
    assert code == 1 and sentence in text, (code, text)
    c.end_own("meta")


def quite_full(c, disk, filler):
    """Not even what deleting needs is left."""
    occupy_all(filler)
    wait_for("status says so", lambda: READS_ALONE in findings(c), 30)
    assert unlink(c, "kept") == errno.ENOSPC
    assert create(c, "dir/none") == errno.ENOSPC
    assert (c.mount / "kept").stat().st_size == 4
    c.verify()
    names = None
    for i in range(4):
        c.kill("meta")
        occupy_all(filler)
        c.start("meta")
        wait_for("it serves", lambda: "error" not in c.status(), 60)
        c.fresh_mount()
        c.verify()
        assert (c.mount / "kept").read_bytes() == b"kept", i
        before, names = names, sorted(os.listdir(c.mount / "dir"))
        assert before in (None, names), (i, before, names)
        occupy_all(filler)
        wait_for("status says so", lambda: READS_ALONE in findings(c), 30)
        assert (e := unlink(c, "kept")) == errno.ENOSPC, e
    say("nothing is left: reading goes on, also after restarts")

    arguments = c.arguments("meta")
    c.kill("meta")
    shutil.rmtree(disk.path / "meta/reserve.start", ignore_errors=True)
    occupy_all(filler)
    refused(c, arguments, "which the store needs to start: make room there")
    filler.unlink()
    c.start("meta")
    wait_for("it serves", lambda: "error" not in c.status(), 60)
    c.verify()
    say("and when even the room to start is gone, it says so")


def full(disk):
    c = Cluster(nodes=3, disks=1, layout="raid5:2+1")
    put_nodes_on(c.cluster, {"meta": disk})
    filler = disk.path / "filler"
    with c:
        c.write("before", 3 * MIB)
        (c.mount / "small").write_bytes(b"small")
        (c.mount / "dir").mkdir()
        (c.mount / "kept").write_bytes(b"kept")
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

        quite_full(c, disk, filler)
        wait_for("it goes on by itself", lambda: create(c, f"dir/{time.monotonic()}") == 0, 60)
        wait_for("status is silent about it", lambda: "metadata's disk" not in findings(c), 30)
        c.write("afterwards", 3 * MIB)
        c.verify()
        c.fsck()


try:
    main(scenario)
except Skip as e:
    print(f"skipped: {e}")
