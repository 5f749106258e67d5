"""The page of stria-web (docs/web.md) of a real cluster, in a headless Chromium: the cluster is healthy, degraded (a node is killed), rebuilding (it
was given up), at risk (another is killed), its metadata server is away, and all of it is back. stria-web runs all the time, with a certificate of
its own as a monitor.

    web_page.py [--screenshots DIR]      writes DIR/healthy-wall.png, healthy-phone.png, ..: a wall screen, and a phone in the dark
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

from stria_cluster import MIB, Cluster, main, say, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parents[1] / "web"))
from browser import Browser, chromium, expect, problems, says  # noqa: E402

FILES, FILE_BYTES = 8, 24 * MIB
SLOW = "1M"  # so that the rebuild lasts while it is looked at
WALL, PHONE = "1920,1080", "412,915"
# What status says of any cluster whose disks are directories of one filesystem, or of a full one.
OF_THIS_MACHINE = "% full"
HERE_ONLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def monitor(c):
    """As docs/web.md says, but for the places. Gives the directory of its certificate."""
    said = c.stria("token", "make", "--role", "monitor", "--name", "web", "--ttl", "1h").stdout
    token, trust = c.dir / "token", c.dir / "web-trust"
    token.touch(mode=0o600)
    token.write_text(next(line for line in said.splitlines() if line.startswith("stria-join:")) + "\n")
    c.stria("join", "--token-file", token, "--trust", trust)
    return trust


class Web:
    def __init__(self, c):
        known = json.loads((c.cluster / "cluster.json").read_text())
        self.log = open(c.cluster / "log" / "web.log", "ab")
        self.process = subprocess.Popen([c.program("stria-web"), "--meta", known["meta"], "--trust", monitor(c), "--listen", "127.0.0.1:0"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def __enter__(self):
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), f"stria-web says {self.url!r} and not where it serves"
        return self

    def __exit__(self, *_):
        self.process.terminate()
        code = self.process.wait(60)
        self.log.close()
        assert code == 0, f"stria-web ended with {code}"

    def answer(self):
        with HERE_ONLY.open(self.url + "api/status.json", timeout=60) as reply:
            return json.load(reply)

    def wait(self, what, condition, timeout_s=60):
        """Until what the browser is told is so."""
        def told():
            answer = self.answer()
            return condition(answer) and answer
        return wait_for(f"the page is told that {what}", told, timeout_s, 0.5)

    def wait_status(self, what, condition, timeout_s=60):
        return self.wait(what, lambda a: a["state"] == "live" and condition(a["status"]), timeout_s)


class Look:
    """What the page shows now, and pictures of it if they are wanted."""

    def __init__(self, web, home, pictures):
        self.web, self.browser, self.pictures = web, Browser(home), pictures

    def __call__(self, name):
        page = self.browser.look(self.web.url)
        if self.pictures:
            self.browser.picture(self.web.url, self.pictures / f"{name}-wall.png", WALL, dark=False)
            self.browser.picture(self.web.url, self.pictures / f"{name}-phone.png", PHONE, dark=True)
        return page


def everywhere(c, page, name):
    """Of every state: all disks and the mount are there, and it says of which cluster it is."""
    cells = [a for tag, a in page.tags["tree"] if tag == "button"]
    expect(len(cells) == 10 and all("% full" in a.get("aria-label", "") for a in cells), f"{name}: {len(cells)} disks have words, not 10")
    says(page, "tree", "n1", "n5")
    says(page, "clients", f"mount {c.mount}"[:60])
    says(page, "program", "stria-web ")


def level(page):
    return page.attributes["health"].get("data-level")


def healthy(c, web, look, name="healthy"):
    web.wait_status("it is healthy", lambda s: all(f["severity"] == "HEALTHY" or OF_THIS_MACHINE in f["what"] for f in s["findings"]), 120)
    page = look(name)
    if all(OF_THIS_MACHINE not in f["what"] for f in web.answer()["status"]["findings"]):
        says(page, "health-word", "Healthy")
        says(page, "health-what", "All data can be read")
        expect(level(page) == "healthy", f"a healthy cluster is {level(page)}")
    says(page, "tree-words", "No node or disk shows a fault.")
    says(page, "totals", "5 of 5", "10 of 10", str(FILES))
    expect(not page.shown("away"), "it says that the metadata server is away")
    return page


def degraded(c, web, look):
    c.kill("n5")
    web.wait_status("n5 is down", lambda s: any(n["name"] == "n5" and n["state"] == "down" for n in s["nodes"]) and s["degraded_stripes"] > 0)
    page = look("degraded")
    says(page, "health-word", "Degraded")
    says(page, "health-what", "Node n5 is down")
    says(page, "health-action", "Start stria-data on n5 again")
    says(page, "tree", "! down")
    says(page, "tree-words", "show a fault")
    says(page, "totals", "4 of 5", "8 of 10")
    says(page, "events", "Node n5 ")
    expect(level(page) == "degraded", f"a degraded cluster is {level(page)}")
    return page


def rebuilding(c, web, look):
    c.stria("rebuild", "limit", SLOW)
    c.stria("node", "out", "n5")
    web.wait_status("it is rebuilding", lambda s: any(r["target"].startswith("n5:") and 0 < r["percent"] < 100 for r in s["rebuilds"]), 120)
    page = look("rebuilding")
    says(page, "health-word", "Degraded, rebuilding")
    says(page, "work", "Rebuild of n5:d", "n5")
    expect(any(tag == "progress" for tag, _ in page.tags["work"]), "a rebuild has no bar")
    return page


def at_risk(c, web, look):
    c.kill("n4")
    web.wait_status("data cannot be read", lambda s: s["state"] == "AT RISK" and s["lost_stripes"] > 0)
    page = look("at_risk")
    says(page, "health-word", "At risk")
    says(page, "health-what", "cannot be read")
    says(page, "health-action", "Bring back the nodes and disks that are down")
    expect(level(page) == "at risk", f"a cluster at risk is {level(page)}")
    return page


def away(c, web, look):
    c.kill("meta")
    web.wait("the metadata server is away", lambda a: a["state"] == "away")
    page = look("away")
    expect(page.shown("away"), "it is not said that the metadata server is away")
    says(page, "away", "Metadata away since ", "what was last known")
    says(page, "health-word", "Was at risk")
    expect(any(tag == "body" and a.get("data-state") == "away" for tag, a in page.all), "the last known state is not greyed")
    with HERE_ONLY.open(web.url + "healthz", timeout=60) as reply:
        expect(reply.status == 200, "stria-web itself is not well")
    return page


def back(c, web, look):
    c.start("meta")
    for node in ("n4", "n5"):
        c.start(node)
    c.stria("rebuild", "limit", "none")
    return healthy(c, web, look, "back")


def scenario(pictures=None):
    if not chromium(required=False):
        return say("SKIPPED: no chromium is installed; ./tools/install-packages installs it")
    with Cluster(nodes=5, disks=2, layout="raid5:4+1") as c, contextlib.ExitStack() as stack:
        home = pathlib.Path(tempfile.mkdtemp(prefix="stria-web-", dir=c.dir))
        for i in range(FILES):
            c.write(f"f{i}", FILE_BYTES + i)
        web = stack.enter_context(Web(c))
        look = Look(web, home, pictures)
        for state in (healthy, degraded, rebuilding, at_risk, away, back):
            before = len(problems)
            page = state(c, web, look)
            everywhere(c, page, state.__name__)
            for problem in problems[before:]:
                say(f"WRONG: {problem}")
            say(f"{state.__name__}: the page shows {page.text['health-word']!r}: {page.text['health-what'][:120]!r}")
        c.verify()
    assert not problems, "\n".join(problems)


def screenshots():
    parser = argparse.ArgumentParser(description="The page of a real cluster in headless Chromium")
    parser.add_argument("--screenshots", type=pathlib.Path, metavar="DIR", help="write pictures of each state there")
    given = parser.parse_args().screenshots or os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
    if given:
        pathlib.Path(given).mkdir(parents=True, exist_ok=True)
    return given and pathlib.Path(given)


if __name__ == "__main__":
    main(lambda: scenario(screenshots()))
