import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import tidy

BENCH = pathlib.Path(__file__).resolve().parents[1]
STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]

START = """
import os, pathlib, subprocess, sys, time
from tidy import command, note_namespace, place, run_to_the_end

def quick(*args):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

def main():
    with place(sys.argv[1], "disk", 0, "true") as base:
        (base / "data").mkdir()
        subprocess.Popen(["tail", "-F", f"{base}/data/x"], stderr=subprocess.DEVNULL, start_new_session=True)
        print("ready", flush=True)
        command("sleep", "600") if sys.argv[2] == "command" else time.sleep(600)

def peers():
    with place(sys.argv[1], "tmpfs", 64, "true") as base:
        (base / "peer").mkdir()
        note_namespace(base / "peer", sys.argv[2])
        quick("ip", "netns", "add", sys.argv[2])
        subprocess.Popen(["ip", "netns", "exec", sys.argv[2], "sleep", "600"], stderr=subprocess.DEVNULL, start_new_session=True)  # names no path
        (base / "peer/disk").write_bytes(b"")
        os.truncate(base / "peer/disk", 1 << 20)
        quick("losetup", "--find", "--show", str(base / "peer/disk"))
        print("ready", flush=True)
        time.sleep(600)

run_to_the_end(peers if sys.argv[3] == "peers" else main)
"""


def start_and_stop(number, *args):
    """Returns when its children are gone as well; the keeper is one of them."""
    program = subprocess.Popen([sys.executable, "-c", START, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(BENCH)}, start_new_session=True)
    assert program.stdout.readline() == "ready\n"
    time.sleep(0.2)
    children = pathlib.Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    program.send_signal(number)
    program.wait(30)
    if number != signal.SIGKILL:
        assert program.stderr.read() == f"bench: stopped by {number.name}; nothing is left behind\n"
    until(lambda: not any(pathlib.Path("/proc", child).exists() for child in children))


def until(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    assert condition()


@pytest.mark.parametrize("what", ["command", "sleep"])
@pytest.mark.parametrize("number", STOPS)
def test_nothing_is_left_behind(tmp_path, number, what):
    base = tmp_path / "base"
    start_and_stop(number, str(base), what, "")
    until(lambda: not tidy.users_of(base) and not base.exists())


def can(*args):
    try:
        return subprocess.run(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(os.geteuid() != 0 or not can("unshare", "-n", "ip", "link") or not can("losetup", "-f"),
                    reason="needs root, network namespaces and loop devices")
@pytest.mark.parametrize("number", STOPS)
def test_nothing_of_a_peer_is_left_behind(tmp_path, number):
    base, namespace = tmp_path / "base", f"stria-bench-test-{os.getpid()}"
    start_and_stop(number, str(base), namespace, "peers")
    until(lambda: not base.exists() and namespace not in tidy.quiet("ip", "netns"))
    assert not tidy.loops_below(base)


def test_a_directory_with_something_in_it_stays_as_it_is(tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(SystemExit, match="is not empty"):
        with tidy.place(tmp_path, "disk", 0, "true"):
            pass
    assert (tmp_path / "mine").read_text() == "x"
