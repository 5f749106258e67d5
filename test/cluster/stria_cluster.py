"""A real cluster on this machine for scenario tests: daemons, kernel mounts, kill -9.

    with Cluster(nodes=5, layout="raid5:4+1") as c:
        data = c.write("dir/file", 1 << 20)
        c.kill("n3")
        c.fresh_mount()
        c.verify()

Everything goes through `stria dev` and the mount, as a user's would. Bytes come from seeds, so that nothing
but (name, size, seed) must be remembered. Leaving the block stops everything, fails if a process or a mount
is left, and removes the data; after a failure the ends of the logs are printed.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
BLOCK = 1 * MIB
CHUNK = 4 * MIB
SIZES = [0, 1, 4096, 4097, MIB - 1, 100 * MIB + 3]
if os.environ.get("STRIA_TEST_BIG"):
    SIZES.append(2048 * MIB)
COMMAND_S = 180
LOG_TAIL_LINES = 40
REST_POLLS = 8


def find_stria():
    here = pathlib.Path(__file__).absolute().parents[2]
    for path in (os.environ.get("STRIA"), here / "tools/stria", here / "bazel-bin/tools/stria"):
        if path and pathlib.Path(path).exists():
            return str(path)
    sys.exit("there is no bazel-bin/tools/stria; run ./tools/build")


def say(text):
    print(f"[{time.monotonic() - _BEGAN:6.1f} s] {text}", flush=True)


_BEGAN = time.monotonic()


def chunks_of(size, seed):
    """The bytes of a file, in pieces: one random block, turned a little further each time (that is fast)."""
    block = random.Random(seed).randbytes(min(size, BLOCK))
    turn = 0
    while size > 0:
        piece = (block[turn:] + block[:turn])[:size]
        yield piece
        size -= len(piece)
        turn = (turn + 4099) % BLOCK


def digest_of_file(path):
    h = hashlib.sha256()
    with open(path, "rb", buffering=0) as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while piece := f.read(CHUNK):
            h.update(piece)
    return h.hexdigest()


def wait_for(what, condition, timeout_s, poll_s=0.2):
    """Gives what the condition gave when it was true."""
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(poll_s)
    return value


def write_file(mount, name, size, sync=True, counter=None):
    """Writes a file of seeded bytes; gives (size, digest) when it was acknowledged. `counter`: a shared number
    of bytes written. Whoever writes while other commands run should do so in another process: a command that
    is started inherits open files, and closing them in the child waits until they are flushed."""
    path = mount / name
    path.parent.mkdir(parents=True, exist_ok=True)
    h = hashlib.sha256()
    with open(path, "wb", buffering=0) as f:
        for piece in chunks_of(size, f"{name} {size}"):
            h.update(piece)
            view = memoryview(piece)
            while view:
                view = view[f.write(view):]
            if counter is not None:
                with counter.get_lock():
                    counter.value += len(piece)
        if sync:
            os.fsync(f.fileno())
    return size, h.hexdigest()


def is_running(pid):
    if pid <= 0:
        return False
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return False
    # The first thread may be dead while others still finish what they read or write, and hold files and locks.
    return stat[0] not in "ZX" or int(stat[17]) > 1


class Cluster:
    def __init__(self, nodes=5, disks=2, layout=None, insecure=False, metas=1, settings=None):
        """`insecure`: without certificates, for tests of programs that they start themselves and that have none. `metas`: with several, the
        metadata servers are meta1 .., and etcd1 .. run, too. `settings`: TOML for the one metadata server, with each of its starts."""
        self.stria_path = find_stria()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="stria-test-", dir=os.environ.get("STRIA_TEST_DIR", "/var/tmp")))
        self.cluster = self.dir / "cluster"
        self.mount = self.dir / "mnt"
        self.shape = (nodes, disks, layout)
        self.insecure = insecure
        self.metas = metas
        self.admin = None     # an admin's certificate, if not the one that `stria dev` has made
        self.programs = None  # where `stria dev` finds the daemons, if not where they were built
        if settings is not None:
            assert metas == 1, "several metadata servers have settings already"
            self.use_settings(settings)
        self.own = {}  # name -> process of a node that was started with other arguments
        self.files = {}  # name -> (size, digest): what was acknowledged

    # ---- Life ----

    def __enter__(self):
        owner = os.getpid()

        def told_to_stop(*_):
            # Processes forked from this one inherit the handler; the cluster is not theirs, and what they raise may be
            # swallowed wherever they are (a pool's worker that is told just after its fork would never end).
            if os.getpid() != owner:
                os._exit(1)
            sys.exit("told to stop (timeout?)")

        signal.signal(signal.SIGTERM, told_to_stop)
        nodes, disks, layout = self.shape
        try:
            self.stria("dev", "up", "--dir", self.cluster, "--nodes", nodes, "--disks", disks, "--mount", self.mount,
                       *(["--layout", layout] if layout else []), *(["--insecure"] if self.insecure else []),
                       *(["--metas", self.metas] if self.metas > 1 else []))
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        say(f"{nodes} nodes with {disks} disks, {layout or 'default layout'}, at {self.mount}")
        return self

    def use_settings(self, settings):
        """`stria dev` has no option for settings of the metadata server: it starts this program, which becomes that."""
        self.programs = self.dir / "programs"
        self.programs.mkdir()
        for name in ("stria-data", "stria-mount"):
            (self.programs / name).symlink_to(self.program(name).resolve())
        (self.dir / "meta.toml").write_text(settings)
        meta = self.programs / "stria-meta"
        meta.write_text(f'#!/bin/sh\nexec "{self.program("stria-meta").resolve()}" "$@" --config "{self.dir}/meta.toml"\n')
        meta.chmod(0o755)

    def __exit__(self, kind, value, trace):
        processes = []
        with contextlib.suppress(Exception):
            processes = self.processes()
        for name in list(self.own):
            self.end_own(name)
        down = self.stria("dev", "down", "--dir", self.cluster, check=False) if processes else None
        left = [p["name"] for p in processes if is_running(p["pid"])]
        mounts = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
                  if str(self.dir) in line]
        if kind is not None:
            self.print_logs()
        # What is set for the allocator and it does not know, it tells on stderr of whoever starts a program.
        unknown = [line for log in self.cluster.glob("log/*.log") for line in log.read_text(errors="replace").splitlines()
                   if "<jemalloc>" in line]
        for path in mounts:
            subprocess.run(["umount", "-l", path], check=False)
        shutil.rmtree(self.dir, ignore_errors=True)
        if kind is None:
            assert down is None or down.returncode == 0, f"dev down failed: {down.stderr}"
            assert not left, f"these processes were left behind: {left}"
            assert not mounts, f"these mounts were left behind: {mounts}"
            assert not unknown, f"the allocator complains: {unknown[0]}"
            say("stopped; nothing is left behind")

    def print_logs(self):
        for log in sorted(self.cluster.glob("log/*.log")):
            lines = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
            print(f"---- {log.name}", *lines, sep="\n", flush=True)

    # ---- Commands ----

    def stria(self, *args, check=True, timeout=COMMAND_S, environment=()):
        environment = {**os.environ, **{name: str(value) for name, value in dict(environment).items()}}
        if self.programs:
            environment["STRIA_BIN_DIR"] = str(self.programs)
        if (self.cluster / "cluster.json").exists():
            known = json.loads((self.cluster / "cluster.json").read_text())
            environment["STRIA_META"] = known["meta"]
            environment["STRIA_TRUST"] = str(self.admin or known.get("trust", "off"))
        done = subprocess.run([self.stria_path, *map(str, args)], env=environment, encoding="utf-8",
                              errors="surrogateescape", capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=timeout)
        if check and done.returncode != 0:
            raise AssertionError(f"stria {' '.join(map(str, args))} gave {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def program(self, name):
        """One of the daemons, as `stria dev` starts them."""
        stria = pathlib.Path(self.stria_path)
        built = {"stria-mount": "client/fuse", "stria-meta": "meta", "stria-data": "server", "stria-web": "tools/web"}[name]
        places = [pathlib.Path(os.environ.get("STRIA_BIN_DIR", stria.parent))]
        places += [s.parent.parent / built for s in (stria, stria.resolve())]
        return next(p / name for p in [*places, stria.resolve().parent] if (p / name).exists())

    def mount_trust(self):
        """For a stria-mount that a test starts itself."""
        return ["--insecure"] if self.insecure else ["--trust", self.cluster / "trust/mount"]

    def lose_metadata(self):
        """Deletes all that the metadata server had but what an admin has a copy of: the authority is not in its backup."""
        data = self.cluster / "meta"
        if self.insecure:
            return shutil.rmtree(data)
        shutil.move(data / "trust", self.dir / "trust")
        shutil.rmtree(data)
        data.mkdir()
        shutil.move(self.dir / "trust", data / "trust")

    def is_lost(self):
        data = self.cluster / "meta"
        return not data.exists() or os.listdir(data) == ["trust"]

    def processes(self):
        return json.loads((self.cluster / "cluster.json").read_text())["processes"]

    def nodes(self):
        return [p["name"] for p in self.processes() if p["kind"] == "node"]

    def kill(self, name):
        self.stria("dev", "kill", name, "--dir", self.cluster)

    def start(self, name, **environment):
        """`environment` is added to its own."""
        self.stria("dev", "start", name, "--dir", self.cluster, environment=environment)

    def start_all(self):
        """What does not run of the cluster and its mount: the nodes at once."""
        self.stria("dev", "up", "--dir", self.cluster, "--nodes", self.shape[0])

    def arguments(self, name):
        """The command line of a process that runs."""
        pid = next(p["pid"] for p in self.processes() if p["name"] == name)
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]

    def start_with(self, name, arguments, await_up=True):
        """Starts a node (that does not run) with other arguments than `stria dev` gives it."""
        path = self.cluster / "log" / f"{name}.log"
        with open(path, "ab") as log:
            before = log.tell()
            self.own[name] = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if await_up:  # a node that was killed counts as up for a while, as it was registered before
            wait_for(f"{name} is registered", lambda: b"registered as node" in path.read_bytes()[before:], 60)
            wait_for(f"{name} is up", lambda: self.node(name)["state"] == "up", 60)

    def end_own(self, name):
        """Kills a node of start_with."""
        process = self.own.pop(name)
        process.kill()
        process.wait(60)

    def status(self):
        return json.loads(self.stria("status", "--json", check=False).stdout)

    def members(self):
        """What `stria meta status` says of several metadata servers; {} if nobody answers."""
        done = self.stria("meta", "status", "--json", check=False)
        with contextlib.suppress(ValueError):
            return json.loads(done.stdout)
        return {}

    def node(self, name):
        return next((n for n in self.status().get("nodes", []) if n["name"] == name), {"state": ""})

    def disk(self, name):
        return next((d for d in self.status().get("disks", []) if d["name"] == name), {})

    def rebuilds(self):
        return self.status().get("rebuilds", [])

    def rebuild(self, disk):
        """What `stria rebuild ls` says of one disk; {} if nothing."""
        return next((r for r in self.rebuilds() if r["target"] == disk), {})

    def wait_rebuild_rests(self, disk, timeout_s=60):
        """Waits until nothing more is reported for a rebuild that was paused: what runs is finished."""
        last = []

        def rests():
            last.append(self.rebuild(disk))
            return len(last) > REST_POLLS and all(r == last[-1] for r in last[-REST_POLLS:]) and last[-1]
        return wait_for(f"the rebuild of {disk} rests", rests, timeout_s, 0.5)

    def give_up(self, name):
        """The node dies, and the admin does not wait for the grace period."""
        self.kill(name)
        wait_for(f"{name} is missed", lambda: self.node(name)["state"] in ("suspect", "down"), 30)
        self.stria("node", "out", name)

    def shard_files(self, node):
        """Raw shard files on its disks."""
        return [p for p in self.cluster.glob(f"{node}/d*/shards/*/*") if p.is_file()]

    def wait_whole(self, timeout_s=120):
        def whole():
            s = self.status()
            return "error" not in s and s["degraded_stripes"] == 0 and s["lost_stripes"] == 0
        wait_for("every stripe has all its columns", whole, timeout_s)

    def wait_well(self, timeout_s=60):
        """Until status finds nothing unhealthy, but for how full the disk of the machine is that the test runs on."""
        end = time.monotonic() + timeout_s
        while wrong := [f["what"] for f in self.status()["findings"] if f["severity"] != "HEALTHY" and "% full" not in f["what"]]:
            assert time.monotonic() < end, f"not well within {timeout_s} s: {wrong}"
            time.sleep(0.2)

    def fsck(self):
        done = self.stria("fsck", check=False)
        assert done.returncode == 0, f"fsck found problems:\n{done.stdout}{done.stderr}"
        say(done.stdout.strip())

    def fresh_mount(self):
        """Mounts anew, so that nothing comes from a cache of the client or the kernel."""
        pid = next(p["pid"] for p in self.processes() if p["name"] == "mount")
        subprocess.run(["umount", self.mount], check=True, timeout=COMMAND_S)
        wait_for("the old mount's process ends", lambda: not is_running(pid), 60, 0.05)
        self.start("mount")

    # ---- Files ----

    def write(self, name, size):
        """Writes a file of seeded bytes; remembered once it was acknowledged."""
        self.files[name] = write_file(self.mount, name, size)

    def verify(self, names=None):
        for name in names or sorted(self.files):
            size, digest = self.files[name]
            path = self.mount / name
            assert path.stat().st_size == size, f"{name} has {path.stat().st_size} bytes, not {size}"
            assert digest_of_file(path) == digest, f"{name} ({size} bytes) has other bytes than were written"


def main(scenario):
    """Runs it, or says why it cannot run here."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        sys.exit("there is no /dev/fuse that can be used here")
    scenario()
    say("passed")
