"""One job's part of the dimuon analysis: dimuon_part.py LIST.json [--out DIR]

LIST.json is what `stria split --align root` made for one node: ranges of entries. Writes DIR/NODE.json: the counts of
the histogram, and where this job's bytes were read from. `analyse` is the same as a function, for Dask.
"""

import argparse
import json
import os
import pathlib
import sys

import numpy as np
import uproot

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "tools/analysis"), str(HERE.parents[1] / "tools/python/src")]

import stria  # noqa: E402
from dimuon import BINS, BRANCHES, STEP, invariant_mass  # noqa: E402


def count(path, begin, end):
    """The histogram of entries [begin, end) of a file, as plain numbers."""
    counts = np.zeros(len(BINS) - 1, dtype="int64")
    with uproot.open({path: None}) as file:
        table = file["Events"]
        for start in range(begin, end, STEP):
            arrays = table.arrays(BRANCHES, entry_start=start, entry_stop=min(end, start + STEP))
            chunk = {name: np.asarray(arrays[name], dtype="float64") for name in BRANCHES}
            counts += np.histogram(invariant_mass(chunk), BINS)[0]
    return counts.tolist()


def analyse(path, begin, end):
    """count, and with it the node and where its mount read this file from meanwhile."""
    before = stria.reads(path)
    counts = count(path, begin, end)
    reads = stria.reads(path) - before
    return {"nodes": [stria.node(path)], "counts": counts, "local": reads.local, "network": reads.network,
            "reconstructed": reads.reconstructed}


def add(parts):
    """The sum of all parts."""
    total = {"counts": np.sum([p["counts"] for p in parts], axis=0).tolist(),
             "nodes": sorted({n for p in parts for n in p["nodes"]})}
    for key in ("local", "network", "reconstructed"):
        total[key] = sum(p[key] for p in parts)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    work = stria.load_work(args.list)
    result = add([analyse(i.path, i.begin, i.end) for i in work.items])
    done = args.out / f"{work.host}.json"
    partial = done.with_suffix(f".part{os.getpid()}")
    partial.write_text(json.dumps(result))
    partial.rename(done)


if __name__ == "__main__":
    main()
