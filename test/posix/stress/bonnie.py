"""bonnie++ to its end."""

import os

from place import command, need
from stria_cluster import say

HELP = "bonnie++ as root: block and character I/O, seeks, creation and removal of files"


def add_options(parser):
    parser.add_argument("--size-mib", type=int, default=256, help="of its files (256)")
    parser.add_argument("--files", type=int, default=2, help="units of 1024 files that are created (2)")
    parser.add_argument("--seconds", type=int, default=1800, help="limit (1800)")


def run(args, place):
    need(("bonnie++", "bonnie++"))
    # -r: it insists on files of twice the memory otherwise; what is written is not compared by it.
    out = command("bonnie++", "-u", "root", "-d", place.dir, "-s", f"{args.size_mib}M", "-r", args.size_mib // 2,
                  "-n", args.files, "-q", timeout=args.seconds)
    say(out.strip().splitlines()[-1])
    left = os.listdir(place.dir)
    assert not left, f"it left {left}"
