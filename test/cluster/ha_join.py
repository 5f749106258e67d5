"""Every step of docs/operations.md, "Several metadata servers", by the commands that stand there: a server that runs becomes the first of several
while a file is open, a second PC joins with a token, places are handed over, given back, and taken away; etcd is away, and loses everything;
all that were in sync are lost; the last one is alone again. What each command shows is printed.

PCs are namespaces of mounts and host names with an address each, in one network that nobody else sees. Their /etc is an overlay, and so is what
mount(8) looks for; /var/lib, /var/log, /run and /srv are their own. systemd does not run there: stria says which command starts a server, and that is run."""

import atexit
import contextlib
import ctypes
import json
import multiprocessing
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from own_namespaces import enter_namespaces
from stria_cluster import Cluster, digest_of_file, find_stria, main, say, wait_for, write_file

NAMES = ["pc1", "pc2", "pc3"]
PROGRAMS = ("stria", "stria-meta", "stria-data", "stria-mount")
HELPERS = ("mount.stria", "mount.fuse.stria", "umount.fuse.stria", "umount.fuse")
USER_ID = 64321
COMMAND_S, WAIT_S, STOP_S = 120, 60, 60
ETCD_PORT = 2379
PR_SET_PDEATHSIG = 1
# As docs/operations.md has it.
ROOT_BECOMES_ADMIN = "install -d -m 700 /etc/stria/trust/admin && cp /var/lib/stria/meta/trust/admin/* /etc/stria/trust/admin/"
HERE_ONLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=COMMAND_S, **more)
    assert done.returncode == 0, f"{' '.join(map(str, command))} gave {done.returncode}:\n{done.stdout}"
    return done.stdout


# ---- A PC ----


def be_pc(what):
    """The process that keeps its namespaces: covers what is its own, says so, and stays until its standard input ends."""
    home = pathlib.Path(what["home"])
    socket.sethostname(what["name"])
    for place in ("/etc", "/usr/sbin"):
        upper, work = (home / f"{part}{place.replace('/', '-')}" for part in ("upper", "work"))
        upper.mkdir()
        work.mkdir()
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={place},upperdir={upper},workdir={work}", place)
    for place in ("/var/lib", "/var/log", "/run", "/srv"):
        own = home / place.strip("/").replace("/", "-")
        own.mkdir()
        run("mount", "--bind", own, place)
    for helper in HELPERS:
        path = pathlib.Path("/usr/sbin") / helper
        path.unlink(missing_ok=True)
        path.symlink_to(home / "bin/stria-mount")
    hosts = pathlib.Path("/etc/hosts")
    hosts.unlink(missing_ok=True)
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in what["hosts"].items()))
    for file, line in (("/etc/passwd", f"stria:x:{USER_ID}:{USER_ID}::/var/lib/stria:/usr/sbin/nologin\n"), ("/etc/group", f"stria:x:{USER_ID}:\n")):
        lines = [one for one in pathlib.Path(file).read_text().splitlines(keepends=True) if not one.startswith("stria:")]
        pathlib.Path(file).write_text("".join(lines) + line)
    shutil.rmtree("/etc/stria", ignore_errors=True)
    pathlib.Path("/etc/stria").mkdir()
    # As the packages' settings files would be changed where several PCs are one machine.
    for server, port in (("meta", 7424), ("data", 7425)):
        pathlib.Path(f"/etc/stria/{server}.toml").write_text(f'listen = "{what["hosts"][what["name"]]}:{port}"\n')
    # The unit's StateDirectory, RuntimeDirectory and LogsDirectory.
    for path in ("/var/lib/stria", "/run/stria", "/var/log/stria"):
        os.mkdir(path, 0o755)
        os.chown(path, USER_ID, USER_ID)
    print("on", flush=True)
    sys.stdin.read()


class Pc:
    def __init__(self, directory, name, hosts):
        self.name, self.address = name, hosts[name]
        self.home = directory / name
        (self.home / "bin").mkdir(parents=True)
        for program in PROGRAMS:
            os.link(directory / "bin" / program, self.home / "bin" / program)  # a path of its own tells whose process it is
        self.servers = {}
        self.log, self.etcd_log = self.home / "servers.log", self.home / "etcd.log"
        what = {"home": str(self.home), "name": name, "hosts": hosts}
        self.holder = subprocess.Popen(["unshare", "--mount", "--uts", "--propagation", "private", sys.executable, "-B", __file__, json.dumps(what)],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "on\n", f"{name} cannot be made"

    def inside(self, path):
        """A path there, as seen from here."""
        return pathlib.Path(f"/proc/{self.holder.pid}/root") / str(path).lstrip("/")

    def enter(self, *words):
        return ["nsenter", "--target", str(self.holder.pid), "--mount", "--uts", "--", *map(str, words)]

    def environment(self, **more):
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root", **more}

    def run(self, *words, text=None, timeout_s=COMMAND_S):
        how = {"input": text} if text is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run(self.enter(*words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=timeout_s, cwd="/",
                              env=self.environment(), **how)

    def stria(self, *words, ok=(0,), text=None, quiet=False):
        """Runs it, prints what stands and what it shows, and gives that."""
        done = self.run(self.home / "bin/stria", *words, text=text)
        shown = done.stdout.replace(str(self.home / "bin") + "/", "")
        if not quiet:
            hidden = re.sub(r"stria-join:\S+", "stria-join:..", shown)
            print(f"{self.name}# stria {' '.join(map(str, words))}\n{hidden}", end="", flush=True)
        assert done.returncode in ok, f"{self.name}# stria {' '.join(map(str, words))} gave {done.returncode}:\n{shown}"
        return done.stdout

    def json(self, *words):
        """{} if nobody answers."""
        done = self.run(self.home / "bin/stria", *words, "--json", "--timeout", "5")
        with contextlib.suppress(ValueError):
            return json.loads(done.stdout[done.stdout.index("{"):])
        return {}

    # ---- Servers ----

    def pid_of(self, program):
        wanted = str(self.home / "bin" / program).encode()
        for directory in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (directory / "cmdline").read_bytes().split(b"\0")[0] == wanted:
                    return int(directory.name)
        return 0

    def spawn(self, words, log_file, environment=()):
        with open(log_file, "ab") as log:
            return subprocess.Popen(self.enter(*words), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=self.environment(**dict(environment)))

    def start(self, program, command):
        print(f"{self.name}# {' '.join(command).replace(str(self.home / 'bin') + '/', '')}", flush=True)
        self.servers[program] = self.spawn(command, self.log)

    def start_meta(self, *flags):
        self.start("stria-meta", ["runuser", "-u", "stria", "--", str(self.home / "bin/stria-meta"), "--config", "/etc/stria/meta.toml", *flags])

    def end(self, program, how=signal.SIGTERM):
        pid = self.pid_of(program)
        assert pid, f"{program} does not run on {self.name}:\n{self.log_tail()}"
        os.kill(pid, how)
        self.servers.pop(program).wait(STOP_S)
        wait_for(f"{program} ends on {self.name}", lambda: not self.pid_of(program), STOP_S)

    def refused(self, *words):
        """A server that does not start says why."""
        print(f"{self.name}# {' '.join(map(str, words)).replace(str(self.home / 'bin') + '/', '')}", flush=True)
        done = self.run("runuser", "-u", "stria", "--", *words, timeout_s=WAIT_S)
        print(done.stdout, end="", flush=True)
        assert done.returncode != 0, done.stdout
        return done.stdout

    def logged(self):
        return self.log.stat().st_size if self.log.exists() else 0

    def says_since(self, logged, text):
        return text.encode() in self.log.read_bytes()[logged:]

    def log_tail(self):
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    # ---- etcd ----

    def start_etcd(self):
        settings = etcd_settings(self)
        self.inside("/var/lib/etcd").mkdir(exist_ok=True)
        self.servers["etcd"] = self.spawn(["etcd"], self.etcd_log, settings)

    def end_etcd(self):
        process = self.servers.pop("etcd")
        process.kill()  # nsenter has become etcd: no fork
        process.wait(STOP_S)


def etcd_settings(pc):
    """The lines of docs/operations.md, with this PC's name and addresses in the place of those of pc1."""
    top = next(p for p in pathlib.Path(__file__).resolve().parents if (p / "docs/operations.md").exists())
    text = (top / "docs/operations.md").read_text()
    block = re.search(r"```\n# /etc/default/etcd\n(.*?)```", text, re.S)[1]
    settings = dict(line.split("=", 1) for line in block.splitlines())
    for key in ("ETCD_INITIAL_ADVERTISE_PEER_URLS", "ETCD_ADVERTISE_CLIENT_URLS"):
        settings[key] = settings[key].replace("10.1.0.1", pc.address)
    settings["ETCD_NAME"] = pc.name
    # Where each PC has a network of its own, it listens to all of it.
    for key in ("ETCD_LISTEN_PEER_URLS", "ETCD_LISTEN_CLIENT_URLS"):
        settings[key] = settings[key].replace("0.0.0.0", pc.address)
    settings["ETCD_INITIAL_CLUSTER"] = settings["ETCD_INITIAL_CLUSTER"].replace("10.1.0.", "127.77.0.")
    return settings


# ---- The room ----


class Room:
    def __init__(self, directory):
        self.dir = directory
        hosts = {name: f"127.77.0.{i}" for i, name in enumerate(NAMES, 1)}
        self.pcs = [Pc(directory, name, hosts) for name in NAMES]
        self.pc1, self.pc2, self.pc3 = self.pcs
        self.mount_at = self.pc3.home / "data"
        self.mount_at.mkdir()
        self.files = {}

    @property
    def mount(self):
        return self.pc3.inside(self.mount_at)

    def token(self, at, *words):
        said = at.stria("token", "make", *words)
        return next(line for line in said.splitlines() if line.startswith("stria-join:")) + "\n"

    def members(self, at):
        return at.json("meta", "status")

    def wait_members(self, at, what, condition):
        def well():
            status = self.members(at)
            return status.get("members") and condition(status) and status
        try:
            return wait_for(what, well, WAIT_S)
        except AssertionError as e:
            raise AssertionError(f"{e}; {self.members(at)}") from e

    def wait_in_sync(self, at, *names):
        return self.wait_members(at, f"{' and '.join(names)} are in sync", lambda s: s["in_sync"] == sorted(names) and serves(s))

    def wait_primary(self, at, name):
        return self.wait_members(at, f"{name} serves", lambda s: s["primary"] == name and serves(s))

    def write(self, name, size=300_000):
        self.files[name] = write_file(self.mount, name, size)

    def verify(self):
        for name, (size, digest) in self.files.items():
            path = self.mount / name
            assert path.stat().st_size == size and digest_of_file(path) == digest, f"{name} has other bytes than were written"

    def etcd_answers(self):
        for pc in self.pcs:
            try:
                with HERE_ONLY.open(f"http://{pc.address}:{ETCD_PORT}/health", timeout=5) as answer:
                    if json.load(answer).get("health") != "true":
                        return False
            except (urllib.error.URLError, OSError):
                return False
        return True

    def start_etcd(self):
        for pc in self.pcs:
            pc.start_etcd()
        wait_for("etcd answers", self.etcd_answers, WAIT_S)

    def end_all(self):
        with contextlib.suppress(subprocess.SubprocessError):
            subprocess.run(self.pc3.enter("umount", "-l", self.mount_at), capture_output=True, check=False, timeout=10)
        for pc in self.pcs:
            for program in ("stria-mount", *PROGRAMS):
                if pid := pc.pid_of(program):
                    os.kill(pid, signal.SIGKILL)
            for process in pc.servers.values():
                process.kill()
            pc.holder.kill()


def serves(status):
    return any(m["name"] == status["primary"] and m["role"] == "primary" for m in status["members"])


def start_command(said):
    """The line by which stria says how a server is started where systemd does not run."""
    return shlex.split(next(line for line in said.splitlines() if "runuser -u stria" in line))


# ---- The steps ----


def one_server(room):
    """"Installing", as far as it is needed."""
    pc1 = room.pc1
    said = pc1.stria("cluster", "init", "--layout", "raid1:2")
    pc1.start("stria-meta", start_command(said))
    wait_for("it serves", lambda: "nodes" in pc1.json("status"), WAIT_S)
    for pc in room.pcs:
        pc.inside("/srv/d1").mkdir()
        said = pc.stria("join", "-", "--disk", "/srv/d1", "--force", text=room.token(pc1, "--role", "data"))
        pc.start("stria-data", start_command(said))
    wait_for("three nodes are up", lambda: [n["state"] for n in pc1.json("status").get("nodes", [])] == ["up"] * 3, WAIT_S)
    room.pc3.stria("join", "-", text=room.token(pc1, "--role", "client", "--trusted-root"))
    done = room.pc3.run("mount", "-t", "fuse.stria", "pc1:/", room.mount_at)
    assert done.returncode == 0, done.stdout
    room.write("before")
    say("one metadata server, three data servers, a mount")


def keep_open(path, told):
    """In a process of its own: whoever starts commands would wait for the server before they run (stria_cluster.write_file)."""
    with open(path, "wb", buffering=0) as held:
        held.write(b"before")
        os.fsync(held.fileno())
        told.send("open")
        told.recv()
        held.write(b", and after")
        os.fsync(held.fileno())


def the_first(room):
    pc1 = room.pc1
    two = pc1.stria("cluster", "init", "--etcd", "pc1,pc2", ok=range(1, 255))
    assert "Add a third voter" in two, two
    room.start_etcd()
    ours, its = multiprocessing.Pipe()
    held = multiprocessing.Process(target=keep_open, args=(room.mount / "open all the time", its), daemon=True)
    held.start()
    assert ours.poll(WAIT_S) and ours.recv() == "open"
    said = pc1.stria("cluster", "init", "--etcd", ",".join(NAMES))
    assert "[ha] member" in said and "stria token make --role meta" in said, said
    pc1.end("stria-meta")
    command = start_command(said)
    assert command[-1] == "--ha-init", command
    pc1.start("stria-meta", command)
    room.wait_in_sync(pc1, "pc1")
    ours.send("go on")
    held.join(WAIT_S)
    assert held.exitcode == 0, "who had a file open lost it"
    assert (room.mount / "open all the time").read_bytes() == b"before, and after"
    room.verify()
    pc1.stria("meta", "status")
    say("pc1 is the first of several; the open file went on")


def one_more(room):
    said = room.pc2.stria("join", "-", text=room.token(room.pc1, "--role", "meta", "--name", "pc2", "--ttl", "10min"))
    command = start_command(said)
    assert command[-1] == "--join", command
    room.pc2.start("stria-meta", command)
    room.wait_in_sync(room.pc1, "pc1", "pc2")
    room.pc1.stria("meta", "status")
    again = room.pc2.stria("meta", "join", "pc2", "--address", "pc2", ok=range(1, 255))
    assert "already" in again, again
    say("pc2 has joined and is in sync")


def hand_over(room):
    said = room.pc1.stria("meta", "promote", "pc2")
    assert "pc2 is primary, in term" in said, said
    room.wait_primary(room.pc2, "pc2")
    room.write("after the place was handed over")
    copied = room.pc1.run("sh", "-c", ROOT_BECOMES_ADMIN)
    assert copied.returncode == 0, copied.stdout
    room.pc1.stria("status", ok=(0, 1, 2))
    say("pc2 serves")


def one_is_lost(room):
    room.wait_in_sync(room.pc1, "pc1", "pc2")
    room.pc2.end("stria-meta", signal.SIGKILL)
    room.wait_primary(room.pc1, "pc1")
    room.write("after pc2 was killed")
    said = room.pc1.stria("meta", "status", ok=(1,))
    assert "only one copy is left" in said, said
    room.pc2.start_meta("--join")
    room.wait_in_sync(room.pc1, "pc1", "pc2")
    say("pc1 took over; pc2 came back by itself")


def join_again(pc):
    """One that is not among them, with a directory that has been."""
    logged = pc.logged()
    pc.start_meta("--join")
    wait_for("it says that it is none of them", lambda: pc.says_since(logged, "is none of the metadata servers"), WAIT_S)
    said = pc.stria("meta", "join", pc.name, "--address", pc.name)
    assert f"{pc.name} is a metadata server now" in said, said


def replace_one(room):
    refused = room.pc1.stria("meta", "remove", "pc2", ok=range(1, 255))
    assert "is in sync: stop its stria-meta first" in refused, refused
    room.pc2.end("stria-meta")
    room.wait_in_sync(room.pc1, "pc1")
    # What it has is not served alone, by whatever mistake.
    alone = room.pc2.inside("/etc/stria/alone.toml")
    alone.write_text(re.sub(r"\n\[ha\].*", "\n", room.pc2.inside("/etc/stria/meta.toml").read_text(), flags=re.S))
    refused = room.pc2.refused(room.pc2.home / "bin/stria-meta", "--config", "/etc/stria/alone.toml")
    assert "second cluster of the same files" in refused, refused
    said = room.pc1.stria("meta", "remove", "pc2")
    assert "pc2 is removed" in said, said
    room.pc1.stria("meta", "status")
    # It is none of them any more, and does not become one by itself; by a person it does.
    join_again(room.pc2)
    room.wait_in_sync(room.pc1, "pc1", "pc2")
    say("pc2 was removed, and has joined again")


def etcd_is_away(room):
    for pc in room.pcs:
        pc.end_etcd()
    room.wait_members(room.pc1, "it is missed", lambda s: not any(m["coordinator"] for m in s["members"]))
    room.write("while etcd was away")
    said = room.pc1.stria("meta", "status", ok=(1,))
    assert "nobody could take over" in said, said
    assert room.pc1.stria("meta", "promote", "pc2", ok=range(1, 255))
    say("etcd is away, and everything goes on")


def etcd_lost_everything(room):
    for pc in room.pcs:
        shutil.rmtree(pc.inside("/var/lib/etcd"))
    room.start_etcd()
    room.wait_members(room.pc1, "they know that it has nothing", lambda s: all("has nothing of these" in m["coordinator_problem"] for m in s["members"]))
    room.write("while etcd knew nothing")
    room.pc1.stria("meta", "status", ok=(1,))
    room.pc2.end("stria-meta")
    room.pc1.end("stria-meta")
    at = {}
    for pc in (room.pc1, room.pc2):
        refused = pc.refused(pc.home / "bin/stria-meta", "--config", "/etc/stria/meta.toml", "--ha-init")
        found = re.search(r"is of term (\d+), batch (\d+)", refused)
        assert found, refused
        at[pc] = tuple(map(int, found.groups()))
    latest, other = sorted(at, key=at.get, reverse=True)
    latest.start_meta("--ha-init", "--adopt")
    room.wait_in_sync(latest, latest.name)
    join_again(other)
    room.wait_in_sync(latest, "pc1", "pc2")
    room.verify()
    latest.stria("meta", "status")
    say(f"etcd is new, and has the metadata servers again, by {latest.name}")


def all_in_sync_are_lost(room):
    primary = room.members(room.pc1)["primary"]
    lost, left = (room.pc1, room.pc2) if primary == "pc1" else (room.pc2, room.pc1)
    left.end("stria-meta")
    room.wait_in_sync(lost, lost.name)
    (room.mount / "nobody else has this").mkdir()
    directory = os.open(room.mount, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
    done = room.pc3.run("umount", room.mount_at)
    assert done.returncode == 0, done.stdout
    lost.end("stria-meta", signal.SIGKILL)
    left.start_meta("--join")
    room.wait_members(left, f"{lost.name} is missed", lambda s: s["in_sync"] == [lost.name] and not serves(s))
    for words, says in ((["promote", left.name], "is not in sync"), (["promote", left.name, "--lose", "pc3"], "the two names differ")):
        refused = left.stria("meta", *words, ok=range(1, 255))
        assert says in refused, refused
    left.stria("meta", "promote", left.name, "--lose", left.name, "--dry-run")
    said = left.stria("meta", "promote", left.name, "--lose", left.name)
    assert f"{left.name} becomes primary" in said, said
    room.wait_primary(left, left.name)
    left.stria("meta", "remove", lost.name)
    left.stria("meta", "status")
    done = room.pc3.run("mount", "-t", "fuse.stria", f"{left.name}:/", room.mount_at)
    assert done.returncode == 0, done.stdout
    room.verify()
    assert not (room.mount / "nobody else has this").exists(), "what only the lost one had is there"
    room.write("after the loss")
    wait_for("fsck is clean", lambda: left.run(left.home / "bin/stria", "fsck").returncode == 0, WAIT_S, 1)
    left.stria("fsck")
    say(f"{left.name} serves without what only {lost.name} had, which is said")
    return left


def alone_again(room, last):
    last.end("stria-meta")
    done = last.run("runuser", "-u", "stria", "--", last.home / "bin/stria-meta", "--config", "/etc/stria/meta.toml", "--ha-leave")
    print(f"{last.name}# stria-meta --config /etc/stria/meta.toml --ha-leave\n{done.stdout}", end="", flush=True)
    assert done.returncode == 0, done.stdout
    settings = last.inside("/etc/stria/meta.toml")
    settings.write_text(re.sub(r"\n\[ha\].*", "\n", settings.read_text(), flags=re.S))
    last.start_meta()
    wait_for("it serves", lambda: "nodes" in last.json("status"), WAIT_S)
    room.verify()
    said = last.stria("status", ok=(0, 1, 2))
    assert "metas:" not in said, said
    say(f"{last.name} is alone again")


def scenario(directory):
    room = Room(directory)
    try:
        one_server(room)
        the_first(room)
        one_more(room)
        hand_over(room)
        one_is_lost(room)
        replace_one(room)
        etcd_is_away(room)
        etcd_lost_everything(room)
        alone_again(room, all_in_sync_are_lost(room))
    except BaseException:
        for pc in room.pcs:
            print(f"---- servers of {pc.name}\n{pc.log_tail()}", flush=True)
        raise
    finally:
        room.end_all()


class Built(Cluster):
    """Knows where programs are built; starts nothing."""

    def __init__(self):
        self.stria_path = find_stria()


def everything():
    missing = [program for program in ("etcd", "nsenter", "runuser", "ip") if shutil.which(program) is None]
    if missing:
        sys.exit(f"{missing[0]} is not installed; see tools/packages.txt")
    if os.geteuid() != 0:
        return say("skipped: PCs are set up by root")
    enter_namespaces()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="stria-test-", dir=os.environ.get("STRIA_TEST_DIR", "/var/tmp")))
    directory.chmod(0o755)  # servers run as another user
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    (directory / "bin").mkdir()
    for program in PROGRAMS:
        source = find_stria() if program == "stria" else Built().program(program)
        shutil.copy(source, directory / "bin" / program)
        (directory / "bin" / program).chmod(0o755)
    began = time.monotonic()
    scenario(directory)
    say(f"the steps took {time.monotonic() - began:.0f} s")


if len(sys.argv) > 1:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    be_pc(json.loads(sys.argv[1]))
else:
    main(everything)
