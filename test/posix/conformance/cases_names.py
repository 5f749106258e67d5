"""Names: making, removing, moving and listing them."""

import os
import socket
import stat
import time

from trace import (AT_FDCWD, RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT, Trace, libc, links_asked_anew, renameat2,
                   _checked)


def names_of_255_bytes(t: Trace):
    base = os.fsencode(t.dir)
    for label, name in {
        "ascii": b"n" * 255,
        "utf8": "ä".encode() * 127 + b"x",
        "latin1": b"\xe4" * 255,
        "broken utf8": b"\xff\xfe\x80" * 85,
        "control": bytes(range(1, 32)) + b"\x7f",
        "spaces": b" leading and trailing ",
        "newline": b"a\nb",
        "dots": b"...",
        "backslash": b"a\\b:c*?",
    }.items():
        path = base + b"/" + name
        fd = t.do(f"create {label}", os.open, path, os.O_CREAT | os.O_WRONLY, 0o644)
        if fd:
            os.close(fd)
        t.see(f"listed {label}", name in os.listdir(base))
        t.do(f"stat {label}", os.stat, path)
        t.do(f"unlink {label}", os.unlink, path)
    long = base + b"/" + b"n" * 256
    t.do("create 256", os.open, long, os.O_CREAT | os.O_WRONLY, 0o644)
    t.do("stat 256", os.stat, long)
    t.do("mkdir 256", os.mkdir, long)
    t.do("unlink 256", os.unlink, long)
    t.do("symlink 256", os.symlink, b"x", long)
    t.do("rename to 256", os.rename, t.file("a"), os.fsdecode(long))
    t.do("link to 256", os.link, t.path("a"), os.fsdecode(long))
    t.do("empty name", os.stat, "")
    t.do("path of 4096", os.stat, "/" + "a/" * 2048)


def case_is_kept(t: Trace):
    t.file("a", b"lower")
    t.file("A", b"upper")
    t.see("two names", sorted(os.listdir(t.dir)))
    # Equal to the eye, different bytes.
    t.file("é", b"composed")
    t.file("é", b"decomposed")
    t.see("four names", len(os.listdir(t.dir)))


def kinds_of_errors(t: Trace):
    f, d = t.file("f", b"x"), t.path("d")
    t.do("mkdir", os.mkdir, d)
    t.do("mkdir again", os.mkdir, d)
    t.do("mkdir over file", os.mkdir, f)
    t.do("mkdir in file", os.mkdir, f + "/x")
    t.do("mkdir in nothing", os.mkdir, t.path("none/x"))
    t.do("create in nothing", os.open, t.path("none/x"), os.O_CREAT | os.O_WRONLY)
    t.do("create in file", os.open, f + "/x", os.O_CREAT | os.O_WRONLY)
    t.do("stat below file", os.stat, f + "/x")
    t.do("file with slash", os.stat, f + "/")
    t.do("open dir for writing", os.open, d, os.O_WRONLY)
    t.do("open dir with O_CREAT", os.open, d, os.O_RDONLY | os.O_CREAT)
    t.do("open dir O_TRUNC", os.open, d, os.O_RDONLY | os.O_TRUNC)
    t.do("open file O_DIRECTORY", os.open, f, os.O_RDONLY | os.O_DIRECTORY)
    t.do("truncate dir", os.truncate, d, 0)
    t.do("unlink dir", os.unlink, d)
    t.do("rmdir file", os.rmdir, f)
    t.do("rmdir .", os.rmdir, d + "/.")
    t.do("rmdir ..", os.rmdir, d + "/..")
    t.file("d/x")
    t.do("rmdir full", os.rmdir, d)
    t.do("unlink nothing", os.unlink, t.path("none"))
    t.do("rmdir nothing", os.rmdir, t.path("none"))
    t.do("rename nothing", os.rename, t.path("none"), t.path("other"))
    t.do("link of dir", os.link, d, t.path("hard"))
    t.do("link over file", os.link, f, d + "/x")
    t.do("rename to another filesystem", os.rename, f, "/proc/x")
    t.do("link to another filesystem", os.link, f, "/proc/x")
    t.do("exclusive create", os.open, f, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    t.do("exclusive create of dir", os.open, d, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    fd = os.open(f, os.O_RDONLY)
    t.do("write to a reader", os.write, fd, b"x")
    t.do("ftruncate a reader", os.ftruncate, fd, 0)
    t.do("readdir of a file", os.listdir, f)
    t.do("seek before the start", os.lseek, fd, -1, os.SEEK_SET)
    t.do("pread at -1", os.pread, fd, 1, -1)
    os.close(fd)
    fd = os.open(f, os.O_WRONLY)
    t.do("read from a writer", os.read, fd, 1)
    t.do("ftruncate to -1", os.ftruncate, fd, -1)
    os.close(fd)
    fd = os.open(d, os.O_RDONLY)
    t.do("read of a dir", os.read, fd, 1)
    t.do("fsync of a dir", os.fsync, fd)
    os.close(fd)


def loops(t: Trace):
    os.symlink("b", t.path("a"))
    os.symlink("a", t.path("b"))
    t.do("open a loop", os.open, t.path("a"), os.O_RDONLY)
    t.do("stat a loop", os.stat, t.path("a"))
    t.do("lstat a loop", os.lstat, t.path("a"))
    t.do("create through a loop", os.open, t.path("a"), os.O_CREAT | os.O_WRONLY)
    os.symlink("nowhere", t.path("dangling"))
    t.do("nofollow", os.open, t.path("dangling"), os.O_RDONLY | os.O_NOFOLLOW)
    t.do("exclusive over a symlink", os.open, t.path("dangling"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    fd = t.do("create through a symlink", os.open, t.path("dangling"), os.O_CREAT | os.O_WRONLY)
    os.close(fd)
    t.see("made", os.path.exists(t.path("nowhere")))
    os.symlink(".", t.path("self"))
    t.do("forty symlinks", os.stat, t.path(*["self"] * 40))
    t.do("forty-one symlinks", os.stat, t.path(*["self"] * 41))


def symlinks(t: Trace):
    for n in (1, 255, 1023, 4095, 4096):
        target = "t" * n
        t.do(f"symlink of {n}", os.symlink, target, t.path(f"s{n}"))
        t.get(f"readlink of {n}", lambda: os.readlink(t.path(f"s{n}")) == target)
        t.get(f"size of {n}", lambda: os.lstat(t.path(f"s{n}")).st_size)
    t.do("empty symlink", os.symlink, "", t.path("empty"))
    t.do("symlink over", os.symlink, "x", t.path("s1"))
    t.do("readlink of a file", os.readlink, t.file("f"))
    t.mode("mode", "s1")
    t.do("chmod of the link", os.chmod, t.path("s1"), 0o600, follow_symlinks=False) if os.chmod in os.supports_follow_symlinks else None
    t.do("lchown", os.lchown, t.path("s1"), 5, 6)
    t.get("owner", lambda: os.lstat(t.path("s1"))[4:6])
    t.do("link of a symlink", os.link, t.path("s1"), t.path("s1-too"), follow_symlinks=False)
    t.get("its links", lambda: os.lstat(t.path("s1")).st_nlink)
    t.do("rename of a symlink", os.rename, t.path("s1"), t.path("s1-moved"))
    t.get("still", lambda: os.readlink(t.path("s1-moved")))


def hard_links(t: Trace):
    t.file("a", b"one")
    t.do("link", os.link, t.path("a"), t.path("b"))
    t.see("links", [os.stat(t.path(n)).st_nlink for n in "ab"])
    t.see("same inode", os.stat(t.path("a")).st_ino == os.stat(t.path("b")).st_ino)
    t.file("b", b"two")
    t.content("written by the other name", "a")
    t.do("rename onto itself", os.rename, t.path("a"), t.path("b"))
    t.see("both stay", sorted(os.listdir(t.dir)))
    t.do("unlink one", os.unlink, t.path("a"))
    t.see("links after", os.stat(t.path("b")).st_nlink)
    fd = os.open(t.path("b"), os.O_RDWR)
    os.unlink(t.path("b"))
    t.do("link of an unlinked file by its descriptor", os.link, f"/proc/self/fd/{fd}", t.path("c"), follow_symlinks=True)
    os.close(fd)


def renames(t: Trace):
    a, b, d, e = t.file("a", b"A"), t.file("b", b"B"), t.path("d"), t.path("e")
    os.mkdir(d)
    os.mkdir(e)
    t.do("over a file", os.rename, a, b)
    t.content("content", "b")
    t.do("file over dir", os.rename, b, d)
    t.do("dir over file", os.rename, d, b)
    t.do("dir over empty dir", os.rename, d, e)
    os.mkdir(d)
    t.file("e/x")
    t.do("dir over full dir", os.rename, d, e)
    os.mkdir(t.path("d/sub"))
    t.do("into itself", os.rename, d, t.path("d/sub/d"))
    t.do("over its parent", os.rename, t.path("d/sub"), d)
    t.do("of .", os.rename, d + "/.", t.path("x"))
    t.do("of ..", os.rename, d + "/..", t.path("x"))
    t.do("to .", os.rename, b, d + "/.")
    t.do("with slash, file", os.rename, b, t.path("c/"))
    t.do("with slash, dir", os.rename, d, t.path("dd/"))
    t.do("noreplace there", renameat2, b, e, RENAME_NOREPLACE)
    t.do("noreplace not there", renameat2, b, t.path("c"), RENAME_NOREPLACE)
    t.do("exchange file and dir", renameat2, t.path("c"), e, RENAME_EXCHANGE)
    t.see("dir now", os.path.isdir(t.path("c")))
    t.see("file now", os.path.isfile(e))
    t.do("exchange with nothing", renameat2, e, t.path("none"), RENAME_EXCHANGE)
    t.do("exchange and noreplace", renameat2, e, t.path("c"), RENAME_EXCHANGE | RENAME_NOREPLACE)
    t.do("unknown flag", renameat2, e, t.path("x"), 64)
    t.do("whiteout", renameat2, e, t.path("w"), RENAME_WHITEOUT)
    # nlink of directories follows what is in them.
    os.makedirs(t.path("p/child"))
    os.mkdir(t.path("q"))
    t.see("links before", [os.stat(t.path(n)).st_nlink for n in "pq"])
    t.do("move a dir", os.rename, t.path("p/child"), t.path("q/child"))
    t.see("links after", [os.stat(t.path(n)).st_nlink for n in "pq"])
    t.see("dotdot", os.stat(t.path("q/child/..")).st_ino == os.stat(t.path("q")).st_ino)


def rename_over_open_files(t: Trace):
    t.file("old", b"old bytes")
    t.file("new", b"new bytes")
    fd = os.open(t.path("old"), os.O_RDWR)
    t.do("rename", os.rename, t.path("new"), t.path("old"))
    t.get("the open one reads", os.pread, fd, 100, 0)
    t.see("links", os.fstat(fd).st_nlink)
    t.do("and can be written", os.pwrite, fd, b"OLD", 0)
    t.get("and read", os.pread, fd, 100, 0)
    t.content("the name has", "old")
    os.close(fd)


def unlink_of_open_files(t: Trace):
    path = t.file("f", b"x" * 300000)
    fd = os.open(path, os.O_RDWR)
    reader = os.open(path, os.O_RDONLY)
    os.unlink(path)
    t.do("gone", os.stat, path)
    t.see("links", os.fstat(fd).st_nlink)
    t.do("write", os.pwrite, fd, b"y" * 1000, 299500)
    t.do("fsync", os.fsync, fd)
    t.hook("restart the metadata server")
    t.see("size", os.fstat(reader).st_size)
    t.get("read", lambda: os.pread(reader, 400000, 0) == b"x" * 299500 + b"y" * 1000)
    t.do("write after", os.pwrite, fd, b"z" * 200000, 0)
    t.get("read after", lambda: os.pread(reader, 400000, 0) == b"z" * 200000 + b"x" * 99500 + b"y" * 1000)
    t.do("truncate after", os.ftruncate, fd, 10)
    t.see("size after", os.fstat(reader).st_size)
    t.do("name again", t.file, "f", b"another")
    t.get("not the same", os.pread, reader, 100, 0)
    os.close(fd)
    os.close(reader)
    d = t.path("d")
    os.mkdir(d)
    dfd = os.open(d, os.O_RDONLY)
    os.rmdir(d)
    t.see("dir links", os.fstat(dfd).st_nlink)
    t.get("listing of a removed dir", os.listdir, dfd)
    t.do("create in a removed dir", os.open, "x", os.O_CREAT | os.O_WRONLY, dir_fd=dfd)
    os.close(dfd)


def special_files(t: Trace):
    t.do("mkfifo", os.mkfifo, t.path("p"), 0o640)
    t.mode("fifo", "p")
    r = os.open(t.path("p"), os.O_RDONLY | os.O_NONBLOCK)
    w = t.do("open the fifo for writing", os.open, t.path("p"), os.O_WRONLY)
    os.write(w, b"through")
    t.see("through the fifo", os.read(r, 100))
    os.close(r)
    os.close(w)
    t.do("writer without reader", os.open, t.path("p"), os.O_WRONLY | os.O_NONBLOCK)
    t.do("mknod null", os.mknod, t.path("null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
    t.get("its device", lambda: os.lstat(t.path("null")).st_rdev == os.makedev(1, 3))
    t.do("mknod block", os.mknod, t.path("block"), stat.S_IFBLK | 0o600, os.makedev(259, 70000))
    t.get("block device", lambda: os.lstat(t.path("block")).st_rdev == os.makedev(259, 70000))
    t.do("mknod file", os.mknod, t.path("reg"), stat.S_IFREG | 0o600)
    t.do("mknod dir", os.mknod, t.path("dir"), stat.S_IFDIR | 0o700)
    here = os.getcwd()
    os.chdir(t.dir)
    try:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            t.do("bind", server.bind, "sock")
            t.mode("socket", "sock")
            server.listen()
            t.do("connect", client.connect, "sock")
        with socket.socket(socket.AF_UNIX) as client:
            t.do("connect to nobody", client.connect, "sock")
    finally:
        os.chdir(here)
    t.do("open a socket", os.open, t.path("sock"), os.O_RDWR)
    t.do("open null", os.open, t.path("null"), os.O_RDWR)


def create_over_special(t: Trace):
    """O_CREAT of a name that is no file opens what is there, or is refused as without it."""
    os.mkfifo(t.path("fifo"), 0o644)
    os.mknod(t.path("null"), stat.S_IFCHR | 0o644, os.makedev(1, 3))
    os.mknod(t.path("block"), stat.S_IFBLK | 0o644, os.makedev(259, 70000))
    os.mknod(t.path("sock"), stat.S_IFSOCK | 0o644)

    def kind_of_what_is_open(path, flags):
        fd = os.open(path, flags, 0o600)
        try:
            return oct(stat.S_IFMT(os.fstat(fd).st_mode))
        finally:
            os.close(fd)

    def tries(u):
        for name in ("fifo", "null", "block", "sock"):
            for label, flags in {"read and write": os.O_RDWR, "write": os.O_WRONLY, "read": os.O_RDONLY,
                                 "truncate": os.O_RDWR | os.O_TRUNC, "exclusive": os.O_RDWR | os.O_EXCL}.items():
                u.get(f"{name}, {label}", kind_of_what_is_open, u.path(name), os.O_CREAT | os.O_NONBLOCK | flags)
            u.mode(f"{name}: mode", name)

    t.user("root", tries, 0, 0)
    t.user("other", tries, 1001, 1001)
    fd = os.open(t.path("fifo"), os.O_CREAT | os.O_RDWR | os.O_NONBLOCK)
    t.do("write", os.write, fd, b"through")
    t.get("read", os.read, fd, 100)
    os.close(fd)
    t.see("names", sorted(os.listdir(t.dir)))


def directories(t: Trace):
    d = t.path("d")
    os.mkdir(d)
    names = {f"name-{i:05d}" for i in range(1100)}
    for n in sorted(names):
        os.close(os.open(f"{d}/{n}", os.O_CREAT | os.O_WRONLY))
    t.see("all", set(os.listdir(d)) == names)
    # Names come and go under a reader: those that stay are seen exactly once.
    seen = []
    with os.scandir(d) as entries:
        for i, e in enumerate(entries):
            seen.append(e.name)
            if i % 3 == 0:
                os.close(os.open(f"{d}/new-{i}", os.O_CREAT | os.O_WRONLY))
                victim = f"name-{(i * 7) % 1100:05d}"
                if os.path.exists(f"{d}/{victim}") and victim.endswith("3"):
                    os.unlink(f"{d}/{victim}")
    t.see("no name twice", len(seen) == len(set(seen)))
    stay = {n for n in names if not n.endswith("3")}
    t.see("all that stayed", stay <= set(seen))
    types = {e.name: (e.is_file(), e.inode() == os.lstat(e.path).st_ino) for e in os.scandir(d)}
    t.see("types and inodes", all(v == (True, True) for v in types.values()))
    t.see("nlink", os.stat(d).st_nlink)
    for n in os.listdir(d):
        os.unlink(f"{d}/{n}")
    t.do("rmdir", os.rmdir, d)


def removing_while_listing(t: Trace):
    """What rm -r does: unlinks what a listing gives, while it goes on."""
    d = t.path("d")
    os.mkdir(d)
    for i in range(1100):
        os.close(os.open(f"{d}/{i}", os.O_CREAT | os.O_WRONLY))
    with os.scandir(d) as entries:
        for e in entries:
            os.unlink(e.path)
    t.see("nothing is left", os.listdir(d))
    t.do("rmdir", os.rmdir, d)


def descriptors_of_directories(t: Trace):
    os.mkdir(t.path("d"))
    fd = os.open(t.path("d"), os.O_RDONLY | os.O_DIRECTORY)
    t.do("openat", lambda: os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd)))
    t.do("renameat", os.rename, "f", "g", src_dir_fd=fd, dst_dir_fd=fd)
    t.do("rename the directory", os.rename, t.path("d"), t.path("e"))
    t.do("openat after", lambda: os.close(os.open("h", os.O_CREAT | os.O_WRONLY, dir_fd=fd)))
    t.see("names", sorted(os.listdir(t.path("e"))))
    t.do("unlinkat", os.unlink, "g", dir_fd=fd)
    t.do("linkat flags", lambda: _checked(libc.linkat(fd, b"h", AT_FDCWD, os.fsencode(t.path("i")), 0x9999)))
    os.close(fd)


def directories_without_a_name(t: Trace):
    """One that is open, or that a program sits in, when it is removed or another takes its name."""
    def look(label, fd):
        t.get(f"{label}: links", lambda: os.fstat(fd).st_nlink)
        t.get(f"{label}: links anew", links_asked_anew, fd)
        t.do(f"{label}: stat", os.stat, ".")
        t.get(f"{label}: getcwd", lambda: os.getcwd().removeprefix(t.dir))
        t.get(f"{label}: list", os.listdir, fd)
        t.do(f"{label}: make a file in it", lambda: os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd)))
        t.do(f"{label}: make a directory in it", os.mkdir, "d", dir_fd=fd)
        t.do(f"{label}: look in it", os.stat, "f", dir_fd=fd)
        t.get(f"{label}: the one above", lambda: sorted(os.listdir("..")))

    for label, end in (("removed", lambda: os.rmdir(t.path("b"))), ("replaced", lambda: os.rename(t.path("a"), t.path("b")))):
        for name in ("a", "b"):
            os.mkdir(t.path(name))
        fd = os.open(t.path("b"), os.O_RDONLY | os.O_DIRECTORY)
        os.chdir(t.path("b"))
        end()
        look(label, fd)
        time.sleep(3)  # in which a server may still know what it was
        look(f"{label} a while ago", fd)
        os.chdir(t.dir)
        os.close(fd)
        for name in os.listdir(t.dir):
            os.rmdir(t.path(name))


CASES = [names_of_255_bytes, case_is_kept, kinds_of_errors, loops, symlinks, hard_links, renames, rename_over_open_files,
         unlink_of_open_files, special_files, create_over_special, directories, removing_while_listing, descriptors_of_directories,
         directories_without_a_name]
