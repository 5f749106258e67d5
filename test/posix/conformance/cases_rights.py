"""Who may do what; owners, modes, times."""

import os
import pathlib
import shlex
import stat
import subprocess
import tempfile
import time

from trace import Trace, permissions_alone

ROOT_CAPS = "as root"
CLOCK_REALTIME_COARSE = 5  # linux/time.h; Python does not name it


def opening(t: Trace):
    for mode in (0o000, 0o100, 0o200, 0o400, 0o600, 0o040, 0o020, 0o060, 0o004, 0o002, 0o006):
        path = t.file(f"f{mode:03o}", b"x", mode)
        os.chown(path, 1000, 2000)

    def tries(u):
        for mode in (0o000, 0o100, 0o200, 0o400, 0o600, 0o040, 0o020, 0o060, 0o004, 0o002, 0o006):
            for flags, what in ((os.O_RDONLY, "r"), (os.O_WRONLY, "w"), (os.O_RDWR, "rw")):
                fd = u.do(f"{mode:03o} {what}", os.open, u.path(f"f{mode:03o}"), flags)
                if fd:
                    os.close(fd)
            u.get(f"{mode:03o} access", lambda: [os.access(u.path(f"f{mode:03o}"), m) for m in (os.R_OK, os.W_OK, os.X_OK)])

    t.user("owner", tries, 1000, 1000)
    t.user("group", tries, 1001, 2000)
    t.user("supplementary group", tries, 1001, 1001, [5, 6, 7, 2000])
    t.user("other", tries, 1001, 1001, [5])
    t.user("owner in group", tries, 1000, 2000)
    tries(t)


def directories(t: Trace):
    for mode in range(8):
        os.mkdir(t.path(f"d{mode}"))
        t.file(f"d{mode}/f", b"x", 0o666)
        os.mkdir(t.path(f"d{mode}/sub"))
        os.chmod(t.path(f"d{mode}"), mode)

    def tries(u):
        for mode in range(8):
            d = f"d{mode}"
            u.get(f"{mode} list", lambda: sorted(os.listdir(u.path(d))))
            u.do(f"{mode} stat in", os.stat, u.path(d, "f"))
            u.do(f"{mode} open in", lambda: os.close(os.open(u.path(d, "f"), os.O_RDWR)))
            u.do(f"{mode} create in", lambda: os.close(os.open(u.path(d, "g"), os.O_CREAT | os.O_RDWR)))
            u.do(f"{mode} mkdir in", os.mkdir, u.path(d, "dir"))
            u.do(f"{mode} symlink in", os.symlink, "x", u.path(d, "s"))
            u.do(f"{mode} link in", os.link, u.path(d, "f"), u.path(d, "l"))
            u.do(f"{mode} rename in", os.rename, u.path(d, "f"), u.path(d, "r"))
            u.do(f"{mode} unlink in", os.unlink, u.path(d, "r"))
            u.do(f"{mode} rmdir in", os.rmdir, u.path(d, "sub"))
            u.do(f"{mode} chdir", os.chdir, u.path(d))

    t.user("other", tries, 1001, 1001)


def owners(t: Trace):
    f = t.file("f", b"x", 0o644)
    os.chown(f, 1000, 1000)

    def owner(u):
        u.do("chmod", os.chmod, f, 0o600)
        u.do("chown to self", os.chown, f, 1000, 1000)
        u.do("chown away", os.chown, f, 1001, -1)
        u.do("chgrp to own group", os.chown, f, -1, 2000)
        u.do("chgrp to another", os.chown, f, -1, 3000)
        u.do("utime", os.utime, f, (1, 2))
        u.do("chmod sgid of own group", os.chmod, f, 0o2755)
        u.mode("mode then", "f")

    def other(u):
        u.do("chmod", os.chmod, f, 0o666)
        u.do("chown", os.chown, f, 1001, -1)
        u.do("chgrp", os.chown, f, -1, 1001)
        u.do("chown of nothing", os.chown, f, -1, -1)
        u.do("utime set", os.utime, f, (1, 2))
        u.do("utime now", os.utime, f)

    t.user("owner", owner, 1000, 1000, [2000])
    t.user("other", other, 1001, 1001)
    os.chmod(f, 0o666)
    t.user("other who may write", other, 1001, 1001)
    os.chown(f, 1000, 3000)
    t.user("sgid of a foreign group", lambda u: (u.do("chmod", os.chmod, f, 0o2755), u.mode("mode", "f")), 1000, 1000)


def suid_goes(t: Trace):
    """setuid and setgid go when the file is written or changes its owner."""
    def write(u):
        fd = os.open(u.path("f"), os.O_WRONLY)
        u.do("write", os.write, fd, b"x")
        u.get("mode at once", permissions_alone, fd)
        os.close(fd)

    def allocate(u):
        fd = os.open(u.path("f"), os.O_WRONLY)
        u.do("fallocate", os.posix_fallocate, fd, 0, 100)
        u.get("mode at once", permissions_alone, fd)
        os.close(fd)

    def copy(u):
        fd = os.open(u.path("f"), os.O_RDWR)
        u.do("copy_file_range", os.copy_file_range, fd, fd, 5, 0, 100)
        u.get("mode at once", permissions_alone, fd)
        os.close(fd)

    changes = {
        "write": write,
        "truncate": lambda u: u.do("truncate", os.truncate, u.path("f"), 3),
        "O_TRUNC": lambda u: u.do("open", lambda: os.close(os.open(u.path("f"), os.O_WRONLY | os.O_TRUNC))),
        "fallocate": allocate,
        "copy": copy,
        "chmod": lambda u: u.do("chmod", os.chmod, u.path("f"), 0o6777),
        "chown": lambda u: u.do("chown", os.chown, u.path("f"), 1000, 1000),
        "utime": lambda u: u.do("utime", os.utime, u.path("f")),
        "rename": lambda u: (os.rename(u.path("f"), u.path("g")), os.rename(u.path("g"), u.path("f"))),
    }
    os.chmod(t.dir, 0o777)
    for mode in (0o6777, 0o4777, 0o2777, 0o6767, 0o6666):
        for name, change in changes.items():
            for uid in (0, 1000, 1001):
                if uid == 1001 and name in ("chmod", "chown", "utime"):
                    continue
                t.file("f", b"0123456789")
                os.chown(t.path("f"), 1000, 1000)
                os.chmod(t.path("f"), mode)
                if uid == 0:
                    change(t)
                else:
                    t.user(f"{mode:o} {uid}", change, uid, uid)
                t.mode(f"{mode:o} {name} by {uid}", "f")
    # Chown by root clears them for programs, not for directories.
    os.mkdir(t.path("d"))
    os.chmod(t.path("d"), 0o6755)
    os.chown(t.path("d"), 5, 5)
    t.mode("chown of a directory", "d")


def sticky(t: Trace):
    d = t.path("tmp")
    os.mkdir(d)
    os.chmod(d, 0o1777)
    for i in range(8):
        t.file(f"tmp/of-1000-{i}", b"", 0o666)
        os.chown(t.path(f"tmp/of-1000-{i}"), 1000, 1000)
    os.mkdir(t.path("tmp/dir"))
    os.chown(t.path("tmp/dir"), 1000, 1000)
    os.chmod(t.path("tmp/dir"), 0o777)

    def other(u):
        u.do("unlink", os.unlink, u.path("tmp/of-1000-0"))
        u.do("rename", os.rename, u.path("tmp/of-1000-0"), u.path("tmp/x"))
        u.do("rmdir", os.rmdir, u.path("tmp/dir"))
        u.do("rename over", lambda: (u.file("tmp/mine"), os.rename(u.path("tmp/mine"), u.path("tmp/of-1000-1"))))
        u.do("own", os.unlink, u.path("tmp/mine"))
        u.do("move a file out of a directory in it", lambda: os.rename(u.file("tmp/dir/m"), u.path("tmp/m")))

    t.user("other", other, 1001, 1001)
    t.user("owner", lambda u: u.do("unlink", os.unlink, u.path("tmp/of-1000-2")), 1000, 1000)
    os.chown(d, 1002, 1002)
    t.user("owner of the directory", lambda u: u.do("unlink", os.unlink, u.path("tmp/of-1000-3")), 1002, 1002)
    t.do("root", os.unlink, t.path("tmp/of-1000-4"))
    t.see("left", sorted(os.listdir(d)))


def inherited_groups(t: Trace):
    d = t.path("d")
    os.mkdir(d)
    os.chown(d, 1000, 2000)
    os.chmod(d, 0o2777)

    def make(u):
        os.umask(0)
        u.file("d/f")
        os.mkdir(u.path("d/sub"))
        fd = os.open(u.path("d/sgid"), os.O_CREAT | os.O_WRONLY, 0o2775)
        os.close(fd)
        os.mkfifo(u.path("d/p"), 0o2770)
        for n in ("f", "sub", "sgid", "p"):
            u.see(f"{n} group", os.lstat(u.path("d", n)).st_gid)
            u.mode(f"{n} mode", f"d/{n}")

    t.user("stranger to the group", make, 1001, 1001)
    for n in ("f", "sgid", "p"):
        os.unlink(t.path("d", n))
    os.rmdir(t.path("d/sub"))
    t.user("member", make, 1001, 1001, [2000])


def umasks(t: Trace):
    for mask in (0, 0o22, 0o77, 0o777):
        old = os.umask(mask)
        try:
            name = f"{mask:o}"
            os.close(os.open(t.path("f" + name), os.O_CREAT | os.O_WRONLY, 0o7777))
            os.mkdir(t.path("d" + name), 0o7777)
            os.mkfifo(t.path("p" + name), 0o666)
            os.symlink("x", t.path("s" + name))
        finally:
            os.umask(old)
        for kind in "fdps":
            t.mode(f"{kind} {name}", kind + name)
    for mode in (0, 0o7777, 0o1000, 0o4755):
        os.chmod(t.path("f0"), mode)
        t.mode(f"chmod {mode:o} file", "f0")
        os.chmod(t.path("d0"), mode)
        t.mode(f"chmod {mode:o} dir", "d0")
    # A mode without write permission is for later opens only.
    fd = t.do("create read-only", os.open, t.path("ro"), os.O_CREAT | os.O_RDWR, 0o444)
    t.do("write it", os.write, fd, b"x")
    os.close(fd)

    def user(u):
        fd = u.do("create without permission", os.open, u.path("none"), os.O_CREAT | os.O_RDWR, 0)
        u.do("write", os.write, fd, b"x")
        u.do("truncate", os.ftruncate, fd, 0)
        u.do("open again", os.open, u.path("none"), os.O_RDONLY)
        os.fchmod(fd, 0o400)
        u.do("write on", os.write, fd, b"x")
        os.close(fd)

    os.chmod(t.dir, 0o777)
    t.user("user", user)


def times_are_kept(t: Trace):
    t.file("f")
    for label, ns in {
        "now": 1763700000_123456789,
        "one": 1_000000001,
        "almost": 999999999,
        "zero": 0,
        "before 1970": -1_000000001,
        "1901": -2147483647_000000000,
        "2038": 2147483648_000000000,
        "2106": 4294967296_000000001,
        "2400": 13569465600_000000000,
    }.items():
        t.do(f"set {label}", os.utime, t.path("f"), ns=(ns, ns + 1))
        t.get(f"atime {label}", lambda: os.stat(t.path("f")).st_atime_ns)
        t.get(f"mtime {label}", lambda: os.stat(t.path("f")).st_mtime_ns)
    os.symlink("f", t.path("s"))
    t.do("of a symlink", os.utime, t.path("s"), ns=(5, 6), follow_symlinks=False)
    t.see("symlink's", (os.lstat(t.path("s")).st_mtime_ns, os.stat(t.path("s")).st_mtime_ns == 6))
    os.mkdir(t.path("d"))
    t.do("of a directory", os.utime, t.path("d"), ns=(7, 8))
    t.see("directory's", os.stat(t.path("d")).st_mtime_ns)


def next_tick():
    """Until the coarse clock, which the reference filesystem mostly takes its times from, is past every time it
    may have given so far (some are of the fine clock): the times of two calls differ."""
    now = time.time_ns()
    while time.clock_gettime_ns(CLOCK_REALTIME_COARSE) <= now:
        time.sleep(0.001)


def times_move(t: Trace):
    """Which of a file's and its directory's times each call moves."""
    d = t.path("d")
    os.mkdir(d)
    f = t.file("d/f", b"content")
    old = 1_000_000_000_000_000_000

    def moved(label, fn, path=f):
        try:
            os.utime(path, ns=(old, old))
            os.utime(d, ns=(old, old))
        except OSError:
            pass
        before, dir_before = os.lstat(path), os.stat(d)
        next_tick()
        try:
            fn()
        except OSError as e:
            t.see(label, e.strerror)
            return
        after, dir_after = os.lstat(path), os.stat(d)
        t.see(label, "".join(c for c, a, b in (
            ("m", before.st_mtime_ns, after.st_mtime_ns), ("c", before.st_ctime_ns, after.st_ctime_ns),
            ("M", dir_before.st_mtime_ns, dir_after.st_mtime_ns), ("C", dir_before.st_ctime_ns, dir_after.st_ctime_ns))
            if a != b))

    def with_fd(flags, fn):
        fd = os.open(f, flags)
        try:
            fn(fd)
        finally:
            os.close(fd)

    moved("read", lambda: with_fd(os.O_RDONLY, lambda fd: os.read(fd, 10)))
    moved("open for writing", lambda: with_fd(os.O_RDWR, lambda fd: None))
    moved("write", lambda: with_fd(os.O_WRONLY, lambda fd: os.write(fd, b"x")))
    moved("write of nothing", lambda: with_fd(os.O_WRONLY, lambda fd: os.write(fd, b"")))
    moved("truncate shorter", lambda: os.truncate(f, 3))
    moved("truncate longer", lambda: os.truncate(f, 300))
    moved("truncate to the same", lambda: os.truncate(f, 300))
    moved("ftruncate to the same", lambda: with_fd(os.O_WRONLY, lambda fd: os.ftruncate(fd, 300)))
    moved("O_TRUNC", lambda: with_fd(os.O_WRONLY | os.O_TRUNC, lambda fd: None))
    moved("O_TRUNC of an empty file", lambda: with_fd(os.O_WRONLY | os.O_TRUNC, lambda fd: None))
    moved("fallocate", lambda: with_fd(os.O_WRONLY, lambda fd: os.posix_fallocate(fd, 0, 9000)))
    moved("chmod", lambda: os.chmod(f, 0o600))
    moved("chown", lambda: os.chown(f, 3, 3))
    moved("setxattr", lambda: os.setxattr(f, "user.a", b"1"))
    moved("removexattr", lambda: os.removexattr(f, "user.a"))
    moved("link", lambda: os.link(f, d + "/l"))
    moved("unlink", lambda: os.unlink(d + "/l"))
    moved("rename", lambda: (os.rename(f, d + "/g"), os.rename(d + "/g", f)))
    moved("create", lambda: t.file("d/new"))
    moved("open of what is there", lambda: with_fd(os.O_CREAT | os.O_RDWR, lambda fd: None))
    moved("mkdir", lambda: os.mkdir(d + "/sub"))
    moved("rmdir", lambda: os.rmdir(d + "/sub"))
    moved("symlink", lambda: os.symlink("x", d + "/s"))
    moved("failed create", lambda: os.mkdir(d + "/s"))
    moved("rename of a directory", lambda: (os.mkdir(d + "/x"), os.rename(d + "/x", d + "/y")))
    moved("listing", lambda: os.listdir(d))
    moved("utime of the mtime", lambda: os.utime(f, ns=(old, old + 5)))


def times_of_writers(t: Trace):
    """A size or time that was set is not overtaken by an earlier write."""
    fd = os.open(t.path("f"), os.O_CREAT | os.O_RDWR)
    os.write(fd, b"x" * 100000)
    t.do("utime after a write", os.utime, t.path("f"), ns=(5, 6))
    t.see("mtime", os.fstat(fd).st_mtime_ns)
    os.fsync(fd)
    t.see("mtime after fsync", os.fstat(fd).st_mtime_ns)
    os.close(fd)
    t.see("mtime after close", os.stat(t.path("f")).st_mtime_ns)
    before = time.time_ns()
    fd = os.open(t.path("f"), os.O_WRONLY)
    os.write(fd, b"y")
    t.see("mtime of a later write", before - 10**9 < os.fstat(fd).st_mtime_ns < time.time_ns() + 10**9)
    os.close(fd)
    now = os.stat(t.path("f"))
    t.see("ctime is not before mtime", now.st_ctime_ns >= now.st_mtime_ns)


def before_the_first_close(t: Trace):
    """What is changed of files that have just been made, one after the other in a directory, as tar and cp do it."""
    os.mkdir(t.path("d"))
    os.chmod(t.path("d"), 0o777)
    xattr = "security.capability"

    def tries(u, who):
        changes = {
            "mode": lambda fd: os.fchmod(fd, 0o604),
            "no mode": lambda fd: os.fchmod(fd, 0),
            "suid": lambda fd: os.fchmod(fd, 0o4755),
            "sgid": lambda fd: os.fchmod(fd, 0o2755),
            "sticky": lambda fd: os.fchmod(fd, 0o1755),
            "own uid": lambda fd: os.fchown(fd, os.getuid(), -1),
            "own group": lambda fd: os.fchown(fd, -1, os.getgid()),
            "one of its groups": lambda fd: os.fchown(fd, -1, 2000),
            "another group": lambda fd: os.fchown(fd, -1, 3000),
            "another owner": lambda fd: os.fchown(fd, 1001, -1),
            "times": lambda fd: os.utime(fd, ns=(5, 6)),
            "times of later": lambda fd: os.utime(fd, ns=(4294967296_000000001, 4294967296_000000002)),
            "owner, then suid": lambda fd: (os.fchown(fd, os.getuid(), os.getgid()), os.fchmod(fd, 0o6711)),
            "suid, then owner": lambda fd: (os.fchmod(fd, 0o6711), os.fchown(fd, os.getuid(), os.getgid())),
            "all": lambda fd: (os.utime(fd, ns=(7, 8)), os.fchown(fd, os.getuid(), os.getgid()), os.fchmod(fd, 0o640)),
            "times, then bytes": lambda fd: (os.utime(fd, ns=(1, 2)), os.write(fd, b"more")),
            "a capability": lambda fd: os.getxattr(fd, xattr),
            "attributes": lambda fd: os.listxattr(fd),
            "an attribute, then mode": lambda fd: (os.setxattr(fd, "user.a", b"1"), os.fchmod(fd, 0o600)),
            "cut": lambda fd: (os.utime(fd, ns=(3, 4)), os.ftruncate(fd, 2)),
            "synced between": lambda fd: (os.utime(fd, ns=(3, 4)), os.fsync(fd), os.fchmod(fd, 0o444)),
        }
        recent = time.time_ns() - 10**9
        for written in (b"", b"bytes", b"x" * 100_000):
            for label, change in changes.items():
                name = u.path("d", f"{who} {len(written)} {label}")
                fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)

                def look(when):
                    now = os.fstat(fd) if fd is not None else os.stat(name)
                    times = [ns if ns < recent or ns > recent + 600 * 10**9 else "now" for ns in (now.st_atime_ns, now.st_mtime_ns)]
                    u.see(f"{label} {when}", (oct(now.st_mode), now.st_uid, now.st_gid, now.st_size, times))

                os.write(fd, written)
                u.do(label, change, fd)
                look("before the close")
                os.close(fd)
                fd = None
                look("after it")
                u.do(f"{label}: opened again", lambda: os.close(os.open(name, os.O_RDWR)))

    tries(t, "root")
    t.user("maker", lambda u: tries(u, "maker"), 1000, 1000, [2000])


def atime(t: Trace):
    f = t.file("f", b"x")
    os.utime(f, ns=(1, 2))
    with open(f, "rb") as g:
        g.read()
    t.see("relatime: read after a write moves atime", os.stat(f).st_atime_ns > 2)
    at = os.stat(f).st_atime_ns
    with open(f, "rb") as g:
        g.read()
    t.see("relatime: a second read does not", os.stat(f).st_atime_ns == at)
    t.see("nor does opening", (os.close(os.open(f, os.O_RDWR)), os.stat(f).st_atime_ns == at)[1])
    next_tick()  # ext4 may take the time of a write, and that of a read after it, from the tick before
    with open(f, "ab", buffering=0) as g:
        g.write(b"y")
    t.see("nor writing", os.stat(f).st_atime_ns == at)
    ctime = os.stat(f).st_ctime_ns
    with open(f, "rb") as g:
        g.read()
        t.see("but reading after writing does", os.fstat(g.fileno()).st_atime_ns > at)
    t.see("reading leaves ctime", os.stat(f).st_ctime_ns == ctime)
    os.utime(f, ns=(3, 4))
    t.see("and utime has the last word", (os.stat(f).st_atime_ns, os.stat(f).st_mtime_ns))
    with open(f, "rb") as g:
        g.read()
    os.utime(f, ns=(5, 6))
    t.see("also right after a read", os.stat(f).st_atime_ns)
    old = f + "-old"
    t.file("f-old", b"x")
    os.utime(old, ns=(1_000_000_000, 2_000_000_000))
    fd = os.open(old, os.O_RDONLY | os.O_NOATIME)
    os.read(fd, 1)
    t.see("O_NOATIME moves nothing", os.stat(old).st_atime_ns)
    os.close(fd)
    fd = os.open(f, os.O_RDONLY | os.O_NOATIME)
    t.do("O_NOATIME", os.read, fd, 1)
    os.close(fd)


def groups_of_now(t: Trace):
    """What a process may do follows its groups at once, in the same thread."""
    f = t.file("f", b"x", 0o640)
    os.chown(f, 0, 2000)
    os.mkdir(t.path("d"))
    os.chown(t.path("d"), 0, 2000)
    os.chmod(t.path("d"), 0o770)
    own = t.file("own", b"x")
    os.chown(own, 1000, 2000)

    def as_member(u, groups):
        os.seteuid(0)
        os.setgroups(groups)
        os.seteuid(1000)

    def tries(u):
        os.setegid(1000)
        for i in range(5):
            for groups in ([], [2000], [7], [7, 2000]):
                as_member(u, groups)
                u.do(f"{i} {groups} read", lambda: os.close(os.open(f, os.O_RDONLY)))
                u.do(f"{i} {groups} mkdir", os.mkdir, u.path("d", f"{i}{len(groups)}"))
                u.get(f"{i} {groups} list", lambda: sorted(os.listdir(u.path("d"))))
                u.do(f"{i} {groups} chmod", os.chmod, own, 0o2755)
                u.mode(f"{i} {groups} setgid stays", "own")
                u.do(f"{i} {groups} chgrp", os.chown, own, -1, 2000)
        os.seteuid(0)

    t.user("one process", tries, 0, 0)


def groups_by_sg(t: Trace):
    """The program that an admin tells people to use after he has put them into a group."""
    f = t.file("f", b"in the group\n", 0o640)
    os.chown(f, 0, 2000)
    with tempfile.TemporaryDirectory() as d:
        # This machine's may have the user already, in other groups.
        for name, line in (("passwd", "root:x:0:0::/:/bin/sh\nmember:x:1000:1000::/:/bin/sh\n"),
                           ("group", "root:x:0:\nmember:x:1000:\nconformers:x:2000:member\n")):
            pathlib.Path(d, name).write_text(line)
        # The shell reads by itself, and sg takes its place: all in one thread.
        read = f"read x < {shlex.quote(f)} && echo $x || echo refused"
        script = (f"mount --bind {d}/passwd /etc/passwd && mount --bind {d}/group /etc/group && exec setpriv --reuid=1000 --regid=1000 "
                  f"--clear-groups sh -c {shlex.quote(f'{read}; exec sg conformers -c {shlex.quote(read)}')}")
        for i in range(3):
            done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60)
            t.see(f"{i}", (done.returncode, done.stdout.splitlines()))


CASES = [opening, directories, owners, suid_goes, sticky, inherited_groups, umasks, times_are_kept, times_move,
         times_of_writers, before_the_first_close, atime,
         groups_of_now, groups_by_sg]
