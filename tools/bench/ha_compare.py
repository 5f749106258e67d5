"""One and several metadata servers beside each other: the same work in turn, within seconds, both sides of each pair."""

import contextlib
import multiprocessing
import shutil
import socket
import statistics
import time

from ha_cluster import written
from ha_loop import Loop, changes, loop, small_files, took_ms
from tidy import end_with_parent
from work import settle

WRITERS = 16
MANY = 4
PLAIN = ("create", "rename", "unlink")
WARM = 3  # operations of each loop before it counts
TURNS = 2000  # of a message and its answer


def echo(at):
    end_with_parent()
    with contextlib.suppress(OSError):
        while data := at.recv(64):
            at.sendall(data)


def round_trip_ms():
    """Median, over loopback, of a small message between two processes."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as near:
        far, _ = listener.accept()
        for one in (near, far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        process = multiprocessing.get_context("fork").Process(target=echo, args=(far,), daemon=True)
        process.start()
        far.close()
        took = []
        for _ in range(TURNS):
            began = time.perf_counter()
            near.sendall(b"here")
            near.recv(64)
            took.append(time.perf_counter() - began)
        process.kill()
        process.join()
    return statistics.median(took) * 1e3


class Compare:
    """`pairs`: row -> {"solo": [..], "metas": [..]}."""

    def __init__(self, solo, metas, seconds, files, note, rest_s):
        self.clusters = {"solo": solo, "metas": metas}
        self.seconds, self.files, self.note, self.rest_s = seconds, files, note, rest_s
        self.pairs, self.number = {}, 0

    def add(self, row, side, value):
        self.pairs.setdefault(row, {"solo": [], "metas": []})[side].append(value)

    def turn(self, work, number):
        """One pair of a work; who is first changes from pair to pair."""
        for side in ("solo", "metas") if number % 2 == 0 else ("metas", "solo"):
            cluster = self.clusters[side]
            settle(lambda: sum(c.garbage() for c in self.clusters.values()), at_most=self.rest_s)
            self.number += 1
            directory = cluster.mount / f"work{self.number}"
            directory.mkdir()
            getattr(self, work)(cluster, side, directory)
            shutil.rmtree(directory, ignore_errors=True)

    def latency(self, cluster, side, directory):
        said = []
        for row, sync in (("close", False), ("fsync", True)):
            with loop(small_files, directory / row, sync) as files:
                files.wait_for(WARM)
                since = time.monotonic()
                time.sleep(self.seconds)
                self.add(row, side, statistics.median(took_ms(files.end(), since)))
            said.append(f"{row} {self.pairs[row][side][-1]:.2f} ms")
        self.note(f"{side}: latency of {', '.join(said)}")

    def cost(self, cluster, side, row, work, done):
        """Notes CPU and journal of the primary per operation during `work()`. `done()`: how many there were so far, which is asked
        for in the same moment: others go on meanwhile."""
        name = cluster.primary()
        sample = lambda: (done(), cluster.cpu(name), cluster.journals(name))
        before = sample()
        work()
        after = sample()
        count = after[0] - before[0]
        cpu, journal = (after[1] - before[1]) / count * 1e6, written(before[2], after[2]) / count
        self.add(f"{row} cpu", side, cpu)
        self.add(f"{row} journal", side, journal)
        return f"{cpu:.0f} µs and {journal:,.0f} B of journal each"

    def writers(self, cluster, side, directory):
        def done():
            return sum(len(w.log) for w in writers)

        def work():
            before, since = done(), time.monotonic()
            time.sleep(self.seconds)
            self.add("writers", side, (done() - before) / (time.monotonic() - since))

        with contextlib.ExitStack() as stack:
            writers = [stack.enter_context(loop(small_files, directory / f"writer{i}")) for i in range(WRITERS)]
            for w in writers:
                w.wait_for(WARM)
            said = self.cost(cluster, side, "writers", work, done)
            for w in writers:
                w.log.end()
            if failed := sum(1 for w in writers for *_, error in w.end() if error):
                raise RuntimeError(f"{failed} operations of {WRITERS} writers failed")
        self.note(f"{side}: {WRITERS} writers {self.pairs['writers'][side][-1]:,.0f}/s, {said}")

    def plain(self, cluster, side, directory):
        counts = []

        def one():
            counts.extend(self.phase(side, row, row, directory / "one", 1) for row in PLAIN)

        said = self.cost(cluster, side, "plain", one, lambda: sum(counts))
        for row in PLAIN:
            self.phase(side, f"{row} many", row, directory / "many", MANY)
        rates = ", ".join(f"{row} {self.pairs[row][side][-1]:,.0f}/s ({self.pairs[f'{row} many'][side][-1]:,.0f}/s of {MANY})" for row in PLAIN)
        self.note(f"{side}: {rates}, {said}")

    def phase(self, side, row, what, directory, processes):
        """One kind of change by some processes at once; gives the number of operations."""
        go = multiprocessing.get_context("fork").Event()
        count = self.files // processes
        loops = [Loop(changes, directory / f"{i}", what, count, go=go, most=count) for i in range(processes)]
        try:
            go.set()
            records = [r for one in loops for r in one.end()]
        finally:
            for one in loops:
                one.kill()
        if len(records) < count * processes:
            raise RuntimeError(f"{what}: only {len(records)} of {count * processes} operations were done")
        self.add(row, side, len(records) / (max(end for _, end, _ in records) - min(begin for begin, _, _ in records)))
        return len(records)
