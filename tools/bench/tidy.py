"""Leaves nothing behind, however a measurement ends: an error, Ctrl-C, TERM, or kill -9 of this program alone."""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG = 1
TMPFS = "stria-bench"  # the source that it is mounted with
NAMESPACE_NOTE = "network-namespace"
PATIENCE_S = 90  # for a command that was told to end and undoes its work


class Stopped(BaseException):
    """Someone wants this to end."""


def stop_on_signals():
    owner = os.getpid()

    def told(number, _frame):
        if os.getpid() != owner:  # a worker that inherited this
            os._exit(1)
        for other in STOPS:
            signal.signal(other, signal.SIG_IGN)  # cleaning up is not to be interrupted
        raise Stopped(signal.Signals(number).name)

    for number in STOPS:
        signal.signal(number, told)


def end_with_parent():
    """For children: a process left without a parent is killed."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def command(*args, check=True, env=None, told=True):
    """Runs a command in a session of its own, so that Ctrl-C reaches this program alone; a stop of this program stops the
    command, which may undo its work."""
    args = [str(a) for a in args]
    with subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=env, start_new_session=True, preexec_fn=end_with_parent) as process:
        try:
            out = process.communicate()[0]
        except Stopped:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=PATIENCE_S)
            process.kill()
            raise
    if check and process.returncode != 0:
        raise RuntimeError(f"{' '.join(args)}: {out.strip()[-2000:]}")
    return out


def users_of(directory):
    """Processes with a path below the directory among their arguments, except this one."""
    name, found = str(directory).encode() + b"/", []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in (os.getpid(), os.getppid()):
            with contextlib.suppress(OSError):
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
                if any(name in a for a in arguments):
                    found.append(int(entry.name))
    return found


def mounts_below(directory):
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    return [p for p in reversed(points) if p.startswith(f"{directory}/")]


def namespaces_below(directory):
    """Network namespaces that were made for clusters below the directory (note_namespace)."""
    return [note.read_text() for note in pathlib.Path(directory).glob(f"*/{NAMESPACE_NOTE}")]


def note_namespace(place, name):
    """So that it is found if we are killed. To be called before it is made."""
    (pathlib.Path(place) / NAMESPACE_NOTE).write_text(name)


def pids_in(namespace):
    return [int(p) for p in quiet("ip", "netns", "pids", namespace).split() if p.isdigit()]


def loops_below(directory):
    rows = [row.split(None, 1) for row in quiet("losetup", "-n", "-O", "NAME,BACK-FILE").splitlines()]
    return [row[0] for row in rows if len(row) == 2 and row[1].startswith(f"{directory}/")]


def quiet(*args):
    """The output of a command; nothing if there is no such command."""
    try:
        return subprocess.run([str(a) for a in args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              start_new_session=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""


def clean(directory, stria):
    """Stops clusters below the directory, then all other processes there, and removes it."""
    directory = pathlib.Path(directory)
    for cluster in directory.glob("*/cluster/cluster.json"):
        quiet(stria, "dev", "down", "--dir", cluster.parent)
    namespaces = namespaces_below(directory)
    for _ in range(50):
        left = users_of(directory) + [pid for namespace in namespaces for pid in pids_in(namespace)]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            break
        time.sleep(0.1)
    for namespace in namespaces:
        quiet("ip", "netns", "del", namespace)
    loops = loops_below(directory)
    for mount in mounts_below(directory):
        quiet("umount", "-l", mount)
    for loop in loops:
        quiet("btrfs", "device", "scan", "--forget", loop)
        quiet("losetup", "-d", loop)
    if quiet("findmnt", "-n", "-o", "SOURCE", "--mountpoint", directory).strip() == TMPFS:
        quiet("umount", "-l", directory)
    shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def tidy(directory, stria):
    """Removes the directory at the end, with all that runs there; a helper process does it if this one is killed."""
    read_end, write_end = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        with contextlib.suppress(BaseException):
            os.setsid()
            for number in STOPS:
                signal.signal(number, signal.SIG_IGN)
            os.close(write_end)
            if os.read(read_end, 4) != b"done":
                clean(directory, stria)
        os._exit(0)
    os.close(read_end)
    try:
        yield
    finally:
        clean(directory, stria)
        os.write(write_end, b"done")
        os.close(write_end)
        os.waitpid(keeper, 0)


@contextlib.contextmanager
def place(directory, on, tmpfs_mib, stria):
    """A directory for all data, gone afterwards with all that runs there, however this program ends; on tmpfs, in memory."""
    directory = pathlib.Path(directory).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        sys.exit(f"bench: {directory} is not empty; give --dir a new one")
    with tidy(directory, stria):
        if on == "tmpfs":
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={tmpfs_mib}m", TMPFS, directory], check=True)
        yield directory


def run_to_the_end(main):
    """Runs main(); if someone ends it, says so."""
    stop_on_signals()
    try:
        main()
    except Stopped as e:
        sys.exit(f"bench: stopped by {e}; nothing is left behind")
