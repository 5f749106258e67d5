"""Daemons as an administrator and systemd know them: READY=1 and STOPPING=1, SIGHUP, logs that are moved away, keys; and what users are told:
whole lists of names, none of directories that they may not list, no check that everybody waits for.

The daemons of a secured cluster come first. What is told of a cluster key, and to users by their uid, is of an insecure one: where programs
prove who they are, a user without a certificate is told nothing at all (trust.py)."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from stria_cluster import Cluster, main, say, wait_for

USER = 65534
LINKS = 1250


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Notified:
    """What systemd would hear."""

    def __init__(self, directory):
        self.path = str(directory / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.setblocking(False)
        self.heard = ""

    def has(self, text):
        try:
            while True:
                self.heard += self.socket.recv(4096).decode() + "\n"
        except BlockingIOError:
            return text in self.heard.splitlines()


def joined(c, directory):
    """What a node proves itself with."""
    token = c.stria("token", "make", "--role", "data", "--name", "n9").stdout.strip()
    c.stria("join", token, "--trust", directory / "trust")
    return ["--trust", directory / "trust"]


def settings_with(directory, top, disks):
    return top + "".join(f'[[disk]]\npath = "{directory / disk}"\n' for disk in disks)


def data_server(c, directory, meta):
    log, notified = directory / "data.log", Notified(directory)
    for disk in ("first", "second"):
        (directory / disk).mkdir()
    settings = directory / "data.toml"
    settings.write_text(settings_with(directory, "background_percent = 25\n", ["first"]))
    process = subprocess.Popen(
        [c.program("stria-data"), "--config", settings, "--node-name", "n9", "--listen", f"127.0.0.1:{free_port()}", "--meta", meta,
         *joined(c, directory), "--log-file", log], env={**os.environ, "NOTIFY_SOCKET": notified.path}, stdin=subprocess.DEVNULL)
    try:
        wait_for("stria-data says READY=1", lambda: notified.has("READY=1"), 60, 0.2)
        opens_log_anew(process, log)
        settings.write_text(settings_with(directory, 'log_level = "debug"\nbackground_percent = 50\nrebuilds = 3\n', ["first"]))
        process.send_signal(signal.SIGHUP)
        wait_for("the settings are read again", lambda: "log_level is debug, rebuilds 3" in log.read_text(), 60, 0.2)
        disks_come_and_go(c, directory, settings, process, log)
        settings.write_text('log_level = "loud"\n')
        process.send_signal(signal.SIGHUP)
        wait_for("what is wrong in them is said", lambda: "the settings stay as they are: " in log.read_text(), 60, 0.2)
        assert process.poll() is None, "SIGHUP ended stria-data"
        assert c.disk("n9:first")["state"] == "up", "wrong settings took a disk away"
        process.terminate()
        assert process.wait(60) == 0 and notified.has("STOPPING=1"), notified.heard
    finally:
        process.kill()
        process.wait()
    say("stria-data: READY=1, SIGHUP, STOPPING=1")


def disks_come_and_go(c, directory, settings, process, log):
    """What SIGHUP finds in the settings is used, what it does not find there is let go; the other disk serves all the time."""
    wait_for("n9:first is used", lambda: c.disk("n9:first").get("state") == "up", 60, 0.2)
    settings.write_text(settings_with(directory, "", ["first", "second"]))
    process.send_signal(signal.SIGHUP)
    wait_for("n9:second is used", lambda: c.disk("n9:second").get("state") == "up", 60, 0.2)
    c.stria("disk", "remove", "n9:second")
    settings.write_text(settings_with(directory, "", ["first"]))
    process.send_signal(signal.SIGHUP)
    wait_for("it is let go", lambda: f"disk {directory / 'second'} is not in the settings of stria-data any more" in log.read_text(), 60, 0.2)
    wait_for("nobody has it open", lambda: not opened_below(process.pid, directory / "second"), 60, 0.2)
    assert c.disk("n9:first")["state"] == "up" and opened_below(process.pid, directory / "first")
    wait_for("nothing is said of it", lambda: not [f for f in c.status()["findings"] if "second" in f["what"]], 60, 0.2)
    say("disks come and go by SIGHUP")


def opened_below(pid, directory):
    """Files that a process has open there."""
    found = []
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            path = os.readlink(fd)
        except OSError:  # closed meanwhile
            continue
        if path.startswith(f"{directory}/") or path == str(directory):
            found.append(path)
    return found


def opens_log_anew(process, log):
    """As logrotate does it: the log is moved, and then the program is told."""
    old = log.with_name(log.name + ".old")
    log.rename(old)
    process.send_signal(signal.SIGHUP)
    wait_for("the log is opened anew", lambda: log.exists() and "SIGHUP" in log.read_text(), 60, 0.2)
    assert "SIGHUP" not in old.read_text(), "the old log has what is said after it was moved"


def meta_server(c, directory):
    """Log level and limits count at SIGHUP; settings that are wrong change nothing, and those that need a restart end nothing."""
    settings, arguments, log = directory / "meta.toml", c.arguments("meta"), directory / "meta.log"
    settings.write_text('log_level = "info"\n')
    c.kill("meta")
    c.start_with("meta", [*arguments, "--config", settings, "--log-file", log], await_up=False)
    process = c.own["meta"]

    def said(text):
        return lambda: log.exists() and text in log.read_text()
    wait_for("it serves again", said("is served on"), 60, 0.2)
    opens_log_anew(process, log)
    settings.write_text('log_level = "debug"\nslow_request = "2s"\n[repair]\ntasks = 8\n[cluster]\nout = "20min"\n')
    process.send_signal(signal.SIGHUP)
    wait_for("the settings are read again", said("log_level is debug, and slow_request, [repair], [fold] and [cluster] are as the settings say"), 60, 0.2)
    settings.write_text('log_level = "debug"\n[repair]\ntasks = "many"\n')
    process.send_signal(signal.SIGHUP)
    wait_for("what is wrong in them is said", said("the settings stay as they are: "), 60, 0.2)
    assert process.poll() is None, "SIGHUP ended stria-meta"
    c.end_own("meta")
    c.start("meta")
    say("stria-meta: SIGHUP")


def open_key(c, directory, meta):
    log, key = directory / "key.log", directory / "key"
    (directory / "other").mkdir()
    shutil.copy(c.cluster / "cluster.key", key)
    key.chmod(0o644)
    process = subprocess.Popen([c.program("stria-data"), "--node-name", "n8", "--listen", f"127.0.0.1:{free_port()}", "--meta", meta, "--insecure",
                                "--cluster-key", key, "--disk", directory / "other", "--log-file", log], stdin=subprocess.DEVNULL)
    try:
        wait_for("a key that everybody may read is not taken without a word", lambda: log.exists() and f"chmod 600 {key}" in log.read_text(), 60, 0.2)
    finally:
        process.kill()
        process.wait()
    say("a key that everybody may read")


def hang_up(c):
    (c.mount / "file").write_bytes(b"before")
    others = [p for p in c.processes() if p["kind"] in ("meta", "mount")]
    for p in others:
        os.kill(p["pid"], signal.SIGHUP)
    wait_for("they say so", lambda: all("SIGHUP" in pathlib.Path(p["log"]).read_text() for p in others), 60, 0.2)
    assert (c.mount / "file").read_bytes() == b"before"
    (c.mount / "file").write_bytes(b"after")
    c.stria("status", check=False)
    assert all(pathlib.Path(f"/proc/{p['pid']}").exists() for p in others), "SIGHUP ended a daemon"
    say("stria-meta and stria-mount go on at SIGHUP")


def waiting_mount(c, directory):
    """A mount that waits for its metadata server: only SIGTERM ends it."""
    point, log = directory / "later", directory / "mount.log"
    point.mkdir()
    process = subprocess.Popen([c.program("stria-mount"), "--meta", f"127.0.0.1:{free_port()}", *c.mount_trust(), "--log-file", log, "-f",
                                "-o", "wait=forever", point], stdin=subprocess.DEVNULL)
    try:
        wait_for("it waits", lambda: log.exists() and "waiting for a metadata server" in log.read_text(), 60, 0.2)
        opens_log_anew(process, log)
        assert process.poll() is None, "SIGHUP ended a mount that waited"
        process.terminate()
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    say("a mount that waits for the metadata server waits on at SIGHUP")


class Relay:
    """Between a mount and the metadata server. Once `answered()` it passes nothing on any more, until it is let."""

    def __init__(self, meta, answered):
        self.port, self.answered = int(meta.rsplit(":", 1)[1]), answered
        self.silent, self.let = False, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):  # it is closed
            while True:
                a, b = self.listener.accept()[0], socket.create_connection(("127.0.0.1", self.port))
                for one, other in ((a, b), (b, a)):
                    threading.Thread(target=self.pump, args=(one, other), daemon=True).start()

    def pump(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                self.silent = self.silent or self.answered()
                if self.silent and not self.let:
                    break
                other.sendall(data)
        for s in (one, other):
            s.close()


def server_dies_at_the_start(c, directory, options):
    """The metadata server answers a mount that waits for it, and is away again before the mount has a session."""
    point, log = directory / "between", directory / "between.log"
    point.mkdir(exist_ok=True)
    relay = Relay(address_of_meta(c), lambda: log.exists() and "this machine " in log.read_text())
    process = subprocess.Popen([c.program("stria-mount"), "--meta", relay.address, *c.mount_trust(), "--log-file", log, "-f", "-o", options, point],
                               stdin=subprocess.DEVNULL)
    try:
        wait_for("it is answered", lambda: relay.silent, 60, 0.2)
        yield process, relay, point, log
    finally:
        process.kill()
        process.wait()
        relay.listener.close()
        log.unlink()


def waits_on(c, directory):
    for process, relay, point, log in server_dies_at_the_start(c, directory, "wait=forever,timeout=2s"):
        time.sleep(3 * 2)
        assert process.poll() is None, f"it waited for its timeout only: {log.read_text()}"
        assert not os.path.ismount(point)
        relay.let = True
        wait_for("it is mounted", lambda: os.path.ismount(point), 60, 0.2)
        subprocess.run(["umount", point], check=True, timeout=60)
        process.wait(60)
    for process, _, _, log in server_dies_at_the_start(c, directory, "wait=forever"):
        process.terminate()
        process.wait(20)
        assert "it was told to end while it waited" in log.read_text(), log.read_text()
    for process, _, _, log in server_dies_at_the_start(c, directory, "wait=1s,timeout=3s"):
        assert process.wait(20) != 0, "it has its timeout, and no more"
    say("a mount whose metadata server died between its first answers waited for it, as long as it was told to")


def keys(c, directory):
    path = directory / "new.key"
    c.stria("key", "new", path)
    assert path.stat().st_mode & 0o7777 == 0o600
    assert c.stria("key", "new", path, check=False).returncode == 1, "a key was overwritten"
    number, secret = path.read_text().split()
    assert number == "1" and len(bytes.fromhex(secret)) == 32
    say("stria key new")


def as_user(c, directory, *args):
    stria = directory / "stria"
    if not stria.exists():
        shutil.copy(c.stria_path, stria)
        stria.chmod(0o755)
    meta = json.loads((c.cluster / "cluster.json").read_text())["meta"]
    return subprocess.run([stria, *map(str, args), "--meta", meta], user=USER, group=USER, extra_groups=[], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, cwd="/", timeout=120)


def names(c, directory):
    (c.mount / "home").mkdir()
    file = c.mount / "home/secret name"
    file.write_bytes(b"x")
    for i in range(LINKS):
        os.link(file, c.mount / f"link{i}")
    number = os.stat(file).st_ino
    told = c.stria("paths", number).stdout.splitlines()
    assert len(told) == len(set(told)) == LINKS + 1 and "/home/secret name" in told, len(told)
    (c.mount / "home").chmod(0o700)
    user = as_user(c, directory, "paths", number)
    assert len(user.stdout.splitlines()) == LINKS and "secret" not in user.stdout + user.stderr, user
    assert "1 name is in a directory" in user.stderr, user.stderr
    say(f"{LINKS + 1} names, and one less for who may not know it")
    for verb in (["fsck"], ["fsck", "--dry-run"]):
        refused = as_user(c, directory, *verb)
        assert refused.returncode == 77 and "only root" in refused.stderr, refused
    c.fsck()
    unknown = c.stria("statsu", check=False)
    assert unknown.returncode == 64 and "'statsu'" in unknown.stderr, unknown
    say("who may not is told so in words")


def address_of_meta(c):
    return next(p["address"] for p in c.processes() if p["kind"] == "meta")


def scenario():
    with tempfile.TemporaryDirectory(prefix="stria-service-") as d:
        directory = pathlib.Path(d)
        directory.chmod(0o755)
        with Cluster(nodes=3, disks=1) as c:
            data_server(c, directory, address_of_meta(c))
            meta_server(c, directory)
            hang_up(c)
            waiting_mount(c, directory)
            waits_on(c, directory)
            keys(c, directory)
        with Cluster(nodes=3, disks=1, insecure=True) as c:
            open_key(c, directory, address_of_meta(c))
            names(c, directory)


main(scenario)
