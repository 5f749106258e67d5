"""Analysis next to the data: files stay on the node that writes them, are read from its disks, and move when told to;
where, split, stats and run agree on it."""

import json
import os
import stat

from stria_cluster import MIB, Cluster, digest_of_file, main, say, wait_for, write_file

SIZE = 20 * MIB + 12345


def hosts_of(c, path):
    answer = json.loads(c.stria("where", path, "--by-host", "--json").stdout)
    return {h["node"]: h["data_bytes"] for h in answer["hosts"] if h["data_bytes"] > 0}


def io_of(c, path):
    s = json.loads(c.stria("stats", path, "--json").stdout)
    return s["local_bytes"], s["network_bytes"]


def promise_without_a_node(c, mounts):
    """n3 dies. Its work goes to those who are alive, and they read locally, remotely and decoded what split says."""
    (c.mount / "late").mkdir()
    c.stria("layout", "set", c.mount / "late", "raid5:4+1,arrange=gathered,unit=4M", "--place", "local")
    for node in mounts:
        write_file(mounts[node], f"late/by-{node}", SIZE)
    for i in range(16):  # short ones: nothing is read ahead
        write_file(c.mount, f"late-striped/{i}", MIB)
    c.stria("split", c.mount / "late", "--format", "slurm", "--align", "file", "--lists", c.dir / "late-lists")
    assert (c.dir / "late-lists/n3.json").exists()
    c.kill("n3")
    wait_for("n3 is missed", lambda: c.node("n3")["state"] != "up", 60)
    for what in ("late", "late-striped"):
        before = {node: json.loads(c.stria("stats", mounts[node], "--json").stdout) for node in ("n1", "n2")}
        plan = json.loads(c.stria("split", c.mount / what, "--align", "file", "--nodes", "n1,n2,n3").stdout)
        assert {h["host"] for h in plan["hosts"]} == {"n1", "n2"} and [a["node"] for a in plan["away"]] == ["n3"], plan
        for h in plan["hosts"]:
            assert h["local_bytes"] + h["remote_bytes"] + h["decoded_bytes"] == h["bytes"], h
            mount = mounts[h["host"]]
            for w in h["work"]:
                with open(mount / os.path.relpath(w["path"], c.mount), "rb", buffering=0) as f:
                    assert len(os.pread(f.fileno(), w["length"], w["offset"])) == w["length"]
            now = json.loads(c.stria("stats", mount, "--json").stdout)
            local, decoded = (now[k] - before[h["host"]][k] for k in ("local_bytes", "reconstructed_bytes"))
            slack = h["bytes"] // 10 + MIB
            # To decode, a node reads what it has itself, too.
            assert h["local_bytes"] - slack <= local <= h["local_bytes"] + h["decoded_bytes"] + slack, (h, local)
            assert abs(decoded - h["decoded_bytes"]) <= slack, (h, decoded)
            say(f"{what}: {h['host']} was promised {h['local_bytes']} bytes local, {h['decoded_bytes']} decoded, and read "
                f"{local} and {decoded} so, of {h['bytes']}")
        assert (plan["decoded_bytes"] > 0) == (what == "late-striped"), plan
    for form in ("slurm", "condor", "parallel"):
        text = c.stria("split", c.mount / "late-striped", "--format", form, "--lists", c.dir / "late-lists").stdout
        assert "decoded; no work for n3 (" in text, text
        assert not (c.dir / "late-lists/n3.json").exists(), "a list of a node that is dead"
    dask = {}
    exec(c.stria("split", c.mount / "late-striped", "--format", "dask").stdout, dask)
    assert dask["promise"]["decoded_bytes"] > 0 and dask["promise"]["away"] == ["n3"], dask["promise"]
    near = c.stria("run", "--near", c.mount / "late/by-n3", "--dry-run").stdout
    assert "which holds" in near and not near.startswith("on n3"), f"copies of it are on nodes that are up: {near}"
    say("without n3 everybody reads what the split promised")


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:4+1") as c:
        mounts = {"n1": c.mount}
        for node in ("n2", "n3"):
            mounts[node] = c.dir / f"mnt-{node}"
            mounts[node].mkdir()
            c.stria("dev", "mount", "--dir", c.cluster, "--at", mounts[node], "--node", node)
        (c.mount / "data").mkdir()
        c.stria("layout", "set", c.mount / "data", "raid5:4+1,arrange=gathered,unit=8M", "--place", "local")
        written = {}
        for node, mount in mounts.items():
            written[node] = write_file(mount, f"data/by-{node}", SIZE)
            assert hosts_of(c, mount / f"data/by-{node}") == {node: SIZE}, f"{node}'s file is elsewhere"
        say("each file lies on the node that wrote it")

        for node, mount in mounts.items():
            for name in mounts:
                before = io_of(c, mount)
                assert digest_of_file(mount / f"data/by-{name}") == written[name][1]
                local, network = io_of(c, mount / f"data/by-{name}")
                if name == node:
                    # A disk of a busy machine may be raced by the others.
                    assert local >= 0.9 * SIZE and network <= 0.1 * SIZE, f"{node} read its own file from elsewhere: {local}, {network}"
                else:
                    assert local + network >= SIZE, f"{node} read {name}'s file from nowhere"
                after = io_of(c, mount)
                assert sum(after) - sum(before) == local + network, "a mount's count is not that of its files"
        say("each node reads its own file from its own disks")

        plan = json.loads(c.stria("split", c.mount / "data", "--by", "host", "--align", "file", "--nodes", "n1,n2,n3").stdout)
        got = {h["host"]: [w["path"].rsplit("-", 1)[1] for w in h["work"]] for h in plan["hosts"]}
        assert got == {"n1": ["n1"], "n2": ["n2"], "n3": ["n3"]} and plan["local_percent"] == 100, plan
        parts = json.loads(c.stria("split", c.mount / "data").stdout)
        assert sum(h["bytes"] for h in parts["hosts"]) == 3 * SIZE
        assert max(h["bytes"] for h in parts["hosts"]) <= 1.1 * 3 * SIZE / 5 + MIB, parts
        say("split gives each node its own file, and five nodes equal parts")

        odd = os.fsencode(c.mount) + b"/odd/\xff \n\x1b[2J'.root"
        os.mkdir(os.path.dirname(odd))
        with open(odd, "wb") as f:
            f.write(b"found")
        items = json.loads(c.stria("split", c.mount / "odd").stdout)["hosts"]
        names = {os.fsencode(w["path"]) for h in items for w in h["work"]}
        dask = {}
        exec(c.stria("split", c.mount / "odd", "--format", "dask").stdout, dask)
        assert names == {os.fsencode(w[0]) for w in dask["work"]} == {odd}, (names, dask["work"])
        for form in ("slurm", "condor", "parallel"):
            lists = c.dir / f"lists of {form}"
            text = c.stria("split", c.mount / "odd", "--format", form, "--lists", lists).stdout
            made = list(lists.glob("*.json"))
            assert made and all(str(p) in text for p in made), (form, text, made)
            listed = [w["path"] for p in made for w in json.loads(p.read_text())["work"]]
            assert [os.fsencode(path) for path in listed] == [odd] and open(listed[0], "rb").read() == b"found", (form, listed)
        assert os.fsencode(json.loads(c.stria("where", os.fsdecode(odd), "--json").stdout)["file"]) == odd
        paths = ("paths", str(os.stat(odd).st_ino))
        shown = c.stria(*paths).stdout
        assert shown == "$'/odd/\\377 \\n\\033[2J\\'.root'\n", shown
        assert os.fsencode(c.stria(*paths, "-0").stdout) == odd[len(os.fsencode(c.mount)):] + b"\0"
        say("a name of any bytes comes out of every format as it is")

        here = c.stria("run", "--near", c.mount / "data/by-n1", "--dry-run").stdout
        assert here.startswith("here"), here
        ssh = c.dir / "ssh"
        ssh.write_text('#!/bin/sh\nwhile [ "$1" = -o ]; do shift 2; done\nshift\nexec sh -c "$*"\n')
        ssh.chmod(ssh.stat().st_mode | stat.S_IXUSR)
        os.environ["STRIA_SSH"] = str(ssh)
        ran = c.stria("run", "--near", c.mount / "data/by-n3", "--", "sh", "-c", "echo on $STRIA_NODE it\\'s; exit 3", check=False)
        assert (ran.returncode, ran.stdout) == (3, "on n3 it's\n"), ran
        os.environ["STRIA_SSH"] = "/bin/false"
        soft = c.stria("run", "--near", c.mount / "data/by-n3", "--", "echo", "anywhere")
        assert soft.stdout == "anywhere\n" and "cannot be reached" in soft.stderr, soft
        strict = c.stria("run", "--strict", "--near", c.mount / "data/by-n3", "--", "echo", "anywhere", check=False)
        assert strict.returncode == 69 and strict.stdout == "", strict
        say("run goes to the data, and only insists when told to")

        c.write("striped", SIZE)
        assert len(hosts_of(c, c.mount / "striped")) >= 4
        c.stria("gather", "--place", "node:n2", "--column", "8M", c.mount / "striped")
        assert hosts_of(c, c.mount / "striped") == {"n2": SIZE}
        assert "place=node:n2" in c.stria("layout", "get", c.mount / "striped").stdout
        c.stria("gather", "--place", "spread", "--column", "4M", c.mount / "striped")
        assert len(hosts_of(c, c.mount / "striped")) >= 4
        c.fresh_mount()
        c.verify()
        say("gather moved a striped file to one node, and to columns of all, and every byte is right")

        promise_without_a_node(c, mounts)
        c.fresh_mount()
        c.verify()
        assert digest_of_file(c.mount / "data/by-n3") == written["n3"][1]
        say("without n3 its file is read from copies")
        c.start("n3")
        c.fsck()


main(scenario)
