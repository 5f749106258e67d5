"""Stria against its peers: the same work, on the same machine, in the same run.

Absolute figures of a shared machine mean little; ratios within one run do. Rounds take turns between
the systems, so that a slow minute hits all of them, and medians over rounds are compared.

Each system is a context manager that gives a mount point; it starts its daemons in a place of its own
(GlusterFS in a network namespace) and leaves nothing behind.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time

MIB = 1 << 20
ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*args, check=True, **kwargs):
    return subprocess.run([str(a) for a in args], check=check, text=True,
                          stdout=kwargs.pop("stdout", subprocess.PIPE),
                          stderr=subprocess.STDOUT, **kwargs)


def say(text):
    print(text, file=sys.stderr, flush=True)


def drop_caches():
    run("sync")
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")


class Plain:
    """The disk itself: a directory."""

    name = "plain disk"

    def __init__(self, place):
        self.place = place

    @contextlib.contextmanager
    def mounted(self):
        self.place.mkdir(parents=True)
        try:
            yield self.place
        finally:
            shutil.rmtree(self.place, ignore_errors=True)

    def forget_caches(self):
        pass

    def pids(self):
        return []


class Stria:
    """Five nodes with one disk each, 4+1, as `stria dev up` makes them."""

    name = "stria 4+1"

    def __init__(self, place, stria):
        self.place = place
        self.stria = stria

    @contextlib.contextmanager
    def mounted(self):
        self.place.mkdir(parents=True)
        cluster, mount = self.place / "cluster", self.place / "mnt"
        mount.mkdir()
        try:
            run(self.stria, "dev", "up", "--dir", cluster, "--nodes", 5, "--disks", 1, "--mount", mount,
                "--layout", "raid5:4+1", stdin=subprocess.DEVNULL)
            self.cluster = cluster
            yield mount
        finally:
            run(self.stria, "dev", "down", "--dir", cluster, check=False, stdin=subprocess.DEVNULL)
            shutil.rmtree(self.place, ignore_errors=True)

    def forget_caches(self):
        pass

    def pids(self):
        info = json.loads((self.cluster / "cluster.json").read_text())
        processes = info["processes"] if "processes" in info else info
        if isinstance(processes, dict):
            processes = list(processes.values())
        return [p["pid"] for p in processes if isinstance(p, dict) and p.get("pid")]


class Gluster:
    """Five bricks, disperse 4+1, FUSE client; daemons and client in one network namespace."""

    name = "gluster 4+1"
    namespace = "stria-bench-gluster"
    address = "10.91.0.1"

    def __init__(self, place):
        self.place = place

    def inside(self, *args, **kwargs):
        return run("ip", "netns", "exec", self.namespace, *args, **kwargs)

    @contextlib.contextmanager
    def mounted(self):
        self.place.mkdir(parents=True)
        mount, state = self.place / "mnt", self.place / "state"
        mount.mkdir()
        state.mkdir()
        daemon = None
        try:
            run("ip", "netns", "add", self.namespace)
            self.inside("ip", "link", "set", "lo", "up")
            # gluster refuses 127.0.0.1; this address exists in the namespace only.
            self.inside("ip", "addr", "add", f"{self.address}/32", "dev", "lo")
            # glusterd keeps its state under /var/lib and /var/run: give it its own for this run.
            script = (f"mkdir -p {state}/lib {state}/run {state}/log /var/lib/glusterd /var/run/gluster /var/log/glusterfs; "
                      f"mount --bind {state}/lib /var/lib/glusterd; mount --bind {state}/run /var/run/gluster; "
                      f"mount --bind {state}/log /var/log/glusterfs; exec glusterd -N -L WARNING")
            daemon = subprocess.Popen(["ip", "netns", "exec", self.namespace, "unshare", "-m",
                                       "--propagation", "private", "sh", "-c", script],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            bricks = []
            for i in range(5):
                brick = self.place / f"brick{i}"
                brick.mkdir()
                bricks.append(f"{self.address}:{brick}")
            self.retry("volume", "create", "bench", "disperse", "5", "redundancy", "1", *bricks, "force")
            self.retry("volume", "start", "bench")
            self.glusterd = daemon
            self.enter("glusterfs", f"--volfile-server={self.address}", "--volfile-id=bench", str(mount), shared=True)
            for _ in range(50):
                if os.path.ismount(mount):
                    break
                time.sleep(0.2)
            else:
                raise RuntimeError("the gluster volume did not mount")
            yield mount
        finally:
            run("umount", "-l", mount, check=False)
            pids = run("ip", "netns", "pids", self.namespace, check=False).stdout.split()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, ValueError):
                    os.kill(int(pid), 9)
            if daemon:
                daemon.wait()
            run("ip", "netns", "del", self.namespace, check=False)
            shutil.rmtree(self.place, ignore_errors=True)

    def enter(self, *args, shared=False, check=True):
        """Runs in the namespaces of glusterd; `shared` keeps our mounts, so that we see the volume."""
        if shared:  # `ip netns exec` would hide the mount in a mount namespace of its own
            return run("nsenter", f"--net=/run/netns/{self.namespace}", *args, check=check)
        pid = self.daemon_pid()
        return run("nsenter", "-t", pid, "-n", "-m", *args, check=check)

    def daemon_pid(self):
        for pid in run("ip", "netns", "pids", self.namespace).stdout.split():
            comm = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            if comm == "glusterd":
                return pid
        raise RuntimeError("glusterd is not running")

    def retry(self, *args):
        for attempt in range(40):
            try:
                done = self.enter("gluster", "--mode=script", *args, check=False)
                if done.returncode == 0:
                    return
                last = done.stdout
            except RuntimeError as e:
                last = str(e)
            time.sleep(0.5)
        raise RuntimeError(f"gluster {' '.join(args)}: {last}")

    def forget_caches(self):
        pass

    def pids(self):
        return [int(p) for p in run("ip", "netns", "pids", self.namespace).stdout.split()]


def cpu_seconds(pids):
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0.0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / ticks
    return total


class Measure:
    """Seconds and CPU seconds (ours and the system's daemons') of a block."""

    def __init__(self, system):
        self.system = system

    def __enter__(self):
        self.pids = self.system.pids()
        self.cpu0 = cpu_seconds(self.pids)
        me = resource.getrusage(resource.RUSAGE_SELF)
        self.me0 = me.ru_utime + me.ru_stime
        self.start = time.monotonic()
        return self

    def __exit__(self, *exc):
        self.seconds = time.monotonic() - self.start
        me = resource.getrusage(resource.RUSAGE_SELF)
        self.cpu = cpu_seconds(self.pids) - self.cpu0 + me.ru_utime + me.ru_stime - self.me0


def write_file(path, total, block):
    with open(path, "wb", buffering=0) as f:
        view = memoryview(block)
        left = total
        while left > 0:
            left -= f.write(view[:min(left, len(view))])
        os.fsync(f.fileno())


def read_file(path, size, buffer):
    view = memoryview(buffer)
    done = 0
    with open(path, "rb", buffering=0) as f:
        while n := f.readinto(view):
            done += n
    if done != size:
        raise RuntimeError(f"{path}: read {done} of {size} bytes")


def work_sequential(system, mount, size, results):
    block = os.urandom(4 * MIB)
    buffer = bytearray(1 * MIB)
    path = mount / "sequential"
    drop_caches()
    with Measure(system) as m:
        write_file(path, size, block)
    results.add("sequential write, fsync at the end", "MB/s", system.name, size / 1e6 / m.seconds,
                m.cpu / (size / 1e9))
    drop_caches()
    with Measure(system) as m:
        read_file(path, size, buffer)
    results.add("cold sequential read", "MB/s", system.name, size / 1e6 / m.seconds, m.cpu / (size / 1e9))
    with Measure(system) as m:
        read_file(path, size, buffer)
    results.add("warm sequential read", "MB/s", system.name, size / 1e6 / m.seconds, m.cpu / (size / 1e9))
    with open(path, "rb", buffering=0) as f:
        for offset in range(0, size - len(block), 64 * len(block)):
            f.seek(offset)
            if f.read(len(block)) != block[:]:
                raise RuntimeError(f"{path}: wrong bytes at {offset}")
    path.unlink()


def work_small(system, mount, count, results):
    folder = mount / "small"
    folder.mkdir()
    data = os.urandom(4096)
    with Measure(system) as m:
        for i in range(count):
            with open(folder / f"f{i}", "wb", buffering=0) as f:
                f.write(data)
    results.add("create 4 KiB and close", "/s", system.name, count / m.seconds, None)
    drop_caches()
    with Measure(system) as m:
        for i in range(count):
            (folder / f"f{i}").read_bytes()
    results.add("open, read, close 4 KiB", "/s", system.name, count / m.seconds, None)
    with Measure(system) as m:
        for entry in os.scandir(folder):
            entry.stat()
    results.add("readdir and stat", "/s", system.name, count / m.seconds, None)
    with Measure(system) as m:
        for i in range(count):
            os.rename(folder / f"f{i}", folder / f"g{i}")
    results.add("rename", "/s", system.name, count / m.seconds, None)
    with Measure(system) as m:
        for i in range(count):
            os.unlink(folder / f"g{i}")
    results.add("unlink", "/s", system.name, count / m.seconds, None)
    folder.rmdir()


WORK = {
    "sequential": lambda system, mount, args, results: work_sequential(system, mount, args.size_mib * MIB, results),
    "small": lambda system, mount, args, results: work_small(system, mount, args.files, results),
}


class Results:
    def __init__(self):
        self.values = {}  # (work, unit) -> system -> [value]
        self.cpu = {}

    def add(self, work, unit, system, value, cpu_per_gb):
        self.values.setdefault((work, unit), {}).setdefault(system, []).append(value)
        if cpu_per_gb is not None:
            self.cpu.setdefault((work, unit), {}).setdefault(system, []).append(cpu_per_gb)
        say(f"  {system:12} {work:36} {value:10.1f} {unit}")

    def table(self, systems, first):
        lines = ["| Work | " + " | ".join(s.name for s in systems) + " | ratio to " +
                 ", ".join(s.name for s in systems if s.name != first) + " |",
                 "|---" * (len(systems) + 2) + "|"]
        for (work, unit), per in self.values.items():
            medians = {s: statistics.median(v) for s, v in per.items()}
            cells = []
            for s in systems:
                if s.name not in medians:
                    cells.append("")
                    continue
                cpu = self.cpu.get((work, unit), {}).get(s.name)
                extra = f" ({statistics.median(cpu):.2f} CPU-s/GB)" if cpu else ""
                cells.append(f"{medians[s.name]:,.0f} {unit}{extra}")
            ratios = [f"{medians[first] / medians[s.name]:.2f}" for s in systems
                      if s.name != first and s.name in medians and first in medians]
            lines.append(f"| {work} | " + " | ".join(cells) + " | " + ", ".join(ratios) + " |")
        return "\n".join(lines)

    def json(self):
        return {f"{work} [{unit}]": per for (work, unit), per in self.values.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dir", default="/var/tmp/stria-bench", help="where the data goes (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size-mib", type=int, default=2048, help="of the sequential file")
    parser.add_argument("--files", type=int, default=1000, help="of the small-file work")
    parser.add_argument("--systems", default="stria,gluster,plain", help="in turn: stria, gluster, plain")
    parser.add_argument("--work", default="sequential,small", help=", ".join(WORK))
    parser.add_argument("--stria", default=str(ROOT / "bazel-bin/tools/stria"))
    parser.add_argument("--json", help="also write all values to this file")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench: mounting, dropping caches and network namespaces need root: run it with sudo")
    base = pathlib.Path(args.dir)
    base.mkdir(parents=True, exist_ok=True)
    make = {
        "stria": lambda: Stria(base / "stria", args.stria),
        "gluster": lambda: Gluster(base / "gluster"),
        "plain": lambda: Plain(base / "plain"),
    }
    systems = [make[s]() for s in args.systems.split(",")]
    results = Results()
    for round_number in range(1, args.rounds + 1):
        for system in systems:
            say(f"round {round_number} of {args.rounds}: {system.name}")
            with system.mounted() as mount:
                for work in args.work.split(","):
                    WORK[work](system, mount, args, results)
    say("")
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, {args.rounds} rounds, medians")
    print()
    print(results.table(systems, systems[0].name))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results.json(), indent=1))


if __name__ == "__main__":
    main()
