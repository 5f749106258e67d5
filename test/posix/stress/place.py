"""Where a stress runs: directories that show the same files (one per mount), and the cluster behind them."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from stria_cluster import Cluster, say

INSTALL_S = 600
NAME = "stress"


class Place:
    def __init__(self, dirs, cluster=None):
        self.dirs = dirs        # the same directory, once per mount
        self.cluster = cluster  # None: somebody else's filesystem

    @property
    def dir(self):
        return self.dirs[0]

    def within(self, name):
        """A directory in it."""
        (self.dir / name).mkdir()
        return Place([d / name for d in self.dirs], self.cluster)


@contextlib.contextmanager
def on_directories(dirs):
    """A new directory in dirs[0], which the others show too."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="stria-stress-", dir=dirs[0]))
    made.chmod(0o755)
    try:
        yield Place([made] + [d.absolute() / made.name for d in dirs[1:]])
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def on_new_cluster(nodes, mounts):
    with Cluster(nodes=nodes, disks=1) as c:
        dirs = [c.mount / NAME]
        dirs[0].mkdir()
        if mounts == 2:
            second = c.dir / "mnt2"
            c.stria("dev", "mount", "--at", second, "--dir", c.cluster)
            dirs.append(second / NAME)
        yield Place(dirs, c)
        c.fsck()


def need(*programs):
    """Installs what is missing: need("fio", ("db_bench", "rocksdb-tools")); a name alone is also its package's."""
    missing = []
    for p in programs:
        program, package = p if isinstance(p, tuple) else (p, p)
        if not shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin"):
            missing.append(package)
    if not missing:
        return
    say(f"installing {' '.join(missing)}")
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-qy", "--no-install-recommends", *missing]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=INSTALL_S)


def command(*words, timeout, cwd=None, ok=(0,)):
    """Runs it; its output is shown only when it fails."""
    p = subprocess.Popen([str(w) for w in words], cwd=cwd, text=True, errors="replace", start_new_session=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        out = p.communicate(timeout=timeout)[0]
    except BaseException:
        os.killpg(p.pid, signal.SIGKILL)  # its children too
        p.wait(timeout=60)
        raise
    if p.returncode not in ok:
        raise AssertionError(f"{' '.join(map(str, words))} gave {p.returncode}:\n{out[-8000:]}")
    return out
