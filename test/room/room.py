"""The test itself, in namespaces of its own: `run` starts it, and describes it."""

import concurrent.futures
import json
import pathlib
import random
import shutil
import sys
import time
import traceback

import plan
import waits
from client import LOAD_DIR, MOUNT, Client
from pc import BRIDGE, Pc, cut_disk, run_here, wait_until

MOUNT_LOG = "var/log/stria-mount.log"
NETWORK = "10.77.0"
WELL_S, REBUILD_S = 180, 300
LOG_TAIL_LINES = 15
PLACED_S = 60
QUIET_S = 3  # of load, between one thing and the next
DOCTORED = ("cluster", "network", "certificates", "versions")


def json_of(said):
    """What a command prints with --json, after what it may have said of its way there."""
    return json.loads(said[said.index("{"):])


class Room:
    def __init__(self, what):
        self.began = time.monotonic()
        self.dir, self.lower, self.seed = pathlib.Path(what["dir"]), pathlib.Path(what["lower"]), what["seed"]
        self.logs = self.dir / "log"
        self.logs.mkdir()
        self.shape = getattr(plan, what["shape"])
        self.debs = {package: pathlib.Path(deb) for package, deb in what["debs"].items()}
        self.old = {package: pathlib.Path(deb) for package, deb in what["old"].items()}
        self.hosts = {name: f"{NETWORK}.{i}" for i, name in enumerate(self.shape.names, 1)}
        self.pcs = {}
        self.servers = list(self.shape.servers)  # that are in use now
        self.powers = 0

    def say(self, text):
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    # ---- Asking the cluster, on the first PC ----

    @property
    def first(self):
        return self.pcs[self.shape.servers[0]]

    def stria(self, *words, check=True):
        return self.first.run("stria", *words, check=check)

    def status(self):
        said = self.stria("status", "--json", check=False)
        try:
            return json_of(said)
        except ValueError:  # it does not answer
            return {}

    def disks(self):
        return {d["name"]: d for d in self.status().get("disks", [])}

    def node_state(self, name):
        return next((n["state"] for n in self.status().get("nodes", []) if n["name"] == name), "")

    def wrong(self):
        s = self.status()
        if "findings" not in s:
            return ["the metadata server does not answer"]
        return [f["what"] for f in s["findings"] if f["severity"] != "HEALTHY"]

    def wait_well(self, timeout_s=WELL_S):
        end = time.monotonic() + timeout_s
        while wrong := self.wrong():
            assert time.monotonic() < end, f"not well within {timeout_s} s: {wrong}"
            time.sleep(0.5)

    def wait_removable(self, kind, name):
        wait_until(f"{name} is empty", lambda: self.first.succeeds("stria", kind, "remove", name, "--dry-run"), REBUILD_S, 1)
        self.stria(kind, "remove", name)

    def token(self, *more):
        said = self.stria("token", "make", *more)
        return next(line for line in said.splitlines() if line.startswith("stria-join:"))

    # ---- docs/operations.md, "Installing" ----

    def buy(self, name, disks):
        number = self.shape.names.index(name) + 1
        self.pcs[name] = pc = Pc(self, number, name, disks)
        pc.power_on()
        return pc

    def install(self, name):
        self.pcs[name].install([self.old[package] for package in plan.packages_of(self.shape, name)])

    def build(self):
        run_here("ip", "link", "set", "lo", "up")
        run_here("ip", "link", "add", "name", BRIDGE, "type", "bridge")
        run_here("ip", "link", "set", BRIDGE, "up")
        names = [*self.shape.servers, plan.CLIENT]
        for name in names:
            self.buy(name, [] if name == plan.CLIENT else plan.disk_names(self.shape))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(self.install, names))
        self.client = Client(self.pcs[plan.CLIENT])
        self.say(f"{len(names)} PCs are on, packages are installed: {self.first.run('stria', '--version').strip()}")

    def join_data(self, name):
        pc = self.pcs[name]
        options = [word for disk in pc.disks for word in ("--disk", f"/srv/{disk}")]
        said = pc.run("stria", "join", "-", *options, text=self.token("--role", "data") + "\n")
        assert f"data {name} of cluster" in said, said
        pc.start("stria-data")
        wait_until(f"node {name} is up", lambda: self.node_state(name) == "up", 60)

    def set_up(self):
        said = self.first.run("stria", "cluster", "init", "--layout", self.shape.layout)
        assert "is made" in said, said
        self.first.start("stria-meta")
        for name in self.shape.servers:
            self.join_data(name)
        pc = self.client.pc
        said = pc.run("stria", "join", "-", text=self.token("--role", "client", "--trusted-root") + "\n")
        line = next((line.strip() for line in said.splitlines() if "wait=forever" in line), None)
        assert line and f"mount -t fuse.stria {self.first.name}:/ {MOUNT}" in said, said
        pc.run("mkdir", "-p", MOUNT)
        pc.run("mount", "-t", "fuse.stria", f"{self.first.name}:/", MOUNT)
        self.client.put_into_fstab(line)
        self.wait_well()
        self.look()
        self.say(f"set up and mounted by the documented commands, layout {self.shape.layout}")

    def look(self):
        """stria doctor on each PC; on the client the mount tells it of the cluster, wherever it is asked."""
        for name in [*self.servers, plan.CLIENT]:
            said = self.pcs[name].run("env", "-C", "/", "stria", "doctor", "--json", check=False)
            checks = json_of(said)["checks"]
            wrong = [c["sentence"] for c in checks if c["verdict"] != "ok" and c["area"] in DOCTORED]
            if name == plan.CLIENT:  # it may not see everything
                wrong = [c["sentence"] for c in checks if c["verdict"] == "problem" and c["area"] in DOCTORED]
            assert not wrong, f"stria doctor on {name}: {wrong}"

    # ---- Steps ----

    def power(self):
        """The whole room, the client too, loses its power at once, and starts in any order."""
        self.client.progress()
        time.sleep(QUIET_S)
        names = [*self.servers, plan.CLIENT]
        for name in names:
            self.pcs[name].abandon()
        # Until here: what is under way by now has an excuse.
        end = time.monotonic()
        for name in names:
            self.pcs[name].unplug()
        for name in random.Random(f"{self.seed} cut {self.powers}").sample(names, len(names)):
            self.pcs[name].cut_disks()
        for name in names:
            self.pcs[name].kill_all()
        self.client.load_was_cut(end)
        order = plan.boot_order(names, self.seed, self.powers)
        self.powers += 1
        self.say(f"the room lost its power; it starts as {', '.join(name for name, _ in order)}")
        began = time.monotonic()
        mounting = None
        for name, delay_s in order:
            time.sleep(delay_s)
            self.pcs[name].power_on()
            self.pcs[name].start_enabled()
            if name == plan.CLIENT:
                mounting = self.client.mount_at_boot()
        assert mounting.wait(timeout=WELL_S) == 0, "the client does not mount after a power failure"
        mounted = time.monotonic()
        self.client.pc.run("ls", LOAD_DIR)  # of what the client's former life held, which is not given up before it is missed
        first_s = time.monotonic() - mounted
        self.say(f"    mounted {mounted - began:.1f} s after the first PC was switched on, the first answer came {first_s:.1f} s later")
        assert first_s <= waits.LIMIT_S, f"the first answer of the mount took {first_s:.1f} s"
        self.client.check("a power failure of the whole room")
        self.client.start_load()
        self.wait_well()

    def disk(self):
        """A disk dies and gets a successor in its place: docs/operations.md, "A disk died"."""
        pc = self.pcs[plan.victim(self.servers, self.seed, "disk")]
        disk = random.Random(f"{self.seed} which").choice(list(pc.disks))
        name = f"{pc.name}:{disk}"
        dead = pc.disks[disk]
        cut_disk(pc.inside / "srv" / disk)
        self.say(f"disk {name} dies")
        wait_until(f"{name} is known as dead", lambda: (d := self.disks()[name])["state"] != "up" or d["problem"], 90)
        self.client.progress()
        pc.run("umount", "-l", f"/srv/{disk}")
        pc.insert_disk(disk)
        said = pc.run("stria", "join", "--disk", f"/srv/{disk}")  # gives it to the server
        assert "already" in said, said
        # Refused for the first seconds, while the old one is not missed yet.
        wait_until(f"{name} is given up", lambda: self.first.succeeds("stria", "disk", "out", name), 60, 1)
        news = wait_until("the new disk is used", lambda: [d["name"] for d in self.disks().values() if d["state"] == "up" and d["name"].startswith(f"{name}-")],
                          90)
        self.wait_removable("disk", name)
        self.wait_well(REBUILD_S)
        dead.unlink()
        self.client.progress()
        self.say(f"    {news[0]} has its place, every stripe is whole")

    def node(self):
        """A node dies for good, and another takes its place: docs/operations.md, "A node died"."""
        dead, new = plan.victim(self.servers, self.seed, "node"), self.shape.spares[0]
        self.pcs[dead].power_off()
        self.say(f"node {dead} dies for good")
        wait_until(f"{dead} is missed", lambda: self.node_state(dead) in ("suspect", "down"), 60)
        self.client.progress()
        self.add_pc(new)
        self.stria("node", "replace", dead, new)
        self.wait_removable("node", dead)
        self.servers.remove(dead)
        self.wait_well(REBUILD_S)
        self.client.progress()
        self.say(f"    {new} has its place, every stripe is whole")

    def add_pc(self, name):
        self.buy(name, plan.disk_names(self.shape))
        self.install(name)
        self.join_data(name)
        self.servers.append(name)

    def add(self):
        """One more node: docs/operations.md, "A node was added"."""
        name = self.shape.spares[1]
        self.add_pc(name)
        self.stria("rebalance", "start")
        wait_until("all is balanced", lambda: not json_of(self.stria("rebalance", "status", "--json"))["rebalance"]["running"], REBUILD_S, 1)
        # Of little data rebalancing moves nothing; new files use the node at once.
        used = wait_until(f"something is on {name}", lambda: sum(d["used_bytes"] for n, d in self.disks().items() if n.startswith(f"{name}:")), PLACED_S, 1)
        self.wait_well(REBUILD_S)
        self.client.progress()
        self.say(f"node {name} was added, and has {used >> 10} KiB already")

    def upgrade(self):
        """One PC after the other, under load: docs/operations.md, "Versions"."""
        for name, package in plan.upgrade_order(self.servers):
            pc = self.pcs[name]
            pc.install([self.debs[package]])
            if package in pc.services:
                began = time.monotonic()
                pc.restart(package)  # what the package does where systemd runs
                self.say(f"    {package} on {name} was upgraded, and served again after {time.monotonic() - began:.1f} s")
                self.wait_well()
            self.client.progress()
        self.say(f"upgraded, one by one: {self.first.run('stria', '--version').strip()}")

    def run(self):
        self.build()
        self.set_up()
        self.client.start_load()
        for step in self.shape.steps:
            getattr(self, step)()
        self.client.stop_load()
        self.client.mount_anew()
        self.client.check("all of that, mounted anew")
        self.wait_well(REBUILD_S)
        self.say(self.stria("fsck").strip())
        self.client.pc.run("umount", MOUNT)
        self.client.pc.kill_all()
        # The metadata server last: servers tell it that they stop.
        for name in reversed(self.servers):
            self.pcs[name].shut_down()
        self.say(f"passed (seed {self.seed})")

    def print_logs(self):
        pc = self.pcs.get(plan.CLIENT)
        if pc is not None and pc.is_on and (pc.inside / MOUNT_LOG).exists():
            shutil.copy(pc.inside / MOUNT_LOG, self.logs / "stria-mount.log")
        for log in sorted(self.logs.glob("*.log")):
            if not log.name.startswith("load-"):
                print(f"---- {log.name}", *log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:], sep="\n", flush=True)


def main():
    room = Room(json.loads(sys.argv[1]))
    try:
        room.run()
    except Exception as e:  # the namespaces, and with them everything else, end with this process
        if not isinstance(e, AssertionError):
            traceback.print_exc()
        room.print_logs()
        room.say(f"FAILED (seed {room.seed}): {e}")
        sys.exit(1)


if __name__ == "__main__":
    main()
