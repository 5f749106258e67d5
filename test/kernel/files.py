"""Checks of files and names: each with a cluster that works, which it leaves so."""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import pathlib
import platform
import random
import struct
import subprocess
import sys
import tempfile
import threading

from base import PAGE, expect, expect_error, in_child, libc, say
from stria_cluster import MIB

# Bits of FUSE_INIT.
OFFERS = {"HANDLE_KILLPRIV_V2": 28, "DIRECT_IO_ALLOW_MMAP": 36, "PASSTHROUGH": 37, "OVER_IO_URING": 41}


def tells_of_itself(c):
    done = c.stria("doctor", "--json", check=False)
    report = json.loads(done.stdout[done.stdout.index("{"):])
    sentences = [check["sentence"] for check in report["checks"] if check["area"] == "kernel"]
    assert any(platform.release() in s for s in sentences), sentences
    ctypes.set_errno(0)
    libc.syscall(451, -1, None, None, 0)
    cachestat = "no cachestat" if ctypes.get_errno() == errno.ENOSYS else "cachestat"
    major, minor, flags = what_fuse_offers()
    offers = [name for name, bit in OFFERS.items() if flags >> bit & 1]
    say("; ".join([*sentences, cachestat, f"FUSE {major}.{minor} with {', '.join(offers)}"]))


def what_fuse_offers():
    """What the kernel says with FUSE_INIT to a mount: its version, and flags."""
    at, fd = tempfile.mkdtemp(), os.open("/dev/fuse", os.O_RDWR)
    try:
        options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
        expect("mount", libc.mount(b"probe", os.fsencode(at), b"fuse", 0, options), 0)
        request = os.read(fd, 65536)
        libc.umount2(os.fsencode(at), 2)
    finally:
        os.close(fd)
        os.rmdir(at)
    major, minor, _, flags, more = struct.unpack_from("<5I", request, 40)
    return major, minor, flags | more << 32


def bytes_stay(c):
    for name, size in (("empty", 0), ("one", 1), ("dir/page", PAGE), ("dir/odd", PAGE + 1), ("dir/large", 24 * MIB + 3)):
        c.write(name, size)
    c.verify()
    c.fresh_mount()
    c.verify()


def overwrite(c):
    path = c.mount / "over"
    path.write_bytes(b"a" * (3 * MIB))
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, b"b" * 100_000, 1_000_001)
    want = b"a" * 1_000_001 + b"b" * 100_000 + b"a" * (3 * MIB - 1_100_001)
    assert os.pread(fd, 4 * MIB, 0) == want, "a descriptor to read and write does not see what it wrote"
    os.ftruncate(fd, 1_050_000)
    os.ftruncate(fd, 1_200_000)
    want = want[:1_050_000] + b"\0" * 150_000
    assert os.pread(fd, 4 * MIB, 0) == want, "bytes that were cut off are there again"
    os.close(fd)
    assert (c.other / "over").read_bytes() == want


def names(c):
    d = c.mount / "names"
    d.mkdir()
    (d / "a").write_text("a")
    (d / "b").write_text("b")
    expect("RENAME_NOREPLACE", rename2(d / "a", d / "b", 1), errno.EEXIST)
    expect("RENAME_EXCHANGE", rename2(d / "a", d / "b", 2), 0)
    expect("exchanged", ((d / "a").read_text(), (d / "b").read_text()), ("b", "a"))
    os.rename(d / "a", d / "b")
    expect("listing", os.listdir(d), ["b"])
    os.link(d / "b", d / "hard")
    os.symlink("hard", d / "soft")
    expect("through the links", (d / "soft").read_text(), "b")
    expect("links", (d / "b").stat().st_nlink, 2)
    (d / "deep/er").mkdir(parents=True)
    (d / "deep/er/file").write_text("x")
    here = os.getcwd()
    os.chdir(d / "deep/er")
    try:
        os.rename(d / "deep", d / "moved")
        expect("the working directory", os.getcwd(), str(d / "moved/er"))
        expect("below it", pathlib.Path("file").read_text(), "x")
    finally:
        os.chdir(here)
    expect_error(errno.ENOTEMPTY, os.rmdir, d / "moved")
    os.rename(c.other / "names/moved", c.other / "names/again")
    expect("moved by another mount", sorted(os.listdir(d)), ["again", "b", "hard", "soft"])
    for n in range(300):
        (d / f"many{n}").touch()
    expect("many", len(os.listdir(c.other / "names")), 304)


def rename2(a, b, flags):
    ctypes.set_errno(0)
    return 0 if libc.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), flags) == 0 else ctypes.get_errno()


def mappings(c):
    path = c.mount / "mapped"
    path.write_bytes(b"m" * (1 * MIB))
    in_child(map_and_store, path)
    want = bytearray(b"m" * (1 * MIB))
    want[5000:5005] = b"store"
    want[9000:9005] = b"write"
    for mount in (c.mount, c.other):
        assert (mount / "mapped").read_bytes() == want, f"{mount} does not have what was stored"
    program = c.mount / "true"
    program.write_bytes(pathlib.Path("/usr/bin/true").read_bytes())
    program.chmod(0o755)
    subprocess.run([program], check=True)
    subprocess.run([c.other / "true"], check=True)


def map_and_store(path):
    fd = os.open(path, os.O_RDWR)
    with mmap.mmap(fd, 0) as m:
        m[5000:5005] = b"store"
        assert os.pread(fd, 5, 5000) == b"store", "read(2) does not see a store"
        os.pwrite(fd, b"write", 9000)
        assert m[9000:9005] == b"write", "a mapping does not see a write"
        m.flush()
    os.close(fd)
    fd = os.open(path, os.O_RDONLY)
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as m:
        assert m[5000:5005] == b"store" and m[9000:9005] == b"write"
    os.close(fd)


def direct(c):
    path = c.mount / "direct"
    for flags in (os.O_RDWR, os.O_WRONLY):
        fd = os.open(path, flags | os.O_CREAT | os.O_TRUNC | os.O_DIRECT)
        with mmap.mmap(-1, 1 * MIB) as m:
            m.write(random.Random(1).randbytes(1 * MIB))
            os.pwritev(fd, [m], 0)
            if flags == os.O_RDWR:
                got = bytearray(1 * MIB)
                expect("read O_DIRECT", os.preadv(fd, [got], 0), 1 * MIB)
                assert bytes(m) == got
            want = bytes(m)
        os.pwrite(fd, b"no alignment", 77)
        os.close(fd)
        want = want[:77] + b"no alignment" + want[89:]
        assert path.read_bytes() == want and (c.other / "direct").read_bytes() == want
        os.unlink(path)


def attributes(c):
    path = c.mount / "attributes"
    path.touch()
    os.setxattr(path, "user.one", b"1" * 40_000)
    os.setxattr(path, "trusted.two", b"2")
    expect("names", sorted(x for x in os.listxattr(path) if not x.startswith("user.stria")), ["trusted.two", "user.one"])
    expect("value", os.getxattr(c.other / "attributes", "user.one"), b"1" * 40_000)
    expect_error(errno.EEXIST, os.setxattr, path, "user.one", b"", os.XATTR_CREATE)
    os.removexattr(path, "user.one")
    expect_error(errno.ENODATA, os.getxattr, path, "user.one")
    # A list: owner, user 1234, group, mask, others.
    acl = b"\2\0\0\0" + b"".join(int(tag).to_bytes(2, "little") + int(perm).to_bytes(2, "little") + int(who).to_bytes(4, "little", signed=True)
                                 for tag, perm, who in ((1, 6, -1), (2, 4, 1234), (4, 0, -1), (16, 4, -1), (32, 0, -1)))
    path.write_text("for one user")
    os.setxattr(path, "system.posix_acl_access", acl)
    expect("its list", os.getxattr(path, "system.posix_acl_access"), acl)
    for uid, want in ((1234, 0), (1235, 1)):
        reads = subprocess.run(["cat", path], preexec_fn=lambda u=uid: become(u), capture_output=True, check=False)
        expect(f"cat of user {uid}", reads.returncode, want)


def become(uid):
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def privileges_go(c):
    path = c.mount / "suid"
    path.write_text("x")
    path.chmod(0o6777)
    code = "import os, sys; os.setgroups([]); os.setgid(1234); os.setuid(1234); f = open(sys.argv[1], 'r+b'); f.write(b'y')"
    subprocess.run([sys.executable, "-c", code, path], check=True)
    expect("mode after another user's write", oct(path.stat().st_mode & 0o7777), oct(0o777))


def sparse(c):
    path = c.mount / "sparse"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"x" * PAGE, 100 * MIB)
    os.fsync(fd)
    expect("SEEK_DATA", os.lseek(fd, 0, os.SEEK_DATA), 100 * MIB)
    expect("SEEK_HOLE", os.lseek(fd, 100 * MIB, os.SEEK_HOLE), 100 * MIB + PAGE)
    assert os.fstat(fd).st_blocks * 512 < 1 * MIB, "a hole takes space"
    os.pwrite(fd, b"y" * (8 * PAGE), 0)
    assert os.pread(fd, 8 * PAGE, 0) == b"y" * (8 * PAGE)  # in pages, where a kernel keeps them
    expect("punch", libc.fallocate(fd, 3, ctypes.c_long(PAGE), ctypes.c_long(2 * PAGE)), 0)
    assert os.pread(fd, 8 * PAGE, 0) == b"y" * PAGE + b"\0" * (2 * PAGE) + b"y" * (5 * PAGE), "a punched hole has bytes"
    expect("zero", libc.fallocate(fd, 16, ctypes.c_long(4 * PAGE), ctypes.c_long(PAGE)), 0)
    assert os.pread(fd, PAGE, 4 * PAGE) == b"\0" * PAGE, "a range that was zeroed has bytes"
    expect("allocate", libc.fallocate(fd, 0, ctypes.c_long(0), ctypes.c_long(200 * MIB)), 0)
    expect("size", os.fstat(fd).st_size, 200 * MIB)
    with open(c.mount / "copy", "w+b") as copy:
        assert copy.read() == b""
        expect("copied", os.copy_file_range(fd, copy.fileno(), 4 * MIB, 100 * MIB - 2 * MIB, 0), 4 * MIB)
        assert os.pread(copy.fileno(), PAGE, 2 * MIB) == b"x" * PAGE, "a copy has other bytes"
    os.close(fd)


def unlinked(c):
    path = c.mount / "unlinked"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(fd, b"z" * MIB)
    os.unlink(path)
    expect("links", os.fstat(fd).st_nlink, 0)
    os.pwrite(fd, b"after", MIB)
    assert os.pread(fd, 2 * MIB, 0) == b"z" * MIB + b"after"
    replaced = c.mount / "replaced"
    replaced.write_text("old")
    with open(replaced) as old:
        (c.other / "new").write_text("new")
        os.rename(c.other / "new", c.other / "replaced")
        expect("the replaced file", old.read(), "old")
    expect("the new one", replaced.read_text(), "new")
    os.close(fd)


def handles(c):
    (c.mount / "handle").write_text("by handle")
    buffer = (ctypes.c_char * 140)()
    ctypes.c_uint.from_buffer(buffer).value = 128
    at = ctypes.c_int()
    expect("name_to_handle_at", libc.name_to_handle_at(-100, os.fsencode(c.mount / "handle"), buffer, ctypes.byref(at), 0), 0)
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("2\n")
    mount = os.open(c.mount, os.O_RDONLY)
    fd = libc.open_by_handle_at(mount, buffer, os.O_RDONLY)
    assert fd >= 0, f"open_by_handle_at: {os.strerror(ctypes.get_errno())}"
    expect("its bytes", os.read(fd, 100), b"by handle")
    os.close(fd)
    os.close(mount)


def locks(c):
    a, b = open(c.mount / "locked", "w+"), open(c.other / "locked", "r+")
    with a, b:
        fcntl.flock(a, fcntl.LOCK_EX)
        expect_error(errno.EAGAIN, fcntl.flock, b, fcntl.LOCK_EX | fcntl.LOCK_NB)
        waiter = threading.Thread(target=fcntl.flock, args=(b, fcntl.LOCK_EX))
        waiter.start()
        waiter.join(0.5)
        assert waiter.is_alive(), "a lock that is held is given"
        fcntl.flock(a, fcntl.LOCK_UN)
        waiter.join(30)
        assert not waiter.is_alive(), "a lock that was given up is not given"
        fcntl.lockf(a, fcntl.LOCK_EX, 10, 0)
        code = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 10, int(sys.argv[2]))"
        for at, want in ((5, 1), (10, 0)):
            done = subprocess.run([sys.executable, "-c", code, c.other / "locked", str(at)], capture_output=True, check=False)
            expect(f"lockf at {at}", done.returncode, want)


def interrupted(c):
    """A signal that kills ends a call; others change nothing."""
    script = "import os, signal, sys; signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)\n" \
             "for i in range(30): open(sys.argv[1], 'wb').write(bytes([i]) * 300000)\n" \
             "signal.setitimer(signal.ITIMER_REAL, 0)\n"
    subprocess.run([sys.executable, "-c", script, c.mount / "interrupted"], check=True)
    expect("bytes", (c.mount / "interrupted").read_bytes(), bytes([29]) * 300000)


CHECKS = [tells_of_itself, bytes_stay, overwrite, names, mappings, direct, attributes, privileges_go, sparse, unlinked, handles, locks, interrupted]
