"""dbench: the load of file servers."""

from place import command, need
from stria_cluster import say

HELP = "dbench with 8 clients: a file server's load of opens, renames, small reads and writes"


def add_options(parser):
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=60, help="how long it runs (60)")


def run(args, place):
    need("dbench")
    out = command("dbench", "-D", place.dir, "-t", args.seconds, "-c", "/usr/share/dbench/client.txt", args.clients,
                  timeout=args.seconds * 3 + 300)
    last = [line for line in out.splitlines() if line.startswith("Throughput")]
    assert last, f"dbench gave no result:\n{out[-4000:]}"
    say(last[0])
