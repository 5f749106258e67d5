"""Programs that work on one mount while versions change, each in a process of its own. Every file says in its name how long it is, and so which bytes
it has: whoever finds it, through any mount, can tell whether they are right. What was acknowledged is in a ledger beside the cluster."""

import fcntl
import hashlib
import itertools
import multiprocessing
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parents[1] / "cluster"))
from stria_cluster import MIB, chunks_of, digest_of_file, say, wait_for  # noqa: E402

# Inline in the metadata, in a segment, a shard of its own, several stripes.
SIZES = (3 << 10, 200 << 10, 5 * MIB, 33 * MIB)
KEPT, LEFT = 12, 3  # files of a program: while it runs, and afterwards
LINE = 64  # bytes of a line in the common journal
PROGRESS_S = 180
DIRECTORY, JOURNAL = "load", "journal"


def size_of(name):
    return int(name.rsplit("-", 1)[1])


def content(name):
    return chunks_of(size_of(name), name)


def digest_of(name):
    h = hashlib.sha256()
    for piece in content(name):
        h.update(piece)
    return h.hexdigest()


def check(mount, name):
    path = mount / DIRECTORY / name
    size = path.stat().st_size
    assert size == size_of(name), f"{path} has {size} bytes"
    assert digest_of_file(path) == digest_of(name), f"{path} has other bytes than were written"


def check_a_file_of_others(mount, mine, rng):
    """One that is removed meanwhile is none."""
    names = sorted(n for n in os.listdir(mount / DIRECTORY) if not n.startswith((mine, ".")))
    if not names:
        return
    name = rng.choice(names)
    try:
        check(mount, name)
    except FileNotFoundError:
        assert name not in os.listdir(mount / DIRECTORY), f"{name} is in the listing of {mount} and cannot be opened"


def note_in_journal(mount, text):
    """A line at the end of a file that all programs append to, under a lock of all of them."""
    with open(mount / JOURNAL, "ab", buffering=0) as f:
        fcntl.lockf(f, fcntl.LOCK_EX)
        f.write(text.ljust(LINE - 1).encode() + b"\n")
        os.fsync(f.fileno())


def make(mount, name, number, ledger):
    """Written whole under a name that nobody looks for, and durable; then it gets its own, by rename or by a link, and with an attribute."""
    path, hidden = mount / DIRECTORY / name, mount / DIRECTORY / f".{name}"
    with open(hidden, "wb", buffering=0) as f:
        for piece in content(name):
            view = memoryview(piece)
            while view:
                view = view[f.write(view):]
        os.fsync(f.fileno())
    os.setxattr(hidden, "user.name", name.encode())
    if number % 2 == 0:
        os.rename(hidden, path)
    else:
        os.link(hidden, path)
        os.unlink(hidden)
    ledger.write(f"+{name}\n")


def remove(mount, name, ledger):
    ledger.write(f"-{name}\n")
    os.unlink(mount / DIRECTORY / name)


def work(mount, worker, ledger_path, sizes, stop, done, longest):
    rng = random.Random(f"{worker}")
    mine = f"{worker}-"
    with open(ledger_path, "a", buffering=1) as ledger:
        kept = []
        for number in itertools.count():
            if stop.is_set():
                for name in kept[:-LEFT]:
                    remove(mount, name, ledger)
                return
            began = time.monotonic()
            name = f"{mine}{number}-{sizes[number % len(sizes)] + number}"
            make(mount, name, number, ledger)
            kept.append(name)
            check(mount, rng.choice(kept))
            assert os.getxattr(mount / DIRECTORY / kept[0], "user.name") == kept[0].encode(), f"{kept[0]} has another attribute"
            check_a_file_of_others(mount, mine, rng)
            note_in_journal(mount, f"{worker} {number}")
            ledger.write(f"={worker} {number}\n")
            if len(kept) > KEPT:
                remove(mount, kept.pop(0), ledger)
            longest.value = max(longest.value, time.monotonic() - began)
            with done.get_lock():
                done.value += 1


class Load:
    """On several mounts at once; `sizes` of its files. Ends with the block, and fails if anything has failed."""

    numbers = itertools.count(1)

    def __init__(self, mounts, directory, sizes=SIZES):
        self.stop = multiprocessing.Event()
        self.workers = []
        for mount in mounts:
            worker = f"w{next(Load.numbers)}"
            done, longest = multiprocessing.Value("q", 0), multiprocessing.Value("d", 0.0)
            process = multiprocessing.Process(target=work, daemon=True,
                                              args=(mount, worker, directory / f"{worker}.ledger", sizes, self.stop, done, longest))
            self.workers.append((process, done, longest))

    def __enter__(self):
        for process, _, _ in self.workers:
            process.start()
        self.progress()
        return self

    def failed(self):
        return any(process.exitcode not in (None, 0) for process, _, _ in self.workers)

    def progress(self):
        """Each has done something more since this was called, and what it had begun before."""
        before = [done.value for _, done, _ in self.workers]
        wait_for("every program gets on", lambda: self.failed() or all(
            done.value > n + 1 for (_, done, _), n in zip(self.workers, before)), PROGRESS_S, 0.05)
        assert not self.failed(), "an operation failed, or gave wrong bytes; the trace is above"

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.progress()
        self.stop.set()
        for process, _, _ in self.workers:
            process.join(PROGRESS_S if kind is None else 10)
            if process.exitcode is None:
                process.kill()
                process.join()
                assert kind is not None, "a program does not end: an operation hangs"
        if kind is None:
            assert not self.failed(), "an operation failed, or gave wrong bytes; the trace is above"
            say(f"    {sum(done.value for _, done, _ in self.workers)} files made, read and compared, without an error; "
                f"the longest round took {max(longest.value for _, _, longest in self.workers):.1f} s")


def owed(directory):
    """What the ledgers of all programs say: names that must be there, and lines that must be in the journal."""
    names, lines = set(), set()
    for path in directory.glob("*.ledger"):
        for line in path.read_text().splitlines():
            if line[0] == "+":
                names.add(line[1:])
            elif line[0] == "-":
                names.discard(line[1:])
            else:
                lines.add(line[1:])
    return names, lines


def check_everything(mount, names, lines):
    there = set(os.listdir(mount / DIRECTORY))
    assert there == names, f"{mount} lacks {sorted(names - there)[:5]} and has {sorted(there - names)[:5]}"
    for name in sorted(names):
        check(mount, name)
    data = (mount / JOURNAL).read_bytes()
    found = [data[at:at + LINE].decode().strip() for at in range(0, len(data), LINE)]
    assert len(found) == len(set(found)) and set(found) == lines, f"the journal of {mount} has {len(found)} lines, {len(lines)} were acknowledged"
