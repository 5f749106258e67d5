"""Checks of files that several use: programs and mounts."""

import errno
import mmap
import os
import random
import threading
import time

from base import PAGE, expect, in_child, in_threads, say

KINDS = {"O_RDONLY": os.O_RDONLY, "O_RDWR": os.O_RDWR, "O_WRONLY": os.O_WRONLY, "O_RDWR|O_DIRECT": os.O_RDWR | os.O_DIRECT}


def parallel_writers(c):
    """Many write to one file, through descriptors of three kinds, each its own pages."""
    path, writers, each = c.mount / "parallel", 6, 40
    path.touch()

    def write(n):
        flags = (os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_DIRECT)[n % 3]
        fd = os.open((c.mount, c.other)[n % 2] / "parallel", flags)
        for i in range(each):
            os.pwrite(fd, bytes([n + 1]) * 3000, (i * writers + n) * 3000)
        os.close(fd)

    in_threads(write, range(writers))
    want = b"".join(bytes([n + 1]) * 3000 for _ in range(each) for n in range(writers))
    for mount in (c.mount, c.other):
        assert (mount / "parallel").read_bytes() == want, "bytes of one writer are another's, or lost"


def written_in_turns(c):
    """Two mounts make one file longer, each by parts of a page that the other has the rest of. None waits long: whoever is told to forget
    a page waits for nobody's write."""
    rounds, part = 60, 1000
    longest = {}
    for flags, name in ((os.O_WRONLY, "O_WRONLY"), (os.O_RDWR, "O_RDWR")):
        path = f"turns-{name}"
        (c.mount / path).touch()
        waits = []

        def write(n, flags=flags, path=path, waits=waits):
            fd = os.open((c.mount, c.other)[n] / path, flags)
            for i in range(rounds):
                began = time.monotonic()
                try:
                    os.pwrite(fd, b"%d" % n * part, (2 * i + n) * part)
                except OSError as e:
                    raise AssertionError(f"{path}: round {i}: {e} after {time.monotonic() - began:.1f} s") from e
                waits.append(time.monotonic() - began)
                time.sleep(0.001)
            os.close(fd)

        in_threads(write, range(2))
        longest[name] = max(waits)
        for mount in (c.mount, c.other):
            assert (mount / path).read_bytes() == (b"0" * part + b"1" * part) * rounds, f"bytes of a writer by {name} are not there"
    say("longest write: " + ", ".join(f"{name} {s:.2f} s" for name, s in longest.items()))
    assert max(longest.values()) < 5, f"a write waited {longest}"


def appends(c):
    path, each = "appended", 60
    (c.mount / path).touch()

    def append(n):
        fd = os.open((c.mount, c.other)[n % 2] / path, (os.O_WRONLY, os.O_RDWR)[n // 2 % 2] | os.O_APPEND)
        for i in range(each):
            os.write(fd, b"%d %06d\n" % (n, i))
        os.close(fd)

    in_threads(append, range(4))
    lines = (c.mount / path).read_bytes().splitlines()
    expect("lines", len(lines), 4 * each)
    for n in range(4):
        expect(f"those of {n}", [line for line in lines if line.startswith(b"%d " % n)], [b"%d %06d" % (n, i) for i in range(each)])


def never_old(c, reads, writes, there):
    """One writes a number that grows; whoever reads after that has returned sees it, or a later one. Also at the end of a file that grows."""
    name = f"number-{reads}-{writes}-{'here' if there == c.mount else 'there'}".replace("|", "-")
    rounds = 120
    (c.mount / name).write_bytes(b"0" * 8 * 8)
    reader, writer = os.open(c.mount / name, KINDS[reads]), os.open(there / name, KINDS[writes])
    written, done, wrong, seen = [0], threading.Event(), [], 0

    def write():
        try:
            rng = random.Random(name)
            for i in range(1, rounds + 1):
                os.pwrite(writer, b"%08d" % i * 8, 0)
                os.pwrite(writer, b"%08d" % i, 64 + i * 8)
                written[0] = i
                if rng.random() < 0.5:
                    time.sleep(rng.random() * 0.02)
        finally:
            done.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not done.is_set():
        least = written[0]
        now = int(os.pread(reader, 8, 0))
        seen += 1
        if now < least:
            wrong.append(f"read {now} after {least} had been written")
        got = os.pread(reader, 8, 64 + least * 8)
        if least and got != b"%08d" % least:
            size, again = os.fstat(reader).st_size, os.pread(reader, 8, 64 + least * 8)
            wrong.append(f"where number {least} was appended is {got!r} (by now {again!r}), with {written[0]} written; the size is for {(size - 72) / 8:g}")
        if os.fstat(reader).st_size < (64 + least * 8 + 8 if least else 64):
            wrong.append(f"the size is as before number {least}")
        if len(wrong) > 20:
            break
    thread.join()
    os.close(reader)
    os.close(writer)
    assert not wrong, f"{len(wrong)} of {seen} reads by {reads}, written by {writes}: {wrong[0]}; {wrong[-1]}"


def never_old_checks():
    for reads in ("O_RDONLY", "O_RDWR", "O_RDWR|O_DIRECT"):
        for writes in ("O_WRONLY", "O_RDWR"):
            for where in ("here", "there"):
                def check(c, reads=reads, writes=writes, where=where):
                    never_old(c, reads, writes, c.mount if where == "here" else c.other)
                check.__name__ = f"never_old: read by {reads}, written by {writes} {'on the same mount' if where == 'here' else 'on another mount'}"
                yield check


def maps_beside_writers(c):
    """A file that is open for reading only can be mapped, whoever has it open for writing."""
    path = c.mount / "beside"
    failed = []
    for who in ("nobody", "this mount", "another mount"):
        path.write_bytes(b"b" * PAGE)
        time.sleep(0.5)
        writer = None if who == "nobody" else os.open((c.mount if who == "this mount" else c.other) / "beside", os.O_WRONLY)
        failed += [f"while {who} has it open for writing" for _ in range(3) if not maps(path)]
        if writer is not None:
            os.close(writer)
    for n in range(50):
        (c.mount / f"beside{n}").write_bytes(b"c" * PAGE)
        failed += [] if maps(c.mount / f"beside{n}") else ["just after it was written and closed"]
    assert not failed, f"a file cannot be mapped (MAP_SHARED, ENODEV) {', '.join(f'{w} ({failed.count(w)} times)' for w in dict.fromkeys(failed))}"


def maps(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        mmap.mmap(fd, PAGE, prot=mmap.PROT_READ).close()
    except OSError as e:
        if e.errno != errno.ENODEV:
            raise
        return False
    finally:
        os.close(fd)
    return True


def mapped_elsewhere(c):
    """What another mount wrote is in a mapping here at the next open."""
    path = c.mount / "mapped-elsewhere"
    path.write_bytes(b"0" * (2 * PAGE))
    in_child(map_while_written, path, c.other / path.name)


def map_while_written(path, other):
    for flags, prot in ((os.O_RDONLY, mmap.PROT_READ), (os.O_RDWR, mmap.PROT_READ | mmap.PROT_WRITE)):
        time.sleep(1)  # maps_beside_writers is about that
        fd = os.open(path, flags)
        with mmap.mmap(fd, 0, prot=prot) as m:
            for i in range(20):
                digit = b"%d" % (i % 10)
                assert m[0:1]
                with open(other, "r+b") as f:
                    f.write(digit * (2 * PAGE))
                os.close(os.open(path, flags))
                expect(f"round {i} of mode {flags}", m[PAGE:PAGE + 1], digit)
        os.close(fd)


CHECKS = [parallel_writers, written_in_turns, appends, *never_old_checks(), maps_beside_writers, mapped_elsewhere]
