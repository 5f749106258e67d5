"""Two metadata servers are both the cluster's authority. It is changed for another by one command while a mount writes: the one that is down
at that moment follows when it comes back, the one that had begun the change is killed in the middle, and nothing is copied by hand. `stria ca
show` says who has not got it, and it is not finished before. The keys are in the directories of trust, and nowhere else."""

import contextlib
import json
import shutil
import sys

from load import Load
from stria_cluster import MIB, Cluster, main, say, wait_for

FIRST, SECOND = "meta1", "meta2"  # `stria dev` keeps the admin's certificate with the first one
WAIT_S = 60
SECRET = b"PRIVATE KEY"


def settled(c, names):
    def well():
        status = c.members()
        return status.get("in_sync") == names and any(m["role"] == "primary" for m in status["members"]) and status
    return wait_for(f"in sync: {', '.join(names)}", well, WAIT_S)


def authorities(c):
    """The oldest first; [] if nobody answers just now."""
    done = c.stria("ca", "show", "--json", check=False)
    return json.loads(done.stdout)["authorities"] if done.returncode == 0 else []


def held(c, name):
    """The certificates of the authorities in the directory of a metadata server."""
    paths = [c.cluster / name / "trust" / f for f in ("authority.pem", "authority-next.pem")]
    return [p.read_text().split("-----BEGIN CERTIFICATE-----")[1] for p in paths if p.exists()]


def not_renewed(c, by, but=()):
    """Those whose key has no certificate of that authority yet, as ROLE/NAME; of other roles than `but`."""
    done = c.stria("cert", "ls", "--json", check=False)
    if done.returncode != 0:
        return ["nobody answers"]
    given = [x for x in json.loads(done.stdout) if not x["revoked"] and x["role"] not in but]
    renewed = {x["key_sha256"] for x in given if x["issuer_sha256"] == by}
    return sorted({f"{x['role']}/{x['name']}" for x in given if x["key_sha256"] not in renewed})


def is_refused(c, why):
    done = c.stria("ca", "finish", "--yes", check=False)
    assert done.returncode == 1 and why in done.stderr, f"{done.returncode} {done.stdout}{done.stderr}"


def is_nowhere_else(c):
    """No key in a log, in the audit, in the metadata or at etcd."""
    places = [p for p in c.cluster.rglob("*") if p.is_file() and not p.is_symlink() and "trust" not in p.relative_to(c.cluster).parts]
    places = [p for p in places if p.parts[len(c.cluster.parts)].startswith(("meta", "etcd", "log"))]
    assert any(p.name == "audit.log" for p in places) and any(p.suffix == ".log" for p in places), places
    for path in places:
        with contextlib.suppress(FileNotFoundError):  # a store removes files while it runs
            assert SECRET not in path.read_bytes(), f"a key is in {path}"


def scenario():
    with Cluster(nodes=3, disks=1, layout="raid5:2+1", metas=2) as c:
        if settled(c, [FIRST, SECOND])["primary"] != FIRST:
            c.stria("meta", "promote", FIRST, "--yes")
            settled(c, [FIRST, SECOND])
        before = held(c, FIRST)
        assert len(before) == 1 and held(c, SECOND) == before, "they are not the same authority"
        with Load(c, readers=0, writers=1, file_bytes=MIB // 4) as load:
            load.progress()
            c.kill(SECOND)
            settled(c, [FIRST])
            admin = c.cluster / FIRST / "trust/admin/node.pem"
            was = admin.read_bytes()
            c.stria("ca", "rotate", "--yes")
            old, new = authorities(c)
            assert new["signs"] and not old["signs"], (old, new)
            assert any(line.startswith(SECOND + " ") for line in new["lacking"]), new
            assert SECOND in c.stria("ca", "show").stdout
            assert len(held(c, FIRST)) == 2 and held(c, SECOND) == before, "the one that is down cannot have it"
            is_refused(c, f"{SECOND} has not")
            wait_for("nodes, mount and admin have other certificates", lambda: not not_renewed(c, new["sha256"], ("meta", "admin")) and admin.read_bytes() != was,
                     WAIT_S)
            load.progress()

            c.start(SECOND)
            wait_for(f"{SECOND} has followed", lambda: held(c, SECOND) == held(c, FIRST), WAIT_S)
            settled(c, [FIRST, SECOND])
            say(f"{SECOND}, which was down, has followed")
            c.kill(FIRST)
            seen = wait_for(f"{SECOND} serves", lambda: c.members().get("primary") == SECOND and authorities(c), WAIT_S)
            assert [a["sha256"] for a in seen] == [old["sha256"], new["sha256"]], f"the change was lost with the one that had begun it: {seen}"
            load.progress()
            c.start(FIRST)
            settled(c, [FIRST, SECOND])

            def all_ready():
                now = authorities(c)
                return len(now) == 2 and now[1]["signs"] and not now[1]["lacking"] and not not_renewed(c, new["sha256"])
            wait_for("all have certificates of the new authority", all_ready, WAIT_S)
            c.stria("ca", "finish", "--force", "--yes")  # an hour would have to pass else
            left = wait_for("one authority is believed", lambda: authorities(c), WAIT_S)
            assert [a["sha256"] for a in left] == [new["sha256"]], left
            wait_for("both have it alone", lambda: len(held(c, FIRST)) == 1 and held(c, SECOND) == held(c, FIRST) != before, WAIT_S)
            wait_for("nobody lacks anything", lambda: (now := authorities(c)) and not now[0]["lacking"], WAIT_S)
            load.progress()
        say("the authority was changed by one command; both metadata servers have followed")
        is_nowhere_else(c)
        c.fsck()


if shutil.which("etcd") is None:
    sys.exit("etcd is not installed: install the package etcd-server")
main(scenario)
