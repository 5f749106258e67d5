"""A filesystem of its own in an image: a disk that can be small, be full, or lose its power."""

import fcntl
import os
import pathlib
import struct
import subprocess
import time

COMMAND_S = 120
OFF_S = 30
POWER_BYTES = 3 << 30  # sparse
# ioctl of ext4 and XFS; "no log flush": what is not on the disk now never will be.
IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2


class Skip(Exception):
    """What cannot be done on this machine."""


def holders(path):
    """Who has files open below it."""
    out = []
    for fd in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        try:
            target = os.readlink(fd)
            if target.startswith(str(path)):
                out.append(f"{fd.parts[2]} ({(fd.parent.parent / 'comm').read_text().strip()}) has {target}")
        except OSError:  # it has just ended
            continue
    return ", ".join(out) or "no process has a file of it open"


class LoopDisk:
    def __init__(self, directory, name, size_bytes, inodes=None, options="loop"):
        """`inodes`: so many, of an ext4. `options`: of mount."""
        self.image, self.path = directory / f"{name}.img", directory / name
        self.path.mkdir()
        with open(self.image, "wb") as f:
            f.truncate(size_bytes)  # sparse
        self.options = options
        kind = os.environ.get("STRIA_TEST_FS", "ext4")
        if inodes is not None and kind != "ext4":
            raise Skip(f"{kind} has as many inodes as it has room for")
        few = ["-N", str(inodes)] if inodes is not None else []
        made = subprocess.run([f"mkfs.{kind}", "-q", *few, self.image], capture_output=True, text=True, timeout=COMMAND_S)
        if made.returncode != 0:
            raise Skip(f"mkfs.{kind} failed: {made.stderr.strip()}")

    def on(self):
        done = subprocess.run(["mount", "-o", self.options, self.image, self.path], capture_output=True, text=True,
                              timeout=COMMAND_S)
        if done.returncode != 0:
            raise Skip(f"loop devices cannot be mounted here: {done.stderr.strip()}")

    def off(self):
        end = time.monotonic() + OFF_S
        while True:
            done = subprocess.run(["umount", self.path], capture_output=True, text=True, timeout=COMMAND_S)
            if done.returncode == 0:
                return
            # Somebody else's look at it (a scan of all disks, say) ends.
            assert time.monotonic() < end, f"{self.path} cannot be unmounted: {done.stderr.strip()}; {holders(self.path)}"
            time.sleep(0.2)

    def __enter__(self):
        self.on()
        return self

    def __exit__(self, *_):
        if os.path.ismount(self.path):
            subprocess.run(["umount", "-l", self.path], check=False, timeout=COMMAND_S)


class PowerDisk(LoopDisk):
    """One whose power can be cut."""

    def __init__(self, directory, name):
        super().__init__(directory, name, POWER_BYTES)

    def cut(self):
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)


def check_that_it_cuts(directory):
    """A file written and not synced is gone after a cut, one that was synced is not; else this shows nothing."""
    with PowerDisk(directory, "probe") as disk:
        kept = os.open(disk.path / "kept", os.O_CREAT | os.O_WRONLY)
        os.write(kept, b"kept")
        os.fsync(kept)
        os.close(kept)
        (disk.path / "lost").write_bytes(b"lost")
        try:
            disk.cut()
        except OSError as e:
            raise Skip(f"this filesystem cannot be shut down: {e.strerror}") from e
        disk.off()
        disk.on()
        there = sorted(f.name for f in disk.path.iterdir() if f.is_file())
        if there != ["kept"]:
            raise Skip(f"a shut-down filesystem holds {there} here, not just what was synced")
        disk.off()
    disk.image.unlink()


def put_nodes_on(cluster_directory, disks):
    """Before the cluster starts: the directory of each of these nodes (or "meta") is on its disk."""
    cluster_directory.mkdir()
    for name, disk in disks.items():
        (disk.path / name).mkdir()  # besides ext4's lost+found
        (cluster_directory / name).symlink_to(disk.path / name)
