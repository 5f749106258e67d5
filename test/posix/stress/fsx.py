"""fsx: random operations on one file, each compared with a copy in memory. The idea is that of Apple's fsx
of 1991. With two mounts every operation goes through one of them at random. --crate runs the fsx of the Rust
crate beside it."""

import collections
import ctypes
import errno
import mmap
import multiprocessing
import os
import random
import shutil
import time

from place import command
from stria_cluster import say

HELP = "fsx: random reads, writes, truncates, mmap, punch, zero, copy_file_range against a model; 1 or 2 mounts"
COPY_LOOKS = 4  # by one copy_file_range that finds the end of the file too soon
TOLD = 40  # operations shown after a mismatch
PAGE = mmap.PAGESIZE
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
LIBC = ctypes.CDLL(None, use_errno=True)
CRATE_S = 3600
SAID_EACH_S = 10

# name -> weight
OPERATIONS = {"read": 10, "write": 12, "truncate": 4, "append": 3, "mapread": 5, "mapwrite": 5, "punch": 4,
              "zero": 2, "allocate": 2, "copy": 4, "fsync": 1, "reopen": 2, "stat": 4, "seek": 2}
GROUPS = {"mmap": ["mapread", "mapwrite"], "punch": ["punch", "zero", "allocate"], "copy": ["copy"], "seek": ["seek"]}


def add_options(parser):
    parser.add_argument("--ops", type=int, default=100_000, help="operations on each file (100000)")
    parser.add_argument("--files", type=int, default=1, help="files at the same time, each a process (1)")
    parser.add_argument("--max-bytes", type=int, default=256 * 1024, help="of the file (262144)")
    parser.add_argument("--max-op-bytes", type=int, default=64 * 1024, help="of one operation (65536)")
    parser.add_argument("--without", default="", help=f"groups of operations to leave out ({','.join(GROUPS)})")
    parser.add_argument("--crate", action="store_true", help="the Rust crate's fsx (needs cargo); one mount")


def fallocate(fd, mode, offset, length):
    if LIBC.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))


class Mismatch(AssertionError):
    pass


class Fsx:
    def __init__(self, paths, seed, args):
        self.paths, self.args = paths, args
        self.rng = random.Random(seed)
        self.model = bytearray()
        self.log = []  # (number, what, offset, length, mount)
        self.fds = []
        left_out = {op for group in args.without.split(",") if group for op in GROUPS[group]}
        self.names = [n for n in OPERATIONS if n not in left_out]
        self.weights = [OPERATIONS[n] for n in self.names]

    def run(self):
        os.close(os.open(self.paths[0], os.O_CREAT | os.O_EXCL | os.O_RDWR))
        self.fds = [os.open(p, os.O_RDWR) for p in self.paths]
        began = said = time.monotonic()
        for number in range(self.args.ops):
            now = time.monotonic()
            if now - said > SAID_EACH_S:
                said, rate = now, number / (now - began)
                say(f"{number:,} of {self.args.ops:,} operations, {rate:,.0f}/s, {(self.args.ops - number) / rate:.0f} s left")
            name = self.rng.choices(self.names, self.weights)[0]
            self.at = self.rng.randrange(len(self.paths))
            try:
                getattr(self, name)(number)
            except (OSError, Mismatch) as e:
                raise Mismatch(f"operation {number}, {name}: {e}\n" + self.story()) from e
        self.compare(0, len(self.model), self.pread(0, self.args.max_bytes + 1))
        for fd in self.fds:
            os.close(fd)
        for path in self.paths:
            with open(path, "rb") as f:
                self.compare(0, len(self.model), f.read())

    # ---- What is done where

    def note(self, number, what, offset, length):
        self.log.append((number, what, offset, length, self.at))

    def story(self):
        """The last operations, and those that touched the byte that is wrong."""
        wrong = getattr(self, "wrong", None)
        told = collections.deque(self.log, TOLD)
        lines = [f"  {n:7} {what:9} [{o}, {o + l}) mount {m}" for n, what, o, l, m in told]
        if wrong is not None:
            touched = [e for e in self.log if e[2] <= wrong < e[2] + e[3] or e[1] == "truncate"][-12:]
            lines.append(f"those that touched byte {wrong}, and truncations:")
            lines += [f"  {n:7} {what:9} [{o}, {o + l}) mount {m}" for n, what, o, l, m in touched]
        return "\n".join(lines)

    def compare(self, offset, length, got):
        want = bytes(self.model[offset:offset + length])
        if got == want:
            return
        first = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        self.wrong = offset + first
        last = max((i for i, (a, b) in enumerate(zip(got, want)) if a != b), default=first)
        raise Mismatch(f"mount {self.at}: {len(got)} bytes where {len(want)} were expected at {offset}; differing "
                       f"from {offset + first} to {offset + last}: {got[first:first + 16].hex()} instead of "
                       f"{want[first:first + 16].hex()}; the file has {len(self.model)}")

    def range(self, within):
        """A random range that begins before `within`."""
        offset = self.rng.randrange(within) if within else 0
        if self.rng.random() < 0.3:
            offset -= offset % PAGE
        length = self.rng.randint(1, self.args.max_op_bytes)
        if self.rng.random() < 0.2:
            length = max(PAGE, length - length % PAGE)
        return offset, min(length, self.args.max_bytes - offset)

    def pread(self, offset, length):
        return os.pread(self.fds[self.at], length, offset)

    def put(self, offset, data):
        end = offset + len(data)
        if len(self.model) < end:
            self.model.extend(bytes(end - len(self.model)))
        self.model[offset:end] = data

    # ---- Operations

    def read(self, number):
        offset, length = self.range(len(self.model) + 1)
        self.note(number, "read", offset, length)
        self.compare(offset, length, self.pread(offset, length))

    def write(self, number, offset=None):
        if offset is None:
            offset, length = self.range(self.args.max_bytes)
        else:
            length = min(self.rng.randint(1, self.args.max_op_bytes), self.args.max_bytes - offset)
        if length <= 0:
            return
        data = self.rng.randbytes(length)
        self.note(number, "write", offset, length)
        done = os.pwrite(self.fds[self.at], data, offset)
        if done != length:
            raise Mismatch(f"a short write: {done} of {length}")
        self.put(offset, data)

    def append(self, number):
        length = min(self.rng.randint(1, self.args.max_op_bytes), self.args.max_bytes - len(self.model))
        if length <= 0:
            return
        data = self.rng.randbytes(length)
        self.note(number, "append", len(self.model), length)
        fd = os.open(self.paths[self.at], os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
        self.put(len(self.model), data)

    def truncate(self, number):
        size = self.rng.randint(0, self.args.max_bytes)
        self.note(number, "truncate", size, 0)
        os.ftruncate(self.fds[self.at], size)
        del self.model[size:]
        self.model.extend(bytes(size - len(self.model)))

    def mapped(self, number, what, write):
        """mmap is coherent at open, msync and close: each time a descriptor of its own."""
        if not self.model:
            return
        offset, length = self.range(len(self.model))
        length = min(length, len(self.model) - offset)
        self.note(number, what, offset, length)
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        fd = os.open(self.paths[self.at], os.O_RDWR)
        try:
            with mmap.mmap(fd, offset + length - start, offset=start) as m:
                at = offset - start
                if write:
                    data = self.rng.randbytes(length)
                    m[at:at + length] = data
                    m.flush()
                    self.put(offset, data)
                else:
                    self.compare(offset, length, m[at:at + length])
        finally:
            os.close(fd)

    def mapread(self, number):
        self.mapped(number, "mapread", False)

    def mapwrite(self, number):
        self.mapped(number, "mapwrite", True)

    def hole(self, number, what, mode):
        offset, length = self.range(self.args.max_bytes)
        if length <= 0:
            return
        self.note(number, what, offset, length)
        fallocate(self.fds[self.at], mode, offset, length)
        if mode & (PUNCH_HOLE | ZERO_RANGE):
            end = min(offset + length, len(self.model))
            if offset < end:
                self.model[offset:end] = bytes(end - offset)
        if not mode & KEEP_SIZE and len(self.model) < offset + length:
            self.model.extend(bytes(offset + length - len(self.model)))

    def punch(self, number):
        self.hole(number, "punch", PUNCH_HOLE | KEEP_SIZE)

    def zero(self, number):
        self.hole(number, "zero", ZERO_RANGE | (KEEP_SIZE if self.rng.random() < 0.5 else 0))

    def allocate(self, number):
        self.hole(number, "allocate", KEEP_SIZE if self.rng.random() < 0.5 else 0)

    def copy(self, number):
        if not self.model:
            return
        source, length = self.range(len(self.model))
        length = min(length, len(self.model) - source)
        to, _ = self.range(self.args.max_bytes)
        length = min(length, self.args.max_bytes - to)
        if length <= 0 or source < to + length and to < source + length:  # overlapping is EINVAL
            return
        self.note(number, "copy from", source, length)
        self.note(number, "copy to", to, length)
        fd, done, looks = self.fds[self.at], 0, 0
        # The kernel cuts the range at the size that it last saw, without asking a network filesystem for the
        # size of now: as cp does, look first. It does not keep what it is told while it is told to forget, as when
        # another mount has read the file and its atime has moved: then look again (docs/posix.md).
        os.fstat(fd)
        while done < length:
            n = os.copy_file_range(fd, fd, length - done, source + done, to + done)
            if n == 0:
                looks += 1
                if looks == COPY_LOOKS:
                    raise Mismatch(f"copy_file_range stopped after {done} of {length}")
                if os.fstat(fd).st_size != len(self.model):
                    raise Mismatch(f"mount {self.at}: its size is {os.fstat(fd).st_size}, not {len(self.model)}")
            done += n
        self.put(to, self.model[source:source + length])

    def fsync(self, number):
        self.note(number, "fsync", 0, 0)
        os.fsync(self.fds[self.at])

    def reopen(self, number):
        self.note(number, "reopen", 0, 0)
        os.close(self.fds[self.at])
        self.fds[self.at] = os.open(self.paths[self.at], os.O_RDWR)

    def stat(self, number):
        self.note(number, "stat", 0, 0)
        size = os.stat(self.paths[self.at]).st_size if self.rng.random() < 0.5 else os.fstat(self.fds[self.at]).st_size
        if size != len(self.model):
            raise Mismatch(f"mount {self.at}: its size is {size}, not {len(self.model)}")

    def seek(self, number):
        """Whatever is called a hole reads as zeros, and the end of the file is one."""
        offset = self.rng.randrange(len(self.model) + 1)
        self.note(number, "seek", offset, 0)
        fd = self.fds[self.at]
        try:
            data = os.lseek(fd, offset, os.SEEK_DATA)
        except OSError as e:
            if e.errno != errno.ENXIO:
                raise
            data = len(self.model)
        if any(self.model[offset:data]):
            self.wrong = offset
            raise Mismatch(f"SEEK_DATA from {offset} gives {data}, but there are bytes before it")
        if offset < len(self.model):
            hole = os.lseek(fd, offset, os.SEEK_HOLE)
            if not offset <= hole <= len(self.model):
                raise Mismatch(f"SEEK_HOLE from {offset} gives {hole}, the file has {len(self.model)} bytes")


def run_one(paths, seed, args, failed):
    try:
        Fsx(paths, seed, args).run()
    except BaseException as e:
        say(f"seed {seed}: {e}")
        failed.set()
        raise SystemExit(1) from e


def run_crate(args, place):
    fsx = shutil.which("fsx") or str(os.path.expanduser("~/.cache/stria-posix/bin/fsx"))
    if not os.path.exists(fsx):
        assert shutil.which("cargo"), "fsx is not installed, nor is cargo, which could install it"
        say("installing the crate fsx")
        command("cargo", "install", "-q", "fsx", "--root", os.path.dirname(os.path.dirname(fsx)), timeout=CRATE_S)
    # punch and copy operations are off by default
    config = place.dir / "fsx.toml"
    weights = {"punch_hole": 3, "copy_file_range": 3, "fsync": 1, "close_open": 1, "truncate": 3, "write": 10,
               "read": 10}
    if "mmap" not in args.without:
        weights |= {"mapread": 5, "mapwrite": 5}
    config.write_text(f"flen = {args.max_bytes}\n[opsize]\nmax = {args.max_op_bytes}\n[weights]\n" +
                      "".join(f"{k} = {v}\n" for k, v in weights.items()))
    command(fsx, "-N", args.ops, "-S", args.seed, "-f", config, place.dir / "crate", timeout=CRATE_S)


def run(args, place):
    if args.crate:
        run_crate(args, place)
        return
    failed = multiprocessing.Event()
    running = []
    for i in range(args.files):
        paths = [d / f"fsx{i}" for d in place.dirs]
        p = multiprocessing.Process(target=run_one, args=(paths, args.seed + i, args, failed))
        p.start()
        running.append(p)
    for p in running:
        p.join()
    assert not failed.is_set() and all(p.exitcode == 0 for p in running), "a file differs from its model"
    say(f"{args.files} x {args.ops} operations, seed {args.seed}, {len(place.dirs)} mounts: as the model has it")
