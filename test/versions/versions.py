"""A cluster whose programs are of two versions, under load, on the same data: each part is exchanged while the others run, up and down again.

    versions.py OLD NEW [--short]      directories with stria, stria-meta, stria-data, stria-mount (or a bazel-bin)

README.md in this folder says what is checked. `stria dev` of OLD keeps the cluster, so NEW's daemons are given OLD's arguments, as by a settings file
that nobody has changed."""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]

import plan  # noqa: E402
from load import DIRECTORY, SIZES, Load, check_everything, owed  # noqa: E402
from stria_cluster import Cluster, is_running, say, wait_for  # noqa: E402

PROGRAMS = {"stria": "tools", "stria-meta": "meta", "stria-data": "server", "stria-mount": "client/fuse"}
DAEMON = {"meta": "stria-meta", "node": "stria-data", "mount": "stria-mount"}
KIND = {"metadata": "meta", "nodes": "node", "mounts": "mount"}
SHORT_SIZES = (3 << 10, 200 << 10, 2 << 20)
STOP_S = 90


class Version:
    """The programs of a directory, beside each other."""

    def __init__(self, name, given, directory):
        self.name, self.dir = name, directory / name
        self.dir.mkdir()
        for program, place in PROGRAMS.items():
            found = next((p for p in (given / program, given / place / program) if p.exists()), None)
            if found is None:
                sys.exit(f"versions: there is no {program} in {given}; give a directory with {', '.join(PROGRAMS)}, or a bazel-bin")
            (self.dir / program).symlink_to(found.resolve())
        said = subprocess.run([self.dir / "stria", "--version"], capture_output=True, text=True, check=True)
        self.told = said.stdout.strip().removeprefix("stria ")

    def program(self, name):
        return str(self.dir / name)


class Room(Cluster):
    def __init__(self, versions, *shape):
        super().__init__(*shape)
        self.versions = versions
        self.second = self.dir / "mnt2"

    def mounts(self):
        return {p["name"]: pathlib.Path(p["address"]) for p in self.processes() if p["kind"] == "mount"}

    def process(self, name):
        return next(p for p in self.processes() if p["name"] == name)

    def exchange(self, name, version):
        """Ends it as its unit does, and starts that version in its place."""
        p = self.process(name)
        if p["kind"] == "mount":
            subprocess.run(["umount", p["address"]], check=True, timeout=STOP_S)
        else:
            os.kill(p["pid"], signal.SIGTERM)
        wait_for(f"{name} ends", lambda: not is_running(p["pid"]), STOP_S, 0.05)
        log = pathlib.Path(p["log"])
        before = log.stat().st_size
        self.start(name, STRIA_BIN_DIR=version.dir)
        if p["kind"] == "node":  # the cluster may not have missed it
            wait_for(f"{name} is registered", lambda: b"registered as node" in log.read_bytes()[before:], STOP_S, 0.05)

    def by(self, version, *args, **how):
        """A command of that version."""
        own, self.stria_path = self.stria_path, version.program("stria")
        try:
            return self.stria(*args, **how)
        finally:
            self.stria_path = own

    def check_programs(self, room):
        """Each process runs the version that it should."""
        for p in self.processes():
            part = next(i for i, part in enumerate(plan.PARTS) if KIND[part] == p["kind"])
            wanted = os.path.realpath(self.versions[room[part]].program(DAEMON[p["kind"]]))
            assert os.path.realpath(f"/proc/{p['pid']}/exe") == wanted, f"{p['name']} does not run {wanted}"

    def check_commands(self):
        """Either version's commands understand what runs."""
        for version in self.versions:
            status = json.loads(self.by(version, "status", "--json", check=False).stdout)  # it may find that this machine's disk is full
            assert len(status.get("nodes", [])) == self.shape[0] and all(n["state"] == "up" for n in status["nodes"]), status
            file = max((self.mount / DIRECTORY).iterdir(), key=lambda path: path.stat().st_size)
            where = json.loads(self.by(version, "where", file, "--by-host", "--json").stdout)
            assert sum(h["data_bytes"] for h in where["hosts"]) > 0, where
            self.by(version, "fsck")


def move_shards(room):
    """With nodes of both versions: shards go from an old node's disk and from a new one's to the others, which read each other."""
    for disk in ("n1:d1", f"n{room.shape[0]}:d1"):
        room.stria("disk", "drain", disk, "--yes")
        wait_for(f"{disk} is empty", lambda d=disk: room.stria("disk", "remove", d, "--dry-run", "--yes", check=False).returncode == 0, 300, 0.5)
        room.stria("disk", "undrain", disk, "--yes")
    room.stria("scrub", "start", "--rate", "1G")
    say("    shards of an old and a new node were moved to the others")


def step(room, ledgers, part, version, short):
    """Exchanges all programs of a part, one after the other, while the others work."""
    sizes = SHORT_SIZES if short else SIZES
    names = [p["name"] for p in room.processes() if p["kind"] == KIND[part]]
    if part == "mounts":
        for name in names:
            with Load([point for mount, point in room.mounts().items() if mount != name], ledgers, sizes):
                room.exchange(name, version)
        return
    with Load(room.mounts().values(), ledgers, sizes) as load:
        for number, name in enumerate(names, 1):
            room.exchange(name, version)
            load.progress()
            room.wait_whole()
            if part == "nodes" and number == len(names) // 2 and not short:
                move_shards(room)
        room.wait_well(180)


def check(room, ledgers, which):
    names, lines = owed(ledgers)
    for point in room.mounts().values():
        check_everything(point, names, lines)
    room.check_programs(which)
    room.check_commands()


def walk(old, new, short):
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stria-versions-") as d, contextlib.ExitStack() as stack:
        directory = pathlib.Path(d)
        versions = [Version("old", old, directory), Version("new", new, directory)]
        say(f"old: {versions[0].told}; new: {versions[1].told}")
        ledgers = directory / "ledgers"
        ledgers.mkdir()
        os.environ.update(STRIA=versions[0].program("stria"), STRIA_BIN_DIR=str(versions[0].dir))
        room = stack.enter_context(Room(versions, *((3, 1, "raid5:2+1") if short else (5, 2, "raid5:3+1"))))
        room.stria("dev", "mount", "--dir", room.cluster, "--at", room.second, "--node", "n2")
        (room.mount / DIRECTORY).mkdir()
        for part, version, after in plan.changes(plan.SHORT if short else plan.LONG):
            say(f"{part} become {versions[version].name}: {plan.told(after)}")
            step(room, ledgers, part, versions[version], short)
            check(room, ledgers, after)
        names, _ = owed(ledgers)
        say(f"{len(names)} files are there bit for bit, {time.monotonic() - began:.1f} s")


def main():
    p = argparse.ArgumentParser(description="Two versions of Stria's programs in one cluster, under load")
    p.add_argument("old", type=pathlib.Path, metavar="OLD", help="directory with the programs of the release before")
    p.add_argument("new", type=pathlib.Path, metavar="NEW", help="directory with those of this tree")
    p.add_argument("--short", action="store_true", help="three nodes, and only the order of docs/operations.md, there and back")
    args = p.parse_args()
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        sys.exit("versions: there is no /dev/fuse that can be used here")
    walk(args.old, args.new, args.short)
    say("passed")


if __name__ == "__main__":
    main()
