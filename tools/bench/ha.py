"""Several metadata servers measured: what clients notice when one is lost, what they cost beside one alone, how soon one is back.

All on this machine: five data servers with one disk each, and etcd. The bounds beside the values are those that the design was
accepted by. Each event has a loop that creates, writes, syncs and closes files of 4 KiB; all that it was told to be durable
is looked for afterwards, through another mount. What is compared with a single metadata server is measured in turn, in
pairs, while both clusters are up.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import sys
import time

import ha_table
from ha_cluster import Cluster
from ha_compare import MANY, Compare, round_trip_ms
from ha_events import Events
from progress import Progress
from stria_bench import ROOT
from tidy import place, run_to_the_end

COMPARED = ("latency", "writers", "plain")
REJOINS = {"outage": "rejoin after an outage", "diverged": "rejoin with a diverged tail", "copy": "rejoin by copy"}
ROWS = (*ha_table.STALLS, "etcd", *COMPARED, *REJOINS)
SLOW = "deadmount"  # it waits for a lease
NEED_DROP = ("cutoff", "deadmount", "diverged")
UP_S = 20
FILL_PART = 0.3  # of the time of a copy: making what is copied
EVENT_S = {"switchover": 7, "kill": 20, "stop": 18, "cutoff": 20, "deadmount": 40, "standby": 14, "standbystop": 10}
PROGRAMS = ("etcd", "ip", "nsenter")


@dataclasses.dataclass
class Step:
    name: str
    row: str
    count: int
    seconds: float  # each of them should take


class Measurement:
    def __init__(self, args, base):
        self.args, self.base = args, base
        self.values = {}
        self.failed, self.left_out = [], {}
        self.running = {}  # "solo" and "metas": cluster
        self.of_cluster = None  # the events of the cluster that runs
        self.seen = None        # by events of all clusters
        self.made = self.kept = 0

    # ---- Clusters ----

    def cluster(self, side):
        if side not in self.running:
            self.made += 1
            cluster = Cluster(self.base / f"{side}{self.made}", self.args.stria, 1 if side == "solo" else self.args.metas)
            self.running[side] = cluster
            self.progress.say(f"  starting {side}: {cluster.metas} metadata server{'s' if cluster.metas > 1 else ''}")
            cluster.up()
        return self.running[side]

    def drop_clusters(self):
        for side in list(self.running):
            self.running.pop(side).down()

    def events(self):
        if self.of_cluster is None:
            self.of_cluster = Events(self.cluster("metas"), lambda text: self.progress.say(f"  {text}"))
            self.of_cluster.seen = self.seen = self.seen or self.of_cluster.seen
        return self.of_cluster

    # ---- Steps ----

    def steps(self):
        a, out = self.args, []
        for row in (r for r in ROWS if r in a.only):
            if row in ha_table.STALLS:
                count = max(1, a.events // 4) if row == "deadmount" else a.events
                out.append(Step(ha_table.STALLS[row].what, row, count, EVENT_S[row]))
            elif row == "etcd":
                out.append(Step("all of etcd lost", row, a.repeats, 2 * a.etcd_seconds + 8))
        if any(r in a.only for r in COMPARED):
            rows = [r for r in COMPARED if r in a.only]
            each = len(rows) * 2 * (3 * a.seconds + a.rest_s / 2)
            out.append(Step(f"beside one alone: {', '.join(rows)}", "compare", a.rounds, each))
        for row in (r for r in REJOINS if r in a.only):
            each = {"outage": a.outage_seconds + 8, "diverged": 18,
                    "copy": a.copy_seconds + 12 + a.copy_mib / 25 + a.copy_mib / 4 / a.repeats}[row]
            out.append(Step(REJOINS[row], row, a.repeats, each))
        return out

    def run(self):
        steps = self.steps()
        self.progress = Progress([(s.name, s.count * s.seconds + (UP_S if i == 0 else 0)) for i, s in enumerate(steps)])
        for step in steps:
            self.progress.begin(step.name)
            try:
                if why := self.cannot(step.row):
                    self.left_out[step.row] = why
                    self.progress.say(f"  left out: {why}")
                    continue
                getattr(self, step.row if step.row in ("etcd", "compare", *REJOINS) else "stalls")(step)
            except (RuntimeError, OSError, KeyError) as e:
                # A gap in the table, not a whole run without a result. What it left may be broken.
                self.failed.append(step.name)
                self.progress.say(f"{step.name}: failed: {e!r}")
                self.keep_logs(step.row)
                self.of_cluster = None
                self.drop_clusters()
        self.progress.tell(1)
        self.progress.end()
        if self.seen and self.seen["events"]:
            self.values["lost"] = self.seen

    def cannot(self, row):
        if row not in NEED_DROP:
            return ""
        if not shutil.which("tc"):
            return "there is no tc (iproute2)"
        why = self.cluster("metas").can_drop()
        return why and f"packets cannot be dropped here: {why}"

    def keep_logs(self, why):
        if self.args.logs:
            self.kept += 1
            for side, cluster in self.running.items():
                cluster.keep_logs(pathlib.Path(self.args.logs) / f"{self.kept}-{why}-{side}")
            self.progress.say(f"  {datetime.datetime.now():%H:%M:%S}: logs are in {self.args.logs}")

    def suspicious(self, row, is_so):
        if is_so:
            self.keep_logs(row)

    def stalls(self, step):
        values = self.values.setdefault(step.row, {"stalls": []})
        limit = max(seconds for _, seconds in ha_table.STALLS[step.row].limits)
        for i in range(step.count):
            events = self.events()
            before = (events.seen["missing"], events.seen["failed"])
            values["stalls"].append(events.stall(step.row, step.row in ha_table.FAILOVERS))
            self.suspicious(step.row, values["stalls"][-1] > limit or before != (events.seen["missing"], events.seen["failed"]))
            self.progress.tell((i + 1) / step.count)

    def etcd(self, step):
        values = self.values.setdefault("etcd", {"before": [], "during": [], "failed": 0, "seconds": self.args.etcd_seconds})
        for i in range(step.count):
            before, during, failed = self.events().etcd(self.args.etcd_seconds)
            values["before"].append(before)
            values["during"].append(during)
            values["failed"] += failed
            self.suspicious("etcd", failed)
            self.progress.tell((i + 1) / step.count)

    def compare(self, step):
        a = self.args
        metas, solo = self.cluster("metas"), self.cluster("solo")
        metas.settle()
        compare = Compare(solo, metas, a.seconds, a.files, lambda text: self.progress.say(f"  {text}"), a.rest_s)
        works = [w for w in COMPARED if w in a.only]
        try:
            for number in range(step.count):
                self.values.setdefault("rtt", []).append(round_trip_ms())
                for i, work in enumerate(works):
                    compare.turn(work, number)
                    self.progress.tell((number + (i + 1) / len(works)) / step.count)
        finally:
            whole = lambda pair: len(pair["solo"]) == len(pair["metas"])
            self.values["pairs"] = {row: pair for row, pair in compare.pairs.items() if whole(pair)}
        self.running.pop("solo").down()

    def outage(self, step):
        self.rejoin(step, lambda: self.events().outage(self.args.outage_seconds), {"outage": self.args.outage_seconds})

    def diverged(self, step):
        self.rejoin(step, lambda: self.events().diverged(), {})

    def rejoin(self, step, once, more):
        values = self.values.setdefault(step.row, {"seconds": [], "rate": [], **more})
        for i in range(step.count):
            seconds, rate = once()
            values["seconds"].append(seconds)
            values["rate"].append(rate)
            self.suspicious(step.row, seconds > 2 * ha_table.REJOIN_S)
            self.progress.tell((i + 1) / step.count)

    def copy(self, step):
        a = self.args
        values = self.values.setdefault("copy", {"rate": [], "seconds": [], "before": [], "during": [], "mib": a.copy_mib})
        began = time.monotonic()
        self.events().fill(a.copy_mib, lambda part: self.progress.tell(part * FILL_PART))
        self.progress.say(f"  {a.copy_mib} MiB of metadata were made in {time.monotonic() - began:.0f} s")
        for i in range(step.count):
            for key, value in self.events().copy(a.copy_mib, a.copy_seconds).items():
                values[key].append(value)
            self.progress.tell(FILL_PART + (1 - FILL_PART) * (i + 1) / step.count)


# ---- Reports ----

def heading(args):
    return (f"{datetime.date.today()}, {os.cpu_count()} cores, on {args.on}, {args.metas} metadata servers, five data servers, "
            f"{ha_table.times(args.events, 'event')} of each kind, {ha_table.times(args.rounds, 'round')}")


def report(values, left_out, head):
    parts = [head, ha_table.table(ha_table.verdicts(values, MANY))]
    for row, why in left_out.items():
        parts.append(f"Left out: {row}: {why}.")
    parts.append("All servers share this machine's processors and disk; the bounds are of servers with their own. In brackets after a ratio: "
                 "its quartiles.")
    return "\n\n".join(parts)


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="tools/bench/run ha", description=__doc__.split("\n\n")[0])
    parser.add_argument("--metas", type=int, choices=[2, 3], default=3)
    parser.add_argument("--only", help=f"of {','.join(ROWS)}")
    parser.add_argument("--quick", action="store_true", help="few events, to see that it works: about three minutes; without " + SLOW)
    parser.add_argument("--events", type=int, help="of each kind (default 20; of those with a dead mount a quarter)")
    parser.add_argument("--rounds", type=int, help="pairs of measurements beside one alone (default 10)")
    parser.add_argument("--repeats", type=int, help="of an outage of etcd, and of each way of coming back (default 5)")
    parser.add_argument("--seconds", type=float, help="of each measurement beside one alone (default 5)")
    parser.add_argument("--files", type=int, help="of each plain operation (default 3000)")
    parser.add_argument("--copy-mib", type=int, help="metadata that is copied (default 256)")
    parser.add_argument("--dir", default="/var/tmp/stria-bench", help="where the data goes (default %(default)s)")
    parser.add_argument("--on", choices=["disk", "tmpfs"], default="disk")
    parser.add_argument("--tmpfs-mib", type=int, default=16384)
    parser.add_argument("--stria", default=str(ROOT / "bazel-bin/tools/stria"))
    parser.add_argument("--json", help="also write all values to this file")
    parser.add_argument("--logs", metavar="DIR", help="keep the servers' logs after events beyond a bound, a loss, or a failure")
    args = parser.parse_args(arguments)
    usual = {"events": 20, "rounds": 10, "repeats": 5, "seconds": 5.0, "files": 3000, "copy_mib": 256, "etcd_seconds": 20.0,
             "outage_seconds": 10.0, "copy_seconds": 10.0, "rest_s": 15}
    quick = {"events": 1, "rounds": 1, "repeats": 1, "seconds": 1.0, "files": 300, "copy_mib": 16, "etcd_seconds": 3.0,
             "outage_seconds": 3.0, "copy_seconds": 2.0, "rest_s": 1}
    for name, value in (quick if args.quick else usual).items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)
    most = [row for row in ROWS if not (args.quick and row == SLOW)]
    args.only = [row for row in args.only.split(",") if row] if args.only else most
    for row in args.only:
        if row not in ROWS:
            sys.exit(f"bench: there is no row called '{row}'; there are {', '.join(ROWS)}")
    return args


def main():
    args = parse()
    if os.geteuid() != 0:
        sys.exit("bench: mounting and network namespaces need root: run it with sudo")
    if not os.access(args.stria, os.X_OK):
        sys.exit(f"bench: not there: {args.stria} (run tools/build)")
    if lacking := [p for p in PROGRAMS if not shutil.which(p)]:
        sys.exit(f"bench: not installed: {', '.join(lacking)} (etcd is in the package etcd-server)")
    with place(args.dir, args.on, args.tmpfs_mib, args.stria) as base:
        measured = Measurement(args, base)
        measured.run()
        measured.drop_clusters()
    print(report(measured.values, measured.left_out, heading(args)))
    if args.json:
        all_of_it = {"of": heading(args), "values": measured.values, "left_out": measured.left_out}
        pathlib.Path(args.json).write_text(json.dumps(all_of_it, indent=1) + "\n")
    if measured.failed:
        sys.exit(f"bench: failed: {'; '.join(measured.failed)}")


if __name__ == "__main__":
    run_to_the_end(main)
