"""RocksDB's db_bench, killed -9 midway; then the database is opened, checked and read as a whole."""

import contextlib
import os
import signal
import subprocess
import time

from place import command, need
from stria_cluster import MIB, say, wait_for

HELP = "RocksDB's db_bench with synced writes, killed -9 midway; checkconsistency, checksums, full scan"


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=3, help="of being killed (3)")
    parser.add_argument("--seconds", type=float, default=10, help="of writing in each round (10)")


def logs(db):
    """Its journals, by name, with their sizes; they come and go."""
    sizes = {}
    for f in db.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            sizes[f.name] = f.stat().st_size
    return sizes


def run(args, place):
    need(("db_bench", "rocksdb-tools"), ("ldb", "rocksdb-tools"))
    db = place.dir / "db"
    common = [f"--db={db}", "--num=2000000", "--value_size=1000", "--threads=2",
              "--write_buffer_size=4194304", "--target_file_size_base=4194304", "--compression_type=none"]
    keys = 0
    for n in range(args.rounds):
        writing = ["db_bench", *common, "--benchmarks=overwrite", "--sync=1", f"--use_existing_db={min(n, 1)}",
                   f"--seed={args.seed + n}"]
        old = logs(db)
        p = subprocess.Popen(writing, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        wait_for("db_bench writes to a new log",
                 lambda: any(size > MIB // 4 for name, size in logs(db).items() if name not in old), 300)
        time.sleep(args.seconds)
        assert p.poll() is None, f"db_bench ended by itself:\n{p.stdout.read().decode()[-4000:]}"
        os.kill(p.pid, signal.SIGKILL)
        p.communicate(timeout=120)
        command("ldb", f"--db={db}", "checkconsistency", timeout=300)
        out = command("db_bench", *common, "--use_existing_db=1", "--benchmarks=readseq,verifychecksum",
                      "--threads=1", timeout=600)
        assert "verifychecksum" in out, out
        count = command("ldb", f"--db={db}", "dump", "--count_only", timeout=600)
        now = next(int(line.split(":")[1]) for line in count.splitlines() if "Keys in range" in line)
        assert now > keys, f"{now} keys, after there were {keys}"
        keys = now
        say(f"killed: consistent, checksums right, {keys} keys")
