"""Power cuts: metadata and every node on disks of their own (loop-mounted images), whose filesystems are shut
down in the middle of parallel copies: whatever was not synced is gone, as if the power had failed.

One disk, one node, everything at once, everything once more. Each time, after all is back: what fsync or close
acknowledged is there bit for bit; what was being written holds a prefix of what was written; a document saved
over and over by renaming (as editors do) is one whole version, not older than the last one known saved.
STRIA_TEST_SECONDS=30 writes for so long before each cut."""

import contextlib
import multiprocessing
import os
import pathlib
import random
import signal
import tempfile
import time

from loop_disk import PowerDisk, Skip, check_that_it_cuts, put_nodes_on
from stria_cluster import MIB, Cluster, chunks_of, is_running, main, say, wait_for, write_file

NODES = 5
WRITERS = 4
WRITE_S = float(os.environ.get("STRIA_TEST_SECONDS", 3))
SETTLE_S = 120
LARGE_BYTES = 12 * MIB
SAVE_BYTES = 3 * MIB


class PoweredCluster(Cluster):
    """Its metadata and nodes live on PowerDisks."""

    def __init__(self, disks):
        super().__init__(nodes=NODES, disks=1, layout="raid5:3+1")
        self.disks = disks
        put_nodes_on(self.cluster, disks)

    def power_off(self, names):
        """The disks first: nothing that a dying process still does gets onto them."""
        for name in names:
            self.disks[name].cut()
        for p in self.processes():
            if p["name"] in names:
                # RocksDB of Debian, which asserts, may have ended stria-meta when its disk went.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(p["pid"], signal.SIGKILL)
        for p in self.processes():
            if p["name"] in names:
                wait_for(f"{p['name']} is gone", lambda pid=p["pid"]: not is_running(pid), 30, 0.05)

    def power_on(self, names):
        for p in self.processes():
            if p["name"] in names and is_running(p["pid"]):  # a cut disk does not end its node
                self.kill(p["name"])
        for name in names:
            self.disks[name].off()
            self.disks[name].on()
        for name in names:
            self.start(name)


# ---- What runs meanwhile: every function is a process.


def copy_files(mount, writer, stop, acknowledged, started):
    rng = random.Random(writer)
    number = len(started) * 1000  # names of an earlier round are not used again
    while not stop.is_set():
        size = rng.choice([1, 4097, 64 * 1024 + 1, rng.randrange(MIB), LARGE_BYTES + rng.randrange(MIB)])
        name = f"writer{writer}/{number}"
        started.append((name, size))
        written = write_file(mount, name, size, sync=rng.random() < 0.5)  # else close makes it durable
        acknowledged.append((name, *written))
        number += 1


def version_bytes(version):
    head = b"version %d\n" % version
    return head + b"".join(chunks_of(1 + version * 7919 % SAVE_BYTES, f"save {version}"))


def save_document(mount, first, stop, saved):
    version = first
    while not stop.is_set():
        version += 1
        new = mount / ".document.new"
        with open(new, "wb", buffering=0) as f:
            f.write(version_bytes(version))
            if version % 2:
                os.fsync(f.fileno())
        os.rename(new, mount / "document")
        directory = os.open(mount, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
        saved.value = version


class Load:
    """The writers of one round."""

    def __init__(self, c, manager):
        self.c = c
        self.stop = multiprocessing.Event()
        self.acknowledged, self.started = manager.list(), manager.list(c.started)
        self.saved = multiprocessing.Value("Q", c.saved)
        self.all = [multiprocessing.Process(target=copy_files, daemon=True,
                                            args=(c.mount, i, self.stop, self.acknowledged, self.started))
                    for i in range(WRITERS)]
        self.all.append(multiprocessing.Process(target=save_document, daemon=True,
                                                args=(c.mount, c.saved, self.stop, self.saved)))
        for p in self.all:
            p.start()

    def end(self, may_fail):
        self.stop.set()
        for p in self.all:
            p.join(180)
            assert p.exitcode is not None, "a writer hangs"
            assert may_fail or p.exitcode == 0, "a writer failed"
        self.c.files.update({name: (size, digest) for name, size, digest in self.acknowledged})
        self.c.started = list(self.started)
        self.c.saved = self.saved.value


# ---- What must hold afterwards


def check_document(c):
    if not (c.mount / "document").exists():
        assert c.saved == 0, f"version {c.saved} was saved, and the document is gone"
        return
    data = (c.mount / "document").read_bytes()
    version = int(data.split(b"\n", 1)[0].split()[1])
    assert version >= c.saved, f"version {c.saved} was saved, version {version} is there"
    assert data == version_bytes(version), f"the document is not version {version} as a whole: {len(data)} bytes"
    c.saved = version


def check_prefixes(c):
    """Files whose writing was cut: what they hold is the front of what was to be written."""
    unfinished = 0
    for name, size in c.started:
        path = c.mount / name
        if name in c.files or not path.exists():
            continue
        data = path.read_bytes()
        want = b"".join(chunks_of(size, f"{name} {size}"))
        assert data == want[:len(data)], f"{name} was being written: its {len(data)} bytes are not a prefix"
        unfinished += 1
    return unfinished


def check(c, what):
    c.verify()
    check_document(c)
    unfinished = check_prefixes(c)
    say(f"after {what}: {len(c.files)} acknowledged files, {unfinished} unfinished ones and document version "
        f"{c.saved} are as they must be")


def cut_some(c, manager, what, cut, names):
    load = Load(c, manager)
    time.sleep(WRITE_S)
    before = len(load.acknowledged)
    cut(names)
    say(f"{what} lost its power after {before} files")
    wait_for("files are written without it", lambda: len(load.acknowledged) > before + WRITERS, SETTLE_S)
    load.end(may_fail=False)
    c.power_on(names)
    check(c, what)


def cut_everything(c, manager, what):
    load = Load(c, manager)
    time.sleep(WRITE_S)
    names = list(c.disks)
    random.Random(what).shuffle(names)
    c.power_off(names)
    c.kill("mount")
    load.end(may_fail=True)
    assert load.acknowledged, "nothing was acknowledged before the cut"
    say(f"everything lost its power after {len(load.acknowledged)} files")
    for name in names:
        c.disks[name].off()
        c.disks[name].on()
    c.start_all()
    check(c, what)


def scenario():
    with tempfile.TemporaryDirectory(prefix="stria-power-", dir=os.environ.get("STRIA_TEST_DIR", "/var/tmp")) as d, \
            contextlib.ExitStack() as stack, multiprocessing.Manager() as manager:
        directory = pathlib.Path(d)
        try:
            check_that_it_cuts(directory)
            disks = {name: stack.enter_context(PowerDisk(directory, name))
                     for name in ["meta", *(f"n{i + 1}" for i in range(NODES))]}
        except Skip as e:
            say(f"SKIPPED: {e}")
            return
        with PoweredCluster(disks) as c:
            c.started, c.saved = [], 0
            cut_some(c, manager, "the disk of n2", lambda names: [c.disks[n].cut() for n in names], ["n2"])
            cut_some(c, manager, "node n3", c.power_off, ["n3"])
            cut_everything(c, manager, "a power failure of everything")
            cut_everything(c, manager, "another power failure of everything")
            c.wait_whole()
            c.fsck()


main(scenario)
