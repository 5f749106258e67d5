"""A mount with -o passthrough: files that are one shard of this node are read by the kernel, everything else as ever; all of
it right, whoever opens what in whichever order, and whatever changes meanwhile."""

import contextlib
import errno
import hashlib
import itertools
import json
import mmap
import os
import platform
import random
import subprocess
import threading
import time

from stria_cluster import MIB, Cluster, chunks_of, digest_of_file, main, say, write_file

UNIT = 8 * MIB
WHOLE = 7 * MIB + 12345  # fits into one column
HAMMER_S = 8


def digest_of_bytes(size, seed):
    sha = hashlib.sha256()
    for piece in chunks_of(size, seed):
        sha.update(piece)
    return sha.hexdigest()


def reads_through_us(c, path):
    """Bytes that the mount has fetched for this file."""
    s = json.loads(c.stria("stats", path, "--json").stdout)
    return s["local_bytes"] + s["network_bytes"]


def digest_of_fd(fd):
    sha, at = hashlib.sha256(), 0
    while piece := os.pread(fd, MIB, at):
        sha.update(piece)
        at += len(piece)
    return sha.hexdigest()


def refused(path, flags):
    try:
        os.close(os.open(path, flags))
    except OSError as e:
        assert e.errno == errno.ETXTBSY, e
        return True
    return False


def drop_pages():
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3\n")


def hammer(here, there):
    """Threads open, read, map, replace and rewrite a few files through both mounts. Each version of one that is replaced is one
    letter: whoever reads sees no mix. One is written in place, where all that counts is that nothing fails."""
    length, end, wrong = 2 * MIB, time.monotonic() + HAMMER_S, []
    names = [f"hammer{i}" for i in range(3)] + ["in-place"]
    counts = {"read": 0, "written": 0, "busy": 0}
    for n in names:
        (there / n).write_bytes(b"a" * length)

    def reader(seed, mount):
        rng = random.Random(seed)
        while time.monotonic() < end:
            try:
                name = rng.choice(names)
                with open(mount / name, "rb", buffering=0) as f:
                    if rng.random() < 0.3:
                        with mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
                            seen = set(m[i] for i in range(0, len(m), 65536))
                    else:
                        seen = set(f.read(length))
                    if rng.random() < 0.2:
                        time.sleep(0.02)
                    if len(seen) > 1 and name != "in-place":
                        wrong.append(f"a mix of {seen} through {mount}")
                    counts["read"] += 1
            except (FileNotFoundError, ValueError):  # removed; just made, and still empty
                continue
            except OSError as e:
                wrong.append(f"reading through {mount}: {e}")

    def writer(seed, mount):
        rng = random.Random(seed)
        while time.monotonic() < end:
            name, text = rng.choice(names), bytes([97 + rng.randrange(26)]) * length
            try:
                if name == "in-place":
                    with open(mount / name, "r+b", buffering=0) as f:
                        f.write(text)
                else:
                    temporary = mount / f".{name}.{seed}"
                    temporary.write_bytes(text)
                    os.rename(temporary, mount / name)
                counts["written"] += 1
            except FileNotFoundError:
                continue
            except OSError as e:
                if e.errno == errno.ETXTBSY and mount == here:
                    counts["busy"] += 1
                else:
                    wrong.append(f"writing through {mount}: {e}")
            time.sleep(0.01)

    threads = [threading.Thread(target=reader, args=(i, here)) for i in range(4)]
    threads += [threading.Thread(target=reader, args=(4, there))]
    threads += [threading.Thread(target=writer, args=(5, here)), threading.Thread(target=writer, args=(6, there))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[:5]
    assert counts["read"] > 20 and counts["written"] > 5, counts
    return counts


def kernel_can():
    major, minor = platform.release().split(".")[:2]
    return (int(major), int("".join(itertools.takewhile(str.isdigit, minor)))) >= (6, 9)


def scenario():
    if not kernel_can():
        return say(f"skipped: Linux {platform.release()} has no FUSE passthrough (6.9 has)")
    with Cluster(nodes=5, disks=1, layout="raid5:4+1") as c:
        here = c.dir / "through"
        here.mkdir()
        c.stria("dev", "mount", "--dir", c.cluster, "--at", here, "--node", "n1", "-o", "passthrough")
        (c.mount / "data").mkdir()
        c.stria("layout", "set", c.mount / "data", "raid5:4+1,arrange=gathered,unit=8M", "--place", "local")
        files = {}
        for name, size in {"whole": WHOLE, "unit": UNIT, "columns": 20 * MIB + 1, "small": 1000, "empty": 0}.items():
            files[f"data/{name}"] = write_file(c.mount, f"data/{name}", size)[1]
        files["spread"] = write_file(c.mount, "spread", WHOLE)[1]
        for name, digest in files.items():
            assert digest_of_file(here / name) == digest, name
        past = {n for n in files if reads_through_us(c, here / n) == 0 and os.stat(here / n).st_size > 0}
        # The kernel cannot be asked for what the small one has, and the columns of the larger one are several files.
        assert {"data/whole", "data/unit"} <= past and not past & {"data/columns", "spread"}, past
        with open(here / "data/whole", "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
            assert hashlib.sha256(m).hexdigest() == files["data/whole"]
        drop_pages()
        assert digest_of_file(here / "data/whole") == files["data/whole"] and reads_through_us(c, here / "data/whole") == 0
        # The disk's filesystem would want it aligned.
        for beside in (False, True):
            with open(here / "data/whole", "rb") if beside else contextlib.nullcontext():
                fd = os.open(here / "data/whole", os.O_RDONLY | os.O_DIRECT)
                assert os.pread(fd, 1001, 2 * MIB + 77) == (c.mount / "data/whole").read_bytes()[2 * MIB + 77:][:1001]
                os.close(fd)
        say("what is one shard here is read past the mount, the rest through it")

        target = here / "data/whole"
        held = os.open(target, os.O_RDONLY)
        for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_RDONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
            assert refused(target, flags), flags
        try:
            os.truncate(target, 5)
            raise AssertionError("it was cut off while it was read past the mount")
        except OSError as e:
            assert e.errno == errno.ETXTBSY, e
        assert digest_of_fd(held) == files["data/whole"], "a refused open has changed the file"
        shards = {p: p.read_bytes() for node in c.nodes() for p in c.shard_files(node)}
        # Somebody else changes it: who has it open goes on reading what it was, who opens it now reads what it is.
        with open(c.mount / "data/whole", "r+b", buffering=0) as f:
            f.write(b"changed")
            os.fsync(f.fileno())
        with open(c.mount / "data/whole", "r+b", buffering=0) as f:  # still being written there: nobody may keep what he reads
            f.write(b"changes")
            assert target.read_bytes()[:7] == b"changes"
            f.write(b"2")
            assert target.read_bytes()[:8] == b"changes2"
        now = digest_of_file(c.mount / "data/whole")
        assert digest_of_fd(held) == files["data/whole"] and digest_of_file(target) == now != files["data/whole"]
        assert refused(target, os.O_RDWR)
        # A mapping of it takes no writes either.
        beside = os.open(target, os.O_RDONLY)
        try:
            mmap.mmap(beside, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
            raise AssertionError("a read-only file was mapped to be written")
        except PermissionError:
            pass
        os.close(beside)
        os.close(held)
        for p, was in shards.items():
            assert not p.exists() or p.read_bytes() == was, f"{p} has changed: shards never do"
        assert digest_of_file(target) == now
        with open(target, "r+b", buffering=0) as f:
            f.write(b"again")
            reader = os.open(target, os.O_RDONLY)  # beside a writer everything goes through the mount
            assert os.pread(reader, 7, 0) == b"againes"
            os.close(reader)
        assert target.read_bytes()[:7] == b"againes"
        say("who writes is refused or read after, and no shard has changed")

        held = os.open(here / "data/unit", os.O_RDONLY)
        os.unlink(c.mount / "data/unit")
        time.sleep(3)
        assert digest_of_fd(held) == files.pop("data/unit"), "a removed file is gone for who has it open"
        os.close(held)
        assert not (here / "data/unit").exists()
        (c.mount / "data/true").write_bytes(open("/bin/true", "rb").read() + bytes(2 * MIB))
        os.chmod(c.mount / "data/true", 0o755)
        subprocess.run([here / "data/true"], check=True, timeout=60)
        say("removed files and programs")

        (here / "data/dir").mkdir()
        say(f"in turn and at once: {hammer(here / 'data/dir', c.mount / 'data/dir')}")

        # A user's mount and open files do as ever when the program or the data server is killed.
        write_file(c.mount, "data/again", WHOLE)
        digest = digest_of_file(c.mount / "data/again")
        held = os.open(here / "data/again", os.O_RDONLY)
        c.kill("n1")
        assert digest_of_fd(held) == digest, "the kernel needs no data server to read on"
        os.close(held)
        drop_pages()
        assert digest_of_file(here / "data/again") == digest
        assert reads_through_us(c, here / "data/again") > 0, "without the data server there is nobody to give the shard"
        c.start("n1")
        c.wait_whole()
        held = os.open(here / "data/again", os.O_RDONLY)
        c.kill("mount2")
        c.start("mount2")
        assert digest_of_file(here / "data/again") == digest
        with contextlib.suppress(OSError):
            os.close(held)  # the mount that it was open on is gone
        c.fsck()


main(scenario)
