"""docs/operations.md as it is written: its commands are taken from there, block by block, and typed on the PCs of a room to which just that has happened
which the section is about; what they show is what the document shows, but for numbers. What other tests run is in test/docs/operations.py, which sees to
it that nothing is left out. In namespaces of its own: `run --operations` starts it."""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import traceback

import plan
from client import AS_USER, MOUNT, USER, Client
from pc import BRIDGE, COMMAND_S, run_here, wait_until
from room import Room, json_of
from service import Service, child_of

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "test/docs"))
import typed  # noqa: E402

FILES, FILE_BYTES = 30, 4 << 20
LOOK_S = 7  # at what goes on until somebody ends it
# They say how the cluster is by their exit codes, too.
TELLING = re.compile(r"^stria (status|disk can-remove|rebuild ls|doctor|meta status|fsck)\b")
ENDLESS = re.compile(r"^stria (top(?!.*--once)|events --follow|watch)\b")


class Operations(Room):
    def __init__(self, what):
        super().__init__(what)
        self.document = typed.sections((TOP / "docs/operations.md").read_text())
        self.followed = 0
        self.left = {}  # (section, block): commands of it that were not typed yet
        self.digests = {}
        self.tokens, self.made = {}, ""  # what is pasted: by role, and the last one that a block has made
        self.differs = []

    # ---- Typing ----

    def where(self, name):
        return self.pcs[{"": "pc1", "wn7": plan.CLIENT}.get(name, name)]

    def type_in(self, pc, words, text=None):
        """As root there. Gives (exit code, what it printed)."""
        words = words.replace("wn7", plan.CLIENT)
        if ENDLESS.match(words):
            words = f"timeout --signal INT {LOOK_S} {words}"
        how = {"input": text} if text is not None else {"stdin": subprocess.DEVNULL}
        done = subprocess.run(pc.enter("sh", "-c", words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=COMMAND_S, cwd="/",
                              env=pc.environment(), **how)
        if re.match(r"stria join --disk", words) and "stria-data" in pc.services:
            self.systemctl(pc, "reload", "stria-data")  # where systemd runs, stria does that
        said = re.sub(r"stria-join:\S+", "stria-join:..", done.stdout)
        print("\n".join([f"    {pc.name}# {words}", *(f"        {line}" for line in said.splitlines()[:40])]), flush=True)
        return done.returncode, done.stdout

    def systemctl(self, pc, verb, unit):
        """What systemd would do."""
        service = pc.services.get(unit)
        if verb == "reload":
            os.kill(child_of(service.process.pid), signal.SIGHUP)
        elif verb == "restart":
            pc.restart(unit)
        elif verb == "stop":
            service.stop()
        elif verb == "start":
            pc.start(unit)
        else:
            raise AssertionError(f"systemctl {verb} is not known here")

    def one(self, pc, command, change):
        """A command of the document. `change`: {its words: other words, or None to leave it out, or what does it}."""
        words = command.words
        other = change.get(words, words)
        if callable(other):
            return other()
        if other is None:
            return ""
        if match := re.fullmatch(r"systemctl (?:--now )?(\w+) ([\w@-]+)", other):
            print(f"    {pc.name}# {other}", flush=True)
            self.systemctl(pc, match[1], match[2])
            return ""
        if match := re.fullmatch(r"journalctl -u ([\w-]+)", other):
            return self.journal(pc, match[1], command.shown)
        text = None
        if other.startswith("stria join -"):
            role = "data" if pc.name != plan.CLIENT else "client"
            text = (self.made or self.tokens[role]) + "\n"
        code, said = self.type_in(pc, other, text)
        right = {0, 1, 2} if TELLING.match(words) else {0, 124, 130} if ENDLESS.match(words) else {0}
        assert code in right, f"{pc.name}# {other} gave {code}: {said}"
        if other.startswith("stria token make"):
            self.made = next(line for line in said.splitlines() if line.startswith("stria-join:"))
            self.tokens[re.search(r"--role (\w+)", other)[1]] = self.made
        return said

    def journal(self, pc, unit, shown):
        log = self.logs / f"{pc.name}-{unit}.log"

        def lines():
            text = log.read_text(errors="replace")[self.journal_from:]
            return re.sub(r"^\S+ \S+\[\d+\] ", "", text, flags=re.M)
        wait_until(f"the log of {unit} says what the document shows", lambda: not typed.missing(shown, lines()) or None, 60)
        return lines()

    def follow(self, heading, number, change=None, names=None, only=None):
        """Types a block, and compares. `names`: {what stands there: what it is here}; `only`: of its commands these (a slice)."""
        commands = self.document[heading].blocks[number - 1].commands
        assert commands, f"docs/operations.md, \"{heading}\", has no commands in block {number}"
        self.say(f"docs/operations.md, \"{heading}\", block {number}")
        change = dict(change or {})
        used, self.made = set(), ""
        left = self.left.setdefault((heading, number), set(range(len(commands))))
        left -= set(range(len(commands))[only or slice(None)])
        for command in commands[only or slice(None)]:
            here = {}
            for was, now in (names or {}).items():
                here[re.compile(rf"\b{re.escape(was)}\b")] = now

            def named(text, here=here):
                for was, now in here.items():
                    text = was.sub(now, text)
                return text
            used |= {command.words} & set(change)
            mine = typed.Command(named(command.where), command.words if command.words in change else named(command.words), [named(line) for line in command.shown])
            said = self.one(self.where(mine.where), mine, change)
            if said:
                self.compare(heading, mine.words, mine.shown, said)
            self.followed += 1
        assert used == set(change) or only, f"docs/operations.md, \"{heading}\", has no {set(change) - used} any more: operations.py has to be taught what it has"

    def compare(self, heading, words, shown, said):
        """All that is shown otherwise is told in the end."""
        if line := typed.missing(shown, said):
            self.differs.append(f"docs/operations.md, \"{heading}\": {words} does not show {line!r}, but\n{said}")
            print(f"    DIFFERS from {line!r}", flush=True)

    def inline(self, heading, words, pc=None, names=None, code=0, **more):
        """A command that stands in the text of a section."""
        has = typed.inline_commands(self.document[heading].prose)
        assert any(words == one or one.startswith(words + " ") for one in has), f"docs/operations.md, \"{heading}\", has no `{words}`: it has {has}"
        for was, now in (names or {}).items():
            words = re.sub(rf"\b{re.escape(was)}\b", now, words)
        if match := re.fullmatch(r"systemctl (\w+) ([\w@-]+)", words):
            print(f"    {(pc or self.first).name}# {words}", flush=True)
            self.systemctl(pc or self.first, match[1], match[2])
            return ""
        got, said = self.type_in(pc or self.first, words, **more)
        assert got == code, f"{words} gave {got}: {said}"
        self.followed += 1
        return said

    # ---- The room ----

    def get_ready(self):
        """Packages are there: how apt installs them is timed by first_hour.py."""
        run_here("ip", "link", "set", "lo", "up")
        run_here("ip", "link", "add", "name", BRIDGE, "type", "bridge")
        run_here("ip", "link", "set", BRIDGE, "up")
        for name in ("pc1", "n1", "n2", "n3", "n4", "n5", plan.CLIENT):
            self.power(name, {"pc1": [], plan.CLIENT: [], "n1": ["d1", "d2", "d3", "d4"]}.get(name, ["d1", "d2"]))
        self.client = Client(self.pcs[plan.CLIENT])
        self.say(f"{len(self.pcs)} PCs are on, packages are installed")

    def power(self, name, disks):
        pc = self.buy(name, disks)
        pc.install([self.debs[p] for p in (["stria-client"] if not disks and name != "pc1" else ["stria-data" if disks else "stria-meta", "stria-client"])])
        return pc

    def join(self, name, anew=False):
        """A further one with disks, by the procedure of docs/operations.md. `anew`: it has been one before."""
        if anew:
            said = self.inline("A node died", "stria token make --role data --name n3", names={"n3": name})
        else:
            said = self.inline("Procedures", "stria token make --role data")
        token = next(line for line in said.splitlines() if line.startswith("stria-join:"))
        pc = self.pcs[name]
        disks = " ".join(f"--disk /srv/{d}" for d in pc.disks)
        code, said = self.type_in(pc, f"stria join - {disks}", text=token + "\n")
        assert code == 0, said
        pc.start("stria-data")
        wait_until(f"{name} is up", lambda: self.node_state(name) == "up", 60)

    def write(self, names, size=FILE_BYTES):
        pc = self.client.pc
        pc.run(*AS_USER, "sh", "-ec", f"for f in {' '.join(names)}; do head -c {size} /dev/urandom > {MOUNT}/runs/$f; sync {MOUNT}/runs/$f; done")
        self.digests |= self.digests_of(names)

    def digests_of(self, names):
        said = self.client.pc.run("sha256sum", *(f"{MOUNT}/runs/{name}" for name in names))
        return {pathlib.Path(path).name: digest for digest, path in (line.split() for line in said.splitlines())}

    def verify(self):
        """Nothing from a cache."""
        self.client.mount_anew()
        wrong = [name for name, digest in self.digests_of(self.digests).items() if digest != self.digests[name]]
        assert not wrong, f"{wrong} have other bytes than were written"

    def wait_state(self, name, *states):
        wait_until(f"{name} is {states}", lambda: self.node_state(name) in states, 60)

    def find(self, words):
        return next((f["what"] for f in self.status().get("findings", []) if re.search(words, f["what"])), "")

    def wait_removable(self, kind, name):
        wait_until(f"{name} is empty", lambda: self.first.succeeds("stria", kind, "remove", name, "--dry-run"), 300, 1)

    # ---- The sections, in the order in which a room can have them ----

    def installing(self):
        started = {"pc1": "stria-meta"}

        def no_apt(heading, number):
            return {c.words: None for c in self.document[heading].blocks[number - 1].commands if c.words.startswith("apt ")}
        leave = no_apt("Installing", 1)
        commands = self.document["Installing"].blocks[0].commands
        at = {pc: [i for i, c in enumerate(commands) if c.where == pc] for pc in ("pc1", "n3", "wn7")}
        assert sum(map(len, at.values())) == len(commands), "the room has other PCs than the document"
        pc1 = at["pc1"]
        self.follow("Installing", 1, {**leave, "stria cluster init": "stria cluster init --layout raid5:4+1"}, only=slice(pc1[0], pc1[2]))
        self.first.start(started["pc1"])
        self.follow("Installing", 1, leave, only=slice(pc1[2], pc1[-1] + 1))
        for name in ("n1", "n2", "n3", "n4", "n5"):
            pc = self.pcs[name]
            disks = "stria join - --disk /srv/d1 --disk /srv/d2"
            more = {disks: "stria join - " + " ".join(f"--disk /srv/d{n},channel=sata{(n - 1) // 2}" for n in range(1, 5))} if name == "n1" else {}
            self.follow("Installing", 1, {**leave, **more}, names={"n3": name}, only=slice(at["n3"][0], at["n3"][-1] + 1))
            pc.start("stria-data")
        wait_until("five nodes are up", lambda: [n["state"] for n in self.status().get("nodes", [])] == ["up"] * 5, 60)
        self.follow("Installing", 1, leave, only=slice(at["wn7"][0], at["wn7"][-1] + 1))
        # Root of that PC counts as nobody: it may not, until it is trusted.
        pc = self.client.pc
        assert not pc.succeeds("mkdir", f"{MOUNT}/runs"), "root of a PC that is not trusted makes directories of root's"
        code, said = self.type_in(self.first, f"stria token make --role client --trusted-root --name {plan.CLIENT}")  # it has joined already
        self.tokens["client"] = next(line for line in said.splitlines() if line.startswith("stria-join:"))
        code, said = self.type_in(pc, "umount /data && stria join - --again", text=self.tokens["client"] + "\n")
        assert code == 0, said
        line = next(line.strip() for line in said.splitlines() if "wait=forever" in line)
        documented = self.document["Mounting"].blocks[1].lines[0]
        assert line.split()[2:] == documented.split()[2:], f"stria join says {line}, and docs/operations.md {documented}"
        self.client.put_into_fstab(documented)
        pc.run("mount", MOUNT)
        pc.run("install", "-d", "-o", USER, "-g", USER, f"{MOUNT}/runs")
        # A line for each disk, as it stands there, is what stria doctor asks for.
        n3, lines = self.pcs["n3"], self.document["Installing"].blocks[1].lines
        assert "disk d1 (/srv/d1) is not in /etc/fstab" in n3.run("stria", "doctor", check=False)
        fstab = n3.inside / "etc/fstab"
        fstab.unlink(missing_ok=True)
        fstab.write_text("\n".join([*lines, *(line.replace("d1", "d2") for line in lines)]) + "\n")
        assert "/etc/fstab" not in n3.run("stria", "doctor", check=False), n3.run("stria", "doctor", check=False)
        for name in ("pc1", "n3", plan.CLIENT):
            code, said = self.type_in(self.pcs[name], "cd / && stria doctor")
            assert code in (0, 1), said
        self.type_in(self.first, "stria --version && stria status")
        self.wait_well()
        self.write([f"f{i}" for i in range(FILES)])

    def mounting(self):
        pc = self.client.pc
        pc.run("mkdir", f"{MOUNT}/atlas")
        pc.run("umount", MOUNT)
        mounts, umount = self.document["Mounting"].blocks[0].commands
        self.follow("Mounting", 1, {words: (lambda words=words: self.typed_on_client(words)) for words in (mounts.words, umount.words)})
        pc.run("mount", MOUNT)

    def typed_on_client(self, words):
        code, said = self.type_in(self.client.pc, words)
        assert code in (0, 124, 130), f"{words} gave {code}: {said}"
        if words.startswith("mount"):
            assert " ro," in next(line for line in self.client.pc.run("cat", "/proc/self/mounts").splitlines() if f" {MOUNT} " in line)
            assert not self.client.pc.succeeds("touch", f"{MOUNT}/x"), "a mount with ro is written"
        return said

    def certificates_and_exports(self):
        self.follow("Certificates and exports", 1)
        wait_until("n3 is up", lambda: self.node_state("n3") == "up", 60)
        self.follow("Certificates and exports", 2)
        code, said = self.type_in(self.first, "stria export ls")
        assert "/atlas" in said and "10.3.0.0/16" in said, said
        self.type_in(self.first, "stria export remove /atlas")

    def who_reads_and_writes(self):
        block = self.document["Who reads and writes"].blocks[0].commands
        jobs = {c.words: (lambda words=c.words: self.typed_on_client(words)) for c in block if "--by job" in c.words}
        self.follow("Who reads and writes", 1, jobs)

    def being_told(self):
        for pc in (self.first, self.client.pc):
            for program in ("usr/local/sbin/page-me", "usr/sbin/sendmail"):
                path = pc.inside / program
                path.unlink(missing_ok=True)
                path.write_text(f"#!/bin/sh\ncat >> /run/{path.name}\n")
                path.chmod(0o755)
        self.follow("Being told", 1)
        unit = (TOP / "tools/package/debian/stria-client.stria-watch.service").read_text()
        command = re.search(r"^ExecStart=(.*)$", unit, re.M)[1]

        def start():
            """As systemd does, with the unit's file of variables."""
            pc, log = self.client.pc, self.logs / "stria-watch.log"
            with open(log, "ab") as out:
                self.watch = subprocess.Popen(pc.enter("bash", "-c", f"set -a; . /etc/default/stria-watch; exec {command}"), stdin=subprocess.DEVNULL,
                                              stdout=out, stderr=out, env=pc.environment())
            wait_until("it remembers from when on it tells", lambda: (pc.inside / "var/lib/stria-watch/state").exists() or self.watch.poll() is not None, 30)
            assert self.watch.poll() is None, log.read_text()
            return ""
        self.client.pc.run("mkdir", "-p", "/etc/default")
        self.follow("Being told", 2, {"systemctl enable --now stria-watch": start})

    def bits_rot(self):
        shard = max((p for p in (self.pcs["n3"].inside / "srv/d2/shards").glob("*/*") if p.is_file()), key=lambda p: p.stat().st_size)
        with open(shard, "r+b") as f:
            f.seek(shard.stat().st_size // 2)
            byte = f.read(1)
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([byte[0] ^ 1]))
            f.flush()
            os.fsync(f.fileno())
        self.follow("Bits that rot", 1, only=slice(0, 1))

        def scrubbed():
            said = self.status()["upkeep"]["scrub"]
            return all(not d["running"] and d["finished_s"] for d in said["disks"]) and any(d["damaged"] for d in said["disks"])
        wait_until("all is read", scrubbed, 120)
        self.follow("Bits that rot", 1, only=slice(1, 3))
        self.inline("Bits that rot", "stria scrub pause")
        self.stria("scrub", "resume")
        self.inline("Bits that rot", "systemctl restart stria-data", pc=self.pcs["n3"])  # what it has shown is forgotten
        self.wait_well()

    def taking_out(self):
        fullest = max((d for d in self.disks().values() if d["node"] == "n1"), key=lambda d: d["used_bytes"])["name"]
        self.follow("Taking a node or disk out", 2, names={"n1:d1": fullest})
        self.follow("Taking a node or disk out", 1)
        self.inline("Taking a node or disk out", "stria disk add n3:d2", names={"n3:d2": "n2:d1"})
        wait_until("n2:d1 is used again", lambda: self.disks().get("n2:d1", {}).get("state") == "up", 90)
        self.wait_well()

    def a_disk_died(self):
        pc = self.pcs["n3"]
        pc.run("mkdir", "-p", "/srv/d3")
        pc.insert_disk("d3")
        settings = pc.inside / "etc/stria/data.toml"

        def without_d2():
            text = settings.read_text()
            tables = re.split(r"(?m)^(?=\[\[disk\]\]$)", text)
            left = [t for t in tables if "/srv/d2" not in t or not t.startswith("[[disk]]")]
            assert len(left) == len(tables) - 1, text
            settings.write_text("".join(left))
            return ""
        change = {"editor /etc/stria/data.toml": without_d2}
        self.follow("A disk died, or is about to", 2, change, only=slice(0, 1))
        wait_until("n3:d3 is used", lambda: self.disks().get("n3:d3", {}).get("state") == "up", 60)
        self.follow("A disk died, or is about to", 2, change, only=slice(1, 3))
        self.wait_well()
        self.follow("A disk died, or is about to", 2, change, only=slice(3, None))
        wait_until("/srv/d2 can be unmounted", lambda: pc.succeeds("umount", "/srv/d2"), 30)
        # In the very place of the old one.
        pc.run("umount", "-l", "/srv/d3")
        wait_until("n3:d3 is missed", lambda: self.disks()["n3:d3"]["state"] != "up" or self.disks()["n3:d3"]["problem"], 60)
        pc.insert_disk("d3")
        self.inline("A disk died, or is about to", "stria disk out n3:d2", names={"d2": "d3"})
        self.inline("A disk died, or is about to", "stria join --disk /srv/d2", pc=pc, names={"d2": "d3"})
        wait_until("the new one is used", lambda: any(n.startswith("n3:d3-") and d["state"] == "up" for n, d in self.disks().items()), 90)
        self.wait_removable("disk", "n3:d3")
        self.inline("A disk died, or is about to", "stria disk remove n3:d1", names={"d1": "d3"})
        self.wait_well(300)
        self.verify()

    def an_index_is_lost(self):
        heading = "A disk cannot be opened, or its index is lost"
        n2 = self.pcs["n2"]
        log = self.logs / "n2-stria-data.log"
        self.journal_from = log.stat().st_size
        commands = self.document[heading].blocks[0].commands
        self.follow(heading, 1, {c.words: (lambda c=c: self.one(n2, c, {})) for c in commands})
        self.wait_well()
        self.verify()

    def less_rebuilding(self):
        """While a node is being emptied."""
        heading = "Less or no rebuilding for now"
        self.follow(heading, 1, only=slice(0, 2))
        for disk in ("n4:d1", "n4:d2"):
            self.stria("disk", "drain", disk)
        self.follow(heading, 1, names={"n3": "n4"}, only=slice(2, None))
        wait_until("n4 is empty", lambda: self.first.succeeds("stria", "node", "remove", "n4", "--dry-run"), 120, 1)
        for disk in ("n4:d1", "n4:d2"):
            self.inline("A disk died, or is about to", "stria disk undrain n3:d1", names={"n3:d1": disk})
        self.wait_well()

    def a_controller_died(self):
        """n1 has two, with two disks each."""
        n1 = self.pcs["n1"]
        for disk in ("d1", "d2"):
            n1.run("umount", "-l", f"/srv/{disk}")
            n1.run("rmdir", f"/srv/{disk}")
        wait_until("both are missed", lambda: all(self.disks()[f"n1:{d}"]["health"] == "absent" for d in ("d1", "d2")) and
                   self.find("Disk n1:d2 is absent. Its node says: .*cannot open") and self.find("Disk n1:d1 is absent. Its node says: .*cannot open"), 60)
        self.follow("A controller died", 2)
        self.wait_well(300)
        self.verify()

    def no_spare_node(self):
        heading = "No spare node left"
        n5 = self.pcs["n5"]
        n5.services["stria-data"].stop()
        self.wait_state("n5", "down")
        self.write([f"narrow{i}" for i in range(3)])
        self.follow(heading, 1, only=slice(0, 1))
        self.follow("Is everything all right?", 1, names={"n3": "n5"})
        n5.start("stria-data")
        self.wait_state("n5", "up")
        self.wait_well(300)
        self.follow(heading, 1, only=slice(1, 2))
        n5.services["stria-data"].stop()
        self.wait_state("n5", "down")
        self.follow("Fewer nodes than the layout has columns", 1)
        self.follow(heading, 2, only=slice(0, 1))
        wait_until("n5 is made again elsewhere", lambda: (s := self.status()).get("degraded_stripes") == 0 and s["crowded_stripes"], 300, 1)
        self.follow(heading, 2, only=slice(1, None))
        self.power("n6", ["d1", "d2"])
        self.join("n6")
        wait_until("nothing is crowded", lambda: self.status().get("crowded_stripes") == 0, 300, 1)
        self.inline("Procedures", "stria node remove n3", names={"n3": "n5"})
        self.wait_well(300)
        self.follow(heading, 3)
        self.verify()
        # A removed node is refused until it is let in.
        n5.start("stria-data")
        wait_until("status notes that it asks", lambda: self.find("Node n5 was removed, and its stria-data still runs"), 60)
        code, said = self.type_in(self.first, "stria node add n5 --wait 60")
        assert code == 0, said
        self.wait_state("n5", "up")

    def a_node_was_added(self):
        self.follow("A node was added", 1)
        self.inline("A node was added", "stria rebalance stop")
        self.follow("A node was added", 1, only=slice(1, 2))
        wait_until("all is balanced", lambda: not json_of(self.stria("rebalance", "status", "--json"))["rebalance"]["running"], 300, 1)
        self.wait_well(300)

    def a_node_died(self):
        heading = "A node died"
        self.pcs["n3"].power_off()
        self.power("n7", ["d1", "d2"])
        self.join("n7")
        names = dict(zip(("n3:d1", "n3:d2"), sorted(d for d in self.disks() if d.startswith("n3:"))))
        self.follow(heading, 1, names=names)
        self.inline("Procedures", "stria cert revoke data/n3")
        self.wait_well(300)
        self.verify()
        # Not to wait, without a new node.
        n2 = self.pcs["n2"]
        n2.services["stria-data"].stop()
        self.wait_state("n2", "down")
        self.follow(heading, 2)
        n2.start("stria-data")
        self.wait_state("n2", "up")
        self.wait_well(300)
        # Set up anew under its own name, with none of its disks.
        n4 = self.pcs["n4"]
        n4.power_off()
        self.wait_state("n4", "down")
        del self.pcs["n4"]
        shutil.rmtree(n4.dir)
        self.power("n4", ["d1", "d2"])
        self.join("n4", anew=True)
        self.follow(heading, 3, names={"n3": "n4"})
        self.wait_well(300)
        self.verify()

    def moved(self):
        """A disk of n7 goes to n6."""
        heading = "A disk was put into another machine"
        n6, n7 = self.pcs["n6"], self.pcs["n7"]
        image = n7.disks.pop("d2")
        settings = n7.inside / "etc/stria/data.toml"
        tables = re.split(r"(?m)^(?=\[\[disk\]\]$)", settings.read_text())
        settings.write_text("".join(t for t in tables if "/srv/d2" not in t or not t.startswith("[[disk]]")))
        self.systemctl(n7, "reload", "stria-data")
        uuid = self.disks()["n7:d2"]["uuid"]
        wait_until("/srv/d2 of n7 can be unmounted", lambda: n7.succeeds("umount", "/srv/d2"), 60)
        n6.run("mkdir", "-p", "/srv/d3")
        device = run_here("losetup", "--find", "--show", image).strip()
        st = os.stat(device)
        if not (n6.inside / device.lstrip("/")).exists():
            os.mknod(n6.inside / device.lstrip("/"), st.st_mode, st.st_rdev)
        n6.run("mount", device, "/srv/d3")
        run_here("losetup", "--detach", device)
        n6.disks["d3"] = image
        self.inline(heading, "stria join --disk /srv/d3,label=d3", pc=n6)
        wait_until("it is served by n6", lambda: any(d["uuid"] == uuid and d["node"] == "n6" and d["state"] == "up" for d in self.disks().values()), 90)
        self.wait_well(300)
        self.verify()

    def more_died(self):
        down = ("n6", "n7")
        for name in down:
            self.pcs[name].services["stria-data"].stop()
        for name in down:
            self.wait_state(name, "down")
        wait_until("it is known what is lost", lambda: self.status().get("lost_stripes"), 60)
        self.follow("More died than the layout stands", 1, names={"/f1": "/runs/f1"})
        for name in down:
            self.pcs[name].start("stria-data")
        wait_until("nothing is lost", lambda: self.status().get("lost_stripes") == 0, 60)
        self.wait_well(300)
        self.verify()

    def metadata_is_lost(self):
        heading = "The metadata's disk is lost"
        pc1 = self.first
        code, said = self.type_in(pc1, "stria meta backup")
        assert code == 0, said
        nodes = sorted(n["name"] for n in self.status()["nodes"])
        here = dict(zip(("n4", "n2"), json_of(self.stria("status", "--json"))["upkeep"]["backup"]["nodes"]))
        self.backup_line(heading, here)
        pc1.services["stria-meta"].stop()
        pc1.run("sh", "-c", "cp -a /var/lib/stria/meta/trust /root/copy && find /var/lib/stria/meta -mindepth 1 -delete")
        pc1.run("cp", "-a", "/root/copy", "/var/lib/stria/meta/trust")
        listed = ",".join(nodes)
        change = {c.words: "runuser -u stria -- " + c.words.replace("pc1,pc2,pc3,pc4,pc5", listed) for c in self.document[heading].blocks[1].commands}
        self.follow(heading, 2, change, names={"n1, n2, n3, n4, n5": ", ".join(nodes)})
        pc1.start("stria-meta")
        wait_until("all nodes are up", lambda: {n["state"] for n in self.status().get("nodes", [])} == {"up"}, 60)
        self.wait_well(300)
        self.follow(heading, 3)
        self.verify()

    def backup_line(self, heading, here):
        """The two nodes that keep it are any two."""
        commands = self.document[heading].blocks[0].commands
        shown = commands[0].shown[0]
        code, said = self.type_in(self.first, commands[0].words)
        words = re.sub(r"on n4 and n2", f"on {' and '.join(here.values())}", shown)
        self.compare(heading, commands[0].words, [words], said)
        self.followed += 1

    def consistency(self):
        self.follow("Consistency", 1)
        inode = os.stat(self.client.pc.inside / "data/runs/f1").st_ino
        code, said = self.type_in(self.first, f"stria paths {inode}")
        assert code == 0 and "/runs/f1" in said, said

    def stolen(self):
        self.inline("Certificates and exports", "stria cert revoke client/wn7")
        wait_until("its mount is ended", lambda: not self.client.pc.succeeds("timeout", "5", "ls", f"{MOUNT}/runs"), 60)

    STEPS = ["installing", "mounting", "certificates_and_exports", "who_reads_and_writes", "being_told", "bits_rot", "taking_out", "a_disk_died", "an_index_is_lost",
             "less_rebuilding", "a_controller_died", "no_spare_node", "a_node_was_added", "a_node_died", "moved", "more_died", "metadata_is_lost", "consistency", "stolen"]

    def run(self):
        self.get_ready()
        for step in self.STEPS:
            began = time.monotonic()
            getattr(self, step)()
            self.say(f"{step}: {time.monotonic() - began:.0f} s")
        os.kill(child_of(self.watch.pid), signal.SIGTERM)  # not nsenter, its parent
        self.watch.wait(COMMAND_S)
        mails = (self.client.pc.inside / "run/sendmail").read_text()
        # What is over within seconds may be no event; that stays.
        assert "The scrub of disk n3:d2 has found 1 damaged shard" in mails, f"stria watch has sent no mail of what the scrub has found, but\n{mails}"
        self.client.pc.run("umount", "-l", MOUNT, check=False)
        self.client.pc.kill_all()
        for name in [n for n in self.pcs if n not in ("pc1", plan.CLIENT)]:
            if self.pcs[name].is_on:
                self.pcs[name].shut_down()
        self.first.shut_down()
        left = {block: numbers for block, numbers in self.left.items() if numbers}
        assert not left, f"of these blocks commands were not typed: {left}"
        assert not self.differs, "\n".join([f"{len(self.differs)} commands show something else:", *self.differs])
        self.say(f"passed: {self.followed} commands of docs/operations.md do what it says")


def main():
    room = Operations(json.loads(sys.argv[1]))
    try:
        room.run()
    except Exception as e:  # the namespaces, and with them everything else, end with this process
        traceback.print_exc()
        room.print_logs()
        room.say(f"FAILED: {e}")
        sys.exit(1)


if __name__ == "__main__":
    main()
