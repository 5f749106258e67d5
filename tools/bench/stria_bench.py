"""Stria against its peers: the same work, on the same machine, in the same run.

Absolute figures of a shared machine mean little; ratios within one run do. Rounds take turns between
the systems, so that a slow minute hits all of them, and medians over rounds are compared. Each round begins
with another system: what runs first finds other memory and another disk than what runs last. Each work begins when what the
one before it left to be done is done.

A difference of a few percent drowns in that: minutes differ, and so do two clusters of one program. `--side-by-side` has the
clusters of a round up at once and takes turns work by work, so that both sides of a ratio are measured within seconds; its
table has the median and the quartiles of these ratios.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import shutil
import sys

import ratios
from results import Results, say
from root_columns import root_columns
from systems import all_systems
from tidy import place, run_to_the_end
from work import MIB, column_scan, dataset, degraded, parallel, random_io, sequential, settle, small, untar

ROOT = pathlib.Path(__file__).resolve().parents[2]

WORK = {  # in this order
    "sequential": sequential,
    "dataset": dataset,
    "parallel": parallel,
    "random": random_io,
    "columns": column_scan,
    "root": root_columns,
    "small": small,
    "untar": untar,
    "degraded": degraded,
}


def choose(names, known, what):
    for name in names:
        if name not in known:
            sys.exit(f"bench: there is no {what} called '{name}'; there are {', '.join(known)}")
    return names


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dir", default="/var/tmp/stria-bench", help="where the data goes (default %(default)s)")
    parser.add_argument("--on", choices=["disk", "tmpfs"], default="disk",
                        help="tmpfs: all data, peers' too, in memory: what the software itself costs")
    parser.add_argument("--tmpfs-mib", type=int, default=16384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size-mib", type=int, default=2048, help="of the large files")
    parser.add_argument("--files", type=int, default=1000, help="of the small-file work")
    parser.add_argument("--fio-seconds", type=int, default=8, help="of each random work")
    parser.add_argument("--systems", default="stria,gluster,moosefs,btrfs,plain", help="in turn; ratios are of the first")
    parser.add_argument("--work", default=",".join(WORK), help="of %(default)s")
    parser.add_argument("--stria", default=str(ROOT / "bazel-bin/tools/stria"))
    parser.add_argument("--other", action="append", default=[], metavar="NAME=STRIA",
                        help="a system NAME more: the command STRIA of another tree (.../bazel-bin/tools/stria)")
    parser.add_argument("--side-by-side", action="store_true",
                        help="all systems are up at once and take turns work by work: for differences of a few percent")
    parser.add_argument("--passes", type=int, default=2, metavar="N",
                        help="with --side-by-side: each round does each work N times on its clusters (default %(default)s)")
    parser.add_argument("--json", help="also write all values to this file")
    parser.add_argument("--svg", help="also draw the ratios to this file")
    return parser.parse_args()


def in_order(work):
    """In WORK's order, not the given one: its last ones do damage, which the others must not measure."""
    return [name for name in WORK if name in work]


def in_turn(systems, round_number):
    first = (round_number - 1) % len(systems) if systems else 0
    return systems[first:] + systems[:first]


def attempt(system, name, mount, args, results):
    try:
        WORK[name](system, mount, args, results)
    except (RuntimeError, OSError) as e:
        # One that fails leaves a gap in the table, not the whole run without a result.
        say(f"  {system.name}: {name} failed: {e}")


def one_round(system, work, args, results):
    with system.mounted() as mount:
        for name in work:
            settle(system.left_to_do)
            attempt(system, name, mount, args, results)
        results.add_memory(system.name, system.processes())


def passes_in_turn(systems, round_number, passes):
    """The orders of a round's passes: each begins with another system than the one before it, and so do the rounds."""
    return [in_turn(systems, round_number + n) for n in range(passes)]


def side_by_side(systems, work, round_number, args, results):
    """One round with all systems up. They are made in turn, too: the one that is made last is the youngest."""
    with contextlib.ExitStack() as stack:
        mounts = {s.name: stack.enter_context(s.mounted()) for s in in_turn(systems, round_number)}
        for order in passes_in_turn(systems, round_number, args.passes):
            for name in work:
                settle(lambda: sum(s.left_to_do() for s in systems))
                for system in order:
                    attempt(system, name, mounts[system.name], args, results)
        for system in systems:
            results.add_memory(system.name, system.processes())


def main():
    args = parse()
    if os.geteuid() != 0:
        sys.exit("bench: mounting, dropping caches and network namespaces need root: run it with sudo")
    if "random" in args.work and not shutil.which("fio"):
        sys.exit("bench: the random work needs fio: apt-get install fio, or leave it out of --work")
    results = Results()
    with place(args.dir, args.on, args.tmpfs_mib, args.stria) as base:
        known = all_systems(base, args.stria, 2 * args.size_mib * MIB + (1 << 30), args.other)
        systems = [known[s] for s in choose(args.systems.split(","), known, "system")]
        work = in_order(choose(args.work.split(","), WORK, "work"))
        for system in list(systems):
            if system.missing():
                say(f"without {system.name}: not installed: {', '.join(system.missing())}")
                systems.remove(system)
        if args.side_by_side and "degraded" in work:
            sys.exit("bench: degraded kills a node, which the others of --side-by-side would feel: leave it out of --work")
        for round_number in range(1, args.rounds + 1):
            if args.side_by_side:
                say(f"round {round_number} of {args.rounds}: {', '.join(s.name for s in systems)}")
                side_by_side(systems, work, round_number, args, results)
                continue
            for system in in_turn(systems, round_number):
                say(f"round {round_number} of {args.rounds}: {system.name}")
                one_round(system, work, args, results)
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, on {args.on}, {args.rounds} rounds, medians")
    print()
    print(results.table([s.name for s in systems]))
    if args.side_by_side:
        print()
        print(results.pairs([s.name for s in systems]))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results.json(), indent=1))
    if args.svg and len(systems) > 1:
        rows = {work: per for (work, _), per in results.values.items()}
        pathlib.Path(args.svg).write_text(ratios.draw(f"{systems[0].name} beside peers, on {args.on}", systems[0].name, rows))


if __name__ == "__main__":
    run_to_the_end(main)
