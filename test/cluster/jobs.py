"""What each job reads and writes: programs of two jobs of Slurm, and of none, use one mount, and `stria stats --by job`, `stria top` and the
mount's attribute tell their shares."""

import json
import os
import subprocess
import sys

from stria_cluster import MIB, Cluster, main, say, wait_for

FIRST, SECOND, NOBODY = 24 * MIB, 8 * MIB, 4 * MIB
SMALL_FILES = 10
# Whoever is gone before /proc was looked at is of no job that anybody knows: these stay a little.
READ = """
import sys, time
for name in sys.argv[1:]:
    with open(name, "rb", buffering=0) as f:
        while f.read(1 << 20):
            pass
time.sleep(1)
"""
WRITE = """
import sys, time
with open(sys.argv[1], "wb", buffering=0) as f:
    for i in range(int(sys.argv[2])):
        f.write(bytes(1 << 20))
time.sleep(1)
"""


def run(c, program, *arguments, job=None):
    """In the mount as working directory, as batch systems start programs: the process touches it before it has the job's environment."""
    environment = {name: value for name, value in os.environ.items() if name not in ("SLURM_JOB_ID", "_CONDOR_JOB_AD", "_CONDOR_SLOT")}
    if job is not None:
        environment["SLURM_JOB_ID"] = str(job)
    subprocess.run([sys.executable, "-c", program, *map(str, arguments)], cwd=c.mount, env=environment, check=True, timeout=120)


def shares(c):
    answer = json.loads(c.stria("stats", c.mount, "--by", "job", "--json").stdout)
    return {j["job"]: j for j in answer["jobs"]}


def fetched(share):
    return share["local_bytes"] + share["network_bytes"]


def scenario():
    with open("/proc/self/cgroup") as f:
        if "/job_" in (cgroup := f.read()) and "slurm" in cgroup:
            return say("this is a job of Slurm itself: all that it starts is of that job")
    with Cluster(nodes=5, disks=1, layout="raid5:3+1") as c:
        c.write("first", FIRST)
        c.write("second", SECOND)
        c.write("nobody", NOBODY)
        for i in range(SMALL_FILES):
            c.write(f"small/{i}", 10_000)
        c.fresh_mount()

        run(c, READ, "first", job=101)
        run(c, READ, "second", job=102)
        run(c, READ, "nobody")
        run(c, READ, *(f"small/{i}" for i in range(SMALL_FILES)), job=103)
        run(c, WRITE, "written", 5, job=102)
        # What is fetched ahead may still be on its way; of no job nothing is told in the first second.
        wait_for("all is counted", lambda: shares(c)["other"]["read_bytes"] >= NOBODY, 30)
        told = shares(c)
        assert set(told) >= {"slurm:101", "slurm:102", "slurm:103", "other"}, told
        for job, size in (("slurm:101", FIRST), ("slurm:102", SECOND)):
            # Whoever touched the mount first may be told apart a little late: that is less than a read of this program.
            assert size - MIB <= told[job]["read_bytes"] <= size, (job, told)
            assert size - MIB <= fetched(told[job]) <= 1.5 * size + 4 * MIB, f"{job} was fetched {fetched(told[job])} bytes for: {told[job]}"
            assert told[job]["operations"] > size // MIB and told[job]["waited_ns"] > 0, told[job]
        assert told["slurm:102"]["written_bytes"] == 5 * MIB and told["slurm:101"]["written_bytes"] == 0, told
        assert told["slurm:103"]["read_bytes"] == SMALL_FILES * 10_000, told["slurm:103"]
        assert told["other"]["written_bytes"] == 0, told["other"]
        say(f"slurm:101 was given {told['slurm:101']['read_bytes']} bytes, slurm:102 {told['slurm:102']['read_bytes']}")

        text = os.getxattr(c.mount / "first", "user.stria.jobs").decode()
        assert [line.split()[0] for line in text.splitlines()][-1] == "other" and "slurm:101 local=" in text, text
        table = c.stria("stats", c.mount, "--by", "job").stdout
        assert table.startswith("JOB ") and "slurm:102" in table, table
        before = shares(c)["slurm:101"]
        run(c, READ, "first", job=101)
        after = shares(c)["slurm:101"]
        assert after["operations"] > before["operations"] and after["read_bytes"] >= before["read_bytes"], "what the kernel has in memory is not asked for"

        top = json.loads(c.stria("top", "--once", "--interval", "1", "--json").stdout)
        assert [k["node"] for k in top["clients"]] and all(k["operations_per_s"] >= 0 for k in top["clients"]), top
        assert "CLIENT" in c.stria("top", "--once", "--interval", "1").stdout
        top = json.loads(c.stria("top", "--by", "job", "--once", "--interval", "1", "--json").stdout)
        here = {j["job"] for j in top["jobs"] if j["mount"] == str(c.mount)}
        assert {"slurm:101", "slurm:102", "slurm:103", "other"} <= here, top
        c.verify()


main(scenario)
