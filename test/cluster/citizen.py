"""stria-mount as mount(8), fstab(5) and umount(8) know it: the helper, ro and remount, names that a terminal would obey, a subdirectory as root,
uid=, default_permissions, `mount -a` twice, and an umount that returns when all bytes are on the servers.

It runs in a mount namespace of its own, with the helpers in an overlay over /usr/sbin, and in one over /etc what `stria join` makes: mounts
find their certificate where those of any PC do."""

import contextlib
import errno
import fcntl
import mmap
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile

from stria_cluster import MIB, Cluster, is_running, main, say, wait_for, write_file

USER = 54_321
COMMAND_S = 120
SBIN, ETC = pathlib.Path("/usr/sbin"), pathlib.Path("/etc")
INSIDE = "STRIA_TEST_NAMESPACE"


def run(*command, ok=0, user=None):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=COMMAND_S, user=user,
                          group=user, extra_groups=[] if user else None, stdin=subprocess.DEVNULL)
    if ok is not None:
        assert done.returncode == ok, f"{command} gave {done.returncode}: {done.stdout}{done.stderr}"
    return done


def fails_with(code, do, *args):
    try:
        do(*args)
    except OSError as e:
        assert e.errno == code, e
        return
    raise AssertionError(f"{do.__name__}{args} should fail with {errno.errorcode[code]}")


def enter_namespace():
    """mount(8) looks for its helpers in /sbin only. What this sees is nobody else's."""
    if os.environ.get(INSIDE):
        return
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])


def cover(place, directory, links=(), target=None):
    """What is written there from now on is seen here only; so are these links."""
    upper, work = directory / f"upper-{place.name}", directory / f"work-{place.name}"
    for d in (upper, work):
        d.mkdir()
    for name in links:
        (upper / name).symlink_to(target)
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={place},upperdir={upper},workdir={work}", place)


def install_helpers(program, directory):
    cover(SBIN, directory, ("mount.stria", "mount.fuse.stria", "umount.fuse.stria", "umount.fuse"), program)


def join(c, directory):
    """This machine becomes a client of the cluster."""
    cover(ETC, directory)
    token = c.stria("token", "make", "--role", "client", "--name", "citizen").stdout.strip()
    c.stria("join", token, "--again")
    assert (ETC / "stria/trust/client/node.pem").exists()


def mounted(path):
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split() for line in lines if line.split()[4] == str(path)]


def state_of(path):
    return pathlib.Path(f"/run/stria-mount/{mounted(path)[0][2]}")


def pid_of(path):
    return int(state_of(path).read_text().split()[0])


def read_only_and_remount(meta, at):
    run("mount", "-t", "fuse.stria", f"{meta}:/", at, "-o", "ro,noatime,timeout=30s")
    fails_with(errno.EROFS, (at / "new").write_bytes, b"x")
    run("mount", "-o", "remount,rw", at)
    (at / "new").write_bytes(b"x")
    run("mount", "-o", "remount,ro", at)
    fails_with(errno.EROFS, (at / "new").unlink)
    run("umount", at)
    assert not mounted(at)
    say("ro, remount,rw, remount,ro")


FSTAB = ("stria _netdev,nofail,timeout=30s",
         "fuse.stria _netdev,nofail,nosuid,nodev,wait=forever,x-systemd.mount-timeout=infinity")  # that of docs/operations.md, "Mounting"


def fstab_twice(meta, at, directory):
    fstab = directory / "fstab"
    for line in FSTAB:
        fstab.write_text(f"{meta}:/ {at} {line} 0 0\n")
        for _ in range(2):
            run("mount", "-a", "-T", fstab)
            assert len(mounted(at)) == 1, "mount -a mounted it twice"
        run("umount", at)
    say("fstab, twice")


def devices_and_suid(meta, at):
    """mount(8) tells its helper of nosuid and nodev, and never of suid and dev."""
    def flags(*options):
        run("mount", "-t", "fuse.stria", f"{meta}:/", at, *options)
        return set(mounted(at)[0][5].split(",")) & {"nosuid", "nodev", "sync"}

    assert flags("-o", "dev,suid") == set()
    os.mknod(at / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (at / "null").write_bytes(b"nowhere")
    run("umount", at)
    assert flags("-o", "nosuid") == {"nosuid"}
    run("umount", at)
    assert flags("-o", "nosuid,nodev,sync") >= {"nosuid", "nodev"}
    fails_with(errno.EACCES, (at / "null").write_bytes, b"nowhere")
    (at / "null").unlink()
    run("umount", at)
    say("dev, suid, and not")


ANY_FILESYSTEM = ["nodiratime", "diratime", "strictatime", "nostrictatime", "relatime", "norelatime", "noatime", "lazytime", "nolazytime",
                  "iversion", "noiversion", "mand", "nomand", "async", "sync", "dirsync", "exec", "noexec", "symfollow", "silent", "loud",
                  "nofail", "_netdev", "x-systemd.automount", "X-stria.test", "comment=it"]


def options_of_any_filesystem(c, meta, at, directory):
    fstab = directory / "fstab"
    for option in ANY_FILESYSTEM:
        fstab.write_text(f"{meta}:/ {at} fuse.stria {option},timeout=30s 0 0\n")
        run("mount", "-T", fstab, at)
        run("umount", at)
    (c.mount / "target").write_bytes(b"t")
    (c.mount / "link").symlink_to("target")
    run("mount", "-t", "fuse.stria", f"{meta}:/", at, "-o", "nosymfollow")
    assert (at / "target").read_bytes() == b"t" and os.readlink(at / "link") == "target"
    fails_with(errno.ELOOP, (at / "link").read_bytes)
    run("umount", at)
    odd = c.mount / "a,b \\c"
    (odd / "in").mkdir(parents=True)
    for _ in range(2):
        fstab.write_text(f"{meta}:/a,b\\040\\134c {at} fuse.stria timeout=30s 0 0\n")
        run("mount", "-a", "-T", fstab)
        assert os.listdir(at) == ["in"] and len(mounted(at)) == 1, "a directory with a comma is not the one that is mounted"
    run("umount", at)
    say("options of any filesystem, and a directory that has what parts them")


def subdirectory(c, meta, at):
    (c.mount / "sub/deep").mkdir(parents=True)
    (c.mount / "sub/deep/file").write_bytes(b"deep")
    run("mount", "-t", "fuse.stria", f"{meta}:/sub", at)
    assert os.listdir(at) == ["deep"] and (at / "deep/file").read_bytes() == b"deep"
    (at / "deep/file").rename(at / "up")
    assert (c.mount / "sub/up").read_bytes() == b"deep"
    assert "/sub" in run("df", at).stdout
    run("umount", at)
    assert "no such" in run("mount", "-t", "fuse.stria", f"{meta}:/nothing", at, ok=None).stderr.lower()
    assert not mounted(at)
    say("a subdirectory as root")


def owners(c, meta, at):
    (c.mount / "secret").write_bytes(b"s")
    (c.mount / "secret").chmod(0o600)
    assert run("cat", c.mount / "secret", user=USER, ok=None).returncode != 0, "anybody may read what is root's"
    run("mount", "-t", "fuse.stria", f"{meta}:/", at, "-o", f"uid={USER},gid={USER}")
    assert (at / "secret").stat().st_uid == USER
    assert run("cat", at / "secret", user=USER).stdout == "s"
    run("sh", "-c", f"echo mine > {at}/mine", user=USER)
    assert (at / "mine").stat().st_uid == USER and (c.mount / "mine").stat().st_uid == 0
    fails_with(errno.EPERM, os.chown, at / "mine", 1, 1)
    assert run("cat", at / "secret", user=USER + 1, ok=None).returncode != 0
    run("umount", at)
    say("uid= and permissions")


def stays_although_killed(c, meta, at, name, options, remount=None):
    """What was written stays, although nobody synced or closed it before its mount was killed."""
    what = os.urandom(64 * 1024)
    run("mount", "-t", "fuse.stria", f"{meta}:/", at, "-o", options)
    fd = os.open(at / name, os.O_WRONLY | os.O_CREAT)
    if remount:
        run("mount", "-o", f"remount,{remount}", at)
    assert os.write(fd, what) == len(what)
    pid = pid_of(at)
    os.kill(pid, signal.SIGKILL)
    wait_for("it is killed", lambda: not is_running(pid), 10)
    with contextlib.suppress(OSError):
        os.close(fd)
    run("mount", "-t", "fuse.stria", f"{meta}:/", at, "-o", "timeout=60s")  # clears the dead one away
    assert (at / name).read_bytes() == what, f"{options}, {remount}: it lost what was written"
    run("umount", at)
    assert (c.mount / name).read_bytes() == what


def durable_at_once(c, meta, at):
    stays_although_killed(c, meta, at, "at-once", "sync,timeout=60s")
    stays_although_killed(c, meta, at, "remounted", "timeout=60s", "sync")  # the file is open before
    say("-o sync and remount,sync")


def heeds_remounts(meta, at):
    def flags():
        assert set(mounted(at)[0][-1].split(",") + mounted(at)[0][5].split(",")) & {"sync", "noatime"} == heeded(), "it shows what it does not heed"
        return heeded()

    def heeded():
        return set(os.getxattr(at, "user.stria.flags").decode().split(",")) - {""}

    def atime_moves(name):
        (at / name).write_bytes(b"r")
        before = (at / name).stat().st_atime_ns
        assert (at / name).read_bytes() == b"r"
        return (at / name).stat().st_atime_ns != before

    run("mount", "-t", "fuse.stria", f"{meta}:/", at, "-o", "ro,timeout=60s")
    run("mount", "-o", "remount,rw", at)
    assert flags() == set() and atime_moves("moves"), "reading moves no atime after remount,rw"
    run("mount", "-o", "remount,noatime", at)
    assert flags() == {"noatime"} and not atime_moves("stays"), "remount,noatime changed nothing"
    run("mount", "-o", "remount,sync", at)
    assert flags() == {"sync", "noatime"}
    run("mount", "-o", "remount,async,atime", at)
    assert flags() == set() and atime_moves("moves-again"), "remount,atime changed nothing"
    run("mount", "-o", "remount,nosuid,nodev", at)
    run("mount", "-o", "remount,suid,dev", at)
    assert not set(mounted(at)[0][5].split(",")) & {"nosuid", "nodev"}, mounted(at)
    run("umount", at)
    say("remount changes sync, noatime, nosuid and nodev, and back")


def no_terminal_obeys(c, meta, directory):
    """Control characters of names and arguments come out escaped, whoever repeats them."""
    odd = "no\033[31mx"
    mount = [c.program("stria-mount"), "--meta", meta, *c.mount_trust()]
    for command in ([*mount, directory / odd], [*mount, directory / odd, "--" + odd], [*mount, "-o", odd, directory / "mnt"],
                    [*mount, "--log-file", directory / odd / "log", directory / "mnt"],
                    [c.program("stria-mount"), f"{meta}:/{odd}", *c.mount_trust(), directory / "mnt"],
                    [c.program("stria-meta"), "--config", directory / odd], [c.program("stria-meta"), "--data", directory / odd],
                    [c.program("stria-data"), "--config", directory / odd],
                    [c.program("stria-data"), "--insecure", "--meta", meta, "--disk", directory / odd],
                    [c.stria_path, "status", "--" + odd], [c.stria_path, "disk", "reindex", directory / odd],
                    [c.stria_path, "status", "--timeout", "1", "--meta", odd]):
        done = run(*command, ok=None)
        said = done.stdout + done.stderr
        assert done.returncode != 0 and said and "\033" not in said, (command, said)
        assert "\\033[31mx" in said, (command, said)
    for helper in ("mount.fuse.stria", "umount.fuse.stria"):
        done = run(SBIN / helper, *([f"{meta}:/"] if helper.startswith("m") else []), directory / odd, ok=None)
        assert done.returncode != 0 and "\033" not in done.stderr and "\\033[31mx" in done.stderr, done.stderr
    say("no terminal obeys a name")


def flushed_at_umount(c, meta, at):
    run("mount", "-t", "fuse.stria", f"{meta}:/", at, "-o", "async_close,timeout=60s")
    pid = pid_of(at)
    written = {f"many/{i}": write_file(at, f"many/{i}", 3 * MIB + i, sync=False) for i in range(6)}
    with open(at / "mapped", "w+b") as f:
        f.truncate(2 * MIB)
        with mmap.mmap(f.fileno(), 2 * MIB) as m:
            m[MIB:MIB + 6] = b"mapped"
    held = open(at / "mapped", "rb")
    busy = run("umount", at, ok=32)
    assert "in use" in busy.stderr and mounted(at), busy.stderr
    held.close()
    state = open(state_of(at))  # locked by the program until it closes its files, at its end
    run("umount", at)
    try:
        fcntl.flock(state, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        assert False, "umount did not wait for its program"
    state.close()
    wait_for("the program is gone", lambda: not is_running(pid), 10)
    c.files.update(written)
    c.verify(list(written))
    assert (c.mount / "mapped").read_bytes()[MIB:MIB + 6] == b"mapped"
    say("umount waited for all bytes")


def said_if_lost(c, meta, at):
    run("mount", "-t", "fuse.stria", f"{meta}:/", at, "-o", "async_close,timeout=3s")
    (at / "warm").write_bytes(b"w")
    servers = [p["pid"] for p in c.processes() if p["kind"] == "node"]
    for pid in servers:
        os.kill(pid, signal.SIGSTOP)
    try:
        (at / "doomed").write_bytes(os.urandom(MIB))
        told = run("umount", at, ok=32)
        assert "not all of its bytes could be written" in told.stderr, told.stderr
    finally:
        for pid in servers:
            os.kill(pid, signal.SIGCONT)
    assert not mounted(at)
    say("an umount that loses bytes says so")


def scenario():
    enter_namespace()
    with tempfile.TemporaryDirectory(prefix="stria-citizen-") as d, Cluster(nodes=3, disks=1) as c:
        directory = pathlib.Path(d)
        for shared in (directory, c.dir):
            shared.chmod(0o755)
        program = c.program("stria-mount")
        assert "/etc/fstab" in run(program, "--help").stdout
        install_helpers(program, directory)
        join(c, directory)
        meta = next(p["address"] for p in c.processes() if p["kind"] == "meta")
        at = directory / "mnt"
        at.mkdir()
        try:
            read_only_and_remount(meta, at)
            devices_and_suid(meta, at)
            fstab_twice(meta, at, directory)
            options_of_any_filesystem(c, meta, at, directory)
            subdirectory(c, meta, at)
            owners(c, meta, at)
            no_terminal_obeys(c, meta, directory)
            durable_at_once(c, meta, at)
            heeds_remounts(meta, at)
            flushed_at_umount(c, meta, at)
            said_if_lost(c, meta, at)
        finally:
            subprocess.run(["umount", "-l", at], check=False, capture_output=True)
            for place in (ETC, SBIN):
                run("umount", "-l", place, ok=None)


main(scenario)
