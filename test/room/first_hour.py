"""A stranger's first hour: five PCs with the packages in root's home become a cluster by the commands of docs/operations.md, "Installing",
as they stand there; the client writes a file and reads it. Each command is timed. In namespaces of its own: `run --first-hour` starts it."""

import hashlib
import json
import os
import pathlib
import shutil
import sys
import time
import traceback

import plan
from client import MOUNT, Client
from pc import BRIDGE, run_here, wait_until
from room import Room

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/operations.md"
LIMIT_S = 300  # five minutes of commands
MOST_COMMANDS = 3  # of one PC, beside apt
HOME = "/root/packages"
FIRST_BYTES = 32 << 20
# Where no systemd runs, these commands say which command starts the server, and the test starts it.
STARTS = {"stria cluster init": "stria-meta", "stria join - --disk": "stria-data"}


class FirstHour(Room):
    def __init__(self, what):
        super().__init__(what)
        self.typed = []  # (PC, command, seconds)
        self.tokens = {}  # role -> what is pasted
        self.printed = ""  # by the command before

    def get_ready(self):
        """Before the clock: machines as they were bought, with what was downloaded."""
        run_here("ip", "link", "set", "lo", "up")
        run_here("ip", "link", "add", "name", BRIDGE, "type", "bridge")
        run_here("ip", "link", "set", BRIDGE, "up")
        for name in [*self.shape.servers, plan.CLIENT]:
            pc = self.buy(name, plan.disk_names(self.shape) if name in self.shape.servers[1:] else [])
            home = pc.inside / HOME.lstrip("/")
            home.mkdir(parents=True)
            for deb in self.debs.values():
                shutil.copy(deb, home)
        self.client = Client(self.pcs[plan.CLIENT])
        self.say(f"{len(self.pcs)} PCs are on, with the packages in {HOME}; nothing of Stria is installed")

    def type_in(self, name, command):
        """As root in that directory. What a command asks for is answered: apt's question, and the token for `stria join -`."""
        answer = ""
        if command.startswith("apt "):
            assert not self.pcs[name].succeeds("which", "stria"), f"{name} has Stria already"
            answer = "y\n"
        elif command.startswith("stria join"):
            answer = self.tokens["data" if "--disk" in command else "client"] + "\n"
        began = time.monotonic()
        self.printed = self.pcs[name].run("sh", "-c", f"cd {HOME} && {command}", text=answer)
        for words, server in STARTS.items():
            if command.startswith(words):
                assert f"{server} --config" in self.printed, f"{command} does not say how {server} is started: {self.printed}"
                self.pcs[name].start(server)
        took = time.monotonic() - began
        self.typed.append((name, command, took))
        print(f"    {took:6.1f} s  {name}# {command}", flush=True)
        if command.startswith("stria token make"):
            role = command.split("--role ")[1].split()[0]
            self.tokens[role] = next(line for line in self.printed.splitlines() if line.startswith("stria-join:"))

    def write_and_read(self):
        content = os.urandom(FIRST_BYTES)
        path = self.client.pc.inside / MOUNT.lstrip("/") / "first"
        path.write_bytes(content)
        self.client.pc.run("sync", f"{MOUNT}/first")
        said = self.client.pc.run("sha256sum", f"{MOUNT}/first")
        assert said.split()[0] == hashlib.sha256(content).hexdigest(), "the first file is read as another"

    def judge(self, took):
        commands = sum(seconds for _, _, seconds in self.typed)
        for name in self.pcs:
            own = [(command, seconds) for pc, command, seconds in self.typed if pc == name]
            beside = [command for command, _ in own if not command.startswith("apt ")]
            print(f"    {name}: apt and {len(beside)} more, {sum(seconds for _, seconds in own):.1f} s", flush=True)
            assert len(beside) <= MOST_COMMANDS, f"{name} needs {len(beside)} commands: {beside}"
        copies = [command for _, command, _ in self.typed if plan.copies_by_hand(command)]
        assert not copies, f"files are copied by hand: {copies}"
        self.say(f"FIRST HOUR: {took:.0f} s from the first apt install to a file that was written and read, {commands:.0f} s of them commands "
                 f"({len(self.typed)} on {len(self.pcs)} PCs)")
        assert took < LIMIT_S, f"that is more than {LIMIT_S} s"

    def run(self):
        self.get_ready()
        began = time.monotonic()
        for name, command in plan.first_hour(DOCUMENT.read_text(), self.shape):
            if command.startswith("mkdir"):
                assert command in self.printed, f"docs/operations.md mounts by '{command}', and stria join says: {self.printed}"
            self.type_in(name, command)
        self.write_and_read()
        self.judge(time.monotonic() - began)
        wait_until("all is well", lambda: not self.wrong(), 60)
        self.look()
        self.client.pc.run("umount", MOUNT)
        self.client.pc.kill_all()
        for name in reversed(self.servers):
            self.pcs[name].shut_down()
        self.say("passed")


def main():
    hour = FirstHour(json.loads(sys.argv[1]))
    try:
        hour.run()
    except Exception as e:  # the namespaces, and with them everything else, end with this process
        if not isinstance(e, AssertionError):
            traceback.print_exc()
        hour.print_logs()
        hour.say(f"FAILED: {e}")
        sys.exit(1)


if __name__ == "__main__":
    main()
