"""Work from several mounts at once whose answers tell what was lost or done twice: targets of ha_loop's Loop, and what they note.

`contend`: each mount tries to be the one that creates, links, renames, removes; of all that tried one is told that it was. It also
appends to a file that all append to, and counts in the name of a file of its own.
`registers`, `names`: operations on a few objects that all change, with the times of their calls and returns (checker: ha_checks)."""

import errno
import os
import random
import struct
import time

REGISTERS = 3
NAMES = ["a", "b", "c", "d"]
REGISTER_BYTES = 64
TORN = (1 << 32) - 1
RECORD_BYTES = 32
EXPECTED = {"create": errno.EEXIST, "link": errno.EEXIST, "take": errno.ENOENT, "unlink": errno.ENOENT}


def record(mount, number):
    return f"{mount} {number}".ljust(RECORD_BYTES - 1).encode() + b"\n"


def register_bytes(value):
    return struct.pack("<Q", value) * (REGISTER_BYTES // 8)


def register_value(data):
    values = set(struct.unpack(f"<{len(data) // 8}Q", data[:len(data) // 8 * 8]))
    return values.pop() if len(data) == REGISTER_BYTES and len(values) == 1 else TORN


def prepare(directory):
    """What `contend`, `registers` and `names` find there. `directory`: on any of the mounts."""
    for name in ("claims", "links", "taken", "names"):
        (directory / name).mkdir(parents=True)
    (directory / "seed").write_bytes(b"seed")
    (directory / "appended").write_bytes(b"")
    for i in range(REGISTERS):
        (directory / f"register{i}").write_bytes(register_bytes(0))


class Notes:
    """A local file of what was told: `what key errno called returned`."""

    def __init__(self, log, path):
        self.log, self.file = log, open(path, "w")

    def tell(self, what, key, act):
        """0 or its errno, which is noted; `act` may be anything that raises OSError."""
        begin, error = time.monotonic(), 0
        try:
            act()
        except OSError as e:
            error = e.errno or errno.EIO
        end = time.monotonic()
        self.file.write(f"{what} {key} {error} {begin:.6f} {end:.6f}\n")
        self.log.add(begin, end, 0 if error == EXPECTED.get(what) else error)
        return error


def create(path, data):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def append(fd, data, sync):
    done = os.write(fd, data)
    if done != len(data):
        raise OSError(errno.EIO, "a short append")
    if sync:
        os.fsync(fd)


def contend(log, directory, mount, progress, notes_path, pause):
    """`mount`: its number. `progress`: shared numbers, one a mount: what it has tried to create."""
    notes, number, tried = Notes(log, notes_path), 0, 0
    token = directory / f"token{mount}-0"
    token.write_bytes(b"")
    with open(directory / "appended", "ab", buffering=0) as appended:
        while not log.ends():
            notes.tell("create", number, lambda: create(directory / "claims" / f"{number}", f"{mount}".encode()))
            notes.tell("link", number, lambda: os.link(directory / "seed", directory / "links" / f"{number}"))
            notes.tell("append", number, lambda: append(appended.fileno(), record(mount, number), number % 4 == mount))
            following = directory / f"token{mount}-{number + 1}"
            notes.tell("count", number, lambda: os.rename(token, following))
            token, number = following, number + 1
            progress[mount].value = number
            while tried < min(p.value for p in progress) and not log.ends():  # all have had their answers
                key = tried
                notes.tell("take", key, lambda: os.rename(directory / "claims" / f"{key}", directory / "taken" / f"{key}.{mount}"))
                notes.tell("unlink", key, lambda: os.unlink(directory / "links" / f"{key}"))
                tried += 1
            time.sleep(pause)
    notes.file.close()


# ---- Histories, in the format of test/linear/check_history.cc ----


class History:
    def __init__(self, log, client, path):
        self.log, self.client, self.file = log, client, open(path, "w")

    def add(self, target, called, what, error=0, answered=True):
        returned = time.monotonic_ns()
        self.file.write(f"{target} {called} {returned if answered else '-'} {self.client} {what}\n")
        self.log.add(called / 1e9, returned / 1e9, error)

    def failed(self, target, called, what, error):
        """`what`: nothing if it does not matter whether it was done."""
        if what:
            self.add(target, called, what, error, answered=False)
        else:
            self.log.add(called / 1e9, time.monotonic(), error)


def registers(log, directory, client, path, pause):
    history, rng, number = History(log, client, path), random.Random(f"{directory} {client}"), 0
    files = [os.open(directory / f"register{i}", os.O_RDWR) for i in range(REGISTERS)]
    while not log.ends():
        i, number = rng.randrange(REGISTERS), number + 1
        value = client * 10_000_000 + number
        reads = rng.random() < 0.6
        called = time.monotonic_ns()
        try:
            if reads:
                value = register_value(os.pread(files[i], REGISTER_BYTES, 0))
            else:
                os.pwrite(files[i], register_bytes(value), 0)
            history.add(f"register{i}", called, f"{'read' if reads else 'write'} {value}")
            if rng.random() < 0.1:
                os.fsync(files[i])
            if rng.random() < 0.1:
                os.close(files[i])
                files[i] = os.open(directory / f"register{i}", os.O_RDWR)
        except OSError as e:
            history.failed(f"register{i}", called, "" if reads else f"write {value}", e.errno)
        time.sleep(pause * rng.random() * 2)
    for fd in files:
        os.close(fd)
    history.file.close()


def names(log, directory, client, path, pause):
    history, rng = History(log, client, path), random.Random(f"{directory} {client}")
    place = directory / "names"
    while not log.ends():
        what = rng.choice(["create", "create", "unlink", "rename", "lookup", "lookup", "list"])
        a, b = rng.sample(NAMES, 2)
        called, file, error, failed = time.monotonic_ns(), 0, 0, False
        try:
            if what == "create":
                fd = os.open(place / a, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                file = os.fstat(fd).st_ino
            elif what == "unlink":
                os.unlink(place / a)
            elif what == "rename":
                os.rename(place / a, place / b)
            elif what == "lookup":
                file = os.stat(place / a).st_ino
            else:
                listed = " ".join(os.listdir(place))
        except OSError as e:
            error = e.errno
            failed = error not in ((errno.EEXIST,) if what == "create" else (errno.ENOENT,))
        if what == "list":
            told = f"list {listed}" if not error else ""
        else:
            told = {"create": f"create {a} {error} {file}", "unlink": f"unlink {a} {error}", "rename": f"rename {a} {b} {error}",
                    "lookup": f"lookup {a} {error} {file}"}[what]
        if failed or (what == "list" and error):
            # Without an answer, what it was told is what it would have been told.
            told = {"create": f"create {a} 0 0", "unlink": f"unlink {a} 0", "rename": f"rename {a} {b} 0"}.get(what, "")
            history.failed("names", called, told, error)
        else:
            history.add("names", called, told)
        if what == "create" and not error:
            os.close(fd)
        time.sleep(pause * rng.random() * 2)
    history.file.close()
