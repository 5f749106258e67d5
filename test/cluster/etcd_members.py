"""The members of etcd that `stria dev` starts for several metadata servers: they come up as one cluster, keep what was written while one
of them is lost, say so when two are, come back, and leave nothing behind."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from stria_cluster import COMMAND_S, find_stria, say, wait_for

WAIT_S = 60
NAMES = ["etcd1", "etcd2", "etcd3"]
HERE_ONLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Members:
    def __init__(self, directory):
        self.dir = directory

    def dev(self, *args, fails=False):
        done = subprocess.run([find_stria(), "dev", *args, "--dir", self.dir, "--json"], capture_output=True, text=True, timeout=COMMAND_S)
        assert (done.returncode != 0) == fails, f"stria dev {args}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def processes(self):
        return {p["name"]: p for p in json.loads((pathlib.Path(self.dir) / "cluster.json").read_text())["processes"]}

    def ask(self, name, path, body):
        """etcd's own JSON over HTTP; None if there is no answer, or no majority."""
        request = urllib.request.Request(f"http://{self.processes()[name]['address']}{path}", json.dumps(body).encode())
        try:
            with HERE_ONLY.open(request, timeout=5) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError):
            return None

    def put(self, name, key, value):
        return self.ask(name, "/v3/kv/put", {"key": text(key), "value": text(value)}) is not None

    def get(self, name, key):
        found = self.ask(name, "/v3/kv/range", {"key": text(key)})
        if found is None:
            return None
        return base64.b64decode(found["kvs"][0]["value"]).decode() if found.get("kvs") else ""


def text(value):
    return base64.b64encode(value.encode()).decode()


def alive(pid):
    """A zombie is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def run(members):
    members.dev("up", "--only-etcd")
    processes = members.processes()
    assert list(processes) == NAMES, processes
    assert all(p["kind"] == "etcd" and p["address"].startswith("127.0.0.1:") for p in processes.values()), processes
    for name in NAMES:
        arguments = pathlib.Path(f"/proc/{processes[name]['pid']}/cmdline").read_text()
        assert "unsafe" not in arguments, arguments
        assert f"{members.dir}/{name}" in arguments, arguments
    say("three members run")

    assert members.put("etcd1", "/stria/x/meta", "1")
    assert members.get("etcd3", "/stria/x/meta") == "1"
    members.dev("kill", "etcd2")
    wait_for("a value with one member lost", lambda: members.put("etcd1", "/stria/x/meta", "2"), WAIT_S)
    assert members.get("etcd3", "/stria/x/meta") == "2"
    say("one is lost, and two decide")

    members.dev("kill", "etcd3")
    assert not members.put("etcd1", "/stria/x/meta", "3"), "one of three decides nothing"
    members.dev("start", "etcd3")  # returns when it has a majority
    wait_for("a value after one is back", lambda: members.put("etcd3", "/stria/x/meta", "4"), WAIT_S)
    say("a majority is back")

    members.dev("up")  # starts who does not run
    wait_for("the member that was away has it", lambda: members.get("etcd2", "/stria/x/meta") == "4", WAIT_S)
    pids = [p["pid"] for p in members.processes().values()]
    assert all(alive(pid) for pid in pids), pids
    members.dev("down")
    wait_for("all have ended", lambda: not any(alive(pid) for pid in pids), WAIT_S)
    assert all((pathlib.Path(members.dir) / name / "member").is_dir() for name in NAMES), "the data stays"

    members.dev("up")
    assert members.get("etcd1", "/stria/x/meta") == "4", "nothing is lost over a stop of all"
    members.dev("down")
    say("stopped, started again, stopped")


def refusals(directory):
    members = Members(directory)
    done = members.dev("up", "--only-etcd", "--mount", directory + "/mnt", fails=True)
    assert "--mount" in done.stdout + done.stderr, done
    done = members.dev("up", "--only-etcd", "--metas", "2", fails=True)
    assert "--metas" in done.stdout + done.stderr, done
    assert not (pathlib.Path(directory) / "cluster.json").exists(), "nothing was begun"


def main():
    if shutil.which("etcd") is None:
        sys.exit("etcd is not installed: install the package etcd-server")
    with tempfile.TemporaryDirectory(prefix="stria-etcd-", dir=os.environ.get("TEST_TMPDIR")) as directory:
        refusals(directory + "/none")
        members = Members(directory + "/c")
        try:
            run(members)
        finally:
            if (pathlib.Path(members.dir) / "cluster.json").exists():
                subprocess.run([find_stria(), "dev", "down", "--dir", members.dir], timeout=COMMAND_S, check=False)
    say("done")


if __name__ == "__main__":
    main()
