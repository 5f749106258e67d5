"""Real processes on this machine: the cost of more data servers and of more clients."""

import contextlib
import itertools
import json
import multiprocessing
import os
import pathlib
import statistics
import threading
import time

from growth import Row
from tidy import command, end_with_parent
from work import MIB, drop_caches, read_file, reader_buffer, write_file

LAYOUT = "raid5:4+1"  # of all: only the number of servers or clients differs
SMALL_BYTES = 4096
CLIENT_SERVERS = 5
ROUNDS = 3


class Cluster:
    """One disk per server; everything below `place`."""

    def __init__(self, place, stria, servers):
        self.place, self.stria, self.servers = place, stria, servers
        self.dir = place / "cluster"

    def __enter__(self):
        self.place.mkdir(parents=True)
        self.ask("dev", "up", "--dir", self.dir, "--nodes", self.servers, "--disks", 1, "--layout", LAYOUT,
                 "--mount", self.mount_point(0))
        return self

    def __exit__(self, *exc):
        with contextlib.suppress(RuntimeError):
            self.ask("dev", "down", "--dir", self.dir)

    def ask(self, *args):
        return command(self.stria, *args)

    def mount_point(self, number):
        path = self.place / f"mnt{number}"
        path.mkdir(exist_ok=True)
        return path

    def add_mount(self, number):
        self.ask("dev", "mount", "--dir", self.dir, "--at", self.mount_point(number), "--node",
                 f"n{number % self.servers + 1}")

    def pids(self, kind):
        known = json.loads((self.dir / "cluster.json").read_text())["processes"]
        return [p["pid"] for p in known if p["kind"] == kind]

    def cpu_seconds(self, *kinds):
        return sum(cpu_seconds(pid) for kind in kinds for pid in self.pids(kind))


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


ALL = ("meta", "node", "mount")


# ---- Servers ----

def server_rows():
    return {
        "small": Row("create, write 4 KiB, fsync, close; median", "ms", {}, drawn="4 KiB and fsync"),
        "small_cpu": Row("the same, CPU of all daemons", "ms", {}),
        "small_meta_cpu": Row("the same, CPU of stria-meta", "ms", {}, drawn="its CPU of stria-meta"),
        "write": Row("sequential write, fsync at the end", "MB/s", {}, more_is_better=True, drawn="sequential write"),
        "write_cpu": Row("the same, CPU of all daemons per GB", "s", {}),
        "read": Row("cold sequential read", "MB/s", {}, more_is_better=True, drawn="cold read"),
        "read_cpu": Row("the same, CPU of all daemons per GB", "s", {}),
        "idle": Row("stria-meta while nothing is done, CPU per s", "ms", {}, judged=False),
        "idle_data": Row("a stria-data while nothing is done, CPU per s", "ms", {}),
        "meta_rss": Row("resident memory of stria-meta", "MiB", {}, drawn="memory of stria-meta"),
        "data_rss": Row("resident memory of a stria-data, median", "MiB", {}, drawn="memory of a stria-data"),
        "mount_rss": Row("resident memory of stria-mount", "MiB", {}),
    }


def measure_servers(cluster, rows, size_mib, files, idle_s, tell):
    """`tell(part)` is called as it goes."""
    def note(row, value):
        rows[row].values[cluster.servers] = value

    mount = cluster.mount_point(0)
    data = os.urandom(SMALL_BYTES)
    took, before, meta_before = [], cluster.cpu_seconds(*ALL), cluster.cpu_seconds("meta")
    for i in range(files):
        start = time.monotonic()
        write_file(mount / f"small{i}", SMALL_BYTES, data)
        took.append(time.monotonic() - start)
    note("small", statistics.median(took) * 1e3)
    note("small_cpu", (cluster.cpu_seconds(*ALL) - before) / files * 1e3)
    note("small_meta_cpu", (cluster.cpu_seconds("meta") - meta_before) / files * 1e3)
    tell(0.3)

    block, buffer, size = os.urandom(4 * MIB), reader_buffer(), size_mib * MIB
    rates = {"write": [], "read": []}
    cpu = {"write": [], "read": []}

    def timed(what, work):
        start, busy = time.monotonic(), cluster.cpu_seconds(*ALL)
        work()
        rates[what].append(size / 1e6 / (time.monotonic() - start))
        cpu[what].append((cluster.cpu_seconds(*ALL) - busy) / (size / 1e9))

    for turn in range(ROUNDS):
        path = mount / f"large{turn}"
        timed("write", lambda: write_file(path, size, block))
        drop_caches()
        timed("read", lambda: read_file(path, size, buffer))
        tell(0.3 + 0.5 * (turn + 1) / ROUNDS)
    for what in rates:
        note(what, statistics.median(rates[what]))
        note(f"{what}_cpu", statistics.median(cpu[what]))
    note("meta_rss", resident_mib(cluster.pids("meta")[0]))
    note("data_rss", statistics.median(resident_mib(p) for p in cluster.pids("node")))
    note("mount_rss", resident_mib(cluster.pids("mount")[0]))

    time.sleep(2)  # what follows a write by itself
    meta, nodes, start = cluster.cpu_seconds("meta"), cluster.cpu_seconds("node"), time.monotonic()
    time.sleep(idle_s)
    passed = time.monotonic() - start
    note("idle", (cluster.cpu_seconds("meta") - meta) / passed * 1e3)
    note("idle_data", (cluster.cpu_seconds("node") - nodes) / passed / cluster.servers * 1e3)
    tell(0.9)


# ---- Clients ----

OPERATIONS = ("create", "stat", "rename", "unlink")


def client_rows():
    rows = {"rate": Row("all operations", "/s", {}, more_is_better=True, drawn="all operations")}
    for what in OPERATIONS:
        # Beyond the machine's cores the processes wait for each other; Stria is not the limit then.
        rows[what] = Row(f"{what}, median", "ms", {}, judged=False)
    rows |= {
        "meta_cpu": Row("CPU of stria-meta per operation", "µs", {}, drawn="CPU of stria-meta"),
        "mount_cpu": Row("CPU of all mounts per operation", "µs", {}, drawn="CPU of all mounts"),
        "meta_rss": Row("resident memory of stria-meta", "MiB", {}, drawn="memory of stria-meta"),
        "mount_rss": Row("resident memory of a mount, median", "MiB", {}, drawn="memory of a mount"),
    }
    return rows


def cycle(directory, i):
    """[(operation, seconds)] of one file's life."""
    name, renamed = directory / f"f{i}", directory / f"g{i}"
    steps = (lambda: os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)), lambda: os.stat(name),
             lambda: os.rename(name, renamed), lambda: os.unlink(renamed))
    out = []
    for what, step in zip(OPERATIONS, steps):
        start = time.perf_counter()
        step()
        out.append((what, time.perf_counter() - start))
    return out


def work_on(directory, seconds, ready, answers):
    """One client: its own directory on its own mount."""
    end_with_parent()
    try:
        directory.mkdir(exist_ok=True)
        for i in range(5):  # leases, sessions, first connections
            cycle(directory, i)
        ready.wait(120)
        begin, seen = time.perf_counter(), {what: [] for what in OPERATIONS}
        for i in itertools.count(10):
            if time.perf_counter() - begin > seconds:
                break
            for what, took in cycle(directory, i):
                seen[what].append(took)
        answers.put((seen, time.perf_counter() - begin))
        ready.wait(120)
    except Exception as e:  # the others wait for us
        ready.abort()
        answers.put(e)


def measure_clients(cluster, clients, seconds, rows):
    context = multiprocessing.get_context("fork")
    ready, answers = context.Barrier(clients + 1), context.Queue()
    workers = [context.Process(target=work_on, args=(cluster.mount_point(i) / f"client{i}", seconds, ready, answers), daemon=True)
               for i in range(clients)]
    try:
        for w in workers:
            w.start()
        with contextlib.suppress(threading.BrokenBarrierError):  # what broke it is among the answers
            ready.wait(180)
        meta, mounts = cluster.cpu_seconds("meta"), cluster.cpu_seconds("mount")
        got = []
        for _ in workers:
            got.append(answers.get(timeout=seconds * 10 + 120))
            if isinstance(got[-1], Exception):
                raise RuntimeError(f"a client failed: {got[-1]!r}")
        meta, mounts = cluster.cpu_seconds("meta") - meta, cluster.cpu_seconds("mount") - mounts
        ready.wait(120)
        for w in workers:
            w.join(60)
    finally:
        for w in workers:
            if w.is_alive():
                w.kill()
                w.join()
    done = sum(len(times) for seen, _ in got for times in seen.values())

    def note(row, value):
        rows[row].values[clients] = value

    note("rate", sum(sum(map(len, seen.values())) / took for seen, took in got))
    for what in OPERATIONS:
        note(what, statistics.median(t for seen, _ in got for t in seen[what]) * 1e3)
    note("meta_cpu", meta / done * 1e6)
    note("mount_cpu", mounts / done * 1e6)
    note("meta_rss", resident_mib(cluster.pids("meta")[0]))
    note("mount_rss", statistics.median(resident_mib(p) for p in cluster.pids("mount")))
