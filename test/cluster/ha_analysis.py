"""The analysis of the quickstart, as far as it needs nothing from outside: programs read columns of muon pairs on a cluster with two
metadata servers and fill a histogram. Each opens its file anew for every piece, as uproot does. The metadata server that serves is
killed with -9 in the middle: the histogram is the same, and nothing was restarted but what was killed."""

import array
import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

from stria_cluster import Cluster, main, say, wait_for

COLUMNS = ["pt1", "eta1", "phi1", "pt2", "eta2", "phi2"]
PAIRS = 40_000
FILES = 3
PIECE = 2_000  # pairs that are read at once
PAUSE_S = 0.02  # of computing, for each: the metadata server is killed while they are at it
BINS = 40
SERVES_S = 30


def make(path, seed):
    """A column after the other, of floats."""
    rng = random.Random(seed)
    columns = {
        name: array.array("f", (rng.expovariate(1 / 40) + 3 if name.startswith("pt") else rng.uniform(-3, 3) for _ in range(PAIRS)))
        for name in COLUMNS
    }
    with open(path, "wb") as out:
        for name in COLUMNS:
            out.write(columns[name].tobytes())
        os.fsync(out.fileno())


def read(path, column, start):
    values = array.array("f")
    with open(path, "rb") as f:
        f.seek((COLUMNS.index(column) * PAIRS + start) * values.itemsize)
        values.frombytes(f.read(min(PIECE, PAIRS - start) * values.itemsize))
    return values


def analyse(paths, progress):
    """As a program of its own. Writes a line after each piece to `progress`; prints the counts."""
    counts = [0] * BINS
    with open(progress, "w") as said:
        for path in paths:
            for start in range(0, PAIRS, PIECE):
                os.stat(path)
                e = {name: read(path, name, start) for name in COLUMNS}
                for pt1, eta1, phi1, pt2, eta2, phi2 in zip(*(e[name] for name in COLUMNS)):
                    mass = math.sqrt(max(0.0, 2 * pt1 * pt2 * (math.cosh(eta1 - eta2) - math.cos(phi1 - phi2))))
                    counts[min(BINS - 1, int(8 * math.log1p(mass)) // 2)] += 1
                said.write("read\n")
                said.flush()
                time.sleep(PAUSE_S)
    print(json.dumps(counts))


def begin(cluster, mount, name):
    """(process, its progress)"""
    paths = sorted(str(p) for p in (mount / "dimuon").iterdir())
    progress = cluster.dir / f"{name}.progress"
    progress.write_text("")
    return subprocess.Popen([sys.executable, __file__, "--analyse", str(progress), *paths], stdout=subprocess.PIPE), progress


def end(process):
    out, _ = process.communicate(timeout=180)
    assert process.returncode == 0, f"the analysis failed with {process.returncode}"
    return json.loads(out)


def pieces(progress):
    return progress.read_text().count("\n")


def scenario():
    with Cluster(nodes=4, disks=1, layout="raid5:3+1", metas=2) as c:
        second = c.dir / "mnt2"
        c.stria("dev", "mount", "--dir", c.cluster, "--at", second, "--node", "n2")
        (c.mount / "dimuon").mkdir()
        for i in range(FILES):
            make(c.mount / "dimuon" / f"{i}.columns", i)
        healthy = end(begin(c, c.mount, "healthy")[0])
        assert sum(healthy) == FILES * PAIRS, healthy

        def both_well():
            members = c.members()
            return len(members.get("in_sync", [])) == 2 and members
        status = wait_for("both metadata servers are in sync", both_well, SERVES_S)
        killed = status["primary"]
        before = {p["name"]: p["pid"] for p in c.processes()}
        analyses = [begin(c, mount, f"analysis{i}") for i, mount in enumerate((c.mount, second))]
        wait_for("both analyses have begun", lambda: all(pieces(progress) > 2 for _, progress in analyses), 60)
        c.kill(killed)
        at = [pieces(progress) for _, progress in analyses]
        assert all(process.poll() is None and n < FILES * PAIRS // PIECE for (process, _), n in zip(analyses, at)), at
        # What is new goes on, too, on the other metadata server.
        (c.mount / "dimuon" / "made-after").mkdir()
        (c.mount / "dimuon" / "made-after").rmdir()
        for process, _ in analyses:
            assert end(process) == healthy, "the analysis gave another answer while a metadata server was killed"
        now = c.members()
        assert now["primary"] != killed and now["term"] > status["term"], now
        say(f"{killed} was killed after {at} of {FILES * PAIRS // PIECE} pieces; {now['primary']} served on, and the histograms are the same")
        after = {p["name"]: p["pid"] for p in c.processes()}
        for name, pid in before.items():
            assert name == killed or after.get(name) == pid, f"{name} was restarted"
        c.start(killed)
        wait_for("both are in sync again", both_well, 60)
        c.fsck()


if sys.argv[1:2] == ["--analyse"]:
    analyse([pathlib.Path(p) for p in sys.argv[3:]], sys.argv[2])
    sys.exit()
if shutil.which("etcd") is None:
    sys.exit("etcd is not installed: install the package etcd-server")
main(scenario)
