"""What is in files: reads, writes, holes, mappings, copies."""

import fcntl
import mmap
import os
import random
import subprocess
import time

from trace import (FALLOC_COLLAPSE, FALLOC_INSERT, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO, FICLONE, O_TMPFILE, Trace,
                   copy_all, copy_file_range, fallocate, name_to_handle, open_by_handle)

KIB, MIB, TIB = 1 << 10, 1 << 20, 1 << 40


def patterned(n, seed=1):
    return random.Random(seed).randbytes(n)


def appending(t: Trace):
    a = os.open(t.path("f"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    b = os.open(t.path("f"), os.O_RDWR | os.O_APPEND)
    os.write(a, b"one ")
    os.write(b, b"two ")
    os.lseek(a, 0, os.SEEK_SET)
    os.write(a, b"three ")
    t.see("position", os.lseek(a, 0, os.SEEK_CUR))
    t.content("in order", "f")
    # pwrite appends too, on Linux.
    os.pwrite(b, b"four ", 0)
    t.content("pwrite", "f")
    c = os.open(t.path("f"), os.O_WRONLY)
    fcntl.fcntl(c, fcntl.F_SETFL, os.O_APPEND)
    os.write(c, b"five")
    fcntl.fcntl(c, fcntl.F_SETFL, 0)
    os.pwrite(c, b"ONE", 0)
    t.content("F_SETFL", "f")
    for fd in (a, b, c):
        os.close(fd)


def opening_flags(t: Trace):
    fd = t.do("O_EXCL", os.open, t.path("f"), os.O_CREAT | os.O_EXCL | os.O_RDWR)
    os.write(fd, b"content")
    t.do("O_TRUNC", lambda: os.close(os.open(t.path("f"), os.O_RDWR | os.O_TRUNC)))
    t.see("size", os.fstat(fd).st_size)
    os.write(fd, b"more")
    t.content("a hole before", "f")
    t.do("O_TRUNC O_RDONLY", lambda: os.close(os.open(t.path("f"), os.O_RDONLY | os.O_TRUNC)))
    t.see("size again", os.fstat(fd).st_size)
    os.close(fd)
    for name in ("O_SYNC", "O_DSYNC"):
        fd = t.do(name, os.open, t.path("f"), os.O_RDWR | getattr(os, name))
        t.do(f"{name} write", os.write, fd, b"synced" * 10000)
        os.close(fd)
    t.see("size of synced", os.stat(t.path("f")).st_size)
    t.do("O_PATH", lambda: os.close(os.open(t.path("f"), os.O_PATH)))
    fd = t.do("O_TMPFILE", os.open, t.dir, O_TMPFILE | os.O_RDWR)
    if fd:
        os.close(fd)


def direct(t: Trace):
    fd = t.do("open", os.open, t.path("f"), os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    page = mmap.mmap(-1, 64 * KIB)
    page.write(patterned(64 * KIB))
    t.get("write", lambda: os.pwritev(fd, [page], 0))
    t.get("write further", lambda: os.pwritev(fd, [memoryview(page)[:4096]], 1 * MIB))
    into = mmap.mmap(-1, 64 * KIB)
    t.get("read", lambda: os.preadv(fd, [into], 0))
    t.see("same", into[:] == page[:])
    t.get("read a hole", lambda: os.preadv(fd, [into], 128 * KIB))
    t.see("zeros", into[:] == bytes(64 * KIB))
    t.get("read at the end", lambda: os.preadv(fd, [into], 1 * MIB))
    with open(t.path("f"), "rb") as f:
        t.see("buffered", f.read(64 * KIB) == page[:])
    os.close(fd)


def sizes(t: Trace):
    fd = os.open(t.path("f"), os.O_CREAT | os.O_RDWR)
    t.do("truncate", os.ftruncate, fd, 12345)
    t.see("size", os.fstat(fd).st_size)
    t.get("zeros", lambda: os.pread(fd, 20000, 0) == bytes(12345))
    os.pwrite(fd, b"abcdef", 100)
    os.ftruncate(fd, 103)
    os.ftruncate(fd, 200)
    t.get("nothing comes back", os.pread, fd, 200, 95)
    t.get("read at the end", os.pread, fd, 10, 200)
    t.get("read behind it", os.pread, fd, 10, 10**9)
    t.do("truncate to the largest size", os.ftruncate, fd, (1 << 63) - 1)
    os.ftruncate(fd, 200)
    t.do("write beyond any file", os.pwrite, fd, b"x", (1 << 63) - 1)
    t.do("write of nothing far away", os.pwrite, fd, b"", 1 << 50)
    t.see("size stays", os.fstat(fd).st_size)
    os.close(fd)


def far_away(t: Trace):
    """Beyond 16 TiB."""
    fd = os.open(t.path("f"), os.O_CREAT | os.O_RDWR)
    for at in (3 * TIB, 20 * TIB, 1000 * TIB):
        t.do(f"write at {at // TIB} TiB", os.pwrite, fd, b"far away", at)
        t.see(f"size at {at // TIB} TiB", os.fstat(fd).st_size == at + 8)
        t.get(f"read at {at // TIB} TiB", os.pread, fd, 10, at - 1)
    t.do("truncate to 17 TiB", os.ftruncate, fd, 17 * TIB)
    t.see("few blocks", os.fstat(fd).st_blocks < 2048)
    os.ftruncate(fd, 4 * TIB)
    t.get("data", os.lseek, fd, 10, os.SEEK_DATA)
    t.do("sync", os.fsync, fd)
    os.close(fd)


def holes(t: Trace):
    fd = os.open(t.path("f"), os.O_CREAT | os.O_RDWR)
    for at in (1 * MIB, 5 * MIB):
        os.pwrite(fd, patterned(256 * KIB), at)
    os.ftruncate(fd, 8 * MIB)
    for at in (0, 1 * MIB, MIB + 256 * KIB, 2 * MIB, 5 * MIB, 6 * MIB, 8 * MIB - 1, 8 * MIB, 9 * MIB, -1):
        t.get(f"data from {at}", os.lseek, fd, at, os.SEEK_DATA)
        t.get(f"hole from {at}", os.lseek, fd, at, os.SEEK_HOLE)
    t.see("sparse", os.fstat(fd).st_blocks * 512 < 2 * MIB)
    t.do("punch", fallocate, fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 5 * MIB, 128 * KIB)
    t.get("data after the punch", os.lseek, fd, 2 * MIB, os.SEEK_DATA)
    t.get("zeros", lambda: os.pread(fd, 128 * KIB, 5 * MIB) == bytes(128 * KIB))
    t.get("the rest stays", lambda: os.pread(fd, 128 * KIB, 5 * MIB + 128 * KIB) == patterned(256 * KIB)[128 * KIB:])
    os.close(fd)
    t.file("empty")
    fd = os.open(t.path("empty"), os.O_RDONLY)
    t.get("data of nothing", os.lseek, fd, 0, os.SEEK_DATA)
    t.get("hole of nothing", os.lseek, fd, 0, os.SEEK_HOLE)
    os.close(fd)


def allocation(t: Trace):
    path = t.file("f", patterned(300 * KIB))
    fd = os.open(path, os.O_RDWR)

    def state(label):
        t.see(f"size, {label}", os.fstat(fd).st_size)
        t.see(f"bytes, {label}", hash(os.pread(fd, 2 * MIB, 0)))

    modes = {
        "allocate": 0, "keep size": FALLOC_KEEP_SIZE, "punch": FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE,
        "zero": FALLOC_ZERO, "zero keep size": FALLOC_ZERO | FALLOC_KEEP_SIZE,
    }
    for name, mode in modes.items():
        for offset, length in ((0, 4096), (100, 5000), (290 * KIB, 20 * KIB), (400 * KIB, 1000), (0, MIB)):
            os.ftruncate(fd, 0)
            os.pwrite(fd, patterned(300 * KIB), 0)
            t.do(f"{name} {offset}+{length}", fallocate, fd, mode, offset, length)
            state(f"{name} {offset}+{length}")
    os.ftruncate(fd, 0)
    os.pwrite(fd, patterned(300 * KIB), 0)
    t.do("punch without keep size", fallocate, fd, FALLOC_PUNCH_HOLE, 0, 4096)
    t.do("no length", fallocate, fd, 0, 0, 0)
    t.do("negative length", fallocate, fd, 0, 0, -1)
    t.do("negative offset", fallocate, fd, 0, -1, 10)
    t.do("beyond any file", fallocate, fd, 0, (1 << 62), (1 << 62))
    t.do("unknown mode", fallocate, fd, 0x4000, 0, 10)
    state("in the end")
    t.do("collapse", fallocate, fd, FALLOC_COLLAPSE, 0, 64 * KIB)
    t.do("insert", fallocate, fd, FALLOC_INSERT, 0, 64 * KIB)
    reader = os.open(path, os.O_RDONLY)
    t.do("on a reader", fallocate, reader, 0, 0, 10)
    os.close(reader)
    os.close(fd)
    d = os.open(t.dir, os.O_RDONLY)
    t.do("on a directory", fallocate, d, 0, 0, 10)
    os.close(d)


def copying(t: Trace):
    source = os.open(t.file("a", patterned(3 * MIB + 77)), os.O_RDWR)
    target = os.open(t.path("b"), os.O_CREAT | os.O_RDWR)
    t.get("all", copy_all, source, 0, target, 0, 1 << 30)
    t.see("same", os.pread(target, 4 * MIB, 0) == patterned(3 * MIB + 77))
    t.get("unaligned", copy_all, source, 12345, target, 777, 1000001)
    t.see("bytes", os.pread(target, 1000001, 777) == patterned(3 * MIB + 77)[12345:1012346])
    t.see("around", os.pread(target, 777, 0) == patterned(3 * MIB + 77)[:777])
    t.get("beyond the end", copy_all, source, 4 * MIB, target, 0, 100)
    t.get("with a hole before", copy_all, source, 0, target, 5 * MIB, 1000)
    t.see("size", os.fstat(target).st_size)
    t.get("within a file", copy_all, source, 0, source, 2 * MIB, 100000)
    t.see("moved", os.pread(source, 100000, 2 * MIB) == patterned(3 * MIB + 77)[:100000])
    t.do("overlapping", copy_file_range, source, 0, source, 100, 1000)
    t.do("flags", copy_file_range, source, 0, target, 0, 1000, 1)
    t.get("nothing", copy_file_range, source, 0, target, 0, 0)
    reader, writer = os.open(t.path("a"), os.O_RDONLY), os.open(t.path("b"), os.O_WRONLY)
    t.do("to a reader", copy_file_range, source, 0, reader, 0, 10)
    t.do("from a writer", copy_file_range, writer, 0, source, 0, 10)
    appender = os.open(t.path("b"), os.O_WRONLY | os.O_APPEND)
    t.do("to an appender", copy_file_range, source, 0, appender, 0, 10)
    d = os.open(t.dir, os.O_RDONLY)
    t.do("from a directory", copy_file_range, d, 0, target, 0, 10)
    for fd in (reader, writer, appender, d):
        os.close(fd)
    # The copy does not follow the original, whichever is changed or removed.
    os.ftruncate(target, 0)
    copy_all(source, 0, target, 0, 1 << 30)
    os.pwrite(source, b"changed", 1000)
    before = os.pread(target, 10, 1000)
    t.see("apart", before == patterned(3 * MIB + 77)[1000:1010])
    os.unlink(t.path("a"))
    os.close(source)
    t.see("outlives it", os.pread(target, 1000, MIB) == patterned(3 * MIB + 77)[MIB:MIB + 1000])
    os.close(target)
    # Holes stay holes.
    source, target = os.open(t.path("s"), os.O_CREAT | os.O_RDWR), os.open(t.path("t"), os.O_CREAT | os.O_RDWR)
    os.pwrite(source, patterned(64 * KIB), MIB)
    os.ftruncate(source, 3 * MIB)
    os.pwrite(target, b"x" * MIB, 0)
    t.get("sparse", copy_all, source, 0, target, 0, 3 * MIB)
    t.see("zeros over old bytes", os.pread(target, MIB, 0) == bytes(MIB))
    t.see("size of the sparse one", os.fstat(target).st_size)
    os.close(source)
    os.close(target)


def cloning(t: Trace):
    source, target = os.open(t.file("a", b"x" * 4096), os.O_RDONLY), os.open(t.path("b"), os.O_CREAT | os.O_RDWR)
    t.do("FICLONE", fcntl.ioctl, target, FICLONE, source)
    os.close(source)
    os.close(target)


def mappings(t: Trace):
    path = t.file("f", patterned(100 * KIB))
    fd = os.open(path, os.O_RDWR)
    m = mmap.mmap(fd, 100 * KIB)
    t.see("read", m[:] == patterned(100 * KIB))
    m[5000:5006] = b"mapped"
    t.do("msync", m.flush)
    t.see("by read", os.pread(fd, 6, 5000))
    os.pwrite(fd, b"written", 9000)
    t.see("by mapping", m[9000:9007])
    other = os.open(path, os.O_RDONLY)
    t.see("by another descriptor", os.pread(other, 6, 5000))
    os.close(other)
    os.ftruncate(fd, 8 * KIB)
    os.ftruncate(fd, 100 * KIB)
    t.see("cut off", m[8 * KIB:9 * KIB] == bytes(KIB))
    m[99 * KIB:99 * KIB + 4] = b"last"
    os.close(fd)
    m.close()
    t.see("after close", open(path, "rb").read()[99 * KIB:99 * KIB + 4])
    fd = os.open(path, os.O_RDONLY)
    t.do("shared and writable of a reader", lambda: mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE))
    private = mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    private[0:4] = b"mine"
    t.see("private stays so", os.pread(fd, 4, 0) != b"mine")
    private.close()
    os.close(fd)
    fd = os.open(t.path("d"), os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    os.ftruncate(fd, 8192)
    m = t.do("of an O_DIRECT file", mmap.mmap, fd, 8192)
    m[0:6] = b"direct"
    m.flush()
    m.close()
    os.close(fd)
    t.see("O_DIRECT bytes", open(t.path("d"), "rb").read(6))
    fd = os.open(t.path("w"), os.O_CREAT | os.O_WRONLY)
    os.ftruncate(fd, 4096)
    t.do("of a writer only", mmap.mmap, fd, 4096, mmap.MAP_SHARED, mmap.PROT_WRITE)
    os.close(fd)


def random_edits(t: Trace):
    """Many small edits of one file; only the result is compared."""
    rng = random.Random(7)
    fd = os.open(t.path("f"), os.O_CREAT | os.O_RDWR)
    model = bytearray()
    for _ in range(400):
        what = rng.randrange(10)
        at, n = rng.randrange(400 * KIB), rng.randrange(1, 40 * KIB)
        if what < 6:
            data = rng.randbytes(n)
            os.pwrite(fd, data, at)
            model.extend(bytes(max(0, at + n - len(model))))
            model[at:at + n] = data
        elif what == 6:
            os.ftruncate(fd, at)
            del model[at:]
            model.extend(bytes(at - len(model)))
        elif what == 7:
            fallocate(fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, at, n)
            end = min(at + n, len(model))
            if at < end:
                model[at:end] = bytes(end - at)
        elif what == 8 and len(model) > 1:
            fr = rng.randrange(len(model))
            n = min(n, len(model) - fr)
            if abs(fr - at) >= n:
                copy_all(fd, fr, fd, at, n)
                data = bytes(model[fr:fr + n])
                model.extend(bytes(max(0, at + n - len(model))))
                model[at:at + n] = data
        else:
            os.fsync(fd)
            if os.pread(fd, 1 << 20, 0) != model:
                t.see("wrong bytes", True)
                break
    t.see("as it should be", os.pread(fd, 1 << 20, 0) == model)
    os.close(fd)
    with open(t.path("f"), "rb") as f:
        t.see("and for others", f.read() == model)


def not_written_back(t: Trace):
    """What has just been written is allocated and no hole, for who copies only what is."""
    path = t.path("f")
    fd = os.open(path, os.O_CREAT | os.O_RDWR)

    def seen(label, least, most):
        blocks = os.stat(path).st_blocks * 512
        t.see(f"{label}: allocated", (least <= blocks, blocks <= most))

    os.write(fd, patterned(300 * KIB))
    seen("written", 300 * KIB, 400 * KIB)
    os.pwrite(fd, patterned(300 * KIB, 2), 0)
    seen("written again", 300 * KIB, 400 * KIB)
    os.pwrite(fd, patterned(64 * KIB, 3), 8 * MIB)
    seen("written far away", 364 * KIB, 500 * KIB)
    reader = os.open(path, os.O_RDONLY)
    for at in (0, 300 * KIB, 8 * MIB):
        t.get(f"data from {at}", os.lseek, reader, at, os.SEEK_DATA)
        t.get(f"hole from {at}", os.lseek, reader, at, os.SEEK_HOLE)
    os.close(reader)
    os.pwrite(fd, b"later", 2 * MIB)
    for command in (f"cp --sparse=auto --reflink=never {path} {path}.copy", f"cp --sparse=always {path} {path}.copy",
                    f"tar -C {t.dir} -S -cf {path}.tar f && tar -xOf {path}.tar f > {path}.copy"):
        name = command.split()[0] + " " + command.split()[1].split("=")[-1]
        subprocess.run(command, shell=True, check=False)
        with open(path + ".copy", "rb") as copy:
            t.see(f"{name.replace(t.dir, '')}: the same", copy.read() == os.pread(fd, 16 * MIB, 0))
        os.pwrite(fd, b"and so on", 4 * MIB)
    os.fsync(fd)
    seen("synced", 364 * KIB, 600 * KIB)
    os.ftruncate(fd, 100 * KIB)
    os.pwrite(fd, b"after", 50 * KIB)
    seen("cut", 100 * KIB, 200 * KIB)
    os.close(fd)


def stored_into_mappings(t: Trace):
    """What programs have stored into a mapping and not synced is no hole, either."""
    for label, before in (("empty", b""), ("sparse", b"some")):
        path = t.file(label, before)
        fd = os.open(path, os.O_RDWR)
        os.fsync(fd)
        os.ftruncate(fd, MIB)
        os.stat(path)
        m = mmap.mmap(fd, MIB)
        m[512 * KIB:512 * KIB + 6] = b"stored"
        t.see(f"{label}: allocated", os.stat(path).st_blocks > 0)
        reader = os.open(path, os.O_RDONLY)
        # Pages may be large.
        t.get(f"{label}: data", lambda: os.lseek(reader, 4 * KIB, os.SEEK_DATA) <= 512 * KIB)
        t.get(f"{label}: hole", lambda: os.lseek(reader, 512 * KIB, os.SEEK_HOLE) > 512 * KIB)
        os.close(reader)
        for at, command in ((600, f"tar -C {t.dir} -S -cf {path}.tar {label} && tar -xOf {path}.tar {label} > {path}.copy"),
                            (700, f"cp --sparse=auto --reflink=never {path} {path}.copy"),
                            (800, f"cp --sparse=always {path} {path}.copy"), (900, f"cp {path} {path}.copy")):
            m[at * KIB:at * KIB + 5] = b"later"
            subprocess.run(command, shell=True, check=False)
            with open(path + ".copy", "rb") as copy:
                t.see(f"{label}: {command.replace(t.dir, '')}: the same", copy.read() == m[:])
        m.close()
        os.close(fd)


def ends_of_files(t: Trace):
    """Ways to read that do not ask for the size: each finds what was appended just before."""
    path = t.file("f", b"first")
    writer = os.open(path, os.O_WRONLY | os.O_APPEND)
    for name, flags in (("r", os.O_RDONLY), ("rw", os.O_RDWR)):
        reader = os.open(path, flags)
        for more in (10, 5000, 100 * KIB):
            at = os.fstat(reader).st_size
            data = patterned(more, at)
            os.write(writer, data)
            out = os.open(t.path("out"), os.O_CREAT | os.O_RDWR | os.O_TRUNC)
            t.get(f"{name} sendfile {more}", os.sendfile, out, reader, at, more)
            t.see(f"{name} sendfile {more} bytes", os.pread(out, more, 0) == data)
            ends = os.pipe()
            t.get(f"{name} splice {more}", os.splice, reader, ends[1], min(more, 60 * KIB), offset_src=at)
            for end in ends:
                os.close(end)
            os.ftruncate(out, 0)
            t.get(f"{name} copy_file_range {more}", copy_all, reader, at, out, 0, more)
            t.see(f"{name} copy {more} bytes", os.pread(out, more, 0) == data)
            m = mmap.mmap(reader, at + more, mmap.MAP_SHARED, mmap.PROT_READ)
            t.see(f"{name} mapping {more}", m[at:] == data)
            m.close()
            os.close(out)
        os.close(reader)
    os.close(writer)


def handles(t: Trace):
    """Handles of files open what they name as long as it is there, whatever it is called."""
    top = os.open(t.dir, os.O_RDONLY)
    path = t.file("f", b"text")
    os.mkdir(t.path("d"))
    file, directory = name_to_handle(path), name_to_handle(t.path("d"))

    def content(handle):
        fd = open_by_handle(top, handle, os.O_RDONLY)
        try:
            return os.read(fd, 100)
        finally:
            os.close(fd)

    def content_soon(handle):
        """Of a FUSE file Linux keeps the inode until its last close is answered, which close(2) does not wait for: milliseconds."""
        for _ in range(100):
            content(handle)
            time.sleep(0.05)
        return content(handle)

    def listing(handle):
        fd = open_by_handle(top, handle, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return sorted(os.listdir(fd)), os.readlink(f"/proc/self/fd/{fd}").removeprefix(t.dir)
        finally:
            os.close(fd)

    def forget():
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("2")

    t.get("read", content, file)
    forget()
    t.get("read when forgotten", content, file)
    os.rename(path, t.path("d", "g"))
    os.rename(t.path("d"), t.path("e"))
    forget()
    t.get("moved", content, file)
    t.get("moved directory", listing, directory)
    os.link(t.path("e", "g"), t.path("other"))
    os.unlink(t.path("e", "g"))
    forget()
    t.get("another name", content, file)
    t.hook("restart the metadata server")
    forget()
    t.get("after a restart", content, file)
    t.get("directory after a restart", listing, directory)
    fd = os.open(t.path("other"), os.O_RDONLY)
    os.unlink(t.path("other"))
    t.get("open and without a name", content, file)
    os.close(fd)
    forget()
    t.get("gone", content_soon, file)
    os.rmdir(t.path("e"))
    forget()
    t.get("gone directory", listing, directory)
    again = t.file("f", b"another")
    t.get("made again", content, file)
    t.get("of the new one", content, name_to_handle(again))
    t.user("somebody else", lambda u: u.do("open", open_by_handle, top, file, os.O_RDONLY))
    os.close(top)


CASES = [appending, opening_flags, direct, sizes, far_away, holes, allocation, copying, cloning, mappings, random_edits,
         not_written_back, stored_into_mappings, ends_of_files, handles]
