"""The systems: each is a context manager that gives a mount point, starts its daemons in a place of its
own (peers in a network namespace) and leaves nothing behind.

Everything a system keeps lies below `place`, so that `--on tmpfs` holds for all of them."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time

from tidy import end_with_parent, note_namespace, pids_in

NODES = 5
GIB = 1 << 30


def run(*args, check=True, **kwargs):
    kwargs.setdefault("stdout", subprocess.PIPE)
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    kwargs.setdefault("preexec_fn", end_with_parent)
    done = subprocess.run([str(a) for a in args], text=True, stderr=subprocess.STDOUT, **kwargs)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(str(a) for a in args)}: {(done.stdout or '').strip()[-2000:]}")
    return done


def wait_for(what, condition, seconds=30):
    """Polls until `condition()` is true; its last exception, if any, is told."""
    last = None
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (RuntimeError, OSError) as e:
            last = e
        time.sleep(0.2)
    raise RuntimeError(f"{what} did not happen in {seconds} s" + (f": {last}" if last else ""))


def garbage_shards(status):
    """Of `stria status --json`; 0 if that is no answer."""
    try:
        return json.loads(status).get("garbage_shards", 0)
    except (json.JSONDecodeError, AttributeError):
        return 0


class System:
    name = ""
    needs = []  # programs

    def __init__(self, place):
        self.place = place

    def missing(self):
        return [p for p in self.needs if not shutil.which(p)]

    @contextlib.contextmanager
    def mounted(self):
        self.place.mkdir(parents=True)
        try:
            yield self.start()
        finally:
            self.stop()
            shutil.rmtree(self.place, ignore_errors=True)

    def start(self):
        raise NotImplementedError

    def stop(self):
        pass

    def processes(self):
        """{name: pid} of daemons and mount, for their memory."""
        return {}

    def lose_a_node(self):
        """Kills one data server; False if this system has none to lose."""
        return False

    def left_to_do(self):
        """How much ordered work it has yet to do: shards, files to be deleted. 0 also if it cannot be asked."""
        return 0

    def files_to_read(self, paths):
        """The paths that a reader opens to read these files' bytes."""
        return paths


class Plain(System):
    """The disk itself: a directory."""

    name = "plain"

    def start(self):
        return self.place


class EmptyFuse(System):
    """A FUSE filesystem with nothing behind it (empty_fuse.cc): the ceiling that the kernel leaves."""

    name = "empty FUSE"
    program = pathlib.Path(__file__).resolve().parents[2] / "bazel-bin/tools/bench/empty_fuse"
    server = None

    def missing(self):
        if os.access(self.program, os.X_OK):
            return []
        return [f"{self.program} (run bazel build --config=opt //tools/bench:empty_fuse)"]

    def start(self):
        mount = self.place / "mnt"
        mount.mkdir()
        self.server = subprocess.Popen([self.program, mount], stdin=subprocess.DEVNULL)
        wait_for("the mount of empty_fuse", lambda: os.path.ismount(mount))
        return mount

    def stop(self):
        run("umount", self.place / "mnt", check=False)
        if self.server:
            self.server.terminate()  # if it was never mounted, or could not be unmounted
            self.server.wait(timeout=10)
            self.server = None


class Btrfs(System):
    """The kernel's RAID-5 over five loop devices: the same redundancy without a network."""

    name = "btrfs raid5"
    needs = ["mkfs.btrfs", "losetup"]

    def __init__(self, place, device_bytes):
        super().__init__(place)
        self.device_bytes = device_bytes
        self.devices = []

    def start(self):
        mount = self.place / "mnt"
        mount.mkdir()
        for i in range(NODES):
            image = self.place / f"disk{i}"
            with open(image, "wb") as f:
                f.truncate(self.device_bytes)
            self.devices.append(run("losetup", "--find", "--show", image).stdout.strip())
        run("mkfs.btrfs", "-q", "-f", "-d", "raid5", "-m", "raid1", *self.devices)
        run("btrfs", "device", "scan", *self.devices)
        run("mount", "-t", "btrfs", self.devices[0], mount)
        return mount

    def stop(self):
        run("umount", self.place / "mnt", check=False)
        for device in self.devices:
            run("btrfs", "device", "scan", "--forget", device, check=False)
            run("losetup", "-d", device, check=False)
        self.devices = []


class Stria(System):
    """Five nodes with one disk each, 4+1, as `stria dev up` makes them."""

    name = "stria 4+1"
    nodes = NODES
    insecure = False

    def __init__(self, place, stria, name=None, data_security=None):
        super().__init__(place)
        self.stria = stria
        self.data_security = data_security
        if name:
            self.name = name

    def missing(self):
        return [] if os.access(self.stria, os.X_OK) else [f"{self.stria} (run tools/build)"]

    def start(self):
        mount = self.place / "mnt"
        mount.mkdir()
        security = ["--insecure"] if self.insecure else ["--data-security", self.data_security] if self.data_security else []
        run(self.stria, "dev", "up", "--dir", self.place / "cluster", "--nodes", self.nodes, "--disks", 1, "--mount", mount,
            "--layout", "raid5:4+1", *security)
        known = json.loads((self.place / "cluster" / "cluster.json").read_text())
        os.environ["STRIA_TRUST"] = known.get("trust", "off")  # of the commands that follow
        return mount

    def stop(self):
        run(self.stria, "dev", "down", "--dir", self.place / "cluster", check=False)

    def processes(self):
        info = json.loads((self.place / "cluster" / "cluster.json").read_text())
        return {p["name"]: p["pid"] for p in info["processes"] if p.get("pid")}

    def left_to_do(self):
        meta = json.loads((self.place / "cluster" / "cluster.json").read_text())["meta"]
        told = run(self.stria, "status", "--json", "--meta", meta, check=False)  # its exit code says how the cluster is
        return garbage_shards(told.stdout)

    def lose_a_node(self):
        run(self.stria, "dev", "kill", "n3", "--dir", self.place / "cluster")
        return True


class StriaInsecure(Stria):
    """The same without certificates and encryption: what these cost."""

    name = "stria, insecure"
    insecure = True


class StriaLocal(Stria):
    """The same; files lie on the mount's own node, with a copy elsewhere: reads need no network."""

    name = "stria, all local"

    def start(self):
        mount = super().start()
        run(self.stria, "layout", "set", mount, "raid5:4+1,arrange=gathered,unit=64M", "--place", "local")
        return mount


class StriaThrough(StriaLocal):
    """The same, where the kernel reads files that are one shard by itself."""

    name = "stria, passthrough"

    def start(self):
        super().start()
        through = self.place / "through"
        through.mkdir()
        run(self.stria, "dev", "mount", "--dir", self.place / "cluster", "--at", through, "--node", "n1", "-o", "passthrough")
        return through


class StriaShards(StriaLocal):
    """The same bytes without a mount: written as above, read from the files of the mount's own data server. That is the
    disk's rate for exactly those blocks; files that were written in another way may lie better or worse."""

    name = "its shards, plain"

    def files_to_read(self, paths):
        size = paths[0].stat().st_size
        shards = [p for p in (self.place / "cluster" / "n1").glob("d*/shards/*/*") if p.stat().st_size == size]
        if len(shards) != len(paths):
            raise RuntimeError(f"{len(paths)} files were written, {len(shards)} shards of their size lie on n1")
        return shards


class Networked(System):
    """Daemons and client in a network namespace of their own."""

    address = "10.91.0.1"  # exists in the namespace only; peers refuse 127.0.0.1

    @property
    def namespace(self):
        return f"stria-bench-{self.place.name}"

    def make_network(self):
        note_namespace(self.place, self.namespace)
        run("ip", "netns", "add", self.namespace)
        self.enter("ip", "link", "set", "lo", "up")
        self.enter("ip", "addr", "add", f"{self.address}/32", "dev", "lo")

    def enter(self, *args, **kwargs):
        """Keeps this process' mounts, so that it sees the peers' (`ip netns exec` would hide them)."""
        return run("nsenter", f"--net=/run/netns/{self.namespace}", *args, **kwargs)

    def pids(self):
        return pids_in(self.namespace)

    def stop(self):
        run("umount", "-l", self.place / "mnt", check=False)
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        with contextlib.suppress(RuntimeError):
            wait_for("the end of the daemons", lambda: not self.pids(), 10)
        run("ip", "netns", "del", self.namespace, check=False)

    def processes(self):
        names = {}
        for pid in self.pids():
            with contextlib.suppress(OSError):
                name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
                names[f"{name}-{pid}"] = pid
        return names


class Gluster(Networked):
    """Five bricks, disperse 4+1, FUSE client."""

    name = "gluster 4+1"
    needs = ["glusterd", "glusterfs", "gluster", "nsenter", "ip"]

    def start(self):
        mount, state = self.place / "mnt", self.place / "state"
        mount.mkdir()
        self.make_network()
        # glusterd keeps its state under /var/lib and /var/run: it gets its own for this run.
        homes = {"lib": "/var/lib/glusterd", "run": "/var/run/gluster", "log": "/var/log/glusterfs"}
        script = "".join(f"mkdir -p {state}/{ours} {theirs}; mount --bind {state}/{ours} {theirs}; "
                         for ours, theirs in homes.items())
        self.daemon = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "-m", "--propagation", "private", "sh", "-c",
             script + "exec glusterd -N -L WARNING"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        bricks = []
        for i in range(NODES):
            brick = self.place / f"brick{i}"
            brick.mkdir()
            bricks.append(f"{self.address}:{brick}")
        wait_for("a gluster volume", lambda: self.gluster("volume", "create", "bench", "disperse", NODES, "redundancy", 1,
                                                          *bricks, "force"))
        wait_for("the start of the volume", lambda: self.gluster("volume", "start", "bench"))
        self.enter("glusterfs", f"--volfile-server={self.address}", "--volfile-id=bench", mount)
        wait_for("the gluster mount", lambda: os.path.ismount(mount))
        # Mounted is not yet connected to all bricks.
        wait_for("a first file", lambda: (mount / ".first").write_bytes(b"x") == 1)
        (mount / ".first").unlink()
        return mount

    def gluster(self, *args):
        inside = [str(a) for a in args]
        done = run("nsenter", "-t", self.glusterd_pid(), "-n", "-m", "gluster", "--mode=script", *inside, check=False)
        if done.returncode != 0 and "already" not in done.stdout:
            raise RuntimeError(f"gluster {' '.join(inside)}: {done.stdout.strip()}")
        return True

    def glusterd_pid(self):
        for pid in self.pids():
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "glusterd":
                return pid
        raise RuntimeError("glusterd is not running")

    def stop(self):
        super().stop()
        if getattr(self, "daemon", None):
            self.daemon.wait()

    def lose_a_node(self):
        for pid in self.pids():
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            if command.startswith(b"/usr/sbin/glusterfsd") and b"brick2" in command:
                os.kill(pid, 9)
                return True
        raise RuntimeError("no brick to kill")


class MooseFs(Networked):
    """Five chunkservers, two copies of everything (its community edition has no parity), FUSE client.
    Its chunkservers do not sync what they store unless told to: here they are (HDD_FSYNC_BEFORE_CLOSE)."""

    name = "moosefs x2"
    needs = ["mfsmaster", "mfschunkserver", "mfsmount", "mfssetgoal", "nsenter", "ip"]
    empty_metadata = pathlib.Path("/var/lib/mfs/metadata.mfs.empty")

    def missing(self):
        absent = super().missing()
        return absent if self.empty_metadata.exists() or absent else [str(self.empty_metadata)]

    def daemon(self, program, name, settings):
        home = self.place / name
        home.mkdir(exist_ok=True)
        settings = {"WORKING_USER": "root", "WORKING_GROUP": "root", "DATA_PATH": home, "SYSLOG_IDENT": name, **settings}
        config = self.place / f"{name}.cfg"
        config.write_text("".join(f"{k} = {v}\n" for k, v in settings.items()))
        self.enter(program, "-c", config, "start", stdout=subprocess.DEVNULL)

    def start(self):
        mount = self.place / "mnt"
        mount.mkdir()
        self.make_network()
        (self.place / "master").mkdir()
        shutil.copy(self.empty_metadata, self.place / "master" / "metadata.mfs")
        exports = self.place / "exports.cfg"
        exports.write_text("* / rw,alldirs,admin,maproot=0:0\n* . rw\n")
        topology = self.place / "topology.cfg"
        topology.write_text("")
        self.daemon("mfsmaster", "master", {"EXPORTS_FILENAME": exports, "TOPOLOGY_FILENAME": topology,
                                            "LICENCE_FILENAME": self.place / "none"})
        for i in range(NODES):
            disk = self.place / f"disk{i}"
            disk.mkdir()
            disks = self.place / f"disks{i}.cfg"
            disks.write_text(f"{disk}\n")
            self.daemon("mfschunkserver", f"chunk{i}", {
                "MASTER_HOST": self.address, "HDD_CONF_FILENAME": disks, "BIND_HOST": self.address,
                "CSSERV_LISTEN_HOST": self.address, "CSSERV_LISTEN_PORT": 9500 + i, "HDD_LEAVE_SPACE_DEFAULT": "64MiB",
                "HDD_FSYNC_BEFORE_CLOSE": 1, "MASTER_RECONNECTION_DELAY": 1})
        self.enter("mfsmount", mount, "-H", self.address, stdout=subprocess.DEVNULL)
        wait_for("the moosefs mount", lambda: os.path.ismount(mount))
        self.enter("mfssetgoal", "-r", 2, mount)

        def writes():
            (mount / ".first").write_bytes(b"x")
            return True

        wait_for("a first file", writes, 60)
        (mount / ".first").unlink()
        return mount

    def lose_a_node(self):
        for pid in self.pids():
            if b"chunk2.cfg" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, 9)
                return True
        raise RuntimeError("no chunkserver to kill")


def all_systems(base, stria, device_bytes, others=()):
    """By the name that --systems uses. `others`: NAME=STRIA, where STRIA is the command of another tree."""
    named = dict(other.split("=", 1) for other in others)
    return {
        **{name: Stria(base / name, pathlib.Path(path), name) for name, path in named.items()},
        "stria": Stria(base / "stria", stria),
        **{mode: Stria(base / mode, stria, f"stria, {mode}", mode) for mode in ("integrity", "auth")},
        "insecure": StriaInsecure(base / "insecure", stria),
        "local": StriaLocal(base / "local", stria),
        "through": StriaThrough(base / "through", stria),
        "shards": StriaShards(base / "shards", stria),
        "gluster": Gluster(base / "gluster"),
        "moosefs": MooseFs(base / "moosefs"),
        "empty": EmptyFuse(base / "empty"),
        "btrfs": Btrfs(base / "btrfs", device_bytes),
        "plain": Plain(base / "plain"),
    }
