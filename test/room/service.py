"""A systemd unit's program on a PC, started and started again as its unit says, by this test in systemd's place."""

import contextlib
import os
import pathlib
import resource
import signal
import socket
import subprocess
import threading
import time

import units

STOP_S = 90


def child_of(pid):
    """The process that this one has started, by /proc; 0: none."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                return int(stat.parts[2])
    return 0


class Service:
    def __init__(self, pc, name):
        self.pc, self.name = pc, name
        self.unit = units.parse((pc.inside / f"usr/lib/systemd/system/{name}.service").read_text())
        self.log = pc.room.logs / f"{pc.name}-{name}.log"
        self.wanted = True
        self.process = None
        self.starts = 0
        self.ready = threading.Event()
        self.mutex = threading.Lock()
        self._make_directories()
        self.thread = threading.Thread(target=self._keep, daemon=True)
        self.thread.start()

    def _make_directories(self):
        for path, mode in self.unit.directories:
            self.pc.run("install", "-d", "-m", f"{mode:o}", "-o", self.unit.user, "-g", self.unit.group, path)

    # ---- In a thread of its own ----

    def _notify_socket(self):
        # In the PC's files, as an abstract name would be of another network namespace.
        path = f"/run/notify-{self.name}"
        here = self.pc.inside / path.lstrip("/")
        here.unlink(missing_ok=True)
        ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        ear.bind(str(here))
        here.chmod(0o666)
        ear.settimeout(0.2)
        return ear, path

    def _spawn(self):
        ear, path = self._notify_socket()
        more = {"NOTIFY_SOCKET": path}
        if self.unit.watchdog_s:
            more["WATCHDOG_USEC"] = str(int(self.unit.watchdog_s * 1e6))
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        with self.mutex:
            if not self.wanted:
                ear.close()
                return None
            with open(self.log, "ab") as log:
                self.process = subprocess.Popen(self.pc.enter(*units.command_of(self.unit, most)), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                umask=self.unit.umask, env=self.pc.environment(**more))
            self.starts += 1
        return ear

    def _await(self, ear):
        with ear:
            while self.process.poll() is None:
                with contextlib.suppress(TimeoutError):
                    said = ear.recv(4096)
                    if b"READY=1" in said:
                        self.ready.set()
        return self.process.wait()

    def _keep(self):
        while self.wanted:
            try:
                ear = self._spawn()
            except OSError:  # the PC has just lost its power
                return
            if ear is None:
                return
            if not self.unit.notifies:
                self.ready.set()
            code = self._await(ear)
            self.ready.clear()
            if not self.wanted or not units.starts_again(self.unit, code):
                return
            self.pc.room.say(f"{self.name} on {self.pc.name} ended with {code}, and is started again after {self.unit.restart_s:.0f} s")
            end = time.monotonic() + self.unit.restart_s
            while self.wanted and time.monotonic() < end:
                time.sleep(0.1)

    # ---- By the others ----

    def wait_ready(self, timeout_s=60):
        if not self.ready.wait(timeout_s):
            end = self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""
            raise AssertionError(f"{self.name} on {self.pc.name} does not serve within {timeout_s} s; the end of its log:\n{end}")

    def abandon(self):
        """The power is about to go: what ends then is not started again."""
        with self.mutex:
            self.wanted = False

    def stop(self):
        self.abandon()
        process = self.process
        if process is not None and process.poll() is None:
            if pid := child_of(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            code = process.wait(timeout=STOP_S)
            assert code == 0, f"{self.name} on {self.pc.name} ended with {code} when it was stopped"
        self.thread.join(timeout=STOP_S)
