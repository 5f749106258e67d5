"""Limits of the operating system: too few open files for a start (refused with a sentence), few of them under load
and under a flood of connections (others are served, disks stay in use), and little memory (a control group; what is
killed by it is as any kill -9). Nothing acknowledged is lost. raid5:4+1 on five nodes with two disks each."""

import contextlib
import os
import pathlib
import socket

from stria_cluster import MIB, Cluster, main, say, wait_for

TOO_FEW, FEW = 100, 300
FLOOD = 600
MEMORY = pathlib.Path("/sys/fs/cgroup/memory")
MEMORY_BYTES = 48 * MIB
FILES = 12
FILE_BYTES = 7 * MIB + 3


def address_of(arguments):
    host, port = arguments[arguments.index("--listen") + 1].rsplit(":", 1)
    return host, int(port)


def use(c, name):
    for i in range(FILES):
        c.write(f"{name}/{i}", FILE_BYTES + i)
    c.fresh_mount()
    c.verify()


def few_files(c):
    arguments = c.arguments("n1")
    c.kill("n1")
    limited = lambda n: ["prlimit", f"--nofile={n}:{n}", *arguments]
    c.start_with("n1", limited(TOO_FEW), await_up=False)
    assert c.own.pop("n1").wait(60) != 0, "it started with too few files"
    log = (c.cluster / "log" / "n1.log").read_text()
    assert f"may have only {TOO_FEW} files open" in log, log[-500:]
    c.start_with("n1", limited(FEW))
    use(c, "few")
    with contextlib.ExitStack() as flood:
        refused = 0
        for _ in range(FLOOD):
            with contextlib.suppress(OSError):
                s = flood.enter_context(socket.create_connection(address_of(arguments), timeout=10))
                s.settimeout(0)
                with contextlib.suppress(BlockingIOError):
                    refused += s.recv(1) == b""
        c.verify()
        say(f"{FLOOD} connections to n1 with {FEW} files, {refused} closed at once: every byte is right")
        c.write("flood", FILE_BYTES)
    use(c, "after")
    disks = [d for d in c.status()["disks"] if d["name"].startswith("n1:")]
    assert all(d["read_errors"] == 0 and d["write_errors"] == 0 for d in disks), disks
    assert c.node("n1")["state"] == "up", c.node("n1")
    c.end_own("n1")
    c.start("n1")


@contextlib.contextmanager
def little_memory():
    """A control group with little memory; None where there is no such thing."""
    group = MEMORY / f"stria-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(MEMORY_BYTES))
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        yield None
        return
    try:
        yield group
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (MEMORY / "cgroup.procs").write_text(pid)
        wait_for("the control group is empty", lambda: not try_rmdir(group), 30)


def try_rmdir(path):
    """Why it did not go."""
    try:
        path.rmdir()
        return None
    except OSError as e:
        return e


def few_bytes(c, group):
    pid = next(p["pid"] for p in c.processes() if p["name"] == "n2")
    (group / "cgroup.procs").write_text(str(pid))
    for i in range(FILES):
        c.write(f"memory/{i}", FILE_BYTES + i)
    c.verify()
    killed = not os.path.exists(f"/proc/{pid}") or pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() == b""
    say(f"n2 with {MEMORY_BYTES // MIB} MiB {'was killed' if killed else 'lives'}: every byte is right")
    if killed:
        c.kill("n2")
    return killed


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:4+1") as c:
        use(c, "before")
        few_files(c)
        c.wait_whole()
        with little_memory() as group:
            killed = group is not None and few_bytes(c, group)
        if killed:
            c.start("n2")
        c.wait_whole()
        c.fresh_mount()
        c.verify()
        c.fsck()


main(scenario)
