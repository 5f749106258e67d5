"""One disk returns EIO for what is read from it (strace puts the errors in): every read is right, the errors are
counted and shown, the disk is drained by itself and can be removed. raid5:4+1 on six nodes with two disks each."""

import shutil
import subprocess

from stria_cluster import MIB, Cluster, main, say, wait_for

FILES = 24
FILE_BYTES = 6 * MIB + 11


def scenario():
    if not shutil.which("strace"):
        return say("SKIPPED: strace, which puts the errors in, is not installed (package strace)")
    with Cluster(nodes=6, disks=2, layout="raid5:4+1") as c:
        for i in range(FILES):
            c.write(f"f/{i}", FILE_BYTES + i)
        shards = [p for p in c.shard_files("n3") if p.parts[-4] == "d1"]
        assert shards, "nothing is on n3:d1"
        pid = next(p["pid"] for p in c.processes() if p["name"] == "n3")
        paths = [word for p in shards for word in ("-P", str(p))]
        calls = "read,readv,pread64,preadv,preadv2,splice,sendfile"
        errors = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(pid), "-e", f"trace={calls}", "-e",
                                   f"inject={calls}:error=EIO", *paths], stdin=subprocess.DEVNULL)
        try:
            def retired():
                c.fresh_mount()
                c.verify()
                return c.disk("n3:d1").get("state") in ("draining", "failed")
            wait_for("the disk is retired", retired, 120)
            assert c.rebuild("n3:d1").get("reason") in ("too many errors", "n3:d1 failed"), c.rebuilds()
            say(f"n3:d1 is {c.disk('n3:d1')['state']} after {c.disk('n3:d1')['read_errors']} errors; all bytes are right")
            wait_for("it is empty", lambda: c.stria("disk", "remove", "n3:d1", "--dry-run", check=False).returncode == 0, 120, 1)
        finally:
            errors.terminate()
            errors.wait(30)
        c.stria("disk", "remove", "n3:d1")
        assert c.node("n3")["state"] == "up", "the node went with its disk"
        c.wait_whole()
        c.fresh_mount()
        c.verify()
        c.fsck()


main(scenario)
