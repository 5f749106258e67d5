"""The client's side: the mount, a writer and a reader that run all the time, and the check of everything."""

import json
import shutil
import subprocess
import time

import waits
from ledger import Ledger, parse_log
from pc import HERE, wait_until

MOUNT = "/data"
LOAD_DIR = f"{MOUNT}/load"
PROGRAM = "/run/load.py"
# Anybody: who works there is not root.
USER = "4321"
AS_USER = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--"]
PROGRESS_S = 120
END_S = 180


class Client:
    def __init__(self, pc):
        self.pc, self.room = pc, pc.room
        self.ledger = Ledger()
        self.process = None
        self.logs = []
        self.excuses = []  # times in which operations.md lets programs wait
        self.segments = 0

    # ---- The mount ----

    def is_mounted(self):
        return f" {MOUNT} fuse" in self.pc.run("cat", "/proc/self/mounts")

    def put_into_fstab(self, line):
        fstab = self.pc.inside / "etc/fstab"
        fstab.unlink(missing_ok=True)
        fstab.write_text(line + "\n")
        self.pc.run("sync", "/etc/fstab")

    def mount_at_boot(self):
        """What systemd does of the line of /etc/fstab that `stria join` gives; it waits for a metadata server as long as it takes."""
        log = open(self.room.logs / f"{self.pc.name}-mount.log", "ab")
        with log:
            return subprocess.Popen(self.pc.enter("mount", MOUNT), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.pc.environment())

    def mount_anew(self):
        """Nothing comes from a cache, of the mount or of the kernel, afterwards."""
        self.pc.run("umount", MOUNT)
        wait_until("the mount's program ends", lambda: not self.pc.run("pgrep", "-x", "stria-mount", check=False).strip(), 60)
        self.pc.run("mount", MOUNT)

    # ---- Load ----

    def start_load(self):
        assert self.process is None
        shutil.copy(HERE / "load.py", self.pc.inside / PROGRAM.lstrip("/"))
        self.pc.run("install", "-d", "-o", USER, "-g", USER, LOAD_DIR)
        self.segments += 1
        self.log = self.room.logs / f"load-{self.segments}.log"
        with open(self.log, "ab") as out, open(self.room.logs / "load-errors.log", "ab") as errors:
            self.process = subprocess.Popen(self.pc.enter(*AS_USER, "/usr/bin/python3", PROGRAM, LOAD_DIR), stdin=subprocess.PIPE, stdout=out, stderr=errors,
                                            text=True, env=self.pc.environment())
        self.process.stdin.write(self.ledger.as_json() + "\n")
        self.process.stdin.flush()
        self.progress()

    def ops(self):
        return parse_log(self.log.read_text())

    def progress(self):
        """Both get on: each has returned from something that it began after this call."""
        since = time.monotonic()

        def both():
            assert self.process.poll() is None, f"the load ended: {(self.room.logs / 'load-errors.log').read_text()[-2000:]}"
            return not waits.idle([op for op in self.ops() if op.at >= since], ["write", "read"])
        wait_until("reader and writer get on", both, PROGRESS_S)

    def excuse(self, begin, where):
        """Until now."""
        self.excuses.append(waits.Excused(begin, time.monotonic(), where))

    def _close(self, end, cut):
        """Looks at the log of a load that has ended."""
        self.process.stdin.close()
        self.process = None
        ops = self.ops()
        self.ledger.learn(ops)
        self.room.say(f"    {'until the cut' if cut else 'load'}: {waits.summary(ops, end)}")
        found = waits.problems(ops, end, cut, self.excuses)
        assert not found, "\n    ".join([f"{len(found)} operations were not as they should be:", *found[:10]])
        idle = waits.idle(ops, ["write", "read"])
        assert not idle, f"nothing was shown, as none of these was done: {idle}"

    def stop_load(self):
        self.progress()
        self.process.stdin.close()
        code = self.process.wait(timeout=END_S)
        end = time.monotonic()
        assert code == 0, f"the load ended with {code}: {(self.room.logs / 'load-errors.log').read_text()[-2000:]}"
        self._close(end, cut=False)

    def load_was_cut(self, end):
        """`end`: the power had not gone before."""
        self.process.wait(timeout=END_S)
        self._close(end, cut=True)

    def check(self, what):
        """All that was ever acknowledged is there, bit for bit; what was under way is there in front, as a whole, or not at all, as the case may be."""
        (self.pc.inside / PROGRAM.lstrip("/")).unlink(missing_ok=True)
        shutil.copy(HERE / "load.py", self.pc.inside / PROGRAM.lstrip("/"))
        said = json.loads(self.pc.run(*AS_USER, "/usr/bin/python3", PROGRAM, LOAD_DIR, "--check", text=self.ledger.as_json() + "\n"))
        assert not said["wrong"], "\n    ".join([f"after {what}:", *said["wrong"][:10]])
        self.ledger.document_is(said["document"])
        self.room.say(f"after {what}: {said['files']} files, {len(self.ledger.unsure)} unfinished ones and document version {said['document']} are right")
