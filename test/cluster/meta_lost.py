"""The disk of the metadata is lost: stria-meta is killed with -9 and its directory deleted. It is made again from the
backup that the data servers keep; everything that was archived is there, bit for bit, with a file that was deleted after
it; what was written after it is not, and not one of its shards is deleted; the cluster works on."""

import json
import os
import pathlib
import shutil

from stria_cluster import MIB, Cluster, main, say, wait_for

FILES = 25
YOUNG = 8


def shard_files(c):
    """Every shard that is a file of its own."""
    return {str(p) for node in c.nodes() for p in c.shard_files(node)}


def backup_folders(c):
    return [f for f in c.cluster.glob("n*/d*/backup") if any(f.iterdir())]


def backup(c):
    return c.status()["upkeep"]["backup"]


def all_up(c):
    nodes = c.status().get("nodes", [])
    return nodes and all(n["state"] == "up" for n in nodes)


def scenario():
    with Cluster(nodes=5, disks=1, layout="raid5:4+1") as c:
        wait_for("the backup is on two nodes", lambda: backup(c)["complete"] and len(backup(c)["nodes"]) == 2, 60)
        for i in range(FILES):
            c.write(f"old/{i}", (i % 4) * 700_000 + 13 * i)
        c.write("deleted later", 5 * MIB)
        say(c.stria("meta", "backup").stdout.strip())
        assert backup(c)["behind_s"] < 10, backup(c)

        # No data server takes newer objects: the backup stays as it is, and shards that are deleted now stay as well.
        folders = backup_folders(c)
        assert len(folders) == 2, folders
        saved = {f: c.dir / f"saved{i}" for i, f in enumerate(folders)}
        for f, to in saved.items():
            f.rename(to)
        disks = [c.cluster / n / "d1" for n in c.nodes()]
        for disk in disks:
            (disk / "backup").write_text("in the way")
        before = shard_files(c)
        files = dict(c.files)
        for i in range(YOUNG):
            c.write(f"young/{i}", 3 * MIB + i)
        (c.mount / "deleted later").unlink()
        addresses = {n["name"]: n["address"] for n in c.status()["nodes"]}
        arguments = c.arguments("meta")
        c.kill("meta")
        for disk in disks:
            (disk / "backup").unlink()
        for f, to in saved.items():
            to.rename(f)
        fresh = shard_files(c) - before
        assert len(fresh) >= YOUNG * 5, f"{len(fresh)} shards for {YOUNG} young files"
        data = pathlib.Path(arguments[arguments.index("--data") + 1])
        key = arguments[arguments.index("--cluster-key") + 1]
        c.lose_metadata()
        say(f"the metadata is lost; {len(fresh)} shards are younger than its backup")

        restore = ["meta", "restore", "--data", data, "--cluster-key", key]
        everybody = ",".join(addresses.values())
        gone = c.stria(*restore, "--from", everybody + ",127.0.0.1:1", check=False)
        assert gone.returncode == 1 and "does not answer" in gone.stderr, gone
        without = next(n for n in c.nodes() if c.cluster / n / "d1" / "backup" not in folders)
        nothing = c.stria(*restore, "--from", addresses[without], check=False)
        assert nothing.returncode == 1 and "none of these data servers has a backup" in nothing.stderr, nothing
        assert c.is_lost()
        would = c.stria(*restore, "--from", everybody, "--dry-run").stdout
        assert "would: restore cluster" in would and c.is_lost(), would
        print(would)
        done = c.stria(*restore, "--from", everybody).stdout
        print(done)
        assert "restored: cluster" in done and ": clean" in done, done
        again = c.stria(*restore, "--from", everybody, check=False)
        assert again.returncode == 1 and "has a metadata store already" in again.stderr, again

        c.start("meta")
        wait_for("all nodes are up", lambda: all_up(c), 60)
        say("the restored metadata is served")
        c.files = files
        wait_for("the mount goes on by itself", lambda: "old" in os.listdir(c.mount) and "young" not in os.listdir(c.mount), 60)
        c.verify()
        c.fresh_mount()
        assert not (c.mount / "young").exists(), "what was never archived is there"
        c.verify()
        say(f"{len(files)} files are as they were archived, with the one that was deleted later")
        for i in range(FILES):
            c.write(f"new/{i}", (i % 4) * 900_000 + 7 * i)
        (c.mount / "old/3").unlink()
        del c.files["old/3"]
        c.wait_whole()
        c.fresh_mount()
        c.verify()
        c.fsck()
        log = "".join(p.read_text() for p in (c.cluster / "log").glob("n*.log"))
        assert log.count("the metadata was restored from a backup: the disks are compared with it") == 5, "not every node noticed"
        wait_for("the backup of the restored metadata is complete", lambda: backup(c)["complete"], 60)
        c.stria("meta", "backup")
        wait_for("garbage of now is deleted", lambda: c.status()["garbage_shards"] == 0, 120)
        missing = sorted(fresh - shard_files(c))
        assert not missing, f"{len(missing)} shards that are younger than the backup were deleted, such as {missing[0]}"
        assert backup(c)["hold_until_s"] > 0, backup(c)
        for line in c.stria("status", check=False).stdout.splitlines():
            if line.startswith((" backup:", "   held:")):
                say(line.strip())
        say(c.stria("meta", "forget-unknown").stdout.strip())
        assert backup(c)["hold_until_s"] == 0, backup(c)

        # Lost again: the backup of the restored one is as good.
        c.stria("meta", "backup")
        c.kill("meta")
        c.lose_metadata()
        done = c.stria(*restore, "--from", everybody, "--json")
        assert json.loads(done.stdout)["done"] and "incarnation 3" in done.stderr, done
        c.start("meta")
        wait_for("all nodes are up", lambda: all_up(c), 60)
        c.fresh_mount()
        c.verify()
        c.write("last", 2 * MIB)
        c.verify(["last"])
        c.fsck()
        say("and once more")


main(scenario)
