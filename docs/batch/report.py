"""Compares a split analysis with one process: report.py WHAT EXPECTED.json PART.json.. [--at-least|--promise PERCENT]

EXPECTED.json is of tools/analysis/dimuon.py. Prints one line; exit 1 if the histograms differ, or less than
PERCENT of the bytes were local. A promise counts the bytes of events: headers of files may take 10 from it.
"""

import argparse
import json
import pathlib
import sys

from dimuon_part import add


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what")
    parser.add_argument("expected", type=pathlib.Path)
    parser.add_argument("parts", nargs="+", type=pathlib.Path)
    parser.add_argument("--at-least", type=float, default=0)
    parser.add_argument("--promise", type=float)
    args = parser.parse_args()
    parts = []
    for path in args.parts:
        found = json.loads(path.read_text())
        parts += found if isinstance(found, list) else [found]
    total = add(parts)
    expected = json.loads(args.expected.read_text())["counts"]
    same = total["counts"] == expected
    read = total["local"] + total["network"]
    percent = 100 * total["local"] / read if read else 0
    promised = "" if args.promise is None else f" ({args.promise:.0f} % were promised)"
    print(f"{args.what:34} {percent:6.1f} % of {read / 1e6:6.1f} MB read from local disks{promised}, "
          f"{total['reconstructed'] / 1e6:5.1f} MB reconstructed; jobs on {', '.join(total['nodes'])}; "
          f"histogram of {sum(total['counts']):,} pairs {'as from one process' if same else 'DIFFERS'}", flush=True)
    sys.exit(0 if same and percent >= max(args.at_least, (args.promise or 0) - 10) else 1)


if __name__ == "__main__":
    main()
