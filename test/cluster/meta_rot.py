"""Bits rot in the metadata's store: whatever is read of it is right or EIO, status says so and what to do, and a restore
from the backup brings everything back, bit for bit."""

import pathlib
import shutil

from stria_cluster import MIB, Cluster, main, say, wait_for

SMALL = 400  # inline: their bytes are in the store, most of which they are


def backup(c):
    return c.status()["upkeep"]["backup"]


def all_up(c):
    nodes = c.status().get("nodes", [])
    return nodes and all(n["state"] == "up" for n in nodes)


def restart(c):
    c.kill("meta")
    c.start("meta")
    wait_for("all nodes are up", lambda: all_up(c), 60)


def rot(path):
    with open(path, "r+b") as f:
        at = path.stat().st_size // 3
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 0x10]))


def readable(c):
    """Files that can be read; every byte of which must be right."""
    out = []
    for name in c.files:
        try:
            c.verify([name])
            out.append(name)
        except OSError:
            pass  # EIO
    return out


def scenario():
    with Cluster(nodes=5, disks=1, layout="raid5:4+1") as c:
        wait_for("the backup is on two nodes", lambda: backup(c)["complete"] and len(backup(c)["nodes"]) == 2, 60)
        for i in range(SMALL):
            c.write(f"small/{i}", 3000 + 7 * i)
        for i in range(6):
            c.write(f"large/{i}", 2 * MIB + i)
        restart(c)  # what was in the log is in tables now
        arguments = c.arguments("meta")
        data = pathlib.Path(arguments[arguments.index("--data") + 1])
        key = arguments[arguments.index("--cluster-key") + 1]
        wait_for("the backup is complete again", lambda: backup(c)["complete"], 60)
        c.stria("meta", "backup")
        addresses = ",".join(n["address"] for n in c.status()["nodes"])
        c.kill("meta")
        tables = sorted(data.rglob("*.sst"), key=lambda p: p.stat().st_size)
        assert tables and tables[-1].stat().st_size > 500_000, tables
        rot(tables[-1])
        c.start("meta")
        wait_for("all nodes are up", lambda: all_up(c), 60)
        c.fresh_mount()
        there = readable(c)
        assert len(there) < len(c.files), "nothing that rotted was read"
        said = wait_for("status says so", lambda: (s := c.stria("status", check=False)).returncode == 2 and s.stdout, 30)
        assert "The metadata on its disk is damaged" in said and "block checksum mismatch" in said, said
        assert f"stria meta restore --from {addresses}" in said, said
        assert "is damaged" in (c.cluster / "log" / "meta.log").read_text()
        say(f"{len(there)} of {len(c.files)} files can be read; the others give EIO")

        c.kill("meta")
        shutil.move(data, c.dir / "damaged")
        shutil.copytree(c.dir / "damaged" / "trust", data / "trust")  # the authority is not in the backup
        done = c.stria("meta", "restore", "--data", data, "--cluster-key", key, "--from", addresses).stdout
        assert ": clean" in done, done
        c.start("meta")
        wait_for("all nodes are up", lambda: all_up(c), 60)
        c.fresh_mount()
        c.verify()
        c.fsck()
        wait_for("status is content", lambda: "is damaged" not in c.stria("status", check=False).stdout, 30)
        say("restored: all is there, bit for bit")


main(scenario)
