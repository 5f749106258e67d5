"""Failovers of two metadata servers with a real etcd, again and again, under load from three mounts, and what it was told compared with
what is there: ha_failovers.py [--failovers N] [--kinds ..] [--seed N] [--logs DIR]. Without arguments one of each kind.

The primary is killed with -9; stopped beyond every lease, and goes on; its PC (it and a member of etcd) is cut off from the network, what it
sends, what it gets, or both, and comes back; its PC loses its power, and all that it had not synced. Under a load of durable files, of names
and appended records that show what is done twice, and of registers and names whose answers must have an order (two checkers: test/linear's
and porcupine). After each, nothing that was acknowledged is lost, nothing was done twice, fsck is clean; the oracles are shown to see faults."""

import argparse
import collections
import contextlib
import datetime
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

from ha_checks import Checkers
from ha_pair import settled
from ha_work import Result, Work
from loop_disk import put_nodes_on
from own_namespaces import enter_namespaces
from pcs import Pcs
from stria_cluster import Cluster, main, say, wait_for

from ha_table import percentile  # isort: skip  (of tools/bench, which ha_work finds)
from progress import Progress  # isort: skip

PCS = {"pc1": ["meta1", "etcd1"], "pc2": ["meta2", "etcd2"]}
KINDS = {  # what it is, what it needs, seconds that one should take
    "kill": ("kill -9", None, 22),
    "stop": ("SIGSTOP beyond every lease, SIGCONT", None, 38),
    "cutout": ("what its PC sends is dropped", "cut", 25),
    "cutin": ("what its PC gets is dropped", "cut", 25),
    "cutoff": ("its PC is cut off both ways", "cut", 25),
    "power": ("power cut of its PC", "power", 25),
}
# What does not pass yet, and is left out unless --kinds names it.
PENDING = {"cutin": "a primary that can send and hears nothing takes the other one out of the set before that one may take over: nobody serves "
                    "until the network is whole"}
CUTS = {"cutout": ["out"], "cutin": ["in"], "cutoff": ["in", "out"]}
MOUNTS = 3
BEFORE_S, AFTER_S = 1.0, 1.0
BEYOND_LEASES_S = 17.0  # a session's is 15 s
HOLD_S = 2.0  # until one that is cut off, or dead, is back: at random up to this
SERVES_S = 60
LONG_STALL_S = 8.0  # as the design has it, of a machine with nothing else to do


class Run:
    def __init__(self, cluster, pcs, checkers, place, args):
        self.c, self.pcs, self.checkers, self.place, self.args = cluster, pcs, checkers, place, args
        self.rng = random.Random(args.seed)
        self.results, self.before = [], None
        self.mounts = [cluster.mount]
        for i in range(2, MOUNTS + 1):
            self.mounts.append(cluster.dir / f"mnt{i}")
            cluster.stria("dev", "mount", "--dir", cluster.cluster, "--at", self.mounts[-1], "--node", f"n{i}")

    # ---- What happens to the primary: gives how it is undone, and how many seconds later at least ----

    def happens(self, kind, name):
        c, pc = self.c, self.pcs.pc_of(name)
        etcd = next(n for n in self.pcs.of[pc] if n != name)
        hold = self.rng.uniform(0, HOLD_S)
        second = sum(r.kind == kind for r in self.results) % 2 == 0  # every second one of its kind; this one counts already
        if kind == "kill":
            both = second  # with etcd's member, perhaps its leader
            for victim in (etcd, name) if both else (name,):
                c.kill(victim)
            return lambda: [c.start(n) for n in ((etcd, name) if both else (name,))], hold
        if kind == "stop":
            pid = next(p["pid"] for p in c.processes() if p["name"] == name)
            os.kill(pid, signal.SIGSTOP)
            return lambda: os.kill(pid, signal.SIGCONT), BEYOND_LEASES_S + hold
        if kind in CUTS:
            self.pcs.cut(pc, CUTS[kind])
            return self.pcs.heal, hold
        self.pcs.power_off(c, pc, silent=not second)
        return lambda: (self.pcs.power_on(pc), c.start(etcd), c.start(name)), hold

    def event(self, kind):
        number, result = len(self.results) + 1, Result(kind)
        status = settled(self.c)
        self.results.append(result)
        work = Work(self.mounts, number, self.place / f"event{number}")
        with contextlib.ExitStack() as stack:
            stack.callback(work.kill)
            work.begins()
            time.sleep(BEFORE_S + self.rng.random())
            began, at = time.monotonic(), datetime.datetime.now()
            undo, hold = self.happens(kind, status["primary"])
            work.goes_on(time.monotonic())
            after = time.monotonic() - began
            now = wait_for("another one serves", lambda: self.other_serves(status), SERVES_S)
            time.sleep(max(0.0, began + hold - time.monotonic()))
            undone = time.monotonic()
            undo()
            last = settled(self.c)
            result.settled = time.monotonic() - undone
            work.goes_on(time.monotonic())
            time.sleep(AFTER_S)
            work.end(result, began)
        assert last["primary"] == now["primary"], f"the place went from {now['primary']} to {last['primary']} when the old one was back"
        work.check(result, self.checkers)
        if self.before:
            self.before.check_again(result)
        self.fsck(result)
        if number == 1 and result.is_good():
            blind = work.see_faults(self.checkers)
            assert not blind, f"the oracles do not see {blind}"
            say("the oracles see what is lost, done twice, or answered wrongly on purpose")
        if result.is_good():
            if self.before:
                self.before.remove()
            self.before = work
        say(f"{kind} at {at:%H:%M:%S}: {status['primary']}, then {now['primary']} in term {now['term']}; all went on after {after:.1f} s; stalls of {result.stall:.2f} s, "
            f"{result.shared:.2f} s of what is shared; both in sync {result.settled:.1f} s after it was back; {result.operations} operations, {result.acknowledged} durable files; {len(result.lost)} lost, {len(result.twice)} twice, "
            f"{result.failed} failed, {len(result.unordered)} without an order")
        if self.args.logs and max(result.stall, result.shared) > LONG_STALL_S:
            self.keep_logs(pathlib.Path(self.args.logs) / f"event{number}-{kind}")
        assert result.is_good(), "\n".join([*result.lost[:20], *result.twice[:20], *result.unordered, f"{result.failed} operations failed"])

    def other_serves(self, before):
        status = self.c.members()
        return status.get("primary") != before["primary"] and status.get("term", 0) > before["term"] and status

    def fsck(self, result):
        self.c.fsck()
        result.fsck = True

    # ---- The run ----

    def kinds(self):
        able = [k for k in self.args.kinds if KINDS[k][1] not in self.pcs.why_not]
        out = []
        while able and len(out) < self.args.failovers:
            out += self.rng.sample(able, len(able)) if self.args.failovers > len(able) else able
        return out[:self.args.failovers]

    def all(self):
        kinds = self.kinds()
        progress = Progress([(kind, KINDS[kind][2]) for kind in kinds])
        began = time.monotonic()
        for i, kind in enumerate(kinds):
            progress.begin(kind)
            self.event(kind)
            progress.tell(1)
            rate = (i + 1) / (time.monotonic() - began)
            say(f"{i + 1} of {len(kinds)} failovers, {rate * 60:.1f} a minute, {progress.rest() / 60:.0f} min left")
        progress.end()

    def keep_logs(self, directory):
        shutil.copytree(self.c.cluster / "log", directory, dirs_exist_ok=True)

    def keep(self, directory):
        """What tells what went wrong."""
        shutil.copytree(self.place, directory, dirs_exist_ok=True)
        self.keep_logs(directory / "log")
        say(f"logs, notes and histories are in {directory}")


def table(results, checkers):
    rows = collections.defaultdict(list)
    for one in results:
        rows[one.kind].append(one)
    names = list(checkers)
    lines = [["kind", "events", "stall p50", "p95", "max", "operations", "durable files", "lost", "twice", "failed", *names, "fsck clean"]]
    for kind, of in [*rows.items(), ("all", results)]:
        stalls = [r.stall for r in of]
        explained = [f"{sum(r.verdicts.get(n, 0) for r in of)} explained" for n in names]
        lines.append([KINDS[kind][0] if kind in KINDS else "all", len(of), *(f"{percentile(stalls, p):.2f} s" for p in (50, 95, 100)),
                      f"{sum(r.operations for r in of):,}", f"{sum(r.acknowledged for r in of):,}", sum(len(r.lost) for r in of),
                      sum(len(r.twice) for r in of), sum(r.failed for r in of), *explained, sum(r.fsck for r in of)])
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failovers", type=int, default=int(os.environ.get("STRIA_HA_KILLS", 0)), help="(STRIA_HA_KILLS) default: one of each kind")
    parser.add_argument("--kinds", default=",".join(k for k in KINDS if k not in PENDING), help=f"of {','.join(KINDS)} (default %(default)s)")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("STRIA_TEST_SEED", 1)))
    parser.add_argument("--logs", default=os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR"), metavar="DIR", help="where logs and histories go if something is wrong, and logs after a long stall")
    args = parser.parse_args()
    args.kinds = args.kinds.split(",")
    if unknown := set(args.kinds) - set(KINDS):
        parser.error(f"there is no kind {sorted(unknown)[0]}; there are {', '.join(KINDS)}")
    args.is_long = args.failovers > len(args.kinds)
    args.failovers = args.failovers or len(args.kinds)
    return args


def scenario():
    args = parse()
    if missing := [p for p in ("etcd", "ip", "unshare") if shutil.which(p) is None]:
        sys.exit(f"{missing[0]} is not installed; see tools/packages.txt")
    if os.geteuid() != 0:
        return say("SKIPPED: namespaces are made by root")
    enter_namespaces()
    with tempfile.TemporaryDirectory(prefix="stria-failovers-", dir=os.environ.get("STRIA_TEST_DIR", "/var/tmp")) as d, contextlib.ExitStack() as stack:
        directory = pathlib.Path(d)
        checkers = Checkers(directory)
        pcs = Pcs(directory, PCS, stack)
        for kind in set(PENDING) - set(args.kinds):
            say(f"left out: {kind}, {KINDS[kind][0]}: {PENDING[kind]}")
        for what, why in (*checkers.why_not.items(), *pcs.why_not.items()):
            say(f"without {what}: {why}")
            assert not args.is_long, "a long run is one of everything"
        c = Cluster(nodes=4, disks=1, layout="raid5:3+1", metas=2)
        put_nodes_on(c.cluster, pcs.disks_of_processes())
        c.programs = directory / "programs"
        pcs.wrap_programs(c.programs)
        os.environ["PATH"] = f"{c.programs}:{os.environ['PATH']}"
        with c:
            # The one that `stria dev` has made is on the disk of a PC, which may have no power.
            shutil.copytree(next(c.cluster.glob("meta1/trust/admin")), directory / "admin")
            c.admin = directory / "admin"
            run = Run(c, pcs, checkers, directory / "work", args)
            try:
                run.all()
            except BaseException:
                with contextlib.suppress(Exception):
                    say(f"the metadata servers are: {json.dumps(c.members())}")
                    pcs.heal()
                    run.keep(pathlib.Path(args.logs or tempfile.mkdtemp(prefix="stria-failovers-", dir="/var/tmp")))
                raise
            finally:
                if run.results:
                    print(table(run.results, checkers.programs), flush=True)
            settled(c)
            c.fsck()


main(scenario)
