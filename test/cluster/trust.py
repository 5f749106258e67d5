"""Who does not belong is kept out, and who belongs gets no more than it was given (docs/security.md): a cluster whose members have
joined it, strangers, each role where it has no business, and a PC that joined as a client of one directory, read-only and as nobody. Then,
while files are read and written: a client is evicted and revoked, a node is revoked and joins anew, the authority is changed for another,
and short-lived certificates are renewed. Nobody else gets an error, and the audit tells of all of it.

Of the denials of an address the audit writes ten a minute. So those that are looked for come before those that only have to be refused,
or from an address of this machine that nothing else uses."""

import contextlib
import errno
import itertools
import json
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import time

from load import Load
from stria_cluster import MIB, Cluster, digest_of_file, main, say, wait_for, write_file

NOBODY = 65534
GREETING = b"Str1"
FRAME = "<4sBBHQII"
OWN_ADDRESSES = (f"127.0.1.{i}" for i in itertools.count(1))
WAIT_S = 60
MOUNT_TIMEOUT_S = 20
NOT_MOUNTED_S = 3  # how long one tries that is to be refused
LIFE_S = 60  # renewed at 40 s, so that a slow machine has 20 s for that; less is not allowed


def as_stranger(c, *args, trust="off"):
    """A command of a user of this machine who has nothing of the cluster's."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "STRIA_TRUST": trust, "STRIA_META": c.meta}
    return subprocess.run([c.open_stria, *map(str, args)], env=environment, capture_output=True, text=True, timeout=60, cwd="/",
                          stdin=subprocess.DEVNULL, user=NOBODY, group=NOBODY, extra_groups=[])


def tell(address, first):
    """What a server says to whoever begins so; b'' if it hangs up. It must not leave him waiting."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as s:
        s.sendall(first)
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := s.recv(4096):
                got += piece
        return got


@contextlib.contextmanager
def tls(address, certificate=None, source=""):
    """A connection to a server by its protocol, that shows this certificate, or none. `source`: the address it comes from."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["stria-privacy/1"])
    if certificate:
        context.load_cert_chain(certificate)
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20, source_address=(source, 0)) as s, context.wrap_socket(s) as t:
        yield t


def shake_hands(address, certificate=None, source=""):
    """What a server says after the handshake; b'' if it hangs up."""
    with contextlib.suppress(ssl.SSLError, ConnectionError), tls(address, certificate, source) as t:
        return t.recv(64)
    return b""


def receive(t, size):
    got = b""
    while len(got) < size:
        piece = t.recv(size - len(got))
        assert piece, f"it hung up after {len(got)} of {size} bytes"
        got += piece
    return got


def ask(address, certificate, method):
    """The reply to a call (docs/wire.md, "Bulk frames") of who has that certificate, whatever its own program would say to that."""
    with tls(address, certificate) as t:
        assert receive(t, len(GREETING)) == GREETING
        name, fields = method.encode(), bytes.fromhex("0a020803")  # a header with the protocol's version
        t.sendall(struct.pack(FRAME, b"SBK1", 1, 0, len(name), 1, len(fields), 0) + name + fields)
        magic, kind, _, names, call, size, payload = struct.unpack(FRAME, receive(t, struct.calcsize(FRAME)))
        assert (magic, kind, call) == (b"SBK1", 2, 1), "that is no reply"
        return receive(t, names + size + payload)


HERE = pathlib.Path(__file__).resolve().parent
# Where services are that are not everybody's; what is not listed is there only if there are several metadata servers.
ON_DATA = ("stria.v1.Data", "stria.v1.Backup")
ON_META = ("stria.v1.Meta", "stria.v1.Admin", "stria.v1.Trust")


def all_methods_times_all_roles(c, guest, watch):
    """Whoever no row of the table names (proto/covers.h) is refused by each real server, by name and with the reason. Requests are empty, so
    those who are let in are only asked for what changes nothing. Sessions are for clients, and are tried in the simulator."""
    program = next(p for p in [HERE / "covers_list", HERE.parents[1] / "bazel-bin/test/cluster/covers_list"] if p.exists())
    rows = json.loads(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
    node = next(p["address"] for p in c.processes() if p["kind"] == "node")
    who = {"client": ("client guest", guest.trust), "monitor": ("monitor watch", watch.trust), "data": ("data n1", c.cluster / "trust/n1"),
           "admin": ("admin", c.cluster / "meta/trust/admin"), "meta": ("meta", c.cluster / "meta/trust")}
    asked = {"GetMap": c.meta, "Status": c.meta, "Locate": None}
    refused = admitted = 0
    for row in rows:
        address = node if row["service"] in ON_DATA else c.meta if row["service"] in ON_META else None
        if address is None:
            continue
        for role, (name, trust) in who.items():
            may = role in row["alone"]
            if may and row["method"].rsplit("/", 1)[1] not in asked:
                continue
            try:
                said = ask(address, trust / "node.pem", row["method"])
            except ssl.SSLError as e:
                # Nobody of that role has anything to ask there: the handshake ends with who it is.
                assert not may and "UNSUPPORTED_CERTIFICATE" in str(e), f"{name} and {row['method']}: {e}"
                refused += 1
                continue
            denied = f"may not ask for {row['method']}: it is for ".encode() in said
            if role in row["in_session"] and not may and not denied:
                # Its requests are read before it is asked for its session.
                assert b"may not ask this without a session" in said or b"malformed" in said, f"{name} and {row['method']}: {said!r}"
                continue
            assert denied != may, f"{name} and {row['method']}: {said!r}"
            assert may or name.encode() in said, f"it is not said who was refused {row['method']}: {said!r}"
            refused, admitted = refused + denied, admitted + may
    assert refused > 200 and admitted >= 6, f"{refused} refused, {admitted} admitted"
    say(f"all methods times all roles: {refused} refused, by name and with the reason")


def certificates(c):
    """Those that the metadata server knows and are not over; [] if it does not answer just now."""
    done = c.stria("cert", "ls", "--json", check=False)
    return json.loads(done.stdout) if done.returncode == 0 else []


def good(c, role, name):
    """Those of one identity that are believed, the last one last."""
    return sorted((x for x in certificates(c) if (x["role"], x["name"]) == (role, name) and not x["revoked"]), key=lambda x: x["given_s"])


def audited(c, what, kind, again=None, **parts):
    """Waits for a line of that kind that has these parts. Denials beyond ten a minute of an address are only counted, so one that is not
    written has to be done again."""
    def told():
        done = c.stria("audit", "--json", check=False)
        for line in json.loads(done.stdout)["lines"] if done.returncode == 0 else []:
            if line["kind"] == kind and all(part in line[field] for field, part in parts.items()):
                return True
        if again:
            again()
        return False
    wait_for(f"the audit tells that {what}", told, 150, 0.5)


def as_member(c, trust, *args):
    """A command with the credentials of that directory."""
    return subprocess.run([c.stria_path, *map(str, args)], env={**os.environ, "STRIA_META": c.meta, "STRIA_TRUST": str(trust)}, cwd="/",
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def all_up(c):
    wait_for("all nodes are up", lambda: (nodes := c.status().get("nodes")) and all(n["state"] == "up" for n in nodes), WAIT_S)


class Guest:
    """A PC that joined: its certificate, and a mount by that."""

    def __init__(self, c, name, place=None):
        self.c, self.name = c, name
        self.trust = c.dir / f"trust-{name}"
        self.place = c.dir / (place or f"mnt-{name}")
        self.place.mkdir()
        self.process = None

    def join(self, *options, role="client"):
        token = self.c.stria("token", "make", "--role", role, "--name", self.name, *options).stdout.strip()
        self.c.stria("join", token, "--trust", self.trust)
        return token

    def mount(self, path, check=True):
        self.log = self.c.cluster / f"log/guest-{self.name}.log"
        timeout = f"{MOUNT_TIMEOUT_S if check else NOT_MOUNTED_S}s"
        self.process = subprocess.Popen([self.c.program("stria-mount"), "-f", "--meta", self.c.meta, "--trust", self.trust, "--timeout", timeout, "--log",
                                         self.log, f"{self.c.meta}:{path}", self.place], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not check:
            return self.process.communicate(timeout=WAIT_S)[1]
        wait_for(f"{self.name} has mounted {path}", lambda: os.path.ismount(self.place) or self.process.poll() is not None, WAIT_S)
        assert self.process.poll() is None, self.process.communicate()[1]
        return ""

    def umount(self):
        if self.process and self.process.poll() is None:
            subprocess.run(["umount", "--lazy", self.place], check=False)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
            self.process.kill()
            self.process.wait(20)


def refused(call, *codes):
    try:
        call()
    except OSError as e:
        assert e.errno in codes, f"it was refused with {e}"
        return
    raise AssertionError("it was let do that")


def members_have_joined(c):
    members = [("data", n) for n in c.nodes()] + [("client", "mount")]
    for role, name in members:
        own = good(c, role, name)
        assert len(own) == 1 and own[0]["token"] and own[0]["address"].startswith("127.0.0.1:"), f"{role} {name} has not joined: {own}"
        audited(c, f"{name} has joined", "enrolment", verb="join", outcome=f"{role} {name} has the certificate")
    assert all(t["used"] == t["uses"] for t in json.loads(c.stria("token", "ls", "--json").stdout)), "a token is left"
    c.stria("dev", "up", "--dir", c.cluster)
    c.kill("n1")
    c.start("n1")
    assert all(len(good(c, role, name)) == 1 for role, name in members), "who has a certificate has asked for another"
    all_up(c)
    say("nodes and mount have joined, each by a token of its own")


def without_certificate(c):
    verbs = [("status",), ("node", "ls"), ("disk", "ls"), ("node", "out", "n1"), ("rebuild", "pause"), ("fsck",), ("scrub", "start"),
             ("meta", "backup"), ("token", "make", "--role", "admin", "--name", "me"), ("export", "ls"), ("client", "ls"), ("audit",),
             ("cert", "ls"), ("ca", "rotate")]
    for verb in verbs:
        done = as_stranger(c, *verb)
        assert done.returncode not in (0, 64), f"stria {' '.join(verb)} was done for a stranger, or is unknown: {done.returncode} {done.stdout}{done.stderr}"
    # Nor does its own word that it is root, nor the socket of admins on this machine.
    done = as_stranger(c, "--meta", f"unix:{c.cluster}/meta/admin.sock", "node", "out", "n1")
    assert done.returncode != 0, done.stdout
    for address in [c.meta] + [p["address"] for p in c.processes() if p["kind"] == "node"][:1]:
        for first in (b"StriaBk1" + b"\0" * 64, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x00\x05hello", os.urandom(512)):
            got = tell(address, first)
            assert len(got) < 64, f"{address} answers a stranger: {got[:80]!r}"
    for kind, argument in (("stria-mount", ["--insecure", c.dir / "mnt-stranger"]), ("stria-mount", ["--trust", c.dir / "nothing", c.dir / "mnt-stranger"])):
        (c.dir / "mnt-stranger").mkdir(exist_ok=True)
        done = subprocess.run([c.program(kind), "-f", "--meta", c.meta, "--timeout", "3s", "--wait", "2s", *map(str, argument)], capture_output=True,
                              text=True, timeout=60)
        assert done.returncode != 0 and done.stderr.strip(), "it was mounted without a certificate"
    # Who speaks the protocol is refused by name: without a certificate, and with one of another cluster.
    foreign = c.dir / "foreign"
    subprocess.run([c.program("stria-meta"), "--data", foreign, "--format-only", "--log-file", c.dir / "foreign.log"], check=True, timeout=60)
    for certificate, why in ((None, "it shows no certificate"), (foreign / "trust/admin/node.pem", "no authority of this cluster has signed its certificate")):
        for address in [c.meta] + [p["address"] for p in c.processes() if p["kind"] == "node"][:1]:
            got = shake_hands(address, certificate)
            assert got == b"", f"{address} lets in who is to be refused, as {why}: {got!r}"
        audited(c, why, "denial", lambda: shake_hands(c.meta, certificate, next(OWN_ADDRESSES)), verb="connect", outcome=why)
    assert "the peer at 127.0.0.1:" in (c.cluster / "log/n1.log").read_text(errors="replace"), "a data server does not say whom it refused"
    done = as_member(c, foreign / "trust/admin", "status")
    assert done.returncode not in (0, 64) and done.stderr.strip(), "an admin of another cluster is let in"
    all_up(c)
    say("without a certificate of the cluster nothing is told and nothing done")


def each_role_in_its_place(c, guest):
    """All methods times all roles are in the simulator; this is what can be tried from a machine that has a certificate."""
    verbs = [("node", "out", "n1"), ("disk", "out", "n1:d1"), ("rebuild", "pause"), ("fsck",), ("scrub", "start"), ("meta", "backup"),
             ("token", "make", "--role", "admin", "--name", "x"), ("token", "ls"), ("export", "set", "path=/"), ("export", "ls"), ("client", "ls"),
             ("client", "evict", "1"), ("cert", "ls"), ("cert", "revoke", "data/n1"), ("ca", "rotate"), ("ca", "finish", "--force"), ("audit",)]

    def refused_to(who, trust):
        for verb in verbs:
            done = as_member(c, trust, *verb)
            said = f"stria {' '.join(verb)}: {done.returncode} {done.stdout}{done.stderr}"
            assert done.returncode not in (0, 64), f"done for {who}, or unknown: {said}"
            assert f"{who} at " in done.stderr and "admin" in done.stderr, f"it is not said who was refused, and why: {said}"

    refused_to("client guest", guest.trust)
    watch = Guest(c, "watch")
    watch.join(role="monitor")
    assert as_member(c, watch.trust, "status").returncode in (0, 1, 2), "a monitor is not told the status"
    refused_to("monitor watch", watch.trust)
    # What no program of that role asks for.
    nodes = [p["address"] for p in c.processes() if p["kind"] == "node"]
    strange = {
        ("data n1", c.cluster / "trust/n1"): (c.meta, ["Meta/OpenSession", "Meta/Commit", "Meta/Admin", "Meta/Fsck", "Meta/Status", "Admin/Upkeep",
                                                       "Admin/Files", "Trust/MakeToken", "Trust/RevokeCertificate", "Trust/ChangeAuthority", "Trust/ReadAudit"]),
        ("client guest", guest.trust): (c.meta, ["Meta/RegisterNode", "Meta/Heartbeat", "Meta/ReportWork", "Admin/ListParity", "Trust/MakeToken"]),
        ("monitor watch", watch.trust): (c.meta, ["Meta/OpenSession", "Meta/RegisterNode", "Meta/Lookup", "Trust/ListCertificates"]),
        ("admin", c.cluster / "meta/trust/admin"): (c.meta, ["Meta/OpenSession", "Meta/Commit", "Meta/RegisterNode", "Meta/Heartbeat"]),
        ("client mount", c.cluster / "trust/mount"): (nodes[1], ["Data/Inventory", "Backup/PutBackup", "Backup/GetBackup", "Backup/DeleteBackups"]),
        ("data n3", c.cluster / "trust/n3"): (nodes[0], ["Data/Inventory", "Backup/ListBackups"]),
    }
    for (who, trust), (address, methods) in strange.items():
        for method in methods:
            said = ask(address, trust / "node.pem", f"/stria.v1.{method}")
            assert who.encode() in said and f"may not ask for /stria.v1.{method}: it is for ".encode() in said, f"{who}, {method}: {said!r}"
    # What is of one role is not taken by the program of another.
    place = c.dir / "mnt-nobody"
    place.mkdir()
    for role, trust in (("data", c.cluster / "trust/n1"), ("admin", c.cluster / "meta/trust/admin"), ("monitor", watch.trust)):
        done = subprocess.run([c.program("stria-mount"), "-f", "--meta", c.meta, "--trust", trust, "--timeout", "5s", place], capture_output=True,
                              text=True, timeout=60)
        assert done.returncode != 0 and f"is of the role {role}" in done.stderr and "client" in done.stderr, f"{role} mounts: {done.stderr}"
    for role, trust in (("data", c.cluster / "trust/n1"), ("meta", c.cluster / "meta/trust")):
        if role == "meta":  # a directory of a role comes first, so it is given alone
            alone = c.dir / "trust-meta"
            alone.mkdir(mode=0o700)
            for file in ("node.pem", "ca.pem"):
                shutil.copy(trust / file, alone / file)
            trust = alone
        done = as_member(c, trust, "status")
        refused = {"data": "may not ask for /stria.v1.Meta/Status: it is for ", "meta": "is of the role meta"}[role]  # the server, or the command
        assert done.returncode not in (0, 64) and refused in done.stderr, f"{role} asks as an admin: {done.stdout}{done.stderr}"
    done = subprocess.run([c.program("stria-data"), "--node-name", "n9", "--meta", c.meta, "--trust", c.cluster / "trust/n1", "--disk", place],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "n1" in done.stderr and "n9" in done.stderr, f"a node takes another's certificate: {done.stderr}"
    all_methods_times_all_roles(c, guest, watch)
    assert all(n["state"] == "up" for n in c.status()["nodes"]) and good(c, "data", "n1"), "something was done"
    say("each role is refused what is of others, by name and with the reason")


def one_directory(c):
    shared = c.mount / "shared"
    shared.mkdir()
    (shared / "data").write_bytes(b"for everybody\n")
    (shared / "secret").write_bytes(b"SECRET\n")
    os.chmod(shared / "secret", 0o600)
    (c.mount / "outside").write_bytes(b"SECRET outside\n")
    (shared / "dir").mkdir()
    os.link(c.mount / "outside", shared / "dir" / "linked")
    os.unlink(shared / "dir" / "linked")
    os.sync()
    c.stria("export", "set", "path=/ clients=mount*")
    c.stria("export", "remove", "/", "--clients", "*")
    c.stria("export", "set", "path=/shared clients=guest access=ro squash=all")
    guest = Guest(c, "guest")
    token = guest.join()
    again = c.stria("join", token, "--name", "guest", "--trust", c.dir / "trust-again", check=False)
    assert again.returncode != 0 and "used" in again.stderr, f"a token was used twice: {again.stdout}{again.stderr}"
    said = guest.mount("/", check=False)
    assert "guest" in said and "may not mount" in said, f"it was mounted, or the reason is not told: {said}"
    audited(c, "a client may not mount what is not exported to it", "denial", lambda: guest.mount("/", check=False), peer="client guest",
            outcome="guest may not mount /")
    guest.mount("/shared")
    at = guest.place
    assert sorted(os.listdir(at)) == ["data", "dir", "secret"], os.listdir(at)
    assert (at / "data").read_bytes() == b"for everybody\n"
    refused(lambda: (at / "secret").read_bytes(), errno.EACCES)
    refused(lambda: (at / "new").write_bytes(b"x"), errno.EROFS, errno.EACCES)
    refused(lambda: os.truncate(at / "data", 0), errno.EROFS, errno.EACCES)
    refused(lambda: os.unlink(at / "data"), errno.EROFS, errno.EACCES)
    refused(lambda: os.chmod(at / "secret", 0o777), errno.EROFS, errno.EPERM)
    assert os.path.samefile(at / "dir" / "..", at)
    # What is moved out is outside.
    inside = os.open(at / "dir", os.O_RDONLY | os.O_DIRECTORY)
    os.rename(shared / "dir", c.mount / "moved")
    (c.mount / "moved" / "later").write_bytes(b"SECRET later\n")
    try:
        refused(lambda: os.open("later", os.O_RDONLY, dir_fd=inside), errno.ESTALE, errno.ENOENT, errno.EACCES, errno.EIO)
    finally:
        os.close(inside)
    audited(c, "a client may not ask what admins may", "denial", lambda: as_member(c, guest.trust, "cert", "ls"), peer="client guest",
            outcome="it is for admin")
    say("a client of one directory reads that, as nobody, and sees nothing else")
    return guest


def goes(c, guest, load):
    clients = json.loads(c.stria("client", "ls", "--json").stdout)
    mine = [x for x in clients if x["owner"] == "guest"]
    assert len(mine) == 1, clients
    c.stria("client", "evict", mine[0]["session"])
    wait_for("its session is gone", lambda: not any(x["session"] == mine[0]["session"] for x in
                                                    json.loads(c.stria("client", "ls", "--json").stdout)), WAIT_S)
    audited(c, "a client was evicted", "eviction", verb="client evict", outcome="is ended")
    load.progress()
    say("a client was evicted, and nobody else noticed")
    c.stria("cert", "revoke", "client/guest")

    log = c.cluster / "log/meta.log"
    wait_for("a revoked client is refused", lambda: "the certificate of client guest is revoked" in log.read_text(errors="replace"), WAIT_S)
    other = Guest(c, "guest", "mnt-guest2")
    said = other.mount("/shared", check=False)
    assert said.strip(), "a revoked certificate mounts"
    audited(c, "a client was revoked", "enrolment", verb="cert revoke", arguments="client/guest", outcome="revoked")
    guest.umount()
    load.progress()
    say("its certificate was revoked, and nobody else noticed")


def join_anew(c, name):
    """The node gets another key and certificate; if it runs, it finds them there."""
    token = c.stria("token", "make", "--role", "data", "--name", name).stdout.strip()
    c.stria("join", token, "--trust", c.cluster / "trust" / name, "--again")


def a_node_is_revoked(c, load):
    former = good(c, "data", "n3")
    c.stria("cert", "revoke", "data/n3")
    wait_for("n3 is not heard any more", lambda: c.node("n3")["state"] in ("suspect", "down"), WAIT_S)

    def told():
        return any("Node n3 is refused: its certificate is revoked" in f["what"] and "stria token make" in f["action"] for f in c.status().get("findings", []))
    wait_for("status says why", told, WAIT_S)
    audited(c, "a node was revoked", "enrolment", verb="cert revoke", arguments="data/n3", outcome="revoked")
    audited(c, "the revoked node is refused", "denial", verb="connect", outcome="the certificate of data n3 is revoked")
    assert not good(c, "data", "n3")
    load.progress()
    # Another start does not help.
    arguments, log = c.arguments("n3"), c.cluster / "log/n3.log"
    c.kill("n3")
    before = log.stat().st_size
    c.start_with("n3", arguments, await_up=False)
    wait_for("n3 is told why it is refused", lambda: b"certificate is revoked" in log.read_bytes()[before:], WAIT_S)
    assert c.node("n3")["state"] != "up"
    load.progress()
    c.end_own("n3")
    join_anew(c, "n3")
    c.start("n3")
    wait_for("n3 is back", lambda: c.node("n3")["state"] == "up", WAIT_S)
    wait_for("status says nothing of it any more", lambda: c.status().get("findings") is not None and not told(), WAIT_S)
    now = good(c, "data", "n3")
    assert len(now) == 1 and now[0]["key_sha256"] not in [x["key_sha256"] for x in former], now
    load.progress()
    say("a node was revoked, was refused, joined anew with another key and is back; nobody else noticed")


def a_command_renews_its_certificate(c):
    """A monitor's, on a machine where no daemon does that."""
    trust = c.dir / "trust-watcher"
    token = c.stria("token", "make", "--role", "monitor", "--name", "watcher").stdout.strip()
    c.stria("join", token, "--trust", trust)

    def renew(*options):
        done = as_member(c, trust, "cert", "renew", "--json", *options)
        assert done.returncode == 0, done
        return json.loads(done.stdout)
    first = renew()
    assert (first["role"], first["name"], first["renewed"]) == ("monitor", "watcher", False), f"it was not due: {first}"
    second = renew("--force")
    assert second["renewed"] and second["serial"] != first["serial"], second
    assert not renew()["renewed"]
    assert {x["serial"] for x in good(c, "monitor", "watcher")} == {first["serial"], second["serial"]}, "the server knows of others"
    assert as_member(c, trust, "status").returncode in (0, 1, 2), "the new one is not taken"
    audited(c, "the monitor has renewed its certificate", "enrolment", peer="monitor watcher", verb="renew", outcome="done")
    say("a monitor's certificate was renewed by a command")


def the_authority_changes(c, load):
    c.stria("ca", "rotate", "--yes")
    both = wait_for("two authorities are believed", lambda: len(known := authorities(c)) == 2 and known, WAIT_S)
    new = next(a["sha256"] for a in both if a["signs"])
    here = wait_for("the server lists certificates", lambda: certificates(c), WAIT_S)
    running = [("data", n) for n in c.nodes()] + [("client", "mount")]
    running += sorted({(x["role"], x["name"]) for x in here if x["role"] in ("meta", "admin")})
    assert len(running) == len(c.nodes()) + 3, running

    def renewed(role, name):
        own = good(c, role, name)
        return own and own[-1]["issuer_sha256"] == new
    for role, name in running:
        wait_for(f"{role} {name} has a certificate of the new authority", lambda: renewed(role, name), WAIT_S, 1)
    load.progress()
    early = c.stria("ca", "finish", "--yes", check=False)
    assert early.returncode == 1 and "--force" in early.stderr, f"it was finished before answers that were lost could be asked for again: {early}"
    c.stria("ca", "finish", "--force", "--yes")
    load.progress()
    left = wait_for("one authority is believed", lambda: authorities(c), WAIT_S)
    assert [a["sha256"] for a in left] == [new], left
    all_up(c)
    load.progress()
    for verb, outcome in (("ca rotate", "done"), ("ca finish", "failed"), ("ca finish", "done")):
        audited(c, f"{verb} was {outcome}", "verb", verb=verb, outcome=outcome)
    say("the authority was changed for another; nobody noticed")


def authorities(c):
    done = c.stria("ca", "show", "--json", check=False)
    return json.loads(done.stdout)["authorities"] if done.returncode == 0 else []


def certificates_are_renewed(c, load):
    """Short-lived ones, of a node and of a mount, until each has been renewed and the first are over. Gives the node's former ones."""
    before = {x["serial"] for x in good(c, "data", "n2")}
    arguments = [*c.arguments("meta"), "--certificate-life", f"{LIFE_S}s"]
    c.kill("meta")
    c.start_with("meta", arguments, await_up=False)
    all_up(c)
    brief = Guest(c, "mount-brief")
    try:
        brief.join()
        brief.mount("/")
        join_anew(c, "n2")
        identities = [("data", "n2"), ("client", "mount-brief")]
        begun = int(time.time())
        # Those that are over are not listed any more, so they are remembered here.
        seen = {identity: set() for identity in identities}

        def all_renewed():
            for x in certificates(c):
                if (x["role"], x["name"]) in seen and x["not_after_s"] - x["given_s"] <= LIFE_S:
                    seen[x["role"], x["name"]].add(x["serial"])
            name = f"brief/{len(os.listdir(brief.place / 'brief'))}"
            size, digest = write_file(brief.place, name, MIB)
            assert (brief.place / name).stat().st_size == size and digest_of_file(brief.place / name) == digest
            c.files[name] = (size, digest)
            return all(len(serials) > 1 for serials in seen.values()) and time.time() > begun + LIFE_S + 2
        (brief.place / "brief").mkdir()
        wait_for("both are renewed, and the first ones are over", all_renewed, 4 * WAIT_S, 1)
        all_up(c)
        load.progress()
        for role, name in identities:
            audited(c, f"{role} {name} has renewed its certificate", "enrolment", peer=f"{role} {name}", verb="renew", outcome="done")
    finally:
        brief.umount()
    c.end_own("meta")
    c.start("meta")
    all_up(c)
    load.progress()
    say(f"certificates that are good for {LIFE_S} s were renewed; nobody noticed")
    return before


def good_for_long_again(c, load, before):
    """With the next renewal the node's certificate is as good as those of others again."""
    wait_for("n2 has a certificate that is good for long", lambda: any(x["not_after_s"] - x["given_s"] > 3600 and x["serial"] not in before
                                                                       for x in good(c, "data", "n2")), 2 * WAIT_S, 1)
    load.progress()
    say("the short-lived certificate became one that is good for long")


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:4+1") as c:
        c.meta = next(p["address"] for p in c.processes() if p["kind"] == "meta")
        public = pathlib.Path(tempfile.mkdtemp(prefix="stria-open-", dir="/var/tmp"))  # where everybody can run what is in it
        guest = None
        try:
            public.chmod(0o755)
            c.open_stria = shutil.copy(c.stria_path, public)
            members_have_joined(c)
            for i in range(4):
                c.write(f"base/{i}", 3 * MIB + i)
            with Load(c, readers=2, file_bytes=MIB) as load:
                without_certificate(c)
                former = certificates_are_renewed(c, load)
                guest = one_directory(c)
                a_node_is_revoked(c, load)
                each_role_in_its_place(c, guest)
                load.progress()
                goes(c, guest, load)
                a_command_renews_its_certificate(c)
                good_for_long_again(c, load, former)  # which took its time meanwhile
                the_authority_changes(c, load)
        finally:
            shutil.rmtree(public, ignore_errors=True)
            if guest:
                guest.umount()
        c.wait_whole()
        wait_for("nothing is crowded any more", lambda: c.status().get("crowded_stripes") == 0, 180)
        c.kill("n4")  # what only the node has that joined anew
        c.verify()
        c.start("n4")
        c.wait_whole()
        c.fsck()


main(scenario)
