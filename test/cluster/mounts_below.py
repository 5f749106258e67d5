"""What is mounted below a mount of ours stays: tmpfs, bind mounts (of a directory, of a file), an overlay whose lower layer is ours,
autofs and what that mounts; and what is bound elsewhere of ours, as containers have it, with what is mounted in it there. So do
working directories and roots of processes. Whatever this mount or another one does beside it, with callers who may not
look there or are not known, and while the metadata server is away for longer than the lease and --timeout.
STRIA_TEST_SECONDS=60 STRIA_TEST_ROUNDS=300 for longer."""

import contextlib
import ctypes
import errno
import fcntl
import os
import pathlib
import random
import signal
import struct
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from stria_cluster import Cluster, main, say, wait_for

TIMEOUT_S = 4
LEASE_S = 8
AWAY_S = LEASE_S + 5 + 2 * TIMEOUT_S  # servers count as gone 5 s after the lease; and some calls' timeouts
CHURN_S = float(os.environ.get("STRIA_TEST_SECONDS", 4))
SLOWLY_S = max(10, CHURN_S)
RENAMES = int(os.environ.get("STRIA_TEST_ROUNDS", 100))
SEED = int(os.environ.get("STRIA_TEST_SEED", 1))
NOBODY = 65534
LINKS = 2000
AUTOFS_IOC_READY = 0x9360


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, f"{command} gave {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def attempt(f, *args):
    """0, or the errno."""
    try:
        f(*args)
        return 0
    except OSError as e:
        return e.errno


def start_mount(c, name, stack, prefix=()):
    """A stria-mount of our own, with a short timeout; gives its mount point."""
    path, log = c.dir / name, c.cluster / f"log/{name}.log"
    path.mkdir()
    meta = next(p["address"] for p in c.processes() if p["kind"] == "meta")
    process = subprocess.Popen([*prefix, c.program("stria-mount"), "-f", "--meta", meta, *c.mount_trust(), "--timeout", f"{TIMEOUT_S}s",
                                "--log", log, path], stdin=subprocess.DEVNULL)

    def end():
        subprocess.run(["umount", "--lazy", path], check=False)
        process.wait(60)
    stack.callback(end)
    wait_for(f"{path} is mounted", lambda: log.exists() and "is mounted" in log.read_text(), 60)
    return path


class Resident:
    """A process that works in a directory (with `root`: as its root), and says where it is when asked."""

    def __init__(self, stack, directory, root=None):
        self.answers, told = os.pipe()
        asked, self.questions = os.pipe()
        self.expected = str(directory) if root is None else "/" + str(directory.relative_to(root))
        self.pid = os.fork()
        if self.pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if root is not None:
                os.chroot(root)
            os.chdir(self.expected)
            while os.read(asked, 1):
                where = attempt(os.getcwd) or os.getcwd()
                os.write(told, f"{where}\n".encode())
            os._exit(0)
        stack.callback(self.end)

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def check(self):
        os.write(self.questions, b"?")
        said = os.read(self.answers, 4096).decode().strip()
        assert said == self.expected, f"getcwd gives {said}, not {self.expected}"


def automount(stack, at):
    """autofs on a directory, with a tmpfs that it has mounted on the key `key` as somebody went there."""
    asked, asks = os.pipe()
    stack.callback(os.close, asked)
    stack.callback(os.close, asks)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={asks},pgrp={os.getpgrp()},minproto=5,maxproto=5,indirect"
    assert libc.mount(b"test", os.fsencode(at), b"autofs", 0, options.encode()) == 0, os.strerror(ctypes.get_errno())
    stack.callback(subprocess.run, ["umount", "--quiet", at], check=False)
    # Who is in our group does not make autofs mount anything.
    visitor = subprocess.Popen(["stat", at / "key/here"], start_new_session=True, stdout=subprocess.DEVNULL)
    packet = os.read(asked, 4096)  # struct autofs_v5_packet
    token, length = struct.unpack_from("=8xI28xI", packet)
    assert packet[44:44 + length] == b"key", packet
    (at / "key").mkdir()
    run("mount", "-t", "tmpfs", "test", at / "key")
    stack.callback(subprocess.run, ["umount", "--quiet", at / "key"], check=False)
    (at / "key/here").touch()
    root = os.open(at, os.O_RDONLY)
    fcntl.ioctl(root, AUTOFS_IOC_READY, token)
    os.close(root)
    assert visitor.wait(60) == 0, "what autofs mounts is not there for who went there"


class Below:
    """What is below one directory of a mount."""

    def __init__(self, c, stack, top):
        self.top, self.mounts, self.residents = top, [], []
        local = c.dir / f"local-{top.parent.name}"
        for d in ("upper", "work", "bound", "away"):
            (local / d).mkdir(parents=True)
        (local / "file-away").touch()
        self.away = local / "away"
        (local / "bound/here").touch()
        (local / "file").write_text("bound")
        for d in ("tmp", "a/b/tmp", "bind", "low", "over", "cwd/deeper", "root/inside", "auto", "shared/deep/tmp"):
            (top / d).mkdir(parents=True)
        (top / "shared/file").write_text("shared")
        (top / "low/here").touch()
        (top / "file").touch()

        def mount(at, *how):
            run("mount", *how, top / at)
            stack.callback(subprocess.run, ["umount", "--quiet", top / at], check=False)
            run("mount", "--make-private", top / at)
            self.mounts.append(str(top / at))
        for at in ("tmp", "a/b/tmp"):
            mount(at, "-t", "tmpfs", "test")
            (top / at / "here").touch()
        mount("bind", "--bind", local / "bound")
        mount("file", "--bind", local / "file")
        mount("over", "-t", "overlay", "-o", f"lowerdir={top}/low,upperdir={local}/upper,workdir={local}/work", "test")
        automount(stack, top / "auto")
        self.mounts += [str(top / "auto"), str(top / "auto/key")]
        mount(self.away, "--bind", top / "shared")
        mount(local / "file-away", "--bind", top / "shared/file")
        mount(self.away / "deep/tmp", "-t", "tmpfs", "test")
        (self.away / "deep/tmp/here").touch()
        self.residents = [Resident(stack, top / "cwd/deeper"), Resident(stack, top / "root/inside", top / "root")]
        self.check()

    def check_mounted(self):
        there = {line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()}
        assert not set(self.mounts) - there, f"not mounted any more: {set(self.mounts) - there}"
        for r in self.residents:
            r.check()

    def check_number(self):
        """However they are called now."""
        def there():
            lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
            return [at for at in (line.split()[4] for line in lines) if at.startswith((f"{self.top}/", str(self.away)))]
        number = sum(at.startswith((f"{self.top}/", str(self.away))) for at in self.mounts)
        if len(seen := there()) != number:  # what is detached stays so, whatever the kernel can name meanwhile
            time.sleep(0.5)
            assert len(again := there()) == number, f"{seen}, and then {again}"
            say(f"for a moment the kernel named only {seen}")

    def paths(self):
        here = {at: self.top / at / "here" for at in ("tmp", "a/b/tmp", "bind", "over", "auto/key")}
        return {**here, "file": self.top / "file", "cwd": self.top / "cwd/deeper", "away": self.away / "deep/tmp/here"}

    def look(self):
        """The errors of going there, by name."""
        errors = {at: attempt(os.stat, path) for at, path in self.paths().items()}
        return {at: e for at, e in errors.items() if e != 0}

    def look_at_once(self):
        """The errors of several calls each of which may wait for the timeout: of going there, and of a listing."""
        with ThreadPoolExecutor(max_workers=8) as pool:
            calls = [pool.submit(attempt, os.stat, path) for path in self.paths().values()]
            pool.submit(attempt, os.listdir, self.top)
            return {call.result() for call in calls} - {0}

    def check(self):
        assert not self.look(), self.look()
        self.check_mounted()
        assert (self.top / "file").read_text() == "bound"
        assert (self.away.parent / "file-away").read_text() == "shared"


@contextlib.contextmanager
def mounted(*how):
    at = how[-1]
    at.mkdir()
    run("mount", *how)
    try:
        yield at
        there = {line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()}
        assert str(at) in there, f"{at} is not mounted any more"
    finally:
        run("umount", at)
    at.rmdir()


def removed_beside(below):
    """Directories are not removed, for every reason that there is, beside a mount and in it."""
    top = below.top
    with mounted("-t", "tmpfs", "test", top / "mntpoint") as at:
        (at / "inside").mkdir()
        (at / "inside/here").touch()
        run("mount", "-o", "remount,ro", at)
        (top / "full/entry").mkdir(parents=True)
        (top / "loop").symlink_to("loop")
        for path, error in ((top / "full", errno.ENOTEMPTY), (top / "x" / ("y" * 256), errno.ENOENT),
                            (top / ("y" * 256), errno.ENAMETOOLONG), (top / "none", errno.ENOENT), (top / "low/here", errno.ENOTDIR), (top / "loop/x", errno.ELOOP),
                            (top / "loop", errno.ENOTDIR), (at / "inside", errno.EROFS), (at / "none", errno.EROFS),
                            (at, errno.EBUSY), (f"{top}/.", errno.EINVAL), (f"{at}/inside/.", errno.EINVAL),
                            (f"{top}/full/..", errno.ENOTEMPTY)):
            assert (e := attempt(os.rmdir, path)) == error, f"rmdir of {path}: {errno.errorcode.get(e, e)}"
            os.listdir(top)
            os.stat(at / "inside/here")
        below.check()
    os.unlink(top / "loop")
    os.removedirs(top / "full/entry")


def linked_beside(c, below, other):
    """Thousands of links beside a filesystem that is mounted from a file, while another mount lists and changes the directory."""
    top, image, stop = below.top, c.dir / "ext2", threading.Event()
    with open(image, "wb") as f:
        f.truncate(16 << 20)
    run("mkfs.ext2", "-q", "-F", image)

    def use_there():
        while not stop.is_set():
            for d in (other, other / "links"):
                os.listdir(d)
            (other / "there").touch()
            os.unlink(other / "there")
            time.sleep(0.1)
    with mounted("-o", "loop", image, top / "ext2") as at:
        (at / "here").touch()
        (top / "links").mkdir()
        (top / "links/0").touch()
        user = threading.Thread(target=use_there)
        user.start()
        try:
            for i in range(1, LINKS):
                os.link(top / "links/0", top / f"links/{i}")
                if i % 100 == 0:
                    os.stat(at / "here")
            run("mount", "-o", "remount,ro", at)
            for old, new, error in ((at / "here", at / "new", errno.EROFS), (top / "links/0", at / "new", errno.EROFS),
                                    (at / "here", top / "links/new", errno.EXDEV),
                                    (top / "links/0", top / "links/1", errno.EEXIST), (top / "links/0", top / "ext2", errno.EEXIST)):
                assert (e := attempt(os.link, old, new)) == error, f"link of {old} as {new}: {errno.errorcode.get(e, e)}"
                os.stat(at / "here")
        finally:
            stop.set()
            user.join()
        below.check()
    for name in os.listdir(top / "links"):
        os.unlink(top / "links" / name)
    (top / "links").rmdir()
    say(f"{LINKS} links beside a filesystem in a file")


def one_mount(below):
    top = below.top
    (top / "sibling").mkdir()
    (top / "sibling").rmdir()
    os.listdir(top)
    below.check()
    for what in (lambda: (top / "x").touch(), lambda: os.rename(top / "x", top / "y"), lambda: os.unlink(top / "y"),
                 lambda: os.rename(top / "none", top / "y"), lambda: os.mkdir(top / "tmp"), lambda: os.link(top / "x", top / "tmp"),
                 lambda: os.rmdir(top / "low"), lambda: os.rename(top / "cwd", top / "low")):  # these two are not empty
        attempt(what)
        os.listdir(top)
        below.check()
    # What something is mounted on is busy.
    assert attempt(os.rmdir, top / "tmp") == errno.EBUSY
    assert attempt(os.rename, top / "tmp", top / "elsewhere") == errno.EBUSY
    assert attempt(os.rename, top / "low", top / "bind") == errno.EBUSY
    assert attempt(os.unlink, top / "file") == errno.EBUSY
    assert attempt(os.link, top / "low/here", top / "tmp") == errno.EEXIST
    below.check()
    removed_beside(below)
    os.rename(top / "a", top / "moved")  # above one it may be renamed
    assert os.path.exists(top / "moved/b/tmp/here")
    os.rename(top / "moved", top / "a")
    below.check()
    say("one mount: its own changes detach nothing, and mount points are busy")


def two_mounts(below, other):
    for what in (lambda: (other / "f").touch(), lambda: os.chmod(other, 0o750), lambda: os.chmod(other / "tmp", 0o700),
                 lambda: os.mkdir(other / "s"), lambda: os.rename(other / "s", other / "t"), lambda: os.rmdir(other / "t"),
                 lambda: os.unlink(other / "f"), lambda: (other / "a/b/x").touch(), lambda: (other / "cwd/x").touch(),
                 lambda: (other / "root/x").touch(), lambda: (other / "low/new").touch(), lambda: os.utime(other / "file")):
        what()
        below.check()
    os.rename(other / "cwd", other / "worked")  # whoever works below goes along
    assert os.path.exists(below.top / "worked/deeper")
    os.rename(other / "worked", other / "cwd")
    below.check()
    say("two mounts: nothing is detached by what the other does")


def churn(below, others):
    rng, stop, wrong = random.Random(SEED), threading.Event(), []

    def look():
        while not stop.is_set():
            if errors := below.look():
                wrong.append(errors)
            os.listdir(below.top)
    threads = [threading.Thread(target=look) for _ in range(2)]
    for t in threads:
        t.start()
    end, steps = time.monotonic() + CHURN_S, 0
    while time.monotonic() < end:
        d = rng.choice(others) / rng.choice(["", "a", "a/b", "cwd", "root", "low"])
        a, b = (d / f"n{rng.randrange(3)}" for _ in range(2))
        attempt(rng.choice([lambda: a.touch(), lambda: a.mkdir(), lambda: os.rename(a, b), lambda: os.unlink(a),
                            lambda: os.rmdir(a), lambda: os.chmod(d, rng.choice([0o755, 0o700]))]))
        steps += 1
    stop.set()
    for t in threads:
        t.join()
    assert not wrong, wrong[0]
    below.check()
    say(f"churn: {steps} changes")


WALKER = """
import os, sys
while True:
    for d in sys.argv[1:]:
        try:
            os.stat(d)
        except FileNotFoundError:
            pass
"""


RENAMER = """
import os, sys, time
os.sched_setaffinity(0, {0})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
end = time.monotonic() + float(sys.argv[4])
for i in range(int(sys.argv[1])):
    if i > 0 and time.monotonic() > end:  # how many it gets done is the machine's: others may compile beside it
        break
    for old, new in ((sys.argv[2], sys.argv[3]), (sys.argv[3], sys.argv[2])):
        os.rename(old, new)
"""
SPINNER = "import os; os.sched_setaffinity(0, {0})\nwhile True: pass"


def moved(below, other, when):
    """Another mount moves what processes work in: they are where it is, although nobody here looks there."""
    for name, link, rest, resident in (("cwd", "cwd", "/deeper", below.residents[0]), ("root", "root", "", below.residents[1])):
        for old, new in ((name, f"moved-{name}"), (f"moved-{name}", name)):
            os.rename(other / old, other / new)
            wait_for(f"{old} is {new} here, too", lambda: os.readlink(f"/proc/{resident.pid}/{link}") == f"{below.top / new}{rest}", 60)
    for old, new in (("shared", "moved-shared"), ("moved-shared", "shared")):  # what is bound elsewhere goes along
        os.rename(other / old, other / new)
        below.check()
    (other / "shared/new").touch()
    wait_for("what is made there is where it is bound", (below.away / "new").exists, 60)
    os.unlink(other / "shared/new")
    say(f"who works where another mount moves a directory is there, {when}")


def renamed_above(below):
    """Directories are renamed here, again and again, while processes walk through their old and new names."""
    top, moves = below.top, {"a": "b/tmp/here", "cwd": "deeper"}
    walked = [top / d / rest for name, rest in moves.items() for d in (name, f"moved-{name}")]
    walkers = [subprocess.Popen(["python3", "-c", WALKER, *walked]) for _ in range(2)]
    try:
        for i in range(RENAMES):
            for name in moves:
                os.rename(top / name, top / f"moved-{name}")
                assert not os.path.exists(top / name), "the old name is still there"
                if i % 10 == 0:
                    below.check_number()
                os.rename(top / f"moved-{name}", top / name)
            below.check_mounted()
    finally:
        for w in walkers:
            w.kill()
            w.wait()
    below.check()
    say("renames above mounts and residents while others walk there")


def renamed_slowly(below):
    """Who renames hardly gets a processor: much happens between the answer and what the kernel does then."""
    top = below.top
    walked = [top / d / "b/tmp/here" for d in ("a", "moved-a")]
    busy = [subprocess.Popen(["python3", "-c", WALKER, *walked]), subprocess.Popen(["python3", "-c", SPINNER])]
    try:
        renamer = subprocess.Popen(["python3", "-c", RENAMER, "20", top / "a", top / "moved-a", str(SLOWLY_S)])
        busy.append(renamer)
        with contextlib.suppress(subprocess.TimeoutExpired):
            renamer.wait(2 * SLOWLY_S)
        if renamer.poll() is None:  # beside compilers it may not get a processor at all
            os.sched_setscheduler(renamer.pid, os.SCHED_OTHER, os.sched_param(0))
        assert renamer.wait(180) == 0
        below.check_mounted()
    finally:
        for b in busy:
            b.kill()
            b.wait()
    below.check()
    say("renames by a process that waits for a processor while others walk there")


def rights(c, below, unknown, other):
    """Of callers: nobody may look there; and one of whose groups a stria-mount in another pid namespace knows nothing."""
    os.chmod(other, 0o700)
    done = subprocess.run(["setpriv", "--reuid", str(NOBODY), "--clear-groups", "stat", below.top / "tmp/here"], capture_output=True)
    assert done.returncode != 0 and b"Permission denied" in done.stderr, done
    os.chmod(other, 0o755)
    below.check()
    os.chown(unknown.top, 0, 4242)
    os.chmod(unknown.top, 0o750)
    unknown.check()
    for _ in range(3):
        (other / "again").touch()
        os.chmod(other.parent / unknown.top.name, 0o750)
        os.rename(other.parent / unknown.top.name / "a", other.parent / unknown.top.name / "aa")
        os.rename(other.parent / unknown.top.name / "aa", other.parent / unknown.top.name / "a")
        run("setpriv", "--reuid", NOBODY, "--groups", 4242, "stat", unknown.top / "tmp/here")
        unknown.check()
    say("callers who may not look, or of whom little is known, detach nothing")


def outage(c, below, other, how_long_s, kill):
    """`other` changes something just before, so that not everything is known."""
    (other / "before").touch()
    os.chmod(other / "tmp", 0o755)
    meta = next(p for p in c.processes() if p["kind"] == "meta")
    if kill:
        c.kill("meta")
    else:
        os.kill(meta["pid"], signal.SIGSTOP)
    end, seen = time.monotonic() + how_long_s, set()
    while time.monotonic() < end:
        seen |= below.look_at_once()
        below.check_mounted()
        time.sleep(0.2)
    if kill:
        c.start("meta")
    else:
        os.kill(meta["pid"], signal.SIGCONT)
    wait_for("all can be reached again", lambda: not below.look(), 120)
    below.check()
    say(f"metadata server {'killed' if kill else 'stopped'} for {how_long_s} s: errors {sorted(errno.errorcode[e] for e in seen)}")


def removed_elsewhere(below, other):
    """It is removed there, and then is not here either: its name, and what was mounted on it."""
    top = below.top
    (top / "gone").mkdir()
    run("mount", "-t", "tmpfs", "test", top / "gone")
    (other / "gone").rmdir()
    assert attempt(os.stat, top / "gone") == errno.ENOENT
    there = {line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()}
    assert str(top / "gone") not in there, "a mount that no path leads to"
    below.check()
    say("what another mount removes is gone here, with what was mounted on it, and nothing else")


def scenario():
    with Cluster(nodes=3, disks=1, settings=f'[session]\nlease = "{LEASE_S}s"\n') as c, contextlib.ExitStack() as stack:
        os.chmod(c.dir, 0o755)  # not only root goes there
        one = start_mount(c, "one", stack)
        other = start_mount(c, "other", stack)
        apart = start_mount(c, "apart", stack, ["unshare", "--pid", "--fork", "--kill-child"])
        (one / "d").mkdir()
        (apart / "e").mkdir()
        below = Below(c, stack, one / "d")
        unknown = Below(c, stack, apart / "e")
        one_mount(below)
        linked_beside(c, below, other / "d")
        two_mounts(below, other / "d")
        moved(below, other / "d", "at once")
        renamed_above(below)
        renamed_slowly(below)
        churn(below, [one / "d", other / "d"])
        rights(c, below, unknown, other / "d")
        removed_elsewhere(below, other / "d")
        outage(c, below, other / "d", 2, kill=True)
        moved(below, other / "d", "after a restart")
        outage(c, below, other / "d", AWAY_S, kill=True)
        outage(c, below, other / "d", AWAY_S, kill=False)
        moved(below, other / "d", "after it was cut off")
        unknown.check()


main(scenario)
