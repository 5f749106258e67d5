"""Runs on the client: writes and reads all the time, and tells of each operation when it begins and when it returns (ledger.py has the form).

    load.py DIR           a ledger as a line of JSON comes on stdin; it ends when stdin does
    load.py DIR --check   reads everything once instead, and tells as JSON what is not as the ledger says

It is copied to the client, so it needs nothing but Python. Bytes come from names and sizes, so that nobody has to remember them."""

import itertools
import json
import os
import pathlib
import random
import sys
import threading
import time

MIB = 1 << 20
KEPT_FILES = 120  # older ones are removed
WRITE_PAUSE_S, READ_PAUSE_S = 0.15, 0.04
SAVE_EACH = 4  # files
MOST_SAVE_BYTES = 512 << 10
DOCUMENT = "document"


def content(name, size):
    block = random.Random(f"{name} {size}").randbytes(min(size, MIB))
    return (block * (size // MIB + 1))[:size]


def version_bytes(version):
    return b"version %d\n" % version + content("save", 1 + version * 7919 % MOST_SAVE_BYTES)


def version_of(data):
    """0 if it is no whole version."""
    head = data.split(b"\n", 1)[0].split()
    if len(head) != 2 or head[0] != b"version" or not head[1].isdigit():
        return 0
    version = int(head[1])
    return version if data == version_bytes(version) else 0


def read_all(path):
    """From the filesystem, not from the kernel's pages."""
    with open(path, "rb", buffering=0) as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return b"".join(iter(lambda: f.read(MIB), b""))


def write_all(path, data):
    with open(path, "wb", buffering=0) as f:
        view = memoryview(data)
        while view:
            view = view[f.write(view):]
        os.fsync(f.fileno())


class WrongBytes(Exception):
    pass


class Load:
    def __init__(self, top, ledger):
        self.top, self.files, self.saved, self.begun = top, dict(ledger["files"]), ledger["saved"], ledger["begun"]
        self.next = ledger["next"]
        self.read_now = None  # is not removed
        self.mutex = threading.Lock()
        self.say_mutex = threading.Lock()
        self.numbers = itertools.count(1)
        self.end = threading.Event()

    def say(self, **what):
        with self.say_mutex:
            sys.stdout.write(json.dumps(what) + "\n")
            sys.stdout.flush()

    def tried(self, work, **what):
        """Whether it went well."""
        n = next(self.numbers)
        self.say(n=n, at=time.monotonic(), **what)
        try:
            work()
        except (OSError, WrongBytes) as e:
            self.say(n=n, done=time.monotonic(), failed=str(e))
            return False
        self.say(n=n, done=time.monotonic())
        return True

    # ---- Writing ----

    def write(self, rng):
        size = rng.choice([1, 4097, 65537, rng.randrange(MIB), rng.randrange(4 * MIB)])
        name = f"f{self.next}"
        self.next += 1
        data = content(name, size)
        if self.tried(lambda: write_all(self.top / name, data), op="write", name=name, size=size):
            with self.mutex:
                self.files[name] = size

    def save(self):
        version = self.begun + 1
        self.begun = version
        data = version_bytes(version)

        def work():
            write_all(self.top / ".document.new", data)
            os.rename(self.top / ".document.new", self.top / DOCUMENT)
            directory = os.open(self.top, os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)
        if self.tried(work, op="save", version=version):
            self.saved = version

    def remove(self):
        with self.mutex:
            if len(self.files) <= KEPT_FILES:
                return
            name = next(n for n in self.files if n != self.read_now)
            del self.files[name]
        self.tried(lambda: os.unlink(self.top / name), op="remove", name=name)

    def write_on(self):
        rng = random.Random(self.next)
        while not self.end.is_set():
            self.write(rng)
            if self.next % SAVE_EACH == 0:
                self.save()
            self.remove()
            self.end.wait(WRITE_PAUSE_S)

    # ---- Reading ----

    def read(self, name, size):
        data = read_all(self.top / name)
        if data != content(name, size):
            raise WrongBytes(f"{name} has {len(data)} bytes that are not the {size} that were written")

    def look(self, at_least):
        version = version_of(read_all(self.top / DOCUMENT))
        if not at_least <= version <= self.begun:
            raise WrongBytes(f"the document is version {version}, and not one from {at_least} to {self.begun}")

    def read_on(self):
        rng = random.Random(-self.next)
        while not self.end.is_set():
            with self.mutex:
                name = rng.choice(list(self.files)) if self.files else None
                self.read_now = name
                size = self.files.get(name, 0)
            if name is not None:
                self.tried(lambda name=name, size=size: self.read(name, size), op="read", name=name, size=size)
            saved = self.saved
            if saved and rng.random() < 0.1:
                self.tried(lambda saved=saved: self.look(saved), op="look", version=saved)
            self.end.wait(READ_PAUSE_S)

    def run(self):
        threads = [threading.Thread(target=work, daemon=True) for work in (self.write_on, self.read_on)]
        for t in threads:
            t.start()
        while sys.stdin.readline():
            pass
        self.end.set()
        for t in threads:
            t.join()


# ---- Everything once ----


def wrong_file(top, name, size, must_be_there, may_be_cut):
    """A sentence, or "" if it is right."""
    try:
        data = read_all(top / name)
    except FileNotFoundError:
        return f"{name} is gone" if must_be_there else ""
    except OSError as e:
        return f"{name}: {e.strerror}"
    want = content(name, size)
    if data == want or (may_be_cut and data == want[:len(data)]):
        return ""
    return f"{name} has {len(data)} bytes that are not " + ("the front of " if may_be_cut else "") + f"the {size} that were written"


def check(top, ledger):
    wrong = [wrong_file(top, n, s, True, False) for n, s in ledger["files"].items()]
    wrong += [wrong_file(top, n, s, False, True) for n, s in ledger["unsure"].items()]
    wrong += [wrong_file(top, n, s, False, False) for n, s in ledger["going"].items()]
    version = 0
    try:
        version = version_of(read_all(top / DOCUMENT))
        if not ledger["saved"] <= version <= ledger["begun"] or version == 0:
            wrong.append(f"the document is version {version}, and not one from {ledger['saved']} to {ledger['begun']}")
    except FileNotFoundError:
        if ledger["saved"]:
            wrong.append(f"the document is gone, of which version {ledger['saved']} was saved")
    except OSError as e:
        wrong.append(f"the document: {e.strerror}")
    ours = {*ledger["files"], *ledger["unsure"], *ledger["going"], DOCUMENT, ".document.new"}
    wrong += [f"{name} was removed, and is there" for name in sorted(os.listdir(top)) if name not in ours]
    return {"wrong": [w for w in wrong if w], "document": version, "files": len(ledger["files"])}


def main():
    top = pathlib.Path(sys.argv[1])
    ledger = json.loads(sys.stdin.readline())
    if sys.argv[2:] == ["--check"]:
        print(json.dumps(check(top, ledger)))
    else:
        Load(top, ledger).run()


if __name__ == "__main__":
    main()
