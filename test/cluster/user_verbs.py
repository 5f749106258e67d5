"""A user of a client's machine, who has a mount and no certificate, asks about files through the mount (docs/security.md): where, layout,
stats, split and run give what they give with credentials, for what he may read, and for nothing else. Beside it, what is said where one
side speaks TLS and the other does not."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from stria_cluster import MIB, Cluster, main, say, write_file

USER = 65534
NO_PERMISSION = 77


def as_user(c, *args, **environment):
    """A command of somebody to whom nothing of the cluster belongs, and who names neither a server nor credentials."""
    return subprocess.run([c.open_stria, *map(str, args)], env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment}, capture_output=True,
                          encoding="utf-8", errors="surrogateescape", timeout=120, cwd="/", stdin=subprocess.DEVNULL, user=USER, group=USER,
                          extra_groups=[])


def same(c, *args):
    user, admin = as_user(c, *args), c.stria(*args)
    assert user.returncode == 0, f"stria {' '.join(map(str, args))} was refused: {user.stdout}{user.stderr}"
    assert (user.stdout, user.stderr) == (admin.stdout, admin.stderr), f"a user is told\n{user.stdout}{user.stderr}and an admin\n{admin.stdout}{admin.stderr}"
    return user.stdout


def refused(c, *args):
    done = as_user(c, *args)
    assert done.returncode == NO_PERMISSION, f"stria {' '.join(map(str, args))} gave {done.returncode}: {done.stdout}{done.stderr}"
    assert not done.stdout.strip() and done.stderr.startswith("stria: ") and done.stderr.count("\n") == 1, done.stdout + done.stderr


def may_read(c, place):
    strange = os.fsencode(place) + b"/\xff\n name"  # a name may be any bytes
    small = place / "small"
    small.write_bytes(b"a few bytes")
    with open(strange, "wb") as f:
        f.write(b"x" * 100_000)
    write_file(c.mount, "open/large", 40 * MIB)
    with open(place / "holes", "wb") as f:
        f.truncate(20 * MIB)
        f.seek(7 * MIB)
        f.write(b"y" * 3 * MIB)
    c.stria("layout", "set", place / "fine", "raid5:4+1,unit=4K,stripe=16M")
    write_file(c.mount, "open/fine/units", 64 * MIB)  # some 16,000 rows: far more than an attribute holds
    for file in (place / "large", place / "holes", place / "fine/units", small, pathlib.Path(os.fsdecode(strange))):
        same(c, "where", file)
        same(c, "where", file, "--by-host", "--json")
        same(c, "where", file, "--json", "--range", "1000001+2M")
        same(c, "layout", "get", file, "--json")
    rows = json.loads(same(c, "where", place / "fine/units", "--json"))["ranges"]
    assert len(rows) > 2000 and sum(r["length"] for r in rows if r["role"] == "data") == 64 * MIB, len(rows)
    assert same(c, "layout", "get", place / "fine") != same(c, "layout", "get", place)
    plan = json.loads(same(c, "split", place))
    assert plan["bytes"] > 100 * MIB and any(w["path"].endswith("\udcff\n name") for h in plan["hosts"] for w in h["work"]), plan
    lists = pathlib.Path(tempfile.mkdtemp(dir=c.public))
    os.chown(lists, USER, USER)
    done = as_user(c, "split", place, "--format", "slurm", "--lists", lists / "work")
    assert done.returncode == 0 and list((lists / "work").iterdir()), done.stdout + done.stderr
    assert " holds " in as_user(c, "run", "--dry-run", "--near", place / "large").stdout
    # What a mount has read is this mount's; reading of it makes no difference.
    for path in (place / "large", place):
        assert as_user(c, "stats", path, "--json").returncode == 0
    say("a user is told of what he may read what an admin is told")


def may_not_read(c, place):
    secret, deep = place / "secret", place / "closed/deep"
    secret.write_bytes(b"S" * MIB)
    deep.parent.mkdir()
    deep.write_bytes(b"D" * MIB)
    os.chmod(secret, 0o600)
    os.chmod(deep.parent, 0o700)
    for path in (secret, deep, deep.parent):
        for verb in (("where",), ("layout", "get"), ("stats",), ("run", "--dry-run", "--near")):
            if path == deep.parent and verb[0] in ("where", "run"):
                continue  # it is no file
            refused(c, *verb, path)
    refused(c, "split", secret)
    done = as_user(c, "split", place)
    assert done.returncode != 0 and not done.stdout and done.stderr.startswith("stria: ") and "deep" not in done.stderr, done.stdout + done.stderr
    # Setting a layout is the owner's.
    refused(c, "layout", "set", place, "raid1:2")
    own = place / "own"
    own.mkdir()
    os.chown(own, USER, USER)
    assert as_user(c, "layout", "set", own, "raid1:2", "--place", "node:n2").stdout.strip() == "raid1:2,place=node:n2"
    assert same(c, "layout", "get", own).strip() == "raid1:2,place=node:n2"
    done = as_user(c, "layout", "set", own, "raid6:40+2")
    assert done.returncode not in (0, NO_PERMISSION) and done.stderr.startswith("stria: "), done.stderr
    say("and nothing of what he may not read")


def other_verbs(c):
    """Those that are for admins stay so, and say why."""
    for verb in (("status",), ("node", "ls"), ("fsck",), ("where", "--meta", c.meta, c.mount / "open/large")):
        done = as_user(c, *verb, STRIA_META=c.meta)
        assert done.returncode not in (0, 64), f"stria {' '.join(map(str, verb))} was done for a user: {done.stdout}"
        assert "TLS" in done.stderr and "stria join" in done.stderr, done.stderr
    place = c.dir / "mnt-bare"
    place.mkdir()
    done = subprocess.run([c.program("stria-mount"), "-f", "--insecure", "--meta", c.meta, "--timeout", "3s", place], capture_output=True, text=True,
                          timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode != 0 and "speaks only TLS" in done.stderr and "stria join" in done.stderr, done.stderr
    say("who does not speak TLS is told that it is wanted")


def scenario():
    public = pathlib.Path(tempfile.mkdtemp(prefix="stria-open-", dir="/var/tmp"))  # where everybody can run what is in it
    try:
        public.chmod(0o755)
        with Cluster(nodes=5, disks=2, layout="raid5:4+1") as c:
            c.public, c.open_stria = public, shutil.copy(c.stria_path, public)
            c.meta = next(p["address"] for p in c.processes() if p["kind"] == "meta")
            c.dir.chmod(0o711)  # to the mount, and to nothing else
            assert subprocess.run(["cat", c.cluster / "meta/trust/admin/node.pem"], user=USER, group=USER, extra_groups=[],
                                  capture_output=True).returncode != 0, "this user can read the admin's key"
            place = c.mount / "open"
            (place / "fine").mkdir(parents=True)
            may_read(c, place)
            may_not_read(c, place)
            other_verbs(c)
            c.fsck()
    finally:
        shutil.rmtree(public, ignore_errors=True)


main(scenario)
