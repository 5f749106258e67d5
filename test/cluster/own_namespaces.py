"""Namespaces of mounts, addresses and processes for a scenario: all that it starts ends with it, however it ends."""

import os
import subprocess
import sys

INSIDE = "STRIA_TEST_NAMESPACE"


def enter_namespaces():
    """Runs this program again where nobody else's network is. Needs root."""
    if os.environ.get(INSIDE):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private", "--",
                          sys.executable, "-B", *sys.argv])
