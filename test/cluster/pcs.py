"""PCs of a cluster on this machine: which of its processes share one, so that they can be cut off from the network together, and lose
their power together. Data and processes are those of `stria dev`.

The network is cut where the kernel hands packets to and takes them from sockets: each process of a PC starts in a control group of
its own, and a program of two instructions that drops everything is attached to that for one direction, or both. Nothing is closed
and nobody is told, whatever sockets there are or will be."""

import contextlib
import ctypes
import os
import pathlib
import platform
import shutil
import signal
import struct
import subprocess

from loop_disk import PowerDisk, Skip, check_that_it_cuts
from stria_cluster import find_stria, is_running, wait_for

SYS_BPF = {"x86_64": 321, "aarch64": 280}
BPF_PROG_LOAD, BPF_PROG_ATTACH, BPF_PROG_DETACH = 5, 8, 9
BPF_PROG_TYPE_CGROUP_SKB = 8
BPF_F_ALLOW_MULTI = 2
DIRECTIONS = {"in": 0, "out": 1}  # as the kernel numbers the places to attach to
DROP = struct.pack("<BBhi", 0xB7, 0, 0, 0) + struct.pack("<BBhi", 0x95, 0, 0, 0)  # r0 = 0; exit
PREFIX = "stria-test-"
COMMAND_S = 60


def bpf(command, attributes):
    memory = ctypes.create_string_buffer(attributes, len(attributes))
    done = ctypes.CDLL(None, use_errno=True).syscall(SYS_BPF.get(platform.machine(), -1), command, memory, len(attributes))
    if done < 0:
        raise OSError(ctypes.get_errno(), f"bpf: {os.strerror(ctypes.get_errno())}")
    return done


def load_drop():
    code, license_name = ctypes.create_string_buffer(DROP, len(DROP)), ctypes.create_string_buffer(b"GPL")
    return bpf(BPF_PROG_LOAD, struct.pack("<IIQQIIQIII", BPF_PROG_TYPE_CGROUP_SKB, len(DROP) // 8, ctypes.addressof(code),
                                          ctypes.addressof(license_name), 0, 0, 0, 0, 0, 0) + bytes(64))


class Groups:
    """Control groups, in a mount of their own; to be used in a namespace of mounts. Leaving the block removes them."""

    def __init__(self, directory):
        self.root = directory / "groups"
        self.made, self.cuts, self.program = [], [], None

    def __enter__(self):
        self.root.mkdir()
        done = subprocess.run(["mount", "-t", "cgroup2", "none", self.root], capture_output=True, text=True, timeout=COMMAND_S)
        if done.returncode != 0:
            raise Skip(f"control groups cannot be mounted here: {done.stderr.strip()}")
        for old in self.root.glob(f"{PREFIX}*"):  # of a run that was killed
            with contextlib.suppress(OSError):
                old.rmdir()
        try:
            self.program = load_drop()
            self.cut(self.make("probe"), DIRECTIONS)
            self.heal()
        except OSError as e:
            self.__exit__()
            raise Skip(f"the network of a control group cannot be cut here: {e.strerror}") from e
        return self

    def make(self, name):
        path = self.root / f"{PREFIX}{os.getpid()}-{os.stat('/proc/self/ns/net').st_ino}-{name}"
        path.mkdir()
        self.made.append(path)
        return path

    def cut(self, group, directions):
        for direction in directions:
            fd = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
            try:
                bpf(BPF_PROG_ATTACH, struct.pack("<IIII", fd, self.program, DIRECTIONS[direction], BPF_F_ALLOW_MULTI))
            except OSError:
                os.close(fd)
                raise
            self.cuts.append((fd, direction))

    def heal(self):
        while self.cuts:
            fd, direction = self.cuts.pop()
            bpf(BPF_PROG_DETACH, struct.pack("<IIII", fd, self.program, DIRECTIONS[direction], 0))
            os.close(fd)

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.heal()
        if self.program is not None:
            os.close(self.program)
        for group in self.made:
            with contextlib.suppress(OSError):
                wait_for(f"{group.name} is empty", lambda g=group: not (g / "cgroup.procs").read_text().strip(), COMMAND_S)
                group.rmdir()
        subprocess.run(["umount", "-l", self.root], check=False, timeout=COMMAND_S)


class Pcs:
    """`of`: {name of a PC: names of its processes}. To be set up before the cluster starts. `why_not`: what cannot be done here."""

    def __init__(self, directory, of, stack):
        self.of, self.disks, self.groups, self.why_not = of, {}, None, {}
        self.members = {}
        try:
            self.groups = stack.enter_context(Groups(directory))
            self.members = {pc: self.groups.make(pc) for pc in of}
        except Skip as e:
            self.why_not["cut"] = str(e)
        try:
            check_that_it_cuts(directory)
            self.disks = {pc: stack.enter_context(PowerDisk(directory, pc)) for pc in of}
        except Skip as e:
            self.why_not["power"] = str(e)

    def pc_of(self, process):
        return next(pc for pc, names in self.of.items() if process in names)

    def disks_of_processes(self):
        """For put_nodes_on."""
        return {name: self.disks[pc] for pc, names in self.of.items() for name in names} if self.disks else {}

    def wrap_programs(self, directory):
        """A directory for STRIA_BIN_DIR and PATH: what starts there joins its PC's group, told by its arguments."""
        directory.mkdir()
        built = pathlib.Path(find_stria())
        for program, below in (("stria-data", "server"), ("stria-mount", "client/fuse"), ("stria-meta", "meta"), ("etcd", "")):
            real = shutil.which("etcd") if program == "etcd" else next(
                p / program for p in (built.parent, built.parent.parent / below, built.resolve().parent.parent / below) if (p / program).exists())
            if program in ("stria-data", "stria-mount"):
                (directory / program).symlink_to(pathlib.Path(real).resolve())
                continue
            cases = "".join(f"    */{name}|{name}) echo $$ > '{self.members[pc]}/cgroup.procs' ;;\n"
                            for pc, names in self.of.items() for name in names if pc in self.members)
            (directory / program).write_text(f'#!/bin/sh\nfor a in "$@"; do\n  case "$a" in\n{cases}    *) ;;\n  esac\ndone\n'
                                             f'exec "{pathlib.Path(real).resolve()}" "$@"\n')
            (directory / program).chmod(0o755)

    # ---- What happens to one ----

    def cut(self, pc, directions):
        self.groups.cut(self.members[pc], directions)

    def heal(self):
        if self.members:
            self.groups.heal()

    def power_off(self, cluster, pc, silent):
        """`silent`: it says nothing of it to anybody; else its processes may, before they go. The disk before the processes: nothing
        that one still does gets onto it."""
        if silent and self.members:
            self.cut(pc, DIRECTIONS)
        self.disks[pc].cut()
        pids = [p["pid"] for p in cluster.processes() if p["name"] in self.of[pc]]
        for pid in pids:
            # RocksDB of Debian, which asserts, may have ended stria-meta when its disk went.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            wait_for("who had no power is gone", lambda p=pid: not is_running(p), COMMAND_S, 0.02)

    def power_on(self, pc):
        """Its disk and network; who starts its processes is the caller."""
        self.heal()
        self.disks[pc].off()
        self.disks[pc].on()
