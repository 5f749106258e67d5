#!/usr/bin/env python3
"""Packages in a fresh Debian: installed, set up by the documented commands, run by their units' command lines as the units' user, used,
upgraded, started and stopped as a machine of its own, removed, purged; what is left is looked at.

    ./tools/build && sudo test/package/install.py [--install-tools] [--keep DIR]

--keep: packages go to DIR, or are taken from there. It needs root and the tools that TOOLS names, which --install-tools installs; where one is
missing, it says so and ends with 77. The fresh root comes from the mirror that this machine uses, and is kept in ~/.cache/stria for the next
time. Takes 4 minutes."""

import argparse

import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import boots  # noqa: E402

TOP = HERE.parents[1]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "stria"
PACKAGES = ["stria-meta", "stria-data", "stria-client", "stria-web", "python3-stria", "stria-doc"]
VERSIONS = ["0.9.0~1", "0.9.0~2"]
SERVERS = ["stria-meta", "stria-data"]
# Program to package; with those of tools/package/build.
TOOLS = {"dh": "debhelper", "dh_python3": "dh-python", "lintian": "lintian", "mmdebstrap": "mmdebstrap", "systemd-analyze": "systemd",
         "systemd-nspawn": "systemd-container"}
TOOL_PACKAGES = [*TOOLS.values(), "pybuild-plugin-pyproject", "python3-all", "python3-setuptools"]
CANNOT = 77  # as automake's tests say "skipped"
# What a purge leaves, as nothing else has what is in it; the user stays, too, as whose files these are.
KEPT = {"/etc/stria", "/var/lib/stria"}
MIB = 1 << 20


def say(text):
    print(f"[{time.monotonic() - BEGAN:6.1f} s] {text}", flush=True)


BEGAN = time.monotonic()


def run(*command, **more):
    more.setdefault("check", True)
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    return done.stdout


def expect(right, what):
    if not right:
        raise AssertionError(what)


def wait_for(what, condition, timeout_s=120):
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        expect(time.monotonic() < end, f"not within {timeout_s} s: {what}")
        time.sleep(0.2)
    return value


# ---- Before: packages, and a root that they are installed in ----


def base_root():
    """A tar of a fresh Debian 12 with what the packages need from elsewhere."""
    tar = CACHE / "package-test-root.tar"
    if not tar.exists():
        say("a fresh root is made")
        CACHE.mkdir(parents=True, exist_ok=True)
        sources = [p for p in (pathlib.Path("/etc/apt/sources.list.d/debian.sources"), pathlib.Path("/etc/apt/sources.list")) if p.exists()]
        made = tar.with_suffix(".new")
        run("mmdebstrap", "--variant=minbase", "--format=tar", "--include=ca-certificates", "bookworm", made, *sources[:1])
        made.rename(tar)
    return tar


def build_packages(out):
    for version in VERSIONS:
        if list(out.glob(f"*_{version}_*.deb")):
            say(f"packages of version {version} are there")
            continue
        # Packages of debug symbols are not looked at.
        run(TOP / "tools/package/build", "--out", out, "--version", version, env={**os.environ, "DEB_BUILD_OPTIONS": "noautodbgsym"})
        say(f"packages of version {version} are built")


def debs(out, version):
    return [next(out.glob(f"{name}_{version}_*.deb")) for name in PACKAGES]


def check_lintian(out):
    # Made for one's own machines, and not for Debian: no ITP bug, no signature.
    said = run("lintian", "--no-cfg", "--allow-root", "--tag-display-limit", "0", "--suppress-tags", "initial-upload-closes-no-bugs",
               *debs(out, VERSIONS[0]), check=False)
    lines = [line for line in said.splitlines() if line[:2] in ("E:", "W:")]
    print("\n".join("    " + line for line in lines))
    expect(not any(line.startswith("E:") for line in lines), "lintian finds errors")
    expect(len(lines) <= 5, "lintian has many warnings")
    say(f"lintian: no errors, {len(lines)} warnings")


class Root:
    def __init__(self, path):
        self.path = path

    def chroot(self, *command, user=None, **more):
        """Runs a command there; gives what it prints."""
        return run("chroot", *(["--userspec", f"{user}:{user}"] if user else []), self.path, *command, env=self.environment(), **more)

    def environment(self, **more):
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **more}

    def __truediv__(self, path):
        return self.path / str(path).lstrip("/")

    def mode(self, path):
        st = os.stat(self / path)
        names = self.chroot("stat", "-c", "%U:%G", path).strip()
        return f"{names} {st.st_mode & 0o7777:04o}"


def install(root):
    """In a mount namespace of its own, with the machine's network."""
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    for folder in ("proc", "sys", "dev"):
        run("mount", "--rbind", "--make-rslave", f"/{folder}", root / folder)
    root.chroot("apt-get", "update", "-q")
    debs_there = [f"/packages/{d}" for d in sorted(os.listdir(root / "packages")) if f"_{VERSIONS[0]}_" in d]
    root.chroot("apt-get", "install", "-q", "-y", "--no-install-recommends", "systemd-sysv", "dbus", "procps", *debs_there)
    say("installed by apt-get")


# ---- In namespaces of its own: mounts, processes, a network with nothing but lo ----


def setting(unit, key):
    found = re.findall(rf"^{key}=(.*)$", unit, re.M)
    return found[-1] if found else None


class Service:
    """A unit's command line, run as its user, with what systemd gives it: a notify socket, a watchdog, limits."""

    def __init__(self, root, name):
        self.name = name
        unit = (root / f"usr/lib/systemd/system/{name}.service").read_text()
        self.user = setting(unit, "User")
        self.heard = ""
        path = f"\0stria-package-test-{name}-{os.getpid()}-{time.monotonic_ns()}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        # As systemd does: all the time. A server whose tenth word nobody has read stands still.
        threading.Thread(target=self.hear, daemon=True).start()
        self.log = open(root / f"{name}.log", "ab")
        files = min(int(setting(unit, "LimitNOFILE")), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        command = ["chroot", root.path, "prlimit", f"--nofile={files}", "setpriv", "--reuid", self.user, "--regid",
                   setting(unit, "Group"), "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--",
                   *shlex.split(setting(unit, "ExecStart"))]
        self.process = subprocess.Popen([str(c) for c in command], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
                                        env=root.environment(NOTIFY_SOCKET="@" + path[1:], WATCHDOG_USEC="3000000"))

    def hear(self):
        while True:
            self.heard += self.socket.recv(4096).decode() + "\n"

    def wait_ready(self):
        def ready():
            expect(self.process.poll() is None, f"{self.name} ended with {self.process.returncode}: " + pathlib.Path(self.log.name).read_text()[-2000:])
            return "READY=1" in self.heard
        wait_for(f"{self.name} serves", ready)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=90)
        expect(code == 0, f"{self.name} ended with {code}")
        wait_for(f"{self.name} says that it stops", lambda: "STOPPING=1" in self.heard, 10)


def check_files(root):
    passwd = [line for line in (root / "etc/passwd").read_text().splitlines() if line.startswith("stria:")]
    expect(len(passwd) == 1 and passwd[0].endswith(":/var/lib/stria:/usr/sbin/nologin"), f"user stria: {passwd}")
    expect(100 <= int(passwd[0].split(":")[2]) < 1000, f"stria is no system user: {passwd}")
    for path, mode in {"/etc/stria/meta.toml": "root:root 0644", "/etc/stria/data.toml": "root:root 0644", "/usr/bin/stria": "root:root 0755",
                       "/var/lib/stria": "stria:stria 0750", "/etc/stria/mounts": "root:root 0755"}.items():
        expect(root.mode(path) == mode, f"{path} is {root.mode(path)}, not {mode}")
    for helper in ("mount.fuse.stria", "umount.fuse.stria", "mount.stria", "umount.fuse"):
        expect(os.readlink(root / "usr/sbin" / helper).endswith("bin/stria-mount"), f"{helper} is not there")
    conffiles = root.chroot("dpkg-query", "-W", "-f", "${Conffiles}", *SERVERS)
    for name in ("meta.toml", "data.toml"):
        expect(f"/etc/stria/{name}" in conffiles, f"{name} is no conffile")
    version = root.chroot("stria", "--version")
    commit = run("git", "-C", TOP, "rev-parse", "--short=12", "HEAD").strip()
    expect(f"(commit {commit}" in version, f"stria --version says {version}")
    for name in ("man1/stria.1.gz", "man8/stria-meta.8.gz", "man8/stria-data.8.gz", "man8/stria-mount.8.gz", "man8/stria-web.8.gz", "man8/mount.fuse.stria.8.gz"):
        expect((root / "usr/share/man" / name).exists(), f"there is no {name}")
    expect((root / "usr/share/doc/stria-doc/operations.md").exists(), "there is no operations.md")
    root.chroot("python3", "-c", "import stria, importlib.metadata as m; assert m.entry_points(group='fsspec.specs')['stria']")
    say("users, files, modes, versions and the Python module are right")


def check_units(root):
    for unit in ("stria-meta.service", "stria-data.service", "stria-web.service", "stria-mount@srv-data.service"):
        said = root.chroot("systemd-analyze", "verify", "--man=no", unit, check=False)
        said = "\n".join(line for line in said.splitlines() if "stria" in line.lower() or "srv-data" in line)
        expect(not said, f"systemd-analyze verify {unit}: {said}")
    for unit in SERVERS:
        said = root.chroot("systemd-analyze", "security", "--offline=true", f"/usr/lib/systemd/system/{unit}.service", check=False)
        level = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", said).group(1))
        expect(level <= 3.0, f"{unit} is exposed by {level}")
        enabled = root.chroot("systemctl", "is-enabled", unit, check=False).strip()
        expect(enabled == "disabled", f"{unit} is {enabled} before it was set up")
        say(f"{unit}: units are right, exposure level {level}")


def joins(root, token, *more, **how):
    """`stria join` with the token on standard input, as an admin pastes it."""
    return root.chroot("stria", "join", "-", *more, input=token + "\n", **how)


def token_for(root, *more):
    said = root.chroot("stria", "token", "make", *more)
    return next(line for line in said.splitlines() if line.startswith("stria-join:"))


def set_up_meta(root):
    """A first machine: stria cluster init, twice before the server runs and once after."""
    init = ("stria", "cluster", "init", "--address", "pc1", "--layout", "raid1:2")
    said = root.chroot(*init)
    expect("is made" in said and "stria-meta --config /etc/stria/meta.toml" in said and "stria join -" in said, said)
    settings = (root / "etc/stria/meta.toml").read_text()
    expect('\naddress = "pc1"\n' in settings and '\nlayout = "raid1:2"\n' in settings, settings)
    expect(root.mode("/var/lib/stria/meta/trust/authority.pem") == "stria:stria 0600", "others may read the authority's key")
    said = root.chroot(*init)
    expect("is there already" in said and "set:" not in said, said)
    meta = Service(root, "stria-meta")
    meta.wait_ready()
    said = root.chroot(*init)
    expect("serves at pc1" in said and "Start the server" not in said, said)
    expect((root / "etc/stria/meta.toml").read_text() == settings, "the same command again changes settings")
    # docs/security.md: for root of this machine over the network.
    root.chroot("install", "-d", "-m", "700", "/etc/stria/trust/admin")
    root.chroot("sh", "-c", "cp /var/lib/stria/meta/trust/admin/* /etc/stria/trust/admin/")
    return meta


def set_up_data(root):
    disks = [f"/srv/d{n}" for n in (1, 2, 3)]
    token = token_for(root, "--role", "data", "--name", "n1")
    expect(token.startswith("stria-join:pc1:7424:"), "the token does not tell the address of the settings")
    options = ["--address", "pc1", *(word for disk in disks for word in ("--disk", disk))]
    said = joins(root, token, *options, check=False)
    expect("--force" in said and not (root / "etc/stria/trust/data").exists(), f"disks in the system's filesystem are taken: {said}")
    said = joins(root, token, "--force", *options)
    expect("data n1 of cluster" in said and "stria-data --config /etc/stria/data.toml" in said, said)
    expect(root.mode("/etc/stria/trust/data/node.pem") == "stria:stria 0600", f"the certificate is {root.mode('/etc/stria/trust/data/node.pem')}")
    expect(all(root.mode(disk).startswith("stria:stria ") for disk in disks), "a disk does not belong to the server")
    settings = (root / "etc/stria/data.toml").read_text()
    expect(settings.count("\n[[disk]]\n") == 3 and 'meta = ["pc1:7424"]' in settings, settings[-500:])
    for again in (lambda: joins(root, token, "--force", *options), lambda: root.chroot("stria", "join", "--force", *options)):
        said = again()
        expect("already" in said and "set:" not in said, said)
    expect((root / "etc/stria/data.toml").read_text() == settings, "joining again changes settings")
    data = Service(root, "stria-data")
    data.wait_ready()
    return data


def look(root):
    """stria doctor finds nothing but what is so in a root of this kind."""
    said = root.chroot("stria", "doctor", "--json", check=False)
    report = json.loads(said[said.index("{"):])
    areas = {"cluster", "network", "certificates", "versions"}
    wrong = [c["sentence"] for c in report["checks"] if c["verdict"] != "ok" and c["area"] in areas]
    expect(not wrong, f"stria doctor finds {wrong}")
    expect(areas <= {c["area"] for c in report["checks"]}, "stria doctor leaves something out")
    expect(sum(c["area"] == "certificates" for c in report["checks"]) >= 3, "stria doctor does not find all certificates")


def set_up(root):
    """What docs/operations.md, "Installing", says, where no systemd runs: the servers are started here by their units' command lines."""
    (root / "etc/hosts").write_text("127.0.0.1 localhost pc1\n")
    for n in (1, 2, 3):
        (root / f"srv/d{n}/lost+found").mkdir(mode=0o700, parents=True)
    before = Service(root, "stria-data")
    expect(before.process.wait(timeout=60) != 0, "stria-data starts without settings")
    services = [set_up_meta(root), set_up_data(root)]
    # Root of this client makes the first files.
    said = joins(root, token_for(root, "--role", "client", "--trusted-root"), "--name", "wn1")
    expect("mount -t fuse.stria pc1:/ /data" in said and "_netdev,nofail" in said, said)
    wait_for("three disks are up", lambda: root.chroot("stria", "disk", "ls", "--meta", "pc1", "--json", check=False).count('"up"') >= 3)
    look(root)
    say("set up by the documented commands, secured; both servers serve, as user stria, without capabilities")
    return services


def write_and_read(root, name):
    data = os.urandom(8 * MIB)
    path = root / "srv/data" / name
    path.write_bytes(data)
    os.sync()
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    os.close(fd)
    expect(path.read_bytes() == data, f"{name} is not what was written")
    return data


def use(root, services):
    (root / "srv/data").mkdir()
    root.chroot("mount", "-t", "fuse.stria", "pc1:/", "/srv/data", "-o", "timeout=30s")
    first = write_and_read(root, "first")
    root.chroot("umount", "/srv/data")
    root.chroot("mount", "-t", "fuse.stria", "pc1:/", "/srv/data", "-o", "timeout=30s")
    expect((root / "srv/data/first").read_bytes() == first, "the file is another after it was mounted anew")
    connected = [line for line in pathlib.Path("/proc/net/unix").read_text().splitlines() if "@stria-data/pc1:7425" in line]
    expect(len(connected) > 1, "the mount of root does not read from the files of the data server of user stria")
    where = root.chroot("python3", "-c", "import stria; print(stria.locations('/srv/data/first'))")
    expect("n1" in where, f"python3-stria says {where}")
    names = root.chroot("bash", "-c", "source /usr/share/bash-completion/completions/stria; COMP_WORDS=(stria disk drain --meta pc1 ''); "
                        'COMP_CWORD=5; _stria_complete; echo "${COMPREPLY[@]}"').split()
    expect({"n1:d1", "n1:d2", "n1:d3"} <= set(names), f"completion knows the disks {names}")
    for s in services:
        s.process.send_signal(signal.SIGHUP)
        wait_for(f"{s.name} tells of its reload", lambda: "RELOADING=1" in s.heard and s.heard.count("READY=1") == 2)
        wait_for(f"{s.name} gives signs of life", lambda: s.heard.count("WATCHDOG=1") >= 2)
        status = re.findall(r"STATUS=(.*)", s.heard)[-1]
        say(f"{s.name} tells systemd: {status}")
    expect("3 of 3 disks" in services[1].heard, services[1].heard)
    for log, server in ((root / f"{s.name}.log", s.name) for s in services):
        errors = [line for line in log.read_text().splitlines() if re.search(r"\] [EW] ", line)]
        print("\n".join(f"    {server}: {line}" for line in errors))
    say("written, mounted anew, read from local files, reloaded")
    return first


def upgrade(root, services, first):
    before = (root / "etc/stria/data.toml").read_text()
    root.chroot("dpkg", "-i", *(f"/packages/{d}" for d in sorted(os.listdir(root / "packages")) if VERSIONS[1] in d))
    expect((root / "etc/stria/data.toml").read_text() == before, "the upgrade changes settings")
    expect((root / "srv/data/first").read_bytes() == first, "the mount does not survive the upgrade of its package")
    for s in services:
        s.stop()
    services = [Service(root, name) for name in SERVERS]
    for s in services:
        s.wait_ready()
    expect((root / "srv/data/first").read_bytes() == first, "the file is another after the upgrade")
    write_and_read(root, "second")
    root.chroot("umount", "/srv/data")
    for s in reversed(services):
        s.stop()
    say("upgraded: settings stay, the mount goes on")


def left(root):
    """Everything whose name has stria in it, but the packages' files themselves and logs of this test."""
    found = run("find", root.path, "-xdev", "-name", "*stria*").splitlines()
    ours = ("/packages/", "/proc/", "/sys/", "/dev/", "/run/", "/stria-meta.log", "/stria-data.log")
    return {path for line in found if not (path := line[len(str(root.path)):]).startswith(ours)}


def remove_and_purge(root):
    # As systemd makes it for the unit stria-watch.
    root.chroot("install", "-d", "-m", "700", "/var/lib/stria-watch")
    (root / "var/lib/stria-watch/state").write_text("next 7\n")
    root.chroot("dpkg", "--remove", *PACKAGES)
    expect((root / "var/lib/stria-watch/state").exists(), "removing packages makes stria-watch forget what it has told")
    for path in ("/etc/stria/meta.toml", "/etc/stria/data.toml", "/etc/stria/trust/data/node.pem", "/var/lib/stria/meta"):
        expect((root / path).exists(), f"removing packages removes {path}")
    expect(not (root / "usr/bin/stria-data").exists(), "a program is left")
    root.chroot("dpkg", "--purge", *PACKAGES)
    expect("stria" not in root.chroot("dpkg", "-l"), "a package is left")
    there = left(root)
    kept = {p for p in there if p in KEPT}
    expect(there == kept, f"a purge leaves {sorted(there - kept)}")
    expect((root / "var/lib/stria/meta").exists(), "a purge takes a cluster's metadata away")
    kept = sorted(os.listdir(root / "etc/stria"))
    expect("trust" in kept and not any(name.endswith(".toml") for name in kept), f"in /etc/stria are left {kept}")
    # Without a store and certificates nothing at all is left, but the user.
    shutil.rmtree(root / "var/lib/stria")
    shutil.rmtree(root / "etc/stria")
    root.chroot("dpkg", "-i", *(f"/packages/{d}" for d in sorted(os.listdir(root / "packages")) if VERSIONS[1] in d))
    root.chroot("dpkg", "--purge", *PACKAGES)
    expect(not left(root), f"installing and purging leaves {sorted(left(root))}")
    say("removed and purged: the store, the certificates and the user stay, and nothing else")


def inside(path, part):
    root = Root(path)
    run("mount", "--make-rprivate", "/")
    if part == "install":
        return install(root)
    run("ip", "link", "set", "lo", "up")
    run("mount", "--bind", path, path)
    run("mount", "-t", "proc", "proc", root / "proc")
    run("mount", "-t", "proc", "proc", "/proc")
    run("mount", "--rbind", "/sys", root / "sys")
    run("mount", "--rbind", "/dev", root / "dev")
    if part == "end":
        return remove_and_purge(root)
    check_files(root)
    check_units(root)
    services = set_up(root)
    upgrade(root, services, use(root, services))


def in_namespaces(root, part):
    kinds = ["--mount"] if part == "install" else ["--mount", "--net", "--pid", "--fork", "--kill-child"]
    done = subprocess.run(["unshare", *kinds, sys.executable, __file__, "--inside", part, root.path], check=False)
    if done.returncode != 0:
        for name in SERVERS:
            if (root / f"{name}.log").exists():
                print(f"---- {name}:\n" + (root / f"{name}.log").read_text()[-3000:])
        sys.exit(1)


def check_tools(install_them):
    if install_them:
        # Nothing of it is to be upgraded.
        run("apt-get", "install", "-q", "-y", "--no-install-recommends", "--no-upgrade", *TOOL_PACKAGES, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    missing = [f"{program} (package {package})" for program, package in TOOLS.items() if shutil.which(program) is None]
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        missing.append("/dev/fuse")
    if missing:
        print(f"SKIPPED: there is no {', no '.join(missing)} here; --install-tools installs packages")
        sys.exit(CANNOT)


def told_to_end(*_):
    sys.exit("told to end")


def main():
    signal.signal(signal.SIGTERM, told_to_end)
    if os.geteuid() != 0:
        sys.exit("install.py: run it as root")
    if sys.argv[1:2] == ["--inside"]:
        return inside(pathlib.Path(sys.argv[3]), sys.argv[2])
    options = argparse.ArgumentParser(description="Packages in a fresh Debian")
    options.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="packages go there, or are taken from there")
    options.add_argument("--install-tools", action="store_true", help="first install what is missing on this machine")
    args = options.parse_args()
    check_tools(args.install_tools)
    tar = base_root()
    where = pathlib.Path(tempfile.mkdtemp(prefix="stria-package-", dir="/var/tmp"))
    try:
        out = args.keep or where / "debs"
        out.mkdir(exist_ok=True)
        build_packages(out)
        check_lintian(out)
        root = Root(where / "root")
        (root / "packages").mkdir(parents=True)
        run("tar", "-C", root.path, "-xf", tar)
        for version in VERSIONS:
            for deb in debs(out, version):
                shutil.copy(deb, root / "packages")
        in_namespaces(root, "install")
        in_namespaces(root, "begin")
        boots.boots(root, say, expect)
        in_namespaces(root, "end")
    finally:
        run("rm", "-rf", "--one-file-system", where)  # whatever may be mounted there
    say("all is right")


if __name__ == "__main__":
    main()
