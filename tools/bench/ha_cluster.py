"""Clusters of `stria dev` with one or several metadata servers, each in a network namespace of its own, where the primary can be
killed, stopped, cut off, and started again."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import time

from scale_cluster import cpu_seconds
from systems import wait_for
from tidy import command, note_namespace, quiet

NODES = 5
SETTLE_S = 120
SOCKET = re.compile(r"socket:\[(\d+)\]")
BLOCK = 1 << 20


# ---- Pure, or nearly so ----

def own_sockets(table, inodes):
    """[(its port, the other one's)] of a process, from its /proc/PID/net/tcp and the inodes of its sockets."""
    fields = [line.split() for line in table.splitlines()[1:]]
    port = lambda address: int(address.rsplit(":", 1)[1], 16)
    return [(port(f[1]), port(f[2])) for f in fields if len(f) > 9 and f[9] in inodes]


def drop_program(ports):
    """Instructions of a packet filter, as tc wants them: TCP packets over IPv4 of which one side has such a port are dropped."""
    body = [(0x28, 0, 0, 12), ("unless", 0x800), (0x30, 0, 0, 23), ("unless", 6)]  # Ethernet's type, IP's protocol
    for offset in (34, 36):  # source and destination
        body.append((0x28, 0, 0, offset))
        body += [("drop if", p) for p in sorted(ports)]
    let_through, drop, out = len(body), len(body) + 1, []
    for i, one in enumerate(body):
        if one[0] == "unless":
            one = (0x15, 0, let_through - i - 1, one[1])
        elif one[0] == "drop if":
            one = (0x15, drop - i - 1, 0, one[1])
        out.append(one)
    out += [(6, 0, 0, 0xFFFFFFFF), (6, 0, 0, 2)]
    assert all(jump < 256 for one in out for jump in one[1:3]), "too many sockets for one filter"
    return f"{len(out)}," + ",".join(" ".join(map(str, one)) for one in out)


def end_of_data(path):
    """Bytes of a journal before the zeros that it is prepared with."""
    with open(path, "rb") as f:
        end = f.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - BLOCK)
            f.seek(start)
            if kept := f.read(end - start).rstrip(b"\0"):
                return start + len(kept)
            end = start
    return 0


def journals(store):
    """{name: bytes} of a store's journals."""
    out = {}
    for path in pathlib.Path(store).glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            out[path.name] = end_of_data(path)
    return out


def written(before, after):
    """Bytes between two of journals(). What went to one that is deleted since does not count."""
    return sum(end - before.get(name, 0) for name, end in after.items())


# ---- A cluster ----

class Cluster:
    def __init__(self, place, stria, metas):
        self.place, self.stria, self.metas = place, stria, metas
        self.dir, self.mount, self.other_mount = place / "cluster", place / "mnt", place / "other"
        self.namespace = f"stria-ha-{os.getpid()}-{place.name}"
        self.stopped = set()  # pids
        self.cut = False

    def up(self):
        self.place.mkdir(parents=True)
        note_namespace(self.place, self.namespace)
        command("ip", "netns", "add", self.namespace)
        self.inside("ip", "link", "set", "lo", "up")
        self.ask("dev", "up", "--dir", self.dir, "--nodes", NODES, "--disks", 1, "--layout", "raid5:4+1", "--mount", self.mount,
                 *(["--metas", self.metas] if self.metas > 1 else []))
        self.ask("dev", "mount", "--dir", self.dir, "--at", self.other_mount, "--node", "n2")
        return self

    def down(self):
        """Also of one that is half up, or broken."""
        self.go_on()
        with contextlib.suppress(RuntimeError):
            self.ask("dev", "down", "--dir", self.dir)
        quiet("ip", "netns", "del", self.namespace)
        shutil.rmtree(self.place, ignore_errors=True)

    def inside(self, *args, check=True, env=None):
        """Keeps this process' mounts, so that it sees the clusters' (`ip netns exec` would hide them)."""
        return command("nsenter", f"--net=/run/netns/{self.namespace}", *args, check=check, env=env)

    def ask(self, *args, check=True):
        env = dict(os.environ)
        with contextlib.suppress(FileNotFoundError):
            known = json.loads((self.dir / "cluster.json").read_text())
            env |= {"STRIA_META": known["meta"], "STRIA_TRUST": known.get("trust", "off")}
        return self.inside(self.stria, *args, check=check, env=env)

    # ---- What runs ----

    def process(self, name):
        known = json.loads((self.dir / "cluster.json").read_text())["processes"]
        return next(p for p in known if p["name"] == name)

    def pid(self, name):
        return self.process(name)["pid"]

    def names(self, kind):
        known = json.loads((self.dir / "cluster.json").read_text())["processes"]
        return [p["name"] for p in known if p["kind"] == kind]

    def members(self):
        """What `stria meta status` says; {} if nobody answers."""
        with contextlib.suppress(ValueError):
            return json.loads(self.ask("meta", "status", "--json", check=False))
        return {}

    def primary(self):
        return self.members()["primary"] if self.metas > 1 else "meta"

    def standbys(self):
        primary = self.primary()
        return [name for name in self.names("meta") if name != primary]

    def in_sync(self):
        """Whether one serves and all others follow."""
        status = self.members()
        roles = {m["name"]: m["role"] for m in status.get("members", [])}
        return (len(status.get("in_sync", [])) == self.metas and roles.get(status["primary"]) == "primary"
                and sorted(roles.values()) == ["primary"] + ["standby"] * (self.metas - 1))

    def settle(self):
        if self.metas > 1:
            wait_for("that all metadata servers are in sync", self.in_sync, SETTLE_S)

    def garbage(self):
        with contextlib.suppress(ValueError):
            return json.loads(self.ask("status", "--json", check=False)).get("garbage_shards", 0)
        return 0

    # ---- What it costs ----

    def cpu(self, name):
        return cpu_seconds(self.pid(name))

    def journals(self, name):
        return journals(self.dir / name / "kv")

    # ---- What happens to it ----

    def kill(self, name):
        self.ask("dev", "kill", name, "--dir", self.dir)

    def start(self, name):
        """Seconds until it is in service; of a metadata server, in sync."""
        began = time.monotonic()
        self.ask("dev", "start", name, "--dir", self.dir)
        return time.monotonic() - began

    def start_all(self):
        self.ask("dev", "up", "--dir", self.dir, "--nodes", NODES)

    def stop(self, name):
        pid = self.pid(name)
        self.stopped.add(pid)
        os.kill(pid, signal.SIGSTOP)

    def go_on(self):
        """All that were stopped, and the network."""
        for pid in self.stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.stopped.clear()
        if self.cut:
            self.inside("tc", "qdisc", "del", "dev", "lo", "clsact", check=False)
            self.cut = False

    def drop(self, ports):
        self.cut = True
        self.inside("tc", "qdisc", "add", "dev", "lo", "clsact")
        self.inside("tc", "filter", "add", "dev", "lo", "egress", "bpf", "da", "bytecode", drop_program(ports))

    def can_drop(self):
        """Why packets cannot be dropped here, or nothing."""
        try:
            self.drop({1})
            return ""
        except (RuntimeError, OSError) as e:
            return str(e)
        finally:
            self.go_on()

    def sockets(self, name):
        pid, inodes = self.pid(name), set()
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                if match := SOCKET.fullmatch(os.readlink(entry.path)):
                    inodes.add(match[1])
        return own_sockets(pathlib.Path(f"/proc/{pid}/net/tcp").read_text(), inodes)

    def cut_off(self, name):
        """As when its PC loses power: nobody hears of its end, and its address does not answer."""
        self.stop(name)  # it opens no more sockets
        self.drop({own for own, _ in self.sockets(name)})
        self.kill(name)

    def sever(self, name):
        """Ships nothing to the other metadata servers any more; clients still reach it."""
        others = {int(self.process(n)["address"].rsplit(":", 1)[1]) for n in self.names("meta") if n != name}
        own = {mine for mine, other in self.sockets(name) if other in others}
        self.drop(own | {mine for n in self.names("meta") if n != name for mine, other in self.sockets(n)
                         if other == int(self.process(name)["address"].rsplit(":", 1)[1])})

    def wipe(self, name):
        """Of one that does not run: its directory is empty but for the cluster's authority, and it is no member."""
        self.ask("meta", "remove", name, "--yes")
        for path in (self.dir / name).iterdir():
            if path.name == "trust":
                continue
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def lose_mount(self, name):
        os.kill(self.pid(name), signal.SIGKILL)

    def mount_again(self, name, at):
        quiet("umount", "-l", at)
        self.start(name)

    def keep_logs(self, directory):
        shutil.copytree(self.dir / "log", directory, dirs_exist_ok=True)
