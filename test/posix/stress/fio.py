"""fio with checksums in every block: random sizes, and jobs that write the same file.

Each job verifies what it wrote itself. Jobs that overlap write blocks of one size at multiples of it: in the end
each block holds what one of them wrote, whole, which a run that only reads verifies, on every mount."""

from place import command, need
from stria_cluster import say

HELP = "fio verify=crc32c: random sizes and offsets, mmap, O_DIRECT, overlapping jobs on one file"

# name, what is its own
JOBS = {
    "unaligned": ["--rw=randwrite", "--bsrange=128-256k", "--bs_unaligned=1", "--numjobs=2"],
    "mixed": ["--rw=randrw", "--bsrange=512-1m", "--bs_unaligned=1", "--numjobs=2", "--fsync=64"],
    "stream": ["--rw=write", "--bsrange=4k-1m", "--numjobs=2", "--end_fsync=1"],
    "direct": ["--rw=randwrite", "--bsrange=4k-512k", "--direct=1", "--numjobs=2"],
    "mmap": ["--rw=randwrite", "--bs=4k", "--ioengine=mmap", "--numjobs=2"],
    "overlap": ["--rw=randwrite", "--bs=16k", "--numjobs=4", "--filename=overlap.0"],
}


def add_options(parser):
    parser.add_argument("--size-mib", type=int, default=64, help="of each job's file (64)")
    parser.add_argument("--jobs", default=",".join(JOBS), help=f"which ({','.join(JOBS)})")
    parser.add_argument("--seconds", type=int, default=600, help="limit of each (600)")


def run(args, place):
    need("fio")
    for name in args.jobs.split(","):
        common = ["fio", f"--name={name}", f"--size={args.size_mib}m",
                  f"--randseed={args.seed}", "--verify=crc32c", "--verify_fatal=1", "--verify_dump=0",
                  "--verify_state_save=0", "--fallocate=none", "--group_reporting", "--minimal"]
        engine = [] if any("ioengine" in o for o in JOBS[name]) else ["--ioengine=psync"]
        if name != "overlap":
            command(*common, f"--directory={place.dir}", *engine, *JOBS[name], "--do_verify=1", timeout=args.seconds)
        else:
            command(*common, f"--directory={place.dir}", *engine, *JOBS[name], "--do_verify=0", timeout=args.seconds)
            for d in place.dirs:
                command(*common, f"--directory={d}", "--ioengine=psync", "--rw=read", "--bs=16k",
                        "--filename=overlap.0", timeout=args.seconds)
        say(f"fio {name}: every block is right")
