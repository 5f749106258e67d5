"""Leaves nothing behind, whatever ends a measurement: an error, Ctrl-C, TERM, or kill -9 of this program alone."""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import time

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG = 1
PATIENCE_S = 90  # for a command that was told to end and takes back what it began


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
    """For children: who is left without a parent is killed."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def command(*args, check=True, env=None, told=True):
    """Runs a command in a session of its own, so that Ctrl-C reaches us alone; if we are told to stop it is, and may take
    back what it began."""
    args = [str(a) for a in args]
    with subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=env, start_new_session=True) as process:
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
    """Processes with a path below the directory among their arguments, but for us."""
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


def clean(directory, stria):
    """Stops clusters below the directory, then whatever is left; gives what had to be killed or unmounted so."""
    directory = pathlib.Path(directory)
    for cluster in directory.glob("*/cluster/cluster.json"):
        subprocess.run([str(stria), "dev", "down", "--dir", str(cluster.parent)], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, check=False)
    left = users_of(directory)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    mounts = mounts_below(directory)
    for mount in mounts:
        subprocess.run(["umount", "-l", mount], stderr=subprocess.DEVNULL, check=False)
    for _ in range(50):
        if not users_of(directory):
            break
        time.sleep(0.1)
    for entry in directory.iterdir() if directory.is_dir() else []:
        shutil.rmtree(entry, ignore_errors=True)
    return left, mounts


@contextlib.contextmanager
def tidy(directory, stria):
    """Cleans the directory at the end; a process beside us does it if we are killed."""
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
                with contextlib.suppress(OSError):
                    directory.rmdir()
        os._exit(0)
    os.close(read_end)
    try:
        yield
    finally:
        clean(directory, stria)
        os.write(write_end, b"done")
        os.close(write_end)
        os.waitpid(keeper, 0)
