"""Makes ROOT files of muon pairs: make_events.py DIR [--mib 560] [--files 6]

Half of them hold a TTree, half an RNTuple, both called "Events", with the two muons' pt, eta, phi and
charge (float32 and int32, uncompressed). Masses have the peaks of J/psi, Upsilon and Z over a falling
continuum. The same seed makes the same events. A file that is there already is kept.
"""

import argparse
import pathlib
import time

import numpy as np
import uproot

BYTES_PER_EVENT = 8 * 4
CHUNK_EVENTS = 500_000  # of a cluster
TYPES = {"mu1_pt": "float32", "mu1_eta": "float32", "mu1_phi": "float32", "mu1_charge": "int32",
         "mu2_pt": "float32", "mu2_eta": "float32", "mu2_phi": "float32", "mu2_charge": "int32"}
# Mass and width (GeV), share of the events.
PEAKS = [(3.097, 0.03, 0.12), (9.46, 0.09, 0.05), (91.19, 2.5, 0.20)]


def masses(rng, n):
    kind = rng.random(n)
    out = 2.0 * np.exp(rng.exponential(1.1, n))  # the continuum
    low = 0.0
    for mass, width, share in PEAKS:
        here = (kind >= low) & (kind < low + share)
        low += share
        spread = rng.normal(0, width, n) if width < 1 else width / 2 * np.tan(np.pi * (rng.random(n) - 0.5) * 0.98)
        out[here] = (mass + spread)[here]
    return np.clip(out, 0.5, 400)


def events(rng, n):
    """Two muons with just that invariant mass: pt2 = m^2 / (2 pt1 (cosh(deta) - cos(dphi)))."""
    m = masses(rng, n)
    eta1, eta2 = rng.normal(0, 1.2, (2, n))
    phi1 = rng.uniform(-np.pi, np.pi, n)
    dphi = rng.normal(np.pi, 0.6, n)
    pt1 = m / 2 * np.exp(rng.normal(0, 0.25, n))
    pt2 = m * m / (2 * pt1 * (np.cosh(eta1 - eta2) - np.cos(dphi)))
    phi2 = (phi1 + dphi + np.pi) % (2 * np.pi) - np.pi
    charge = rng.choice(np.array([-1, 1], dtype="int32"), n)
    values = [pt1, eta1, phi1, charge, pt2, eta2, phi2, -charge]
    return {name: value.astype(kind) for (name, kind), value in zip(TYPES.items(), values)}


def write(path, kind, n, seed, chunk):
    rng = np.random.default_rng(seed)
    partial = path.with_suffix(".part")
    with uproot.recreate(partial, compression=None) as out:
        make = out.mktree if kind == "ttree" else out.mkrntuple
        first = events(rng, min(n, chunk))
        table = make("Events", TYPES if kind == "ttree" else first)
        if kind == "ttree":
            table.extend(first)
        for done in range(chunk, n, chunk):
            table.extend(events(rng, min(n - done, chunk)))
    partial.rename(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--mib", type=int, default=560, help="size of all files together (default %(default)s)")
    parser.add_argument("--files", type=int, default=6, help="how many (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first of them (default %(default)s)")
    parser.add_argument("--chunk", type=int, default=CHUNK_EVENTS, help="events of a cluster (default %(default)s)")
    args = parser.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    n = args.mib * (1 << 20) // args.files // BYTES_PER_EVENT
    for i in range(args.first, args.first + args.files):
        kind = "ttree" if i % 2 == 0 else "rntuple"
        path = args.dir / f"dimuon_{kind}_{i // 2 + 1}.root"
        began = time.time()
        if not path.exists():
            write(path, kind, n, 1000 + i, args.chunk)
        size = path.stat().st_size
        print(f"  {path.name}: {n:,} events, {size / (1 << 20):.0f} MiB, {time.time() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
