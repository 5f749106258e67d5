"""How fast a lost node is rebuilt, and what readers notice of it.

What is rebuilt is compared with copying as many bytes on the mount and on the plain disk, in the same run; what readers get
during a rebuild, with what they get when all is well. Each round makes a cluster of its own: six nodes with one disk each,
raid5:4+1, all on this machine. Ratios are what counts, and only those of a machine that does nothing else.
"""

import argparse
import datetime
import json
import multiprocessing
import os
import pathlib
import shutil
import statistics
import sys
import time

from results import say
from stria_bench import ROOT
from systems import Stria, run, wait_for
from tidy import place, run_to_the_end
from work import MIB, drop_caches, reader_buffer, write_file

NODES = 6
FILES = 8
COPY_BLOCK = 4 * MIB
DONE_S = 3600


class SixNodes(Stria):
    nodes = NODES

    def ask(self, *args, check=True):
        meta = json.loads((self.place / "cluster" / "cluster.json").read_text())["meta"]
        return run(self.stria, *args, check=check, env={**os.environ, "STRIA_META": meta})

    def status(self):
        return json.loads(self.ask("status", "--json", check=False).stdout)  # its exit code says how it is

    def kill(self, node):
        run(self.stria, "dev", "kill", node, "--dir", self.place / "cluster")
        wait_for(f"{node} is missed", lambda: self.state(node) in ("suspect", "down"))

    def start_node(self, node):
        run(self.stria, "dev", "start", node, "--dir", self.place / "cluster")
        wait_for(f"{node} is up again", lambda: self.state(node) == "up" and self.status()["garbage_shards"] == 0, 120)

    def state(self, node):
        return next(n["state"] for n in self.status()["nodes"] if n["name"] == node)

    def used(self, node):
        return sum(d["used_bytes"] for d in self.status()["disks"] if d["node"] == node)

    def rebuilt(self):
        s = self.status()
        return s["degraded_stripes"] == 0 and s["lost_stripes"] == 0


def copy(source, target):
    """Bytes through the application: cp itself would have the stripes shared."""
    with open(source, "rb", buffering=0) as f, open(target, "wb", buffering=0) as t:
        while block := f.read(COPY_BLOCK):
            view = memoryview(block)
            while view:
                view = view[t.write(view):]
        os.fsync(t.fileno())


def copy_rate(sources, directory, amount):
    """MB/s of copying `amount` bytes, cold."""
    drop_caches()
    start, done = time.monotonic(), 0
    for source in sources:
        if done >= amount:
            break
        copy(source, directory / "copy")
        done += source.stat().st_size
    seconds = time.monotonic() - start
    (directory / "copy").unlink()
    return done / 1e6 / seconds


def disk_limit(directory, seconds=5):
    """MB/s that the one disk can write while it reads four times as much, as a rebuild from 4+1 has it do: 1 MiB each, past
    the page cache, many under way. None without fio."""
    if not shutil.which("fio"):
        return None
    path = directory / "limit"
    job = ["fio", "--name=limit", f"--filename={path.absolute()}", "--size=4g", "--bs=1m", "--direct=1", "--ioengine=libaio",
           "--iodepth=16", "--output-format=json"]
    run(*job, "--rw=write")
    done = run(*job, "--rw=randrw", "--rwmixread=80", f"--runtime={seconds}", "--time_based").stdout
    path.unlink()
    return json.loads(done[done.index("{"):])["jobs"][0]["write"]["bw_bytes"] / 1e6


def read_on(paths, turn, stop, done):
    """Counts each block, because a file takes longer than the measurement."""
    buffer = reader_buffer()
    while not stop.is_set():
        path = paths[turn % len(paths)]
        turn += 1
        with open(path, "rb", buffering=0) as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while not stop.is_set() and (n := f.readinto(buffer)):
                with done.get_lock():
                    done.value += n


class Readers:
    def __init__(self, paths, count):
        self.stop, self.done = multiprocessing.Event(), multiprocessing.Value("q", 0)
        self.workers = [multiprocessing.Process(target=read_on, args=(paths, i * 3, self.stop, self.done), daemon=True)
                        for i in range(count)]
        for w in self.workers:
            w.start()

    def rate_until(self, condition):
        """MB/s from now on until it is true."""
        start, before = time.monotonic(), self.done.value
        while not condition():
            time.sleep(0.2)
            if not all(w.is_alive() for w in self.workers):
                raise RuntimeError("a reader failed")
        return (self.done.value - before) / 1e6 / (time.monotonic() - start)

    def rate_for(self, seconds):
        end = time.monotonic() + seconds
        return self.rate_until(lambda: time.monotonic() > end)

    def end(self):
        self.stop.set()
        for w in self.workers:
            w.join()


def one_round(system, args, values):
    def note(what, value):
        values.setdefault(what, []).append(value)
        say(f"  {what:52} {value:10.1f} MB/s")

    with system.mounted() as mount:
        size = args.size_mib * MIB // FILES
        block = os.urandom(4 * MIB)
        paths = [mount / f"f{i}" for i in range(FILES)]
        for path in paths:
            write_file(path, size, block)
        amount = system.used("n3")
        note("copying on the mount", copy_rate(paths, mount, amount))
        plain = system.place / "plain"
        plain.mkdir()
        write_file(plain / "f", amount, block)
        note("copying on the plain disk", copy_rate([plain / "f"], plain, amount))
        (plain / "f").unlink()
        limit = disk_limit(plain) if args.on == "disk" else None  # of a filesystem in memory it would say nothing
        if limit:
            note("writing on the disk beside four times as much read", limit)

        drop_caches()
        system.kill("n3")
        system.ask("node", "out", "n3")
        start = time.monotonic()
        wait_for("the rebuild", system.rebuilt, DONE_S)
        note("rebuild without readers", amount / 1e6 / (time.monotonic() - start))
        system.start_node("n3")

        drop_caches()
        amount = system.used("n4")
        readers = Readers(paths, args.readers)
        try:
            readers.rate_for(args.seconds / 2)
            note("readers, all is well", readers.rate_for(args.seconds))
            system.ask("rebuild", "pause")
            system.kill("n4")
            system.ask("node", "out", "n4")
            note("readers, a node is away", readers.rate_for(args.seconds))
            system.ask("rebuild", "resume")
            start = time.monotonic()
            note("readers, during the rebuild", readers.rate_until(system.rebuilt))
            note("rebuild, with readers", amount / 1e6 / (time.monotonic() - start))
        finally:
            readers.end()


def table(values):
    rate = {what: statistics.median(v) for what, v in values.items()}
    lines = ["| What | MB/s | of copying on the mount | of copying on the plain disk | of what the disk can do | "
             "of readers, all is well |", "|---|---|---|---|---|---|"]
    for what, value in rate.items():
        def ratio(to):
            return f"{value / rate[to]:.2f}" if what != to and rate.get(to) else ""
        rebuild, read = what.startswith("rebuild"), what.startswith("readers")
        lines.append(f"| {what} | {value:,.0f} | {ratio('copying on the mount') if rebuild else ''} | "
                     f"{ratio('copying on the plain disk') if rebuild else ''} | "
                     f"{ratio('writing on the disk beside four times as much read') if rebuild else ''} | "
                     f"{ratio('readers, all is well') if read else ''} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="tools/bench/run rebuild", description=__doc__.split("\n\n")[0])
    parser.add_argument("--dir", default="/var/tmp/stria-bench", help="where the data goes (default %(default)s)")
    parser.add_argument("--on", choices=["disk", "tmpfs"], default="disk")
    parser.add_argument("--tmpfs-mib", type=int, default=16384)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size-mib", type=int, default=4096, help="of all files together")
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=10, help="of each measurement of readers alone")
    parser.add_argument("--stria", default=str(ROOT / "bazel-bin/tools/stria"))
    parser.add_argument("--json", help="also write all values to this file")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench: mounting and dropping caches need root: run it with sudo")
    values = {}
    with place(args.dir, args.on, args.tmpfs_mib, args.stria) as base:
        system = SixNodes(base / "stria", args.stria)
        if system.missing():
            sys.exit(f"bench: not there: {', '.join(system.missing())}")
        for number in range(1, args.rounds + 1):
            say(f"round {number} of {args.rounds}")
            one_round(system, args, values)
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, on {args.on}, {args.size_mib} MiB, {args.readers} readers, "
          f"{args.rounds} rounds, medians")
    print()
    print(table(values))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(values, indent=1))


if __name__ == "__main__":
    run_to_the_end(main)
