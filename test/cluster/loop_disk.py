"""A filesystem of its own in an image: a disk that can be small, be full, or lose its power."""

import os
import subprocess

COMMAND_S = 120


class Skip(Exception):
    """What cannot be done on this machine."""


class LoopDisk:
    def __init__(self, directory, name, size_bytes):
        self.image, self.path = directory / f"{name}.img", directory / name
        self.path.mkdir()
        with open(self.image, "wb") as f:
            f.truncate(size_bytes)  # sparse
        kind = os.environ.get("STRIA_TEST_FS", "ext4")
        made = subprocess.run([f"mkfs.{kind}", "-q", self.image], capture_output=True, text=True, timeout=COMMAND_S)
        if made.returncode != 0:
            raise Skip(f"mkfs.{kind} failed: {made.stderr.strip()}")

    def on(self):
        done = subprocess.run(["mount", "-o", "loop", self.image, self.path], capture_output=True, text=True,
                              timeout=COMMAND_S)
        if done.returncode != 0:
            raise Skip(f"loop devices cannot be mounted here: {done.stderr.strip()}")

    def off(self):
        subprocess.run(["umount", self.path], check=True, capture_output=True, timeout=COMMAND_S)

    def __enter__(self):
        self.on()
        return self

    def __exit__(self, *_):
        if os.path.ismount(self.path):
            subprocess.run(["umount", "-l", self.path], check=False, timeout=COMMAND_S)


def put_nodes_on(cluster_directory, disks):
    """Before the cluster starts: the directory of each of these nodes (or "meta") is on its disk."""
    cluster_directory.mkdir()
    for name, disk in disks.items():
        (disk.path / name).mkdir()  # besides ext4's lost+found
        (cluster_directory / name).symlink_to(disk.path / name)
