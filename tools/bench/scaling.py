"""How the cost of an operation grows: with inodes, with extents of a file, with data servers, with clients.

Names and extents are measured on the metadata's store in one process (meta/ops/scale_bench_main.cc), in CPU time of its one
thread; servers and clients with real processes and mounts on this machine. What counts is how values of one run grow: the
tables give the ratio to the smallest size, the factor per tenfold size, and whether that is "flat", no faster than the
logarithm ("log") or "more".
"""

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys

import scale_cluster
from growth import Row, of_a_logarithm, ratio, table
from plot import Line, Panel, draw
from progress import Progress
from stria_bench import ROOT
from tidy import end_with_parent, place, run_to_the_end

OF = {"names": "inodes", "extents": "extents per file", "servers": "data servers", "clients": "clients, a mount each"}
TITLES = {"names": "Inodes in the metadata", "extents": "Extents of a file", "servers": "Data servers", "clients": "Clients"}
# Rows of the store's program that are drawn but need not be flat.
DRAWN = {
    "names": {"lookup in a directory of half of all": "lookup, one big directory",
              "lookup in one of many directories": "lookup, many directories", "getattr": "getattr", "create": "create",
              "rename": "rename", "unlink": "unlink", "readdir, page of 256 with attributes": "readdir, a page"},
    "extents": {"GetExtents of 64 KiB at random": "GetExtents, 64 KiB", "GetExtents of 64 extents at random": "GetExtents, 64 extents",
                "append an extent: allocate, commit": "append", "replace an extent: allocate, commit": "replace",
                "cut off the last extent": "cut off the last", "truncate to half: all of it, per extent": "truncate, per extent",
                "unlink: all of it, per extent": "unlink, per extent"},
}
COUNTED = ["tables on disk", "shards that were garbage"]
BOUNDED = ["the call, one transaction", "longest step"]  # they grow to what fits into a transaction, and no further
BIG_CLUSTER = 20  # more servers than that share this machine's disk with less to write


def decades(low, high):
    return [10 ** p for p in range(low, 19) if 10 ** p <= high]


def numbers(text):
    return sorted({int(n) for n in text.split(",")})


@dataclasses.dataclass
class Step:
    section: str
    size: int
    seconds: float  # it should take
    run: object     # called with tell(part)

    @property
    def name(self):
        return f"{self.size:,} {OF[self.section].split(',')[0]}"


class Scaling:
    def __init__(self, args, base):
        self.args, self.base = args, base
        self.rows = {}       # section -> {key: Row}
        self.failed = []
        self.clients = None  # the cluster that mounts are added to

    def steps(self):
        a, steps = self.args, []
        for size in decades(4, a.inodes) if "names" in a.only else []:
            steps.append(Step("names", size, 6 + size * 200e-6, lambda tell, n=size: self.store("names", n, tell)))
        for size in decades(0, a.extents) if "extents" in a.only else []:
            steps.append(Step("extents", size, 12 + size * 60e-6, lambda tell, n=size: self.store("extents", n, tell)))
        for size in a.servers if "servers" in a.only else []:
            steps.append(Step("servers", size, 12 + 0.8 * size, lambda tell, n=size: self.servers(n, tell)))
        for size in a.clients if "clients" in a.only else []:
            steps.append(Step("clients", size, 3 + a.seconds + 0.3 * size, lambda tell, n=size: self.more_clients(n, tell)))
        return steps

    def run(self):
        steps = self.steps()
        progress = Progress([(s.name, s.seconds) for s in steps])
        with contextlib.ExitStack() as self.stack:
            for step in steps:
                progress.begin(step.name)
                try:
                    step.run(progress.tell)
                except (RuntimeError, OSError) as e:
                    # A gap in the table, not a whole run without a result.
                    self.failed.append(step.name)
                    progress.say(f"{step.name}: failed: {e}")
            progress.tell(1)
        progress.end()

    # ---- The store, in one process ----

    def store(self, section, size, tell):
        directory = self.base / f"store-{section}-{size}"
        process = subprocess.Popen([str(self.args.bench), section, str(size), str(directory), str(self.args.operations)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
                                   preexec_fn=end_with_parent)
        try:
            for line in process.stdout:
                said = json.loads(line)
                if "progress" in said:
                    tell(said["progress"])
                    continue
                what, timed = said["row"], "cpu" in said
                row = self.rows.setdefault(section, {}).setdefault(what, Row(
                    what, "CPU µs" if timed else said["unit"], {}, judged=what not in COUNTED and not what.endswith(tuple(BOUNDED)),
                    drawn=DRAWN[section].get(what, "")))
                row.values[size] = said["cpu"] if timed else said["value"]
                if timed:
                    row.clock[size] = said["value"]
            if process.wait() != 0:
                raise RuntimeError(f"{self.args.bench.name} ended with {process.returncode}")
        finally:
            process.kill()
            process.wait()
            shutil.rmtree(directory, ignore_errors=True)

    # ---- Clusters ----

    def servers(self, count, tell):
        a, rows = self.args, self.rows.setdefault("servers", scale_cluster.server_rows())
        with scale_cluster.Cluster(self.base / f"servers{count}", a.stria, count) as cluster:
            tell(0.2)
            scale_cluster.measure_servers(cluster, rows, a.size_mib if count <= BIG_CLUSTER else a.size_mib // 2, a.files,
                                          a.idle_seconds, lambda part: tell(0.2 + 0.8 * part))
        shutil.rmtree(cluster.place, ignore_errors=True)

    def more_clients(self, count, tell):
        rows = self.rows.setdefault("clients", scale_cluster.client_rows())
        if self.clients is None:
            self.clients = self.stack.enter_context(
                scale_cluster.Cluster(self.base / "clients", self.args.stria, scale_cluster.CLIENT_SERVERS))
            self.mounted = 1
        for number in range(self.mounted, count):
            self.clients.add_mount(number)
            self.mounted = number + 1
            tell(0.6 * number / count)
        scale_cluster.measure_clients(self.clients, count, self.args.seconds, rows)


# ---- Reports ----

def to_json(rows):
    return {section: [dataclasses.asdict(r) for r in of.values() if r.values] for section, of in rows.items()}


def from_json(path):
    known = json.loads(pathlib.Path(path).read_text())["sections"]
    sized = lambda values: {int(size): value for size, value in values.items()}
    return {section: {f"{i} {r['what']}": Row(**{**r, "values": sized(r["values"]), "clock": sized(r["clock"])})
                      for i, r in enumerate(rows)} for section, rows in known.items()}


def panel(section, rows):
    lines = [Line(r.drawn, [(s, ratio(r, s)) for s in r.sizes()]) for r in rows if r.drawn and len(r.sizes()) > 1]
    if lines:
        sizes = sorted({s for one in lines for s, _ in one.points})
        lines.append(Line("the logarithm", [(s, of_a_logarithm(sizes[0], s)) for s in sizes], reference=True))
    return Panel(TITLES[section], OF[section], "cost, times that at the smallest size", lines)


def heading(args):
    return f"{datetime.date.today()}, {os.cpu_count()} cores, on {args.on}"


def report(rows, head):
    parts = [head]
    for section in OF:
        of = [r for r in rows.get(section, {}).values() if r.values]
        if of:
            parts.append(table(of, OF[section]))
    parts.append("In brackets and per decade: of the cost, which for rates is one over it. Growth: flat, log (no faster than "
                 "the logarithm) or more, with 30 % for noise; empty where it is the machine's, or linear by its nature.")
    return "\n\n".join(parts)


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="tools/bench/run scaling", description=__doc__.split("\n\n")[0])
    parser.add_argument("--svg", help="draw the growth into this file")
    parser.add_argument("--json", help="also write all values to this file")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works: a minute or two")
    parser.add_argument("--only", default=",".join(OF), help="of %(default)s")
    parser.add_argument("--inodes", type=int, help="at most, from 10,000 by tens (default 1,000,000; 10,000,000 takes half an hour)")
    parser.add_argument("--extents", type=int, help="per file, at most, from 1 by tens (default 1,000,000)")
    parser.add_argument("--servers", type=numbers, help="default 5,10,20,50")
    parser.add_argument("--clients", type=numbers, help="default 1,2,4,8,16,32")
    parser.add_argument("--operations", type=int, help="of each kind on the store (default 5000)")
    parser.add_argument("--seconds", type=float, help="of each number of clients (default 8)")
    parser.add_argument("--size-mib", type=int, help="of the large file (default 256; half of it beyond 20 servers)")
    parser.add_argument("--values", help="values of a former run's --json; what is measured now takes their place")
    parser.add_argument("--dir", default="/var/tmp/stria-bench", help="where the data goes (default %(default)s)")
    parser.add_argument("--on", choices=["disk", "tmpfs"], default="disk")
    parser.add_argument("--tmpfs-mib", type=int, default=16384)
    parser.add_argument("--stria", default=str(ROOT / "bazel-bin/tools/stria"))
    args = parser.parse_args(arguments)
    usual = {"inodes": 1_000_000, "extents": 1_000_000, "servers": [5, 10, 20, 50], "clients": [1, 2, 4, 8, 16, 32],
             "operations": 5000, "seconds": 8, "size_mib": 256}
    quick = {"inodes": 100_000, "extents": 10_000, "servers": [5, 10], "clients": [1, 2, 4], "operations": 1000, "seconds": 2,
             "size_mib": 64}
    for name, value in (quick if args.quick else usual).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    args.only = [s for s in args.only.split(",") if s]
    for section in args.only:
        if section not in OF:
            sys.exit(f"bench: there is no part called '{section}'; there are {', '.join(OF)}")
    args.files, args.idle_seconds = (50, 2) if args.quick else (200, 6)
    args.bench = ROOT / "bazel-bin/meta/ops/scale_bench"
    return args


def check(args):
    if os.geteuid() != 0:
        sys.exit("bench: mounting and dropping caches need root: run it with sudo")
    if {"servers", "clients"} & set(args.only) and not os.access(args.stria, os.X_OK):
        sys.exit(f"bench: not there: {args.stria} (run tools/build)")
    if {"names", "extents"} & set(args.only) and not os.access(args.bench, os.X_OK):
        subprocess.run(["bazel", "build", "--config=opt", "//meta/ops:scale_bench"], cwd=ROOT, stdin=subprocess.DEVNULL, check=True)


def main():
    args = parse()
    rows = from_json(args.values) if args.values else {}
    if args.only:
        check(args)
        with place(args.dir, args.on, args.tmpfs_mib, args.stria) as base:
            scaling = Scaling(args, base)
            scaling.run()
        rows |= scaling.rows
    print(report(rows, heading(args)))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"of": heading(args), "sections": to_json(rows)}, indent=1) + "\n")
    if args.svg:
        panels = [panel(section, list(rows[section].values())) for section in OF if rows.get(section)]
        columns = 1 if len(panels) == 1 else 2
        pathlib.Path(args.svg).write_text(draw("How costs grow", panels, heading(args), columns), encoding="utf-8")
    if args.only and scaling.failed:
        sys.exit(f"bench: failed: {'; '.join(scaling.failed)}")


if __name__ == "__main__":
    run_to_the_end(main)
