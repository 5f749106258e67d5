"""Nothing on a mount hangs for ever: servers that do not answer give EIO after --timeout, df, ls of a directory
that was seen before and umount always answer, Ctrl-C ends a blocked read, work goes on when the servers are
back, and a crashed or stopped stria-mount can be started again over its mount point."""

import errno
import os
import pathlib
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from stria_cluster import COMMAND_S, MIB, Cluster, main, say, wait_for

TIMEOUT_S = 4
LEASE_S = 6
ANSWER_S = 60  # far more than anything may take; much less than for ever


class Mount:
    """A stria-mount of our own, with a short timeout."""

    def __init__(self, c, name):
        self.path = c.dir / name
        self.path.mkdir()
        self.program = c.program("stria-mount")
        self.trust = c.mount_trust()
        self.meta = next(p["address"] for p in c.processes() if p["kind"] == "meta")
        self.log = c.cluster / f"log/{name}.log"
        self.process = None

    def start(self):
        self.process = subprocess.Popen([self.program, "-f", "--meta", self.meta, *self.trust, "--timeout", f"{TIMEOUT_S}s",
                                         "--log", self.log, self.path], stdin=subprocess.DEVNULL)
        wait_for(f"{self.path} is mounted", lambda: self.mounts() and self.log.read_text().count("is mounted") > 0, 60)

    def mounts(self):
        lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
        return sum(line.split()[4] == str(self.path) for line in lines)


def tried(*command):
    """Its exit code and output; a hang is the failure looked for."""
    p = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=ANSWER_S)
    return p.returncode, p.stdout + p.stderr


def gives_eio(what, *command):
    code, said = tried(*command)
    assert code != 0 and os.strerror(errno.EIO) in said, f"{what} gave {code}: {said}"


PYTHON_WRITE = "import os,sys; f=os.open(sys.argv[1],os.O_WRONLY|os.O_CREAT); os.write(f,b'x'*9); os.fsync(f)"


def check_dead(m, seen, how):
    """While no server answers. What is asked of a stopped server may be done when it goes on: names are by `how`."""
    wrong = {
        "reading a file that is not cached": ("cat", m.path / "dir/cold"),
        "making a file": ("python3", "-c", PYTHON_WRITE, m.path / f"dir/new-{how}"),
        "mkdir": ("mkdir", m.path / f"dir/sub-{how}"),
        "chmod": ("chmod", "600" if how == "stopped" else "640", m.path / "dir/cold"),
    }
    with ThreadPoolExecutor() as pool:  # each waits for the timeout
        for done in [pool.submit(gives_eio, what, *command) for what, command in wrong.items()]:
            done.result()
    code, said = tried("df", m.path)
    assert code == 0, f"df gave {code}: {said}"
    code, said = tried("ls", m.path / "dir")
    assert code == 0 and said == seen, f"ls gave {code}: {said}"
    say("dead servers: EIO, and df and ls answer")


def stop_servers(c):
    for p in c.processes():
        if p["kind"] != "mount":
            os.kill(p["pid"], signal.SIGSTOP)


def continue_servers(c):
    for p in c.processes():
        if p["kind"] != "mount":
            os.kill(p["pid"], signal.SIGCONT)


def interrupted_read(c):
    """The cluster's own mount has a timeout of a minute: Ctrl-C is heeded long before."""
    reader = subprocess.Popen(["cat", c.mount / "dir/cold"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)
    assert reader.poll() is None, "it should wait for the servers"
    reader.send_signal(signal.SIGINT)
    assert reader.wait(20) == -signal.SIGINT, "Ctrl-C did not end it"
    say("Ctrl-C ended a blocked read")


def works(m, name):
    """Writing and reading, tried until the mount has found its servers again."""
    def go():
        try:
            (m.path / name).write_bytes(b"back" * 1000)
            return (m.path / name).read_bytes() == b"back" * 1000
        except OSError:
            return False
    wait_for("work goes on without a remount", go, 90, 0.5)


def same_on_both(m, c):
    """Whatever became of what was told to have failed: both mounts see the same."""
    def seen(path):
        return {e.name: (e.stat().st_ino, e.stat().st_size, e.stat().st_mode) for e in os.scandir(path / "dir")}
    own, other = seen(m.path), seen(c.mount)
    assert own == other, f"one mount sees {own}, the other {other}"


def reads(m):
    try:
        return (m.path / "kept").read_bytes() == b"kept"
    except OSError:
        return False


def start_again_over(m, how):
    old = m.process
    before = m.log.read_text().count("is mounted")
    old.send_signal(how)
    if how == signal.SIGKILL:
        old.wait(ANSWER_S)
        code, said = tried("ls", m.path)
        assert code != 0 and os.strerror(errno.ENOTCONN) in said, said
    m.process = subprocess.Popen([m.program, "-f", "--meta", m.meta, *m.trust, "--timeout", f"{TIMEOUT_S}s", "--log", m.log,
                                  m.path], stdin=subprocess.DEVNULL)
    wait_for("it is mounted again", lambda: m.log.read_text().count("is mounted") > before, ANSWER_S)
    assert m.mounts() == 1, "the old mount is still under the new one"
    wait_for("what it held can be read again", lambda: reads(m), 60)  # at the latest when its lease ends
    if how == signal.SIGSTOP:
        old.send_signal(signal.SIGCONT)
        old.wait(ANSWER_S)  # it sees that its mount is gone
        assert m.mounts() == 1 and reads(m), "the old one took the new mount away"
    say(f"started again after {how.name}")


def scenario():
    with Cluster(nodes=3, disks=1, settings=f'[session]\nlease = "{LEASE_S}s"\n') as c:
        m = Mount(c, "own")
        m.start()
        try:
            (m.path / "dir").mkdir()
            (m.path / "dir/cold").write_bytes(os.urandom(3 * MIB))
            (m.path / "kept").write_bytes(b"kept")
            seen = tried("ls", m.path / "dir")[1]
            start_again_over(m, signal.SIGKILL)
            start_again_over(m, signal.SIGSTOP)
            assert tried("ls", m.path / "dir") == (0, seen) and tried("df", m.path)[0] == 0

            stop_servers(c)
            interrupted_read(c)
            check_dead(m, seen, "stopped")
            continue_servers(c)
            works(m, "after-stop")
            same_on_both(m, c)

            seen = tried("ls", m.path / "dir")[1]
            for name in ["meta", *c.nodes()]:
                c.kill(name)
            check_dead(m, seen, "killed")
            c.start_all()
            works(m, "after-kill")
            same_on_both(m, c)
            say("work went on without a remount")

            for name in ["meta", *c.nodes()]:
                c.kill(name)
            code, said = tried("umount", m.path)
            assert code == 0 and m.mounts() == 0, f"umount gave {code}: {said}"
            say("umount answered although all servers were dead")
            c.start_all()
        finally:
            continue_servers(c)
            if m.process.poll() is None:
                m.process.kill()
                m.process.wait(COMMAND_S)
            subprocess.run(["umount", "-l", m.path], check=False, capture_output=True)


main(scenario)
