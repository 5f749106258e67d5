"""Extended attributes, numbers of the filesystem, limits."""

import errno
import fcntl
import os
import resource
import signal

from trace import Trace


def xattrs(t: Trace):
    f = t.file("f")
    t.do("set", os.setxattr, f, "user.a", b"one")
    t.get("get", os.getxattr, f, "user.a")
    t.do("create there", os.setxattr, f, "user.a", b"x", os.XATTR_CREATE)
    t.do("replace not there", os.setxattr, f, "user.none", b"x", os.XATTR_REPLACE)
    t.do("create and replace", os.setxattr, f, "user.a", b"x", os.XATTR_CREATE | os.XATTR_REPLACE)
    t.do("replace", os.setxattr, f, "user.a", b"two", os.XATTR_REPLACE)
    t.get("replaced", os.getxattr, f, "user.a")
    t.do("empty value", os.setxattr, f, "user.empty", b"")
    t.get("get empty", os.getxattr, f, "user.empty")
    t.do("binary", os.setxattr, f, "user.binary", bytes(range(256)))
    t.get("get binary", lambda: os.getxattr(f, "user.binary") == bytes(range(256)))
    t.see("list", sorted(n for n in os.listxattr(f) if n.startswith("user.")))
    t.do("remove", os.removexattr, f, "user.a")
    t.do("remove again", os.removexattr, f, "user.a")
    t.do("get removed", os.getxattr, f, "user.a")
    t.do("name of 255", os.setxattr, f, "user." + "n" * 250, b"x")
    t.do("name of 256", os.setxattr, f, "user." + "n" * 251, b"x")
    t.do("no name", os.setxattr, f, "user.", b"x")
    t.do("no namespace", os.setxattr, f, "a", b"x")
    t.do("unknown namespace", os.setxattr, f, "other.a", b"x")
    t.do("unknown system name", os.setxattr, f, "system.none", b"x")
    t.do("trusted", os.setxattr, f, "trusted.a", b"x")
    t.get("get trusted", os.getxattr, f, "trusted.a")
    t.do("security", os.setxattr, f, "security.a", b"x")
    t.get("get security", os.getxattr, f, "security.a")
    t.do("value of 65536", os.setxattr, f, "user.long", b"v" * 65536)
    t.do("value of 65537", os.setxattr, f, "user.longer", b"v" * 65537)
    for name in ("user.long",):
        try:
            os.removexattr(f, name)
        except OSError:
            pass
    os.mkdir(t.path("d"))
    t.do("of a directory", os.setxattr, t.path("d"), "user.a", b"x")
    os.symlink("f", t.path("s"))
    t.do("user of a symlink", os.setxattr, t.path("s"), "user.a", b"x", follow_symlinks=False)
    t.do("trusted of a symlink", os.setxattr, t.path("s"), "trusted.a", b"x", follow_symlinks=False)
    os.mkfifo(t.path("p"))
    t.do("user of a fifo", os.setxattr, t.path("p"), "user.a", b"x")
    t.do("get user of a fifo", os.getxattr, t.path("p"), "user.a")
    t.do("of nothing", os.getxattr, t.path("none"), "user.a")
    fd = os.open(f, os.O_RDONLY)
    t.do("by a reader's descriptor", os.setxattr, fd, "user.fd", b"x")
    os.close(fd)
    t.do("rename keeps them", lambda: (os.rename(f, t.path("g")), os.getxattr(t.path("g"), "user.fd")))


def xattrs_of_others(t: Trace):
    f = t.file("f", b"", 0o644)
    os.chown(f, 1000, 1000)
    os.setxattr(f, "user.a", b"x")
    os.setxattr(f, "trusted.a", b"x")
    os.setxattr(f, "security.a", b"x")
    secret = t.file("secret", b"", 0o600)
    os.setxattr(secret, "user.a", b"x")
    os.mkdir(t.path("sticky"))
    os.chmod(t.path("sticky"), 0o1777)

    def tries(u):
        u.do("set user", os.setxattr, f, "user.b", b"y")
        u.do("get user", os.getxattr, f, "user.a")
        u.do("remove user", os.removexattr, f, "user.a")
        u.do("set trusted", os.setxattr, f, "trusted.b", b"y")
        u.do("get trusted", os.getxattr, f, "trusted.a")
        u.do("remove trusted", os.removexattr, f, "trusted.a")
        u.do("set security", os.setxattr, f, "security.b", b"y")
        u.do("get security", os.getxattr, f, "security.a")
        u.see("list", sorted(n for n in os.listxattr(f) if n != "security.selinux"))
        u.do("get of a secret", os.getxattr, secret, "user.a")
        u.do("list of a secret", os.listxattr, secret)
        u.do("on a sticky directory", os.setxattr, u.path("sticky"), "user.a", b"x")

    t.user("owner", tries, 1000, 1000)
    t.user("other", tries, 1001, 1001)


def capabilities(t: Trace):
    """Of a program that somebody changes they go, whoever it is."""
    name = "security.capability"
    cap_net_raw = bytes.fromhex("0100000200200000000000000000000000000000")
    f = t.path("f")

    def there():
        try:
            return len(os.getxattr(f, name))
        except OSError as e:
            return e.errno

    def write(how):
        fd = os.open(f, os.O_WRONLY | how)
        os.write(fd, b"more")
        os.close(fd)

    changes = {
        "nothing": lambda: None,
        "write": lambda: write(0),
        "append": lambda: write(os.O_APPEND),
        "cut at open": lambda: os.close(os.open(f, os.O_WRONLY | os.O_TRUNC)),
        "truncate": lambda: os.truncate(f, 2),
        "group": lambda: os.chown(f, -1, os.getgid()),
        "mode": lambda: os.chmod(f, 0o755),
        "times": lambda: os.utime(f, ns=(5, 6)),
        "rename": lambda: (os.rename(f, t.path("g")), os.rename(t.path("g"), f)),
        "set": lambda: os.setxattr(f, name, cap_net_raw),
        "remove": lambda: os.removexattr(f, name),
    }
    for who, uid in (("root", 0), ("owner", 1000), ("writer", 1001)):
        for label, change in changes.items():
            t.file("f", b"program", 0o777)
            os.chown(f, 1000, 1000)
            os.setxattr(f, name, cap_net_raw)

            def tries(u):
                u.do(label, change)

            if uid == 0:
                tries(t)
            else:
                t.user(f"{who} {label}", tries, uid, uid)
            t.see(f"{who} {label}: there", there())
            os.unlink(f)


def numbers(t: Trace):
    v = os.statvfs(t.dir)
    t.see("blocks", v.f_blocks > 0 and v.f_bavail <= v.f_bfree <= v.f_blocks)
    t.see("files", v.f_files > 0 and v.f_favail <= v.f_ffree <= v.f_files)
    t.see("name length", v.f_namemax)
    fd = os.open(t.file("f", b"x" * 100000), os.O_RDWR)
    os.fsync(fd)
    v2 = os.fstatvfs(fd)
    t.see("by descriptor", v2.f_blocks == v.f_blocks)
    st = os.fstat(fd)
    t.see("blocks of a file", 100000 <= st.st_blocks * 512 <= 100000 + 64 * 1024)
    t.see("device", st.st_dev == os.stat(t.dir).st_dev)
    t.see("inode number", 0 < st.st_ino < 1 << 64)
    os.close(fd)
    os.unlink(t.path("f"))


def inode_numbers(t: Trace):
    """One per file, the same by every way, kept by rename."""
    os.mkdir(t.path("d"))
    t.file("d/f")
    fd = os.open(t.path("d/f"), os.O_RDONLY)
    ino = os.fstat(fd).st_ino
    t.see("by name", os.stat(t.path("d/f")).st_ino == ino)
    t.see("by listing", [e.inode() for e in os.scandir(t.path("d"))] == [ino])
    os.rename(t.path("d/f"), t.path("g"))
    t.see("after a rename", os.stat(t.path("g")).st_ino == ino == os.fstat(fd).st_ino)
    t.see("parent", os.stat(t.path("d/..")).st_ino == os.stat(t.dir).st_ino)
    os.close(fd)


def limits(t: Trace):
    """RLIMIT_FSIZE gives a signal, or EFBIG if that is ignored."""
    def tries(u):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        fd = os.open(u.path("f"), os.O_CREAT | os.O_RDWR)
        u.get("write across", os.write, fd, b"x" * 2000)
        u.do("write beyond", os.write, fd, b"x")
        u.do("truncate beyond", os.ftruncate, fd, 2000)
        u.do("allocate beyond", os.posix_fallocate, fd, 0, 2000)
        u.see("size", os.fstat(fd).st_size)
        os.close(fd)

    os.chmod(t.dir, 0o777)
    t.user("limited", tries)


def locks_of_one_machine(t: Trace):
    f = t.file("f", b"x" * 100)
    fd = os.open(f, os.O_RDWR)
    t.do("lockf", fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
    other = os.open(f, os.O_RDWR)
    t.do("flock", fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    t.do("flock of another descriptor", fcntl.flock, other, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def child(u):
        mine = os.open(f, os.O_RDWR)
        for name, start in (("there", 5), ("beside it", 50)):
            try:
                fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, start)
                u.see(name, "ok")
            except OSError as e:
                u.see(name, e.errno in (errno.EAGAIN, errno.EACCES))
        os.close(mine)

    t.user("another process", child, 0, 0)
    os.close(other)
    os.close(fd)


def mandatory_exec(t: Trace):
    """A running program cannot be written to; what is open for writing cannot be run."""
    with open("/bin/sleep", "rb") as f:
        program = t.file("sleep", f.read(), 0o755)
    pid = os.posix_spawn(program, [program, "30"], {})
    try:
        t.do("write to a running program", os.open, program, os.O_WRONLY)
        t.do("unlink it", os.unlink, program)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    program = t.file("true", open("/bin/true", "rb").read(), 0o755)
    fd = os.open(program, os.O_WRONLY)
    t.do("run what is open for writing", os.posix_spawn, program, [program], {})
    os.close(fd)
    os.chmod(program, 0o644)
    t.do("run what is not executable", os.posix_spawn, program, [program], {})


CASES = [xattrs, xattrs_of_others, capabilities, numbers, inode_numbers, limits, locks_of_one_machine, mandatory_exec]
