"""Names and addresses, with a hosts file of this scenario's own (a mount namespace): the metadata server moves behind its name
(from IPv4 to IPv6, where that is) and is found by data servers and mounts; a mount starts before the metadata server and waits; it
finds its node by itself; a data server whose address nobody can reach is told."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from stria_cluster import MIB, Cluster, digest_of_file, main, say, wait_for, write_file

NAME = "stria-meta.test"
WAIT_S = 20


def findings(c):
    return " ".join(f["what"] for f in c.status().get("findings", []))


def in_own_namespace():
    """Runs this program again where /etc/hosts is a file of its own."""
    if os.environ.get("STRIA_TEST_HOSTS"):
        return pathlib.Path(os.environ["STRIA_TEST_HOSTS"])
    hosts = tempfile.NamedTemporaryFile(prefix="stria-hosts-", mode="w")
    hosts.write(pathlib.Path("/etc/hosts").read_text())
    hosts.flush()
    script = 'mount --make-rprivate / && mount --bind "$STRIA_TEST_HOSTS" /etc/hosts && exec "$@"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", sys.executable, *sys.argv],
                          env={**os.environ, "STRIA_TEST_HOSTS": hosts.name})
    sys.exit(done.returncode)


def name_is(hosts, address):
    rest = [line for line in hosts.read_text().splitlines() if NAME not in line]
    hosts.write_text("\n".join([*rest, *[f"{a} {NAME}" for a in address]]) + "\n")


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
            return True
    except OSError:
        return False


def replaced(arguments, option, value):
    out = list(arguments)
    out[out.index(option) + 1] = value
    return out


def start(c, name, arguments):
    with open(c.cluster / "log" / f"{name}.log", "ab") as log:
        c.own[name] = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def scenario():
    hosts = in_own_namespace()
    with Cluster(nodes=3, disks=1, layout="raid5:2+1") as c:
        for name in ("f", "after"):
            c.write(name, 3 * MIB)
        meta = c.arguments("meta")
        port = meta[meta.index("--listen") + 1].rsplit(":", 1)[1]
        # Of the name's addresses two are of nobody, the last is right.
        name_is(hosts, ["::1", "127.0.0.77", "127.0.0.1"])
        for node in c.nodes():
            arguments = replaced(c.arguments(node), "--meta", f"{NAME}:{port}")
            c.kill(node)
            c.start_with(node, arguments)
        say("data servers know the metadata server by a name with several addresses")

        # It moves, and is away for a while: a mount that starts meanwhile waits for it.
        c.kill("meta")
        place = c.dir / "early"
        place.mkdir()
        log = c.cluster / "log/early.log"
        early = subprocess.Popen([c.program("stria-mount"), "-f", "--meta", f"{NAME}:{port}", *c.mount_trust(), "--timeout", "5s",
                                  "--wait", "forever", "--log", log, place], stdin=subprocess.DEVNULL)
        time.sleep(8)
        assert early.poll() is None, "the mount did not wait"
        new, bracketed = ("::1", "[::1]") if has_ipv6() else ("127.0.0.9", "127.0.0.9")
        start(c, "meta", replaced(meta, "--listen", f"{bracketed}:{port}"))
        name_is(hosts, [new])
        began = time.monotonic()
        environment = {**os.environ, "STRIA_META": f"{bracketed}:{port}", "STRIA_TRUST": c.cluster / "meta/trust/admin"}

        def up():
            done = subprocess.run([c.stria_path, "node", "ls"], env=environment, text=True, capture_output=True, timeout=60)
            return done.returncode == 0 and done.stdout.count(" up ") == 3
        wait_for("data servers have found it", up, WAIT_S)
        say(f"data servers have found it at {new} after {time.monotonic() - began:.1f} s")
        wait_for("the mount is there", lambda: str(place) in pathlib.Path("/proc/self/mountinfo").read_text(), 60)

        def reads():  # the server waits for reclaims after its restart, longer than this mount's timeout
            with contextlib.suppress(OSError):
                return (place / "f").stat().st_size == 3 * MIB
        wait_for("it is of use", reads, 60)
        wait_for("its log says what it found", lambda: "this machine has several nodes (" in log.read_text(), 30)
        say("a mount that started before the metadata server waited for it, and looked for its node")

        # It moves back. The mount has not looked at this file before.
        c.end_own("meta")
        c.start("meta")
        name_is(hosts, ["127.0.0.1"])
        began = time.monotonic()

        def reads_another():
            with contextlib.suppress(OSError):
                return digest_of_file(place / "after") == c.files["after"][1]
        wait_for("the mount has found it", reads_another, WAIT_S)
        say(f"the mount has found it after {time.monotonic() - began:.1f} s")
        wait_for("all are up", lambda: all(c.node(n)["state"] == "up" for n in ("n1", "n2", "n3")), WAIT_S)
        subprocess.run(["umount", place], check=True, timeout=60)
        early.wait(60)

        # One that says an address that is not its own.
        arguments = list(c.own["n3"].args)
        c.end_own("n3")
        c.start_with("n3", [*arguments, "--address", "127.0.0.1:1"])
        wait_for("that it cannot be reached is told",
                 lambda: "Node n3 is heard" in findings(c) and "cannot reach it at 127.0.0.1:1" in findings(c), 60)
        c.end_own("n3")
        c.start_with("n3", arguments)
        wait_for("all is well", lambda: "cannot reach" not in findings(c), 60)
        say("a data server that nobody can reach is told")
    finds_its_node()


def finds_its_node():
    """On a machine that is one node, nobody has to say which: files of a directory with place=local are there."""
    with Cluster(nodes=1, disks=3, layout="raid5:2+1,domain=disk") as c:
        at, log = c.dir / "own", c.cluster / "log/own.log"
        at.mkdir()
        meta = next(p["address"] for p in c.processes() if p["kind"] == "meta")
        own = subprocess.Popen([c.program("stria-mount"), "-f", "--meta", meta, *c.mount_trust(), "--log", log, at], stdin=subprocess.DEVNULL)
        try:
            wait_for("it is mounted", lambda: str(at) in pathlib.Path("/proc/self/mountinfo").read_text(), 60)
            assert os.getxattr(at, "user.stria.node") == b"n1", os.getxattr(at, "user.stria.node")
            assert "this machine is node n1" in log.read_text(), log.read_text()
            (at / "local").mkdir()
            c.stria("layout", "set", at / "local", "raid5:2+1,domain=disk,arrange=gathered,unit=1M", "--place", "local")
            size, digest = write_file(at, "local/f", 3 * MIB)
            hosts = json.loads(c.stria("where", at / "local/f", "--by-host", "--json").stdout)["hosts"]
            assert {h["node"]: h["data_bytes"] for h in hosts if h["data_bytes"]} == {"n1": size}, hosts
            assert digest_of_file(at / "local/f") == digest
        finally:
            subprocess.run(["umount", at], check=False, timeout=60)
            own.wait(60)
        say("a mount without node= has found that it is on n1, and place=local is there")


main(scenario)
