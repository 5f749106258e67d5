"""Readers and writers of a mount, in processes of their own, while a scenario does something to the cluster.

    with Load(c) as load:
        c.stria("node", "replace", "n2", "n7")
        ...
    # all reads and writes since then were right; what was written is in c.files

Leaving the block waits until each of them has done some work since the last `progress()`, stops them, and fails if one
of them has failed.
"""

import itertools
import multiprocessing

from stria_cluster import MIB, digest_of_file, say, wait_for, write_file

LOADS = itertools.count()
WAIT_S = 180
WRITE_PAUSE_S = 0.3  # so that what is written stays bounded


def write_on(mount, worker, size, stop, done, written):
    number = 0
    while not stop.is_set():
        name = f"load/{worker}-{number}"
        written.put((name, *write_file(mount, name, size + number)))
        number += 1
        with done.get_lock():
            done.value += 1
        stop.wait(WRITE_PAUSE_S)


def read_on(mount, files, turn, stop, done):
    names = sorted(files)
    while not stop.is_set():
        name = names[turn % len(names)]
        turn += 1
        size, digest = files[name]
        path = mount / name
        assert path.stat().st_size == size, f"{name} has {path.stat().st_size} bytes, not {size}"
        assert digest_of_file(path) == digest, f"{name} ({size} bytes) has other bytes than were written"
        with done.get_lock():
            done.value += 1


class Load:
    def __init__(self, c, readers=1, writers=1, file_bytes=2 * MIB):
        self.c = c
        self.stop = multiprocessing.Event()
        self.written = multiprocessing.Queue()
        self.workers = []
        for i in range(readers):
            self.add(read_on, (c.mount, dict(c.files), i * 7, self.stop))
        for i in range(writers):
            self.add(write_on, (c.mount, f"{next(LOADS)}-{i}", file_bytes, self.stop), self.written)

    def add(self, work, arguments, *more):
        done = multiprocessing.Value("q", 0)
        self.workers.append((multiprocessing.Process(target=work, args=(*arguments, done, *more), daemon=True), done))

    def __enter__(self):
        for worker, _ in self.workers:
            worker.start()
        self.progress()
        return self

    def progress(self):
        """Each worker has done something more since this was called."""
        self.collect()
        before = [done.value for _, done in self.workers]
        wait_for("every reader and writer gets on", lambda: all(
            done.value > n for (_, done), n in zip(self.workers, before)) or self.failed(), WAIT_S)
        assert not self.failed(), "a read or write failed"

    def failed(self):
        return any(worker.exitcode not in (None, 0) for worker, _ in self.workers)

    def collect(self):
        while not self.written.empty():
            name, size, digest = self.written.get(timeout=10)
            self.c.files[name] = (size, digest)

    def __exit__(self, kind, value, trace):
        if kind is not None:
            for worker, _ in self.workers:
                worker.kill()
            return
        self.progress()
        self.stop.set()
        for worker, done in self.workers:
            while worker.is_alive():  # a process that has put something ends when it was taken
                self.collect()
                worker.join(0.2)
            assert worker.exitcode == 0, "a read or write failed"
        self.collect()
        say(f"meanwhile, without an error: {[done.value for _, done in self.workers]} files read, then written")
