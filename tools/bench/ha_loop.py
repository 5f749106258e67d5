"""Work on a mount that goes on while servers come and go: loops in processes of their own, which note each operation."""

import contextlib
import errno
import itertools
import mmap
import multiprocessing
import os
import pathlib
import random
import shutil
import struct
import time

from tidy import end_with_parent

SMALL_BYTES = 4096
PER_DIRECTORY = 1000
KEPT = 16  # files of a plain loop that are there at once
JOIN_S = 180
RECORD = struct.Struct("=ddq")  # begin, end, errno
HEAD = struct.Struct("=qq")     # records, whether it is to end
MOST = 1 << 20


class Log:
    """What a loop has done, in memory that it shares with whoever looks on."""

    def __init__(self, most=MOST):
        self.most, self.memory = most, mmap.mmap(-1, HEAD.size + most * RECORD.size)

    def __len__(self):
        return HEAD.unpack_from(self.memory)[0]

    def ends(self):
        return HEAD.unpack_from(self.memory)[1] != 0 or len(self) >= self.most

    def end(self):
        struct.pack_into("=q", self.memory, 8, 1)

    def add(self, begin, end, error=0):
        n = len(self)
        RECORD.pack_into(self.memory, HEAD.size + n * RECORD.size, begin, end, error)
        struct.pack_into("=q", self.memory, 0, n + 1)

    def records(self, since=0):
        return [RECORD.unpack_from(self.memory, HEAD.size + i * RECORD.size) for i in range(since, len(self))]


def content(number):
    """Bytes that no journal makes smaller."""
    return random.Random(number).randbytes(SMALL_BYTES)


def path_of(directory, number):
    return directory / f"{number // PER_DIRECTORY}" / f"{number}"


def write_small(path, data, sync):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.write(fd, data)
        if sync:
            os.fsync(fd)
    except OSError:
        with contextlib.suppress(OSError):
            os.close(fd)
        raise
    os.close(fd)  # its error counts


def small_files(log, directory, sync=True, pause=0.0):
    """Creates, writes, perhaps syncs, and closes one file after the other."""
    for number in itertools.count():
        if log.ends():
            return
        path, data, begin, error = path_of(directory, number), content(number), time.monotonic(), 0
        try:
            if number % PER_DIRECTORY == 0:
                path.parent.mkdir()
                begin = time.monotonic()
            write_small(path, data, sync)
        except OSError as e:
            error = e.errno or errno.EIO
        log.add(begin, time.monotonic(), error)
        if pause:
            time.sleep(pause)


def plain_changes(log, directory, rate):
    """Creates and unlinks empty files, `rate` operations each second, as far as it gets."""
    began = time.monotonic()
    for number in itertools.count():
        if log.ends():
            return
        turn, begin, error = number // 2, time.monotonic(), 0
        try:
            if number % 2 == 0:
                os.close(os.open(directory / f"{turn}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            elif turn >= KEPT:
                os.unlink(directory / f"{turn - KEPT}")
            else:
                continue
        except OSError as e:
            error = e.errno or errno.EIO
        log.add(begin, time.monotonic(), error)
        ahead = began + len(log) / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        elif ahead < -1:
            began -= ahead  # what it has missed is not made up for


def changes(log, directory, what, count):
    """`count` operations of one kind. `directory` has what the former kind left."""
    for i in range(count):
        name, renamed, begin = directory / f"f{i}", directory / f"g{i}", time.monotonic()
        if what == "create":
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        elif what == "rename":
            os.rename(name, renamed)
        else:
            os.unlink(renamed)
        log.add(begin, time.monotonic())


def work_in(log, go, target, directory, args):
    end_with_parent()
    go.wait()
    target(log, directory, *args)


class Loop:
    """A process that does `target(log, directory, *args)`; `go`: an event that it waits for, with others."""

    def __init__(self, target, directory, *args, go=None, most=MOST):
        self.directory, self.log = directory, Log(most)
        directory.mkdir(parents=True, exist_ok=True)
        context = multiprocessing.get_context("fork")
        if go is None:
            go = context.Event()
            go.set()
        self.process = context.Process(target=work_in, args=(self.log, go, target, directory, args), daemon=True)
        self.process.start()

    def alive(self):
        return self.process.is_alive()

    def wait_for(self, number, seconds=60):
        end = time.monotonic() + seconds
        while len(self.log) < number:
            if not self.alive():
                raise RuntimeError(f"a loop in {self.directory} failed")
            if time.monotonic() > end:
                raise RuntimeError(f"a loop in {self.directory} has done {len(self.log)} operations in {seconds} s")
            time.sleep(0.01)

    def goes_on(self, since, seconds=120):
        """Waits for a success that began after a moment."""
        end, seen = time.monotonic() + seconds, len(self.log)
        while True:
            records = self.log.records(seen)
            seen += len(records)
            if any(begin >= since and not error for begin, _, error in records):
                return
            if not self.alive():
                raise RuntimeError(f"a loop in {self.directory} failed")
            if time.monotonic() > end:
                raise RuntimeError(f"no operation has succeeded for {seconds} s")
            time.sleep(0.02)

    def end(self):
        """Gives what it has done."""
        self.log.end()
        self.process.join(JOIN_S)
        if self.alive():
            self.process.kill()
            raise RuntimeError(f"a loop in {self.directory} hangs")
        return self.log.records()

    def kill(self):
        if self.alive():
            self.process.kill()


@contextlib.contextmanager
def loop(*args, **kwargs):
    """Its files go at the end, but not after an error: a mount that hangs would keep us."""
    one = Loop(*args, **kwargs)
    try:
        yield one
    finally:
        one.kill()
    one.process.join(JOIN_S)
    shutil.rmtree(one.directory, ignore_errors=True)


@contextlib.contextmanager
def plain_load(directory, processes, rate):
    """Loops that make so many plain changes together."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(loop(plain_changes, directory / f"load{i}", rate / processes)) for i in range(processes)]


def missing(records, directory):
    """Numbers of acknowledged files that are not there, or hold something else. `directory`: the loop's, on any mount."""
    out = []
    for number, (_, _, error) in enumerate(records):
        if error:
            continue
        try:
            right = path_of(pathlib.Path(directory), number).read_bytes() == content(number)
        except OSError:
            right = False
        if not right:
            out.append(number)
    return out


def failures(records):
    return sum(1 for _, _, error in records if error)


def took_ms(records, since=0.0, until=float("inf")):
    """Milliseconds of each that succeeded and began in that time."""
    return [(end - begin) * 1e3 for begin, end, error in records if not error and since <= begin < until]
