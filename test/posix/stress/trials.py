"""Three small trials of two mounts of one cluster, each over and over. On a local filesystem all of them pass at once.

stall: processes on both mounts open, read or write, and close the same few files, in different modes. No call takes long.
inv: one process writes numbers that grow. Nobody reads one that is older than what anybody had read, or what had been
acknowledged, before that read began: neither on the mount that writes, by a descriptor opened only to read, nor on the other.
eintr: programs that are signalled all the time, with SA_RESTART and without it in turn, while a node and the metadata server are
killed and started again. No call fails, none is cut short, and no file of one's own is in the way of its O_EXCL."""

import contextlib
import ctypes
import errno
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

from stria_cluster import say

HELP = "calls that stay short, reads that never go back, signals that interrupt nothing; each many times, on two mounts"
MOUNTS = 2
SAID_EACH_S = 10
END_S = 90           # from when programs are told to end
CALL_S = 8           # of one call, where nothing fails: a stall took 10 s and more
FILES = 3            # of stall
PROCESSES = 8        # of stall, on each mount
NUMBER = 8           # bytes
BLOCK = 300_000      # bytes, of eintr
SIGNAL_S = 0.02
PROGRAMS = 10        # of eintr at once
NAMES = 50           # of one program
FORK = multiprocessing.get_context("fork")


def add_options(parser):
    parser.add_argument("--times", type=int, default=10, help="of each trial (10)")
    parser.add_argument("--only", default="stall,inv,eintr", help="some of them (stall,inv,eintr)")
    parser.add_argument("--load", action="store_true", help="beside a busy process for each processor")
    parser.add_argument("--seconds", type=float, default=6, help="of each stall and inv (6)")
    parser.add_argument("--away", type=float, default=6, help="seconds that what was killed stays away, in eintr (6)")


# ---- Processes ------------------------------------------------------------------------------------

class Together:
    """Processes that do `job(*args, stop)` until stop.value, and give what it returns."""

    def __init__(self, jobs):
        self.stop = FORK.RawValue("b", 0)
        self.running = []
        for job, *args in jobs:
            answers, told = FORK.Pipe(duplex=False)
            p = FORK.Process(target=self.run, args=(told, job, args), daemon=True)
            p.start()
            told.close()
            self.running.append((p, answers))

    def run(self, told, job, args):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            told.send(job(*args, self.stop))
        except Exception as e:  # pylint: disable=broad-except
            told.send([f"{job.__name__}: {e!r}"])

    def end(self):
        """What each of them found wrong, in one list."""
        self.stop.value = 1
        wrong, until = [], time.monotonic() + END_S
        for p, answers in self.running:
            try:
                if answers.poll(max(0, until - time.monotonic())):
                    wrong += answers.recv()
                else:
                    wrong.append(f"process {p.pid} hangs")
            except EOFError:
                wrong.append(f"process {p.pid} died")
            p.kill()
            p.join(60)
        return wrong


@contextlib.contextmanager
def busy(count):
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for s in spinners:
            s.kill()
            s.wait()


# ---- stall ----------------------------------------------------------------------------------------

def use_files(files, seed, stop):
    rng, wrong = random.Random(seed), []

    def timed(what, call, *args):
        began = time.monotonic()
        try:
            return call(*args)
        except OSError as e:
            wrong.append(f"{what}: {e.strerror}")
            return None
        finally:
            took = time.monotonic() - began
            if took > CALL_S:
                wrong.append(f"{what} took {took:.1f} s")

    while not stop.value and len(wrong) < 5:
        path, writes = rng.choice(files), rng.random() < 0.5
        fd = timed(f"open of {path}", os.open, path, os.O_RDWR if writes else os.O_RDONLY)
        if fd is None:
            continue
        if writes:
            done = timed(f"write to {path}", os.pwrite, fd, rng.randbytes(NUMBER), 0)
        else:
            done = len(timed(f"read of {path}", os.pread, fd, NUMBER, 0) or b"")
        if done is not None and done != NUMBER:
            wrong.append(f"{path}: {done} bytes of {NUMBER}")
        timed(f"close of {path}", os.close, fd)
        if rng.random() < 0.25:
            time.sleep(rng.random() / 500)
    return wrong


def stall(args, place, number):
    names = [f"stall-{number}-{i}" for i in range(FILES)]
    for name in names:
        (place.dirs[0] / name).write_bytes(bytes(NUMBER))
    users = [(use_files, [d / name for name in names], args.seed * 1000 + number * 100 + p * len(place.dirs) + i)
             for i, d in enumerate(place.dirs) for p in range(PROCESSES)]
    together = Together(users)
    time.sleep(args.seconds)
    wrong = together.end()
    for name in names:
        os.unlink(place.dirs[0] / name)
    return wrong


# ---- inv ------------------------------------------------------------------------------------------

class Seen:
    """What is known by now: each part is told by one process alone."""

    def __init__(self):
        self.acknowledged = FORK.RawValue("Q", 0)
        self.read = FORK.RawValue("Q", 0)

    def least(self):
        return max(self.acknowledged.value, self.read.value)


def count_up(path, seen, seed, stop):
    rng, number = random.Random(seed), 0
    fd = os.open(path, os.O_RDWR)
    while not stop.value:
        number += 1
        os.pwrite(fd, number.to_bytes(NUMBER, "little"), 0)
        seen.acknowledged.value = number
        time.sleep(rng.random() * 0.003)
    os.close(fd)
    return [] if number > 1 else ["nothing was written"]


def read_on(fd, where, seen, tells, stop):
    wrong, reads = [], 0
    while not stop.value and len(wrong) < 5:
        least = seen.least()
        number = int.from_bytes(os.pread(fd, NUMBER, 0), "little")
        reads += 1
        if number < least:
            wrong.append(f"{number} was read on the {where}, after {least} had been read or acknowledged")
        if tells:
            seen.read.value = max(seen.read.value, number)
    os.close(fd)
    return wrong if reads > 1 else [*wrong, f"nothing was read on the {where}"]


def inv(args, place, number):
    here, there = (d / f"inv-{number}" for d in (place.dirs[0], place.dirs[-1]))
    here.write_bytes(bytes(NUMBER))
    seen = Seen()
    # Opened before anybody writes.
    own, other = (os.open(path, os.O_RDONLY) for path in (here, there))
    together = Together([(read_on, other, "other mount", seen, True), (read_on, own, "mount that writes", seen, False),
                         (count_up, here, seen, args.seed * 1000 + number)])
    os.close(own)
    os.close(other)
    time.sleep(args.seconds)
    wrong = together.end()
    os.unlink(here)
    return wrong


# ---- eintr ----------------------------------------------------------------------------------------

class Calls:
    """System calls as a program in C makes them: what is interrupted is not asked again. (os.read and the like do so.)"""

    def __init__(self):
        self.libc = ctypes.CDLL(None, use_errno=True)
        for name in ("pwrite64", "pread64"):
            getattr(self.libc, name).argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long]
            getattr(self.libc, name).restype = ctypes.c_ssize_t
        self.libc.ftruncate64.argtypes = [ctypes.c_int, ctypes.c_long]
        self.wrong = []

    def __call__(self, name, *args):
        ctypes.set_errno(0)
        done = getattr(self.libc, name)(*args)
        if done < 0:
            e = ctypes.get_errno()
            self.wrong.append(f"{time.strftime('%H:%M:%S')} {name}: {errno.errorcode.get(e, e)}")
        return done

    def whole(self, name, *args):
        done = self(name, *args)
        if 0 <= done != BLOCK:
            self.wrong.append(f"{name}: {done} bytes of {BLOCK}")


def call_all(directory, stop):
    """Each kind of call in turn, under signals. What is wrong."""
    os.chdir(directory)
    call, block, attributes = Calls(), ctypes.create_string_buffer(BLOCK), ctypes.create_string_buffer(512)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, SIGNAL_S, SIGNAL_S)
    rounds = 0
    while not stop.value and len(call.wrong) < 5:
        signal.siginterrupt(signal.SIGALRM, rounds % 2 == 1)  # SA_RESTART or not
        name, new, link = (f"{kind}{rounds % NAMES}".encode() for kind in ("made", "renamed", "linked"))
        fd = call("open64", name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
        if fd < 0:
            break
        call.whole("pwrite64", fd, block, BLOCK, 0)
        call("fdatasync", fd)
        call.whole("pread64", fd, block, BLOCK, 0)
        call("fsync", fd)
        call("ftruncate64", fd, 1000)
        call("fchmod", fd, 0o600)
        call("fstat64", fd, attributes)
        call("close", fd)
        call("link", name, link)
        call("rename", name, new)
        call("stat64", new, attributes)
        call("mkdir", b"directory", 0o755)
        call("rmdir", b"directory")
        call("unlink", link)
        call("unlink", new)
        rounds += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    return call.wrong if rounds > 1 else [*call.wrong, f"{directory}: only {rounds} rounds"]


def eintr(args, place, first, count):
    """`count` programs at once."""
    directories = [place.dirs[n % len(place.dirs)] / f"eintr-{n}" for n in range(first, first + count)]
    for d in directories:
        d.mkdir()
    together = Together([(call_all, d) for d in directories])
    for server in ("n3", "meta") if place.cluster else ():
        time.sleep(args.away / 2)
        place.cluster.kill(server)
        time.sleep(args.away)
        place.cluster.start(server)
    time.sleep(args.away / 2)
    wrong = together.end()
    for d in directories:
        for left in d.iterdir():  # of a program that did not end well
            (left.rmdir if left.is_dir() else left.unlink)()
        d.rmdir()
    return wrong


# ---- The whole ------------------------------------------------------------------------------------

def repeat(name, args, place):
    """How many of them went wrong. Says how far it is, and in the end what came of it."""
    began = said = time.monotonic()
    done = bad = 0
    while done < args.times:
        count = min(PROGRAMS, args.times - done) if name == "eintr" else 1
        wrong = eintr(args, place, done, count) if name == "eintr" else {"stall": stall, "inv": inv}[name](args, place, done)
        done += count
        bad += min(count, len(wrong))
        for what in wrong[:10]:
            say(f"{name} {done}: {what}")
        if time.monotonic() - said > SAID_EACH_S and done < args.times:
            said = time.monotonic()
            say(f"{name}: {done} of {args.times}, {bad} bad, {(args.times - done) * (said - began) / done:.0f} s left")
    say(f"{name}{' beside load' if args.load else ''}: {done - bad} of {done} good, {time.monotonic() - began:.0f} s")
    return bad


def run(args, place):
    assert len(place.dirs) == 2, "the trials need a directory through two mounts: --mounts 2, or --on twice"
    names = args.only.split(",")
    unknown = set(names) - {"stall", "inv", "eintr"}
    assert not unknown, f"there is no trial {unknown.pop()}: stall, inv, eintr"
    if not place.cluster:
        say("no server is killed: this is somebody else's filesystem")
    with busy(os.cpu_count() if args.load else 0):
        bad = {name: repeat(name, args, place) for name in names}
    assert not any(bad.values()), f"went wrong: {bad}"
