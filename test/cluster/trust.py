"""Who does not belong is kept out, and who belongs gets no more than it was given (docs/security.md): a cluster with certificates,
a process without any, and a PC that joined as a client of one directory, read-only and as nobody. Meanwhile others work."""

import contextlib
import errno
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time

from stria_cluster import MIB, Cluster, main, say, wait_for, write_file

NOBODY = 65534
WAIT_S = 60


def as_stranger(c, *args, trust="off"):
    """A command of a user of this machine who has nothing of the cluster's."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "STRIA_TRUST": trust, "STRIA_META": c.meta}
    return subprocess.run([c.open_stria, *map(str, args)], env=environment, capture_output=True, text=True, timeout=60, cwd="/",
                          stdin=subprocess.DEVNULL, user=NOBODY, group=NOBODY, extra_groups=[])


def tell(address, first):
    """What a server says to whoever begins so; b'' if it hangs up. It must not leave him waiting."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as s:
        s.sendall(first)
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := s.recv(4096):
                got += piece
        return got


class Load:
    """Programs of the cluster's own mount, which nothing here may disturb."""

    def __init__(self, c):
        self.c, self.stop, self.failed, self.rounds = c, threading.Event(), None, 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            while not self.stop.is_set():
                name = f"load/{self.rounds % 20}"
                size, digest = write_file(self.c.mount, name, 3 * MIB + self.rounds)
                self.c.files[name] = (size, digest)
                self.c.verify([name])
                self.rounds += 1
        except BaseException as e:  # told by the main thread
            self.failed = e

    def check(self):
        if self.failed:
            raise self.failed
        before = self.rounds
        wait_for("the others work", lambda: self.failed or self.rounds > before + 1, WAIT_S)
        if self.failed:
            raise self.failed

    def end(self):
        self.stop.set()
        self.thread.join()


class Guest:
    """A PC that joined: its certificate, and a mount by that."""

    def __init__(self, c, name, place=None):
        self.c, self.name = c, name
        self.trust = c.dir / f"trust-{name}"
        self.place = c.dir / (place or f"mnt-{name}")
        self.place.mkdir()
        self.process = None

    def join(self, *options, role="client"):
        token = self.c.stria("token", "make", "--role", role, "--name", self.name, *options).stdout.strip()
        self.c.stria("join", token, "--trust", self.trust)
        return token

    def mount(self, path, check=True):
        self.log = self.c.cluster / f"log/guest-{self.name}.log"
        self.process = subprocess.Popen([self.c.program("stria-mount"), "-f", "--meta", self.c.meta, "--trust", self.trust, "--timeout", "20s", "--log",
                                         self.log, f"{self.c.meta}:{path}", self.place], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not check:
            return self.process.communicate(timeout=WAIT_S)[1]
        wait_for(f"{self.name} has mounted {path}", lambda: os.path.ismount(self.place) or self.process.poll() is not None, WAIT_S)
        assert self.process.poll() is None, self.process.communicate()[1]
        return ""

    def umount(self):
        if self.process and self.process.poll() is None:
            subprocess.run(["umount", "--lazy", self.place], check=False)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
            self.process.kill()
            self.process.wait(20)


def refused(call, *codes):
    try:
        call()
    except OSError as e:
        assert e.errno in codes, f"it was refused with {e}"
        return
    raise AssertionError("it was let do that")


def without_certificate(c):
    verbs = [("status",), ("node", "ls"), ("disk", "ls"), ("node", "out", "n1"), ("rebuild", "pause"), ("fsck",), ("scrub", "start"),
             ("meta", "backup"), ("token", "make", "--role", "admin", "--name", "me"), ("export", "ls"), ("client", "ls"), ("audit",),
             ("cert", "ls"), ("ca", "rotate")]
    for verb in verbs:
        done = as_stranger(c, *verb)
        assert done.returncode not in (0, 64), f"stria {' '.join(verb)} was done for a stranger, or is unknown: {done.returncode} {done.stdout}{done.stderr}"
    # Nor does its own word that it is root, nor the socket of admins on this machine.
    done = as_stranger(c, "--meta", f"unix:{c.cluster}/meta/admin.sock", "node", "out", "n1")
    assert done.returncode != 0, done.stdout
    for address in [c.meta] + [p["address"] for p in c.processes() if p["kind"] == "node"][:1]:
        for first in (b"StriaBk1" + b"\0" * 64, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x00\x05hello", os.urandom(512)):
            got = tell(address, first)
            assert len(got) < 64, f"{address} answers a stranger: {got[:80]!r}"
    for kind, argument in (("stria-mount", ["--insecure", c.dir / "mnt-stranger"]), ("stria-mount", ["--trust", c.dir / "nothing", c.dir / "mnt-stranger"])):
        (c.dir / "mnt-stranger").mkdir(exist_ok=True)
        done = subprocess.run([c.program(kind), "-f", "--meta", c.meta, "--timeout", "3s", *map(str, argument)], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and done.stderr.strip(), "it was mounted without a certificate"
    assert all(n["state"] == "up" for n in c.status()["nodes"]), c.status()["nodes"]
    say("without a certificate nothing is told and nothing done")


def one_directory(c):
    shared = c.mount / "shared"
    shared.mkdir()
    (shared / "data").write_bytes(b"for everybody\n")
    (shared / "secret").write_bytes(b"SECRET\n")
    os.chmod(shared / "secret", 0o600)
    (c.mount / "outside").write_bytes(b"SECRET outside\n")
    (shared / "dir").mkdir()
    os.link(c.mount / "outside", shared / "dir" / "linked")
    os.unlink(shared / "dir" / "linked")
    os.sync()
    c.stria("export", "set", "path=/ clients=mount*")
    c.stria("export", "remove", "/", "--clients", "*")
    c.stria("export", "set", "path=/shared clients=guest access=ro squash=all")
    guest = Guest(c, "guest")
    token = guest.join()
    again = c.stria("join", token, "--name", "guest", "--trust", c.dir / "trust-again", check=False)
    assert again.returncode != 0 and "used" in again.stderr, f"a token was used twice: {again.stdout}{again.stderr}"
    said = guest.mount("/", check=False)
    assert "guest" in said and "may not mount" in said, f"it was mounted, or the reason is not told: {said}"
    guest.mount("/shared")
    at = guest.place
    assert sorted(os.listdir(at)) == ["data", "dir", "secret"], os.listdir(at)
    assert (at / "data").read_bytes() == b"for everybody\n"
    refused(lambda: (at / "secret").read_bytes(), errno.EACCES)
    refused(lambda: (at / "new").write_bytes(b"x"), errno.EROFS, errno.EACCES)
    refused(lambda: os.truncate(at / "data", 0), errno.EROFS, errno.EACCES)
    refused(lambda: os.unlink(at / "data"), errno.EROFS, errno.EACCES)
    refused(lambda: os.chmod(at / "secret", 0o777), errno.EROFS, errno.EPERM)
    assert os.path.samefile(at / "dir" / "..", at)
    # What is moved out is outside.
    inside = os.open(at / "dir", os.O_RDONLY | os.O_DIRECTORY)
    os.rename(shared / "dir", c.mount / "moved")
    (c.mount / "moved" / "later").write_bytes(b"SECRET later\n")
    try:
        refused(lambda: os.open("later", os.O_RDONLY, dir_fd=inside), errno.ESTALE, errno.ENOENT, errno.EACCES, errno.EIO)
    finally:
        os.close(inside)
    # Its certificate is good for no command of an admin.
    for verb in (("node", "out", "n1"), ("fsck",), ("token", "make", "--role", "admin", "--name", "x"), ("export", "set", "path=/"),
                 ("cert", "ls"), ("audit",)):
        done = subprocess.run([c.stria_path, *verb], env={**os.environ, "STRIA_META": c.meta, "STRIA_TRUST": str(guest.trust)}, cwd="/",
                              capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        assert done.returncode not in (0, 64), f"stria {' '.join(verb)} was done for a client: {done.stdout}{done.stderr}"
    say("a client of one directory reads that, as nobody, and sees nothing else")
    return guest


def goes(c, guest, load):
    clients = json.loads(c.stria("client", "ls", "--json").stdout)
    mine = [x for x in clients if x["owner"] == "guest"]
    assert len(mine) == 1, clients
    c.stria("client", "evict", mine[0]["session"])
    wait_for("its session is gone", lambda: not any(x["session"] == mine[0]["session"] for x in
                                                    json.loads(c.stria("client", "ls", "--json").stdout)), WAIT_S)
    load.check()
    say("a client was evicted, and nobody else noticed")
    c.stria("cert", "revoke", "client/guest")

    log = c.cluster / "log/meta.log"
    wait_for("a revoked client is refused", lambda: "the certificate of client guest is revoked" in log.read_text(errors="replace"), WAIT_S)
    other = Guest(c, "guest", "mnt-guest2")
    said = other.mount("/shared", check=False)
    assert said.strip(), "a revoked certificate mounts"
    load.check()
    say("its certificate was revoked, and nobody else noticed")


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:4+1") as c:
        c.meta = next(p["address"] for p in c.processes() if p["kind"] == "meta")
        load = Load(c)
        guest = None
        public = pathlib.Path(tempfile.mkdtemp(prefix="stria-open-", dir="/var/tmp"))  # where everybody can run what is in it
        try:
            public.chmod(0o755)
            c.open_stria = shutil.copy(c.stria_path, public)
            without_certificate(c)
            guest = one_directory(c)
            load.check()
            goes(c, guest, load)
        finally:
            load.end()
            shutil.rmtree(public, ignore_errors=True)
            if guest:
                guest.umount()
        if load.failed:
            raise load.failed
        c.wait_whole()
        c.verify()
        c.fsck()


main(scenario)
