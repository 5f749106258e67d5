"""The work: functions that do the same on any mount, and give their measurements to Results."""

import json
import mmap
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import tarfile
import time

from results import CPU_PER_GB, CPU_PER_OP, Measure
from systems import run

MIB = 1 << 20
KIB = 1 << 10


def drop_caches():
    run("sync")
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")


def activity():
    """(seconds of processors, bytes of disks) used so far by the whole machine."""
    busy = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    seconds = (sum(map(int, busy)) - int(busy[3]) - int(busy[4])) / os.sysconf("SC_CLK_TCK")
    fields = [line.split() for line in pathlib.Path("/proc/diskstats").read_text().splitlines()]
    return seconds, 512 * sum(int(f[5]) + int(f[9]) + (int(f[16]) if len(f) > 16 else 0) for f in fields)


def settle(left, look=activity, sleep=time.sleep, at_most=30):
    """Waits until little goes on for two seconds and `left()`, the system's remaining work, is nothing: leftovers of one work
    (deleted bytes that are collected seconds later, and given back to the disk) are not the next one's cost. Ends after
    `at_most` seconds for a system that never rests."""
    quiet = 0
    before = look()
    for _ in range(at_most):
        sleep(1)
        now = look()
        quiet = quiet + 1 if now[0] - before[0] < 0.2 and now[1] - before[1] < MIB else 0
        before = now
        if quiet >= 2:
            if left() == 0:
                return
            before = look()  # the question's own cost counts for none


def write_file(path, total, block, truncate=True):
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if truncate else 0)
    fd = os.open(path, flags, 0o644)
    try:
        view = memoryview(block)
        left = total
        while left > 0:
            left -= os.write(fd, view[:min(left, len(view))])
        os.fsync(fd)
    finally:
        os.close(fd)


def reader_buffer():
    """Of 1 MiB, at the beginning of a page. Processors there are that copy a page to 1 to 31 bytes behind the beginning of one six
    times as slowly, and that is where malloc has large buffers."""
    return mmap.mmap(-1, MIB)


def read_file(path, size, buffer):
    view = memoryview(buffer)
    done = 0
    with open(path, "rb", buffering=0) as f:
        while n := f.readinto(view):
            done += n
    if done != size:
        raise RuntimeError(f"{path}: read {done} of {size} bytes")


def verify(path, size, block):
    """A sample of the bytes: a fast wrong answer is none."""
    with open(path, "rb", buffering=0) as f:
        for offset in range(0, size - len(block) + 1, 64 * len(block)):
            f.seek(offset)
            got = b""
            while len(got) < len(block):
                got += f.read(len(block) - len(got))
            if got != block:
                raise RuntimeError(f"{path}: wrong bytes at {offset}")


def sequential(system, mount, args, results):
    size = args.size_mib * MIB
    block = os.urandom(4 * MIB)
    buffer = reader_buffer()
    path = mount / "sequential"

    def timed(what, work):
        with Measure() as m:
            work()
        results.add(what, "MB/s", system.name, size / 1e6 / m.seconds, m, CPU_PER_GB, size / 1e9)

    drop_caches()
    timed("sequential write, fsync at the end", lambda: write_file(path, size, block))
    timed("rewrite in place, fsync at the end", lambda: write_file(path, size, block, truncate=False))
    drop_caches()
    timed("cold sequential read", lambda: read_file(path, size, buffer))
    # The kernel moves each page to its active list when it is read again: once, and dear with small pages.
    timed("second sequential read", lambda: read_file(path, size, buffer))
    timed("warm sequential read", lambda: read_file(path, size, buffer))
    verify(path, size, block)
    path.unlink()


def dataset(system, mount, args, results):
    """Many files of 64 MiB, as a dataset is: each is one unit of a gathered layout."""
    size = 64 * MIB
    count = max(1, args.size_mib * MIB // size)
    block = os.urandom(4 * MIB)
    buffer = reader_buffer()
    folder = mount / "dataset"
    folder.mkdir()
    paths = [folder / f"{i}" for i in range(count)]

    def timed(what, work, over):
        with Measure() as m:
            for p in over:
                work(p)
        results.add(what, "MB/s", system.name, count * size / 1e6 / m.seconds, m, CPU_PER_GB, count * size / 1e9)

    timed("write files of 64 MiB, fsync of each", lambda p: write_file(p, size, block), paths)
    reads = system.files_to_read(paths)
    # In a virtual machine, memory that the page cache has not used for a while is dear: half of a cold read's time. Systems
    # that write through the page cache have used it, others have not. So all read once before the measurement.
    for p in reads:
        read_file(p, size, buffer)
    drop_caches()
    for what in ("cold", "second", "warm"):
        timed(f"{what} read of files of 64 MiB", lambda p: read_file(p, size, buffer), reads)
    for p in reads[::8]:
        verify(p, size, block)
    shutil.rmtree(folder)


def parallel(system, mount, args, results):
    block = os.urandom(4 * MIB)
    for streams in (2, 4):
        size = args.size_mib * MIB // streams
        paths = [mount / f"parallel{i}" for i in range(streams)]

        def timed(what, target, arguments):
            drop_caches()
            workers = [multiprocessing.Process(target=target, args=(p, size, *arguments)) for p in paths]
            with Measure() as m:
                for w in workers:
                    w.start()
                for w in workers:
                    w.join()
            if any(w.exitcode for w in workers):
                raise RuntimeError(f"{what}: a worker failed")
            results.add(what, "MB/s", system.name, streams * size / 1e6 / m.seconds, m, CPU_PER_GB, streams * size / 1e9)

        timed(f"{streams} writers, fsync at the end", write_file, (block,))
        timed(f"{streams} cold readers", read_file, (reader_buffer(),))
        for p in paths:
            p.unlink()


def fio(path, size, extra):
    """On one file that is there. Its path is all that is said of where: with --directory beside it fio joins the two, and
    lays out and uses another file, below the mount at the joined path."""
    job = ["fio", "--name=random", f"--filename={path.absolute()}", f"--size={size}", "--output-format=json", "--randrepeat=1",
           "--group_reporting", "--fallocate=none", "--thread", *extra]
    done = subprocess.run(job, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(job)}: {done.stderr.strip()[-1000:]}")
    text = done.stdout
    return json.loads(text[text.index("{"):])["jobs"][0]


def random_io(system, mount, args, results):
    """Offsets at random in one laid-out file; runs are bounded by time, except for those that sync at the end."""
    folder = mount / "random"
    folder.mkdir()
    size = min(args.size_mib, 1024) * MIB
    path = folder / "data"
    write_file(path, size, os.urandom(4 * MIB))
    once = [f"--runtime={args.fio_seconds}"]  # each block at most once: a second read is not cold
    bounded = [*once, "--time_based=1"]
    few = max(64, size // (64 * KIB) // 4)
    cases = [
        ("random read 64 KiB, cold", "read", ["--rw=randread", "--bs=64k", "--invalidate=0", *once]),
        ("random read 4 KiB x 8, direct", "read",
         ["--rw=randread", "--bs=4k", "--direct=1", "--numjobs=8", *bounded]),
        ("random read 4 KiB, cold", "read", ["--rw=randread", "--bs=4k", "--invalidate=0", *once]),
        ("random write 4 KiB, fsync at the end", "write",
         ["--rw=randwrite", "--bs=4k", f"--io_size={few * 4 * KIB}", "--end_fsync=1"]),
        ("random write 64 KiB, fsync each 16", "write",
         ["--rw=randwrite", "--bs=64k", f"--io_size={few * 64 * KIB}", "--fsync=16", *bounded]),
    ]
    for what, side, extra in cases:
        drop_caches()
        with Measure() as m:
            done = fio(path, size, extra)
        if [p.name for p in folder.iterdir()] != [path.name]:
            raise RuntimeError(f"fio made files of its own in {folder}")
        operations = done[side]["total_ios"]
        # fio's own rate, which has the sync at the end in it, and not fio's start, which takes as long as all the writes.
        results.add(what, "/s", system.name, done[side]["iops"], m, CPU_PER_OP, operations)
    shutil.rmtree(folder)


def column_scan(system, mount, args, results):
    """As a ROOT file's one branch is read: its end, its head, then a basket of 32 KiB every 512 KiB."""
    size = args.size_mib * MIB
    path = mount / "columns"
    write_file(path, size, os.urandom(4 * MIB))
    drop_caches()
    with Measure() as m:
        fd = os.open(path, os.O_RDONLY)
        os.pread(fd, 64 * KIB, size - 64 * KIB)
        os.pread(fd, 4 * KIB, 0)
        done = 0
        for offset in range(0, size - 32 * KIB, 512 * KIB):
            done += len(os.pread(fd, 32 * KIB, offset))
        os.close(fd)
    results.add("column scan, cold", "MB/s", system.name, done / 1e6 / m.seconds, m, CPU_PER_GB, done / 1e9)
    path.unlink()


def small(system, mount, args, results):
    folder = mount / "small"
    folder.mkdir()
    data = os.urandom(4096)
    count = args.files

    def each(what, work, cold=False):
        if cold:
            drop_caches()
        with Measure() as m:
            work()
        results.add(what, "/s", system.name, count / m.seconds, m, CPU_PER_OP, count)

    def create():
        for i in range(count):
            with open(folder / f"f{i}", "wb", buffering=0) as f:
                f.write(data)

    def read():
        for i in range(count):
            if len((folder / f"f{i}").read_bytes()) != len(data):
                raise RuntimeError(f"{folder}/f{i} is short")

    def look():
        for entry in os.scandir(folder):
            entry.stat()

    each("create 4 KiB and close", create)
    each("open, read, close 4 KiB", read, cold=True)
    each("readdir and stat", look, cold=True)
    each("rename", lambda: [os.rename(folder / f"f{i}", folder / f"g{i}") for i in range(count)])
    each("unlink", lambda: [os.unlink(folder / f"g{i}") for i in range(count)])
    folder.rmdir()


def untar(system, mount, args, results):
    """A tree of many small files, made from /usr/include, unpacked by tar."""
    archive = pathlib.Path(args.dir) / "tree.tar"
    if not archive.exists():
        left = args.files
        with tarfile.open(archive, "w") as out:
            for path in sorted(pathlib.Path("/usr/include").rglob("*.h")):
                if left == 0:
                    break
                if path.is_file() and not path.is_symlink():
                    out.add(path, arcname=str(path.relative_to("/usr/include")))
                    left -= 1
    with tarfile.open(archive) as a:
        members = len(a.getnames())
    folder = mount / "tree"
    folder.mkdir()
    with Measure() as m:
        run("tar", "-xf", archive, "-C", folder)
        run("sync", "-f", folder)
    results.add("untar a source tree", "files/s", system.name, members / m.seconds, m, CPU_PER_OP, members)
    shutil.rmtree(folder)


def degraded(system, mount, args, results):
    """Last: the node stays dead."""
    size = args.size_mib * MIB
    block = os.urandom(4 * MIB)
    buffer = reader_buffer()
    path = mount / "degraded"
    write_file(path, size, block)
    drop_caches()
    if not system.lose_a_node():
        path.unlink()
        return
    time.sleep(1)  # the first question costs a search, which must not be measured
    with open(path, "rb", buffering=0) as f:
        f.read(1)
    with Measure() as m:
        read_file(path, size, buffer)
    results.add("cold sequential read, one node dead", "MB/s", system.name, size / 1e6 / m.seconds, m, CPU_PER_GB, size / 1e9)
    verify(path, size, block)
