"""The short suite: what is to hold on every kernel. `run` boots one and starts this there; as root it also runs where it is:

    python3 test/kernel/guest.py [--disks N] [--conformance none|short|all] [CHECK..]

A cluster of five nodes with one disk each (with --disks N: filesystems on /dev/vda and so on), two mounts. A line for each check:
"ok NAME" or "FAILED NAME: why".
"""

import argparse
import contextlib
import errno
import os
import pathlib
import platform
import signal
import subprocess
import sys
import time
import traceback

import between
import files
from base import CHECK_S, expect, expect_error, say
from stria_cluster import MIB, Cluster, is_running, wait_for

HERE = pathlib.Path(__file__).absolute().parent
NODES = 5
SLOW_S = 60
CONFORM_SHORT = ("names.rename", "names.unlink", "files.opening_flags", "files.direct", "files.sizes", "files.holes", "files.allocation", "files.copying",
                 "files.mappings", "files.appending", "files.ends", "files.stored", "rights.suid", "rights.umasks", "other.capabilities", "other.locks")


class Guest(Cluster):
    """A cluster whose disks are filesystems of their own, with a second mount."""

    def __init__(self, disks):
        super().__init__(nodes=NODES, disks=1, insecure=True)  # encryption is nothing to the kernel
        self.disks = disks
        self.other = self.dir / "mnt2"
        self.mounted = []

    def __enter__(self):
        self.dir.chmod(0o755)
        for n in range(self.disks):
            device, at = f"/dev/vd{'abcdefghij'[n]}", self.cluster / f"n{n + 1}/d1"
            subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", device], check=True)
            at.mkdir(parents=True)
            subprocess.run(["mount", "-o", "noatime", device, at], check=True)
            self.mounted.append(at)
        try:
            super().__enter__()
            self.stria("dev", "mount", "--dir", self.cluster, "--at", self.other, "--node", "n2")
        except BaseException:
            self.unmount_disks()
            raise
        return self

    def unmount_disks(self):
        for at in self.mounted:
            subprocess.run(["umount", "-l", at], check=False)
        self.mounted = []

    def __exit__(self, *how):
        if self.mounted:
            self.stria("dev", "down", "--dir", self.cluster, check=False)
            self.unmount_disks()
        super().__exit__(*how)

    def print_warnings(self):
        for log in sorted(self.cluster.glob("log/*.log")):
            for line in log.read_text(errors="replace").splitlines():
                if any(mark in line for mark in ("] W ", "] E ", "] F ")):
                    print(f"   {log.name}: {line[:300]}", flush=True)

    def log_says(self, text):
        return any(text in log.read_text(errors="replace") for log in self.cluster.glob("log/mount*.log"))


def past_the_mount(c):
    at = c.dir / "mnt3"
    c.stria("dev", "mount", "--dir", c.cluster, "--at", at, "--node", "n1", "--options", "passthrough")
    expect("bytes", (at / "dir/large").read_bytes(), (c.mount / "dir/large").read_bytes())
    can = tuple(map(int, platform.release().split(".")[:2])) >= (6, 9)
    said = c.log_says("no file is read past the mount")
    assert can or said, "the kernel cannot read past the mount, and nobody says so"
    say("passthrough: " + ("the log says that this kernel cannot" if said else "taken"))
    subprocess.run(["umount", at], check=True, timeout=CHECK_S)


def conform(c, which):
    if which == "none":
        return say("not run")
    cases = CONFORM_SHORT if which == "short" else ()
    done = subprocess.run([sys.executable, HERE.parent / "posix/conformance/conformance.py", "--on", c.mount, *cases], capture_output=True, encoding="utf-8",
                          stdin=subprocess.DEVNULL, check=False)
    lines = done.stdout.splitlines()
    say(lines[-1] if lines else done.stderr)
    differs = [line.strip() for line in lines if not line.startswith("same")][:-1]
    assert done.returncode == 0, "; ".join(differs) or done.stderr[-1000:]


def node_killed(c):
    names_then = sorted(c.files)
    c.kill("n3")
    c.fresh_mount()
    c.verify(names_then)
    c.write("while-away", 2 * MIB + 5)
    c.verify(["while-away"])
    c.start("n3")
    wait_for("n3 is up", lambda: c.node("n3")["state"] == "up", 120)
    c.wait_whole(240)
    c.verify()


def mount_killed(c):
    """What a killed mount leaves is cleared away by the next."""
    c.kill("mount")
    expect_error(errno.ENOTCONN, os.listdir, c.mount)
    c.start("mount")
    c.verify()


def consistent(c):
    c.fsck()
    done = c.stria("scrub", "start", check=False) if "start" in c.stria("scrub", "--help").stdout else None
    say(f"scrub: {done.stdout.strip() or done.stderr.strip()}" if done else "no scrub")


def unmounts(c):
    pids = [p["pid"] for p in c.processes() if p["kind"] == "mount"]
    with open(c.mount / "late", "wb") as f:
        f.write(b"late" * 1000)
    subprocess.run(["umount", c.mount], check=True, timeout=CHECK_S)
    subprocess.run(["umount", c.other], check=True, timeout=CHECK_S)
    wait_for("the mounts' programs end", lambda: not any(map(is_running, pids)), 60)
    c.start("mount")
    expect("written last", (c.mount / "late").read_bytes(), b"late" * 1000)


CHECKS = [*files.CHECKS, *between.CHECKS, past_the_mount, "conformance", node_killed, mount_killed, consistent, unmounts]


def attempt(name, check, *args):
    """True if it passed."""
    def late(*_):
        raise AssertionError(f"not within {CHECK_S} s")
    began = time.monotonic()
    signal.signal(signal.SIGALRM, late)
    signal.alarm(1200 if name == "conformance" else CHECK_S)
    try:
        check(*args)
    except Exception as e:
        where = traceback.extract_tb(e.__traceback__)[-1]
        print(f"FAILED {name}: {type(e).__name__}: {str(e)[:3000]} ({where.name}, line {where.lineno})", flush=True)
        return False
    finally:
        signal.alarm(0)
    took = time.monotonic() - began
    slow = took > SLOW_S and name not in ("conformance", "node_killed")
    print(f"FAILED {name}: took {took:.1f} s" if slow else f"ok {name} ({took:.1f} s)", flush=True)
    return not slow


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--disks", type=int, default=0, choices=range(NODES + 1))
    parser.add_argument("--conformance", choices=("none", "short", "all"), default="short")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="parts of names of checks; bytes_stay is always one")
    args = parser.parse_args()
    say(f"Linux {platform.release()}")
    passed = failed = 0
    c = Guest(args.disks)
    try:
        with c:
            for check in CHECKS:
                name = check if isinstance(check, str) else check.__name__
                if args.checks and check is not files.bytes_stay and not any(word in name for word in args.checks):
                    continue
                ok = attempt(name, conform, c, args.conformance) if name == "conformance" else attempt(name, check, c)
                passed, failed = passed + ok, failed + (not ok)
            if failed:
                c.print_warnings()
    except BaseException as e:
        print(f"FAILED the cluster as a whole: {type(e).__name__}: {str(e)[:3000]}", flush=True)
        failed += 1
    else:
        passed += 1
        print("ok ended, nothing is left behind", flush=True)
    print(f"the suite is through: {passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
