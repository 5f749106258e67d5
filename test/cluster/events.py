"""Being told: a node dies and comes back, and `stria events` says each change once; `stria watch` runs a program for each of them
exactly once, also if the watcher and the metadata server are started anew meanwhile, and if the program fails at first. The unit
stria-watch, with the file that docs/operations.md has for it, sends mail for each, too."""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess

from stria_cluster import MIB, Cluster, main, say, wait_for

TOP = next(p for p in pathlib.Path(__file__).resolve().parents if (p / "WORKSPACE").exists())
UNIT = TOP / "tools/package/debian/stria-client.stria-watch.service"
SETTINGS = "/etc/default/stria-watch"
SENDMAIL = """#!/bin/sh
echo "words: $*" >> "{dir}/mails"
cat >> "{dir}/mails"
"""

FILE_BYTES = 3 * MIB
WAIT_S = 90
PROGRAM = """#!/bin/sh
# Fails at its first run; then notes what it was told.
if [ ! -e "{dir}/failed" ]; then touch "{dir}/failed"; exit 1; fi
cat >> "{dir}/input"
echo "$STRIA_EVENT_SEQ $STRIA_EVENT_KIND $STRIA_EVENT_SUBJECT" >> "{dir}/told"
"""


class Watcher:
    def __init__(self, c):
        self.c, self.dir = c, c.dir / "watch"
        self.dir.mkdir()
        self.program = self.dir / "program"
        self.program.write_text(PROGRAM.format(dir=self.dir))
        self.program.chmod(0o755)
        self.state, self.process = self.dir / "state", None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait(60)

    def start(self):
        known = json.loads((self.c.cluster / "cluster.json").read_text())
        environment = {**os.environ, "STRIA_META": known["meta"], "STRIA_TRUST": known.get("trust", "off")}
        with open(self.dir / "log", "ab") as log:
            self.process = subprocess.Popen([self.c.stria_path, "watch", "--exec", self.program, "--state", self.state],
                                            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for("the watcher has a state", self.state.exists, 30)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, (self.dir / "log").read_text()
        self.process = None

    def told(self):
        """(number, kind, subject) of what the program was told, in order."""
        path = self.dir / "told"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(seq), kind, subject) for seq, kind, subject in (line.split(" ", 2) for line in lines)]


class UnitWatcher:
    """stria-watch as systemd starts it: the unit's own command in /, with no environment but that of its file, which is written by the
    commands of docs/operations.md. Only paths are the test's, the metadata server's name, and what sends mail."""

    def __init__(self, c):
        self.c, self.dir = c, c.dir / "unit"
        self.dir.mkdir()
        self.sendmail, self.settings, self.process = self.dir / "sendmail", self.dir / "settings", None
        self.sendmail.write_text(SENDMAIL.format(dir=self.dir))
        self.sendmail.chmod(0o755)

    def __enter__(self):
        known = json.loads((self.c.cluster / "cluster.json").read_text())
        document = (TOP / "docs/operations.md").read_text()
        commands = [re.sub(r"^\w+#\s+", "", line) for line in document.splitlines() if line.endswith(f"> {SETTINGS}")]
        assert commands, f"docs/operations.md has no command that writes {SETTINGS}"
        script = "\n".join(commands).replace(SETTINGS, str(self.settings)).replace("=pc1", f"={known['meta']}")
        subprocess.run(["sh", "-ec", script], check=True)
        settings = dict(shlex.split(line)[0].split("=", 1) for line in self.settings.read_text().splitlines())
        unit = UNIT.read_text()
        assert f"\nEnvironmentFile=-{SETTINGS}\n" in unit, "the unit reads another file"
        command = re.search(r"^ExecStart=(.*)$", unit, re.M)[1].split()
        places = {"/usr/bin/stria": [self.c.stria_path], "/var/lib/stria-watch/state": [self.dir / "state"],
                  "$STRIA_WATCH": [*settings["STRIA_WATCH"].split(), "--sendmail", self.sendmail]}
        words = [str(w) for word in command for w in places.get(word, [word])]
        # Where the credentials are is not said in the file: on a PC they are in the usual place.
        environment = {**settings, "STRIA_TRUST": known.get("trust", "off")}
        with open(self.dir / "log", "ab") as log:
            self.process = subprocess.Popen(words, cwd="/", env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for("stria-watch has a state, or has ended", lambda: (self.dir / "state").exists() or self.process.poll() is not None, 30)
        assert self.process.poll() is None, f"stria-watch ended with {self.process.poll()}: {(self.dir / 'log').read_text()}"
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait(60)

    def mails(self):
        path = self.dir / "mails"
        return path.read_text() if path.exists() else ""

    def await_mail(self, sentence):
        wait_for(f"root has mail of '{sentence}'", lambda: sentence in self.mails(), WAIT_S, 0.5)
        assert "words: -t -i" in self.mails() and "To: root" in self.mails(), self.mails()


def events(c):
    return json.loads(c.stria("events", "--json", "--since", "1h").stdout)["events"]


def kinds(c, after=0):
    return [(e["kind"], e["subject"]) for e in events(c) if e["seq"] > after]


def last(c):
    return max((e["seq"] for e in events(c)), default=0)


def await_kind(c, kind, subject, after):
    wait_for(f"{kind} of {subject} is an event", lambda: (kind, subject) in kinds(c, after), WAIT_S, 0.5)


def once(c, kind, subject, after):
    found = [k for k in kinds(c, after) if k == (kind, subject)]
    assert len(found) == 1, f"{kind} of {subject} was told {len(found)} times: {kinds(c, after)}"


def a_node_dies_and_returns(c, watcher):
    began = last(c)
    c.kill("n3")
    await_kind(c, "node-down", "n3", began)
    await_kind(c, "degraded", "cluster", began)
    down = next(e for e in events(c) if e["kind"] == "node-down" and e["seq"] > began)
    assert down["severity"] == "warning" and "stria node replace n3" in down["action"], down
    assert "Node n3 is down" in c.stria("events", "--since", "1h", "--severity", "warning").stdout

    watcher.stop()
    before = watcher.told()
    c.kill("meta")
    c.start("meta")
    wait_for("the metadata server answers", lambda: c.node("n3")["state"] == "down", 60)
    assert watcher.told() == before, "nobody watches"
    watcher.start()

    c.start("n3")
    await_kind(c, "node-up", "n3", began)
    await_kind(c, "rebuilt", "cluster", began)
    for kind, subject in (("node-down", "n3"), ("degraded", "cluster"), ("node-up", "n3"), ("rebuilt", "cluster")):
        once(c, kind, subject, began)
    return began


def all_told_once(c, watcher, began):
    def is_all_told():
        expected = [e["seq"] for e in events(c) if e["seq"] > began]
        return expected and [t[0] for t in watcher.told() if t[0] > began] == expected
    wait_for("the program was told all of it", is_all_told, WAIT_S, 0.5)
    numbers = [t[0] for t in watcher.told() if t[0]]
    assert len(numbers) == len(set(numbers)), f"told twice: {watcher.told()}"
    inputs = [json.loads(line) for line in (watcher.dir / "input").read_text().splitlines()]
    assert [i["seq"] for i in inputs] == [t[0] for t in watcher.told()], "environment and input are of the same events"
    say(f"{len(numbers)} events, each told once: {', '.join(k for _, k, _ in watcher.told())}")


def scenario():
    with Cluster(nodes=5, disks=1, layout="raid5:3+1") as c:
        for i in range(6):
            c.write(f"f/{i}", FILE_BYTES + i)
        c.wait_whole()
        with UnitWatcher(c) as unit, Watcher(c) as watcher:
            began = a_node_dies_and_returns(c, watcher)
            unit.await_mail("Node n3 is down")
            all_told_once(c, watcher, began)
            watcher.stop()
        c.verify()
        c.fsck()


main(scenario)
