"""The invariant mass of muon pairs: dimuon.py FILE.root.. [--png F] [--json F] [--cold]

Prints a histogram and the Z peak. --json writes the counts, for comparing two runs; --cold first drops
what the kernel keeps of the files, so that every byte comes from the filesystem.
"""

import argparse
import json
import os
import pathlib
import sys

import numpy as np
import uproot

BINS = np.geomspace(2, 200, 61)
BRANCHES = ["mu1_pt", "mu1_eta", "mu1_phi", "mu1_charge", "mu2_pt", "mu2_eta", "mu2_phi", "mu2_charge"]
STEP = 500_000


def drop_cached(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def chunks(path):
    with uproot.open(path) as file:
        table = file["Events"]
        for start in range(0, table.num_entries, STEP):
            arrays = table.arrays(BRANCHES, entry_start=start, entry_stop=start + STEP)
            yield {name: np.asarray(arrays[name], dtype="float64") for name in BRANCHES}


def invariant_mass(e):
    opposite = e["mu1_charge"] * e["mu2_charge"] < 0
    m2 = 2 * e["mu1_pt"] * e["mu2_pt"] * (np.cosh(e["mu1_eta"] - e["mu2_eta"]) - np.cos(e["mu1_phi"] - e["mu2_phi"]))
    return np.sqrt(np.maximum(m2[opposite], 0))


def text_histogram(counts, width=60):
    top = counts.max() or 1
    lines = []
    for low, high, n in zip(BINS[:-1:2], BINS[2::2], counts[::2] + counts[1::2]):
        bar = "#" * int(round(width * n / (2 * top)))
        lines.append(f"  {low:6.1f} - {high:6.1f} GeV {n:10,} {bar}")
    return "\n".join(lines)


def draw(counts, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(8, 5))
    axes.stairs(counts, BINS, fill=True)
    axes.set(xscale="log", yscale="log", xlabel="invariant mass of the muon pair [GeV]", ylabel="pairs",
             title=f"{counts.sum():,} muon pairs read from Stria")
    for name, mass in (("J/psi", 3.097), ("Upsilon", 9.46), ("Z", 91.19)):
        axes.annotate(name, (mass, counts[np.searchsorted(BINS, mass) - 1]), ha="center", xytext=(0, 6),
                      textcoords="offset points")
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--png", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--quiet", action="store_true", help="no histogram on the terminal")
    args = parser.parse_args()

    counts = np.zeros(len(BINS) - 1, dtype="int64")
    z_sum = z_pairs = pairs = 0
    for number, path in enumerate(args.files, 1):
        if args.cold:
            drop_cached(path)
        for chunk in chunks(path):
            mass = invariant_mass(chunk)
            counts += np.histogram(mass, BINS)[0]
            near_z = mass[(mass > 80) & (mass < 102)]
            z_sum, z_pairs, pairs = z_sum + float(near_z.sum()), z_pairs + len(near_z), pairs + len(mass)
        print(f"  read {number} of {len(args.files)} files", file=sys.stderr, flush=True)
    result = {"pairs": pairs, "z_mean_gev": z_sum / max(z_pairs, 1), "counts": counts.tolist()}
    if args.json:
        args.json.write_text(json.dumps(result) + "\n")
    if not args.quiet:
        print(text_histogram(counts))
    print(f"  {pairs:,} pairs; mean mass near the Z: {result['z_mean_gev']:.4f} GeV")
    if args.png:
        draw(counts, args.png)
        print(f"  drawn in {args.png}")


if __name__ == "__main__":
    main()
