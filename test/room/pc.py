"""A PC: namespaces with a root, disks, an address and services of their own. Its power can be cut."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time
import uuid

from service import Service, child_of

HERE = pathlib.Path(__file__).resolve().parent
# Sparse.
SYSTEM_BYTES, DISK_BYTES = 2 << 30, 4 << 30
COMMAND_S = 240
BRIDGE = "room"
# ioctl of ext4 and XFS; "no log flush": what is not on the disk now never will be.
IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2


def run_here(*command, **more):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=COMMAND_S, **more)
    assert done.returncode == 0, f"{' '.join(map(str, command))} gave {done.returncode}:\n{done.stdout}"
    return done.stdout


def make_disk(image, size_bytes):
    with open(image, "wb") as f:
        f.truncate(size_bytes)
    run_here("mkfs.ext4", "-q", "-m", "0", image)


def loops_of(image):
    """Loop devices that still have it."""
    return run_here("losetup", "--noheadings", "--output", "NAME", "--associated", image).split()


def wait_until(what, condition, timeout_s, poll_s=0.2):
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {timeout_s} s: {what}"
        time.sleep(poll_s)
    return value


def cut_disk(path):
    """What is not synced there is lost, and nothing more gets onto it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(fd, IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    finally:
        os.close(fd)


class Pc:
    def __init__(self, room, number, name, disks):
        self.room, self.number, self.name = room, number, name
        self.dir = room.dir / name
        self.machine_id = uuid.uuid4().hex
        for part in ("system", "root"):
            (self.dir / part).mkdir(parents=True)
        self.system = self.dir / "system.img"
        make_disk(self.system, SYSTEM_BYTES)
        self.disks = {}  # name -> image; mounted on /srv/NAME
        for disk in disks:
            self.new_disk(disk)
        self.holder, self.init, self.system_fd = None, 0, -1
        self.enabled = []  # units that start with the PC
        self.services = {}

    def new_disk(self, disk):
        """An empty one, in place of the one that there may be; it counts from the next start on."""
        image = self.dir / f"{disk}-{time.monotonic_ns()}.img"
        make_disk(image, DISK_BYTES)
        self.disks[disk] = image
        return image

    @property
    def is_on(self):
        return self.holder is not None

    @property
    def inside(self):
        """Its root, as seen from here."""
        return pathlib.Path(f"/proc/{self.init}/root")

    # ---- Power ----

    def power_on(self):
        assert not self.is_on
        # Until the last holder of the disk is gone; else the filesystem would be the old one, that was shut down.
        images = [self.system, *self.disks.values()]
        wait_until(f"the disks of {self.name} are let go", lambda: not any(loops_of(image) for image in images), 30)
        what = {"dir": str(self.dir), "system": str(self.system), "lower": str(self.room.lower), "name": self.name, "machine_id": self.machine_id,
                "disks": {name: str(image) for name, image in self.disks.items()}, "hosts": self.room.hosts}
        errors = self.room.logs / f"{self.name}.log"
        with open(errors, "ab") as log:
            self.holder = subprocess.Popen(["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", sys.executable, "-B",
                                            HERE / "pc_init.py", json.dumps(what)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        said = self.holder.stdout.readline()
        assert said, f"{self.name} cannot be started: {errors.read_text()[-1000:]}"
        self.system_fd = json.loads(said)["system_fd"]
        self.init = child_of(self.holder.pid)
        self._plug_in()

    def start_enabled(self):
        for unit in self.enabled:
            self.services[unit] = Service(self, unit)

    def start(self, unit):
        """systemctl enable --now"""
        if unit not in self.enabled:
            self.enabled.append(unit)
        self.services[unit] = Service(self, unit)
        self.services[unit].wait_ready()

    def restart(self, unit):
        self.services[unit].stop()
        self.start(unit)

    def abandon(self):
        for service in self.services.values():
            service.abandon()

    def unplug(self):
        """From the network: nobody hears any more from it, not even that its connections end."""
        run_here("ip", "link", "set", self.cable, "down")

    def cut_disks(self):
        for path in [f"/proc/{self.init}/fd/{self.system_fd}", *(self.inside / "srv" / disk for disk in self.disks)]:
            with contextlib.suppress(OSError):  # it is dead already
                cut_disk(path)

    def kill_all(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.init, signal.SIGKILL)
        self.holder.wait(timeout=COMMAND_S)
        self.holder.stdout.close()
        self.holder, self.init = None, 0
        for service in self.services.values():
            service.thread.join(timeout=COMMAND_S)
        self.services = {}

    def power_off(self):
        """kill -9 of all of it, and its disks forget what they had not been told to keep."""
        self.abandon()
        self.unplug()
        self.cut_disks()
        self.kill_all()

    def shut_down(self):
        for service in reversed(list(self.services.values())):
            service.stop()
        self.kill_all()

    # ---- Network ----

    @property
    def cable(self):
        return f"{BRIDGE}{self.number}"

    def _plug_in(self):
        subprocess.run(["ip", "link", "delete", self.cable], capture_output=True, check=False)  # of its former life, if that is still dying
        run_here("ip", "link", "add", "name", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.init)
        run_here("ip", "link", "set", self.cable, "master", BRIDGE, "up")
        there = ["nsenter", "--target", self.init, "--net", "ip"]
        run_here(*there, "link", "set", "lo", "up")
        run_here(*there, "address", "add", f"{self.room.hosts[self.name]}/24", "dev", "eth0")
        run_here(*there, "link", "set", "eth0", "up")

    # ---- Commands ----

    def environment(self, **more):
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", **more}

    def enter(self, *command):
        return ["nsenter", "--target", str(self.init), "--mount", "--net", "--uts", "--ipc", "--pid", "--root", "--wd", "--", *map(str, command)]

    def run(self, *command, check=True, timeout_s=COMMAND_S, text=None):
        """As root there; `text` is its standard input. Gives what it prints."""
        how = {"input": text} if text is not None else {"stdin": subprocess.DEVNULL}
        done = subprocess.run(self.enter(*command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=timeout_s,
                              env=self.environment(), **how)
        assert not check or done.returncode == 0, f"{self.name}# {' '.join(map(str, command))} gave {done.returncode}:\n{done.stdout}"
        return done.stdout

    def succeeds(self, *command):
        return subprocess.run(self.enter(*command), stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=COMMAND_S,
                              env=self.environment()).returncode == 0

    def install(self, debs):
        where = self.inside / "var/cache/stria-room"
        where.mkdir(exist_ok=True)
        for deb in debs:
            shutil.copy(deb, where)
        # As anywhere but in containers, whose dpkg may be told not to sync.
        self.run("dpkg", "--no-force-unsafe-io", "--install", *(f"/var/cache/stria-room/{deb.name}" for deb in debs))
        for deb in debs:
            (where / deb.name).unlink()

    def insert_disk(self, disk):
        """A new, empty disk, mounted on /srv/DISK as the admin would."""
        image = self.new_disk(disk)
        device = run_here("losetup", "--find", "--show", image).strip()
        st = os.stat(device)
        os.mknod(self.inside / device.lstrip("/"), st.st_mode, st.st_rdev)
        self.run("mount", device, f"/srv/{disk}")
        run_here("losetup", "--detach", device)  # when it is unmounted
